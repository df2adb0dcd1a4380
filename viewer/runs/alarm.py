"""Tells after a run where its values stop being finite, once, and takes that back when they are again."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from exec.inspection.tracing import Search, non_finite_values
from model.graph import Value
from viewer.places import name_of
from viewer.results import Record
from viewer.text import plural

if TYPE_CHECKING:
    from viewer.workspace import Workspace

_TOPIC = "non-finite"


class Alarm(QObject):
    """Looks through the values of each run that has ended, in the background. GUI thread only."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self._told: Value | None = None
        workspace.results.run_finished.connect(self._look)

    def _look(self) -> None:
        record = self._workspace.results.current
        if record is None:
            return
        self._workspace.jobs.start(
            "", lambda _progress: _first(record), done=lambda search: self._tell(record, search), lane="count",
            supersede=_TOPIC,
        )  # fmt: skip

    def _tell(self, record: Record, search: Search) -> None:
        workspace = self._workspace
        if record is not workspace.results.current:
            return
        bad = search.found[0] if search.found else None
        value = workspace.results.value_by_number(bad.key[1]) if bad is not None else None
        if bad is None or value is None or record.was_watched:  # who sought it stands before it
            self._told = value
            workspace.withdraw(_TOPIC)
        elif value is not self._told:  # who has closed the message knows
            self._told = value
            what = "NaN" if isnan(bad.value) else "An infinity"
            at = ", ".join(map(str, bad.index))
            detail = f"{plural(bad.count, 'element')}, the first at [{at}]. Every value before it {passed(search)}."
            show = ("Show", lambda: workspace.trigger("run.first_non_finite"))
            workspace.message("warning", f"{what} in {name_of(value)}", detail, choices=(show,), topic=_TOPIC)


def passed(search: Search) -> str:
    """What can be said of the values that a search has passed: that they are finite, and which it did not look at."""
    unseen = [f"{plural(search.let_go, 'value')} let go for memory"] if search.let_go else []
    if search.has_bodies:
        unseen.append("values inside bodies")
    return f"is finite, but {' and '.join(unseen)} were not looked at" if unseen else "is finite"


def first_non_finite(record: Record) -> Search:
    """Look for the first value of a run that is not finite. Off the GUI thread. LookupError when the values are gone.

    A run that was to stop at it has looked at everything itself.
    """
    search = record.result.apply(non_finite_values, 1)
    return replace(search, let_go=0, has_bodies=False) if record.was_watched else search


def _first(record: Record) -> Search:
    try:
        return first_non_finite(record)
    except LookupError:
        return Search((), 0, False)  # the worker that had the values is gone
