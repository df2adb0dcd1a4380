"""Problems of a document: everything is checked now and then, what an edit touched at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain

from onnx_workbench.model.analysis.scoping import captured
from onnx_workbench.model.checks.models import NodeProblems, problems_of
from onnx_workbench.model.checks.nodes import check_node
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
    Step,
)
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Value
from onnx_workbench.model.progress import SILENT, Progress

#: Fields that no rule about a node depends on.
_DESCRIPTIONS = frozenset({
    "doc_string", "metadata", "producer_name", "producer_version", "model_version", "messages",
})  # fmt: skip

#: Most nodes that are checked immediately after an edit, one in under 1 ms.
_AT_ONCE = 400
#: Most steps of an edit that are examined one by one; after more, no node is taken as checked.
_MOST_STEPS = 5_000


class Checker:
    """The problems of a document.

    `find` finds all of them, on any thread as long as no edit happens meanwhile, and `take` lists what it found. What
    the rules about single nodes found is kept until an edit may change it, so the next `find` is quick: after an edit
    of 100,000 nodes it takes a second, the first one 4 s. Nodes that an edit touched are checked again at once, unless
    they are very many; a rule about whole graphs, such as unique names, waits for `find`.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._nodes: NodeProblems = {}
        self.problems: list[Problem] = []  # known so far, errors first
        self.finished = False  # `problems` are those of the current model
        self._end = document.subscribe(self._changed)

    def close(self) -> None:
        """Stop listening to the document, and release the problems."""
        self._end()
        self._nodes, self.problems = {}, []

    def find(self, progress: Progress = SILENT) -> list[Problem]:
        """Return all problems of the model, errors first. An edit waits for the next `progress.check`."""
        model = self._document.model
        return errors_first(concerning(model, problems_of(model, self._nodes, progress)))

    def take(self, problems: list[Problem]) -> None:
        """List what `find` returned, if no edit happened since. On the thread that owns the model."""
        self.problems, self.finished = problems, True

    def run(self) -> list[Problem]:
        """Find and list all problems; for scripts and tests."""
        self.take(self.find())
        return self.problems

    def _changed(self, change: Change) -> None:
        self.finished = False
        steps = (*change.steps, *change.inverses)
        if len(change.steps) > _MOST_STEPS or any(map(_concerns_all, steps)):
            self._nodes.clear()
            return
        nodes = touched_nodes(change)
        checked = [node for node in nodes if self._nodes.get(node) is not None]
        before = {id(problem) for node in checked for problem in self._nodes.pop(node)}
        if len(nodes) > _AT_ONCE:
            return
        new = [problem for node in checked for problem in self._check(node)]
        if before or new:
            kept = (problem for problem in self.problems if id(problem) not in before)
            self.problems = errors_first(chain(kept, concerning(self._document.model, new)))

    def _check(self, node: Node) -> Iterable[Problem]:
        if node.graph is None:  # removed
            return ()
        problems = self._nodes[node] = tuple(check_node(node, node.graph.opset_imports, self._document.model))
        return problems


def touched_nodes(change: Change) -> set[Node]:
    """Return the nodes whose problems a change may change: those its steps touch, the producers and users of values
    that they mention, and the owners of graphs among these.
    """
    things: set[object] = set()
    values: set[Value] = set()
    for step, inverse in chain(
        zip(change.steps, change.inverses, strict=True), zip(change.inverses, change.steps, strict=True)
    ):
        things.update(step.touched)
        values.update(_mentioned(step, inverse))
    for value in values:
        things.update(user for user, _ in value.uses)
        things.add(value.producer)
    owners = (thing.owner if isinstance(thing, Graph) else thing for thing in things)
    return {node for node in owners if isinstance(node, Node)}


def _mentioned(step: Step, inverse: Step) -> Iterator[Value]:
    """Yield the values that a step and its inverse mention; of an interface those only one has, which may be few."""
    mentioned: Collection[Value | None] = step.mentioned
    if isinstance(step, (SetGraphInputs, SetGraphOutputs)):
        mentioned = set(mentioned).symmetric_difference(inverse.mentioned) or mentioned
    yield from (value for value in mentioned if value is not None)
    if isinstance(step, (InsertNode, RemoveNode)):
        yield from captured(step.node)
    elif isinstance(step, SetField) and isinstance(step.target, Value):
        yield step.target


def _concerns_all(step: Step) -> bool:
    """Return whether a step may change the problems of nodes that it does not touch: it changes versions, functions
    or their signatures, or adds or removes graphs.
    """
    match step:
        case InsertNode() | RemoveNode():
            return bool(step.node.bodies)
        case SetAttribute():
            return step.attribute is not None and bool(step.attribute.graphs)
        case SetGraphInputs() | SetGraphOutputs():
            return isinstance(step.graph.owner, Function)
        case MoveUses():
            return any(isinstance(graph.owner, Function) for graph in step.graphs)
        case SetField():
            return step.field not in _DESCRIPTIONS and isinstance(step.target, (Model, Function, TrainingInfo))
        case _:
            return False
