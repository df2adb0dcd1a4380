"""One level of a graph, laid out from top to bottom: ranks, order, coordinates, lanes, routes.

All connected parts go through the phases together, stacked rank under rank, since the phases work on all ranks
at once; afterwards each part has its own coordinates and the caller packs them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.progress import Progress
from viewer.canvas.layout import coordinates, fans, lanes, layered, ordering, ranks, routes
from viewer.canvas.layout.arrays import Index, Mask, Real, components, dense, offsets, spans
from viewer.canvas.layout.request import Spacing
from viewer.canvas.layout.traces import Before

_FEW = 6  # consumers up to which they stay with the producer rather than sink to where they are needed
_WIDE = 2.2  # how many times wider than high a part may get before its ranks are folded
_FAR_TOO_WIDE = 1.6  # how far the limit must be passed to be worth folding
_NARROW = 4000.0  # px up to which no rank is folded
_LOOP = 14.0  # px a self-loop swings out beside its node
_ROOM = 0.10  # px of gap for every px that the widest swing in it goes sideways
_MOST_ROOM = 160.0  # px that a gap grows at most


@dataclass(slots=True)
class Level:
    """What an old layout says of a level."""

    before: Before
    node: Index  # [N] old numbers, -1 for new nodes and border points
    edge: Index  # [E] old numbers, -1 for new ones
    keys: Real  # [N] where along the ranks the nodes were


@dataclass(slots=True)
class Problem:
    """N nodes and E edges; ports are px from the left border of the node, NaN where free."""

    width: Real
    height: Real
    source: Index
    target: Index
    source_ports: Real
    target_ports: Real
    first: Mask  # [N] wanted in the first rank
    last: Mask
    border: Mask  # [N] points on the border of a container: alone in the first or last rank, without extent
    ties: tuple[Index, Index]  # pairs of nodes that stay in one part without an edge
    before: Level | None  # a known order along the ranks
    spacing: Spacing


@dataclass(slots=True)
class Solution:
    """Coordinates from the left top corner of each part."""

    x: Real  # [N] left
    y: Real  # [N] top
    rank: Index  # [N] within the part
    part: Index  # [N]
    extent: Real  # [parts, 2] width, height
    lines: routes.Polylines  # [E]
    bands: list[Real]  # per part: [ranks, 2] top and bottom of every rank


def solve(problem: Problem, progress: Progress) -> Solution:
    """Lay one level out; parts come in model order of their first nodes."""
    n = len(problem.width)
    unique = _Unique(problem)
    back = ranks.back_edges(n, unique.source, unique.target)
    loop = unique.source == unique.target
    back |= loop
    part, rank = _ranked(problem, unique, back, progress)
    parts = int(part.max()) + 1
    heights = np.zeros(parts, np.int64)
    np.maximum.at(heights, part, rank + 1)
    base = np.cumsum(heights) - heights
    stacked = rank + base[part]
    progress.report(2, 10)

    ports = layered.fixed_ports(problem.width, unique.source, unique.target, unique.source_ports, unique.target_ports)
    ordered = _Ordering(problem, unique, part, stacked, ports, progress).solve()
    graph, order, known = ordered.graph, ordered.order, ordered.known
    progress.report(6, 10)

    looped = np.zeros(n, bool)
    looped[unique.source[loop]] = True
    side = _lane_sides(graph, unique, order)
    extent = _extent(problem, graph, looped)
    part_of = np.concatenate([part, part[unique.owner[graph.dummy_trunk]]])
    fresh = _fresh_parts(problem.before, part)
    x = np.zeros(graph.vertices)
    if known is None or fresh.any():
        x = coordinates.place(graph, order, part_of, extent, progress)
    if known is not None:
        x = np.where(fresh[part_of], x, coordinates.keep(graph, order, known, extent))
    _spread(problem, unique, graph, order, x, ports, side, loop)
    progress.report(9, 10)
    drawing = _Drawing(problem, unique, graph, ports, x, stacked, side, loop, part, base, heights)
    return drawing.solution(rank, progress)


def _fresh_parts(level: Level | None, part: Index) -> Mask:
    """[parts] of which too little was there before to go on from."""
    if level is None:
        return np.ones(int(part.max()) + 1, bool)
    total = np.bincount(part)
    return np.asarray(2 * np.bincount(part, level.node >= 0) < total)


@dataclass(slots=True)
class _Ordered:
    """Nodes and dummies in ranks and their order there; `known` [V]: where they were, if that is to be kept."""

    graph: layered.Layered
    order: Index
    crossings: int
    known: Real | None


class _Ordering:
    """Finds the order along the ranks of one level; values get a second line where that saves crossings."""

    def __init__(
        self, problem: Problem, unique: _Unique, part: Index, stacked: Index, ports: layered.Ports, progress: Progress
    ) -> None:
        self.problem, self.unique, self.part, self.stacked = problem, unique, part, stacked
        self.ports, self.progress = ports, progress

    def solve(self) -> _Ordered:
        """With one line for each value, then with two for those that fan out, if there are any."""
        level, unique = self.problem.before, self.unique
        one = self._anew() if level is None else self._mended(level, unique.value, unique.owner)
        if not one.crossings:
            return one
        halves = fans.split(one.graph, one.order, unique.source, unique.target, unique.value)
        if halves is None:
            return one
        two = self._halved(one, halves) if level is None else self._mended(level, halves.line, halves.owner)
        if two.crossings >= one.crossings:
            return one
        unique.value, unique.owner = halves.line, halves.owner
        return two

    def _build(self, line: Index) -> layered.Layered:
        unique, stacked = self.unique, self.stacked
        backwards = stacked[unique.target] <= stacked[unique.source]
        ranks = int(stacked.max()) + 1
        first = self.problem.first
        return layered.build(stacked, ranks, unique.source, unique.target, line, self.ports, backwards, first)

    def _anew(self) -> _Ordered:
        graph = self._build(self.unique.value)
        return _Ordered(graph, *ordering.arrange(graph, self.progress), None)

    def _halved(self, one: _Ordered, halves: fans.Split) -> _Ordered:
        graph = self._build(halves.line)
        keys = fans.keys(graph, fans.places(one.graph, one.order), self.unique.target, halves.line)
        return _Ordered(graph, *ordering.arrange_from(graph, keys, self.progress), None)

    def _mended(self, level: Level, line: Index, owner: Index) -> _Ordered:
        """As before, but for parts that are new."""
        graph = self._build(line)
        known = _known_order(level, self.unique, line, owner, graph)
        order, crossings = ordering.mend(graph, known, self.progress)
        fresh = _fresh_parts(level, self.part)
        if fresh.any():
            ranks_anew = np.zeros(graph.ranks, bool)
            ranks_anew[self.stacked[fresh[self.part]]] = True
            order = np.where(ranks_anew[graph.rank[order]], ordering.arrange(graph, self.progress)[0], order)
        return _Ordered(graph, order, crossings, known)


def _known_order(level: Level, unique: _Unique, line: Index, owner: Index, graph: layered.Layered) -> Real:
    """[V] keys along the ranks: where nodes were, and where the old routes of the lines through dummies ran."""
    n = graph.nodes
    edge_of = np.zeros(len(unique.source), np.int64)  # one of the level's for each without duplicates
    edge_of[unique.of_edge[::-1]] = np.arange(len(unique.of_edge))[::-1]
    farthest = np.zeros(len(owner), np.int64)
    by_reach = np.argsort(graph.trunk_count, kind="stable")
    farthest[line[by_reach]] = by_reach
    edge = farthest[graph.dummy_trunk]
    rank = graph.rank[n:]
    source, target = unique.source[edge], unique.target[edge]
    # a rank is where its nodes were; one that is all new lies below the source as far as it does now
    known = np.flatnonzero(level.node >= 0)
    row = np.full(graph.ranks, -1)
    row[graph.rank[known]] = level.node[known]
    below = level.before.heights(level.node[source], rank - graph.rank[source])
    y = level.before.heights(row[rank], np.zeros(len(rank), np.int64))
    x = level.before.along(level.edge[edge_of[edge]], np.where(np.isnan(y), below, y))
    nearer = np.where(2 * rank < graph.rank[source] + graph.rank[target], source, target)
    return np.concatenate([level.keys, np.where(np.isnan(x), level.keys[nearer], x)])


class _Unique:
    """Edges without duplicates, and the values they carry: a value leaves a node at one port."""

    def __init__(self, problem: Problem) -> None:
        source, target = problem.source, problem.target
        e = len(source)
        free_source, free_target = np.isnan(problem.source_ports), np.isnan(problem.target_ports)
        middle = problem.width / 2
        source_ports = np.where(free_source, middle[source], problem.source_ports)
        target_ports = np.where(free_target, middle[target], problem.target_ports)
        self.of_edge, count = dense(source, source_ports, target, target_ports)
        pick = np.zeros(count, np.int64)
        pick[self.of_edge[::-1]] = np.arange(e)[::-1]
        by_model = np.argsort(pick)
        turned = np.empty(count, np.int64)
        turned[by_model] = np.arange(count)
        self.of_edge = turned[self.of_edge]
        pick = pick[by_model]
        self.source, self.target = source[pick], target[pick]
        self.source_ports, self.target_ports = source_ports[pick], target_ports[pick]
        self.free_source = _all_free(free_source[pick], self.source, len(middle))
        self.free_target = _all_free(free_target[pick], self.target, len(middle))
        self.value, values = dense(self.source, source_ports[pick])
        self.owner = np.zeros(values, np.int64)
        self.owner[self.value] = self.source
        self.values_of = np.bincount(self.owner, minlength=len(problem.width))


def _all_free(free: Mask, node: Index, n: int) -> Mask:
    """[E] ends to distribute: those of nodes that have no given port on that side."""
    fixed = np.zeros(n, bool)
    fixed[node[~free]] = True
    return free & ~fixed[node]


def _ranked(problem: Problem, unique: _Unique, back: Mask, progress: Progress) -> tuple[Index, Index]:
    """The part of every node and its rank within the part."""
    n = len(problem.width)
    keep = unique.source != unique.target
    source = np.where(back, unique.target, unique.source)[keep]
    target = np.where(back, unique.source, unique.target)[keep]
    shared = (np.bincount(unique.value) > _FEW)[unique.value][keep]
    rank = ranks.rank(n, source, target, unique.values_of, shared, progress)
    label = components(n, np.append(source, problem.ties[0]), np.append(target, problem.ties[1]))
    part = np.unique(label, return_inverse=True)[1]
    parts = int(part.max()) + 1
    has_pred = np.zeros(n, bool)
    has_pred[target] = True
    has_succ = np.zeros(n, bool)
    has_succ[source] = True
    rank = _narrowed(problem, part, rank, source, target)
    for _ in range(2):  # first with borders where the others put them, then with room made for them
        inner = ~problem.border
        low = np.full(parts, np.iinfo(np.int64).max)
        high = np.full(parts, np.iinfo(np.int64).min)
        np.minimum.at(low, part[inner], rank[inner])
        np.maximum.at(high, part[inner], rank[inner])
        empty = low > high
        low[empty], high[empty] = 1, 0
        first = problem.first & ~has_pred
        last = problem.last & ~has_succ
        rank = np.where(first, low[part] - problem.border, rank)
        rank = np.where(last, high[part] + problem.border, rank)
    low = np.full(parts, np.iinfo(np.int64).max)
    np.minimum.at(low, part, rank)
    return part, rank - low[part]


def _narrowed(problem: Problem, part: Index, rank: Index, source: Index, target: Index) -> Index:
    """Ranks of parts that would be mile-wide strips folded to a sheet; all others as they are."""
    gap = problem.spacing.node
    parts = int(part.max()) + 1
    room = problem.width + gap
    row, rows = dense(part, rank)
    part_of_row = np.zeros(rows, np.int64)
    part_of_row[row] = part
    widest = np.zeros(parts)
    np.maximum.at(widest, part_of_row, np.bincount(row, room, rows))
    area = np.bincount(part, room * (problem.height + problem.spacing.rank), parts)
    limit = np.maximum(_WIDE * np.sqrt(area), _NARROW)
    rank = rank.copy()
    for p in np.flatnonzero(widest > _FAR_TOO_WIDE * limit).tolist():
        nodes = np.flatnonzero(part == p)
        number = np.full(len(part), -1)
        number[nodes] = np.arange(len(nodes))
        inner = part[source] == p
        found = ranks.narrow(number[source[inner]], number[target[inner]], rank[nodes], room[nodes], float(limit[p]))
        rank[nodes] = found
    return rank


def _lane_sides(graph: layered.Layered, unique: _Unique, order: Index) -> Mask:
    """[values] whether the value's lane runs on the left: where its ends are nearer."""
    where = fans.places(graph, order)
    values = len(unique.owner)
    lane = graph.lane
    total = np.bincount(unique.value[lane], where[unique.target[lane]], values)
    count = np.maximum(np.bincount(unique.value[lane], minlength=values), 1)
    return np.asarray(total / count + where[unique.owner] < 1.0)


def _spread(
    problem: Problem,
    unique: _Unique,
    graph: layered.Layered,
    order: Index,
    x: Real,
    ports: layered.Ports,
    side: Mask,
    loop: Mask,
) -> None:
    """Distribute ends without given ports along their node's border, in the order in which they arrive.

    Who stands upright above or below keeps the middle.
    """
    slot = np.empty(graph.vertices, np.int64)
    slot[order] = np.arange(graph.vertices)
    s = graph.segments
    outside = np.where(side[unique.value], -1, graph.vertices)
    outside[loop] = graph.vertices + 1
    inside = ~graph.lane
    upright = np.abs(x[s.upper] - x[s.lower]) < 0.5
    for end in ("upper", "lower"):
        if end == "upper":
            segment, node, free, offset = graph.first_segment, unique.source, unique.free_source, ports.source_offset
            other, own_offset = s.lower, s.upper_offset
        else:
            segment, node, free, offset = graph.last_segment, unique.target, unique.free_target, ports.target_offset
            other, own_offset = s.upper, s.lower_offset
        main = np.append(upright, False)[segment] & inside
        towards = np.where(graph.lane, outside, slot[np.append(other, 0)[segment]])
        _distribute(problem.width, node, towards, main, free, offset)
        own_offset[segment[inside]] = offset[inside]


def _distribute(width: Real, node: Index, towards: Index, main: Mask, free: Mask, offset: Real) -> None:
    """Set the offsets of free ends: in order of arrival, the middle of the main ones in the node's middle.

    Ends that go to the same vertex share a place; others stand 16 px apart or closer.
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
    # the middle of the main places: with an even number it lies between two
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


def _extent(problem: Problem, graph: layered.Layered, looped: Mask) -> coordinates.Extent:
    half = np.zeros(graph.vertices)
    half[: graph.nodes] = problem.width / 2
    right = half.copy()
    right[: graph.nodes][looped] += _LOOP
    solid = np.zeros(graph.vertices, bool)
    solid[: graph.nodes] = ~problem.border
    return coordinates.Extent(half, right, solid, problem.spacing.node, problem.spacing.edge)


class _Drawing:
    """From coordinates along the ranks to rectangles and routes."""

    def __init__(
        self,
        problem: Problem,
        unique: _Unique,
        graph: layered.Layered,
        ports: layered.Ports,
        x: Real,
        stacked: Index,
        side: Mask,
        loop: Mask,
        part: Index,
        base: Index,
        heights: Index,
    ) -> None:
        self.problem, self.unique, self.graph, self.ports = problem, unique, graph, ports
        self.x, self.stacked, self.side, self.loop = x, stacked, side, loop
        self.part, self.base, self.heights = part, base, heights
        n = graph.nodes
        self.middle = x[:n]
        self.lane_x = self._lanes()
        self._bands()
        self.y = (self.top + self.bottom)[stacked] / 2 - problem.height / 2

    def _lanes(self) -> Real:
        """[values] x of every value's lane; 0 where it has none."""
        graph, unique = self.graph, self.unique
        n = graph.nodes
        left = np.full(graph.ranks, np.inf)
        right = np.full(graph.ranks, -np.inf)
        half = np.zeros(graph.vertices)
        half[:n] = self.problem.width / 2
        np.minimum.at(left, graph.rank, self.x - half)
        np.maximum.at(right, graph.rank, self.x + half)
        lane = np.flatnonzero(graph.lane & ~self.loop)
        result = np.zeros(len(unique.owner))
        if not len(lane):
            return result
        s, t = self.stacked[unique.source[lane]], self.stacked[unique.target[lane]]
        first = np.where(t > s, s + 1, t)
        last = np.where(t > s, t - 1, s)
        values, number = np.unique(unique.value[lane], return_inverse=True)
        begin = np.full(len(values), graph.ranks, np.int64)
        end = np.zeros(len(values), np.int64)
        np.minimum.at(begin, number, first)
        np.maximum.at(end, number, last)
        found = lanes.assign(begin, end, self.side[values], left, right, self.problem.spacing.edge)
        result[values] = found.x
        return result

    def _bands(self) -> None:
        """Top and bottom of every rank; a gap grows with how far the edges in it swing sideways."""
        graph = self.graph
        height = np.zeros(graph.ranks)
        np.maximum.at(height, self.stacked, self.problem.height)
        s = graph.segments
        swing = np.abs((self.x[s.upper] + s.upper_offset) - (self.x[s.lower] + s.lower_offset))
        widest = np.zeros(graph.ranks)
        np.maximum.at(widest, graph.rank[s.upper], swing)
        lane = np.flatnonzero(graph.lane & ~self.loop)
        u = self.unique
        at = self.lane_x[u.value[lane]]
        source, target = u.source[lane], u.target[lane]
        forward = self.stacked[target] > self.stacked[source]
        np.maximum.at(widest, self.stacked[source], np.abs(at - self.middle[source]))
        above = np.maximum(self.stacked[target] - 1, 0)
        np.maximum.at(widest, above, np.where(forward, np.abs(at - self.middle[target]), 0))
        gap = self.problem.spacing.rank + np.minimum(_ROOM * widest, _MOST_ROOM)
        gap[np.cumsum(self.heights) - 1] = 0
        bottom = np.cumsum(height + gap) - gap
        top = bottom - height
        origin = np.repeat(top[self.base], self.heights)
        self.top, self.bottom = top - origin, bottom - origin

    def solution(self, rank: Index, progress: Progress) -> Solution:
        """Everything moved so that each part begins at 0, 0."""
        n = self.graph.nodes
        lines = routes.straighten(self._anchors())
        progress.check()
        x = self.middle - self.problem.width / 2
        parts = len(self.base)
        low = np.full((parts, 2), np.inf)
        high = np.full((parts, 2), -np.inf)
        of_point = self.part[self.unique.source][lines.owners()]
        for axis, start, size in ((0, x, self.problem.width), (1, self.y, self.problem.height)):
            np.minimum.at(low[:, axis], self.part, start)
            np.maximum.at(high[:, axis], self.part, start + size)
            np.minimum.at(low[:, axis], of_point, lines.points[:, axis])
            np.maximum.at(high[:, axis], of_point, lines.points[:, axis])
        assert n == len(x)
        lines.points -= low[of_point]
        bands = np.stack([self.top, self.bottom], 1) - np.repeat(low[:, 1], self.heights)[:, None]
        return Solution(
            x=x - low[self.part, 0],
            y=self.y - low[self.part, 1],
            rank=rank,
            part=self.part,
            extent=high - low,
            lines=lines.take(self.unique.of_edge),
            bands=np.split(bands, self.base[1:]),
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
        u, graph = self.unique, self.graph
        edges = np.arange(len(u.source))
        start_x = self.middle[u.source] + self.ports.source_offset
        end_x = self.middle[u.target] + self.ports.target_offset
        start_y = self.y[u.source] + self.problem.height[u.source]
        end_y = self.y[u.target]
        rs, rt = self.stacked[u.source], self.stacked[u.target]
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
        lane_x = self.lane_x[u.value]
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
