"""One level of a graph, laid out from top to bottom: ranks, order, coordinates, lanes, routes.

All connected parts go through the phases together, stacked rank under rank, since the phases work on all ranks
at once; afterwards each part has its own coordinates and the caller packs them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.canvas.layout import (
    component_stacking,
    coordinates,
    fan_out,
    lanes,
    layered,
    ranks,
    routes,
)
from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real, dense, offsets, spans
from onnx_workbench.viewer.canvas.layout.component_stacking import Stack
from onnx_workbench.viewer.canvas.layout.problem import LayoutProblem, Unique

_LOOP = 14.0  # px by which a self-loop extends beside its node
_ROOM = 0.10  # px added to a gap per px of the widest horizontal bend in it
_MOST_ROOM = 160.0  # limit for the px added to a gap


@dataclass(slots=True)
class Solution:
    """Coordinates relative to the left top corner of each part."""

    x: Real  # [N] left
    y: Real  # [N] top
    rank: Index  # [N] within the part
    part: Index  # [N]
    extent: Real  # [parts, 2] width, height
    lines: routes.Polylines  # [E]
    bands: list[Real]  # per part: [ranks, 2] top and bottom of every rank


def solve(problem: LayoutProblem, progress: Progress) -> Solution:
    """Lay out one level; parts are in model order of their first nodes."""
    n = len(problem.width)
    edges = Unique(problem)
    loop = edges.source == edges.target
    back = ranks.back_edges(n, edges.source, edges.target) | loop
    stack = component_stacking.stack(problem, edges, back, progress)
    progress.report(6, 10)
    looped = np.zeros(n, bool)
    looped[edges.source[loop]] = True
    side = _lane_sides(stack, edges)
    x = _along(problem, stack, _extent(problem, stack.graph, looped), progress)
    _spread(problem, edges, stack, x, side, loop)
    progress.report(9, 10)
    return _Drawing(problem, edges, stack, x, side, loop).solution(progress)


def _along(problem: LayoutProblem, stack: Stack, extent: coordinates.Extent, progress: Progress) -> Real:
    """[V] x of all vertices; parts of the previous layout keep their positions as far as possible."""
    graph, order = stack.graph, stack.order
    part_of = np.concatenate([stack.part, stack.part[stack.owner[graph.dummy_trunk]]])
    fresh = component_stacking.fresh_parts(problem.before, stack.part)
    x = np.zeros(graph.vertices)
    if stack.known is None or fresh.any():
        x = coordinates.place(graph, order, part_of, extent, progress)
    if stack.known is not None:
        x = np.where(fresh[part_of], x, coordinates.keep(graph, order, stack.known, extent))
    return x


def _lane_sides(stack: Stack, edges: Unique) -> Mask:
    """[lines] whether the line's lane is on the left, the side nearer to its ends."""
    graph = stack.graph
    where = fan_out.places(graph, stack.order)
    lines = len(stack.owner)
    lane = graph.lane
    total = np.bincount(stack.line[lane], where[edges.target[lane]], lines)
    count = np.maximum(np.bincount(stack.line[lane], minlength=lines), 1)
    return np.asarray(total / count + where[stack.owner] < 1.0)


def _spread(problem: LayoutProblem, edges: Unique, stack: Stack, x: Real, side: Mask, loop: Mask) -> None:
    """Distribute ends without given ports along their node's border, in order of arrival.

    Ends of vertical segments get the middle.
    """
    graph, ports = stack.graph, stack.ports
    slot = np.empty(graph.vertices, np.int64)
    slot[stack.order] = np.arange(graph.vertices)
    s = graph.segments
    outside = np.where(side[stack.line], -1, graph.vertices)
    outside[loop] = graph.vertices + 1
    inside = ~graph.lane
    upright = np.abs(x[s.upper] - x[s.lower]) < 0.5
    for end in ("upper", "lower"):
        if end == "upper":
            segment, node, free, offset = graph.first_segment, edges.source, edges.free_source, ports.source_offset
            other, own_offset = s.lower, s.upper_offset
        else:
            segment, node, free, offset = graph.last_segment, edges.target, edges.free_target, ports.target_offset
            other, own_offset = s.upper, s.lower_offset
        main = np.append(upright, False)[segment] & inside
        towards = np.where(graph.lane, outside, slot[np.append(other, 0)[segment]])
        _distribute(problem.width, node, towards, main, free, offset)
        own_offset[segment[inside]] = offset[inside]


def _distribute(width: Real, node: Index, towards: Index, main: Mask, free: Mask, offset: Real) -> None:
    """Set the offsets of free ends in order of arrival, with the median of the main ends at the node's middle.

    Ends of edges to the same vertex share a position; others are at most 16 px apart.
    """
    node, towards, main = node[free], towards[free], main[free]
    key, count = dense(node, towards)
    if not count:
        return
    owner = np.zeros(count, np.int64)
    owner[key] = node
    starts = offsets(owner, len(width))
    is_main = np.zeros(count, bool)
    is_main[key[main]] = True
    is_main |= (np.bincount(owner, is_main, len(width)) == 0)[owner]
    place = np.arange(count) - starts[owner]
    mains = np.bincount(owner, is_main, len(width))
    # the median of the main positions: between two if their number is even
    nth = np.cumsum(is_main) - is_main
    nth -= nth[np.minimum(starts[owner], count - 1)]
    half = (mains[owner] - 1) / 2
    central = is_main & (np.abs(nth - half) < 1)
    centrals = np.maximum(np.bincount(owner, central, len(width)), 1)
    middle = np.bincount(owner, np.where(central, place, 0), len(width)) / centrals
    many = np.diff(starts)
    reach = np.maximum(middle, many - 1 - middle) + 0.5
    pitch = np.minimum(16.0, 0.45 * width / reach)
    offset[free] = ((place - middle[owner]) * pitch[owner])[key]


def _extent(problem: LayoutProblem, graph: layered.Layered, looped: Mask) -> coordinates.Extent:
    half = np.zeros(graph.vertices)
    half[: graph.nodes] = problem.width / 2
    right = half.copy()
    right[: graph.nodes][looped] += _LOOP
    solid = np.zeros(graph.vertices, bool)
    solid[: graph.nodes] = ~problem.border
    return coordinates.Extent(half, right, solid, problem.spacing.node, problem.spacing.edge)


class _Drawing:
    """Converts coordinates along the ranks to rectangles and routes."""

    def __init__(self, problem: LayoutProblem, edges: Unique, stack: Stack, x: Real, side: Mask, loop: Mask) -> None:
        self.problem, self.edges, self.stack = problem, edges, stack
        self.graph, self.ports, self.row = stack.graph, stack.ports, stack.row
        self.x, self.side, self.loop = x, side, loop
        self.middle = x[: stack.graph.nodes]
        self.lane_x = self._lanes()
        self._bands()
        self.y = (self.top + self.bottom)[stack.row] / 2 - problem.height / 2

    def _lanes(self) -> Real:
        """[values] x of every value's lane; 0 if it has none."""
        graph, edges = self.graph, self.edges
        n = graph.nodes
        left = np.full(graph.ranks, np.inf)
        right = np.full(graph.ranks, -np.inf)
        half = np.zeros(graph.vertices)
        half[:n] = self.problem.width / 2
        np.minimum.at(left, graph.rank, self.x - half)
        np.maximum.at(right, graph.rank, self.x + half)
        lane = np.flatnonzero(graph.lane & ~self.loop)
        result = np.zeros(len(self.stack.owner))
        if not len(lane):
            return result
        s, t = self.row[edges.source[lane]], self.row[edges.target[lane]]
        first = np.where(t > s, s + 1, t)
        last = np.where(t > s, t - 1, s)
        values, number = np.unique(self.stack.line[lane], return_inverse=True)
        begin = np.full(len(values), graph.ranks, np.int64)
        end = np.zeros(len(values), np.int64)
        np.minimum.at(begin, number, first)
        np.maximum.at(end, number, last)
        result[values] = lanes.assign(begin, end, self.side[values], left, right, self.problem.spacing.edge)
        return result

    def _bands(self) -> None:
        """Compute top and bottom of every rank; gaps grow with the widest horizontal bend of edges in them."""
        graph, stack = self.graph, self.stack
        height = np.zeros(graph.ranks)
        np.maximum.at(height, self.row, self.problem.height)
        s = graph.segments
        swing = np.abs((self.x[s.upper] + s.upper_offset) - (self.x[s.lower] + s.lower_offset))
        widest = np.zeros(graph.ranks)
        np.maximum.at(widest, graph.rank[s.upper], swing)
        lane = np.flatnonzero(graph.lane & ~self.loop)
        u = self.edges
        at = self.lane_x[self.stack.line[lane]]
        source, target = u.source[lane], u.target[lane]
        forward = self.row[target] > self.row[source]
        np.maximum.at(widest, self.row[source], np.abs(at - self.middle[source]))
        above = np.maximum(self.row[target] - 1, 0)
        np.maximum.at(widest, above, np.where(forward, np.abs(at - self.middle[target]), 0))
        gap = self.problem.spacing.rank + np.minimum(_ROOM * widest, _MOST_ROOM)
        gap[np.cumsum(stack.heights) - 1] = 0
        bottom = np.cumsum(height + gap) - gap
        top = bottom - height
        origin = np.repeat(top[stack.base], stack.heights)
        self.top, self.bottom = top - origin, bottom - origin

    def solution(self, progress: Progress) -> Solution:
        """Return the solution, moved so that each component begins at 0, 0."""
        stack = self.stack
        lines = routes.straighten(self._anchors())
        progress.check()
        x = self.middle - self.problem.width / 2
        parts = len(stack.base)
        low = np.full((parts, 2), np.inf)
        high = np.full((parts, 2), -np.inf)
        of_point = stack.part[self.edges.source][lines.owners()]
        for axis, start, size in ((0, x, self.problem.width), (1, self.y, self.problem.height)):
            np.minimum.at(low[:, axis], stack.part, start)
            np.maximum.at(high[:, axis], stack.part, start + size)
            np.minimum.at(low[:, axis], of_point, lines.points[:, axis])
            np.maximum.at(high[:, axis], of_point, lines.points[:, axis])
        lines.points -= low[of_point]
        bands = np.stack([self.top, self.bottom], 1) - np.repeat(low[:, 1], stack.heights)[:, None]
        return Solution(
            x=x - low[stack.part, 0],
            y=self.y - low[stack.part, 1],
            rank=stack.rank,
            part=stack.part,
            extent=high - low,
            lines=lines.take(self.edges.of_edge),
            bands=np.split(bands, stack.base[1:]),
        )

    def _trunks(self, edges: Index) -> list[tuple[Index, Index, Real]]:
        """Anchors of the dummies each edge passes. Straight runs are dropped per trunk, not per edge."""
        graph = self.graph
        n = graph.nodes
        r = graph.rank[n:]
        count = len(r)
        x = np.repeat(self.x[n:], 2)
        y = np.stack([self.top[r], self.bottom[r]], 1).reshape(-1)
        trunk = np.repeat(graph.dummy_trunk, 2)
        kept = np.ones(2 * count, bool)
        if count:
            kept[1:-1] = (
                (trunk[1:-1] != trunk[:-2])
                | (trunk[1:-1] != trunk[2:])
                | (np.abs(x[1:-1] - x[:-2]) >= routes.STRAIGHT)
                | (np.abs(x[1:-1] - x[2:]) >= routes.STRAIGHT)
            )
        places = np.flatnonzero(kept)
        rank_of = np.concatenate([[0], np.cumsum(kept)])
        has = edges[graph.trunk_count > 0]
        begin = 2 * (graph.trunk_start[has] - n)
        end = begin + 2 * graph.trunk_count[has] - 1
        sizes = rank_of[end] - rank_of[begin]
        chosen = places[spans(rank_of[begin], sizes)]
        owner = np.repeat(has, sizes)
        inner = (owner, chosen - np.repeat(begin, sizes), np.stack([x[chosen], y[chosen]], 1))
        return [inner, (has, end - begin, np.stack([x[end], y[end]], 1))]

    def _anchors(self) -> routes.Polylines:
        u, graph = self.edges, self.graph
        edges = np.arange(len(u.source))
        start_x = self.middle[u.source] + self.ports.source_offset
        end_x = self.middle[u.target] + self.ports.target_offset
        start_y = self.y[u.source] + self.problem.height[u.source]
        end_y = self.y[u.target]
        rs, rt = self.row[u.source], self.row[u.target]
        near = ~self.loop
        far = np.iinfo(np.int32).max
        zero = np.zeros(len(edges), np.int64)

        def part(which: Mask, key: int, x: Real, y: Real) -> tuple[Index, Index, Real]:
            chosen = edges[which]
            return chosen, zero[chosen] + key, np.stack([x[which], y[which]], 1)

        everyone = np.ones(len(edges), bool)
        parts = [
            part(everyone, -2, start_x, start_y),
            part(near, -1, start_x, self.bottom[rs]),
            part(near, far - 1, end_x, self.top[rt]),
            part(everyone, far, end_x, end_y),
        ]
        parts.extend(self._trunks(edges))
        lane_x = self.lane_x[self.stack.line]
        forward = graph.lane & (rt > rs)
        parts.append(part(forward, 0, lane_x, self.top[np.minimum(rs + 1, graph.ranks - 1)]))
        parts.append(part(forward, 1, lane_x, self.bottom[np.maximum(rt - 1, 0)]))
        backward = graph.lane & near & (rt <= rs)
        parts.append(part(backward, 0, lane_x, self.bottom[rs]))
        parts.append(part(backward, 1, lane_x, self.top[rt]))
        beside = self.middle[u.source] + self.problem.width[u.source] / 2 + _LOOP / 2
        parts.append(part(self.loop, 0, beside, start_y))
        parts.append(part(self.loop, 1, beside, end_y))
        return routes.from_parts(parts, len(edges))
