"""Navigation to the origins of non-finite values in a run, from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from PySide6.QtCore import QObject

from onnx_workbench.exec.inspect.nonfinite import NonFiniteSearch, NonFiniteValue, first_of
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.run.views.nonfinite_warning import non_finite, search_mode, unseen
from onnx_workbench.viewer.style.labels import name_of

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.session.controller import RunController
    from onnx_workbench.viewer.run.workspace import Workspace

T = TypeVar("T")

_TOPIC = "search for what is not finite"

#: Limit for the findings to step through.
_MOST = 1000

#: Callback with a value and the index of its first non-finite element, empty if it is not a tensor.
Found = Callable[[Value, tuple[int, ...]], object]


class NonFiniteNavigator(QObject):
    """Search for the origins of NaN, or also infinities, in the last run. GUI thread only.

    If the run did not keep all values, such as iterations of a body before the last, the model is run again, with the
    same inputs and seed, and stops at each such value.
    """

    def __init__(self, workspace: Workspace, runs: RunController) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self._runs = runs
        self._found: Found = lambda _value, _index: None
        self._shown: ValueKey | None = None  # the finding shown last; None: start with the first
        self._run_mode: Literal["origins", "nan"] = "origins"  # of the run that was started for it

    def first(self, found: Found) -> None:
        """Select the first value; show a message if there is none."""
        self._found = found
        if self._runs.is_searching:
            self._run()
        else:
            self._search(1, self._show_first)

    def select_next(self, found: Found) -> None:
        """Select the value after the last one, or the first; show a message if there is none."""
        self._found = found
        if self._runs.is_searching and self._run_mode == search_mode(self._workspace):
            self._runs.resume()
        elif self._shown is None or self._runs.is_searching:
            self.first(found)
        else:
            self._search(_MOST, self._show_following)

    # -- in the values that the last run kept ----------------------------------------------------------------

    def _search(self, most: int, show: Callable[[RunRecord, NonFiniteSearch], object]) -> None:
        record, mode = self._workspace.results.current, search_mode(self._workspace)
        if record is None:
            return

        def work(_progress: Progress) -> NonFiniteSearch:
            with _values_needed():
                return non_finite(record, most, mode)

        self._start(work, partial(show, record))

    def _start(self, work: Callable[[Progress], T], show: Callable[[T], object]) -> None:
        self._workspace.tasks.start("Searching for NaN and infinity", work, done=show, supersede=_TOPIC)

    def _show_first(self, record: RunRecord, search: NonFiniteSearch) -> None:
        if self._is_final(record, search) or (search.found and self._is_given(search.found[0])):
            self._show_search(record, search)
        else:
            self._run()

    def _show_following(self, record: RunRecord, search: NonFiniteSearch) -> None:
        keys = [bad.key for bad in search.found]
        if self._shown not in keys or not self._is_final(record, search):
            self._show_first(record, search)
        elif self._shown == keys[-1]:
            self._show_end()
        else:
            self._show(search.found[keys.index(self._shown) + 1])

    def _is_final(self, record: RunRecord, search: NonFiniteSearch) -> bool:
        """Return whether no new run is made: everything was searched, or a run is in progress."""
        return search.is_complete or record.unfinished or self._runs.is_running or self._runs.is_paused

    def _is_given(self, bad: NonFiniteValue) -> bool:
        """Return whether the value is an input or a constant, which has no origin."""
        value = self._workspace.results.value_by_number(bad.key[1])
        return value is not None and value.producer is None and value.graph is self._runs.inputs.graph

    # -- in a run for it -------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._shown = None
        self._run_mode = "nan" if search_mode(self._workspace) == "nan" else "origins"
        self._runs.search_non_finite(self._run_mode)

    def run_stopped(self) -> None:
        """Go on after a run of `search_non_finite` has paused, at an origin, which is shown, or ended.

        Then search its values, or report the end.
        """
        record, mode = self._workspace.results.current, self._run_mode
        last = self._runs.last_node if self._runs.is_searching else None
        if record is None:
            return
        if last is None:
            if self._shown is None:
                self._search(1, self._show_search)
            else:
                self._show_end()
            return
        path, node = last
        keys = [(path, value.id) for value in node.outputs if value is not None]

        def work(_progress: Progress) -> NonFiniteValue | None:
            with _values_needed():
                return record.result.apply(first_of, keys, mode)

        self._start(work, self._show)

    # -- messages --------------------------------------------------------------------------------------------

    def _show(self, bad: NonFiniteValue | None) -> None:
        value = None if bad is None else self._workspace.results.value_by_number(bad.key[1])
        if bad is None or value is None:
            return
        self._shown = bad.key
        self._workspace.messages.withdraw(_TOPIC)
        self._workspace.results.show_call(bad.key[0])
        self._found(value, bad.index)

    def _show_end(self) -> None:
        self._shown = None
        what = "NaN" if search_mode(self._workspace) == "nan" else "NaN or infinity"
        detail = "Next starts again with the first."
        self._workspace.messages.show("info", f"No further {what} in the last run", detail, topic=_TOPIC)

    def _show_search(self, record: RunRecord, search: NonFiniteSearch) -> None:
        workspace = self._workspace
        if search.found:
            self._show(search.found[0])
            return
        run = "what the run has computed so far" if record.unfinished else "the last run"
        is_nan = search_mode(workspace) == "nan"
        passed = search.passed and workspace.results.value_by_number(search.passed.key[1])
        if not search.is_complete:
            title = "No NaN was found" if is_nan else "No NaN and no infinity was found"
            fine = "contains no NaN" if is_nan else "is finite" if passed is None else "produces none"
            detail = f"The searched part of {run} {fine}, but {unseen(search)}."
        elif passed is not None:
            title = "No value is NaN" if is_nan else "No node produces an infinity"
            detail = f"The first value of {run} that has an infinity is {name_of(passed)}."
            detail += "" if is_nan else " No node produces one from finite inputs."
        else:
            title, detail = "Every value is finite", f"No NaN and no infinity in {run}."
        workspace.messages.show("info", title, detail, topic=_TOPIC)


@contextmanager
def _values_needed() -> Iterator[None]:
    """Convert LookupErrors to a ModelError that values of the run are no longer available."""
    try:
        yield
    except LookupError as error:
        raise ModelError("The values are gone", f"{error}. Run the model again.") from error
