"""Warning after a run about non-finite values; shown once, and withdrawn when values are finite again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from onnx_workbench.exec.inspect.nonfinite import NonFiniteSearch, non_finite_values
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.values.finiteness import NonFiniteMode
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.program.settings import NAN_ALONE
from onnx_workbench.viewer.run.results.results import RunRecord
from onnx_workbench.viewer.style.labels import name_of

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace

_TOPIC = "non-finite"


class NonFiniteWarning(QObject):
    """Background check of the shown values after a run, or when undo shows earlier results.

    GUI thread only.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self._reported: Value | None = None
        self._searched: RunRecord | None = None  # the run checked last
        workspace.results.run_finished.connect(self._search)
        workspace.results.changed.connect(self._on_changed)
        workspace.settings.changed.connect(self._on_setting)

    def _on_setting(self, key: str) -> None:
        if key == NAN_ALONE.key:
            self._search()

    def _on_changed(self, values: object) -> None:
        results = self._workspace.results
        if values is None and results.current is not self._searched and not results.is_running:
            self._search()

    def _search(self) -> None:
        record = self._searched = self._workspace.results.current
        if record is None:
            return
        mode = search_mode(self._workspace)
        self._workspace.tasks.start(
            "", lambda _progress: _first(record, mode), done=lambda search: self._show(record, search), lane="count",
            supersede=_TOPIC,
        )  # fmt: skip

    def _show(self, record: RunRecord, search: NonFiniteSearch) -> None:
        workspace = self._workspace
        if record is not workspace.results.current:
            return
        bad = search.found[0] if search.found else None
        value = workspace.results.value_by_number(bad.key[1]) if bad is not None else None
        if bad is None or value is None or record.was_watched:  # a search shows its finding itself
            self._reported = value
            workspace.messages.withdraw(_TOPIC)
        elif value is not self._reported:  # shown once, even if the user has closed the message
            self._reported = value
            what = "NaN" if isnan(bad.value) else "An infinity"
            at = ", ".join(map(str, bad.index))
            maker = value.producer
            made = f"{bad.operator} {display(maker.name, 60)}".rstrip() if maker is not None else bad.operator
            cause = f"{made}: {bad.cause}. " if bad.cause else ""
            so_far = passed(search, search_mode(workspace), self._name_of)
            detail = f"{cause}{plural(bad.count, 'element')}, the first at [{at}]. {so_far}."
            show = ("Show", lambda: workspace.trigger("run.first_non_finite"))
            workspace.messages.show("warning", f"{what} in {name_of(value)}", detail, choices=(show,), topic=_TOPIC)

    def _name_of(self, key: ValueKey) -> str:
        value = self._workspace.results.value_by_number(key[1])
        return "another value" if value is None else name_of(value)


def search_mode(workspace: Workspace) -> NonFiniteMode:
    """Return the condition to search for: origins of NaN, or also of infinities."""
    return "nan" if workspace.settings.get(NAN_ALONE) else "origins"


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


def _first(record: RunRecord, mode: NonFiniteMode) -> NonFiniteSearch:
    try:
        return non_finite(record, 1, mode)
    except LookupError:
        return NonFiniteSearch((), 0, False)  # the worker with the values has ended
