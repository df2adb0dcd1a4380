"""Name scoping: visible values, taken names, and dependencies across subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator

from onnx_workbench.model.analysis.reachable import reachable
from onnx_workbench.model.ir.graph import Function, Graph, Node, TrainingInfo, Value
from onnx_workbench.model.ir.name_index import NameIndex, ancestor_in, comes_before
from onnx_workbench.model.progress import SILENT, Progress

_SINGLE_STEPS = 16
_MOST_DIGITS = 9


def enclosing(graph: Graph) -> Iterator[Graph]:
    """Return the graph and the enclosing ones, inner first."""
    current: Graph | None = graph
    while current is not None:
        yield current
        current = current.parent


def is_visible(value: Value, graph: Graph) -> bool:
    """Return whether a node in `graph` may use the value: defined there, in an enclosing graph, or trained by it."""
    if any(value.graph is g for g in enclosing(graph)):
        return True
    main = _trained(graph)
    return main is not None and value.graph is main and (_is_algorithm(graph) or value.initializer is not None)


def seen_by(graph: Graph) -> Iterator[Value]:
    """Yield every value a node in `graph` may use, inner first. Training graphs see the trained graph.

    The initialization sees the constants of the main graph; the algorithm all of it, as a step runs both as one.
    """
    for level in enclosing(graph):
        yield from level.values()
    main = _trained(graph)
    if main is not None:
        yield from main.values() if _is_algorithm(graph) else main.initializers


def by_graph(values: Iterable[Value]) -> dict[Graph, list[Value]]:
    """Group values by graph; those in none are left out."""
    values_by_graph: dict[Graph, list[Value]] = {}
    for value in values:
        if value.graph is not None:
            values_by_graph.setdefault(value.graph, []).append(value)
    return values_by_graph


def visible_values(graph: Graph) -> dict[str, Value]:
    """Return every value a node in `graph` may use, by name. Linear in their number."""
    by_name: dict[str, Value] = {}
    for value in seen_by(graph):
        by_name.setdefault(value.name, value)
    return by_name


def _trained(graph: Graph) -> Graph | None:
    """Return the main graph, for training graphs and their subgraphs."""
    owner = graph.root.owner
    return owner.model.graph if isinstance(owner, TrainingInfo) and owner.model is not None else None


def _is_algorithm(graph: Graph) -> bool:
    owner = graph.root.owner
    return isinstance(owner, TrainingInfo) and owner.algorithm is graph.root


class TakenNames:
    """Names that a new object must not have: those in a tree of graphs, and those assigned since."""

    def __init__(self, holder: Callable[[str], object | None]) -> None:
        self._holder = holder
        self._given: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._given or self._holder(name) is not None)

    def add(self, name: str) -> None:
        """Add an assigned name; needed only until the model has it."""
        self._given.add(name)


def names_taken(graph: Graph) -> TakenNames:
    """Return names that a new value in `graph` must not have: those of the whole tree of graphs, to avoid shadowing."""
    return TakenNames(lambda name: value_named(graph, name))


def value_named(graph: Graph, name: str) -> Value | None:
    """Return the value of a name in the tree of graphs around and inside `graph`, if there is one.

    The main graph and its training graphs count as one tree, as they share values.
    """
    return next(values_named(graph, name), None)


def values_named(graph: Graph, name: str) -> Iterator[Value]:
    """Return all candidates of `value_named`; several only for shadowed or duplicate names."""
    model = graph.model
    together: tuple[Graph, ...] = (graph,)
    if model is not None and model.training_info and not isinstance(graph.root.owner, Function):
        training = (g for t in model.training_info for g in (t.initialization, t.algorithm) if g is not None)
        together = (graph, *(g for g in (model.graph, *training) if g is not graph.root))
    for tree in together:
        yield from NameIndex.of(tree).values(name)


def node_names(graph: Graph) -> TakenNames:
    """Return the names of all nodes in the tree of graphs around and inside `graph`."""
    return TakenNames(NameIndex.of(graph).node)


def unique_name(wanted: str, taken: Container[str]) -> str:
    """Return `wanted`, or with its trailing number raised until it is not taken. A few dozen lookups at most."""
    if wanted and wanted not in taken:
        return wanted
    end = len(wanted)  # of the stem: a regular expression would go through all of a name of megabytes
    while end > max(len(wanted) - _MOST_DIGITS, 0) and wanted[end - 1].isdecimal():
        end -= 1
    stem, number = wanted[:end].removesuffix("_") or "value", int(wanted[end:] or 0)
    step = 1
    while f"{stem}_{number + step}" in taken:  # growing strides: a model may have 100,000 names with one stem
        number += step
        step = step * 2 if step > 1 or number % _SINGLE_STEPS == 0 else 1
    while step > 1:
        step //= 2
        if f"{stem}_{number + step}" in taken:
            number += step
    return f"{stem}_{number + 1}"


def captured(node: Node) -> Iterator[Value]:
    """Return outer values that the subgraphs of a node use (captured values), in order of use, with repetitions."""
    for body in node.bodies:
        graphs = list(body.walk())
        inside = set(graphs)
        for graph in graphs:
            for inner in graph.nodes:
                for used in inner.inputs:
                    if used is not None and used.graph not in inside:
                        yield used
            for value in graph.outputs:
                if value.graph not in inside:
                    yield value


def dependencies(node: Node) -> Iterator[Value]:
    """Return every value a node needs before it can run: its inputs and captured values."""
    for value in node.inputs:
        if value is not None:
            yield value
    if node.bodies:
        yield from captured(node)


def nodes_upstream(nodes: Iterable[Node], graph: Graph | None = None, *, start: Node | None = None) -> set[Node]:
    """Return the nodes and everything they depend on, in their own graphs, or within one graph. Linear in the result.

    With `start`, a node of that graph, nodes before it in the list are not visited.
    """

    def before(node: Node) -> Iterator[Node]:
        for value in dependencies(node):
            producer = value.producer
            if producer is None or (graph is not None and producer.graph is not graph):
                continue
            if start is None or not comes_before(producer, start):
                yield producer

    return set(reachable(nodes, before))


def users_in(value: Value | None, graph: Graph | None) -> Iterator[Node]:
    """Yield the nodes of a graph that use a value, themselves or in a subgraph."""
    for user, _ in () if value is None else value.uses:
        place: Node | Graph | None = user
        while place is not None and not (isinstance(place, Node) and place.graph is graph):
            home = place.graph if isinstance(place, Node) else place
            place = home.owner if home is not None and isinstance(home.owner, Node) else None
        if isinstance(place, Node):
            yield place


def followers_before(last: Node, nodes: Collection[Node]) -> set[Node]:
    """Return the nodes that use what `nodes` of a sorted graph compute, at any distance, and come before `last`.

    The cost is that of the nodes between the first and the last one.
    """
    graph = last.graph
    assert graph is not None
    place, end = graph.nodes.place, graph.nodes.place(last)

    def after(node: Node) -> Iterator[Node]:
        return (user for value in node.outputs for user in users_in(value, graph) if place(user) < end)

    return set(reachable(nodes, after)).difference(nodes)


def makes_cycle(node: Node, value: Value) -> bool:
    """Return whether connecting `value` to an input of `node` would create a cycle.

    In a topologically sorted graph it only examines the nodes between the two.
    """
    if value.producer is None or value.graph is None:
        return False
    anchor = ancestor_in(node, value.graph)
    return anchor is not None and anchor in needed_from(value.producer, anchor)


def needed_from(producer: Node, anchor: Node) -> set[Node]:
    """Return a node and its dependencies from `anchor` on in the list of their graph."""
    graph = producer.graph
    assert graph is not None
    if not NameIndex.of(graph).is_sorted:
        return {node for node in nodes_upstream([producer], graph) if not comes_before(node, anchor)}
    if comes_before(producer, anchor):
        return set()
    return nodes_upstream([producer], graph, start=anchor)


def run_order(graph: Graph, progress: Progress = SILENT) -> list[Node]:
    """Sort nodes topologically (stable topological sort), keeping file order where possible.

    Nodes on a cycle come last, in file order. Linear in nodes and edges, captured values included.
    """
    nodes = list(progress.paced(graph.nodes))
    if _is_sorted(nodes, graph, progress):
        return nodes
    import heapq

    waiting: dict[Node, int] = {}
    followers: dict[Node, list[Node]] = {}
    for node in progress.paced(nodes):
        producers = _producers(node, graph)
        waiting[node] = len(producers)
        for producer in producers:
            followers.setdefault(producer, []).append(node)
    position = {node: i for i, node in enumerate(nodes)}
    ready = [i for node, i in position.items() if not waiting[node]]
    order: list[Node] = []
    while ready:
        progress.check()
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


def node_on_cycle(graph: Graph) -> Node | None:
    """Return a node on a cycle; None when there is none. Cost: as `run_order`."""
    order = run_order(graph)
    ordered: set[Node] = set()
    for node in order:
        if not _producers(node, graph) <= ordered:
            break
        ordered.add(node)
    if len(ordered) == len(order):
        return None
    node, passed = order[len(ordered)], set(ordered)
    while node not in passed:  # each of those left needs another of them, so going back meets one twice
        passed.add(node)
        node = next(p for p in _producers(node, graph) if p not in ordered)
    return node


def _producers(node: Node, graph: Graph) -> set[Node]:
    return {v.producer for v in dependencies(node) if v.producer is not None and v.producer.graph is graph}


def _is_sorted(nodes: list[Node], graph: Graph, progress: Progress) -> bool:
    before: set[Node] = set()
    for node in progress.paced(nodes):
        for value in dependencies(node):
            producer = value.producer
            if producer is not None and producer not in before and producer.graph is graph:
                return False
        before.add(node)
    return True
