"""Sorts and Fourier transforms that are done in parts give what those in one go give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.kernels.shared import fourier, sorting
from tests.examples import examples

RNG = np.random.default_rng(3)
LENGTHS = [1, 2, 63, 64, 65, 101, 128, 360, 997, 2 * 997, 12**3, 2**13]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fourier, "PART", 64)
    monkeypatch.setattr(sorting, "PART", 16)


@pytest.mark.long
@pytest.mark.parametrize("length", LENGTHS)
def test_transforms_are_those_of_numpy(length: int) -> None:
    x = RNG.standard_normal((3, length, 2)) + 1j * RNG.standard_normal((3, length, 2))
    np.testing.assert_allclose(fourier.transform(x, 1), np.fft.fft(x, axis=1), atol=1e-9)
    np.testing.assert_allclose(fourier.transform(x, 1, inverse=True), np.fft.ifft(x, axis=1), atol=1e-9)
    half = fourier.half_transform(x.real, 1)
    np.testing.assert_allclose(half, np.fft.rfft(x.real, axis=1), atol=1e-9)
    np.testing.assert_allclose(fourier.inverse_of_half(half, length, 1), x.real, atol=1e-9)


@pytest.mark.parametrize("length", [128, 997, 12**3])
def test_transforms_stay_in_single_precision(length: int) -> None:
    x = RNG.standard_normal(length).astype(np.float32)
    found = fourier.transform(x)
    assert found.dtype == np.complex64
    np.testing.assert_allclose(found, np.fft.fft(x.astype(np.float64)), atol=1e-3)


numbers = st.lists(st.one_of(st.integers(-5, 5).map(float), st.sampled_from([np.nan, np.inf, -0.0])), max_size=200)


@settings(max_examples=examples(60), deadline=None)
@given(values=numbers, kind=st.sampled_from(["f4", "f8", "O"]))
def test_distinct_elements_are_those_of_numpy(values: list[float], kind: str) -> None:
    x = np.array([str(v) for v in values], object) if kind == "O" else np.array(values, kind)
    found = sorting.distinct(x)
    _, *expected = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@settings(max_examples=examples(60), deadline=None)
@given(values=st.lists(st.integers(0, 9), max_size=300))
def test_equal_elements_stay_as_they_stand(values: list[int]) -> None:
    x: Any = np.array(values, np.int64)
    np.testing.assert_array_equal(sorting.argsort(x), np.argsort(x, kind="stable"))


@settings(max_examples=examples(60), deadline=None)
@given(values=st.lists(st.integers(0, 10**9), min_size=1, max_size=400, unique=True), data=st.data())
def test_the_smallest_are_the_first_of_the_sorted(values: list[int], data: st.DataObject) -> None:
    x: Any = np.array(values, np.uint64)
    count = data.draw(st.integers(1, len(values)))
    np.testing.assert_array_equal(sorting.smallest(x, count), np.sort(x)[:count])
