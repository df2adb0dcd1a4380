"""Batch drawing of rectangles, lines and curves: arrays are passed to Qt without conversion.

Curves are drawn as lines on screen: Qt draws thick lines many times as fast as it strokes paths, and of a curve of a
million px only the visible lines are drawn.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import shiboken6
from numpy.typing import NDArray
from PySide6.QtCore import QLineF, QPointF, QRectF
from PySide6.QtGui import QPaintEngine, QPainter, QPainterPath, QPolygonF

from onnx_workbench.viewer.canvas.scene.scene import Real

Area = tuple[float, float, float, float]  # left, top, right, bottom

_ARROW = 7.0
_OFF = 0.15  # device px by which a line may deviate from its curve
_MOST_LINES = 256  # limit for one piece
_PARTS = 16  # parts of a piece that has more lines: invisible ones are skipped
_OVERLAP = 0.3  # device px by which consecutive lines of a curve overlap, so that no gap shows


def draw_rects(painter: QPainter, rects: NDArray[np.float64]) -> None:
    """Draw [N, 4] left, top, width, height."""
    if len(rects):
        rects = np.ascontiguousarray(rects, np.float64)
        first = shiboken6.wrapInstance(rects.ctypes.data, QRectF)
        painter.drawRects(cast("Any", first), len(rects))


def draw_lines(painter: QPainter, lines: NDArray[np.float64]) -> None:
    """Draw [N, 4] x, y, x, y."""
    if len(lines):
        lines = np.ascontiguousarray(lines, np.float64)
        first = shiboken6.wrapInstance(lines.ctypes.data, QLineF)
        painter.drawLines(cast("Any", first), len(lines))


def draw_curves(painter: QPainter, pieces: Real, scale: float, area: Area) -> None:
    """Draw cubic pieces [P, 4, 2]: as curves in a PDF, else as the lines in an area."""
    if painter.paintEngine().type() == QPaintEngine.Type.Pdf:
        for piece in pieces:
            painter.drawPath(curve_path(piece[None]))
    else:
        draw_lines(painter, flattened(pieces, scale, area))


def flattened(pieces: Real, scale: float, area: Area) -> NDArray[np.float64]:
    """Return lines [N, 4] that approximate cubic pieces [P, 4, 2] at a scale, for those in an area.

    The lines of a piece do not depend on the area, so that adjoining areas fit together.
    """
    if not len(pieces):
        return np.zeros((0, 4))
    bends = np.abs(pieces[:, :2] - 2 * pieces[:, 1:3] + pieces[:, 2:]).max((1, 2)) * scale
    exact = np.sqrt(np.maximum(bends, 1e-9) * (0.75 / _OFF))
    steps = 2 ** np.clip(np.ceil(np.log2(exact)), 0, np.log2(_MOST_LINES)).astype(np.int64)
    parts = []
    for number in np.unique(steps).tolist():
        chosen = pieces[steps == number]
        if number > _PARTS:
            chosen = _on_curves(_SPLIT, chosen).reshape(-1, 4, 2)
            chosen, number = chosen[_touching(chosen, area)], number // _PARTS
        parts.append(_lines(chosen, number))
    lines = np.concatenate(parts)
    lines = lines[_reaching(np.minimum(lines[:, :2], lines[:, 2:]), np.maximum(lines[:, :2], lines[:, 2:]), area)]
    along = lines[:, 2:] - lines[:, :2]
    along *= (_OVERLAP / scale) / np.maximum(np.hypot(along[:, 0], along[:, 1]), 1e-9)[:, None]
    lines[:, :2] -= along
    lines[:, 2:] += along
    return lines


def _touching(points: Real, area: Area) -> NDArray[np.bool_]:
    """[N] which of N groups of points [N, K, 2] reach into an area."""
    low, high = points[:, 0], points[:, 0]
    for number in range(1, points.shape[1]):  # many times as fast as a minimum along a short axis
        low, high = np.minimum(low, points[:, number]), np.maximum(high, points[:, number])
    return _reaching(low, high, area)


def _reaching(low: Real, high: Real, area: Area) -> NDArray[np.bool_]:
    """[N] which of N rectangles, by their corners [N, 2], reach into an area."""
    left, top, right, bottom = area
    return np.asarray((low[:, 0] <= right) & (low[:, 1] <= bottom) & (high[:, 0] >= left) & (high[:, 1] >= top))


def _lines(pieces: Real, steps: int) -> Real:
    """Return cubic pieces [P, 4, 2] as lines [P * steps, 4]."""
    points = _on_curves(_weights(np.linspace(0.0, 1.0, steps + 1)), pieces)
    return np.concatenate([points[:, :-1], points[:, 1:]], 2).reshape(-1, 4)


def _on_curves(weights: Real, pieces: Real) -> Real:
    """Return points [P, K, 2] of cubic pieces [P, 4, 2], with weights [K, 4] of their control points."""
    across = weights @ pieces.transpose(1, 0, 2).reshape(4, -1)
    return across.reshape(len(weights), -1, 2).transpose(1, 0, 2)


def _weights(t: Real) -> Real:
    """Return the weights [K, 4] of the control points for points at parameters t [K]."""
    return np.stack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3], 1)


def _split(parts: int) -> Real:
    """Return the weights [parts * 4, 4] for the control points of equal parts of a piece."""
    t = np.linspace(0.0, 1.0, parts + 1)
    slopes = 3 * np.stack([-((1 - t) ** 2), (1 - t) * (1 - 3 * t), t * (2 - 3 * t), t**2], 1) / (3 * parts)
    ends = _weights(t)
    return np.stack([ends[:-1], ends[:-1] + slopes[:-1], ends[1:] - slopes[1:], ends[1:]], 1).reshape(-1, 4)


_SPLIT = _split(_PARTS)


def curve_path(pieces: Real) -> QPainterPath:
    """Return one path through cubic pieces [P, 4, 2]; a piece not connected to the one before starts a new subpath."""
    path = QPainterPath()
    end: tuple[float, float] | None = None
    for (x0, y0), (x1, y1), (x2, y2), (x3, y3) in pieces.tolist():
        if end != (x0, y0):
            path.moveTo(x0, y0)
        path.cubicTo(x1, y1, x2, y2, x3, y3)
        end = (x3, y3)
    return path


def ending_in(area: Area, pieces: Real, ids: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return those of the `ids` of pieces [P, 4, 2] whose arrowheads may reach into an area."""
    tips = pieces[ids, 3]
    return ids[_reaching(tips - _ARROW, tips + _ARROW, area)]


def arrow_at(piece: Real, size: float = _ARROW) -> QPolygonF:
    """Return the arrowhead at the end of an edge, from its last piece [4, 2]."""
    return QPolygonF([QPointF(x, y) for x, y in arrow_points(piece, size)])


def arrow_points(piece: Real, size: float = _ARROW) -> list[tuple[float, float]]:
    """Return the corners of an arrowhead, its tip first."""
    (x0, y0), (x1, y1) = piece[2].tolist(), piece[3].tolist()
    if x0 == x1 and y0 == y1:
        x0, y0 = piece[0].tolist()
    length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 or 1.0
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    bx, by = x1 - ux * size, y1 - uy * size
    half = size * 0.42
    return [(x1, y1), (bx - uy * half, by + ux * half), (bx + uy * half, by - ux * half)]
