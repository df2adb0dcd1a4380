"""Long work that reads the model, a few milliseconds at a time on behalf of the GUI thread.

The model belongs to the GUI thread, so a job must not read it. What is done within one slice is done there and then.
Longer work begins anew on a thread of its own that runs only while the GUI thread waits for it: whenever it calls
`progress.check` after its time is up, it pauses, the window goes on, and the next turn of the event loop lets it
continue. An edit in between must `cancel`, or be taken back while the work goes on: see `around`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QObject
from shiboken6 import isValid

from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.progress import Cancelled, Progress, Report
from onnx_workbench.viewer.core import garbage_collection
from onnx_workbench.viewer.core.shifts import SLICE_SECONDS, Shift

T = TypeVar("T")

_LOOK_SECONDS = 1.0  # how long to be paused before looking whether anybody will let the work go on


class Slices(QObject, Generic[T]):
    """Runs `work(progress)` in slices, then calls `done` with its result, or `failed` with what it raised.

    With that, or when it is cancelled, it deletes itself.

    Little work needs no thread: on a busy machine one that is new waits longer for a processor than a frame may take.
    So the first slice is tried on the GUI thread, and `work` must bear to be cancelled and called once more.
    `around()` is entered before each slice and left after it, on the GUI thread. `listener(done, total, text)` hears
    how far the work is once it takes longer than a slice, on whichever thread that is.
    Meanwhile cyclic garbage is not collected: where much is made, going through all of it takes longer than a slice.
    """

    def __init__(
        self,
        work: Callable[[Progress], T],
        done: Callable[[T], object],
        failed: Callable[[Exception], object],
        parent: QObject | None = None,
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
        listener: Report | None = None,
    ) -> None:
        super().__init__(parent)
        self._work = work
        self._around = around
        self._done = done
        self._failed = failed
        self._resume = threading.Semaphore(0)
        self._paused = threading.Semaphore(0)
        self._baton = _Baton(self._resume, self._paused, lambda: isValid(self), listener)
        self._thread: threading.Thread | None = None
        self._was_tried = False
        self._result: list[T] = []
        self._error: Exception | None = None
        self.running = True  # neither done nor cancelled
        self._shift = Shift(self.go_on, self)
        self._shift.start()

    def cancel(self) -> None:
        """Stop at the next check, before this returns; neither `done` nor `failed` is called any more."""
        if not self.running:
            return
        self._end()
        self._baton.cancel()
        while self._thread is not None and self._thread.is_alive():
            self._resume.release()
            self._thread.join(0.05)

    def go_on(self) -> None:
        """One slice, as in each of its turns: the GUI thread waits, so the work has the model for itself."""
        self._run_slice(SLICE_SECONDS)

    def finish(self) -> None:
        """All that is left in one slice, where what is `around` each would take longer than the work."""
        self._run_slice(math.inf)

    def _run_slice(self, seconds: float) -> None:
        with self._around():
            if self._was_tried:
                self._lend(seconds)
            else:
                self._was_tried = True
                self._call(_Glance(seconds))
        if not self._result and self._error is None:
            return
        self._end()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            self._failed(self._error)
        else:
            self._done(self._result[0])

    def _end(self) -> None:
        self.running = False
        self._shift.stop()
        self.deleteLater()

    def _lend(self, seconds: float) -> None:
        """Let the thread of the work run until its slice is over."""
        self._baton.start_slice(seconds)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="slices", daemon=True)
            self._thread.start()
        else:
            self._resume.release()
        self._paused.acquire()

    def _serve(self) -> None:
        self._call(self._baton)
        self._paused.release()

    def _call(self, progress: Progress) -> None:
        garbage_collection.pause()
        try:
            with errors_to(self._keep), suppress(Cancelled):
                self._result.append(self._work(progress))
        finally:
            garbage_collection.resume()

    def _keep(self, error: Exception) -> None:
        """For the GUI thread, which tells it."""
        self._error = error


class Latest(QObject):
    """Work in slices of which what was begun last counts: beginning ends what was on its way. What fails is raised."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._slices: Slices[Any] | None = None
        self._start: Callable[[], Slices[Any]]  # what was begun last

    @property
    def running(self) -> bool:
        """Whether something was begun that is neither done nor stopped."""
        return self._slices is not None

    def begin(
        self,
        work: Callable[[Progress], T],
        done: Callable[[T], object],
        *,
        failed: Callable[[], object] = lambda: None,
        at_once: bool = False,
    ) -> None:
        """Work as `Slices` does and call `done` with what it gave; with `at_once` before this returns.

        `failed` is called before what the work raised is raised here.
        """
        self.stop()

        def end(result: T) -> None:
            self._slices = None
            done(result)

        def fail(error: Exception) -> None:
            self._slices = None
            failed()
            raise error

        self._start = lambda: Slices(work, end, fail, self)
        self._slices = self._start()
        if at_once:
            self._slices.finish()

    def begin_anew(self) -> None:
        """Begin what is on its way, if anything, from its beginning: what it reads was edited."""
        if self._slices is not None:
            self._slices.cancel()
            self._slices = self._start()

    def stop(self) -> None:
        """Call nobody."""
        if self._slices is not None:
            self._slices.cancel()
            self._slices = None


class _Glance(Progress):
    """Gives the work up when it takes longer than a slice."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._end = time.perf_counter() + seconds

    def check(self) -> None:
        """Raise `Cancelled` when the slice is over."""
        super().check()
        if time.perf_counter() > self._end:
            raise Cancelled


class _Baton(Progress):
    """Pauses the work where its slice is over."""

    def __init__(
        self,
        resume: threading.Semaphore,
        paused: threading.Semaphore,
        is_wanted: Callable[[], bool],
        listener: Report | None,
    ) -> None:
        super().__init__(listener)
        self._resume = resume
        self._paused = paused
        self._is_wanted = is_wanted
        self._end = 0.0

    def start_slice(self, seconds: float) -> None:
        """The time of the work begins to count."""
        self._end = time.perf_counter() + seconds

    def check(self) -> None:
        """Pause when the slice is over, then go on or raise `Cancelled`, as when who asked for the work is gone."""
        super().check()
        if time.perf_counter() > self._end:
            self._paused.release()
            while not self._resume.acquire(timeout=_LOOK_SECONDS):
                if not self._is_wanted():
                    self.cancel()
                    break
            super().check()
