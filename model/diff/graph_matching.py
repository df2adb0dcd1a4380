"""Match nodes and values of two graphs: by names, then by operator, attributes and edges.

Two strategies are tried: names first, and structure first, which succeeds where an exporter renumbered its names. The
one that leaves fewer differences wins. Cost: nodes + edges, times a small constant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from onnx_workbench.model.analysis.node_labels import leaf_label, node_label
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.progress import SILENT, Progress

T = TypeVar("T")
Key = tuple[str, str, str]  # of a function: domain, name, overload

_ROUNDS = 4  # radius of the neighbourhoods that are hashed
_BEGINNING = 8  # elements of a constant that enter its hash
_MOST_PAIRS = 4_000  # most unmatched nodes of one operator, or functions, that are compared pairwise


@dataclass(slots=True)
class GraphMatching:
    """Matched objects of the old and the new model, in both directions."""

    new_of: dict[object, object] = field(default_factory=dict)
    old_of: dict[object, object] = field(default_factory=dict)
    calls: dict[Key, Key] = field(default_factory=dict)  # functions with another key in the new model

    def pair(self, old: object, new: object) -> bool:
        """Match two objects, unless one is matched already."""
        if old in self.new_of or new in self.old_of:
            return False
        self.new_of[old] = new
        self.old_of[new] = old
        return True

    def value(self, old: Value | None) -> Value | None:
        """Return the match of an old value."""
        found = None if old is None else self.new_of.get(old)
        return found if isinstance(found, Value) else None

    def node(self, old: Node) -> Node | None:
        """Return the match of an old node."""
        found = self.new_of.get(old)
        return found if isinstance(found, Node) else None

    def partner(self, item: object) -> object | None:
        """Return the match of an object of either model."""
        return self.new_of.get(item) or self.old_of.get(item)

    def add_all(self, other: GraphMatching) -> None:
        """Add the matches of another matching."""
        self.new_of.update(other.new_of)
        self.old_of.update(other.old_of)


def match_graphs(old: Graph, new: Graph, known: GraphMatching, progress: Progress = SILENT) -> None:
    """Match the nodes and values of two graphs and add them to `known`, which holds outer values."""
    sides = (_Side(old, known.calls), _Side(new, {}))
    best = _Attempt(*sides, known, names_first=True, progress=progress)
    best.run()
    if best.cost():
        other = _Attempt(*sides, known, names_first=False, progress=progress)
        other.run()
        if other.cost() < best.cost():
            best = other
    known.add_all(best.found)


class _Side:
    """One of the two graphs, with data that both strategies need."""

    def __init__(self, graph: Graph, calls: dict[Key, Key]) -> None:
        self.graph = graph
        self.nodes = list(graph.nodes)
        self.keys = {node: node.operator for node in self.nodes}
        for node, key in self.keys.items() if calls else ():
            self.keys[node] = calls.get(key, key)
        self.labels = {node: hash(node_label(node, self.keys[node])) for node in self.nodes}
        produced = {v for n in self.nodes for v in n.outputs}
        self.leaves = [v for v in graph.values() if v not in produced]
        self.leaf_names = {v.name for v in self.leaves}
        self._rounds: list[dict[Node, int]] | None = None

    def operator(self, node: Node) -> Hashable:
        """Return the operator's key; for a renamed function that of its match."""
        return self.keys[node][:2]

    def rounds(self) -> list[dict[Node, int]]:
        """Return the hashes of all nodes' neighbourhoods by growing radius, without names (Weisfeiler-Lehman)."""
        if self._rounds is None:
            self._rounds = [self.labels]
            for _ in range(_ROUNDS):
                self._rounds.append(self._wider(self._rounds[-1]))
        return self._rounds

    def _wider(self, hashes: dict[Node, int]) -> dict[Node, int]:
        wider = {}
        for node in self.nodes:
            before = tuple(
                None if v is None else (v.index, hashes.get(v.producer, 1)) if v.producer else leaf_label(v)
                for v in node.inputs
            )
            after = tuple(
                sum(
                    hash((index, hashes.get(user, 2))) if isinstance(user, Node) else 3
                    for user, index in (v.uses if v is not None else ())
                )
                for v in node.outputs
            )
            wider[node] = hash((hashes[node], before, after))
        return wider


class _Attempt:
    """One strategy for matching two graphs."""

    def __init__(self, old: _Side, new: _Side, outer: GraphMatching, *, names_first: bool, progress: Progress) -> None:
        self.old, self.new = old, new
        self.found = GraphMatching()
        self._outer = outer
        self._names_first = names_first
        self._progress = progress
        self._queue: list[tuple[Node, Node]] = []
        self._cost: int | None = None
        self._left_open = False  # whether propagation met users that it could not distinguish

    def run(self) -> None:
        """Match as much as possible."""
        self._pair_interface()
        if self._names_first:
            self._pair_leaves_by_name()
            self._pair_by_name(same_label=True)
            self._spread(self._same_label)
            if self._all_nodes_paired():
                self._finish()
                return
        for ours, theirs in reversed(list(zip(self.old.rounds(), self.new.rounds(), strict=True))):
            self._progress.check()
            self._pair_unique(ours, theirs)
            self._spread(self._same_label)
        self._pair_by_name(same_label=False)
        self._spread(self._same_operator)
        self._pair_leftovers()
        self._finish()

    def cost(self) -> int:
        """Return the cost of a matching: unmatched nodes count most, then different edges, then names."""
        if self._cost is None:
            nodes = self.found
            alone = sum(n not in nodes.new_of for n in self.old.nodes)
            alone += sum(n not in nodes.old_of for n in self.new.nodes)
            wires = names = 0
            for old in self.old.nodes:
                new = nodes.node(old)
                if new is None:
                    continue
                names += old.name != new.name
                wires += self.old.labels[old] != self.new.labels[new]
                wires += abs(len(old.inputs) - len(new.inputs))
                wires += sum(
                    self._value(a) is not b for a, b in zip(old.inputs, new.inputs, strict=False) if a is not None
                )
            self._cost = 20 * alone + 10 * wires + names
        return self._cost

    def _value(self, old: Value | None) -> Value | None:
        return self.found.value(old) or self._outer.value(old)

    def _all_nodes_paired(self) -> bool:
        return all(n in self.found.new_of for n in self.old.nodes) and len(self.old.nodes) == len(self.new.nodes)

    # -- initial matches -----------------------------------------------------------------------------------------

    def _pair_interface(self) -> None:
        """Match inputs by name, then the rest by position."""
        for old, new in _by_key(self.old.graph.inputs, self.new.graph.inputs, lambda v: v.name):
            self.found.pair(old, new)
        rest = [v for v in self.old.graph.inputs if v not in self.found.new_of and v.initializer is None]
        free = [v for v in self.new.graph.inputs if v not in self.found.old_of and v.initializer is None]
        if len(rest) == len(free):
            for old, new in zip(rest, free, strict=True):
                self.found.pair(old, new)

    def _pair_leaves_by_name(self) -> None:
        for old, new in _by_key(*self._free_leaves(), lambda v: v.name):
            self.found.pair(old, new)

    def _free_leaves(self) -> tuple[list[Value], list[Value]]:
        return (
            [v for v in self.old.leaves if v not in self.found.new_of],
            [v for v in self.new.leaves if v not in self.found.old_of],
        )

    def _free(self) -> tuple[list[Node], list[Node]]:
        return (
            [n for n in self.old.nodes if n not in self.found.new_of],
            [n for n in self.new.nodes if n not in self.found.old_of],
        )

    def _pair_by_name(self, *, same_label: bool) -> None:
        """Match nodes of equal name, then nodes whose first output has an equal name; operators must be equal."""

        def key_of(name: Callable[[Node], str | None], side: _Side) -> Callable[[Node], Hashable]:
            def key(node: Node) -> Hashable:
                text = name(node)
                return (text, side.labels[node] if same_label else side.operator(node)) if text else None

            return key

        for name in (_node_name, _output_name):
            ours, theirs = self._free()
            pairs = _by_keys(ours, theirs, key_of(name, self.old), key_of(name, self.new))
            for old, new in pairs:
                self._pair_nodes(old, new)

    def _pair_unique(self, ours: dict[Node, int], theirs: dict[Node, int]) -> None:
        """Match nodes whose neighbourhood hash is unique in each graph."""
        free = self._free()
        for old, new in list(_by_keys(*free, ours.__getitem__, theirs.__getitem__)):
            self._pair_nodes(old, new)

    # -- propagation along edges ---------------------------------------------------------------------------------

    def _pair_nodes(self, old: Node, new: Node) -> None:
        if self.found.pair(old, new):
            for a, b in zip(old.outputs, new.outputs, strict=False):
                if a is not None and b is not None:
                    self.found.pair(a, b)
            self._queue.append((old, new))

    def _same_label(self, old: Node, new: Node) -> bool:
        return self.old.labels[old] == self.new.labels[new]

    def _same_operator(self, old: Node, new: Node) -> bool:
        return self.old.operator(old) == self.new.operator(new)

    def _spread(self, alike: Callable[[Node, Node], bool]) -> None:
        """Propagate from matches to their neighbours; indistinguishable users are matched in order, last."""
        self._left_open = False
        self._spread_as_far(alike, in_order=False)
        if self._left_open:
            self._spread_as_far(alike, in_order=True)

    def _spread_as_far(self, alike: Callable[[Node, Node], bool], *, in_order: bool) -> None:
        for leaf in self.old.leaves:
            partner = self.found.value(leaf)
            if partner is not None:
                self._spread_down(leaf, partner, alike, in_order=in_order)
        for a, b in zip(self.old.graph.outputs, self.new.graph.outputs, strict=False):
            self._spread_up(a, b, alike)
        self._queue.extend((old, new) for old in self.old.nodes if (new := self.found.node(old)) is not None)
        steps = 0
        while self._queue:
            steps += 1
            if not steps % 1000:
                self._progress.check()
            old, new = self._queue.pop()
            for used, other in zip(old.inputs, new.inputs, strict=False):
                self._spread_up(used, other, alike)
            for made, twin in zip(old.outputs, new.outputs, strict=False):
                if made is not None and twin is not None:
                    self._spread_down(made, twin, alike, in_order=in_order)

    def _spread_up(self, a: Value | None, b: Value | None, alike: Callable[[Node, Node], bool]) -> None:
        if a is None or b is None or a in self.found.new_of or b in self.found.old_of:
            return
        if a.graph is not self.old.graph or b.graph is not self.new.graph:
            return
        if a.producer is not None and b.producer is not None:
            free = a.producer not in self.found.new_of and b.producer not in self.found.old_of
            if free and a.index == b.index and alike(a.producer, b.producer):
                self._pair_nodes(a.producer, b.producer)
        elif a.producer is None and b.producer is None and leaf_label(a) == leaf_label(b):
            renamed = a.name not in self.new.leaf_names and b.name not in self.old.leaf_names
            if a.name == b.name or renamed or not self._names_first:
                self.found.pair(a, b)

    def _spread_down(self, a: Value, b: Value, alike: Callable[[Node, Node], bool], *, in_order: bool) -> None:
        ours = self._free_users(a, self.old, self.found.new_of)
        theirs = self._free_users(b, self.new, self.found.old_of) if ours else {}
        for key, nodes in ours.items():
            for old, new in self._couples(nodes, theirs.get(key, []), in_order=in_order):
                if alike(old, new):
                    self._pair_nodes(old, new)

    def _couples(self, ours: list[Node], theirs: list[Node], *, in_order: bool) -> Iterator[tuple[Node, Node]]:
        """Match several users with each other: by common edges, then by constants, else by position."""
        keys = (self._known_wires, _names_of_constants, _beginnings_of_constants) if len(ours) > 1 else ()
        for key in keys:
            pairs = list(_by_key(ours, theirs, key))
            yield from pairs
            paired = {node for pair in pairs for node in pair}
            ours, theirs = ([n for n in nodes if n not in paired] for nodes in (ours, theirs))
        if len(ours) != len(theirs):
            return
        if len(ours) > 1 and not in_order:
            self._left_open = True
        else:
            yield from zip(ours, theirs, strict=True)

    def _known_wires(self, node: Node) -> Hashable:
        """Return the old values that a node of either side is known to use."""
        if node.graph is self.new.graph:
            wires = [v and (self.found.old_of.get(v) or self._outer.old_of.get(v)) for v in node.inputs]
        else:
            wires = [v if self._value(v) is not None else None for v in node.inputs]
        return tuple(wires)

    @staticmethod
    def _free_users(value: Value, side: _Side, taken: dict[object, object]) -> dict[Hashable, list[Node]]:
        users: dict[Hashable, list[Node]] = defaultdict(list)
        for user, index in value.uses:
            if isinstance(user, Node) and user.graph is side.graph and user not in taken:
                users[index, side.labels[user]].append(user)
        return users

    # -- remaining nodes and values ------------------------------------------------------------------------------

    def _pair_leftovers(self) -> None:
        """Match remaining nodes of one operator by common edges or name; then those of other operators at the same
        position.
        """
        ours, theirs = self._free()
        by_operator: dict[Hashable, tuple[list[Node], list[Node]]] = defaultdict(lambda: ([], []))
        for index, (side, nodes) in enumerate(((self.old, ours), (self.new, theirs))):
            for node in nodes:
                by_operator[side.operator(node)][index].append(node)
        for old_nodes, new_nodes in by_operator.values():
            self._pair_best(old_nodes, new_nodes, least=2)
        for name in (_node_name, _output_name):
            for old, new in _by_key(*self._free(), name):
                self._pair_nodes(old, new)
        self._pair_best(*self._free(), least=4)

    def _pair_best(self, ours: list[Node], theirs: list[Node], least: int) -> None:
        for old, new in most_alike(ours, theirs, self._likeness, least):
            self._pair_nodes(old, new)

    def _likeness(self, old: Node, new: Node) -> int:
        """Return a similarity score: common edges count two each, equal attributes one, and names."""
        shared = sum(
            2
            for a, b in zip(old.inputs, new.inputs, strict=False)
            if a is not None and b is not None and self._value(a) is b and (a.initializer is None or len(a.uses) == 1)
        )
        for a, b in zip(old.outputs, new.outputs, strict=False):
            if a is not None and b is not None:
                shared += 2 * (a.name == b.name)
                partners = {(self.found.new_of.get(user), index) for user, index in a.uses}
                shared += 2 * any(use in partners for use in b.uses)
        return shared + (shared and self.old.labels[old] == self.new.labels[new])

    def _finish(self) -> None:
        """Match the remaining values: by name, then by their users."""
        self._pair_leaves_by_name()
        for old in self.old.nodes:
            new = self.found.node(old)
            for a, b in zip(old.inputs, new.inputs, strict=False) if new is not None else ():
                if a is None or b is None or a in self.found.new_of or b in self.found.old_of:
                    continue
                inside = a.graph is self.old.graph and b.graph is self.new.graph
                if inside and a.producer is None and b.producer is None and a.is_input == b.is_input:
                    self.found.pair(a, b)
        ours = [v for v in self.old.graph.values() if v not in self.found.new_of]
        theirs = [v for v in self.new.graph.values() if v not in self.found.old_of]
        for old_value, new_value in _by_key(ours, theirs, lambda v: v.name):
            self.found.pair(old_value, new_value)
        outputs = self.old.graph.outputs, self.new.graph.outputs
        for old_value, new_value in zip(*outputs, strict=True) if len(outputs[0]) == len(outputs[1]) else ():
            self.found.pair(old_value, new_value)
        for old_value, new_value in _by_key(*self._free_leaves(), _unused_label):
            self.found.pair(old_value, new_value)


def _unused_label(value: Value) -> Hashable:
    return None if value.uses else leaf_label(value)


def _names_of_constants(node: Node) -> Hashable:
    return tuple(v.name for v in node.inputs if v is not None and v.initializer is not None) or None


def _beginnings_of_constants(node: Node) -> Hashable:
    """Return the first elements of the constants a node uses, whose names exporters may change."""
    tensors = [v.initializer for v in node.inputs if v is not None and v.initializer is not None]
    beginnings = [
        repr(t.read(0, min(t.size, _BEGINNING)).tolist()) if isinstance(t, Tensor) and not t.problem else ""
        for t in tensors
    ]
    return tuple(beginnings) or None


def _node_name(node: Node) -> str | None:
    return node.name or None


def _output_name(node: Node) -> str | None:
    first = node.outputs[0] if node.outputs else None
    return None if first is None else first.name or None


def most_alike(
    ours: Sequence[T], theirs: Sequence[T], likeness: Callable[[T, T], float], least: float
) -> Iterator[tuple[T, T]]:
    """Yield pairs of at least some likeness, the most alike first, none of an item twice; none of very many pairs."""
    if len(ours) * len(theirs) > _MOST_PAIRS:
        return
    scored = ((-likeness(a, b), i, j) for i, a in enumerate(ours) for j, b in enumerate(theirs))
    used: tuple[set[int], set[int]] = set(), set()
    for _, i, j in sorted(score for score in scored if -score[0] >= least):
        if i not in used[0] and j not in used[1]:
            used[0].add(i)
            used[1].add(j)
            yield ours[i], theirs[j]


def _by_key(ours: Iterable[T], theirs: Iterable[T], key: Callable[[T], Hashable]) -> Iterator[tuple[T, T]]:
    return _by_keys(ours, theirs, key, key)


def _by_keys(
    ours: Iterable[T], theirs: Iterable[T], key: Callable[[T], Hashable], other_key: Callable[[T], Hashable]
) -> Iterator[tuple[T, T]]:
    """Return pairs of equal key, where each side has that key once; None is no key."""
    first, second = _unique(ours, key), _unique(theirs, other_key)
    for k, item in first.items():
        other = second.get(k)
        if item is not None and other is not None and k is not None:
            yield item, other


def _unique(items: Iterable[T], key: Callable[[T], Hashable]) -> dict[Hashable, T | None]:
    item_by_key: dict[Hashable, T | None] = {}
    for item in items:
        k = key(item)
        item_by_key[k] = None if k in item_by_key else item
    return item_by_key
