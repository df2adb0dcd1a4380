"""Comparison of two values, and whether they are close."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, log10, nan, sqrt
from typing import Any

import numpy as np

from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.values.arrays import Array, RuntimeValue
from onnx_workbench.exec.values.statistics import HUGE, SCALE, describe

#: Elements compared at a time, and sample size for the first frontier.
_BLOCK, _SAMPLE = 1 << 18, 1 << 10


#: Pairs (|b|, |a − b|) of some elements.
_Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """Distance of two tensors. `relative` errors are |a − b| / |b|, b being the reference.

    `tolerance` is the least t with |a − b| ≤ t + t·|b| everywhere. `problem`: why there are no numbers: different
    shapes or kinds. Non-finite elements are equal if both are the same, else infinitely far apart. `frontier` holds
    |b| and |a − b| of the few elements (a convex hull) that decide whether the tensors are close, for any tolerances.
    """

    max_abs: float = 0.0
    max_rel: float = 0.0
    mean_abs: float = 0.0
    cosine: float = 1.0
    snr: float = inf  # decibel
    tolerance: float = 0.0
    worst: tuple[int, ...] = ()  # index of the largest absolute difference
    worst_pair: tuple[Any, Any] = (None, None)
    unequal: int = 0
    size: int = 0
    problem: str = ""
    frontier: _Points = ()
    scale: float = 0.0  # root mean square of the finite elements of the reference

    def within(self, rtol: float, atol: float) -> bool:
        """Return whether |a − b| ≤ atol + rtol·|b| everywhere."""
        return not self.problem and all(far <= atol + rtol * size for size, far in self.frontier)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Tensors are close if |a − b| ≤ atol + rtol·|b| for all elements, or if the SNR is at least `snr` (dB)."""

    rtol: float = 1e-3
    atol: float = 1e-5
    snr: float = inf


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """A compared value, in run order. `other` is the name of its counterpart."""

    key: ValueKey
    name: str
    other: str
    difference: ValueDifference
    tolerance: Tolerance = Tolerance()

    @property
    def is_close(self) -> bool:
        """Whether the value is within the tolerance."""
        difference, tolerance = self.difference, self.tolerance
        is_similar = not difference.problem and tolerance.snr <= difference.snr < inf
        return is_similar or difference.within(tolerance.rtol, tolerance.atol)


def compare_values(ours: RuntimeValue, reference: RuntimeValue) -> ValueDifference:
    """Compare two values; of sequences and maps, return the largest difference of their elements."""
    if isinstance(ours, list) and isinstance(reference, list):
        if len(ours) != len(reference):
            return ValueDifference(problem=f"{len(ours)} elements, {len(reference)} in the reference")
        return _worst(compare_values(a, b) for a, b in zip(ours, reference, strict=True))
    if isinstance(ours, dict) and isinstance(reference, dict):
        if ours.keys() != reference.keys():
            return ValueDifference(problem="the keys of the maps differ")
        return _worst(compare_values(np.asarray(ours[k]), np.asarray(reference[k])) for k in ours)
    if ours is None and reference is None:
        return ValueDifference()
    if not isinstance(ours, np.ndarray) or not isinstance(reference, np.ndarray):
        return ValueDifference(problem=f"{describe(ours)}, the reference is {describe(reference)}")
    if ours.shape != reference.shape:
        return ValueDifference(problem=f"shape {list(ours.shape)}, the reference has {list(reference.shape)}")
    return _compare_arrays(ours, reference)


def elements_outside(ours: Array, reference: Array, rtol: float, atol: float) -> tuple[int, tuple[int, ...]]:
    """Return how many elements of two numeric arrays of one shape are outside a tolerance, and the farthest of them."""
    with np.errstate(all="ignore"):
        size = np.abs(_numbers(reference))
        excess = _distances(ours, reference) - (atol + rtol * np.where(np.isfinite(size), size, 0))
    worst = np.unravel_index(int(excess.argmax()), ours.shape)
    return int(np.count_nonzero(excess > 0)), tuple(int(i) for i in worst)


def _worst(differences: Iterable[ValueDifference]) -> ValueDifference:
    compared = list(differences)
    worst = max(compared, key=lambda d: (bool(d.problem), d.max_abs), default=ValueDifference())
    return replace(worst, frontier=_hull(point for d in compared for point in d.frontier))


def _compare_arrays(ours: Array, reference: Array) -> ValueDifference:
    if (ours.dtype.kind in "OUS") != (reference.dtype.kind in "OUS"):
        return ValueDifference(problem=f"{describe(ours)}, the reference is {describe(reference)}")
    if ours.dtype.kind in "OUS":
        return _compare_texts(ours, reference)
    if not ours.size:
        return ValueDifference()
    sums = _Sums()
    a, b = ours.reshape(-1), reference.reshape(-1)
    with np.errstate(all="ignore"):
        for start in range(0, a.size, _BLOCK):
            sums.add(start, a[start : start + _BLOCK], b[start : start + _BLOCK])
    return sums.difference(ours, reference)


def _compare_texts(ours: Array, reference: Array) -> ValueDifference:
    unequal = np.flatnonzero(np.array([x != y for x, y in zip(ours.flat, reference.flat, strict=True)], bool))
    if not unequal.size:
        return ValueDifference(size=ours.size)
    at = tuple(int(i) for i in np.unravel_index(int(unequal[0]), ours.shape))
    pair, count = (ours[at], reference[at]), int(unequal.size)
    return ValueDifference(inf, inf, nan, nan, -inf, inf, at, pair, count, ours.size, frontier=((0.0, inf),))


def _numbers(block: Array) -> Array:
    if block.dtype.kind == "c":
        return block.astype(np.complex128)
    return block.astype(np.float64)


def _distances(ours: Array, reference: Array) -> Array:
    """Return elementwise distances; infinite where exactly one is NaN."""
    if ours.dtype == reference.dtype and ours.dtype.kind in "iu":  # exact: large ones are rounded as float64
        high, low = np.maximum(ours, reference), np.minimum(ours, reference)
        return (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)
    a, b = _numbers(ours), _numbers(reference)
    far: Array = np.abs(a - b)
    far[np.isnan(far)] = inf
    far[(a == b) | (np.isnan(a) & np.isnan(b))] = 0
    return far


def _frontier(known: _Points, size: Array, far: Array) -> _Points:
    """Return known frontier points merged with the elements of `size` and `far` that lie above them."""
    if not known:
        sample = slice(None, None, max(1, size.size // _SAMPLE))
        known = _points(size[sample], far[sample])
    above = far > (known[-1][1] if known else 0)
    if known:
        above |= size < known[0][0]
    for (size_a, far_a), (size_b, far_b) in pairwise(known):  # nearly all elements are below these few lines
        slope = (far_b - far_a) / (size_b - size_a)
        above |= far > far_a + slope * (size - size_a)
    left = np.flatnonzero(above & (far > 0))
    return _hull([*known, *_points(size[left], far[left])]) if left.size else known


def _points(size: Array, far: Array) -> _Points:
    size = np.where(np.isfinite(size), size, 0)  # no relative tolerance for an infinite reference
    left = _records(size, far)
    return _hull([p for p in zip(size[left].tolist(), far[left].tolist(), strict=True) if p[1]])


def _records(size: Array, far: Array) -> Array:
    """Return positions, by ascending size, of elements with a new maximum distance."""
    order = np.lexsort((-far, size))
    sorted_far = far[order]
    highest = np.maximum.accumulate(sorted_far)
    return order[np.flatnonzero(np.concatenate([[True], sorted_far[1:] > highest[:-1]]))]


def _hull(points: Iterable[tuple[float, float]]) -> _Points:
    """Return the upper convex hull: the points that can maximize far − r · size for some r ≥ 0."""
    found: list[tuple[float, float]] = []
    for size, far in sorted(points):
        if found and far <= found[-1][1]:
            continue
        if found and found[-1][0] == size:
            found.pop()
        while len(found) > 1 and _is_below(found[-2], found[-1], (size, far)):
            found.pop()
        found.append((size, far))
        if far == inf:
            break
    return tuple(found)


def _is_below(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Return whether b is not above the line from a to c."""
    return c[1] != inf and (b[1] - a[1]) * (c[0] - a[0]) < (c[1] - a[1]) * (b[0] - a[0])


class _Sums:
    """Running sums for a ValueDifference, block by block."""

    def __init__(self) -> None:
        self.max_abs = self.max_rel = self.tolerance = -1.0
        self.at = 0
        self.total = self.aa = self.bb = self.ab = self.dd = 0.0  # of numbers times `scale`, or their products
        self.scale = 1.0
        self.unequal = 0
        self.lost = 0
        self.size = 0
        self.frontier: _Points = ()

    def add(self, start: int, ours: Array, reference: Array) -> None:
        """Add a block, whose first element has this flat index."""
        far = _distances(ours, reference)
        a, b = _numbers(ours), _numbers(reference)
        same, size = far == 0, np.abs(b)
        self.frontier = _frontier(self.frontier, size, far)
        relative = np.where(same, 0, far / size)
        needed = np.where(np.isfinite(far), far / (1 + np.where(np.isfinite(size), size, 0)), inf)
        worst = int(far.argmax())
        if far[worst] > self.max_abs:
            self.max_abs, self.at = float(far[worst]), start + worst
        self.max_rel = max(self.max_rel, float(np.where(np.isnan(relative), inf, relative).max()))
        self.tolerance = max(self.tolerance, float(needed.max()))
        self.unequal += int(a.size - np.count_nonzero(same))
        self.size += a.size
        usable = np.isfinite(a) & np.isfinite(b)
        self.lost += int(a.size - np.count_nonzero(usable | same))
        x, y = a[usable], b[usable]
        if self.scale == 1.0 and max(np.abs(x).max(initial=0), np.abs(y).max(initial=0)) > HUGE:
            self.scale = SCALE
            self.total *= SCALE
            self.aa, self.bb, self.ab, self.dd = (part * SCALE**2 for part in (self.aa, self.bb, self.ab, self.dd))
        x, y = x * self.scale, y * self.scale
        apart = np.abs(x - y)
        self.total += float(apart.sum())
        self.aa += float(np.vdot(x, x).real)
        self.bb += float(np.vdot(y, y).real)
        self.ab += float(np.vdot(x, y).real)
        self.dd += float((apart**2).sum())

    def difference(self, ours: Array, reference: Array) -> ValueDifference:
        """Return the result for all blocks."""
        at = tuple(int(i) for i in np.unravel_index(self.at, ours.shape))
        norms = sqrt(self.aa) * sqrt(self.bb)
        cosine = 1.0 if not self.unequal else self.ab / norms if norms else 0.0
        snr = inf if not self.dd else 10 * log10(self.bb / self.dd) if self.bb else -inf
        if self.lost:  # some elements are infinitely far apart: sums over the others would mislead
            cosine, snr, self.total = nan, -inf, inf
        return ValueDifference(
            self.max_abs,
            self.max_rel,
            self.total / self.size / self.scale,
            cosine,
            snr,
            self.tolerance,
            at,
            (ours[at].item(), reference[at].item()),
            self.unequal,
            self.size,
            frontier=self.frontier,
            scale=sqrt(self.bb / self.size) / self.scale,
        )
