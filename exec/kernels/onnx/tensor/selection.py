"""Where, NonZero, Unique, IsNaN and IsInf."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import normal_axis
from onnx_workbench.exec.kernels.shared.blocks import parts
from onnx_workbench.exec.kernels.shared.broadcast import broadcast_shape
from onnx_workbench.exec.kernels.shared.dtypes import widen
from onnx_workbench.exec.values.arrays import Array, check_size
from onnx_workbench.exec.values.statistics import describe


@kernel("Where", since=9)
def where_9(condition: Array, x: Array, y: Array) -> Array:
    """`x` where the condition holds, else `y`; all three broadcast."""
    if x.dtype != y.dtype or condition.dtype.kind != "b":
        msg = f"types {describe(condition)}, {describe(x)} and {describe(y)}; expected bool and two of the same type"
        raise KernelError(msg)
    shape = x.shape
    if not condition.shape == x.shape == y.shape:
        shape = broadcast_shape(condition, x, y)
        check_size(shape, x.dtype)
    if prod(shape) < _WORTH_BITS or x.dtype.itemsize not in _INTEGERS or x.dtype.kind == "O":
        return np.where(condition, x, y)
    return _by_bits(condition, x, y, shape)


_INTEGERS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
_WORTH_BITS = 4096


def _by_bits(condition: Array, x: Array, y: Array, shape: tuple[int, ...]) -> Array:
    """Select branch-free: y ^ ((x ^ y) & mask) takes three passes, a fifth of np.where's time with its
    mispredictions.
    """
    whole = _INTEGERS[x.dtype.itemsize]
    mask = np.negative(condition.astype(whole))
    ours, theirs = x.view(whole), y.view(whole)
    result = np.empty(shape, whole)
    np.bitwise_xor(ours, theirs, out=result)
    np.bitwise_and(result, mask, out=result)
    np.bitwise_xor(result, theirs, out=result)
    return result.view(x.dtype)


@kernel("NonZero", since=9)
def non_zero_9(x: Array) -> Array:
    """Coordinates of the elements that are not zero, [rank, count]; a scalar has no coordinates."""
    if x.ndim == 0:
        return np.zeros((0, int(bool(x))), np.int64)
    check_size((x.ndim, x.size), np.int64)
    rows = widen(x)
    blocks = []
    for part in parts(len(rows), prod(x.shape[1:])):
        places = np.stack(np.nonzero(rows[part]))
        places[0] += part.start
        blocks.append(places)
    return blocks[0] if len(blocks) == 1 else np.concatenate([np.empty((x.ndim, 0), np.int64), *blocks], axis=1)


@kernel("IsNaN", since=9)
def is_nan_9(x: Array) -> Array:
    """Return whether each element is NaN."""
    return np.asarray(np.isnan(widen(x)))


@kernel("IsInf", since=10)
def is_inf_10(x: Array, *, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    """Return whether each element is an infinity of a requested sign."""
    wide = widen(x)
    if detect_negative and detect_positive:
        return np.asarray(np.isinf(wide))
    if detect_negative:
        return np.asarray(np.isneginf(wide))
    if detect_positive:
        return np.asarray(np.isposinf(wide))
    return np.zeros(x.shape, bool)


@kernel("Unique", since=11)
def unique_11(x: Array, *, axis: int | None = None, sorted_: int = 1) -> tuple[Array, ...]:
    """Distinct elements or slices, the first position of each, the index of each element among them, and counts."""
    if axis is None:
        slices = x.reshape(-1)
        first, inverse, counts = _distinct(widen(slices))
    else:
        axis = normal_axis(axis, x.ndim)
        slices = x
        first, inverse, counts = _distinct_rows(np.moveaxis(widen(x), axis, 0))
    if not sorted_:
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        first, inverse, counts = first[order], rank[inverse], counts[order]
    values = slices.take(first, axis or 0)
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


def _distinct(values: Array) -> tuple[Array, Array, Array]:
    """Return of the distinct elements of a flat array, in order: first positions, inverse indices, counts."""
    return np.unique(values, return_index=True, return_inverse=True, return_counts=True)[1:]


def _distinct_rows(rows: Array) -> tuple[Array, Array, Array]:
    """Return distinct rows along axis 0: elements become ranks, then pairs of ranks become ranks."""
    count = rows.shape[0]
    flat = rows.reshape(count, -1) if rows.size else np.zeros((count, 1), np.int64)
    ranks: Array = _distinct(flat.reshape(-1))[1].reshape(flat.shape)
    while ranks.shape[1] > 1:
        if ranks.shape[1] % 2:
            ranks = np.concatenate([ranks, np.zeros((count, 1), np.int64)], 1)
        pairs = ranks[:, ::2] * (int(ranks.max()) + 1) + ranks[:, 1::2]
        ranks = _distinct(pairs.reshape(-1))[1].reshape(pairs.shape)
    return _distinct(ranks.reshape(-1))
