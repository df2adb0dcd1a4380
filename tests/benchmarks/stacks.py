"""What the GUI thread was doing in turns that took longer than they may: by looking at it twice a millisecond."""

from __future__ import annotations

import atexit
import signal
import time
from collections import Counter
from pathlib import Path
from types import FrameType

_INTERVAL = 0.0005  # seconds by the clock
_LEAST_MS = 0.25  # of the mean slow turn, for a call to be printed

_HERE = str(Path(__file__).parent)

Calls = tuple[str, ...]  # the outermost first


class Stacks:
    """Collects the calls of slow turns, and prints the mean of them as a tree. GUI thread, which is the main thread."""

    def __init__(self, slow_ms: float) -> None:
        self._slow_ms = slow_ms
        self._since = 0.0
        self._now: list[tuple[Calls, float]] = []
        self._slow: Counter[Calls] = Counter()
        self._count = 0

    def start(self) -> None:
        """Begin to look; what it looks at gets slower by about a half."""
        signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, _INTERVAL, _INTERVAL)
        atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)  # nobody takes the signal after the end of Python

    def _look(self, _signal: int, frame: FrameType | None) -> None:
        calls: list[str] = []
        while frame is not None and not frame.f_code.co_filename.startswith(_HERE):
            code = frame.f_code
            calls.append(f"{code.co_filename.rpartition('/')[2]} {code.co_name}")
            frame = frame.f_back
        now = time.thread_time()
        self._now.append((tuple(reversed(calls)), now - self._since))
        self._since = now

    def begin(self) -> None:
        """A turn begins."""
        self._now.clear()
        self._since = time.thread_time()

    def end(self, spent_ms: float) -> None:
        """A turn is over."""
        if spent_ms > self._slow_ms:
            self._count += 1
            for calls, seconds in self._now:
                for depth in range(len(calls)):
                    self._slow[calls[: depth + 1]] += 1e3 * seconds

    def print_calls(self) -> None:
        """Print what was found since it was last printed: CPU time in ms of a slow turn, and of which call."""
        if self._count:
            print(f"    mean of {self._count} turns of more than {self._slow_ms} ms of CPU time")
            self._print_below(())
        self._slow.clear()
        self._count = 0

    def _print_below(self, calls: Calls) -> None:
        depth = len(calls)
        below = [(spent / self._count, one) for one, spent in self._slow.items() if one[:-1] == calls]
        for spent, one in sorted(below, reverse=True):
            if spent >= _LEAST_MS:
                print(f"    {'  ' * depth}{spent:.2f}  {one[-1]}")
                self._print_below(one)
