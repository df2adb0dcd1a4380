"""Who works on the GUI thread a few milliseconds at a time: one of them between two looks at mouse and keyboard.

Each by itself is brief. But after an edit in a large model there are five or six, and if all had a timer of their own,
all would be due in the same turn of the event loop, which then takes longer than a frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cache

from PySide6.QtCore import QObject, QTimer
from shiboken6 import isValid

#: How long one may work in its turn.
SLICE_SECONDS = 0.004
#: From the beginning of one turn to that of the next, if the event loop has nothing else to do.
_PACE_MS = 2


class Shift(QObject):
    """Calls `work` again and again from `start` to `stop`, in turn with all others that there are. GUI thread only."""

    def __init__(self, work: Callable[[], object], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.work = work

    @property
    def is_on(self) -> bool:
        """Whether it was started and not stopped."""
        return self in _rota().shifts

    def start(self) -> None:
        """Have a turn soon, and from then on every now and then."""
        if not self.is_on:
            _rota().shifts.append(self)
        _rota().go_on()

    def stop(self) -> None:
        """Have no turn any more."""
        if self.is_on:
            _rota().shifts.remove(self)


class Once(QObject):
    """Calls `work` once, in a turn of its own, soon after `ask` was called, however often. GUI thread only."""

    def __init__(self, work: Callable[[], object], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._work = work
        self._shift = Shift(self._do, self)

    def ask(self, *_: object) -> None:
        """Have it called; cheap to call often."""
        self._shift.start()

    def _do(self) -> None:
        self._shift.stop()
        self._work()


class _Rota(QObject):
    """Gives each its turn. There is one, and it outlives every window."""

    def __init__(self) -> None:
        super().__init__()
        self.shifts: deque[Shift] = deque()  # the next one first
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._turn)

    def go_on(self) -> None:
        """See to it that there is a next turn."""
        if not self._timer.isActive():
            self._timer.start(_PACE_MS)

    def _turn(self) -> None:
        while self.shifts and not isValid(self.shifts[0]):  # who had it is gone
            self.shifts.popleft()
        if self.shifts:
            self._timer.start(_PACE_MS)  # before the work: it may open a dialog, and others go on behind that
            shift = self.shifts[0]
            self.shifts.rotate(-1)
            shift.work()


@cache
def _rota() -> _Rota:
    return _Rota()
