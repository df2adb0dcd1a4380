"""Colour maps from numbers to colours: viridis for amounts, a diverging map for differences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from PySide6.QtGui import QColor

if TYPE_CHECKING:
    from numpy.typing import NDArray

Name = Literal["viridis", "difference", "grey"]

_ANCHORS: dict[str, tuple[str, ...]] = {
    "viridis": ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"),
    "difference": ("#0b3d91", "#3f76c0", "#8fb4dd", "#eef1f5", "#f0b48a", "#d9722f", "#8c3a00"),
    "grey": ("#000000", "#ffffff"),
}

#: What is no finite number.
NOT_FINITE = (214, 39, 140)


@dataclass(frozen=True, slots=True)
class ColorScale:
    """Numbers at the two ends of a colour map."""

    low: float
    high: float
    name: Name = "viridis"

    def colors(self, values: NDArray[Any]) -> NDArray[np.uint8]:
        """[..., 4] bytes in the order of Qt's 32-bit pictures (blue, green, red, alpha)."""
        numbers = np.asarray(values, np.float64)
        part = 1.0 if isfinite(self.high - self.low) else 0.5  # the range may be wider than any number
        span = self.high * part - self.low * part
        with np.errstate(all="ignore"):
            scaled = numbers * part
            scaled -= self.low * part
            scaled *= 255 / span if span > 0 else 0
            steps = np.clip(scaled, 0, 255, out=scaled).astype(np.uint8)
        whole = table(self.name).view(np.uint32)[:, 0]  # a colour at once: many times as fast as byte by byte
        result = whole[steps][..., np.newaxis].view(np.uint8)
        finite = np.isfinite(numbers)
        if not finite.all():
            result[~finite] = (NOT_FINITE[2], NOT_FINITE[1], NOT_FINITE[0], 255)
        return result


def kinds_shown(pixels: NDArray[np.uint8]) -> tuple[bool, bool]:
    """Return whether a picture of a scale's colours has cells of finite numbers, and of others; transparent ones are
    none.
    """
    code = np.array([*NOT_FINITE[::-1], 255], np.uint8).view(np.uint32)
    cells = np.ascontiguousarray(pixels).view(np.uint32)
    others = cells == code
    return bool((~others & (cells != 0)).any()), bool(others.any())


@cache
def table(name: Name) -> NDArray[np.uint8]:
    """The 256 colours of a map as [256, 4]: blue, green, red, alpha."""
    anchors = [QColor(text) for text in _ANCHORS[name]]
    places = np.linspace(0, 255, len(anchors))
    channels = [[c.blue() for c in anchors], [c.green() for c in anchors], [c.red() for c in anchors]]
    steps = np.arange(256)
    rounded = [np.interp(steps, places, channel).round() for channel in channels]
    return np.stack([*rounded, np.full(256, 255.0)], axis=1).astype(np.uint8)


def scale_of(values: NDArray[Any], name: Name = "viridis") -> ColorScale:
    """The scale that just holds all finite values; one for differences has zero in its middle."""
    numbers = np.asarray(values, np.float64)
    low, high = _ends(numbers)
    if not (isfinite(low) and isfinite(high)):
        low, high = _ends(numbers[np.isfinite(numbers)])
    if name == "difference":
        most = max(abs(low), abs(high)) or 1.0
        return ColorScale(-most, most, name)
    return ColorScale(low, high, name)


def _ends(numbers: NDArray[np.float64]) -> tuple[float, float]:
    return (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 1.0)
