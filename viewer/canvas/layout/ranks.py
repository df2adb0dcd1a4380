"""Which rank every node lies in: cycles broken, edges forward and short, sources sunk to their consumers."""

from __future__ import annotations

import numpy as np

from model.progress import Progress
from viewer.canvas.layout.arrays import Index, Mask, offsets


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
    # Down: whoever has more lines below than above follows its consumers; ties follow too, so that whole
    # chains come along. Up: ties whose producer did not come along go back to it. No step lengthens lines.
    for _ in range(2):
        for v in reversed(order):
            first, end = succ_starts[v], succ_starts[v + 1]
            if first < end and pull[v] >= 0:
                rank[v] = min([rank[w] for w in succ[first:end]]) - 1
        for v in order:
            first, end = pred_starts[v], pred_starts[v + 1]
            if first < end and pull[v] <= 0:
                rank[v] = max([rank[w] for w in pred[first:end]]) + 1
        progress.check()
    return np.array(rank, np.int64)
