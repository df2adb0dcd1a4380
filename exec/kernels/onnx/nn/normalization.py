"""Normalisations: batch, instance, group, layer, root mean square, local response, Lp, mean and variance.

All work in blocks that stay in the L2 cache, because each makes several passes over the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.kernels.onnx.reduction import mean_over
from onnx_workbench.exec.kernels.registry import kernel, prepares
from onnx_workbench.exec.kernels.shared.axes import normal_axes
from onnx_workbench.exec.kernels.shared.broadcast import unidirectional
from onnx_workbench.exec.kernels.shared.dtypes import compute_dtype, dtype_of, is_float, narrow, widen
from onnx_workbench.exec.kernels.shared.scratch import scratch
from onnx_workbench.exec.kernels.threads import PASSES, parallel_for
from onnx_workbench.exec.values.arrays import Array, empty
from onnx_workbench.model.ir.types import ElementType

_BLOCK_BYTES = 1 << 20


# Batch


@kernel("BatchNormalization", since=1)
@kernel("BatchNormalization", since=7, without=("is_test",))
@kernel("BatchNormalization", since=9, without=("is_test", "spatial"))
def batch_normalization_1(
    ctx: Context,
    x: Array,
    scale: Array,
    b: Array,
    mean: Array,
    var: Array,
    *,
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
) -> tuple[Array | None, ...]:
    """Normalize by the batch statistics (training), or by the given ones (is_test, or only Y is requested).

    Five outputs, and with spatial=0 statistics per feature of a sample.
    """
    training = not is_test and any(ctx.wanted[1:])
    shape = x.shape
    if not spatial and x.ndim > 2:
        x = x.reshape(shape[0], prod(shape[1:]))
    kept = mean.shape
    scale, b, mean, var = (v.reshape(-1) for v in (scale, b, mean, var))
    _per_channel(x, scale, b, mean, var)
    if not training:
        y = normalize_batch(x, *scale_and_shift(scale, b, mean, var, epsilon))
        return y.reshape(shape), None, None, None, None
    now_mean, now_var = _batch_statistics(x)
    y = normalize_batch(x, *scale_and_shift(scale, b, now_mean, now_var, epsilon))
    running = _running(mean, now_mean, momentum), _running(var, now_var, momentum)
    saved = now_mean.astype(mean.dtype), now_var.astype(var.dtype)
    return y.reshape(shape), *(v.reshape(kept) for v in (*running, *saved))


@kernel("BatchNormalization", since=14)
def batch_normalization_14(
    x: Array,
    scale: Array,
    b: Array,
    input_mean: Array,
    input_var: Array,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> tuple[Array, Array | None, Array | None]:
    """Normalize by the given statistics, or with training_mode by the batch's, which update the running ones."""
    if not training_mode:
        return normalize_batch(x, *scale_and_shift(scale, b, input_mean, input_var, epsilon)), None, None
    _per_channel(x, scale, b, input_mean, input_var)
    mean, var = _batch_statistics(x)
    y = normalize_batch(x, *scale_and_shift(scale, b, mean, var, epsilon))
    return y, _running(input_mean, mean, momentum), _running(input_var, var, momentum)


@prepares(batch_normalization_1, batch_normalization_14)
def prepare_batch_normalization(constants: Sequence[Array | None], **attributes: Any) -> Callable[..., Any] | None:
    """Fold constant statistics into one factor and one summand per channel (inference only)."""
    scale, b, mean, var = constants[1:5]
    if scale is None or b is None or mean is None or var is None or attributes.get("training_mode"):
        return None
    if not scale.ndim == 1 == b.ndim == mean.ndim == var.ndim or not attributes.get("spatial", 1):
        return None
    factor, summand = scale_and_shift(scale, b, mean, var, attributes.get("epsilon", 1e-5))
    single = factor.astype(np.float32)[:, None], summand.astype(np.float32)[:, None]

    def run(x: Array, *_: Array) -> tuple[Array, ...]:
        if x.ndim < 3 or x.dtype.char != "f" or x.shape[1] != len(factor) or not x.size:
            return (normalize_batch(x, factor, summand),)  # which reports what does not fit
        return (_scaled(x, *single),)

    return run


def scale_and_shift(scale: Array, b: Array, mean: Array, var: Array, epsilon: float) -> tuple[Array, Array]:
    """Convert statistics to factor and summand, in float64."""
    if not scale.shape == b.shape == mean.shape == var.shape:
        given = ", ".join(str(list(v.shape)) for v in (scale, b, mean, var))
        msg = f"scale, B, mean and var have shapes {given}; expected the same"
        raise KernelError(msg)
    factor = scale.astype(np.float64) / np.sqrt(var.astype(np.float64) + epsilon)
    return factor, b.astype(np.float64) - mean.astype(np.float64) * factor


def normalize_batch(x: Array, factor: Array, summand: Array) -> Array:
    """x · factor + summand per channel (axis 1; a vector has one channel)."""
    channels = x.shape[1] if x.ndim > 1 else 1
    if factor.shape != (channels,):
        msg = f"X has shape {x.shape}, so scale, B, mean and var need {channels} entries, not {factor.shape}"
        raise KernelError(msg)
    dtype = compute_dtype(x.dtype)
    if x.ndim < 2:
        return narrow((widen(x) * factor.astype(dtype) + summand.astype(dtype)).astype(dtype), x.dtype)
    if not x.size:
        return empty(x.shape, x.dtype)
    return _scaled(x, factor.astype(dtype)[:, None], summand.astype(dtype)[:, None])


def _scaled(x: Array, f: Array, s: Array) -> Array:
    """Compute x (N, C, …) · f + s, both (C, 1) and in the compute type."""
    dtype = f.dtype
    if x.dtype == dtype and x.nbytes <= _BLOCK_BYTES:
        per_channel = (-1, *(1,) * (x.ndim - 2))
        product: Array = np.multiply(x, f.reshape(per_channel), order="C")
        return np.add(product, s.reshape(per_channel), out=product)
    out = empty(x.shape, x.dtype)
    images, channels, inner = *x.shape[:2], prod(x.shape[2:])
    source, target = np.ascontiguousarray(x).reshape(images, channels, inner), out.reshape(images, channels, inner)
    block = max(1, min(channels, _BLOCK_BYTES // (inner * dtype.itemsize)))
    blocks = -(-channels // block)

    def one(index: int) -> None:
        image, at = divmod(index, blocks)
        part = slice(at * block, min(channels, (at + 1) * block))
        piece, result = source[image, part], target[image, part]
        if dtype != x.dtype:
            result[...] = narrow(widen(piece) * f[part] + s[part], x.dtype)
            return
        np.multiply(piece, f[part], out=result)
        np.add(result, s[part], out=result)

    parallel_for(one, images * blocks, x.size * PASSES)
    return out


def _per_channel(x: Array, *values: Array) -> None:
    channels = x.shape[1] if x.ndim > 1 else 1
    if any(v.shape != (channels,) for v in values):
        msg = f"X has shape {x.shape}, so scale, B, mean and var need {channels} entries each"
        raise KernelError(msg)


def _batch_statistics(x: Array) -> tuple[Array, Array]:
    """Mean and population variance per channel, in float64."""
    source = x.astype(np.float64) if x.ndim > 1 else x.astype(np.float64)[:, None]
    axes = (0, *range(2, source.ndim))
    mean = mean_over(source, axes)
    return mean.reshape(-1), mean_over(np.square(source - mean), axes).reshape(-1)


def _running(before: Array, now: Array, momentum: float) -> Array:
    mixed = before.astype(np.float64) * momentum + now * (1 - momentum)
    return mixed.astype(before.dtype)


# Rows: instance, group, layer, root mean square


def standardize(
    source: Array,
    out: Array,
    epsilon: float,
    after: Callable[[Array, slice], None] | None = None,
    scale: Array | None = None,
) -> tuple[Array, Array]:
    """Standardize rows (R, L) into `out`; returns mean and 1/deviation (R, 1), NaN for rows without elements.

    `after(block, rows)` finishes each block of rows while it is in cache. `scale` (R, 1) multiplies the rows too.
    """
    rows, length = source.shape
    if not length:
        nothing = np.full((rows, 1), np.nan, source.dtype)
        return nothing, nothing
    mean, inverse = np.empty((rows, 1), source.dtype), np.empty((rows, 1), source.dtype)
    shares = _shares(length, source.dtype)
    block = max(1, min(rows, _BLOCK_BYTES // max(1, length * source.itemsize)))

    def one(index: int) -> None:
        part = slice(index * block, min(rows, (index + 1) * block))
        piece, result = source[part], out[part]
        mean[part, 0] = piece @ shares
        np.subtract(piece, mean[part], out=result)
        square = np.vecdot(result, result) / length
        inverse[part, 0] = 1 / np.sqrt(square + source.dtype.type(epsilon))
        np.multiply(result, inverse[part] if scale is None else inverse[part] * scale[part], out=result)
        if after is not None:
            after(result, part)

    if 0 < rows <= block:
        one(0)
    elif rows:
        parallel_for(one, -(-rows // block), source.size * PASSES)
    return mean, inverse


@lru_cache(maxsize=64)
def _shares(length: int, dtype: np.dtype[Any]) -> Array:
    """Return what the product with a row gives the mean of."""
    shares = np.full(length, 1 / length, dtype)
    shares.flags.writeable = False
    return shares


@kernel("InstanceNormalization", since=1)
def instance_normalization_1(x: Array, scale: Array, b: Array, *, epsilon: float = 1e-5) -> Array:
    """Normalize each channel of each sample to mean 0 and variance 1, then scale (C,) and shift (C,)."""
    return _grouped(x, scale, b, (x.shape[1] if x.ndim > 1 else 0) or 1, epsilon, stash=None)


@kernel("GroupNormalization", since=18)
def group_normalization_18(x: Array, scale: Array, bias: Array, *, epsilon: float = 1e-5, num_groups: int) -> Array:
    """Normalize each group of channels of each sample; scale and bias are per group (deprecated)."""
    channels = x.shape[1] if x.ndim > 1 else 0
    each = channels // num_groups if num_groups > 0 else 0
    if scale.shape != (num_groups,) or bias.shape != (num_groups,):
        msg = f"scale has shape {scale.shape} and bias {bias.shape}, expected ({num_groups},): one per group"
        raise KernelError(msg)
    return _grouped(x, np.repeat(scale, each), np.repeat(bias, each), num_groups, epsilon, stash=None)


@kernel("GroupNormalization", since=21)
def group_normalization_21(
    x: Array, scale: Array, bias: Array, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Array:
    """As before with scale and bias per channel; the statistics are computed in `stash_type`."""
    return _grouped(x, scale, bias, num_groups, epsilon, stash=stash_type)


def _grouped(x: Array, scale: Array, bias: Array, groups: int, epsilon: float, stash: int | None) -> Array:
    channels = x.shape[1] if x.ndim > 1 else 0
    if x.ndim < 2 or groups < 1 or channels % groups or scale.shape != (channels,) or bias.shape != (channels,):
        msg = (
            f"X has shape {x.shape}, scale {scale.shape}, bias {bias.shape} for {groups} groups; expected channels "
            f"divisible by the groups and one scale and bias per channel"
        )
        raise KernelError(msg)
    dtype = compute_dtype(x.dtype if stash is None else _stash(stash))
    source = np.ascontiguousarray(x.astype(dtype, copy=False))
    result = empty(x.shape, dtype)
    if not result.size:
        return narrow(result, x.dtype)
    rows = source.reshape(x.shape[0] * groups, -1)
    if groups == channels and stash is None:  # each row has one scale and bias
        shift = np.tile(widen(bias).astype(dtype, copy=False), x.shape[0])[:, None]

        def after(block: Array, part: slice) -> None:
            np.add(block, shift[part], out=block)

        factor = np.tile(widen(scale).astype(dtype, copy=False), x.shape[0])[:, None]
        standardize(rows, result.reshape(rows.shape), epsilon, after, factor)
        return narrow(result, x.dtype)
    standardize(rows, result.reshape(rows.shape), epsilon)
    if stash is not None:  # the second stage works in the type of X
        result = narrow(result, x.dtype)
    return narrow(normalize_batch(result, scale.astype(np.float64), bias.astype(np.float64)), x.dtype)


@kernel("LayerNormalization", since=1)  # ONNX Runtime's optimizer writes it below opset 17 too
@kernel("LayerNormalization", since=17)
def layer_normalization_17(
    x: Array,
    scale: Array,
    b: Array | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Array, Array, Array]:
    """Normalize the trailing axes from `axis`, then scale and shift; also mean and 1/deviation."""
    axis = _axis(axis, x.ndim)
    stash = _stash(stash_type)
    dtype = compute_dtype(stash) if x.dtype != np.float64 else np.dtype(np.float64)
    rows = prod(x.shape[:axis])
    row, shift = _trailing(scale, x.shape, axis), None if b is None else _trailing(b, x.shape, axis)
    quick = x.dtype == dtype and row is not None and (b is None or shift is not None)
    source = np.ascontiguousarray(x.astype(dtype, copy=False)).reshape(rows, prod(x.shape[axis:]))
    result = empty(source.shape, dtype)
    if quick and row is not None:
        mean, inverse = standardize(source, result, epsilon, _affine(row, shift))
        y = result.reshape(x.shape)
    else:
        mean, inverse = standardize(source, result, epsilon)
        y = narrow(result, x.dtype).reshape(x.shape)
        y = narrow(np.asarray(widen(y) * widen(scale)), x.dtype)
        if b is not None:
            y = narrow(np.asarray(widen(y) + widen(b)), x.dtype)
    kept = (*x.shape[:axis], *(1,) * (x.ndim - axis))
    return y, narrow(mean, stash).reshape(kept), narrow(inverse, stash).reshape(kept)


def _affine(scale: Array, shift: Array | None) -> Callable[[Array, slice], None]:
    def after(block: Array, _rows: slice) -> None:
        np.multiply(block, scale, out=block)
        if shift is not None:
            np.add(block, shift, out=block)

    return after


def _trailing(value: Array, shape: tuple[int, ...], axis: int) -> Array | None:
    """Return a scale or shift as one row over the normalised axes, None when it varies over the others."""
    if value.shape == shape[axis:]:
        return np.ascontiguousarray(value).reshape(-1)
    unidirectional(value, shape)
    if value.ndim > len(shape) - axis and any(n != 1 for n in value.shape[: value.ndim - (len(shape) - axis)]):
        return None
    inner = value.reshape(value.shape[max(0, value.ndim - (len(shape) - axis)) :])
    return np.ascontiguousarray(np.broadcast_to(inner, shape[axis:])).reshape(-1)


@cache
def _stash(number: int) -> np.dtype[Any]:
    """Return the type in which `stash_type` computes the statistics."""
    dtype = dtype_of(number)
    if not is_float(dtype):
        msg = f"stash_type is {number} ({ElementType(number).text}); expected the number of a type with fractions"
        raise KernelError(msg)
    return dtype


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        msg = f"axis is {axis}, expected {-rank} to {rank - 1}"
        raise KernelError(msg)
    return axis % rank


@kernel("RMSNormalization", since=23)
def rms_normalization_23(
    x: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Array:
    """Divide the trailing axes by their root mean square, times scale; the result has the type of scale."""
    axis = _axis(axis, x.ndim)
    stash = _stash(stash_type)
    dtype = compute_dtype(stash) if x.dtype != np.float64 else np.dtype(np.float64)
    source = np.ascontiguousarray(x.astype(dtype, copy=False)).reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))
    result = empty(source.shape, dtype)
    rows, length = source.shape
    row = _trailing(scale, x.shape, axis)
    quick = row is not None and x.dtype == scale.dtype == dtype
    block = max(1, min(rows, _BLOCK_BYTES // max(1, length * dtype.itemsize)))

    def one(index: int) -> None:
        part = slice(index * block, min(rows, (index + 1) * block))
        piece = source[part]
        square = np.vecdot(piece, piece) / length
        factor = 1 / np.sqrt(square + dtype.type(epsilon))
        np.multiply(piece, factor[:, None], out=result[part])
        if quick and row is not None:
            np.multiply(result[part], row, out=result[part])

    if rows and length:
        parallel_for(one, -(-rows // block), source.size * PASSES)
    if quick:
        return result.reshape(x.shape)
    normalized = widen(narrow(result, x.dtype).reshape(x.shape))
    return narrow(np.asarray(normalized * widen(scale)).astype(compute_dtype(scale.dtype), copy=False), scale.dtype)


# Others


@kernel("MeanVarianceNormalization", since=9)
def mean_variance_normalization_9(x: Array, *, axes: tuple[int, ...] = (0, 2, 3)) -> Array:
    """Mean 0 and variance 1 over `axes`.

    Axes that `x` does not have are left out, as ONNX Runtime does: the default is meant for four dimensions.
    """
    along = normal_axes([axis for axis in axes if axis < x.ndim], x.ndim)
    source = widen(x)
    centred = source - mean_over(source, along)
    deviation = np.sqrt(mean_over(centred * centred, along))
    # The function body of the specification adds 1e-9 to the deviation.
    np.divide(centred, deviation + source.dtype.type(1e-9), out=centred)
    return narrow(centred, x.dtype)


@kernel("LpNormalization", since=1)
def lp_normalization_1(x: Array, *, axis: int = -1, p: int = 2) -> Array:
    """Each vector along `axis` over its 1- or 2-norm; a vector of zeros stays zero."""
    if p not in (1, 2):
        msg = f"p is {p}, expected 1 or 2"
        raise KernelError(msg)
    axis = _axis(axis, x.ndim)
    source = widen(x)
    if p == 1:
        norm = np.abs(source).sum(axis=axis, keepdims=True)
    else:
        norm = np.sqrt((source * source).sum(axis=axis, keepdims=True))
    result = np.zeros_like(source)
    np.divide(source, norm, out=result, where=norm != 0)
    return narrow(result, x.dtype)


@kernel("LRN", since=1)
def lrn_1(x: Array, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Array:
    """Local response normalization: each value over a power of the sum of squares in `size` neighbouring channels."""
    if x.ndim < 2 or size < 1:
        msg = f"X has shape {x.shape} and size is {size}, expected (N, C, …) and at least 1"
        raise KernelError(msg)
    source = np.ascontiguousarray(widen(x))
    result = empty(source.shape, source.dtype)
    channels, inner = x.shape[1], prod(x.shape[2:])
    if not result.size:
        return narrow(result, x.dtype)
    before, after = min((size - 1) // 2, channels), min(size // 2, channels)
    values = source.reshape(x.shape[0], channels, inner)
    target = result.reshape(values.shape)
    block = max(16, min(inner, _BLOCK_BYTES // (channels * source.itemsize)))
    blocks = -(-inner // block)

    def one(index: int) -> None:
        image, at = divmod(index, blocks)
        part = slice(at * block, min(inner, (at + 1) * block))
        piece = values[image, :, part]
        total = _neighbour_sums(piece, before, after)
        np.multiply(total, total.dtype.type(alpha / size), out=total)
        np.add(total, total.dtype.type(bias), out=total)
        _raise(total, beta)
        np.divide(piece, total, out=target[image, :, part])

    parallel_for(one, x.shape[0] * blocks, x.size * PASSES)
    return narrow(result, x.dtype)


def _neighbour_sums(piece: Array, before: int, after: int) -> Array:
    """Sums of squares of rows c - before … c + after for each row c of (C, L)."""
    channels = piece.shape[0]
    squares = scratch("lrn.squares", piece.shape, piece.dtype)
    np.multiply(piece, piece, out=squares)
    if before + after > 24:  # a wide window is quicker as a product with a banded matrix
        distance = np.arange(channels)[None] - np.arange(channels)[:, None]
        return ((distance >= -before) & (distance <= after)).astype(piece.dtype) @ squares
    total = scratch("lrn.total", piece.shape, piece.dtype)
    np.copyto(total, squares)
    for step in range(1, after + 1):
        np.add(total[: channels - step], squares[step:], out=total[: channels - step])
    for step in range(1, before + 1):
        np.add(total[step:], squares[: channels - step], out=total[step:])
    return total


def _raise(values: Array, beta: float) -> None:
    """Compute values ** beta in place; usual exponents are square roots, which are much faster than powers."""
    if beta == 0.75:
        root = scratch("lrn.root", values.shape, values.dtype)
        np.sqrt(values, out=root)
        np.sqrt(root, out=values)
        np.multiply(values, root, out=values)
    elif beta == 0.5:
        np.sqrt(values, out=values)
    elif beta != 1:
        np.power(values, values.dtype.type(beta), out=values)
