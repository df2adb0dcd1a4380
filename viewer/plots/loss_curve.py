"""The loss of a model over its size, for numbers of layers kept in float."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtGui import QPen
from PySide6.QtWidgets import QWidget

from onnx_workbench.model.text.formatting import bytes_text, plural
from onnx_workbench.viewer.plots.plot import Plot, load_pyqtgraph
from onnx_workbench.viewer.style.theme import theme

_ROOM = 0.08  # margin around the points, as a share of the range
_SIZE = 8  # px of a point

#: Layers kept in float, bytes of constants, and signal to noise in decibels.
Tried = tuple[int, int, float]


class LossCurve(Plot):
    """Signal to noise over bytes. A click, or Enter, chooses a point."""

    chosen = Signal(float)  # decibels

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Size and loss")
        self.setMinimumSize(160, 120)
        self._points: list[Tried] = []
        self._line: Any = None

    def show_points(self, curve: Sequence[Tried]) -> bool:
        """Show these, and return whether there are two at least; those without noise have no place on the axis."""
        self._points = sorted((tried for tried in curve if isfinite(tried[2])), key=lambda tried: tried[1:])
        self.at = None
        if len(self._points) < 2:
            return False
        if self._line is None:
            self._line = load_pyqtgraph().PlotDataItem(symbol="o", symbolSize=_SIZE)
            self.area.addItem(self._line, ignoreBounds=True)
            self.restyle()
        sizes, ratios = [size for _, size, _ in self._points], [snr for *_, snr in self._points]
        self._line.setData(sizes, ratios)
        self.limit(_widened(sizes), _widened(ratios))
        self.move_cursor(None)
        return True

    def restyle(self) -> None:
        self.name_axes("size of constants", "outputs (dB)")
        if self._line is not None:
            pen = QPen(theme().accent, 1)
            pen.setCosmetic(True)
            self._line.setPen(pen)
            self._line.setSymbolPen(pen)
            self._line.setSymbolBrush(theme().accent)

    def numbers(self) -> str:
        return "\n".join(["in float\tbytes\tdB", *(f"{count}\t{size}\t{snr!r}" for count, size, snr in self._points)])

    def bottom_texts(self, values: list[float], _spacing: float) -> list[str]:
        return [bytes_text(round(value)) for value in values]

    def text_below(self) -> tuple[str, bool]:
        if self.at is None:
            return "", False
        count, size, snr = self._points[self.at]
        return f"{plural(count, 'layer')} in float: {bytes_text(size)}, {snr:.1f} dB", True

    def point_count(self) -> int:
        return len(self._points)

    def point_near(self, x: float) -> int:
        return min(range(len(self._points)), key=lambda at: abs(self._points[at][1] - x), default=0)

    def show_marker(self) -> None:
        self.move_cursor(None if self.at is None else self._points[self.at][1])

    def choose(self) -> None:
        if self.at is not None:
            self.chosen.emit(self._points[self.at][2])


def _widened(numbers: Sequence[float]) -> tuple[float, float]:
    low, high = min(numbers), max(numbers)
    room = _ROOM * (high - low) or 1.0
    return low - room, high + room
