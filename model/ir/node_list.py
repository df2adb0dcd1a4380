"""Ordered node list: constant-time insertion and removal, and constant-time order comparison of two nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_workbench.model.ir.graph import Graph, Node

#: Gap between the order numbers of neighbours when a list is renumbered, and of appended nodes.
_PLACES_APART = 1 << 40
_NEXT_PLACE = 1 << 20


class NodeList:
    """The nodes of a graph in order: a linked list with order labels (order-maintenance structure)."""

    __slots__ = ("_graph", "_is_numbered", "_length", "first", "last")

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.first: Node | None = None
        self.last: Node | None = None
        self._length = 0
        self._is_numbered = False

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Node]:
        node = self.first
        while node is not None:
            following = node._next
            yield node
            node = following

    def __reversed__(self) -> Iterator[Node]:
        node = self.last
        while node is not None:
            following = node._previous
            yield node
            node = following

    def __contains__(self, node: Node | None) -> bool:
        return node is not None and node.graph is self._graph

    def __getitem__(self, index: int) -> Node:
        """Return the node at an index; linear, so not for loops."""
        if index < 0:
            index += self._length
        if 0 <= index < self._length:
            for position, node in enumerate(self):
                if position == index:
                    return node
        msg = f"node index {index} of {self._length}"
        raise IndexError(msg)

    def place(self, node: Node) -> int:
        """Return a number that grows along the list, for comparing positions; it may change with the next edit.

        Constant time, except for the first time and after many insertions at one position, which renumber the list.
        """
        if not self._is_numbered:
            for number, each in enumerate(self):
                each._place = number * _PLACES_APART
            self._is_numbered = True  # assigned last: several threads may number the list at once, with equal results
        return node._place

    def _number(self, node: Node) -> None:
        """Assign a new node a number between those of its neighbours."""
        previous, following = node._previous, node._next
        if following is None:
            node._place = 0 if previous is None else previous._place + _PLACES_APART
        elif previous is None:
            node._place = following._place - _PLACES_APART
        else:
            room = following._place - previous._place
            node._place = previous._place + min(room // 2, _NEXT_PLACE)
            self._is_numbered = room > 1

    def _append(self, node: Node) -> None:
        node.graph = self._graph
        last = self.last
        node._previous = last
        if last is None:
            self.first = node
        else:
            last._next = node
        self.last = node
        self._length += 1
        if self._is_numbered:
            self._number(node)

    def _insert(self, node: Node, before: Node | None) -> None:
        if before is None:
            self._append(node)
            return
        node.graph = self._graph
        previous = before._previous
        node._previous, node._next = previous, before
        before._previous = node
        if previous is None:
            self.first = node
        else:
            previous._next = node
        self._length += 1
        if self._is_numbered:
            self._number(node)

    def _remove(self, node: Node) -> None:
        previous, following = node._previous, node._next
        if previous is None:
            self.first = following
        else:
            previous._next = following
        if following is None:
            self.last = previous
        else:
            following._previous = previous
        node._previous = node._next = None
        node.graph = None
        self._length -= 1

    def __repr__(self) -> str:
        return f"<NodeList of {self._length}>"
