"""Arguments and results of calls of functions, in terms of symbols that equal calls share."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.analysis.symbolic import AnySize, Size, is_never_negative
from onnx_workbench.model.inference.facts import Facts
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.types import ElementType, Type

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MADE_UP = re.compile(r"[?!]\d")  # in symbols of unknown sizes and numbers


@dataclass(frozen=True, slots=True)
class Known:
    """All that is known of a value."""

    element_type: ElementType | None
    dims: tuple[AnySize, ...] | None
    other: Type | None
    contents: NDArray[Any] | None
    factors: tuple[float, ...] | None

    @classmethod
    def of(cls, facts: Facts, value: Value | None) -> Known:
        """Return what facts say of a value; nothing of one that is left out."""
        if value is None:
            return cls(None, None, None, None, None)
        contents, factors = facts.contents.get(value), facts.factors.get(value)
        return cls(facts.element_type(value), facts.dims(value), facts.other(value), contents, factors)


class Arguments:
    """The arguments of a call. `key` is equal for calls of which the same is known.

    Symbols made up for unknown sizes are replaced by others for the time of the call, as they mean other sizes in
    another call of equal key.
    """

    def __init__(self, facts: Facts, values: Sequence[Value | None]) -> None:
        self._formal: dict[AnySize, AnySize] = {}
        self._facts = facts
        self._known = [self._renamed(Known.of(facts, value)) for value in values]
        positions = {size: number for number, size in enumerate(self._formal.values())}
        self._actual = {next(iter(formal.symbols)): size for size, formal in self._formal.items()
                        if isinstance(formal, Size)}  # fmt: skip
        self.key: Hashable = tuple(_key(known, positions) for known in self._known)
        self.symbols = tuple(positions)

    def _renamed(self, known: Known) -> Known:
        dims = None if known.dims is None else tuple(map(self._rename, known.dims))
        contents = None if known.contents is None else _mapped(known.contents, self._rename)
        return Known(known.element_type, dims, known.other, contents, known.factors)

    def _rename(self, size: Any) -> Any:
        if not isinstance(size, Size) or not _MADE_UP.search(str(size)):
            return size
        if size not in self._formal:
            facts = self._facts
            self._formal[size] = facts.unknown_size() if is_never_negative(size) else facts.unknown_number()
        return self._formal[size]

    def bind(self, facts: Facts, formal: Sequence[Value]) -> None:
        """Give the formal inputs of the function what is known of the arguments."""
        for value, known in zip(formal, self._known, strict=False):
            facts.set_element_type(value, known.element_type)
            if known.other is not None:
                facts.seed(value, known.other)
            if known.dims is not None:
                facts.set_dims(value, known.dims)
            if known.contents is not None:
                facts.set_contents(value, known.contents)
            if known.factors is not None:
                facts.factors[value] = known.factors

    def store(self, outputs: Sequence[Value | None], results: Sequence[Known], symbols: Sequence[AnySize]) -> None:
        """Give the outputs of the call what is known of the results, from an equal call whose symbols were these."""
        own = {
            next(iter(a.symbols)): self._actual[next(iter(b.symbols))]
            for a, b in zip(symbols, self.symbols, strict=True)
            if isinstance(a, Size) and isinstance(b, Size)
        }
        unknown: dict[Any, AnySize] = {}

        def actual(size: Any) -> Any:
            if not isinstance(size, Size):
                return size
            total: AnySize = 0
            for monomial, factor in size.terms:
                term: AnySize = factor
                for name in monomial:
                    if name in own:
                        term = term * own[name]
                    elif _MADE_UP.search(name):
                        if size not in unknown:
                            never = is_never_negative(size)
                            unknown[size] = self._facts.unknown_size() if never else self._facts.unknown_number()
                        return unknown[size]
                    else:
                        term = term * Size((((name,), 1),))
                total = total + term
            return total

        for value, known in zip(outputs, results, strict=False):
            if value is None:
                continue
            self._facts.set_element_type(value, known.element_type)
            self._facts.seed(value, known.other)
            if known.dims is not None:
                self._facts.set_dims(value, tuple(map(actual, known.dims)))
            held = known.contents
            if held is not None and all(isinstance(element, (int, Size)) for element in held.reshape(-1)):
                self._facts.set_contents(value, _mapped(held, actual))


def _mapped(array: NDArray[Any], function: Any) -> NDArray[Any]:
    result = np.empty(array.shape, object)
    result.reshape(-1)[:] = [function(element) for element in array.reshape(-1).tolist()]
    return result


def _key(known: Known, positions: dict[AnySize, int]) -> Hashable:
    def place(size: Any) -> Hashable:
        return ("symbol", positions[size]) if size in positions else size

    dims = None if known.dims is None else tuple(map(place, known.dims))
    held = known.contents
    contents = None if held is None else (held.shape, *((type(e), place(e)) for e in held.reshape(-1).tolist()))
    return known.element_type, known.other, dims, contents, known.factors
