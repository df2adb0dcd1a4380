"""Receptive fields as indices per axis of each input, and the evaluated node they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from onnx_workbench.exec.values.arrays import Array

#: Positions along an axis.
Positions = range | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ElementReach:
    """Elements of one input: the product of `axes`. `exact`: all of them matter, and no others."""

    input: int
    axes: tuple[Positions, ...]
    exact: bool = True

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(len(a) for a in self.axes)

    def take(self, array: Array) -> Array:
        """Return the elements, in the shape of the product. A copy."""
        if not self.axes:
            return array
        elements: Array = array[
            np.ix_(*[np.arange(a.start, a.stop, a.step) if isinstance(a, range) else list(a) for a in self.axes])
        ]
        return elements

    def index(self, position: Sequence[int]) -> tuple[int, ...]:
        """Return the input index of an element of `take`."""
        return tuple(axis[p] for axis, p in zip(self.axes, position, strict=True))

    def __str__(self) -> str:
        return f"[{', '.join(map(_axis_text, self.axes))}]"


def _axis_text(axis: Positions) -> str:
    if len(axis) == 1:
        return str(axis[0])
    if isinstance(axis, range) and len(axis):
        return f"{axis.start}:{axis[-1] + 1}" + (f":{axis.step}" if axis.step != 1 else "")
    return "{" + ", ".join(map(str, axis[:6])) + ("…" if len(axis) > 6 else "") + "}"


@dataclass(frozen=True, slots=True)
class EvaluatedNode:
    """A node with its values. `inputs` are arrays (None: omitted or not a tensor); attributes plain Python values."""

    op_type: str
    domain: str
    attributes: Mapping[str, Any]
    inputs: Sequence[Array | None]
    outputs: Sequence[tuple[int, ...]]  # shapes
    output: int = 0
    version: int = 99  # of the operator set

    def shape(self, position: int) -> tuple[int, ...] | None:
        """Return the shape of an input; None if it has no array."""
        array = self.inputs[position] if position < len(self.inputs) else None
        return None if array is None else array.shape

    def numbers(self, position: int, attribute: str = "") -> list[int] | None:
        """Return the integers of an input, or of the attribute that older versions have instead."""
        array = self.inputs[position] if position < len(self.inputs) else None
        if array is not None:
            return [int(x) for x in array.reshape(-1)]
        given = self.attributes.get(attribute)
        return None if given is None else [int(given)] if isinstance(given, int) else [int(x) for x in given]


def point(i: int) -> range:
    """Return a range of one position."""
    return range(i, i + 1)


def at_index(position: int, index: Sequence[int]) -> ElementReach:
    """Return one element of an input."""
    return ElementReach(position, tuple(point(i) for i in index))


def aligned(position: int, shape: tuple[int, ...], at: tuple[int, ...]) -> ElementReach:
    """Return the element that is broadcast to an output element."""
    tail = at[len(at) - len(shape) :]
    return at_index(position, [0 if d == 1 else i for d, i in zip(shape, tail, strict=True)])


def wider(met: ElementReach, every: ElementReach, array: Array) -> ElementReach:
    """Return `every` if it has non-finite elements outside `met`, which times zero give NaN; else `met`."""
    return every if _non_finite(every.take(array)) > _non_finite(met.take(array)) else met


def _non_finite(numbers: Array) -> int:
    if numbers.dtype.kind not in "fV":
        return 0
    wide = numbers if numbers.dtype.kind == "f" else numbers.astype(np.float32)
    return int(numbers.size - np.count_nonzero(np.isfinite(wide)))


def quantized_by(node: EvaluatedNode, position: int, at: tuple[int, ...], place: int) -> list[ElementReach]:
    """Return a scale or zero point of an element: per tensor, row, column or channel, or broadcast."""
    shape = node.shape(position)
    if shape is None:
        return []
    if len(shape) == 1:
        return [at_index(position, (place if shape[0] > 1 else 0,))]
    tail = at[len(at) - len(shape) :]
    return [at_index(position, [0 if d == 1 else i for d, i in zip(shape, tail, strict=True)])]
