"""Pools against the definition on random windows, ONNX Runtime at old versions, and hostile arguments."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.errors import KernelError, LimitError
from onnx_workbench.exec.kernels.shared.windows import Window, window
from onnx_workbench.exec.values.limits import Limits, set_limits
from tests.examples import examples
from tests.exec.kernels.harness import call, check_against, ort_one_node


@st.composite
def pools(draw: Any) -> Any:
    """(x, attributes, window): windows may stick out of the padding with ceil_mode."""
    rank = draw(st.integers(1, 3))
    numbers = [draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)) for _ in range(2)]
    kernel, sizes = numbers[0], [n + draw(st.integers(0, 5)) for n in numbers[1]]
    same = draw(st.booleans())  # maps that keep their size go another way
    strides = [1 if same else draw(st.integers(1, 3)) for _ in range(rank)]
    dilations = [draw(st.integers(1, 2)) for _ in range(rank)]
    pads = [draw(st.integers(0, 3)) for _ in range(2 * rank)]
    if same:
        total = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
        pads = [t // 2 for t in total] + [t - t // 2 for t in total]
    ceil_mode = draw(st.integers(0, 1))
    for axis in range(rank):
        assume(sizes[axis] + pads[axis] + pads[rank + axis] >= (kernel[axis] - 1) * dilations[axis] + 1)
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    x = rng.standard_normal((draw(st.integers(0, 2)), draw(st.integers(1, 3)), *sizes), np.float32)
    attributes = {
        "kernel_shape": tuple(kernel),
        "strides": tuple(strides),
        "dilations": tuple(dilations),
        "pads": tuple(pads),
        "ceil_mode": ceil_mode,
    }
    view = window(sizes, kernel, strides=strides, dilations=dilations, pads=pads, ceil_mode=ceil_mode)
    return x, attributes, view


def naive(x: Any, view: Window) -> tuple[Any, Any, Any]:
    """Per output: values that lie inside, how many taps met input or padding, and the values' flat places."""
    values, counts, places = {}, {}, {}
    for place in product(*(range(n) for n in view.output)):
        starts = [p * s - b for p, s, b in zip(place, view.strides, view.begin, strict=True)]
        axes = [
            [start + k * d for k in range(kernel)]
            for start, kernel, d in zip(starts, view.kernel, view.dilations, strict=True)
        ]
        counts[place] = int(
            np.prod([sum(i < n + e for i in axis) for axis, n, e in zip(axes, view.sizes, view.end, strict=True)])
        )
        inside = [[i for i in axis if 0 <= i < n] for axis, n in zip(axes, view.sizes, strict=True)]
        places[place] = [int(np.ravel_multi_index(p, view.sizes)) for p in product(*inside)]
        values[place] = x.reshape(*x.shape[:2], int(np.prod(view.sizes)))[:, :, places[place]]
    return values, counts, places


@pytest.mark.long
@settings(max_examples=examples(120), deadline=None)
@given(pools())
def test_max_pool_is_its_definition(case: Any) -> None:
    x, attributes, view = case
    values, _, _ = naive(x, view)
    result, _ = call("MaxPool", [x], opset=12, outputs=1, **attributes)
    both, indices = call("MaxPool", [x], opset=12, outputs=2, **attributes)
    np.testing.assert_array_equal(result, both)
    assert indices.dtype == np.int64
    for place, seen in values.items():
        if seen.shape[2]:
            at = (slice(None), slice(None), *place)
            np.testing.assert_array_equal(result[at], seen.max(axis=2))
            np.testing.assert_array_equal(x.reshape(-1)[indices[at]], result[at])


@pytest.mark.long
@settings(max_examples=examples(100), deadline=None)
@given(pools(), st.integers(0, 1))
def test_average_pool_is_its_definition(case: Any, include: int) -> None:
    x, attributes, view = case
    values, counts, _ = naive(x, view)
    result = call("AveragePool", [x], opset=19, count_include_pad=include, **attributes)
    for place, seen in values.items():
        count = counts[place] if include else seen.shape[2]
        if count:
            expected = seen.astype(np.float64).sum(axis=2) / count
            np.testing.assert_allclose(result[(slice(None), slice(None), *place)], expected, atol=1e-5)


@settings(max_examples=examples(60), deadline=None)
@given(pools(), st.sampled_from((1, 2, 3, -1, -2)))
def test_lp_pool_is_its_definition(case: Any, p: int) -> None:
    x, attributes, view = case
    values, _, _ = naive(x, view)
    result = call("LpPool", [x], opset=18, p=p, **attributes)
    for place, seen in values.items():
        with np.errstate(divide="ignore"):  # a negative power of no element at all
            expected = (np.abs(seen.astype(np.float64)) ** p).sum(axis=2) ** (1 / p)
        np.testing.assert_allclose(result[(slice(None), slice(None), *place)], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("dilation", [1, 2, 3, 5])
@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 6])
def test_windows_about_as_wide_as_the_rows_they_keep(size: int, kernel: int, dilation: int) -> None:
    total = (kernel - 1) * dilation
    for rows, before in product((1, 2), range(total + 1)):
        x = np.arange(-1, rows * size - 1, dtype=np.float32).reshape(1, rows, size)
        pads = (before, total - before)
        result, _ = call("MaxPool", [x], opset=12, kernel_shape=(kernel,), dilations=(dilation,), pads=pads)
        for column in range(size):
            places = (column - before + k * dilation for k in range(kernel))
            seen = x[:, :, [p for p in places if 0 <= p < size]]
            np.testing.assert_array_equal(result[:, :, column], seen.max(axis=2, initial=-np.inf))


@pytest.mark.long
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("opset", [7, 8, 10, 11, 13])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"strides": (2, 3), "pads": (1, 0, 1, 1)},
        {"auto_pad": "SAME_UPPER", "strides": (2, 2)},
        {"auto_pad": "SAME_LOWER", "strides": (2, 1)},
        {"auto_pad": "VALID", "strides": (3, 2)},
    ],
)
def test_old_versions_agree_with_onnxruntime(op_type: str, opset: int, more: dict[str, Any]) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 11, 13), np.float32)
    check_against(ort_one_node, op_type, [x], opset=opset, kernel_shape=(3, 2), rtol=1e-4, **more)


@pytest.mark.parametrize("opset", [1, 6])
def test_the_first_version_pools_without_newer_attributes(opset: int) -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    attributes: dict[str, Any] = {"kernel_shape": (2, 2), "strides": (2, 2)}
    assert call("MaxPool", [x], opset=opset, **attributes)[0].reshape(-1).tolist() == [5, 7, 13, 15]
    assert call("AveragePool", [x], opset=opset, **attributes).reshape(-1).tolist() == [2.5, 4.5, 10.5, 12.5]
    lp = call("LpPool", [x], opset=1, p=1.0, **attributes)
    assert lp.reshape(-1).tolist() == [10, 18, 42, 50]


@pytest.mark.parametrize("opset", [1, 2, 13])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_global_lp_pool(opset: int, p: int) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 5), np.float32)
    expected = (np.abs(x.astype(np.float64)) ** p).sum(axis=(2, 3), keepdims=True) ** (1 / p)
    result = call("GlobalLpPool", [x], opset=opset, p=float(p) if opset == 1 else p)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize("storage_order", [0, 1])
def test_column_major_indices_agree_with_onnxruntime(storage_order: int) -> None:
    x = np.random.default_rng(2).standard_normal((2, 2, 6, 5), np.float32)
    attributes = {"kernel_shape": (2, 2), "strides": (2, 2), "storage_order": storage_order}
    check_against(ort_one_node, "MaxPool", [x], opset=12, outputs=2, **attributes)


def test_max_pool_hands_on_what_is_no_number() -> None:
    x = np.array([[[1, np.nan, 2, 3]]], np.float32)
    result, _ = call("MaxPool", [x], opset=12, kernel_shape=(2,), strides=(2,))
    assert np.isnan(result[0, 0, 0])
    assert result[0, 0, 1] == 3


def test_max_roi_pool_by_hand() -> None:
    x = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
    rois = np.array([[0, 0, 0, 3, 3], [0, 1, 1, 2, 2], [0, 9, 9, 12, 12]], np.float32)
    result = call("MaxRoiPool", [x, rois], opset=13, pooled_shape=(2, 2))
    assert result[0, 0].tolist() == [[5, 7], [13, 15]]
    assert result[1, 1].tolist() == [[21, 22], [25, 26]]
    assert not result[2].any()  # outside the image
    check_against(ort_one_node, "MaxRoiPool", [x, rois[:2]], opset=13, pooled_shape=(3, 2), spatial_scale=0.7)


def test_a_global_pool_of_nothing_has_no_mean() -> None:
    assert np.isnan(call("GlobalAveragePool", [np.zeros((1, 2, 0, 3), np.float32)], opset=13)).all()
    assert call("GlobalMaxPool", [np.zeros((0, 2, 3), np.float32)], opset=13).shape == (0, 2, 1)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("MaxPool", [(1, 2, 8)], {"kernel_shape": (2, 2)}),
        ("MaxPool", [(1, 2)], {"kernel_shape": ()}),
        ("MaxPool", [(1, 2, 3)], {"kernel_shape": (9,)}),
        ("AveragePool", [(1, 2, 8)], {"kernel_shape": (0,)}),
        ("AveragePool", [(1, 2, 8)], {"kernel_shape": (2,), "pads": (1, 2, 3)}),
        ("LpPool", [(1, 2, 8)], {"kernel_shape": (2,), "p": 0}),
        ("MaxRoiPool", [(1, 2, 8, 8), (1, 4)], {"pooled_shape": (1, 1)}),
        ("MaxRoiPool", [(1, 2, 8, 8), (1, 5)], {"pooled_shape": (0, 1)}),
    ],
)
def test_what_does_not_fit_is_refused(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    with pytest.raises(KernelError):
        call(op_type, [np.ones(s, np.float32) for s in inputs], opset=18, **attributes)


def test_hostile_windows_neither_hang_nor_allocate() -> None:
    x = np.ones((1, 1, 4), np.float32)
    huge = 1 << 30
    result, _ = call("MaxPool", [x], opset=12, kernel_shape=(huge,), pads=(huge // 2, huge // 2), strides=(huge,))
    assert result.tolist() == [[[1.0]]]
    set_limits(Limits(max_bytes=1 << 28))
    try:
        with pytest.raises(LimitError):
            call("AveragePool", [x], opset=19, kernel_shape=(2,), pads=(huge, huge))
    finally:
        set_limits(None)


def test_max_unpool_refuses_places_outside() -> None:
    values, indices = np.ones((1, 1, 2), np.float32), np.array([[[0, 99]]])
    with pytest.raises(KernelError, match="99"):
        call("MaxUnpool", [values, indices], opset=11, kernel_shape=(2,), strides=(2,))


def test_the_mean_of_a_window_that_lies_in_the_padding_is_zero() -> None:
    x = np.ones((1, 1, 8, 1, 2), np.float32)
    attributes = {"kernel_shape": (1, 4, 4), "dilations": (2, 2, 2), "pads": (0, 3, 3, 0, 3, 3)}
    check_against(ort_one_node, "AveragePool", [x], opset=19, **attributes)
