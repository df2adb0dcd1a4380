"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear: per tensor, per axis and blocked."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import normal_axis
from onnx_workbench.exec.kernels.shared.blocks import PIECE, in_pieces
from onnx_workbench.exec.kernels.shared.dtypes import (
    FLOAT32,
    cast,
    compute_dtype,
    decode,
    dtype_of,
    integer_limits,
    is_float,
    is_integer,
    is_narrow,
    widen,
)
from onnx_workbench.exec.kernels.shared.scratch import scratch
from onnx_workbench.exec.values.arrays import Array, check_size, empty

UINT8 = np.dtype(np.uint8)

#: float32 has no fractions near 1.5·2²³: adding it rounds half to even and leaves the integer in the low bits.
_ROUNDING = 1.5 * 2**23


def _laid_out(values: Array, x: Array, axis: int, block_size: int, name: str) -> Array:
    """Reshape a scale or zero point to broadcast over `x`: 0-d, along an axis, or repeated per block."""
    if values.size == 1 and values.ndim <= 1:
        return values.reshape(())
    along = normal_axis(axis, x.ndim)
    if values.ndim == 1 and not (block_size and x.ndim == 1):
        if values.shape[0] != x.shape[along]:
            msg = f"{name} has {values.shape[0]} elements; expected 1 or {x.shape[along]}, the length of axis {axis}"
            raise KernelError(msg)
        return values.reshape(values.shape + (1,) * (x.ndim - along - 1))
    blocks = -(-x.shape[along] // block_size) if block_size > 0 else 0
    if values.shape != (*x.shape[:along], blocks, *x.shape[along + 1 :]):
        msg = (
            f"{name} has shape {list(values.shape)}; expected blocks of {block_size} on axis {axis} of {list(x.shape)}"
        )
        raise KernelError(msg)
    check_size(x.shape, values.dtype)
    repeated = np.repeat(values, min(block_size, x.shape[along]), axis=along)
    return repeated[(slice(None),) * along + (slice(0, x.shape[along]),)]


# --- QuantizeLinear --------------------------------------------------------------------------------------------


def quantize(
    x: Array,
    scale: Array,
    zero_point: Array | None,
    dtype: np.dtype[Any],
    precision: np.dtype[Any],
    *,
    fits: bool = False,
) -> Array:
    """saturate(round(x / scale) + zero_point) as integers of `dtype`, the quotient rounded to `precision`.

    `x` is in the wide type to compute in, `scale` and `zero_point` broadcast over it. With `fits` nothing saturates.
    """
    low, high = integer_limits(dtype)
    result = empty(x.shape, dtype)
    shift = None if zero_point is None or not zero_point.any() else zero_point.astype(x.dtype)
    container = np.dtype(np.int8) if is_narrow(dtype) else dtype
    zero = int(shift.item()) if shift is not None and shift.size == 1 else 0
    by_addition = x.dtype == FLOAT32 and container is dtype and (shift is None or shift.size == 1)

    def convert(source: Array, target: Array, work: Array) -> None:
        np.divide(source, scale, out=work)
        if precision != work.dtype:
            work[...] = work.astype(precision)
        if by_addition:
            if not fits:
                np.clip(work, low - zero, high - zero, out=work)
            np.add(work, _ROUNDING, out=work)
            np.copyto(target, work.view(np.int32), casting="unsafe")
            if zero:  # added after rounding: an odd one would turn the even neighbour of a tie into the odd one
                np.add(target, dtype.type(zero), out=target)
            return
        np.rint(work, out=work)
        if shift is not None:
            np.add(work, shift, out=work)
        np.clip(work, low, high, out=work)
        if container is dtype:
            np.copyto(target, work, casting="unsafe")
        else:
            target[...] = work.astype(container)

    if x.size <= PIECE or scale.ndim or (shift is not None and shift.ndim):
        convert(x, result, np.empty(x.shape, x.dtype))
        return result
    flat, out = x.reshape(-1), result.reshape(-1)

    def one(piece: slice) -> None:
        convert(flat[piece], out[piece], scratch("quantize", flat[piece].shape, x.dtype))

    in_pieces(one, flat.size)
    return result


@kernel("QuantizeLinear", since=10, without=("axis", "block_size", "output_dtype", "precision", "saturate"))
@kernel("QuantizeLinear", since=13, without=("block_size", "output_dtype", "precision", "saturate"))
@kernel("QuantizeLinear", since=19, without=("block_size", "output_dtype", "precision"))
@kernel("QuantizeLinear", since=21, without=("precision",))
@kernel("QuantizeLinear", since=23)
def quantize_linear_23(
    x: Array,
    y_scale: Array,
    y_zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Array:
    """Quantize to integers or short floats: x / scale + zero point; scales per tensor, per axis or per block.

    From 19 on to float8, from 21 on to 4-bit types, from 23 on with the precision of the division.
    """
    scale = _laid_out(y_scale, x, axis, block_size, "y_scale")
    zero = None if y_zero_point is None else _laid_out(y_zero_point, x, axis, block_size, "y_zero_point")
    if output_dtype:
        dtype = dtype_of(output_dtype)
    else:
        dtype = y_zero_point.dtype if y_zero_point is not None else UINT8
    rounding = dtype_of(precision) if precision else scale.dtype
    if is_narrow(rounding) or not is_float(rounding):
        rounding = FLOAT32  # float8e8m0 has no division
    wide = compute_dtype(rounding)
    source, divisor = x.astype(wide, copy=False), scale.astype(wide)
    if is_integer(dtype):
        return quantize(source, divisor, zero, dtype, rounding)
    quotient = np.asarray(source / divisor)
    if rounding != wide:
        quotient = quotient.astype(rounding).astype(wide)
    if zero is not None:
        quotient = np.asarray(quotient + zero.astype(wide))
    return cast(quotient, dtype, saturate=bool(saturate))


# --- DequantizeLinear ------------------------------------------------------------------------------------------


def dequantize(x: Array, scale: Array, zero_point: Array | None, dtype: np.dtype[Any]) -> Array:
    """(x - zero_point)·scale in `dtype`; `scale`, in the wide type of it, and `zero_point` broadcast over `x`."""
    result = empty(x.shape, dtype)
    wide = scale.dtype
    shift = None if zero_point is None or not widen(zero_point).any() else zero_point.astype(wide)

    def convert(source: Array, target: Array) -> None:
        work = target if dtype == wide else scratch("dequantize", target.shape, wide)
        if is_narrow(source.dtype):
            work[...] = decode(source, wide)
        else:
            np.copyto(work, source, casting="unsafe")
        if shift is not None:
            np.subtract(work, shift, out=work)
        np.multiply(work, scale, out=work)
        if work is not target:
            target[...] = work

    if x.size <= PIECE or scale.ndim or (shift is not None and shift.ndim):
        convert(x, result)
        return result
    flat, out = x.reshape(-1), result.reshape(-1)
    in_pieces(lambda piece: convert(flat[piece], out[piece]), flat.size)
    return result


@kernel("DequantizeLinear", since=10, without=("axis", "block_size", "output_dtype"))
@kernel("DequantizeLinear", since=13, without=("block_size", "output_dtype"))
@kernel("DequantizeLinear", since=21, without=("output_dtype",))
@kernel("DequantizeLinear", since=23)
def dequantize_linear_23(
    x: Array,
    x_scale: Array,
    x_zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Array:
    """Dequantize: (x - zero point)·scale; scales per tensor, per axis or per block.

    From 23 on the output type may differ from that of the scale.
    """
    scale = _laid_out(x_scale, x, axis, block_size, "x_scale")
    zero = None if x_zero_point is None else _laid_out(x_zero_point, x, axis, block_size, "x_zero_point")
    dtype = dtype_of(output_dtype) if output_dtype else scale.dtype
    if is_narrow(dtype):
        dtype = FLOAT32  # a scale of float8e8m0 names no output type
    return dequantize(x, scale.astype(compute_dtype(dtype)), zero, dtype)


# --- DynamicQuantizeLinear -------------------------------------------------------------------------------------


@kernel("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear_11(x: Array) -> tuple[Array, Array, Array]:
    """uint8 values, scale and zero point such that 0 and all of `x` are in range; a scale of 1 if all are 0."""
    low = np.minimum(FLOAT32.type(0), x.min(initial=0))
    high = np.maximum(FLOAT32.type(0), x.max(initial=0))
    scale = (high - low) / FLOAT32.type(255) if high > low else FLOAT32.type(1)
    zero_point = np.asarray(np.clip(np.rint(-low / scale), 0, 255).astype(UINT8))
    divisor, zero = np.asarray(scale, FLOAT32), int(zero_point)
    fits = bool(np.rint(low / scale) + zero >= 0 and np.rint(high / scale) + zero <= 255)  # not where it is NaN
    return quantize(x, divisor, zero_point, UINT8, FLOAT32, fits=fits), divisor, zero_point
