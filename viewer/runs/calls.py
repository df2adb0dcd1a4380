"""Nodes of the model as calls that a run, perhaps in another process, can be asked about."""

from __future__ import annotations

from exec.inspection import tracing
from exec.inspection.tracing import Call
from model.graph import Value
from viewer.results import Record


def call_of(record: Record, value: Value) -> Call | None:
    """The node that makes a value, as it is now; None for inputs and constants of a graph."""
    return tracing.call_of(value, record.key)
