"""Readers of open models: work on a pool thread, which an edit cancels and restarts.

    self._reader = ModelReader(self)
    self._reader.start(lambda progress: count(model, progress), self._show)

So the model never changes while it is read, and is not copied. A task reads by `read_model`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar, cast

from PySide6.QtCore import QObject, QThread

from onnx_workbench.model.progress import Cancelled, Progress, Report
from onnx_workbench.viewer.tasks.threads import POLL_SECONDS, Call, Then, Work, mailbox, post

T = TypeVar("T")

_SHORT_SECONDS = 0.008  # half a frame: how long the GUI thread waits for a reader that it has just started

_active: set[Reading[Any]] = set()  # readings whose work runs on the pool; GUI thread only


def cancel_readers() -> None:
    """Cancel every reader before a model changes; each starts again after the change. GUI thread only."""
    for reading in tuple(_active):
        reading.restart()


class Reading(Generic[T]):
    """Calls `work(progress)`, which reads open models, until no edit cancels it; then `then(result, error)`.

    GUI thread only, where `then` is called too. An edit waits for the work's next `progress.check`. So the work must
    check often, change nothing, and may be called several times.
    """

    def __init__(self, work: Work[T], then: Then[T], report: Report | None = None) -> None:
        self._work: Work[T] | None = work
        self._then: Then[T] | None = then
        self._report = report
        self._call: Call[T] | None = None

    def start(self) -> None:
        """Start as the next event, before painting, when no edit is in progress."""
        post(self._start)

    def restart(self) -> None:
        """Cancel the work, wait until it has stopped reading, and start it again."""
        self._interrupt()
        self.start()

    def cancel(self) -> None:
        """Cancel the work and wait until it has stopped reading; `then` is called later, with Cancelled."""
        self._interrupt()
        self._work = None
        post(partial(self._end, None, Cancelled()))

    def _start(self) -> None:
        if self._work is None or self._call is not None:
            return
        is_alone = not _active
        call = self._call = Call(
            self._work, lambda result, error: self._ended(call, result, error), self._report, "model"
        )
        _active.add(self)
        call.start()
        if is_alone and call.wait(_SHORT_SECONDS):  # a quick result is shown in the same frame as its cause
            call.deliver()

    def _interrupt(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            _active.discard(self)
            call.cancel_and_wait()

    def _ended(self, call: Call[T], result: T | None, error: BaseException | None) -> None:
        if call is self._call:  # otherwise an edit has cancelled it
            _active.discard(self)
            self._end(result, error)

    def _end(self, result: T | None, error: BaseException | None) -> None:
        then, self._work, self._then, self._call = self._then, None, None, None
        if then is not None:
            then(result, error)


class ModelReader(QObject):
    """Runs work that reads open models for its parent, one at a time, see `Reading`. GUI thread only."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        mailbox()
        self._readings: list[Reading[Any]] = []  # at most one
        self.destroyed.connect(partial(_cancel_all, self._readings))

    @property
    def running(self) -> bool:
        """Whether a reader is neither finished nor cancelled."""
        return bool(self._readings)

    def start(
        self, work: Work[T], done: Callable[[T], object], *, failed: Callable[[Exception], object] | None = None
    ) -> None:
        """Call `done` with the result of `work(progress)`, on the GUI thread, as a later event; stop previous work.

        An exception is passed to `failed`, or raised on the GUI thread.
        """
        self.stop()

        def then(result: T | None, error: BaseException | None) -> None:
            if reading not in self._readings:
                return
            self._readings.clear()
            if error is None:
                done(cast("T", result))
            elif not isinstance(error, Cancelled):
                if failed is None or not isinstance(error, Exception):
                    raise error
                failed(error)

        reading = Reading(work, then)
        self._readings.append(reading)
        reading.start()

    def restart(self) -> None:
        """Restart running work from its beginning, as its data has changed."""
        for reading in self._readings:
            reading.restart()

    def stop(self) -> None:
        """Stop without a callback; the work has stopped reading when this returns."""
        _cancel_all(self._readings)


def _cancel_all(readings: list[Reading[Any]]) -> None:
    while readings:
        readings.pop().cancel()


def read_model(work: Work[T], progress: Progress) -> T:
    """Return the result of `work(progress)`, which reads open models, or raise its exception.

    Called from a task, it uses a `Reading`; on the GUI thread, where models are edited, it calls `work` directly.
    """
    if QThread.isMainThread():
        return work(progress)
    results: list[tuple[T | None, BaseException | None]] = []
    ended = threading.Event()

    def then(result: T | None, error: BaseException | None) -> None:
        results.append((result, error))
        ended.set()

    reading = Reading(work, then, progress.report)
    post(reading.start)
    while not ended.wait(POLL_SECONDS):
        if progress.cancelled:
            post(reading.cancel)
            raise Cancelled
    result, error = results[0]
    if error is not None:
        raise error
    return cast("T", result)
