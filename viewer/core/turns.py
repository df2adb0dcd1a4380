"""Going through something long a few milliseconds at a time, between turns of the event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Generic, TypeVar

from PySide6.QtCore import QObject

from onnx_workbench.model.errors import ModelError
from onnx_workbench.viewer.core.shifts import SLICE_SECONDS, Shift

T = TypeVar("T")

SLICE_MS = 1000 * SLICE_SECONDS


class Turns(QObject, Generic[T]):
    """Takes items from an iterator, which yields None where it has none for a while. GUI thread only.

    `taken(items, finished)` is called once a turn with what came, `failed` after it where a ModelError ended it.
    Whoever changes what is gone through must `stop`.
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
        self._shift = Shift(self.go_on, self)

    @property
    def running(self) -> bool:
        """Whether there may be more."""
        return self._items is not None

    def start(self, items: Iterator[T | None]) -> None:
        """Begin with the next turn, instead of whatever was gone through before; `go_on` begins at once."""
        self._items = items
        self._shift.start()

    def stop(self) -> None:
        """Give up the rest."""
        self._shift.stop()
        self._items = None

    def go_on(self) -> None:
        """One turn."""
        if self._items is None:
            return
        batch: list[T] = []
        try:
            finished = self._take(self._items, batch)
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

    def _take(self, items: Iterator[T | None], batch: list[T]) -> bool:
        """Put into a list what comes in a few milliseconds; whether nothing is left."""
        deadline = perf_counter() + SLICE_MS / 1000
        for item in items:
            if item is not None:
                batch.append(item)
            if perf_counter() > deadline:
                return False
        return True
