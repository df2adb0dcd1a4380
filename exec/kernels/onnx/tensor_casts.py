"""Cast, CastLike and BitCast (of the specification's folder tensor)."""

from __future__ import annotations

import sys

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.dtypes import cast, dtype_of
from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.model.ir.types import ElementType


@kernel("Cast", since=1)
def cast_1(x: Array, *, to: str | int) -> Array:
    """The type is given by its name in TensorProto.DataType; some files have its number, as of opset 6."""
    if isinstance(to, int):
        return cast_24(x, to=to)
    element_type = ElementType.__members__.get(to.upper())
    if element_type is None:
        msg = f"attribute 'to' is {to!r}; expected the name of an element type such as FLOAT"
        raise KernelError(msg)
    return cast(x, dtype_of(element_type))


@kernel("Cast", since=6, without=("round_mode", "saturate"))
@kernel("Cast", since=19, without=("round_mode",))
@kernel("Cast", since=24)
def cast_24(x: Array, *, round_mode: str = "up", saturate: int = 1, to: int) -> Array:
    """Convert every element; `saturate` is for the float8 types, `round_mode` for float8e8m0."""
    return cast(x, dtype_of(to), saturate=bool(saturate), round_mode=round_mode)


@kernel("CastLike", since=15, without=("round_mode", "saturate"))
@kernel("CastLike", since=19, without=("round_mode",))
@kernel("CastLike", since=24)
def cast_like_24(x: Array, target_type: Array, *, round_mode: str = "up", saturate: int = 1) -> Array:
    """Convert to the type of another tensor, with the options of Cast."""
    return cast(x, target_type.dtype, saturate=bool(saturate), round_mode=round_mode)


@kernel("BitCast", since=26)
def bit_cast_26(x: Array, *, to: int) -> Array:
    """Return the same bits read as another type of the same width, little endian."""
    target = ElementType(to) if to in ElementType.__members__.values() else None
    source = ElementType.from_numpy(x.dtype)
    if target is None or target.bits != source.bits or not target.bits:
        wanted = target.text if target else f"element type {to}"
        msg = f"{source.text} ({source.bits} bits) cannot be read as {wanted}; expected a type of the same width"
        raise KernelError(msg)
    if target.bits >= 8:
        little = x if sys.byteorder == "little" else x.byteswap()
        view = little.view(target.numpy_dtype)
        return view if sys.byteorder == "little" else view.byteswap()
    # Types below a byte take one byte per element here, the code in its low bits.
    codes = np.bitwise_and(x.view(np.uint8), np.uint8((1 << target.bits) - 1))
    return np.asarray(codes).view(target.numpy_dtype)
