"""Pools over windows: MaxPool, AveragePool, LpPool, and their global forms.

Maximum and sum are separable by axis, so a k×k window costs 2k passes instead of k². Padding is never materialised:
each tap only touches the outputs that see it. Blocks of channels fit the L2 cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.dtypes import narrow, widen
from onnx_workbench.exec.kernels.shared.scratch import scratch
from onnx_workbench.exec.kernels.shared.windows import Window, window
from onnx_workbench.exec.kernels.threads import PASSES, parallel_for
from onnx_workbench.exec.values.arrays import Array, check_size, empty

_BLOCK_BYTES = 1 << 19
#: Elements numpy processes at a time where rows are strided: a few rows of most maps.
_BUFFER = 1024
#: Mean factors are cached for up to this many outputs a channel.
_FEW_OUTPUTS = 1 << 14


@kernel("MaxPool", since=1, without=("ceil_mode", "dilations", "storage_order"))
@kernel("MaxPool", since=8, without=("ceil_mode", "dilations"))
@kernel("MaxPool", since=10)
def max_pool_10(
    ctx: Context,
    x: Array,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    storage_order: int = 0,
    strides: tuple[int, ...] | None = None,
) -> tuple[Array, Array | None]:
    """The largest value of each window over (N, C, spatial…), and its position from opset 8 on."""
    view = _window(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return _max_pool_with_indices(ctx, x, view, storage_order)


@kernel("AveragePool", since=1, without=("ceil_mode", "count_include_pad", "dilations"))
@kernel("AveragePool", since=7, without=("ceil_mode", "dilations"))
@kernel("AveragePool", since=10, without=("dilations",))
@kernel("AveragePool", since=19)
def average_pool_19(
    x: Array,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Array:
    """Return the mean of each window over (N, C, spatial…); padding counts as zeros only with count_include_pad.

    What a window covers beyond the declared padding never counts.
    """
    view = _window(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return _average_pool(x, view, count_include_pad)


@kernel("LpPool", since=1)
def lp_pool_1(
    x: Array,
    *,
    auto_pad: str = "NOTSET",
    kernel_shape: tuple[int, ...] | None = None,
    p: float = 2.0,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Array:
    """Return the p-norm of each window over (N, C, spatial…)."""
    if kernel_shape is None:
        msg = "kernel_shape is missing; expected a size for each spatial axis, as LpPool-1 gives no default"
        raise KernelError(msg)
    return _lp_pool(x, _window(x, kernel_shape, strides, None, pads, auto_pad, 0), p)


@kernel("LpPool", since=2, without=("ceil_mode", "dilations"))
@kernel("LpPool", since=18)
def lp_pool_18(
    x: Array,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    p: int = 2,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Array:
    """As before with a whole number p; from opset 18 on with dilations and ceil_mode."""
    return _lp_pool(x, _window(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode), p)


@kernel("GlobalAveragePool", since=1)
def global_average_pool_1(x: Array) -> Array:
    """Return the mean over all spatial axes, which stay with size 1."""
    rows, shape = _rows_per_channel(x)
    source = widen(rows)
    count = rows.shape[1]
    # The mean as a product with ones: BLAS reads memory faster than numpy's pairwise sum.
    total = source @ np.ones(count, source.dtype)
    return narrow((total / source.dtype.type(count or np.nan)).reshape(shape), x.dtype)


@kernel("GlobalMaxPool", since=1)
def global_max_pool_1(x: Array) -> Array:
    """Return the largest value over all spatial axes, which stay with size 1."""
    rows, shape = _rows_per_channel(x)
    largest: Array = np.max(rows, axis=1, initial=_lowest(x.dtype)).reshape(shape)
    return largest


@kernel("GlobalLpPool", since=1)
@kernel("GlobalLpPool", since=2, defaults={"p": 2})
def global_lp_pool_1(x: Array, *, p: float = 2.0) -> Array:
    """Return the p-norm over all spatial axes, which stay with size 1."""
    rows, shape = _rows_per_channel(x)
    return narrow(_root(_power(widen(rows), p).sum(axis=1), p).reshape(shape), x.dtype)


def _rows_per_channel(x: Array) -> tuple[Array, tuple[int, ...]]:
    if x.ndim < 2:
        msg = f"X has shape {x.shape}, expected (N, C, spatial…)"
        raise KernelError(msg)
    rows = x.reshape(x.shape[0] * x.shape[1], prod(x.shape[2:]))
    return rows, (*x.shape[:2], *(1,) * (x.ndim - 2))


def _window(
    x: Array,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
    ceil_mode: int,
) -> Window:
    if x.ndim < 3:
        msg = f"X has shape {x.shape}, expected (N, C, spatial…)"
        raise KernelError(msg)
    return window(
        x.shape[2:],
        kernel_shape,
        strides=strides,
        dilations=dilations,
        pads=pads,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        may_overhang=True,
    )


def _lowest(dtype: np.dtype[Any]) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


def _max_pool(x: Array, view: Window) -> Array:
    if x.dtype.kind == "V":  # bfloat16 has no quick maximum; float32 holds all its values
        return narrow(_max_pool(widen(x), view), x.dtype)
    return _pool(x, view, np.maximum, _lowest(x.dtype))


def _average_pool(x: Array, view: Window, include_padding: int) -> Array:
    check_size((*x.shape[:2], *view.output), np.float64)  # before anything is as long as the output
    source = widen(x)
    factors = _few_factors if prod(view.output) <= _FEW_OUTPUTS else _mean_factors
    return narrow(_pool(source, view, np.add, 0, factors(view, bool(include_padding), source.dtype)), x.dtype)


def _mean_factors(view: Window, padding: bool, dtype: np.dtype[Any]) -> Array:
    """Return one over the number of inputs in each window, in the output's spatial shape; it may be zero inputs."""
    count = np.ones((), np.float64)
    for axis in range(view.rank):
        count = count[..., None] * view.counts(axis, padding=padding)
    factors: Array = (1 / np.maximum(count, 1)).astype(dtype)
    factors.flags.writeable = False
    return factors


_few_factors = lru_cache(maxsize=64)(_mean_factors)


def _lp_pool(x: Array, view: Window, p: float) -> Array:
    return narrow(_root(_pool(_power(widen(x), p), view, np.add, 0), p), x.dtype)


def _power(x: Array, p: float) -> Array:
    if not p:
        msg = "p is 0, expected another number"
        raise KernelError(msg)
    if p == 2:
        return x * x
    return np.abs(x) if p == 1 else np.abs(x) ** x.dtype.type(p)


def _root(x: Array, p: float) -> Array:
    if p == 2:
        return np.sqrt(x)
    return x if p == 1 else x ** x.dtype.type(1 / p)


def _pool(x: Array, view: Window, combine: np.ufunc, neutral: Any, factor: Array | None = None) -> Array:
    """Fold `combine` over each window, axis by axis, in blocks of channels; `factor` multiplies the results."""
    channels = x.shape[0] * x.shape[1]
    out = empty((*x.shape[:2], *view.output), x.dtype)
    if not out.size:
        return out
    source = np.ascontiguousarray(x).reshape(channels, *view.sizes)
    target = out.reshape(channels, *view.output)
    if prod(view.output) == 1 and all(len(view.taps(axis)) == n for axis, n in enumerate(view.sizes)):
        rows = source.reshape(channels, -1)
        if combine is np.add:
            np.matmul(rows, np.ones(rows.shape[1], x.dtype), out=target.reshape(-1))
        else:
            combine.reduce(rows, axis=1, out=target.reshape(-1))
        return out if factor is None else np.multiply(out, factor, out=out)
    largest = max(prod(view.sizes), prod(view.output), 1)
    block = max(1, min(channels, _BLOCK_BYTES // (largest * x.itemsize)))
    axes = [axis for axis in range(view.rank) if not _keeps(view, axis)] or [0]

    def one(index: int) -> None:
        part = slice(index * block, min(channels, (index + 1) * block))
        current = source[part]
        for axis in axes:
            last = axis == axes[-1]
            shape = (*current.shape[: axis + 1], view.output[axis], *current.shape[axis + 2 :])
            result = target[part] if last else scratch(f"pool{axis}", shape, x.dtype)
            _fold_axis(current, result, view, axis, combine, neutral)
            current = result
        if factor is not None:
            np.multiply(current, factor, out=current)

    with np.errstate():  # which gives back the buffer size
        np.setbufsize(_BUFFER)
        parallel_for(one, -(-channels // block), source.size * PASSES)
    return out


def _keeps(view: Window, axis: int) -> bool:
    """Return whether each window is a single input along an axis, and all inputs are covered."""
    return view.kernel[axis] == view.strides[axis] == 1 and view.output[axis] == view.sizes[axis]


def _fold_axis(source: Array, out: Array, view: Window, axis: int, combine: np.ufunc, neutral: Any) -> None:
    """Fold the taps of one axis of source (C, …) into out, whose other axes are the same."""
    taps = view.taps(axis)
    if axis == view.rank - 1 and view.strides[axis] == 1 and view.output[axis] == view.sizes[axis] and len(taps) > 1:
        _fold_rows(source, out, view, combine, neutral)
        return
    at = axis + 1
    before = (slice(None),) * at
    if view.output[axis] == 1 and len(taps) > 2:
        run = slice(taps[0].source.start, taps[-1].source.stop, view.dilations[axis])
        combine.reduce(source[(*before, run)], axis=at, out=out.reshape(*out.shape[:at], *out.shape[at + 1 :]))
        return
    count = view.output[axis]
    covering = [tap for tap in taps if (tap.low, tap.high) == (0, count)][:2]
    if len(covering) == 2:
        first, second = covering
        combine(source[(*before, first.source)], source[(*before, second.source)], out=out)
    elif covering:
        np.copyto(out, source[(*before, covering[0].source)])
    else:
        out.fill(neutral)
    for tap in taps:
        if tap not in covering:
            target = out[(*before, slice(tap.low, tap.high))]
            combine(target, source[(*before, tap.source)], out=target)


def _fold_rows(source: Array, out: Array, view: Window, combine: np.ufunc, neutral: Any) -> None:
    """Fold the last axis where rows keep their length: all rows as one, then correct the ends that took from
    neighbours.
    """
    axis = view.rank - 1
    width, dilation, before = view.sizes[axis], view.dilations[axis], view.begin[axis]
    offsets = [tap.index * dilation - before for tap in view.taps(axis)]
    line, result = source.reshape(-1), out.reshape(-1)
    low = max(0, -offsets[0])
    high = max(low, len(line) - max(0, offsets[-1]))  # a single row may be all ends
    kept = result[low:high]
    combine(line[low + offsets[0] : high + offsets[0]], line[low + offsets[1] : high + offsets[1]], out=kept)
    for offset in offsets[2:]:
        combine(kept, line[low + offset : high + offset], out=kept)
    first, last = max(0, -offsets[0]), width - max(0, offsets[-1])
    for column in (*range(min(first, width)), *range(max(last, first), width)):
        seen = [column + offset for offset in offsets if 0 <= column + offset < width]
        end = out[..., column]
        np.copyto(end, source[..., seen[0]] if seen else neutral)
        for index in seen[1:]:
            combine(end, source[..., index], out=end)


def _max_pool_with_indices(ctx: Context, x: Array, view: Window, storage_order: int) -> tuple[Array, Array | None]:
    if ctx.outputs < 2 or not ctx.wanted[1]:
        return _max_pool(x, view), None
    source = widen(x)
    best: Array = empty((*x.shape[:2], *view.output), source.dtype)
    best.fill(_lowest(source.dtype))
    where: Array = np.zeros(best.shape, np.int64)
    sizes = view.sizes
    steps = [prod(sizes[i + 1 :]) if not storage_order else prod(sizes[:i]) for i in range(view.rank)]
    grids = [view.taps(axis) for axis in range(view.rank)]
    places = [np.arange(n) * step for n, step in zip(sizes, steps, strict=True)]
    seen = np.zeros(best.shape, bool)
    for number in np.ndindex(*(len(taps) for taps in grids)):
        chosen = [taps[i] for taps, i in zip(grids, number, strict=True)]
        region: tuple[Any, ...] = (..., *(slice(tap.low, tap.high) for tap in chosen))
        taken: tuple[Any, ...] = (..., *(tap.source for tap in chosen))
        value = source[taken]
        index: Array = np.zeros((), np.int64)
        for axis, tap in enumerate(chosen):
            index = index[..., None] + places[axis][tap.source]
        better = (value > best[region]) | ~seen[region]
        np.copyto(best[region], value, where=better)
        np.copyto(where[region], np.broadcast_to(index, better.shape), where=better)
        seen[region] = True
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * view.rank) * prod(sizes)
    where += planes
    return narrow(best, x.dtype), where
