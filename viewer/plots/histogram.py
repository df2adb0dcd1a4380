"""A histogram, linear or logarithmic, whose bars say what they are."""

from __future__ import annotations

from math import log1p

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from onnx_workbench.viewer.plots.focus import paint_focus
from onnx_workbench.viewer.style.formatting import digits_apart, number_text
from onnx_workbench.viewer.style.theme import monospace, theme, themes


class Histogram(QWidget):
    """Counts over a range. Left and right walk over the bars."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Histogram")
        self.setMinimumHeight(64)
        self.logarithmic = False
        self._counts: tuple[int, ...] = ()
        self._edges: tuple[float, ...] = ()
        self._bar: int | None = None
        themes().themeChanged.connect(self.update)

    def sizeHint(self) -> QSize:
        """Wide and low."""
        return QSize(220, 96)

    def show_counts(self, counts: tuple[int, ...], edges: tuple[float, ...]) -> None:
        """Show these; `edges` has one entry more."""
        self._counts, self._edges, self._bar = counts, edges, None
        self.update()

    def set_logarithmic(self, on: bool) -> None:
        """Let the height of bars be the logarithm of their count."""
        self.logarithmic = on
        self.update()

    @property
    def bar_text(self) -> str:
        """What the bar under the pointer is."""
        if self._bar is None:
            return ""
        low, high = self._edges[self._bar], self._edges[self._bar + 1]
        digits = max(digits_apart(low, high, 3), 4)
        return f"{number_text(low, digits)} to {number_text(high, digits)}: {number_text(self._counts[self._bar])}"

    @property
    def shown_bar_text(self) -> str:
        """The part of that for which there is room."""
        return QFontMetricsF(self._font()).elidedText(self.bar_text, Qt.TextElideMode.ElideRight, self._plot().width())

    @property
    def range_texts(self) -> tuple[str, str]:
        """The two ends."""
        low, high = self._edges[0], self._edges[-1]
        digits = digits_apart(low, high, 4)
        return number_text(low, digits), number_text(high, digits)

    def _plot(self) -> QRectF:
        below = QFontMetricsF(self._font()).height()
        return QRectF(2, 2, self.width() - 4, self.height() - below - 5)

    def _font(self) -> QFont:
        return monospace(max(self.font().pointSizeF() - 1, 8))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Point at a bar."""
        plot = self._plot()
        if self._counts and plot.width() > 0:
            part = (event.position().x() - plot.left()) / plot.width()
            self._point(int(part * len(self._counts)))

    def leaveEvent(self, _event: QEvent) -> None:
        """Nothing is pointed at."""
        self._bar = None
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Walk over the bars."""
        if event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right) and self._counts:
            step = 1 if event.key() == Qt.Key.Key_Right else -1
            self._point(0 if self._bar is None else self._bar + step)
        else:
            super().keyPressEvent(event)

    def _point(self, bar: int) -> None:
        self._bar = min(max(bar, 0), len(self._counts) - 1)
        self.setToolTip(self.bar_text)
        self.setAccessibleDescription(self.bar_text)
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Bars, and the two ends of the range."""
        painter = QPainter(self)
        colors = theme()
        plot = self._plot()
        painter.setPen(colors.border)
        painter.drawLine(plot.bottomLeft(), plot.bottomRight())
        if not self._counts:
            return
        heights = [log1p(c) if self.logarithmic else float(c) for c in self._counts]
        most = max(heights) or 1.0
        width = plot.width() / len(heights)
        for number, height in enumerate(heights):
            if height:
                tall = max(height / most * plot.height(), 1.0)
                rect = QRectF(plot.left() + number * width, plot.bottom() - tall, max(width - 0.4, 0.6), tall)
                painter.fillRect(rect, colors.accent if number == self._bar else colors.edge)
        painter.setFont(self._font())
        painter.setPen(colors.text if self._bar is not None else colors.muted)
        below = QRectF(plot.left(), plot.bottom() + 2, plot.width(), self.height() - plot.bottom() - 2)
        center = Qt.AlignmentFlag.AlignVCenter
        if self._bar is not None:
            painter.drawText(below, center | Qt.AlignmentFlag.AlignHCenter, self.shown_bar_text)
        else:
            low, high = self.range_texts
            painter.drawText(below, center | Qt.AlignmentFlag.AlignLeft, low)
            painter.drawText(below, center | Qt.AlignmentFlag.AlignRight, high)
        paint_focus(painter, self)
