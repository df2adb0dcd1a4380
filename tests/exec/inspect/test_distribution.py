"""How elements are spread."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onnx_workbench.exec.inspect.compare import compare_values
from onnx_workbench.exec.inspect.distribution import distribution
from onnx_workbench.exec.values.statistics import statistics
from onnx_workbench.model.ir.types import ElementType


def spread(array):
    flat = array.reshape(-1)
    return distribution(lambda start, stop: flat[start:stop], array.shape, array.size)


@given(hnp.arrays(np.float64, st.integers(1, 200), elements=st.floats(-1e6, 1e6, width=32)))
def test_percentiles_and_distinct_values_are_those_of_numpy(array):
    found = spread(array)
    assert found.percentiles == pytest.approx(np.percentile(array, (1, 5, 25, 50, 75, 95, 99)), rel=1e-6, abs=1e-6)
    assert found.distinct == len(np.unique(array))
    assert sum(found.counts) == array.size
    assert found.sampled == 0


@given(st.data(), st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.uint8, np.int64]))
def test_bars_hold_what_lies_from_one_edge_to_the_next(data, dtype):
    array = data.draw(hnp.arrays(dtype, st.integers(1, 60)))
    finite = array[np.isfinite(array)].astype(np.float64)
    found = spread(array)
    assert sum(found.counts) == finite.size
    assert np.isfinite(found.edges).all()
    assert list(found.edges) == sorted(found.edges)
    span = finite.max() / 2 - finite.min() / 2 if finite.size else 0
    if span <= np.abs(finite).max(initial=0) * 1e-6 or span > 5e307:
        return  # few numbers fit between the edges, or numpy itself overflows
    counts, edges = np.histogram(finite, len(found.counts), (finite.min(), finite.max()))
    assert found.counts == tuple(counts)
    assert found.edges == tuple(edges)


@pytest.mark.parametrize("low", [-7.3065204e305, -1.797e308, 5e-324])
def test_any_finite_range_is_described_without_overflow(low):
    array = np.array([low, 1.79038661e308] * 50_000)
    found = spread(array)
    assert found.counts[0] == found.counts[-1] == 50_000
    assert (found.edges[0], found.edges[-1]) == (low, 1.79038661e308)
    assert np.isfinite([*found.edges, *found.percentiles, found.statistics.mean, found.statistics.deviation]).all()
    difference = compare_values(array * 0.5, array)
    assert difference.cosine == pytest.approx(1)
    assert difference.snr == pytest.approx(6.0206, abs=1e-4)
    assert np.isfinite([difference.max_abs, difference.mean_abs, difference.scale]).all()


@pytest.mark.parametrize(("elements", "bars"), [(1, 1), (4, 2), (900, 30), (100_000, 96)])
def test_bars_grow_with_the_root_of_the_elements_to_a_limit(elements, bars):
    assert len(spread(np.arange(elements)).counts) == bars


def test_what_is_not_finite_is_counted_apart():
    found = spread(np.array([1, np.nan, np.inf, -np.inf, 3, 0], np.float32))
    assert (found.statistics.nan, found.statistics.non_finite, found.statistics.zeros) == (1, 3, 1)
    assert sum(found.counts) == 3
    assert found.edges[0] == 0
    assert found.edges[-1] == 3


def test_of_complex_numbers_what_is_not_finite_is_counted_everywhere():
    array = np.array([0, 1j, np.nan, complex(np.nan, np.inf), complex(1, -np.inf)], np.complex64)
    for found in (spread(array).statistics, statistics(array)):
        assert (found.zeros, found.nan, found.positive_infinity, found.non_finite) == (1, 2, 1, 3)
        assert found.minimum is None


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(0), np.array(7.0), np.full(5, np.nan), np.array([1e308, -1e308]), np.zeros((2, 0)),
        np.full(4, 1 << 62), np.array([0, 5e-324]), np.array([-5e-324, 1e-322]), np.array([0, np.finfo(float).max]),
    ],
)  # fmt: skip
def test_odd_tensors(array):
    found = spread(array)
    assert found.statistics.size == array.size
    assert sum(found.counts) == np.count_nonzero(np.isfinite(array))


@pytest.mark.parametrize(
    "array",
    [
        np.array([1, np.nan, np.nan, np.inf, -np.inf, -np.inf, 3, 1], np.float32),
        np.full(3, np.nan),
        np.array([1 << 60, (1 << 60) + 1, 1 << 60, -(1 << 62)]),
        np.array([(1 << 63) + 1, 0, (1 << 63) + 2], np.uint64),
        np.array([-(1 << 63), (1 << 63) - 1]),
        np.array([1j, 1j, np.nan, complex(np.nan, 1), np.inf, 2], np.complex64),
    ],
)
def test_distinct_values_are_those_of_numpy_whatever_they_are(array):
    assert spread(array).distinct == len(np.unique(array))


@pytest.mark.parametrize("kind", [k for k in ElementType if k.bits], ids=lambda k: k.text)
def test_every_type(kind):
    found = spread(np.array([1, 1, 1], kind.numpy_dtype))
    assert found.distinct == 1


def test_large_tensors_are_sampled_and_say_so():
    array = np.arange(6_000_000, dtype=np.int32)
    found = spread(array)
    assert 0 < found.sampled < array.size
    assert (found.statistics.minimum, found.statistics.maximum) == (0, array.size - 1)
    assert found.percentiles[3] == pytest.approx(array.size / 2, rel=0.01)
