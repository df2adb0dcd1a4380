"""Structural labels of nodes, without names and edges: nodes of equal labels compute the same function."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

from onnx_workbench.model.analysis.topology import outer_values
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor

INLINE = 64  # elements of a tensor attribute that enter the label
_UNDEFINED = 1 << 62  # in place of the index of a value without a producer


def node_label(node: Node, operator: Hashable = None) -> Hashable:
    """Return the operator (or its replacement) and attributes.

    Subgraphs count by their number of nodes, long tensors by type and shape alone.
    """
    operator_label = node.operator if operator is None else operator
    return operator_label, frozenset(map(_attribute_label, node.attributes.values()))


def operator_label(node: Node) -> Hashable:
    """Return the operator with present inputs and outputs, whatever the attributes; bodies count by their nodes."""
    return node.operator, *_present(node), tuple(len(body.nodes) for body in node.bodies)


def short_content(tensor: Tensor) -> Hashable | None:
    """Return type, shape and elements of a tensor, None where these are many: reads little."""
    return _content(tensor) if _is_short(tensor) else None


#: Content key of a constant; None if unavailable.
ContentOf = Callable[[Tensor], Hashable | None]


def exact_label(node: Node, content_of: ContentOf = short_content) -> Hashable | None:
    """Return the label with present inputs and outputs, and subgraph contents, independent of names.

    Outer values of subgraphs count by their index in `outer_values`. None where a constant has no content key, so that
    equality cannot be proven.
    """
    own = _own_label(node, content_of)
    if own is None or not node.bodies:
        return own
    outer = outer_values(node)
    numbers = {value: -1 - number for number, value in enumerate(outer)}
    graphs = [graph for body in node.bodies for graph in body.walk()]
    for graph in graphs:
        made = (value for inner in graph.nodes for value in inner.outputs)
        for value in (*graph.inputs, *graph.initializers, *made):
            if value is not None:
                numbers.setdefault(value, len(numbers))
    labels = [_graph_label(graph, numbers, content_of) for graph in graphs]
    return None if None in labels else (own, len(outer), tuple(labels))


def _graph_label(graph: Graph, numbers: Mapping[Value, int], content_of: ContentOf) -> Hashable | None:
    """Return the label of a graph, without its subgraphs."""
    constants = _contents((value.initializer for value in graph.initializers), content_of)
    if graph.quantization_annotations or constants is None:
        return None
    nodes = []
    for node in graph.nodes:
        label = _own_label(node, content_of)
        inputs = tuple(None if value is None else numbers.get(value, _UNDEFINED) for value in node.inputs)
        if label is None or _UNDEFINED in inputs:
            return None
        nodes.append((label, inputs))
    results = tuple(numbers.get(value, _UNDEFINED) for value in graph.outputs)
    if _UNDEFINED in results:
        return None
    return len(graph.inputs), constants, tuple(nodes), results


def _own_label(node: Node, content_of: ContentOf) -> Hashable | None:
    values = (attribute.value for _, attribute in sorted(node.attributes.items()))
    constants = _contents((c for v in values for c in (v if isinstance(v, tuple) else (v,))), content_of)
    return None if constants is None else (node_label(node), constants, _present(node))


def _present(node: Node) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    return tuple(v is not None for v in node.inputs), tuple(v is not None for v in node.outputs)


def _contents(values: Iterable[object], content_of: ContentOf) -> Hashable | None:
    """Return the content keys of the constants among the values; None where one is unavailable."""
    labels = []
    for value in values:
        if isinstance(value, Tensor):
            labels.append(content_of(value))
        elif isinstance(value, SparseTensor):
            labels += [value.shape, content_of(value.indices), content_of(value.values)]
    return None if None in labels else tuple(labels)


def leaf_label(value: Value) -> Hashable:
    """Return type and shape of a constant; None for other values."""
    tensor = value.initializer
    return None if tensor is None else (int(tensor.element_type), tuple(tensor.shape))


def _is_short(tensor: Tensor) -> bool:
    return tensor.size <= INLINE and not tensor.problem


def _content(tensor: Tensor) -> Hashable:
    return tensor.element_type, tensor.shape, str(tensor.numpy().tolist()) if _is_short(tensor) else ""


def _attribute_label(attribute: Attribute) -> Hashable:
    value = attribute.value
    if attribute.graphs:
        content: Hashable = tuple(len(graph.nodes) for graph in attribute.graphs)
    elif isinstance(value, Tensor):
        content = _content(value)
    elif isinstance(value, SparseTensor):
        content = (value.element_type, value.shape)
    else:
        content = repr(value)
    return attribute.name, int(attribute.kind), content, attribute.reference
