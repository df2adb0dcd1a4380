"""Failures of steps: operator, inputs and reason."""

from __future__ import annotations

import numpy as np

from onnx_workbench.exec.engine.input_types import expected_inputs, signature_misfit, unforeseen
from onnx_workbench.exec.engine.plan import Plan, PlanStep
from onnx_workbench.exec.errors import KernelError, LimitError, MissingKernelError
from onnx_workbench.exec.results.node_table import Failure
from onnx_workbench.exec.results.values import MISSING, distinct_bytes
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.numpy_errors import with_lists
from onnx_workbench.exec.values.statistics import describe
from onnx_workbench.model.errors import ModelError

#: Items of a sequence whose types an error names.
_NAMED_ITEMS = 3


class StepError(Exception):
    """A step inside a body failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


#: Exceptions whose messages say what was found and expected.
_MEANT = (KernelError, MissingKernelError, MemoryError, ModelError, StepError)


def failure_of(plan: Plan, step: PlanStep, slots: list[RuntimeValue], error: BaseException) -> Failure:
    """Return the Failure for an exception of a step."""
    inner = error.failure if isinstance(error, StepError) else None
    reason, kind = str(error) or type(error).__name__, type(error).__name__
    if isinstance(error, Exception) and not isinstance(error, _MEANT):
        given = [slots[s] for s in step.ins]
        name = step.node.op_type, step.operation.opset, step.node.domain
        reason = signature_misfit(*name, given)
        kind = KernelError.__name__ if reason else kind
        reason = reason or f"{unforeseen(error, step.operation.attributes)}{expected_inputs(*name)}"
    return Failure(
        step.node.node,
        step.path,
        step.node.title,
        step.node.operator,
        step.operation.opset,
        tuple(f"{plan.name(v)}: {_described(slots[s])}" for v, s in zip(step.node.inputs, step.ins, strict=False) if s),
        with_lists(reason),
        inner.kind if inner is not None else kind,
        inner,
    )


def _described(value: RuntimeValue) -> str:
    """Return type and shape of an input; of a sequence also those of its first items."""
    text = str(describe(value))
    if not isinstance(value, list) or not value:
        return text
    items = ", ".join(str(describe(item)) for item in value[:_NAMED_ITEMS])
    return f"{text} ({items}{', …' if len(value) > _NAMED_ITEMS else ''})"


def refuse_large(step: PlanStep, slots: list[RuntimeValue], most: int) -> None:
    """Release the outputs of a step and raise LimitError if one takes more than `most` bytes.

    Kernels check results larger than their inputs before they compute them; this catches results as large as an input
    that is over the limit, and sequences, which grow. Views of an input do not count.
    """
    given = [slots[s] for s in step.ins if s]
    arrays = [value for value in given if isinstance(value, np.ndarray)]
    for slot in filter(None, step.outs):
        value = slots[slot]
        if any(value is known for known in given):
            continue
        if isinstance(value, np.ndarray):
            size = 0 if any(np.may_share_memory(value, known) for known in arrays) else value.nbytes
        else:
            size = distinct_bytes([value])
        if size > most:
            text = describe(value)
            for out in filter(None, step.outs):
                slots[out] = MISSING
            msg = f"a result of {text} needs {size:,} bytes, over the limit of {most:,} bytes for a tensor"
            raise LimitError(msg)
