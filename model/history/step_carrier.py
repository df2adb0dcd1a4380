"""Steps on one model as steps on another one, by the counterparts of the objects that they name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar, cast

from onnx_workbench.model.history.clone import Cloner, share_fields
from onnx_workbench.model.history.steps import Role, Step, references_of
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Function, Graph, Node, QuantizationAnnotation, TrainingInfo, Value, Values
from onnx_workbench.model.progress import SILENT, Progress

T = TypeVar("T")
Part = TypeVar("Part", Graph, Function, TrainingInfo, Node, Value)


class StepCarrier:
    """Carries steps over to another model. `counterparts` are the known ones, by the id of the object.

    An object that a step adds gets a new counterpart with its id. It must be as it was when it was added.
    """

    def __init__(self, counterparts: MutableMapping[int, Any]) -> None:
        self._counterparts = counterparts

    def original(self, target: T) -> T:
        """Return the counterpart of an object; anything else is returned unchanged."""
        return cast("T", self._counterparts.get(getattr(target, "id", 0), target))  # both are of one kind

    def carry(self, step: Step) -> Step:
        """Return a step on the other model."""
        kind: Any = type(step)
        carried: Step = kind(
            **{name: self._content_of(role, getattr(step, name)) for name, role, *_ in references_of(kind)}
        )
        return carried

    def _carried(self, moved: Part, made: Part) -> None:
        """Give the new counterpart of an object the id of that object."""
        moved.id = made.id
        self._counterparts[made.id] = moved

    def _content_of(self, role: Role, content: Any) -> Any:
        """Return the content of a step's field with copies replaced by originals, new objects by counterparts."""
        match role:
            case _ if content is None:
                return None
            case Role.CHANGED | Role.BESIDE:
                if isinstance(content, Node):
                    return self._node(content)
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
        if value.id not in self._counterparts:
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
        if node.id not in self._counterparts:
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
        if function.id not in self._counterparts:
            moved = Function(function.name, function.domain, function.overload, self._moved_graph(function.body))
            share_fields(moved, function)
            self._carried(moved, function)
        return self.original(function)

    def _training_made(self, training: TrainingInfo) -> TrainingInfo:
        if training.id not in self._counterparts:
            graphs = (training.initialization, training.algorithm)
            moved = TrainingInfo(*(graph and self._moved_graph(graph) for graph in graphs))
            share_fields(moved, training)
            self._carried(moved, training)
        return self.original(training)

    def _moved_graph(self, graph: Graph) -> Graph:
        """Return the original of a copied graph; for a new one, a copy that captures values of the original model.

        These values do not list its uses until it is added to the model.
        """
        if graph.id not in self._counterparts:
            captured = {value: Value(value.name) for value in used_in(graph) if value.id in self._counterparts}
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


def used_in(root: Graph, progress: Progress = SILENT) -> Iterator[Value]:
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
