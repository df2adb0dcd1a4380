"""What the formal inputs and outputs of a body or function stand for outside: the arguments and results of a node."""

from __future__ import annotations

from onnx_workbench.model.ir.graph import Function, Graph, Node, Value

#: Operators of ONNX whose bodies have formal inputs, with the first of them that stands for an input of the node.
_FIRST_ARGUMENT = {"Loop": 1, "Scan": 0, "SequenceMap": 0}
#: Operators of ONNX whose bodies' outputs become the node's, with the first that does.
_FIRST_RESULT = {"If": 0, "Loop": 1, "Scan": 0, "SequenceMap": 0}


def argument(node: Node, graph: Graph, position: int) -> Value | None:
    """What a node gives to a formal input of its body, or of the function it calls, at first; None for nothing.

    A Loop gives its number of turns to nobody: the first formal input counts them.
    """
    if isinstance(graph.owner, Function):
        return _at(node.inputs, position)
    first = _FIRST_ARGUMENT.get(node.op_type) if not node.domain else None
    if first is None or position < first:
        return None
    # Until version 9 a Scan had an input before those of its body.
    older = node.op_type == "Scan" and len(node.inputs) > len(graph.inputs)
    return _at(node.inputs, position + older)


def result(node: Node, graph: Graph, position: int) -> Value | None:
    """What an output of a node's body, or of the function it calls, is outside; None for nothing.

    The first output of a Loop's body says whether to go on, and is nothing outside.
    """
    if isinstance(graph.owner, Function):
        return _at(node.outputs, position)
    first = _FIRST_RESULT.get(node.op_type) if not node.domain else None
    return None if first is None or position < first else _at(node.outputs, position - first)


def origin(value: Value) -> Value | Node | None:
    """Where a value comes from: the node that makes it, or outside of a body the value given to it; None: nowhere."""
    if value.producer is not None:
        return value.producer
    graph = value.graph
    if graph is None or not isinstance(graph.owner, Node) or value not in graph.inputs:
        return None
    return argument(graph.owner, graph, list(graph.inputs).index(value))


def _at(values: tuple[Value | None, ...], position: int) -> Value | None:
    return values[position] if 0 <= position < len(values) else None
