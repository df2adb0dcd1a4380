"""Which plot the keyboard is in."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import QWidget

from viewer.theme import theme


def paint_focus(painter: QPainter, widget: QWidget) -> None:
    """A line around a widget that has the focus."""
    if widget.hasFocus():
        painter.setPen(QPen(theme().accent, 1.0))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(widget.rect().adjusted(0, 0, -1, -1))
