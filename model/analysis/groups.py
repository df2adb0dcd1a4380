"""Groups of a graph: its name scopes, and repeated blocks where there are none or a scope holds too many boxes.

Blocks, and inside large blocks those that they repeat, are stored by node, so that groups are stable while the graph is
edited. All groups are convex.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnx_workbench.model.analysis.adjacency import Adjacency, adjacency_of, contracted
from onnx_workbench.model.analysis.convex_scopes import convex_paths
from onnx_workbench.model.analysis.folded_nodes import find_folded_nodes
from onnx_workbench.model.analysis.name_scopes import (
    AT_A_GLANCE,
    Path,
    Scope,
    ScopeTree,
    common_path,
    is_constant,
    scope_paths,
    tree_of,
)
from onnx_workbench.model.analysis.node_labels import exact_label, operator_label
from onnx_workbench.model.analysis.repeated_blocks import LabelOf, repeated_blocks
from onnx_workbench.model.analysis.scoping import users_in
from onnx_workbench.model.analysis.stacks import kind_of_scope, stack_repeats
from onnx_workbench.model.ir.graph import Graph, Node
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.schemas import traits

_LEAST = 3  # nodes of a block worth a group
_LARGE = 24  # nodes from which a block is searched for smaller ones
_DEEPEST = 3
_MOST_KINDS = 8  # kinds of large blocks that are searched, on each level
_OPERATORS = 3  # operators in the name of a block
_COMMON = frozenset({"math", "tensor", "constant", "quantization"})  # categories of operators that say little

_Kind = tuple[tuple[Node, ...], ...]  # all occurrences of one block


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks at the time of the search: for each node of a level that was searched, the path of the scope around that
    level, and the names of the blocks around the node in it, outermost first.

    `outermost` is the number of boxes of these levels with all blocks collapsed, `drawn` with all blocks open;
    Constants and folded nodes are not counted.
    """

    inside: dict[Node, tuple[Path, Path]]
    outermost: int
    drawn: int
    are_in_scopes: bool = False  # else the names of nodes say nothing

    @property
    def are_worthwhile(self) -> bool:
        """Return whether the graph is much shorter as blocks than node by node, or as blocks seen at a glance."""
        return self.outermost * 2 <= self.drawn or self.outermost <= AT_A_GLANCE < self.drawn

    def are_shown(self, *, asked: bool) -> bool:
        """Return whether they are shown: any if groups were `asked` for, else worthwhile ones and those in scopes."""
        return bool(self.inside) and (asked or self.are_in_scopes or self.are_worthwhile)


def find_blocks(graph: Graph, tree: ScopeTree, progress: Progress = SILENT) -> Blocks:
    """Find the blocks of a graph (subgraphs have their own), numbered in graph order; deterministic.

    In a graph that has scopes, the `tree`, only in those of too many boxes, each of which is one of a block's nodes.
    Where too many are left, nodes that only one scope or block uses join it.

    Those of equal operators, such as layers of several sizes and strides, or those of equal attributes too, which may
    be larger: whichever leave fewer boxes. About 50 µs a node. Reads the model: on the thread that owns it, or while
    it does not change.
    """
    if not tree.root.children:
        whole = _Whole(graph, progress)
        blocks = _Level(whole, (), tree.root).blocks(progress)
        return _with_guests(graph, blocks, tree, whole, progress) if blocks.are_worthwhile else blocks
    inside: dict[Node, tuple[Path, Path]] = {}
    outermost = drawn = 0
    if not any(_is_crowded(scope) for scope in progress.paced(tree.root.walk())):
        return Blocks(inside, outermost, drawn, are_in_scopes=True)
    whole = _Whole(graph, progress)
    for scope in _crowded(tree, whole):
        if any(node in inside for node in scope.all_nodes()):
            continue  # in blocks of a scope around it
        in_scope = _Level(whole, tree.path_of(scope), scope).blocks(progress)
        outermost, drawn = outermost + in_scope.outermost, drawn + in_scope.drawn
        if in_scope.are_worthwhile:
            inside |= in_scope.inside
    return _with_guests(graph, Blocks(inside, outermost, drawn, are_in_scopes=True), tree, whole, progress)


def _with_guests(graph: Graph, blocks: Blocks, tree: ScopeTree, whole: _Whole, progress: Progress) -> Blocks:
    """Return the blocks with, in levels that are still crowded, the nodes that only one scope or block uses in it."""
    if blocks.outermost <= AT_A_GLANCE:
        return blocks
    if blocks.inside:
        tree = block_tree(graph, blocks, progress)
    inside, joined = dict(blocks.inside), 0
    for scope in _crowded(tree, whole):
        outer, guests = tree.path_of(scope), _guests(scope, whole, progress)
        if any(node in inside and inside[node][0] != outer for node in scope.nodes):
            continue  # the inside of a block
        for node in scope.nodes:
            inside[node] = (outer, guests[node].path[len(outer) :] if node in guests else ())
        joined += sum(node in whole.drawn for node in guests)
    return replace(blocks, inside=inside, outermost=blocks.outermost - joined)


def _guests(scope: Scope, whole: _Whole, progress: Progress) -> dict[Node, Scope]:
    """Return nodes of a scope whose results one scope inside it alone uses, no stack: it stays convex with them.

    A scope takes in at most as many nodes as it has.
    """
    home: dict[Node, Scope] = {node: child for child in scope.children for node in child.all_nodes()}
    host_of: dict[Node, Scope] = {}
    taken: Counter[Scope] = Counter()
    for node in progress.paced(reversed(scope.nodes)):
        if node.op_type == "Constant" or any(value is not None and value.is_output for value in node.outputs):
            continue
        hosts = {home.get(user) for value in node.outputs for user in users_in(value, node.graph)}
        host = hosts.pop() if len(hosts) == 1 else None
        if host is not None and not host.is_stack and taken[host] < host.count:
            home[node] = host_of[node] = host
            taken[host] += node in whole.drawn
    return host_of


def _crowded(tree: ScopeTree, whole: _Whole) -> list[Scope]:
    """Return the scopes of too many boxes."""
    return [scope for scope in tree.root.walk() if _is_crowded(scope) and _is_crowded(scope, whole.drawn)]


def _is_crowded(scope: Scope, drawn: Collection[Node] | None = None) -> bool:
    """Return whether a scope, no stack, holds more scopes and drawn nodes than are seen at a glance."""
    nodes = len(scope.nodes) if drawn is None else sum(node in drawn for node in scope.nodes)
    return not scope.is_stack and len(scope.children) + nodes > AT_A_GLANCE


class _Whole:
    """What searches in all levels of a graph need."""

    def __init__(self, graph: Graph, progress: Progress) -> None:
        self.folded = find_folded_nodes(graph, progress)
        self.wiring = adjacency_of(graph, progress)
        self.drawn = dict.fromkeys(
            node for node in self.wiring.nodes if node not in self.folded and node.op_type != "Constant"
        )


class _Level:
    """The search in one level: among the scopes and drawn nodes of a scope, each called by its first node.

    `outer` is the path of the scope.
    """

    def __init__(self, whole: _Whole, outer: Path, scope: Scope) -> None:
        self._whole = whole
        self._outer = outer
        place = {node: index for index, node in enumerate(whole.wiring.nodes)}
        self._scopes = {min(child.all_nodes(), key=place.__getitem__): child for child in scope.children}
        unit = {node: first for first, child in self._scopes.items() for node in child.all_nodes()}
        unit |= {node: node for node in scope.nodes if node in whole.drawn}
        self._unit = unit  # of each node of the level that is no folded one
        number = {first: index for index, first in enumerate(dict.fromkeys(unit.values()))}
        nodes = whole.wiring.nodes
        units = np.array([number[unit[node]] if node in unit else -1 for node in nodes], np.int64)
        users = whole.folded.users
        behind = np.array([number[unit[users[n]]] if users.get(n) in unit and n not in unit else -1 for n in nodes])
        self._wiring, self._edges = contracted(whole.wiring, units, behind.astype(np.int64), list(number))

    def blocks(self, progress: Progress) -> Blocks:
        """Find the blocks."""
        searches = (self._blocks(label_of, progress) for label_of in (operator_label, exact_label))
        return min(searches, key=lambda blocks: blocks.outermost)

    def _label_of(self, label_of: LabelOf) -> LabelOf:
        scopes = self._scopes
        return lambda node: kind_of_scope(scopes[node]) if node in scopes else label_of(node)

    def _blocks(self, label_of: LabelOf, progress: Progress) -> Blocks:
        label_of = self._label_of(label_of)
        names: dict[Node, Path] = dict.fromkeys(self._wiring.nodes, ())
        blocks = repeated_blocks(self._wiring, label_of, progress, least_nodes=_LEAST, edges=self._edges)
        kinds: list[_Kind] = [block.occurrences for block in blocks]
        drawn = len(names)
        outermost = drawn - sum((len(kind[0]) - 1) * len(kind) for kind in kinds)
        numbers: Counter[Path] = Counter()
        order = {node: index for index, node in enumerate(self._wiring.nodes)}
        for _ in range(_DEEPEST):
            for block in sorted((block for kind in kinds for block in kind), key=lambda block: order[block[0]]):
                self._name(block, names, numbers)
            large = sorted(
                (kind for kind in kinds if len(kind[0]) >= _LARGE), key=lambda kind: -len(kind[0]) * len(kind)
            )
            kinds = [inner for kind in large[:_MOST_KINDS] for inner in self._inside(kind, label_of, progress)]
        inside = {node: (self._outer, names[first]) for node, first in self._unit.items()}
        for node in reversed(self._whole.wiring.nodes):  # what is folded is where all that use it are
            if node in self._whole.folded and node not in inside:
                places = {inside.get(user) for value in node.outputs for user in users_in(value, node.graph)}
                if len(places) == 1 and (place := places.pop()) is not None:
                    inside[node] = place
        return Blocks(inside, outermost, drawn)

    def _inside(self, kind: _Kind, label_of: LabelOf, progress: Progress) -> list[_Kind]:
        """Find repetitions inside a block: searched in its first occurrence, and applied to all others."""
        position = {node: index for index, node in enumerate(kind[0])}
        inner = []
        for block in repeated_blocks(
            self._wiring, label_of, progress, among=position, least_nodes=_LEAST, edges=self._edges
        ):
            rows = [[position[node] for node in occurrence] for occurrence in block.occurrences]
            inner.append(tuple(tuple(outer[index] for index in row) for outer in kind for row in rows))
        return inner

    def _name(self, block: tuple[Node, ...], names: dict[Node, Path], numbers: Counter[Path]) -> None:
        """Name a block after its largest scope, else by its operators."""
        outer = names[block[0]]
        scopes = [self._scopes[node] for node in block if node in self._scopes]
        if scopes:
            name = f"{max(scopes, key=lambda scope: scope.count).name} …"
        else:
            operators = _operators(block)
            numbers[*outer, operators] += 1
            name = f"{operators} {numbers[*outer, operators]}"
        names.update(dict.fromkeys(block, (*outer, name)))


def scope_tree(graph: Graph, progress: Progress = SILENT, stacks: Mapping[Path, Path] | None = None) -> ScopeTree:
    """Return the groups of a graph's nodes by their names (subgraphs have their own). Reads no file.

    `stacks` are those before an edit, see `known_stacks`.
    """
    return convex_tree(graph, scope_paths(graph, progress), progress, stacks)


def groups_of(graph: Graph, progress: Progress = SILENT, *, asked: bool = False) -> ScopeTree:
    """Return the groups of a graph by its names, and its blocks where these are missing and `are_shown`."""
    tree = scope_tree(graph, progress)
    blocks = find_blocks(graph, tree, progress)
    return block_tree(graph, blocks, progress) if blocks.are_shown(asked=asked) else tree


def block_tree(
    graph: Graph, blocks: Blocks, progress: Progress = SILENT, stacks: Mapping[Path, Path] | None = None
) -> ScopeTree:
    """Return the scopes of the current graph with its blocks.

    A new node joins the block that all its neighbours are in.
    """
    inside = blocks.inside
    wiring = adjacency_of(graph, progress)
    named: dict[Node, Path] = {}
    left_out: tuple[Path, ...] = ()
    if blocks.are_in_scopes:
        named, left_out = _placed(wiring, scope_paths(graph, progress), progress)
    nowhere: tuple[Path, Path] = ((), ())

    def path_of(node: Node) -> Path:
        path = named.get(node, ())
        place = inside.get(node)
        if place is None:
            around = {inside.get(other, nowhere) for other in _neighbours(node)}
            place = around.pop() if len(around) == 1 else nowhere
        outer, names = place
        return (*outer, *names, *path[len(outer) :]) if path[: len(outer)] == outer else path

    tree = convex_tree(graph, {node: path_of(node) for node in progress.paced(graph.nodes)}, progress, stacks, wiring)
    tree.left_out = (*left_out, *tree.left_out)
    return tree


def convex_tree(
    graph: Graph,
    paths: Mapping[Node, Path],
    progress: Progress = SILENT,
    stacks: Mapping[Path, Path] | None = None,
    wiring: Adjacency | None = None,
) -> ScopeTree:
    """Return the convex scopes nearest to those with the given paths. A Constant is where its users are."""
    if not any(paths.values()):
        return tree_of(graph, paths, progress)
    placed, left_out = _placed(wiring or adjacency_of(graph, progress), paths, progress)
    tree = tree_of(graph, placed, progress)
    tree.left_out = left_out
    stack_repeats(tree, progress, stacks)
    return tree


def _placed(
    wiring: Adjacency, paths: Mapping[Node, Path], progress: Progress
) -> tuple[dict[Node, Path], tuple[Path, ...]]:
    """Return the paths of nodes in convex scopes, and the scopes left out."""
    users = np.repeat(np.arange(len(wiring.nodes)), np.diff(wiring.starts))
    constant = np.array([is_constant(node) for node in progress.paced(wiring.nodes)], bool)
    wired = wiring.makers >= 0
    wired[wired] = ~constant[wiring.makers[wired]]
    given = [paths[node] for node in wiring.nodes]
    found, left_out = convex_paths(given, wiring.makers[wired], users[wired], progress)
    placed = dict(zip(wiring.nodes, found, strict=True))
    for number in progress.paced(np.flatnonzero(constant).tolist()):
        uses = wiring.users[wiring.use_starts[number] : wiring.use_starts[number + 1]].tolist()
        placed[wiring.nodes[number]] = common_path([found[user] if user >= 0 else () for user in uses])
    return placed, tuple(left_out)


def _operators(nodes: Sequence[Node]) -> str:
    """Name a block by its most frequent operators in graph order: ``Conv-Relu-Add``.

    Arithmetic and shapes, of which there is most everywhere, only where there is nothing else.
    """
    counts = Counter(node.op_type for node in nodes)
    common = {node.op_type: traits.category(node.op_type, node.domain) in _COMMON for node in nodes}
    most = sorted(counts, key=lambda op: (common[op], -counts[op]))[:_OPERATORS]
    return "-".join(op for op in counts if op in most)


def _neighbours(node: Node) -> Iterable[Node]:
    for value in node.inputs:
        if value is not None and value.producer is not None and value.producer.graph is node.graph:
            yield value.producer
    for output in node.outputs:
        yield from (user for user in (output.consumers if output is not None else ()) if user.graph is node.graph)
