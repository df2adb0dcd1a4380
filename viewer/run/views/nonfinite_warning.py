"""Search for non-finite values of a run, and the words of the warning about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

from onnx_workbench.exec.inspect.nonfinite import NonFiniteSearch, non_finite_values
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.values.finiteness import NonFiniteMode
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.program.settings import NAN_ALONE
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.style.labels import name_of

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace


def search_mode(workspace: Workspace) -> NonFiniteMode:
    """Return the condition to search for: origins of NaN, or also of infinities."""
    return "nan" if workspace.settings.get(NAN_ALONE) else "origins"


def warning_of(workspace: Workspace, value: Value, search: NonFiniteSearch) -> tuple[str, str]:
    """Return title and detail of the warning about the first value found."""
    bad, maker = search.found[0], value.producer
    what = "NaN" if isnan(bad.value) else "An infinity"
    at = ", ".join(map(str, bad.index))
    made = f"{bad.operator} {display(maker.name, 60)}".rstrip() if maker is not None else bad.operator
    cause = f"{made}: {bad.cause}. " if bad.cause else ""

    def name_at(key: ValueKey) -> str:
        other = workspace.results.value_by_number(key[1])
        return "another value" if other is None else name_of(other)

    so_far = passed(search, search_mode(workspace), name_at)
    return f"{what} in {name_of(value)}", f"{cause}{plural(bad.count, 'element')}, the first at [{at}]. {so_far}."


def passed(search: NonFiniteSearch, mode: NonFiniteMode, name_at: Callable[[ValueKey], str]) -> str:
    """Describe the values before the first one found: which of them is not finite, such as a weight."""
    before = search.passed
    if before is not None:
        what = "NaN" if isnan(before.value) else "an infinity" if before.count == 1 else "infinities"
        at = f" at [{', '.join(map(str, before.index))}]" if before.index else ""
        so_far = f"Before it, {name_at(before.key)} has {what}{at}"
    else:
        so_far = "No NaN before it" if mode == "nan" else "Every value before it is finite"
    return f"{so_far}, but {unseen(search)}" if not search.is_complete else so_far


def unseen(search: NonFiniteSearch) -> str:
    """Describe the values that an incomplete search did not cover."""
    parts = [f"{plural(search.unkept, 'value')} dropped to save memory"] if search.unkept else []
    if search.has_bodies:
        parts.append("values inside bodies")
    return f"{' and '.join(parts)} were not searched"


def non_finite(record: RunRecord, most: int, mode: NonFiniteMode) -> NonFiniteSearch:
    """Search a run for origins of non-finite values. Off the GUI thread. LookupError if the values are lost.

    A run of `search_non_finite` that has paused or ended has checked everything itself.
    """
    search = record.result.apply(non_finite_values, most, mode)
    return replace(search, unkept=0, has_bodies=False) if record.was_watched and not record.was_continued else search
