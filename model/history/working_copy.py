"""Work on a whole model away from the thread that owns it: on a copy, whose steps are then carried over.

copy = WorkingCopy(document.model)              # owner thread: copies the structure, not the weights
copy.recording = journal.recording()            # to write it down before it is carried over
with copy.document.edit("Simplify") as edit:    # any thread
    ...
steps = copy.steps()                            # any thread
copy.close()                                    # any thread: frees it bit by bit
with document.edit("Simplify") as edit:         # owner thread, model unchanged since
    edit.repeat(steps)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol, TypeVar, cast

from onnx_workbench.model.analysis.node_subset import part_of
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.clone import Cloner
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import Role, Step, references_of
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import (
    Function,
    Graph,
    Model,
    Node,
    QuantizationAnnotation,
    TrainingInfo,
    Value,
    Values,
)
from onnx_workbench.model.ir.unlink import unlink
from onnx_workbench.model.progress import SILENT, Progress

T = TypeVar("T")
_Part = TypeVar("_Part", Model, Graph, Function, TrainingInfo, Node, Value)


class StepLog(Protocol):
    """Where the steps done to a copy are written, such as a `recovery.write_ahead.Recording`."""

    def add(self, step: Step) -> None:
        """Write a step that is about to be applied."""

    def end(self) -> None:
        """Finish: no more steps follow."""


class WorkingCopy:
    """A copy of a model with a document of its own, and the way back to the original's objects.

    What is in the copy has the id of what it stands for; what is made there keeps its id on the way back. Making one
    costs about as much as opening the model, about 15 µs a node; `progress` is checked at every node, so that it can
    be done in slices. Tensors are shared, as they never change.
    """

    def __init__(self, model: Model, progress: Progress = SILENT) -> None:
        self._originals: dict[int, Any] = {}  # by id
        self._progress = progress
        self._cloner = Cloner(progress=progress)
        self.document = Document(self._copy(model))
        self.recording: StepLog | None = None  # for the journal of the real document, before anything is done
        self._copies: dict[int, Any] = {}  # by id, filled on first use

    def close(self) -> None:
        """Free the copy, which is useless then: its cycles would be collected all at once, 0.8 s for 100,000 nodes."""
        for _ in unlink(self.document.model):
            pass
        for entry in list(self.document.entries()):
            entry.parent = None

    def original(self, target: T) -> T:
        """Return the object of the real model for its copy; anything else is returned as it is."""
        return cast("T", self._originals.get(getattr(target, "id", 0), target))  # both are of one kind

    def copy_of(self, thing: T) -> T:
        """Return the copy of a part of the real model; refuses one that the model no longer had when it was copied.

        The first call costs a pass over all that was copied.
        """
        if not self._copies:
            model = self.document.model
            parts: Iterable[Any] = (model, *model.functions, *model.training_info)
            graphs = chain.from_iterable((graph, *graph.nodes) for graph in model.graphs())
            self._copies = {part.id: part for part in chain(parts, graphs)}
            self._copies |= {copy.id: copy for copy in self._cloner.values.values() if copy is not None}
        copy: T | None = self._copies.get(getattr(thing, "id", 0))
        if copy is None or self.original(copy) is not thing:
            what = type(thing).__name__.lower()
            raise ModelError(f"The {what} no longer exists", "It went with an edit made meanwhile.")
        return copy

    def of_copies(self, known: Mapping[Value, T]) -> dict[Value, T]:
        """Map facts about values of the real model to their copies."""
        copies = self._cloner.values
        return {copy: known[value] for value in known if (copy := copies.get(value)) is not None}

    def copies(self, nodes: Iterable[Node]) -> frozenset[Node]:
        """The copies of nodes of the real model and of all in their bodies."""
        chosen = set(nodes)
        return part_of(n for g in self.document.model.graphs() for n in g.nodes if self.original(n) in chosen)

    def steps(self) -> list[Step]:
        """Return the changes of the copy as steps on the real model. Call once, when the work is done."""
        return [step for _, steps in self.entries() for step in steps]

    def entries(self) -> list[tuple[str, list[Step]]]:
        """Return `steps` by entry of the copy's history, with their titles. Call only one of the two, once."""
        path = []
        entry = self.document.current
        while entry.parent is not None:
            path.append(entry)
            entry = entry.parent
        self.document.go_to(self.document.root)
        entries, recording = [], self.recording
        for entry in reversed(path):
            carried = []
            for step in entry.steps:
                # Before it is applied again: what it brings in is then as it was when it came.
                carried.append(self._carry(step))
                if recording is not None:
                    recording.add(step)
                step.apply()
            entries.append((entry.title, carried))
        if recording is not None:
            recording.end()
        return entries

    # -- there ---------------------------------------------------------------------------------------------------

    def _copy(self, model: Model) -> Model:
        copy = Model(self._graph(model.graph))
        for slot in Model.__slots__:
            if slot not in ("graph", "functions", "training_info"):
                setattr(copy, slot, getattr(model, slot))
        copy.functions = tuple(self._function(f, copy) for f in model.functions)
        copy.training_info = tuple(self._training(t, copy) for t in model.training_info)
        for original, value in self._progress.paced(self._cloner.values.items()):
            if value is not None:
                self._stands_for(value, original)
        return self._stands_for(copy, model)

    def _stands_for(self, copy: _Part, original: _Part) -> _Part:
        """Give a copy the id of its original; returns the copy."""
        copy.id = original.id
        self._originals[copy.id] = original
        return copy

    def _carried(self, moved: _Part, made: _Part) -> None:
        """Give what is to come into the real model the id of what was made in the copy."""
        moved.id = made.id
        self._originals[made.id] = moved

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
        """Copy what is used in a graph or a body of it and nothing defines, which a cloner takes as from outside."""
        undefined = {}
        for value in _used_in(root, self._progress):
            if not value.is_defined and value not in self._cloner.values:
                undefined[value] = self._cloner.value(value)
        return undefined

    def _function(self, function: Function, model: Model) -> Function:
        copy = Function(function.name, function.domain, function.overload, self._graph(function.body))
        for slot in ("doc_string", "attributes", "attribute_defaults", "opset_imports", "metadata", "_source"):
            setattr(copy, slot, getattr(function, slot))
        copy.model = model
        return self._stands_for(copy, function)

    def _training(self, training: TrainingInfo, model: Model) -> TrainingInfo:
        copy = TrainingInfo(
            training.initialization and self._graph(training.initialization),
            training.algorithm and self._graph(training.algorithm),
        )
        copy.initialization_binding = training.initialization_binding
        copy.update_binding = training.update_binding
        copy.model, copy._source = model, training._source
        return self._stands_for(copy, training)

    # -- and back ------------------------------------------------------------------------------------------------

    def _carry(self, step: Step) -> Step:
        """The step on the real model that does what one does to the copy."""
        kind: Any = type(step)
        carried: Step = kind(
            **{name: self._content_of(role, getattr(step, name)) for name, role, *_ in references_of(kind)}
        )
        return carried

    def _content_of(self, role: Role, content: Any) -> Any:
        """A field of a step with what copies stand for, or with what is made in the copy moved."""
        match role:
            case _ if content is None:
                return None
            case Role.CHANGED | Role.BESIDE:
                return self._value(content) if isinstance(content, Value) else self.original(content)
            case Role.NODE:
                return self._node(content)
            case Role.ATTRIBUTE:
                return self._attribute(content)
            case Role.USES:
                return tuple([(self.original(user), index) for user, index in content])
            case Role.VALUE | Role.VALUES | Role.CONTENT:
                return self._content(content)
        return content

    def _values(self, values: Iterable[Value | None]) -> tuple[Value | None, ...]:
        return tuple(None if v is None else self._value(v) for v in values)

    def _value(self, value: Value) -> Value:
        """Return the original of a copied value; for one made here, a new one like it."""
        if value.id not in self._originals:
            moved = Value(value.name, value.type)
            moved._details, moved._source = value.details, value._source
            self._carried(moved, value)
        return self.original(value)

    def _content(self, content: Any) -> Any:
        """A field's new content with copies replaced by what they stand for."""
        if isinstance(content, tuple):
            return tuple(self._content(part) for part in content)
        if isinstance(content, QuantizationAnnotation):
            parameters = tuple((key, self._value(value)) for key, value in content.parameters)
            return replace(content, value=self._value(content.value), parameters=parameters)
        if isinstance(content, Function):
            return self._function_made(content)
        if isinstance(content, Graph):
            return self._moved_graph(content)
        if isinstance(content, Value):
            return self._value(content)
        if isinstance(content, TrainingInfo):
            return self._training_made(content)
        return content

    def _attribute(self, attribute: Attribute) -> Attribute:
        if not attribute.graphs:
            return attribute
        graphs = tuple(self._moved_graph(g) for g in attribute.graphs)
        return replace(attribute, value=graphs[0] if attribute.kind is AttributeKind.GRAPH else graphs)

    def _node(self, node: Node) -> Node:
        """Return the original of a copied node; for one made here, a new one wired to the real model's values."""
        if node.id not in self._originals:
            moved = Node(
                node.op_type,
                self._values(node.inputs),
                self._values(node.outputs),
                name=node.name,
                domain=node.domain,
                overload=node.overload,
                attributes={name: self._attribute(a) for name, a in node.attributes.items()},
            )
            moved._details, moved._source, moved._decoder = node._details, node._source, node._decoder
            self._carried(moved, node)
        return self.original(node)

    def _function_made(self, function: Function) -> Function:
        if function.id not in self._originals:
            moved = Function(function.name, function.domain, function.overload, self._moved_graph(function.body))
            for slot in ("doc_string", "attributes", "attribute_defaults", "opset_imports", "metadata", "_source"):
                setattr(moved, slot, getattr(function, slot))
            self._carried(moved, function)
        return self.original(function)

    def _training_made(self, training: TrainingInfo) -> TrainingInfo:
        if training.id not in self._originals:
            graphs = (training.initialization, training.algorithm)
            moved = TrainingInfo(*(graph and self._moved_graph(graph) for graph in graphs))
            for slot in ("initialization_binding", "update_binding", "_source"):
                setattr(moved, slot, getattr(training, slot))
            self._carried(moved, training)
        return self.original(training)

    def _moved_graph(self, graph: Graph) -> Graph:
        """Return the original of a copied graph; for one made here, a copy of it that captures the real model's
        values.

        These hear of it only when it comes into the model, if it ever does.
        """
        if graph.id not in self._originals:
            captured = {value: Value(value.name) for value in _used_in(graph) if value.id in self._originals}
            cloner = Cloner(dict(captured))
            moved = cloner.graph(graph)
            _exchange(moved, {stand_in: self.original(value) for value, stand_in in captured.items()})
            for value, copy in cloner.values.items():
                if copy is not None and value not in captured:
                    self._carried(copy, value)
            for made, copied in zip(graph.walk(), moved.walk(), strict=True):
                self._carried(copied, made)
                for node, copy_of_node in zip(made.nodes, copied.nodes, strict=True):
                    self._carried(copy_of_node, node)
        return self.original(graph)


def _used_in(root: Graph, progress: Progress = SILENT) -> Iterator[Value]:
    """Return the values used by nodes of a graph and of its bodies, and the outputs of these graphs."""
    for graph in root.walk(progress):
        inputs = (node.inputs for node in progress.paced(graph.nodes))
        for value in chain(graph.outputs, chain.from_iterable(inputs)):
            if value is not None:
                yield value


def _exchange(root: Graph, values: Mapping[Value, Value]) -> None:
    """Let a graph that is in no model speak of other values, which do not hear of it."""
    for graph in root.walk():
        graph.outputs = Values(values.get(value, value) for value in graph.outputs)
        for node in graph.nodes:
            node.inputs = tuple(None if value is None else values.get(value, value) for value in node.inputs)
        graph.quantization_annotations = tuple(
            replace(
                annotation,
                value=values.get(annotation.value, annotation.value),
                parameters=tuple((key, values.get(value, value)) for key, value in annotation.parameters),
            )
            for annotation in graph.quantization_annotations
        )
