"""Longest stalls of the GUI thread, with what it was doing meanwhile."""

from __future__ import annotations

import faulthandler
import re
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import IO

from PySide6.QtCore import QObject, QTimer

_BEAT_MS = 5
_SAMPLE_SECONDS = 0.05
_FRAMES = 8
_CALL = re.compile(r'File "(?:.*/)?(.*)", line (\d+) in (.*)')


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
        with tempfile.TemporaryFile("w+", encoding="ascii") as file:
            while not self._ended.wait(_SAMPLE_SECONDS):
                self._look(file)

    def _look(self, file: IO[str]) -> None:
        if time.perf_counter() - self._last > 2 * _SAMPLE_SECONDS:
            self._stack += " < ".join(stack_of(self._gui_thread, file)[:_FRAMES]) + "\n"


def stack_of(thread: int, file: IO[str]) -> list[str]:
    """Lines of the calls of a thread, innermost first; `file` is overwritten.

    No frame is referred to meanwhile, as with sys._current_frames: it would outlive its function, and what its
    variables hold, such as a painter or a widget, would be destroyed late and on the wrong thread. Qt crashes then.
    """
    file.seek(0)
    file.truncate()
    faulthandler.dump_traceback(file)
    file.seek(0)
    _, _, calls = file.read().partition(f"hread 0x{thread:016x} ")
    lines = calls.partition("\n\n")[0].splitlines()[1:]
    return [f"{path}:{line} {name}" for text in lines for path, line, name in _CALL.findall(text)]
