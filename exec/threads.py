"""One pool of threads for the kernels, and the thread count of the BLAS library numpy brings.

numpy's ufuncs use one core; kernels hand independent tiles, images or heads to `parallel_for`. While they run, BLAS
is kept at one thread: two pools that both want every core are slower than one.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from exec.context import checkpoint, current_limits, set_limits
from exec.kernels.shared import blas

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_size = 1
_inside = threading.local()  # .active: this thread already works for a parallel_for


def set_threads(count: int) -> None:
    """Let kernels and BLAS use `count` threads (at least 1); an idle pool of another size is given up. Any thread."""
    global _pool, _size  # noqa: PLW0603 - one pool per process is the purpose of this module
    count = max(1, count)
    with _lock:
        if count != _size and _pool is not None:
            _pool.shutdown(wait=False)
            _pool = None
        _size = count
    blas.set_threads(count)


def threads() -> int:
    """How many threads kernels may use."""
    return 1 if getattr(_inside, "active", False) else _size


def parallel_for(task: Callable[[int], None], count: int) -> None:
    """Call task(0) … task(count - 1), on several threads where the pool has them; raises the first error.

    The tasks must be independent. Limits and numpy's error state of the caller hold in every one of them.
    """
    workers = min(threads(), count)
    if workers <= 1:
        for index in range(count):
            checkpoint()
            task(index)
        return
    indices = iter(range(count))
    take = threading.Lock()
    failures: list[BaseException] = []
    limits = current_limits()

    def work() -> None:
        set_limits(limits)
        _inside.active = True
        try:
            while not failures:
                with take:
                    index = next(indices, None)
                if index is None:
                    return
                checkpoint()
                task(index)
        except BaseException as error:  # noqa: BLE001 - raised again on the calling thread
            failures.append(error)
        finally:
            _inside.active = False

    pool = _shared_pool()
    previous = blas.set_threads(1)
    try:
        helpers = [pool.submit(copy_context().run, work) for _ in range(workers - 1)]
        work()
        for helper in helpers:
            helper.result()
    finally:
        blas.set_threads(previous)
    if failures:
        raise failures[0]


def _shared_pool() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(1, _size - 1), thread_name_prefix="kernel")
        return _pool


def split(total: int, parts: int) -> list[tuple[int, int]]:
    """Cut range(total) into at most `parts` contiguous (start, stop) pieces of nearly equal size."""
    parts = max(1, min(parts, total))
    edges = [total * i // parts for i in range(parts + 1)]
    return [(a, b) for a, b in itertools.pairwise(edges) if b > a]
