"""Values of runs and references that are elsewhere, fetched when they are shown."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.progress import Progress

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.results.run_record import ValueSource
    from onnx_workbench.viewer.tasks.tasks import Task, TaskRunner

_STOPPED = "Stopped. Select the value again to compute it."


class ValueFetcher:
    """Fetches values in the background; calls `arrived` with the source and the value. GUI thread only."""

    def __init__(self, tasks: TaskRunner, arrived: Callable[[ValueSource, Value], object]) -> None:
        self._tasks = tasks
        self._arrived = arrived
        self._running: dict[tuple[ValueSource, ValueKey], tuple[Value, Task[None]]] = {}

    def fetch(self, source: ValueSource, value: Value) -> bool:
        """Fetch a value; return False if nothing follows, as it is in memory, does not exist, or is unavailable."""
        key = source.key(value)
        if key is None or key in source.problems or not source.has(key) or source.find(key) is not MISSING:
            return False
        if (source, key) in self._running:
            return True

        def finished() -> None:
            if self._running.get((source, key)) == (value, task):  # otherwise it was cancelled
                del self._running[source, key]
                if source.find(key) is MISSING:
                    source.problems.setdefault(key, _STOPPED)
                self._arrived(source, value)

        task = self._tasks.start(
            "Loading a value",
            partial(_fetch, source, key),
            failed=lambda error: source.problems.__setitem__(key, reason_of(error)),
            finished=finished,
            lane="fetch",
        )
        self._running[source, key] = value, task
        return True

    def cancel(self, is_unwanted: Callable[[ValueSource, Value], bool]) -> None:
        """Stop fetching values that are no longer shown."""
        for (source, key), (value, task) in list(self._running.items()):
            if is_unwanted(source, value):
                del self._running[source, key]
                task.cancel()


def allow_refetch(source: ValueSource) -> None:
    """Allow values whose fetch the user has stopped to be fetched again."""
    source.problems = {key: text for key, text in source.problems.items() if text != _STOPPED}


def _fetch(source: ValueSource, key: ValueKey, progress: Progress) -> None:
    """Fetch a value, which the source then holds. Off the GUI thread."""
    try:
        source.fetch(key, progress)
    except LookupError as error:
        raise ModelError("The value is not available", str(error.args[0] if error.args else error)) from error


def reason_of(error: BaseException) -> str:
    """Return an error as text."""
    return f"{error.title}: {error.detail}" if isinstance(error, ModelError) else str(error)
