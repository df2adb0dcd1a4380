"""Known contents of small integer tensors: sizes that flow from Shape to Reshape.

Entries are numbers, symbols, or None for unknown ones, so that at least their number (a rank) is known.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from onnx_workbench.model.analysis.symbolic import sliced
from onnx_workbench.model.inference.node_call import broadcast
from onnx_workbench.model.io.protobuf import TensorProto
from onnx_workbench.model.ir.types import Dimension, ElementType, Shape, TensorType, Type

_LARGEST = 64  # more entries are no shape
_INTEGER_TYPES = frozenset({ElementType.INT32, ElementType.INT64})
_RANGES: Mapping[int, int] = {ElementType.INT32: 1 << 31, ElementType.INT64: 1 << 63}
_COMPARING = frozenset({"Equal", "Less", "Greater"})

#: Exceptions of rules for an invalid node, which checks report, or of a faulty rule.
CANNOT_RUN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

Values = tuple[Dimension, ...]


class ShapeValues:
    """Known small integer values of one graph; `visit` each node in order."""

    def __init__(self, constants: Mapping[str, Any]) -> None:
        self._constants = dict(constants)
        self.known: dict[str, Values] = {}
        for name, proto in self._constants.items():
            self._learn(name, proto)

    def tensor(self, name: str) -> Any:
        """Return a message with the values of a name, if available: for rules that depend on them."""
        found = self._constants.get(name)
        values = self.known.get(name)
        numbers = [v for v in values or () if isinstance(v, int) and not isinstance(v, bool)]
        if found is None and values is not None and len(numbers) == len(values):
            return TensorProto(name=name, data_type=ElementType.INT64, dims=(len(numbers),), int64_data=numbers)
        return found if found is not None and found.data_location == 0 else None

    def _learn(self, name: str, proto: Any) -> None:
        if proto.data_type in _INTEGER_TYPES and len(proto.dims) <= 1 and proto.data_location == 0:
            if proto.dims and proto.dims[0] > _LARGEST:
                return
            held = _held(proto)
            if len(held) == (proto.dims[0] if proto.dims else 1):  # else checks report it
                self.known[name] = held

    def visit(self, node: Any, types: Mapping[str, Type]) -> None:
        """Compute the contents of a node's first output, if it is such a tensor."""
        if not node.output or node.domain not in ("", "ai.onnx"):
            return
        name = node.output[0]
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    self._constants[name] = attribute.t
                    self._learn(name, attribute.t)
                elif attribute.name in ("value_int", "value_ints"):
                    self.known[name] = (attribute.i,) if attribute.name == "value_int" else tuple(attribute.ints)
            return
        follow = _FOLLOW.get(node.op_type)
        if follow is not None:
            with suppress(*CANNOT_RUN):
                result = follow(self, node, types)
                if result is not None and len(result) <= _LARGEST and _is_list(len(result), types.get(name)):
                    self.known[name] = tuple(_held_as(size, _result_type(node, types)) for size in result)

    def of(self, node: Any, index: int) -> Values | None:
        """Return the known contents of an input."""
        return self.known.get(node.input[index]) if index < len(node.input) and node.input[index] else None

    def truth(self, node: Any) -> bool | None:
        """Return the condition of an If, where it is constant or compares known sizes."""
        name = node.input[0] if node.input else ""
        held = self.known.get(name)
        proto = self._constants.get(name)
        if proto is not None and proto.data_type == ElementType.BOOL and proto.data_location == 0:
            held = tuple(proto.raw_data if proto.HasField("raw_data") else proto.int32_data)
        return bool(held[0]) if held is not None and len(held) == 1 and isinstance(held[0], int) else None

    def shape_of_result(self, node: Any, types: Mapping[str, Type]) -> Type | None:
        """Return the type of Reshape, Expand, Tile or ConstantOfShape when its shape input is partly known."""
        if node.domain not in ("", "ai.onnx") or node.op_type not in ("Reshape", "Expand", "ConstantOfShape"):
            return None
        if node.op_type == "ConstantOfShape":
            dims = self.of(node, 0)
            value = next((a.t.data_type for a in node.attribute if a.name == "value"), 1)
            return None if dims is None else TensorType(_element(value), Shape(_sizes(dims)))
        data = types.get(node.input[0]) if node.input else None
        wanted = self.of(node, 1)
        if not isinstance(data, TensorType) or wanted is None:
            return None
        have = data.shape.dims if data.shape is not None else None
        if node.op_type == "Reshape":
            allows_zero = any(a.name == "allowzero" and a.i for a in node.attribute)
            return TensorType(data.element_type, Shape(_reshaped(have, wanted, allows_zero=allows_zero)))
        dims = broadcast(have, _sizes(wanted))
        return None if dims is None else TensorType(data.element_type, Shape(dims))


def _is_list(count: int, kind: Type | None) -> bool:
    """Return whether these may be all elements of a scalar or vector: in more dimensions their order means more."""
    if not isinstance(kind, TensorType) or kind.shape is None:
        return True
    dims = kind.shape.dims
    sizes = [size for size in dims if isinstance(size, int)]
    return (len(dims) < 2 or count == 1) and (len(sizes) < len(dims) or math.prod(sizes) == count)


def _result_type(node: Any, types: Mapping[str, Type]) -> int:
    """Return the element type of a node's first output, or else of its first input; 0 if both are unknown."""
    if node.op_type == "Cast":
        return next((int(a.i) for a in node.attribute if a.name == "to"), 0)
    if node.op_type == "Shape":
        return ElementType.INT64
    if node.op_type in _COMPARING:
        return ElementType.BOOL
    for name in (node.output[0], *node.input[:1]):
        kind = types.get(name)
        if isinstance(kind, TensorType) and kind.element_type:
            return kind.element_type
    return 0


def _held_as(size: Dimension, element: int) -> Dimension:
    """Return a number or symbol as a tensor of an element type holds it; None where it overflows or is rounded."""
    if element == ElementType.BOOL:
        return bool(size) if isinstance(size, int) else None
    limit = _RANGES.get(element, 0)
    if isinstance(size, int):
        return int(size) if -limit <= size < limit else None
    return size if limit else None


def _held(proto: TensorProto) -> tuple[int, ...]:
    """Return the integers of a message, in either encoding; nothing where bytes are missing."""
    is_long = proto.data_type == ElementType.INT64
    if not proto.HasField("raw_data"):
        return tuple(proto.int64_data if is_long else proto.int32_data)
    count, rest = divmod(len(proto.raw_data), 8 if is_long else 4)
    return () if rest else struct.unpack(f"<{count}{'q' if is_long else 'i'}", proto.raw_data)


def _element(number: int) -> Any:
    from onnx_workbench.model.ir.types import element_type

    return element_type(number)


def _sizes(values: Values) -> Values:
    return tuple(None if isinstance(v, int) and v < 0 else v for v in values)


def _reshaped(have: Sequence[Dimension] | None, wanted: Values, *, allows_zero: bool) -> Values:
    """Return the sizes after Reshape: 0 copies unless allowed, -1 is inferred when everything else is a number."""
    dims: list[Dimension] = []
    for axis, size in enumerate(wanted):
        if size == 0 and allows_zero:
            dims.append(0)
        elif size == 0:
            dims.append(have[axis] if have is not None and axis < len(have) else None)
        else:
            dims.append(size if not isinstance(size, int) or size > 0 else -1)
    if -1 in dims:
        dims[dims.index(-1)] = _left_over(have, dims)
    return _sizes(tuple(dims))


def _left_over(have: Sequence[Dimension] | None, dims: Sequence[Dimension]) -> Dimension:
    if have is None:
        return None
    theirs, ours = list(have), [d for d in dims if d != -1]
    for dim in list(ours):
        if dim is not None and dim in theirs:  # the same symbol or number on both sides cancels
            theirs.remove(dim)
            ours.remove(dim)
    if all(isinstance(d, int) for d in (*theirs, *ours)):
        total, divisor = 1, 1
        for d in theirs:
            total *= int(d or 0)
        for d in ours:
            divisor *= int(d or 0)
        return total // divisor if divisor and total % divisor == 0 else None
    return theirs[0] if len(theirs) == 1 and not ours else None


def _shape(_values: ShapeValues, node: Any, types: Mapping[str, Type]) -> Values | None:
    data = types.get(node.input[0]) if node.input else None
    if not isinstance(data, TensorType) or data.shape is None:
        return None
    bounds = {a.name: a.i for a in node.attribute}
    return data.shape.dims[bounds.get("start", 0) : bounds.get("end")]


def _gather(values: ShapeValues, node: Any, _types: Mapping[str, Type]) -> Values | None:
    data, indices = values.of(node, 0), values.of(node, 1)
    if data is None or indices is None:
        return None
    picked = []
    for index in indices:
        if not isinstance(index, int) or not -len(data) <= index < len(data):
            return None
        picked.append(data[index])
    return tuple(picked)


def _slice(values: ShapeValues, node: Any, _types: Mapping[str, Type]) -> Values | None:
    data = values.of(node, 0)
    if data is None:
        return None
    bounds: list[int] = []
    for index, name in ((1, "starts"), (2, "ends"), (4, "steps")):
        given = values.of(node, index) or next((tuple(a.ints) for a in node.attribute if a.name == name), None)
        if given is None and name == "steps" and len(node.input) <= index:
            given = (1,)
        if given is None or len(given) != 1 or not isinstance(given[0], int):
            return None
        bounds.append(given[0])
    start, end, step = bounds
    return tuple(data[position] for position in sliced(len(data), start, end, step)) if step else None


def _concat(values: ShapeValues, node: Any, types: Mapping[str, Type]) -> Values | None:
    parts = [values.of(node, index) for index in range(len(node.input))]
    joined: list[Dimension] = []
    for name, part in zip(node.input, parts, strict=True):
        if part is None:
            kind = types.get(name)
            dims = kind.shape.dims if isinstance(kind, TensorType) and kind.shape is not None else ()
            if len(dims) != 1 or not isinstance(dims[0], int) or dims[0] > _LARGEST:
                return None
            part = (None,) * dims[0]
        joined.extend(part)
    return tuple(joined)


def _same(values: ShapeValues, node: Any, _types: Mapping[str, Type]) -> Values | None:
    return values.of(node, 0)


def _arithmetic(operation: Callable[[int, int], int]) -> Callable[..., Values | None]:
    def follow(values: ShapeValues, node: Any, _types: Mapping[str, Type]) -> Values | None:
        a, b = values.of(node, 0), values.of(node, 1)
        if a is None or b is None or (len(a) != len(b) and 1 not in (len(a), len(b))):
            return None
        length = len(b) if len(a) == 1 else len(a)
        a, b = a * (length if len(a) == 1 else 1), b * (length if len(b) == 1 else 1)
        return tuple(
            operation(x, y) if isinstance(x, int) and isinstance(y, int) else None for x, y in zip(a, b, strict=True)
        )

    return follow


def _quotient(a: int, b: int) -> int:
    """Divide towards zero, as ONNX does."""
    return abs(a) // abs(b) * (1 if (a < 0) is (b < 0) else -1)


_FOLLOW: dict[str, Callable[..., Values | None]] = {
    "Shape": _shape,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Identity": _same,
    "Cast": _same,
    "Unsqueeze": _same,
    "Squeeze": _same,
    "Add": _arithmetic(lambda a, b: a + b),
    "Sub": _arithmetic(lambda a, b: a - b),
    "Mul": _arithmetic(lambda a, b: a * b),
    "Div": _arithmetic(lambda a, b: _quotient(a, b) if b else 0),
    "Equal": _arithmetic(operator.eq),
    "Less": _arithmetic(operator.lt),
    "Greater": _arithmetic(operator.gt),
}
