"""Incremental layout after an edit: new nodes and edges are inserted; everything else stays.

This is possible because every route is vertical within a rank's band. So a new band can be inserted anywhere by moving
everything below down, and a route is defined by its x at each band. `Unfit` is raised if an edit does not fit in; then
the caller lays out from scratch.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.canvas.layout import routes
from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real
from onnx_workbench.viewer.canvas.layout.graph import LayoutGraph, PlacedGraph

_NEAR = 0.25  # px within which heights count as equal
_FREE = 300.0  # px from its preferred position within which a new node is placed rather than in a new rank
_MOST_SIZED = 256  # limit for resized nodes: each, and each node that it moves, costs a pass over all edges


class Unfit(Exception):
    """The edit cannot be applied without moving nodes that should stay."""


@dataclass(slots=True)
class LayoutMatching:
    """Old index of each new node and edge, -1 for added ones."""

    node: Index  # [N]
    edge: Index  # [E]


@dataclass(slots=True)
class _Route:
    """An edge's route: its ends and its x at each band between."""

    start: tuple[float, float]
    passes: list[float]
    end: tuple[float, float]


class IncrementalLayout:
    """The update of a layout after one edit; used once."""

    def __init__(
        self, old: PlacedGraph, old_graph: LayoutGraph, graph: LayoutGraph, match: LayoutMatching, progress: Progress
    ) -> None:
        self.graph, self.match, self.progress = graph, match, progress
        is_old = match.node >= 0
        origin = np.maximum(match.node, 0)

        def carried(values: Real) -> Real:
            return np.where(is_old, values[origin], 0.0)

        self.x, self.y = carried(old.x), carried(old.y)
        self.width, self.height = carried(old.width), carried(old.height)
        self.rank = np.where(is_old, old.rank[origin], -1)
        self.part = np.where(is_old, old.part[origin], -1)
        self.bands = list(old.bands)
        kept = match.edge >= 0
        self.edges = np.flatnonzero(kept)
        self.lines = old.lines.take(match.edge[kept])
        self.old, self.old_graph = old, old_graph
        self.redrawn: dict[int, _Route] = {}
        self.free_starts, self.free_ends = self._freed_ports()

    def solve(self) -> PlacedGraph:
        """Apply all changes, or raise Unfit."""
        graph = self.graph
        new = np.flatnonzero(self.match.node < 0)
        self.width[new], self.height[new] = graph.width[new], graph.height[new]
        for node in self._in_order(new):
            self.progress.check()
            self._insert(node)
        sized = (self.match.node >= 0) & (
            (np.abs(self.width - graph.width) > 0.01) | (np.abs(self.height - graph.height) > 0.01)
        )
        if np.count_nonzero(sized) > _MOST_SIZED:
            raise Unfit
        for node in np.flatnonzero(sized).tolist():
            self.progress.check()
            self._resize(node)
        for edge in np.flatnonzero(self.match.edge < 0).tolist():
            self.progress.check()
            self._connect(edge)
        self._redraw()
        return PlacedGraph(
            self.x, self.y, self.width, self.height, self.rank, self.lines, self.part, self.bands,
            nested=False,
        )  # fmt: skip

    # -- positions of new nodes --------------------------------------------------------------------------------

    def _freed_ports(self) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
        """Return offsets from the node's middle at which removed edges started and ended."""
        new_of = np.full(len(self.old.x), -1)
        kept = np.flatnonzero(self.match.node >= 0)
        new_of[self.match.node[kept]] = kept
        gone = np.ones(len(self.old.lines.starts) - 1, bool)
        gone[self.match.edge[self.edges]] = False
        starts: dict[int, list[float]] = {}
        ends: dict[int, list[float]] = {}
        old = self.old
        for edge in np.flatnonzero(gone).tolist():
            first, last = int(old.lines.starts[edge]), int(old.lines.starts[edge + 1]) - 1
            for node, point, found in (
                (int(self.old_graph.source[edge]), first, starts),
                (int(self.old_graph.target[edge]), last, ends),
            ):
                middle = old.x[node] + old.width[node] / 2
                if new_of[node] >= 0:
                    found.setdefault(int(new_of[node]), []).append(float(old.lines.points[point, 0] - middle))
        return starts, ends

    def _in_order(self, new: Index) -> list[int]:
        """Return the new nodes in topological order."""
        graph = self.graph
        inner = (self.match.node[graph.source] < 0) & (self.match.node[graph.target] < 0)
        waiting = {int(v): 0 for v in new}
        after: dict[int, list[int]] = {int(v): [] for v in new}
        for s, t in zip(graph.source[inner].tolist(), graph.target[inner].tolist(), strict=True):
            after[s].append(t)
            waiting[t] += 1
        order = [v for v, count in waiting.items() if not count]
        for v in order:
            for t in after[v]:
                waiting[t] -= 1
                if not waiting[t]:
                    order.append(t)
        if len(order) < len(waiting):
            raise Unfit
        return order

    def _insert(self, node: int) -> None:
        graph = self.graph
        before = graph.source[graph.target == node]
        after = graph.target[graph.source == node]
        before, after = before[self.rank[before] >= 0], after[self.rank[after] >= 0]
        parts = np.unique(self.part[np.concatenate([before, after])])
        if len(parts) > 1:
            raise Unfit
        if not len(parts):
            self._insert_alone(node)
            return
        part = int(parts[0])
        self.part[node] = part
        middle = self.x + self.width / 2
        wish = float(np.median(middle[np.concatenate([before, after])])) - self.width[node] / 2
        low = int(self.rank[before].max()) if len(before) else int(self.rank[after].min()) - 2
        high = int(self.rank[after].min()) if len(after) else int(self.rank[before].max()) + 2
        if high <= low:
            raise Unfit
        rank = low + 1
        bands = self.bands[part]
        place = None
        if rank < high and 0 <= rank < len(bands):
            place = self._free_place(part, rank, node, wish)
        if place is None:
            rank = min(max(rank, 0), len(bands))
            self._cut_in(part, rank, float(self.height[node]))
            place = wish
        self.rank[node] = rank
        band = self.bands[part][rank]
        self.x[node] = place
        self.y[node] = band.mean() - self.height[node] / 2
        self._settle(part, rank, node)

    def _insert_alone(self, node: int) -> None:
        """Place a node without edges below everything."""
        placed = self.rank >= 0
        bottom = float((self.y + self.height)[placed].max()) + self.graph.spacing.component if placed.any() else 0.0
        self.part[node], self.rank[node] = len(self.bands), 0
        self.y[node] = bottom
        self.x[node] = float(self.x[placed].min()) if placed.any() else 0.0
        self.bands.append(np.array([[bottom, bottom + self.height[node]]]))

    def _free_place(self, part: int, rank: int, node: int, wish: float) -> float | None:
        """Return the left border of the nearest free position in the band; None if it is too far."""
        top, bottom = self.bands[part][rank]
        if self.height[node] > bottom - top + _NEAR:
            return None
        spacing = self.graph.spacing
        members = self._members(part, rank)
        _, passing = self._passing(part, rank)
        low = np.concatenate([self.x[members] - spacing.node, passing - spacing.edge])
        high = np.concatenate([self.x[members] + self.width[members] + spacing.node, passing + spacing.edge])
        place = _nearest_free(low, high, wish, float(self.width[node]))
        return place if abs(place - wish) <= _FREE else None

    def _members(self, part: int, rank: int) -> Index:
        return np.flatnonzero((self.part == part) & (self.rank == rank))

    def _passing(self, part: int, rank: int) -> tuple[Index, Real]:
        """Return the lines (indices in `lines`) that pass the band without ending there, and their x."""
        middle = float(self.bands[part][rank].mean())
        points = self.lines.points
        owner = self.lines.owners()
        low, high = np.minimum(points[:-1, 1], points[1:, 1]), np.maximum(points[:-1, 1], points[1:, 1])
        hit = (low <= middle) & (high > middle) & (owner[:-1] == owner[1:])
        line = owner[:-1][hit]
        edge = self.edges[line]
        s, t = self.graph.source[edge], self.graph.target[edge]
        here = (self.part[s] == part) & (self.rank[s] != rank) & (self.rank[t] != rank)
        return line[here], points[:-1, 0][hit][here]

    # -- making room -------------------------------------------------------------------------------------------

    def _cut_in(self, part: int, rank: int, height: float) -> None:
        """Insert an empty band before the band with this rank."""
        bands = self.bands[part]
        gap = self.graph.spacing.rank
        top = float(bands[rank - 1, 1]) + gap if rank else float(bands[0, 0])
        self._stretch(part, top - gap if rank else top - 1, height + gap, after=rank - 1)
        bands = self.bands[part]
        self.bands[part] = np.concatenate([bands[:rank], [[top, top + height]], bands[rank:]])
        self.rank[(self.part == part) & (self.rank >= rank)] += 1

    def _stretch(self, part: int, y: float, by: float, after: int) -> None:
        """Move everything below y in the part, and parts below it, down; routes stay vertical at y."""
        bottom = float(self.bands[part][-1, 1])
        below = np.array([float(b[0, 0]) > bottom for b in self.bands])
        below[part] = False
        moves = below[np.maximum(self.part, 0)] & (self.part >= 0)
        moves |= (self.part == part) & (self.rank > after)
        self.y[moves] += by
        owner = self.lines.owners()
        source = self.graph.source[self.edges]
        of_point = self.part[source[owner]]
        points = self.lines.points
        is_start = np.zeros(len(points), bool)
        is_start[self.lines.starts[:-1]] = True
        inner = (of_point == part) & (points[:, 1] > y - _NEAR)
        swings = inner | ((of_point == part) & (np.append(points[1:, 1], -np.inf) > y + _NEAR))
        held = swings & is_start & (self.rank[source[owner]] <= after)
        points = points.copy()
        points[(inner & ~held) | below[of_point], 1] += by
        # These bend from y, or from above if a node was made lower: their vertical run to the next band is new.
        again = np.flatnonzero(held)
        extra = points[again].copy()
        extra[:, 1] = y + by
        self.lines = routes.Polylines(
            np.insert(points, again + 1, extra, axis=0),
            self.lines.starts + np.searchsorted(again, self.lines.starts, side="left"),
        )
        bands = [b + by if below[i] else b for i, b in enumerate(self.bands)]
        own = bands[part].copy()
        own[after + 1 :] += by
        bands[part] = own
        self.bands = bands

    def _settle(self, part: int, rank: int, node: int) -> None:
        """Move the content of a band aside, as little as possible, to make room for the node."""
        spacing = self.graph.spacing
        members = self._members(part, rank)
        lines, passing = self._passing(part, rank)
        spots, number = np.unique(np.round(passing, 2), return_inverse=True)
        width = np.concatenate([self.width[members], np.zeros(len(spots))])
        middle = np.concatenate([self.x[members] + self.width[members] / 2, spots])
        solid = np.concatenate([np.ones(len(members), bool), np.zeros(len(spots), bool)])
        order = np.lexsort((~solid, middle))
        fixed = np.flatnonzero(order == np.flatnonzero(members == node)[0])[0]
        moved = _make_room(middle[order], width[order], solid[order], int(fixed), spacing.node, spacing.edge)
        target = np.empty(len(middle))
        target[order] = moved
        shift = target - middle
        for k in np.flatnonzero(np.abs(shift[: len(members)]) > 0.01).tolist():
            self._shift_node(int(members[k]), float(shift[k]))
        for line, place in zip(lines.tolist(), (target[len(members) :])[number].tolist(), strict=True):
            edge = int(self.edges[line])
            if abs(place - float(passing[np.flatnonzero(lines == line)[0]])) > 0.01:
                first = int(self.rank[self.graph.source[edge]])
                self._route(edge).passes[rank - first - 1] = place
        self._redraw()

    def _shift_node(self, node: int, by: float) -> None:
        self.x[node] += by
        graph = self.graph
        for edge in np.flatnonzero((graph.source == node) & (self.match.edge >= 0)).tolist():
            route = self._route(edge)
            route.start = (route.start[0] + by, route.start[1])
        for edge in np.flatnonzero((graph.target == node) & (self.match.edge >= 0)).tolist():
            route = self._route(edge)
            route.end = (route.end[0] + by, route.end[1])

    def _resize(self, node: int) -> None:
        part, rank = int(self.part[node]), int(self.rank[node])
        width, height = float(self.graph.width[node]), float(self.graph.height[node])
        top, bottom = (float(v) for v in self.bands[part][rank])
        if height > bottom - top:
            self._stretch(part, bottom, height - (bottom - top), after=rank)
            own = self.bands[part].copy()
            own[rank, 1] = top + height
            self.bands[part] = own
        self.x[node] += (self.width[node] - width) / 2
        self.width[node], self.height[node] = width, height
        self.y[node] = float(self.bands[part][rank].mean()) - height / 2
        graph = self.graph
        for edge in np.flatnonzero((graph.source == node) & (self.match.edge >= 0)).tolist():
            route = self._route(edge)
            route.start = (self._port(edge, node, route.start[0], start=True), float(self.y[node]) + height)
        for edge in np.flatnonzero((graph.target == node) & (self.match.edge >= 0)).tolist():
            route = self._route(edge)
            route.end = (self._port(edge, node, route.end[0], start=False), float(self.y[node]))
        self._redraw()
        self._settle(part, rank, node)

    def _port(self, edge: int, node: int, x: float, start: bool) -> float:
        port = (self.graph.source_ports if start else self.graph.target_ports)[edge]
        left, right = float(self.x[node]), float(self.x[node] + self.width[node])
        return min(max(x, left), right) if np.isnan(port) else left + float(port)

    # -- routes ------------------------------------------------------------------------------------------------

    def _route(self, edge: int) -> _Route:
        """Return the route of an existing edge for changing; `_redraw` stores it."""
        found = self.redrawn.get(edge)
        if found is None:
            line = int(np.searchsorted(self.edges, edge))
            points = self.lines.points[self.lines.starts[line] : self.lines.starts[line + 1]]
            s, t = int(self.graph.source[edge]), int(self.graph.target[edge])
            if self.rank[s] >= self.rank[t]:
                raise Unfit  # goes backwards: only a cyclic graph has these
            bands = self.bands[int(self.part[s])][int(self.rank[s]) + 1 : int(self.rank[t])]
            passes = np.interp(bands.mean(1), points[:, 1], points[:, 0]).tolist() if len(bands) else []
            found = _Route(
                (float(points[0, 0]), float(points[0, 1])), passes, (float(points[-1, 0]), float(points[-1, 1]))
            )
            self.redrawn[edge] = found
        return found

    def _connect(self, edge: int) -> None:
        """Route a new edge: vertical through all bands between, at the free x nearest to both ends."""
        s, t = int(self.graph.source[edge]), int(self.graph.target[edge])
        if self.part[s] != self.part[t] or self.rank[s] >= self.rank[t]:
            raise Unfit
        start_x = self._new_port(edge, s, self.free_starts, start=True)
        end_x = self._new_port(edge, t, self.free_ends, start=False)
        start = (start_x, float(self.y[s] + self.height[s]))
        end = (end_x, float(self.y[t]))
        between = (self.part == self.part[s]) & (self.rank > self.rank[s]) & (self.rank < self.rank[t])
        count = int(self.rank[t] - self.rank[s] - 1)
        passes: list[float] = []
        if count:
            gap = self.graph.spacing.edge
            bands = self.bands[int(self.part[s])]
            top, bottom = bands[self.rank[s] + 1, 0], bands[self.rank[t] - 1, 1]
            a, b = self.lines.points[:-1], self.lines.points[1:]
            own = self.lines.owners()
            beside = (own[:-1] == own[1:]) & (a[:, 1] < bottom) & (b[:, 1] > top) & (a[:, 0] == b[:, 0])
            low = np.concatenate([self.x[between] - gap, a[beside, 0] - gap / 2])
            high = np.concatenate([(self.x + self.width)[between] + gap, a[beside, 0] + gap / 2])
            passes = [_nearest_free(low, high, (start_x + end_x) / 2, 0.0)] * count
        self.redrawn[edge] = _Route(start, passes, end)
        self._redraw()

    def _new_port(self, edge: int, node: int, freed: dict[int, list[float]], start: bool) -> float:
        port = (self.graph.source_ports if start else self.graph.target_ports)[edge]
        if not np.isnan(port):
            return float(self.x[node] + port)
        offsets = freed.get(node)
        reach = float(self.width[node]) / 2
        if offsets:
            return float(self.x[node] + reach + min(max(offsets.pop(0), -reach), reach))
        ends = self.graph.source if start else self.graph.target
        used = np.flatnonzero(ends[self.edges] == node)
        at = self.lines.starts[:-1][used] if start else self.lines.starts[1:][used] - 1
        taken = self.lines.points[at, 0]
        pitch = min(16.0, 2 * reach / (len(taken) + 2))
        place = _nearest_free(taken - pitch * 0.99, taken + pitch * 0.99, float(self.x[node]) + reach, 0.0)
        return float(min(max(place, self.x[node]), self.x[node] + self.width[node]))

    def _redraw(self) -> None:
        """Replace the changed routes."""
        if not self.redrawn:
            return
        numbers = np.array(sorted(self.redrawn))
        drawn = [self._anchors(edge, self.redrawn[edge]) for edge in numbers.tolist()]
        starts = np.cumsum([0, *map(len, drawn)])
        fresh = routes.straighten(routes.Polylines(np.concatenate(drawn), starts))
        at = np.searchsorted(self.edges, numbers)
        replaces = np.append(self.edges, -1)[at] == numbers
        self.lines = self.lines.spliced(at, replaces, fresh)
        self.edges = np.insert(self.edges, at[~replaces], numbers[~replaces])
        self.redrawn = {}

    def _anchors(self, edge: int, route: _Route) -> Real:
        part, rank = int(self.part[self.graph.source[edge]]), int(self.rank[self.graph.source[edge]])
        bands = self.bands[part]
        points = [route.start, (route.start[0], float(bands[rank, 1]))]
        for i, x in enumerate(route.passes, rank + 1):
            points += [(x, float(bands[i, 0])), (x, float(bands[i, 1]))]
        points += [(route.end[0], float(bands[rank + len(route.passes) + 1, 0])), route.end]
        unique = [points[0]] + [b for a, b in pairwise(points) if a != b]
        return np.array(unique if len(unique) > 1 else points[:2])


def _nearest_free(low: Real, high: Real, wish: float, width: float) -> float:
    """Return the x nearest to the wish for which x … x + width overlaps no open interval low … high."""
    if not len(low):
        return wish
    order = np.argsort(low)
    low, high = low[order], np.maximum.accumulate(high[order])
    ends = np.concatenate([[-np.inf], high])
    begins = np.concatenate([low, [np.inf]])
    fits = begins - ends >= width
    x = np.clip(wish, ends[fits], begins[fits] - width)
    return float(x[np.abs(x - wish).argmin()])


def _make_room(middle: Real, width: Real, solid: Mask, fixed: int, node_gap: float, edge_gap: float) -> Real:
    """Move items in order away from the fixed one, each only as far as its neighbour requires."""
    result = middle.copy()

    def least(i: int, j: int) -> float:
        gap = node_gap if solid[i] and solid[j] else edge_gap if solid[i] or solid[j] else 0.0
        return float((width[i] + width[j]) / 2 + gap)

    for i in range(fixed + 1, len(result)):
        bound = result[i - 1] + least(i - 1, i)
        if result[i] >= bound - 0.01:
            break
        result[i] = bound
    for i in range(fixed - 1, -1, -1):
        bound = result[i + 1] - least(i, i + 1)
        if result[i] <= bound + 0.01:
            break
        result[i] = bound
    return result
