"""Groups for graphs whose names tell none: their repeated blocks, and in large blocks the blocks these repeat.

What was found is kept by node, so that groups stay what they are while the graph is edited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from onnx_workbench.model.analysis.adjacency import Adjacency, adjacency_of
from onnx_workbench.model.analysis.name_scopes import Path, ScopeTree, scope_tree, tree_of
from onnx_workbench.model.analysis.repeated_blocks import blocks_of
from onnx_workbench.model.ir.graph import Graph, Node
from onnx_workbench.model.progress import SILENT, Progress

_LEAST = 4  # nodes of a block worth a group
_LARGE = 24  # nodes from which a block is looked into for smaller ones
_DEEPEST = 3
_MOST_KINDS = 8  # kinds of large blocks that are looked into, on each level
_OPERATORS = 3  # that the name of a block tells

_Kind = tuple[tuple[Node, ...], ...]  # all occurrences of one block


@dataclass(frozen=True, slots=True)
class Blocks:
    """Where each node of a graph was when blocks were looked for: the names of the blocks around it, outermost first.

    `outermost` counts the boxes there are while all blocks are closed.
    """

    paths: dict[Node, Path]
    outermost: int

    @property
    def are_worthwhile(self) -> bool:
        """Whether the graph is much shorter told as blocks than node by node."""
        return self.outermost * 3 <= len(self.paths)


def find_blocks(graph: Graph, progress: Progress = SILENT) -> Blocks:
    """The blocks of a graph (bodies have their own), numbered in graph order; the same on every call.

    About 15 µs a node. Reads the model: on the thread that owns it, or while nobody changes it.
    """
    paths: dict[Node, Path] = dict.fromkeys(graph.nodes, ())
    wiring = adjacency_of(graph, progress)
    blocks = blocks_of(wiring, progress, least_nodes=_LEAST)
    kinds: list[_Kind] = [block.occurrences for block in blocks]
    outermost = len(paths) - sum((len(kind[0]) - 1) * len(kind) for kind in kinds)
    numbers: Counter[Path] = Counter()
    for _ in range(_DEEPEST):
        for kind in kinds:
            _name(kind, paths, numbers)
        large = sorted((kind for kind in kinds if len(kind[0]) >= _LARGE), key=lambda kind: -len(kind[0]) * len(kind))
        kinds = [inner for kind in large[:_MOST_KINDS] for inner in _inside(wiring, kind, progress)]
    return Blocks(paths, outermost)


def groups_of(graph: Graph, progress: Progress = SILENT, *, asked: bool = False) -> tuple[ScopeTree, bool]:
    """The groups of a graph by its names, or, where these tell none, its blocks; and whether they are blocks.

    Blocks that do not make the graph much shorter are left out unless somebody asked for groups.
    """
    tree = scope_tree(graph, progress)
    if tree.root.children:
        return tree, False
    blocks = find_blocks(graph, progress)
    worthwhile = asked or blocks.are_worthwhile
    return (block_tree(graph, blocks, progress), True) if worthwhile else (tree, False)


def block_tree(graph: Graph, blocks: Blocks, progress: Progress = SILENT) -> ScopeTree:
    """The blocks as scopes of the graph as it is now. A node that is new joins the block all its neighbours are in."""
    paths = blocks.paths

    def path_of(node: Node) -> Path:
        path = paths.get(node)
        if path is None:
            around = {paths.get(other, ()) for other in _neighbours(node)}
            path = around.pop() if len(around) == 1 else ()
        return path

    return tree_of(graph, path_of, progress)


def _inside(wiring: Adjacency, kind: _Kind, progress: Progress) -> list[_Kind]:
    """What repeats in a block: looked for in its first occurrence, and the same in all others."""
    place = {node: index for index, node in enumerate(kind[0])}
    found = []
    for block in blocks_of(wiring, progress, among=place, least_nodes=_LEAST):
        rows = [[place[node] for node in occurrence] for occurrence in block.occurrences]
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
    """The most frequent operators of a block in the order in which they come: ``Conv-Relu-Add``."""
    counts = Counter(node.op_type for node in nodes)
    most = {op for op, _ in counts.most_common(_OPERATORS)}
    return "-".join(op for op in counts if op in most)


def _neighbours(node: Node) -> Iterable[Node]:
    for value in node.inputs:
        if value is not None and value.producer is not None and value.producer.graph is node.graph:
            yield value.producer
    for output in node.outputs:
        yield from (user for user in (output.consumers if output is not None else ()) if user.graph is node.graph)
