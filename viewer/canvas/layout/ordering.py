"""The order of vertices within ranks: barycenter sweeps and exchanges of neighbours, fewest crossings kept.

A sweep orders every rank after its neighbour rank. Done one rank after the other that is 80,000 small steps for a
deep graph; so ranks are cut into blocks, and step t orders the t-th rank of every block at once. Blocks
start elsewhere in every round, so that no border stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.progress import Progress
from viewer.canvas.layout.arrays import Index, Real, offsets, spans
from viewer.canvas.layout.crossings import count
from viewer.canvas.layout.layered import Layered

_BLOCK = 96  # ranks; graphs with fewer are swept in one go
_PAIRS = 4096  # neighbours with more pairs of segments than this are left to the sweeps


@dataclass(slots=True)
class _Side:
    """Segments grouped by the vertex they are seen from, towards one neighbour rank."""

    starts: Index  # [V + 1]
    other: Index  # [S] vertex at the far end
    other_port: Index
    own_port: Index
    weight: Real


@dataclass(slots=True)
class _Step:
    slots: Index  # places in `order` of all vertices of the step's ranks
    rank: Index  # the rank of each slot
    start: Index  # the index in `slots` where the slot's rank starts
    seen: Index  # vertices with segments towards the fixed rank
    segments: Index  # their segments, grouped by vertex
    groups: Index  # where each group starts


class Order:
    """Vertices of a layered graph in some order, being improved. `seed` [V] gives the first order."""

    def __init__(self, graph: Layered, seed: Real) -> None:
        self.graph = graph
        v = graph.vertices
        self.rank = graph.rank
        self.starts = offsets(graph.rank, graph.ranks)
        s = graph.segments
        self.ports = np.ones(v, np.int64)
        np.maximum.at(self.ports, s.upper, s.upper_port + 1)
        np.maximum.at(self.ports, s.lower, s.lower_port + 1)
        self.gap = graph.rank[s.upper]
        self.up = _side(v, s.lower, s.upper, s.lower_port, s.upper_port, s.weight)
        self.down = _side(v, s.upper, s.lower, s.upper_port, s.lower_port, s.weight)
        self.order = np.lexsort((np.arange(v), seed, graph.rank))
        self.place = np.empty(v, np.int64)
        self.index = np.arange(v) - self.starts[:-1][graph.rank[self.order]]
        self._steps: dict[tuple[bool, int], list[_Step]] = {}
        self._replace()

    def _replace(self) -> None:
        """Places along the rank: a vertex takes as many as it has ports."""
        size = self.ports[self.order]
        end = np.cumsum(size)
        first = end - size
        place = first - first[np.minimum(self.starts[:-1], len(size) - 1)][self.rank[self.order]]
        self.place[self.order] = place

    def crossings(self) -> int:
        """All crossings of this order."""
        return int(self.crossings_per_gap().sum())

    def crossings_per_gap(self) -> Index:
        """[ranks] crossings below every rank."""
        s = self.graph.segments
        upper = self.place[s.upper] + s.upper_port
        lower = self.place[s.lower] + s.lower_port
        return count(self.gap, upper, lower, s.weight, self.graph.ranks)

    def sweep(self, downwards: bool, shift: int, turn_ties: bool) -> None:
        """Order every rank by the barycenters towards the rank above (or below) it."""
        side = self.up if downwards else self.down
        place = self.place
        key = np.full(len(place), np.nan)
        for step in self._plan(downwards, shift):
            towards = place[side.other[step.segments]] + side.other_port[step.segments]
            weight = side.weight[step.segments]
            total = np.add.reduceat(towards * weight, step.groups)
            key[step.seen] = total / np.add.reduceat(weight, step.groups)
            self._sort(step, key, turn_ties)

    def _sort(self, step: _Step, key: Real, turn_ties: bool) -> None:
        current = self.order[step.slots]
        keys = key[current]
        known = ~np.isnan(keys)
        if not known.all():
            # Who has no neighbour there stays with the vertex to its left.
            at = np.maximum.accumulate(np.where(known, np.arange(len(keys)), -1))
            keys = np.where(at >= step.start, keys[at], -1.0)
        if turn_ties:
            turned = np.arange(len(keys), 0, -1)
            by_key = np.lexsort((turned, keys, step.rank))
        else:
            by_key = np.lexsort((keys, step.rank))
        current = current[by_key]
        self.order[step.slots] = current
        size = self.ports[current]
        first = np.cumsum(size) - size
        self.place[current] = first - first[step.start]

    def _plan(self, downwards: bool, shift: int) -> list[_Step]:
        found = self._steps.get((downwards, shift))
        if found is None:
            found = self._steps[downwards, shift] = list(self._steps_of(downwards, shift))
        return found

    def _steps_of(self, downwards: bool, shift: int) -> list[_Step]:
        ranks = self.graph.ranks
        side = self.up if downwards else self.down
        block = ranks if ranks <= 2 * _BLOCK else _BLOCK
        numbers = np.arange(ranks) if downwards else np.arange(ranks)[::-1]
        turn = (np.arange(ranks) + shift) % block
        by_turn = np.argsort(turn, kind="stable")
        bounds = offsets(turn, block)
        counts = np.diff(self.starts)
        by_rank = np.argsort(self.rank, kind="stable")
        degree = np.diff(side.starts)
        steps = []
        for t in range(block):
            chosen = np.sort(numbers[by_turn[bounds[t] : bounds[t + 1]]])
            chosen = chosen[counts[chosen] > 0]
            slots = spans(self.starts[chosen], counts[chosen])
            members = by_rank[slots]
            seen = members[degree[members] > 0]
            if not len(seen):
                continue
            size = degree[seen]
            groups = np.cumsum(size) - size
            rank = self.rank[members]
            first = np.cumsum(counts[chosen]) - counts[chosen]
            start = np.repeat(first, counts[chosen])
            steps.append(_Step(slots, rank, start, seen, spans(side.starts[seen], size), groups))
        return steps

    def exchange(self) -> bool:
        """Swap neighbours wherever that saves crossings, until a whole round changed nothing or three passed."""
        changed = False
        for _ in range(3):
            moved = False
            for parity in range(4):
                moved |= self._exchange(parity & 1, parity >> 1)
            changed |= moved
            if not moved:
                break
        return changed

    def _exchange(self, rank_parity: int, parity: int) -> bool:
        order, rank = self.order, self.rank
        left = order[:-1]
        right = order[1:]
        rank_left = rank[left]
        fits = (rank_left == rank[right]) & (rank_left & 1 == rank_parity) & (self.index[:-1] & 1 == parity)
        at = np.flatnonzero(fits)
        if not len(at):
            return False
        a, b = order[at], order[at + 1]
        gain = self._gain(self.up, a, b) + self._gain(self.down, a, b)
        at = at[gain > 0]
        if not len(at):
            return False
        a, b = order[at], order[at + 1]
        order[at], order[at + 1] = b, a
        moved = self.ports[b]
        self.place[b] = self.place[a]
        self.place[a] += moved
        return True

    def _gain(self, side: _Side, a: Index, b: Index) -> Real:
        """Crossings saved on one side when each b goes before its a."""
        na = side.starts[a + 1] - side.starts[a]
        nb = side.starts[b + 1] - side.starts[b]
        pairs = na * nb
        pairs[pairs > _PAIRS] = 0
        if not pairs.any():
            return np.zeros(len(a))
        pair = np.repeat(np.arange(len(a)), pairs)
        within = spans(np.zeros(len(a), np.int64), pairs)
        across = np.maximum(nb, 1)[pair]
        ea = side.starts[a][pair] + within // across
        eb = side.starts[b][pair] + within % across
        pa = self.place[side.other[ea]] + side.other_port[ea]
        pb = self.place[side.other[eb]] + side.other_port[eb]
        return np.bincount(pair, np.sign(pa - pb) * side.weight[ea] * side.weight[eb], len(a))

    def snapshot(self) -> Index:
        """The order as it is now, for `restore`."""
        return self.order.copy()

    def restore(self, order: Index) -> None:
        """Take an order back."""
        self.order = order.copy()
        self._replace()


def _side(v: int, own: Index, other: Index, own_port: Index, other_port: Index, weight: Index) -> _Side:
    by_own = np.argsort(own, kind="stable")
    return _Side(
        offsets(own, v), other[by_own], other_port[by_own], own_port[by_own], weight[by_own].astype(float)
    )


def arrange(graph: Layered, seed: Real, progress: Progress, keep: bool = False) -> Index:
    """Vertices sorted by rank and place, with few crossings.

    `keep` starts from the seed's order and only mends it: what an earlier layout showed stays recognisable.
    """
    best: Index | None = None
    fewest = -1
    small = graph.vertices <= 3000
    rounds = 24 if small else 8 if graph.vertices <= 40_000 else 5
    starts: tuple[bool, ...] = (True, False) if small and not keep else (True,)
    for first_down in starts:
        order = Order(graph, seed)
        crossings = order.crossings()
        if best is None or crossings < fewest:
            best, fewest = order.snapshot(), crossings
        stale = 0
        for turn in range(rounds):
            shift = (turn % 3) * _BLOCK // 3
            for down in (first_down, not first_down):
                order.sweep(down, shift, turn_ties=turn % 4 >= 2)
            order.exchange()
            crossings = order.crossings()
            progress.check()
            if crossings < fewest:
                best, fewest, stale = order.snapshot(), crossings, 0
            else:
                stale += 1
            if fewest == 0 or stale > (8 if small else 3):
                break
        if fewest == 0:
            break
    assert best is not None
    return best


def first_order(graph: Layered, nodes: Real) -> Real:
    """[V] keys of an order to start from: the nodes' own, and for dummies that of the node they come from."""
    dummies = len(graph.dummy_trunk)
    upper = graph.segments.upper[:dummies]  # the first segments lead into the dummies, trunk by trunk
    begins = upper < graph.nodes
    origins = upper[begins]
    return np.concatenate([nodes, nodes[origins[np.cumsum(begins) - 1]]])
