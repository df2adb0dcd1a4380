"""Which values a graph can see, which names are taken, and what depends on what across bodies."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from model.graph import Graph, Node, Value


def enclosing(graph: Graph) -> Iterator[Graph]:
    """The graph and those around it, inner first."""
    current: Graph | None = graph
    while current is not None:
        yield current
        current = current.parent


def is_visible(value: Value, graph: Graph) -> bool:
    """Whether a node in `graph` may use the value: it is defined there or in a graph around it."""
    return any(value.graph is g for g in enclosing(graph))


def visible_values(graph: Graph) -> dict[str, Value]:
    """Every value a node in `graph` may use, by name. Cost: the number of values seen."""
    found: dict[str, Value] = {}
    for level in enclosing(graph):
        for value in level.values():
            found.setdefault(value.name, value)
    return found


def names_taken(graph: Graph) -> set[str]:
    """Names that a new value in `graph` must not have: those of the whole tree of graphs, so nothing is shadowed."""
    return {value.name for g in graph.root.walk() for value in _mentioned(g)}


def value_named(graph: Graph, name: str) -> Value | None:
    """The value of a name in the tree of graphs around and inside `graph`, if there is one."""
    return next((value for g in graph.root.walk() for value in _mentioned(g) if value.name == name), None)


def _mentioned(graph: Graph) -> Iterator[Value]:
    """Every value a graph defines or mentions, some several times: quicker than each once."""
    yield from graph.inputs
    yield from graph.initializers
    for node in graph.nodes:
        for value in node.outputs:
            if value is not None:
                yield value
        for value in node.inputs:
            if value is not None and value.producer is None:
                yield value
    yield from graph.outputs
    yield from graph.declared


def node_names(graph: Graph) -> set[str]:
    """Names of all nodes in the tree of graphs around and inside `graph`."""
    return {node.name for g in graph.root.walk() for node in g.nodes}


def unique_name(wanted: str, taken: Collection[str]) -> str:
    """`wanted`, or with its trailing number raised until it is not in `taken`."""
    if wanted and wanted not in taken:
        return wanted
    match = re.fullmatch(r"(.*?)_?(\d{1,9})?", wanted, re.DOTALL)
    assert match is not None
    stem, number = match[1] or "value", int(match[2] or 0)
    while True:
        number += 1
        name = f"{stem}_{number}"
        if name not in taken:
            return name


def ancestor_in(node: Node, graph: Graph) -> Node | None:
    """The node of `graph` that is `node` or holds it in a body; None when `graph` is not around it."""
    current: Node | None = node
    while current is not None and current.graph is not graph:
        owner = current.graph.owner if current.graph is not None else None
        current = owner if isinstance(owner, Node) else None
    return current


def captured(node: Node) -> Iterator[Value]:
    """Values from outside that the bodies of a node use; the same one possibly several times."""
    for body in node.bodies:
        inside = set(body.walk())
        for graph in inside:
            for value in graph.outputs:
                if value.graph not in inside:
                    yield value
            for inner in graph.nodes:
                for used in inner.inputs:
                    if used is not None and used.graph not in inside:
                        yield used


def dependencies(node: Node) -> Iterator[Value]:
    """Every value a node needs before it can run: its inputs and what its bodies capture."""
    for value in node.inputs:
        if value is not None:
            yield value
    if node.bodies:
        yield from captured(node)


def upstream(nodes: Iterable[Node], graph: Graph | None = None) -> set[Node]:
    """The nodes and everything they depend on, in their own graphs (or within one graph). Cost: the result."""
    found = set(nodes)
    pending = list(found)
    while pending:
        for value in dependencies(pending.pop()):
            producer = value.producer
            if producer is not None and producer not in found and (graph is None or producer.graph is graph):
                found.add(producer)
                pending.append(producer)
    return found


def downstream(nodes: Iterable[Node]) -> set[Node]:
    """The nodes and everything that depends on them, nodes holding a body that does included. Cost: the result."""
    found = set(nodes)
    pending = list(found)

    def reach(node: Node) -> None:
        if node not in found:
            found.add(node)
            pending.append(node)

    while pending:
        node = pending.pop()
        for value in node.outputs:
            for user, _ in value.uses if value is not None else ():
                if isinstance(user, Node):
                    reach(user)
                elif isinstance(user.owner, Node):
                    reach(user.owner)
        if node.graph is not None and isinstance(node.graph.owner, Node):
            reach(node.graph.owner)
    return found


def makes_cycle(node: Node, value: Value) -> bool:
    """Whether connecting `value` to an input of `node` would make the node depend on itself."""
    if value.producer is None or value.graph is None:
        return False
    anchor = ancestor_in(node, value.graph)
    if anchor is None:
        return False
    return anchor in upstream([value.producer], value.graph)


def run_order(graph: Graph) -> list[Node]:
    """The nodes so that each comes after what it depends on, keeping file order where that is free.

    Nodes on a cycle come last, in file order. Cost: nodes + edges, plus what bodies capture.
    """
    nodes = list(graph.nodes)
    waiting: dict[Node, int] = {}
    followers: dict[Node, list[Node]] = {}
    for node in nodes:
        producers = {v.producer for v in dependencies(node) if v.producer is not None and v.graph is graph}
        waiting[node] = len(producers)
        for producer in producers:
            if producer.graph is graph:
                followers.setdefault(producer, []).append(node)
            else:
                waiting[node] -= 1
    if _is_sorted(nodes, followers):
        return nodes
    import heapq

    position = {node: i for i, node in enumerate(nodes)}
    ready = [i for node, i in position.items() if not waiting[node]]
    order: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        order.append(node)
        for follower in followers.get(node, ()):
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, position[follower])
    if len(order) < len(nodes):
        done = set(order)
        order.extend(node for node in nodes if node not in done)
    return order


def _is_sorted(nodes: list[Node], followers: dict[Node, list[Node]]) -> bool:
    position = {node: i for i, node in enumerate(nodes)}
    return all(position[f] > position[node] for node, fs in followers.items() for f in fs)
