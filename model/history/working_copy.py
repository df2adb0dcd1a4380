"""Long edits of a whole model outside the thread that owns it: on a copy, whose steps are then applied to the original.

copy = WorkingCopy(document.model)              # owner thread: copies the structure, not the weights
copy.recording = journal.recording()            # to record the steps before they are applied to the original
with copy.document.edit("Simplify") as edit:    # any thread
    ...
steps = copy.steps()                            # any thread
copy.close()                                    # any thread: frees it in slices
with document.edit("Simplify") as edit:         # owner thread, model unchanged since
    edit.repeat(steps)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Protocol, TypeVar

from onnx_workbench.model.analysis.node_subset import part_of
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.clone import Cloner, share_fields
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.step_carrier import StepCarrier, used_in
from onnx_workbench.model.history.steps import Step
from onnx_workbench.model.ir.graph import (
    Function,
    Graph,
    Model,
    Node,
    TrainingInfo,
    Value,
)
from onnx_workbench.model.ir.unlink import unlink
from onnx_workbench.model.progress import SILENT, Progress

T = TypeVar("T")
_Part = TypeVar("_Part", Model, Graph, Function, TrainingInfo, Node, Value)


class StepLog(Protocol):
    """Recording of the steps done to a copy, such as `recovery.write_ahead.Recording`."""

    def add(self, step: Step) -> None:
        """Record a step that is about to be applied."""

    def end(self) -> None:
        """Finish: no more steps follow."""


class WorkingCopy:
    """A copy of a model with its own document, which translates its steps to objects of the original.

    A copied object has the id of its original; an object created in the copy keeps its id in the original. Creating the
    copy costs about as much as opening the model, some 15 µs per node; `progress` is checked at every node, so that it
    can run in slices. Tensors are shared, as they are immutable.
    """

    def __init__(self, model: Model, progress: Progress = SILENT) -> None:
        self._originals: dict[int, Any] = {}  # by id
        self._carrier = StepCarrier(self._originals)
        self._progress = progress
        self._cloner = Cloner(progress=progress)
        self.document = Document(self._copy(model))
        self.recording: StepLog | None = None  # set before the first edit, for the original document's journal
        self._copies: dict[int, Any] = {}  # by id, filled on first use

    def close(self) -> None:
        """Free the copy, which is unusable then: collecting its cycles at once takes 0.8 s for 100,000 nodes."""
        for _ in unlink(self.document.model):
            pass
        for entry in list(self.document.entries()):
            entry.parent = None

    def original(self, target: T) -> T:
        """Return the original of a copied object; anything else is returned unchanged."""
        return self._carrier.original(target)

    def copy_of(self, thing: T) -> T:
        """Return the copy of an object of the original model; raise ModelError if it had been removed before the copy.

        The first call takes time linear in the size of the model.
        """
        copy: T | None = self.copies_by_id().get(getattr(thing, "id", 0))
        if copy is None or self.original(copy) is not thing:
            what = type(thing).__name__.lower()
            raise ModelError(f"The {what} no longer exists", "An edit removed it in the meantime.")
        return copy

    def copies_by_id(self) -> dict[int, Any]:
        """Return the copies of all parts of the original, by its and their id; linear in the size at first."""
        if not self._copies:
            model = self.document.model
            parts: Iterable[Any] = (model, *model.functions, *model.training_info)
            graphs = chain.from_iterable((graph, *graph.nodes) for graph in model.graphs())
            self._copies = {part.id: part for part in chain(parts, graphs)}
            self._copies |= {copy.id: copy for copy in self._cloner.values.values() if copy is not None}
        return self._copies

    def originals_by_id(self) -> dict[int, Any]:
        """Return what the parts of the copy stand for, by their id."""
        return self._originals

    def of_copies(self, known: Mapping[Value, T]) -> dict[Value, T]:
        """Map facts about values of the real model to their copies."""
        copies = self._cloner.values
        return {copy: known[value] for value in known if (copy := copies.get(value)) is not None}

    def copies(self, nodes: Iterable[Node]) -> frozenset[Node]:
        """Return the copies of nodes of the original model, and all nodes in their bodies."""
        chosen = set(nodes)
        return part_of(n for g in self.document.model.graphs() for n in g.nodes if self.original(n) in chosen)

    def steps(self) -> list[Step]:
        """Return the changes of the copy as steps on the real model. Call once, when the work is done."""
        return [step for _, steps in self.entries() for step in steps]

    def entries(self) -> list[tuple[str, list[Step]]]:
        """Return `steps` grouped by history entry, with its title. Call only one of the two, once."""
        way = self.document.way(self.document.root)
        self.document.go_to(self.document.root)
        entries, recording = [], self.recording
        for entry, steps, _ in way:
            carried = []
            for step in steps:
                # Before it is applied again, while the objects that it adds are as they were when they were added.
                carried.append(self._carrier.carry(step))
                if recording is not None:
                    recording.add(step)
                step.apply()
            entries.append((entry.title, carried))
        if recording is not None:
            recording.end()
        return entries

    # -- copying -------------------------------------------------------------------------------------------------

    def _copy(self, model: Model) -> Model:
        copy = Model(self._graph(model.graph))
        for slot in Model.__slots__:
            if slot not in ("editor", "functions", "graph", "training_info"):
                setattr(copy, slot, getattr(model, slot))
        copy.functions = tuple(self._function(f, copy) for f in model.functions)
        copy.training_info = tuple(self._training(t, copy) for t in model.training_info)
        for original, value in self._progress.paced(self._cloner.values.items()):
            if value is not None:
                self._stands_for(value, original)
        return self._stands_for(copy, model)

    def _stands_for(self, copy: _Part, original: _Part) -> _Part:
        """Give a copy the id of its original; return the copy."""
        copy.id = original.id
        self._originals[copy.id] = original
        return copy

    def _graph(self, graph: Graph) -> Graph:
        undefined = self._name_undefined(graph)
        copy = self._cloner.graph(graph)
        for theirs, ours in zip(graph.walk(self._progress), copy.walk(self._progress), strict=True):
            self._stands_for(ours, theirs)
            for original, node in zip(theirs.nodes, ours.nodes, strict=True):
                self._progress.check()
                self._stands_for(node, original)
        if undefined:
            copies = {part.id: part for part in copy.walk()}
            for value, made in undefined.items():
                made.graph = None if value.graph is None else copies.get(value.graph.id, made.graph)
        return copy

    def _name_undefined(self, root: Graph) -> dict[Value, Value]:
        """Copy undefined values used in a graph or its bodies, which a cloner would take as captured from outside."""
        undefined = {}
        for value in used_in(root, self._progress):
            if not value.is_defined and value not in self._cloner.values:
                undefined[value] = self._cloner.value(value)
        return undefined

    def _function(self, function: Function, model: Model) -> Function:
        copy = Function(function.name, function.domain, function.overload, self._graph(function.body))
        share_fields(copy, function)
        copy.model = model
        return self._stands_for(copy, function)

    def _training(self, training: TrainingInfo, model: Model) -> TrainingInfo:
        copy = TrainingInfo(
            training.initialization and self._graph(training.initialization),
            training.algorithm and self._graph(training.algorithm),
        )
        share_fields(copy, training)
        copy.model = model
        return self._stands_for(copy, training)
