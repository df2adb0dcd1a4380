"""Goes to where values of a run stop being finite, from one such place to the next."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QObject

from onnx_workbench.exec.inspect.nonfinite import NonFiniteSearch, NonFiniteValue, Sought, first_of
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.run.nonfinite_warning import non_finite, sought_in, unseen
from onnx_workbench.viewer.run.results import RunRecord
from onnx_workbench.viewer.style.labels import name_of

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace

T = TypeVar("T")

_TOPIC = "search for what is not finite"

#: Places that are gone through one after the other.
_MOST = 1000

#: What is called with a value and the index of its first element that is not finite, empty if it is no tensor.
Found = Callable[[Value, tuple[int, ...]], object]


class NonFiniteNavigator(QObject):
    """Search for the beginning of NaN, or infinities too, in the last run. GUI thread only.

    If the run has passed values that it did not keep, such as all iterations of a body but the last, the model is run
    again, with the same inputs and seed, and stops at each such value.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self._shown: ValueKey | None = None  # where the hunt stands; None: at no place
        self._seeks: Sought = "beginnings"  # of the run that was started for it

    def first(self, found: Found) -> None:
        """Go to the first place; a message when there is none."""
        runs = self._workspace.runs
        if runs.is_seeking:
            self._seek(found)
        else:
            self._search(1, partial(self._found_first, found))

    def following(self, found: Found) -> None:
        """Go to the place after the one gone to last, or to the first; a message when there is none."""
        runs = self._workspace.runs
        if runs.is_seeking and self._seeks == sought_in(self._workspace):
            runs.seek_on()
        elif self._shown is None or runs.is_seeking:
            self.first(found)
        else:
            self._search(_MOST, partial(self._found_following, found))

    # -- in what is kept -------------------------------------------------------------------------------------

    def _search(self, most: int, done: Callable[[RunRecord, NonFiniteSearch], object]) -> None:
        """Search the values kept of the run that is shown."""
        record, sought = self._workspace.results.current, sought_in(self._workspace)
        if record is None:
            return

        def work(_progress: Progress) -> NonFiniteSearch:
            try:
                return non_finite(record, most, sought)
            except LookupError as error:
                raise _gone(error) from error

        self._start(work, lambda search: done(record, search))

    def _start(self, work: Callable[[Progress], T], done: Callable[[T], object]) -> None:
        self._workspace.tasks.start("Find NaN and infinity", work, done=done, supersede=_TOPIC)

    def _found_first(self, found: Found, record: RunRecord, search: NonFiniteSearch) -> None:
        runs = self._workspace.runs
        is_busy = record.unfinished or runs.is_running or runs.is_paused  # no run is ended for it
        if is_busy or search.is_whole or (search.found and self._is_given(search.found[0])):
            self._tell(found, record, search)
        else:
            self._seek(found)

    def _found_following(self, found: Found, record: RunRecord, search: NonFiniteSearch) -> None:
        keys = [bad.key for bad in search.found]
        runs = self._workspace.runs
        if self._shown not in keys or not (search.is_whole or record.unfinished or runs.is_running or runs.is_paused):
            self._found_first(found, record, search)
        elif self._shown == keys[-1]:
            self._tell_end()
        else:
            self._show(found, search.found[keys.index(self._shown) + 1])

    def _is_given(self, bad: NonFiniteValue) -> bool:
        """Return whether it is an input or a constant, which nothing precedes."""
        value = self._workspace.results.value_by_number(bad.key[1])
        return value is not None and value.producer is None and value.graph is self._workspace.runs.inputs.graph

    # -- in a run for it -------------------------------------------------------------------------------------

    def _seek(self, found: Found) -> None:
        self._shown = None
        self._seeks = sought = sought_in(self._workspace)
        self._workspace.runs.seek_non_finite("nan" if sought == "nan" else "beginnings", lambda: self._stopped(found))

    def _stopped(self, found: Found) -> None:
        """The run waits behind a node that gave some, or is over."""
        runs, record, sought = self._workspace.runs, self._workspace.results.current, self._seeks
        last = runs.last_node if runs.is_seeking else None
        if record is None:
            return
        if last is None:
            if self._shown is None:
                self._search(1, partial(self._tell, found))
            else:
                self._tell_end()
            return
        path, node = last
        keys = [(path, value.id) for value in node.outputs if value is not None]

        def work(_progress: Progress) -> NonFiniteValue | None:
            try:
                return record.result.apply(first_of, keys, sought)
            except LookupError as error:
                raise _gone(error) from error

        self._start(work, lambda bad: self._show(found, bad))

    # -- messages --------------------------------------------------------------------------------------------

    def _show(self, found: Found, bad: NonFiniteValue | None) -> None:
        value = None if bad is None else self._workspace.results.value_by_number(bad.key[1])
        if bad is None or value is None:
            return
        self._shown = bad.key
        self._workspace.messages.withdraw(_TOPIC)
        self._workspace.results.show_call(bad.key[0])
        found(value, bad.index)

    def _tell_end(self) -> None:
        self._shown = None
        what = "NaN" if sought_in(self._workspace) == "nan" else "NaN or infinity"
        detail = "Go to the next again to begin with the first."
        self._workspace.messages.show("info", f"No further {what} begins in the last run", detail, topic=_TOPIC)

    def _tell(self, found: Found, record: RunRecord, search: NonFiniteSearch) -> None:
        workspace = self._workspace
        if search.found:
            self._show(found, search.found[0])
            return
        run = "what the run has computed so far" if record.unfinished else "the last run"
        is_nan = sought_in(workspace) == "nan"
        passed = search.passed and workspace.results.value_by_number(search.passed.key[1])
        if not search.is_whole:
            title = "No NaN was found" if is_nan else "No NaN and no infinity was found"
            fine = "has no NaN" if is_nan else "is finite" if passed is None else "brings in none"
            detail = f"What was looked at in {run} {fine}, but {unseen(search)}."
        elif passed is not None:
            title = "No value is NaN" if is_nan else "Infinities are only passed on"
            detail = f"The first value of {run} that has an infinity is {name_of(passed)}."
            detail += "" if is_nan else " No node makes one out of finite numbers."
        else:
            title, detail = "Every value is finite", f"No NaN and no infinity in {run}."
        workspace.messages.show("info", title, detail, topic=_TOPIC)


def _gone(error: LookupError) -> ModelError:
    return ModelError("The values are gone", f"{error}. Run the model again.")
