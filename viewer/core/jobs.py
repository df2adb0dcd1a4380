"""Work off the GUI thread: started here, watched by the status bar, answered on the GUI thread.

    jobs.start("Lay out graph", work, done=self._show, supersede="layout")

`work(progress)` runs in a thread and must not touch the model or any widget; it gets what it needs captured in a
closure. `done`, `failed` and `finished` run on the GUI thread.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Any, Generic, Literal, TypeVar, cast

from PySide6.QtCore import QObject, Qt, Signal, Slot
from shiboken6 import isValid

from onnx_workbench.model.errors import ModelError, errors_to
from onnx_workbench.model.progress import Cancelled, Progress

T = TypeVar("T")
Lane = Literal["read", "count", "fetch", "mutate"]
Product = Literal["", "edit", "file"]  # "edit": one of the document; "file": one that is not the document's
Work = Callable[[Progress], T]

#: Threads of the lane "read" at least: some only wait, for a file or for the process that runs the model.
_LEAST_READERS = 4
_IDLE_SECONDS = 10  # a thread without work ends after this long
_LOOK_SECONDS = 0.05  # how long to wait for the GUI thread before looking whether to stop


class Job(Generic[T]):
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
        self.progress: Progress = Progress(self._report)
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
        self._work = _forgotten  # what the closure captured is not needed any more


def _forgotten(_progress: Progress) -> Any:
    msg = "the work of a job that has run"
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


class _Busy:
    """Counts tasks that are running, so that the end of the program can wait for those that were told to stop."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Until nothing runs, or this long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count, seconds)


_busy = _Busy()


def wait_for_end(seconds: float = 2.0) -> None:
    """Give cancelled work a moment to stop before the interpreter goes away under it."""
    _busy.wait(seconds)


class _Lane:
    """A queue and the threads that work through it; the threads end when there is nothing to do for a while."""

    def __init__(self, threads: int) -> None:
        self._limit = threads
        self._tasks: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0

    def put(self, task: Callable[[], None]) -> None:
        """Run `task` as soon as a thread is free."""
        with self._changed:
            self._tasks.append(task)
            if self._idle < len(self._tasks) and self._threads < self._limit:
                self._threads += 1
                # Thread.start() waits until the new one has a processor: beside a run, longer than a frame. Nobody
                # waits for this one, nor for its end: a task that ignores cancellation keeps no process alive.
                _thread.start_new_thread(self._serve, ())
            else:
                self._changed.notify()

    def _serve(self) -> None:
        while (task := self._next()) is not None:
            with _busy:
                task()
            del task

    def _next(self) -> Callable[[], None] | None:
        """The next task; None when there was none for a while, and the thread is to end."""
        with self._changed:
            self._idle += 1
            found = self._changed.wait_for(lambda: self._tasks, _IDLE_SECONDS)
            self._idle -= 1
            if found:
                return self._tasks.popleft()
            self._threads -= 1
            return None


@cache
def _mailbox() -> _Mailbox:
    """The one of the process; made on the GUI thread, to which it belongs."""
    return _Mailbox()


def post(call: Callable[[], None]) -> None:
    """Have `call` called on the GUI thread at its next turn. Any thread, once a Jobs exists."""
    _mailbox().post(call)


def post_and_wait(call: Callable[[], object], progress: Progress) -> None:
    """Have `call` called on the GUI thread, and wait for that. From a job; raises `Cancelled` where that is stopped."""
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


class Jobs(QObject):
    """The running work of one window or document.

    The lane "mutate" runs one job after the other (passes, saving: what ends in a change); "read" runs several side
    by side; "count" is for what looks at very many elements, so that nobody who wants to see a few waits for it;
    "fetch" for what waits until no run goes on, so that it never keeps one from beginning.
    A job started with `supersede="x"` cancels an unfinished one with the same word, whose callbacks then never come:
    the newest request wins.
    """

    started = Signal(object)  # Job
    progressed = Signal(object)  # Job; at most ten times a second
    ended = Signal(object)  # Job, whatever became of it
    failed = Signal(object)  # Job whose ModelError nobody handled

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        _mailbox()
        self._running: dict[Job[Any], None] = {}
        self._lanes: dict[Lane, _Lane] = {
            "read": _Lane(max(_LEAST_READERS, os.cpu_count() or 1)),
            "count": _Lane(2),
            "fetch": _Lane(_LEAST_READERS),
            "mutate": _Lane(1),
        }
        self._closed = False

    @property
    def running(self) -> tuple[Job[Any], ...]:
        """Jobs that have not ended, oldest first."""
        return tuple(self._running)

    @property
    def is_closed(self) -> bool:
        """Whether nothing is wanted any more."""
        return self._closed

    def making(self, product: Product) -> list[Job[Any]]:
        """What a person asked for and is on its way, oldest first; without what was stopped.

        Where one piece of work goes on as another, there is none between them: ask at the next turn after `ended`.
        """
        return [job for job in self._running if job.makes == product and not job.cancelled]

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
    ) -> Job[T]:
        """Run `work(progress)` in a thread; GUI thread only.

        `done(result)` comes when it returned; `failed(error)` when it raised anything but Cancelled; `finished()`
        after either, and when it was cancelled. A ModelError without `failed` becomes a message; any other error
        is a bug and goes to sys.excepthook as well. `makes`: what a person asked for that comes of it, see `making`.
        """
        if supersede:
            for other in self._running:
                if other.supersede == supersede:
                    other.cancel()
        job = Job(title, work, lane, supersede, makes)
        job._post = lambda: post(lambda: self._progressed(job))
        self._running[job] = None
        self.started.emit(job)

        def run() -> None:
            job._run()
            post(lambda: self._end(job, done, failed, finished))

        self._lanes[lane].put(run)
        return job

    def follow(
        self, title: str, stop: Callable[[], object], lane: Lane = "mutate", *, makes: Product = ""
    ) -> Job[None]:
        """Show work that is done elsewhere, as in slices, until `leave`; GUI thread only.

        `stop()` is called when it is cancelled; what is reported to its `progress` shows.
        """
        job: Job[None] = Job(title, _forgotten, lane, "", makes)
        job._post = lambda: post(lambda: self._progressed(job))
        job._stop = stop
        self._running[job] = None
        self.started.emit(job)
        return job

    def leave(self, job: Job[None]) -> None:
        """Work that was shown by `follow` has ended."""
        job.finished = True
        self._running.pop(job, None)
        self.ended.emit(job)

    def _progressed(self, job: Job[Any]) -> None:
        if job in self._running and not self._closed:
            self.progressed.emit(job)

    def _end(
        self,
        job: Job[T],
        done: Callable[[T], object] | None,
        failed: Callable[[BaseException], object] | None,
        finished: Callable[[], object] | None,
    ) -> None:
        job.finished = True
        self._running.pop(job, None)
        if self._closed:
            return
        self.ended.emit(job)
        try:
            if not job.cancelled:
                self._answer(job, done, failed)
        finally:
            if finished is not None:
                finished()

    def _answer(
        self, job: Job[T], done: Callable[[T], object] | None, failed: Callable[[BaseException], object] | None
    ) -> None:
        error = job.error
        if error is None:
            if done is not None:
                done(cast("T", job.result))  # no error and not cancelled: it holds what work returned
            return
        if failed is not None:
            failed(error)
        elif isinstance(error, ModelError):
            self.failed.emit(job)
        if not isinstance(error, ModelError):
            sys.excepthook(type(error), error, error.__traceback__)

    def cancel_all(self) -> None:
        """Ask everything to stop."""
        for job in self.running:  # one that is followed is left at once
            job.cancel()

    def close(self) -> None:
        """Cancel everything; from now on nothing is called back."""
        self._closed = True
        self.cancel_all()
