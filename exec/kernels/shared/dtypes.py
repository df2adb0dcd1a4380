"""Conversions between all ONNX element types, and the wider compute types of short ones.

The short types are those of ml_dtypes, one element per byte. Their `astype` neither saturates float8 nor is it fast,
and most of them are of kind "V", so dtype predicates are implemented here by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.values.arrays import UNCHECKED, Array, check_size, empty
from onnx_workbench.exec.values.limits import checkpoint
from onnx_workbench.model.ir.types import ElementType

FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)

_FLOAT8 = frozenset({"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"})
_NARROW_FLOATS = _FLOAT8 | {"float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"}
_NARROW_INTEGERS = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}
_FLOATS = _NARROW_FLOATS | {"bfloat16", "float16", "float32", "float64"}


@cache
def dtype_of(to: ElementType | int) -> np.dtype[Any]:
    """Return the numpy dtype of a `to` or `dtype` attribute; KernelError for an unknown number."""
    try:
        return ElementType(to).numpy_dtype
    except ValueError:
        msg = f"element type {to} is not one this program knows values of; expected a number of ONNX's element types"
        raise KernelError(msg) from None


def _is_native(dtype: np.dtype[Any]) -> bool:
    """Return whether the dtype is numpy's own; those of ml_dtypes are registered with numbers from 256 on."""
    return dtype.num < 256


@cache
def _name(dtype: np.dtype[Any]) -> str:
    """Return the cached name, which numpy would rebuild at each access."""
    return dtype.name


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether it is a real floating-point type of any width, ml_dtypes included."""
    return dtype.kind == "f" if _is_native(dtype) else _name(dtype) in _FLOATS


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Return whether it is a signed or unsigned integer of any width, ml_dtypes included; bool is not."""
    return dtype.kind in "iu" if _is_native(dtype) else _name(dtype) in _NARROW_INTEGERS


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Return whether it is one of the 8, 6, 4 and 2 bit types of ml_dtypes (int8 and uint8 are numpy's)."""
    return not _is_native(dtype) and dtype.itemsize == 1


def is_float8(dtype: np.dtype[Any]) -> bool:
    """Return whether it is one of the four signed float8 types, to which `saturate` applies."""
    return _name(dtype) in _FLOAT8


def integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return smallest and largest value of an integer type of any width."""
    if not _is_native(dtype):
        return _NARROW_INTEGERS[_name(dtype)]
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


@cache
def float_max(dtype: np.dtype[Any]) -> float:
    """Return the largest finite value of a floating-point type of any width."""
    if dtype.kind == "f" and dtype.itemsize > 1:
        return float(np.finfo(dtype).max)
    from ml_dtypes import finfo

    limits: Callable[[np.dtype[Any]], Any] = finfo  # ml_dtypes has no types for it
    return float(limits(dtype).max)


def compute_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type to compute in: float32 for all shorter floats, int32 for 4- and 2-bit integers, else itself."""
    if _is_native(dtype):
        return FLOAT32 if dtype.char == "e" else dtype
    return np.dtype(np.int32) if _name(dtype) in _NARROW_INTEGERS else FLOAT32


def widen(x: Array) -> Array:
    """Return `x` in its compute_dtype; no copy when it has that type."""
    if x.dtype.char in "fd":
        return x
    dtype = compute_dtype(x.dtype)
    return x if dtype == x.dtype else decode(x, dtype)


def narrow(x: Array, dtype: np.dtype[Any]) -> Array:
    """Round `x` to `dtype` as arithmetic does: float8 overflow becomes infinity or NaN; no copy if equal."""
    return x if x.dtype == dtype else x.astype(dtype)


@cache
def _table(source: np.dtype[Any], target: np.dtype[Any]) -> Array:
    codes = np.arange(256, dtype=np.uint8).view(source)
    with np.errstate(all="ignore"):
        table = codes.astype(np.float32).astype(target)
    table.flags.writeable = False
    return table


#: Elements from which on float16 is looked up, and how many at a time: numpy converts them one by one, which takes
#: twice as long.
_LOOKED_UP, _AT_ONCE = 4096, 1 << 16


@cache
def _halves() -> Array:
    """Return the float32 of each code of float16."""
    table: Array = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    table.flags.writeable = False
    return table


def _from_halves(x: Array) -> Array:
    """Convert contiguous float16 to float32 by a table, which stays in the second-level cache."""
    result: Array = np.empty(x.shape, np.float32)
    codes, target, table = x.view(np.uint16).reshape(-1), result.reshape(-1), _halves()
    for start in range(0, x.size, _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        np.take(table, codes[part], out=target[part], mode="clip")
    return result


def decode(x: Array, dtype: DTypeLike) -> Array:
    """Convert exactly to a wider type; one-byte types by a table of their 256 values, long float16 by one of all."""
    dtype = np.dtype(dtype)
    if x.dtype.char == "e" and dtype == FLOAT32 and x.size >= _LOOKED_UP and x.flags.c_contiguous:
        return _from_halves(x)
    if x.size < 256 or not is_narrow(x.dtype):
        return x.astype(dtype)
    return np.take(_table(x.dtype, dtype), x.view(np.uint8))


def cast(x: Array, to: DTypeLike, *, saturate: bool = True, round_mode: str = "up") -> Array:
    """Convert as Cast does to the numpy dtype `to`; no copy when `x` has that type.

    `saturate` is for the float8 types, `round_mode` (up, down, nearest) for float8e8m0 alone. Integers that do not fit
    keep their low bits. KernelError for a text that is not a number.
    """
    to = np.dtype(to)
    if x.dtype == to:
        return x
    if x.nbytes > UNCHECKED:
        check_size(x.shape, to)
    if x.dtype.kind in "biuf" and to.kind in "iuf" and _is_native(to) and _is_native(x.dtype):
        return decode(x, to) if x.dtype.char == "e" else x.astype(to)
    if x.dtype.kind in "OUST":
        return x.astype(object) if to.kind == "O" else _from_text(x, to, saturate, round_mode)
    if to.kind == "O":
        return _to_text(x)
    if to.kind == "b":
        return np.asarray(np.not_equal(widen(x), 0))
    if _name(to) == "float8_e8m0fnu":
        return _to_e8m0(x, saturate, round_mode)
    if _name(to) in _FLOAT8:
        return _to_float8(x, to, saturate)
    if _name(to) in _NARROW_INTEGERS:
        return _to_narrow_integer(x, to)
    if _name(to) in _NARROW_FLOATS:
        # ml_dtypes has no cast between every two of its types.
        return (x if x.dtype.kind == "f" and x.dtype.itemsize > 1 else decode(x, FLOAT32)).astype(to)
    return decode(x, to)


def _to_float8(x: Array, to: np.dtype[Any], saturate: bool) -> Array:
    wide = x if x.dtype.kind == "f" and x.dtype.itemsize > 1 else x.astype(_float_holding(x.dtype))
    if saturate:
        limit = float_max(to)
        # NaN passes the clip as NaN.
        wide = np.clip(wide, -limit, limit)
    return np.asarray(wide.astype(to))


def _float_holding(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return FLOAT64 if dtype.kind in "iu" and dtype.itemsize >= 4 else FLOAT32


def _to_narrow_integer(x: Array, to: np.dtype[Any]) -> Array:
    """Round to the nearest integer, ties to even, unlike wider integers, then keep the low bits.

    "Cast to a 4 bit type is done by rounding to the nearest-integer (with ties to even) … and truncating."
    (onnx.ai/onnx/technical/int4.html, int2.html)
    """
    low, high = integer_limits(to)
    whole = widen(x)
    if whole.dtype.kind == "f":
        finite = np.where(np.isfinite(whole), whole, whole.dtype.type(0))
        whole = np.rint(finite, out=finite).astype(np.int64)
    bits = whole.astype(np.int8)
    bits &= np.int8(high - low)
    if low:
        bits -= (bits > high) * np.int8(high - low + 1)
    return bits.astype(to)


def _to_e8m0(x: Array, saturate: bool, round_mode: str) -> Array:
    """float8e8m0 holds the powers of two from 2^-127 to 2^127; the sign is dropped (the outcome is unspecified)."""
    if round_mode not in ("up", "down", "nearest"):
        msg = f"round_mode is {round_mode!r}; expected up, down or nearest"
        raise KernelError(msg)
    wide = np.abs(x.astype(np.float64).reshape(-1))
    fraction, exponent = np.frexp(wide)  # fraction in [0.5, 1)
    exponent += 126  # biased exponent of the power of two at or below
    if round_mode != "down":
        exponent += (fraction > 0.5) if round_mode == "up" else (fraction >= 0.75)
    exponent[(wide == 0) | (exponent < 0)] = 0 if saturate else 255
    exponent[(exponent > 254) | np.isinf(wide)] = 254 if saturate else 255
    exponent[np.isnan(wide) | ((wide == 0) & (not saturate))] = 255
    return exponent.astype(np.uint8).view(ElementType.FLOAT8E8M0.numpy_dtype).reshape(x.shape)


def _from_text(x: Array, to: np.dtype[Any], saturate: bool, round_mode: str) -> Array:
    whole = to.kind in "iu"
    read: Callable[[Any], float] = _real
    if whole:
        read = partial(_wrapped, to)
    elif to.kind == "b" or is_integer(to):
        read = _whole_or_decimal
    numbers = empty((x.size,), to if whole else np.float64)
    flat = x.reshape(-1)
    text: Any = None
    try:
        for start in range(0, x.size, _TEXTS):
            checkpoint()
            numbers[start : start + _TEXTS] = [read(text := t) for t in flat[start : start + _TEXTS].tolist()]
    except (ValueError, OverflowError, TypeError):
        wanted = "a whole number such as 12" if whole else "a number such as 1.5"
        msg = f"{_quoted(text)} cannot be read as {ElementType.from_numpy(to).text}; expected {wanted}"
        raise KernelError(msg) from None
    wide = numbers.reshape(x.shape)
    return wide if whole or to == FLOAT64 else cast(wide, to, saturate=saturate, round_mode=round_mode)


def _quoted(text: Any) -> str:
    shown = str(text)
    return f"the text {shown[:_LONGEST]!r}{'…' * (len(shown) > _LONGEST)}"


def _wrapped(to: np.dtype[Any], text: Any) -> int:
    """Parse the integer in a text, wrapped around into the range of a type."""
    span = 1 << (8 * to.itemsize)
    half = span >> 1 if to.kind == "i" else 0
    return (_whole(text) + half) % span - half


def _whole(text: Any) -> int:
    """Parse the integer in a text: digits exactly, another decimal number truncated."""
    return int(_whole_or_decimal(text))


def _whole_or_decimal(text: Any) -> float:
    """Parse a decimal number that is all of a text, else the integer that it begins with, as C's strtoll does."""
    text = _text(text)
    match = _INTEGER.match(text)
    if match and match.end() == len(text.rstrip()):
        return int(match[0])
    decimal = _DECIMAL.match(text)
    if decimal and decimal.end() == len(text.rstrip()):
        return float(decimal[0])
    if match:
        return int(match[0])
    raise ValueError


def _real(text: Any) -> float:
    """Parse the number that a text begins with, as C's strtod does; the specification wants nothing after it."""
    text = _text(text)
    if found := _HEXADECIMAL.match(text):
        return float.fromhex(found[0])
    if found := _DECIMAL.match(text):
        return float(found[0])
    raise ValueError


def _text(text: Any) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


def _to_text(x: Array) -> Array:
    result = empty(x.shape, object)
    flat, texts = widen(x).reshape(-1), result.reshape(-1)
    for start in range(0, x.size, _TEXTS):
        checkpoint()
        texts[start : start + _TEXTS] = _texts(flat[start : start + _TEXTS])
    return result


def _texts(numbers: Array) -> list[str]:
    if numbers.dtype.kind == "f":
        return [_SPECIAL.get(t, t) for t in numbers.astype("U").tolist()]
    if numbers.dtype.kind == "b":
        return ["1" if v else "0" for v in numbers.tolist()]
    return [str(v) for v in numbers.tolist()]


_FLAGS = re.ASCII | re.IGNORECASE
_INTEGER = re.compile(r"\s*[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"\s*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", _FLAGS)
_HEXADECIMAL = re.compile(r"\s*[+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?", _FLAGS)
# Number of characters of a text in messages.
_LONGEST = 60
# Texts read or written at a time.
_TEXTS = 1 << 16
# Cast's texts of values without digits.
_SPECIAL = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
