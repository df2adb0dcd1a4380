"""Statistics of a sparse tensor are those of its table, zeros included."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor
from onnx_workbench.model.progress import SILENT
from onnx_workbench.viewer.tensor_view.readers import SparseReader, TensorReader
from onnx_workbench.viewer.tensor_view.statistics_column import counted
from tests.examples import examples

ELEMENTS = {
    "float32": st.sampled_from([0.0, 1.0, -2.5, 3e4, float("nan"), float("inf")]),
    "int64": st.integers(-5, 5),
    "uint8": st.integers(0, 3),
}


@settings(max_examples=examples(100))
@given(st.data())
def test_they_are_those_of_the_dense_tensor(data):
    dtype = data.draw(st.sampled_from(sorted(ELEMENTS)))
    shape = data.draw(arrays.array_shapes(min_dims=1, max_dims=3, max_side=4))
    dense = data.draw(arrays.arrays(dtype, shape, elements=ELEMENTS[dtype]))
    stored = np.flatnonzero((dense.reshape(-1) != 0) | data.draw(arrays.arrays(bool, dense.size)))  # some zeros too
    sparse = SparseTensor(ArrayTensor(dense.reshape(-1)[stored]), ArrayTensor(stored), shape)
    found = counted(SparseReader(sparse), SILENT)
    expected = counted(TensorReader(ArrayTensor(dense)), SILENT)
    for name in ("size", "minimum", "maximum", "nan", "positive_infinity", "zeros"):
        assert getattr(found.statistics, name) == getattr(expected.statistics, name), name
    for name in ("mean", "deviation"):
        ours, theirs = getattr(found.statistics, name), getattr(expected.statistics, name)
        assert (ours is None) == (theirs is None)
        assert ours is None or np.isclose(ours, theirs, rtol=1e-6, atol=1e-6), name
    for place, value in (
        (found.statistics.minimum_index, expected.statistics.minimum),
        (found.statistics.maximum_index, expected.statistics.maximum),
    ):
        assert value is None or dense[place] == value
    assert found.distinct == expected.distinct
