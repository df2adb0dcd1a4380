"""Resize and Upsample, all versions: nearest, linear and cubic, separable by axis.

Each axis becomes a table of input indices and weights per output; short axes are then one matrix product (BLAS beats
gathering), long ones a sum of gathered rows. `sampling` holds GridSample and its relatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.dtypes import compute_dtype, narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size, empty
from onnx_workbench.exec.values.limits import checkpoint
from onnx_workbench.exec.values.statistics import describe
from onnx_workbench.model.analysis.output_sizes import common_ratio, kept_ratio_size, scaled_size

_MODES = ("nearest", "linear", "cubic")
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")
#: A longer axis is gathered instead of multiplied by a matrix that is mostly zeros.
_DENSE_AXIS = 160


@dataclass(frozen=True, slots=True)
class Options:
    """Coordinate mapping and interpolation; the attributes of Resize."""

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis to resize: sizes, the scale (exact = size / length), and the region of tf_crop_and_resize."""

    number: int
    length: int
    size: int
    scale: float
    exact: bool
    start: float = 0.0
    end: float = 1.0


@kernel("Upsample", since=1)
def upsample_1(x: Array, *, height_scale: float, mode: str = "nearest", width_scale: float) -> Array:
    """Enlarge the last two of four axes."""
    if x.ndim != 4:
        msg = f"X has shape {x.shape}, expected (N, C, H, W)"
        raise KernelError(msg)
    return _by_scales(x, (1.0, 1.0, height_scale, width_scale), mode)


@kernel("Upsample", since=7)
def upsample_7(x: Array, *, mode: str = "nearest", scales: tuple[float, ...]) -> Array:
    """Enlarge by one scale per axis."""
    return _by_scales(x, scales, mode)


@kernel("Upsample", since=9)
@kernel("Resize", since=10)
def resize_10(x: Array, scales: Array, *, mode: str = "nearest") -> Array:
    """Enlarge or shrink; nearest takes the lower neighbour when enlarging and the upper when shrinking."""
    return _by_scales(x, tuple(scales.reshape(-1).tolist()), mode)


def _by_scales(x: Array, scales: tuple[float, ...], mode: str) -> Array:
    options = Options("linear" if mode == "bilinear" else mode, "asymmetric", "simple")
    return _resize(x, None, np.asarray(scales, np.float32), None, options, None, "stretch")


@kernel("Resize", since=11)
def resize_11(
    x: Array,
    roi: Array | None,
    scales: Array | None,
    sizes: Array | None = None,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Array:
    """Resize by scales or to sizes, with a coordinate transformation mode."""
    return resize_18(
        x, roi, scales, sizes, coordinate_transformation_mode=coordinate_transformation_mode,
        cubic_coeff_a=cubic_coeff_a, exclude_outside=exclude_outside, extrapolation_value=extrapolation_value,
        mode=mode, nearest_mode=nearest_mode,
    )  # fmt: skip


@kernel("Resize", since=13, without=("antialias", "axes", "keep_aspect_ratio_policy"))
@kernel("Resize", since=18)
def resize_18(
    x: Array,
    roi: Array | None = None,
    scales: Array | None = None,
    sizes: Array | None = None,
    *,
    antialias: int = 0,
    axes: tuple[int, ...] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Array:
    """As before; roi and scales may be left out. From 18 on with axes, antialiasing, and an aspect ratio policy."""
    options = Options(
        *(mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside)),
        antialias=bool(antialias),
        extrapolation=extrapolation_value,
    )
    return _resize(x, roi, scales, sizes, options, axes, keep_aspect_ratio_policy)


def _resize(
    x: Array,
    roi: Array | None,
    scales: Array | None,
    sizes: Array | None,
    options: Options,
    axes: tuple[int, ...] | None,
    policy: str,
) -> Array:
    if options.mode not in _MODES or options.nearest not in _NEAREST:
        msg = f"mode is {options.mode!r} and nearest_mode {options.nearest!r}, expected one of {', '.join(_MODES)}"
        raise KernelError(msg)
    numbers = _axis_numbers(axes, x.ndim)
    by_scale = scales is not None and scales.size > 0
    values = tuple(_scales_or_sizes(scales if by_scale else sizes, len(numbers), is_scale=by_scale))
    crop = options.coordinates == "tf_crop_and_resize" and roi is not None and roi.size == 2 * len(numbers)
    bounds = tuple(roi.reshape(-1).astype(np.float64).tolist()) if crop and roi is not None else None
    shape, plan, active = _plan(x.shape, numbers, values, bounds, None if by_scale else policy)
    check_size(shape, compute_dtype(x.dtype) if x.dtype.kind != "O" else np.int64)
    if 0 in shape:
        return empty(shape, x.dtype)
    if 0 in x.shape:
        msg = f"X has shape {x.shape}, which holds nothing to make {shape} of; expected sizes from 1"
        raise KernelError(msg)
    result = _nearest(x, active, options) if options.mode == "nearest" else _interpolated(x, active, options)
    if options.coordinates == "tf_crop_and_resize":
        result = _extrapolated(result, plan, options)
    return result


@lru_cache(maxsize=256)
def _plan(
    shape: tuple[int, ...],
    numbers: tuple[int, ...],
    values: tuple[float, ...],
    crop: tuple[float, ...] | None,
    policy: str | None,
) -> tuple[tuple[int, ...], list[Axis], list[Axis]]:
    """Return the shape of the result, the axes to resize, and those of them that change, in the order to do it.

    `values` are sizes, without a policy scales; `crop` are the starts and ends of the axes. KernelError where these are
    inconsistent.
    """
    count = len(numbers)
    bounds = [(0.0, 1.0)] * count if crop is None else list(zip(crop[:count], crop[count:], strict=True))
    lengths = [shape[n] for n in numbers]
    ratios: Sequence[float]
    if policy is None:
        targets = [scaled_size(n, v, s, e) or 0 for n, v, (s, e) in zip(lengths, values, bounds, strict=True)]
        ratios, exact = values, False
    elif policy == "stretch":
        targets, exact = [int(v) for v in values], True
        ratios = [v / n if n else 1.0 for n, v in zip(lengths, values, strict=True)]
    else:
        ratio = _common_ratio(lengths, list(values), policy)
        targets = [kept_ratio_size(n, ratio) for n in lengths]
        ratios, exact = [ratio] * count, False
    plan = [
        Axis(n, length, target, ratio, exact, s, e)
        for n, length, target, ratio, (s, e) in zip(numbers, lengths, targets, ratios, bounds, strict=True)
    ]
    sizes = dict(enumerate(shape)) | {axis.number: axis.size for axis in plan}
    active = [a for a in plan if (a.length, a.scale, a.start, a.end) != (a.size, 1.0, 0.0, 1.0)]
    # Shrinking first leaves less work; when growing the innermost first, whose elements are strided.
    if 0 not in shape:
        active.sort(key=lambda axis: (axis.size / axis.length, -axis.number))
    return tuple(sizes.values()), plan, active


def _common_ratio(lengths: list[int], values: list[float], policy: str) -> float:
    """Return the common scale of all axes that keeps the aspect ratio."""
    if policy not in ("not_larger", "not_smaller") or 0 in lengths:
        given = f"keep_aspect_ratio_policy is {policy!r} for lengths {lengths}"
        msg = f"{given}; expected stretch, not_larger or not_smaller and lengths from 1"
        raise KernelError(msg)
    return common_ratio(lengths, values, policy)


def _axis_numbers(axes: tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    numbers = tuple(range(rank)) if axes is None else tuple(axes)
    if any(not -rank <= a < rank for a in numbers) or len({a % rank for a in numbers}) != len(numbers):
        msg = f"axes is {numbers}, expected distinct numbers from {-rank} to {rank - 1}"
        raise KernelError(msg)
    return tuple(a % rank for a in numbers)


def _scales_or_sizes(given: Array | None, count: int, *, is_scale: bool) -> list[float]:
    """Return one number per axis, at least 0; a scale is positive."""
    if given is None or given.size != count:
        have = "neither scales nor sizes" if given is None else f"{given.size} numbers"
        msg = f"got {have}, expected {count} scales or sizes: one per axis"
        raise KernelError(msg)
    values: list[float] = given.reshape(-1).tolist()
    if not all(0 <= v < 1 << 40 for v in values) or (is_scale and min(values, default=1) <= 0):
        msg = f"scales or sizes are {values}, expected positive numbers"
        raise KernelError(msg)
    return values


def coordinates(axis: Axis, options: Options) -> Array:
    """Return the input coordinate of each output of an axis, in float64."""
    length, size = axis.length, axis.size
    # A scale given as float32 is divided by in float32, or 3 / 0.6f would lie just below 5.
    kind: Any = np.float64 if axis.exact else np.float32
    at: Array = np.arange(size).astype(kind)
    result: Array
    scale = kind(axis.scale)
    match options.coordinates:
        case "half_pixel":
            result = _divided(at + kind(0.5), axis, scale) - kind(0.5)
        case "pytorch_half_pixel":
            result = _divided(at + kind(0.5), axis, scale) - kind(0.5) if size > 1 else at * 0
        case "half_pixel_symmetric":
            adjustment = size / (float(scale) * length)
            result = length / 2 * (1 - adjustment) + _divided(at + kind(0.5), axis, scale) - kind(0.5)
        case "align_corners":
            # By scales the target length may be fractional, and is used as such.
            last = size - 1 if axis.exact else float(scale) * length - 1
            result = at * kind(length - 1) / kind(last) if size > 1 and last > 0 else at * 0
        case "asymmetric":
            result = _divided(at, axis, scale)
        case "tf_half_pixel_for_nn":
            result = _divided(at + kind(0.5), axis, scale)
        case "tf_crop_and_resize":
            at = at.astype(np.float64)
            if size > 1:
                result = axis.start * (length - 1) + at * (axis.end - axis.start) * (length - 1) / (size - 1)
            else:
                result = np.full(1, 0.5 * (axis.start + axis.end) * (length - 1))
        case _:
            given = f"coordinate_transformation_mode is {options.coordinates!r}"
            msg = f"{given}; expected half_pixel, align_corners, asymmetric or another that Resize has"
            raise KernelError(msg)
    return result.astype(np.float64)


def _divided(at: Array, axis: Axis, scale: Any) -> Array:
    """Return at / scale; from exact sizes as a fraction, which keeps integers exact."""
    return at * axis.length / axis.size if axis.exact else at / scale


def _nearest(x: Array, axes: list[Axis], options: Options) -> Array:
    for axis in axes:
        times = _times(axis, options)
        x = _repeated(x, times, axis) if times else np.take(x, _indices(axis, options), axis=axis.number)
    return x


@lru_cache(maxsize=256)
def _times(axis: Axis, options: Options) -> int:
    """Return how many outputs in a row each input of an axis makes; 0 where that differs."""
    times = axis.size // axis.length
    if times * axis.length != axis.size:
        return 0
    return times if np.array_equal(_indices(axis, options), np.repeat(np.arange(axis.length), times)) else 0


def _indices(axis: Axis, options: Options) -> Array:
    """Return the nearest input of each output of an axis."""
    at = coordinates(axis, options)
    match options.nearest:
        case "round_prefer_floor":
            index = np.ceil(at - 0.5)
        case "round_prefer_ceil":
            index = np.floor(at + 0.5)
        case "floor":
            index = np.floor(at)
        case "ceil":
            index = np.ceil(at)
        case _:  # before opset 11
            index = np.ceil(at) if axis.scale < 1 else np.floor(at)
    return np.asarray(np.clip(index, 0, axis.length - 1).astype(np.intp))


def _repeated(x: Array, times: int, axis: Axis) -> Array:
    """np.repeat, which is slow for single elements: those are copied as planes."""
    if prod(x.shape[axis.number + 1 :]) > 1:
        return x.repeat(times, axis.number)
    result = empty((*x.shape, times), x.dtype)
    for copy in range(times):
        result[..., copy] = x
    return result.reshape(*x.shape[: axis.number], axis.size, *x.shape[axis.number + 1 :])


def _interpolated(x: Array, axes: list[Axis], options: Options) -> Array:
    if x.dtype.kind in "OcU":
        msg = f"mode {options.mode} is for numbers, X is {describe(x)}; expected real numbers, or mode nearest"
        raise KernelError(msg)
    result = widen(x)
    if result.dtype.kind in "iub":
        result = result.astype(np.float64)
    for axis in axes:
        index, weights = _weights(axis, options)
        result = _weighted(result, index, weights.astype(result.dtype), axis)
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        # A sum that is a whole number must stay it in spite of rounding errors.
        result = np.rint(result) if options.antialias else np.trunc(result + np.copysign(1e-6, result))
        return np.clip(result, limits.min, limits.max).astype(x.dtype)
    if x.dtype.kind == "b":
        return np.not_equal(np.trunc(result + 1e-6), 0)
    return narrow(np.ascontiguousarray(result), x.dtype)


def _weights(axis: Axis, options: Options) -> tuple[Array, Array]:
    """Return the input indices and weights per output of an axis: two (size, taps) arrays."""
    at = coordinates(axis, options)
    shrink = min(1.0, axis.scale) if options.antialias else 1.0
    half = 1 if options.mode == "linear" else 2
    reach = int(np.ceil(half / shrink))
    if reach > axis.length + 8:  # a filter wider than the axis: all positions outside have an edge value
        reach = max(reach if axis.length < 1 << 12 else axis.length + 8, half)
    check_size((axis.size, 2 * reach, 2), np.float64)
    taps = np.floor(at)[:, None] + np.arange(1 - reach, reach + 1)
    distance = np.abs(taps - at[:, None]) * shrink
    if options.mode == "linear":
        weights = np.maximum(1 - distance, 0)
    else:
        weights = cubic(distance, options.cubic_a)
    if options.exclude_outside:
        weights = np.where((taps >= 0) & (taps < axis.length), weights, 0)
    if options.exclude_outside or options.antialias:
        total = weights.sum(axis=1, keepdims=True)
        weights = np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)
    return np.clip(taps, 0, axis.length - 1).astype(np.intp), weights


def cubic(distance: Array, a: float) -> Array:
    """Keys' cubic kernel at distances ≥ 0."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _weighted(x: Array, index: Array, weights: Array, axis: Axis) -> Array:
    if axis.length <= _DENSE_AXIS and axis.length * axis.size <= 1 << 20:
        result = _by_matrix(x, index, weights, axis)
        if np.isfinite(result).all():  # in a matrix product NaN and infinity spread beyond their neighbours
            return result
    return _by_taps(x, index, weights, axis)


def _by_matrix(x: Array, index: Array, weights: Array, axis: Axis) -> Array:
    at = axis.number
    matrix = np.zeros((axis.size, axis.length), x.dtype)
    np.add.at(matrix, (np.arange(axis.size)[:, None], index), weights)
    result: Array
    if at == x.ndim - 1:
        result = np.matmul(np.ascontiguousarray(x).reshape(-1, axis.length), matrix.T)
        return result.reshape(*x.shape[:at], -1)
    trailing = int(np.prod(x.shape[at + 1 :]))
    flat = np.ascontiguousarray(x).reshape(-1, axis.length, trailing)
    result = np.matmul(matrix, flat)
    return result.reshape(*x.shape[:at], axis.size, *x.shape[at + 1 :])


def _by_taps(x: Array, index: Array, weights: Array, axis: Axis) -> Array:
    at = axis.number
    shape = (-1, *(1,) * (x.ndim - 1 - at))
    result: Array | None = None
    for tap in range(index.shape[1]):
        checkpoint()
        part = np.take(x, index[:, tap], axis=at)
        np.multiply(part, weights[:, tap].reshape(shape), out=part)
        result = part if result is None else np.add(result, part, out=result)
    assert result is not None
    return result


def _extrapolated(result: Array, plan: list[Axis], options: Options) -> Array:
    """Write the extrapolation value where any coordinate lies outside the input."""
    outside = np.zeros((1,) * result.ndim, np.bool_)
    for axis in plan:
        at = coordinates(axis, options)
        beyond = (at < 0) | (at > axis.length - 1)
        shape = [1] * result.ndim
        shape[axis.number] = axis.size
        outside = outside | beyond.reshape(shape)
    return np.where(outside, np.asarray(options.extrapolation).astype(result.dtype), result)
