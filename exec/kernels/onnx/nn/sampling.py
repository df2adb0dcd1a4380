"""GridSample and AffineGrid."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.onnx.nn.resampling import cubic
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.dtypes import narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size, empty
from onnx_workbench.exec.values.limits import checkpoint


@kernel("GridSample", since=16)
def grid_sample_16(
    x: Array, grid: Array, *, align_corners: int = 0, mode: str = "bilinear", padding_mode: str = "zeros"
) -> Array:
    """Values of (N, C, H, W) at the positions of grid (N, H_out, W_out, 2), each from -1 to 1, x before y."""
    return _grid_sample(x, grid, align_corners, mode, padding_mode)


@kernel("GridSample", since=20)
def grid_sample_20(
    x: Array, grid: Array, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Array:
    """As before over any number of spatial axes."""
    return _grid_sample(x, grid, align_corners, mode, padding_mode)


#: Positions that AffineGrid transforms at a time.
_POINTS = 1 << 17
_MODES = {"bilinear": "linear", "linear": "linear", "bicubic": "cubic", "cubic": "cubic", "nearest": "nearest"}


def _grid_sample(x: Array, grid: Array, align_corners: int, mode: str, padding_mode: str) -> Array:
    rank = x.ndim - 2
    if rank < 1 or grid.ndim != x.ndim or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
        msg = f"X has shape {x.shape} and grid {grid.shape}, expected (N, C, …) and (N, …, {max(rank, 1)})"
        raise KernelError(msg)
    if mode not in _MODES or padding_mode not in ("zeros", "border", "reflection"):
        given = f"mode is {mode!r} and padding_mode {padding_mode!r}"
        msg = f"{given}; expected one of {', '.join(_MODES)}, and zeros, border or reflection"
        raise KernelError(msg)
    if 0 in x.shape[2:]:
        msg = f"X has shape {x.shape}, which holds nothing to sample; expected spatial sizes from 1"
        raise KernelError(msg)
    numbers = x.dtype.kind not in "OU"
    source = widen(x) if numbers else x
    if source.dtype.kind in "iu" and _MODES[mode] != "nearest":
        source = source.astype(np.float64)
    out = empty((x.shape[0], x.shape[1], *grid.shape[1:-1]), source.dtype)
    places = widen(grid).astype(np.float64)
    for n in range(x.shape[0]):
        checkpoint()
        axes = [
            _taps(places[n, ..., rank - 1 - axis], size, bool(align_corners), _MODES[mode], padding_mode)
            for axis, size in enumerate(x.shape[2:])
        ]
        out[n] = _sampled(source[n], axes, _MODES[mode])
    if x.dtype.kind in "iu" and out.dtype != x.dtype:
        limits = np.iinfo(x.dtype)
        return np.clip(np.trunc(out), limits.min, limits.max).astype(x.dtype)
    return narrow(out, x.dtype) if numbers else out


Taps = list[tuple[Array, Array, Array]]  # per neighbour: index, weight, whether it lies inside


def _taps(position: Array, size: int, align_corners: bool, mode: str, padding: str) -> Taps:
    """Return the neighbours of positions (-1 to 1) along one axis, with weights."""
    at = (position + 1) / 2 * (size - 1) if align_corners else ((position + 1) * size - 1) / 2
    at = np.where(np.isfinite(at), at, -100.0 - size)  # no number: outside
    if mode == "nearest":
        offsets: tuple[int, ...] = (0,)
        base = np.rint(at) if padding == "zeros" else np.rint(_inside(at, size, align_corners, padding))
        weights = [np.ones_like(at)]
    elif mode == "linear":
        at = at if padding == "zeros" else _inside(at, size, align_corners, padding)
        base = np.floor(at)
        part = at - base
        offsets, weights = (0, 1), [1 - part, part]
    else:
        base = np.floor(at)
        part = at - base
        offsets = (-1, 0, 1, 2)
        weights = [cubic(np.abs(part - o), -0.75) for o in offsets]
    result = []
    for offset, weight in zip(offsets, weights, strict=True):
        index = base + offset
        if padding == "reflection":
            index = np.rint(_reflected(index, size, align_corners))
        valid = (index >= 0) & (index < size) | (padding != "zeros")
        result.append((np.clip(index, 0, size - 1).astype(np.intp), weight, valid))
    return result


def _inside(at: Array, size: int, align_corners: bool, padding: str) -> Array:
    moved = _reflected(at, size, align_corners) if padding == "reflection" else at
    return np.clip(moved, 0, size - 1)


def _reflected(at: Array, size: int, align_corners: bool) -> Array:
    """Reflect positions at the borders as often as needed."""
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    span = high - low
    if span <= 0:
        return np.zeros_like(at)
    folded = np.mod(at - low, 2 * span)
    return low + np.where(folded > span, 2 * span - folded, folded)


def _sampled(image: Array, axes: list[Taps], mode: str) -> Array:
    """Return the weighted sum of neighbours of (C, sizes…)."""
    if mode == "nearest":
        index: tuple[Any, ...] = (slice(None), *(taps[0][0] for taps in axes))
        value: Array = image[index]
        valid = np.logical_and.reduce([taps[0][2] for taps in axes])
        return (
            value if valid.all() else np.where(valid, value, np.zeros((), image.dtype) if image.dtype != object else "")
        )
    total: Any = None
    for corner in product(*axes):
        _, share, seen = corner[0]
        for _, weight, valid in corner[1:]:
            share, seen = share * weight, seen & valid
        index = (slice(None), *(tap[0] for tap in corner))
        value = image[index]
        if not seen.all():  # zero outside, even if multiplied by NaN or infinity
            np.copyto(value, 0, where=~seen)
        np.multiply(value, share.astype(image.dtype), out=value)
        total = value if total is None else np.add(total, value, out=total)
    result: Array = total
    return result


@kernel("AffineGrid", since=20)
def affine_grid_20(theta: Array, size: Array, *, align_corners: int = 0) -> Array:
    """Positions of a regular grid of `size` (N, C, spatial…) transformed by affine matrices (N, rank, rank + 1)."""
    sizes = tuple(int(v) for v in size.reshape(-1))
    rank = len(sizes) - 2
    if rank not in (2, 3) or theta.shape != (sizes[0], rank, rank + 1) or min(sizes) < 0:
        msg = f"theta has shape {theta.shape} and size is {sizes}, expected (N, 2, 3) and 4 numbers, or (N, 3, 4) and 5"
        raise KernelError(msg)
    check_size((*sizes[2:], rank + 1), np.float64)
    lines = [
        np.linspace(-1, 1, n) if align_corners and n > 1 else (2 * np.arange(n) + 1) / max(n, 1) - 1 for n in sizes[2:]
    ]
    if align_corners:
        lines = [line if n > 1 else np.full(n, -1.0) for line, n in zip(lines, sizes[2:], strict=True)]
    mesh = np.meshgrid(*lines, indexing="ij")
    points = np.stack([*reversed(mesh), np.ones(sizes[2:])], axis=-1).reshape(-1, rank + 1)
    grid: Array = empty((sizes[0], len(points), rank), theta.dtype)
    for target, matrix in zip(grid, widen(theta).astype(np.float64), strict=True):
        for start in range(0, len(points), _POINTS):
            checkpoint()
            target[start : start + _POINTS] = np.matmul(points[start : start + _POINTS], matrix.T)
    return grid.reshape(sizes[0], *sizes[2:], rank)
