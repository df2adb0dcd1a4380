"""Background tasks: work on pool threads whose results arrive on the GUI thread, and readers of the live model.

    tasks.start("Lay out graph", work, done=self._show, supersede="layout")

`work(progress)` of a task runs on a pool thread and touches neither widgets nor the model; it gets what it needs in a
closure. Work of a `ModelReader` may read the model, which no edit changes meanwhile. `done`, `failed` and `finished`
are called on the GUI thread.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Generic, Literal, TypeVar, cast

from PySide6.QtCore import QObject, Qt, QThreadPool, Signal, Slot
from shiboken6 import isValid

from onnx_workbench.model.errors import ModelError, errors_to
from onnx_workbench.model.progress import Cancelled, Progress, Report

T = TypeVar("T")
Lane = Literal["read", "open", "count", "fetch", "mutate"]
Product = Literal["", "edit", "file"]  # "edit": one of the document; "file": one that is not the document's
Work = Callable[[Progress], T]

#: Threads of the process for each lane. Some tasks only wait, for a file or for the process that runs the model.
#: A file that takes long to open must not hold up others, but many at once would only take each other's memory.
#: Readers of models run one after the other: several threads would only wait for each other's turn in the interpreter.
_THREADS: dict[Lane | Literal["model"], int] = {
    "read": max(16, os.cpu_count() or 1),
    "open": 4,
    "count": 2,
    "fetch": 4,
    "mutate": 16,
    "model": 1,
}
_SHORT_SECONDS = 0.008  # half a frame: the GUI thread waits so long for a reader that it has just started
_LOOK_SECONDS = 0.05  # how long to wait for the GUI thread before looking whether to stop
_WORK_SECONDS, _YIELD_SECONDS = 0.001, 0.0001  # a task lets go of the interpreter so often, and so long


class _TaskProgress(Progress):
    """Lets go of the interpreter now and then, else the GUI thread waits 5 ms each time that Qt gave it up."""

    def __init__(self, listener: Report | None = None) -> None:
        super().__init__(listener)
        self._yield_at = 0.0

    def check(self) -> None:
        """Raise `Cancelled` if someone called `cancel`."""
        super().check()
        if time.perf_counter() > self._yield_at:
            time.sleep(_YIELD_SECONDS)
            self._yield_at = time.perf_counter() + _WORK_SECONDS


class Task(Generic[T]):
    """One piece of work: running until `finished`, then with a result, an error, or neither when cancelled."""

    def __init__(self, title: str, work: Work[T], lane: Lane, supersede: str, makes: Product) -> None:
        self.title = title
        self.lane = lane
        self.supersede = supersede
        self.makes = makes
        self.done = 0.0
        self.total = 0.0  # 0: not known
        self.text = ""
        self.finished = False
        self.error: BaseException | None = None
        self.result: T | None = None
        self.progress: Progress = _TaskProgress(self._report)
        self._work = work
        self._post: Callable[[], None] = lambda: None  # tells the GUI thread that done, total and text changed
        self._stop: Callable[[], object] = lambda: None  # for work that is done elsewhere

    def cancel(self) -> None:
        """Ask it to stop; no callback but `finished` is called any more. Any thread; for `follow`, the GUI's alone."""
        self.progress.cancel()
        self._stop()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self.progress.cancelled

    def _report(self, done: float, total: float, text: str) -> None:
        self.done, self.total, self.text = done, total, text
        self._post()

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, Cancelled):
            self.cancel()
        else:
            self.error = error  # the GUI thread shows it

    def _run(self) -> None:
        with errors_to(self._failed, BaseException):
            self.progress.check()
            self.result = self._work(self.progress)


def _forgotten(_progress: Progress) -> Any:
    msg = "work that has ended or is done elsewhere"
    raise RuntimeError(msg)


class _Mailbox(QObject):
    """Carries calls to the GUI thread. There is one, and it outlives every window."""

    _arrived = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._arrived.connect(self._call, Qt.ConnectionType.QueuedConnection)

    def post(self, call: Callable[[], None]) -> None:
        """Call `call` on the GUI thread. Any thread; does nothing at the end of the program."""
        try:
            self._arrived.emit(call)
        except RuntimeError:
            if isValid(self):
                raise

    @Slot(object)
    def _call(self, call: Callable[[], None]) -> None:
        call()


@cache
def _pool(lane: Lane | Literal["model"]) -> QThreadPool:
    """The threads of a lane; they live as long as the process, so that closing a window waits for none."""
    pool = QThreadPool()
    pool.setMaxThreadCount(_THREADS[lane])
    return pool


class _PoolCall:
    """A call on a pool thread and one that follows on the GUI thread, which then releases what both hold.

    Qt objects may be among that: a widget without a parent is destroyed with its last reference, on whatever thread
    that is, and Qt does not survive it on a pool thread.
    """

    def __init__(self, call: Callable[[], None], then: Callable[[], None]) -> None:
        self._calls = [call, then]

    def start(self, lane: Lane | Literal["model"]) -> None:
        """Begin as soon as the lane has a free thread."""
        _pool(lane).start(self._run)

    def _run(self) -> None:
        self._calls[0]()
        post(self._finish)  # from here on this thread holds nothing but `self`

    def _finish(self) -> None:
        then = self._calls[1]
        self._calls.clear()
        then()


def wait_for_end(seconds: float = 2.0) -> bool:
    """Give cancelled work a moment to stop before the interpreter goes away under it; whether all of it did."""
    return all(_pool(lane).waitForDone(int(1000 * seconds)) for lane in _THREADS)


@cache
def _mailbox() -> _Mailbox:
    """The one of the process; made on the GUI thread, to which it belongs."""
    return _Mailbox()


def post(call: Callable[[], None]) -> None:
    """Have `call` called on the GUI thread at its next turn. Any thread, once a TaskRunner or ModelReader exists."""
    _mailbox().post(call)


def post_and_wait(call: Callable[[], object], progress: Progress) -> None:
    """Have `call` called on the GUI thread, and wait for it. From a task; raises `Cancelled` if that is stopped."""
    called = threading.Event()

    def do() -> None:
        try:
            if not progress.cancelled:
                call()
        finally:
            called.set()

    post(do)
    while not called.wait(_LOOK_SECONDS):
        progress.check()


class TaskRunner(QObject):
    """The running tasks of one window or document. GUI thread only.

    The lane "mutate" runs one task after the other (passes, saving: what ends in a change); "read" runs several side
    by side; "count" is for reductions over very many elements, which must not delay a look at a few; "fetch" for what
    waits until no run is active, so that it never delays the start of one.
    A task started with `supersede="x"` cancels an unfinished one with the same word, whose callbacks then never come:
    the newest request wins.
    """

    started = Signal(object)  # Task
    progressed = Signal(object)  # Task; at most ten times a second
    ended = Signal(object)  # Task, whatever became of it
    failed = Signal(object)  # Task whose ModelError nobody handled

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        _mailbox()
        self._running: dict[Task[Any], None] = {}
        self._writing: deque[_PoolCall] = deque()  # the one that runs, then those that wait for it
        self._closed = False

    @property
    def running(self) -> tuple[Task[Any], ...]:
        """TaskRunner that have not ended, oldest first."""
        return tuple(self._running)

    @property
    def is_closed(self) -> bool:
        """Whether nothing is wanted any more."""
        return self._closed

    def making(self, product: Product) -> list[Task[Any]]:
        """What a person asked for and is on its way, oldest first; without what was stopped.

        Where one piece of work goes on as another, there is none between them: ask at the next turn after `ended`.
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
        """Run `work(progress)` in a thread; GUI thread only.

        `done(result)` comes when it returned; `failed(error)` when it raised anything but Cancelled; `finished()`
        after either, and when it was cancelled. A ModelError without `failed` becomes a message; any other error
        is a bug and goes to sys.excepthook as well. `makes`: what a person asked for that comes of it, see `making`.
        """
        if supersede:
            for other in self._running:
                if other.supersede == supersede:
                    other.cancel()
        task = Task(title, work, lane, supersede, makes)
        task._post = lambda: post(lambda: self._progressed(task))
        self._running[task] = None
        self.started.emit(task)

        call = _PoolCall(task._run, lambda: self._end(task, done, failed, finished))
        if lane == "mutate":
            self._writing.append(call)
        if lane != "mutate" or len(self._writing) == 1:
            call.start(lane)
        return task

    def follow(
        self, title: str, stop: Callable[[], object], lane: Lane = "mutate", *, makes: Product = ""
    ) -> Task[None]:
        """Show work that is done elsewhere, as by a reader, until `leave`; GUI thread only.

        `stop()` is called when it is cancelled; what is reported to its `progress` shows.
        """
        task: Task[None] = Task(title, _forgotten, lane, "", makes)
        task._post = lambda: post(lambda: self._progressed(task))
        task._stop = stop
        self._running[task] = None
        self.started.emit(task)
        return task

    def leave(self, task: Task[None]) -> None:
        """Work that was shown by `follow` has ended."""
        task.finished = True
        self._running.pop(task, None)
        self.ended.emit(task)

    def _progressed(self, task: Task[Any]) -> None:
        if task in self._running and not self._closed:
            self.progressed.emit(task)

    def _end(
        self,
        task: Task[T],
        done: Callable[[T], object] | None,
        failed: Callable[[BaseException], object] | None,
        finished: Callable[[], object] | None,
    ) -> None:
        task.finished = True
        task._work = _forgotten  # what its closure captured may be much
        self._running.pop(task, None)
        if task.lane == "mutate":
            self._writing.popleft()
            if self._writing:
                self._writing[0].start("mutate")
        if self._closed:
            return
        self.ended.emit(task)
        try:
            if not task.cancelled:
                self._answer(task, done, failed)
        finally:
            if finished is not None and _has_receiver(finished):
                finished()

    def _answer(
        self, task: Task[T], done: Callable[[T], object] | None, failed: Callable[[BaseException], object] | None
    ) -> None:
        error = task.error
        if error is None:
            if done is not None and _has_receiver(done):
                done(cast("T", task.result))  # no error and not cancelled: it holds what work returned
            return
        if failed is not None:
            if _has_receiver(failed):
                failed(error)
        elif isinstance(error, ModelError):
            self.failed.emit(task)
        if not isinstance(error, ModelError):
            sys.excepthook(type(error), error, error.__traceback__)

    def cancel_all(self) -> None:
        """Ask everything to stop."""
        for task in self.running:  # one that is followed is left at once
            task.cancel()

    def close(self) -> None:
        """Cancel everything; from now on nothing is called back."""
        self._closed = True
        self.cancel_all()


def _has_receiver(callback: Callable[..., object]) -> bool:
    """Return whether a callback is no method of a deleted Qt object: those end with it, as signal connections do."""
    receiver = getattr(callback, "__self__", None)
    return not isinstance(receiver, QObject) or isValid(receiver)


# -- readers of the live model -----------------------------------------------------------------------------------------


class _Attempt:
    """One attempt of a reader's work, which an edit may cancel."""

    def __init__(self, reader: ModelReader, work: Work[Any], report: Report | None) -> None:
        self.progress = _TaskProgress(report)
        self.result: list[Any] = []
        self.error: BaseException | None = None
        self._reader = reader
        self._work = work
        self._lock = threading.Lock()
        self._is_begun = False
        self._ended = threading.Event()

    def run(self) -> None:
        """Do the work, on a pool thread."""
        with self._lock:
            self._is_begun = not self.progress.cancelled
        if self._is_begun:
            with errors_to(self._keep, BaseException):
                self.result.append(self._work(self.progress))
        self._ended.set()

    def _keep(self, error: BaseException) -> None:
        self.error = error

    def cancel(self) -> None:
        """Cancel it and wait until it reads nothing more: up to its next check. GUI thread only."""
        _attempts.discard(self)
        with self._lock:
            self.progress.cancel()
        if self._is_begun:
            self._ended.wait()

    def wait(self, seconds: float) -> bool:
        """Wait for its end; whether that came."""
        return self._ended.wait(seconds)

    def interrupt(self) -> None:
        """Let the model be changed: cancel it and have its reader start again."""
        self.cancel()
        if isValid(self._reader):
            self._reader.start_again()

    def deliver(self) -> None:
        """Hand over the result, unless an edit cancelled it. GUI thread only."""
        _attempts.discard(self)
        if not self.progress.cancelled and isValid(self._reader):
            self._reader.take(self)


_attempts: set[_Attempt] = set()  # those that run or are about to; GUI thread only


def cancel_readers() -> None:
    """Stop every reader before a model changes; each starts again after the change. GUI thread only."""
    for attempt in tuple(_attempts):
        attempt.interrupt()


class ModelReader(QObject):
    """Work that reads open models on a pool thread. GUI thread only.

    An edit, undo or redo first cancels the work and waits for its next `progress.check`, so that no model changes
    while it is read; then it starts again. Work must therefore bear to be called several times, check often (an edit
    waits for it), and change nothing. Of several calls of `start` the last one counts.
    Where no other reader runs, the GUI thread waits a few milliseconds for its end, so that what little it reads is
    painted in the same frame as what asked for it.
    """

    _due = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        _mailbox()
        self._work: Work[Any] | None = None
        self._done: Callable[[Any], object]
        self._failed: Callable[[Exception], object] | None
        self._report: Report | None
        self._attempts: list[_Attempt] = []  # at most one
        self._is_due = False
        self._due.connect(self._begin, Qt.ConnectionType.QueuedConnection)  # no edit is under way then
        self.destroyed.connect(partial(_cancel_all, self._attempts))

    @property
    def running(self) -> bool:
        """Whether something was started that is neither done nor stopped."""
        return self._work is not None

    def start(
        self,
        work: Work[T],
        done: Callable[[T], object],
        *,
        failed: Callable[[Exception], object] | None = None,
        report: Report | None = None,
    ) -> None:
        """Call `done` with what `work(progress)` gives, on the GUI thread, after this has returned.

        What it raises goes to `failed`, or is raised on the GUI thread. `report(done, total, text)` is called on the
        pool thread with what the work reports.
        """
        self.stop()
        self._work, self._done, self._failed, self._report = work, done, failed, report
        self.start_again()

    def restart(self) -> None:
        """Start what is running from its beginning: what it reads has changed."""
        if self._work is not None:
            self.start_again()

    def stop(self) -> None:
        """Stop and call nothing; the work reads nothing more when this returns."""
        self._cancel()
        self._work = None

    def start_again(self) -> None:
        """Start anew as the next event, before anything is painted."""
        self._cancel()
        self._is_due = True
        self._due.emit()

    def take(self, attempt: _Attempt) -> None:
        """Take what an attempt has given."""
        if attempt in self._attempts:
            self._attempts.clear()
            self._end(attempt.result, attempt.error)

    def _begin(self) -> None:
        if not self._is_due or self._work is None:
            return
        self._is_due = False
        attempt, is_alone = _Attempt(self, self._work, self._report), not _attempts
        self._attempts.append(attempt)
        _attempts.add(attempt)
        _PoolCall(attempt.run, attempt.deliver).start("model")
        if is_alone and attempt.wait(_SHORT_SECONDS):
            attempt.deliver()

    def _cancel(self) -> None:
        self._is_due = False
        while self._attempts:
            self._attempts.pop().cancel()

    def _end(self, result: list[Any], error: BaseException | None) -> None:
        done, failed, self._work = self._done, self._failed, None
        if result:
            done(result[0])
        elif error is not None and not isinstance(error, Cancelled):
            if failed is None or not isinstance(error, Exception):
                raise error
            failed(error)


def _cancel_all(attempts: list[_Attempt]) -> None:
    """Those of a reader that is gone, without waiting."""
    for attempt in attempts:
        attempt.progress.cancel()
