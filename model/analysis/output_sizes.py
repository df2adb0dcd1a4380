"""Output sizes of operators, one function each: kernels call them with numbers, type inference with symbols too.

A function returns None where there is no such size, or none is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor, isfinite
from typing import TypeVar, overload

import numpy as np

from onnx_workbench.model.analysis import symbolic
from onnx_workbench.model.analysis.symbolic import AnySize

_S = TypeVar("_S", int, AnySize)

# -- windows -------------------------------------------------------------------------------------------------------


@overload
def window_count(
    size: int, extent: int, stride: int, before: int, after: int, *, rounds_up: bool, may_overhang: bool = False
) -> int | None: ...
@overload
def window_count(
    size: AnySize, extent: int, stride: int, before: int, after: int, *, rounds_up: bool, may_overhang: bool = False
) -> AnySize | None: ...
def window_count(
    size: AnySize, extent: int, stride: int, before: int, after: int, *, rounds_up: bool, may_overhang: bool = False
) -> AnySize | None:
    """Return the number of window positions along an axis; None where the window does not fit.

    With `rounds_up` (ceil_mode) a partial last one counts too, unless it starts behind the input. With `may_overhang`
    (pools) a window may reach out by less than a stride: the count is rounded towards zero, as in ONNX Runtime.
    """
    room = size + (before + after - extent)
    if not isinstance(room, int):
        if rounds_up:
            return symbolic.rounded_up(size + (before + min(after - extent + stride, 0)), stride)
        steps = symbolic.dimension(room, stride)
        return None if steps is None else steps + 1
    if stride < 1:
        return None
    if may_overhang and -stride <= room < 0:
        rounds_up = True  # which is towards zero
    elif room < 0 and not (rounds_up and room + stride > 0):
        return None
    count = (-(-room // stride) if rounds_up else room // stride) + 1
    is_behind = (count - 1) * stride >= room + extent - after
    return count - 1 if rounds_up and is_behind else count


def same_count(size: AnySize, stride: int) -> AnySize | None:
    """Return the number of window positions where padding is SAME_UPPER or SAME_LOWER."""
    return symbolic.rounded_up(size, stride)


def transposed_size(size: _S, extent: int, stride: int, before: int, after: int, further: int) -> _S:
    """Return what a transposed convolution makes of an axis, with `further` as output_padding."""
    return (size - 1) * stride + (extent + further - before - after)


def same_transposed_size(size: _S, stride: int) -> _S:
    """Return what a transposed convolution makes of an axis where padding is SAME_UPPER or SAME_LOWER."""
    return size * stride


def frame_count(length: AnySize, frame: AnySize, step: AnySize) -> AnySize | None:
    """Return the number of frames of a signal, as in STFT; None where none fits."""
    room = length - frame
    if not isinstance(step, int) or step < 1 or symbolic.is_less(room, 0) is True:
        return None
    steps = symbolic.dimension(room, step)
    return None if steps is None else steps + 1


# -- resizing ------------------------------------------------------------------------------------------------------


@overload
def scaled_size(length: int, scale: float, start: float = 0.0, end: float = 1.0) -> int | None: ...
@overload
def scaled_size(length: AnySize, scale: float, start: float = 0.0, end: float = 1.0) -> AnySize | None: ...
def scaled_size(length: AnySize, scale: float, start: float = 0.0, end: float = 1.0) -> AnySize | None:
    """Return what Resize makes of an axis by a scale, cropped to a part in tf_crop_and_resize.

    In float32, as other engines compute it: 0.6f × 5 is 3.
    """
    if isinstance(length, int):
        found = np.float32(length) * np.float32(end - start) * np.float32(scale)
        return floor(found) if 0 <= found < 1 << 62 else None
    part = float(np.float32(end - start))
    return symbolic.scaled(length, scale) if part == 1.0 else None


def common_ratio(lengths: Sequence[int], wanted: Sequence[float], policy: str) -> float:
    """Return the scale of all axes that keeps the aspect ratio; lengths are not 0."""
    choose = min if policy == "not_larger" else max
    return choose(size / length for size, length in zip(wanted, lengths, strict=True))


def kept_ratio_size(length: int, ratio: float) -> int:
    """Return what Resize makes of an axis by the common ratio."""
    return floor(ratio * length + 0.5)


# -- numbers -------------------------------------------------------------------------------------------------------


def range_count(start: float, limit: float, delta: float, *, is_double: bool = False) -> int:
    """Return the length of a Range, ceil((limit - start) / delta); `delta` is not 0.

    The difference of real numbers is rounded to 32 bits, unless `is_double`, and the quotient is taken in double: one
    in float32 would lose an element wherever it rounds down to an integer.
    """
    if isinstance(start, int) and isinstance(limit, int) and isinstance(delta, int):
        return max(0, -((start - limit) // delta))
    kind = np.float64 if is_double else np.float32
    difference = float(kind(limit) - kind(start))
    if not isfinite(difference):
        return max(0, ceil((Fraction(limit) - Fraction(start)) / Fraction(delta)))
    quotient = difference / delta
    return max(0, ceil(quotient if isfinite(quotient) else Fraction(difference) / Fraction(delta)))


@overload
def split_evenly(size: int, count: int, *, even: bool) -> tuple[int, ...] | None: ...
@overload
def split_evenly(size: AnySize, count: int, *, even: bool) -> tuple[AnySize, ...] | None: ...
def split_evenly(size: AnySize, count: int, *, even: bool) -> tuple[AnySize, ...] | None:
    """Return the sizes of `count` parts of a dimension: equal ones, or unless `even` as long as there is enough."""
    part = (symbolic.dimension if even else symbolic.rounded_up)(size, count)
    if part is None:
        return None
    if even:
        return (part,) * count
    left = (symbolic.extreme(size - part * number, 0, largest=True) for number in range(count))
    return tuple(symbolic.extreme(part, rest, largest=False) for rest in left)
