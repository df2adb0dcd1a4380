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
        return cast("T", self._originals.get(getattr(target, "id", 0), target))  # both are of one kind

    def copy_of(self, thing: T) -> T:
        """Return the copy of an object of the original model; raise ModelError if it had been removed before the copy.

        The first call takes time linear in the size of the model.
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
            raise ModelError(f"The {what} no longer exists", "An edit removed it in the meantime.")
        return copy

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
                # Before it is applied again, while the objects that it adds are as they were when they were added.
                carried.append(self._carry(step))
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

    def _carried(self, moved: _Part, made: _Part) -> None:
        """Give an object that will be added to the original model the id of its counterpart in the copy."""
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
        """Copy undefined values used in a graph or its bodies, which a cloner would take as captured from outside."""
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

    # -- carrying back -------------------------------------------------------------------------------------------

    def _carry(self, step: Step) -> Step:
        """Return a step on the original model for a step on the copy."""
        kind: Any = type(step)
        carried: Step = kind(
            **{name: self._content_of(role, getattr(step, name)) for name, role, *_ in references_of(kind)}
        )
        return carried

    def _content_of(self, role: Role, content: Any) -> Any:
        """Return the content of a step's field with copies replaced by originals, new objects by counterparts."""
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
        """Return the original of a copied value; for a new one, its new counterpart."""
        if value.id not in self._originals:
            moved = Value(value.name, value.type)
            moved._details, moved._source = value.details, value._source
            self._carried(moved, value)
        return self.original(value)

    def _content(self, content: Any) -> Any:
        """Return a field's new content with copies replaced by originals."""
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
        """Return the original of a copied node; for a new one, a counterpart wired to values of the original model."""
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
        """Return the original of a copied graph; for a new one, a copy that captures values of the original model.

        These values do not list its uses until it is added to the model.
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
    """Yield the values used by the nodes of a graph and its bodies, and the outputs of these graphs."""
    for graph in root.walk(progress):
        inputs = (node.inputs for node in progress.paced(graph.nodes))
        for value in chain(graph.outputs, chain.from_iterable(inputs)):
            if value is not None:
                yield value


def _exchange(root: Graph, values: Mapping[Value, Value]) -> None:
    """Replace values that a graph outside any model uses, without registering the uses with the new values."""
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
