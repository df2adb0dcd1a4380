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

    def edges(self) -> Index:
        """[E, 2] the producer and the user of each input that has one among the nodes."""
        users = np.repeat(np.arange(len(self.nodes)), np.diff(self.starts))
        inner = self.makers >= 0
        return np.stack([self.makers[inner], users[inner]], 1)

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


def contracted(whole: Adjacency, unit: Index, behind: Index, firsts: list[Node]) -> tuple[Adjacency, Index]:
    """Return the adjacency of U units of nodes, called by the `firsts` [U], and edges between units that are hidden.

    `unit` [N] is the number of each node's unit, -1 for nodes that are outside; units need not be sorted, and form no
    cycle. `behind` [N] is the unit that an outside node is hidden in, or -1: the edges of such nodes [E, 2] are those
    of their units, unless they lead to a lower one.
    """
    order = _unit_order(unit, whole, len(firsts))
    number = np.full(len(firsts) + 1, -1)
    number[order] = np.arange(len(firsts))
    unit, behind = number[unit], number[behind]  # -1 stays
    users = np.repeat(np.arange(len(unit)), np.diff(whole.starts))
    members = np.flatnonzero(unit >= 0)
    members = members[np.argsort(unit[members], kind="stable")]
    output_counts = np.array([len(whole.nodes[n].outputs) for n in members.tolist()], np.int64)
    first_output = np.zeros(len(unit), np.int64)  # number of each node's first output among those of its unit
    before = np.cumsum(output_counts) - output_counts
    first_output[members] = before - before[np.searchsorted(unit[members], unit[members])] if len(members) else before
    unit_or_outside = np.append(unit, OUTSIDE)  # at -1; others are put back below

    def unit_at(places: Index) -> Index:
        found = unit_or_outside[np.maximum(places, 0)]
        return np.where(places >= 0, np.where(found < 0, OUTSIDE, found), places)

    owner, inputs = whole.of(whole.starts, members)
    owner = unit[members][owner]
    makers = unit_at(whole.makers[inputs])
    outer = makers != owner
    position = np.zeros(len(whole.makers), np.int64)
    starts = _starts(owner[outer], len(firsts))
    position[inputs[outer]] = np.arange(int(outer.sum())) - starts[owner[outer]]
    outputs = whole.outputs[inputs] + np.where(makers >= 0, first_output[np.maximum(whole.makers[inputs], 0)], 0)
    maker, uses = whole.of(whole.use_starts, members)
    maker_node, use_owner = members[maker], unit[members][maker]
    used_by = unit_at(whole.users[uses])
    leaves = used_by != use_owner
    at = np.where(used_by >= 0, whole.starts[np.maximum(whole.users[uses], 0)] + whole.use_inputs[uses], 0)
    use_inputs = np.where(used_by >= 0, position[at], whole.use_inputs[uses])
    adjacency = Adjacency(
        [firsts[n] for n in order.tolist()],
        starts,
        makers[outer],
        outputs[outer],
        _starts(use_owner[leaves], len(firsts)),
        (whole.use_outputs[uses] + first_output[maker_node])[leaves],
        used_by[leaves],
        use_inputs[leaves],
    )
    either = np.where(unit >= 0, unit, behind)
    wired = whole.makers >= 0
    ends = np.stack([whole.makers[wired], users[wired]], 1)
    ends = either[ends[(unit[ends] < 0).any(1)]]
    ends = ends[(ends[:, 0] >= 0) & (ends[:, 0] < ends[:, 1])]
    return adjacency, ends


def _unit_order(unit: Index, whole: Adjacency, count: int) -> Index:
    """[U] the units in topological order, else by their first nodes."""
    first = np.full(count, len(unit))
    inside = np.flatnonzero(unit >= 0)
    np.minimum.at(first, unit[inside], inside)
    by_first = np.argsort(first)
    if (np.bincount(unit[inside], minlength=count) <= 1).all():
        return by_first
    import networkx as nx  # late: nodes alone are sorted

    ends = unit[whole.edges()]
    ends = ends[(ends >= 0).all(1) & (ends[:, 0] != ends[:, 1])]
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(by_first.tolist())
    graph.add_edges_from(ends.tolist())
    return np.array(list(nx.lexicographical_topological_sort(graph, key=first.tolist().__getitem__)), np.int64)


def _inputs(nodes: list[Node], progress: Progress) -> tuple[Index, Index]:
    """[N] the number of inputs of each node, outer values included; [M, 2] the producer and output of each."""
    number = {node: index for index, node in enumerate(nodes)}
    counts: list[int] = []
    makers: list[int] = []  # producer, output, producer, output …
    for node in progress.paced(nodes):
        taken = (*node.inputs, *outer_values(node)) if node.bodies else node.inputs
        counts.append(len(taken))
        for value in taken:
            maker = value.producer if value is not None else None
            makers += (NOBODY, 0) if value is None or maker is None else (number.get(maker, OUTSIDE), value.index)
    return np.array(counts, np.int64), np.array(makers, np.int64).reshape(-1, 2)


def _starts(owners: Index, count: int) -> Index:
    """Return where the range of each owner begins among ascending owners."""
    return np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=count))]).astype(np.int64)


def contracted_cycles(unit: Index, edges: Index) -> Index:
    """[N] the number of the cycle that each node is on, -1 for none: a strongly connected component of several units.

    `unit` [N] is the number of each node's unit, at most its own number; edges [E, 2] lead from lower to higher nodes.
    """
    number = np.full(len(unit), -1)
    ends = unit[edges]
    ends = ends[ends[:, 0] != ends[:, 1]]
    spanned = _spanned_backwards(ends, len(unit))
    ends = ends[spanned[ends].all(1)]
    if not len(ends):
        return number
    import networkx as nx  # late: hardly any graph gets here

    keys = np.unique(ends[:, 0] * len(unit) + ends[:, 1])
    graph = nx.DiGraph(zip((keys // len(unit)).tolist(), (keys % len(unit)).tolist(), strict=True))
    knots = (list(knot) for knot in nx.strongly_connected_components(graph) if len(knot) > 1)
    for index, units in enumerate(sorted(knots, key=min)):
        number[units] = index
    return number[unit]


def _spanned_backwards(pairs: Index, count: int) -> NDArray[np.bool_]:
    """[count] the units spanned by a backward edge: every cycle contains only such."""
    back = pairs[pairs[:, 0] > pairs[:, 1]]
    depth = np.zeros(count + 1, np.int64)
    np.add.at(depth, back[:, 1], 1)
    np.add.at(depth, back[:, 0] + 1, -1)
    return np.asarray(np.cumsum(depth)[:-1] > 0)
