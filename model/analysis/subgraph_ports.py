"""Correspondence between formal inputs and outputs of a subgraph or function and a node's arguments and results."""

from __future__ import annotations

from onnx_workbench.model.ir.graph import Function, Graph, Node, Value
from onnx_workbench.model.schemas import traits


def argument(node: Node, graph: Graph, position: int) -> Value | None:
    """Return the initial argument of a formal input of a subgraph or called function; None for none.

    The first formal input of a Loop is the iteration number, without an argument.
    """
    if isinstance(graph.owner, Function):
        return _at(node.inputs, position)
    first = traits.of(node).first_argument
    if first is None or position < first:
        return None
    # Until version 9 a Scan had one more input, before those of its subgraph.
    older = node.op_type == "Scan" and len(node.inputs) > len(graph.inputs)
    return _at(node.inputs, position + older)


def result(node: Node, graph: Graph, position: int) -> Value | None:
    """Return the result that an output of a subgraph or called function becomes; None for none.

    The first output of a Loop's subgraph is the condition, without a result.
    """
    if isinstance(graph.owner, Function):
        return _at(node.outputs, position)
    first = traits.of(node).first_result
    return None if first is None or position < first else _at(node.outputs, position - first)


def origin(value: Value) -> Value | Node | None:
    """Return the origin of a value: its producer, or for a formal input the argument; None without one."""
    if value.producer is not None:
        return value.producer
    graph = value.graph
    if graph is None or not isinstance(graph.owner, Node) or value not in graph.inputs:
        return None
    return argument(graph.owner, graph, list(graph.inputs).index(value))


def _at(values: tuple[Value | None, ...], position: int) -> Value | None:
    return values[position] if 0 <= position < len(values) else None
