"""Values of every kind: bitwise equality, private copies, and their size in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from onnx_workbench.exec.values.arrays import RuntimeValue, SparseArray
from onnx_workbench.exec.values.statistics import nbytes


class Missing:
    """Marker of a slot without a value; None is a value (an empty optional)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<no value>"

    def __reduce__(self) -> str:
        return "MISSING"  # the one of the process


MISSING = Missing()


#: Bytes up to which a copy to compare costs less than numpy's calls.
_SMALL = 1 << 14

#: Elements that are compared at a time: inputs that differ mostly do so at their beginning.
_PIECE = 1 << 13


def same_value(a: RuntimeValue, b: RuntimeValue) -> bool:
    """Return whether two values are equal in type, shape and every bit."""
    if isinstance(a, np.ndarray):
        if not isinstance(b, np.ndarray) or a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.kind == "O":
            return bool(a.tolist() == b.tolist())
        if a.nbytes <= _SMALL:
            return a.tobytes() == b.tobytes()
        one, other = _as_words(a), _as_words(b)
        starts = range(0, len(one), _PIECE)
        return all((one[start : start + _PIECE] == other[start : start + _PIECE]).all() for start in starts)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same_value, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(map(same_value, a.values(), b.values()))
    if isinstance(a, SparseArray):
        return (
            isinstance(b, SparseArray)
            and a.shape == b.shape
            and same_value(a.values, b.values)
            and same_value(a.indices, b.indices)
        )
    return type(a) is type(b) and (a is b or (isinstance(a, (str, int, bool)) and bool(a == b)))


def _as_words(array: Any) -> Any:
    """Return the bytes of an array in row-major order, as 64-bit integers if they fill these: fewer to compare."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return data if data.nbytes % 8 else data.view(np.int64)


def copy_value(value: RuntimeValue) -> RuntimeValue:
    """Return a contiguous deep copy of a value."""
    if isinstance(value, np.ndarray):
        return np.array(value, order="C", copy=True)
    if isinstance(value, list):
        return [copy_value(v) for v in value]
    if isinstance(value, dict):
        return {k: copy_value(v) for k, v in value.items()}
    if isinstance(value, SparseArray):
        return SparseArray(value.values.copy(), value.indices.copy(), value.shape)
    return value


def distinct_bytes(values: Iterable[RuntimeValue]) -> int:
    """Return the bytes that values hold; buffers shared by views count once."""
    owners: dict[int, int] = {}
    other = 0
    for value in values:
        if isinstance(value, np.ndarray):
            owner: Any = value
            while isinstance(owner.base, np.ndarray):
                owner = owner.base
            owners[id(owner)] = owner.nbytes
        elif isinstance(value, list):
            other += distinct_bytes(value)
        elif value is not MISSING:
            other += nbytes(value)
    return sum(owners.values()) + other
