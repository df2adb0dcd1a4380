"""Element types of values from declarations and schemas alone, without inference of shapes."""

from __future__ import annotations

from onnx_workbench.model.analysis.call_graph import called_by
from onnx_workbench.model.analysis.node_constants import constant_tensor, number
from onnx_workbench.model.analysis.subgraph_ports import origin
from onnx_workbench.model.analysis.value_types import declared_type
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.model.schemas import traits
from onnx_workbench.model.schemas.defaults import schema_of

_MOST_VISITED = 1000
_BY_TEXT = {f"tensor({kind.text})": kind for kind in ElementType}
#: Element types of the first inputs of a Loop's subgraph: the iteration number and the condition.
_LOOP_INPUTS = (ElementType.INT64, ElementType.BOOL)


def element_type_of(value: Value) -> ElementType | None:
    """Return the element type of a tensor: declared, fixed by its producer, or that of a value of the same type.

    Examines values that must have the same type until one is known, at most a thousand.
    """
    pending, seen = [value], {value}
    while pending and len(seen) < _MOST_VISITED:
        current = pending.pop()
        known = _known_type(current)
        if known is not None:
            return known
        others = [other for other in _of_same_type(current) if other not in seen]
        seen.update(others)
        pending += reversed(others)
    return None


def result_type(node: Node, index: int = 0) -> ElementType | None:
    """Return the element type of an output as determined by an attribute or the schema only."""
    if not index:
        constant = constant_tensor(node)
        kind = number(node, traits.of(node).type_attribute) if constant is None else constant.element_type
        if kind and kind in ElementType.__members__.values():
            return ElementType(kind)
    schema = schema_of(node)
    output = None if schema is None else schema.output(index)
    return _BY_TEXT.get(next(iter(output.types))) if output is not None and len(output.types) == 1 else None


def inputs_of_same_type(node: Node, index: int = 0) -> list[Value]:
    """Return the inputs that have the type of an output, by the type variables of the schema."""
    schema = schema_of(node)
    output = None if schema is None else schema.output(index)
    if schema is None or output is None or not output.homogeneous:
        return []
    return [v for i, v in enumerate(node.inputs) if v is not None and schema.types_by(i, output)]


def _known_type(value: Value) -> ElementType | None:
    kind = declared_type(value)
    if isinstance(kind, TensorType) and isinstance(kind.element_type, ElementType) and kind.element_type:
        return kind.element_type
    node, graph = value.producer, value.graph
    if node is not None:
        return None if called_by(node) is not None else result_type(node, node.outputs.index(value))
    owner = None if graph is None else graph.owner
    if graph is not None and isinstance(owner, Node) and owner.operator[:2] == ("", "Loop"):
        return next((kind for kind, v in zip(_LOOP_INPUTS, graph.inputs, strict=False) if v is value), None)
    return None


def _of_same_type(value: Value) -> list[Value]:
    node = value.producer
    if node is None:
        source = origin(value)
        return [source] if isinstance(source, Value) else []
    index = node.outputs.index(value)
    function, first = called_by(node), traits.of(node).first_result
    if function is not None:
        return list(function.body.outputs[index : index + 1])
    if first is not None:
        return [v for body in node.bodies for v in body.outputs[index + first : index + first + 1]]
    return inputs_of_same_type(node, index)
