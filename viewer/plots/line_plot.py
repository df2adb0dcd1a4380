"""Lines over positions, with the values under the pointer."""

from __future__ import annotations

from collections.abc import Callable
from math import log10
from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFontMetricsF,
    QKeyEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import QGraphicsPathItem, QWidget

from onnx_workbench.model.text.formatting import digits_apart, number_text
from onnx_workbench.viewer.plots.plot import Plot, load_pyqtgraph, unit_of
from onnx_workbench.viewer.style.theme import theme

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Tellable apart by colour-blind people, on light and on dark ground.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#7f7f7f", "#8a5fbf")

_SWATCH = 12.0  # pixels of a line in the legend
_GAP = 12.0
_ROOM = 0.05  # of the range, above and below the lines
_ASIDE = 0.02  # margin at the sides, as a share of the range, for the numbers at its ends
_FILL = 110  # opacity of the area between least and greatest values, of 255

Line = tuple[str, "NDArray[np.float64]", "NDArray[np.float64]"]
Index = Callable[[int, int], tuple[int, ...]]


class LinePlot(Plot):
    """Each line is the range from its least to its greatest value at each position.

    Up and down walk from line to line. A click, or Enter, chooses an element.
    """

    element_chosen = Signal(object)  # index

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Line plot of the tensor")
        self.setMinimumSize(160, 100)
        self._positions = range(0)
        self._lines: tuple[Line, ...] = ()
        self._note = ""
        self._low, self._high = 0.0, 1.0
        self._line = 0  # the one that Enter means
        self._index: Index | None = None
        self._items: list[Any] = []
        self._ring: Any = None
        self.logarithmic = False  # as requested; in effect only with positive values

    def set_logarithmic(self, on: bool) -> None:
        """Set whether the y axis is logarithmic; values that are not positive are left out."""
        self.logarithmic = on
        if self._lines:
            self._draw()

    @property
    def _is_log(self) -> bool:
        return self.logarithmic and self._high > 0 and bool(self._lines)

    def _heights(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            if self._is_log:
                return np.where(values > 0, np.log10(values), np.nan)
            return values / self.units[1]

    def _ends(self) -> tuple[float, float]:
        """Return the y coordinates of the least and the greatest value."""
        if not self._is_log:
            return self._low / self.units[1], self._high / self.units[1]
        low = min(float(part[part > 0].min(initial=self._high)) for line in self._lines for part in line[1:])
        return (log10(low), log10(self._high)) if low < self._high else (log10(low) - 1, log10(low) + 1)

    def show_lines(self, positions: range, lines: tuple[Line, ...], note: str = "", index: Index | None = None) -> None:
        """Draw lines; `index` returns the element at a position of a line, if elements can be chosen."""
        self._positions, self._lines, self._note, self._index = positions, lines, note, index
        self.at, self._line = None, 0
        ends = [part[np.isfinite(part)] for line in lines for part in line[1:]]
        whole = np.concatenate(ends) if ends else np.zeros(0)
        self._low, self._high = (float(whole.min()), float(whole.max())) if whole.size else (0.0, 1.0)
        if not self._high / 2 - self._low / 2 > 0:
            around = max(0.5, abs(self._low) * 1e-6)  # a small number added to a large one may have no effect
            self._low, self._high = self._low - around, self._high + around
        self._draw()

    # -- drawing ---------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        pg = load_pyqtgraph()
        for item in self._items:
            self.area.removeItem(item)
        self.units = 1.0, 1.0 if self._is_log else unit_of(self._low, self._high)
        self.view.setAntialiasing(True)
        self._items = []
        self._ring = pg.ScatterPlotItem(size=9, brush=None, antialias=True)
        self._add(self._ring)
        xs = np.array(self._positions, np.float64)
        for number, (_, low, high) in enumerate(self._lines):
            upper = self._heights(high)
            lower = upper if low is high else self._heights(low)
            self._draw_line(xs, lower, upper, QColor(_COLORS[number % len(_COLORS)]))
        self._name_axes()
        bottom, top = self._ends()
        room = _ROOM * (top - bottom)
        first, last = (self._positions[0], self._positions[-1]) if self._positions else (0, 1)
        aside = _ASIDE * (last - first) or 0.5
        self.limit((first - aside, last + aside), (bottom - room, top + room))
        self._make_room()
        self.show_marker()

    def _draw_line(
        self, xs: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64], color: QColor
    ) -> None:
        pg = load_pyqtgraph()
        good = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
        runs = [run for run in np.split(good, np.flatnonzero(np.diff(good) > 1) + 1) if len(run)]
        pen = QPen(color, 1)  # a pen of one pixel is drawn many times faster than a wider one
        pen.setCosmetic(True)
        alone = [run[0] for run in runs if len(run) == 1]
        self._add(pg.ScatterPlotItem(xs[alone], high[alone], size=5, pen=pen, brush=color))
        path = QPainterPath()
        for run in runs:
            if low is high:
                path.addPolygon(_polygon(xs[run], high[run]))
            else:
                across = np.concatenate([xs[run], xs[run][::-1], xs[run[:1]]])
                path.addPolygon(_polygon(across, np.concatenate([high[run], low[run][::-1], high[run[:1]]])))
        item = QGraphicsPathItem(path)
        item.setPen(pen)
        if low is not high:
            fill = QColor(color)
            fill.setAlpha(_FILL)
            item.setBrush(QBrush(fill))
        self._add(item)

    def _add(self, item: Any) -> None:
        self.area.addItem(item, ignoreBounds=True)
        self._items.append(item)

    def restyle(self) -> None:
        if self._lines:
            self._name_axes()

    def _name_axes(self) -> None:
        self.name_axes("index", "value (log)" if self._is_log else "value")

    def left_texts(self, values: list[float], spacing: float) -> list[str]:
        return [number_text(10.0**v, 3) for v in values] if self._is_log else super().left_texts(values, spacing)

    # -- texts -----------------------------------------------------------------------------------------------

    @property
    def point_text(self) -> str:
        """The values under the pointer."""
        if self.at is None or not self._lines:
            return ""
        parts = []
        for name, low, high in self._lines:
            a, b = float(low[self.at]), float(high[self.at])
            if a == b or a != a:
                value = number_text(a, self._digits(5))
            else:
                value = f"{number_text(a, self._digits(4))} … {number_text(b, self._digits(4))}"
            parts.append(f"{name}: {value}" if name else value)
        return f"[{self._positions[self.at]}]  " + "   ".join(parts)

    def numbers(self) -> str:
        names, columns = ["index"], [[str(position) for position in self._positions]]
        for number, (name, low, high) in enumerate(self._lines):
            title = name or f"line {number}"
            names += [title] if low is high else [f"{title} min", f"{title} max"]
            columns += [list(map(repr, part.tolist())) for part in ((high,) if low is high else (low, high))]
        return "\n".join(map("\t".join, (names, *zip(*columns, strict=True))))

    def text_below(self) -> tuple[str, bool]:
        return self.point_text or self._note, self.at is not None

    def _digits(self, least: int) -> int:
        return digits_apart(self._low, self._high, least)

    def bottom_texts(self, values: list[float], _spacing: float) -> list[str]:
        return [number_text(round(v)) if v == round(v) else "" for v in values]

    def legend(self) -> list[tuple[QRectF, str, QColor]]:
        """Return the legend of named lines: rectangles at the top, in as many rows as they need."""
        metrics = QFontMetricsF(self.small_font())
        entries = []
        x, y = 8.0, 4.0
        for number, (name, _, _) in enumerate(self._lines):
            width = _SWATCH + 4 + metrics.horizontalAdvance(name)
            if x > 8.0 and x + width > self.width() - 8:
                x, y = 8.0, y + metrics.height()
            if name:
                entries.append((QRectF(x, y, width, metrics.height()), name, QColor(_COLORS[number % len(_COLORS)])))
                x += width + _GAP
        return entries

    def _make_room(self) -> None:
        """Room for the legend above the plot."""
        margins = self.column.contentsMargins()
        margins.setTop(round(4 + max((room.bottom() for room, _, _ in self.legend()), default=0.0)))
        self.column.setContentsMargins(margins)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._make_room()
        super().resizeEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setFont(self.small_font())
        painter.setPen(theme().muted)
        for room, name, color in self.legend():
            painter.fillRect(QRectF(room.left(), room.center().y() - 1, _SWATCH, 2), color)
            painter.drawText(room, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, name)

    # -- mouse and keys --------------------------------------------------------------------------------------

    def point_count(self) -> int:
        return len(self._positions)

    def point_near(self, x: float) -> int:
        return round((x - self._positions[0]) / self._positions.step) if self._positions else 0

    def choose_at(self, x: float, y: float) -> None:
        """Choose the element of the line that passes nearest."""
        self.mark(self.point_near(x))
        if self.at is not None and self._lines:
            value = 10.0 ** min(y, 300.0) if self._is_log else y * self.units[1]
            self._line = min(range(len(self._lines)), key=lambda line: self._distance(line, value))
            self.choose()

    def _distance(self, line: int, value: float) -> float:
        """Return the distance of a line from a value at the pointer's position; infinite where it has none."""
        _, low, high = self._lines[line]
        distance = max(float(low[self.at]) - value, value - float(high[self.at]), 0.0)
        return distance if np.isfinite(low[self.at]) and np.isfinite(high[self.at]) else np.inf

    def choose(self) -> None:
        if self._index is not None and self.at is not None and self._lines:
            self.element_chosen.emit(self._index(self._line, self._positions[self.at]))
        self.show_marker()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, last = event.key(), len(self._lines) - 1
        if key in (Qt.Key.Key_Up, Qt.Key.Key_Down) and last > 0:
            self._line = min(max(self._line + (1 if key == Qt.Key.Key_Down else -1), 0), last)
            self.show_marker()
        else:
            super().keyPressEvent(event)

    def show_marker(self) -> None:
        """Move the cursor, and the ring where Enter or the last click means the line, if there are several."""
        at = self.at
        self.move_cursor(None if at is None else float(self._positions[at]))
        value = float(self._lines[self._line][2][at]) if at is not None and len(self._lines) > 1 else np.nan
        if self._ring is not None:
            pen = QPen(QColor(_COLORS[self._line % len(_COLORS)]), 2)
            height = float(self._heights(np.array(value)))
            ring = [(self._positions[at], height)] if at is not None and np.isfinite(height) else []
            self._ring.setData(pos=ring, pen=pen)


def _polygon(xs: NDArray[np.float64], ys: NDArray[np.float64]) -> QPolygonF:
    return QPolygonF([QPointF(x, y) for x, y in zip(xs.tolist(), ys.tolist(), strict=True)])
