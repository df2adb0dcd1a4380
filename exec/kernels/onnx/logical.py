"""Logic and comparison, bitwise logic and shifts."""

from __future__ import annotations

from functools import partial

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.broadcast import binary, legacy_operand
from onnx_workbench.exec.values.arrays import Array


def _register(op_type: str, since: int, ufunc: np.ufunc, *, legacy: bool = True) -> None:
    """Register a comparison or logical operation; with a version for the broadcasting of opsets before 7."""

    def old(a: Array, b: Array, *, axis: int | None = None, broadcast: int = 0) -> Array:
        return binary(ufunc, a, legacy_operand(a, b, broadcast, axis))

    kernel(op_type, since=since)(partial(binary, ufunc))
    if legacy:
        kernel(op_type, since=1)(old)


_register("And", 7, np.logical_and)
_register("Or", 7, np.logical_or)
_register("Xor", 7, np.logical_xor)
_register("Equal", 7, np.equal)
_register("Greater", 7, np.greater)
_register("Less", 7, np.less)
_register("GreaterOrEqual", 12, np.greater_equal, legacy=False)
_register("LessOrEqual", 12, np.less_equal, legacy=False)


@kernel("Not", since=1)
def not_1(x: Array) -> Array:
    """Return the negation of booleans."""
    return np.asarray(np.logical_not(x))


kernel("BitwiseAnd", since=18)(partial(binary, np.bitwise_and))
kernel("BitwiseOr", since=18)(partial(binary, np.bitwise_or))
kernel("BitwiseXor", since=18)(partial(binary, np.bitwise_xor))


@kernel("BitwiseNot", since=18)
def bitwise_not_18(x: Array) -> Array:
    """Return the complement of every bit."""
    return np.asarray(np.invert(x))


@kernel("BitShift", since=11)
def bit_shift_11(x: Array, y: Array, *, direction: str) -> Array:
    """Shift to the LEFT or RIGHT; signed integers keep their sign to the right, too long a shift leaves 0 or -1."""
    shifts: dict[str, np.ufunc] = {"LEFT": np.left_shift, "RIGHT": np.right_shift}
    if direction not in shifts:
        msg = f"attribute direction is {direction!r}; expected LEFT or RIGHT"
        raise KernelError(msg)
    # C leaves shifts by the width and more open; so does what numpy's vector loops make of them.
    width = 8 * x.itemsize
    excess = (y < 0) | (y >= width)
    if not excess.any():
        return binary(shifts[direction], x, y)
    result = binary(shifts[direction], x, np.where(excess, 0, y).astype(y.dtype))
    last = np.right_shift(x, x.dtype.type(width - 1)) if direction == "RIGHT" else x.dtype.type(0)
    filler = np.asarray(last) if x.dtype.kind == "i" else np.zeros((), x.dtype)
    np.copyto(result, filler, where=excess)
    return result
