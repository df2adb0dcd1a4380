"""NonMaxSuppression and RoiAlign against ONNX Runtime and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.errors import KernelError
from tests.exec.kernels.harness import call, check_against, ort_one_node

RNG = np.random.default_rng(0)


def boxes(count: int, *, centered: bool) -> Any:
    corner, size = RNG.uniform(0, 8, (2, count, 2)), RNG.uniform(0.5, 4, (2, count, 2))
    parts = [corner, size] if centered else [corner, corner + size]
    result = np.concatenate(parts, axis=2)
    if not centered:
        result[:, ::3] = result[:, ::3, [2, 1, 0, 3]]  # corners in any order
    return result.astype(np.float32)


@pytest.mark.long
@pytest.mark.parametrize("opset", [10, 11])
@pytest.mark.parametrize("centered", [0, 1])
@pytest.mark.parametrize("most", [0, 3, 100])
@pytest.mark.parametrize(("overlap", "least"), [(0.0, 0.0), (0.3, 0.4), (1.0, -5.0)])
def test_nms_agrees_with_onnxruntime(opset: int, centered: int, most: int, overlap: float, least: float) -> None:
    given, scores = boxes(40, centered=bool(centered)), RNG.uniform(0, 1, (2, 3, 40)).astype(np.float32)
    inputs = [given, scores, np.array([most]), np.array([overlap], np.float32), np.array([least], np.float32)]
    check_against(ort_one_node, "NonMaxSuppression", inputs, opset=opset, center_point_box=centered)


def test_nms_without_optional_inputs_selects_nothing() -> None:
    result = call("NonMaxSuppression", [boxes(4, centered=False), np.ones((2, 1, 4), np.float32)], opset=11)
    assert result.shape == (0, 3)
    assert result.dtype == np.int64


def test_equal_scores_keep_the_order_of_boxes() -> None:
    apart = np.array([[[i, 0, i + 0.5, 1] for i in range(5)]], np.float32)
    result = call("NonMaxSuppression", [apart, np.full((1, 1, 5), 0.5, np.float32), np.array(3)], opset=11)
    assert result[:, 2].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("opset", "more"), [(10, {}), (16, {}), (16, {"coordinate_transformation_mode": "output_half_pixel"})]
)
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 2])
def test_roi_align_agrees_with_onnxruntime(opset: int, more: dict[str, Any], mode: str, ratio: int) -> None:
    x = RNG.standard_normal((2, 3, 9, 11)).astype(np.float32)
    rois = np.array(
        [
            [0, 0, 8, 8],
            [1.5, 2.5, 6, 7.2],
            [-3, -2, 5, 20],
            [4, 4, 4.2, 4.1],
            [30, 30, 40, 40],
            [5, 5, 3, 9],
            [5, 5, 5, 5],
            [5, 6, 2, 2],
        ],
        np.float32,
    )  # without an area
    inputs = [x, rois, np.array([0, 1, 1, 0, 1, 1, 0, 0])]
    check_against(
        *(ort_one_node, "RoiAlign", inputs),
        opset=opset,
        rtol=1e-4,
        atol=1e-5,
        mode=mode,
        output_height=3,
        output_width=4,
        sampling_ratio=ratio,
        spatial_scale=0.8,
        **more,
    )


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("NonMaxSuppression", [np.zeros((1, 3, 5), np.float32), np.zeros((1, 1, 3), np.float32)], {}),
        ("NonMaxSuppression", [np.zeros((1, 3, 4), np.float32), np.zeros((1, 1, 4), np.float32)], {}),
        ("RoiAlign", [np.zeros((1, 1, 4, 4), np.float32), np.zeros((1, 4), np.float32), np.array([7])], {}),
        (
            "RoiAlign",
            [np.zeros((1, 1, 4, 4), np.float32), np.zeros((1, 4), np.float32), np.array([0])],
            {"mode": "min"},
        ),
        (
            "RoiAlign",
            [np.zeros((1, 1, 4, 4), np.float32), np.zeros((1, 4), np.float32), np.array([0])],
            {"coordinate_transformation_mode": "x"},
        ),
    ],
)
def test_what_does_not_fit_is_refused(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    with pytest.raises(KernelError):
        call(op_type, inputs, opset=16, **attributes)


def test_an_infinity_reaches_only_the_cells_that_sample_it() -> None:
    x = RNG.standard_normal((1, 2, 10, 10)).astype(np.float32)
    x[0, 0, 4, 4] = -np.inf
    x[0, 1, 2, 7] = np.nan
    inputs = [x, np.array([[0.2, 0.3, 9, 9], [0, 5, 4, 9]], np.float32), np.array([0, 0])]
    check_against(
        ort_one_node, "RoiAlign", inputs, opset=16, rtol=1e-4, atol=1e-5, output_height=5, output_width=5,
        sampling_ratio=2, coordinate_transformation_mode="output_half_pixel",
    )  # fmt: skip


def test_a_region_of_hostile_size_takes_no_time() -> None:
    x = np.ones((1, 1, 4, 4), np.float32)
    rois = np.array([[-1e30, -1e30, 1e30, 1e30], [0, 0, np.inf, np.nan]], np.float32)
    assert call("RoiAlign", [x, rois, np.array([0, 0])], opset=16).shape == (2, 1, 1, 1)
