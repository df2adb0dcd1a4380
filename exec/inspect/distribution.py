"""Distribution of a tensor's elements: statistics, percentiles, distinct values and a histogram, in one pass.

A tensor is given as a function that reads a range of its elements, so that a tensor in a file is never in memory as a
whole. Above a limit, percentiles and distinct values are of a sample of evenly spaced runs of elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, Final

import numpy as np

from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.exec.values.statistics import Gathered, Statistics
from onnx_workbench.model.progress import SILENT, Progress

#: Returns the elements from start to stop as a flat array.
Reader = Callable[[int, int], Array]

#: Percentiles to compute.
PERCENTILES: Final = (1, 5, 25, 50, 75, 95, 99)
MOST_BINS: Final = 96

_BLOCK = 1 << 20
_EXACT = 1 << 22  # elements up to which everything is exact
_RUN = 4096  # consecutive elements in each part of a sample
_MOST_DISTINCT = 1 << 16
_LEAST: Final = float(np.finfo(np.float64).tiny)  # a smaller range cannot be divided into bins
_LARGE: Final = float(np.finfo(np.float64).max) / 4


@dataclass(frozen=True, slots=True)
class Distribution:
    """Distribution of a tensor's elements. `sampled` is the sample size; 0 if every element was read.

    `edges` has one entry more than `counts`; both are empty without finite numbers. `distinct` counts NaN and each
    infinity once; None when there are too many to count; of a sample it is a lower bound.
    """

    statistics: Statistics
    percentiles: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    edges: tuple[float, ...] = ()
    distinct: int | None = None
    sampled: int = 0


def distribution(read: Reader, shape: tuple[int, ...], size: int, progress: Progress = SILENT) -> Distribution:
    """Read every element once, and sort a sample. Strings and complex numbers have counts only."""
    with np.errstate(all="ignore"):
        return _distribution(read, shape, size, progress)


def _distribution(read: Reader, shape: tuple[int, ...], size: int, progress: Progress) -> Distribution:
    if not size:
        return Distribution(Statistics(0), distinct=0)
    first = read(0, 1)
    if first.dtype.kind in "OUSc":
        return _of_unordered(read, size)
    gathered = Gathered()
    sample = _Sample(size)
    for start in range(0, size, _BLOCK):
        progress.report(start, size, f"{start:,} of {size:,} elements")
        block = read(start, min(start + _BLOCK, size))
        for offset in range(0, block.size, _BLOCK >> 3):
            progress.check()
            gathered.add(start + offset, block[offset : offset + (_BLOCK >> 3)])
        sample.add(start, block)
    progress.check()
    finite = _numbers(sample.values())
    statistics = gathered.statistics(shape, size)
    if statistics.non_finite:
        finite = finite[np.isfinite(finite)]
    finite.sort()
    sampled = sample.size if sample.size < size else 0
    distinct = 1 + int(np.count_nonzero(finite[1:] != finite[:-1])) if finite.size else 0
    distinct += sum(map(bool, (statistics.nan, statistics.positive_infinity, statistics.negative_infinity)))
    counts, edges = _histogram(finite, statistics)
    return Distribution(statistics, _percentiles(finite), counts, edges, distinct, sampled)


def _percentiles(ordered: Array) -> tuple[float, ...]:
    """Return percentiles: interpolated between the two nearest elements, or the nearest one if that overflows."""
    if not ordered.size:
        return ()
    places = np.array(PERCENTILES) / 100 * (ordered.size - 1)
    below = places.astype(np.intp)
    low, high = (ordered[at].astype(np.float64) for at in (below, np.minimum(below + 1, ordered.size - 1)))
    found = low + (high - low) * (places - below)
    return tuple(np.where(np.isfinite(found), found, ordered[places.round().astype(np.intp)]).tolist())


def _numbers(values: Array) -> Array:
    """Convert to a type that sorts fast; integers stay, as floats cannot hold those beyond 2 ** 53."""
    if values.dtype.kind in "iu" or (values.dtype.kind == "f" and values.dtype.itemsize >= 4):
        return values
    return values.astype(np.float32)


def _histogram(ordered: Array, statistics: Statistics) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return counts and edges of √n bins for n elements; the last bin includes its upper edge."""
    if not ordered.size or statistics.minimum is None or statistics.maximum is None:
        return (), ()
    low, high = float(statistics.minimum), float(statistics.maximum)
    part = 0.5 if max(abs(low), abs(high)) > _LARGE else 1.0  # avoids overflow of their difference
    if high - low <= max(abs(high) * 1e-12, _LEAST):
        around = abs(low) / 2 if abs(low) > _LEAST else 0.5
        low, high = low - around, high + around
    bins = min(ceil(sqrt(ordered.size)), MOST_BINS)
    edges = np.linspace(low * part, high * part, bins + 1) / part
    edges[0], edges[-1] = low, high  # half of the least number is 0
    if ordered.dtype.kind != "f":
        ordered = ordered.astype(np.float64)
    inner = edges[1:-1].astype(ordered.dtype)  # rounded up to the next number of the type if it became smaller
    inner = np.where(inner < edges[1:-1], np.nextafter(inner, inner.dtype.type(np.inf)), inner)
    counts = np.diff(np.searchsorted(ordered, inner), prepend=0, append=ordered.size)
    return tuple(counts.tolist()), tuple(edges.tolist())


class _Sample:
    """Sample of evenly spaced runs of elements, or of all elements if they are few."""

    def __init__(self, size: int) -> None:
        self._all = size <= _EXACT
        self._step = _RUN if self._all else size * _RUN // _EXACT
        self._values: Array | None = None  # with room for all, so that they are held once
        self._room = size if self._all else -(-size // self._step) * _RUN
        self.size = 0

    def add(self, start: int, block: Array) -> None:
        """Add the sampled elements of a block that begins at this element."""
        for part in (block,) if self._all else self._runs(start, block):
            if self._values is None:
                self._values = np.empty(self._room, block.dtype)
            self._values[self.size : self.size + part.size] = part
            self.size += part.size

    def _runs(self, start: int, block: Array) -> Iterator[Array]:
        stop = start + block.size
        number = max(0, (start - _RUN) // self._step)
        while (position := number * self._step) < stop:
            first, last = max(position, start), min(position + _RUN, stop)
            if first < last:
                yield block[first - start : last - start]
            number += 1

    def values(self) -> Array:
        """Return the sampled elements."""
        assert self._values is not None
        return self._values[: self.size]


def _of_unordered(read: Reader, size: int) -> Distribution:
    """Count empty, zero, non-finite and distinct elements of strings and complex numbers."""
    gathered = Gathered()
    seen: set[Any] | None = set()
    for start in range(0, size, _BLOCK):
        block = read(start, min(start + _BLOCK, size))
        if block.dtype.kind == "c":
            gathered.add(start, block)
            block = block[~np.isnan(block)]
        else:
            gathered.zeros += int(np.count_nonzero(block == ""))
        if seen is not None:
            seen.update(block[: 2 * _MOST_DISTINCT].tolist())
            if len(seen) > _MOST_DISTINCT or block.size > 2 * _MOST_DISTINCT:
                seen = None
    statistics = gathered.statistics((), size)
    distinct = None if seen is None else len(seen) + bool(statistics.nan)
    return Distribution(statistics, distinct=distinct)
