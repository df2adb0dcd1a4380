"""Thread pools, and calls from their threads to the GUI thread."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Generic, Literal, TypeVar

from PySide6.QtCore import QObject, Qt, QThreadPool, Signal, Slot
from shiboken6 import isValid

from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.progress import Cancelled, Progress, Report

T = TypeVar("T")
Work = Callable[[Progress], T]
#: Called with a result or an error; with Cancelled, and perhaps a result, if it was cancelled.
Then = Callable[[T | None, BaseException | None], object]
Pool = Literal["read", "count", "fetch", "model"]

#: Threads of the process for each pool.
_THREADS: dict[Pool, int] = {
    "read": max(16, os.cpu_count() or 1),  # most wait for a file, another process or the GUI thread
    "count": 2,  # reductions over very many elements, each with temporary arrays as large as what it reads
    "fetch": 4,  # wait for the worker process until no run is active, which may be long
    "model": 1,  # readers hold the interpreter lock: several would wait for each other
}
_WORK_SECONDS, _YIELD_SECONDS = 0.001, 0.0001  # interval and duration with which a task releases the interpreter lock
POLL_SECONDS = 0.05  # interval of checks for cancellation while waiting for the GUI thread


class _Mailbox(QObject):
    """Posts calls to the GUI thread. A singleton that outlives every window."""

    _arrived = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._arrived.connect(self._call, Qt.ConnectionType.QueuedConnection)

    def post(self, call: Callable[[], object]) -> None:
        """Call `call` on the GUI thread. Any thread; does nothing at the end of the program."""
        try:
            self._arrived.emit(call)
        except RuntimeError:
            if isValid(self):
                raise

    @Slot(object)
    def _call(self, call: Callable[[], object]) -> None:
        call()


@cache
def mailbox() -> _Mailbox:
    """Return the mailbox of the process; the first call must be on the GUI thread."""
    return _Mailbox()


def post(call: Callable[[], object]) -> None:
    """Call `call` on the GUI thread, as a later event. Any thread, once `mailbox` was called."""
    mailbox().post(call)


def post_and_wait(call: Callable[[], T], progress: Progress) -> T:
    """Return the result of `call` on the GUI thread, or raise its exception. Not for use on the GUI thread.

    Raises `Cancelled` if the progress is cancelled before the call, which is then skipped.
    """
    results: list[T] = []
    errors: list[BaseException] = [Cancelled()]
    ended = threading.Event()

    def run() -> None:
        if not progress.cancelled:
            with errors_to(errors.append, BaseException):
                results.append(call())
        ended.set()

    post(run)
    while not ended.wait(POLL_SECONDS):
        if progress.cancelled and not ended.is_set():
            raise Cancelled
    if results:
        return results[0]
    raise errors.pop()  # avoids a reference cycle with this frame


@cache
def pool(name: Pool) -> QThreadPool:
    """Return a thread pool. Pools live as long as the process, so that closing a window waits for none."""
    threads = QThreadPool()
    threads.setMaxThreadCount(_THREADS[name])
    return threads


def wait_for_end(seconds: float = 2.0) -> bool:
    """Wait briefly for cancelled work before the interpreter ends; return whether all of it stopped."""
    return all(pool(name).waitForDone(int(1000 * seconds)) for name in _THREADS)


class _YieldingProgress(Progress):
    """Releases the interpreter lock at checks, else the GUI thread waits 5 ms whenever it has released the lock.

    At 5,000 nodes, a frame during a reader takes 11 ms instead of 30, and the reaction to an edit 44 ms instead of 85.
    """

    def __init__(self, listener: Report | None = None) -> None:
        super().__init__(listener)
        self._yield_at = 0.0

    def check(self) -> None:
        """Raise `Cancelled` after `cancel`."""
        super().check()
        if time.perf_counter() > self._yield_at:
            time.sleep(_YIELD_SECONDS)
            self._yield_at = time.perf_counter() + _WORK_SECONDS


class Call(Generic[T]):
    """A call of `work(progress)` on a pool thread, then of `then(result, error)` on the GUI thread.

    The GUI thread then releases the references of both. These may include Qt objects: a widget without a parent is
    destroyed with its last reference, which crashes Qt on a pool thread.
    """

    def __init__(self, work: Work[T], then: Then[T], report: Report | None, threads: Pool) -> None:
        self._work: Work[T] | None = work
        self._then: Then[T] | None = then
        self._progress: Progress = _YieldingProgress(report)
        self._threads: Pool = threads
        self._result: T | None = None
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._is_begun = False
        self._ended = threading.Event()

    def start(self) -> None:
        """Queue the work on the thread pool."""
        pool(self._threads).start(self._run)

    def cancel(self) -> None:
        """Request cancellation, at its next check or before it begins."""
        with self._lock:
            self._progress.cancel()

    def cancel_and_wait(self) -> None:
        """Cancel, and return when the work has ended or will not begin."""
        self.cancel()
        if self._is_begun:
            self._ended.wait()

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the work; return whether it has ended."""
        return self._ended.wait(seconds)

    def deliver(self) -> None:
        """Call `then`, unless it has been called. GUI thread."""
        if self._then is None:
            return
        then, result, error = self._then, self._result, self._error
        if self._progress.cancelled:
            error = Cancelled()
        self._work = self._then = self._result = self._error = None
        self._progress = Progress()
        then(result, error)

    def _run(self) -> None:
        with self._lock:
            self._is_begun = not self._progress.cancelled
        if self._is_begun and self._work is not None:
            with errors_to(self._fail, BaseException):
                self._result = self._work(self._progress)
        self._ended.set()
        post(self.deliver)  # this thread now holds no reference but `self`

    def _fail(self, error: BaseException) -> None:
        self._error = error
