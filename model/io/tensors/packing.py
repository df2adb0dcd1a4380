"""Pack and unpack every element type: the layouts of raw_data and of the typed fields.

Everything in files is little-endian. Types narrower than a byte are packed from the lowest bits up; the 6-bit
types put four elements into three bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from onnx_workbench.model.ir.types import ElementType

if TYPE_CHECKING:
    from numpy.typing import NDArray

_E = ElementType

#: The typed field that holds the values of each element type when raw_data does not.
TYPED_FIELDS: Final = {
    _E.FLOAT: "float_data", _E.COMPLEX64: "float_data",
    _E.DOUBLE: "double_data", _E.COMPLEX128: "double_data",
    _E.INT64: "int64_data", _E.UINT32: "uint64_data", _E.UINT64: "uint64_data",
    _E.STRING: "string_data",
} | dict.fromkeys(
    (
        _E.INT32, _E.INT16, _E.INT8, _E.UINT16, _E.UINT8, _E.BOOL, _E.FLOAT16, _E.BFLOAT16, _E.INT4, _E.UINT4,
        _E.INT2, _E.UINT2, _E.FLOAT4E2M1, _E.FLOAT6E2M3, _E.FLOAT6E3M2, _E.FLOAT8E4M3FN, _E.FLOAT8E4M3FNUZ,
        _E.FLOAT8E5M2, _E.FLOAT8E5M2FNUZ, _E.FLOAT8E8M0,
    ),
    "int32_data",
)  # fmt: skip

_LONGEST_VARINT = 10
_TOO_LONG = "a number has more than ten bytes"
_SIGNED_PACKED = frozenset({_E.INT4, _E.INT2})


def group(element_type: ElementType) -> tuple[int, int]:
    """Return the smallest run of elements that fills whole bytes, and those bytes: (2, 1) for int4, (1, 4) for
    float.
    """
    bits = element_type.bits
    if bits % 8 == 0:
        return 1, bits // 8
    return (4, 3) if bits == 6 else (8 // bits, 1)


def unpack(data: bytes, element_type: ElementType, count: int) -> NDArray[Any]:
    """Unpack `count` elements from little-endian bytes, flat; a view where possible.

    ValueError when there are too few bytes. Not for STRING.
    """
    dtype = element_type.numpy_dtype
    bits = element_type.bits
    if bits == 0 or len(data) * 8 < count * bits:
        msg = f"{len(data)} bytes for {count} elements of {element_type.text}"
        raise ValueError(msg)
    if bits < 8:
        return from_codes(_unpack_bits(np.frombuffer(data, np.uint8), bits, count), element_type)
    if element_type is _E.BOOL:
        return np.frombuffer(data, np.uint8, count).astype(np.bool_)
    if element_type is _E.BFLOAT16:
        return np.frombuffer(data, "<u2", count).astype(np.uint16, copy=False).view(dtype)
    if dtype.itemsize == 1:
        return np.frombuffer(data, np.uint8, count).view(dtype)
    return np.frombuffer(data, dtype.newbyteorder("<"), count).astype(dtype, copy=False)


def from_codes(codes: NDArray[np.uint8], element_type: ElementType) -> NDArray[Any]:
    """Convert bit patterns, one per byte, to elements narrower than a byte."""
    if element_type in _SIGNED_PACKED:
        shift = 8 - element_type.bits
        return ((codes << shift).view(np.int8) >> shift).astype(element_type.numpy_dtype)
    if element_type.is_int:
        return codes.astype(element_type.numpy_dtype)
    return codes.view(element_type.numpy_dtype)


def to_codes(array: NDArray[Any], element_type: ElementType) -> NDArray[np.uint8]:
    """Return the bit patterns of elements narrower than a byte, one per byte, flat."""
    flat = np.ascontiguousarray(array).reshape(-1)
    mask = np.uint8((1 << element_type.bits) - 1)
    if element_type.is_int:
        return flat.astype(np.int8).view(np.uint8) & mask
    return flat.view(np.uint8) & mask


def pack(array: NDArray[Any], element_type: ElementType) -> bytes:
    """Pack an array of the element type's own dtype into little-endian bytes."""
    bits = element_type.bits
    if bits < 8:
        return _pack_bits(to_codes(array, element_type), bits).tobytes()
    flat = np.ascontiguousarray(array, element_type.numpy_dtype).reshape(-1)
    if element_type is _E.BFLOAT16:
        return flat.view(np.uint16).astype("<u2", copy=False).tobytes()
    if flat.dtype.itemsize > 1:
        flat = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
    return flat.tobytes()


def _unpack_bits(data: NDArray[np.uint8], bits: int, count: int) -> NDArray[np.uint8]:
    if bits == 6:
        each = np.unpackbits(data, count=count * bits, bitorder="little").reshape(count, bits)
        return np.packbits(each, axis=1, bitorder="little")[:, 0]
    per_byte = 8 // bits  # several times faster than bit by bit, for the types that are common
    data = data[: -(-count // per_byte)]
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(bits)
    return (data[:, None] >> shifts & np.uint8((1 << bits) - 1)).reshape(-1)[:count]


def _pack_bits(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    return np.packbits(np.unpackbits(codes[:, None], axis=1, count=bits, bitorder="little"), bitorder="little")


def from_typed(values: NDArray[Any], element_type: ElementType, count: int) -> NDArray[Any]:
    """Convert `count` elements from the numbers of their typed field; ValueError for a wrong number."""
    held = typed_count(element_type, count)
    if len(values) != held:
        msg = f"{len(values):,} values stored where the shape needs {held:,}"
        raise ValueError(msg)
    dtype = element_type.numpy_dtype
    bits = element_type.bits
    if element_type.is_complex:
        return values.view(dtype)
    if bits == 6:
        return from_codes(values.astype(np.uint8) & np.uint8(0x3F), element_type)
    if bits < 8:
        return from_codes(_unpack_bits(values.astype(np.uint8), bits, count), element_type)
    if element_type.is_float and bits in (8, 16):
        return values.astype(f"u{bits // 8}").view(dtype)
    if element_type is _E.BOOL:
        return values.astype(np.bool_)
    return values.astype(dtype, copy=False)


def typed_count(element_type: ElementType, count: int) -> int:
    """Return how many numbers the typed field has for `count` elements."""
    if element_type.is_complex:
        return 2 * count
    return -(-count // elements_per_number(element_type))


def elements_per_number(element_type: ElementType) -> int:
    """Return how many elements a number of the typed field holds; complex elements take two."""
    return 8 // element_type.bits if element_type.bits in (2, 4) else 1


def regrouped(parts: Iterable[NDArray[Any]], length: int) -> Iterator[NDArray[Any]]:
    """Yield the elements of flat arrays in arrays of one length; the last may be shorter."""
    held: list[NDArray[Any]] = []
    count = 0
    for part in parts:
        start = 0
        while count + len(part) - start >= length:
            stop = start + length - count
            yield np.concatenate([*held, part[start:stop]])
            held, count, start = [], 0, stop
        held.append(part[start:])
        count += len(part) - start
    if count:
        yield np.concatenate(held)


def decode_varint_chunks(chunks: Iterable[bytes]) -> Iterator[NDArray[np.uint64]]:
    """Decode a packed varint field that comes in chunks; ValueError as `decode_varints`."""
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        end = len(data)
        while end and data[end - 1] >= 0x80 and len(data) - end <= _LONGEST_VARINT:
            end -= 1
        if len(data) - end > _LONGEST_VARINT:
            raise ValueError(_TOO_LONG)
        yield decode_varints(data[:end])
        rest = data[end:]
    if rest:
        decode_varints(rest)


def decode_varints(data: bytes) -> NDArray[np.uint64]:
    """Decode a packed varint field; ValueError when the last one is truncated or one has over ten bytes."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    if len(octets) and (not len(ends) or ends[-1] != len(octets) - 1):
        msg = "the last number is cut"
        raise ValueError(msg)
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1)) if len(ends) else ends
    lengths = ends - starts + 1
    longest = int(lengths.max()) if len(lengths) else 0
    if longest > _LONGEST_VARINT:
        raise ValueError(_TOO_LONG)
    values = np.zeros(len(ends), np.uint64)
    for index in range(longest):
        here = lengths > index
        part = (octets[starts[here] + index] & np.uint8(0x7F)).astype(np.uint64)
        values[here] |= part << np.uint64(7 * index)
    return values
