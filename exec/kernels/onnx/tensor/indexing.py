"""Gather and Scatter operators: elements read or written by index.

All indices become flat offsets first: one bounds check, one `take` or one assignment, whatever the rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import normal_axis, scalar_int
from onnx_workbench.exec.kernels.shared.blocks import parts
from onnx_workbench.exec.kernels.shared.dtypes import narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size, full
from onnx_workbench.exec.values.limits import checkpoint
from onnx_workbench.exec.values.statistics import describe

_ALL = slice(None)


@kernel("Gather", since=1)
def gather_1(data: Array, indices: Array, *, axis: int = 0) -> Array:
    """Slices of `data` along `axis`; a single index gives a view."""
    axis = normal_axis(axis, data.ndim)
    length = data.shape[axis]
    if indices.dtype.kind not in "iu":
        msg = f"indices are {describe(indices)}; expected integers"
        raise KernelError(msg)
    if indices.ndim == 0:
        index = int(indices)
        if not -length <= index < length:
            raise _out_of_range(index, index, length, f"axis {axis}")
        before: tuple[Any, ...] = (_ALL,) * axis
        return data[(*before, index, ...)]
    check_size((*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]), data.dtype)
    try:
        if not data.flags.c_contiguous:
            # `take` would copy all of a view first.
            every: tuple[Any, ...] = (_ALL,) * axis
            return np.asarray(data[(*every, indices)])
        return data.take(indices, axis)
    except IndexError:
        raise _out_of_range(int(indices.min()), int(indices.max()), length, f"axis {axis}") from None


def _out_of_range(low: int, high: int, length: int, what: str) -> KernelError:
    found = str(low) if low == high else f"from {low} to {high}"
    return KernelError(f"index {found} for {what} of length {length}; expected within [{-length}, {length - 1}]")


def _within(indices: Array, length: int, what: str) -> Array:
    """Return the indices as int64 counted from the front; KernelError when one is out of range."""
    if indices.dtype.kind not in "iu":
        msg = f"indices are {describe(indices)}; expected integers"
        raise KernelError(msg)
    indices = indices.astype(np.int64, copy=False)
    if not indices.size:
        return indices
    low, high = int(indices.min()), int(indices.max())
    if low < -length or high >= length:
        raise _out_of_range(low, high, length, what)
    return indices if low >= 0 else np.where(indices < 0, indices + length, indices)


@kernel("GatherElements", since=11)
def gather_elements_11(data: Array, indices: Array, *, axis: int = 0) -> Array:
    """One element of `data` per index; the index replaces the coordinate of `axis`."""
    check_size(indices.shape, data.dtype)
    return data.reshape(-1).take(_element_offsets(data.shape, indices, axis))


def _element_offsets(shape: Sequence[int], indices: Array, axis: int) -> Array:
    """Return flat offsets in `shape` of the coordinates of `indices`, with that of `axis` replaced."""
    axis = normal_axis(axis, len(shape))
    if indices.ndim != len(shape) or any(
        n > m for i, (n, m) in enumerate(zip(indices.shape, shape, strict=True)) if i != axis
    ):
        given = f"indices of shape {indices.shape} do not fit data of shape {tuple(shape)} outside axis {axis}"
        msg = f"{given}; expected as many axes, none longer"
        raise KernelError(msg)
    places = _within(indices, shape[axis], f"axis {axis}")
    stride = prod(shape[axis + 1 :])
    rest = np.zeros((1,) * len(shape), np.int64)  # offsets of the other axes, of length 1 along this one
    for i, n in enumerate(indices.shape):
        if i != axis and n > 1:
            steps = np.arange(n) * prod(shape[i + 1 :])
            rest = rest + steps.reshape([-1 if k == i else 1 for k in range(len(shape))])
    return np.asarray((places if stride == 1 else places * stride) + rest)


@kernel("GatherND", since=11, without=("batch_dims",))
@kernel("GatherND", since=12)
def gather_nd_12(data: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    """Slices of `data`, one per row of the last axis of `indices`; the first `batch_dims` axes are shared."""
    depth = indices.shape[-1] if indices.ndim else -1
    if not 0 <= batch_dims < indices.ndim or not 0 <= depth <= data.ndim - batch_dims:
        given = f"indices of shape {indices.shape} with batch_dims {batch_dims} do not fit data of shape {data.shape}"
        msg = f"{given}; expected batch_dims below their ranks and at most one coordinate for each other axis of data"
        raise KernelError(msg)
    batch = data.shape[:batch_dims]
    if batch != indices.shape[:batch_dims]:
        given = f"the first {batch_dims} dimensions of data {data.shape} and indices {indices.shape} differ"
        msg = f"{given}; expected the same"
        raise KernelError(msg)
    outer = data.shape[batch_dims : batch_dims + depth]
    inner = data.shape[batch_dims + depth :]
    result = (*indices.shape[:-1], *inner)
    check_size(result, data.dtype)
    rows = _row_offsets(indices, outer)
    if batch_dims:
        starts = np.arange(prod(batch)) * prod(outer)
        rows = rows.reshape(prod(batch), prod(indices.shape[batch_dims:-1])) + starts[:, None]
    flat = data.reshape(prod(batch) * prod(outer), prod(inner))
    return flat.take(rows.reshape(-1), 0).reshape(result)


def _row_offsets(indices: Array, shape: Sequence[int]) -> Array:
    """Convert the last axis of `indices`, coordinates in `shape`, to flat offsets."""
    offsets = np.zeros(indices.shape[:-1], np.int64)
    for k, n in enumerate(shape):
        offsets *= n
        offsets += _within(indices[..., k], n, f"coordinate {k}")
    return offsets


#: Elements from which on a row is reduced faster at once than element by element.
_LEAST_ROW = 128

_REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _write(data: Array, offsets: Array, updates: Array, reduction: str) -> Array:
    """Return a copy of `data` with `updates` written or reduced in at flat element offsets."""
    if updates.dtype != data.dtype:
        msg = f"updates are {describe(updates)}, data {describe(data)}; expected the same type"
        raise KernelError(msg)
    flat, given = offsets.reshape(-1), updates.reshape(-1)
    if reduction == "none":
        result = data.copy()
        target = result.reshape(-1)
        for part in parts(flat.size):
            target[flat[part]] = given[part]
        return result
    if reduction not in _REDUCTIONS or data.dtype.kind == "O":
        msg = f"reduction is {reduction!r} on {describe(data)}; expected none, add, mul, max or min, strings only none"
        raise KernelError(msg)
    wide = widen(data)
    result = wide.copy() if wide is data else wide
    # `ufunc.at` has its fast path for one-dimensional indices.
    target, wide_given = result.reshape(-1), widen(given)
    for part in parts(flat.size):
        _REDUCTIONS[reduction].at(target, flat[part], wide_given[part])
    return narrow(result, data.dtype)


@kernel("Scatter", since=9, without=("reduction",))
@kernel("ScatterElements", since=11, without=("reduction",))
@kernel("ScatterElements", since=16)
def scatter_elements_16(
    data: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: str = "none"
) -> Array:
    """Write or reduce one element per index, which replaces the coordinate of `axis`."""
    if indices.shape != updates.shape:
        msg = f"indices of shape {indices.shape} and updates of shape {updates.shape}; expected the same"
        raise KernelError(msg)
    data = np.ascontiguousarray(data) if data.ndim else data
    rows = _whole_rows(data, indices, axis)
    if rows is not None and _can_reduce_rows(data, updates, reduction):
        return _reduce_rows(data, rows, updates, reduction)
    return _write(data, _element_offsets(data.shape, indices, axis), updates, reduction)


def _whole_rows(data: Array, indices: Array, axis: int) -> Array | None:
    """Return the row of the data that each row of the updates goes to, where all its elements go to one; else None.

    Graph networks give one index per edge, repeated for each of its features.
    """
    if indices.ndim != data.ndim or data.ndim < 2 or indices.shape[1:] != data.shape[1:] or not indices.size:
        return None
    flat = indices.reshape(len(indices), -1)
    if normal_axis(axis, data.ndim) or not (flat == flat[:, :1]).all():
        return None
    return _within(flat[:, 0], len(data), "axis 0")


def _can_reduce_rows(data: Array, updates: Array, reduction: str) -> bool:
    """Return whether to reduce row by row: in long rows of the same type."""
    return reduction in _REDUCTIONS and updates.dtype == data.dtype != object and prod(data.shape[1:]) >= _LEAST_ROW


def _reduce_rows(data: Array, rows: Array, updates: Array, reduction: str) -> Array:
    """Return a copy of `data` with each row of the updates reduced into one of its rows, one after the other."""
    ufunc, wide, given = _REDUCTIONS[reduction], widen(data), widen(updates)
    result = wide.copy() if wide is data else wide
    for number, row in enumerate(rows.tolist()):
        if number % 4096 == 0:
            checkpoint()
        ufunc(result[row], given[number], out=result[row])
    return narrow(result, data.dtype)


@kernel("ScatterND", since=11, without=("reduction",))
@kernel("ScatterND", since=16)
def scatter_nd_16(data: Array, indices: Array, updates: Array, *, reduction: str = "none") -> Array:
    """Write or reduce slices, one per row of the last axis of `indices`."""
    depth = indices.shape[-1] if indices.ndim else -1
    if not 0 <= depth <= data.ndim:
        msg = f"indices of shape {indices.shape} for data of shape {data.shape}; expected rows of at most {data.ndim}"
        raise KernelError(msg)
    inner = data.shape[depth:]
    if updates.shape != (*indices.shape[:-1], *inner):
        msg = f"updates of shape {updates.shape}; expected {(*indices.shape[:-1], *inner)}"
        raise KernelError(msg)
    rows = _row_offsets(indices, data.shape[:depth]).reshape(-1)
    data = np.ascontiguousarray(data) if data.ndim else data
    if reduction == "none" and updates.dtype == data.dtype:
        result = data.copy()
        result.reshape(prod(data.shape[:depth]), prod(inner))[rows] = updates.reshape(len(rows), prod(inner))
        return result
    matrix, given = data.reshape(prod(data.shape[:depth]), prod(inner)), updates.reshape(len(rows), prod(inner))
    if _can_reduce_rows(matrix, given, reduction):
        return _reduce_rows(matrix, rows, given, reduction).reshape(data.shape)
    offsets = rows[:, None] * prod(inner) + np.arange(prod(inner))
    return _write(data, offsets, updates.reshape(offsets.shape), reduction)


@kernel("TensorScatter", since=24)
def tensor_scatter_24(
    past_cache: Array,
    update: Array,
    write_indices: Array | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Array:
    """Write the update into a copy of the cache, from each batch entry's own position on."""
    axis = normal_axis(axis, past_cache.ndim)
    room, steps = past_cache.shape[axis], update.shape[axis] if update.ndim == past_cache.ndim else -1
    expected = (*past_cache.shape[:axis], steps, *past_cache.shape[axis + 1 :])
    if axis == 0 or update.shape != expected or not 0 <= steps <= room or mode not in ("linear", "circular"):
        msg = (
            f"update of shape {update.shape}, cache of shape {past_cache.shape}, axis {axis}, mode {mode!r}; expected "
            "shapes that differ only along an axis after the batch, and the mode linear or circular"
        )
        raise KernelError(msg)
    batch = past_cache.shape[0]
    starts = np.zeros(batch, np.int64) if write_indices is None else np.asarray(write_indices, np.int64)
    if starts.shape != (batch,):
        msg = f"write_indices of shape {starts.shape}; expected ({batch},)"
        raise KernelError(msg)
    places = starts[:, None] + np.arange(steps)
    if mode == "circular":
        places %= max(room, 1)
    elif places.size and not 0 <= places.min() <= places.max() < room:
        given = f"steps {places.min()} to {places.max()} are written to a cache of length {room}"
        msg = f"{given}; expected within [0, {room - 1}]"
        raise KernelError(msg)
    result = past_cache.copy()
    np.moveaxis(result, axis, 1)[np.arange(batch)[:, None], places] = np.moveaxis(update, axis, 1)
    return result


@kernel("OneHot", since=9)
def one_hot_9(indices: Array, depth: Array, values: Array, *, axis: int = -1) -> Array:
    """values[1] where the index along the new axis equals the entry of `indices`, else values[0]."""
    whole = indices.astype(np.int64, copy=False)
    return _one_hot(whole, scalar_int(depth, "depth"), values, axis)


@kernel("OneHot", since=11)
def one_hot_11(indices: Array, depth: Array, values: Array, *, axis: int = -1) -> Array:
    """With negative indices counting from the end."""
    count = scalar_int(depth, "depth")
    whole = indices.astype(np.int64, copy=False)
    return _one_hot(np.where(whole < 0, whole + count, whole), count, values, axis)


def _one_hot(indices: Array, depth: int, values: Array, axis: int) -> Array:
    axis = normal_axis(axis, indices.ndim + 1)
    if depth < 0 or values.shape != (2,):
        msg = f"depth is {depth} and values of shape {values.shape}; expected a depth from 0 and values of shape (2,)"
        raise KernelError(msg)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    result = full(shape, values[0], values.dtype)
    if not result.size:
        return result
    inner = prod(indices.shape[axis:])
    flat = indices.reshape(-1)
    hit = np.flatnonzero((flat >= 0) & (flat < depth))
    before, after = np.divmod(hit, inner)
    result.reshape(-1)[(before * depth + flat[hit]) * inner + after] = values[1]
    return result


@kernel("Compress", since=9)
def compress_9(x: Array, condition: Array, *, axis: int | None = None) -> Array:
    """Return the slices along `axis`, or elements of the flattened input, where the condition holds.

    The condition may be shorter; where it is longer, which the specification excludes, its tail is ignored as in ONNX
    Runtime.
    """
    if condition.ndim != 1:
        msg = f"condition has shape {list(condition.shape)}; expected one dimension"
        raise KernelError(msg)
    flat = x.reshape(-1) if axis is None else x
    along = 0 if axis is None else normal_axis(axis, x.ndim)
    return flat.take(np.flatnonzero(condition[: flat.shape[along]]), along)
