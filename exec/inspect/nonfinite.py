"""Search for non-finite values (NaN, infinities) and their origins: nodes with finite inputs and non-finite outputs.

A node that passes on the -inf of a mask is not an origin, nor are infinities in inputs and constants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from onnx_workbench.exec.results.run_result import RunResult, value_keys
from onnx_workbench.exec.results.slot_map import Path, StepLayout, ValueKey
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.finiteness import NAN, NonFiniteMode, arrays_in, as_numbers, kinds_of, originating_kinds
from onnx_workbench.model.ir.types import ElementType


@dataclass(frozen=True, slots=True)
class NonFiniteValue:
    """A value with non-finite elements: the first index, its value, and the count.

    For sequences and maps the index is empty and the value is their first such element. `operator` is that of the node
    that computed it, and `cause` the reason; empty if inputs of the node are not finite or the reason is unknown.
    """

    key: ValueKey
    index: tuple[int, ...]
    value: float
    count: int
    operator: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True)
class NonFiniteSearch:
    """Result of a search for NaN and infinities, and what it could not examine.

    `unkept` counts float values that were not kept, up to the last finding or to the end; `has_bodies`: there were
    nodes with subgraphs, of which only the last iteration is kept. `passed` is the first non-finite value that is not
    in `found`, as it is not an origin.
    """

    found: tuple[NonFiniteValue, ...]
    unkept: int
    has_bodies: bool
    passed: NonFiniteValue | None = None

    @property
    def is_complete(self) -> bool:
        """Whether everything was examined."""
        return not self.unkept and not self.has_bodies


#: Reasons why operators return NaN, and infinities, for finite inputs.
_UNDEFINED = {
    "Log": "logarithm of a negative number", "Sqrt": "square root of a negative number", "Div": "0 divided by 0",
    "Pow": "root of a negative number", "Asin": "argument outside −1 to 1", "Acos": "argument outside −1 to 1",
    "Acosh": "argument below 1", "Atanh": "argument outside −1 to 1",
}  # fmt: skip
_POLES = {
    "Log": "logarithm of 0", "Div": "division by 0 or a very small number",
    "Reciprocal": "division by 0 or a very small number", "Atanh": "argument of −1 or 1",
}  # fmt: skip
_SUMMING = frozenset((
    "Add", "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "CumSum", "Einsum", "Gemm",
    "GlobalAveragePool", "LayerNormalization", "MatMul", "Mean", "ReduceMean", "ReduceSum",
    "ReduceSumSquare", "Sub", "Sum",
))  # fmt: skip
_LARGEST = {ElementType.FLOAT16: "65504", ElementType.BFLOAT16: "3.39e38", ElementType.FLOAT: "3.40e38",
            ElementType.DOUBLE: "1.80e308"}  # fmt: skip


def cause_of(operator: str, number: float, element_type: ElementType | int | None) -> str:
    """Describe why an operator returns NaN or infinities for finite inputs: ``sum exceeds 65504``; empty if unknown."""
    is_sum = operator in _SUMMING
    largest = _LARGEST.get(element_type) if isinstance(element_type, ElementType) else None
    known = (_UNDEFINED if number != number else _POLES).get(operator, "")
    if known or largest is None or (number != number and not is_sum):
        return known
    return f"{'sum' if is_sum else 'result'} exceeds {largest}"


def non_finite_values(result: RunResult, most: int = 1000, mode: NonFiniteMode = "all") -> NonFiniteSearch:
    """Search kept values for non-finite elements: of the main graph in run order, then of subgraphs.

    Stops after `most` findings. Reads every element, except of arrays found finite before.
    """
    slots, steps = result.layout.slots, result.layout.steps
    bodied = {slot for step in steps if step.has_bodies for slot in step.outs if slot}
    inside = [(path, number) for path, values in result.bodies.items() for number in values]
    inside = [key for key in inside if key not in slots]  # and no captured value
    sieve = _Filter(result, mode)
    found: list[NonFiniteValue] = []
    unkept, has_bodies, passed = 0, False, None
    for key in chain(value_keys(result), inside):
        info = result.info(key)
        has_bodies = has_bodies or (info is not None and slots.get(key) in bodied)
        if info is None or (info.kind == "tensor" and (not _is_float(info.element_type) or 0 in info.shape)):
            continue
        value = result.find(key)
        unkept += value is MISSING
        kinds = 0 if value is MISSING else kinds_of(value)
        if not kinds:
            continue
        if sieve.accepts(key, kinds):
            bad = _finding(key, value, mode)
            found.append(bad if unkept else sieve.explained(bad, info.element_type))
            if len(found) >= most:
                break
        elif passed is None:
            passed = _finding(key, value, "all")
    return NonFiniteSearch(tuple(found), unkept, has_bodies, passed)


def first_of(result: RunResult, keys: list[ValueKey], mode: NonFiniteMode) -> NonFiniteValue | None:
    """Return the first of some values with a sought kind, regardless of where it originated."""
    for key in keys:
        kinds = kinds_of(result.find(key))
        if kinds & NAN or (kinds and mode != "nan"):
            return _finding(key, result.find(key), mode)
    return None


class _Filter:
    """Filter for sought values. Must be called in run order."""

    def __init__(self, result: RunResult, mode: NonFiniteMode) -> None:
        self._result = result
        self._wanted = mode
        self._kinds: dict[int, int] = {}  # by slot
        self._inside: dict[Any, int] = {}  # kinds seen in subgraphs, whose inputs are unknown, by path
        self._makers: dict[int, StepLayout] | None = None  # by slot
        self._operators: dict[tuple[Path, int], str] | None = None  # by path and number of the node

    def accepts(self, key: ValueKey, kinds: int) -> bool:
        """Return whether a value with these kinds is sought."""
        if self._wanted == "all":
            return True
        slot = self._result.layout.slots.get(key)
        if slot is None:
            given = self._inside.setdefault(key[0], self._all_kinds())
            self._inside[key[0]] |= kinds
            return bool(originating_kinds("", given, kinds, self._wanted))
        self._kinds[slot] = kinds
        if self._makers is None:
            self._makers = {out: step for step in self._result.layout.steps for out in step.outs}
        maker = self._makers.get(slot)
        if maker is None:
            return bool(kinds & NAN)
        given = 0
        for read in maker.reads:
            given |= self._kinds.get(read, 0)
        # The operator is looked up last, as few nodes get here.
        begins = originating_kinds("", given, kinds, self._wanted)
        return bool(begins and originating_kinds(self._operator(maker), given, kinds, self._wanted))

    def explained(self, found: NonFiniteValue, element_type: ElementType | int | None) -> NonFiniteValue:
        """Return a finding with the operator that computed it, and with the cause if all its inputs are finite."""
        slot = self._result.layout.slots.get(found.key)
        maker = self._makers.get(slot) if self._makers is not None and slot is not None else None
        if maker is None:
            return found
        operator = self._operator(maker)
        is_finite = not any(self._kinds.get(read, 0) for read in maker.reads)
        cause = cause_of(operator, found.value, element_type) if is_finite else ""
        return replace(found, operator=operator, cause=cause)

    def _all_kinds(self) -> int:
        kinds = 0
        for found in self._kinds.values():
            kinds |= found
        return kinds

    def _operator(self, step: StepLayout) -> str:
        if self._operators is None:
            self._operators = {(node.path, node.node): node.operator for node in self._result.nodes}
        return self._operators.get((step.path, step.node), "")


def _is_float(element_type: Any) -> bool:
    return element_type is not None and bool(element_type.is_float or element_type.is_complex)


def _finding(key: ValueKey, value: RuntimeValue, mode: NonFiniteMode) -> NonFiniteValue:
    """Return the first matching element of a value, and the count."""
    first: tuple[tuple[int, ...], float] | None = None
    count = 0
    for array in arrays_in(value):
        numbers = as_numbers(array)
        bad = np.isnan(numbers) if mode == "nan" else ~np.isfinite(numbers)
        if bad.any():
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), numbers.shape))
            first = first or (at if value is array else (), float(numbers[at]))
            count += int(np.count_nonzero(bad))
    index, number = first or ((), 0.0)
    return NonFiniteValue(key, index, number, count)
