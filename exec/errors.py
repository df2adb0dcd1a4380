"""Exceptions that end a node, a run or a kernel and become failures in results."""

from __future__ import annotations

from onnx_workbench.model.errors import ModelError


class KernelError(ValueError):
    """An input, attribute or shape that a kernel does not accept; the message says what was found and expected."""


class MissingKernelError(LookupError):
    """No kernel for an operator, domain and opset; the message names them and the existing versions."""


class LimitError(MemoryError):
    """A result would exceed the memory limit, or the run its time limit; nothing was allocated."""


class MemoryLimitError(LimitError):
    """The run would exceed its memory limit; releasing values that no later node reads may help."""

    def __init__(self, message: str, needed: int) -> None:
        super().__init__(message)
        self.needed = needed  # bytes


class WorkerUnavailable(ModelError):
    """The worker process cannot be started, or ends before it accepts a run."""
