"""Problems kept up to date while a document is edited, in small steps that never stall a window."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from model.checks.graphs import check_graph
from model.checks.models import check_properties
from model.checks.nodes import check_node
from model.checks.problem import Problem
from model.document import Change, Document
from model.graph import Function, Graph, Model, Node, TrainingInfo, Value
from model.queries.scope import enclosing
from model.steps import InsertNode, RemoveNode, SetAttribute, SetField, Step, touched


class Checker:
    """The problems of a document. After an edit, what it touched is checked at once and the rest bit by bit.

    Call `work` from an idle timer until it returns True. An attribute or text edit re-checks its node alone;
    anything that changes the structure re-checks the graphs it is in. Runs on the thread that owns the model.
    """

    def __init__(self, document: Document, listener: Callable[[], None] = lambda: None) -> None:
        self._document = document
        self._listener = listener
        self._properties: list[Problem] = []
        self._graphs: dict[Graph, None] = {}  # all of the model
        self._by_graph: dict[Graph, list[Problem]] = {}
        self._pending: dict[Graph, None] = {}
        self._running: Iterator[Problem | None] | None = None
        self._running_graph: Graph | None = None
        self._found: list[Problem] = []
        self._check_properties = True
        self.revision = 0  # goes up whenever `problems` may be others
        self._end = document.subscribe(self._changed)
        self.check_all()

    def close(self) -> None:
        """Stop listening to the document."""
        self._end()

    @property
    def problems(self) -> list[Problem]:
        """What is known to be wrong now, errors first."""
        order = {"error": 0, "warning": 1, "info": 2}
        found = [*self._properties, *(p for problems in self._by_graph.values() for p in problems)]
        return sorted(found, key=lambda p: order[p.severity])

    @property
    def finished(self) -> bool:
        """Whether `problems` is complete for the model as it is now."""
        return not (self._check_properties or self._pending or self._running)

    def check_all(self) -> None:
        """Check everything anew."""
        self._check_properties = True
        graphs = self._graphs = dict.fromkeys(self._document.model.graphs())
        self._by_graph = {graph: self._by_graph.get(graph, []) for graph in graphs}
        self._stop_running()
        self._pending = dict.fromkeys(graphs)

    def work(self, seconds: float = 0.004) -> bool:
        """Check for about this long; True when there is nothing left to do."""
        deadline = time.perf_counter() + seconds
        if self._check_properties:
            self._properties = list(check_properties(self._document.model))
            self._check_properties = False
            self.revision += 1
        while time.perf_counter() < deadline:
            if self._running is None and not self._start_next():
                self._listener()
                return True
            self._advance(deadline)
        return False

    def run(self) -> list[Problem]:
        """Check until done and return the problems; for scripts and tests."""
        while not self.work(1.0):
            pass
        return self.problems

    def _start_next(self) -> bool:
        if not self._pending:
            return False
        graph = next(iter(self._pending))
        del self._pending[graph]
        self._running_graph, self._found = graph, []
        self._running = check_graph(graph, self._document.model)
        return True

    def _advance(self, deadline: float) -> None:
        assert self._running is not None
        assert self._running_graph is not None
        for problem in self._running:
            if problem is not None:
                self._found.append(problem)
            elif time.perf_counter() > deadline:
                return
        self._by_graph[self._running_graph] = self._found
        self.revision += 1
        self._stop_running()

    def _stop_running(self) -> None:
        self._running = None
        self._running_graph = None

    def _changed(self, change: Change) -> None:
        self.revision += 1
        if not all(_concerns_one_node(step) for step in change.steps):
            self._recheck_structure(change)
            return
        for step in change.steps:
            for target in touched(step):
                if isinstance(target, Node) and target.graph is not None:
                    self._recheck_node(target)
        self._listener()

    def _recheck_structure(self, change: Change) -> None:
        self._check_properties = True
        if any(map(_changes_graphs, change.steps, change.inverses)):
            self._graphs = dict.fromkeys(self._document.model.graphs())
        graphs = self._graphs
        self._by_graph = {graph: problems for graph, problems in self._by_graph.items() if graph in graphs}
        if self._running_graph is not None:
            self._pending[self._running_graph] = None
            self._stop_running()
        # The inverses know the graphs that nodes were taken out of.
        targets = {target for step in (*change.steps, *change.inverses) for target in touched(step)}
        affected = {graph for target in targets for graph in _graphs_of(target)}
        around = {outer for graph in affected for outer in enclosing(graph)}  # which hold what bodies use
        everything = not affected or any(isinstance(t, (Model, Function, TrainingInfo)) for t in targets)
        for graph in graphs:
            if everything or graph in around or graph not in self._by_graph or _inside(graph, affected):
                self._pending[graph] = None
        self._pending = {graph: None for graph in self._pending if graph in graphs}

    def _recheck_node(self, node: Node) -> None:
        graph = node.graph
        assert graph is not None
        if graph is self._running_graph:
            self._stop_running()
            self._pending[graph] = None
        others = [p for p in self._by_graph.get(graph, []) if p.place is not node or p.rule in _GRAPH_RULES]
        self._by_graph[graph] = [*others, *check_node(node, graph.opset_imports, self._document.model)]


#: Rules that point at a node but depend on more than the node.
_GRAPH_RULES = frozenset({"order", "cycle", "dead-node", "duplicate-node"})


def _concerns_one_node(step: Step) -> bool:
    """Whether nothing but the node itself can become right or wrong: a plain attribute, a text."""
    if isinstance(step, SetAttribute):
        return not step.node.bodies and not (step.attribute and step.attribute.graphs)
    return isinstance(step, SetField) and step.field in ("doc_string", "metadata")


def _changes_graphs(step: Step, inverse: Step) -> bool:
    """Whether graphs may have come or gone."""
    match step:
        case InsertNode() | RemoveNode():
            return bool(step.node.bodies)
        case SetAttribute():
            before = inverse.attribute if isinstance(inverse, SetAttribute) else None
            return any(a is not None and bool(a.graphs) for a in (before, step.attribute))
        case SetField():
            return isinstance(step.target, (Model, TrainingInfo))
        case _:
            return False


def _graphs_of(target: object) -> Iterator[Graph]:
    if isinstance(target, Graph):
        yield target
    elif isinstance(target, Node) and target.graph is not None:
        yield target.graph
    elif isinstance(target, Value):
        if target.graph is not None:
            yield target.graph
        for user, _ in target.uses:
            graph = user if isinstance(user, Graph) else user.graph
            if graph is not None:
                yield graph


def _inside(graph: Graph, outer: set[Graph]) -> bool:
    return any(around in outer for around in enclosing(graph))
