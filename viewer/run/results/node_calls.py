"""Nodes of the model as picklable calls for tracing in a run; and positions of equal values."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from onnx_workbench.exec.inspect.receptive_field import trace
from onnx_workbench.exec.inspect.receptive_field.trace import TracedCall
from onnx_workbench.exec.results.slot_map import Path, ValueKey
from onnx_workbench.model.analysis.call_graph import called_by
from onnx_workbench.model.ir.graph import Function, Node, Value
from onnx_workbench.viewer.run.results.run_record import RunRecord


def call_of(record: RunRecord, value: Value, node_of: Callable[[int], Node | None]) -> TracedCall | None:
    """Return the current producer of a value as a call; None for inputs and constants of a graph."""
    return trace.call_of(value, record.key, node_of)


def links_of(record: RunRecord, value: Value, key: ValueKey, node_of: Callable[[int], Node | None]) -> list[ValueKey]:
    """Return values in other graphs that equal a value by definition.

    These are the output of the branch, iteration or function that returns it, or the argument of the call if it is an
    input of a function or a body. `node_of` returns the node with a number.
    """
    keys = []
    for inside, other in _same(value, key[0], node_of):
        linked = inside, other.id
        if linked != key and record.result.info(linked) is not None:
            keys.append(linked)
    return keys


def _same(value: Value, path: Path, node_of: Callable[[int], Node | None]) -> Iterator[tuple[Path, Value]]:
    node = value.producer
    if node is not None:
        yield from _made_inside(node, node.outputs.index(value), path)
        return
    graph = value.graph
    owner = None if graph is None else graph.owner
    if graph is None or value not in graph.inputs:
        return
    position = graph.inputs.index(value)
    if isinstance(owner, Function) and path:
        call = node_of(path[-1])
        argument = None if call is None or position >= len(call.inputs) else call.inputs[position]
        if argument is not None:
            yield path[:-1], argument
    elif isinstance(owner, Node) and owner.op_type == "Loop" and position >= 2:
        yield path, graph.outputs[position - 1]  # of the previous iteration
        first = owner.inputs[position] if position < len(owner.inputs) else None
        if first is not None:
            yield path, first


def _made_inside(node: Node, position: int, path: Path) -> Iterator[tuple[Path, Value]]:
    function = called_by(node)
    if function is not None:
        if position < len(function.body.outputs):
            yield (*path, node.id), function.body.outputs[position]
    elif node.domain == "" and node.op_type in ("If", "Loop"):
        skipped = 1 if node.op_type == "Loop" else 0  # the condition
        if skipped and position >= len(node.inputs) - 2:
            return  # stacked over all iterations
        for body in node.bodies:
            if position + skipped < len(body.outputs):
                yield path, body.outputs[position + skipped]
