"""The order of vertices within ranks: barycenter sweeps and exchanges of neighbours; the best order is kept.

A sweep orders every rank by its neighbour rank. Rank by rank, that is 80,000 small steps for a deep graph; so ranks
are split into blocks, and step t orders the t-th rank of every block at once. Blocks start at other ranks in every
round, so that no block border persists.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real, offsets, rank_within, spans
from onnx_workbench.viewer.canvas.layout.crossings import count
from onnx_workbench.viewer.canvas.layout.layered import Layered

_BLOCK = 96  # ranks; graphs with fewer are swept in one go
_STRETCHES = 2  # rounds of swapping stretches after each sweep
_WORTHWHILE = 0.97  # ratio of crossings to those of the last round below which another round follows
SMALL = 4000  #: vertices up to which the time does not matter
_MEDIUM = 25_000  # vertices up to which it takes a fraction of a second
_LARGE = 40_000  # vertices up to which it takes well below a second
_MOST_REPAIR_ROUNDS = 8  # limit for the rounds that improve a known order
_PATIENCE = 3  # rounds without gain before it ends
_SHARED = 4  # consumers from which a line is tried at the outside
_PAIRS = 4096  # neighbours with more pairs of segments than this are only ordered by sweeps


@dataclass(slots=True)
class _Side:
    """Segments towards one neighbour rank, grouped by their vertex."""

    starts: Index  # [V + 1]
    other: Index  # [S] vertex at the far end
    other_port: Index
    weight: Real
    halves: list[tuple[Index, Index, Index]]  # of even and odd ranks: vertices with segments, segments, starts
    total: Real  # [V] total weight of a vertex's segments


@dataclass(slots=True)
class _Reach:
    """[V] the outermost places at the other ends of a vertex's segments on one side; 0 if it has none."""

    low: Index
    high: Index


@dataclass(slots=True)
class _Step:
    slots: Index  # places in `order` of all vertices of the step's ranks
    rank: Index  # the rank of each slot
    start: Index  # the index in `slots` where the slot's rank starts
    seen: Index  # vertices with segments towards the fixed rank
    segments: Index  # their segments, grouped by vertex
    groups: Index  # where each group starts


class Order:
    """Order of the vertices of a layered graph, which is improved in place.

    `seed` [V] are keys of the initial order; `like` is another order of the same graph that shares precomputed data.
    """

    def __init__(self, graph: Layered, seed: Real, like: Order | None = None) -> None:
        self.graph = graph
        v = graph.vertices
        self.rank = graph.rank
        self.starts = offsets(graph.rank, graph.ranks)
        s = graph.segments
        self.ports = np.ones(v, np.int64)
        np.maximum.at(self.ports, s.upper, s.upper_port + 1)
        np.maximum.at(self.ports, s.lower, s.lower_port + 1)
        self.gap = graph.rank[s.upper]
        if like is None:
            self.up = _side(graph.rank, s.lower, s.upper, s.upper_port, s.weight)
            self.down = _side(graph.rank, s.upper, s.lower, s.lower_port, s.weight)
        else:
            self.up, self.down = like.up, like.down
        self.order = np.lexsort((np.arange(v), seed, graph.rank))
        self.place = np.empty(v, np.int64)
        self.index = np.arange(v) - self.starts[:-1][graph.rank[self.order]]
        self._steps: dict[tuple[bool, int], list[_Step]] = {} if like is None else like._steps
        self._replace()

    def _replace(self) -> None:
        """Update the places along the ranks: a vertex takes one for each port."""
        size = self.ports[self.order]
        end = np.cumsum(size)
        first = end - size
        place = first - first[np.minimum(self.starts[:-1], len(size) - 1)][self.rank[self.order]]
        self.place[self.order] = place

    def crossings(self) -> Index:
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
        has_key = ~np.isnan(keys)
        if not has_key.all():
            # A vertex without neighbours there stays next to the vertex to its left.
            at = np.maximum.accumulate(np.where(has_key, np.arange(len(keys)), -1))
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
        steps = self._steps.get((downwards, shift))
        if steps is None:
            steps = self._steps[downwards, shift] = list(self._steps_of(downwards, shift))
        return steps

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
        """Swap neighbours where that saves crossings, until a round changes nothing, at most three rounds."""
        changed = False
        for _ in range(3):
            moved = False
            for rank_parity in (0, 1):
                # the adjacent ranks are fixed meanwhile
                reaches = self._reach(self.up, rank_parity), self._reach(self.down, rank_parity)
                for parity in (0, 1):
                    moved |= self._exchange(rank_parity, parity, reaches)
            changed |= moved
            if not moved:
                break
        return changed

    def _exchange(self, rank_parity: int, parity: int, reaches: tuple[_Reach, _Reach]) -> bool:
        order, rank = self.order, self.rank
        left = order[:-1]
        right = order[1:]
        rank_left = rank[left]
        fits = (rank_left == rank[right]) & (rank_left & 1 == rank_parity) & (self.index[:-1] & 1 == parity)
        at = np.flatnonzero(fits)
        if not len(at):
            return False
        a, b = order[at], order[at + 1]
        up, down = reaches
        tangled = (up.high[a] > up.low[b]) | (down.high[a] > down.low[b])  # only these can gain by a swap
        at, a, b = at[tangled], a[tangled], b[tangled]
        gain = self._gain(self.up, up, a, b) + self._gain(self.down, down, a, b)
        at = at[gain > 0]
        if not len(at):
            return False
        a, b = order[at], order[at + 1]
        order[at], order[at + 1] = b, a
        moved = self.ports[b]
        self.place[b] = self.place[a]
        self.place[a] += moved
        return True

    def _reach(self, side: _Side, parity: int | None = None) -> _Reach:
        """Compute the reach of the vertices in even or odd ranks, or in all."""
        v = len(self.place)
        low, high = np.zeros(v, np.int64), np.zeros(v, np.int64)
        for seen, segments, groups in side.halves if parity is None else [side.halves[parity]]:
            if len(seen):
                ends = self.place[side.other[segments]] + side.other_port[segments]
                low[seen] = np.minimum.reduceat(ends, groups)
                high[seen] = np.maximum.reduceat(ends, groups)
        return _Reach(low, high)

    def _pairs(self, side: _Side, a: Index, b: Index) -> tuple[Index, Index, Index]:
        """Return all pairs of a segment of each a and one of its b on one side: index of (a, b), and segments."""
        na = side.starts[a + 1] - side.starts[a]
        nb = side.starts[b + 1] - side.starts[b]
        pairs = na * nb
        pairs[pairs > _PAIRS] = 0
        pair = np.repeat(np.arange(len(a)), pairs)
        within = spans(np.zeros(len(a), np.int64), pairs)
        across = np.maximum(nb, 1)[pair]
        return pair, side.starts[a][pair] + within // across, side.starts[b][pair] + within % across

    def _gain(self, side: _Side, reach: _Reach, a: Index, b: Index) -> Real:
        """Return the crossings saved on one side if each b is moved before its a."""
        total = side.total[a] * side.total[b]
        gain = np.where(reach.high[a] < reach.low[b], -total, total)
        mixed = np.flatnonzero((reach.high[a] >= reach.low[b]) & (reach.low[a] <= reach.high[b]) & (total > 0))
        pair, ea, eb = self._pairs(side, a[mixed], b[mixed])
        pa = self.place[side.other[ea]] + side.other_port[ea]
        pb = self.place[side.other[eb]] + side.other_port[eb]
        saved = np.sign(pa - pb) * side.weight[ea] * side.weight[eb]
        gain[mixed] = np.bincount(pair, saved, len(mixed))
        return gain

    def exchange_runs(self, before: Index) -> Index:
        """Swap neighbours over several ranks at once, where single swaps would add crossings.

        Two adjacent lines, such as a skip connection and a mask used by every block, are swapped over the stretch of
        ranks that saves most: the sum of the single gains, plus the crossings of the two lines that each single swap
        would cause above and below. Takes and returns the crossings per gap.
        """
        kept = self.snapshot()
        stretches = self._stretches()
        share = len(stretches)
        while share:
            self._swap(stretches[:share])
            crossings = self.crossings()
            if crossings.sum() < before.sum():
                return crossings
            self.restore(kept)
            share //= 4
        return before

    def _stretches(self) -> list[Index]:
        """Return slots of the left partners of stretches to swap, the best first."""
        order, rank = self.order, self.rank
        left = np.flatnonzero(rank[order[:-1]] == rank[order[1:]])
        if not len(left):
            return []
        a, b = order[left], order[left + 1]
        gain = self._gain(self.up, self._reach(self.up), a, b) + self._gain(self.down, self._reach(self.down), a, b)
        above, bonus = self._links(left, a, b)
        head, depth = np.arange(len(left)), (above >= 0).astype(np.int64)
        head[above >= 0] = above[above >= 0]
        while True:
            further = head[head]
            if np.array_equal(further, head):
                break
            depth += depth[head]
            head = further
        by_chain = np.lexsort((depth, head))
        chain = np.cumsum(np.concatenate([[0], np.diff(head[by_chain]) != 0]))
        g, bonus = gain[by_chain], bonus[by_chain]
        total = np.cumsum(g + bonus)
        begin_with = g - total
        lift = chain * (4 * (np.abs(total).max() + np.abs(g).max()) + 1)
        best_begin = np.maximum.accumulate(begin_with + lift)
        begin = np.maximum.accumulate(np.where(begin_with + lift >= best_begin, np.arange(len(g)), 0))
        saved = total + best_begin - lift
        best = np.full(int(chain[-1]) + 1, 0.5)
        np.maximum.at(best, chain, saved)
        ends = np.flatnonzero(saved >= best[chain])
        ends = ends[np.argsort(-saved[ends], kind="stable")]
        slots = left[by_chain]
        return [slots[i : j + 1] for i, j in zip(begin[ends].tolist(), ends.tolist(), strict=True)]

    def _links(self, left: Index, a: Index, b: Index) -> tuple[Index, Real]:
        """Return for each pair of neighbours the pair above that it continues, or -1, and the joint gain."""
        slot = np.empty(len(self.order), np.int64)
        slot[self.order] = np.arange(len(slot))
        number = np.full(len(slot), -1)
        number[left] = np.arange(len(left))
        pair, ea, eb = self._pairs(self.up, a, b)
        upper = slot[self.up.other[ea]]
        beside = upper + 1 == slot[self.up.other[eb]]
        pair, ea, eb = pair[beside], ea[beside], eb[beside]
        upper = number[upper[beside]]
        once = np.flatnonzero(rank_within(pair) == 0)
        taken = np.zeros(len(left), np.int64)
        taken[upper[once]] = once
        once = once[taken[upper[once]] == once]
        above = np.full(len(left), -1)
        bonus = np.zeros(len(left))
        above[pair[once]] = upper[once]
        bonus[pair[once]] = 2 * self.up.weight[ea[once]] * self.up.weight[eb[once]]
        return above, bonus

    def _swap(self, stretches: list[Index]) -> None:
        touched = np.zeros(len(self.order) + 1, bool)
        for slots in stretches:
            if not (touched[slots].any() or touched[slots + 1].any()):
                touched[slots] = touched[slots + 1] = True
                self.order[slots], self.order[slots + 1] = self.order[slots + 1], self.order[slots]
        self._replace()

    def snapshot(self) -> Index:
        """Return a copy of the current order, for `restore`."""
        return self.order.copy()

    def restore(self, order: Index) -> None:
        """Restore an order."""
        self.order = order.copy()
        self._replace()


def _side(rank: Index, own: Index, other: Index, other_port: Index, weight: Index) -> _Side:
    by_own = np.argsort(own, kind="stable")
    starts = offsets(own, len(rank))
    counts = np.diff(starts)
    halves = []
    for parity in (0, 1):
        seen = np.flatnonzero((counts > 0) & (rank & 1 == parity))
        groups = np.cumsum(counts[seen]) - counts[seen]
        halves.append((seen, spans(starts[seen], counts[seen]), groups))
    total = np.bincount(own, weight, len(rank)).astype(np.float64)
    return _Side(starts, other[by_own], other_port[by_own], weight[by_own].astype(float), halves, total)


def arrange(graph: Layered, progress: Progress) -> tuple[Index, int]:
    """Return the vertices sorted by rank and place, with few crossings, and the number of crossings.

    Several initial orders are tried for a few rounds, and the best is continued.
    """
    few, many = (1, _SHARED - 1), (_SHARED, graph.vertices)
    starts = [_first_order(graph, *consumers) for consumers in ((1, 0), many, few, (1, graph.vertices))]
    trial, rounds = _efforts(graph)
    runs: list[_Run] = []
    for seed in starts:
        order = Order(graph, seed, runs[0].order if runs else None)
        run = _Run(order, progress)
        for first_down in (True, False) if graph.vertices <= SMALL else (True,):
            run.improve(trial, first_down)
        runs.append(run)
        if run.fewest == 0:
            break
    best = runs[0]
    for run in runs[1:]:
        best.adopt(run.best, run.gaps)
    best.improve(rounds, first_down=True)
    return best.best, best.fewest


def mend(graph: Layered, known: Real, progress: Progress) -> tuple[Index, int]:
    """Return the same, near to the order given by keys [V] of an earlier layout, which stays recognizable."""
    run = _Run(Order(graph, known), progress)
    run.mend()
    return run.best, run.fewest


def arrange_from(graph: Layered, keys: Real, progress: Progress) -> tuple[Index, int]:
    """Return the same from one initial order, given by `keys` [V] along the ranks, sweeping upwards first."""
    run = _Run(Order(graph, keys), progress)
    run.improve(_efforts(graph)[1], first_down=False)
    return run.best, run.fewest


def crossed(graph: Layered, order: Index) -> Mask:
    """[S] which segments cross another, in an order with few crossings."""
    is_crossed = np.zeros(len(graph.segments.upper), bool)
    state = Order(graph, np.zeros(graph.vertices))
    state.restore(order)
    s = graph.segments
    upper, lower = state.place[s.upper] + s.upper_port, state.place[s.lower] + s.lower_port
    tangled = state.crossings() > 0
    by_gap = np.argsort(state.gap, kind="stable")
    starts = offsets(state.gap, graph.ranks)
    for gap in np.flatnonzero(tangled).tolist():
        own = by_gap[starts[gap] : starts[gap + 1]]
        turned = np.sign(upper[own, None] - upper[own]) * np.sign(lower[own, None] - lower[own])
        is_crossed[own] = (turned < 0).any(1)
    return is_crossed


def _efforts(graph: Layered) -> tuple[int, int]:
    """Return the rounds to try each initial order, and those to continue the best, by the size of the graph."""
    if graph.vertices <= SMALL:
        return 4, 24
    if graph.vertices <= _MEDIUM:
        return 2, 8
    return (3, 3) if graph.vertices <= _LARGE else (1, 4)


class _Run:
    """Rounds of sweeps and exchanges from one initial order, and the best order found."""

    def __init__(self, order: Order, progress: Progress) -> None:
        self.order, self.progress = order, progress
        self.best, self.gaps = order.snapshot(), order.crossings()
        self.turn = 0

    @property
    def fewest(self) -> int:
        """Crossings of the best order."""
        return int(self.gaps.sum())

    def mend(self) -> None:
        """Only exchange neighbours, singly and over several ranks."""
        for _ in range(_MOST_REPAIR_ROUNDS):
            self.progress.check()
            self.order.exchange()
            gaps = self.order.exchange_runs(self.order.crossings())
            if not self.adopt(self.order.snapshot(), gaps):
                break

    def improve(self, rounds: int, first_down: bool) -> None:
        """Sweep for a number of rounds, or until there was no gain for some rounds."""
        order = self.order
        stale = 0
        for _ in range(rounds):
            if self.fewest == 0 or stale > _PATIENCE:
                return
            shift = (self.turn % 3) * _BLOCK // 3
            for down in (first_down, not first_down):
                order.sweep(down, shift, turn_ties=self.turn % 4 >= 2)
            order.exchange()
            gaps = order.crossings()
            for _ in range(_STRETCHES):
                self.progress.check()
                before = gaps
                gaps = order.exchange_runs(before)
                if gaps.sum() > _WORTHWHILE * before.sum():
                    break
            self.turn += 1
            stale = 0 if self.adopt(order.snapshot(), gaps) else stale + 1

    def adopt(self, other: Index, gaps: Index) -> bool:
        """Adopt another order in the ranks where it is better; return whether there are any.

        Between two ranks with the same arrangement in both orders, either can be used: so a deep graph is combined from
        the best stretches of all tried orders.
        """
        starts = self.order.starts[:-1]
        alike = np.logical_and.reduceat(self.best == other, starts)
        stretch = np.cumsum(alike)
        saved = np.bincount(stretch, self.gaps) - np.bincount(stretch, gaps)
        better = (saved > 0)[stretch]
        if not better.any():
            return False
        # The first rank of a stretch is equal in both, so complete ranks can be copied.
        slots = better[self.order.rank[self.best]]
        self.best = np.where(slots, other, self.best)
        self.gaps = np.where(better, gaps, self.gaps)
        self.order.restore(self.best)
        return True


def _first_order(graph: Layered, least: int, most: int) -> Real:
    """[V] keys: nodes in model order; dummies have the key of their source node.

    Lines with `least` to `most` consumers start at the right end instead: a mask or a time step used by every
    block disturbs least on one side, skip connections on the other, which local exchanges would not find.
    """
    nodes = np.arange(graph.nodes, dtype=np.float64)
    dummies = len(graph.dummy_trunk)
    if not dummies:
        return nodes
    upper = graph.segments.upper[:dummies]  # the first segments end at the dummies, trunk by trunk
    begins = upper < graph.nodes
    origins = upper[begins]
    keys = nodes[origins[np.cumsum(begins) - 1]]
    trunk = graph.dummy_trunk
    consumers = np.bincount(trunk, np.where(begins, graph.segments.weight[:dummies], 0))[trunk]
    keys = np.where((consumers >= least) & (consumers <= most), nodes.max() + 1 + keys, keys)
    return np.concatenate([nodes, keys])
