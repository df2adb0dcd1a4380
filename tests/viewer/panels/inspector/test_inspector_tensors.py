"""Statistics streamed in slices agree with numpy on the whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from model.progress import SILENT, Cancelled, Progress
from model.tensors import ArrayTensor
from viewer.panels.inspector import tensors
from viewer.panels.inspector.tensors import first_values, statistics, tensor_text


@given(arrays(np.float32, st.integers(1, 60), elements=st.floats(-1e6, 1e6, width=32)), st.integers(1, 9))
@settings(deadline=None)
def test_slices_agree_with_the_whole(array, chunk):
    original, tensors._CHUNK = tensors._CHUNK, chunk
    try:
        found = statistics(ArrayTensor(array), SILENT)
    finally:
        tensors._CHUNK = original
    wide = array.astype(np.float64)
    assert (found.minimum, found.maximum) == (wide.min(), wide.max())
    assert found.mean == pytest.approx(wide.mean(), rel=1e-9, abs=1e-6)
    assert found.deviation == pytest.approx(wide.std(), rel=1e-6, abs=1e-6)
    assert found.zeros == np.count_nonzero(array == 0)
    if found.bars:
        assert sum(found.bars) == array.size


def test_what_is_not_finite_is_counted_apart():
    found = statistics(ArrayTensor(np.array([np.nan, np.inf, -np.inf, 1, 3], np.float32)), SILENT)
    assert (found.nans, found.infinities, found.minimum, found.maximum, found.mean) == (1, 2, 1.0, 3.0, 2.0)
    nothing = statistics(ArrayTensor(np.full(3, np.nan, np.float32)), SILENT)
    assert nothing.nans == 3
    assert nothing.bars == ()


def test_it_stops_when_asked():
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        statistics(ArrayTensor(np.ones(10, np.float32)), progress)


def test_first_values_of_every_kind():
    assert first_values(ArrayTensor(np.array([True, False]))) == "True, False"
    assert first_values(ArrayTensor(np.array(["a\n", "b"], object))) == "'a\\\\n', 'b'"
    assert first_values(ArrayTensor(np.array([1 + 2j], np.complex64))) == "1+2j"
    assert first_values(ArrayTensor(np.arange(100))).endswith("23 …")
    assert tensor_text(ArrayTensor(np.zeros((2, 3), np.int8))) == "int8 2×3 · 6 B"
