"""Colour legend in the lower left corner of a canvas; collapsed to its title if it would take much room."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPolygonF
from PySide6.QtWidgets import QAbstractButton

from onnx_workbench.viewer.canvas.paint.overlay import LEGEND_MARGIN, legend_size, paint_legend_at, paint_legend_frame
from onnx_workbench.viewer.canvas.scene.coloring import Legend
from onnx_workbench.viewer.canvas.scene.drawing import Style
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.style.tooltips import plain_tip

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.paint.surface import Surface

_SHARE = 10  # a legend that takes more than 1 / _SHARE of the canvas is collapsed until the user opens it
_TRIANGLE = 8.0
_PADDING = 8.0


class LegendCard(QAbstractButton):
    """Legend that expands and collapses on a click, and keeps the user's choice."""

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self._surface = surface
        self._legend: Legend | None = None
        self._chosen: bool | None = None  # collapsed, as chosen by the user
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self.clicked.connect(self._toggle_fold)
        self.hide()

    def show_legend(self, legend: Legend | None) -> None:
        """Set the legend; None hides it."""
        self._legend = legend
        if legend is not None:
            self.setAccessibleName(f"Legend: {legend.title}")
            self.place()
        self.setVisible(legend is not None)
        self.update()

    @property
    def is_folded(self) -> bool:
        """Whether only the title is shown."""
        if self._chosen is not None or self._legend is None:
            return bool(self._chosen)
        wide, high = legend_size(self._legend, self._surface.fonts)
        return wide * high * _SHARE > self._surface.width() * self._surface.height()

    def place(self) -> None:
        """Move into the corner."""
        self.setToolTip(plain_tip("Show what the colours mean" if self.is_folded else "Show the title only"))
        size, margin = self.sizeHint(), round(LEGEND_MARGIN)
        width = min(size.width(), self._surface.width() - 2 * margin)
        self.setGeometry(margin, self._surface.height() - margin - size.height(), width, size.height())

    def sizeHint(self) -> QSize:
        if self._legend is None:
            return QSize()
        fonts = self._surface.fonts
        titled = fonts.width(self._legend.title, Style.NAME) + _TRIANGLE + 3 * _PADDING
        if self.is_folded:
            return QSize(ceil(titled) + 1, ceil(fonts.height(Style.NAME) + _PADDING))
        wide, high = legend_size(self._legend, fonts)
        return QSize(ceil(max(wide, titled)) + 1, ceil(high) + 1)

    def _toggle_fold(self) -> None:
        self._chosen = not self.is_folded
        self.place()
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the card, or its title alone, with a triangle for its state."""
        if self._legend is None:
            return
        painter, colors, fonts = QPainter(self), theme(), self._surface.fonts
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        border = colors.accent if self.hasFocus() else colors.border
        paint_legend_frame(painter, QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), colors.panel, border)
        if not self.is_folded:
            paint_legend_at(painter, 0.0, 0.0, self._legend, fonts, colors)
        else:
            painter.setFont(fonts.font(Style.NAME))
            painter.setPen(colors.text)
            room = self.width() - _TRIANGLE - 3 * _PADDING
            text = fonts.elided(self._legend.title, Style.NAME, room)
            painter.drawText(QPointF(_PADDING, _PADDING / 2 + fonts.ascent(Style.NAME)), text)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.muted)
        painter.drawPolygon(self._triangle(_PADDING / 2 + fonts.height(Style.NAME) / 2))
        painter.end()

    def _triangle(self, middle: float) -> QPolygonF:
        """Return a triangle that points up if a click expands, down if it collapses."""
        left, half = self.width() - _PADDING - _TRIANGLE, _TRIANGLE / 4 * (-1 if self.is_folded else 1)
        return QPolygonF(
            [
                QPointF(left, middle - half),
                QPointF(left + _TRIANGLE, middle - half),
                QPointF(left + _TRIANGLE / 2, middle + half),
            ]
        )
