"""Longest stalls of the GUI thread, with what it was doing meanwhile."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer

_BEAT_MS = 5
_SAMPLE_SECONDS = 0.05
_FRAMES = 8


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which the GUI thread handled no event. `busy`: seconds of the processor that it took itself."""

    seconds: float
    busy: float
    stack: str


class Heartbeat(QObject):
    """A timer on the GUI thread, and a thread that looks what holds it up."""

    def __init__(self) -> None:
        super().__init__()
        self._gui_thread = threading.get_ident()
        self._last, self._last_busy = time.perf_counter(), time.thread_time()
        self._stack = ""
        self.worst = Stall(0.0, 0.0, "")
        self._timer = QTimer(self, interval=_BEAT_MS)
        self._timer.timeout.connect(self._beat)
        self._timer.start()
        self._ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def reset(self) -> None:
        """Begin a new measurement."""
        self._beat()
        self.worst = Stall(0.0, 0.0, "")

    def stop(self) -> None:
        """End the timer and the thread."""
        self._timer.stop()
        self._ended.set()

    def _beat(self) -> None:
        now, busy = time.perf_counter(), time.thread_time()
        if now - self._last > self.worst.seconds:
            self.worst = Stall(now - self._last, busy - self._last_busy, self._stack)
        self._last, self._last_busy, self._stack = now, busy, ""

    def _watch(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            if time.perf_counter() - self._last > 2 * _SAMPLE_SECONDS:
                frame = sys._current_frames().get(self._gui_thread)
                frames = traceback.extract_stack(frame)[: -_FRAMES - 1 : -1]
                places = (f"{one.filename.rpartition('/')[2]}:{one.lineno} {one.name}" for one in frames)
                self._stack += " < ".join(places) + "\n"
