"""Nodes of the model as calls that a run, perhaps in another process, can be asked about."""

from __future__ import annotations

from typing import Any

from exec.plan import ValueKey
from exec.tracing import Call
from model.graph import Value
from viewer.results import Record


def call_of(record: Record, value: Value) -> Call | None:
    """The node that makes a value, as it is now; None for inputs and constants of a graph."""
    node = value.producer
    if node is None or node.graph is None:
        return None
    attributes: dict[str, Any] = {}
    for name, attribute in node.attributes.items():
        if attribute.reference == "" and isinstance(attribute.value, (int, float, str, tuple)):
            attributes[name] = attribute.value
    version = node.graph.opset_imports.get(node.domain, 0)

    def key(one: Value | None) -> ValueKey | None:
        return None if one is None else record.key(one)

    return Call(
        node.op_type, node.domain, version, attributes, tuple(map(key, node.inputs)), tuple(map(key, node.outputs))
    )
