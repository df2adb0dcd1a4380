"""What can stop a node, a run or a kernel, as results rather than crashes."""

from __future__ import annotations

from onnx_workbench.model.errors import ModelError


class KernelError(ValueError):
    """An input, attribute or shape a kernel cannot take; the message says what was found and expected."""


class MissingKernelError(LookupError):
    """No kernel for an operator, domain and opset; the message names them and the versions there are."""


class LimitError(MemoryError):
    """A result would pass the memory limit, or the run its time limit; nothing was allocated."""


class MemoryLimitError(LimitError):
    """The run would hold more than its memory limit; values that no later node reads may make room."""

    def __init__(self, message: str, needed: int) -> None:
        super().__init__(message)
        self.needed = needed  # bytes


class WorkerUnavailable(ModelError):
    """The process that runs are to happen in cannot be started, or does not live long enough to take one."""
