"""Statistics of tensors against plain numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onnx_workbench.exec.values.arrays import SparseArray
from onnx_workbench.exec.values.statistics import Gathered, describe, nbytes, statistics, summarise
from onnx_workbench.model.ir.types import ElementType

DTYPES = [np.float32, np.float64, np.float16, np.int64, np.uint8, np.bool_, np.int8, ml_dtypes.bfloat16, ml_dtypes.int4]


@given(st.sampled_from(DTYPES).flatmap(lambda d: _arrays(np.dtype(d))))
def test_against_numpy(array: Any) -> None:
    found = statistics(array)
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    assert found.size == array.size
    assert found.nan == np.isnan(wide).sum()
    assert found.positive_infinity == (wide == np.inf).sum()
    assert found.negative_infinity == (wide == -np.inf).sum()
    assert found.zeros == (wide == 0).sum()
    if not finite.size:
        assert found.minimum is None
        return
    assert found.minimum == finite.min()
    assert found.maximum == finite.max()
    assert wide[found.minimum_index] == finite.min()
    assert wide[found.maximum_index] == finite.max()
    scale = np.abs(finite).max()
    assert found.mean == pytest.approx(finite.mean(), rel=1e-9, abs=1e-9 * scale)
    assert found.deviation == pytest.approx(finite.std(), rel=1e-6, abs=1e-9 * scale)


@pytest.mark.parametrize("first", [0, 10])
@pytest.mark.parametrize("size", [1e150, 1e200, 1e307])
def test_the_deviation_of_numbers_whose_squares_are_none(size: float, first: int) -> None:
    numbers = np.random.default_rng(0).normal(size=100)
    gathered = Gathered()
    for part in (numbers[:first], numbers[first:] * size):
        if part.size:
            gathered.add(0, part)
    whole = np.concatenate([numbers[:first] / size, numbers[first:]])
    found = gathered.statistics((100,), 100)
    assert found.mean == pytest.approx(whole.mean() * size)
    assert found.deviation == pytest.approx(whole.std() * size)


def _arrays(dtype: np.dtype[Any]) -> st.SearchStrategy[Any]:
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
    if dtype.kind in "fiub" and dtype.isbuiltin == 1:
        limited = {"min_value": -1000, "max_value": 1000} if dtype == np.int64 else {}
        if dtype.kind == "f":
            numbers = st.one_of(st.floats(-1000, 1000, width=16), st.sampled_from([np.nan, np.inf, -np.inf, 0.0]))
            return hnp.arrays(dtype, shapes, elements=numbers)
        return hnp.arrays(dtype, shapes, elements=hnp.from_dtype(dtype, **limited))
    small = hnp.arrays(np.float32, shapes, elements=st.integers(-8, 7))
    return small.map(lambda a: a.astype(dtype))


def test_blocks_join_rightly_whatever_the_strides() -> None:
    array = np.random.default_rng(0).standard_normal((700, 900)).astype(np.float32)
    array[500, 3], array[699, 899] = 50, np.nan
    for view in (array, array.T, array[::2], array[:, ::-1]):
        found = statistics(view)
        assert found.nan == np.isnan(view).sum()
        assert view[found.maximum_index] == 50 == found.maximum
        assert found.mean == pytest.approx(np.nanmean(view.astype(np.float64)))
        assert found.deviation == pytest.approx(np.nanstd(view.astype(np.float64)))


@pytest.mark.parametrize(
    ("value", "text", "size"),
    [
        (np.zeros((2, 3), np.float32), "float[2,3]", 24),
        (np.zeros((2,), ml_dtypes.bfloat16), "bfloat16[2]", 4),
        (np.array(["ab", "c"], object), "string[2]", 19),
        ([np.zeros(2), np.zeros(1)], "sequence of 2", 24),
        ({"a": np.float32(1)}, "map of 1", 64 + 8),
        (SparseArray(np.ones(2, np.float32), np.array([0, 3]), (4,)), "sparse float[4]", 24),
        (None, "nothing", 0),
    ],
)
def test_descriptions(value: Any, text: str, size: int) -> None:
    assert str(describe(value)) == text
    assert nbytes(value) == size


def test_summaries_of_what_has_no_numbers() -> None:
    assert summarise([1]).statistics is None
    assert summarise(np.array(["a"], object)).statistics == statistics(np.array(["a"], object))
    assert describe(np.zeros(1, ml_dtypes.float8_e4m3fn)).element_type is ElementType.FLOAT8E4M3FN
