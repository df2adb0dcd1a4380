"""Lines over positions, with the values under the pointer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QWidget

from viewer.text import number_text
from viewer.theme import monospace, theme, themes

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Tellable apart by colour-blind people, on light and on dark ground.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#7f7f7f", "#8a5fbf")

Line = tuple[str, "NDArray[np.float64]", "NDArray[np.float64]"]


class LinePlot(QWidget):
    """Each line is the range from its least to its greatest value at each position. Left and right walk over them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Line plot of the tensor")
        self.setMinimumSize(160, 100)
        self._positions = range(0)
        self._lines: tuple[Line, ...] = ()
        self._note = ""
        self._low = self._high = 0.0
        self._at: int | None = None
        themes().themeChanged.connect(self.update)

    def show_lines(self, positions: range, lines: tuple[Line, ...], note: str = "") -> None:
        """Draw these."""
        self._positions, self._lines, self._note, self._at = positions, lines, note, None
        ends = [part[np.isfinite(part)] for line in lines for part in line[1:]]
        whole = np.concatenate(ends) if ends else np.zeros(0)
        self._low, self._high = (float(whole.min()), float(whole.max())) if whole.size else (0.0, 1.0)
        if self._high <= self._low:
            self._low, self._high = self._low - 0.5, self._high + 0.5
        self.update()

    @property
    def point_text(self) -> str:
        """The values under the pointer."""
        if self._at is None or not self._lines:
            return ""
        parts = []
        for name, low, high in self._lines:
            a, b = float(low[self._at]), float(high[self._at])
            value = number_text(a, 5) if a == b or a != a else f"{number_text(a, 4)} … {number_text(b, 4)}"
            parts.append(f"{name}: {value}" if name else value)
        return f"[{self._positions[self._at]}]  " + "   ".join(parts)

    def _font(self) -> QFont:
        return monospace(max(self.font().pointSizeF() - 1, 8))

    def _plot(self) -> QRectF:
        metrics = QFontMetricsF(self._font())
        left = max(metrics.horizontalAdvance(number_text(v, 3)) for v in (self._low, self._high)) + 10
        return QRectF(left, 8, self.width() - left - 10, self.height() - 2 * metrics.height() - 18)

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

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Walk over the positions."""
        if event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right) and self._positions:
            step = 1 if event.key() == Qt.Key.Key_Right else -1
            self._point(0 if self._at is None else self._at + step)
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
        for part in (0.0, 0.5, 1.0):
            y = plot.bottom() - part * plot.height()
            painter.setPen(colors.border)
            painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
            painter.setPen(colors.muted)
            room = QRectF(0, y - metrics.height() / 2, plot.left() - 4, metrics.height())
            number = self._low + part * (self._high - self._low)
            painter.drawText(room, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, number_text(number, 3))
        if not self._positions:
            return
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
        painter.setPen(colors.text if self._at is not None else colors.muted)
        room = QRectF(plot.left(), self.height() - metrics.height() - 4, plot.width(), metrics.height())
        text = self.point_text or self._note
        painter.drawText(
            room, Qt.AlignmentFlag.AlignLeft, metrics.elidedText(text, Qt.TextElideMode.ElideRight, room.width())
        )

    def _paint_line(self, painter: QPainter, plot: QRectF, line: Line, color: QColor) -> None:
        _, low, high = line
        across = plot.width() / max(len(low) - 1, 1)
        down = plot.height() / (self._high - self._low)

        def points(values: NDArray[np.float64]) -> list[QPointF]:
            good = np.flatnonzero(np.isfinite(values))
            return [QPointF(plot.left() + i * across, plot.bottom() - (values[i] - self._low) * down) for i in good]

        if low is not high:
            band = QColor(color)
            band.setAlpha(90)
            painter.setPen(QPen(band, 1))
            painter.setBrush(band)
            painter.drawPolygon(QPolygonF(points(low) + points(high)[::-1]))
            painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(color, 1.3))
        upper = points(high)
        painter.drawPolyline(QPolygonF(upper))
        if len(upper) == 1:
            painter.drawEllipse(upper[0], 2.5, 2.5)
