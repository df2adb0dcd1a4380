"""Reductions over axes, and ArgMax and ArgMin."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.onnx.math.arithmetic import div_7
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import integers, normal_axes, normal_axis
from onnx_workbench.exec.kernels.shared.blocks import ones
from onnx_workbench.exec.kernels.shared.dtypes import FLOAT64, integer_limits, is_float, narrow, widen
from onnx_workbench.exec.values.arrays import Array

#: reduce(x, axes) with x in a wide type and axes ascending; keeps the reduced axes with length 1.
Reduce = Callable[[Array, tuple[int, ...]], Array]

#: Rows up to this length are summed by BLAS, longer ones pairwise by numpy, which is more exact.
_LONGEST_ROW = 4096


def sum_over(x: Array, axes: tuple[int, ...]) -> Array:
    """Sum in the type of `x`; over the last axes by a product with ones where that is faster."""
    rest = x.ndim - len(axes)
    if axes and axes[0] == rest and x.dtype.kind == "f" and x.flags.c_contiguous:  # in order, so all from it on
        length = prod(x.shape[rest:])
        if 1 < length <= _LONGEST_ROW:
            sums: Array = np.matmul(x.reshape(-1, length), ones(length, x.dtype))
            return sums.reshape(x.shape[:rest] + (1,) * len(axes))
    return np.asarray(np.add.reduce(x, axis=axes, keepdims=True, dtype=x.dtype))


def mean_over(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the mean; of integers truncated. An empty mean is NaN, or 0 for integers."""
    count = prod([x.shape[a] for a in axes])
    total = sum_over(x, axes)
    if x.dtype.kind == "f":
        return np.asarray(np.divide(total, count, out=total))
    return div_7(total, np.asarray(count, x.dtype))


def _l1(x: Array, axes: tuple[int, ...]) -> Array:
    return sum_over(np.abs(x), axes)


def _l2(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(np.sqrt(_sum_square(x if x.dtype.kind == "f" else x.astype(FLOAT64), axes)))


def _sum_square(x: Array, axes: tuple[int, ...]) -> Array:
    return sum_over(np.square(x), axes)


def _prod(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(np.multiply.reduce(x, axis=axes, keepdims=True, dtype=x.dtype))


def _max(x: Array, axes: tuple[int, ...]) -> Array:
    return _extreme(np.maximum, x, axes, 0)


def _min(x: Array, axes: tuple[int, ...]) -> Array:
    return _extreme(np.minimum, x, axes, 1)


def _extreme(ufunc: np.ufunc, x: Array, axes: tuple[int, ...], end: int) -> Array:
    """Reduce by minimum or maximum; an empty set gives infinity, or the type's lowest or highest value."""
    if x.size:
        return np.asarray(ufunc.reduce(x, axis=axes, keepdims=True))
    if x.dtype.kind == "b":
        initial: Any = bool(end)
    else:
        initial = (-np.inf, np.inf)[end] if x.dtype.kind == "f" else integer_limits(x.dtype)[end]
    return np.asarray(ufunc.reduce(x, axis=axes, keepdims=True, initial=initial))


def _log_sum(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(np.log(sum_over(x if x.dtype.kind == "f" else x.astype(FLOAT64), axes)))


def _log_sum_exp(x: Array, axes: tuple[int, ...]) -> Array:
    """Subtract the maximum first, so that exp cannot overflow."""
    wide = x if x.dtype.kind == "f" else x.astype(FLOAT64)
    top = _max(wide, axes)
    # Infinity minus infinity would be NaN.
    top = np.where(np.isfinite(top), top, top.dtype.type(0))
    result = np.asarray(np.exp(wide - top))
    return np.asarray(np.log(sum_over(result, axes)) + top)


def _apply(reduce: Reduce, x: Array, axes: tuple[int, ...], keepdims: int) -> Array:
    axes = _ordered(tuple(axes), x.ndim)
    result = reduce(x if x.dtype.char in "fd" else widen(x), axes)
    if result.dtype != x.dtype:
        result = narrow(result, x.dtype)
    return result if keepdims else result.reshape([d for a, d in enumerate(x.shape) if a not in axes])


@lru_cache(maxsize=256)
def _ordered(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return axes counted from the first and ascending."""
    return tuple(sorted(normal_axes(axes, rank)))


def reduction(x: Array, axes: Array | None, keepdims: int, noop_with_empty_axes: int, reduce: Reduce) -> Array:
    """Reduce over `axes`; if absent or empty over all or none, by the attribute."""
    chosen = tuple(integers(axes, "axes")) if axes is not None else ()
    if not chosen and not noop_with_empty_axes:
        chosen = tuple(range(x.ndim))
    return _apply(reduce, x, chosen, keepdims)


def _register(op_type: str, reduce: Reduce, axes_input_since: int) -> None:
    """The version with `axes` as an attribute, and the one with an input."""

    def with_attribute(data: Array, *, axes: tuple[int, ...] | None = None, keepdims: int = 1) -> Array:
        return _apply(reduce, data, axes or tuple(range(data.ndim)), keepdims)

    def with_input(
        data: Array, axes: Array | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Array:
        return reduction(data, axes, keepdims, noop_with_empty_axes, reduce)

    kernel(op_type, since=1)(with_attribute)
    kernel(op_type, since=axes_input_since)(with_input)


_register("ReduceSum", sum_over, 13)
_register("ReduceMean", mean_over, 18)
_register("ReduceMax", _max, 18)
_register("ReduceMin", _min, 18)
_register("ReduceProd", _prod, 18)
_register("ReduceL1", _l1, 18)
_register("ReduceL2", _l2, 18)
_register("ReduceSumSquare", _sum_square, 18)
_register("ReduceLogSum", _log_sum, 18)
_register("ReduceLogSumExp", _log_sum_exp, 18)


# --- positions of the largest and smallest ---------------------------------------------------------------------


def _arg(choose: Callable[..., Any], x: Array, axis: int, keepdims: int, last: int) -> Array:
    axis = normal_axis(axis, x.ndim)
    if not x.size:
        return _arg_of_nothing(x.shape, axis, keepdims)
    source = widen(x) if is_float(x.dtype) else x
    if last:
        result = x.shape[axis] - 1 - choose(np.flip(source, axis), axis=axis)
    else:
        result = choose(source, axis=axis)
    result = np.asarray(result, np.int64)
    return np.expand_dims(result, axis) if keepdims else result


def _arg_of_nothing(shape: tuple[int, ...], axis: int, keepdims: int) -> Array:
    """Return positions for a tensor without elements; KernelError where a row without elements needs one."""
    result = np.zeros((*shape[:axis], *(1,) * bool(keepdims), *shape[axis + 1 :]), np.int64)
    if result.size:
        msg = f"axis {axis} of {list(shape)} has no elements; expected one or more to choose from"
        raise KernelError(msg)
    return result


def _register_arg(op_type: str, choose: Callable[..., Any]) -> None:
    def first(data: Array, *, axis: int = 0, keepdims: int = 1) -> Array:
        return _arg(choose, data, axis, keepdims, 0)

    def either(data: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
        return _arg(choose, data, axis, keepdims, select_last_index)

    kernel(op_type, since=1)(first)
    kernel(op_type, since=12)(either)


_register_arg("ArgMax", np.argmax)
_register_arg("ArgMin", np.argmin)
