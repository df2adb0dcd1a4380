"""Weights that stay in their file: read on demand for each node that needs them and released afterwards.

Used if the weights would take most of the memory limit of a run. A slot then holds a StoredWeight instead of the
array, and each step is called through a ReadingCall.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.exec.kernels.registry import KernelFunction
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.limits import current_limits
from onnx_workbench.exec.values.statistics import Summary, ValueInfo
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType

if TYPE_CHECKING:
    from onnx_workbench.exec.engine.plan import PlanStep

#: Smaller weights are read once and kept.
_LEAST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class StoredWeight:
    """Placeholder in a slot for a weight that stays in its file."""

    tensor: Tensor

    def read(self) -> RuntimeValue:
        """Read the values from the file; ModelError if they are not available."""
        return self.tensor.numpy()

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Type of the elements in memory, if it is known."""
        kind = self.tensor.element_type
        return kind.numpy_dtype if isinstance(kind, ElementType) else None

    @property
    def nbytes(self) -> int:
        """Bytes of the values in memory."""
        return 0 if self.dtype is None else self.tensor.size * self.dtype.itemsize

    @property
    def summary(self) -> Summary:
        """Type and shape, in the form that results hold."""
        kind = self.tensor.element_type
        element_type = kind if isinstance(kind, ElementType) else None
        return Summary(ValueInfo("tensor", element_type, tuple(self.tensor.shape), self.nbytes), None)


def stored(tensor: Tensor | SparseTensor | None) -> StoredWeight | None:
    """Return the placeholder of a tensor that stays in its file; None if it is small, not in a file or unavailable."""
    if not isinstance(tensor, Tensor) or tensor.nbytes < _LEAST_BYTES or tensor.storage in ("memory", "inline"):
        return None
    return None if tensor.problem else StoredWeight(tensor)


class ReadingCall:
    """A kernel that reads the stored weights among its inputs before each call and releases them afterwards."""

    __slots__ = ("call",)

    def __init__(self, call: KernelFunction) -> None:
        self.call = call

    def __call__(self, *inputs: RuntimeValue) -> Any:
        """Return the result of the kernel; MemoryLimitError if the weights do not fit into the limit."""
        size = sum(value.nbytes for value in inputs if type(value) is StoredWeight)
        if not size:
            return self.call(*inputs)
        limits = current_limits()
        limits.require(size, "its weight")
        limits.reserve(size)
        try:
            return self.call(*[value.read() if type(value) is StoredWeight else value for value in inputs])
        finally:
            limits.reserve(-size)


def held_constants(steps: Iterable[PlanStep], tokens: Sequence[int], slots: Sequence[RuntimeValue]) -> list[PlanStep]:
    """Return the constant steps, in order, that depend on no stored weight, directly or through others."""
    found, large = [], set[int]()
    for step in steps:
        if not tokens[step.index]:
            continue
        if any(slot in large or type(slots[slot]) is StoredWeight for slot in step.reads):
            large.update(step.outs)
        else:
            found.append(step)
    return found


def just_in_time(steps: Sequence[PlanStep], tokens: Sequence[int]) -> list[PlanStep]:
    """Return the steps with each constant one moved right before its first reader, so that it is held only briefly."""
    waiting = {slot: step for step in steps if tokens[step.index] for slot in step.outs if slot}
    order: dict[int, PlanStep] = {}
    varying = [step for step in steps if not tokens[step.index]]
    for step in (*varying, *(step for step in steps if tokens[step.index])):
        pending = [step]
        while pending:
            needed = [waiting[slot] for slot in pending[-1].reads if slot in waiting]
            if needed:
                pending += needed
                continue
            ready = pending.pop()
            order.setdefault(ready.index, ready)
            for slot in ready.outs:
                waiting.pop(slot, None)
    return list(order.values())
