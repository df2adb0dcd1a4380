"""Positions along the ranks after Brandes and Köpf: long straight lines, real widths, ports.

Four times (from above or below, leaning left or right) every vertex is aligned with its median neighbour;
aligned vertices form blocks that move as one, and blocks are packed by longest paths, which is exact on chains
of any length. A segment aligns only if it is the middle one of both its ends: else every fork would lean one way
and every join the other, and a deep graph would drift off sideways.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.progress import Progress
from viewer.canvas.layout.arrays import Index, Mask, Real, components, offsets
from viewer.canvas.layout.layered import Layered

_STAIR = 32.0  # px from a node's middle up to which ports are ignored when aligning
_REFINEMENTS = 12
_SETTLED = 1e-3  # px that rounding may make up
_NARROW = 4000.0  # px up to which width is no matter


@dataclass(slots=True)
class Extent:
    """What every vertex needs to both sides of its reference point, and beyond that from its neighbour."""

    left: Real  # [V]
    right: Real  # [V]
    solid: Mask  # [V] nodes, as against points on edges
    node_gap: float  # between two nodes
    edge_gap: float  # between an edge and anything

    def separation(self, a: Index, b: Index) -> Real:
        """Least distance of the reference points of neighbours, a left of b."""
        both = self.solid[a] & self.solid[b]
        return self.right[a] + self.left[b] + np.where(both, self.node_gap, self.edge_gap)


def place(graph: Layered, order: Index, part: Index, extent: Extent, progress: Progress) -> Real:
    """[V] x of every vertex's reference point; `part` [V] numbers the components."""
    v = graph.vertices
    slot = np.empty(v, np.int64)
    slot[order] = np.arange(v)
    rank = graph.rank
    same = rank[order[:-1]] == rank[order[1:]]
    a, b = order[:-1][same], order[1:][same]
    gap = extent.separation(a, b)
    free = ~_conflicts(graph, slot)
    candidates = []
    wanted = free & graph.main_above & graph.main_below
    for from_above in (True, False):
        for left in (True, False):
            block, shift = _align(graph, slot, wanted, from_above, left)
            candidates.append(_pack(block, shift, a, b, gap, left))
            progress.check()
    if min(np.ptp(x) for x in candidates) > _NARROW:
        # Where branches stand in several rows, their lines must bend away from under them to leave room.
        s = graph.segments
        apart = wanted & ((s.upper < graph.nodes) == (s.lower < graph.nodes))
        for left in (True, False):
            block, shift = _align(graph, slot, apart, True, left)
            candidates.append(_pack(block, shift, a, b, gap, left))
            progress.check()
    return refine(graph, _best(graph, np.stack(candidates), part), a, b, gap, progress)


def keep(graph: Layered, order: Index, known: Real, extent: Extent) -> Real:
    """[V] x as near as can be to where every vertex was; who stands too close makes room to both sides alike."""
    rank = graph.rank[order]
    starts = offsets(graph.rank, graph.ranks)[:-1][rank]
    new = np.concatenate([[True], rank[1:] != rank[:-1]]) if len(rank) else np.zeros(0, bool)
    need = np.zeros(len(order))
    need[1:] = np.where(new[1:], 0.0, extent.separation(order[:-1], order[1:]))
    room = np.cumsum(need)
    free = known[order] - (room - room[np.minimum(starts, len(order) - 1)])  # as if nobody needed any room
    # Made ascending from the left by pushing right, and from the right by pushing left; half of both is ascending too.
    lift = rank * (4.0 * float(np.abs(free).max(initial=0.0)) + 1.0)
    right = np.maximum.accumulate(free + lift)
    left = np.minimum.accumulate((free + lift)[::-1])[::-1]
    settled = np.where(np.abs(right - left) < _SETTLED, free, (right + left) / 2 - lift)
    result = np.empty(len(order))
    result[order] = settled + (room - room[np.minimum(starts, len(order) - 1)])
    return result


def _best(graph: Layered, xs: Real, part: Index) -> Real:
    """For each component the candidate with short swings that is narrow too; their middle is one of them.

    The middle is the most even where all agree, but where they drift apart over a deep graph it drifts as well.
    """
    parts = int(part.max()) + 1
    low, high = _ends(xs, part, parts)
    narrow = (high - low).argmin(0)
    every = np.arange(parts)
    level = xs.copy()
    for i in range(len(xs)):  # left leaning ones at even numbers
        side = low if i % 2 == 0 else high
        level[i] += (side[narrow, every] - side[i])[part]
    middle = np.sort(level[:4], axis=0)[1:3].mean(0)
    xs = np.concatenate([xs, [middle]])
    low, high = _ends(xs, part, parts)
    s = graph.segments
    swing = np.abs(xs[:, s.lower] + s.lower_offset - xs[:, s.upper] - s.upper_offset)
    cost = np.stack([np.bincount(part[s.upper], row, parts) for row in swing]) + 1
    width = high - low + 100
    choice = (cost / cost.min(0) + width / width.min(0)).argmin(0)
    return np.asarray(xs[choice[part], np.arange(len(part))])


def _ends(xs: Real, part: Index, parts: int) -> tuple[Real, Real]:
    """[candidates, parts] lowest and highest x."""
    low = np.full((len(xs), parts), np.inf)
    high = np.full((len(xs), parts), -np.inf)
    for row in range(len(xs)):
        np.minimum.at(low[row], part, xs[row])
        np.maximum.at(high[row], part, xs[row])
    return low, high


def _conflicts(graph: Layered, slot: Index) -> Mask:
    """[S] segments that would bend a straight run of dummies they cross."""
    s = graph.segments
    inner = (s.upper >= graph.nodes) & (s.lower >= graph.nodes)
    if not inner.any():
        return np.zeros(len(inner), bool)
    above = np.sort(slot[s.upper[inner]])
    below = np.sort(slot[s.lower[inner]])
    # Slots grow over the ranks, and every rank's inner segments take the same share of both lists.
    left_above, left_below = np.searchsorted(above, slot[s.upper]), np.searchsorted(below, slot[s.lower])
    return np.asarray((left_above != left_below) & ~inner)


def _align(graph: Layered, slot: Index, free: Mask, from_above: bool, left: bool) -> tuple[Index, Real]:
    """Each vertex's block, and its distance from the block's first vertex."""
    v = graph.vertices
    s = graph.segments
    own, other = (s.lower, s.upper) if from_above else (s.upper, s.lower)
    own_offset, other_offset = (s.lower_offset, s.upper_offset) if from_above else (s.upper_offset, s.lower_offset)
    usable = np.flatnonzero(free)
    usable = usable[_median(usable, slot, other, own, own_offset, left)]
    segment = usable[_median(usable, slot, own, other, other_offset, left)]
    segment = segment[np.argsort(slot[own[segment]])]
    wish = slot[other[segment]]
    if left:
        taken = np.maximum.accumulate(np.concatenate([[-1], wish[:-1]])) < wish
    else:
        taken = np.minimum.accumulate(np.concatenate([[v], wish[:0:-1]]))[::-1] > wish
    # Other ranks do not disturb the running extreme: all their slots lie to one side of this rank's.
    segment = segment[taken]
    block = np.arange(v)
    shift = np.zeros(v)
    mine, theirs = own[segment], other[segment]
    block[mine] = theirs
    shift[mine] = _large(other_offset[segment]) - _large(own_offset[segment])
    while True:
        further = block[block]
        if np.array_equal(further, block):
            return block, shift
        shift += shift[block]
        block = further


def _median(usable: Index, slot: Index, own: Index, other: Index, offset: Real, left: bool) -> Index:
    """Which of the usable segments is the middle one of those of its own vertex, for every such vertex."""
    order = np.lexsort((offset[usable], slot[other[usable]], slot[own[usable]]))
    counts = np.bincount(slot[own[usable]])
    first = np.cumsum(counts) - counts
    has = np.flatnonzero(counts)
    pick = (counts[has] - 1) // 2 if left else counts[has] // 2
    return np.asarray(order[first[has] + pick])


def _large(offset: Real) -> Real:
    """Small port offsets are left to the curve: following them would turn every chain into a staircase."""
    return np.where(np.abs(offset) > _STAIR, offset, 0.0)


def _pack(block: Index, shift: Real, a: Index, b: Index, gap: Real, left: bool) -> Real:
    """Place blocks as far left (or right) as their neighbours allow, then close gaps from the other side."""
    roots, number = np.unique(block, return_inverse=True)
    n = len(roots)
    before, after = number[a], number[b]
    need = shift[a] + gap - shift[b]
    if not left:
        before, after = after, before
    key = before * n + after
    by_key = np.argsort(key, kind="stable")
    key = key[by_key]
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else by_key
    need = np.maximum.reduceat(need[by_key], starts) if len(key) else need
    before, after = key[starts] // n, key[starts] % n
    x = np.array(_longest(n, offsets(before, n).tolist(), after.tolist(), need.tolist()))
    if not left:
        x = -x
    return np.asarray(x[number] + shift)


def _longest(n: int, starts: list[int], after: list[int], need: list[float]) -> list[float]:
    """Longest paths from the sources of an acyclic graph, then everything pulled towards what follows it."""
    waiting = [0] * n
    for w in after:
        waiting[w] += 1
    order = [v for v in range(n) if not waiting[v]]
    x = [0.0] * n
    for v in order:  # grows while it is walked
        base = x[v]
        for i in range(starts[v], starts[v + 1]):
            w = after[i]
            reach = base + need[i]
            if reach > x[w]:
                x[w] = reach
            waiting[w] -= 1
            if not waiting[w]:
                order.append(w)
    for v in reversed(order):
        first, end = starts[v], starts[v + 1]
        if first < end:
            x[v] = min([x[after[i]] - need[i] for i in range(first, end)])
    return x


def refine(graph: Layered, x: Real, a: Index, b: Index, gap: Real, progress: Progress) -> Real:
    """Move upright runs towards the middle of what they are joined to, as far as their neighbours allow."""
    s = graph.segments
    v = graph.vertices
    upper_offset, lower_offset = _large(s.upper_offset), _large(s.lower_offset)
    main = graph.main_above & graph.main_below
    weight = np.where(main, 4.0, 1.0)
    x = x.copy()
    for _ in range(_REFINEMENTS):
        progress.check()
        bend = (x[s.lower] + lower_offset) - (x[s.upper] + upper_offset)
        upright = np.abs(bend) < 0.5
        run = components(v, s.upper[upright], s.lower[upright])
        outer = np.flatnonzero(run[s.upper] != run[s.lower])
        if not len(outer):
            break
        who = np.concatenate([run[s.upper[outer]], run[s.lower[outer]]])
        wish = np.concatenate([bend[outer], -bend[outer]])
        low, high = _weighted_middle(v, who, wish, np.tile(weight[outer], 2))
        step = np.where(low > 0, low, np.where(high < 0, high, 0.0))
        # Half of the free space, so that neighbours may both move.
        slack = np.maximum(x[b] - x[a] - gap, 0.0) / 2
        together = run[a] == run[b]
        slack[together] = np.inf
        right = np.full(v, np.inf)
        left = np.full(v, np.inf)
        np.minimum.at(right, run[a], slack)
        np.minimum.at(left, run[b], slack)
        step = np.clip(step, -left, right)
        if np.abs(step).max() < 1.0:
            break
        x += step[run]
    return x


def _weighted_middle(v: int, who: Index, wish: Real, weight: Real) -> tuple[Real, Real]:
    """[v] the interval of weighted medians of each one's wishes; 0, 0 for those without."""
    order = np.lexsort((wish, who))
    who, wish, weight = who[order], wish[order], weight[order]
    total = np.bincount(who, weight, v)
    running = np.cumsum(weight)
    starts = np.flatnonzero(np.concatenate([[True], who[1:] != who[:-1]]))
    before = np.zeros(v)
    before[who[starts]] = running[starts] - weight[starts]
    within = running - before[who]
    half = total[who] / 2
    low, high = np.zeros(v), np.zeros(v)
    at_low = (within >= half) & (within - weight < half)
    at_high = (within > half) & (within - weight <= half)
    low[who[at_low]] = wish[at_low]
    high[who[at_high]] = wish[at_high]
    return low, high
