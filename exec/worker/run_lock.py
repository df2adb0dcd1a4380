"""Lock with priorities for computing: runs come before values of earlier runs that are computed again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from onnx_workbench.exec.results.run_result import Iterate, RunResult
from onnx_workbench.exec.results.slot_map import LoopKey
from onnx_workbench.model.progress import SILENT, Cancelled, Progress

_POLL = 0.05

A = TypeVar("A")
R = TypeVar("R")


class YieldToRun(Progress):
    """The progress of a value that is computed again: cancelled also while anything is due that comes before it."""

    def __init__(self, asked: Progress, due: Collection[object]) -> None:
        super().__init__()
        self._asked = asked
        self._due = due
        self._gave_way = False

    def report(self, done: float, total: float, text: str = "") -> None:
        """Report progress to the caller."""
        self.check()
        self._asked.report(done, total, text)

    def check(self) -> None:
        """Raise Cancelled if the caller cancelled, or something with priority waits."""
        if self.cancelled:
            raise Cancelled

    @property
    def cancelled(self) -> bool:
        """Return whether the caller cancelled or something with priority came: final, as what was begun is
        abandoned.
        """
        self._gave_way = self._gave_way or bool(self._due)
        return self._gave_way or self._asked.cancelled


class RunLock:
    """Lock of the runs of one session, which is used by one thread at a time. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: set[int] = set()  # threads with a run that waits to begin or continue

    @contextmanager
    def acquired(self, progress: Progress = SILENT) -> Iterator[None]:
        """Have it for a run, after those before; Cancelled where it is stopped while it waits."""
        self._due.add(threading.get_ident())
        try:
            while not self._lock.acquire(timeout=_POLL):
                progress.check()
        finally:
            self._due.discard(threading.get_ident())
        try:
            progress.check()
            yield
        finally:
            self._lock.release()

    def giving_way(self, result: RunResult) -> RunResult:
        """Return the result of a run of the session, whose values are computed again between runs."""
        if result.fetch is not None:
            result.fetch = partial(self.bring, result.fetch)
        if result.iterate is not None:
            result.iterate = partial(self._iterate, result.iterate)
        return result

    def _iterate(
        self, iterate: Iterate, result: RunResult, chosen: Mapping[LoopKey, int], progress: Progress
    ) -> RunResult:
        return self.bring(partial(iterate, result), chosen, progress)

    def bring(self, compute: Callable[[A, Progress], R], asked: A, progress: Progress) -> R:
        """Return the result of `compute`, between runs: it starts over after a run that came in between."""
        while True:
            progress.check()
            if not self._due and self._lock.acquire(timeout=_POLL):
                try:
                    return compute(asked, YieldToRun(progress, self._due))
                except Cancelled:
                    progress.check()
                finally:
                    self._lock.release()
            time.sleep(_POLL)
