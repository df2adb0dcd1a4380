"""Garbage collection on the GUI thread alone.

Python collects on whichever thread happens to allocate. A cycle with a Qt object in it would then be destroyed on a
pool thread, which Qt does not survive. So a program with a window disables that and collects by a timer.
"""

from __future__ import annotations

import gc
import threading
import time

from PySide6.QtCore import QObject, QTimer

_INTERVAL_MS = 200
_COLLECTIONS = 10  # of what is young, before the old objects are searched too
_SHARE = 0.02  # of the time, which searches of the old objects may take
_model_closed = threading.Event()  # since the last collection


class Collector(QObject):
    """Collects garbage on the GUI thread from `start` to `stop`."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._timer = QTimer(self, interval=_INTERVAL_MS)
        self._timer.timeout.connect(self.collect)
        self._collections = 0
        self._next_full = 0.0

    def start(self) -> None:
        """Take it over from Python."""
        gc.disable()
        self._timer.start()

    def collect(self) -> None:
        """Collect what was allocated lately, and everything now and then and after a model was closed.

        Costs a microsecond where little was allocated.
        """
        was_closed = _model_closed.is_set()
        if not was_closed and gc.get_count()[0] <= gc.get_threshold()[0]:
            return
        _model_closed.clear()
        self._collections += 1
        begun = time.monotonic()
        if not was_closed and (self._collections < _COLLECTIONS or begun < self._next_full):
            gc.collect(1)
            return
        gc.collect()
        self._collections = 0
        now = time.monotonic()
        self._next_full = now + (now - begun) / _SHARE

    def stop(self) -> None:
        """Leave it to Python again."""
        self._timer.stop()
        gc.enable()


def exclude_model() -> None:
    """Exempt all present objects from collection, after a model was opened. GUI thread.

    A full collection takes 0.4 s beside a model of 100,000 nodes, longer than the window may be blocked.
    """
    gc.freeze()


def include_models() -> None:
    """End the exemption, as a model was closed: its cycles would never be freed otherwise. GUI thread."""
    gc.unfreeze()
    _model_closed.set()
