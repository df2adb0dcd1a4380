"""Garbage collection on the GUI thread only.

Python collects on the thread that happens to allocate. A cycle with a Qt object would then be destroyed on a
pool thread, which crashes Qt. So a program with a window disables this and collects by a timer.

With an open model of 200,000 nodes, a full collection takes 0.3 s, and 1 s to free the model. So open models
are exempt, and the cycles of a closed one are broken first, in chunks. Objects made by large edits are exempt too: the
copy of a model that a task works on, and the steps in the history.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import QWidget

from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.ir.unlink import unlink
from onnx_workbench.viewer.tasks.event_loop import ChunkedIteration

_INTERVAL_MS = 200
_COLLECTIONS = 10  # collections of young objects before the old objects are searched too
_SHARE = 0.02  # share of the time that searches of old objects may take
_MOST_INCLUDED = 1_000_000  # limit for exempt objects that are searched nevertheless: about 0.3 s
_MOST_SEARCHED = 500_000  # limit for old objects that a collection searches: about 0.2 s
_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h
_closed: deque[Iterator[None]] = deque()  # each frees a closed object, in chunks


class Collector(QObject):
    """Collects garbage on the GUI thread from `start` to `stop`."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._timer = QTimer(self, interval=_INTERVAL_MS)
        self._timer.timeout.connect(self.collect)
        self._freeing = ChunkedIteration[None](self._on_freed, self)
        self._collections = 0
        self._next_full = 0.0
        self._is_document_freed = False  # since the last collection

    def start(self) -> None:
        """Disable Python's automatic collection, and collect by a timer."""
        gc.disable()
        self._timer.start()

    def collect(self) -> None:
        """Collect recently allocated objects; occasionally, and after a model was closed, all objects.

        Takes a microsecond if little was allocated.
        """
        if _closed and not self._freeing.running:
            self._freeing.start(_free_closed())
        was_freed, self._is_document_freed = self._is_document_freed, False
        if was_freed and gc.get_freeze_count() <= _MOST_INCLUDED:
            include_objects()  # views and documents of the closed model are exempt too
        elif gc.get_count()[0] <= gc.get_threshold()[0]:
            return
        self._collections += 1
        begun = time.monotonic()
        if not was_freed and (self._collections < _COLLECTIONS or begun < self._next_full):
            gc.collect(1)
            return
        if not was_freed and _count_old_objects() > _MOST_SEARCHED:
            gc.collect(1)  # young garbage would be exempt too, and stay
            exempt_objects()
        else:
            gc.collect()
        if was_freed:
            return_memory()
        self._collections = 0
        now = time.monotonic()
        self._next_full = now + (now - begun) / _SHARE

    @property
    def is_freeing(self) -> bool:
        """Whether closed objects are still to be freed."""
        return bool(_closed) or self._freeing.running

    def _on_freed(self, _items: list[None], finished: bool) -> None:
        self._is_document_freed = finished

    def stop(self) -> None:
        """Enable Python's automatic collection again."""
        self._timer.stop()
        gc.enable()


def _count_old_objects() -> int:
    """Count the objects of the oldest generation in a single call.

    Between two calls another thread may run, and Python raises SystemError where that goes on to fill a tuple that the
    list of these objects refers to.
    """
    return sum(map(len, map(gc.get_objects, (2,))))


def use_one_heap() -> None:
    """Make all threads allocate from one heap where the C library is glibc. Before other threads start.

    Otherwise glibc makes a heap per thread, up to eight per processor core, and what one frees is of no use to others:
    after 5,000 random actions, with all tabs closed, the process had 465 MB; with one heap it had 312 MB.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_ARENA_MAX, 1)


def return_memory() -> None:
    """Return free memory to the system where the C library is glibc, which keeps what is below the last block in use.

    After 1,200 random actions, with all tabs closed, 69 MB were in use and 50 MB free, of which this returned 20. It
    takes 15 ms for 100 MB. Any thread.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _free_closed() -> Iterator[None]:
    while _closed:
        yield from _closed.popleft()


def _emptied(objects: Sequence[QObject]) -> Iterator[None]:
    for dead in objects:
        vars(dead).clear()
        yield


def exempt_objects() -> None:
    """Exempt all current objects from collection, as after a model was opened. GUI thread."""
    gc.freeze()


def include_objects() -> None:
    """End the exemption of all objects. GUI thread."""
    gc.unfreeze()


def delete_widget(widget: QWidget) -> None:
    """Delete a widget, then free the objects its widgets refer to in chunks. GUI thread.

    Attributes of the widget itself are kept, as the workspace of a tab may still be used.
    """
    inner = widget.findChildren(QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly)
    objects = [found for child in inner for found in (child, *child.findChildren(QObject))]
    widget.destroyed.connect(partial(_closed.append, _emptied(objects)))
    widget.deleteLater()


def free_model(model: Model) -> None:
    """Free a model that is not used any more, in chunks. GUI thread."""
    _closed.append(unlink(model))
