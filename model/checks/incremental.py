"""Incremental check of one graph: after an edit only the touched objects are checked again.

`check_graph` does the same work once, without keeping state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from onnx_workbench.model.analysis.scoping import captured, dependencies
from onnx_workbench.model.checks.graphs import (
    check_declared,
    check_initializer,
    check_interface,
    check_name,
    check_names,
    check_node_name,
    check_node_names,
    check_order,
    dead_node,
    is_identifier,
    live_nodes,
    odd_names,
    odd_size_names,
    odd_sizes,
)
from onnx_workbench.model.checks.nodes import check_node
from onnx_workbench.model.checks.problem import Problem
from onnx_workbench.model.checks.types import YIELD_EVERY
from onnx_workbench.model.history.document import Change
from onnx_workbench.model.history.steps import (
    InsertNode,
    RemoveNode,
    SetField,
    SetGraphInputs,
    SetGraphOutputs,
    Step,
)
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.name_index import NameIndex, ancestor_in


def check_graph(graph: Graph, model: Model) -> Iterator[Problem | None]:
    """Check all rules of a graph and its nodes, without subgraphs. Yields None regularly so that the caller can
    pause.
    """
    standing = IncrementalCheck(graph, model)
    yield from standing.fill()
    yield from standing.problems()


@dataclass(slots=True)
class TouchedObjects:
    """Objects that an edit changed, and names that appeared or disappeared."""

    nodes: dict[Node, None] = field(default_factory=dict)
    values: dict[Value, None] = field(default_factory=dict)
    graphs: dict[Graph, None] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)
    node_names: dict[str, None] = field(default_factory=dict)

    @classmethod
    def by(cls, change: Change) -> TouchedObjects:
        """Collect the objects that the steps of a change and their inverses refer to."""
        found = cls()
        for step, inverse in zip(change.steps, change.inverses, strict=True):
            found._add(step, inverse)
            found._add(inverse, step)
        for value in found.values:
            found.names[value.name] = None
        for node in found.nodes:
            found.node_names[node.name] = None
        return found

    def _add(self, step: Step, inverse: Step) -> None:
        for thing in step.touched:
            if isinstance(thing, Node):
                self.nodes[thing] = None
            elif isinstance(thing, Graph):
                self.graphs[thing] = None
        of_interface = isinstance(step, (SetGraphInputs, SetGraphOutputs))
        values = _changed(step.mentioned, inverse.mentioned) if of_interface else step.mentioned
        self.values.update((value, None) for value in values if value is not None)
        if isinstance(step, (InsertNode, RemoveNode)):
            self.values.update((value, None) for value in captured(step.node))
        elif isinstance(step, SetField):
            self._add_field(step)

    def _add_field(self, step: SetField) -> None:
        target = step.target
        if isinstance(target, Value):
            self.values[target] = None
        if step.field == "name" and isinstance(target, (Node, Value)):
            names = self.node_names if isinstance(target, Node) else self.names
            names[step.value] = None

    def concerned(self, most: int) -> set[Node] | None:
        """Return the nodes to check again: touched ones and producers and users of touched values; None for more than
        `most`.
        """
        found = {node for node in self.nodes if node.graph is not None}
        users = chain.from_iterable((user for user, _ in value.uses) for value in self.values)
        makers = (value.producer for value in self.values if value.producer is not None)
        for user in chain(makers, users, self.graphs):
            node = user.owner if isinstance(user, Graph) else user
            if isinstance(node, Node) and node.graph is not None:
                found.add(node)
            if len(found) > most:
                return None
        return found

    def graphs_concerned(self) -> set[Graph]:
        """Return the graphs of all nodes that `concerned` would return without a limit."""
        users = (user for value in self.values for user, _ in value.uses)
        levels = (user if isinstance(user, Graph) else user.graph for user in chain(self.nodes, users))
        return {graph for graph in levels if graph is not None}


def _changed(after: Collection[Value | None], before: Collection[Value | None]) -> Iterable[Value | None]:
    """Return the items in one list only; all if only their order differs."""
    return set(after).symmetric_difference(before) or after


class IncrementalCheck:
    """Incremental problems of one graph. Call `fill` first; then `update` after each edit, while `is_current`."""

    def __init__(self, graph: Graph, model: Model) -> None:
        self.graph = graph
        self._model = model
        self._rest: list[Problem] = []  # empty names, order
        self._names: dict[str, list[Problem]] = {}
        self._node_names: dict[str, list[Problem]] = {}
        self._nodes: dict[Node, list[Problem]] = {}
        self._initializers: dict[Value, list[Problem]] = {}
        self._interface: list[Problem] = []
        self._dead: dict[Node, Problem] = {}
        self._odd_names: set[str] = set()  # of values and nodes that are no C identifiers
        self._odd_sizes: dict[Value, tuple[str, ...]] = {}
        self._declared: list[Problem] = []
        # identity of the list that was examined: it may be long, and edits seldom replace it
        self._declared_seen: object = None
        self._alive: set[Node] = set()
        self._may_be_dead = False  # without outputs no node counts as dead

    def problems(self) -> Iterator[Problem]:
        """All problems of the graph."""
        yield from self._rest
        yield from self._interface
        yield from self._declared
        for kept in (self._names, self._node_names, self._initializers, self._nodes):
            for problems in kept.values():
                yield from problems
        yield from self._dead.values()
        if self._odd_names:
            yield odd_names(self.graph, len(self._odd_names))
        if self._odd_sizes:
            yield odd_size_names(self.graph, set(chain.from_iterable(self._odd_sizes.values())))

    @property
    def is_current(self) -> bool:
        """Whether `update` can follow the next edit: every value has a name, and nodes are and were in order."""
        in_order = not self._rest and NameIndex.of(self.graph).is_known_sorted
        return in_order and self._may_be_dead == bool(self.graph.outputs)

    # -- everything ------------------------------------------------------------------------------------------

    def fill(self) -> Iterator[None]:
        """Check everything, yielding regularly."""
        graph, model = self.graph, self._model
        yield from NameIndex.prepare(graph)
        for problem in check_names(graph):
            if problem is None:
                yield
            elif problem.rule == "value-name":
                self._rest.append(problem)
            else:
                self._names.setdefault(problem.place.name, []).append(problem)
        for problem in check_node_names(graph):
            if problem is None:
                yield
            else:
                self._node_names.setdefault(problem.place.name, []).append(problem)
        for problem in check_order(graph):
            if problem is None:
                yield
            else:
                self._rest.append(problem)
        interface: list[Problem] = []
        for found in check_interface(graph, model):
            if found is None:
                yield
            else:
                interface.append(found)
        self._interface = interface
        self._check_declared()
        yield from self._fill_names()
        for count, value in enumerate(graph.initializers):
            if not count % YIELD_EVERY:
                yield
            self._check_initializer(value)
        for count, node in enumerate(graph.nodes):
            if not count % YIELD_EVERY:
                yield
            self._check_node(node)
        yield from self._fill_dead()

    def _fill_names(self) -> Iterator[None]:
        things: Iterable[Value | Node] = chain(self.graph.values(), self.graph.nodes)
        for count, named in enumerate(things):
            if not count % YIELD_EVERY:
                yield
            if not is_identifier(named.name) and self._gives(named):
                self._odd_names.add(named.name)
            if isinstance(named, Value):
                self._update_sizes(named)

    def _update_name(self, name: str) -> None:
        """Update whether a name is reported as no C identifier."""
        known = NameIndex.of(self.graph)
        if not is_identifier(name):
            things: Iterable[Value | Node] = chain(known.values(name), known.nodes(name))
            (self._odd_names.add if any(map(self._gives, things)) else self._odd_names.discard)(name)

    def _update_sizes(self, value: Value) -> None:
        """Update which symbols in the type of a value are reported."""
        odd = odd_sizes(value) if self._gives(value) else ()
        if odd:
            self._odd_sizes[value] = odd
        else:
            self._odd_sizes.pop(value, None)

    def _check_declared(self) -> None:
        if self.graph.declared is not self._declared_seen:
            self._declared_seen = self.graph.declared
            self._declared = list(check_declared(self.graph))

    def _gives(self, named: Value | Node) -> bool:
        """Return whether the graph has the object; a value referred to by subgraphs only is not part of it."""
        return named.graph is self.graph and (isinstance(named, Node) or named.is_defined)

    def _fill_dead(self) -> Iterator[None]:
        self._may_be_dead = bool(self.graph.outputs)
        if not self._may_be_dead:
            return
        for alive in live_nodes(self.graph):
            self._alive = alive
            yield
        for count, node in enumerate(self.graph.nodes):
            if not count % YIELD_EVERY:
                yield
            if node not in self._alive:
                self._dead[node] = dead_node(node)

    def _check_node(self, node: Node) -> None:
        problems = list(check_node(node, self.graph.opset_imports, self._model))
        if problems:
            self._nodes[node] = problems
        else:
            self._nodes.pop(node, None)

    def _check_initializer(self, value: Value) -> None:
        problems = list(check_initializer(self.graph, value, self._model)) if value.graph is self.graph else []
        if problems:
            self._initializers[value] = problems
        else:
            self._initializers.pop(value, None)

    # -- after an edit ---------------------------------------------------------------------------------------

    def update(self, touched: TouchedObjects, nodes: Iterable[Node]) -> None:
        """Check again what an edit touched; `nodes` are the nodes concerned, of any graph. Linear in their number."""
        for name in touched.names:
            self._store(self._names, name, list(check_name(self.graph, name)))
            self._update_name(name)
        for name in touched.node_names:
            if name:
                self._update_name(name)
                self._store(self._node_names, name, list(check_node_name(self.graph, name)))
        for value in touched.values:
            self._check_initializer(value)
            self._update_sizes(value)
        self._check_declared()
        for node in touched.nodes:
            if node.graph is not self.graph:
                self._nodes.pop(node, None)
        for node in nodes:
            if node.graph is self.graph:
                self._check_node(node)
        if touched.values or self.graph in touched.graphs:  # in old files every weight is an input
            self._interface = [found for found in check_interface(self.graph, self._model) if found is not None]
        if self._may_be_dead:
            self._update_dead(touched)

    @staticmethod
    def _store(kept: dict[str, list[Problem]], name: str, problems: list[Problem]) -> None:
        if problems:
            kept[name] = problems
        else:
            kept.pop(name, None)

    def _update_dead(self, touched: TouchedObjects) -> None:
        """Update liveness: first newly live nodes with their producers, then nodes that only they needed."""
        gone = [node for node in touched.nodes if node.graph is not self.graph]
        for node in gone:
            self._alive.discard(node)
            self._dead.pop(node, None)
        makers = (value.producer for value in touched.values if value.producer is not None)
        candidates = [n for n in dict.fromkeys((*touched.nodes, *makers)) if n.graph is self.graph]
        changed = set(candidates)
        pending = [node for node in candidates if node not in self._alive]
        while pending:
            node = pending.pop()
            if node not in self._alive and self._is_needed(node):
                self._alive.add(node)
                changed.add(node)
                pending += self._producers(node)
        pending = [node for node in candidates if node in self._alive]
        while pending:
            node = pending.pop()
            if node in self._alive and not self._is_needed(node):
                self._alive.discard(node)
                changed.add(node)
                pending += self._producers(node)
        for node in changed:
            if node in self._alive:
                self._dead.pop(node, None)
            else:
                self._dead[node] = dead_node(node)

    def _producers(self, node: Node) -> list[Node]:
        makers = (value.producer for value in dependencies(node))
        return [maker for maker in makers if maker is not None and maker.graph is self.graph]

    def _is_needed(self, node: Node) -> bool:
        """Return whether the graph, a live node, one of its subgraphs or training uses a result of a node."""
        for value in node.outputs:
            for user, _ in value.uses if value is not None else ():
                if user is self.graph:
                    return True
                holder = user if isinstance(user, Node) else user.owner
                if isinstance(holder, Node) and ancestor_in(holder, self.graph) in self._alive:
                    return True
                level = user if isinstance(user, Graph) else user.graph
                if level is not None and level.root is not self.graph.root:
                    return True
        return False
