"""Kinds of non-finite elements in a value: NaN and infinities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal
from weakref import WeakValueDictionary

import numpy as np

from onnx_workbench.exec.values.arrays import Array, RuntimeValue, SparseArray
from onnx_workbench.model.schemas import traits

#: Kinds of non-finite values, as bits.
NAN, PLUS, MINUS = 1, 2, 4

#: What to search for: every non-finite value, origins of NaN or infinities, or NaN alone.
NonFiniteMode = Literal["all", "origins", "nan"]

#: Cache of arrays found finite, by id.
_finite: WeakValueDictionary[int, Array] = WeakValueDictionary()


def kinds_of(value: RuntimeValue) -> int:
    """Return the kinds of non-finite elements in a tensor, sequence or map. Reads every element.

    Arrays found finite before are cached and not read again.
    """
    kinds = 0
    for array in arrays_in(value):
        if _finite.get(id(array)) is array:
            continue
        numbers = as_numbers(array)
        if np.isfinite(numbers).all():
            _finite[id(array)] = array
        else:
            kinds |= NAN * bool(np.isnan(numbers).any()) | PLUS * bool((numbers == np.inf).any())
            kinds |= MINUS * bool((numbers == -np.inf).any())
    return kinds


def originating_kinds(operator: str, given: int, gives: int, mode: NonFiniteMode) -> int:
    """Return the sought kinds that originate at a node, from the kinds in its inputs and in its output."""
    if mode == "all":
        return gives
    begins = gives & ~given
    return begins & NAN if mode == "nan" or traits.find(operator).value_attributes else begins


def arrays_in(value: RuntimeValue) -> Iterator[Array]:
    """Yield the float arrays in a value; iterative, so that nesting cannot exhaust the stack."""
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


def as_numbers(array: Array) -> Array:
    """Real numbers that are finite, NaN or infinite where the elements of a float array are."""
    if array.dtype.kind == "c":
        # Not the magnitude of finite ones, which may overflow.
        return np.abs(np.where(np.isfinite(array), 0, array))
    return array if array.dtype.kind == "f" else array.astype(np.float32)
