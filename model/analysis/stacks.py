"""Stacks: equal scopes that follow each other, such as the layers of a transformer, as one scope "layer ×12"."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import groupby

from onnx_workbench.model.analysis.name_scopes import Path, Scope, ScopeTree
from onnx_workbench.model.analysis.reachable import reachable
from onnx_workbench.model.analysis.scoping import dependencies
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.progress import SILENT, Progress

_LEAST = 5  # scopes of a stack: fewer are seen at a glance
_MOST_BETWEEN = 3  # nodes of no scope between two of a stack
_NUMBER = re.compile(r"\d+")
_COUNTERS = re.compile(r"[,，][^,，#]*#[^#]*$| ?[(（]#[^#]*#[)）]|[._\- ]?#")  # ", call 2", "(1 of 2)" in any language

_Element = Scope | Node


def stack_repeats(tree: ScopeTree, progress: Progress = SILENT, known: Mapping[Path, Path] | None = None) -> None:
    """Put equal scopes into stacks, where these are convex; nodes of no scope between them are put in too.

    Scopes are equal if their names differ by numbers only, and their operators not at all. Those that were in one stack
    before an edit stay in it: `known` maps their paths to that of the stack.
    """
    known = known or {}
    for scope in list(progress.paced(tree.root.walk())):
        kinds = Counter(map(_kind, progress.paced(scope.children))) if len(scope.children) >= _LEAST else Counter()
        was_stacked = bool(known) and any(child.path in known for child in progress.paced(scope.children))
        if was_stacked or max(kinds.values(), default=0) >= _LEAST:
            _Level(scope, known, progress).stack(tree)


def kind_of_scope(scope: Scope) -> Hashable:
    """Return what is equal for scopes whose names differ by numbers only, and whose operators do not at all."""
    return _kind(scope), _operators(scope)


def _kind(scope: Scope) -> tuple[str, int]:
    return _NUMBER.sub("#", scope.name), scope.count


class _Level:
    """The graph of the inner scopes and the nodes of a scope."""

    def __init__(self, scope: Scope, known: Mapping[Path, Path], progress: Progress) -> None:
        import networkx as nx  # late: most graphs have no stacks

        self._scope, self._known, self._progress = scope, known, progress
        element: dict[Node, _Element] = {node: node for node in scope.nodes}
        element |= {node: child for child in progress.paced(scope.children) for node in child.all_nodes()}
        self._graph: nx.DiGraph[_Element] = nx.DiGraph()
        self._graph.add_nodes_from(element.values())
        for node, own in progress.paced(element.items()):
            for value in dependencies(node):
                other = element.get(value.producer) if value.producer is not None else None
                if other is not None and other is not own:
                    self._graph.add_edge(other, own)
        try:
            order = list(progress.paced(nx.topological_sort(self._graph)))
        except nx.NetworkXUnfeasible:  # nodes form a cycle
            order = []
        self._place = {element: index for index, element in enumerate(order)}

    def stack(self, tree: ScopeTree) -> None:
        """Find and make the stacks."""
        proposals = list(self._proposals())
        if not proposals:
            return
        stack_of: dict[_Element, int] = {}
        for number, (layers, between) in enumerate(proposals):
            stack_of.update((layer, number) for layer in layers)
            stack_of.update((node, number) for node in between)
        cyclic = self._cyclic(stack_of)
        for number, (layers, between) in enumerate(proposals):
            if number not in cyclic:
                self._put(tree, layers, between)

    def _proposals(self) -> Iterator[tuple[list[Scope], list[Node]]]:
        """Yield disjoint convex stacks, and the nodes between their scopes."""
        ordered = [element for element in self._progress.paced(self._place) if isinstance(element, Scope)]
        taken: set[Node] = set()
        for _, equal in groupby(
            self._progress.paced(ordered, 64),
            key=lambda scope: self._known.get(scope.path) or kind_of_scope(scope),
        ):
            for layers in self._neighbours(list(equal)):
                between = self._between(layers)
                if between is not None and taken.isdisjoint(between):
                    taken.update(between)
                    yield layers, between

    def _cyclic(self, stack_of: dict[_Element, int]) -> set[int]:
        """Return the stacks that feed each other, though each is convex."""
        import networkx as nx

        def unit(element: _Element) -> object:
            return stack_of.get(element, element)

        level: nx.DiGraph[object] = nx.DiGraph((unit(a), unit(b)) for a, b in self._progress.paced(self._graph.edges))
        knots = (knot for knot in nx.strongly_connected_components(level) if len(knot) > 1)
        return {member for knot in knots for member in knot if isinstance(member, int)}

    def _neighbours(self, layers: list[Scope]) -> Iterator[list[Scope]]:
        """Yield scopes of which each follows the one before, with few nodes between them."""
        run = layers[:1]
        for layer in self._progress.paced(layers[1:], 64):
            between = self._between([run[-1], layer])
            if between is None or len(between) > _MOST_BETWEEN:
                if self._are_enough(run):
                    yield run
                run = []
            run.append(layer)
        if self._are_enough(run):
            yield run

    def _are_enough(self, layers: list[Scope]) -> bool:
        return len(layers) >= (_LEAST if layers[0].path not in self._known else 2)

    def _between(self, layers: list[Scope]) -> list[Node] | None:
        """Return the nodes on paths between some scopes; None if there are other scopes too."""
        places = [self._place[layer] for layer in layers]
        around = range(min(places), max(places))

        def reached(neighbours: Callable[[_Element], Iterable[_Element]]) -> set[_Element]:
            start: list[_Element] = [*layers]
            return set(reachable(start, lambda e: (o for o in neighbours(e) if self._place[o] in around)))

        hull = (reached(self._graph.successors) & reached(self._graph.predecessors)).difference(layers)
        nodes = [element for element in hull if isinstance(element, Node)]
        return nodes if len(nodes) == len(hull) else None

    def _put(self, tree: ScopeTree, layers: list[Scope], between: list[Node]) -> None:
        scope, inside = self._scope, set(between)
        stack = Scope((*layers[0].path, "×"), f"{_common_name(layers)} ×{len(layers)}", scope, layers, is_stack=True)
        stack.nodes = [node for node in scope.nodes if node in inside]
        stack.count = len(between) + sum(layer.count for layer in layers)
        scope.nodes = [node for node in scope.nodes if node not in inside]
        first = scope.children.index(min(layers, key=scope.children.index))
        members = set(layers)
        scope.children = [
            stack if n == first else c for n, c in enumerate(scope.children) if n == first or c not in members
        ]
        for layer in layers:
            layer.parent = stack
        tree.of.update(dict.fromkeys(stack.nodes, stack))


def _common_name(layers: list[Scope]) -> str:
    """Return the name of some scopes without the numbers that differ."""
    numbers = zip(*(_NUMBER.findall(layer.name) for layer in layers), strict=False)
    shown = iter([found[0] if len(set(found)) == 1 else "#" for found in numbers])
    name = _NUMBER.sub(lambda match: next(shown, match[0]), layers[0].name)
    return _COUNTERS.sub("", name).strip(" ·/._-") or layers[0].name


def _operators(scope: Scope) -> Hashable:
    """Return the operators of a scope and of those in it, Constants aside."""
    own = tuple((node.domain, node.op_type) for node in scope.nodes if node.op_type != "Constant")
    return own, tuple(_operators(child) for child in scope.children)
