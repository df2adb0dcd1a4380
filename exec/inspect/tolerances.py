"""Tolerances of numeric comparisons, by the precision of the computation and relative to the scale of values."""

from __future__ import annotations

from math import inf, log10

from onnx_workbench.exec.inspect.compare import Tolerance, ValueDifference
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.model.ir.types import ElementType

#: Errors due to rounding after a few hundred layers, relative to the scale of a tensor (its root mean square).
_OF_TYPE = {
    ElementType.DOUBLE: 1e-9,
    ElementType.COMPLEX128: 1e-9,
    ElementType.FLOAT: 1e-4,
    ElementType.COMPLEX64: 1e-4,
    ElementType.FLOAT16: 2e-2,
    ElementType.BFLOAT16: 0.1,
}
_SMALL_FLOATS = 0.5  # of 8 bits and fewer
_OF_QUANTIZED_BITS = {16: 2e-3, 8: 0.1, 4: 0.5, 2: 1.0}
_COARSE = 1e-3  # from this relative error on, single elements may exceed it, for example where a range is clipped
#: Relative error of 8-bit integers that are dequantized for a comparison.
INTEGER_VALUES = _OF_QUANTIZED_BITS[8]
_FLOOR = 0.01  # least scale: for tensors that are zero up to rounding

_QUANTIZING = ("QuantizeLinear", "DynamicQuantizeLinear", "DequantizeLinear")


def type_error(kind: ElementType | None) -> float:
    """Return the relative error due to computing in an element type; 0 for integers, bool and strings."""
    if kind is None:
        return 0.0
    return _OF_TYPE.get(kind, _SMALL_FLOATS if kind.is_float else 0.0)


class RelativeErrors:
    """The relative error due to precision for each value of a run: that of the coarsest type among its ancestors.

    Cost: one pass over the nodes of the run.
    """

    def __init__(self, result: RunResult) -> None:
        self._result = result
        self._of_slot: dict[int, float] = {}
        self._steps: set[int] = set()  # slots of integers that quantization made
        kinds: dict[int, ElementType | None] = {}
        for key, slot in result.layout.slots.items():
            info = result.info(key)
            kinds[slot] = info.element_type if info is not None else None
        operators = {(node.path, node.node): node.operator.rpartition("::")[2] for node in result.nodes}
        for step in result.layout.steps:
            operator = operators.get((step.path, step.node), "")
            given = max((self._of_slot.get(slot, type_error(kinds.get(slot))) for slot in step.reads), default=0.0)
            quantized = _is_quantizing(operator)
            for slot in step.outs:
                kind = kinds.get(slot)
                own = max((_integer_error(kinds.get(s)) for s in (*step.reads, slot)), default=0.0) if quantized else 0
                self._of_slot[slot] = max(given, own, type_error(kind))
                if quantized and kind is not None and kind.is_int:
                    self._steps.add(slot)

    def of(self, key: ValueKey) -> float:
        """Return the relative error of a value; 0 if it must be exact."""
        slot = self._result.layout.slots.get(key)
        info = self._result.info(key)
        own = type_error(info.element_type) if info is not None else 0.0
        if slot is None:  # in a body, where its ancestors are unknown
            return own
        is_exact = info is not None and info.kind == "tensor" and not own
        return 0.0 if is_exact else max(own, self._of_slot.get(slot, 0.0))

    def is_quantized(self, key: ValueKey) -> bool:
        """Return whether a value holds quantized integers, which rounding may change by one step."""
        return self._result.layout.slots.get(key) in self._steps


def _is_quantizing(operator: str) -> bool:
    return operator in _QUANTIZING or operator.startswith(("QLinear", "QGemm", "QAttention", "DynamicQuantize"))


def _integer_error(kind: ElementType | None) -> float:
    is_small = kind is not None and kind.is_int and kind.bits <= 16
    return _OF_QUANTIZED_BITS.get(kind.bits, 0.0) if kind is not None and is_small else type_error(kind)


def tolerance(difference: ValueDifference, relative_error: float, *, is_quantized: bool = False) -> Tolerance:
    """Return the tolerance of a comparison: elements may differ by a part of their own size and of the tensor's scale.

    In coarse types single elements may differ by more if the root mean square of the error is within that part of the
    scale. Integers must be equal, quantized ones up to one step.
    """
    if not relative_error:
        return Tolerance(0.0, 1.0 if is_quantized else 0.0)
    snr = -20 * log10(relative_error) if relative_error >= _COARSE else inf
    return Tolerance(relative_error, relative_error * max(difference.scale, _FLOOR), snr)
