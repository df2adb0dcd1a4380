"""Attributes of nodes and functions: immutable, so that setting one is replacing it."""

from __future__ import annotations

import enum
import math
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from onnx_workbench.model.ir.graph import Graph
    from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
    from onnx_workbench.model.ir.types import Type

    Scalar = int | float | str
    AttributeValue = (
        Scalar
        | Tensor
        | SparseTensor
        | Graph
        | Type
        | tuple[int, ...]
        | tuple[float, ...]
        | tuple[str, ...]
        | tuple[Tensor, ...]
        | tuple[SparseTensor, ...]
        | tuple[Graph, ...]
        | tuple[Type, ...]
        | None
    )


class AttributeKind(enum.IntEnum):
    """Kind of an attribute: AttributeProto.AttributeType."""

    UNDEFINED = 0
    FLOAT = 1
    INT = 2
    STRING = 3
    TENSOR = 4
    GRAPH = 5
    FLOATS = 6
    INTS = 7
    STRINGS = 8
    TENSORS = 9
    GRAPHS = 10
    SPARSE_TENSOR = 11
    SPARSE_TENSORS = 12
    TYPE_PROTO = 13
    TYPE_PROTOS = 14

    @property
    def is_list(self) -> bool:
        """Return whether the value is a tuple."""
        return self in _LISTS

    @property
    def element(self) -> AttributeKind:
        """The kind of one element of a list; for other kinds the kind itself."""
        return _LISTS.get(self, self)


_LISTS = {
    AttributeKind.FLOATS: AttributeKind.FLOAT,
    AttributeKind.INTS: AttributeKind.INT,
    AttributeKind.STRINGS: AttributeKind.STRING,
    AttributeKind.TENSORS: AttributeKind.TENSOR,
    AttributeKind.GRAPHS: AttributeKind.GRAPH,
    AttributeKind.SPARSE_TENSORS: AttributeKind.SPARSE_TENSOR,
    AttributeKind.TYPE_PROTOS: AttributeKind.TYPE_PROTO,
}

_GRAPH, _GRAPHS = AttributeKind.GRAPH, AttributeKind.GRAPHS  # looking them up takes most of the time of `graphs`


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute. `value` by kind: int, float, str, Tensor, SparseTensor, Graph, Type, or a tuple of these.

    Strings are bytes in the file and need not be UTF-8; they are str with surrogateescape here, so nothing is
    lost. `reference` names an attribute of the enclosing function instead of a value (ref_attr_name).
    """

    name: str
    kind: AttributeKind
    value: AttributeValue = None
    doc_string: str = ""
    reference: str = ""
    source: Any = field(default=None, compare=False, repr=False)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The bodies this attribute holds; empty for other kinds."""
        kind = self.kind
        if kind is _GRAPH and self.value is not None:
            return (cast("Graph", self.value),)  # the kind determines the type, also of lists
        if kind is _GRAPHS:
            return cast("tuple[Graph, ...]", self.value or ())
        return ()


def is_same(value: AttributeValue, other: AttributeValue) -> bool:
    """Return whether two values of one kind are equal; 0.0 and -0.0 are not."""
    return value is other or (value == other and (not _holds_zero(value) or repr(value) == repr(other)))


def _holds_zero(value: AttributeValue) -> bool:
    return isinstance(value, float) or (isinstance(value, tuple) and bool(value) and isinstance(value[0], float))


def make_attribute(name: str, value: Any, kind: AttributeKind | None = None) -> Attribute:
    """Create an attribute from a Python value; without a kind it is guessed. ValueError when the value does not fit.

    Integers have 64 bits and floats 32, to which they are rounded.
    """
    if kind is None:
        kind = guess_kind(value)
    if not kind.is_list:
        return Attribute(name, kind, _element(value, kind))
    if not isinstance(value, (list, tuple)):
        msg = f"{value!r} is not a list, which {kind.name} needs"
        raise ValueError(msg)  # noqa: TRY004 # callers catch one type of error for every unfit value
    return Attribute(name, kind, tuple(_element(v, kind.element) for v in value))


def _element(value: Any, kind: AttributeKind) -> Any:
    """Convert one value to its kind; an int may become a float, but not vice versa."""
    if kind is AttributeKind.FLOAT and isinstance(value, (int, float)):
        return round_float(value)
    if kind is AttributeKind.INT and isinstance(value, (int, float)) and math.isfinite(value) and value == int(value):
        if not -(1 << 63) <= value < 1 << 63:
            msg = f"{value} is too large: integers in ONNX have 64 bits"
            raise ValueError(msg)
        return int(value)
    if kind in (AttributeKind.FLOAT, AttributeKind.INT) or guess_kind(value) is not kind:
        msg = f"{value!r} is not {kind.name}"
        raise ValueError(msg)
    return value


def round_float(value: float) -> float:
    """Round a number to 32 bits, as a file stores it; ValueError when that would make it infinite."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        msg = f"{value} is too large: floats in attributes have 32 bits"
        raise ValueError(msg) from None


_PLAIN = ((int, AttributeKind.INT), (float, AttributeKind.FLOAT), (str, AttributeKind.STRING))


def guess_kind(value: Any) -> AttributeKind:
    """Return the default kind for a Python value; an empty list is INTS."""
    for plain, kind in _PLAIN:
        if isinstance(value, plain):
            return kind
    if isinstance(value, (list, tuple)):
        kinds = {guess_kind(v) for v in value}
        if kinds == {AttributeKind.INT, AttributeKind.FLOAT}:
            return AttributeKind.FLOATS
        if len(kinds) > 1:
            msg = f"a list of {', '.join(sorted(k.name for k in kinds))}; an attribute holds one kind"
            raise ValueError(msg)
        element = kinds.pop() if kinds else AttributeKind.INT
        for plural, single in _LISTS.items():
            if single is element:
                return plural
    from onnx_workbench.model.ir.graph import Graph  # checked last, as it would be done for each element of a long list
    from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
    from onnx_workbench.model.ir.types import Type

    for types, kind in (
        (Tensor, AttributeKind.TENSOR),
        (SparseTensor, AttributeKind.SPARSE_TENSOR),
        (Graph, AttributeKind.GRAPH),
        (Type, AttributeKind.TYPE_PROTO),
    ):
        if isinstance(value, types):
            return kind
    msg = f"no attribute kind holds a {type(value).__name__}"
    raise ValueError(msg)
