"""Sequences, optional values and constants, whose rules return whole types."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_workbench.model.inference.facts import Dims, Facts
from onnx_workbench.model.inference.operators.node_call import Found, NodeCall, Rule, Sized, axis_of, replaced
from onnx_workbench.model.inference.type_lattice import common
from onnx_workbench.model.ir.types import ElementType, OptionalType, SequenceType, TensorType, Type


def _element(call: NodeCall, index: int) -> Type | None:
    """Return the type of the elements of a sequence, or of what an optional input holds; else the type itself."""
    kind = call.type(index)
    return kind.element if isinstance(kind, (SequenceType, OptionalType)) else kind


def found_of(facts: Facts, kind: Type | None) -> Found:
    """Return a type as a result, with its sizes read."""
    if not isinstance(kind, TensorType):
        return kind
    dims: Dims | None = None if kind.shape is None else tuple(map(facts.size, kind.shape.dims))
    return Sized(kind.element_type if isinstance(kind.element_type, ElementType) else None, dims)


def _construct(call: NodeCall) -> Sequence[Found]:
    kinds = [call.type(index) for index in range(len(call.node.inputs))]
    element = kinds[0]
    for kind in kinds[1:]:
        element = common(element, kind)
    return (SequenceType(element),) if element is not None else ()


def _empty(call: NodeCall) -> Sequence[Found]:
    number = call.integer("dtype", ElementType.FLOAT)
    return (SequenceType(TensorType(ElementType(number))),)


def _insert(call: NodeCall) -> Sequence[Found]:
    held, added = _element(call, 0), call.type(1)
    is_open = isinstance(held, TensorType) and held.shape is None  # perhaps empty
    element = held if is_open or added is None else common(held, added)
    return (SequenceType(element),) if element is not None else ()


def _erase(call: NodeCall) -> Sequence[Found]:
    return (call.facts.other(call.input(0)),)


def _at(call: NodeCall) -> Sequence[Found]:
    return (found_of(call.facts, _element(call, 0)),)


def _get_element(call: NodeCall) -> Sequence[Found]:
    kind = call.type(0)
    return (found_of(call.facts, kind.element if isinstance(kind, OptionalType) else kind),)


def _split(call: NodeCall) -> Sequence[Found]:
    kind, dims = call.kind(0), call.dims(0)
    if kind is None:
        return ()
    if dims is None:
        return (SequenceType(TensorType(kind)),)
    axis, size = axis_of(call.integer("axis"), len(dims)), None
    if call.input(1) is None:
        size = 1
    elif (parts := call.numbers(1)) is not None:
        whole, rank = dims[axis], call.facts.rank(call.input(1))
        is_even = rank == 0 and isinstance(whole, int) and not whole % parts[0]
        size = parts[0] if is_even or (len(set(parts)) == 1 and rank == 1) else None
    kept = () if call.input(1) is None and not call.integer("keepdims", 1) else (size,)
    part_dims = tuple(call.facts.unknown_size() if d is None else d for d in replaced(dims, axis, *kept))
    return (SequenceType(call.facts.tensor_type(kind, part_dims)),)


def _concat(call: NodeCall) -> Sequence[Found]:
    element = found_of(call.facts, _element(call, 0))
    if not isinstance(element, Sized):
        return ()
    if element.dims is None:
        return (element,)
    rank = len(element.dims)
    if call.integer("new_axis"):
        axis = axis_of(call.integer("axis"), rank + 1)
        return (Sized(element.element_type, (*element.dims[:axis], None, *element.dims[axis:])),)
    return (Sized(element.element_type, replaced(element.dims, axis_of(call.integer("axis"), rank), None)),)


def _optional(call: NodeCall) -> Sequence[Found]:
    element = call.attribute("type") if call.input(0) is None else call.type(0)
    return (OptionalType(element),) if element is not None else ()


SEQUENCES: dict[str, Rule] = {
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceAt": _at,
    "SplitToSequence": _split,
    "ConcatFromSequence": _concat,
    "Optional": _optional,
    "OptionalGetElement": _get_element,
}
