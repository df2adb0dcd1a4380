"""Ranks of nodes on a networkx DiGraph: cycles broken, edges forward and short, sources near their consumers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real

if TYPE_CHECKING:
    import networkx as nx

    Digraph = nx.DiGraph[int]


@cache
def _digraph_class() -> type[Digraph]:
    """Return a DiGraph class with one attribute dictionary for all edges: separate ones take most of the build time."""
    import networkx as nx

    shared: dict[str, object] = {}

    class SharedAttributes(nx.DiGraph):  # type: ignore[type-arg]  # networkx 3.4 takes no argument at run time
        edge_attr_dict_factory = staticmethod(lambda: shared)

    return SharedAttributes


@contextmanager
def digraph(n: int, source: Index, target: Index) -> Iterator[Digraph]:
    """Build a DiGraph of the nodes 0 … n - 1 in this order; parallel edges become one. It is emptied at the end.

    It has reference cycles: freeing it by the garbage collector would block the window for 0.3 s at 200,000 nodes.
    """
    graph = _digraph_class()()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(zip(source.tolist(), target.tolist(), strict=True))
    try:
        yield graph
    finally:
        graph.clear()


def back_edges(n: int, source: Index, target: Index) -> Mask:
    """[E] edges that close a cycle in a depth-first search in model order; none in a valid graph. Not self-loops."""
    if (source <= target).all():
        return np.zeros(len(source), bool)
    import networkx as nx

    in_cycle = np.zeros(n, bool)
    with digraph(n, source, target) as graph:
        for component in nx.strongly_connected_components(graph):
            if len(component) > 1:
                in_cycle[list(component)] = True
    inner = in_cycle[source] & in_cycle[target] & (source != target)
    path: set[int] = set()
    closing: list[int] = []
    with digraph(n, source[inner], target[inner]) as graph:
        for a, b, label in nx.dfs_labeled_edges(graph):
            if label == "forward":
                path.add(b)
            elif label == "reverse":
                path.discard(b)
            elif b in path:
                closing.append(a * n + b)
    return np.isin(source * n + target, closing)


def parts(graph: Digraph, ties: tuple[Index, Index]) -> Index:
    """[N] the number of each node's weakly connected component, in the order of their first nodes.

    `ties` are pairs of nodes in one component without an edge; the graph gets one for each.
    """
    import networkx as nx

    graph.add_edges_from(zip(ties[0].tolist(), ties[1].tolist(), strict=True))
    part = np.zeros(len(graph), np.int64)
    for number, component in enumerate(nx.weakly_connected_components(graph)):
        part[list(component)] = number
    return part


def rank(graph: Digraph, pull: Index, progress: Progress) -> Index:
    """[N] ranks of an acyclic graph, every edge pointing at a greater one; not normalised per component.

    `pull` [N]: number of lines below a node minus those above; with 0 or more, the node follows its consumers.
    """
    import networkx as nx

    generations = list(nx.topological_generations(graph))
    order = [v for generation in generations for v in generation]
    rank = [0] * len(order)
    for number, generation in enumerate(generations):
        for v in generation:
            rank[v] = number
    progress.check()
    successors, predecessors = _neighbours(graph)
    pulls = pull.tolist()
    # A subtree whose nodes have one consumer each, such as a constant and its preparation, always follows its consumer.
    floating = [False] * len(order)
    for v in order:
        floating[v] = all(floating[p] and len(successors[p]) == 1 for p in predecessors[v])
    # Down: nodes with at least as many lines below as above follow their consumers, so that chains move together.
    # Up: nodes with equal numbers return to their producers if these have not moved. No step lengthens lines.
    for _ in range(2):
        for v in reversed(order):
            if (pulls[v] >= 0 or floating[v]) and successors[v]:
                rank[v] = min([rank[w] for w in successors[v]]) - 1
        for v in order:
            if pulls[v] <= 0 and not floating[v] and predecessors[v]:
                rank[v] = max([rank[w] for w in predecessors[v]]) + 1
        progress.check()
    return np.array(rank, np.int64)


def _neighbours(graph: Digraph) -> tuple[list[list[int]], list[list[int]]]:
    """Return the successors and predecessors of each node."""
    successors = [list(after) for _, after in graph.adjacency()]
    return successors, [list(before) for _, before in graph.reverse(copy=False).adjacency()]


def narrow(graph: Digraph, rank: Index, width: Real, limit: float) -> Index:
    """[N] ranks no wider than the limit, if possible: nodes of full ranks are moved to ranks below.

    Nodes are processed depth first, so that branches move as a whole, by the number of consecutive full ranks, so that
    rows of branches form. Spans are kept unless a rank is full. Sources follow their consumers.
    """
    successors, predecessors = _neighbours(graph)
    row = rank - rank.min()
    total = np.bincount(row, width).astype(np.float64)
    lengths, most = _runs(total > limit, total)
    tight, step = rank.tolist(), lengths[row].tolist()
    # treat a branch as wide as its widest row, so that it fits as a whole or not at all
    size = (width * (most / np.maximum(total, 1.0))[row]).tolist()
    waiting = [len(before) for before in predecessors]
    is_source = [bool(after) and not before for before, after in zip(predecessors, successors, strict=True)]
    sources = [v for v, found in enumerate(is_source) if found]
    for v in sources:
        for w in successors[v]:
            waiting[w] -= 1
    ready = [v for v in reversed(range(len(waiting))) if not waiting[v] and not is_source[v]]
    final = list(tight)
    rows = _Rows(limit)
    while ready:
        v = ready.pop()
        own = tight[v]
        before = [p for p in predecessors[v] if not is_source[p]]
        final[v] = rows.find_room(max((final[p] + own - tight[p] for p in before), default=own), size[v], step[v])
        for w in reversed(successors[v]):
            waiting[w] -= 1
            if not waiting[w]:
                ready.append(w)
    for v in sources:
        final[v] = min(final[w] - tight[w] + tight[v] for w in successors[v])
    return np.array(final, np.int64)


class _Rows:
    """Fill level of ranks, and the replacement of a full one (union-find)."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.used: dict[int, float] = {}
        self.onward: dict[int, int] = {}  # a full rank and its replacement

    def find_room(self, rank: int, size: float, step: int) -> int:
        """Find room in this rank or in one below it, moving down `step` ranks at a time."""
        rank = self._end_of_chain(rank)
        while self.used.get(rank, 0.0) + size > self.limit and self.used.get(rank):
            self.onward[rank] = rank + step
            rank = self._end_of_chain(rank)
        self.used[rank] = self.used.get(rank, 0.0) + size
        return rank

    def _end_of_chain(self, rank: int) -> int:
        """Return the end of a chain of pointers; afterwards they point there directly (path compression)."""
        trail = []
        while rank in self.onward:
            trail.append(rank)
            rank = self.onward[rank]
        for at in trail:
            self.onward[at] = rank
        return rank


def _runs(flags: Mask, total: Real) -> tuple[Index, Real]:
    """Return for each set flag the length of its run and the maximum total of the run; else 1 and its total."""
    change = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    lengths, most = np.ones(len(flags), np.int64), total.copy()
    for begin, end in zip(change[::2].tolist(), change[1::2].tolist(), strict=True):
        lengths[begin:end] = end - begin
        most[begin:end] = total[begin:end].max()
    return lengths, most
