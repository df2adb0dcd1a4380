"""Work on the GUI thread between events: debounced calls, and long iterations in chunks of a few milliseconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from math import inf
from time import perf_counter
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, QThread, QTimer

from onnx_workbench.model.errors import ModelError, errors_to
from onnx_workbench.model.progress import Cancelled, Progress
from onnx_workbench.viewer.tasks.threads import POLL_SECONDS, post

T = TypeVar("T")

#: Time limit of a chunk; several chunks may run in one iteration of the event loop.
CHUNK_SECONDS = 0.004


class Debounce(QObject):
    """Debounced call on the GUI thread: once, at the next iteration of the event loop."""

    def __init__(self, call: Callable[[], object], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._timer = QTimer(self, singleShot=True, interval=0)
        self._timer.timeout.connect(call)

    def request(self, *_: object) -> None:
        """Schedule the call; cheap to repeat."""
        self._timer.start()


class ChunkedIteration(QObject, Generic[T]):
    """Exhausts an iterator on the GUI thread, in one chunk per iteration of the event loop.

    The iterator yields None if it has no item for a while. `taken(items, finished)` is called after each chunk with its
    items, then `failed` if a ModelError ended it. Call `stop` when the iterated objects change.
    """

    def __init__(
        self,
        taken: Callable[[list[T], bool], object],
        parent: QObject | None = None,
        failed: Callable[[ModelError], object] | None = None,
    ) -> None:
        super().__init__(parent)
        self._taken = taken
        self._failed = failed
        self._items: Iterator[T | None] | None = None
        self._timer = QTimer(self, interval=0)
        self._timer.timeout.connect(self.next_chunk)

    @property
    def running(self) -> bool:
        """Whether the iterator is not exhausted."""
        return self._items is not None

    def start(self, items: Iterator[T | None]) -> None:
        """Start with the next event loop iteration, replacing the current iterator."""
        self._items = items
        self._timer.start()

    def stop(self) -> None:
        """Discard the rest."""
        self._timer.stop()
        self._items = None

    def next_chunk(self) -> None:
        """Run one chunk now."""
        if self._items is None:
            return
        batch: list[T] = []
        try:
            finished = self._fill_batch(self._items, batch)
        except ModelError as error:
            if self._failed is None:
                raise
            self.stop()
            self._taken(batch, False)
            self._failed(error)
            return
        if finished:
            self.stop()
        self._taken(batch, finished)

    def _fill_batch(self, items: Iterator[T | None], batch: list[T]) -> bool:
        """Append the items of a chunk to a list; return whether the iterator is exhausted."""
        deadline = perf_counter() + CHUNK_SECONDS
        for item in items:
            if item is not None:
                batch.append(item)
            if perf_counter() > deadline:
                return False
        return True


def run_in_chunks(steps: Generator[None, None, T], progress: Progress) -> T:
    """Run a generator on the GUI thread, in chunks if called from a task, else at once; return its result.

    Raises the exceptions of the generator, and `Cancelled` after the current chunk if the task is cancelled.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    ended = threading.Event()

    def run_chunk(seconds: float = CHUNK_SECONDS) -> None:
        deadline = perf_counter() + seconds
        with errors_to(errors.append, BaseException):
            try:
                while perf_counter() < deadline:
                    progress.check()
                    next(steps)
            except StopIteration as stop:
                results.append(stop.value)
            except Cancelled:
                steps.close()
                errors.append(Cancelled())  # a new one: the original is in a reference cycle with its frames
        if results or errors:
            ended.set()
        else:
            post(run_chunk)

    if QThread.isMainThread():
        run_chunk(inf)
    else:
        post(run_chunk)
    while not ended.wait(POLL_SECONDS):
        progress.check()
    if errors:
        raise errors.pop()
    return results.pop()
