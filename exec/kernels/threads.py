"""Thread pool of the kernels; BLAS itself always uses one thread, since the kernels are loaded.

numpy's ufuncs use one core, and BLAS's own threads spin while waiting for work, which is slower than one thread as soon
as another process wants the cores. So kernels split large work into independent pieces (columns of a product, rows of a
convolution, images, heads) for `parallel_for`, whose idle threads sleep.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import cache
from queue import SimpleQueue

from onnx_workbench.exec.values.limits import checkpoint, current_limits, set_limits
from onnx_workbench.model.errors import errors_to

#: Multiply-adds in BLAS that are worth waking another thread: about half a millisecond. A sleeping thread needs a tenth
#: of one to start, more on a virtual machine; half of that size gained nothing when measured.
WORTH = 1 << 25

#: Multiply-adds that cost as much as a few elementwise passes over one element.
PASSES = 48

#: Limit for the threads of the kernels.
_MOST = 8


class _Pool:
    """The threads of the process: the number that kernels may use, and the number started."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.size = 1
        self.helpers = 0
        self.jobs: SimpleQueue[tuple[Context, _Job]] = SimpleQueue()


_pool = _Pool()
_inside = threading.local()  # .active: this thread already works for a parallel_for


def set_threads(count: int) -> None:
    """Set the number of threads for kernels (1 to 8). Any thread."""
    _pool.size = max(1, min(count, _MOST))


#: Load per core (measured) above which a second thread waits for its core more than it helps.
_BUSY = 0.75


def allowed_cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Windows and macOS
        return os.cpu_count() or 1


def usable_cores(allowed: int) -> int:
    """Return how many threads a run should use: one for each core it is allowed; one when others use them too.

    Above four, half of them are taken for a second thread of the same core, which adds nothing to arithmetic.
    """
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > _BUSY * allowed:
        return 1
    return _idle_cores(allowed)


def _idle_cores(allowed: int) -> int:
    return min(_MOST, allowed if allowed <= 4 else max(4, allowed // 2))


@cache
def _usual_pieces() -> int:
    return _idle_cores(allowed_cores())


def pieces(work: int) -> int:
    """Return the number of pieces for an amount of work in multiply-adds whose rounding depends on that number.

    It depends on the cores of the process, not on the threads of a run, so that results do not depend on the load.
    """
    return 1 if work < WORTH else _usual_pieces()


def threads(work: int = WORTH) -> int:
    """Return the number of threads to use for an amount of work in multiply-adds."""
    return 1 if work < WORTH or getattr(_inside, "active", False) else _pool.size


class _Job:
    """One call of parallel_for: the remaining pieces, and the threads working on them."""

    __slots__ = ("active", "closed", "done", "failures", "indices", "limits", "lock", "task")

    def __init__(self, task: Callable[[int], None], count: int) -> None:
        self.task = task
        self.indices = iter(range(count))
        self.lock = threading.Lock()
        self.failures: list[BaseException] = []
        self.limits = current_limits()
        self.active = 0
        self.closed = False
        self.done: SimpleQueue[None] = SimpleQueue()

    def work(self) -> None:
        """Process pieces until none is left or one has failed."""
        _inside.active = True
        try:
            with errors_to(self.failures.append, BaseException):  # raised again on the calling thread
                while not self.failures:
                    with self.lock:
                        index = next(self.indices, None)
                    if index is None:
                        return
                    checkpoint()
                    self.task(index)
        finally:
            _inside.active = False

    def help(self) -> None:
        """Work on a pool thread. One that arrives after the end is not waited for."""
        with self.lock:
            if self.closed:
                return
            self.active += 1
        try:
            set_limits(self.limits)
            self.work()
        finally:
            set_limits(None)
            self.done.put(None)

    def join(self) -> None:
        """Wait for the threads that took a piece."""
        with self.lock:
            self.closed = True
            active = self.active
        for _ in range(active):
            self.done.get()


def parallel_for(task: Callable[[int], None], count: int, work: int = WORTH) -> None:
    """Call task(0) … task(count - 1), in parallel where `work` is worth it; raises the first error.

    `work` is the number of multiply-adds of all tasks together. The tasks must be independent. Each inherits the
    caller's limits and numpy error state.
    """
    workers = min(threads(work), count)
    if workers <= 1:
        for index in range(count):
            checkpoint()
            task(index)
        return
    _need(workers - 1)
    job = _Job(task, count)
    for _ in range(workers - 1):
        _pool.jobs.put((copy_context(), job))
    try:
        job.work()
    finally:
        job.join()
    if job.failures:
        raise job.failures[0]


def _need(count: int) -> None:
    """Start helper threads up to a number; they sleep when idle, and end with the process."""
    if _pool.helpers >= count:
        return
    with _pool.lock:
        while _pool.helpers < count:
            _pool.helpers += 1
            threading.Thread(target=_helper, name=f"kernel-{_pool.helpers}", daemon=True).start()


def _helper() -> None:
    while True:
        context, job = _pool.jobs.get()
        context.run(job.help)
        del context, job  # drop references to the work until the next call


def split(total: int, parts: int) -> list[tuple[int, int]]:
    """Split range(total) into at most `parts` contiguous (start, stop) pieces of nearly equal size."""
    parts = max(1, min(parts, total))
    edges = [total * i // parts for i in range(parts + 1)]
    return [(a, b) for a, b in itertools.pairwise(edges) if b > a]
