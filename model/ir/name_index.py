"""Index of a tree of graphs: names, and whether nodes are topologically sorted, so that an edit need not search it.

Built on first use and stored at the root graph; from then on steps report additions. Names are only ever added:
a lookup checks whether a name's holder still has it. So removals need no report, and an undone edit leaves at most a
name without a holder. Objects that are new, renamed, or may have become unsorted are queued and examined by the next
lookup.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.progress import SILENT, Progress

_Thing = TypeVar("_Thing", Node, Value)
_Holders = dict[str, _Thing | dict[_Thing, None]]  # usually one holder, but nodes may be unnamed and so have many

_SETTLING = threading.RLock()  # held for one node at a time: a background reader may query concurrently


class NameIndex:
    """Values and nodes of a tree of graphs by name, and whether every node comes after its producers.

    Building one takes a walk over the tree; `of` does it once.
    """

    __slots__ = ("_came", "_makers", "_nodes", "_renamed", "_root", "_sorted", "_takers", "_values")

    def __init__(self, root: Graph, progress: Progress = SILENT) -> None:
        self._root = root
        self._values: _Holders[Value] = {}
        self._nodes: _Holders[Node] = {}
        self._sorted: bool | None = None  # None: unknown
        self._came: dict[Node, None] = {}  # nodes whose names are not indexed yet
        self._renamed: dict[Node | Value, None] = {}  # whose current names may not be indexed yet
        self._takers: dict[Node, None] = {}  # nodes that may come before their producers, in a tree that was sorted
        self._makers: dict[Node, None] = {}  # nodes that may come after their users, likewise
        self._graph_came(root, progress)

    @classmethod
    def of(cls, graph: Graph) -> NameIndex:
        """Return the index of the tree that contains `graph`, building it on first use."""
        root = graph.root
        if root._lookup is None:
            root._lookup = cls(root)
        return root._lookup

    @classmethod
    def made(cls, graph: Graph) -> NameIndex | None:
        """Return the index of the tree if it was built already, else None."""
        return graph.root._lookup

    @classmethod
    def prepare(cls, graph: Graph, progress: Progress) -> None:
        """Build the index and examine what is queued, so that queries are cheap. No edit may happen meanwhile."""
        root = graph.root
        index = root._lookup or cls(root, progress)
        while index._settle_one():
            progress.check()
        if index._sorted is None:
            index._sorted = all(map(_is_in_place, progress.paced(_nodes_of(root, progress))))
        root._lookup = index

    # -- queries ---------------------------------------------------------------------------------------------------

    def value(self, name: str) -> Value | None:
        """Return a value of this name that the tree defines or refers to; None when the name is free."""
        return next(self.values(name), None)

    def values(self, name: str) -> Iterator[Value]:
        """Return every value of this name; several only for shadowed or duplicate names."""
        self._settle_all()
        return (v for v in list(_holders_of(self._values, name)) if v.name == name and _is_in(v, self._root))

    def node(self, name: str) -> Node | None:
        """Return a node of this name; None when the name is free."""
        return next(self.nodes(name), None)

    def nodes(self, name: str) -> Iterator[Node]:
        """Return every node of this name."""
        self._settle_all()
        for node in list(_holders_of(self._nodes, name)):
            if node.name == name and self._has(node):
                yield node

    @property
    def is_sorted(self) -> bool:
        """Return whether every node comes after its producers. Walks over the tree when that is unknown."""
        self._settle_all()
        if self._sorted is None:
            self._sorted = all(map(_is_in_place, _nodes_of(self._root)))
        return self._sorted

    def _settle_all(self) -> None:
        with _SETTLING:
            while self._settle_one():
                pass

    def _settle_one(self) -> bool:
        """Index one new node or name, or check the order of one node; return False when the queues are empty."""
        with _SETTLING:
            if self._came:
                node, _ = self._came.popitem()
                if self._has(node):
                    _add_holder(self._nodes, node)
                    self.used(*node.inputs, *node.outputs)
                return True
            if self._renamed:
                thing, _ = self._renamed.popitem()
                if isinstance(thing, Node):
                    _add_holder(self._nodes, thing)
                else:
                    _add_holder(self._values, thing)
                return True
            for nodes, is_in_order in ((self._takers, _is_in_place), (self._makers, _is_before_users)):
                if nodes:
                    node, _ = nodes.popitem()
                    if self._has(node) and not is_in_order(node):
                        self._order_is(False)
                    return True
            return False

    def _has(self, node: Node) -> bool:
        return node.graph is not None and node.graph.root is self._root

    def _order_is(self, is_sorted: bool | None) -> None:
        self._sorted = is_sorted
        self._takers.clear()
        self._makers.clear()

    # -- reports from steps ----------------------------------------------------------------------------------------

    def named(self, target: Node | Value) -> None:
        """Report that a node or value was renamed."""
        self._renamed[target] = None

    def used(self, *values: Value | None) -> None:
        """Report values that the tree may not have referred to before."""
        for value in values:
            if value is not None:
                _add_holder(self._values, value)

    def node_came(self, node: Node) -> None:
        """Report that a node was added, with its bodies."""
        self._came[node] = None
        bodies = node.bodies
        for body in bodies:
            self._graph_came(body)
        if self._sorted and not bodies:
            self._takers[node] = self._makers[node] = None
        else:
            self._order_is(None)

    def bodies_came(self, *graphs: Graph) -> None:
        """Report that bodies of a node were added or removed."""
        for graph in graphs:
            self._graph_came(graph)
        self._order_is(None)

    def wired(self, node: Node) -> None:
        """Report that inputs of a node, or outputs of one of its bodies, changed."""
        if self._sorted and not node.bodies:
            self._takers[node] = None
        else:
            self._order_is(None)

    def value_used(self, value: Value) -> None:
        """Report that uses were moved to a value."""
        self.used(value)
        if not self._sorted:
            self._order_is(None)
        elif value.producer is not None:
            self._makers[value.producer] = None

    def moved(self, node: Node) -> None:
        """Report that a node was moved in its list, or has other outputs."""
        if self._sorted and not node.bodies:
            self._makers[node] = None
        else:
            self._order_is(None)

    def use_removed(self) -> None:
        """Report a removal, after which a sorted tree is still sorted."""
        if not self._sorted:
            self._order_is(None)

    def _graph_came(self, root: Graph, progress: Progress = SILENT) -> None:
        """Index all names in a graph and its bodies."""
        values, nodes = self._values, self._nodes
        for graph in root.walk(progress):
            for value in (*graph.inputs, *graph.initializers, *graph.outputs, *graph.declared):
                _add_holder(values, value)
            for node in progress.paced(graph.nodes):
                _add_holder(nodes, node)
                for output in node.outputs:
                    if output is not None:
                        _add_holder(values, output)
                for used in node.inputs:
                    if used is not None and used.producer is None:
                        _add_holder(values, used)


def _add_holder(holders: _Holders[_Thing], thing: _Thing) -> None:
    present = holders.setdefault(thing.name, thing)
    if present is thing:
        return
    if isinstance(present, dict):
        present[thing] = None
    else:
        holders[thing.name] = {present: None, thing: None}


def _holders_of(holders: _Holders[_Thing], name: str) -> Iterable[_Thing]:
    present = holders.get(name)
    return () if present is None else present if isinstance(present, dict) else (present,)


def _is_in(value: Value, root: Graph) -> bool:
    """Return whether a tree of graphs defines or refers to a value."""
    producer, graph = value.producer, value.graph
    if producer is not None and producer.graph is not None and producer.graph.root is root:
        return True
    for user, _ in value.uses:
        level = user if isinstance(user, Graph) else user.graph
        if level is not None and level.root is root:
            return True
    if graph is None or graph.root is not root:
        return False
    return value.initializer is not None or value in graph.inputs or value in graph.declared


def _nodes_of(root: Graph, progress: Progress = SILENT) -> Iterator[Node]:
    for graph in root.walk(progress):
        yield from graph.nodes


def _is_in_place(node: Node) -> bool:
    """Return whether a node comes after the producers of its inputs. Captured values are checked at their users."""
    returned = (value for body in node.bodies for value in body.outputs if value.graph is not body)
    return _has_before((*node.inputs, *returned), node)


def _has_before(values: Iterable[Value | None], node: Node) -> bool:
    """Return whether the producer of each value comes before a node."""
    return not [value for value in values if not _comes_before(value, node)]  # few: a generator would cost more


def _is_before_users(node: Node) -> bool:
    """Return whether a node comes before each user of its outputs, or before the node that holds the user."""
    for value in node.outputs:
        for user, _ in () if value is None else value.uses:
            anchor = user if isinstance(user, Node) else user.owner
            if isinstance(anchor, Node) and not _comes_before(value, anchor):
                return False
    return True


def _comes_before(value: Value | None, node: Node) -> bool:
    """Return whether the producer of a value comes before the node that uses it, or the one that holds that node."""
    producer = None if value is None else value.producer
    graph = None if producer is None else producer.graph
    if producer is None or graph is None:
        return True
    anchor = node if node.graph is graph else ancestor_in(node, graph)
    return anchor is None or graph.nodes.place(producer) < graph.nodes.place(anchor)


def comes_before(first: Node, second: Node) -> bool:
    """Return whether one node of a graph comes earlier in its list than another. O(1) unless numbers ran out between
    them.
    """
    assert first.graph is not None
    nodes = first.graph.nodes
    return nodes.place(first) < nodes.place(second)


def ancestor_in(node: Node, graph: Graph) -> Node | None:
    """Return the node of `graph` that is `node` or contains it in a body; None when `graph` does not enclose it."""
    current: Node | None = node
    while current is not None and current.graph is not graph:
        owner = current.graph.owner if current.graph is not None else None
        current = owner if isinstance(owner, Node) else None
    return current
