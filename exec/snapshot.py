"""An immutable copy of what a model computes: taken on the thread that owns the model, run on any thread or process.

Values, nodes, graphs and tensors become numbers that stay the same as long as the objects live, so that results
find their way back, and equal content gets an equal `uid`, so that after an edit (or its undo) a session knows
what it has already computed. Taking a snapshot of an unchanged node costs a few comparisons and reads no file.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from model.attributes import Attribute, AttributeKind
from model.graph import Function, Graph, Model, Node, Value
from model.tensors import SparseTensor, Tensor
from model.types import Type

#: The number of an input or output that is left out.
ABSENT = 0

FunctionKey = tuple[str, str, str]


class TensorReference(NamedTuple):
    """Stands for a tensor in a snapshot; `ModelSnapshot.tensors` has the object itself."""

    number: int


@dataclass(frozen=True, slots=True)
class AttributeSnapshot:
    """An attribute whose graphs are snapshots and whose tensors are references."""

    name: str
    kind: AttributeKind
    value: Any
    reference: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class NodeSnapshot:
    """One operator call; `inputs` and `outputs` are numbers of values, ABSENT where left out."""

    uid: int
    node: int
    op_type: str
    domain: str
    overload: str
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: tuple[AttributeSnapshot, ...]

    @property
    def bodies(self) -> tuple[GraphSnapshot, ...]:
        """The graphs in its attributes."""
        return tuple(g for a in self.attributes for g in _graphs(a))

    @property
    def title(self) -> str:
        """What to call it in a message."""
        return self.name or self.op_type


@dataclass(frozen=True, slots=True, eq=False)
class GraphSnapshot:
    """A graph or body; `initializers` pairs the numbers of values and tensors."""

    uid: int
    graph: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    output_types: tuple[Type | None, ...]
    initializers: tuple[tuple[int, int], ...]
    nodes: tuple[NodeSnapshot, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSnapshot:
    """A model-local function."""

    uid: int
    key: FunctionKey
    body: GraphSnapshot
    attributes: tuple[str, ...]
    defaults: tuple[AttributeSnapshot, ...]
    opset_imports: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class ModelSnapshot:
    """All that is needed to run one graph of a model."""

    uid: int
    graph: GraphSnapshot
    functions: Mapping[FunctionKey, FunctionSnapshot]
    opset_imports: Mapping[str, int]
    ir_version: int
    names: Mapping[int, str]
    tensors: Mapping[int, Tensor | SparseTensor]
    input_types: Mapping[int, Type | None]
    state: int = 0  # of the document, when the taker was told


@dataclass(slots=True)
class _Known:
    """What a node looked like when its snapshot was taken; the model replaces these objects on every change."""

    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    attributes: Mapping[str, Attribute]
    snapshot: NodeSnapshot


@dataclass(slots=True)
class Numbers:
    """Numbers for objects, kept alive with them; 0 is never given out."""

    _numbers: dict[Any, int] = field(default_factory=dict)
    _objects: list[Any] = field(default_factory=lambda: [None])

    def __getitem__(self, thing: Any) -> int:
        number = self._numbers.get(thing)
        if number is None:
            number = self._numbers[thing] = len(self._objects)
            self._objects.append(thing)
        return number

    def find(self, thing: Any) -> int:
        """The number of an object, ABSENT if it has none."""
        return self._numbers.get(thing, ABSENT)

    def object(self, number: int) -> Any:
        """The object of a number; None for ABSENT and numbers never given."""
        return self._objects[number] if 0 <= number < len(self._objects) else None


class Snapshots:
    """Takes snapshots of one graph of a model, sharing what did not change since the last one.

    `graph` defaults to the main graph. `values`, `nodes`, `graphs` and `tensors` translate numbers and objects.
    Use it on the thread that owns the model.
    """

    def __init__(self, model: Model, graph: Graph | None = None) -> None:
        self.model = model
        self.graph = graph
        self.values = Numbers()
        self.nodes = Numbers()
        self.graphs = Numbers()
        self.tensors = Numbers()
        self._known: dict[Node, _Known] = {}
        self._contents: dict[Hashable, int] = {}
        self._graphs: dict[int, GraphSnapshot] = {}
        self._last: ModelSnapshot | None = None

    def take(self, *, state: int = 0) -> ModelSnapshot:
        """The model as it is now; the same object as before when nothing that matters to a run changed."""
        model = self.model
        names: dict[int, str] = {}
        tensors: dict[int, Tensor | SparseTensor] = {}
        root = self.graph if self.graph is not None else model.graph
        functions = {f.key: self._function(f, names, tensors) for f in model.functions}
        graph = self._graph(root, names, tensors)
        types = {self.values[v]: v.type for v in root.inputs}
        imports = dict(root.opset_imports if self.graph is not None else model.opset_imports)
        uid = self._uid((
            "model", graph.uid, tuple(f.uid for f in functions.values()), tuple(imports.items()), model.ir_version,
            tuple(types.items()),
        ))  # fmt: skip
        last = self._last
        if last is not None and last.uid == uid and last.names == names and last.state == state:
            return last
        self._last = ModelSnapshot(uid, graph, functions, imports, model.ir_version, names, tensors, types, state)
        return self._last

    def _uid(self, content: Hashable) -> int:
        return self._contents.setdefault(content, len(self._contents) + 1)

    def _function(
        self, function: Function, names: dict[int, str], tensors: dict[int, Tensor | SparseTensor]
    ) -> FunctionSnapshot:
        body = self._graph(function.body, names, tensors)
        defaults = tuple(self._attribute(a, names, tensors) for a in function.attribute_defaults)
        imports = dict(function.opset_imports)
        content = ("function", function.key, body.uid, _keys(defaults), function.attributes, tuple(imports.items()))
        return FunctionSnapshot(self._uid(content), function.key, body, function.attributes, defaults, imports)

    def _graph(self, graph: Graph, names: dict[int, str], tensors: dict[int, Tensor | SparseTensor]) -> GraphSnapshot:
        number = self.values.__getitem__
        for value in chain(graph.inputs, graph.outputs, graph.initializers):
            names[number(value)] = value.name
        initializers = []
        for value in graph.initializers:
            if value.initializer is not None:
                tensor = self.tensors[value.initializer]
                tensors[tensor] = value.initializer
                initializers.append((number(value), tensor))
        nodes = tuple([self._node(node, names, tensors) for node in graph.nodes])
        inputs = tuple(number(v) for v in graph.inputs)
        outputs = tuple(number(v) for v in graph.outputs)
        types = tuple(v.type for v in graph.outputs)
        content = (
            "graph", self.graphs[graph], inputs, outputs, types, tuple(initializers), tuple([n.uid for n in nodes]),
        )  # fmt: skip
        uid = self._uid(content)
        snapshot = self._graphs.get(uid)
        if snapshot is None:
            snapshot = self._graphs[uid] = GraphSnapshot(
                uid, self.graphs[graph], graph.name, inputs, outputs, types, tuple(initializers), nodes
            )
        return snapshot

    def _node(self, node: Node, names: dict[int, str], tensors: dict[int, Tensor | SparseTensor]) -> NodeSnapshot:
        known = self._known.get(node)
        if known is not None and known.inputs is node.inputs and known.outputs is node.outputs:
            old = known.snapshot
            if (
                known.attributes is node.attributes
                and old.op_type == node.op_type
                and old.domain == node.domain
                and old.name == node.name
                and old.overload == node.overload
                and not node.bodies
            ):
                for number, value in zip(old.inputs, node.inputs, strict=True):
                    if value is not None:
                        names[number] = value.name
                for number, value in zip(old.outputs, node.outputs, strict=True):
                    if value is not None:
                        names[number] = value.name
                for attribute in old.attributes:
                    for tensor in _tensors(attribute):
                        tensors[tensor] = self.tensors.object(tensor)
                return old
        snapshot = self._new_node(node, names, tensors)
        self._known[node] = _Known(node.inputs, node.outputs, node.attributes, snapshot)
        return snapshot

    def _new_node(self, node: Node, names: dict[int, str], tensors: dict[int, Tensor | SparseTensor]) -> NodeSnapshot:
        inputs, outputs = self._number_all(node.inputs, names), self._number_all(node.outputs, names)
        attributes = tuple([self._attribute(a, names, tensors) for a in node.attributes.values()])
        number = self.nodes[node]
        content = (
            "node", number, node.op_type, node.domain, node.overload, node.name, inputs, outputs, _keys(attributes),
        )  # fmt: skip
        return NodeSnapshot(
            self._uid(content), number, node.op_type, node.domain, node.overload, node.name, inputs, outputs, attributes
        )

    def _number_all(self, values: Iterable[Value | None], names: dict[int, str]) -> tuple[int, ...]:
        result = []
        for value in values:
            number = ABSENT if value is None else self.values[value]
            if value is not None:
                names[number] = value.name
            result.append(number)
        return tuple(result)

    def _attribute(
        self, attribute: Attribute, names: dict[int, str], tensors: dict[int, Tensor | SparseTensor]
    ) -> AttributeSnapshot:
        def convert(value: Any) -> Any:
            if isinstance(value, Graph):
                return self._graph(value, names, tensors)
            if isinstance(value, (Tensor, SparseTensor)):
                number = self.tensors[value]
                tensors[number] = value
                return TensorReference(number)
            if isinstance(value, tuple):
                return tuple([convert(v) for v in value])
            return value

        return AttributeSnapshot(attribute.name, attribute.kind, convert(attribute.value), attribute.reference)


def attribute_key(attribute: AttributeSnapshot) -> Hashable:
    """What is equal for attributes that make a kernel compute the same."""
    value = attribute.value
    if isinstance(value, GraphSnapshot):
        value = value.uid
    elif attribute.kind is AttributeKind.GRAPHS and value is not None:
        value = tuple(g.uid for g in value)
    elif isinstance(value, float):
        value = repr(value)  # tells -0.0 from 0.0, and nan equals nan
    elif attribute.kind is AttributeKind.FLOATS:
        value = repr(value)
    return attribute.name, int(attribute.kind), value, attribute.reference


def _keys(attributes: Iterable[AttributeSnapshot]) -> tuple[Hashable, ...]:
    return tuple([attribute_key(a) for a in attributes])


def _graphs(attribute: AttributeSnapshot) -> tuple[GraphSnapshot, ...]:
    if attribute.value is None:
        return ()
    if attribute.kind is AttributeKind.GRAPH:
        return (attribute.value,)
    return attribute.value if attribute.kind is AttributeKind.GRAPHS else ()


def _tensors(attribute: AttributeSnapshot) -> tuple[int, ...]:
    value = attribute.value
    if isinstance(value, TensorReference):
        return (value.number,)
    if isinstance(value, tuple) and value and isinstance(value[0], TensorReference):
        return tuple(v.number for v in value)
    return ()
