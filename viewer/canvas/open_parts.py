"""Open groups, bodies, functions and tags of a drawing as JSON, to restore them at the next start.

Nodes are identified by their position in their graph and their operator, as names may be missing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any

from onnx_workbench.model.ir.graph import Graph, Node
from onnx_workbench.viewer.canvas.scene.builder import inner_graphs

_MOST = 1000

#: An instance of a graph in a drawing: () for the shown graph, else the instance around it, the node, and its graph.
Instance = tuple[Any, ...]


class OpenParts:
    """Writes and reads keys of open parts of one graph, see `Drawing.expanded`. GUI thread only."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes: dict[Graph, list[Node]] = {}
        self._positions: dict[Graph, dict[Node, int]] = {}

    def write(self, expanded: Collection[Hashable]) -> list[Any]:
        """Return the keys as JSON, without those of deleted nodes."""
        found: list[list[Any]] = []
        for key in list(expanded)[:_MOST]:
            match key:
                case (tuple() as instance, Node() as node, str() as purpose):
                    found.append([self._path(instance), self._position(node), purpose])
                case (tuple() as instance, Node() as node):
                    found.append([self._path(instance), self._position(node)])
                case (tuple() as instance, tuple() as scope):
                    found.append([self._path(instance), list(scope)])
        return [part for part in found if None not in part and None not in part[0]]

    def read(self, parts: object) -> set[Hashable]:
        """Return the keys of parts that still exist; invalid entries are dropped."""
        keys = {self._key(part) for part in parts[:_MOST]} if isinstance(parts, list) else set()
        return keys - {None}

    def _path(self, instance: Instance) -> list[Any]:
        """Return the nodes around an instance of a graph, outermost first, each with the number of its body."""
        path: list[Any] = []
        while instance:
            instance, node, graph = instance
            bodies, position = inner_graphs(node), self._position(node)
            path.insert(0, [*position, bodies.index(graph)] if position and graph in bodies else None)
        return path

    def _position(self, node: Node) -> list[Any] | None:
        graph = node.graph
        if graph is None:
            return None
        if graph not in self._positions:
            self._positions[graph] = {node: index for index, node in enumerate(graph.nodes)}
        return [self._positions[graph][node], node.op_type]

    def _key(self, part: object) -> Hashable:
        match part:
            case [list() as path, [int(), str()] as position, ("sizes" | "weights" | "folded") as purpose]:
                instance, graph = self._instance(path)
                node = self._node(graph, position)
                return (instance, node, purpose) if node is not None else None
            case [list() as path, [int(), str()] as position]:
                instance, graph = self._instance(path)
                node = self._node(graph, position)
                return (instance, node) if node is not None else None
            case [list() as path, list() as scope] if all(isinstance(name, str) for name in scope):
                instance, graph = self._instance(path)
                return (instance, tuple(scope)) if graph is not None else None
        return None

    def _instance(self, path: list[Any]) -> tuple[Instance, Graph | None]:
        instance: Instance = ()
        graph: Graph | None = self._graph
        for entry in path:
            match entry:
                case [int(), str(), int() as body]:
                    node = self._node(graph, entry[:2])
                    graphs = inner_graphs(node) if node is not None else ()
                    graph = graphs[body] if 0 <= body < len(graphs) else None
                    instance = (instance, node, graph)
                case _:
                    graph = None
        return instance, graph

    def _node(self, graph: Graph | None, position: Sequence[Any]) -> Node | None:
        if graph is None:
            return None
        if graph not in self._nodes:
            self._nodes[graph] = list(graph.nodes)
        nodes = self._nodes[graph]
        index, operator = position
        return nodes[index] if 0 <= index < len(nodes) and nodes[index].op_type == operator else None
