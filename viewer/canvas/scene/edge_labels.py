"""Positions of type labels beside edges, so that no label covers a box or another label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.viewer.canvas.scene.drawing import Kind, Style, TextMeasure
from onnx_workbench.viewer.canvas.scene.edge_notes import SPACE, note_width
from onnx_workbench.viewer.canvas.scene.node_text import split_text
from onnx_workbench.viewer.canvas.scene.scene import Real, Scene
from onnx_workbench.viewer.canvas.scene.spatial_grid import Ids
from onnx_workbench.viewer.document.edge_notes import EdgeNote, NoteOf, no_note
from onnx_workbench.viewer.style.type_texts import edge_text

HEIGHT = 16.0
PADDING = 3.0
#: Distance from the start of an edge to the middle of its label.
_AWAY = 20.0
_BESIDE = 3.0  # px from the line to the label's box; its text is PADDING further
_ABOVE = 1.0
_LEAST_TURN = 4.0  # px by which a line must turn more to one side for its label to be on the other
_PLACES = 5  # number of places tried along an edge
_STEP = 24.0  # px between the places tried along an edge that runs to the right
_WIDEST = 190.0
#: Labels without a note extend at most this far from the start of their edge: margin for searching an area.
MARGIN = _WIDEST + 30
#: Distance along a rank within which labels depend on each other, also with notes: a longer one shortens neighbours.
LABEL_REACH = 3 * MARGIN

_T = np.linspace(0.0, 1.0, 17)[:, None]
#: [17, 4] weights of the control points of a cubic piece at points along it
_BERNSTEIN = np.hstack([(1 - _T) ** 3, 3 * _T * (1 - _T) ** 2, 3 * _T**2 * (1 - _T), _T**3])

_EPSILON = 1e-9  # px, least extent of a part of a line along an axis, to avoid division by 0
_MOST_LINES = 40  # with more pieces of lines at a place there is no room, nor further on: checking 300 takes 1 ms
_TILE = 3000.0  # px; labels of larger areas are compared tile by tile


Rect = tuple[float, float, float, float]  # left, top, width, height


@dataclass(frozen=True, slots=True)
class EdgeLabel:
    """A text, with the note of a run beside or below it, centred in a box.

    `box` is the index of the box next to it. `short` is the alternative if there is no room for this one.
    """

    spot: int  # identifies labels; of two that overlap, the one with the lower number is shown
    edge: int
    box: int
    text: str
    rect: Rect
    note: EdgeNote | None = None
    stacked: bool = False
    short: EdgeLabel | None = None


class EdgeLabels:
    """Labels of a scene, placed lazily when visible: where a value leaves its box, and at the end of a long edge.

    Whether a label is shown depends on the boxes and on earlier edges only, not on the visible area, so that panning
    does not change labels.
    """

    def __init__(self, scene: Scene, measure: TextMeasure, type_of: TypeOf, note_of: NoteOf = no_note) -> None:
        self._scene = scene
        self._measure = measure
        self._type_of = type_of
        self._note_of = note_of
        self._placed: dict[int, EdgeLabel | None] = {}
        self._decided: dict[int, EdgeLabel | None] = {}  # the label as shown; None: no room
        model = scene.drawing.graph.model
        self._is_down = scene.drawing.options.direction == "down"
        self._is_spread = model is not None and bool(model.configurations)
        self._count = len(scene.drawing.edges)
        self._spots, self._grid = scene.label_spots

    def forget(self, edges: Iterable[int] | None = None) -> None:
        """Invalidate the labels of values (None: any) whose types or notes changed."""
        if edges is None:
            self._placed.clear()
        for edge in edges or ():
            self._placed.pop(edge, None)
            self._placed.pop(edge + self._count, None)
        self._decided.clear()

    def in_rect(self, left: float, top: float, right: float, bottom: float) -> list[EdgeLabel]:
        """Return the labels that may reach into an area; a large area is searched tile by tile."""
        if right - left <= _TILE and bottom - top <= _TILE:
            return self._in_tile(left, top, right, bottom)
        found: dict[int, EdgeLabel] = {}
        y = top
        while y < bottom:
            x = left
            while x < right:
                tile = self._in_tile(x, y, min(x + _TILE, right), min(y + _TILE, bottom))
                found.update((label.spot, label) for label in tile)
                x += _TILE
            y += _TILE
        return list(found.values())

    def edge_at(self, x: float, y: float) -> int:
        """Return the edge whose label is at a point, or -1."""
        return next((label.edge for label in self._in_tile(x, y, x, y)), -1)

    def _in_tile(self, left: float, top: float, right: float, bottom: float) -> list[EdgeLabel]:
        wide = 2 * MARGIN
        spots = self._spots[self._grid.in_rect(left - wide, top - wide, right + wide, bottom + wide)]
        if not len(spots):
            return []
        placed = [label for spot in spots.tolist() if (label := self._label(spot)) is not None]
        inside = [
            label
            for label in placed
            if label.rect[0] <= right
            and label.rect[0] + label.rect[2] >= left
            and label.rect[1] <= bottom
            and label.rect[1] + label.rect[3] >= top
        ]
        new = [label for label in inside if label.spot not in self._decided]
        if new:
            self._decide(new, placed)
        return [label for first in inside if (label := self._decided[first.spot]) is not None]

    def _text(self, edge: int, note: EdgeNote | None) -> str:
        drawing = self._scene.drawing
        count = int(drawing.multiplicity[edge])
        value = drawing.values[edge]
        type_text = note.type_text if note is not None else ""
        text = (
            f"{count} values"
            if count > 1
            else type_text or edge_text(self._type_of(value), self._scene.drawing.options.prefix)
        )
        if count == 1 and self._is_spread:
            text = " · ".join(filter(None, (text, split_text(value))))
        return self._measure.elided(text, Style.LABEL, _WIDEST)

    def _label(self, spot: int) -> EdgeLabel | None:
        if spot not in self._placed:
            self._placed[spot] = self._place(spot) if spot < self._count else self._place_at_end(spot)
        return self._placed[spot]

    def _place_at_end(self, spot: int) -> EdgeLabel | None:
        """Return the label with the type at the end of a long edge."""
        edge, drawing = spot - self._count, self._scene.drawing
        note = self._note_of(drawing.values[edge]) if drawing.multiplicity[edge] == 1 else None
        text = self._text(edge, note)
        points = _until_turn(self._scene.pieces[self._scene.pieces_of(edge)][::-1, ::-1], 1 if self._is_down else 0)
        if not text or not len(points):
            return None
        box = int(drawing.edges[edge, 1])
        rect = self._beside_others(edge, box, points, self._measure.width(text, Style.LABEL))
        return None if rect is None else EdgeLabel(spot, edge, box, text, rect)

    def _beside_others(self, edge: int, box: int, points: Real, width: float) -> Rect | None:
        """Return the box of a label at the end of an edge, clear of other edges; None if there is no room."""
        layout, axis = self._scene.layout, 0 if self._is_down else 1
        ends = layout.route_points[layout.route_starts[self._scene.arrivals(box) + 1] - 1, axis]
        own = float(layout.route_points[layout.route_starts[edge + 1] - 1, axis])
        ends = ends[np.abs(ends - own) > 1]
        for number, (rect, _) in enumerate(self._candidates(points, width)):
            low, high = rect[axis], rect[axis] + rect[axis + 2]
            is_at_end = number < 2
            if is_at_end and ((ends > low - 2) & (ends < high + 2)).any():
                continue  # there are arrowheads
            if not is_at_end and self._covers_box(rect):
                continue
            lines = self._other_lines(edge, rect)
            if len(lines) > _MOST_LINES:
                return None
            if not self._cut_by(lines, rect):
                return rect
        return None

    def _candidates(self, points: Real, width: float, lines: int = 1) -> Iterator[tuple[Rect, bool]]:
        """Yield boxes of a label on both sides of its edge, further and further on, and whether they are behind it."""
        axis = 1 if self._is_down else 0
        start, end = points[0, 0].tolist(), float(points[-1, 3, axis])
        sense = 1.0 if end >= start[axis] else -1.0
        step = HEIGHT + 2 if self._is_down else _STEP
        for shift in (number * step for number in range(_PLACES)):
            before, after, is_after = self._boxes(points, width, lines, shift)
            for rect, behind in ((after, True), (before, False)) if is_after else ((before, False), (after, True)):
                low, high = rect[axis], rect[axis] + rect[axis + 2]
                if shift:
                    far = max(abs(low - start[axis]), abs(high - start[axis]))
                    aside = max(abs(rect[1 - axis] - start[1 - axis]), abs(sum(rect[1 - axis :: 2]) - start[1 - axis]))
                    is_beyond = (high - end if sense > 0 else end - low) > 0
                    if is_beyond or far > MARGIN or aside > MARGIN:
                        return
                yield rect, behind

    def _place(self, edge: int) -> EdgeLabel | None:
        drawing = self._scene.drawing
        note = self._note_of(drawing.values[edge]) if drawing.multiplicity[edge] == 1 else None
        text = self._text(edge, note)
        points = _until_turn(self._scene.pieces[self._scene.pieces_of(edge)], 1 if self._is_down else 0)
        if not (text or note) or not len(points):
            return None
        width, box = self._measure.width(text, Style.LABEL), int(drawing.edges[edge, 0])
        plain = EdgeLabel(edge, edge, box, text, self._clear_box(edge, points, width)) if text else None
        if note is None:
            return plain
        alone = note_width(note, self._measure)
        short = EdgeLabel(edge, edge, box, "", self._clear_box(edge, points, alone), note, short=plain)
        if not text:
            return short
        if self._is_down:
            rect = self._clear_box(edge, points, width + SPACE + alone)
            return EdgeLabel(edge, edge, box, text, rect, note, short=short)
        rect = self._clear_box(edge, points, max(width, alone), lines=2)
        return EdgeLabel(edge, edge, box, text, rect, note, stacked=True, short=short)

    def _clear_box(self, edge: int, points: Real, width: float, lines: int = 1) -> Rect:
        """Return the box of a label; it is moved along its edge or to its other side if that avoids cutting a line."""
        candidates = self._candidates(points, width, lines)
        first, _ = next(candidates)
        others = self._other_lines(edge, first)
        if len(others) > _MOST_LINES or not self._cut_by(others, first):
            return first
        for rect, is_after in candidates:
            if self._covers_box(rect):
                continue
            others = self._other_lines(edge, rect)
            if len(others) > _MOST_LINES:
                return first
            if not self._cut_by(others, rect) and self._has_room(edge, rect, is_after=is_after):
                return rect
        return first

    def _has_room(self, edge: int, rect: Rect, *, is_after: bool) -> bool:
        """Return whether no other label, of at most the same size, can reach a box beside an edge."""
        left, top, width, height = rect
        if self._is_down:
            left, around = left if is_after else left - width, 2 * _AWAY
            spots = self._grid.in_rect(left, top - around, left + 2 * width, top + height + around)
        else:
            top = top if is_after else top - height
            spots = self._grid.in_rect(left - width, top, left + 2 * width, top + 2 * height)
        return bool((self._spots[spots] % self._count == edge).all())

    def _covers_box(self, rect: Rect) -> bool:
        left, top, width, height = rect
        boxes = self._scene.box_grid.in_rect(left, top, left + width, top + height)
        return bool((self._scene.kinds[boxes] != Kind.CONTAINER).any())

    def _other_lines(self, edge: int, rect: Rect) -> Ids:
        """Return the pieces of other edges whose ranges reach into a box."""
        left, top, width, height = rect
        pieces = self._scene.piece_grid.in_rect(left, top, left + width, top + height)
        others: Ids = pieces[self._scene.piece_edges[pieces] != edge]
        return others

    def _cut_by(self, pieces: Ids, rect: Rect) -> bool:
        """Return whether one of these pieces runs through a box."""
        if not len(pieces):
            return False
        left, top, width, height = rect
        low, high = np.array([left, top]), np.array([left + width, top + height])
        points = _BERNSTEIN @ self._scene.pieces[pieces]
        starts, ways = points[:, :-1].reshape(-1, 2), np.diff(points, axis=1).reshape(-1, 2)
        ways = np.where(np.abs(ways) < _EPSILON, _EPSILON, ways)
        near, far = (low - starts) / ways, (high - starts) / ways  # where each part enters and leaves the box's range
        enters = np.maximum(np.minimum(near, far).max(1), 0.0)
        return bool((enters <= np.minimum(np.maximum(near, far).min(1), 1.0)).any())

    def _boxes(self, points: Real, width: float, lines: int = 1, shift: float = 0.0) -> tuple[Rect, Rect, bool]:
        """Return the boxes of a label of this width on both sides of an edge with these pieces, `shift` px further on.

        First left of or above the line, then right or below; and whether the line turns away from the second side.
        """
        width, height = width + 2 * PADDING, lines * HEIGHT
        if self._is_down:
            x, y = _point_after(points, _AWAY + shift, axis=1)
            low, high = _extent(points, 1, y - height / 2, y + height / 2)
            top = round(y - height / 2)
            before, after = round(low - _BESIDE - width), round(high + _BESIDE)
            return (before, top, width, height), (after, top, width, height), high - x <= x - low + _LEAST_TURN
        x, y = _point_after(points, width / 2 + 8.0 + shift, axis=0)
        low, high = _extent(points, 0, x - width / 2, x + width / 2)
        left = round(x - width / 2)
        above, below = round(low - height - _ABOVE), round(high + _ABOVE)
        return (left, above, width, height), (left, below, width, height), y - low > high - y + _LEAST_TURN

    def _decide(self, new: list[EdgeLabel], near: list[EdgeLabel]) -> None:
        """Choose the visible labels: those that cover no box, and no label of an earlier edge."""
        scene = self._scene
        low, high = _corners(near)
        boxes = scene.box_grid.in_rect(*low.min(0).tolist(), *high.max(0).tolist())
        boxes = boxes[scene.kinds[boxes] != Kind.CONTAINER]
        near = self._shortened(near, boxes, among_each_other=True)
        near = self._shortened(near, boxes)
        spots = {label.spot for label in new}
        new = [label for label in near if label.spot in spots]
        low, high = _corners(new)
        near_low, near_high = _corners(near)
        earlier = np.array([label.spot for label in near]) < np.array([[label.spot] for label in new])
        taken = _overlap(low, high, near_low - 2, near_high + 2) & earlier
        free = np.logical_not(taken.any(axis=1)) & self._off_boxes(low, high, boxes)
        for label, is_free in zip(new, free, strict=True):
            self._decided[label.spot] = label if is_free else None

    def _shortened(self, labels: list[EdgeLabel], boxes: Ids, *, among_each_other: bool = False) -> list[EdgeLabel]:
        """Return labels, in the short form if a box (or, `among_each_other`, another label) overlaps the long one."""
        if all(label.short is None for label in labels):
            return labels
        low, high = _corners(labels)
        crowded = np.logical_not(self._off_boxes(low, high, boxes))
        if among_each_other:
            touching = _overlap(low, high, low - 2, high + 2)
            np.fill_diagonal(touching, False)
            touching &= [label.spot < self._count for label in labels]  # labels at ends yield themselves
            crowded |= touching.any(axis=1)
        pairs = zip(labels, crowded.tolist(), strict=True)
        return [label.short if label.short is not None and is_crowded else label for label, is_crowded in pairs]

    def _off_boxes(self, low: Real, high: Real, boxes: Ids) -> NDArray[np.bool_]:
        if not len(boxes):
            return np.ones(len(low), np.bool_)
        corners = self._scene.corners[boxes]
        covered = _overlap(low, high, corners[:, :2], corners[:, 2:]).any(axis=1)
        return np.asarray(np.logical_not(covered))


def _corners(labels: list[EdgeLabel]) -> tuple[Real, Real]:
    rects = np.array([label.rect for label in labels])
    return rects[:, :2], rects[:, :2] + rects[:, 2:]


def _overlap(low: Real, high: Real, other_low: Real, other_high: Real) -> NDArray[np.bool_]:
    """[N, M] which of N boxes overlap which of M others."""
    return np.asarray(
        (low[:, None, 0] < other_high[None, :, 0])
        & (high[:, None, 0] > other_low[None, :, 0])
        & (low[:, None, 1] < other_high[None, :, 1])
        & (high[:, None, 1] > other_low[None, :, 1])
    )


def _extent(pieces: Real, axis: int, low: float, high: float) -> tuple[float, float]:
    """Return the range that a route covers across an axis, between two coordinates along it."""
    points = (_BERNSTEIN @ pieces).reshape(-1, 2)
    along, across = points[:, axis], points[:, 1 - axis]
    if along[0] > along[-1]:
        along, across = along[::-1], across[::-1]
    inside = across[(along > low) & (along < high)]
    ends = np.interp([low, high], along, across)
    return float(min(*ends, *inside)), float(max(*ends, *inside))


def _until_turn(pieces: Real, axis: int) -> Real:
    """Return the first pieces of a route, up to where it turns back along an axis."""
    ways = np.sign(pieces[:, 3, axis] - pieces[:, 0, axis])
    turns = np.flatnonzero(ways != ways[:1])
    return pieces[: turns[0]] if len(turns) and turns[0] else pieces


def _point_after(pieces: Real, distance: float, axis: int) -> tuple[float, float]:
    """Return the point of a route that lies a distance beyond its start, or its middle when it is shorter."""
    start, end = float(pieces[0, 0, axis]), float(pieces[-1, 3, axis])
    distance = min(distance, abs(end - start) / 2)
    reached = np.flatnonzero(np.abs(pieces[:, 3, axis] - start) >= distance)
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = pieces[reached[0] if len(reached) else -1].tolist()
    a, b, c, d = (x0, x1, x2, x3) if axis == 0 else (y0, y1, y2, y3)
    low, high = 0.0, 1.0
    for _ in range(10):  # to a thousandth of the piece
        t = (low + high) / 2
        u = 1 - t
        if abs(a * u * u * u + 3 * t * u * (b * u + c * t) + d * t * t * t - start) < distance:
            low = t
        else:
            high = t
    t = (low + high) / 2
    u = 1 - t
    return (
        x0 * u * u * u + 3 * t * u * (x1 * u + x2 * t) + x3 * t * t * t,
        y0 * u * u * u + 3 * t * u * (y1 * u + y2 * t) + y3 * t * t * t,
    )
