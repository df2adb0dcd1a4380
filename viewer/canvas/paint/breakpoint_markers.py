"""Markers of breakpoints at nodes and values, and of the node that is computed next."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QPointF
from PySide6.QtGui import QPainter, QPen, QPolygonF

from onnx_workbench.viewer.canvas.paint.far_names import BLOCKS_BELOW
from onnx_workbench.viewer.canvas.scene.drawing import HEADER
from onnx_workbench.viewer.canvas.scene.edge_labels import Rect
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.style.theme import Theme

_RADIUS = 5.5
#: Distance from the start of an edge to the dot on it.
_AWAY = 6.0


def paint_stops(
    painter: QPainter,
    theme: Theme,
    scene: Scene,
    places: Iterable[Rect],
    edges: Iterable[int],
    scale: float,
    *,
    full: bool,
) -> None:
    """Paint a dot left of a header or a row, and at the start of an edge; hollow for conditional breakpoints."""
    radius = _radius(scale)
    painter.setPen(QPen(theme.canvas if full else theme.accent, radius * 0.3))
    painter.setBrush(theme.accent if full else theme.canvas)
    for place in places:
        painter.drawEllipse(_at_header(place), radius, radius)
    for point in sorted({_on_edge(scene, edge) for edge in edges}):
        painter.drawEllipse(QPointF(*point), radius, radius)


def paint_next(painter: QPainter, theme: Theme, places: Iterable[Rect], scale: float) -> None:
    """Paint an arrow that points at the next box of a paused run."""
    size = 1.6 * _radius(scale)
    painter.setPen(QPen(theme.canvas, size * 0.15))
    painter.setBrush(theme.warning)
    for place in places:
        tip = _at_header(place) - QPointF(0.2 * size, 0)
        back = tip.x() - 1.6 * size
        painter.drawPolygon(QPolygonF([tip, QPointF(back, tip.y() - size), QPointF(back, tip.y() + size)]))


def _radius(scale: float) -> float:
    return _RADIUS if scale >= BLOCKS_BELOW else 4.0 / scale


def _at_header(place: Rect) -> QPointF:
    left, top, _, height = place
    return QPointF(left, top + min(HEADER, height) / 2)


def _on_edge(scene: Scene, edge: int) -> tuple[float, float]:
    x, y = scene.layout.route_points[scene.layout.route_starts[edge]].tolist()
    return (x, y + _AWAY) if scene.drawing.options.direction == "down" else (x + _AWAY, y)
