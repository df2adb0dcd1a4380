"""Progress reports and cancellation of long work, independent of the listener."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Thing = TypeVar("_Thing")

Report = Callable[[float, float, str], None]


_BETWEEN_CHECKS = 256


class Cancelled(Exception):
    """Raised by `Progress.check` when the user or a limit cancelled the work."""


class Progress:
    """Progress of long work, which calls `report` now and then and `check` often.

    Both are cheap and may be called from any thread. `listener(done, total, text)` is called at most ten times a
    second, on the thread that reports.
    """

    def __init__(self, listener: Report | None = None) -> None:
        self._listener = listener
        self._next = 0.0
        self._cancelled = False

    def report(self, done: float, total: float, text: str = "") -> None:
        """Report how much is done, in any unit; also check for cancellation."""
        self.check()
        if self._listener is not None:
            now = time.monotonic()
            if now >= self._next or done >= total:
                self._next = now + 0.1
                self._listener(done, total, text)

    def check(self) -> None:
        """Raise `Cancelled` after `cancel`."""
        if self._cancelled:
            raise Cancelled

    def paced(self, things: Iterable[_Thing], every: int = _BETWEEN_CHECKS, *, of: int = 0) -> Iterator[_Thing]:
        """Iterate with a `check` before the first item and after every few hundred, or `every`.

        With the total `of`, progress is reported too.
        """
        for number, thing in enumerate(things):
            if number % every == 0:
                self.report(number, of) if of else self.check()
            yield thing

    def quiet(self) -> Progress:
        """Return a progress for a part of the work, which is cancelled with it and whose reports nobody hears."""
        return _Part(self)

    def cancel(self) -> None:
        """Request cancellation at the next `check`."""
        self._cancelled = True

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled


class _Part(Progress):
    def __init__(self, whole: Progress) -> None:
        super().__init__()
        self._whole = whole

    def check(self) -> None:
        self._whole.check()

    @property
    def cancelled(self) -> bool:
        return self._whole.cancelled


class Deadline(Progress):
    """Progress with a time limit in seconds from now, after which `check` raises `Cancelled`; None: no limit."""

    def __init__(self, seconds: float | None, listener: Report | None = None) -> None:
        super().__init__(listener)
        self._end = None if seconds is None else time.monotonic() + seconds

    def check(self) -> None:
        """Raise `Cancelled` after `cancel`, or when the time limit is exceeded."""
        if self._end is not None and time.monotonic() > self._end:
            self.cancel()
        super().check()


#: For callers that neither listen nor cancel.
SILENT = Progress()
