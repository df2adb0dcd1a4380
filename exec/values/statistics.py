"""Summary of a value without its elements: type, shape, size, and statistics."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt
from typing import Any, Literal

import numpy as np

from onnx_workbench.exec.values.arrays import Array, RuntimeValue, SparseArray
from onnx_workbench.model.ir.types import (
    ElementType,
    MapType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    Type,
)

Kind = Literal["tensor", "sequence", "map", "sparse", "none"]

#: Elements processed at a time, which fit into the processor's cache.
_BLOCK = 1 << 17


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """Type and size of a run-time value; for sequences and maps `element_type` is None and `shape` their length."""

    kind: Kind
    element_type: ElementType | None
    shape: tuple[int, ...]
    nbytes: int  # as held in memory

    def __reduce__(self) -> tuple[Any, ...]:
        return ValueInfo, (self.kind, self.element_type, self.shape, self.nbytes)  # unpickles five times as fast

    def __str__(self) -> str:
        if self.kind == "none":
            return "nothing"
        if self.kind in ("sequence", "map"):
            return f"{self.kind} of {self.shape[0]}"
        name = self.element_type.text if self.element_type is not None else "?"
        text = f"{name}[{','.join(map(str, self.shape))}]"
        return f"sparse {text}" if self.kind == "sparse" else text

    def fits(self, declared: Type) -> bool:
        """Return whether a value of this type and shape is compatible with a declared type."""
        if isinstance(declared, OptionalType):
            return self.kind == "none" or declared.element is None or self.fits(declared.element)
        if isinstance(declared, (SequenceType, MapType)):
            return self.kind == ("map" if isinstance(declared, MapType) else "sequence")
        if not isinstance(declared, (TensorType, SparseTensorType)):
            return True
        if self.kind != ("tensor" if isinstance(declared, TensorType) else "sparse"):
            return False
        if declared.element_type not in (self.element_type, 0):
            return False
        if declared.shape is None:
            return True
        dims = declared.shape.dims
        return len(dims) == len(self.shape) and all(
            d == n for d, n in zip(dims, self.shape, strict=True) if isinstance(d, int) and d >= 0
        )


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of a tensor. Extremes, mean and deviation are those of the finite elements.

    `minimum` to `deviation` are None without finite numbers (empty, strings, complex). Infinite complex numbers of any
    direction count as positive infinities.
    """

    size: int
    minimum: float | int | None = None
    minimum_index: tuple[int, ...] = ()
    maximum: float | int | None = None
    maximum_index: tuple[int, ...] = ()
    mean: float | None = None
    deviation: float | None = None
    nan: int = 0
    positive_infinity: int = 0
    negative_infinity: int = 0
    zeros: int = 0

    @property
    def non_finite(self) -> int:
        """Number of NaN and infinities."""
        return self.nan + self.positive_infinity + self.negative_infinity


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a value that is not kept."""

    info: ValueInfo
    statistics: Statistics | None

    def __reduce__(self) -> tuple[Any, ...]:
        return Summary, (self.info, self.statistics)


def describe(value: RuntimeValue) -> ValueInfo:
    """Return type, shape and bytes of a value. Cheap: reads elements only of strings and sequences, for their size."""
    if isinstance(value, np.ndarray):
        return ValueInfo("tensor", _element_type(value), value.shape, nbytes(value))
    if isinstance(value, SparseArray):
        return ValueInfo("sparse", _element_type(value.values), tuple(value.shape), nbytes(value))
    if isinstance(value, list):
        return ValueInfo("sequence", None, (len(value),), nbytes(value))
    if isinstance(value, dict):
        return ValueInfo("map", None, (len(value),), nbytes(value))
    return ValueInfo("none", None, (), 0)


def _element_type(array: Array) -> ElementType | None:
    try:
        return ElementType.from_numpy(array.dtype)
    except ValueError:
        return None


def nbytes(value: RuntimeValue) -> int:
    """Return the bytes of a value in memory; strings count by their length."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return value.nbytes + sum(len(v) for v in value.flat if isinstance(v, str))
        return value.nbytes
    if isinstance(value, SparseArray):
        return value.values.nbytes + value.indices.nbytes
    if isinstance(value, list):
        return sum(nbytes(v) for v in value)
    if isinstance(value, dict):
        return sum(nbytes(v) for v in value.values()) + 64 * len(value)
    return 8 if value is not None else 0


def summarise(value: RuntimeValue) -> Summary:
    """Return type and statistics; reads every element once or twice."""
    return Summary(describe(value), statistics(value) if isinstance(value, np.ndarray) else None)


def statistics(array: Array) -> Statistics:
    """Compute statistics of a tensor, block by block, without copying it."""
    if array.dtype.kind in "OUS" or not array.size:
        return Statistics(array.size)
    gathered = Gathered()
    for start, block in _blocks(array):
        gathered.add(start, block)
    return gathered.statistics(array.shape, array.size)


def _blocks(array: Array) -> Any:
    """Yield (flat index, flat block) in row-major order; blocks are copies only if the array is strided."""
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            yield start, flat[start : start + _BLOCK]
        return
    inner = prod(array.shape[1:])
    if array.ndim < 2 or inner == 0:
        yield 0, array.reshape(-1)
        return
    rows = max(1, _BLOCK // inner)
    for row in range(0, array.shape[0], rows):
        yield row * inner, array[row : row + rows].reshape(-1)


#: Squares of larger numbers may overflow; larger ones are first scaled by a power of two, with room for sums of many.
HUGE = 1e140
SCALE = 2.0**-600


class Gathered:
    """Running statistics, updated block by block."""

    def __init__(self) -> None:
        self.minimum: Any = None
        self.maximum: Any = None
        self.minimum_at = self.maximum_at = 0
        self.count = self.zeros = self.nan = self.up = self.down = 0
        self.mean = 0.0  # of numbers times `scale`, as are `squares`
        self.squares = 0.0
        self.scale = 1.0

    def add(self, start: int, block: Array) -> None:
        """Add a block, whose first element has the flat index `start`."""
        if block.dtype.kind == "V" or block.dtype.name.startswith(("float8", "int4", "uint4", "int2", "uint2")):
            block = block.astype(np.float32)  # ml_dtypes have no fast reductions
        elif block.dtype.kind == "b":
            block = block.view(np.uint8)
        elif block.dtype == np.float16:
            block = block.astype(np.float32)
        self.zeros += block.size - int(np.count_nonzero(block))
        if block.dtype.kind == "c":
            is_nan = np.isnan(block)
            self.nan += int(np.count_nonzero(is_nan))
            self.up += int(np.count_nonzero(np.isinf(block) & ~is_nan))
            return
        positions: Array | None = None
        if block.dtype.kind == "f":
            low, high = block.min(), block.max()
            if not (np.isfinite(low) and np.isfinite(high)):
                finite = np.isfinite(block)
                nan = int(np.count_nonzero(np.isnan(block)))
                up = int(np.count_nonzero(block == np.inf))
                self.nan += nan
                self.up += up
                self.down += block.size - int(np.count_nonzero(finite)) - nan - up
                positions = np.flatnonzero(finite)
                block = block[positions]
        if block.size:
            self._extremes(start, block, positions)
            self._moments(block)

    def _extremes(self, start: int, block: Array, positions: Array | None) -> None:
        low, high = int(block.argmin()), int(block.argmax())
        if self.minimum is None or block[low] < self.minimum:
            self.minimum = block[low]
            self.minimum_at = start + (low if positions is None else int(positions[low]))
        if self.maximum is None or block[high] > self.maximum:
            self.maximum = block[high]
            self.maximum_at = start + (high if positions is None else int(positions[high]))

    def _moments(self, block: Array) -> None:
        wide = block.astype(np.float64)
        if self.scale == 1.0 and max(abs(float(self.minimum)), abs(float(self.maximum))) > HUGE:
            self.scale = SCALE
            self.mean *= SCALE
            self.squares *= SCALE**2
        if self.scale != 1.0:
            wide *= self.scale
        mean = float(wide.mean())
        wide -= mean
        squares = float(np.dot(wide, wide))
        total = self.count + block.size
        delta = mean - self.mean
        self.squares += squares + delta * delta * self.count * block.size / total
        self.mean += delta * block.size / total
        self.count = total

    def statistics(self, shape: tuple[int, ...], size: int) -> Statistics:
        """Return the statistics of all blocks, for a tensor of the given shape and number of elements."""
        if self.minimum is None:
            return Statistics(
                size, nan=self.nan, positive_infinity=self.up, negative_infinity=self.down, zeros=self.zeros
            )
        return Statistics(
            size,
            self.minimum.item(),
            _index(self.minimum_at, shape),
            self.maximum.item(),
            _index(self.maximum_at, shape),
            self.mean / self.scale,
            sqrt(max(0.0, self.squares / self.count)) / self.scale,
            self.nan,
            self.up,
            self.down,
            self.zeros,
        )


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))
