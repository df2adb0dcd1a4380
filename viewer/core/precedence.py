"""The window comes first while a person acts beside a run: from a key, button or wheel until what follows is painted.

One thread at a time runs Python, and each that wants to gets as much of it as any other: beside two threads a frame
takes three times as long. So until it is painted, others wait where they look whether to stop, and what else the GUI
thread has to do comes later. A key that is held comes again and again as regularly as a clock: what would still be
going on by then is not begun, but after it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from PySide6.QtCore import QEvent, QObject, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QMouseEvent, QWindow
from shiboken6 import isValid

#: Seconds after an act in which the next one may come.
_CALM = 0.15
#: Seconds that others wait at most: what takes longer is no frame, and might even wait for them.
_LONGEST = 0.04
#: Seconds before the next act of a row should have come in which nothing else is begun, and for which it may be late.
_AHEAD, _LATE = 0.01, 0.002
#: Seconds from one act of a row to the next: a key that is held is no faster, and a pointer leaves no time in between.
_PERIOD = 0.02

_Kind = QEvent.Type
_ACTS = frozenset((
    _Kind.KeyPress, _Kind.MouseButtonPress, _Kind.MouseButtonDblClick, _Kind.MouseButtonRelease, _Kind.Wheel,
    _Kind.NativeGesture, _Kind.TouchBegin, _Kind.TouchUpdate, _Kind.TabletPress, _Kind.TabletMove,
))  # fmt: skip

_painted = threading.Event()  # or nothing is to be
_painted.set()


class Acts(QObject):
    """What a person does in the window that has the focus. GUI thread only; there is one, and it outlives windows."""

    acted = Signal()  # before any widget hears of it
    painted = Signal()  # what follows of that, if it was to `come_first`

    def __init__(self) -> None:
        super().__init__()
        self._window: QWindow | None = None
        self._calm_until = 0.0
        self._last = 0.0  # when the last act came
        self._idle = QTimer(self, singleShot=True, interval=0)  # has its turn after what is to be painted
        self._idle.timeout.connect(self._on_idle)
        application = QGuiApplication.instance()
        if isinstance(application, QGuiApplication):
            application.focusWindowChanged.connect(self._watch)
            self._watch(application.focusWindow())

    def come_first(self) -> None:
        """Have others wait until what follows of an act is painted, and take their time for a moment after it."""
        now = time.monotonic()
        self._calm_until = now + _CALM
        _wait.expect(now, now - self._last)
        self._last = now
        if not self._idle.isActive():
            _wait.until = now + _LONGEST
            _painted.clear()
            self._idle.start()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A turn of who works a few milliseconds at a time: in peace, others wait for it too."""
        if not self.is_calm or self._idle.isActive():
            yield
            return
        _wait.until = time.monotonic() + _LONGEST
        _painted.clear()
        try:
            yield
        finally:
            if not self._idle.isActive():
                _painted.set()

    @property
    def is_calm(self) -> bool:
        """Whether the window is to be left in peace where that is possible."""
        return time.monotonic() < self._calm_until

    @property
    def is_painting(self) -> bool:
        """Whether what follows of an act is still to be painted."""
        return self._idle.isActive() and time.monotonic() < _wait.until

    @property
    def comes_first(self) -> bool:
        """Whether nothing else is to be begun: something is to be painted, or the next act is about to come."""
        return self.is_painting or is_next_due()

    def _on_idle(self) -> None:
        _painted.set()
        self.painted.emit()

    def _watch(self, window: QWindow | None) -> None:
        if self._window is not None and isValid(self._window):
            self._window.removeEventFilter(self)
        self._window = window
        if window is not None:
            window.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        """Tell of acts; takes nothing."""
        kind = event.type()
        if kind in _ACTS or (isinstance(event, QMouseEvent) and event.buttons().value):
            self.acted.emit()
        return False


class _Wait:
    def __init__(self) -> None:
        self.until = 0.0  # when others no longer wait
        self.next = 0.0  # when the next act of a row should have come

    def expect(self, now: float, period: float) -> None:
        """An act came, so many seconds after the one before."""
        self.next = now + period + _LATE if _PERIOD <= period < _CALM else 0.0


_wait = _Wait()


def is_next_due() -> bool:
    """Whether the next act of a row, as of a key that is held, is about to come. Any thread."""
    return 0 < _wait.next - time.monotonic() < _AHEAD


def let_pass() -> None:
    """Wait while the window comes first. Any thread but the GUI's; cheap to call often."""
    if is_next_due():
        time.sleep(max(_wait.next - time.monotonic(), 0.0))
    if not _painted.is_set() and (left := _wait.until - time.monotonic()) > 0:
        _painted.wait(left)


@cache
def acts() -> Acts:
    """Those of this program; made on the GUI thread, to which they belong, once there is an application."""
    return Acts()
