"""Coordinates along the ranks (Brandes–Köpf): long straight lines, real widths, ports.

Four times (from above or below, leaning left or right) every vertex is aligned with its median neighbour; aligned
vertices form blocks that move as one, and blocks are packed by longest paths, which is exact on chains of any length.
A segment aligns only if it is the median of both its ends: otherwise forks would lean one way and joins the other, and
a deep graph would drift sideways. If it drifts nevertheless, its heaviest paths are aligned first, as users follow the
main chain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real, components, offsets
from onnx_workbench.viewer.canvas.layout.layered import Layered, Segments

_STAIR = 32.0  # px from a node's middle within which ports are ignored for alignment
_HEAVY_STAIR = 120.0  # the same along heavy paths
_DRIFTING = 1.25  # ratio of the width to that of the widest rank above which a component drifts
_REFINEMENTS = 12
_SETTLED = 1e-3  # px, tolerance for rounding
_ASIDE = 1e-3  # of an operator: reduction of a path's weight for a vertex at the end of a rank
_EQUAL = 1e-7  # operators, tolerance for rounding of weights of one path
_NARROW = 4000.0  # px up to which the width is not optimized


@dataclass(slots=True)
class Extent:
    """Space that every vertex needs on both sides of its reference point, and its distance to the neighbour."""

    left: Real  # [V]
    right: Real  # [V]
    solid: Mask  # [V] nodes, as opposed to points on edges
    node_gap: float  # between two nodes
    edge_gap: float  # between an edge and any vertex

    def separation(self, a: Index, b: Index) -> Real:
        """Return the least distance of the reference points of neighbours, a left of b."""
        both = self.solid[a] & self.solid[b]
        return self.right[a] + self.left[b] + np.where(both, self.node_gap, self.edge_gap)


def place(graph: Layered, order: Index, part: Index, extent: Extent, progress: Progress) -> Real:
    """[V] x of every vertex's reference point; `part` [V] numbers the components."""
    return _Placing(graph, order, part, extent, progress).solve()


class _Placing:
    """Tries several alignments, takes the best one for each component, and refines it."""

    def __init__(self, graph: Layered, order: Index, part: Index, extent: Extent, progress: Progress) -> None:
        self.graph, self.part, self.progress = graph, part, progress
        self.slot = np.empty(graph.vertices, np.int64)
        self.slot[order] = np.arange(graph.vertices)
        same = graph.rank[order[:-1]] == graph.rank[order[1:]]
        self.a, self.b = order[:-1][same], order[1:][same]
        self.gap = extent.separation(self.a, self.b)
        self.tried: list[Real] = []

    def solve(self) -> Real:
        """[V] x."""
        graph = self.graph
        s = graph.segments
        wanted = graph.main_above & graph.main_below & ~_conflicts(graph, self.slot)
        bends = _Bends(s, np.full(len(wanted), _STAIR))
        self._try(wanted, bends, (True, False))
        width = min(np.ptp(x) for x in self.tried)
        if width > _NARROW:
            # Where branches stand in several rows, their lines must bend away from under them to leave room.
            apart = wanted & ((s.upper < graph.nodes) == (s.lower < graph.nodes))
            self._try(apart, bends, (True,))
        usual = len(self.tried)
        heavy = np.zeros(len(wanted), bool)
        if width > _DRIFTING * np.bincount(graph.rank[self.a], self.gap, 1).max(initial=0.0):
            heavy = _heavy_paths(graph, self.slot, self.part)
            beside = wanted & _compatible_with(graph, self.slot, heavy)
            self._try(heavy | beside, _Bends(s, np.where(heavy, _HEAVY_STAIR, _STAIR)), (True,))
        choice, xs = _best(graph, np.stack(self.tried), self.part)
        heavy &= ((choice >= usual) & (choice < len(self.tried)))[self.part[s.upper]]
        bends = _Bends(s, np.where(heavy, _HEAVY_STAIR, _STAIR))
        x = xs[choice[self.part], np.arange(len(self.part))]
        return _refine(graph, bends, x, self.a, self.b, self.gap, self.progress)

    def _try(self, usable: Mask, bends: _Bends, ways: tuple[bool, ...]) -> None:
        """Align along the usable segments, from above or below, and pack to the left and to the right."""
        for from_above in ways:
            for left in (True, False):
                block, shift = _align(self.graph, self.slot, bends, usable, from_above, left)
                self.tried.append(_pack(block, shift, self.a, self.b, self.gap, left))
                self.progress.check()


def keep(graph: Layered, order: Index, known: Real, extent: Extent) -> Real:
    """[V] x as near as possible to the known positions; vertices that are too close are moved apart equally."""
    rank = graph.rank[order]
    starts = offsets(graph.rank, graph.ranks)[:-1][rank]
    new = np.concatenate([[True], rank[1:] != rank[:-1]]) if len(rank) else np.zeros(0, bool)
    need = np.zeros(len(order))
    need[1:] = np.where(new[1:], 0.0, extent.separation(order[:-1], order[1:]))
    room = np.cumsum(need)
    free = known[order] - (room - room[np.minimum(starts, len(order) - 1)])  # as if no vertex needed any room
    # Made ascending from the left by pushing right, and from the right by pushing left; half of both is ascending too.
    lift = rank * (4.0 * float(np.abs(free).max(initial=0.0)) + 1.0)
    right = np.maximum.accumulate(free + lift)
    left = np.minimum.accumulate((free + lift)[::-1])[::-1]
    settled = np.where(np.abs(right - left) < _SETTLED, free, (right + left) / 2 - lift)
    result = np.empty(len(order))
    result[order] = settled + (room - room[np.minimum(starts, len(order) - 1)])
    return result


def _best(graph: Layered, xs: Real, part: Index) -> tuple[Index, Real]:
    """Return for each component the best candidate, by short edges and width; and all, with their median appended.

    The median is the most balanced candidate, unless the others drift apart in a deep graph.
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
    return choice, xs


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


def _heavy_paths(graph: Layered, slot: Index, part: Index) -> Mask:
    """[S] segments of the paths with the most operators: each vertex continues only along its heaviest segment.

    Of equal paths the one nearest to the middle is used. No path crosses the heaviest one of its component.
    """
    s = graph.segments
    v = graph.vertices
    by_rank = np.argsort(graph.rank[s.upper], kind="stable")
    starts = offsets(graph.rank, graph.ranks)
    nth = slot - starts[graph.rank]
    aside = np.abs(2 * nth + 1 - np.diff(starts)[graph.rank]) / np.diff(starts)[graph.rank]
    weight = (np.arange(v) < graph.nodes) - _ASIDE * aside
    uppers, lowers = s.upper[by_rank], s.lower[by_rank]
    up = _lengths(uppers, lowers, weight)
    down = _lengths(lowers[::-1], uppers[::-1], weight)
    heavy = _heaviest(s.upper, down[s.lower], v) & _heaviest(s.lower, up[s.upper], v)
    through = up + down - weight
    most = np.full(int(part.max()) + 1, -np.inf)
    np.maximum.at(most, part, through)
    main = through > most[part] - _EQUAL
    main_path = heavy & main[s.upper] & main[s.lower]
    heavy &= graph.main_above & graph.main_below & _compatible_with(graph, slot, main_path)
    return np.asarray(main_path | heavy)


def _lengths(first: Index, then: Index, weight: Real) -> Real:
    """[V] the greatest weight of any path to each vertex, along segments sorted by the rank of their start."""
    own = weight.tolist()
    longest = weight.tolist()
    for source, target in zip(first.tolist(), then.tolist(), strict=True):
        reached = longest[source] + own[target]
        if reached > longest[target]:
            longest[target] = reached
    return np.array(longest)


def _heaviest(own: Index, weight: Real, v: int) -> Mask:
    """[S] the segment of the greatest weight of each vertex."""
    order = np.lexsort((weight, own))
    last = np.full(v, -1)
    last[own[order]] = order
    return np.asarray(last[own] == np.arange(len(own)))


def _compatible_with(graph: Layered, slot: Index, heavy: Mask) -> Mask:
    """[S] segments that neither cross these nor compete with them for a vertex."""
    s = graph.segments
    v = graph.vertices
    taken_above = np.bincount(s.lower[heavy], minlength=v)[s.lower] > 0
    taken_below = np.bincount(s.upper[heavy], minlength=v)[s.upper] > 0
    above, below = np.sort(slot[s.upper[heavy]]), np.sort(slot[s.lower[heavy]])
    crossing = np.searchsorted(above, slot[s.upper]) != np.searchsorted(below, slot[s.lower])
    return np.asarray(~(taken_above | taken_below | crossing))


class _Bends:
    """[S] horizontal offsets between the ends of aligned segments, due to their ports.

    Offsets up to the limit [S] are ignored and drawn by the curve: following them would turn chains into staircases.
    """

    def __init__(self, s: Segments, limit: Real) -> None:
        self.upper = np.where(np.abs(s.upper_offset) > limit, s.upper_offset, 0.0)
        self.lower = np.where(np.abs(s.lower_offset) > limit, s.lower_offset, 0.0)


def _align(graph: Layered, slot: Index, bends: _Bends, free: Mask, from_above: bool, left: bool) -> tuple[Index, Real]:
    """Return each vertex's block, and its distance from the block's first vertex."""
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
    fall = (bends.upper - bends.lower)[segment]
    shift[mine] = fall if from_above else -fall
    while True:
        further = block[block]
        if np.array_equal(further, block):
            return block, shift
        shift += shift[block]
        block = further


def _median(usable: Index, slot: Index, own: Index, other: Index, offset: Real, left: bool) -> Index:
    """Return the middle one of the usable segments of each vertex, for every segment's own vertex."""
    order = np.lexsort((offset[usable], slot[other[usable]], slot[own[usable]]))
    counts = np.bincount(slot[own[usable]])
    first = np.cumsum(counts) - counts
    has = np.flatnonzero(counts)
    pick = (counts[has] - 1) // 2 if left else counts[has] // 2
    return np.asarray(order[first[has] + pick])


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
    """Return longest paths from the sources of an acyclic graph, then pull vertices towards their successors."""
    waiting = [0] * n
    for w in after:
        waiting[w] += 1
    order = [v for v in range(n) if not waiting[v]]
    x = [0.0] * n
    for v in order:  # appended to during the loop
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


def _refine(graph: Layered, bends: _Bends, x: Real, a: Index, b: Index, gap: Real, progress: Progress) -> Real:
    """Move vertical runs towards the median of their connections, as far as their neighbours allow."""
    s = graph.segments
    v = graph.vertices
    main = graph.main_above & graph.main_below
    weight = np.where(main, 4.0, 1.0)
    x = x.copy()
    for _ in range(_REFINEMENTS):
        progress.check()
        bend = (x[s.lower] + bends.lower) - (x[s.upper] + bends.upper)
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
    """[v] the interval of weighted medians of the preferred positions of each vertex; 0, 0 for those without."""
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
