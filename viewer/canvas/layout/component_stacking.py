"""Ranks and the order along them, for all connected components stacked on top of each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.canvas.layout import fan_out, layered, ordering, ranks
from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real, dense, rank_within
from onnx_workbench.viewer.canvas.layout.problem import LayoutProblem, Level, Unique

_FEW = 6  # consumers of a value up to which its line pulls producer and consumers together
_WIDE = 2.2  # ratio of width to height of a part above which its ranks are folded
_FAR_TOO_WIDE = 1.6  # factor by which the limit must be exceeded
_NARROW = 4000.0  # px up to which ranks are not folded
_DELAYS = 3  # limit for attempts to move nodes a rank further down


@dataclass(slots=True)
class Stack:
    """All nodes and dummies of a level by rank; the ranks of each component follow those of the previous one."""

    part: Index  # [N]
    rank: Index  # [N] within the part
    row: Index  # [N] rank in the stack
    heights: Index  # [parts] number of ranks
    base: Index  # [parts] the first row
    ports: layered.Ports
    graph: layered.Layered
    order: Index  # [V] by row and place
    crossings: int
    known: Real | None  # [V] previous positions, if they are to be kept
    line: Index  # [E] the line of each edge: that of its value, or one of its two lines
    owner: Index  # [lines] the source node


def stack(problem: LayoutProblem, edges: Unique, back: Mask, progress: Progress) -> Stack:
    """Find ranks and an order with few crossings; `back` edges [E] are reversed.

    In small graphs, a node with an edge from a constant that crosses another edge is tried a rank further down, which
    may avoid the crossing.
    """
    longer = np.zeros(len(edges.source), np.int64)
    best = _Stacking(problem, edges, back, longer, progress).solve()
    for _ in range(_DELAYS):
        if not best.crossings or best.graph.vertices > ordering.SMALL:
            break
        delayed = _edges_to_lengthen(problem, edges, best)
        if not delayed.any():
            break
        longer = longer + delayed
        stacked = _Stacking(problem, edges, back, longer, progress).solve()
        if stacked.crossings >= best.crossings:
            break
        best = stacked
    return best


def _edges_to_lengthen(problem: LayoutProblem, edges: Unique, found: Stack) -> Mask:
    """[E] short edges to lengthen: into nodes with given ports whose edge from a constant crosses another edge.

    If such a node has no slack, other consumers of the same value that have slack are moved instead.
    """
    n = found.graph.nodes
    lone = (np.bincount(edges.target, minlength=n) == 0) & (np.bincount(edges.source, minlength=n) == 1)
    lone &= ~problem.first
    constant = lone[edges.source] & ~edges.free_target
    direct = np.flatnonzero(constant & (found.graph.trunk_count == 0) & ~found.graph.lane)
    crossed = ordering.crossed(found.graph, found.order)
    late = np.zeros(n, bool)
    late[edges.target[direct[crossed[found.graph.last_segment[direct]]]]] = True
    span = found.row[edges.target] - found.row[edges.source]
    short = ~lone[edges.source] & (span > 0) & (span <= _DELAYS)
    idle = _spare(edges, found.row) > 0
    entered = np.zeros(n, bool)
    entered[edges.target[constant]] = True
    movable = short & (entered & idle & ~late)[edges.target]
    stuck = short & (late & ~idle)[edges.target]
    gives_way = movable & np.isin(edges.value, edges.value[stuck])
    served = stuck & np.isin(edges.value, edges.value[gives_way])
    late[edges.target[served]] = False
    late[edges.target[gives_way]] = True
    return np.asarray(late[edges.target] & short)


def _spare(edges: Unique, row: Index) -> Index:
    """[N] slack: rows that each node can move down, with its descendants, without adding ranks."""
    latest = row.copy()
    ahead = np.flatnonzero(row[edges.target] > row[edges.source])
    latest[edges.source[ahead]] = row.max(initial=0)
    upwards = ahead[np.argsort(-row[edges.source[ahead]], kind="stable")]
    for source, target in zip(edges.source[upwards].tolist(), edges.target[upwards].tolist(), strict=True):
        latest[source] = min(latest[source], latest[target] - 1)
    return latest - row


def fresh_parts(level: Level | None, part: Index) -> Mask:
    """[parts] whether less than half of the nodes were in the previous layout, so that it is not used."""
    if level is None:
        return np.ones(int(part.max()) + 1, bool)
    total = np.bincount(part)
    return np.asarray(2 * np.bincount(part, level.node >= 0) < total)


class _Stacking:
    """Finds ranks and the order along them; values get a second line if that saves crossings.

    `longer` [E]: number of ranks, in addition to one, that each edge must span.
    """

    def __init__(self, problem: LayoutProblem, edges: Unique, back: Mask, longer: Index, progress: Progress) -> None:
        self.problem, self.edges, self.progress = problem, edges, progress
        self.part, self.rank = _ranked(problem, edges, back, longer, progress)
        parts = int(self.part.max()) + 1
        self.heights = np.zeros(parts, np.int64)
        np.maximum.at(self.heights, self.part, self.rank + 1)
        self.base = np.cumsum(self.heights) - self.heights
        self.row = self.rank + self.base[self.part]
        self.ports = layered.fixed_ports(
            problem.width, edges.source, edges.target, edges.source_ports, edges.target_ports
        )
        progress.report(2, 10)

    def solve(self) -> Stack:
        """Solve with one line per value, then with two for values that fan out; return the better one."""
        level, edges = self.problem.before, self.edges
        one = self._from_scratch() if level is None else self._from_known_order(level, edges.value, edges.owner)
        if not one.crossings:
            return one
        halves = fan_out.split(one.graph, one.order, edges.source, edges.target, edges.value)
        if halves is None:
            return one
        two = self._halved(one, halves) if level is None else self._from_known_order(level, halves.line, halves.owner)
        return one if two.crossings >= one.crossings else two

    def _stack(
        self, graph: layered.Layered, order: Index, crossings: int, known: Real | None, line: Index, owner: Index
    ) -> Stack:
        rows = self.part, self.rank, self.row, self.heights, self.base, self.ports
        return Stack(*rows, graph, order, crossings, known, line, owner)

    def _build(self, line: Index) -> layered.Layered:
        edges, row = self.edges, self.row
        backwards = row[edges.target] <= row[edges.source]
        rows = int(row.max()) + 1
        return layered.build(row, rows, edges.source, edges.target, line, self.ports, backwards, self.problem.first)

    def _from_scratch(self) -> Stack:
        graph = self._build(self.edges.value)
        order, crossings = ordering.arrange(graph, self.progress)
        return self._stack(graph, order, crossings, None, self.edges.value, self.edges.owner)

    def _halved(self, one: Stack, halves: fan_out.Split) -> Stack:
        graph = self._build(halves.line)
        keys = fan_out.keys(graph, fan_out.places(one.graph, one.order), self.edges.target, halves.line)
        order, crossings = ordering.arrange_from(graph, keys, self.progress)
        return self._stack(graph, order, crossings, None, halves.line, halves.owner)

    def _from_known_order(self, level: Level, line: Index, owner: Index) -> Stack:
        """Keep the previous order, except in new parts."""
        graph = self._build(line)
        keys = _known_order(level, self.edges, line, owner, graph)
        order, crossings = ordering.mend(graph, keys, self.progress)
        fresh = fresh_parts(level, self.part)
        if fresh.any():
            rows_anew = np.zeros(graph.ranks, bool)
            rows_anew[self.row[fresh[self.part]]] = True
            order = np.where(rows_anew[graph.rank[order]], ordering.arrange(graph, self.progress)[0], order)
        return self._stack(graph, order, crossings, keys, line, owner)


def _known_order(level: Level, unique: Unique, line: Index, owner: Index, graph: layered.Layered) -> Real:
    """[V] keys along the ranks: previous positions of nodes, and of the old routes at dummies."""
    n = graph.nodes
    edge_of = np.zeros(len(unique.source), np.int64)  # one of the level's for each without duplicates
    edge_of[unique.of_edge[::-1]] = np.arange(len(unique.of_edge))[::-1]
    farthest = np.zeros(len(owner), np.int64)
    by_reach = np.argsort(graph.trunk_count, kind="stable")
    farthest[line[by_reach]] = by_reach
    edge = farthest[graph.dummy_trunk]
    rank = graph.rank[n:]
    source, target = unique.source[edge], unique.target[edge]
    # a rank is at its nodes' old height; a rank of new nodes at its distance below the source
    kept = np.flatnonzero(level.node >= 0)
    row = np.full(graph.ranks, -1)
    row[graph.rank[kept]] = level.node[kept]
    below = level.before.heights(level.node[source], rank - graph.rank[source])
    y = level.before.heights(row[rank], np.zeros(len(rank), np.int64))
    x = level.before.along(level.edge[edge_of[edge]], np.where(np.isnan(y), below, y))
    nearer = np.where(2 * rank < graph.rank[source] + graph.rank[target], source, target)
    return np.concatenate([level.keys, np.where(np.isnan(x), level.keys[nearer], x)])


def _ranked(
    problem: LayoutProblem, unique: Unique, back: Mask, longer: Index, progress: Progress
) -> tuple[Index, Index]:
    """Return the part of every node and its rank within the part."""
    n = len(problem.width)
    keep = unique.source != unique.target
    source = np.where(back, unique.target, unique.source)[keep]
    target = np.where(back, unique.source, unique.target)[keep]
    # Edges of one value share a line, so moving a node towards its consumers shortens one line per value.
    # The line of a value with many consumers is long anyway: it does not hold these near the producer.
    shared = (np.bincount(unique.value) > _FEW)[unique.value][keep]
    graph = ranks.digraph(*_lengthened(n, source, target, longer[keep]))
    pull = np.zeros(len(graph), np.int64)
    pull[:n] = 2 * unique.values_of - np.bincount(target, np.where(shared, 1, 2), n)
    rank = ranks.rank(graph, pull, progress)[:n]
    part = ranks.parts(graph, problem.ties)[:n]
    parts = int(part.max()) + 1
    has_pred = np.zeros(n, bool)
    has_pred[target] = True
    has_succ = np.zeros(n, bool)
    has_succ[source] = True
    rank = _narrowed(problem, part, rank, source, target)
    for _ in range(2):  # first with the ranks of borders as found, then with room for them
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


def _lengthened(n: int, source: Index, target: Index, longer: Index) -> tuple[int, Index, Index]:
    """Insert auxiliary nodes into edges that must span more ranks."""
    edge = np.flatnonzero(longer)
    by = longer[edge]
    step = rank_within(np.repeat(edge, by))
    between = n + np.arange(len(step))
    before = np.where(step > 0, between - 1, np.repeat(source[edge], by))
    leave = source.copy()
    leave[edge] = n - 1 + np.cumsum(by)
    return n + len(step), np.append(leave, before), np.append(target, between)


def _narrowed(problem: LayoutProblem, part: Index, rank: Index, source: Index, target: Index) -> Index:
    """Return the ranks with those of very wide parts folded; others are unchanged."""
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
        ends = number[source[inner]], number[target[inner]]
        rank[nodes] = ranks.narrow(*ends, rank[nodes], room[nodes], float(limit[p]))
    return rank
