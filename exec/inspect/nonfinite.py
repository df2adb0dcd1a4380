"""Search for non-finite values (NaN, infinities) and their origins: nodes with finite inputs and non-finite outputs.

A node that passes on the -inf of a mask is not an origin, nor are infinities in inputs and constants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from onnx_workbench.exec.inspect.nonfinite_cause import cause_of
from onnx_workbench.exec.results.run_result import RunResult, value_keys
from onnx_workbench.exec.results.slot_map import Path, StepLayout, ValueKey
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.finiteness import NAN, NonFiniteMode, arrays_in, as_numbers, kinds_of, originating_kinds


@dataclass(frozen=True, slots=True)
class NonFiniteValue:
    """A value with non-finite elements: the first index, its value, and the count.

    For sequences and maps the index is empty and the value is their first such element. `operator` is that of the node
    that computed it, and `cause` the reason, see `cause_of`; empty if it is unknown.
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
            found.append(bad if unkept else sieve.explained(bad))
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
            return _Filter(result, mode).explained(_finding(key, result.find(key), mode))
    return None


class _Filter:
    """Filter for sought values. Must be called in run order."""

    def __init__(self, result: RunResult, mode: NonFiniteMode) -> None:
        self._result = result
        self._wanted = mode
        self._kinds: dict[int, int] = {}  # by slot
        self._inside: dict[Any, int] = {}  # kinds seen in subgraphs, whose inputs are unknown, by path

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
        maker = self._makers.get(slot)
        if maker is None:
            return bool(kinds & NAN)
        given = 0
        for read in maker.reads:
            given |= self._kinds.get(read, 0)
        # The operator is looked up last, as few nodes get here.
        begins = originating_kinds("", given, kinds, self._wanted)
        return bool(begins and originating_kinds(self._operator(maker), given, kinds, self._wanted))

    def explained(self, found: NonFiniteValue) -> NonFiniteValue:
        """Return a finding with the operator that computed it, and with the cause. Reads the inputs of the node."""
        result = self._result
        slot = result.layout.slots.get(found.key)
        maker = None if slot is None else self._makers.get(slot)
        if maker is None:
            return found
        operator, keys = self._operator(maker), [self._keys.get(read) for read in maker.reads]
        inputs = [("", MISSING) if key is None else (result.layout.name(key[1]), result.find(key)) for key in keys]
        cause = cause_of(operator, found.index, found.value, inputs, getattr(result.info(found.key), "element_type", 0))
        return replace(found, operator=operator, cause=cause)

    @cached_property
    def _makers(self) -> dict[int, StepLayout]:
        """The step that fills each slot."""
        return {out: step for step in self._result.layout.steps for out in step.outs}

    @cached_property
    def _keys(self) -> dict[int, ValueKey]:
        """The value in each slot."""
        return {slot: key for key, slot in self._result.layout.slots.items()}

    @cached_property
    def _operators(self) -> dict[tuple[Path, int], str]:
        """Operators by path and number of the node."""
        return {(node.path, node.node): node.operator for node in self._result.nodes}

    def _all_kinds(self) -> int:
        kinds = 0
        for found in self._kinds.values():
            kinds |= found
        return kinds

    def _operator(self, step: StepLayout) -> str:
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
