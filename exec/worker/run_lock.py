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
    """Progress of recomputing a value: also cancelled when a run is due, which has priority."""

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
        """Raise Cancelled if the caller cancelled or a run is due."""
        if self.cancelled:
            raise Cancelled

    @property
    def cancelled(self) -> bool:
        """Whether the caller cancelled or a run was due. Stays true, as the computation is abandoned."""
        self._gave_way = self._gave_way or bool(self._due)
        return self._gave_way or self._asked.cancelled


class RunLock:
    """Lock for the runs of one session: one computes at a time. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: set[int] = set()  # threads with a run that waits to begin or continue

    @contextmanager
    def acquired(self, progress: Progress = SILENT) -> Iterator[None]:
        """Hold the lock for a run; Cancelled if `progress` is cancelled while it waits."""
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

    def yielding_to_runs(self, result: RunResult) -> RunResult:
        """Make a result of the session recompute its values between runs only; return it."""
        if result.fetch is not None:
            result.fetch = partial(self.compute_between_runs, result.fetch)
        if result.iterate is not None:
            result.iterate = partial(self._iterate, result.iterate)
        return result

    def _iterate(
        self, iterate: Iterate, result: RunResult, chosen: Mapping[LoopKey, int], progress: Progress
    ) -> RunResult:
        return self.compute_between_runs(partial(iterate, result), chosen, progress)

    def compute_between_runs(self, compute: Callable[[A, Progress], R], asked: A, progress: Progress) -> R:
        """Return the result of `compute`, called between runs: a run interrupts it, after which it starts over."""
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
