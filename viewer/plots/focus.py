"""Keyboard focus of plots; and pictures of plots without the focus frame."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QImage, QPainter, QPen
from PySide6.QtWidgets import QWidget

from onnx_workbench.viewer.style.theme import theme

#: Pixels of a picture for one of the widget: numbers can be read where the picture is enlarged or printed.
FINENESS = 2

_in_pictures: set[QWidget] = set()  # plots that are being drawn into a picture


def paint_focus(painter: QPainter, widget: QWidget) -> None:
    """A line around a widget that has the focus."""
    if widget.hasFocus() and widget not in _in_pictures:
        painter.setPen(QPen(theme().accent, 1.0))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(widget.rect().adjusted(0, 0, -1, -1))


def as_seen(widget: QWidget) -> QImage:
    """A plot as it is on the screen, with its numbers, legend and ground."""
    image = QImage(widget.size() * FINENESS, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(FINENESS)
    image.fill(theme().panel)
    _in_pictures.add(widget)
    try:
        widget.render(image)
    finally:
        _in_pictures.remove(widget)
    return image
