"""Ranges of values for quantization: streaming histograms, ways to choose a range, and quantized numbers of weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.types import ElementType

Array = NDArray[Any]

_BINS = 4096
_LARGEST_FLOAT8 = 448.0  # of float8e4m3fn
_SHRINKS = tuple(np.linspace(1.0, 0.2, 81))  # parts of the whole range that mse tries
_WEIGHT_SHRINKS = (1.0, 0.96, 0.92, 0.88, 0.84, 0.8)
_LEAST_PART = 1e-6  # of a distribution, where logarithms are taken
_LEAST_SCALE = float(np.finfo(np.float32).tiny)

#: Element types of quantized numbers by the names that options have.
TYPES: Final = {
    "int8": ElementType.INT8,
    "uint8": ElementType.UINT8,
    "int16": ElementType.INT16,
    "uint16": ElementType.UINT16,
    "float8e4m3": ElementType.FLOAT8E4M3FN,
    "int4": ElementType.INT4,
    "int2": ElementType.INT2,
}


class Histogram:
    """Distribution of the values of a tensor over many runs, in bins of equal width around zero.

    Its memory does not grow: where values leave the range, it doubles, and pairs of bins become one.
    """

    def __init__(self) -> None:
        self.low, self.high, self.reach = math.inf, -math.inf, 0.0
        self.counts: NDArray[np.int64] = np.zeros(_BINS, np.int64)

    def add(self, array: Array) -> None:
        """Count the elements of an array, which must be finite."""
        if not array.size:
            return
        self.low, self.high = min(self.low, float(array.min())), max(self.high, float(array.max()))
        peak = max(abs(self.low), abs(self.high))
        if not self.reach:
            self.reach = peak
        while self.reach and peak > self.reach:
            merged = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.concatenate([np.zeros(_BINS // 4, np.int64), merged, np.zeros(_BINS // 4, np.int64)])
            self.reach *= 2
        reach = self.reach or 1.0
        self.counts += np.histogram(array, _BINS, (-reach, reach))[0]

    def coarse(self, bins: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Return the counts in about this many bins from the least to the greatest value, and the edges of the bins."""
        used = np.flatnonzero(self.counts)
        if not used.size:
            return (), ()
        first, last = int(used[0]), int(used[-1]) + 1
        width = max(1, -(-(last - first) // bins))
        starts = np.arange(first, last, width)
        counts = np.add.reduceat(self.counts[first:last], starts - first)
        reach = self.reach or 1.0
        edges = np.append(starts, starts[-1] + width) * (2 * reach / _BINS) - reach
        return tuple(counts.tolist()), tuple(edges.tolist())

    @property
    def centers(self) -> Array:
        """The middle of each bin."""
        reach = self.reach or 1.0
        return (np.arange(_BINS) + 0.5) * (2 * reach / _BINS) - reach


@dataclass(frozen=True, slots=True)
class Scale:
    """How a tensor is quantized: value = (number − zero) × scale."""

    scale: float
    zero: int
    kind: ElementType

    @property
    def ends(self) -> tuple[float, float]:
        """The least and greatest value that it can represent."""
        if self.kind is ElementType.FLOAT8E4M3FN:
            return -_LARGEST_FLOAT8 * self.scale, _LARGEST_FLOAT8 * self.scale
        least, most = limits(self.kind)
        return (least - self.zero) * self.scale, (most - self.zero) * self.scale


def limits(kind: ElementType, *, symmetric: bool = False) -> tuple[int, int]:
    """Return the least and largest number of an integer type; symmetric around zero or its middle if asked for."""
    bits = kind.bits
    low = -(1 << bits - 1) if kind.text.startswith("int") else 0
    return low + symmetric, low + (1 << bits) - 1


def scale_of(low: float, high: float, kind: ElementType, *, symmetric: bool) -> Scale:
    """Return the scale of a range, which is widened to contain zero."""
    low, high = min(low, 0.0), max(high, 0.0)
    peak = max(-low, high)
    if kind is ElementType.FLOAT8E4M3FN:
        return Scale(max(peak / _LARGEST_FLOAT8, _LEAST_SCALE) if peak else 1.0, 0, kind)
    least, most = limits(kind, symmetric=symmetric)
    if not peak:
        return Scale(1.0, (least + most + 1) // 2 if symmetric else 0, kind)
    if symmetric:
        return Scale(max(2 * peak / (most - least), _LEAST_SCALE), (least + most) // 2, kind)
    scale = max((high - low) / (most - least), _LEAST_SCALE)
    return Scale(scale, int(np.clip(round(least - low / scale), least, most)), kind)


def _simulated(points: Array, scale: Scale) -> Array:
    """Quantize and dequantize."""
    if scale.kind is ElementType.FLOAT8E4M3FN:
        clipped = np.clip(points / scale.scale, -_LARGEST_FLOAT8, _LARGEST_FLOAT8)
        rounded: Array = clipped.astype(scale.kind.numpy_dtype).astype(np.float64)
        return rounded * scale.scale
    least, most = limits(scale.kind)
    numbers: Array = np.clip(np.rint(points / scale.scale) + scale.zero, least, most)
    return (numbers - scale.zero) * scale.scale


# -- ways to choose a range: from a histogram, the candidates being narrower and narrower


def _minmax(histogram: Histogram, _kind: ElementType, _symmetric: bool, _percentile: float) -> tuple[float, float]:
    return histogram.low, histogram.high


def _percentile(histogram: Histogram, _kind: ElementType, _symmetric: bool, percentile: float) -> tuple[float, float]:
    """Leave out equal parts of the elements at both ends."""
    part = np.cumsum(histogram.counts) / max(1, histogram.counts.sum())
    outside = (1 - percentile / 100) / 2
    half = histogram.reach / _BINS
    low = histogram.centers[min(int(np.searchsorted(part, outside, side="right")), _BINS - 1)] - half
    high = histogram.centers[min(int(np.searchsorted(part, 1 - outside)), _BINS - 1)] + half
    return max(histogram.low, float(low)), min(histogram.high, float(high))


def _best(histogram: Histogram, symmetric: bool, error: Callable[[tuple[float, float]], float]) -> tuple[float, float]:
    """Return the best of narrower and narrower ranges: around zero, or with ends that narrow together and alone."""
    low, high = histogram.low, histogram.high
    if symmetric:
        peak = max(-low, high)
        return min(((-peak * part, peak * part) for part in _SHRINKS), key=error)
    both = min(((low * part, high * part) for part in _SHRINKS), key=error)
    right = min(((low, high * part) for part in _SHRINKS), key=error)
    left = min(((low * part, right[1]) for part in _SHRINKS), key=error)
    return min(both, left, key=error)


def _mse(histogram: Histogram, kind: ElementType, symmetric: bool, _percentile: float) -> tuple[float, float]:
    return _best(histogram, symmetric, _square_error(histogram, kind, symmetric))


def _square_error(histogram: Histogram, kind: ElementType, symmetric: bool) -> Callable[[tuple[float, float]], float]:
    used = histogram.counts > 0
    points, weights = histogram.centers[used], histogram.counts[used]

    def error(ends: tuple[float, float]) -> float:
        return float((weights * (points - _simulated(points, scale_of(*ends, kind, symmetric=symmetric))) ** 2).sum())

    return error


def _entropy(histogram: Histogram, kind: ElementType, symmetric: bool, _percentile: float) -> tuple[float, float]:
    """Return the range with the least relative entropy (Kullback-Leibler divergence) of the values and their rounded
    ones, of those whose square error is not above that of the whole range: what is clipped may be what matters. Zeros,
    which every range has a number for, do not count: behind Relu they are the most.
    """
    error = _square_error(histogram, kind, symmetric)
    most = error((histogram.low, histogram.high))
    points, counts = histogram.centers, histogram.counts.astype(np.float64)
    zero = _BINS // 2  # the bin that begins with zero
    counts[zero] = min(counts[zero], counts[zero - 1 : zero + 2].sum() - counts[zero])

    def divergence(ends: tuple[float, float]) -> float:
        low, high = min(ends[0], 0.0), max(ends[1], 0.0)
        inside = (points >= low) & (points <= high)
        if not counts[inside].any() or error(ends) > most:
            return math.inf
        scale = scale_of(low, high, kind, symmetric=symmetric)
        exact = counts[inside]
        _, groups = np.unique(_simulated(points[inside], scale), return_inverse=True)
        used = exact > 0
        merged = used * (np.bincount(groups, exact) / np.maximum(1, np.bincount(groups, used)))[groups]
        exact[0] += counts[points < low].sum()
        exact[-1] += counts[points > high].sum()
        p, q = _smoothed(exact), _smoothed(merged)
        return float((p * np.log(p / q)).sum())

    return _best(histogram, symmetric, divergence)


def _smoothed(counts: Array) -> Array:
    """Return a distribution without zeros, which have no logarithm."""
    part: Array = np.maximum(counts / counts.sum(), _LEAST_PART)
    part /= part.sum()
    return part


#: Ways to choose a range, by the names that options have.
CALIBRATIONS: Final[dict[str, Callable[[Histogram, ElementType, bool, float], tuple[float, float]]]] = {
    "minmax": _minmax,
    "percentile": _percentile,
    "entropy": _entropy,
    "mse": _mse,
}

_FINE = 8  # bits up to which narrower ranges are tried: a bin of the histogram is finer than a step of the numbers


def chosen_range(
    histogram: Histogram, way: str, kind: ElementType, *, symmetric: bool, percentile: float = 99.999
) -> tuple[float, float]:
    """Return the range for a distribution. mse and entropy take the whole one for types of more than 8 bits."""
    if not histogram.counts.any():
        return 0.0, 0.0
    way = "minmax" if way in ("mse", "entropy") and kind.bits > _FINE else way
    return CALIBRATIONS[way](histogram, kind, symmetric, percentile)


# -- weights


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """Numbers of a weight, with float32 scales and zero points: one, one per channel, or one per block of an axis."""

    numbers: Array
    scales: NDArray[np.float32]
    zeros: Array


def quantize_weight(
    array: Array,
    kind: ElementType,
    *,
    axis: int | None = None,
    block: int = 0,
    symmetric: bool = True,
    summed: bool = True,
) -> QuantizedWeight:
    """Quantize with the scales of least square error: per tensor, per index of `axis`, or per `block` elements along
    `axis`. Zero points are 0 if `symmetric`. Of what is `summed` by a layer, the errors of one scale cancel out.
    ModelError if an element is not finite.
    """
    if not np.isfinite(array).all():
        raise ModelError("Weights cannot be quantized", "they contain infinities or NaN")
    array = array.astype(np.float32, copy=False)
    fitting = balanced if summed else rounded
    if axis is None:
        rows = array.reshape(1, -1)
        scales, zeros = row_scales(rows, kind, symmetric=symmetric)
        numbers = rounded(rows, scales[:, None], zeros[:, None], kind).reshape(array.shape)
        return QuantizedWeight(numbers, scales.reshape(()), zeros.reshape(()))
    moved = np.moveaxis(array, axis, -1 if block else 0)
    size = moved.shape[-1]
    count = -(-size // block) if block else 1
    padded = np.pad(moved, [*[(0, 0)] * (moved.ndim - 1), (0, count * block - size)]) if block else moved
    rows = padded.reshape(-1, block) if block else padded.reshape(len(padded), -1)
    scales, zeros = row_scales(rows, kind, symmetric=symmetric)
    numbers = fitting(rows, scales[:, None], zeros[:, None], kind).reshape(padded.shape)[..., :size]
    if not block:
        return QuantizedWeight(np.ascontiguousarray(np.moveaxis(numbers, 0, axis)), scales, zeros)
    parts = (numbers, *(part.reshape(*moved.shape[:-1], count) for part in (scales, zeros)))
    return QuantizedWeight(*(np.ascontiguousarray(np.moveaxis(part, -1, axis)) for part in parts))


def rounded(array: Array, scales: Array, zeros: Array, kind: ElementType) -> Array:
    """Return the numbers of an array under scales and zero points of its shape."""
    if kind is ElementType.FLOAT8E4M3FN:
        return np.asarray((array / scales).astype(kind.numpy_dtype))
    least, most = limits(kind, symmetric=kind.bits >= _FINE)
    return np.asarray(np.clip(np.rint(array / scales) + zeros.astype(np.float32), least, most).astype(kind.numpy_dtype))


def balanced(rows: Array, scales: Array, zeros: Array, kind: ElementType) -> Array:
    """Return the numbers of rows whose errors add up to less than a step: as many as needed, those nearest to the
    middle between two numbers, are rounded to the other one (as SQuant does; Guo et al. 2022).

    A product with inputs that are not around zero, such as those after Relu, multiplies the sum by their mean.
    """
    numbers = rounded(rows, scales, zeros, kind)
    if kind is ElementType.FLOAT8E4M3FN:
        return numbers
    least, most = limits(kind, symmetric=kind.bits >= _FINE)
    steps = numbers.astype(np.float32)
    errors = steps - zeros.astype(np.float32) - rows / scales
    excess = np.rint(errors.sum(axis=1, keepdims=True))
    side = np.sign(excess)
    moved = steps - side
    gains = np.where((moved >= least) & (moved <= most), errors * side, 0)
    order = np.argsort(-gains, axis=1, kind="stable")
    is_first = np.arange(rows.shape[1]) < np.abs(excess)
    taken = np.zeros(rows.shape, bool)
    np.put_along_axis(taken, order, is_first, axis=1)
    return np.where(taken & (gains > 0), moved, steps).astype(numbers.dtype)


def row_scales(rows: Array, kind: ElementType, *, symmetric: bool) -> tuple[NDArray[np.float32], Array]:
    """Return a scale and a zero point for each row."""
    peak = np.abs(rows).max(axis=1, initial=0)
    best, zeros = np.ones(len(rows), np.float32), np.zeros(len(rows), np.float32)
    if kind is ElementType.FLOAT8E4M3FN:
        scales = np.where(peak > 0, np.maximum(peak / _LARGEST_FLOAT8, _LEAST_SCALE), 1).astype(np.float32)
        return scales, zeros.astype(kind.numpy_dtype)
    least, most = limits(kind, symmetric=kind.bits >= _FINE)
    ends = [(peak / most, zeros)]
    if least < -most:  # the larger end of a row at the least number, which has no counterpart
        extreme = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], 1)[:, 0]
        ends.append((extreme / least, zeros))
    if not symmetric:
        low, high = rows.min(axis=1, initial=0), rows.max(axis=1, initial=0)
        step = np.where(high > low, (high - low) / (most - least), 1)
        ends.append((step, np.clip(np.rint(least - low / step), least, most)))
    error = np.full(len(rows), np.inf)
    for scale, zero in ((end * shrink, zero) for end, zero in ends for shrink in _WEIGHT_SHRINKS):
        tried = np.where(np.abs(scale) > _LEAST_SCALE, scale, 1).astype(np.float32)
        numbers = np.clip(np.rint(rows / tried[:, None]) + zero[:, None], least, most)
        square_error = (((numbers - zero[:, None]) * tried[:, None] - rows) ** 2).sum(axis=1)
        is_better = square_error < error
        best, zeros = np.where(is_better, tried, best), np.where(is_better, zero, zeros)
        error = np.minimum(error, square_error)
    return best, zeros.astype(kind.numpy_dtype)
