"""Background tasks: work on pool threads whose results arrive on the GUI thread.

    tasks.start("Laying out the graph", work, done=self._show, supersede="layout")

`work(progress)` runs on a pool thread and must use neither widgets nor the model; its data is in a closure, or it
reads the model by `readers.read_model`, which an edit restarts. `done`, `failed` and `finished` are called on the
GUI thread.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Literal, TypeVar, cast

from PySide6.QtCore import QObject, Signal
from shiboken6 import isValid

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import Cancelled
from onnx_workbench.viewer.tasks.threads import Call, Work, mailbox, post

T = TypeVar("T")
#: "mutate": one task of a runner at a time, for tasks that end in a change of the model or a file. "count": reductions
#: over very many elements, which must not delay reads of a few. "fetch": waits until no run is active. "read":
#: everything else, concurrently.
Lane = Literal["read", "count", "fetch", "mutate"]
Product = Literal["", "edit", "file"]  # "edit": of the document; "file": another file than the document's


class Task(Generic[T]):
    """A task: running until `finished`, then with a result, an error, or neither when cancelled."""

    def __init__(self, title: str, lane: Lane, supersede: str, makes: Product) -> None:
        self.title = title
        self.lane: Lane = lane
        self.supersede = supersede
        self.makes: Product = makes
        self.done = 0.0
        self.total = 0.0  # 0: unknown
        self.text = ""
        self.cancelled = False
        self.finished = False
        self.error: BaseException | None = None
        self.result: T | None = None
        self.call: Call[T] | None = None

    def cancel(self) -> None:
        """Request cancellation; only `finished` is still called. GUI thread only."""
        if self.call is not None:
            self.cancelled = True
            self.call.cancel()


class TaskRunner(QObject):
    """The running tasks of one window or document. GUI thread only."""

    started = Signal(object)  # Task
    progressed = Signal(object)  # Task; at most ten times a second
    ended = Signal(object)  # Task, whatever its outcome
    failed = Signal(object)  # Task whose ModelError was not handled

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        mailbox()
        self._running: dict[Task[Any], None] = {}
        self._writing: deque[Task[Any]] = deque()  # of the lane "mutate": the running task, then the waiting ones
        self._closed = False

    @property
    def running(self) -> tuple[Task[Any], ...]:
        """Tasks that have not ended, oldest first."""
        return tuple(self._running)

    @property
    def is_closed(self) -> bool:
        """Whether `close` has been called."""
        return self._closed

    def making(self, product: Product) -> list[Task[Any]]:
        """Return the tasks that will make an edit or a file for the user, oldest first; without cancelled ones.

        Between two consecutive tasks there may be none: call this as a later event than `ended`.
        """
        return [task for task in self._running if task.makes == product and not task.cancelled]

    def start(
        self,
        title: str,
        work: Work[T],
        *,
        done: Callable[[T], object] | None = None,
        failed: Callable[[BaseException], object] | None = None,
        finished: Callable[[], object] | None = None,
        lane: Lane = "read",
        supersede: str = "",
        makes: Product = "",
    ) -> Task[T]:
        """Run `work(progress)` in a thread; GUI thread only. A task without a title is not shown.

        `done(result)` is called if it returns, `failed(error)` if it raises anything but Cancelled, and `finished()`
        after either or a cancellation. A ModelError without `failed` becomes a message; any other error is a
        bug and is also passed to sys.excepthook. `supersede="x"` cancels an unfinished task started with the same word.
        `makes`: the result that the user requested, see `making`.
        """
        for other in self.running if supersede else ():
            if other.supersede == supersede:
                other.cancel()
        task: Task[T] = Task(title, lane, supersede, makes)

        def report(done: float, total: float, text: str) -> None:
            task.done, task.total, task.text = done, total, text
            post(partial(self._progressed, task))

        def then(result: T | None, error: BaseException | None) -> None:
            self._end(task, result, error)
            if not self._closed:
                _answer(self, task, done, failed, finished)

        task.call = Call(work, then, report, "read" if lane == "mutate" else lane)
        self._running[task] = None
        self.started.emit(task)
        if lane == "mutate":
            self._writing.append(task)
        if lane != "mutate" or len(self._writing) == 1:
            task.call.start()
        return task

    def _progressed(self, task: Task[Any]) -> None:
        if task in self._running and not self._closed:
            self.progressed.emit(task)

    def _end(self, task: Task[T], result: T | None, error: BaseException | None) -> None:
        task.finished, task.call = True, None
        task.result = result
        if isinstance(error, Cancelled):
            task.cancelled = True
        else:
            task.error = error
        self._running.pop(task, None)
        if task.lane == "mutate":
            self._writing.popleft()
            if self._writing and (following := self._writing[0].call) is not None:
                following.start()
        if not self._closed:
            self.ended.emit(task)

    def cancel_all(self) -> None:
        """Request cancellation of all tasks."""
        for task in self.running:
            task.cancel()

    def close(self) -> None:
        """Cancel everything; no callback is called from now on."""
        self._closed = True
        self.cancel_all()


def _answer(
    tasks: TaskRunner,
    task: Task[T],
    done: Callable[[T], object] | None,
    failed: Callable[[BaseException], object] | None,
    finished: Callable[[], object] | None,
) -> None:
    """Call the callbacks of a task that has ended."""
    error = task.error
    try:
        if task.cancelled:
            return
        if error is None:
            call_back(done, cast("T", task.result))  # no error and not cancelled: the result is set
            return
        if failed is not None:
            call_back(failed, error)
        elif isinstance(error, ModelError):
            tasks.failed.emit(task)
        if not isinstance(error, ModelError):
            sys.excepthook(type(error), error, error.__traceback__)
    finally:
        call_back(finished)


def call_back(callback: Callable[..., object] | None, *given: object) -> None:
    """Call a callback, unless it is a method of a deleted Qt object, as for signal connections."""
    receiver = getattr(callback, "__self__", None)
    if callback is not None and (not isinstance(receiver, QObject) or isValid(receiver)):
        callback(*given)
