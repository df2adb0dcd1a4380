"""Minimap: the whole graph in a corner of the canvas, with the visible part; a press or drag moves the view.

A graph is often a thousand times taller than wide, so the map may be stretched. When the canvas rests, it moves to a
corner where it covers nothing, shrinks if that helps, or hides.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRect, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen, QPixmap, QWheelEvent
from PySide6.QtWidgets import QWidget

from onnx_workbench.viewer.canvas.paint.batch_drawing import draw_rects
from onnx_workbench.viewer.canvas.scene.coloring import by_category
from onnx_workbench.viewer.canvas.scene.drawing import Kind
from onnx_workbench.viewer.style.theme import theme, themes

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.paint.surface import Surface

_LONG = 190
_SHORT = 96
_PART = 16  # it covers at most 1 / _PART of the canvas
_LEAST = 40  # px; in a smaller map no detail is visible
_SCALES = (1.0, 0.7, 0.5)  # tried in order until it covers nothing
_MARGIN = 12
_PADDING = 5.0
_LEAST_FRAME = 6.0
_CORNERS = ((1, 1), (1, 0), (0, 0), (0, 1))  # right or left, below or above
_REST = 150  # ms after the last move of the canvas until it checks what is below it


class Minimap(QWidget):
    """Minimap; hidden while the whole graph is in view, if the canvas is too small, or if switched off."""

    jumped = Signal(float, float)  # the point of the scene to show

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self._surface = surface
        self._map: QPixmap | None = None
        self._wanted = True
        self._corner = _CORNERS[0]
        self._full = QSize()  # its unreduced size
        self._is_crowded = False  # it would cover something in every corner
        self._rest = QTimer(self, singleShot=True, interval=_REST)
        self._rest.timeout.connect(self._settle)
        self._room = QSize()  # size of the canvas when the corner was chosen
        self.setAccessibleName("Overview of the graph")
        self.setCursor(Qt.CursorShape.ArrowCursor)
        surface.scene_changed.connect(self._forget)
        surface.viewport_changed.connect(self._follow)
        surface.labels_changed.connect(self._rest.start)
        themes().themeChanged.connect(self._forget)
        surface.legend.installEventFilter(self)
        self.hide()

    @property
    def wanted(self) -> bool:
        """Whether it is enabled; it is shown only if it is useful."""
        return self._wanted

    def set_wanted(self, wanted: bool) -> None:
        """Switch it on or off."""
        self._wanted = wanted
        self._follow()

    def place(self) -> None:
        """Move into a corner, sized by the proportions of the graph."""
        scene = self._surface.scene
        tall = scene is None or scene.height >= scene.width
        size = QSize(_SHORT, _LONG) if tall else QSize(_LONG, _SHORT)
        limit = QSize(self._surface.width() // 4, self._surface.height() // 2)
        size = size.boundedTo(limit)
        part = _PART * size.width() * size.height() / max(self._surface.width() * self._surface.height(), 1)
        if part > 1:
            size /= sqrt(part)
        self._move_to(self.size() if size == self._full else size, self._corner)
        self._full = size
        self._follow()

    def _move_to(self, size: QSize, corner: tuple[int, int]) -> None:
        self._corner = corner
        self.setGeometry(self._spot(size, corner))

    def _spot(self, size: QSize, corner: tuple[int, int]) -> QRect:
        room = self._surface.size() - size - QSize(2 * _MARGIN, 2 * _MARGIN)
        return QRect(QPoint(_MARGIN + corner[0] * room.width(), _MARGIN + corner[1] * room.height()), size)

    def _find_position(self) -> None:
        """Move to a corner where it covers nothing; else hide."""
        self._room = self._surface.size()
        sizes = [size for scale in _SCALES if min((size := self._full * scale).toTuple()) >= _LEAST]
        spots = ((size, corner) for size in sizes for corner in _CORNERS)
        free = next((spot for spot in spots if not self._covers(self._spot(*spot))), None)
        self._is_crowded = free is None
        if free is not None:
            self._move_to(*free)

    def _settle(self) -> None:
        """Choose the corner again when the canvas has rested and was resized, or if the map covers something."""
        if self._surface.scene is None or self.underMouse() or not self._is_useful():
            return
        if self._is_crowded or self._room != self._surface.size() or self._covers(self.geometry()):
            self._find_position()
            self.setVisible(not self._is_crowded)

    def _covers(self, place: QRect) -> bool:
        """Return whether it would cover the legend or anything of the graph but the ground of an open group."""
        legend = self._surface.legend
        return (legend.isVisible() and legend.geometry().intersects(place)) or self._surface.has_content_in(place)

    def _forget(self) -> None:
        self._map = None
        self.place()
        self.update()

    def _follow(self) -> None:
        """Repaint together with the surface: alone, it would cause everything below to be painted twice."""
        visible = self._is_useful()
        if visible and self.isHidden() and not self._is_crowded:
            self._find_position()
        self._rest.start()
        self.setVisible(visible and not self._is_crowded)

    def _is_useful(self) -> bool:
        """Return whether a part of the graph is out of view and there is room for a map."""
        scene = self._surface.scene
        if scene is None or not self._wanted or not len(scene.rects) or min(self.width(), self.height()) < _LEAST:
            return False
        left, top, right, bottom = scene.bounds
        area = self._surface.viewport.area
        return area[0] > left or area[1] > top or area[2] < right or area[3] < bottom

    def _scale(self) -> tuple[float, float]:
        scene = self._surface.scene
        assert scene is not None
        room = self.width() - 2 * _PADDING, self.height() - 2 * _PADDING
        sx, sy = room[0] / max(scene.width, 1.0), room[1] / max(scene.height, 1.0)
        return (min(sx, 6 * sy), min(sy, 6 * sx)) if max(sx, sy) < 40 * min(sx, sy) else (sx, sy)

    def _offset(self) -> tuple[float, float]:
        scene = self._surface.scene
        assert scene is not None
        (sx, sy), (left, top, right, bottom) = self._scale(), scene.bounds
        return (self.width() - (left + right) * sx) / 2, (self.height() - (top + bottom) * sy) / 2

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the map, then the frame of the visible area."""
        scene = self._surface.scene
        if scene is None:
            return
        ratio = self.devicePixelRatioF()
        size = QSize(round(self.width() * ratio), round(self.height() * ratio))
        if self._map is None or self._map.size() != size:
            self._map = self._draw_map(size, ratio)
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._map)
        colors = theme()
        sx, sy = self._scale()
        ox, oy = self._offset()
        left, top, right, bottom = self._surface.viewport.area
        frame = QRectF(QPointF(left * sx + ox, top * sy + oy), QPointF(right * sx + ox, bottom * sy + oy))
        grow = max(_LEAST_FRAME - frame.width(), 0.0) / 2, max(_LEAST_FRAME - frame.height(), 0.0) / 2
        frame = frame.adjusted(-grow[0], -grow[1], grow[0], grow[1])
        frame = frame.intersected(QRectF(1.5, 1.5, self.width() - 3, self.height() - 3))
        fill = QColor(colors.accent)
        fill.setAlpha(40)
        painter.fillRect(frame, fill)
        painter.setPen(QPen(colors.accent, 0))
        painter.drawRect(frame)
        painter.end()

    def _draw_map(self, size: QSize, ratio: float) -> QPixmap:
        scene = self._surface.scene
        assert scene is not None
        colors = theme()
        pixmap = QPixmap(size)
        pixmap.setDevicePixelRatio(ratio)
        pixmap.fill(colors.panel)
        painter = QPainter(pixmap)
        sx, sy = self._scale()
        ids = np.flatnonzero(scene.kinds != Kind.CONTAINER)
        rects = scene.rects[ids] * np.array([sx, sy, sx, sy])
        rects[:, :2] += np.array(self._offset())
        np.maximum(rects[:, 2:], 1.0, out=rects[:, 2:])
        shades = by_category(scene, colors)
        painter.setPen(Qt.PenStyle.NoPen)
        rects, used = _distinct_pixels(rects * ratio, shades.indices[ids])
        for number in np.unique(used).tolist():
            painter.setBrush(shades.palette[number])
            draw_rects(painter, rects[used == number] / ratio)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(colors.border, 1.0))
        # At a scale of 125 % the last pixel of a widget may not be shown.
        width, height = (int(side * ratio) / ratio for side in (self.width(), self.height()))
        painter.drawRect(QRectF(0.5, 0.5, width - 1, height - 1))
        painter.end()
        return pixmap

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Choose a position again when the legend is shown or resized."""
        if event.type() in (QEvent.Type.Show, QEvent.Type.Resize):
            self._rest.start()
        return super().eventFilter(watched, event)

    def leaveEvent(self, event: QEvent) -> None:
        self._rest.start()
        super().leaveEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.jumped.emit(*self._scene_point(event.position()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Move the view while the button is pressed."""
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._surface.centre_on(*self._scene_point(event.position()))

    def _scene_point(self, position: QPointF) -> tuple[float, float]:
        """Return the point of the scene for a point of the map."""
        sx, sy = self._scale()
        ox, oy = self._offset()
        return (position.x() - ox) / sx, (position.y() - oy) / sy

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom the canvas around its middle."""
        self._surface.zoom_to(self._surface.zoom * 1.2 ** (event.angleDelta().y() / 120.0))
        event.accept()


def _distinct_pixels(
    rects: NDArray[np.float64], colors: NDArray[np.uint8]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the boxes rounded to pixels, without duplicates, and their colours: of 100,000, a few thousand."""
    columns = [*np.round(rects).astype(np.int64).T, colors.astype(np.int64)]
    least = [int(column.min(initial=0)) for column in columns]
    spans = [int(column.max(initial=0)) - low + 1 for column, low in zip(columns, least, strict=True)]
    key = np.zeros(len(rects), np.int64)
    for column, low, span in zip(columns, least, spans, strict=True):
        key = key * span + (column - low)
    found = np.stack(np.unravel_index(np.unique(key), spans), 1) + least
    return found[:, :-1].astype(np.float64), found[:, -1]
