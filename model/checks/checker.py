"""Problems of a document, updated incrementally in time slices."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain

from onnx_workbench.model.analysis.scoping import enclosing
from onnx_workbench.model.checks.incremental import IncrementalCheck, TouchedObjects
from onnx_workbench.model.checks.models import check_properties
from onnx_workbench.model.checks.partial_models import concerning
from onnx_workbench.model.checks.problem import Problem, errors_first
from onnx_workbench.model.history.document import Change, Document
from onnx_workbench.model.history.steps import (
    InsertNode,
    MoveUses,
    RemoveNode,
    SetAttribute,
    SetField,
    SetGraphInputs,
    SetGraphOutputs,
    SetInput,
    SetInputs,
    SetOutputs,
    Step,
)
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo
from onnx_workbench.model.ir.name_index import NameIndex

#: Fields that no rule depends on.
_DESCRIPTIONS = frozenset({
    "doc_string", "metadata", "producer_name", "producer_version", "model_version", "unknown_changes",
})  # fmt: skip

#: Most nodes, values and names that are checked immediately after an edit, one in under 1 ms; beyond that their graphs
#: are left to `work`, which takes 0.2 s for 5,000 nodes and 4 s for 100,000, too long for small edits.
_AT_ONCE = 400
#: Most steps of an edit that are examined one by one; with more, everything is left to `work`.
_MOST_STEPS = 5_000


class Checker:
    """The problems of a document. After an edit, touched objects are checked immediately, the rest incrementally.

    Call `work` from an idle timer until it returns True. An edit re-checks the nodes, values and names it touched and
    their users; one that touches very many, a function's signature or the whole model re-checks the graphs concerned,
    and one of thousands of steps everything. Runs on the thread that owns the model.
    """

    def __init__(self, document: Document, listener: Callable[[], None] = lambda: None) -> None:
        self._document = document
        self._listener = listener
        self._properties: list[Problem] = []
        self._found_properties: list[Problem] = []
        self._checked: dict[Graph, IncrementalCheck | None] = {}  # of all graphs of the model; None: not checked yet
        self._pending: dict[Graph, None] = {}
        self._running: Iterator[None] | None = None
        self._filling: IncrementalCheck | None = None
        self._checking_properties: Iterator[Problem | None] | None = None
        self._check_properties = False
        self._check_all = True  # before anything else
        self.revision = 0  # incremented whenever `problems` may have changed
        self._end = document.subscribe(self._changed)

    def close(self) -> None:
        """Stop listening to the document, and release the collected problems."""
        self._end()
        self._checked, self._pending = {}, {}
        self._stop_running()

    @property
    def problems(self) -> list[Problem]:
        """The problems found so far, errors first."""
        standing = (s for s in self._checked.values() if s is not None)
        found = chain(self._properties, *(s.problems() for s in standing))
        return errors_first(concerning(self._document.model, found))

    @property
    def finished(self) -> bool:
        """Whether `problems` is complete for the current model."""
        return not (self._check_all or self._check_properties or self._pending or self._running)

    def _find_graphs(self) -> None:
        self._checked = {graph: self._checked.get(graph) for graph in self._document.model.graphs()}

    def work(self, seconds: float = 0.004) -> bool:
        """Check for about this many seconds; return True when nothing is left to do."""
        deadline = time.perf_counter() + seconds
        if self._check_all:
            self._check_all, self._check_properties = False, True
            before = self._checked
            self._find_graphs()
            self._pending = dict.fromkeys(self._checked)
            self.revision += self._checked.keys() != before.keys()  # else the old problems stay until then
        if self._check_properties and not self._advance_properties(deadline):
            return False
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

    def _advance_properties(self, deadline: float) -> bool:
        if self._checking_properties is None:
            self._checking_properties = check_properties(self._document.model)
            self._found_properties = []
        for problem in self._checking_properties:
            if problem is not None:
                self._found_properties.append(problem)
            elif time.perf_counter() > deadline:
                return False
        self.revision += bool(self._properties or self._found_properties)
        self._properties, self._checking_properties = self._found_properties, None
        self._check_properties = False
        return True

    def _start_next(self) -> bool:
        if not self._pending:
            return False
        graph = next(iter(self._pending))
        del self._pending[graph]
        self._filling = IncrementalCheck(graph, self._document.model)
        self._running = self._filling.fill()
        return True

    def _advance(self, deadline: float) -> None:
        assert self._running is not None
        assert self._filling is not None
        for _ in self._running:
            if time.perf_counter() > deadline:
                return
        self._checked[self._filling.graph] = self._filling
        self.revision += 1
        self._stop_running()

    def _stop_running(self) -> None:
        self._running = self._filling = None

    # -- after an edit ---------------------------------------------------------------------------------------

    def _changed(self, change: Change) -> None:
        self._checking_properties = None  # this iterates over nodes that may have moved
        if self._check_all or len(change.steps) > _MOST_STEPS:
            self._check_all = True
            self._stop_running()
            self._listener()
            return
        self.revision += 1
        if any(map(_changes_graphs, change.steps, change.inverses)):
            self._find_graphs()
            if self._filling is not None and self._filling.graph not in self._checked:
                self._stop_running()
        self._check_properties |= any(_concerns_model(s) for s in (*change.steps, *change.inverses))
        if not any(_concerns_all(s) for s in (*change.steps, *change.inverses)):
            self._recheck(change)
        else:
            self._check_properties = True
            self._stop_running()
            self._pending = dict.fromkeys(self._checked)
        self._pending = {graph: None for graph in self._pending if graph in self._checked}
        self._listener()

    def _recheck(self, change: Change) -> None:
        """Update the graphs where that is cheap; leave the others to `work`."""
        found = TouchedObjects.by(change)
        size = len(found.nodes) + len(found.values) + len(found.names) + len(found.node_names)
        nodes = found.concerned(_AT_ONCE) if size <= _AT_ONCE else None
        affected = self._affected(found, nodes)
        roots = {graph.root for graph in affected}
        if self._filling is not None and self._filling.graph.root in roots:  # it works on an older state
            self._pending[self._filling.graph] = None
            self._stop_running()
        bodies = {b for s in (*change.steps, *change.inverses) for b in _bodies_that_move(s)}
        for graph, standing in self._checked.items():
            waits = graph in self._pending or (self._filling is not None and graph is self._filling.graph)
            if waits or not (graph in affected or standing is None):
                continue
            known = standing is not None and standing.is_current and "" not in found.names and graph not in bodies
            if known and standing is not None and nodes is not None:
                standing.update(found, nodes)
            else:
                self._pending[graph] = None

    def _affected(self, found: TouchedObjects, nodes: set[Node] | None) -> set[Graph]:
        """Return the graphs to check and the graphs around them, whose nodes subgraphs may need."""
        affected = {graph for graph in found.graphs if graph in self._checked}
        if nodes is None:
            affected |= found.graphs_concerned()
        else:
            affected.update(node.graph for node in nodes if node.graph is not None)
        affected.update(value.graph for value in found.values if value.graph is not None)
        affected.update(user for value in found.values for user, _ in value.uses if isinstance(user, Graph))
        for root in {graph.root for graph in affected}:
            known = NameIndex.made(root)  # without it, nothing of the tree has been checked yet
            named = (v.graph for name in found.names for v in known.values(name)) if known is not None else ()
            affected.update(graph for graph in named if graph is not None)
        return {outer for graph in affected for outer in enclosing(graph)}


def _concerns_model(step: Step) -> bool:
    """Return whether a step may affect rules about the whole model: imports, recursion, devices, bindings."""
    match step:
        case InsertNode() | RemoveNode():
            graph = step.graph if isinstance(step, InsertNode) else step.node.graph
            inside = graph is not None and not isinstance(graph.root.owner, Model)
            return inside or bool(step.node.domain or step.node.bodies)
        case SetField():
            if step.field == "metadata":
                return isinstance(step.target, (Model, Function, Graph))
            return step.field in ("op_type", "domain", "overload", "name", "quantization_annotations")
        case SetAttribute():
            return _holds_graphs(step)
        case MoveUses():
            return bool(step.graphs)
        case _:
            return not isinstance(step, (SetInputs, SetInput, SetOutputs))


def _concerns_all(step: Step) -> bool:
    """Return whether a step may affect nodes of any graph: versions, functions, signatures of functions."""
    match step:
        case SetGraphInputs() | SetGraphOutputs():
            return isinstance(step.graph.owner, Function)
        case MoveUses():
            return any(isinstance(graph.owner, Function) for graph in step.graphs)
        case SetField():
            return step.field not in _DESCRIPTIONS and isinstance(step.target, (Model, Function, TrainingInfo))
        case _:
            return False


def _holds_graphs(step: SetAttribute) -> bool:
    return step.attribute is not None and bool(step.attribute.graphs)


def _bodies_that_move(step: Step) -> Iterator[Graph]:
    """Return the subgraphs that a step adds or removes and the graphs around them, to be checked fully."""
    match step:
        case SetAttribute() if _holds_graphs(step) and step.node.graph is not None:
            assert step.attribute is not None
            yield from step.attribute.graphs
            yield from enclosing(step.node.graph)
        case InsertNode() | RemoveNode():
            for body in step.node.bodies:
                yield from body.walk()


def _changes_graphs(step: Step, inverse: Step) -> bool:
    """Return whether graphs may have been added or removed."""
    match step:
        case InsertNode() | RemoveNode():
            return bool(step.node.bodies)
        case SetAttribute():
            return any(isinstance(s, SetAttribute) and _holds_graphs(s) for s in (step, inverse))
        case SetField():
            return isinstance(step.target, (Model, TrainingInfo))
        case _:
            return False
