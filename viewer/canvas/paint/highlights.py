"""Highlights drawn over the picture in every frame: hover, selection, search matches, problems, stale, changed.

Marks are sets of model objects; here they are mapped to boxes and edges of the current scene.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPen, QPolygonF

from onnx_workbench.model.analysis.topology import Connection
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.viewer.canvas.paint.batch_drawing import (
    Area,
    arrow_at,
    curve_path,
    draw_curves,
    draw_lines,
    draw_rects,
)
from onnx_workbench.viewer.canvas.paint.breakpoint_markers import paint_next, paint_stops
from onnx_workbench.viewer.canvas.paint.far_names import BLOCKS_BELOW
from onnx_workbench.viewer.canvas.paint.painter import MAP_BELOW, RADIUS, ROWS_FROM
from onnx_workbench.viewer.canvas.scene.drawing import HEADER, ROW, ROWS_PADDING, Kind
from onnx_workbench.viewer.canvas.scene.edge_labels import Rect
from onnx_workbench.viewer.canvas.scene.node_text import FoldTag
from onnx_workbench.viewer.canvas.scene.scene import Real, Scene
from onnx_workbench.viewer.canvas.scene.spatial_grid import Ids
from onnx_workbench.viewer.style.theme import Theme

_BADGE = 8.0
_PORT = 4.0  # radius
_MOST_PORTS = 200  # of a node: more lie on each other
_NOTHING = np.zeros(0, np.intp)
#: Kinds of marks drawn as a sign on a corner of the box: how it differs from the other model.
SIGNS = ("+", "−", "~", "→", "=")
#: Kinds whose edges are drawn again over the picture.
_PATHS = ("selected", "taken", "given", "came", "went", "hovered")
#: With more marked edges, visible ones are found by the spatial index: 6 ms with 300,000 pieces in view. With fewer,
#: each one is checked: 0.2 ms for 200, 120 ms for 100,000.
_MANY_EDGES = 200
#: Kinds drawn as a sign at a box, or at the row of a tag for a node folded into it.
_SIGNED = frozenset({"breakpoints", "conditions", "next", "errors", "failures", "changed", "bookmarks", *SIGNS})
_MOST_FINE = 400  # above this number of visible marks, they are drawn without rounding and antialiasing


@dataclass
class SceneHighlights:
    """The marked boxes and edges of one scene, ascending, by kind of mark.

    Kinds: "selected", "hovered", "matches", "errors", "stale", "skipped", "changed", "traced" (up- or downstream: all
    others are dimmed if there are any); "taken" and "given": inputs and outputs of a part; "came" and "went": wires of
    only the newer or only the older of two models; and SIGNS, drawn on the boxes.
    """

    scene: Scene
    boxes: dict[str, Ids] = field(default_factory=dict)
    edges: dict[str, list[int]] = field(default_factory=dict)
    rows: dict[str, list[Rect]] = field(default_factory=dict)  # of tags into which marked nodes are folded
    _counts: dict[str, Ids] = field(default_factory=dict)  # number of marked objects that each of the boxes shows

    def set(self, kind: str, items: Collection[object]) -> None:
        """Mark the boxes and edges of some objects. About 0.2 µs a node, 0.8 µs a value."""
        self.rows.pop(kind, None)
        if kind in _SIGNED and self.scene.drawing.hidden.users:
            rows = {item: row for item in items if (row := self._row_of(item)) is not None}
            self.rows[kind] = sorted(set(rows.values()))
            items = [item for item in items if item not in rows]
        boxes, edges = self._find(items)
        self.boxes[kind], self._counts[kind] = np.unique(np.array(boxes, np.intp), return_counts=True)
        self.edges[kind] = edges

    def _row_of(self, item: object) -> Rect | None:
        """Return the row of the tag into which a node, or the producer of a value, is folded, if any."""
        drawing = self.scene.drawing
        node = item.producer if isinstance(item, Value) else item
        if not isinstance(node, Node) or node not in drawing.hidden:
            return None
        user = drawing.hidden.users[node]
        for index in drawing.boxes_of(node):
            box = self.scene.boxes[index]
            for row, content in enumerate(box.rows) if box.subject is user else ():
                tag = content.subject
                if isinstance(tag, FoldTag) and not tag.is_open and node in drawing.hidden.behind(user, tag.purpose):
                    left, top, width, _ = self.scene.rect(index)
                    return left, top + HEADER + ROWS_PADDING + row * ROW, width, ROW
        return None

    def unmark_nodes(self, kind: str, nodes: Sequence[Node]) -> None:
        """Remove the marks of some marked nodes; a closed group with other marked nodes keeps its mark."""
        boxes, counts = self.boxes[kind], self._counts[kind]
        gone, times = np.unique(np.array(self.scene.drawing.boxes_of_nodes(nodes), np.intp), return_counts=True)
        gone, at_gone, at_box = np.intersect1d(gone, boxes, assume_unique=True, return_indices=True)
        counts[at_box] -= times[at_gone]
        self.boxes[kind], self._counts[kind] = boxes[counts > 0], counts[counts > 0]

    def _find(self, items: Iterable[object]) -> tuple[list[int], list[int]]:
        """Return the boxes and edges of some objects, unordered."""
        drawing, items = self.scene.drawing, list(items)
        are_nodes = set(map(type, items)) == {Node}  # there may be many
        nodes = cast("list[Node]", items) if are_nodes else [item for item in items if isinstance(item, Node)]
        values = [] if are_nodes else [item for item in items if isinstance(item, Value)]
        boxes = [*drawing.boxes_of_nodes(nodes), *drawing.boxes_of_values(values)]
        edges = drawing.edges_of_all(values)
        for value in values:
            if value.producer is None and value.initializer is not None:
                boxes += [index for node in value.consumers for index in drawing.boxes_of(node)]
        for item in items if len(nodes) + len(values) < len(items) else ():
            if isinstance(item, (Node, Value)):
                continue
            if isinstance(item, Connection):
                ends = set(drawing.boxes_of(item.node))
                edges += [edge for edge in drawing.edges_of(item.value) if int(drawing.edges[edge, 1]) in ends]
                continue
            boxes += drawing.boxes_of(item)
        return boxes, edges

    def paint(
        self, painter: QPainter, theme: Theme, area: Area, scale: float, write: Callable[[Ids], object] = lambda _: None
    ) -> None:
        """Draw all marks in an area; the painter is in scene coordinates, `scale` in device px per scene px.

        `write` is called with the pieces of edges that were painted over, to repaint their labels.
        """
        if self._has("traced"):
            in_view = self.scene.box_grid.in_rect(*area)
            plain = in_view[self.scene.kinds[in_view] != Kind.CONTAINER]
            self._veil(painter, np.setdiff1d(plain, self.boxes["traced"]), theme, 150)
        for kind in ("stale", "skipped"):
            self._veil(painter, self._in(area, kind), theme, 130)
        self._outline(painter, self._in(area, "matches"), theme.match, 4.0, scale)
        self._paths(painter, "came", theme.added, 2.0, area, scale)
        self._paths(painter, "went", theme.removed, 2.0, area, scale, dashed=True)
        self._paths(painter, "selected", theme.accent, 2.0, area, scale)
        self._outline(painter, self._in(area, "selected"), theme.accent, 2.0, scale)
        for kind, color, dashed in (("taken", theme.changed, False), ("given", theme.edited, True)):
            self._paths(painter, kind, color, 3.0, area, scale, dashed=dashed)
            self._outline(painter, self._in(area, kind), color, 3.0, scale)
        self._paths(painter, "hovered", theme.accent, 2.0, area, scale)
        self._outline(painter, self._in(area, "hovered"), theme.accent, 1.0, scale)
        if scale >= ROWS_FROM:
            self._ports(painter, self._in(area, "hovered"), theme)
        write(self._drawn_over(area))
        self._ribbons(painter, self._signed(area, "bookmarks"), theme, scale)
        self._stops(painter, area, theme, scale)
        self._badges(painter, self._signed(area, "errors", "failures"), theme, scale)
        self._dots(painter, self._signed(area, "changed"), theme, scale)
        for sign in SIGNS if scale >= BLOCKS_BELOW else ():
            self._signs(painter, self._signed(area, sign), sign, theme, scale)

    def _drawn_over(self, area: Area) -> Ids:
        edges = list({edge for kind in _PATHS for edge in self.edges.get(kind, ())})
        if not edges:
            return _NOTHING
        return self._pieces_of(edges, area)

    def _has(self, kind: str) -> bool:
        return bool(len(self.boxes.get(kind, ())))

    def _in(self, area: Area, kind: str) -> Ids:
        """Return the boxes with a mark in an area; cost: the number of marks, not of boxes."""
        if not self._has(kind):
            return _NOTHING
        marked = self.boxes[kind]
        left, top, right, bottom = area
        corners = self.scene.corners[marked]
        touching = (
            (corners[:, 0] <= right) & (corners[:, 2] >= left) & (corners[:, 1] <= bottom) & (corners[:, 3] >= top)
        )
        return marked[touching]

    def _signed(self, area: Area, *kinds: str) -> list[Rect]:
        """Return the boxes in an area, and all rows of tags, with a sign of some kinds."""
        boxes = np.unique(np.concatenate([self._in(area, kind) for kind in kinds]))
        rows = {row for kind in kinds for row in self.rows.get(kind, ())}
        return [*map(self.scene.rect, boxes.tolist()), *sorted(rows)]

    def _veil(self, painter: QPainter, boxes: Ids, theme: Theme, alpha: int) -> None:
        if len(boxes):
            painter.setPen(Qt.PenStyle.NoPen)
            veil = QColor(theme.canvas)
            veil.setAlpha(alpha)
            painter.setBrush(veil)
            draw_rects(painter, self.scene.rects[boxes])

    def _outline(self, painter: QPainter, boxes: Ids, color: QColor, width: float, scale: float) -> None:
        if not len(boxes):
            return  # quick, as for most frames and kinds
        if len(boxes) > _MOST_FINE:
            self._fill_outlines(painter, self.scene.rects[boxes], color, width / scale)
            return
        painter.setBrush(Qt.BrushStyle.NoBrush)
        pen = QPen(color, width)
        pen.setCosmetic(True)
        painter.setPen(pen)
        out = width / 2 / scale
        rects = self.scene.rects[boxes] + np.array([-out, -out, 2 * out, 2 * out])
        if scale < BLOCKS_BELOW:
            draw_rects(painter, rects)
            return
        for index, (left, top, wide, high) in zip(boxes.tolist(), rects.tolist(), strict=True):
            kind = self.scene.boxes[index].kind
            radius = high / 2 if kind in (Kind.INPUT, Kind.OUTPUT, Kind.OUTER) else RADIUS + out
            painter.drawRoundedRect(QRectF(left, top, wide, high), radius, radius)

    def _ports(self, painter: QPainter, boxes: Ids, theme: Theme) -> None:
        """Draw where a drag begins or ends a connection of a node."""
        painter.setPen(QPen(theme.accent, 1.5))
        painter.setBrush(theme.node)
        for box in boxes.tolist():
            node = self.scene.boxes[box].subject
            if isinstance(node, Node) and len(node.inputs) + len(node.outputs) <= _MOST_PORTS:
                for _, (x, y) in (*self.scene.inputs(box), *self.scene.outputs(box)):
                    painter.drawEllipse(QPointF(x, y), _PORT, _PORT)

    def _fill_outlines(self, painter: QPainter, rects: Real, color: QColor, width: float) -> None:
        """Draw outlines of very many boxes as filled strips, which Qt draws twenty times as fast as stroked rectangles.

        Small boxes are filled.
        """
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        around = rects + np.array([-width, -width, 2 * width, 2 * width])
        small = (rects[:, 2:] < 2 * width).any(1)
        left, top, wide, high = around[~small].T
        thin = np.full(len(left), width)
        above, below = (left, top, wide, thin), (left, top + high - width, wide, thin)
        before, behind = (left, top, thin, high), (left + wide - width, top, thin, high)
        strips = np.concatenate([np.stack(side, 1) for side in (above, below, before, behind)])
        draw_rects(painter, np.concatenate([around[small], strips]))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)

    def _paths(
        self,
        painter: QPainter,
        kind: str,
        color: QColor,
        width: float,
        area: Area,
        scale: float,
        *,
        dashed: bool = False,
    ) -> None:
        edges = self.edges.get(kind)
        if not edges:
            return
        scene = self.scene
        pen = QPen(color, max(width, 1.5 / scale))
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        pieces = self._pieces_of(edges, area)
        if dashed:
            pen.setDashPattern([3.0, 2.0])
            painter.setPen(pen)
            painter.drawPath(curve_path(scene.pieces[pieces]))
        elif scale < MAP_BELOW:
            draw_lines(painter, scene.pieces[pieces][:, (0, 3)].reshape(-1, 4))
        else:
            draw_curves(painter, scene.pieces[pieces], scale, area)
        if scale >= BLOCKS_BELOW:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color)
            for piece in scene.pieces[pieces[scene.is_last[pieces]]]:
                painter.drawConvexPolygon(arrow_at(piece, 9.0))

    def _pieces_of(self, edges: list[int], area: Area) -> Ids:
        """Return the pieces of some edges in an area, without duplicates that look the same, ascending."""
        scene = self.scene
        if len(edges) > _MANY_EDGES:
            pieces = scene.piece_grid.in_rect(*area)
            marked = np.zeros(len(scene.drawing.edges), bool)
            marked[edges] = True
            return scene.distinct(pieces[marked[scene.piece_edges[pieces]]])
        pieces = scene.pieces_of_all(np.unique(edges))
        low, high = scene.pieces[pieces].min(1), scene.pieces[pieces].max(1)
        inside: Ids = pieces[((low <= area[2:]) & (high >= area[:2])).all(1)]
        return scene.distinct(inside)

    def _stops(self, painter: QPainter, area: Area, theme: Theme, scale: float) -> None:
        scene = self.scene
        for kind in ("conditions", "breakpoints"):
            boxes = self._in(area, kind)
            places = [*map(scene.rect, boxes[scene.kinds[boxes] != Kind.OUTPUT].tolist()), *self.rows.get(kind, ())]
            pills = (Kind.INPUT, Kind.OUTER)  # marked themselves, instead of each edge that leaves them
            edges = [e for e in self.edges.get(kind, ()) if scene.kinds[scene.drawing.edges[e, 0]] not in pills]
            paint_stops(painter, theme, scene, places, edges, scale, full=kind == "breakpoints")
        paint_next(painter, theme, self._signed(area, "next"), scale)

    def _ribbons(self, painter: QPainter, places: list[Rect], theme: Theme, scale: float) -> None:
        """Draw a ribbon over the upper left corner of bookmarked boxes; at small scales of a fixed size in pixels."""
        size = 6.0 if scale >= BLOCKS_BELOW else 4.0 / scale
        painter.setPen(QPen(theme.canvas, size / 6))
        painter.setBrush(theme.accent)
        for left, top, _, _ in places:
            x, y = left + size, top - 1.9 * size
            corners = ((0, 0), (1.4, 0), (1.4, 2.6), (0.7, 1.9), (0, 2.6))
            painter.drawPolygon(QPolygonF([QPointF(x + across * size, y + down * size) for across, down in corners]))

    def _badges(self, painter: QPainter, places: list[Rect], theme: Theme, scale: float) -> None:
        radius = max(_BADGE, 4.0 / scale) if scale >= BLOCKS_BELOW else 4.0 / scale
        for left, top, width, _ in places:
            centre = QPointF(left + width - 1, top + 1)
            painter.setPen(QPen(theme.canvas, radius / 5))
            painter.setBrush(theme.error)
            painter.drawEllipse(centre, radius, radius)
            if scale >= BLOCKS_BELOW:
                pen = QPen(theme.canvas, radius / 4)
                pen.setCapStyle(Qt.PenCapStyle.RoundCap)
                painter.setPen(pen)
                painter.drawLine(centre - QPointF(0, radius * 0.5), centre + QPointF(0, radius * 0.1))
                painter.drawPoint(centre + QPointF(0, radius * 0.52))

    def _dots(self, painter: QPainter, places: list[Rect], theme: Theme, scale: float) -> None:
        radius = 4.0 if scale >= BLOCKS_BELOW else 3.0 / scale
        painter.setPen(QPen(theme.canvas, radius / 4))
        painter.setBrush(theme.changed)
        for left, top, _, _ in places:
            painter.drawEllipse(QPointF(left + 1, top + 1), radius, radius)

    def _signs(self, painter: QPainter, places: list[Rect], sign: str, theme: Theme, scale: float) -> None:
        """Draw markers at the same size at every zoom, so that they stay distinguishable."""
        half = _BADGE / min(scale, 1.0)
        font = QFont(painter.font())
        font.setPixelSize(round(1.9 * half))
        font.setBold(True)
        painter.setFont(font)
        for left, top, _, _ in places:
            place = QRectF(left - half, top - half, 2 * half, 2 * half)
            painter.setPen(QPen(theme.text, half / 8))
            painter.setBrush(theme.canvas)
            painter.drawRoundedRect(place, half / 2, half / 2)
            painter.drawText(place, Qt.AlignmentFlag.AlignCenter, sign)
