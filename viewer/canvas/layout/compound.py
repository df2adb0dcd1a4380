"""Nested containers: every nesting level is laid out flat, from the innermost outwards.

An edge that crosses a container's border is split there. Inside, the piece ends in a point on the border, which is
a node of size 0 in the first or last rank; outside, that point is a port of the container. So pieces are routed
among nodes of one level only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.canvas.layout import columns, container_entries, flat, packing, routes
from onnx_workbench.viewer.canvas.layout.arrays import Index, Real, dense, offsets, rank_within
from onnx_workbench.viewer.canvas.layout.graph import LayoutGraph, PlacedGraph
from onnx_workbench.viewer.canvas.layout.previous_order import PreviousOrder
from onnx_workbench.viewer.canvas.layout.problem import LayoutProblem, Level


@dataclass(slots=True)
class _Pieces:
    """Parts of edges in the coordinates of the container they run in."""

    edge: list[Index] = field(default_factory=list)
    key: list[Index] = field(default_factory=list)
    container: list[Index] = field(default_factory=list)
    lines: list[routes.Polylines] = field(default_factory=list)

    def joined(self, left: Real, top: Real, edges: int) -> routes.Polylines:
        """Join the pieces to edges; `left` and `top` are the corners of the containers, the last of the sheet."""
        edge = np.concatenate(self.edge)
        container = np.concatenate(self.container)
        points = np.concatenate([lines.points for lines in self.lines])
        counts = np.concatenate([np.diff(lines.starts) for lines in self.lines])
        starts = np.zeros(len(edge) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        points = points + np.repeat(np.stack([left[container], top[container]], 1), counts, axis=0)
        whole = routes.join(edge, np.concatenate(self.key), routes.Polylines(points, starts), edges)
        return routes.straighten(whole)


class _Border:
    """Crossings of container borders by edges: one point per container, direction and value.

    `home` [edges] is the container of every crossing edge; the first `leaving` edges leave it, the others enter. Points
    are numbered after the level's `nodes` nodes.
    """

    def __init__(self, nodes: int, home: Index, leaving: int, value: Index) -> None:
        leaves = np.arange(len(home)) < leaving
        point, count = dense(home, leaves.astype(np.int64), value)
        self.out, self.into = point[:leaving] + nodes, point[leaving:] + nodes
        self.home = np.zeros(count, np.int64)  # [points] the container
        self.home[point] = home
        self.leaves = np.zeros(count, bool)  # [points]
        self.leaves[point] = leaves
        # all points of a container belong to one part of it, which reaches from border to border
        first = rank_within(self.home) == 0
        head = np.maximum.accumulate(np.where(first, np.arange(count), 0))
        self.ties = (np.arange(count) + nodes, head + nodes)


class Nesting:
    """Solves one graph; used once."""

    def __init__(self, graph: LayoutGraph, progress: Progress, before: PreviousOrder | None = None) -> None:
        self.graph, self.progress, self.before = graph, progress, before
        n = len(graph.width)
        self.depth = _depths(graph.parent)
        self.width, self.height = graph.width.copy(), graph.height.copy()
        self.entry_room = np.zeros(n)  # px from the left for a container's title and the edges that enter beside it
        self.x, self.y = np.zeros(n), np.zeros(n)
        self.rank = np.zeros(n, np.int64)
        self.nested = bool((graph.parent >= 0).any())
        self.shift: Real | None = None  # see PlacedGraph
        self.part = np.zeros(n, np.int64)
        self.bands: list[Real] = []
        self.homes: list[int] = []  # the container of each part
        self.pieces = _Pieces()
        # the ends of every edge: ancestors at the current level
        self.head, self.tail = graph.source.copy(), graph.target.copy()
        self.head_port, self.tail_port = graph.source_ports.copy(), graph.target_ports.copy()
        self.value, _ = dense(graph.source, np.nan_to_num(graph.source_ports, nan=-1.0))
        self.meet = _meeting_depth(graph.source, graph.target, graph.parent, self.depth)
        within = self.meet < 0  # an edge between a container and something inside it
        self.meet[within] = -1 - self.meet[within]
        self.meets = ~within

    def solve(self) -> PlacedGraph:
        """Lay out every level, innermost first, then position the content of containers."""
        deepest = int(self.depth.max())
        by_depth = np.argsort(self.depth, kind="stable")
        levels = offsets(self.depth, deepest + 1)
        for level in range(deepest, -1, -1):
            self._level(level, np.sort(by_depth[levels[level] : levels[level + 1]]))
        parent = self.graph.parent
        for level in range(1, deepest + 1):
            nodes = by_depth[levels[level] : levels[level + 1]]
            self.x[nodes] += self.x[parent[nodes]]
            self.y[nodes] += self.y[parent[nodes]]
        left, top = np.append(self.x, 0.0), np.append(self.y, 0.0)
        self.bands = [band + top[home] for band, home in zip(self.bands, self.homes, strict=True)]
        lines = self.pieces.joined(left, top, len(self.graph.source))
        return PlacedGraph(
            self.x, self.y, self.width, self.height, self.rank, lines, self.part, self.bands, self.nested, self.shift
        )

    def _level(self, level: int, nodes: Index) -> None:
        graph = self.graph
        across = np.flatnonzero((self.meet == level) & self.meets)
        out = np.flatnonzero((self.depth[self.head] == level) & (self.meet < level))
        into = np.flatnonzero((self.depth[self.tail] == level) & (self.meet < level))
        home = np.concatenate([graph.parent[self.head[out]], graph.parent[self.tail[into]]])
        border = _Border(len(nodes), home, len(out), self.value[np.concatenate([out, into])])
        problem = self._problem(nodes, across, out, into, border)
        solution = flat.solve(problem, self.progress)
        if self.nested:  # else the whole is wrapped in the end, and stays as it is here for the next layout
            self._fold(nodes, solution, problem)
        container = np.concatenate([graph.parent[nodes], border.home])
        self._make_room(border)
        self._adopt(level, nodes, solution, container, problem)
        self._spread_own(container, border)
        key = np.repeat([0, -1 - level, 1 + level], [len(across), len(out), len(into)])
        runs_in = container[problem.source]
        self.pieces.edge.append(np.concatenate([across, out, into]))
        self.pieces.key.append(key)
        self.pieces.container.append(runs_in)
        lines = self._to_borders(solution.lines, runs_in, key)
        enters = self._entry_positions(border, solution)
        self.pieces.lines.append(self._rerouted(lines, solution, enters, len(across) + len(out), border))
        self._lift(out, self.head, self.head_port, solution.x[border.out])
        self._lift(into, self.tail, self.tail_port, enters[border.into])

    def _fold(self, nodes: Index, solution: flat.Solution, problem: LayoutProblem) -> None:
        """Fold the slender parts of a level into columns."""
        x = solution.x.copy()
        if columns.fold(solution, problem, self.graph.columns):
            self.shift = np.zeros(len(self.graph.width)) if self.shift is None else self.shift
            self.shift[nodes] = (solution.x - x)[: len(nodes)]

    def _make_room(self, border: _Border) -> None:
        """Widen containers in which edges enter beside the title."""
        counts = np.bincount(border.home[~border.leaves], minlength=len(self.width))
        self.entry_room = container_entries.needed_width(self.graph.titles, counts, self.graph.spacing.edge)
        self.width = np.maximum(self.width, self.entry_room + self.graph.titles[:, 1])

    def _spread_own(self, container: Index, border: _Border) -> None:
        """Scale the ports of containers to their current width; at the top, to the title if edges enter beside it."""
        graph, n = self.graph, len(self.width)
        opened, entered = np.zeros(n, bool), np.zeros(n, bool)
        opened[container[container >= 0]] = True
        entered[border.home[~border.leaves]] = True
        above = np.where(entered, np.maximum(graph.titles[:, 0], graph.inset[0]), self.width)
        own = opened[graph.source]
        self.head_port[own] = (graph.source_ports * (self.width / graph.width)[graph.source])[own]
        own = opened[graph.target]
        self.tail_port[own] = (graph.target_ports * (above / graph.width)[graph.target])[own]

    def _entry_positions(self, border: _Border, solution: flat.Solution) -> Real:
        """[nodes and points] x at which edges enter: as solved inside, but moved beside the titles."""
        x = solution.x.copy()
        enter = np.flatnonzero(~border.leaves)
        at = enter + len(x) - len(border.home)
        graph = self.graph
        x[at] = container_entries.entry_positions(
            x[at], border.home[enter], graph.titles, self.width, graph.spacing.edge
        )
        return x

    def _rerouted(
        self, lines: routes.Polylines, solution: flat.Solution, enters: Real, others: int, border: _Border
    ) -> routes.Polylines:
        """Return the pieces; those after the first `others`, which enter containers, begin at their entry points."""
        moved = np.flatnonzero(np.abs(enters - solution.x)[border.into] > 0.01)
        point = border.into[moved]
        # a point has no extent and is alone in its rank: below its band lies the gap before the first nodes
        bands = [solution.bands[part] for part in solution.part[point].tolist()]
        top = solution.y[point]
        gaps = np.stack([top, top + [band[1, 0] - band[0, 1] for band in bands]], 1)
        return container_entries.rerouted(lines, others + moved, enters[point], gaps)

    def _problem(self, nodes: Index, across: Index, out: Index, into: Index, border: _Border) -> LayoutProblem:
        graph = self.graph
        n, count = len(nodes), len(border.home)
        local = np.full(len(graph.width), -1)
        local[nodes] = np.arange(n)
        none = np.zeros(count)
        middle = np.zeros(len(out) + len(into))  # border points have no width
        return LayoutProblem(
            width=np.concatenate([self.width[nodes], none]),
            height=np.concatenate([self.height[nodes], none]),
            source=np.concatenate([local[self.head[across]], local[self.head[out]], border.into]),
            target=np.concatenate([local[self.tail[across]], border.out, local[self.tail[into]]]),
            source_ports=np.concatenate([self.head_port[across], self.head_port[out], middle[: len(into)]]),
            target_ports=np.concatenate([self.tail_port[across], middle[: len(out)], self.tail_port[into]]),
            first=np.concatenate([graph.first[nodes], ~border.leaves]),
            last=np.concatenate([graph.last[nodes], border.leaves]),
            border=np.concatenate([np.zeros(n, bool), np.ones(count, bool)]),
            ties=border.ties,
            before=None if self.before is None else self._level_before(self.before, nodes, across, out, into, border),
            spacing=graph.spacing,
        )

    def _level_before(
        self, before: PreviousOrder, nodes: Index, across: Index, out: Index, into: Index, border: _Border
    ) -> Level:
        """Return the old layout of a level; border points were where routes crossed the border."""
        count = len(border.home)
        edges = np.concatenate([out, into])
        inner = np.concatenate([self.head[out], self.tail[into]])
        home = before.node[self.graph.parent[inner]]
        old, leaves = before.placed, np.arange(len(edges)) < len(out)
        y = old.y[home] + np.where(leaves, old.height[home], 0.0)
        x = before.along(before.edge[edges], np.where(home >= 0, y, np.nan))
        points = np.zeros(count)
        points[np.concatenate([border.out, border.into]) - len(nodes)] = np.where(np.isnan(x), before.keys[inner], x)
        return Level(
            before=before,
            node=np.concatenate([before.node[nodes], np.full(count, -1)]),
            edge=before.edge[np.concatenate([across, edges])],
            keys=np.concatenate([before.keys[nodes], points]),
        )

    def _adopt(
        self, level: int, nodes: Index, solution: flat.Solution, container: Index, problem: LayoutProblem
    ) -> None:
        """Pack the parts of every container and give the container its size."""
        inset = self.graph.inset if level else (0.0, 0.0, 0.0, 0.0)
        parts = len(solution.extent)
        home = np.zeros(parts, np.int64)
        home[solution.part] = container
        bordered = np.zeros(parts, bool)
        bordered[solution.part[problem.border]] = True
        corner = np.zeros((parts, 2))
        by_home = np.argsort(home, kind="stable")
        bounds = np.flatnonzero(np.concatenate([[True], np.diff(home[by_home]) != 0, [True]]))
        for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            mine = by_home[begin:end]
            main = np.flatnonzero(bordered[mine])
            extent = solution.extent[mine]
            if len(main) and level:
                # a part narrower than the title is moved to the right, where edges enter
                corner[mine[main[0]], 0] = self._widen(extent, int(main[0]), int(home[mine[0]]))
            place, width, height = packing.pack(extent, self.graph.spacing.component, int(main[0]) if len(main) else -1)
            corner[mine] += place + inset[:2]
            if level:
                owner = int(home[mine[0]])
                wanted = width + inset[0] + inset[2]
                spare = max(0.0, (self.width[owner] - wanted) / 2)
                corner[mine, 0] += spare
                self.width[owner] = max(self.width[owner], wanted)
                self.height[owner] = height + inset[1] + inset[3]
        self.part[nodes] = solution.part[: len(nodes)] + len(self.bands)
        self.bands += [band + y for band, y in zip(solution.bands, corner[:, 1].tolist(), strict=True)]
        self.homes += home.tolist()
        shift = corner[solution.part]
        solution.x += shift[:, 0]
        solution.y += shift[:, 1]
        of_point = solution.part[problem.source][solution.lines.owners()]
        solution.lines.points += corner[of_point]
        self.x[nodes], self.y[nodes] = solution.x[: len(nodes)], solution.y[: len(nodes)]
        self.rank[nodes] = solution.rank[: len(nodes)]

    def _widen(self, extent: Real, main: int, owner: int) -> float:
        """Widen the part that edges enter to the room they need; return its offset from the left."""
        missing = max(0.0, float(self.entry_room[owner] - self.graph.inset[0] - extent[main, 0]))
        extent[main, 0] += missing
        return missing

    def _to_borders(self, lines: routes.Polylines, container: Index, key: Index) -> routes.Polylines:
        """Extend pieces that end in border points to the container's border."""
        first = lines.starts[:-1][key > 0]
        lines.points[first, 1] = 0.0
        leaves = key < 0
        last = lines.starts[1:][leaves] - 1
        lines.points[last, 1] = self.height[container[leaves]]
        return lines

    def _lift(self, edges: Index, end: Index, port: Real, x: Real) -> None:
        end[edges] = self.graph.parent[end[edges]]
        port[edges] = x


def _depths(parent: Index) -> Index:
    depth = np.zeros(len(parent), np.int64)
    above = parent.copy()
    for _ in range(len(parent) + 1):
        nested = above >= 0
        if not nested.any():
            return depth
        depth[nested] += 1
        above[nested] = parent[above[nested]]
    msg = "parents must form a forest; found a node that contains itself"
    raise ValueError(msg)


def _meeting_depth(source: Index, target: Index, parent: Index, depth: Index) -> Index:
    """[E] the depth at which both ends' ancestors are siblings; -1 - depth where one end contains the other."""
    a, b = source.copy(), target.copy()
    while True:
        deeper = depth[a] > depth[b]
        a[deeper] = parent[a[deeper]]
        other = depth[b] > depth[a]
        b[other] = parent[b[other]]
        if not deeper.any() and not other.any():
            break
    while True:
        apart = (parent[a] != parent[b]) & (a != b)
        if not apart.any():
            break
        a[apart], b[apart] = parent[a[apart]], parent[b[apart]]
    result = depth[a].copy()
    within = (a == b) & (source != target)
    result[within] = -1 - result[within]
    return result
