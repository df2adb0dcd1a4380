"""Resizing of nodes in place: a node grows into the free space beside and below it, and nothing else moves.

This is cheap because routes keep their number of points: ends keep their positions along the border, and if the
band of a rank grows into the gap below, the points at which routes begin to bend move down with its lower edge.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_workbench.viewer.canvas.layout import routes
from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real
from onnx_workbench.viewer.canvas.layout.graph import LayoutGraph, PlacedGraph

_NEAR = 0.25  # px within which heights count as equal
_GAP_LEFT = 0.35  # least remaining share of the distance between ranks after a node has grown into it
_CLEAR = 4.0  # px between a grown node and the bend of a route
_STEPS = 64  # number of points at which such a route is sampled


class ResizeInPlace:
    """Resizes nodes one after the other in `placed`, which is invalid if one did not fit."""

    def __init__(self, graph: LayoutGraph, old: PlacedGraph) -> None:
        """`graph` has the new sizes and ports; `old` is the layout for the old ones and is not changed."""
        self.graph = graph
        lines = routes.Polylines(old.lines.points.copy(), old.lines.starts)
        self.placed = replace(
            old, x=old.x.copy(), y=old.y.copy(), width=old.width.copy(), height=old.height.copy(), lines=lines,
            bands=list(old.bands),
        )  # fmt: skip
        self.owner = lines.owners()
        self.redrawn: set[int] = set()  # edges

    def fit(self, node: int) -> bool:
        """Resize a node to its size in the graph; return False if there is not enough room."""
        graph, placed = self.graph, self.placed
        if (graph.parent == node).any() or ((graph.source == node) & (graph.target == node)).any():
            return False  # a container has the size of its content; a self-loop is at the right border
        level = self._level(node)
        left = self._place_along(node, level)
        if left is None:
            return False
        bottom = float(placed.y[node] + graph.height[node])
        if not self._reach_down(node, level, bottom):
            return False
        placed.x[node], placed.width[node], placed.height[node] = left, graph.width[node], graph.height[node]
        leaving = np.flatnonzero(graph.source == node)
        placed.lines.points[placed.lines.starts[leaving], 1] = bottom
        self.redrawn.update(leaving.tolist())
        return self._is_clear(node, level)

    def _level(self, node: int) -> Mask:
        """[E] edges in the node's part and nesting level."""
        graph, placed = self.graph, self.placed
        parent = graph.parent[node]
        is_inside = np.zeros(len(graph.source), bool)
        for ends in (graph.source, graph.target):
            at = ends.copy()
            while True:
                deeper = (at >= 0) & (graph.parent[at] != parent)
                deeper &= graph.parent[np.maximum(at, 0)] >= 0
                if not deeper.any():
                    break
                at[deeper] = graph.parent[at[deeper]]
            is_inside |= (graph.parent[at] == parent) & (placed.part[at] == placed.part[node])
        return is_inside

    def _place_along(self, node: int, level: Mask) -> float | None:
        """Return the left border of the node in its new width, which contains its ends; None if not free."""
        graph, placed = self.graph, self.placed
        width, x = float(graph.width[node]), float(placed.x[node])
        right = x + float(placed.width[node])
        low, high = self._free(node, level)
        low, high = min(low, x), max(high, right)
        ends = self._ends(node)
        if len(ends) and width < right - x:
            low, high = max(low, float(ends.max()) - width), min(high, float(ends.min()) + width)
        if high - low < width - 0.01:
            return None
        return min(max((x + right - width) / 2, low), high - width)

    def _ends(self, node: int) -> Real:
        """Return the x of the ends of edges at a node."""
        lines = self.placed.lines
        starts = lines.starts[:-1][self.graph.source == node]
        ends = lines.starts[1:][self.graph.target == node] - 1
        return np.asarray(lines.points[np.concatenate([starts, ends]), 0])

    def _free(self, node: int, level: Mask) -> tuple[float, float]:
        """Return the free distances to the left and to the right."""
        graph, placed = self.graph, self.placed
        spacing = graph.spacing
        part, rank = placed.part[node], placed.rank[node]
        of_part = placed.part == part
        beside = np.flatnonzero(of_part & (placed.rank == rank))
        beside = beside[beside != node]
        passing = self._passing(node, level)
        starts = np.concatenate([placed.x[beside] - spacing.node, passing - spacing.edge])
        ends = np.concatenate([(placed.x + placed.width)[beside] + spacing.node, passing + spacing.edge])
        middle = placed.x[node] + placed.width[node] / 2
        on_left = np.concatenate([placed.x[beside] + placed.width[beside] / 2, passing]) < middle
        low, high = -np.inf, np.inf
        home = graph.parent[node]
        if home >= 0:
            low = float(placed.x[home]) + graph.inset[0]
            high = float(placed.x[home] + placed.width[home]) - graph.inset[2]
        if not (of_part | (graph.parent != home)).all():  # other parts beside this one
            low = max(low, float(placed.x[of_part].min()))
            high = min(high, float((placed.x + placed.width)[of_part].max()))
        lefts, rights, own = self._columns(node)
        if own:
            low = max(low, float(rights[own - 1]) + spacing.component / 2)
        if own + 1 < len(lefts):
            high = min(high, float(lefts[own + 1]) - spacing.component / 2)
        return max(low, ends[on_left].max(initial=low)), min(high, starts[~on_left].min(initial=high))

    def _columns(self, node: int) -> tuple[Real, Real, int]:
        """[columns] the least and greatest x of the nodes in each column of the node's part; and its own column."""
        placed = self.placed
        part = placed.part[node]
        column = np.cumsum(np.diff(placed.bands[part][:, 0], prepend=-np.inf) < 0)  # ranks begin further up there
        nodes = np.flatnonzero(placed.part == part)
        of_node = column[placed.rank[nodes]]
        lefts, rights = np.full(column[-1] + 1, np.inf), np.full(column[-1] + 1, -np.inf)
        np.minimum.at(lefts, of_node, placed.x[nodes])
        np.maximum.at(rights, of_node, (placed.x + placed.width)[nodes])
        return lefts, rights, int(column[placed.rank[node]])

    def _passing(self, node: int, level: Mask) -> Real:
        """Return the x of routes that pass the node's band without ending in it."""
        graph, placed = self.graph, self.placed
        y = float(placed.bands[placed.part[node]][placed.rank[node]].mean())
        points, owner = placed.lines.points, self.owner
        low, high = np.minimum(points[:-1, 1], points[1:, 1]), np.maximum(points[:-1, 1], points[1:, 1])
        hit = (low <= y) & (high > y) & (owner[:-1] == owner[1:])
        at = np.flatnonzero(hit)
        edge = owner[at]
        foreign = level[edge] & (graph.source[edge] != node) & (graph.target[edge] != node)
        return np.asarray(points[at[foreign], 0])

    def _reach_down(self, node: int, level: Mask, bottom: float) -> bool:
        """Extend the node's band to its far end; return False if the next rank is too near."""
        graph, placed = self.graph, self.placed
        part, rank = int(placed.part[node]), int(placed.rank[node])
        bands = placed.bands[part]
        before = float(bands[rank, 1])
        if bottom <= before + 0.01:
            return True
        if rank + 1 < len(bands):
            if bottom > bands[rank + 1, 0] - _GAP_LEFT * graph.spacing.rank:
                return False
            source, target = placed.rank[graph.source], placed.rank[graph.target]
            backward = (source >= target) & (placed.part[graph.target] == part)
            if (backward & ((source == rank) | (target == rank + 1))).any():
                return False  # its route swings out into the gap, further than its points
        elif graph.parent[node] >= 0 or len(placed.bands) > 1:
            return False
        bands = bands.copy()
        bands[rank, 1] = bottom
        placed.bands[part] = bands
        points = placed.lines.points
        swings = level[self.owner] & (np.abs(points[:, 1] - before) < _NEAR)
        home = graph.parent[node]
        if home >= 0:  # at the same height in another column around it, a route may bend too
            swings &= (points[:, 0] >= placed.x[home]) & (points[:, 0] <= placed.x[home] + placed.width[home])
        swings[placed.lines.starts[:-1]] = False  # these are ends at nodes
        swings[placed.lines.starts[1:] - 1] = False
        lefts, rights, own = self._columns(node)
        if len(lefts) > 1:
            x = points[:, 0]
            inside = [swings & (x >= low) & (x <= high) for low, high in zip(lefts, rights, strict=True)]
            if (swings & ~np.logical_or.reduce(inside)).any():
                return False  # between columns: of a lane, or of a line beside this one
            swings = inside[own]
        points[swings, 1] = bottom
        self.redrawn.update(self.owner[swings].tolist())
        return True

    def _is_clear(self, node: int, level: Mask) -> bool:
        """Return whether no other route bends through the node."""
        graph, placed = self.graph, self.placed
        points, owner = placed.lines.points, self.owner
        left, right = placed.x[node] - _CLEAR, placed.x[node] + placed.width[node] + _CLEAR
        top, bottom = placed.y[node], placed.y[node] + placed.height[node] + 1
        a, b = points[:-1], points[1:]
        edge = owner[:-1]
        near = (edge == owner[1:]) & level[edge] & (graph.source[edge] != node) & (graph.target[edge] != node)
        near &= (np.minimum(a[:, 1], b[:, 1]) < bottom) & (np.maximum(a[:, 1], b[:, 1]) > top)
        near &= (np.minimum(a[:, 0], b[:, 0]) < right) & (np.maximum(a[:, 0], b[:, 0]) > left)
        at = np.flatnonzero(near)
        t = np.linspace(0, 1, _STEPS + 1)
        # the ends of a cubic are vertical, so x and y have these shares of their ranges along it
        along, down = 3 * t**2 - 2 * t**3, 1.5 * t * (1 - t) + t**3
        x = a[at, 0, None] + (b[at, 0] - a[at, 0])[:, None] * along
        y = a[at, 1, None] + (b[at, 1] - a[at, 1])[:, None] * down
        return not ((x > left) & (x < right) & (y > top) & (y < bottom)).any()

    def changed(self) -> Index:
        """Return the edges whose routes changed."""
        return np.array(sorted(self.redrawn), np.int64)
