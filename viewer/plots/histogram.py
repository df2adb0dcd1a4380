"""A histogram, linear or logarithmic, with descriptions of its bars."""

from __future__ import annotations

from math import log10
from typing import Any

import numpy as np
from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QWidget

from onnx_workbench.model.text.formatting import digits_apart, number_text
from onnx_workbench.viewer.plots.plot import Plot, load_pyqtgraph, unit_of
from onnx_workbench.viewer.style.theme import theme

_BASE = log10(0.5)  # where bars begin on a logarithmic axis, so that a count of 1 has a height
_SHADE = 40  # opacity of a marked range, of 255
_ROOM = 0.03  # margin beside and above the bars, as a share of the range


class Histogram(Plot):
    """Counts over a range. Ctrl+wheel zooms, dragging pans along the values."""

    wheel_needs_control = True

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Histogram")
        self.setMinimumHeight(120)
        self.logarithmic = False
        self._counts: tuple[int, ...] = ()
        self._edges: tuple[float, ...] = ()
        self._bars: Any = None
        self._pointed: Any = None  # the bar that is pointed at
        self._zero: Any = None
        self._range: tuple[float, float] | None = None
        self._region: Any = None

    def sizeHint(self) -> QSize:
        return QSize(220, 160)

    def show_counts(self, counts: tuple[int, ...], edges: tuple[float, ...]) -> None:
        """Show these; `edges` has one entry more."""
        self._counts, self._edges, self.at = counts, edges, None
        if counts:
            self._draw()
        self.move_cursor(None)

    def show_range(self, ends: tuple[float, float] | None) -> None:
        """Mark a range of values behind the bars; None: none. From the next counts on."""
        self._range = ends

    def set_logarithmic(self, on: bool) -> None:
        """Set whether the height of bars is the logarithm of their count."""
        self.logarithmic = on
        if self._counts:
            self._draw()

    def _draw(self) -> None:
        low, high = self._edges[0], self._edges[-1]
        unit = unit_of(low, high)
        self.units = unit, 1.0
        area = self.area
        if self._bars is None:
            self._make_items()
        area.getAxis("left").setLogMode(self.logarithmic)
        self.name_axes("", "count (log)" if self.logarithmic else "count")
        counts = np.array(self._counts)
        top = max(self._height(int(counts.max(initial=0))), 1.0 if not self.logarithmic else 0.0)
        base = _BASE if self.logarithmic else 0.0
        self._set_bars(self._bars, np.flatnonzero(counts))
        self._set_bars(self._pointed, np.arange(0))
        self._zero.setVisible(low < 0 < high)
        self._region.setVisible(self._range is not None)
        if self._range is not None:
            self._region.setRegion([end / unit for end in self._range])
            low, high = min(low, self._range[0]), max(high, self._range[1])
        room = _ROOM * (high / unit - low / unit)
        self.limit((low / unit - room, high / unit + room), (base, top + _ROOM * (top - base)))
        self.update()

    def _make_items(self) -> None:
        pg = load_pyqtgraph()
        self._bars, self._pointed = (pg.BarGraphItem(x0=[], x1=[], y0=0, height=[]) for _ in range(2))
        self._zero = pg.InfiniteLine(0.0)
        self._region = pg.LinearRegionItem(movable=False)
        for item in (self._region, self._bars, self._pointed, self._zero):
            self.area.addItem(item, ignoreBounds=True)
        self.area.getViewBox().setMouseEnabled(x=True, y=False)
        self.restyle()

    def restyle(self) -> None:
        if self._bars is not None:
            colors = theme()
            for item, color in ((self._bars, colors.edge), (self._pointed, colors.accent)):
                pen = QPen(color, 1)  # a bar of any count is at least a pixel high
                pen.setCosmetic(True)
                item.setOpts(brush=color, pen=pen)
            pen = QPen(colors.muted, 1, Qt.PenStyle.DotLine)
            pen.setCosmetic(True)
            self._zero.setPen(pen)
            shade = QColor(colors.accent)
            shade.setAlpha(_SHADE)
            self._region.setBrush(shade)
            for line in self._region.lines:
                line.setPen(QPen(colors.accent, 0))

    def _set_bars(self, item: Any, which: np.ndarray[Any, np.dtype[np.intp]]) -> None:
        edges = np.array(self._edges) / self.units[0]
        base = _BASE if self.logarithmic else 0.0
        heights = [self._height(self._counts[i]) - base for i in which]
        item.setOpts(x0=edges[which], x1=edges[which + 1], y0=base, height=heights)

    def _height(self, count: int) -> float:
        return (log10(count) if count else _BASE) if self.logarithmic else float(count)

    def numbers(self) -> str:
        rows = zip(self._edges[:-1], self._edges[1:], self._counts, strict=True)
        return "\n".join(["from\tto\tcount", *(f"{low!r}\t{high!r}\t{count}" for low, high, count in rows)])

    def left_texts(self, values: list[float], _spacing: float) -> list[str]:
        if self.logarithmic:
            return [number_text(round(10**v)) if v >= 0 and v == round(v) else "" for v in values]  # powers of ten
        return [number_text(round(v)) if v == round(v) else "" for v in values]

    @property
    def bar_text(self) -> str:
        """Describe the bar under the pointer."""
        if self.at is None:
            return ""
        low, high = self._edges[self.at], self._edges[self.at + 1]
        digits = max(digits_apart(low, high, 3), 4)
        return f"{number_text(low, digits)} to {number_text(high, digits)}: {number_text(self._counts[self.at])}"

    @property
    def range_texts(self) -> tuple[str, str]:
        """The two ends."""
        low, high = self._edges[0], self._edges[-1]
        digits = digits_apart(low, high, 4)
        return number_text(low, digits), number_text(high, digits)

    def text_below(self) -> tuple[str, bool]:
        return self.bar_text, True

    def point_count(self) -> int:
        return len(self._counts)

    def point_near(self, x: float) -> int:
        return int(np.searchsorted(np.array(self._edges) / self.units[0], x, side="right")) - 1

    def show_marker(self) -> None:
        is_bar = self.at is not None and self._counts[self.at] > 0
        self._set_bars(self._pointed, np.array([self.at] if is_bar else [], np.intp))
        self.setToolTip(self.bar_text)
        self.setAccessibleDescription(self.bar_text)
        self.update()

    def paint_below(self, painter: QPainter, room: QRectF) -> None:
        if self.at is not None or not self._counts:
            super().paint_below(painter, room)
            return
        low, high = self.range_texts
        painter.setPen(theme().muted)
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, low)
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, high)
