"""Nodes of the model as calls that a run, perhaps in another process, can be asked about; calls of functions."""

from __future__ import annotations

from exec.inspection import tracing
from exec.inspection.tracing import Call
from model.graph import Function, Node, Value
from viewer.results import Record


def call_of(record: Record, value: Value) -> Call | None:
    """The node that makes a value, as it is now; None for inputs and constants of a graph."""
    return tracing.call_of(value, record.key)


def calls_of(function: Function) -> list[Node]:
    """The nodes of its model that call a function."""
    if function.model is None:
        return []
    nodes = (node for graph in function.model.graphs() for node in graph.nodes)
    return [n for n in nodes if (n.domain, n.op_type, n.overload) == function.key]
