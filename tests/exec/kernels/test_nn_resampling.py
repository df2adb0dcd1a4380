"""Resize, Upsample, GridSample and AffineGrid against ONNX Runtime and hand-made values."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.errors import KernelError, LimitError
from onnx_workbench.exec.values.limits import Limits, set_limits
from tests.examples import examples
from tests.exec.kernels.harness import call, check_against, ort_one_node

X = np.random.default_rng(0).standard_normal((1, 2, 5, 7), np.float32)
NONE = np.zeros(0, np.float32)
MODES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]


@pytest.mark.long
@pytest.mark.parametrize("opset", [11, 13, 18, 19])
@pytest.mark.parametrize(("mode", "coordinates"), list(product(["nearest", "linear", "cubic"], MODES)))
@pytest.mark.parametrize("target", [(10, 14), (3, 4), (9, 5), (1, 1)])
def test_to_sizes_agrees_with_onnxruntime(opset: int, mode: str, coordinates: str, target: tuple[int, int]) -> None:
    more = {"coordinate_transformation_mode": coordinates, "mode": mode}
    empty = NONE if opset < 13 else None
    inputs = [X, NONE, empty, np.array([1, 2, *target])]
    check_against(ort_one_node, "Resize", inputs, opset=opset, rtol=1e-3, atol=1e-4, **more)


@pytest.mark.long
@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("coordinates", [*MODES[:3], "tf_half_pixel_for_nn"])
@pytest.mark.parametrize("scale", [0.5, 0.6, 1.5, 2.0, 3.3])
def test_nearest_by_scales_agrees_with_onnxruntime(nearest: str, coordinates: str, scale: float) -> None:
    more = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest}
    inputs = [X, NONE, np.array([1, 1, scale, scale], np.float32)]
    check_against(ort_one_node, "Resize", inputs, opset=11, **more)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scale", [0.6, 0.5, 1.5, 2.0, 2.7])
@pytest.mark.parametrize(("op_type", "opset"), [("Resize", 10), ("Upsample", 9), ("Upsample", 7)])
def test_before_opset_11_agrees_with_onnxruntime(op_type: str, opset: int, mode: str, scale: float) -> None:
    if op_type == "Upsample" and scale < 1:
        scale += 1
    scales = np.array([1, 1, scale, scale], np.float32)
    if opset == 7:
        check_against(ort_one_node, op_type, [X], opset=7, mode=mode, scales=tuple(scales.tolist()))
    else:
        check_against(ort_one_node, op_type, [X, scales], opset=opset, mode=mode)


def test_upsample_1_takes_two_scales() -> None:
    x = np.array([[[[1, 2], [3, 4]]]], np.float32)
    result = call("Upsample", [x], opset=1, height_scale=2.0, width_scale=3.0)
    assert result[0, 0].tolist() == [[1, 1, 1, 2, 2, 2]] * 2 + [[3, 3, 3, 4, 4, 4]] * 2
    line = call("Upsample", [x], opset=1, height_scale=1.0, width_scale=2.0, mode="bilinear")
    assert line[0, 0].tolist() == [[1, 1.5, 2, 2], [3, 3.5, 4, 4]]


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [0, 1])
def test_antialias_by_whole_factors_is_a_mean(mode: str, exclude: int) -> None:
    # Any filter keeps a constant, and halving a ramp keeps its middle.
    flat = np.full((1, 1, 8, 8), 3, np.float32)
    scales = np.array([1, 1, 0.5, 0.25], np.float32)
    result = call("Resize", [flat, None, scales], opset=18, mode=mode, antialias=1, exclude_outside=exclude)
    np.testing.assert_allclose(result, np.full((1, 1, 4, 2), 3), rtol=1e-6)
    ramp = np.arange(64, dtype=np.float32).reshape(1, 1, 1, 64)
    half = call("Resize", [ramp, None, np.array([1, 1, 1, 0.5], np.float32)], opset=18, mode=mode, antialias=1)
    np.testing.assert_allclose(half[0, 0, 0, 4:-4], np.arange(0.5, 64, 2)[4:-4], rtol=1e-5)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from(["linear", "cubic"]), st.integers(0, 2))
def test_long_and_short_axes_agree(length: int, size: int, mode: str, position: int) -> None:
    # Short axes are multiplied with a matrix, long ones gathered; numpy.interp knows the linear answer.
    x = np.random.default_rng(length).standard_normal(length)
    shape = [1, 1, 1]
    shape[position] = length
    result = call("Resize", [x.reshape(shape), None, None, np.array([size])], opset=18, mode=mode, axes=(position,))
    assert result.shape[position] == size
    if mode == "linear":
        at = (np.arange(size) + 0.5) * length / size - 0.5
        np.testing.assert_allclose(result.reshape(-1), np.interp(at, np.arange(length), x), atol=1e-10)
    elif length == size:
        np.testing.assert_allclose(result.reshape(-1), x)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float16, np.float64])
def test_other_types_keep_theirs(dtype: Any) -> None:
    x = np.arange(12).reshape(1, 1, 3, 4).astype(dtype)
    scales = np.array([1, 1, 2, 2], np.float32)
    for mode in ("nearest", "linear", "cubic"):
        result = call("Resize", [x, None, scales], opset=13, mode=mode)
        assert result.dtype == dtype
        assert result.shape == (1, 1, 6, 8)
    texts = np.array([["a", "b"]], object)
    assert call("Resize", [texts, None, np.array([1, 2], np.float32)], opset=13).tolist() == [["a", "a", "b", "b"]]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crop_agrees_with_onnxruntime(mode: str) -> None:
    roi = np.array([0, 0, 0.2, -0.1, 1, 1, 0.9, 1.3], np.float32)
    more = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": mode, "extrapolation_value": 9.0}
    inputs = [X, roi, NONE, np.array([1, 2, 6, 9])]
    check_against(ort_one_node, "Resize", inputs, opset=11, rtol=1e-3, atol=1e-4, **more)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
def test_grid_sample_agrees_with_onnxruntime(mode: str, padding: str, align: int) -> None:
    grid = (np.random.default_rng(1).standard_normal((1, 6, 4, 2)) * 0.9).astype(np.float32)
    more = {"mode": mode, "padding_mode": padding, "align_corners": align}
    check_against(ort_one_node, "GridSample", [X, grid], opset=16, rtol=1e-3, atol=1e-4, **more)


def test_grid_sample_in_one_and_three_dimensions() -> None:
    line = np.array([[[1, 2, 4]]], np.float32)
    at = np.array([[[-1], [0], [0.5], [1], [3]]], np.float32)
    result = call("GridSample", [line, at], opset=20, align_corners=1)
    assert result.tolist() == [[[1, 2, 3, 4, 0]]]
    cube = np.arange(8, dtype=np.float32).reshape(1, 1, 2, 2, 2)
    corner = np.array([[[[[1, -1, 1]]]]], np.float32)  # x, y, z
    assert call("GridSample", [cube, corner], opset=22, align_corners=1).item() == 5


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        ([X], {}),
        ([X, None, np.ones(3, np.float32)], {}),
        ([X, None, np.zeros(4, np.float32)], {}),
        ([X, None, np.full(4, np.nan, np.float32)], {}),
        ([X, None, None, np.array([1, 2, -3, 4])], {}),
        ([X, None, np.ones(4, np.float32)], {"mode": "best"}),
        ([X, None, np.full(4, 2, np.float32)], {"coordinate_transformation_mode": "sideways", "mode": "linear"}),
        ([X, None, np.ones(2, np.float32)], {"axes": (1, 9)}),
        ([X, None, np.ones(2, np.float32)], {"axes": (1, 1)}),
        ([np.zeros((1, 0), np.float32), None, None, np.array([1, 4])], {}),
    ],
)
def test_what_does_not_fit_is_refused(inputs: list[Any], attributes: dict[str, Any]) -> None:
    with pytest.raises(KernelError):
        call("Resize", inputs, opset=18, **attributes)


def test_giant_sizes_meet_the_limit() -> None:
    set_limits(Limits(max_bytes=1 << 30))
    try:
        with pytest.raises(LimitError):
            call("Resize", [X, None, None, np.array([1, 2, 1 << 30, 1 << 30])], opset=18)
        with pytest.raises(LimitError):
            call("AffineGrid", [np.zeros((1, 2, 3), np.float32), np.array([1, 1, 1 << 20, 1 << 20])], opset=20)
    finally:
        set_limits(None)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_what_lies_outside_is_zero_though_the_border_is_not_finite(mode: str) -> None:
    x = np.full((1, 1, 2, 2), np.inf, np.float32)
    grid = np.full((1, 1, 1, 2), 9, np.float32)
    np.testing.assert_array_equal(call("GridSample", [x, grid], opset=20, mode=mode), np.zeros((1, 1, 1, 1)))
