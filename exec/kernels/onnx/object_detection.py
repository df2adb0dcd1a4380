"""NonMaxSuppression and RoiAlign."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import scalar_float, scalar_int
from onnx_workbench.exec.kernels.shared.dtypes import compute_dtype, narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size, empty
from onnx_workbench.exec.values.limits import checkpoint


@kernel("NonMaxSuppression", since=10)
def non_max_suppression_10(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
    *,
    center_point_box: int = 0,
) -> Array:
    """Select boxes by score per batch and class, suppressing overlapping ones; rows of (batch, class, box)."""
    if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.ndim != 3 or scores.shape[::2] != boxes.shape[:2]:
        msg = f"boxes has shape {boxes.shape} and scores {scores.shape}, expected (N, boxes, 4), (N, classes, boxes)"
        raise KernelError(msg)
    limit = max_output_boxes_per_class
    most = 0 if limit is None else scalar_int(limit, "max_output_boxes_per_class")
    overlap = 0.0 if iou_threshold is None else scalar_float(iou_threshold, "iou_threshold")
    least = None if score_threshold is None else scalar_float(score_threshold, "score_threshold")
    if not 0 <= overlap <= 1:
        msg = f"iou_threshold is {overlap}, expected 0 to 1"
        raise KernelError(msg)
    rows: list[tuple[int, int, int]] = []
    corners = _corners(boxes.astype(np.float32), center_point_box)
    for n in range(boxes.shape[0] if most > 0 else 0):
        for c in range(scores.shape[1]):
            chosen = _suppress(corners[n], scores[n, c], most, overlap, least)
            rows.extend((n, c, b) for b in chosen)
    return np.asarray(rows, np.int64).reshape(-1, 3)


def _corners(boxes: Array, center_point_box: int) -> Array:
    """(…, 4) boxes as y1, x1, y2, x2 with the smaller corner first."""
    if center_point_box:
        x, y, width, height = np.moveaxis(boxes, -1, 0)
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], axis=-1)
    low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
    return np.concatenate([low, high], axis=-1)


def _suppress(corners: Array, scores: Array, most: int, overlap: float, least: object) -> list[int]:
    candidates = np.arange(len(scores))
    if least is not None:
        candidates = candidates[scores > least]
    # Equal scores keep the order of the boxes.
    candidates = candidates[np.argsort(-scores[candidates], kind="stable")]
    areas = np.prod(corners[:, 2:] - corners[:, :2], axis=1)
    chosen: list[int] = []
    while candidates.size and len(chosen) < most:
        if len(chosen) % 64 == 0:
            checkpoint()
        best, candidates = candidates[0], candidates[1:]
        chosen.append(int(best))
        low = np.maximum(corners[candidates, :2], corners[best, :2])
        high = np.minimum(corners[candidates, 2:], corners[best, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        union = areas[candidates] + areas[best] - shared
        # A box without an area overlaps nothing.
        ratio = np.divide(shared, union, out=np.zeros_like(shared), where=(union > 0) & (shared > 0))
        candidates = candidates[ratio <= overlap]
    return chosen


@kernel("RoiAlign", since=10)
def roi_align_10(
    x: Array,
    rois: Array,
    batch_indices: Array,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Array:
    """Pool regions [x1, y1, x2, y2] to a grid of cells, each the mean or maximum of bilinear samples."""
    return roi_align_16(
        x, rois, batch_indices, coordinate_transformation_mode="output_half_pixel", mode=mode,
        output_height=output_height, output_width=output_width, sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )  # fmt: skip


@kernel("RoiAlign", since=16)
def roi_align_16(
    x: Array,
    rois: Array,
    batch_indices: Array,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Array:
    """As before; half_pixel shifts coordinates by half a pixel and allows regions smaller than one."""
    if coordinate_transformation_mode not in ("half_pixel", "output_half_pixel"):
        msg = (
            f"coordinate_transformation_mode is {coordinate_transformation_mode!r}, expected half_pixel or "
            f"output_half_pixel"
        )
        raise KernelError(msg)
    half, height, width = coordinate_transformation_mode == "half_pixel", output_height, output_width
    if x.ndim != 4 or 0 in x.shape[2:] or rois.shape[1:] != (4,) or batch_indices.shape != rois.shape[:1]:
        given = f"X has shape {x.shape}, rois {rois.shape}, batch_indices {batch_indices.shape}"
        msg = f"{given}; expected (N, C, H, W) with H and W from 1, (regions, 4) and (regions,)"
        raise KernelError(msg)
    if mode not in ("avg", "max") or height < 1 or width < 1 or sampling_ratio < 0:
        given = f"mode is {mode!r}, the output {height} × {width}, sampling_ratio {sampling_ratio}"
        msg = f"{given}; expected avg or max, sizes from 1, a ratio from 0"
        raise KernelError(msg)
    if rois.size and not (0 <= batch_indices.min() <= batch_indices.max() < x.shape[0]):
        given = f"batch_indices go from {batch_indices.min()} to {batch_indices.max()} for {x.shape[0]} images"
        msg = f"{given}; expected within [0, {x.shape[0] - 1}]"
        raise KernelError(msg)
    dtype = compute_dtype(x.dtype)
    source = widen(x)
    out = empty((len(rois), x.shape[1], height, width), dtype)
    if not out.size:
        return narrow(out, x.dtype)
    regions = widen(rois).astype(dtype, copy=False) * dtype.type(spatial_scale) - dtype.type(0.5 if half else 0)
    for number, (x1, y1, x2, y2) in enumerate(regions):
        checkpoint()
        image = source[int(batch_indices[number])]
        down, down_count = _samples(y1, y2, height, sampling_ratio, x.shape[2], clamp=not half)
        across, across_count = _samples(x1, x2, width, sampling_ratio, x.shape[3], clamp=not half)
        if not (down_count and across_count):  # a region without an area
            out[number] = 0
            continue
        out[number] = (_align_mean if mode == "avg" else _align_max)(image, down, across, down_count, across_count)
    return narrow(out, x.dtype)


Samples = tuple[Array, Array, Array, Array]  # low index, high index, weight of low, weight of high


def _samples(first: float, last: float, cells: int, ratio: int, size: int, *, clamp: bool) -> tuple[Samples, int]:
    """Return the sampling points of one axis: `count` per cell, as two neighbours and their weights."""
    extent = last - first
    if clamp:
        extent = max(extent, type(extent)(1))
    step = extent / cells
    count = ratio or (max(int(np.ceil(step)), 0) if np.isfinite(step) else 1)
    # More samples of so few pixels only come from a region far larger than any image.
    count = min(count, 4 * size + 64)
    check_size((cells, count), np.float64)
    at = first + step * (np.arange(cells)[:, None] + (np.arange(count) + 0.5) / max(count, 1))
    at = at.reshape(-1).astype(np.float64)
    outside = ~((at >= -1) & (at <= size))
    at = np.clip(np.where(outside, 0, at), 0, size - 1)
    low = np.floor(at).astype(np.intp)
    high = np.minimum(low + 1, size - 1)
    part = at - low
    return (low, high, np.where(outside, 0, 1 - part), np.where(outside, 0, part)), count


def _align_mean(image: Array, down: Samples, across: Samples, rows: int, columns: int) -> Array:
    """Bilinear samples and their mean are linear along each axis: two small matrices compute both.

    Not where an element is infinite or NaN: the zeros of the matrices would spread it over all cells.
    """
    if not np.isfinite(image).all():
        sampled = reduce(np.add, _weighted_neighbours(image, down, across))
        averages: Array = _by_cell(sampled, rows, columns).mean(axis=(2, 4))
        return averages
    height, width = image.shape[1:]
    left = _mean_matrix(down, rows, height).astype(image.dtype)
    right = _mean_matrix(across, columns, width).astype(image.dtype)
    means: Array = np.matmul(np.matmul(left, image), right.T)
    return means


def _mean_matrix(samples: Samples, count: int, size: int) -> Array:
    low, high, low_weight, high_weight = samples
    cells = len(low) // count
    matrix = np.zeros((cells, size))
    cell = np.repeat(np.arange(cells), count)
    np.add.at(matrix, (cell, low), low_weight / count)
    np.add.at(matrix, (cell, high), high_weight / count)
    return matrix


def _align_max(image: Array, down: Samples, across: Samples, rows: int, columns: int) -> Array:
    """The largest of the four weighted neighbours of all samples in a cell, as in the specification's test cases."""
    best = reduce(np.maximum, _weighted_neighbours(image, down, across))
    largest: Array = _by_cell(best, rows, columns).max(axis=(2, 4))
    return largest


def _weighted_neighbours(image: Array, down: Samples, across: Samples) -> Iterator[Array]:
    """The four pixels around each sample, each times its weight."""
    for y, y_weight in ((down[0], down[2]), (down[1], down[3])):
        for x, x_weight in ((across[0], across[2]), (across[1], across[3])):
            yield image[:, y[:, None], x] * (y_weight[:, None] * x_weight).astype(image.dtype)


def _by_cell(sampled: Array, rows: int, columns: int) -> Array:
    """Samples as (channel, cell down, its rows, cell across, its columns)."""
    return sampled.reshape(len(sampled), -1, rows, sampled.shape[2] // columns, columns)
