"""Which rank every node lies in: cycles broken, edges forward and short, sources sunk to their consumers."""

from __future__ import annotations

import numpy as np

from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real, offsets


def back_edges(n: int, source: Index, target: Index) -> Mask:
    """[E] edges that close a cycle when nodes are visited in model order; none in a valid graph."""
    back = np.zeros(len(source), bool)
    left = _cyclic_part(n, source, target)
    if not left.any():
        return back
    inner = np.flatnonzero(left[source] & left[target])
    order = inner[np.argsort(source[inner], kind="stable")]
    starts = offsets(source[order], n).tolist()
    targets = target[order].tolist()
    state = bytearray(n)  # 0 unseen, 1 on the path, 2 done
    cursor = starts[:-1]
    closing: list[int] = []
    for root in np.flatnonzero(left).tolist():
        if state[root]:
            continue
        path = [root]
        state[root] = 1
        while path:
            v = path[-1]
            i = cursor[v]
            if i == starts[v + 1]:
                state[v] = 2
                path.pop()
                continue
            cursor[v] = i + 1
            w = targets[i]
            if state[w] == 1:
                closing.append(i)
            elif state[w] == 0:
                state[w] = 1
                path.append(w)
    back[order[closing]] = True
    return back


def _cyclic_part(n: int, source: Index, target: Index) -> Mask:
    """Nodes that no topological order reaches: those in cycles and behind them."""
    forward = source < target
    if forward.all():
        return np.zeros(n, bool)
    order, _, _ = topological(n, source, target)
    left = np.ones(n, bool)
    left[order] = False
    return left


def topological(n: int, source: Index, target: Index) -> tuple[list[int], list[int], list[int]]:
    """Nodes in a topological order as far as there is one, and the successors as starts and targets."""
    by_source = np.argsort(source, kind="stable")
    starts = offsets(source, n).tolist()
    targets = target[by_source].tolist()
    waiting = np.bincount(target, minlength=n).tolist()
    order = [v for v, count in enumerate(waiting) if count == 0]
    for v in order:  # grows while it is walked
        for w in targets[starts[v] : starts[v + 1]]:
            waiting[w] -= 1
            if waiting[w] == 0:
                order.append(w)
    return order, starts, targets


def rank(n: int, source: Index, target: Index, values: Index, shared: Mask, progress: Progress) -> Index:
    """[N] ranks of an acyclic graph, every edge pointing at a greater one; not normalised per component.

    `values` [N] counts the different values a node hands out: edges of one value share a line, so pulling
    the node towards its consumers shortens that many lines. `shared` [E] marks edges of values with many
    consumers: their line is there anyway, so their consumers sink to where they are needed.
    """
    order, succ_starts, succ = topological(n, source, target)
    by_target = np.argsort(target, kind="stable")
    pred_starts = offsets(target, n).tolist()
    pred = source[by_target].tolist()
    rank = [0] * n
    for v in order:
        r = rank[v] + 1
        for w in succ[succ_starts[v] : succ_starts[v + 1]]:
            if rank[w] < r:
                rank[w] = r
    progress.check()
    pull = (2 * values - np.bincount(target, np.where(shared, 1, 2), n)).astype(np.int64).tolist()
    # Whatever hangs on nothing but its own inputs, a constant with what prepares it, moves as a whole: it always sinks.
    floating = [False] * n
    for v in order:
        floating[v] = all(
            floating[p] and succ_starts[p + 1] - succ_starts[p] == 1 for p in pred[pred_starts[v] : pred_starts[v + 1]]
        )
    # Down: whoever has more lines below than above follows its consumers; ties follow too, so that whole
    # chains come along. Up: ties whose producer did not come along go back to it. No step lengthens lines.
    for _ in range(2):
        for v in reversed(order):
            first, end = succ_starts[v], succ_starts[v + 1]
            if first < end and (pull[v] >= 0 or floating[v]):
                rank[v] = min([rank[w] for w in succ[first:end]]) - 1
        for v in order:
            first, end = pred_starts[v], pred_starts[v + 1]
            if first < end and pull[v] <= 0 and not floating[v]:
                rank[v] = max([rank[w] for w in pred[first:end]]) + 1
        progress.check()
    return np.array(rank, np.int64)


def narrow(source: Index, target: Index, rank: Index, width: Real, limit: float) -> Index:
    """[N] ranks no wider than the limit where that is possible: what is too much goes into further ranks below.

    Nodes are taken depth first, so that whole branches move, not their first operators and then their second
    ones, and by as many ranks as are too full one after the other, so that rows of branches form. Spans stay
    what they were unless a rank is full. Sources follow their consumers.
    """
    n = len(rank)
    _, succ_starts, succ = topological(n, source, target)
    by_target = np.argsort(target, kind="stable")
    pred_starts = offsets(target, n).tolist()
    pred = source[by_target].tolist()
    row = rank - rank.min()
    total = np.bincount(row, width).astype(np.float64)
    lengths, most = _runs(total > limit, total)
    tight, step = rank.tolist(), lengths[row].tolist()
    # as if all of a branch were as wide as its widest row of operators: so that it fits as a whole or not at all
    size = (width * (most / np.maximum(total, 1.0))[row]).tolist()
    waiting = np.bincount(target, minlength=n).tolist()
    is_source = [not count and succ_starts[v] < succ_starts[v + 1] for v, count in enumerate(waiting)]
    sources = [v for v in range(n) if is_source[v]]
    for v in sources:
        for w in succ[succ_starts[v] : succ_starts[v + 1]]:
            waiting[w] -= 1
    ready = [v for v in range(n - 1, -1, -1) if not waiting[v] and not is_source[v]]
    final = list(tight)
    rows = _Rows(limit)
    while ready:
        v = ready.pop()
        own = tight[v]
        before = [p for p in pred[pred_starts[v] : pred_starts[v + 1]] if not is_source[p]]
        final[v] = rows.take(max((final[p] + own - tight[p] for p in before), default=own), size[v], step[v])
        for w in reversed(succ[succ_starts[v] : succ_starts[v + 1]]):
            waiting[w] -= 1
            if not waiting[w]:
                ready.append(w)
    for v in sources:
        final[v] = min(final[w] - tight[w] + tight[v] for w in succ[succ_starts[v] : succ_starts[v + 1]])
    return np.array(final, np.int64)


class _Rows:
    """How full ranks are, and where to look instead of a full one."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.used: dict[int, float] = {}
        self.onward: dict[int, int] = {}  # a full rank and where to look instead

    def take(self, rank: int, size: float, step: int) -> int:
        """Find room in this rank or, by so many ranks at a time, in one below."""
        rank = self._follow(rank)
        while self.used.get(rank, 0.0) + size > self.limit and self.used.get(rank):
            self.onward[rank] = rank + step
            rank = self._follow(rank)
        self.used[rank] = self.used.get(rank, 0.0) + size
        return rank

    def _follow(self, rank: int) -> int:
        """Where a chain of pointers ends; they point there directly afterwards."""
        trail = []
        while rank in self.onward:
            trail.append(rank)
            rank = self.onward[rank]
        for at in trail:
            self.onward[at] = rank
        return rank


def _runs(flags: Mask, total: Real) -> tuple[Index, Real]:
    """For each flag that is set how many stand in a row there, and the greatest total of those; else 1 and its own."""
    change = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    lengths, most = np.ones(len(flags), np.int64), total.copy()
    for begin, end in zip(change[::2].tolist(), change[1::2].tolist(), strict=True):
        lengths[begin:end] = end - begin
        most[begin:end] = total[begin:end].max()
    return lengths, most
