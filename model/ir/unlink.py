"""Freeing of a model in small slices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx_workbench.model.ir.graph import Model, Value, Values
from onnx_workbench.model.ir.node_list import NodeList


def unlink(model: Model) -> Iterator[None]:
    """Break the reference cycles of a model, which is unusable afterwards; yield after each node and value.

    Nodes and values refer to each other, so only the garbage collector would free them, all at once, which takes
    seconds for 200,000 nodes. Afterwards each is freed with the last reference to it. Linear.
    """
    pending = list(model.root_graphs())
    while pending:
        graph = pending.pop()
        values = (*graph.inputs, *graph.outputs, *graph.declared, *graph.initializers)
        graph._lookup, graph._places, graph.quantization_annotations = None, {}, ()
        graph.inputs = graph.outputs = graph.declared = Values()
        graph.initializers = []
        for value in values:
            _unlink_value(value)
            yield
        node, graph.nodes = graph.nodes.first, NodeList(graph)
        while node is not None:
            _unlink_values(node.inputs)
            _unlink_values(node.outputs)
            for body in node.bodies:
                body.owner = None
                pending.append(body)
            following = node._next
            node.inputs = node.outputs = ()
            node.graph = node._previous = node._next = None
            node = following
            yield


def _unlink_values(values: Iterable[Value | None]) -> None:
    for value in values:
        if value is not None:
            _unlink_value(value)


def _unlink_value(value: Value) -> None:
    value.graph = value.producer = value._uses = None
