"""Icons by name, drawn in the theme's colours from resources/icons."""

from __future__ import annotations

from functools import cache

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPen, QPixmap
from PySide6.QtSvg import QSvgRenderer

from onnx_workbench import resources
from onnx_workbench.viewer.style.theme import theme

_SIZES = (16, 24, 32, 48)


def icon(name: str, color: QColor | None = None) -> QIcon:
    """The icon in a colour, the theme's text colour by default; the text's own in a selected row.

    Cached until the theme changes; GUI thread only.
    """
    colors = theme()
    chosen = color or colors.text
    return _icon(name, chosen.name(), colors.stale.name(), colors.accent_text.name())


@cache
def _icon(name: str, color: str, disabled: str, selected: str) -> QIcon:
    result = QIcon()
    tints = {QIcon.Mode.Normal: color, QIcon.Mode.Disabled: disabled, QIcon.Mode.Selected: selected}
    for mode, tint in tints.items():
        for shape in _shapes(name):
            result.addPixmap(_tinted(shape, tint), mode)
    return result


@cache
def _shapes(name: str) -> list[QPixmap]:
    """Return the icon's mask in each size, rendered once for all modes and themes."""
    renderer = QSvgRenderer(str(resources.path(f"icons/{name}.svg")))
    shapes = []
    for size in _SIZES:
        pixmap = QPixmap(size, size)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        renderer.render(painter, QRectF(0, 0, size, size))
        painter.end()
        shapes.append(pixmap)
    return shapes


def _tinted(shape: QPixmap, color: str) -> QPixmap:
    pixmap = QPixmap(shape)
    painter = QPainter(pixmap)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceIn)
    painter.fillRect(pixmap.rect(), QColor(color))
    painter.end()
    return pixmap


def dot(color: QColor) -> QIcon:
    """Return a small rounded square of a colour, outlined in a selected row; for rows with a category."""
    return _dot(color.name(), theme().accent_text.name())


@cache
def _dot(color: str, outline: str) -> QIcon:
    result = QIcon()
    for ratio in (1.0, 2.0):
        result.addPixmap(_dot_pixmap(color, ratio, QPen(Qt.PenStyle.NoPen)))
        result.addPixmap(_dot_pixmap(color, ratio, QPen(QColor(outline), 1.5)), QIcon.Mode.Selected)
    return result


def _dot_pixmap(color: str, ratio: float, outline: QPen) -> QPixmap:
    pixmap = QPixmap(int(16 * ratio), int(16 * ratio))
    pixmap.setDevicePixelRatio(ratio)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(outline)
    painter.setBrush(QColor(color))
    painter.drawRoundedRect(QRectF(3, 3, 10, 10), 2.5, 2.5)
    painter.end()
    return pixmap
