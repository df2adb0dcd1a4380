"""A program that does next to nothing, as the yardstick of what a machine does to any: how late is it, and how often?

    with Bystander() as bystander:
        …
    late = bystander.late  # seconds, one for every 16 ms

On a shared machine others take processors away for whole frames, be it in the same system or outside a virtual one.
There, memory too may be slow for a tenth of a second, which the system inside counts as work: a loop that did nothing
but touch 128 MB took 186 ms once instead of 1. What comes late here for such a reason comes late in every program.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from types import TracebackType

PERIOD = 1 / 60
_BYTES = 64 << 20  # looked at each time, one of each page: less than half a millisecond
_PAGE = 4096


class Bystander:
    """A process that runs beside what is measured, from entering this to leaving it."""

    def __init__(self) -> None:
        self.late: list[float] = []

    def __enter__(self) -> Bystander:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has begun
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        told, _ = self._process.communicate("\n")
        self.late = [float(word) for word in told.split()]


def watch(memory: bytearray, least: float, ended: threading.Event) -> list[float]:
    """Look at the memory 60 times a second; by how many seconds each time was over later than it should have been."""
    late: list[float] = []
    due = time.perf_counter()
    while not ended.is_set():
        due += PERIOD
        if (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        look_at(memory)
        now = time.perf_counter()
        late.append(max(now - due - least, 0.0))
        due = max(due, now - PERIOD)  # what came while it was late is not counted again
    return late


def look_at(memory: bytearray) -> float:
    """How long it took."""
    begun = time.perf_counter()
    sum(memory[::_PAGE])
    return time.perf_counter() - begun


def main() -> None:
    """Watch until there is something to read."""
    ended = threading.Event()
    memory = bytearray(b"1") * _BYTES
    least = min(look_at(memory) for _ in range(20))
    print("begun", flush=True)  # only now: all of this takes a core for longer than some frames
    threading.Thread(target=lambda: (sys.stdin.readline(), ended.set()), daemon=True).start()
    print(*(f"{late:.6f}" for late in watch(memory, least, ended)))


if __name__ == "__main__":
    main()
