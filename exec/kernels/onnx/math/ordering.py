"""TopK, and the running sums and products CumSum and CumProd."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import normal_axis, scalar_int
from onnx_workbench.exec.kernels.shared.blocks import parts
from onnx_workbench.exec.kernels.shared.dtypes import is_float, narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size
from onnx_workbench.exec.values.limits import checkpoint

#: Up to this many elements are selected one by one.
_FEW = 8
#: Sums across at least so many elements are taken step by step, which takes a call each.
_FEW_ROWS = 128


@kernel("TopK", since=1)
def top_k_1(x: Array, *, axis: int = -1, k: int) -> tuple[Array, Array]:
    """Return the k largest elements along an axis and their positions."""
    return top_k_11(x, np.array(k), axis=axis)


@kernel("TopK", since=10, without=("largest", "_sorted"))
@kernel("TopK", since=11)
def top_k_11(
    x: Array,
    k: Array,
    *,
    axis: int = -1,
    largest: int = 1,
    _sorted: int = 1,  # sorted is one of the orders sorted=0 allows
) -> tuple[Array, Array]:
    """Return the k largest or smallest elements in order, ties by position; NaN is largest."""
    axis, count = normal_axis(axis, x.ndim), scalar_int(k, "K")
    length = x.shape[axis]
    if not 0 <= count <= length:
        msg = f"K is {count}; expected within [0, {length}] for an axis of that length"
        raise KernelError(msg)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    check_size(shape, np.int64)
    rows = np.moveaxis(x, axis, -1)
    if x.size == 0 or count == 0:
        return np.empty(shape, x.dtype), np.empty(shape, np.int64)
    indices = _few_largest(rows, count) if largest and count <= _FEW else None
    if indices is None:
        keys = _order_keys(rows, bool(largest))
        paired = keys.dtype == np.uint32 and length < 1 << 32
        indices = _by_rows(keys, count, _smallest_of_pairs if paired else _smallest)
    values = np.take_along_axis(rows, indices, axis=-1)
    return np.ascontiguousarray(np.moveaxis(values, -1, axis)), np.ascontiguousarray(np.moveaxis(indices, -1, axis))


def _few_largest(rows: Array, k: int) -> Array | None:
    """Select the k largest by k maximum searches; None where that could be wrong.

    Found elements are overwritten by minus infinity; a row that ends in minus infinities is not handled here.
    """
    if rows.dtype.char not in "fd" or rows.shape[-1] < 8 * k:
        return None
    rest = rows.copy()
    indices = np.empty((*rows.shape[:-1], k), np.int64)
    for rank in range(k):
        index = np.argmax(rest, axis=-1, keepdims=True)
        indices[..., rank : rank + 1] = index
        if rank and np.isneginf(np.take_along_axis(rest, index, axis=-1)).any():
            return None
        np.put_along_axis(rest, index, -np.inf, axis=-1)
    return indices


def _by_rows(keys: Array, k: int, smallest_of: Callable[[Array, int], Array]) -> Array:
    """Return positions (…, k) of the smallest keys, some rows (rows, length) at a time."""
    rows = keys.reshape(-1, keys.shape[-1])
    result = np.empty((len(rows), k), np.int64)
    for part in parts(len(rows), rows.shape[1]):
        result[part] = smallest_of(rows[part], k)
    return result.reshape(*keys.shape[:-1], k)


def _smallest(keys: Array, k: int) -> Array:
    """Return positions of the k smallest keys, in stable order."""
    return np.argsort(keys, axis=-1, kind="stable")[:, :k]


def _smallest_of_pairs(keys: Array, k: int) -> Array:
    """Return the same with key and position packed into one number, which makes ties impossible."""
    pairs = keys.astype(np.uint64)
    np.left_shift(pairs, 32, out=pairs)
    np.bitwise_or(pairs, np.arange(keys.shape[-1], dtype=np.uint64), out=pairs)
    pairs = np.sort(np.partition(pairs, k - 1, axis=-1)[:, :k] if k < keys.shape[1] else pairs, axis=-1)
    return np.bitwise_and(pairs, np.uint64(0xFFFFFFFF)).astype(np.int64)


def _order_keys(x: Array, largest: bool) -> Array:
    """Map elements to unsigned integers of the same order, reversed for `largest`; uint32, or uint64 for wide types."""
    if is_float(x.dtype):
        keys = _float_keys(widen(x))
    elif x.dtype.kind == "i":
        unsigned = np.uint64 if x.itemsize == 8 else np.uint32
        same_width = x.astype(np.int64 if x.itemsize == 8 else np.int32, order="C")
        keys = np.bitwise_xor(same_width.view(unsigned), unsigned(1 << (8 * same_width.itemsize - 1)))
    else:
        keys = x.astype(np.uint64 if x.itemsize == 8 else np.uint32)
    return np.asarray(np.invert(keys) if largest else keys)


def _float_keys(x: Array) -> Array:
    """Map floats to sortable bits: positive ones are in order already; negative ones are inverted."""
    signed, unsigned, top = (np.int64, np.uint64, 63) if x.itemsize == 8 else (np.int32, np.uint32, 31)
    # Adding zero makes minus zero equal to zero.
    bits = np.ascontiguousarray(x + 0).view(signed)
    negative = np.right_shift(bits, top)  # all ones or all zeros
    ordered = np.bitwise_xor(bits, np.bitwise_or(negative, np.iinfo(signed).min))
    keys: Array = np.asarray(ordered).view(unsigned)
    keys[np.isnan(x)] = np.iinfo(unsigned).max
    return keys


# --- running sums and products ---------------------------------------------------------------------------------


def _run_along(ufunc: np.ufunc, source: Array, out: Array, along: int) -> None:
    """Accumulate along an axis; numpy goes through memory in its direction, which is slow across long rows."""
    steps = source.shape[along]
    if source.size < _FEW_ROWS * steps or along == source.ndim - 1:
        ufunc.accumulate(source, axis=along, dtype=source.dtype, out=out)
        return
    rows, results = np.moveaxis(source, along, 0), np.moveaxis(out, along, 0)
    for number in range(steps):
        if number % 256 == 0:
            checkpoint()
        if number:
            ufunc(results[number - 1], rows[number], out=results[number])
        else:
            np.copyto(results[0], rows[0])


def _accumulate(ufunc: np.ufunc, x: Array, axis: Array, exclusive: int, reverse: int) -> Array:
    along = normal_axis(scalar_int(axis, "axis"), x.ndim)
    source = widen(x)
    if reverse:
        source = np.flip(source, along)
    if exclusive:
        first = (slice(None),) * along
        result = np.empty_like(source)
        result[(*first, slice(0, 1))] = ufunc.identity
        _run_along(ufunc, source[(*first, slice(0, -1))], result[(*first, slice(1, None))], along)
    else:
        result = np.empty_like(source)
        _run_along(ufunc, source, result, along)
    if reverse:
        result = np.ascontiguousarray(np.flip(result, along))
    return narrow(result, x.dtype)


@kernel("CumSum", since=11)
def cum_sum_11(x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
    """Cumulative sums along an axis, from the end with `reverse`, without the element itself with `exclusive`."""
    return _accumulate(np.add, x, axis, exclusive, reverse)


@kernel("CumProd", since=26)
def cum_prod_26(x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
    """Cumulative products along an axis, with the options of CumSum."""
    return _accumulate(np.multiply, x, axis, exclusive, reverse)
