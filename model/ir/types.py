"""Element types, dimensions, shapes and the types of values (TypeProto), as immutable objects."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np


class ElementType(enum.IntEnum):
    """TensorProto.DataType, with the representation of each type in memory."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20
    UINT4 = 21
    INT4 = 22
    FLOAT4E2M1 = 23
    FLOAT8E8M0 = 24
    UINT2 = 25
    INT2 = 26
    FLOAT6E2M3 = 27
    FLOAT6E3M2 = 28

    @property
    def bits(self) -> int:
        """Bits of one element as stored in a file; 0 for strings and UNDEFINED.

        The 6-, 4- and 2-bit types are packed in raw and external data.
        """
        return _BITS[self]

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The numpy (or ml_dtypes) dtype; sub-byte types take one byte per element, strings are objects."""
        return _numpy_dtype(self)

    @property
    def text(self) -> str:
        """The name in ONNX text syntax and in this program: ``float``, ``int64``, ``bfloat16``."""
        return self.name.lower()

    @property
    def is_float(self) -> bool:
        """Return whether it is a real floating-point type of any width."""
        return self in _FLOATS

    @property
    def is_int(self) -> bool:
        """Return whether it is a signed or unsigned integer of any width (bool is not)."""
        return self in _INTEGERS

    @property
    def is_complex(self) -> bool:
        """Return whether it is complex64 or complex128."""
        return self in (ElementType.COMPLEX64, ElementType.COMPLEX128)

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> ElementType:
        """Return the element type of an array; objects and unicode are STRING. ValueError for other dtypes."""
        import numpy as np

        return _from_numpy(np.dtype(dtype))


_E = ElementType
_BITS = dict.fromkeys(ElementType, 8) | {
    _E.UNDEFINED: 0, _E.STRING: 0,
    _E.FLOAT: 32, _E.INT32: 32, _E.UINT32: 32,
    _E.DOUBLE: 64, _E.INT64: 64, _E.UINT64: 64, _E.COMPLEX64: 64, _E.COMPLEX128: 128,
    _E.FLOAT16: 16, _E.BFLOAT16: 16, _E.INT16: 16, _E.UINT16: 16,
    _E.UINT4: 4, _E.INT4: 4, _E.FLOAT4E2M1: 4, _E.UINT2: 2, _E.INT2: 2,
    _E.FLOAT6E2M3: 6, _E.FLOAT6E3M2: 6,
}  # fmt: skip
_FLOATS = frozenset({
    _E.FLOAT, _E.DOUBLE, _E.FLOAT16, _E.BFLOAT16, _E.FLOAT8E4M3FN, _E.FLOAT8E4M3FNUZ, _E.FLOAT8E5M2,
    _E.FLOAT8E5M2FNUZ, _E.FLOAT8E8M0, _E.FLOAT6E2M3, _E.FLOAT6E3M2, _E.FLOAT4E2M1,
})  # fmt: skip
_INTEGERS = frozenset({
    _E.INT8, _E.INT16, _E.INT32, _E.INT64, _E.UINT8, _E.UINT16, _E.UINT32, _E.UINT64,
    _E.INT4, _E.UINT4, _E.INT2, _E.UINT2,
})  # fmt: skip
_NUMPY_NAMES = {
    _E.FLOAT: "float32", _E.DOUBLE: "float64", _E.FLOAT16: "float16", _E.BOOL: "bool", _E.STRING: "object",
    _E.INT8: "int8", _E.INT16: "int16", _E.INT32: "int32", _E.INT64: "int64",
    _E.UINT8: "uint8", _E.UINT16: "uint16", _E.UINT32: "uint32", _E.UINT64: "uint64",
    _E.COMPLEX64: "complex64", _E.COMPLEX128: "complex128",
}  # fmt: skip
_ML_NAMES = {
    _E.BFLOAT16: "bfloat16", _E.FLOAT8E4M3FN: "float8_e4m3fn", _E.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    _E.FLOAT8E5M2: "float8_e5m2", _E.FLOAT8E5M2FNUZ: "float8_e5m2fnuz", _E.FLOAT8E8M0: "float8_e8m0fnu",
    _E.FLOAT6E2M3: "float6_e2m3fn", _E.FLOAT6E3M2: "float6_e3m2fn", _E.FLOAT4E2M1: "float4_e2m1fn",
    _E.UINT4: "uint4", _E.INT4: "int4", _E.UINT2: "uint2", _E.INT2: "int2",
}  # fmt: skip


@lru_cache(256)
def _from_numpy(dtype: np.dtype[Any]) -> ElementType:
    """Cached, as numpy puts the name of a dtype together at each access."""
    if dtype.kind in "OUST":
        return ElementType.STRING
    found = _from_name().get(dtype.newbyteorder("=").name)
    if found is None:
        msg = f"numpy dtype {dtype} has no ONNX element type"
        raise ValueError(msg)
    return found


@cache
def _numpy_dtype(element_type: ElementType) -> np.dtype[Any]:
    import numpy as np

    if element_type in _NUMPY_NAMES:
        return np.dtype(_NUMPY_NAMES[element_type])
    if element_type in _ML_NAMES:
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_NAMES[element_type]))
        return dtype
    msg = f"element type {element_type.name} has no values"
    raise ValueError(msg)


@cache
def _from_name() -> dict[str, ElementType]:
    return {name: e for e, name in (_NUMPY_NAMES | _ML_NAMES).items() if e is not ElementType.STRING}


#: A dimension: a number, a symbol such as ``batch``, or None when unknown.
Dimension = int | str | None


#: Maximum number of dimensions read from a file; no runtime takes more than 64. Each costs time in all code that works
#: on shapes, and the product of millions of large ones takes minutes.
MOST_DIMENSIONS: Final = 1024


@dataclass(frozen=True, slots=True)
class Shape:
    """TensorShapeProto: the dimensions, and their denotations where a file gives any. At most `MOST_DIMENSIONS`."""

    dims: tuple[Dimension, ...] = ()
    denotations: tuple[str, ...] = ()  # empty, or as long as dims

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    def __str__(self) -> str:
        return "[" + ",".join("?" if d is None else str(d) for d in self.dims) + "]"


@dataclass(frozen=True, slots=True)
class TensorType:
    """A dense tensor; `element_type` may be an undefined number, `shape` is None when unknown."""

    element_type: ElementType | int
    shape: Shape | None = None
    denotation: str = ""

    def __str__(self) -> str:
        return element_type_text(self.element_type) + ("" if self.shape is None else str(self.shape))


@dataclass(frozen=True, slots=True)
class SparseTensorType:
    """A sparse tensor in coordinate format."""

    element_type: ElementType | int
    shape: Shape | None = None
    denotation: str = ""

    def __str__(self) -> str:
        return f"sparse_tensor({TensorType(self.element_type, self.shape)})"


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A sequence of values of one type; `element` None when the file leaves it out."""

    element: Type | None
    denotation: str = ""

    def __str__(self) -> str:
        return f"seq({self.element or '?'})"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map from keys of an element type to values of one type."""

    key_type: ElementType | int
    value: Type | None
    denotation: str = ""

    def __str__(self) -> str:
        return f"map({element_type_text(self.key_type)},{self.value or '?'})"


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value of one type, or nothing."""

    element: Type | None
    denotation: str = ""

    def __str__(self) -> str:
        return f"optional({self.element or '?'})"


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """A type that only its domain understands."""

    domain: str
    name: str
    denotation: str = ""

    def __str__(self) -> str:
        return f"opaque({self.domain}.{self.name})"


Type = TensorType | SparseTensorType | SequenceType | MapType | OptionalType | OpaqueType


#: Written by some exporters for every unknown size. Not a symbol: two of them need not be equal.
UNNAMED = "?"


def with_sizes(kind: Type, size: Callable[[Dimension], Dimension]) -> Type:
    """Return a type with each dimension replaced, those of elements of sequences, maps and optionals too."""
    if isinstance(kind, (TensorType, SparseTensorType)):
        if kind.shape is None:
            return kind
        dims = tuple(map(size, kind.shape.dims))
        return kind if dims == kind.shape.dims else replace(kind, shape=Shape(dims, kind.shape.denotations))
    if isinstance(kind, (SequenceType, OptionalType)) and kind.element is not None:
        return replace(kind, element=with_sizes(kind.element, size))
    if isinstance(kind, MapType) and kind.value is not None:
        return replace(kind, value=with_sizes(kind.value, size))
    return kind


def element_type_text(element_type: ElementType | int) -> str:
    """Return an element type by its ONNX name, or ``type 99`` for an undefined number."""
    return element_type.text if isinstance(element_type, ElementType) else f"type {element_type}"


def element_type(number: int) -> ElementType | int:
    """Return the ElementType of a number in a file, or the number itself when it is undefined."""
    try:
        return ElementType(number)
    except ValueError:
        return number
