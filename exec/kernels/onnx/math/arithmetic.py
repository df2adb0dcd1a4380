"""Arithmetic of two or more tensors: Add, Sub, Mul, Div, Pow, Mod, and the variadic Max, Min, Sum, Mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.blocks import apply, at_least, at_most
from onnx_workbench.exec.kernels.shared.broadcast import binary, broadcast_shape, check_one_type, legacy_operand
from onnx_workbench.exec.kernels.shared.dtypes import FLOAT64, compute_dtype, is_float, narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size, empty

# Saves a function call, a tenth of the time for a few numbers.
add_7 = kernel("Add", since=7)(partial(binary, np.add))
sub_7 = kernel("Sub", since=7)(partial(binary, np.subtract))
mul_7 = kernel("Mul", since=7)(partial(binary, np.multiply))


@kernel("Div", since=7)
def div_7(a: Array, b: Array) -> Array:
    """Return the elementwise quotient; integers are truncated towards zero and give 0 for a divisor of 0."""
    if a.dtype.kind not in "iu":
        return binary(np.divide, a, b)
    if a.dtype.kind == "u" or (a.size and b.size and a.min() >= 0 and b.min() >= 0):
        return binary(np.floor_divide, a, b)
    # What the remainder with the sign of `a` leaves is a multiple of `b`, which floor_divide divides exactly.
    quotient = binary(np.fmod, a, b)
    np.subtract(a, quotient, quotient)
    return np.floor_divide(quotient, b, out=quotient)


def _legacy(function: Callable[[Array, Array], Array], op_type: str) -> None:
    def old(a: Array, b: Array, *, axis: int | None = None, broadcast: int = 0) -> Array:
        return function(a, legacy_operand(a, b, broadcast, axis))

    kernel(op_type, since=1)(old)


_legacy(add_7, "Add")
_legacy(sub_7, "Sub")
_legacy(mul_7, "Mul")
_legacy(div_7, "Div")


@kernel("Pow", since=7)
def pow_7(x: Array, y: Array) -> Array:
    """`x` to the power of `y`, in the type of `x`; the two may differ in type from opset 12."""
    if y.size == 1 and is_float(x.dtype):
        result = _simple_power(x, float(y.reshape(-1)[0]))
        if result is not None:
            return result.reshape(broadcast_shape(x, y))
    if is_float(x.dtype):
        wide = np.promote_types(compute_dtype(x.dtype), compute_dtype(y.dtype)) if is_float(y.dtype) else None
        wide = wide or compute_dtype(x.dtype)
        return narrow(binary(np.power, x.astype(wide, copy=False), y.astype(wide, copy=False)), x.dtype)
    if is_float(y.dtype) or (y.size and y.dtype.kind == "i" and y.min() < 0):
        return binary(np.power, x.astype(FLOAT64), y.astype(FLOAT64)).astype(x.dtype)
    wide = np.dtype(np.uint64 if x.dtype.kind == "u" else np.int64)
    return binary(np.power, x.astype(wide), y.astype(wide)).astype(x.dtype)


def _simple_power(x: Array, exponent: float) -> Array | None:
    """Compute `x` to a power by multiplications or a root; None for other exponents."""
    if exponent == 2:
        return apply(np.square, x)
    if exponent == 1:
        return x
    if exponent == -1:
        return apply(np.reciprocal, x)
    if exponent in (3, 4):
        wide = widen(x)
        result = np.asarray(np.square(wide))
        if exponent == 3:
            np.multiply(result, wide, out=result)
        else:
            np.square(result, out=result)
        return narrow(result, x.dtype)
    # A root differs from the power at minus infinity and minus zero.
    if exponent == 0.5 and x.size and widen(x).min() > 0:
        return apply(np.sqrt, x)
    return None


@kernel("Pow", since=1)
def pow_1(x: Array, y: Array, *, axis: int | None = None, broadcast: int = 0) -> Array:
    """With the broadcasting of opsets before 7."""
    return pow_7(x, legacy_operand(x, y, broadcast, axis))


@kernel("Mod", since=10)
def mod_10(a: Array, b: Array, *, fmod: int = 0) -> Array:
    """The remainder with the sign of `b`, or with fmod=1 with that of `a`; integers give 0 for a divisor of 0."""
    if fmod not in (0, 1):
        msg = f"attribute fmod is {fmod}; expected 0 or 1"
        raise KernelError(msg)
    return narrow(binary(np.fmod if fmod else np.mod, widen(a), widen(b)), a.dtype)


# --- any number of inputs --------------------------------------------------------------------------------------


def _fold(ufunc: np.ufunc, inputs: tuple[Array, ...]) -> Array:
    """Reduce the inputs from left to right in one array; short floats in a wide type."""
    if not inputs:
        msg = "the operator has no input; it needs at least one"
        raise KernelError(msg)
    dtype = inputs[0].dtype
    if len(inputs) == 1:
        return inputs[0]
    wide = compute_dtype(dtype)
    if len(inputs) == 2 and wide == dtype:
        return binary(ufunc, *inputs)
    check_one_type(*inputs)
    result = empty(broadcast_shape(*inputs), wide)
    first, second, *others = (widen(x) for x in inputs)
    ufunc(first, second, out=result)
    for other in others:
        ufunc(result, other, out=result)
    return narrow(result, dtype)


def _extreme(ufunc: np.ufunc, bound: Callable[[Array, Any], Array], inputs: tuple[Array, ...]) -> Array:
    """Reduce by maximum or minimum; `bound` does it with one number."""
    if len(inputs) == 2:
        x, limit = inputs if inputs[1].size == 1 else inputs[::-1]
        if (
            limit.size == 1
            and limit.ndim <= x.ndim > 0
            and x.dtype == limit.dtype
            and compute_dtype(x.dtype) == x.dtype
        ):
            check_size(x.shape, x.dtype)
            return bound(x, limit.reshape(()))
    return _fold(ufunc, inputs)


@kernel("Max", since=1)
def max_1(*data_0: Array) -> Array:
    """Return the elementwise maximum; NaN wins."""
    return _extreme(np.maximum, at_least, data_0)


@kernel("Min", since=1)
def min_1(*data_0: Array) -> Array:
    """Return the elementwise minimum; NaN wins."""
    return _extreme(np.minimum, at_most, data_0)


@kernel("Sum", since=1)
def sum_1(*data_0: Array) -> Array:
    """Return the elementwise sum."""
    return _fold(np.add, data_0)


@kernel("Mean", since=1)
def mean_1(*data_0: Array) -> Array:
    """Return the elementwise mean."""
    if len(data_0) == 1:
        return data_0[0]
    dtype = data_0[0].dtype
    total = _fold(np.add, tuple(widen(x) for x in data_0))
    np.divide(total, len(data_0), out=total)
    return narrow(total, dtype)
