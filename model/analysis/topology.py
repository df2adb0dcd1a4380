"""Reachability: nodes and values upstream and downstream of others, across subgraphs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from onnx_workbench.model.analysis.reachable import reachable
from onnx_workbench.model.analysis.scoping import captured, followers_before, nodes_upstream, users_in
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.name_index import NameIndex
from onnx_workbench.model.progress import SILENT, Progress

Thing = Node | Value


@dataclass(frozen=True, slots=True)
class Connection:
    """An edge: a value and one of its users."""

    value: Value
    node: Node


def upstream(start: Iterable[Thing]) -> dict[Thing, None]:
    """Return everything the given nodes and values depend on, and themselves, in the order found.

    A node depends on its inputs and captured values; a value on its producer. Stops at graph inputs and constants.
    Linear in the result.
    """

    def before(thing: Thing) -> Iterable[Thing | None]:
        return (thing.producer,) if isinstance(thing, Value) else (*thing.inputs, *outer_values(thing))

    return reachable(start, before)


def downstream(start: Iterable[Thing], progress: Progress = SILENT) -> dict[Thing, None]:
    """Return everything that depends on the given nodes and values, and themselves, in the order found.

    A use inside a subgraph makes the node that owns the subgraph dependent too. About 0.6 µs each.
    """

    def after(thing: Thing) -> Iterable[Thing | None]:
        if isinstance(thing, Value):
            return [_user(user) for user, _ in thing.uses]
        owner = thing.graph.owner if thing.graph is not None else None
        return (*thing.outputs, owner) if isinstance(owner, Node) else thing.outputs

    return reachable(start, after, progress)


def between(things: Iterable[object]) -> list[Node]:
    """Return the nodes on any path between two of the given nodes and values, those among them included.

    ModelError where they are not of one graph.
    """
    chosen = [thing for thing in things if isinstance(thing, (Node, Value))]
    graphs = {thing.graph for thing in chosen}
    if len(graphs) != 1:
        raise ModelError("Select nodes and values of one graph", f"The selection spans {len(graphs)} graphs.")
    graph = next(iter(graphs))
    above, below = upstream(chosen), downstream(chosen)
    return [thing for thing in above if isinstance(thing, Node) and thing in below and thing.graph is graph]


def detour(nodes: Collection[Node]) -> Node | None:
    """Return the first node of a path that leaves nodes of a graph and comes back, so that they cannot become one.

    The cost is that of the nodes between the first and the last one; of the whole graph if it is not sorted.
    """
    inside = set(nodes)
    graph = next(iter(inside)).graph
    assert graph is not None
    place = graph.nodes.place
    if NameIndex.of(graph).is_sorted:
        after = followers_before(max(inside, key=place), inside)
        between = {n for n in after if any(user in inside for v in n.outputs for user in users_in(v, graph))}
    else:
        below = downstream(inside)
        between = {n for n in nodes_upstream(inside) if n in below and n.graph is graph} - inside
    return min(between, key=place, default=None)


def _user(user: Node | Graph) -> Node | None:
    """Return the node that uses a value: itself, or the owner of the subgraph that returns the value."""
    if isinstance(user, Node):
        return user
    return user.owner if isinstance(user.owner, Node) else None


def outer_values(node: Node) -> list[Value]:
    """Return outer values that a node's subgraphs use, once each, in order of use; empty without subgraphs."""
    return list(dict.fromkeys(value for value in captured(node) if value.graph is not None))
