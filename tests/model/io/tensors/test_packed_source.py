"""Tensors as sources of bytes: the same bytes as packed at once, whatever part is read."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.model.io.tensors.packed_source import PackedSource
from onnx_workbench.model.io.tensors.packing import pack
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType

KINDS = [ElementType.FLOAT, ElementType.INT4, ElementType.FLOAT6E2M3, ElementType.BOOL, ElementType.BFLOAT16]


@given(kind=st.sampled_from(KINDS), count=st.integers(0, 50), offset=st.integers(0, 60), length=st.integers(0, 60))
def test_any_part_of_a_packed_tensor(kind, count, offset, length):
    array = np.arange(count).astype(kind.numpy_dtype).reshape(1, -1)[:, ::-1]
    source, whole = PackedSource(ArrayTensor(array, kind), kind), pack(array.reshape(-1), kind)
    assert source.size == len(whole)
    assert source.read(offset, length) == whole[offset : offset + length]
