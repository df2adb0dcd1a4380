"""Lines over positions, with the values under the pointer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QWidget

from onnx_workbench.viewer.plots.focus import paint_focus
from onnx_workbench.viewer.style.formatting import digits_apart, number_text
from onnx_workbench.viewer.style.theme import monospace, theme, themes

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Tellable apart by colour-blind people, on light and on dark ground.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#7f7f7f", "#8a5fbf")

_SWATCH = 12.0  # pixels of a line in the legend
_GAP = 12.0

Line = tuple[str, "NDArray[np.float64]", "NDArray[np.float64]"]
Index = Callable[[int, int], tuple[int, ...]]


class LinePlot(QWidget):
    """Each line is the range from its least to its greatest value at each position.

    Left and right walk over them, up and down from line to line. A click, or Enter, chooses an element.
    """

    element_chosen = Signal(object)  # index

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Line plot of the tensor")
        self.setMinimumSize(160, 100)
        self._positions = range(0)
        self._lines: tuple[Line, ...] = ()
        self._note = ""
        self._low, self._high = 0.0, 1.0
        self._at: int | None = None
        self._line = 0  # the one that Enter means
        self._index: Index | None = None
        themes().themeChanged.connect(self.update)

    def show_lines(self, positions: range, lines: tuple[Line, ...], note: str = "", index: Index | None = None) -> None:
        """Draw these; `index` has the element at a position of a line, where there are elements to be chosen."""
        self._positions, self._lines, self._note, self._index = positions, lines, note, index
        self._at, self._line = None, 0
        ends = [part[np.isfinite(part)] for line in lines for part in line[1:]]
        whole = np.concatenate(ends) if ends else np.zeros(0)
        self._low, self._high = (float(whole.min()), float(whole.max())) if whole.size else (0.0, 1.0)
        if not self._half > 0:
            around = max(0.5, abs(self._low) * 1e-6)  # what is added to a large number may be lost in it
            self._low, self._high = self._low - around, self._high + around
        self.update()

    @property
    def point_text(self) -> str:
        """The values under the pointer."""
        if self._at is None or not self._lines:
            return ""
        parts = []
        for name, low, high in self._lines:
            a, b = float(low[self._at]), float(high[self._at])
            if a == b or a != a:
                value = number_text(a, self._digits(5))
            else:
                value = f"{number_text(a, self._digits(4))} … {number_text(b, self._digits(4))}"
            parts.append(f"{name}: {value}" if name else value)
        return f"[{self._positions[self._at]}]  " + "   ".join(parts)

    def _font(self) -> QFont:
        return monospace(max(self.font().pointSizeF() - 1, 8))

    @property
    def _half(self) -> float:
        """Of the range, which may be wider than any number."""
        return self._high / 2 - self._low / 2

    def _parts(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """How high values lie between the bottom, 0, and the top, 1."""
        return (values / 2 - self._low / 2) / self._half

    def _digits(self, least: int) -> int:
        return digits_apart(self._low, self._high, least)

    def _marks(self) -> tuple[float, float, float]:
        """The numbers along the left: bottom, middle, top."""
        middle = self._low / 2 + self._high / 2
        return self._low, 0.0 if abs(middle) < 2e-6 * self._half else middle, self._high

    def _plot(self) -> QRectF:
        metrics = QFontMetricsF(self._font())
        left = max(metrics.horizontalAdvance(number_text(v, self._digits(3))) for v in self._marks()) + 10
        top = 8 + max((room.bottom() for room, _, _ in self._legend()), default=0.0)
        return QRectF(left, top, self.width() - left - 10, self.height() - 2 * metrics.height() - 10 - top)

    def _legend(self) -> list[tuple[QRectF, str, QColor]]:
        """Which line is which, if they have names: the rooms at the top, in as many rows as they need."""
        metrics = QFontMetricsF(self._font())
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

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Point at a position."""
        plot = self._plot()
        if self._positions and plot.width() > 0:
            part = (event.position().x() - plot.left()) / plot.width()
            self._point(round(part * (len(self._positions) - 1)))

    def leaveEvent(self, _event: QEvent) -> None:
        """Nothing is pointed at."""
        self._at = None
        self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Choose the element of the line that passes nearest."""
        self.mouseMoveEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and self._at is not None:
            plot = self._plot()
            part = (plot.bottom() - event.position().y()) / plot.height()
            value = self._low * (1 - part) + self._high * part
            self._line = min(range(len(self._lines)), key=lambda line: self._distance(line, value))
            self._choose()

    def _distance(self, line: int, value: float) -> float:
        """How far a line is from a value at the position that is pointed at; infinite where it has none."""
        _, low, high = self._lines[line]
        found = max(float(low[self._at]) - value, value - float(high[self._at]), 0.0)
        return found if np.isfinite(low[self._at]) and np.isfinite(high[self._at]) else np.inf

    def _choose(self) -> None:
        if self._index is not None and self._at is not None and self._lines:
            self.element_chosen.emit(self._index(self._line, self._positions[self._at]))
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Walk over the positions and lines, choose."""
        key, last = event.key(), len(self._lines) - 1
        if key in (Qt.Key.Key_Left, Qt.Key.Key_Right) and self._positions:
            step = 1 if key == Qt.Key.Key_Right else -1
            self._point(0 if self._at is None else self._at + step)
        elif key in (Qt.Key.Key_Up, Qt.Key.Key_Down) and last > 0:
            self._line = min(max(self._line + (1 if key == Qt.Key.Key_Down else -1), 0), last)
            self.update()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._choose()
        else:
            super().keyPressEvent(event)

    def _point(self, at: int) -> None:
        self._at = min(max(at, 0), len(self._positions) - 1)
        self.setAccessibleDescription(self.point_text)
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Axes, lines, values."""
        painter = QPainter(self)
        colors = theme()
        painter.fillRect(self.rect(), colors.panel)
        painter.setFont(self._font())
        plot = self._plot()
        metrics = QFontMetricsF(self._font())
        for part, number in zip((0.0, 0.5, 1.0), self._marks(), strict=True):
            y = plot.bottom() - part * plot.height()
            painter.setPen(colors.border)
            painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
            painter.setPen(colors.muted)
            room = QRectF(0, y - metrics.height() / 2, plot.left() - 4, metrics.height())
            text = number_text(number, self._digits(3))
            painter.drawText(room, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)
        if not self._positions:
            return
        for room, name, color in self._legend():
            painter.fillRect(QRectF(room.left(), room.center().y() - 1, _SWATCH, 2), color)
            painter.drawText(room, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, name)
        below = QRectF(plot.left(), plot.bottom() + 3, plot.width(), metrics.height())
        painter.drawText(below, Qt.AlignmentFlag.AlignLeft, str(self._positions[0]))
        painter.drawText(below, Qt.AlignmentFlag.AlignRight, str(self._positions[-1]))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for number, line in enumerate(self._lines):
            self._paint_line(painter, plot, line, QColor(_COLORS[number % len(_COLORS)]))
        if self._at is not None:
            x = plot.left() + plot.width() * self._at / max(len(self._positions) - 1, 1)
            painter.setPen(QPen(colors.accent, 1, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()))
            self._paint_chosen(painter, plot, x)
        painter.setPen(colors.text if self._at is not None else colors.muted)
        room = QRectF(plot.left(), self.height() - metrics.height() - 4, plot.width(), metrics.height())
        text = self.point_text or self._note
        painter.drawText(
            room, Qt.AlignmentFlag.AlignLeft, metrics.elidedText(text, Qt.TextElideMode.ElideRight, room.width())
        )
        paint_focus(painter, self)

    def _paint_chosen(self, painter: QPainter, plot: QRectF, x: float) -> None:
        """A ring where Enter or the last click means the line, if there are several."""
        part = float(self._parts(self._lines[self._line][2])[self._at]) if len(self._lines) > 1 else np.nan
        if np.isfinite(part):
            painter.setPen(QPen(QColor(_COLORS[self._line % len(_COLORS)]), 2))
            y = plot.bottom() - part * plot.height()
            painter.drawEllipse(QPointF(x, y), 4, 4)

    def _paint_line(self, painter: QPainter, plot: QRectF, line: Line, color: QColor) -> None:
        _, low, high = line
        columns = max(int(plot.width()), 1)
        # A pen of one pixel is drawn many times faster than a wider one, which Qt has to outline first.
        painter.setPen(QPen(color, 1.0))
        if low is high and len(low) <= columns:
            good = np.flatnonzero(np.isfinite(high))
            ys = plot.bottom() - self._parts(high) * plot.height()
            across = plot.width() / max(len(low) - 1, 1)
            for run in np.split(good, np.flatnonzero(np.diff(good) > 1) + 1):
                points = [QPointF(plot.left() + i * across, ys[i]) for i in run]
                painter.drawPolyline(QPolygonF(points))
                if len(points) == 1:
                    painter.drawEllipse(points[0], 2.5, 2.5)
            return
        low, high = _per_column(low, high, columns)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        good = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
        xs = plot.left() + good * (plot.width() / max(len(low) - 1, 1))
        tops = plot.bottom() - self._parts(high[good]) * plot.height()
        bottoms = plot.bottom() - self._parts(low[good]) * plot.height()
        painter.drawLines([QLineF(x, top, x, bottom) for x, top, bottom in zip(xs, tops, bottoms, strict=True)])
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)


def _per_column(
    low: NDArray[np.float64], high: NDArray[np.float64], columns: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The least and the greatest value in each column of pixels; each reaches its neighbour, so that no gap is seen."""
    step = -(-len(low) // columns)
    starts = np.arange(0, len(low), step)
    low, high = np.fmin.reduceat(low, starts), np.fmax.reduceat(high, starts)
    joined_low, joined_high = low.copy(), high.copy()
    joined_low[1:] = np.fmin(low[1:], high[:-1])
    joined_high[1:] = np.fmax(high[1:], low[:-1])
    is_known = np.isfinite(low) & np.isfinite(high)
    return np.where(is_known, joined_low, np.nan), np.where(is_known, joined_high, np.nan)
