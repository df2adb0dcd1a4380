"""Texts over the graph in widget coordinates, at a fixed size: names of open groups, legends, notices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QLinearGradient, QPainter, QPen

from onnx_workbench.viewer.canvas.paint.far_names import LEAST_NAME
from onnx_workbench.viewer.canvas.paint.fonts import Fonts
from onnx_workbench.viewer.canvas.paint.painter import ROWS_FROM
from onnx_workbench.viewer.canvas.paint.viewport import Viewport
from onnx_workbench.viewer.canvas.scene.coloring import Legend, heat_colors
from onnx_workbench.viewer.canvas.scene.drawing import Kind, Style
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.style.theme import Theme

_MOST_NAMES = 60
_LEAST_SPACE = (44.0, 18.0)  # a group smaller than this on screen has no room for its name
LEGEND_MARGIN = 12.0
_DEEPEST = 6
_HIDDEN = 10.0  # px of a header that must be out of view for its title to count as hidden


@dataclass(frozen=True, slots=True)
class GroupName:
    """Name of a container over the graph, in px of the widget; `factor` shrinks its font."""

    box: int
    text: str
    rect: QRectF
    factor: float = 1.0


def group_names(scene: Scene, viewport: Viewport, fonts: Fonts) -> list[GroupName]:
    """Return names of containers whose titles cannot be read; larger ones first, without overlaps.

    At small scales these are all of them; at large scales, containers whose header is out of view.
    """
    found: list[GroupName] = []
    for index, rect in _unreadable(scene, viewport):
        box = scene.boxes[index]
        left, top, room = max(rect[0], 0.0), max(rect[1], 0.0), rect[2] - 8.0
        factor = min(max(room / max(fonts.width(box.title, Style.NAME), 1.0), LEAST_NAME / fonts.size), 1.0)
        text = fonts.elided(box.title, Style.NAME, room / factor, middle=True)
        wide, high = fonts.width(text, Style.NAME) * factor, fonts.height(Style.NAME) * factor
        if len(text) < 2 and text != box.title:
            continue
        spot = QRectF(left + 3, top + 3, wide + 6, high)
        for _ in range(_DEEPEST):  # nested ones below each other
            if any(spot.intersects(other.rect) for other in found):
                spot.translate(0.0, high + 4.0)
        if any(spot.intersects(other.rect) for other in found):
            continue
        found.append(GroupName(index, text, spot, factor))
        if len(found) >= _MOST_NAMES:
            break
    return found


def paint_group_names(painter: QPainter, scene: Scene, viewport: Viewport, fonts: Fonts, theme: Theme) -> None:
    """Write the names of containers whose titles cannot be read, on a plate."""
    font = QFont(fonts.font(Style.NAME))
    back = QColor(theme.canvas)
    back.setAlpha(215)
    for name in group_names(scene, viewport, fonts):
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(back)
        painter.drawRoundedRect(name.rect, 3, 3)
        painter.setPen(theme.text)
        font.setPixelSize(round(fonts.font(Style.NAME).pixelSize() * name.factor))
        painter.setFont(font)
        baseline = name.rect.top() + fonts.ascent(Style.NAME) * name.factor
        painter.drawText(QPointF(name.rect.left() + 3, baseline), name.text)


def _unreadable(scene: Scene, viewport: Viewport) -> list[tuple[int, list[float]]]:
    """Return visible containers with unreadable titles, largest first, with their position in the widget."""
    if not len(scene.named):
        return []
    near = viewport.scale >= ROWS_FROM
    ids = scene.box_grid.in_rect(*viewport.area) if near else scene.named  # near, few boxes are in view
    rects = scene.rects[ids] * viewport.scale
    rects[:, :2] -= np.array([viewport.x, viewport.y]) / viewport.ratio
    seen = (rects[:, 2] >= _LEAST_SPACE[0]) & (rects[:, 3] >= _LEAST_SPACE[1])
    seen &= (rects[:, 0] < viewport.width) & (rects[:, 0] + rects[:, 2] > 0)
    seen &= (rects[:, 1] < viewport.height) & (rects[:, 1] + rects[:, 3] > 0)
    seen &= scene.kinds[ids] == Kind.CONTAINER
    if near:
        seen &= (rects[:, 0] < -_HIDDEN) | (rects[:, 1] < -_HIDDEN)
    ids, rects = ids[seen], rects[seen]
    order = np.argsort(-rects[:, 2] * rects[:, 3], kind="stable")[: 2 * _MOST_NAMES]
    return list(zip(ids[order].tolist(), rects[order].tolist(), strict=True))


def paint_notice(painter: QPainter, viewport: Viewport, text: str, fonts: Fonts, theme: Theme) -> None:
    """Write one line into the middle of the canvas."""
    painter.setFont(fonts.font(Style.HEADER))
    painter.setPen(theme.muted)
    rect = QRectF(0, 0, viewport.width, viewport.height)
    painter.drawText(rect, int(Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextSingleLine), text)


def legend_size(legend: Legend, fonts: Fonts) -> tuple[float, float]:
    """Return width and height of the legend that `paint_legend_at` paints."""
    line, entries = fonts.height(Style.ROW) + 4.0, legend.entries
    wide = max([fonts.width(legend.title, Style.NAME), 160.0, *(fonts.width(e, Style.ROW) + 24 for e, _ in entries)])
    high = line * (1 + len(entries)) if entries else line * 2 + 14.0
    return wide + 16.0, high + 12.0


def paint_legend_frame(painter: QPainter, rect: QRectF, panel: QColor, border: QColor) -> None:
    """Paint the background of a legend."""
    painter.setPen(QPen(border, 1.0))
    painter.setBrush(panel)
    painter.drawRoundedRect(rect, 4, 4)


def paint_legend_at(painter: QPainter, left: float, top: float, legend: Legend, fonts: Fonts, theme: Theme) -> None:
    """Paint the colour legend, in the size returned by `legend_size`."""
    wide = legend_size(legend, fonts)[0]
    line = fonts.height(Style.ROW) + 4.0
    x, y = left + 8, top + 6
    _write(painter, x, y, legend.title, Style.NAME, fonts, theme.text)
    if legend.entries:
        for text, color in legend.entries:
            y += line
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color)
            painter.drawRoundedRect(QRectF(x, y + 2, 14, line - 8), 2, 2)
            _write(painter, x + 22, y, text, Style.ROW, fonts, theme.text)
        return
    bar = QRectF(x, y + line, wide - 16, 10)
    gradient = QLinearGradient(bar.topLeft(), bar.topRight())
    colors = heat_colors()
    for step, color in enumerate(colors):
        gradient.setColorAt(step / (len(colors) - 1), color)
    painter.fillRect(bar, gradient)
    y = bar.bottom() + 2
    _write(painter, x, y, legend.low, Style.ROW, fonts, theme.muted)
    _write(painter, bar.right() - fonts.width(legend.high, Style.ROW), y, legend.high, Style.ROW, fonts, theme.muted)


def _write(painter: QPainter, x: float, y: float, text: str, style: Style, fonts: Fonts, color: QColor) -> None:
    painter.setFont(fonts.font(style))
    painter.setPen(color)
    painter.drawText(QPointF(x, y + fonts.ascent(style)), text)
