"""Longest stalls of the GUI thread, with what it was doing meanwhile."""

from __future__ import annotations

import signal
import threading
import time
import traceback
from dataclasses import dataclass
from itertools import islice
from types import FrameType

from PySide6.QtCore import QObject, QTimer

_BEAT_MS = 5
_SAMPLE_SECONDS = 0.05
_FRAMES = 8
_LOOK = signal.SIGUSR1


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which the GUI thread handled no event. `busy`: seconds of the processor that it took itself."""

    seconds: float
    busy: float
    stack: str


class Heartbeat(QObject):
    """A timer on the GUI thread, and a thread that looks what holds it up. Made on the main thread."""

    def __init__(self) -> None:
        super().__init__()
        self._gui_thread = threading.get_ident()
        self._last, self._last_busy = time.perf_counter(), time.thread_time()
        self.stack = ""
        self.worst = Stall(0.0, 0.0, "")
        self.busiest = self.worst  # the one that took most of the thread's own time: on a busy machine not the same
        self._timer = QTimer(self, interval=_BEAT_MS)
        self._timer.timeout.connect(self._beat)
        self._timer.start()
        self._ended = threading.Event()
        signal.signal(_LOOK, self._look)
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()

    def reset(self) -> None:
        """Begin a new measurement."""
        self._beat()
        self.worst = self.busiest = Stall(0.0, 0.0, "")

    def stop(self) -> None:
        """End the timer and the thread."""
        self._timer.stop()
        self._ended.set()
        self._watching.join()
        signal.signal(_LOOK, signal.SIG_IGN)  # one may be on its way

    def _beat(self) -> None:
        now, busy = time.perf_counter(), time.thread_time()
        stall = Stall(now - self._last, busy - self._last_busy, self.stack)
        self.worst = max(self.worst, stall, key=lambda one: one.seconds)
        self.busiest = max(self.busiest, stall, key=lambda one: one.busy)
        self._last, self._last_busy, self.stack = now, busy, ""

    def _watch(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            if time.perf_counter() - self._last > 2 * _SAMPLE_SECONDS:
                signal.pthread_kill(self._gui_thread, _LOOK)

    def _look(self, _signal: int, frame: FrameType | None) -> None:
        """Note what the GUI thread does, on that thread itself.

        A frame that another thread refers to outlives its function, and what its variables hold, such as a painter or a
        widget, would be destroyed late and on the wrong thread. Qt crashes then.
        """
        calls = islice(traceback.walk_stack(frame), _FRAMES)
        self.stack += " < ".join(f"{f.f_code.co_filename.rpartition('/')[2]}:{n} {f.f_code.co_name}" for f, n in calls)
        self.stack += "\n"
