"""Digests of tensors: equal for equal elements, and for nothing else."""

import numpy as np
import pytest

from onnx_workbench.model.diff.fingerprints import fingerprint
from onnx_workbench.model.ir.tensors import ArrayTensor


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["a", "b"], ["ab", ""]),
        (["a", "b"], ["a', 'b", ""]),
        (["a\0b", ""], ["a", "b"]),
        ([1.0, 2.0], [2.0, 1.0]),
        ([0.0], [-0.0]),
    ],
)
def test_other_elements_have_another(one, other):
    dtype = object if isinstance(one[0], str) else np.float32
    first, again, second = (ArrayTensor(np.array(values, dtype)) for values in (one, list(one), other))
    assert fingerprint(first) == fingerprint(again) != fingerprint(second)


def test_it_is_that_of_all_parts_that_are_read():
    elements = np.arange((1 << 20) + 5, dtype=np.float32)
    changed = elements.copy()
    changed[-1] = 0
    assert fingerprint(ArrayTensor(elements)) == fingerprint(ArrayTensor(elements.copy()))
    assert fingerprint(ArrayTensor(elements)) != fingerprint(ArrayTensor(changed))
