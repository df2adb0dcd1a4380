"""The primitives: the only code that changes a model.

A step changes one thing, keeps definition and use right, and returns the step that takes it back. Applying a
step, then what it returned, leaves every object, order and position as it was. Steps check nothing a person
could get wrong (that is the edits' business), only what would break the links.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

from onnx_workbench.model.ir.attributes import Attribute, is_same
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Use, Value, Values
from onnx_workbench.model.ir.lazy_details import Details
from onnx_workbench.model.ir.name_index import NameIndex
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor

_Used = TypeVar("_Used", Value, Value | None)


@dataclass(frozen=True, slots=True)
class SetField:
    """Replace one plain field of an object: see FIELDS for which ones each kind of object has."""

    target: Target
    field: str
    value: Any

    def apply(self) -> SetField:
        """Make the change; returns its inverse."""
        target, field = self.target, self.field
        if field not in FIELDS[type(target)]:
            msg = f"{type(target).__name__} has no field {field!r} that a step may set"
            raise ValueError(msg)
        old = getattr(target, field)
        if isinstance(target, (Node, Value)) and field in _DETAILS:
            details = target.details if isinstance(target, Node) else target._read()
            target._details = replace(details, **{field: self.value})
        elif isinstance(target, Value) and field == "type":
            target._read()
            target._type = self.value
        elif isinstance(target, (Model, TrainingInfo)):
            before = _training_graphs(target, field)
            setattr(target, field, self.value)
            _adopt(target, field)
            _relink(before, _training_graphs(target, field))
        else:
            setattr(target, field, Values(self.value) if field == "declared" else self.value)
            _note_field(target, field, self.value)
            if isinstance(target, Function) and target.model is not None and field in _KEY:
                target.model.forget_keys()
        return SetField(target, field, old)


@dataclass(frozen=True, slots=True)
class SetAttribute:
    """Set, replace or (None) remove an attribute of a node; `index` is its place when it is a new one."""

    node: Node
    name: str
    attribute: Attribute | None
    index: int | None = None

    def apply(self) -> SetAttribute:
        """Make the change; returns its inverse."""
        node = self.node
        attributes = dict(node.attributes)
        old = attributes.get(self.name)
        index = list(attributes).index(self.name) if old is not None else None
        if old is not None:
            for graph in old.graphs:
                _detach_graph(graph)
                graph.owner = None
        if self.attribute is None:
            attributes.pop(self.name, None)
        elif old is not None or self.index is None or self.index >= len(attributes):
            attributes[self.name] = self.attribute
        else:
            items = list(attributes.items())
            items.insert(self.index, (self.name, self.attribute))
            attributes = dict(items)
        node._attributes = attributes
        graphs = self.attribute.graphs if self.attribute is not None else ()
        for graph in graphs:
            graph.owner = node
            if node.graph is not None:
                _attach_graph(graph)
        if (graphs or (old is not None and old.graphs)) and (known := _lookup(node.graph)):
            known.bodies_came(*graphs)
        return SetAttribute(node, self.name, old, index)


@dataclass(frozen=True, slots=True)
class InsertNode:
    """Put a node, with its output values, into a graph before another node (None: at the end)."""

    graph: Graph
    node: Node
    before: Node | None = None

    def apply(self) -> RemoveNode:
        """Make the change; returns its inverse."""
        node = self.node
        if node.graph is not None:
            msg = f"{node!r} is already in a graph"
            raise ValueError(msg)
        self.graph.nodes._insert(node, self.before)
        _own(node)
        _attach(node)
        if known := _lookup(self.graph):
            known.node_came(node)
        return RemoveNode(node)


@dataclass(frozen=True, slots=True)
class RemoveNode:
    """Take a node out of its graph. Uses of its outputs stay and refer to values nobody produces."""

    node: Node

    def apply(self) -> InsertNode:
        """Make the change; returns its inverse."""
        node = self.node
        graph, before = node.graph, node.next
        if graph is None:
            msg = f"{node!r} is in no graph"
            raise ValueError(msg)
        _detach(node)
        graph.nodes._remove(node)
        _disown(node)
        if known := _lookup(graph):
            known.gone()
        return InsertNode(graph, node, before)


@dataclass(frozen=True, slots=True)
class SetInputs:
    """Replace all inputs of a node; None stands for one left out."""

    node: Node
    inputs: tuple[Value | None, ...]

    def apply(self) -> SetInputs:
        """Make the change; returns its inverse."""
        node, old = self.node, self.node.inputs
        if node.graph is not None:
            for index, value in enumerate(old):
                if value is not None:
                    value._not_used_by(node, index)
            for index, value in enumerate(self.inputs):
                if value is not None:
                    _add_use(value, node, index)
        node.inputs = self.inputs
        known = frozenset(old)
        _note_wires(node, [value for value in dict.fromkeys(self.inputs) if value not in known])
        return SetInputs(node, old)


@dataclass(frozen=True, slots=True)
class SetInput:
    """Connect one existing input of a node to a value, or disconnect it (None)."""

    node: Node
    index: int
    value: Value | None

    def apply(self) -> SetInput:
        """Make the change; returns its inverse."""
        node, index = self.node, self.index
        old = node.inputs[index]
        if node.graph is not None:
            if old is not None:
                old._not_used_by(node, index)
            if self.value is not None:
                _add_use(self.value, node, index)
        node.inputs = (*node.inputs[:index], self.value, *node.inputs[index + 1 :])
        _note_wires(node, (self.value,))
        return SetInput(node, index, old)


@dataclass(frozen=True, slots=True)
class MoveUses:
    """Let uses of one value be uses of another: one step however many there are. Costs as much as there are.

    `order` is how all uses of the target stand afterwards; without it those that come stand last.
    """

    source: Value
    target: Value
    uses: tuple[Use, ...]
    order: tuple[Use, ...] | None = None

    @property
    def users(self) -> Collection[Node | Graph]:
        """Who uses the other value from then on, each once."""
        return dict.fromkeys(map(itemgetter(0), self.uses))

    @property
    def graphs(self) -> list[Graph]:
        """The graphs among them: those that return it."""
        return [user for user in self.users if isinstance(user, Graph)]

    def apply(self) -> MoveUses:
        """Make the change; returns its inverse."""
        source, target = self.source, self.target
        before = tuple(source.uses)
        target._take_uses_of(source, self.uses, self.order)
        if self.uses and target.graph is None:
            target.graph = _level(self.uses[0][0])
        levels: dict[Graph | None, None] = {}
        for user, uses in groupby(self.uses, itemgetter(0)):  # one node's mostly follow each other
            if isinstance(user, Graph):
                user.outputs = Values(_exchanged(user.outputs, uses, target))
            else:
                user.inputs = tuple(_exchanged(user.inputs, uses, target))
            levels[_level(user)] = None
        for level in levels:
            if known := _lookup(level):
                known.taken(target)
        return MoveUses(target, source, self.uses, before)


@dataclass(frozen=True, slots=True)
class SetOutputs:
    """Replace the output values of a node; a value taken away is left without a producer.

    A value that comes in must not be another node's output at that moment.
    """

    node: Node
    outputs: tuple[Value | None, ...]

    def apply(self) -> SetOutputs:
        """Make the change; returns its inverse."""
        node, old = self.node, self.node.outputs
        _disown(node)
        node.outputs = self.outputs
        if node.graph is not None:
            _own(node)
        if known := _lookup(node.graph):
            known.used(*self.outputs)
            known.moved(node)
        return SetOutputs(node, old)


@dataclass(frozen=True, slots=True)
class SetGraphInputs:
    """Replace the list of inputs of a graph."""

    graph: Graph
    inputs: tuple[Value, ...]

    def apply(self) -> SetGraphInputs:
        """Make the change; returns its inverse."""
        graph, old = self.graph, self.graph.inputs
        for value in self.inputs:
            value.graph = graph
        graph.inputs = Values(self.inputs)
        if known := _lookup(graph):
            known.used(*self.inputs)
        return SetGraphInputs(graph, old)


@dataclass(frozen=True, slots=True)
class SetGraphOutputs:
    """Replace the list of values a graph returns."""

    graph: Graph
    outputs: tuple[Value, ...]

    def apply(self) -> SetGraphOutputs:
        """Make the change; returns its inverse."""
        graph, old = self.graph, self.graph.outputs
        for index, value in enumerate(old):
            value._not_used_by(graph, index)
        for index, value in enumerate(self.outputs):
            _add_use(value, graph, index)
        graph.outputs = Values(self.outputs)
        if known := _lookup(graph):
            known.used(*self.outputs)
            if isinstance(graph.owner, Node):
                known.wired(graph.owner)
        return SetGraphOutputs(graph, old)


@dataclass(frozen=True, slots=True)
class SetInitializer:
    """Give a value of a graph a constant, replace it, or (None) take it away; `index` is its place in the list."""

    graph: Graph
    value: Value
    tensor: Tensor | SparseTensor | None
    index: int | None = None

    def apply(self) -> SetInitializer:
        """Make the change; returns its inverse."""
        graph, value = self.graph, self.value
        old, index = value.initializer, None
        if old is not None:
            index = _place(graph, value)
            if self.tensor is None:
                del graph.initializers[index]
        elif self.tensor is not None:
            value.graph = graph
            place = len(graph.initializers) if self.index is None else self.index
            graph.initializers.insert(place, value)
            graph._places[value] = place
        value.initializer = self.tensor
        if known := _lookup(graph):
            known.used(value)
        return SetInitializer(graph, value, old, index)


Step = (
    SetField
    | SetAttribute
    | InsertNode
    | RemoveNode
    | SetInputs
    | SetInput
    | MoveUses
    | SetOutputs
    | SetGraphInputs
    | SetGraphOutputs
    | SetInitializer
)
Target = Model | Graph | Function | TrainingInfo | Node | Value

_DETAILS = frozenset(Details.__dataclass_fields__)
_KEY = frozenset({"domain", "name", "overload"})  # of a function

#: What SetField may set, by kind of object.
FIELDS: Mapping[type, frozenset[str]] = {
    Model: frozenset({
        "ir_version", "opset_imports", "producer_name", "producer_version", "domain", "model_version",
        "doc_string", "metadata", "functions", "training_info", "configurations", "unknown_changes",
    }),
    Graph: frozenset({"name", "doc_string", "metadata", "declared", "quantization_annotations"}),
    Function: frozenset({
        "name", "domain", "overload", "doc_string", "attributes", "attribute_defaults", "opset_imports", "metadata",
        "unknown_changes",
    }),
    TrainingInfo: frozenset({"initialization", "algorithm", "initialization_binding", "update_binding"}),
    Node: frozenset({
        "name", "op_type", "domain", "overload", "doc_string", "metadata", "device_configurations", "unknown_changes",
    }),
    Value: frozenset({"name", "type", "doc_string", "metadata", "unknown_changes"}),
}  # fmt: skip


def subject(step: Step) -> tuple[object, ...]:
    """What a step sets: of two steps with equal subjects that follow each other, only the later one counts."""
    kind = type(step)
    match step:
        case SetField():
            return kind, step.target, step.field
        case SetAttribute():
            return kind, step.node, step.name
        case SetInput():
            return kind, step.node, step.index
        case MoveUses():
            return kind, step  # what one moved a later one moves on: both count
        case SetInputs() | SetOutputs() | InsertNode() | RemoveNode():
            return kind, step.node
        case SetGraphInputs() | SetGraphOutputs():
            return kind, step.graph
        case SetInitializer():
            return kind, step.value


def changes_nothing(step: Step, inverse: Step) -> bool:
    """Whether a step that returned `inverse` left everything as it was."""
    match step, inverse:
        case SetField(), SetField():
            return bool(step.value == inverse.value)
        case SetAttribute(), SetAttribute():
            return _same_attribute(step.attribute, inverse.attribute)
        case SetInput(), SetInput():
            return step.value is inverse.value
        case MoveUses(), MoveUses():
            return step.source is step.target or not step.uses
        case SetInputs(), SetInputs():
            return step.inputs == inverse.inputs
        case SetOutputs(), SetOutputs():
            return step.outputs == inverse.outputs
        case SetGraphInputs(), SetGraphInputs():
            return step.inputs == inverse.inputs
        case SetGraphOutputs(), SetGraphOutputs():
            return step.outputs == inverse.outputs
        case SetInitializer(), SetInitializer():
            return step.tensor is inverse.tensor
        case _:
            return False


def _same_attribute(a: Attribute | None, b: Attribute | None) -> bool:
    return a == b and (a is None or b is None or is_same(a.value, b.value))


def touched(step: Step) -> Iterator[Target]:
    """The objects a step changes, for views that update only what changed."""
    match step:
        case SetField():
            yield step.target
        case SetAttribute() | SetInput() | SetInputs() | SetOutputs() | RemoveNode():
            yield step.node
        case MoveUses():
            yield from step.users
        case InsertNode():
            yield step.node
            yield step.graph
        case SetGraphInputs() | SetGraphOutputs():
            yield step.graph
        case SetInitializer():
            yield step.value
            yield step.graph


def mentioned(step: Step) -> Sequence[Value | None]:
    """The values a step wires, lists, declares or gives a constant; of its inverse, those that were there before."""
    match step:
        case InsertNode() | RemoveNode():
            return *step.node.inputs, *step.node.outputs
        case SetInputs() | SetGraphInputs():
            return step.inputs
        case SetOutputs() | SetGraphOutputs():
            return step.outputs
        case MoveUses():
            return (step.target,)
        case SetInput() | SetInitializer():
            return (step.value,)
        case SetField(field="declared"):
            return tuple(step.value)
        case _:
            return ()


def _add_use(value: Value, user: Node | Graph, index: int) -> None:
    value._used_by(user, index)
    if value.graph is None:  # a name that nothing defines belongs where it is used first
        value.graph = _level(user)


def _level(user: Node | Graph) -> Graph | None:
    """The graph in which something uses a value."""
    return user if isinstance(user, Graph) else user.graph


def _exchanged(values: Iterable[_Used], uses: Iterable[Use], value: _Used) -> list[_Used]:
    """What a node takes, or a graph returns, with another value in some places."""
    changed = list(values)
    for _, index in uses:
        changed[index] = value
    return changed


def _own(node: Node) -> None:
    for index, value in enumerate(node.outputs):
        if value is not None:
            value.graph, value.producer, value.index = node.graph, node, index


def _disown(node: Node) -> None:
    for value in node.outputs:
        if value is not None and value.producer is node:
            value.producer = None
            value.index = 0


def _attach(node: Node) -> None:
    for index, value in enumerate(node.inputs):
        if value is not None:
            _add_use(value, node, index)
    for graph in node.bodies:
        graph.owner = node
        _attach_graph(graph)


def _detach(node: Node) -> None:
    for index, value in enumerate(node.inputs):
        if value is not None:
            value._not_used_by(node, index)
    for graph in node.bodies:
        _detach_graph(graph)


def _attach_graph(root: Graph) -> None:
    root._lookup = None  # it is no outermost graph any more
    for graph in root.walk():
        for index, value in enumerate(graph.outputs):
            _add_use(value, graph, index)
        for node in graph.nodes:
            for index, used in enumerate(node.inputs):
                if used is not None:
                    _add_use(used, node, index)


def _detach_graph(root: Graph) -> None:
    for graph in root.walk():
        for index, value in enumerate(graph.outputs):
            value._not_used_by(graph, index)
        for node in graph.nodes:
            for index, used in enumerate(node.inputs):
                if used is not None:
                    used._not_used_by(node, index)


def _lookup(graph: Graph | None) -> NameIndex | None:
    """What someone already asked to know about the tree a graph is in, to be told of what changes."""
    return None if graph is None else graph.root._lookup


def _note_wires(node: Node, values: Collection[Value | None]) -> None:
    """Tell of values that became inputs of a node."""
    if known := _lookup(node.graph):
        known.used(*values)
        known.wired(node)


def _note_field(target: Target, field: str, content: Any) -> None:
    if isinstance(target, (Node, Value)):
        if field == "name" and (known := _lookup(target.graph)):
            known.named(target)
    elif isinstance(target, Graph) and field == "declared" and (known := _lookup(target)):
        known.used(*content)


def _training_graphs(target: Model | TrainingInfo, field: str) -> list[Graph]:
    """The training graphs that a field of a model, or of training info in one, stands for."""
    trainings: tuple[TrainingInfo, ...] = ()
    if isinstance(target, Model):
        trainings = target.training_info if field == "training_info" else ()
    elif target.model is not None:
        trainings = (target,) if any(t is target for t in target.model.training_info) else ()
    return [graph for t in trainings for graph in (t.initialization, t.algorithm) if graph is not None]


#: By how much the known place of an initializer may be wrong: about the root of the longest lists there are.
_DRIFT = 128


def _place(graph: Graph, value: Value) -> int:
    """The place of an initializer in its list. Costs a look at those around where it was when last all were counted.

    Searching the whole list would make removing each of 20,000 cost the square of that.
    """
    known = graph._places.get(value)
    if known is not None:
        try:
            return graph.initializers.index(value, max(known - _DRIFT, 0), known + _DRIFT)
        except ValueError:
            pass  # more than that were removed or inserted since
    graph._places = {v: place for place, v in enumerate(graph.initializers)}
    return graph._places[value]


def _relink(before: list[Graph], after: list[Graph]) -> None:
    """Training graphs use values of the main graph: only while they are in the model."""
    for graph in before:
        if not any(graph is other for other in after):
            _detach_graph(graph)
    for graph in after:
        if not any(graph is other for other in before):
            _attach_graph(graph)


def _adopt(target: Model | TrainingInfo, field: str) -> None:
    """Link back what was put into a model or training info."""
    if isinstance(target, Model) and field in ("functions", "training_info"):
        for part in getattr(target, field):
            part.model = target
    elif isinstance(target, TrainingInfo) and field in ("initialization", "algorithm"):
        graph = getattr(target, field)
        if graph is not None:
            graph.owner = target
