"""Steps: primitive, invertible changes. The only code that changes a model.

A step changes one thing, keeps definitions and uses consistent, and returns its inverse. Applying a step and then its
inverse restores every object, order and position. Steps do not validate what the user asks for (edits do); they only
refuse what would break the links between objects.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum, auto
from itertools import groupby
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple, TypeVar, get_args

from onnx_workbench.model.ir.attributes import Attribute, is_same
from onnx_workbench.model.ir.changes import note_change
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Use, Value, Values
from onnx_workbench.model.ir.name_index import NameIndex
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.ir.types import Type

_Used = TypeVar("_Used", Value, Value | None)


class Role(Enum):
    """Role of a field of a step. Recordings, copies and listeners handle steps by the roles of their fields alone."""

    CHANGED = auto()  # a node, value, graph … of the model that the step changes
    BESIDE = auto()  # a node of the model that is unchanged, or None
    NODE = auto()  # a node that is added
    VALUE = auto()  # a value of the model or a new one, or None
    VALUES = auto()  # several values
    ATTRIBUTE = auto()  # an attribute, perhaps with graphs, or None
    TENSOR = auto()  # a tensor, sparse or not, or None
    USES = auto()  # uses of a value: user and index
    CONTENT = auto()  # the new content of an object's field
    PLAIN = auto()  # a name or a number


class Reference(NamedTuple):
    """A field of a step: its name, its role, its key in recordings, and the class of the object it refers to."""

    name: str
    role: Role
    key: str
    kind: type[Any] | None
    is_optional: bool


def _is(role: Role, key: str = "", kind: type[Any] | None = None, *, optional: bool = False) -> dict[str, Any]:
    """Return the metadata of a field with a role; see Reference."""
    return {"role": role, "key": key, "kind": kind, "is_optional": optional}


_REFERENCES: dict[type[BaseStep], tuple[Reference, ...]] = {}
_TOUCHED: dict[type[BaseStep], tuple[str, ...]] = {}


def references_of(kind: type[BaseStep]) -> tuple[Reference, ...]:
    """Return the fields of a kind of step that have a role, in order."""
    references = _REFERENCES.get(kind)
    if references is None:
        references = tuple(Reference(f.name, **f.metadata) for f in fields(kind) if f.metadata)
        _REFERENCES[kind] = references
    return references


def _fields_touched(kind: type[BaseStep]) -> tuple[str, ...]:
    """Return the names of the fields with the objects that a kind of step changes."""
    names = _TOUCHED.get(kind)
    if names is None:
        names = _TOUCHED[kind] = tuple(
            name
            for name, role, *_ in references_of(kind)
            if role is Role.CHANGED or role is Role.NODE or (role is Role.VALUE and name in kind.identity)
        )
    return names


class BaseStep:
    """Base class of steps. A subclass declares the role of each of its fields.

    Steps are immutable; the dataclasses are not frozen only because that doubles the time of creating one.
    `verb` is the kind's name in recordings. `identity` names the fields that identify what the step sets, and `content`
    the field with the new value. Override the methods for what these declarations do not express.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    verb: ClassVar[str]
    identity: ClassVar[tuple[str, ...]]
    content: ClassVar[str] = ""

    def apply(self) -> Step:
        """Apply the change; return its inverse."""
        note_change()
        return self._apply()

    @abstractmethod
    def _apply(self) -> Step:
        """Apply the change; return its inverse."""

    @property
    def subject(self) -> tuple[object, ...]:
        """Key of what the step sets: of two consecutive steps with equal subjects, only the later one matters."""
        return (type(self), *[getattr(self, name) for name in self.identity])

    @property
    def changed(self) -> Node | Value | Graph | Function | Model | TrainingInfo:
        """The object of the model that the step changes."""
        target: Target = next(
            getattr(self, name) for name, role, *_ in references_of(type(self)) if role is Role.CHANGED
        )
        return target

    @property
    def touched(self) -> Iterable[Target]:
        """The objects that the step changes, for views that update only these."""
        return [getattr(self, name) for name in _fields_touched(type(self))]

    @property
    def mentioned(self) -> Sequence[Value | None]:
        """The values that the step wires, lists, declares or gives a constant; of its inverse, the previous ones."""
        values: list[Value | None] = []
        for name, role, *_ in references_of(type(self)):
            if role is Role.VALUE:
                values.append(getattr(self, name))
            elif role is Role.VALUES:
                values += getattr(self, name)
            elif role is Role.NODE:
                node = getattr(self, name)
                values += [*node.inputs, *node.outputs]
        return values

    def changes_nothing(self, inverse: Step) -> bool:
        """Return whether the step, which returned `inverse`, left everything as it was."""
        if type(self) is not type(inverse) or not self.content:
            return False
        new, old = getattr(self, self.content), getattr(inverse, self.content)
        return bool(new == old) and (not isinstance(new, Attribute) or is_same(new.value, old.value))


@dataclass(slots=True, unsafe_hash=True)
class SetField(BaseStep):
    """Replace one plain field of an object: see FIELDS for which ones each kind of object has."""

    verb = "set"
    identity = ("target", "field")
    content = "value"

    target: Target = dataclasses.field(metadata=_is(Role.CHANGED))
    field: str = dataclasses.field(metadata=_is(Role.PLAIN))
    value: Any = dataclasses.field(metadata=_is(Role.CONTENT, "to"))

    @property
    def mentioned(self) -> Sequence[Value | None]:
        """The values that a graph declares."""
        return tuple(self.value) if self.field == "declared" else ()

    def _apply(self) -> SetField:
        target, field = self.target, self.field
        setter = _SETTERS[type(target)].get(field)
        if setter is None:
            msg = f"{type(target).__name__} has no field {field!r} that a step may set"
            raise ValueError(msg)
        old = getattr(target, field)
        setter(target, field, self.value)
        return SetField(target, field, old)


@dataclass(slots=True, unsafe_hash=True)
class SetAttribute(BaseStep):
    """Set, replace or (None) remove an attribute of a node; `index` is the position of a new one."""

    verb = "set attribute"
    identity = ("node", "name")
    content = "attribute"

    node: Node = dataclasses.field(metadata=_is(Role.CHANGED, "node", Node))
    name: str = dataclasses.field(metadata=_is(Role.PLAIN, "name", str))
    attribute: Attribute | None = dataclasses.field(metadata=_is(Role.ATTRIBUTE, "to", optional=True))
    index: int | None = dataclasses.field(default=None, metadata=_is(Role.PLAIN, "at", int, optional=True))

    def _apply(self) -> SetAttribute:
        node = self.node
        attributes = dict(node.attributes)
        old = attributes.get(self.name)
        index = list(attributes).index(self.name) if old is not None else None
        before = old.graphs if old is not None else ()
        for graph in before:
            detach_graph(graph)
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
        if (graphs or before) and (known := _lookup(node.graph)):
            known.bodies_came(*graphs)
        return SetAttribute(node, self.name, old, index)


@dataclass(slots=True, unsafe_hash=True)
class InsertNode(BaseStep):
    """Insert a node, with its output values, into a graph before another node (None: at the end)."""

    verb = "insert node"
    identity = ("node",)

    graph: Graph = dataclasses.field(metadata=_is(Role.CHANGED, "graph", Graph))
    node: Node = dataclasses.field(metadata=_is(Role.NODE, "to"))
    before: Node | None = dataclasses.field(default=None, metadata=_is(Role.BESIDE, "before", Node, optional=True))

    def _apply(self) -> RemoveNode:
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


@dataclass(slots=True, unsafe_hash=True)
class RemoveNode(BaseStep):
    """Remove a node from its graph. Uses of its outputs remain and refer to values without a producer."""

    verb = "remove node"
    identity = ("node",)

    node: Node = dataclasses.field(metadata=_is(Role.CHANGED, "node", Node))

    @property
    def mentioned(self) -> Sequence[Value | None]:
        """Its inputs and outputs."""
        return *self.node.inputs, *self.node.outputs

    def _apply(self) -> InsertNode:
        node = self.node
        graph, before = node.graph, node.next
        if graph is None:
            msg = f"{node!r} is in no graph"
            raise ValueError(msg)
        _detach(node)
        graph.nodes._remove(node)
        _disown(node)
        if known := _lookup(graph):
            known.use_removed()
        return InsertNode(graph, node, before)


@dataclass(slots=True, unsafe_hash=True)
class SetInputs(BaseStep):
    """Replace all inputs of a node; None is an omitted input."""

    verb = "set inputs"
    identity = ("node",)
    content = "inputs"

    node: Node = dataclasses.field(metadata=_is(Role.CHANGED, "node", Node))
    inputs: tuple[Value | None, ...] = dataclasses.field(metadata=_is(Role.VALUES, "to", optional=True))

    def _apply(self) -> SetInputs:
        node, old = self.node, self.node.inputs
        if node.graph is not None:
            for index, value in enumerate(old):
                if value is not None:
                    value._not_used_by(node, index)
            for index, value in enumerate(self.inputs):
                if value is not None:
                    _add_use(value, node, index)
        node.inputs = self.inputs
        before = frozenset(old)
        _note_wires(node, [value for value in dict.fromkeys(self.inputs) if value not in before])
        return SetInputs(node, old)


@dataclass(slots=True, unsafe_hash=True)
class SetInput(BaseStep):
    """Connect one existing input of a node to a value, or disconnect it (None)."""

    verb = "set input"
    identity = ("node", "index")
    content = "value"

    node: Node = dataclasses.field(metadata=_is(Role.CHANGED, "node", Node))
    index: int = dataclasses.field(metadata=_is(Role.PLAIN, "at", int))
    value: Value | None = dataclasses.field(metadata=_is(Role.VALUE, "to", optional=True))

    def _apply(self) -> SetInput:
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


@dataclass(slots=True, unsafe_hash=True)
class MoveUses(BaseStep):
    """Redirect uses of one value to another, in one step for any number of uses; takes time linear in their number.

    `order` is the order of all uses of the target afterwards; without it the moved uses are appended.
    """

    verb = "move uses"
    identity = ()

    source: Value = dataclasses.field(metadata=_is(Role.CHANGED, "from", Value))
    target: Value = dataclasses.field(metadata=_is(Role.VALUE, "to"))
    uses: tuple[Use, ...] = dataclasses.field(metadata=_is(Role.USES))
    order: tuple[Use, ...] | None = None

    @property
    def users(self) -> Collection[Node | Graph]:
        """The users whose uses are moved, each once."""
        return dict.fromkeys(map(itemgetter(0), self.uses))

    @property
    def graphs(self) -> list[Graph]:
        """The users that are graphs: those that return the value."""
        return [user for user in self.users if isinstance(user, Graph)]

    @property
    def subject(self) -> tuple[object, ...]:
        """A key that no other step has: consecutive moves all matter."""
        return type(self), self

    @property
    def touched(self) -> Iterable[Target]:
        """The users."""
        return self.users

    def changes_nothing(self, _inverse: Step) -> bool:
        """Return whether there was nothing to move."""
        return self.source is self.target or not self.uses

    def _apply(self) -> MoveUses:
        source, target = self.source, self.target
        before = tuple(source.uses)
        target._move_uses_from(source, self.uses, self.order)
        if self.uses and target.graph is None:
            target.graph = _level(self.uses[0][0])
        levels: dict[Graph | None, None] = {}
        for user, uses in groupby(self.uses, itemgetter(0)):  # uses by one node are mostly adjacent
            if isinstance(user, Graph):
                user.outputs = Values(_exchanged(user.outputs, uses, target))
            else:
                user.inputs = tuple(_exchanged(user.inputs, uses, target))
            levels[_level(user)] = None
        for level in levels:
            if known := _lookup(level):
                known.value_used(target)
        return MoveUses(target, source, self.uses, before)


@dataclass(slots=True, unsafe_hash=True)
class SetOutputs(BaseStep):
    """Replace the output values of a node; a removed output has no producer afterwards.

    An added output must not be an output of another node at that moment.
    """

    verb = "set outputs"
    identity = ("node",)
    content = "outputs"

    node: Node = dataclasses.field(metadata=_is(Role.CHANGED, "node", Node))
    outputs: tuple[Value | None, ...] = dataclasses.field(metadata=_is(Role.VALUES, "to", optional=True))

    def _apply(self) -> SetOutputs:
        node, old = self.node, self.node.outputs
        _disown(node)
        node.outputs = self.outputs
        if node.graph is not None:
            _own(node)
        if known := _lookup(node.graph):
            known.used(*self.outputs)
            known.moved(node)
        return SetOutputs(node, old)


@dataclass(slots=True, unsafe_hash=True)
class SetGraphInputs(BaseStep):
    """Replace the list of inputs of a graph."""

    verb = "set graph inputs"
    identity = ("graph",)
    content = "inputs"

    graph: Graph = dataclasses.field(metadata=_is(Role.CHANGED, "graph", Graph))
    inputs: tuple[Value, ...] = dataclasses.field(metadata=_is(Role.VALUES, "to"))

    def _apply(self) -> SetGraphInputs:
        graph, old = self.graph, self.graph.inputs
        for value in self.inputs:
            value.graph = graph
        graph.inputs = Values(self.inputs)
        if known := _lookup(graph):
            known.used(*self.inputs)
        return SetGraphInputs(graph, old)


@dataclass(slots=True, unsafe_hash=True)
class SetGraphOutputs(BaseStep):
    """Replace the list of outputs of a graph."""

    verb = "set graph outputs"
    identity = ("graph",)
    content = "outputs"

    graph: Graph = dataclasses.field(metadata=_is(Role.CHANGED, "graph", Graph))
    outputs: tuple[Value, ...] = dataclasses.field(metadata=_is(Role.VALUES, "to"))

    def _apply(self) -> SetGraphOutputs:
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


@dataclass(slots=True, unsafe_hash=True)
class SetInitializer(BaseStep):
    """Set, replace or (None) remove the constant of a value; `index` is its position in the list of initializers."""

    verb = "set initializer"
    identity = ("value",)
    content = "tensor"

    graph: Graph = dataclasses.field(metadata=_is(Role.CHANGED, "graph", Graph))
    value: Value = dataclasses.field(metadata=_is(Role.VALUE, "value"))
    tensor: Tensor | SparseTensor | None = dataclasses.field(metadata=_is(Role.TENSOR, "to"))
    index: int | None = dataclasses.field(default=None, metadata=_is(Role.PLAIN, "at", int, optional=True))

    def _apply(self) -> SetInitializer:
        graph, value = self.graph, self.value
        old, index = value.initializer, None
        if old is not None:
            index = _initializer_index(graph, value)
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


#: All kinds of steps. A new kind is listed here; its declarations are enough to record, copy and announce it.
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
#: The kinds of steps by verb.
KINDS_OF_STEPS: Mapping[str, type[BaseStep]] = {kind.verb: kind for kind in get_args(Step)}

Target = Model | Graph | Function | TrainingInfo | Node | Value


def _set_name(target: Node | Value, _field: str, name: str) -> None:
    target.name = name
    if (graph := target.graph) is not None and (known := graph.root._lookup) is not None:
        known.named(target)


def _set_details(target: Node | Value, field: str, content: Any) -> None:
    target._details = target.details.replaced(field, content)


def _set_type(value: Value, _field: str, type_: Type | None) -> None:
    value._type = type_  # the lazy type was decoded when the inverse read it


def _set_declared(graph: Graph, _field: str, values: Iterable[Value]) -> None:
    graph.declared = Values(values)
    if known := _lookup(graph):
        known.used(*graph.declared)


def _set_key(function: Function, field: str, content: str) -> None:
    setattr(function, field, content)
    if function.model is not None:
        function.model.forget_keys()


def _set_parts(target: Model | TrainingInfo, field: str, parts: Any) -> None:
    before = _training_graphs(target, field)
    setattr(target, field, parts)
    _adopt(target, field)
    _relink(before, _training_graphs(target, field))


def _setters(plain: str, **others: Callable[[Any, str, Any], None]) -> Mapping[str, Callable[[Any, str, Any], None]]:
    return dict.fromkeys(plain.split(), setattr) | others


#: Setters of the fields that SetField may set, by kind of object.
_SETTERS: Mapping[type, Mapping[str, Callable[[Any, str, Any], None]]] = {
    Model: _setters(
        "ir_version opset_imports producer_name producer_version domain model_version doc_string metadata"
        " configurations messages",
        functions=_set_parts,
        training_info=_set_parts,
    ),
    Graph: _setters("name doc_string metadata quantization_annotations messages", declared=_set_declared),
    Function: _setters(
        "doc_string attributes attribute_defaults opset_imports metadata messages",
        name=_set_key,
        domain=_set_key,
        overload=_set_key,
    ),
    TrainingInfo: _setters(
        "initialization_binding update_binding messages", initialization=_set_parts, algorithm=_set_parts
    ),
    Node: _setters(
        "op_type domain overload",
        name=_set_name,
        doc_string=_set_details,
        metadata=_set_details,
        device_configurations=_set_details,
        messages=_set_details,
    ),
    Value: _setters(
        "",
        name=_set_name,
        type=_set_type,
        doc_string=_set_details,
        metadata=_set_details,
        messages=_set_details,
    ),
}
#: Names of the fields that SetField may set, by kind of object.
FIELDS: Mapping[type, Collection[str]] = {kind: setters.keys() for kind, setters in _SETTERS.items()}


def _add_use(value: Value, user: Node | Graph, index: int) -> None:
    value._used_by(user, index)
    if value.graph is None:  # an undefined name belongs to the graph of its first use
        value.graph = _level(user)


def _level(user: Node | Graph) -> Graph | None:
    """Return the graph in which a node or graph uses a value."""
    return user if isinstance(user, Graph) else user.graph


def _exchanged(values: Iterable[_Used], uses: Iterable[Use], value: _Used) -> list[_Used]:
    """Return inputs of a node, or outputs of a graph, with a value replaced at the indices of the uses."""
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
        detach_graph(graph)


def _attach_graph(root: Graph) -> None:
    root._lookup = None  # no longer a root graph
    for graph in root.walk():
        for index, value in enumerate(graph.outputs):
            _add_use(value, graph, index)
        for node in graph.nodes:
            for index, used in enumerate(node.inputs):
                if used is not None:
                    _add_use(used, node, index)


def detach_graph(root: Graph) -> None:
    """Take back the uses of values by a graph, its bodies included."""
    for graph in root.walk():
        for index, value in enumerate(graph.outputs):
            value._not_used_by(graph, index)
        for node in graph.nodes:
            for index, used in enumerate(node.inputs):
                if used is not None:
                    used._not_used_by(node, index)


def _lookup(graph: Graph | None) -> NameIndex | None:
    """Return the name index of the graph's tree, to be updated; None if none was built."""
    return None if graph is None else graph.root._lookup


def _note_wires(node: Node, values: Collection[Value | None]) -> None:
    """Update the index with values that became inputs of a node."""
    if known := _lookup(node.graph):
        known.used(*values)
        known.wired(node)


def _training_graphs(target: Model | TrainingInfo, field: str) -> list[Graph]:
    """Return the training graphs in a field of a model, or of a training info."""
    trainings: tuple[TrainingInfo, ...] = ()
    if isinstance(target, Model):
        trainings = target.training_info if field == "training_info" else ()
    elif target.model is not None:
        trainings = (target,) if any(t is target for t in target.model.training_info) else ()
    return [graph for t in trainings for graph in (t.initialization, t.algorithm) if graph is not None]


#: Maximum error of an initializer's cached index: about the square root of the longest lists.
_DRIFT = 128


def _initializer_index(graph: Graph, value: Value) -> int:
    """Return the index of an initializer in its list, searched around its cached index.

    Searching the whole list for each would make removing 20,000 of them quadratic.
    """
    place = graph._places.get(value)
    if place is not None:
        try:
            return graph.initializers.index(value, max(place - _DRIFT, 0), place + _DRIFT)
        except ValueError:
            pass  # more than `_DRIFT` were removed or inserted since
    graph._places = {v: index for index, v in enumerate(graph.initializers)}
    return graph._places[value]


def _relink(before: list[Graph], after: list[Graph]) -> None:
    """Update the uses of main-graph values by training graphs: only graphs that are in the model use them."""
    for graph in before:
        if not any(graph is other for other in after):
            detach_graph(graph)
    for graph in after:
        if not any(graph is other for other in before):
            _attach_graph(graph)


def _adopt(target: Model | TrainingInfo, field: str) -> None:
    """Set the back references of objects that were put into a model or training info."""
    if isinstance(target, Model) and field in ("functions", "training_info"):
        for part in getattr(target, field):
            part.model = target
    elif isinstance(target, TrainingInfo) and field in ("initialization", "algorithm"):
        graph = getattr(target, field)
        if graph is not None:
            graph.owner = target
