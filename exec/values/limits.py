"""Limits of a run: memory, time and cancellation, as its thread knows them."""

from __future__ import annotations

import sys
import threading
import time

from onnx_workbench.exec.errors import LimitError, MemoryLimitError
from onnx_workbench.model.progress import SILENT, Progress


class Limits:
    """Limits of one run: memory in all and for a single result, time, and cancellation. Any thread.

    `fixed` are the bytes of its inputs and weights, `held` those of its values; the executor keeps count of them.
    `working` are those of buffers in which kernels compute, counted where they are allocated.
    """

    __slots__ = (
        "deadline", "fixed", "held", "max_bytes", "memory", "most_fixed", "most_working", "progress", "working"
    )  # fmt: skip

    def __init__(
        self,
        max_bytes: int | None = None,
        deadline: float | None = None,
        progress: Progress = SILENT,
        memory: int | None = None,
    ) -> None:
        self.max_bytes = max_bytes
        self.deadline = deadline  # time.monotonic()
        self.progress = progress
        self.memory = sys.maxsize if memory is None else memory
        self.fixed = 0
        self.most_fixed = 0
        self.working = 0
        self.most_working = 0
        self.held = 0

    @property
    def left(self) -> int:
        """Number of bytes that the run may still hold."""
        return self.memory - self.fixed - self.working - self.held

    def reserve(self, size: int) -> None:
        """Add bytes of weights to `fixed`; a negative size releases them."""
        self.fixed += size
        self.most_fixed = max(self.most_fixed, self.fixed)

    def use(self, size: int) -> None:
        """Add bytes to `working`; a negative size frees them."""
        self.working += size
        self.most_working = max(self.most_working, self.working)

    def require(self, size: int, what: str) -> None:
        """Raise MemoryLimitError if the run may not hold `size` more bytes; `what` names their use in the message."""
        if size > self.left:
            found = f"inputs and weights {self.fixed:,}, buffers {self.working:,} and values {self.held:,} bytes"
            msg = f"{what} needs {size:,} bytes, over the memory limit of {self.memory:,} bytes, of which {found} take"
            raise MemoryLimitError(f"{msg}; expected a higher limit, or fewer values to keep", size)


_UNLIMITED = Limits()
_current = threading.local()


def current_limits() -> Limits:
    """Return the limits of the run on this thread; none outside a run."""
    limits: Limits = getattr(_current, "limits", _UNLIMITED)
    return limits


def set_limits(limits: Limits | None) -> None:
    """Set the limits of a run for this thread (None: no run)."""
    _current.limits = limits if limits is not None else _UNLIMITED


def checkpoint() -> None:
    """Raise Cancelled, or LimitError past the time limit; to be called inside loops of long kernels."""
    limits = current_limits()
    limits.progress.check()
    if limits.deadline is not None and time.monotonic() > limits.deadline:
        msg = "the run reached its time limit"
        raise LimitError(msg)
