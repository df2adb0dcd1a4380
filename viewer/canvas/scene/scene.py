"""A drawing with positions, which the canvas paints, hit-tests and exports. numpy only, no Qt.

Coordinates are px at 100 % zoom, y down; the scene's left top corner is (0, 0). Immutable, except by `Scene.adopt`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.model.analysis.name_scopes import Scope
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.viewer.canvas.layout import Layout, LayoutRequest, Resized, Spacing
from onnx_workbench.viewer.canvas.scene.drawing import (
    BUTTON,
    HEADER,
    ROW,
    ROWS_PADDING,
    STACK,
    Box,
    Button,
    Drawing,
    Kind,
)
from onnx_workbench.viewer.canvas.scene.node_text import FoldTag, NodeRow
from onnx_workbench.viewer.canvas.scene.spatial_grid import Grid, Ids

Real = NDArray[np.float64]
Part = Literal["header", "body", "row", "button", "input", "output"]

#: Distance within which the pointer hits an edge or a port, in px on screen.
REACH = 6.0

_FAR = 400.0  # px between the ends of an edge from which it has labels at both, as only one may be in view
_CROWD = 48.0  # px, side of the cells in which at most _MOST_LABELS labels are tried; a label is larger
_MOST_LABELS = 4
_CURVE_STEPS = 8
_T = np.linspace(0.0, 1.0, _CURVE_STEPS + 1)
_BERNSTEIN = np.stack([(1 - _T) ** 3, 3 * _T * (1 - _T) ** 2, 3 * _T**2 * (1 - _T), _T**3])  # [4, steps + 1]


@dataclass(frozen=True, slots=True)
class Hit:
    """Result of a hit test: a box and its part, or an edge.

    `row` for part "row" and the button of a tag, `button` for part "button". For "input" and "output" (ports) `edge`
    is the wire there or -1, and `port` the index among the node's inputs or outputs.
    """

    box: int = -1
    edge: int = -1
    part: Part = "body"
    row: NodeRow | None = None
    button: Button | None = None
    port: int = -1


@dataclass(frozen=True, slots=True)
class Moved:
    """Areas to repaint after boxes changed their sizes."""

    before: Real  # [K, 4] old corners of the boxes
    pieces: Ids  # of edges
    edges: list[int]  # edges of these pieces


def request(drawing: Drawing) -> LayoutRequest:
    """Return the layout request: plain arrays, so that the layout may run in a thread."""
    direction = drawing.options.direction
    kinds = drawing.kinds
    rank = 40.0 if direction == "down" else 110.0  # room for labels
    header = HEADER + 2 if direction == "down" else HEADER
    return LayoutRequest(
        sizes=drawing.sizes,
        edges=drawing.edges,
        source_ports=drawing.source_ports,
        target_ports=drawing.target_ports,
        first=np.flatnonzero(kinds == Kind.INPUT).astype(np.int32),
        last=np.flatnonzero(kinds == Kind.OUTPUT).astype(np.int32),
        parents=drawing.parents,
        titles=_titles(drawing, kinds) if (kinds == Kind.CONTAINER).any() else None,
        direction=direction,
        columns=drawing.options.columns,
        spacing=Spacing(rank=rank, header=header),
        node_ids=drawing.box_ids,
    )


def _titles(drawing: Drawing, kinds: NDArray[np.uint8]) -> NDArray[np.float32]:
    """[N, 2] px that a container's title takes at the left of its header, and its buttons at the right; others 0."""
    titles = np.zeros((len(kinds), 2), np.float32)
    for index in np.flatnonzero(kinds == Kind.CONTAINER).tolist():
        box = drawing.boxes[index]
        buttons = len(box.buttons) * BUTTON
        titles[index] = box.width - buttons, buttons
    return titles


#: Lazy lookup tables of a scene; `prepare` builds those of a large scene.
_PREPARED = (
    "corners", "box_grid", "piece_grid", "named", "is_last", "shapes", "curved", "depths", "categories", "label_spots",
)  # fmt: skip


class Scene:
    """A drawing with its layout. Only `adopt` changes it."""

    def __init__(self, drawing: Drawing, layout: Layout) -> None:
        self.drawing = drawing
        self.layout = layout
        self.boxes = drawing.boxes
        self.kinds = drawing.kinds
        positions = np.round(layout.positions.astype(np.float64))  # whole px: crisp borders at 100 %
        sizes = np.round(layout.sizes.astype(np.float64))
        #: [N, 4] left, top, width, height
        self.rects: Real = np.concatenate([positions, sizes], 1) if len(positions) else np.zeros((0, 4))
        self._split_routes()

    def _split_routes(self) -> None:
        """Split the routes into cubic pieces, which the spatial index holds separately."""
        points = self.layout.route_points.astype(np.float64)
        starts = self.layout.route_starts.astype(np.int64)
        counts = np.maximum((np.diff(starts) - 1) // 3, 0)
        edges = np.repeat(np.arange(len(counts)), counts)
        inner = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        first = starts[:-1][edges] + 3 * inner
        #: [P] the edge of each piece; pieces of one edge follow each other
        self.piece_edges: Ids = edges
        #: [P, 4, 2] start, two controls, end
        self.pieces: Real = points[first[:, None] + np.arange(4)] if len(first) else np.zeros((0, 4, 2))
        self._piece_starts: Ids = np.concatenate([[0], np.cumsum(counts)])

    @property
    def width(self) -> float:
        """Width of the scene."""
        return self.layout.bounds[2] - self.layout.bounds[0]

    @property
    def height(self) -> float:
        """Height of the scene."""
        return self.layout.bounds[3] - self.layout.bounds[1]

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom of everything."""
        return self.layout.bounds

    @cached_property
    def corners(self) -> Real:
        """[N, 4] left, top, right, bottom of the boxes."""
        return _corners(self.rects)

    @cached_property
    def box_grid(self) -> Grid:
        """Spatial index of boxes."""
        return Grid(self.corners)

    @cached_property
    def piece_grid(self) -> Grid:
        """Spatial index of pieces of edges."""
        return Grid(_extents(self.pieces))

    @cached_property
    def named(self) -> Ids:
        """Groups and containers: boxes whose names are shown at small scales."""
        return np.flatnonzero((self.kinds == Kind.GROUP) | (self.kinds == Kind.CONTAINER))

    @cached_property
    def is_last(self) -> NDArray[np.bool_]:
        """[P] pieces that end their edge."""
        last = np.zeros(len(self.pieces), bool)
        ends = self._piece_starts[1:][np.diff(self._piece_starts) > 0] - 1
        last[ends] = True
        return last

    @cached_property
    def shapes(self) -> Ids:
        """[P] a number for each piece, equal for pieces that look the same, as edges of one value share routes."""
        looks = np.ascontiguousarray(self.pieces + 0.0).view(np.uint64).reshape(-1, 8)  # + 0.0: there is no -0.0
        mixed = np.full(len(looks), 1, np.uint64) + self.is_last
        for column in looks.T:
            mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        _, first, number = np.unique(mixed, return_index=True, return_inverse=True)
        shapes: Ids = first[number]
        alike = (self.pieces[shapes] == self.pieces).all((1, 2)) & (self.is_last[shapes] == self.is_last)
        return np.where(alike, shapes, len(shapes) + np.arange(len(shapes)))

    def distinct(self, pieces: Ids) -> Ids:
        """Return pieces without duplicates that look the same."""
        return pieces[np.sort(np.unique(self.shapes[pieces], return_index=True)[1])]

    @cached_property
    def curved(self) -> NDArray[np.bool_]:
        """[P] pieces that are more than a straight line."""
        return _are_curved(self.pieces)

    @cached_property
    def label_spots(self) -> tuple[Ids, Grid]:
        """Return the positions of labels: the number of an edge at its start, plus an offset at its end.

        One for each value that leaves a box, except pills, which show their type; and one at the end of a long edge.
        Of edges that crowd together, the first ones only. The spatial index holds their positions.
        """
        points, starts = self.layout.route_points.astype(np.float64), self.layout.route_starts
        begin, end = points[starts[:-1]], points[starts[1:] - 1]
        first = _first_of_values(self.drawing)
        first = first[~np.isin(self.kinds[self.drawing.edges[first, 0]], (Kind.INPUT, Kind.OUTER))]
        far = np.flatnonzero(np.hypot(*(end - begin).T) >= _FAR)
        at = np.concatenate([begin[first], end[far]])
        sparse = _first_in_cells(at)
        at = at[sparse]
        return np.concatenate([first, far + len(self.drawing.edges)])[sparse], Grid(np.concatenate([at, at], 1))

    @cached_property
    def depths(self) -> NDArray[np.int32]:
        """[N] nesting depth of each box in containers."""
        depths = np.zeros(len(self.boxes), np.int32)
        parents = self.drawing.parents
        current = parents.copy()
        while (inside := current >= 0).any():
            depths[inside] += 1
            current[inside] = parents[current[inside]]
        return depths

    @cached_property
    def categories(self) -> tuple[list[str], NDArray[np.uint8]]:
        """The categories of headers, and [N] the index of each box's category."""
        names = sorted({box.category for box in self.boxes})
        number = {name: index for index, name in enumerate(names)}
        indices = np.fromiter((number[box.category] for box in self.boxes), np.uint8, len(self.boxes))
        return names, indices

    def prepare(self) -> None:
        """Build the lazy indexes now, on any thread: tens of ms in a large scene."""
        for name in _PREPARED:
            getattr(self, name)
        self.drawing.prepare()

    def pieces_of(self, edge: int) -> slice:
        """Return the pieces of an edge."""
        return slice(int(self._piece_starts[edge]), int(self._piece_starts[edge + 1]))

    def pieces_of_all(self, edges: Ids) -> Ids:
        """Return the pieces of some edges, edge by edge."""
        starts = self._piece_starts[edges]
        counts = self._piece_starts[edges + 1] - starts
        return np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))

    def rect(self, box: int) -> tuple[float, float, float, float]:
        """Left, top, width, height of a box."""
        left, top, width, height = self.rects[box].tolist()
        return left, top, width, height

    def bounds_of(self, boxes: list[int]) -> tuple[float, float, float, float] | None:
        """Left, top, right, bottom around some boxes; None around none."""
        if not boxes:
            return None
        corners = self.corners[boxes]
        left, top = corners[:, :2].min(0).tolist()
        right, bottom = corners[:, 2:].max(0).tolist()
        return left, top, right, bottom

    def adopt(self, drawing: Drawing, resized: Resized, boxes: list[int]) -> Moved:
        """Replace boxes whose sizes changed, and their routes.

        The rest of the drawing must be unchanged. Cost: the size of the change.
        """
        before = _corners(self.rects[boxes])
        layout = self.layout = resized.layout
        self.drawing, self.boxes = drawing, drawing.boxes
        self.rects[boxes] = np.round(np.concatenate([layout.positions[boxes], layout.sizes[boxes]], 1))
        if "corners" in self.__dict__:
            self.corners[boxes] = _corners(self.rects[boxes])
        self._move("box_grid", np.array(boxes, np.intp), _corners(self.rects[boxes]))
        edges = resized.edges
        pieces = self.pieces_of_all(edges.astype(np.intp))
        of = self.piece_edges[pieces]
        first = layout.route_starts[of].astype(np.int64) + 3 * (pieces - self._piece_starts[of])
        now = layout.route_points[first[:, None] + np.arange(4)].astype(np.float64)
        differ = (now != self.pieces[pieces]).any((1, 2))
        pieces, now = pieces[differ], now[differ]
        self.pieces[pieces] = now
        if "curved" in self.__dict__:
            self.curved[pieces] = _are_curved(now)
        if "shapes" in self.__dict__:
            self.shapes[pieces] = len(self.pieces) + pieces  # a separate number each, even if some look the same
        self._move("piece_grid", pieces, _extents(now))
        self.__dict__.pop("label_spots", None)
        return Moved(before, pieces, edges.tolist())

    def _move(self, grid: str, ids: Ids, boxes: Real) -> None:
        """Update a spatial index if it has been built; it is rebuilt if too many entries have moved."""
        index = self.__dict__.get(grid)
        if isinstance(index, Grid) and not index.move(ids, boxes):
            del self.__dict__[grid]

    def only(self, boxes: Ids) -> Scene:
        """Return a scene of some of the boxes, at the same positions, and the edges between them."""
        drawing, layout = self.drawing, self.layout
        kept = np.unique(boxes)
        place = np.full(len(self.boxes), -1, np.int64)
        place[kept] = np.arange(len(kept))
        edges = np.flatnonzero((place[drawing.edges] >= 0).all(1))
        lengths = np.diff(layout.route_starts)[edges]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        points = np.repeat(layout.route_starts[edges] - starts[:-1], lengths) + np.arange(starts[-1])
        chosen = [replace(self.boxes[i], parent=int(place[p]) if p >= 0 else -1) for i, p in self._with_parents(kept)]
        part = replace(
            drawing,
            boxes=chosen,
            edges=place[drawing.edges[edges]].astype(np.int32),
            values=[drawing.values[edge] for edge in edges.tolist()],
            multiplicity=drawing.multiplicity[edges],
            dashed=drawing.dashed[edges],
            source_ports=drawing.source_ports[edges],
            target_ports=drawing.target_ports[edges],
            box_ids=drawing.box_ids[kept],
            folded={},
            also=[],
        )
        route_points = layout.route_points[points]
        corners = self.corners[kept]
        low, high = corners[:, :2].min(0), corners[:, 2:].max(0)
        if len(route_points):
            low, high = np.minimum(low, route_points.min(0)), np.maximum(high, route_points.max(0))
        bounds = (float(low[0]), float(low[1]), float(high[0]), float(high[1]))
        return Scene(
            part,
            Layout(
                layout.positions[kept], layout.sizes[kept], route_points, starts.astype(np.int32), bounds,
                layout.ranks[kept],
            ),
        )  # fmt: skip

    def _with_parents(self, boxes: Ids) -> list[tuple[int, int]]:
        return [(index, self.boxes[index].parent) for index in boxes.tolist()]

    # -- hit tests -------------------------------------------------------------------------------------------

    def hit(self, x: float, y: float, reach: float = REACH, *, details: bool = True) -> Hit | None:
        """Return the hit at a point: port, button, row, box, then edge; containers only by their frame.

        `details` False: without ports, buttons and rows, as for small scales.
        """
        for index in reversed(self.box_grid.at(x, y, reach)):
            box = self.boxes[index]
            if box.kind is not Kind.CONTAINER:
                hit = self._hit_box(index, box, x, y, reach if details else 0.0)
                if hit is not None:
                    return hit
        container = self.container_at(x, y)
        edge = self.edge_at(x, y, reach)
        if edge >= 0 and (container is None or container.part == "body"):
            return Hit(edge=edge)
        return container

    def container_at(self, x: float, y: float) -> Hit | None:
        """Return the innermost container at a point and its part there, ignoring other boxes in it."""
        for index in reversed(self.box_grid.at(x, y, 0)):
            if self.boxes[index].kind is Kind.CONTAINER:
                hit = self._hit_container(index, self.boxes[index], x, y)
                if hit is not None:
                    return hit
        return None

    def _hit_container(self, index: int, box: Box, x: float, y: float) -> Hit | None:
        left, top, width, height = self.rect(index)
        if not (left <= x <= left + width and top <= y <= top + height):
            return None
        if y > top + HEADER:
            return Hit(box=index, part="body")
        return self._hit_header(index, box, x, left + width)

    def _hit_box(self, index: int, box: Box, x: float, y: float, reach: float) -> Hit | None:
        left, top, width, height = self.rect(index)
        if box.kind is Kind.GROUP:
            width, height = width - STACK, height - STACK
        if box.kind is Kind.NODE and reach > 0:
            port = self._hit_port(index, x, y, reach)
            if port is not None:
                return port
        if not (left <= x <= left + width and top <= y <= top + height):
            return None
        if reach <= 0:
            return Hit(box=index, part="header")
        if y <= top + HEADER:
            return self._hit_header(index, box, x, left + width)
        row = int((y - top - HEADER - ROWS_PADDING) // ROW)
        if 0 <= row < len(box.rows):
            tag = box.rows[row].subject
            if isinstance(tag, FoldTag):
                return Hit(box=index, part="button", row=box.rows[row], button="▾" if tag.is_open else "▸")
            return Hit(box=index, part="row", row=box.rows[row])
        return Hit(box=index)

    def _hit_header(self, index: int, box: Box, x: float, right: float) -> Hit:
        place = int((right - 2 - x) // BUTTON)
        if 0 <= place < len(box.buttons):
            return Hit(box=index, part="button", button=box.buttons[len(box.buttons) - 1 - place])
        return Hit(box=index, part="header")

    def _hit_port(self, index: int, x: float, y: float, reach: float) -> Hit | None:
        sides: list[tuple[Part, list[tuple[int, tuple[float, float]]]]] = [
            ("input", self.inputs(index)),
            ("output", self.outputs(index)),
        ]
        for part, positions in sides:
            for port, (px, py) in positions:
                if abs(px - x) <= reach and abs(py - y) <= reach * 0.8:
                    if self.is_well_inside(index, x, y, reach / 2):
                        continue  # header and rows take precedence
                    return Hit(box=index, part=part, port=port)
        return None

    def is_well_inside(self, box: int, x: float, y: float, margin: float) -> bool:
        """Return whether a point in a box is away from the sides with ports."""
        left, top, right, bottom = self.corners[box].tolist()
        if self.drawing.options.direction == "down":
            return bool(left < x < right and top + margin < y < bottom - margin)
        return bool(left + margin < x < right - margin and top < y < bottom)

    def inputs(self, box: int) -> list[tuple[int, tuple[float, float]]]:
        """Return the positions of a node's wired inputs: (index of the input, point)."""
        node = self.boxes[box].subject
        if not isinstance(node, Node):
            return []
        wired = [i for i, value in enumerate(node.inputs) if value is not None and self._is_wired(value)]
        return self._arrivals(box, node, wired) or self._ports(box, wired, start=True)

    def _arrivals(self, box: int, node: Node, wired: list[int]) -> list[tuple[int, tuple[float, float]]]:
        """Return the ends of a node's edges whose ports the layout has chosen."""
        into = self.arrivals(box).tolist()
        placed = len(into) > 1 and bool(np.isnan(self.drawing.target_ports[into]).all())
        if len(into) != len(wired) or not (placed or self.boxes[box].kind is Kind.CONTAINER):
            return []
        layout = self.layout
        ends = {self.drawing.values[edge]: layout.route_points[layout.route_starts[edge + 1] - 1] for edge in into}
        points = [(index, ends.get(node.inputs[index])) for index in wired]
        return [(index, (float(end[0]), float(end[1]))) for index, end in points if end is not None]

    def arrivals(self, box: int) -> Ids:
        """Return the edges that end at a box."""
        order, starts = self._into
        return order[starts[box] : starts[box + 1]]

    @cached_property
    def _into(self) -> tuple[Ids, Ids]:
        """Edges sorted by the box they end at, and where those of each box begin."""
        target = self.drawing.edges[:, 1]
        counts = np.bincount(target, minlength=len(self.boxes))
        return np.argsort(target, kind="stable"), np.concatenate([[0], np.cumsum(counts)])

    def _is_wired(self, value: Value) -> bool:
        """Return whether a value is shown by an edge instead of a row."""
        if value.initializer is not None:
            return False
        producer = value.producer
        if producer in self.drawing.hidden:
            return False
        if producer is None or producer.op_type != "Constant":
            return True
        place = self.drawing.folded.get(producer)
        return place is None or self.boxes[place].kind is Kind.GROUP

    def outputs(self, box: int) -> list[tuple[int, tuple[float, float]]]:
        """Return the positions of a node's outputs: (index of the output, point)."""
        node = self.boxes[box].subject
        return self._ports(box, list(range(len(node.outputs))), start=False) if isinstance(node, Node) else []

    def _ports(self, box: int, indices: list[int], *, start: bool) -> list[tuple[int, tuple[float, float]]]:
        left, top, width, height = self.rect(box)
        count = len(indices) + 1
        if self.drawing.options.direction == "down":
            y = top if start else top + height
            return [(index, (left + width * (i + 1) / count, y)) for i, index in enumerate(indices)]
        x = left if start else left + width
        return [(index, (x, top + height * (i + 1) / count)) for i, index in enumerate(indices)]

    def edge_at(self, x: float, y: float, reach: float = REACH) -> int:
        """Return the edge nearest to a point within reach, or -1."""
        candidates = self.piece_grid.at(x, y, reach)
        if not candidates:
            return -1
        ids = np.array(candidates)
        points = np.einsum("kt,pkc->ptc", _BERNSTEIN, self.pieces[ids])  # [P, steps + 1, 2]
        start, end = points[:, :-1], points[:, 1:]
        along = end - start
        length = np.maximum((along**2).sum(2), 1e-12)
        at = np.clip(((x - start[..., 0]) * along[..., 0] + (y - start[..., 1]) * along[..., 1]) / length, 0, 1)
        gap = np.hypot(start[..., 0] + at * along[..., 0] - x, start[..., 1] + at * along[..., 1] - y).min(1)
        best = int(gap.argmin())
        return int(self.piece_edges[ids[best]]) if gap[best] <= reach else -1

    def boxes_in(self, left: float, top: float, right: float, bottom: float) -> Ids:
        """Return the boxes completely inside a rectangle, for the rubber band."""
        ids = self.box_grid.in_rect(left, top, right, bottom)
        corners = self.corners[ids]
        inside = (corners[:, 0] >= left) & (corners[:, 1] >= top) & (corners[:, 2] <= right) & (corners[:, 3] <= bottom)
        return ids[inside]

    def objects_at(self, hit: Hit) -> list[Node | Value | Graph]:
        """Return the model objects of a hit: a value, the object of the box, all nodes of a group."""
        value = self.value_at(hit)
        if value is not None:
            return [value]
        if hit.box < 0:
            return []
        subject = self.boxes[hit.box].subject
        return list(subject.all_nodes()) if isinstance(subject, Scope) else [subject]

    def value_at(self, hit: Hit) -> Value | None:
        """Return the value of a hit: of an edge, a pill, a row of a constant, or a port."""
        if hit.edge >= 0:
            return self.drawing.values[hit.edge]
        if hit.box < 0:
            return None
        subject = self.boxes[hit.box].subject
        if isinstance(subject, Value):
            return subject
        if hit.row is not None and isinstance(hit.row.subject, Value):
            return hit.row.subject
        if isinstance(subject, Node) and hit.part == "input":
            return subject.inputs[hit.port]
        if isinstance(subject, Node) and hit.part == "output":
            return subject.outputs[hit.port]
        return None


def _first_of_values(drawing: Drawing) -> Ids:
    """Return one edge for each value that leaves a box; expansions of a function share values."""
    sources = drawing.edges[:, 0]
    values = np.fromiter(map(id, drawing.values), np.int64, len(drawing.values))
    order = np.lexsort((sources, values))
    again = (np.diff(values[order], prepend=-1) == 0) & (np.diff(sources[order], prepend=-1) == 0)
    return np.sort(order[~again])


def _first_in_cells(points: Real) -> Ids:
    """Return the indices, ascending, of the first `_MOST_LABELS` points of each square cell of `_CROWD` px."""
    columns, rows = np.floor(points / _CROWD).astype(np.int64).T
    order = np.lexsort((columns, rows))
    is_first = (np.diff(columns[order], prepend=-1) != 0) | (np.diff(rows[order], prepend=-1) != 0)
    numbers = np.arange(len(order))
    in_cell = numbers - np.maximum.accumulate(np.where(is_first, numbers, 0))
    return np.sort(order[in_cell < _MOST_LABELS])


def _corners(rects: Real) -> Real:
    """[N, 4] left, top, right, bottom."""
    return np.concatenate([rects[:, :2], rects[:, :2] + rects[:, 2:]], 1)


def _extents(pieces: Real) -> Real:
    """[P, 4] left, top, right, bottom of cubic pieces."""
    return np.concatenate([pieces.min(1), pieces.max(1)], 1) if len(pieces) else np.zeros((0, 4))


def _are_curved(pieces: Real) -> NDArray[np.bool_]:
    """[P] which pieces are more than a straight line."""
    start = pieces[:, 0]
    along = pieces[:, 3] - start
    length = np.maximum(np.hypot(along[:, 0], along[:, 1]), 1e-9)
    aside = [
        np.abs(along[:, 0] * (pieces[:, i, 1] - start[:, 1]) - along[:, 1] * (pieces[:, i, 0] - start[:, 0]))
        for i in (1, 2)
    ]
    return np.asarray(np.maximum(*aside) / length > 0.25)
