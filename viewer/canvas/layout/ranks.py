"""Ranks of nodes of a directed graph: cycles broken, edges forward and short, sources near their consumers."""

from __future__ import annotations

import networkx as nx  # lays the nodes out, as the project asks; reading its modules takes some 0.1 s beside the file
import numpy as np

from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real


def digraph(n: int, source: Index, target: Index) -> nx.DiGraph[int]:
    """Build the graph of the nodes 0 … n - 1 with these edges."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(zip(source.tolist(), target.tolist(), strict=True))
    return graph


def _neighbours(n: int, source: Index, target: Index) -> tuple[list[list[int]], list[list[int]]]:
    """[N] the nodes after each node, and those before it, in the order of the edges; parallel edges are one."""
    successors: list[list[int]] = [[] for _ in range(n)]
    predecessors: list[list[int]] = [[] for _ in range(n)]
    first = np.sort(np.unique(source * n + target, return_index=True)[1])
    for a, b in zip(source[first].tolist(), target[first].tolist(), strict=True):
        successors[a].append(b)
        predecessors[b].append(a)
    return successors, predecessors


def back_edges(n: int, source: Index, target: Index) -> Mask:
    """[E] edges that close a cycle in a depth-first search in model order; none in a valid graph. Not self-loops."""
    if (source <= target).all():
        return np.zeros(len(source), bool)
    in_cycle = np.zeros(n, bool)
    for component in nx.strongly_connected_components(nx.DiGraph(zip(source.tolist(), target.tolist(), strict=True))):
        if len(component) > 1:
            in_cycle[list(component)] = True
    inner = in_cycle[source] & in_cycle[target] & (source != target)
    cyclic: nx.DiGraph[int] = nx.DiGraph()
    cyclic.add_nodes_from(range(n))
    cyclic.add_edges_from(zip(source[inner].tolist(), target[inner].tolist(), strict=True))
    path: set[int] = set()
    closing: list[int] = []
    for a, b, label in nx.dfs_labeled_edges(cyclic):
        if label == "forward":
            path.add(b)
        elif label == "reverse":
            path.discard(b)
        elif b in path:
            closing.append(a * n + b)
    return np.isin(source * n + target, closing)


def parts(graph: nx.DiGraph[int], ties: tuple[Index, Index]) -> Index:
    """[N] the number of each node's weakly connected component, in the order of their first nodes.

    `ties` are pairs of nodes in one component without an edge.
    """
    part = np.empty(len(graph), np.int64)
    for number, component in enumerate(nx.weakly_connected_components(graph)):
        part[list(component)] = number
    if not len(ties[0]):
        return part
    tied: nx.Graph[int] = nx.Graph()
    tied.add_nodes_from(range(int(part.max(initial=-1)) + 1))
    tied.add_edges_from(zip(part[ties[0]].tolist(), part[ties[1]].tolist(), strict=True))
    joined = np.empty(len(tied), np.int64)
    for number, component in enumerate(nx.connected_components(tied)):
        joined[list(component)] = number
    return joined[part]


def rank(graph: nx.DiGraph[int], pull: Index, progress: Progress) -> Index:
    """[N] ranks of an acyclic graph, every edge pointing at a greater one; not normalised per component.

    `pull` [N]: number of lines below a node minus those above; with 0 or more, the node follows its consumers.
    """
    successors = [list(after) for _, after in graph.adjacency()]
    predecessors = [list(graph.predecessors(node)) for node in graph]
    order: list[int] = []
    rank = [0] * len(successors)
    for number, generation in enumerate(nx.topological_generations(graph)):  # by the longest path to each node
        order += generation
        for v in generation:
            rank[v] = number
    progress.check()
    pulls = pull.tolist()
    # A subtree whose nodes have one consumer each, such as a constant and its preparation, always follows its consumer.
    lone = [len(after) == 1 for after in successors]
    floating = [not before for before in predecessors]
    for v in order:
        before = predecessors[v]
        if before and floating[before[0]]:
            floating[v] = all(floating[p] and lone[p] for p in before)
    # Down: nodes with at least as many lines below as above follow their consumers, so that chains move together.
    # Up: nodes with equal numbers return to their producers if these have not moved. No step lengthens lines.
    down = [(v, successors[v]) for v in reversed(order) if (pulls[v] >= 0 or floating[v]) and successors[v]]
    up = [(v, predecessors[v]) for v in order if pulls[v] <= 0 and not floating[v] and predecessors[v]]
    for _ in range(2):
        for v, after in down:
            rank[v] = (rank[after[0]] if lone[v] else min([rank[w] for w in after])) - 1
        for v, before in up:
            rank[v] = (rank[before[0]] if len(before) == 1 else max([rank[w] for w in before])) + 1
        progress.check()
    return np.array(rank, np.int64)


def narrow(source: Index, target: Index, rank: Index, width: Real, limit: float) -> Index:
    """[N] ranks of an acyclic graph no wider than the limit, if possible: nodes of full ones are moved to ranks below.

    Nodes are processed depth first, so that branches move as a whole, by the number of consecutive full ranks, so that
    rows of branches form. Spans are kept unless a rank is full. Sources follow their consumers.
    """
    successors, predecessors = _neighbours(len(rank), source, target)
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
