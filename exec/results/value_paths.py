"""Addresses of values in saved runs: the names of the calls and bodies around each, and its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from onnx_workbench.exec.results.run_file import Address
from onnx_workbench.exec.results.slot_map import Path, ValueKey
from onnx_workbench.model.analysis.call_graph import called_by
from onnx_workbench.model.ir.graph import Function, Graph, Node, Value
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from onnx_workbench.exec.results.run_result import RunResult


class ValuePaths:
    """Translates between keys of a run and addresses in the current graph. Reads the model: GUI thread."""

    def __init__(self, graph: Graph, node: Callable[[int], Node | None], value: Callable[[int], Value | None]) -> None:
        self._graph = graph
        self._node, self._value = node, value
        self._prefixes: dict[tuple[Graph, Path], tuple[str, ...] | None] = {(graph, ()): ()}
        self._entries: dict[Graph, dict[str, tuple[Node, Graph]]] = {}
        self._values: dict[Graph, dict[str, Value]] = {}

    def of(self, key: ValueKey) -> Address | None:
        """Return the address of a value; None for a constant and for a value that is no longer in the graph."""
        path, number = key
        value = self._value(number)
        if value is None or value.graph is None or value.initializer is not None:
            return None
        place = value.graph, path
        if place not in self._prefixes:
            self._prefixes[place] = self._prefix_of(*place)
        around = self._prefixes[place]
        return None if around is None else (*around, value.name)

    def _prefix_of(self, graph: Graph, path: Path) -> tuple[str, ...] | None:
        parts: list[str] = []
        while graph is not self._graph:
            owner = graph.owner
            if isinstance(owner, Function):
                node = self._node(path[-1]) if path else None
                path = path[:-1]
            else:
                node = owner if isinstance(owner, Node) else None
            if node is None or node.graph is None:
                return None
            label = next((text for text, door in self._entries_of(node.graph).items() if door == (node, graph)), None)
            if label is None:
                return None
            parts.append(label)
            graph = node.graph
        return None if path else tuple(reversed(parts))

    def find(self, address: Address) -> ValueKey | None:
        """Return the key of the value at an address; None if there is none."""
        graph = self._graph
        path: Path = ()
        for part in address[:-1]:
            door = self._entries_of(graph).get(part)
            if door is None:
                return None
            node, graph = door
            if isinstance(graph.owner, Function):
                path = (*path, node.id)
        if graph not in self._values:
            self._values[graph] = {value.name: value for value in graph.values()}
        value = self._values[graph].get(address[-1]) if address else None
        return None if value is None else (path, value.id)

    def _entries_of(self, graph: Graph) -> dict[str, tuple[Node, Graph]]:
        """Return the functions called and the bodies in a graph, each with its node, by their part of an address."""
        if graph not in self._entries:
            names = Counter(node.name for node in graph.nodes)
            entries: dict[str, tuple[Node, Graph]] = {}
            for node in graph.nodes:
                own = node.name if names[node.name] == 1 else ""
                name = own or next((value.name for value in node.outputs if value is not None), "")
                entries.update({name + text: (node, inner) for text, inner in _insides(node)})
            self._entries[graph] = entries
        return self._entries[graph]


def body_values(
    result: RunResult,
    node_of: Callable[[int], Node | None],
    value_of: Callable[[int], Value | None],
    progress: Progress = SILENT,
) -> dict[ValueKey, list[ValueKey]]:
    """Return the computed values in bodies, by call path and number of the outermost node around them."""
    places: dict[tuple[Graph, Path], ValueKey | None] = {}
    values_in: dict[ValueKey, list[ValueKey]] = {}
    for path, values in result.bodies.items():
        for one in progress.paced(values):
            value = value_of(one)
            if value is None or value.graph is None or (path, one) in result.layout.slots:
                continue  # deleted from the model, or captured from an outer scope
            place = value.graph, path
            if place not in places:
                places[place] = _outermost(*place, node_of)
            around = places[place]
            if around is not None:
                values_in.setdefault(around, []).append((path, one))
    return values_in


def _outermost(graph: Graph | None, path: Path, node_by_number: Callable[[int], Node | None]) -> ValueKey | None:
    """Return call path and number of the outermost node whose bodies contain a graph, also through calls; or None."""
    bodies = [(at, node) for inner, at, node in scopes_around(graph, path, node_by_number) if inner.owner is node]
    return (bodies[-1][0], bodies[-1][1].id) if bodies else None


def scopes_around(
    graph: Graph | None, path: Path, node_by_number: Callable[[int], Node | None]
) -> Iterator[tuple[Graph, Path, Node]]:
    """Yield each body or function around a graph, from inside out, with the call path and node that contain it."""
    while graph is not None:
        node = graph.owner if isinstance(graph.owner, Node) else None
        if node is None and path:
            path, node = path[:-1], node_by_number(path[-1])
        if node is None:
            return
        yield graph, path, node
        graph = node.graph


def _insides(node: Node) -> Iterator[tuple[str, Graph]]:
    """Return the function that a node calls, and its bodies with their distinguishing names."""
    function = called_by(node)
    if function is not None:
        yield "", function.body
    for attribute in node.attributes.values():
        if isinstance(attribute.value, Graph):
            yield f".{attribute.name}", attribute.value
        else:
            yield from ((f".{attribute.name}[{i}]", inner) for i, inner in enumerate(attribute.graphs))
