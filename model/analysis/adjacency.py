"""Adjacency of a graph as arrays (CSR): the producer of each input and the users of each output, by node index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.model.analysis.scoping import run_order
from onnx_workbench.model.analysis.topology import outer_values
from onnx_workbench.model.ir.graph import Graph, Node
from onnx_workbench.model.progress import SILENT, Progress

Index = NDArray[np.int64]

#: In place of a node index: no producer, a producer outside of the nodes, a graph output.
NOBODY, OUTSIDE, RESULT = -1, -2, -3


@dataclass(frozen=True, eq=False)
class Adjacency:
    """N nodes in topological order. Inputs of node n are `starts[n]:starts[n + 1]` of M.

    Outer values used by a node's subgraphs follow its inputs, once each, as `outer_values` gives them. Uses of its
    outputs are `use_starts[n]:use_starts[n + 1]` of U: the output, the user, and the user's input index.
    """

    nodes: list[Node]
    starts: Index  # [N + 1]
    makers: Index  # [M] producer of the input
    outputs: Index  # [M] output index at the producer
    use_starts: Index  # [N + 1]
    use_outputs: Index  # [U]
    users: Index  # [U]
    use_inputs: Index  # [U]

    def of(self, starts: Index, nodes: Index) -> tuple[Index, Index]:
        """Return all positions of some nodes in the arrays partitioned by `starts`, and the node of each."""
        first = starts[nodes]
        counts = starts[nodes + 1] - first
        owner = np.repeat(np.arange(len(nodes)), counts)
        return owner, np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))

    def only(self, nodes: Index) -> Adjacency:
        """Restrict to some nodes, ascending; the others are outside."""
        number = np.full(max(len(self.nodes), -RESULT), OUTSIDE, np.int64)  # negative ones are looked up, too
        number[nodes] = np.arange(len(nodes))
        of_input, inputs = self.of(self.starts, nodes)
        of_use, uses = self.of(self.use_starts, nodes)
        makers, users = self.makers[inputs], self.users[uses]
        return Adjacency(
            [self.nodes[n] for n in nodes.tolist()],
            _starts(of_input, len(nodes)),
            np.where(makers >= 0, number[makers], makers),
            self.outputs[inputs],
            _starts(of_use, len(nodes)),
            self.use_outputs[uses],
            np.where(users >= 0, number[users], users),
            self.use_inputs[uses],
        )


def adjacency_of(graph: Graph, progress: Progress = SILENT) -> Adjacency:
    """Return the adjacency of all nodes of a graph. About 3 µs a node; any thread while the model does not change."""
    nodes = list(graph.nodes)  # mostly sorted already
    counts, made = _inputs(nodes, progress)
    if (made[:, 0] >= np.repeat(np.arange(len(nodes)), counts)).any():
        nodes = run_order(graph, progress)
        counts, made = _inputs(nodes, progress)
    makers, outputs = made.T
    number = {node: index for index, node in enumerate(nodes)}
    extra = [  # uses as graph outputs
        (number[value.producer], value.index, RESULT, index)
        for index, value in enumerate(graph.outputs)
        if value.producer in number
    ]
    starts = np.concatenate([[0], np.cumsum(counts)])
    users = np.repeat(np.arange(len(nodes)), counts)
    inputs = np.arange(len(makers)) - np.repeat(starts[:-1], counts)
    inner = makers >= 0
    uses = np.stack([makers, outputs, users, inputs], 1)[inner]
    uses = np.concatenate([uses, np.array(extra, np.int64).reshape(-1, 4)])
    uses = uses[np.lexsort((uses[:, 3], uses[:, 2], uses[:, 1], uses[:, 0]))]
    return Adjacency(
        nodes, starts, makers, outputs, _starts(uses[:, 0], len(nodes)), uses[:, 1], uses[:, 2], uses[:, 3],
    )  # fmt: skip


def _inputs(nodes: list[Node], progress: Progress) -> tuple[Index, Index]:
    """[N] the number of inputs of each node, outer values included; [M, 2] the producer and output of each."""
    number = {node: index for index, node in enumerate(nodes)}
    counts: list[int] = []
    made: list[int] = []  # producer, output, producer, output …
    for node in progress.paced(nodes):
        taken = (*node.inputs, *outer_values(node)) if node.bodies else node.inputs
        counts.append(len(taken))
        for value in taken:
            maker = value.producer if value is not None else None
            made += (NOBODY, 0) if value is None or maker is None else (number.get(maker, OUTSIDE), value.index)
    return np.array(counts, np.int64), np.array(made, np.int64).reshape(-1, 2)


def _starts(owners: Index, count: int) -> Index:
    """Return where the range of each owner begins among ascending owners."""
    return np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=count))]).astype(np.int64)


def contracted_cycles(unit: Index, edges: Index) -> list[Index]:
    """Return the strongly connected components of several units that edges between nodes make.

    `unit` [N] is the number of each node's unit, at most its own number; edges [E, 2] lead from lower to higher nodes.
    """
    ends = unit[edges]
    ends = ends[ends[:, 0] != ends[:, 1]]
    spanned = _spanned_backwards(ends, len(unit))
    ends = ends[spanned[ends].all(1)]
    if not len(ends):
        return []
    import networkx as nx  # late: hardly any graph gets here

    keys = np.unique(ends[:, 0] * len(unit) + ends[:, 1])
    graph = nx.DiGraph(zip((keys // len(unit)).tolist(), (keys % len(unit)).tolist(), strict=True))
    knots = (np.sort(list(knot)) for knot in nx.strongly_connected_components(graph) if len(knot) > 1)
    return sorted(knots, key=lambda knot: int(knot[0]))


def _spanned_backwards(pairs: Index, count: int) -> NDArray[np.bool_]:
    """[count] the units spanned by a backward edge: every cycle contains only such."""
    back = pairs[pairs[:, 0] > pairs[:, 1]]
    depth = np.zeros(count + 1, np.int64)
    np.add.at(depth, back[:, 1], 1)
    np.add.at(depth, back[:, 0] + 1, -1)
    return np.asarray(np.cumsum(depth)[:-1] > 0)
