"""Positions along the ranks after Brandes and Köpf: long straight lines, real widths, ports.

Four times (from above or below, leaning left or right) every vertex is aligned with its median neighbour;
aligned vertices form blocks that move as one, and blocks are packed by longest paths, which is exact on chains
of any length. The middle of the four places is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.progress import Progress
from viewer.canvas.layout.arrays import Index, Mask, Real, offsets
from viewer.canvas.layout.layered import Layered


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
    for from_above in (True, False):
        for left in (True, False):
            block, shift = _align(graph, slot, order, free, from_above, left)
            candidates.append(_pack(block, shift, a, b, gap, left))
            progress.check()
    return _middle(np.stack(candidates), part)


def _middle(xs: Real, part: Index) -> Real:
    """The mean of the two middle candidates, after all were moved onto their component's narrowest."""
    parts = int(part.max()) + 1
    low = np.full((4, parts), np.inf)
    high = np.full((4, parts), -np.inf)
    for i in range(4):
        np.minimum.at(low[i], part, xs[i])
        np.maximum.at(high[i], part, xs[i])
    narrow = (high - low).argmin(0)
    every = np.arange(parts)
    for i in range(4):
        side = low if i % 2 == 0 else high
        xs[i] += (side[narrow, every] - side[i])[part]
    xs.sort(0)
    return np.asarray((xs[1] + xs[2]) / 2)


def _conflicts(graph: Layered, slot: Index) -> Mask:
    """[S] segments that would bend a straight run of dummies they cross."""
    s = graph.segments
    inner = (s.upper >= graph.nodes) & (s.lower >= graph.nodes)
    if not inner.any():
        return np.zeros(len(inner), bool)
    above = np.sort(slot[s.upper[inner]])
    below = np.sort(slot[s.lower[inner]])
    # Slots grow over the ranks, and every rank's inner segments take the same share of both lists.
    crossed = np.searchsorted(above, slot[s.upper]) != np.searchsorted(below, slot[s.lower])
    return crossed & ~inner


def _align(
    graph: Layered, slot: Index, order: Index, free: Mask, from_above: bool, left: bool
) -> tuple[Index, Real]:
    """Each vertex's block, and its distance from the block's first vertex."""
    v = graph.vertices
    s = graph.segments
    own, other = (s.lower, s.upper) if from_above else (s.upper, s.lower)
    own_offset, other_offset = (
        (s.lower_offset, s.upper_offset) if from_above else (s.upper_offset, s.lower_offset)
    )
    usable = np.flatnonzero(free)
    usable = usable[np.lexsort((other_offset[usable], slot[other[usable]], slot[own[usable]]))]
    counts = np.bincount(slot[own[usable]], minlength=v)
    first = np.cumsum(counts) - counts
    has = np.flatnonzero(counts)
    pick = (counts[has] - 1) // 2 if left else counts[has] // 2
    segment = usable[first[has] + pick]
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
    shift[mine] = other_offset[segment] - own_offset[segment]
    while True:
        further = block[block]
        if np.array_equal(further, block):
            return block, shift
        shift += shift[block]
        block = further


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
