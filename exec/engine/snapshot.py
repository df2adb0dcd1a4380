"""Snapshots: immutable copies of a model for runs, taken on the model's thread, run on any thread or process.

Values, nodes and graphs are referred to by their ids, so that results can be mapped to the model. Equal content has an
equal `uid`, so that after an edit (or its undo) a session reuses what it has computed. Taking a snapshot of an
unchanged node costs a few comparisons and reads no file.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from onnx_workbench.model.analysis import subgraph_ports
from onnx_workbench.model.garbage import no_collection
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType, Type
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from onnx_workbench.model.inference.infer import InferredTypes

#: Id of an omitted input or output.
ABSENT = 0

#: Nodes between two checks of progress. Takes much less than a frame.
_INTERVAL = 50


#: Kinds of attributes whose values are the same in a snapshot, and of those that hold graphs.
_PLAIN = frozenset({
    AttributeKind.INT, AttributeKind.INTS, AttributeKind.FLOAT, AttributeKind.FLOATS, AttributeKind.STRING,
    AttributeKind.STRINGS,
})  # fmt: skip
_OF_GRAPHS = frozenset({AttributeKind.GRAPH, AttributeKind.GRAPHS})

FunctionKey = tuple[str, str, str]


class TensorReference(NamedTuple):
    """Placeholder of a tensor in a snapshot; `ModelSnapshot.tensors` has the object itself."""

    number: int


@dataclass(slots=True, unsafe_hash=True)
class AttributeSnapshot:
    """An attribute whose graphs are snapshots and whose tensors are references. Immutable, like NodeSnapshot."""

    name: str
    kind: AttributeKind
    value: Any
    reference: str = ""


@dataclass(slots=True, eq=False)
class NodeSnapshot:
    """One operator call; `inputs` and `outputs` are ids of values, ABSENT where left out.

    `ordinal` numbers the nodes in the order in which the session read them. Unlike the id it is the same in another
    process, so random numbers are seeded by it.
    """

    uid: int
    node: int
    ordinal: int
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
        if not self.attributes:
            return ()
        return tuple([g for a in self.attributes if a.kind in _OF_GRAPHS for g in _graphs(a)])

    @property
    def title(self) -> str:
        """Return the title for messages."""
        return self.name or self.op_type

    @property
    def operator(self) -> str:
        """Operator with its domain, unless that is the default one."""
        return f"{self.domain}::{self.op_type}" if self.domain else self.op_type


@dataclass(frozen=True, slots=True, eq=False)
class GraphSnapshot:
    """A graph or body; `initializers` pairs the ids of values with the numbers of tensors."""

    uid: int
    graph: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_types: tuple[Type | None, ...]
    output_types: tuple[Type | None, ...]
    initializers: tuple[tuple[int, int], ...]
    nodes: tuple[NodeSnapshot, ...]

    def walk(self) -> Iterator[GraphSnapshot]:
        """Yield the graph and the bodies in it, at any depth. Iterative, as nesting may be deep."""
        pending = [self]
        while pending:
            graph = pending.pop()
            yield graph
            pending += [body for node in graph.nodes for body in node.bodies]


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
    """Everything needed to run one graph of a model."""

    uid: int
    graph: GraphSnapshot
    functions: Mapping[FunctionKey, FunctionSnapshot]
    opset_imports: Mapping[str, int]
    ir_version: int
    names: Mapping[int, str]
    tensors: Mapping[int, Tensor | SparseTensor]
    input_types: Mapping[int, Type | None]
    state: int = 0  # of the document, when the snapshot was taken


#: Parts of a node besides the attributes. The model replaces these objects on every change, so comparing them is quick.
_parts_of = attrgetter("inputs", "outputs", "op_type", "domain", "name", "overload")


#: A node as it was read last: attributes, other parts, snapshot. Attributes are compared by identity, as 0.0 == -0.0
#: and True == 1; None for a node with bodies, as changes inside these do not show here.
_SeenNode = tuple[Mapping[str, Attribute] | None, tuple[Any, ...], NodeSnapshot]


@dataclass(slots=True)
class _Seen:
    """State of a graph when its snapshot was taken."""

    header: list[Any]
    shell: GraphSnapshot  # without its nodes
    snapshot: GraphSnapshot


class NameTable(Mapping[int, str]):
    """Current names of values by id. Not part of the snapshot's identity: a rename changes no result."""

    def __init__(self, values: Mapping[int, Value]) -> None:
        self._values = values

    def __getitem__(self, number: int) -> str:
        return self._values[number].name

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._values))  # a copy: another thread may add values

    def __len__(self) -> int:
        return len(self._values)


class SnapshotTensors(Mapping[int, "Tensor | SparseTensor"]):
    """Tensors by number. Tensors have no id: each is assigned a number here and kept alive with it."""

    def __init__(self) -> None:
        self._numbers: dict[Tensor | SparseTensor, int] = {}
        self._tensors: dict[int, Tensor | SparseTensor] = {}

    def number(self, tensor: Tensor | SparseTensor) -> int:
        """Return the number of a tensor, assigned on first use."""
        number = self._numbers.setdefault(tensor, len(self._numbers) + 1)
        self._tensors[number] = tensor
        return number

    def __getitem__(self, number: int) -> Tensor | SparseTensor:
        return self._tensors[number]

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._tensors))

    def __len__(self) -> int:
        return len(self._tensors)


#: Progress that is checked while a snapshot is taken; per thread, as several may take snapshots at once.
_progress: ContextVar[Progress] = ContextVar("progress", default=SILENT)


class SnapshotCache:
    """Takes snapshots of one graph of a model; unchanged parts are shared with the last one.

    `graph` defaults to the main graph. `values` and `nodes` are the objects by id, kept alive here.
    Use it on the thread that owns the model.
    """

    def __init__(self, model: Model, graph: Graph | None = None) -> None:
        self.model = model
        self.graph = graph
        self.values: dict[int, Value] = {}
        self.nodes: dict[int, Node] = {}
        self.tensors = SnapshotTensors()
        self.names = NameTable(self.values)
        self._ordinals: dict[int, int] = {}  # of nodes, by id
        self._seen: dict[Graph, _Seen] = {}
        self._seen_nodes: dict[Node, _SeenNode] = {}
        self._contents: dict[Hashable, int] = {}
        self._last: ModelSnapshot | None = None
        self._inferred: InferredTypes | None = None  # where the present state needs them

    def take(self, *, state: int = 0, progress: Progress = SILENT) -> ModelSnapshot:
        """Return a snapshot of the current model; the last one if nothing relevant to a run changed.

        Checks `progress` every few nodes. If that raises, the nodes read so far are not read again.
        """
        token = _progress.set(progress)
        try:
            with no_collection():
                return self._snapshot(state)
        finally:
            _progress.reset(token)

    def _snapshot(self, state: int) -> ModelSnapshot:
        model, self._inferred = self.model, None
        root = self.graph if self.graph is not None else model.graph
        functions = {f.key: self._function(f) for f in model.functions}
        graph = self._graph(root)
        imports = dict(root.opset_imports if self.graph is not None else model.opset_imports)
        last = self._last
        if (
            last is not None
            and (last.graph.uid, last.state, last.ir_version) == (graph.uid, state, model.ir_version)
            and last.opset_imports == imports
            and [f.uid for f in last.functions.values()] == [f.uid for f in functions.values()]
        ):
            return last
        uid = self._uid((
            "model", graph.uid, tuple(f.uid for f in functions.values()), tuple(imports.items()), model.ir_version,
        ))  # fmt: skip
        types = dict(zip(graph.inputs, graph.input_types, strict=True))
        self._last = ModelSnapshot(
            uid, graph, functions, imports, model.ir_version, self.names, self.tensors, types, state
        )
        return self._last

    def graph_snapshot(self, graph: Graph) -> GraphSnapshot:
        """Return a snapshot of another graph of the model, such as one for training."""
        return self._graph(graph)

    def _value(self, value: Value | None) -> int:
        """Return the id of a value, and register the value in `values`."""
        if value is None:
            return ABSENT
        self.values[value.id] = value
        return value.id

    def _uid(self, content: Hashable) -> int:
        return self._contents.setdefault(content, len(self._contents) + 1)

    def _function(self, function: Function) -> FunctionSnapshot:
        body = self._graph(function.body)
        defaults = tuple(self._attribute(a) for a in function.attribute_defaults)
        imports = dict(function.opset_imports)
        content = ("function", function.key, body.uid, _keys(defaults), function.attributes, tuple(imports.items()))
        return FunctionSnapshot(self._uid(content), function.key, body, function.attributes, defaults, imports)

    def _graph(self, graph: Graph) -> GraphSnapshot:
        """Return the snapshot of a graph; quick for nodes of which no object has been replaced since the last time."""
        header: list[Any] = [graph.inputs, graph.outputs, *self._declared_types(graph)]
        header += [v for value in graph.initializers for v in (value, value.initializer)]
        seen, check = self._seen.get(graph), _progress.get().check
        seen_nodes, nodes = self._seen_nodes, []
        for index, n in enumerate(graph.nodes):
            if not index % _INTERVAL:
                check()
            attributes, parts, before = n.attributes, _parts_of(n), seen_nodes.get(n)
            if before is None or before[0] is not attributes or before[1] != parts:
                before = seen_nodes[n] = None if n.bodies else attributes, parts, self.node(n)
            nodes.append(before[2])
        check()
        shell = seen.shell if seen is not None and seen.header == header else self._shell(graph)
        taken = tuple(nodes)
        uid = self._uid(("graph", shell.uid, _digest([node.uid for node in taken])))
        if seen is not None and (seen.snapshot.uid, seen.snapshot.name) == (uid, graph.name):
            snapshot = seen.snapshot
        else:
            snapshot = replace(shell, uid=uid, name=graph.name, nodes=taken)
        self._seen[graph] = _Seen(header, shell, snapshot)
        return snapshot

    def _shell(self, graph: Graph) -> GraphSnapshot:
        """Return the snapshot of a graph without its nodes, which few edits change."""
        initializers = tuple(
            (self._value(v), self.tensors.number(v.initializer))
            for v in graph.initializers
            if v.initializer is not None
        )
        inputs, outputs = tuple(map(self._value, graph.inputs)), tuple(map(self._value, graph.outputs))
        types = self._declared_types(graph)
        uid = self._uid(("shell", graph.id, inputs, outputs, types, _digest(chain(*initializers))))
        return GraphSnapshot(uid, graph.id, graph.name, inputs, outputs, *types, initializers, ())

    def node(self, node: Node) -> NodeSnapshot:
        """Return a snapshot of one node."""
        inputs, outputs = tuple(map(self._value, node.inputs)), tuple(map(self._value, node.outputs))
        attributes = tuple([self._attribute(a) for a in node.attributes.values()])
        self.nodes[node.id] = node
        ordinal = self._ordinals.setdefault(node.id, len(self._ordinals) + 1)
        content = (
            "node", node.id, node.op_type, node.domain, node.overload, node.name, inputs, outputs, _keys(attributes),
        )  # fmt: skip
        return NodeSnapshot(
            self._uid(content),
            node.id,
            ordinal,
            node.op_type,
            node.domain,
            node.overload,
            node.name,
            inputs,
            outputs,
            attributes,
        )

    def _attribute(self, attribute: Attribute) -> AttributeSnapshot:
        def convert(value: Any) -> Any:
            if isinstance(value, Graph):
                return self._graph(value)
            if isinstance(value, (Tensor, SparseTensor)):
                return TensorReference(self.tensors.number(value))
            if isinstance(value, tuple) and value and isinstance(value[0], (Graph, Tensor, SparseTensor)):
                return tuple([convert(v) for v in value])
            return value

        value, kind = attribute.value, attribute.kind
        return AttributeSnapshot(attribute.name, kind, value if kind in _PLAIN else convert(value), attribute.reference)

    def _declared_types(self, graph: Graph) -> tuple[tuple[Type | None, ...], tuple[Type | None, ...]]:
        """Return the types of the inputs and outputs.

        Stacked outputs of a loop without iterations are empty tensors of these types, so what the subgraph does not
        declare is taken from the result of the node, else inferred.
        """
        owner = graph.owner
        outputs = [v.type for v in graph.outputs]
        if isinstance(owner, Node) and not owner.domain and owner.op_type in ("Loop", "Scan"):
            first = len(owner.inputs) - 1 if owner.op_type == "Loop" else 0  # the outputs before it are loop-carried
            outputs[first:] = [self._stacked_type(owner, graph, i) for i in range(first, len(outputs))]
        return tuple(v.type for v in graph.inputs), tuple(outputs)

    def _stacked_type(self, node: Node, graph: Graph, index: int) -> Type | None:
        value, stacked = graph.outputs[index], subgraph_ports.result(node, graph, index)
        unknown = TensorType(ElementType.UNDEFINED)
        own = unknown if value.type is None else value.type
        if not isinstance(own, TensorType) or (own.element_type and own.shape is not None):
            return own
        whole = stacked.type if stacked is not None and isinstance(stacked.type, TensorType) else unknown
        shape = own.shape
        if shape is None and whole.shape is not None and "scan_output_axes" not in node.attributes:
            shape = Shape(whole.shape.dims[1:])
        return TensorType(own.element_type or whole.element_type or self._element_type(value), shape)

    def _element_type(self, value: Value) -> ElementType | int:
        if self._inferred is None:
            from onnx_workbench.model.inference import infer  # late: hardly any model leaves such a type out

            self._inferred = infer(self.model)
        kind = self._inferred.type_of(value)
        return kind.element_type if isinstance(kind, TensorType) else ElementType.UNDEFINED


def _digest(numbers: Iterable[int]) -> bytes:
    """Return a digest that replaces a long list in keys, which are kept for the whole session."""
    return blake2b(array("q", numbers).tobytes(), digest_size=16).digest()


def attribute_key(attribute: AttributeSnapshot) -> Hashable:
    """Return a key that is equal for attributes with which a kernel computes the same."""
    value = attribute.value
    if isinstance(value, GraphSnapshot):
        value = value.uid
    elif attribute.kind is AttributeKind.GRAPHS and value is not None:
        value = tuple(g.uid for g in value)
    elif isinstance(value, float):
        value = repr(value)  # distinguishes -0.0 from 0.0, and nan equals nan
    elif attribute.kind is AttributeKind.FLOATS and value is not None:
        value = array("d", value).tobytes()  # the same, but quick for millions of numbers
    return attribute.name, int(attribute.kind), value, attribute.reference


def _keys(attributes: Iterable[AttributeSnapshot]) -> tuple[Hashable, ...]:
    return tuple([attribute_key(a) for a in attributes])


def _graphs(attribute: AttributeSnapshot) -> tuple[GraphSnapshot, ...]:
    if attribute.value is None:
        return ()
    if attribute.kind is AttributeKind.GRAPH:
        return (attribute.value,)
    return attribute.value if attribute.kind is AttributeKind.GRAPHS else ()
