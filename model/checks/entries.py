"""Metadata that a file has twice under one key, whatever it is metadata of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from model.checks.problem import Problem, error
from model.graph import Function, Graph, Model, Node, Value
from model.tensors import Tensor


def check_keys(place: Model | Function | Graph | Node | Value, what: str) -> Iterator[Problem]:
    """Keys that the message of a part of the model has twice; `what` it is called. An edit writes each key once."""
    yield from _repeated(place, what, place._source, place)


def check_tensor_keys(value: Value, tensor: Tensor) -> Iterator[Problem]:
    """The same for the tensor of an initializer."""
    yield from _repeated(value, f"The tensor of {value.name}", tensor.source, tensor)


def _repeated(place: object, what: str, source: Any, holder: Any) -> Iterator[Problem]:
    entries = getattr(source, "metadata_props", ())  # none where it was made here
    if len(entries) < 2:
        return
    counts = Counter(entry.key for entry in entries)
    last = {entry.key: entry.value for entry in entries}
    for key, count in counts.items() if last == holder.metadata else ():
        if count > 1:
            detail = "The last entry counts; keys must differ."
            yield error("duplicate-metadata", f"{what} has metadata {key} {count} times", place, detail)
