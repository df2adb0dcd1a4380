"""Duplicate metadata keys in a file, on any object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from onnx_workbench.model.analysis.scoping import unique_name
from onnx_workbench.model.checks.problem import Fix, Problem, error
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField, SetInitializer
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import Tensor


def check_keys(place: Model | Function | Graph | Node | Value, what: str) -> Iterator[Problem]:
    """Report duplicate metadata keys in the message of an object, described by `what`. An edit writes each key once."""
    yield from _repeated(place, what, place._source, place)


def check_tensor_keys(value: Value, tensor: Tensor) -> Iterator[Problem]:
    """Report the same for the tensor of an initializer."""
    yield from _repeated(value, f"The tensor of {value.name}", tensor.source, tensor)


def _repeated(place: Any, what: str, source: Any, holder: Any) -> Iterator[Problem]:
    entries = getattr(source, "metadata_props", ())  # none for a new object
    if len(entries) < 2 or len(entries) == len(holder.metadata):  # each has its own key
        return
    counts = Counter(entry.key for entry in entries)
    last = {entry.key: entry.value for entry in entries}
    for key, count in counts.items() if last == holder.metadata else ():
        if count > 1:
            yield error(
                "duplicate-metadata",
                f"{what} has metadata {key} {count} times",
                place,
                "The last entry is used; keys must be unique.",
                Fix(
                    f"Keep every {key} of {what}, with unique keys",
                    partial(_part, place=place, holder=holder, entries=entries),
                ),
            )


def _part(edit: Transaction, place: Any, holder: Any, entries: Any) -> None:
    """Rename duplicate keys to unused ones; nothing is lost, and a lookup by key gives the same as before."""
    pairs = [(entry.key, entry.value) for entry in entries]
    last = {key: number for number, (key, _) in enumerate(pairs)}
    kept: dict[str, str] = {}
    for number, (key, text) in enumerate(pairs):
        kept[key if last[key] == number else unique_name(f"{key}_1", {*last, *kept})] = text
    if holder is place:
        edit.do(SetField(place, "metadata", kept))
    else:
        edit.do(SetInitializer(place.graph, place, holder.with_texts(metadata=kept)))
