"""Groups of a graph: its name scopes, or without any its repeated blocks, and inside large blocks those they repeat.

Blocks are stored by node, so that groups are stable while the graph is edited. All groups are convex.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from onnx_workbench.model.analysis.adjacency import Adjacency, adjacency_of
from onnx_workbench.model.analysis.convex_scopes import convex_paths
from onnx_workbench.model.analysis.folded_nodes import FoldedNodes, find_folded_nodes
from onnx_workbench.model.analysis.name_scopes import Path, ScopeTree, common_path, is_constant, scope_paths, tree_of
from onnx_workbench.model.analysis.node_labels import exact_label, operator_label
from onnx_workbench.model.analysis.repeated_blocks import LabelOf, blocks_of
from onnx_workbench.model.analysis.stacks import stack_repeats
from onnx_workbench.model.ir.graph import Graph, Node
from onnx_workbench.model.progress import SILENT, Progress

_LEAST = 3  # nodes of a block worth a group
_LARGE = 24  # nodes from which a block is searched for smaller ones
_DEEPEST = 3
_MOST_KINDS = 8  # kinds of large blocks that are searched, on each level
_OPERATORS = 3  # operators in the name of a block

_Kind = tuple[tuple[Node, ...], ...]  # all occurrences of one block


@dataclass(frozen=True, slots=True)
class Blocks:
    """Block names around each node at the time of the search, outermost first.

    `outermost` is the number of boxes with all blocks collapsed, `drawn` with all blocks open; Constants and folded
    nodes are not counted.
    """

    paths: dict[Node, Path]
    outermost: int
    drawn: int

    @property
    def are_worthwhile(self) -> bool:
        """Return whether the graph is much shorter as blocks than node by node."""
        return self.outermost * 2 <= self.drawn


def find_blocks(graph: Graph, progress: Progress = SILENT) -> Blocks:
    """Find the blocks of a graph (subgraphs have their own), numbered in graph order; deterministic.

    Those of equal operators, such as layers of several sizes and strides, or those of equal attributes too, which may
    be larger: whichever leave fewer boxes. About 50 µs a node. Reads the model: on the thread that owns it, or while
    it does not change.
    """
    folded = find_folded_nodes(graph, progress)
    drawn = [node for node in graph.nodes if node not in folded and node.op_type != "Constant"]
    wiring = adjacency_of(graph, progress)
    found = (_blocks(wiring, drawn, folded, label_of, progress) for label_of in (operator_label, exact_label))
    return min(found, key=lambda blocks: blocks.outermost)


def _blocks(wiring: Adjacency, drawn: list[Node], folded: FoldedNodes, label_of: LabelOf, progress: Progress) -> Blocks:
    paths: dict[Node, Path] = dict.fromkeys(drawn, ())
    blocks = blocks_of(wiring, progress, among=drawn, least_nodes=_LEAST, label_of=label_of)
    kinds: list[_Kind] = [block.occurrences for block in blocks]
    outermost = len(drawn) - sum((len(kind[0]) - 1) * len(kind) for kind in kinds)
    numbers: Counter[Path] = Counter()
    for _ in range(_DEEPEST):
        for kind in kinds:
            _name(kind, paths, numbers)
        large = sorted((kind for kind in kinds if len(kind[0]) >= _LARGE), key=lambda kind: -len(kind[0]) * len(kind))
        kinds = [inner for kind in large[:_MOST_KINDS] for inner in _inside(wiring, kind, label_of, progress)]
    paths.update({node: paths[user] for node, user in folded.users.items()})
    return Blocks(paths, outermost, len(drawn))


def scope_tree(graph: Graph, progress: Progress = SILENT, stacks: Mapping[Path, Path] | None = None) -> ScopeTree:
    """Return the groups of a graph's nodes by their names (subgraphs have their own). Reads no file.

    `stacks` are those before an edit, see `known_stacks`.
    """
    return convex_tree(graph, scope_paths(graph, progress), progress, stacks)


def groups_of(graph: Graph, progress: Progress = SILENT, *, asked: bool = False) -> tuple[ScopeTree, bool]:
    """Return the groups of a graph by its names, or without any its blocks; and whether they are blocks.

    Blocks that do not make the graph much shorter are omitted unless groups were `asked` for.
    """
    tree = scope_tree(graph, progress)
    if tree.root.children:
        return tree, False
    blocks = find_blocks(graph, progress)
    worthwhile = asked or blocks.are_worthwhile
    return (block_tree(graph, blocks, progress), True) if worthwhile else (tree, False)


def block_tree(
    graph: Graph, blocks: Blocks, progress: Progress = SILENT, stacks: Mapping[Path, Path] | None = None
) -> ScopeTree:
    """Return the blocks as scopes of the current graph. A new node joins the block that all its neighbours are in."""
    paths = blocks.paths

    def path_of(node: Node) -> Path:
        path = paths.get(node)
        if path is None:
            around = {paths.get(other, ()) for other in _neighbours(node)}
            path = around.pop() if len(around) == 1 else ()
        return path

    return convex_tree(graph, {node: path_of(node) for node in progress.paced(graph.nodes)}, progress, stacks)


def convex_tree(
    graph: Graph,
    paths: Mapping[Node, Path],
    progress: Progress = SILENT,
    stacks: Mapping[Path, Path] | None = None,
) -> ScopeTree:
    """Return the convex scopes nearest to those with the given paths. A Constant is where its users are."""
    if not any(paths.values()):
        return tree_of(graph, paths, progress)
    wiring = adjacency_of(graph, progress)
    users = np.repeat(np.arange(len(wiring.nodes)), np.diff(wiring.starts))
    constant = np.array([is_constant(node) for node in progress.paced(wiring.nodes)])
    wired = wiring.makers >= 0
    wired[wired] = ~constant[wiring.makers[wired]]
    given = [paths[node] for node in wiring.nodes]
    found, left_out = convex_paths(given, wiring.makers[wired], users[wired], progress)
    placed = dict(zip(wiring.nodes, found, strict=True))
    for number in progress.paced(np.flatnonzero(constant).tolist()):
        uses = wiring.users[wiring.use_starts[number] : wiring.use_starts[number + 1]].tolist()
        placed[wiring.nodes[number]] = common_path([found[user] if user >= 0 else () for user in uses])
    tree = tree_of(graph, placed, progress)
    tree.left_out = tuple(left_out)
    stack_repeats(tree, progress, stacks)
    return tree


def _inside(wiring: Adjacency, kind: _Kind, label_of: LabelOf, progress: Progress) -> list[_Kind]:
    """Find repetitions inside a block: searched in its first occurrence, and applied to all others."""
    position = {node: index for index, node in enumerate(kind[0])}
    found = []
    for block in blocks_of(wiring, progress, among=position, least_nodes=_LEAST, label_of=label_of):
        rows = [[position[node] for node in occurrence] for occurrence in block.occurrences]
        found.append(tuple(tuple(outer[index] for index in row) for outer in kind for row in rows))
    return found


def _name(kind: _Kind, paths: dict[Node, Path], numbers: Counter[Path]) -> None:
    operators = _operators(kind[0])
    for block in kind:
        outer = paths[block[0]]
        numbers[*outer, operators] += 1
        path = (*outer, f"Block {numbers[*outer, operators]} · {operators}")
        paths.update(dict.fromkeys(block, path))


def _operators(nodes: Iterable[Node]) -> str:
    """Name a block by its most frequent operators in graph order: ``Conv-Relu-Add``."""
    counts = Counter(node.op_type for node in nodes)
    most = {op for op, _ in counts.most_common(_OPERATORS)}
    return "-".join(op for op in counts if op in most)


def _neighbours(node: Node) -> Iterable[Node]:
    for value in node.inputs:
        if value is not None and value.producer is not None and value.producer.graph is node.graph:
            yield value.producer
    for output in node.outputs:
        yield from (user for user in (output.consumers if output is not None else ()) if user.graph is node.graph)
