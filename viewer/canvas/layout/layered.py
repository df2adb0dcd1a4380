"""The layered graph (Sugiyama): nodes and dummies in ranks, joined by segments from one rank to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real, dense, offsets, spans

#: Edges longer than this many ranks use a lane if the graph is too large for their dummies.
LANE_SPANS = (256, 64, 32, 16)
_SIDE_CHAIN = 3  # operators between a constant and its consumer


@dataclass(slots=True)
class Segments:
    """S pieces of edges, each from a vertex to one in the next rank."""

    upper: Index  # [S] vertex
    lower: Index  # [S]
    upper_port: Index  # [S] index of the vertex's port, from the left
    lower_port: Index
    upper_offset: Real  # [S] px from the vertex's reference point
    lower_offset: Real
    weight: Index  # [S] number of edges that share it


@dataclass(slots=True)
class Layered:
    """N nodes, then dummies; V vertices in total. Dummies belong to trunks, which all edges of one value share."""

    nodes: int
    ranks: int
    rank: Index  # [V]
    segments: Segments
    trunk_start: Index  # [E] the first dummy of the edge's trunk
    trunk_count: Index  # [E] number of the trunk's dummies that this edge passes
    lane: Mask  # [E] edges in side lanes
    last_segment: Index  # [E] the segment that arrives at the target, -1 for lanes
    first_segment: Index  # [E] the segment that leaves the source, -1 for lanes
    dummy_trunk: Index  # [D] the trunk of each dummy
    main_above: Mask  # [S] segments along which the lower vertex may align with the upper one
    main_below: Mask  # [S] the same for the upper vertex with the lower one

    @property
    def vertices(self) -> int:
        """Number of vertices."""
        return len(self.rank)


def build(
    rank: Index,
    ranks: int,
    source: Index,
    target: Index,
    value: Index,
    ports: Ports,
    lanes: Mask,
    inputs: Mask,
) -> Layered:
    """Insert dummies where edges pass ranks. `value` [E] numbers (source, port); edges in `lanes` [E] get none.

    `inputs` [N] are sources that are treated like operators for vertical alignment.
    """
    n = len(rank)
    span = rank[target] - rank[source]
    lane = lanes | (span > _longest(value, span, lanes, n))
    trunks = _Trunks(rank, source, value, span, ~lane)
    segments = _segments(trunks, source, target, value, ports, span, ~lane)
    count = len(trunks.of_dummy)
    edges = np.flatnonzero(~lane)
    last = np.full(len(source), -1)
    last[edges] = count + np.arange(len(edges))
    first = last.copy()
    far = edges[span[edges] > 1]
    first[far] = trunks.start[value[far]] - n
    return Layered(
        nodes=n,
        ranks=ranks,
        rank=np.concatenate([rank, trunks.rank]),
        segments=segments,
        trunk_start=trunks.start[value] if len(value) else np.zeros(0, np.int64),
        trunk_count=np.where(lane, 0, span - 1),
        lane=lane,
        last_segment=last,
        first_segment=first,
        dummy_trunk=trunks.of_dummy,
        main_above=_main(segments.lower, segments.upper, n, n + count, inputs),
        main_below=_main(segments.upper, segments.lower, n, n + count, inputs),
    )


class _Trunks:
    """One chain of dummies per value, as far as its farthest consumer."""

    def __init__(self, rank: Index, source: Index, value: Index, span: Index, inside: Mask) -> None:
        n = len(rank)
        values = int(value.max()) + 1 if len(value) else 0
        reach = np.ones(values, np.int64)
        np.maximum.at(reach, value[inside], span[inside])
        self.of_dummy = np.repeat(np.arange(values), reach - 1)  # [D]
        self.start = offsets(self.of_dummy, values) + n  # [values + 1] first dummies
        self.owner = np.zeros(values, np.int64)  # [values] the source node
        self.owner[value] = source
        self.step = spans(np.zeros(values, np.int64), reach - 1)  # [D] 0, 1, 2 … along each trunk
        self.rank = rank[self.owner[self.of_dummy]] + 1 + self.step
        # number of edges that reach each dummy: ends at every distance, summed from the far end
        cell = self.start[:-1] - n + np.arange(values)
        arrivals = np.zeros(len(self.of_dummy) + values, np.int64)
        np.add.at(arrivals, cell[value[inside]] + span[inside] - 1, 1)
        total = np.append(np.cumsum(arrivals[::-1])[::-1], 0)
        running = total[:-1] - np.repeat(total[cell + reach], reach)
        self.weight = running[cell[self.of_dummy] + 1 + self.step]


def _segments(
    trunks: _Trunks, source: Index, target: Index, value: Index, ports: Ports, span: Index, inside: Mask
) -> Segments:
    """Return the segments that end at dummies, trunk by trunk, then those that end at nodes, edge by edge."""
    edges = np.flatnonzero(inside)
    count, values = len(trunks.of_dummy), len(trunks.owner)
    n = int(trunks.start[0])
    begins = trunks.step == 0
    dummies = np.arange(count) + n
    far = span[edges] > 1
    port = np.zeros(values, np.int64)
    port[value] = ports.source_index
    offset = np.zeros(values)
    offset[value] = ports.source_offset
    leave = np.where(far, trunks.start[value[edges]] + span[edges] - 2, source[edges])
    return Segments(
        upper=np.concatenate([np.where(begins, trunks.owner[trunks.of_dummy], dummies - 1), leave]),
        lower=np.concatenate([dummies, target[edges]]),
        upper_port=np.concatenate(
            [np.where(begins, port[trunks.of_dummy], 0), np.where(far, 0, ports.source_index[edges])]
        ),
        lower_port=np.concatenate([np.zeros(count, np.int64), ports.target_index[edges]]),
        upper_offset=np.concatenate(
            [np.where(begins, offset[trunks.of_dummy], 0.0), np.where(far, 0.0, ports.source_offset[edges])]
        ),
        lower_offset=np.concatenate([np.zeros(count), ports.target_offset[edges]]),
        weight=np.concatenate([trunks.weight, np.ones(len(edges), np.int64)]),
    )


def _main(own: Index, other: Index, nodes: int, v: int, inputs: Mask) -> Mask:
    """[S] segments along which a vertex may align on one side.

    Constants, short chains from constants and dead ends are ignored if there are others. Of a node and a passing line,
    a node prefers the node, and a line its continuation: so chains of operators are vertical, with constants and skip
    connections beside them, and a line with many consumers passes them straight.
    """
    ahead = np.bincount(own, minlength=v)
    lone = np.bincount(other, minlength=v) == 1
    side = lone & (ahead == 0)
    side[nodes:] = False
    side[:nodes] &= ~inputs
    for _ in range(_SIDE_CHAIN):
        of_side = np.bincount(own, side[other], v)
        chain = lone & (ahead > 0) & (of_side == ahead)
        chain[nodes:] = False
        side |= chain
    weak = side[other]
    solid = np.bincount(own, ~weak, v)
    real = (other < nodes) & ~weak
    reals = np.bincount(own, real, v)
    wanted = ~weak | (solid[own] == 0)
    both = ((solid == 2) & (reals == 1))[own]
    return np.asarray(wanted & (~both | (real == (own < nodes))))


def _longest(value: Index, span: Index, lanes: Mask, n: int) -> int:
    """Return the longest span that gets dummies, so that their number stays in proportion to the graph."""
    budget = 2 * n + 60_000
    for limit in (1 << 60, *LANE_SPANS):
        kept = (span <= limit) & ~lanes
        if not kept.any():
            return limit
        reach = np.ones(int(value.max()) + 1, np.int64)
        np.maximum.at(reach, value[kept], span[kept])
        if int((reach - 1).sum()) <= budget:
            return limit
    return LANE_SPANS[-1]


@dataclass(slots=True)
class Ports:
    """Points where edges touch their nodes: index of the port, and px from the node's middle."""

    source_index: Index  # [E]
    target_index: Index
    source_offset: Real
    target_offset: Real


def fixed_ports(width: Real, source: Index, target: Index, source_ports: Real, target_ports: Real) -> Ports:
    """Return the ports at their requested positions."""
    source_index, source_offset = _fixed(width, source, source_ports)
    target_index, target_offset = _fixed(width, target, target_ports)
    return Ports(source_index, target_index, source_offset, target_offset)


def _fixed(width: Real, node: Index, ports: Real) -> tuple[Index, Real]:
    number, _ = dense(node, ports)
    first = np.full(len(width), len(node), np.int64)
    np.minimum.at(first, node, number)
    return number - first[node], ports - width[node] / 2
