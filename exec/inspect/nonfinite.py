"""Values that are not finite, and where they begin: at the nodes that are given none of the kind and yet give some.

What only passes on the -inf of a mask is no beginning, nor are infinities that are given: inputs and constants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal
from weakref import WeakValueDictionary

import numpy as np

from onnx_workbench.exec.engine.plan import MISSING
from onnx_workbench.exec.inspect.compare import value_keys
from onnx_workbench.exec.kernels.allocation import Array, SparseArray
from onnx_workbench.exec.kernels.context import RuntimeValue
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import Path, StepLayout, ValueKey

#: The kinds of what is not finite, as bits.
NAN, PLUS, MINUS = 1, 2, 4

#: What is looked for: every value that is not finite, those where NaN or an infinity begins, or NaN alone.
Sought = Literal["all", "beginnings", "nan"]

#: Nodes that give what an attribute says.
_GIVEN = ("Constant", "ConstantOfShape")


@dataclass(frozen=True, slots=True)
class NonFiniteValue:
    """A value with elements that are not finite: the first index, its value, how many.

    Of sequences and maps the index is empty and the value that of their first such element.
    """

    key: ValueKey
    index: tuple[int, ...]
    value: float
    count: int


@dataclass(frozen=True, slots=True)
class NonFiniteSearch:
    """What a search for NaN and infinities found, and what it could not look at.

    `let_go` counts floats up to the last one found, or to the end, that were not kept; `has_bodies` says that nodes
    with bodies were among what was passed, of which no turn is kept but the last. `passed` is the first value that is
    not finite but was not looked for, as in it nothing begins.
    """

    found: tuple[NonFiniteValue, ...]
    let_go: int
    has_bodies: bool
    passed: NonFiniteValue | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing was passed that could not be looked at."""
        return not self.let_go and not self.has_bodies


def kinds_of(value: RuntimeValue) -> int:
    """Which kinds are among the elements of a tensor, or of those in a sequence or map. Reads every element.

    An array that was found finite before, as one that was kept, is not read again.
    """
    kinds = 0
    for array in _arrays(value):
        if _finite.get(id(array)) is array:
            continue
        numbers = _numbers(array)
        if np.isfinite(numbers).all():
            _finite[id(array)] = array
        else:
            kinds |= NAN * bool(np.isnan(numbers).any()) | PLUS * bool((numbers == np.inf).any())
            kinds |= MINUS * bool((numbers == -np.inf).any())
    return kinds


def beginning(operator: str, given: int, gives: int, sought: Sought) -> int:
    """Which kinds begin at a node that is given and gives some, of those that are looked for."""
    if sought == "all":
        return gives
    begins = gives & ~given
    return begins & NAN if sought == "nan" or operator in _GIVEN else begins


def non_finite_values(result: RunResult, most: int = 1000, sought: Sought = "all") -> NonFiniteSearch:
    """Values that are kept and not finite everywhere: of the main graph in the order of the run, then of bodies.

    Reads every element; those of an array that was found finite before, as one that was kept, no more.
    """
    slots, steps = result.layout.slots, result.layout.steps
    bodied = {slot for step in steps if step.has_bodies for slot in step.outs if slot}
    inside = [(path, number) for path, values in result.bodies.items() for number in values]
    inside = [key for key in inside if key not in slots]  # and no captured value
    sieve = _Sieve(result, sought)
    found: list[NonFiniteValue] = []
    let_go, has_bodies, passed = 0, False, None
    for key in chain(value_keys(result), inside):
        info = result.info(key)
        has_bodies = has_bodies or (info is not None and slots.get(key) in bodied)
        if info is None or (info.kind == "tensor" and (not _is_float(info.element_type) or 0 in info.shape)):
            continue
        value = result.find(key)
        let_go += value is MISSING
        kinds = 0 if value is MISSING else kinds_of(value)
        if not kinds:
            continue
        if sieve.takes(key, kinds):
            found.append(_bad(key, value, sought))
            if len(found) >= most:
                break
        elif passed is None:
            passed = _bad(key, value, "all")
    return NonFiniteSearch(tuple(found), let_go, has_bodies, passed)


def first_of(result: RunResult, keys: list[ValueKey], sought: Sought) -> NonFiniteValue | None:
    """The first of some values that has what is looked for, wherever that began."""
    for key in keys:
        kinds = kinds_of(result.find(key))
        if kinds & NAN or (kinds and sought != "nan"):
            return _bad(key, result.find(key), sought)
    return None


class _Sieve:
    """Tells which values of a run are looked for. To be asked in the order of the run."""

    def __init__(self, result: RunResult, sought: Sought) -> None:
        self._result = result
        self._wanted = sought
        self._kinds: dict[int, int] = {}  # by slot
        self._inside: dict[Any, int] = {}  # by path, of bodies: what their nodes are given is not known there
        self._makers: dict[int, StepLayout] | None = None  # by slot
        self._operators: dict[tuple[Path, int], str] | None = None  # by path and number of the node

    def takes(self, key: ValueKey, kinds: int) -> bool:
        """Whether a value with these kinds is looked for."""
        if self._wanted == "all":
            return True
        slot = self._result.layout.slots.get(key)
        if slot is None:
            given = self._inside.setdefault(key[0], self._anywhere())
            self._inside[key[0]] |= kinds
            return bool(beginning("", given, kinds, self._wanted))
        self._kinds[slot] = kinds
        if self._makers is None:
            self._makers = {out: step for step in self._result.layout.steps for out in step.outs}
        maker = self._makers.get(slot)
        if maker is None:
            return bool(kinds & NAN)
        given = 0
        for read in maker.reads:
            given |= self._kinds.get(read, 0)
        begins = beginning("", given, kinds, self._wanted)  # as at few nodes, and operators must be looked up
        return bool(begins and beginning(self._operator(maker), given, kinds, self._wanted))

    def _anywhere(self) -> int:
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


def _arrays(value: RuntimeValue) -> Iterator[Array]:
    """The arrays of floats in a value; without recursion over its nesting."""
    pending: list[Any] = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending += reversed(one)
        elif isinstance(one, dict):
            pending += reversed(list(one.values()))
        elif isinstance(one, SparseArray):
            pending.append(one.values)
        elif isinstance(one, float) or (_is_tensor(one) and one.size and one.dtype.kind in "fcV"):
            yield np.asarray(one)


def _is_tensor(one: Any) -> bool:
    return isinstance(one, (np.ndarray, np.generic))


def _numbers(array: Array) -> Array:
    if array.dtype.kind == "c":
        return np.abs(np.where(np.isfinite(array), 0, array))  # what is finite may be too long for its own type
    return array if array.dtype.kind == "f" else array.astype(np.float32)


def _bad(key: ValueKey, value: RuntimeValue, sought: Sought) -> NonFiniteValue:
    """The first element that is looked for, and how many there are."""
    first: tuple[tuple[int, ...], float] | None = None
    count = 0
    for array in _arrays(value):
        numbers = _numbers(array)
        bad = np.isnan(numbers) if sought == "nan" else ~np.isfinite(numbers)
        if bad.any():
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), numbers.shape))
            first = first or (at if value is array else (), float(numbers[at]))
            count += int(np.count_nonzero(bad))
    index, number = first or ((), 0.0)
    return NonFiniteValue(key, index, number, count)


#: Arrays that are finite, by id.
_finite: WeakValueDictionary[int, Array] = WeakValueDictionary()
