"""The editable IR: Model, Graph, Function, Node and Value as linked objects.

Nodes refer to Value objects, not to names; definitions and uses are updated on every change, never recomputed. Any
code may read these objects; only model.history.steps changes them, so that undo, the journal and views see every
change. Each object has a permanent `id`. Objects are small (slots; rare fields are decoded from the message on first
use), since a model may have 100,000 nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import ReferenceType

from onnx_workbench.model.ir.lazy_details import DECODING, NO_DETAILS
from onnx_workbench.model.ir.node_list import NodeList
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from onnx_workbench.model.ir.attributes import Attribute
    from onnx_workbench.model.ir.devices import DeviceConfiguration, NodeDeviceConfiguration
    from onnx_workbench.model.ir.lazy_details import Details, DetailsDecoder
    from onnx_workbench.model.ir.name_index import NameIndex
    from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
    from onnx_workbench.model.ir.types import Type

#: A use of a value: a node and the index of its input, or a graph and the index of its output.
Use = tuple["Node | Graph", int]

_EMPTY: Mapping[str, str] = {}

#: Returns the next `id` for a model, graph, function, node or value: unique in the process and never reused.
#: A copy made for background work keeps the ids of its originals; journals, snapshots and such copies rely on them.
next_id: Final = count(1).__next__


class Value:
    """Value carried by an edge: a graph input, an initializer, an output of a node, or an unresolved name.

    `graph` defines it, `producer` and `index` are the node and the number of the output, `initializer` holds its
    constant value. `type` is the declared one, None without. `uses` lists nodes in any graph (bodies see outer
    values) and graphs that return it.
    """

    __slots__ = (
        "_decoder", "_details", "_returns", "_source", "_type", "_uses", "graph", "id", "index", "initializer", "name",
        "producer",
    )  # fmt: skip

    def __init__(self, name: str, type: Type | None = None, graph: Graph | None = None) -> None:
        self.id = next_id()
        self.name = name
        self.graph = graph
        self.producer: Node | None = None
        self.index = 0
        self.initializer: Tensor | SparseTensor | None = None
        self._uses: dict[Use, None] | None = None
        self._returns = 0  # number of uses by graphs; see is_output
        self._type = type
        self._source: Any = None
        self._decoder: DetailsDecoder | None = None  # if set, the type is not decoded yet
        self._details: Details | None = NO_DETAILS

    @property
    def type(self) -> Type | None:
        """The declared type, or None."""
        if self._decoder is not None:
            _ = self.details
        return self._type

    @property
    def doc_string(self) -> str:
        """The description in the value's ValueInfoProto."""
        return self.details.doc_string

    @property
    def metadata(self) -> Mapping[str, str]:
        """metadata_props of the value's ValueInfoProto."""
        return self.details.metadata

    @property
    def messages(self) -> Mapping[str, Any]:
        """Messages with which saving begins instead of those of the file, by the field of its graph that lists it."""
        return self.details.messages

    @property
    def details(self) -> Details:
        """Doc string, metadata and edited messages together; decoded, with the type, on first use."""
        decoder = self._decoder
        if decoder is not None:
            with DECODING:
                if self._decoder is not None:
                    self._type = decoder.value_type(self._source)
                    self._details = decoder.value_details(self._source)
                    self._decoder = None
        return self._details or NO_DETAILS

    @property
    def uses(self) -> Collection[Use]:
        """All uses: every (node, input index) and (graph, output index) that refers to this value."""
        return self._uses.keys() if self._uses else ()

    @property
    def consumers(self) -> Iterator[Node]:
        """Nodes that use the value, once per use."""
        return (user for user, _ in self.uses if isinstance(user, Node))

    @property
    def is_input(self) -> bool:
        """Return whether the value is an input of its graph."""
        return self.graph is not None and self in self.graph.inputs  # constant time: see Values

    @property
    def is_output(self) -> bool:
        """Return whether its own graph or a body returns the value."""
        return self._returns > 0

    @property
    def is_defined(self) -> bool:
        """Return whether anything defines the value; False for a name that nothing in the file produces."""
        return self.producer is not None or self.initializer is not None or self.is_input

    def _used_by(self, user: Node | Graph, index: int) -> None:
        uses, use = self._uses, (user, index)
        if uses is None:
            uses = self._uses = {}
        if use not in uses:
            uses[use] = None
            self._returns += isinstance(user, Graph)

    def _not_used_by(self, user: Node | Graph, index: int) -> None:
        uses, use = self._uses, (user, index)
        if uses is not None and use in uses:
            del uses[use]
            self._returns -= isinstance(user, Graph)

    def _move_uses_from(self, other: Value, uses: Collection[Use], order: Collection[Use] | None) -> None:
        """Take over uses of another value; `order` is the order of all uses afterwards, by default new ones last."""
        mine, theirs, moving = self._uses or {}, other._uses or {}, dict.fromkeys(uses)
        if not (len(uses) == len(moving) and moving.keys() <= theirs.keys()):
            msg = f"not all of these are uses of {other!r}"
            raise ValueError(msg)
        for use in uses:
            del theirs[use]
        if order is None:
            mine.update(moving)
            self._uses = mine
        else:
            self._uses = dict.fromkeys(order)
        returns = sum(isinstance(user, Graph) for user, _ in uses)
        self._returns += returns
        other._returns -= returns

    def __repr__(self) -> str:
        return f"<Value {self.name!r}>"


class Values(tuple[Value, ...]):
    """The values that a graph lists. The first membership test takes linear time, later ones constant time."""

    _members: frozenset[Value] | None = None

    def __new__(cls, values: Iterable[Value] = ()) -> Values:
        """Return a list of the values; an argument of this class is returned itself, with its cached set."""
        return values if isinstance(values, Values) else super().__new__(cls, values)

    def __contains__(self, value: object) -> bool:
        if self._members is None:
            self._members = frozenset(self)
        return value in self._members


class Node:
    """One operator call. `inputs` and `outputs` hold None where an optional one is left out.

    `domain` is normalised (``""`` for ai.onnx). While the node is not in a graph, `graph` is None and the node is not
    the producer of its outputs.
    """

    __slots__ = (
        "_attributes", "_decoder", "_details", "_next", "_place", "_previous", "_source", "domain", "graph", "id",
        "inputs", "name", "op_type", "outputs", "overload",
    )  # fmt: skip

    _place: int  # set when the NodeList is numbered

    def __init__(
        self,
        op_type: str,
        inputs: tuple[Value | None, ...] = (),
        outputs: tuple[Value | None, ...] = (),
        *,
        name: str = "",
        domain: str = "",
        overload: str = "",
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        self.id = next_id()
        self.op_type = op_type
        self.domain = domain
        self.overload = overload
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.graph: Graph | None = None
        self._attributes: dict[str, Attribute] | None = dict(attributes) if attributes else {}
        self._details: Details | None = NO_DETAILS
        self._source: Any = None
        self._decoder: DetailsDecoder | None = None
        self._previous: Node | None = None
        self._next: Node | None = None
        for graph in self.bodies:
            graph.owner = self

    @property
    def attributes(self) -> Mapping[str, Attribute]:
        """Attributes by name in file order; decoded on first use. Reads no file."""
        if self._attributes is None:
            with DECODING:
                if self._attributes is None:
                    assert self._decoder is not None
                    self._attributes = self._decoder.attributes(self._source)
        return self._attributes

    @property
    def details(self) -> Details:
        """Doc string, metadata and device configurations together; decoded on first use."""
        if self._details is None:
            with DECODING:
                if self._details is None:
                    assert self._decoder is not None
                    self._details = self._decoder.node_details(self._source)
        return self._details

    @property
    def doc_string(self) -> str:
        """The node's description."""
        return self.details.doc_string

    @property
    def metadata(self) -> Mapping[str, str]:
        """metadata_props of the node."""
        return self.details.metadata

    @property
    def device_configurations(self) -> tuple[NodeDeviceConfiguration, ...]:
        """Device configurations of the node."""
        return self.details.device_configurations

    @property
    def is_spread(self) -> bool:
        """Return whether it has device configurations. Decodes nothing."""
        if self._details is None:
            return bool(self._source.device_configurations)
        return bool(self._details.device_configurations)

    @property
    def messages(self) -> Mapping[str, Any]:
        """The message with which saving begins instead of that of the file, under ``NodeProto``, if there is one."""
        return self.details.messages

    @property
    def bodies(self) -> tuple[Graph, ...]:
        """The graphs in its attributes (If, Loop, Scan …). Nodes with bodies are never lazy, so this is cheap."""
        if not self._attributes:
            return ()
        return tuple(graph for attribute in self._attributes.values() for graph in attribute.graphs)

    @property
    def previous(self) -> Node | None:
        """The node before it in the graph's list."""
        return self._previous

    @property
    def next(self) -> Node | None:
        """The node after it in the graph's list."""
        return self._next

    @property
    def qualified_op_type(self) -> str:
        """The operator type, with the domain as prefix unless it is the default one: ``Relu``, ``com.acme.Foo``."""
        return f"{self.domain}.{self.op_type}" if self.domain else self.op_type

    @property
    def title(self) -> str:
        """Title for messages: its name, or the operator type if it has none."""
        return self.name or self.op_type

    @property
    def operator(self) -> tuple[str, str, str]:
        """The operator that the node calls: domain, operator type, overload. It is the `key` of a called function."""
        return self.domain, self.op_type, self.overload

    def __repr__(self) -> str:
        return f"<Node {self.op_type} {self.name!r}>"


@dataclass(frozen=True, slots=True)
class QuantizationAnnotation:
    """TensorAnnotation: which values hold scale, zero point … of a value."""

    value: Value
    parameters: tuple[tuple[str, Value], ...]
    source: Any = field(default=None, compare=False, repr=False)


class Graph:
    """A main graph, a body of If/Loop/Scan, a function's body, or a training graph.

    `owner` is the Model, Function, TrainingInfo or Node (for a body) it belongs to. `declared` lists values in
    the order in which the file declares their types (value_info), undefined ones included.
    """

    __slots__ = (
        "_lookup", "_places", "_source", "declared", "doc_string", "id", "initializers", "inputs", "messages",
        "metadata", "name", "nodes", "outputs", "owner", "quantization_annotations",
    )  # fmt: skip

    def __init__(self, name: str = "") -> None:
        self.id = next_id()
        self.name = name
        self.doc_string = ""
        self.metadata: Mapping[str, str] = _EMPTY
        self.nodes = NodeList(self)
        self.inputs = self.outputs = self.declared = Values()
        self.initializers: list[Value] = []
        self.quantization_annotations: tuple[QuantizationAnnotation, ...] = ()
        self.messages: Mapping[str, Any] = {}  # with which saving begins instead of `_source`, by kind
        self.owner: Owner | None = None
        self._source: Any = None
        self._places: dict[Value, int] = {}  # approximate indices of initializers; see steps
        self._lookup: NameIndex | None = None  # name index of the whole tree, stored at its root graph

    @property
    def parent(self) -> Graph | None:
        """The graph around a body; None for a root graph."""
        return self.owner.graph if isinstance(self.owner, Node) else None

    @property
    def root(self) -> Graph:
        """The outermost graph around this one, or itself."""
        graph = self
        while isinstance(owner := graph.owner, Node) and owner.graph is not None:  # called often: no call per level
            graph = owner.graph
        return graph

    @property
    def model(self) -> Model | None:
        """The model that contains the graph; None while its owner is in no model."""
        owner = self.root.owner
        if isinstance(owner, (Function, TrainingInfo)):
            return owner.model
        return owner if isinstance(owner, Model) else None

    @property
    def required_inputs(self) -> list[Value]:
        """Inputs without an initializer, which a caller must give; up to IR version 3 initializers are inputs too."""
        return [value for value in self.inputs if value.initializer is None]

    @property
    def opset_imports(self) -> Mapping[str, int]:
        """Operator sets that apply to its nodes."""
        importer = self.importer
        return importer.opset_imports if importer is not None else {}

    @property
    def importer(self) -> Model | Function | None:
        """The object whose opset imports apply: the function the graph belongs to, else the model."""
        owner = self.root.owner
        return owner if isinstance(owner, Function) else self.model

    def values(self, progress: Progress = SILENT) -> Iterator[Value]:
        """Yield inputs, initializers, node outputs, then names that are used or declared but undefined; each once."""
        seen: set[Value] = set()
        for value in self._all_values(progress):
            if value not in seen:
                seen.add(value)
                yield value

    def _all_values(self, progress: Progress) -> Iterator[Value]:
        yield from self.inputs
        yield from self.initializers
        for node in progress.paced(self.nodes):
            for value in node.outputs:
                if value is not None:
                    yield value
        for node in progress.paced(self.nodes):
            for value in node.inputs:
                if value is not None and value.producer is None and value.graph is self:
                    yield value
        for value in self.outputs:
            if value.graph is self:
                yield value
        yield from self.declared

    def walk(self, progress: Progress = SILENT) -> Iterator[Graph]:
        """Yield this graph and every body inside it, outer ones before inner, without recursion."""
        pending = [self]
        while pending:
            graph = pending.pop()
            yield graph
            inner = [
                body
                for node in progress.paced(graph.nodes)
                if node._attributes
                for attribute in node._attributes.values()
                for body in attribute.graphs
            ]
            pending.extend(reversed(inner))

    def __repr__(self) -> str:
        return f"<Graph {self.name!r} with {len(self.nodes)} nodes>"


class Function:
    """A model-local function. Its `body` is a Graph whose inputs and outputs are the signature."""

    __slots__ = (
        "_source", "attribute_defaults", "attributes", "body", "doc_string", "domain", "id", "messages", "metadata",
        "model", "name", "opset_imports", "overload",
    )  # fmt: skip

    def __init__(self, name: str, domain: str, overload: str = "", body: Graph | None = None) -> None:
        self.id = next_id()
        self.name = name
        self.domain = domain
        self.overload = overload
        self.doc_string = ""
        self.attributes: tuple[str, ...] = ()  # names of attributes without a default
        self.attribute_defaults: tuple[Attribute, ...] = ()
        self.opset_imports: Mapping[str, int] = {}
        self.metadata: Mapping[str, str] = _EMPTY
        self.body = Graph(name) if body is None else body
        self.body.owner = self
        self.messages: Mapping[str, Any] = {}  # with which saving begins instead of `_source`, by kind
        self.model: Model | None = None
        self._source: Any = None

    @property
    def title(self) -> str:
        """Title for messages: its name, with the overload if it has one."""
        return f"{self.name}:{self.overload}" if self.overload else self.name

    @property
    def key(self) -> tuple[str, str, str]:
        """The key by which a node calls it: domain, name, overload."""
        return self.domain, self.name, self.overload

    def __repr__(self) -> str:
        return f"<Function {self.domain}::{self.name}>"


class TrainingInfo:
    """TrainingInfoProto: how weights are initialised and how one training step updates them.

    Bindings are (name of the initializer that is set, name of the graph output that sets it).
    """

    __slots__ = (
        "_source", "algorithm", "id", "initialization", "initialization_binding", "messages", "model", "update_binding",
    )  # fmt: skip

    def __init__(self, initialization: Graph | None = None, algorithm: Graph | None = None) -> None:
        self.id = next_id()
        self.initialization = initialization
        self.algorithm = algorithm
        for graph in (initialization, algorithm):
            if graph is not None:
                graph.owner = self
        self.initialization_binding: tuple[tuple[str, str], ...] = ()
        self.update_binding: tuple[tuple[str, str], ...] = ()
        self.messages: Mapping[str, Any] = {}  # with which saving begins instead of `_source`, by kind
        self.model: Model | None = None
        self._source: Any = None


class _FunctionLookup(NamedTuple):
    """The functions that a model listed when this was made, by their keys and as a set."""

    listed: tuple[Function, ...]
    by_key: dict[tuple[str, str, str], Function]
    all: frozenset[Function]


class Model:
    """A whole ONNX model. `opset_imports` maps normalised domains to versions; `source` is its origin.

    `editor` refers weakly to the document that edits it, if there is one.
    """

    __slots__ = (
        "_lookup", "_source", "configurations", "doc_string", "domain", "editor", "functions", "graph", "id",
        "ir_version", "messages", "metadata", "model_version", "opset_imports", "producer_name", "producer_version",
        "source", "training_info",
    )  # fmt: skip

    def __init__(self, graph: Graph | None = None, *, ir_version: int = 10, opset: int | None = None) -> None:
        self.id = next_id()
        self.ir_version = ir_version
        self.opset_imports: Mapping[str, int] = {} if opset is None else {"": opset}
        self.producer_name = ""
        self.producer_version = ""
        self.domain = ""
        self.model_version = 0
        self.doc_string = ""
        self.metadata: Mapping[str, str] = _EMPTY
        self.graph = Graph() if graph is None else graph
        self.graph.owner = self
        self.functions: tuple[Function, ...] = ()
        self.training_info: tuple[TrainingInfo, ...] = ()
        self.configurations: tuple[DeviceConfiguration, ...] = ()
        self.messages: Mapping[str, Any] = {}  # with which saving begins instead of `_source`, by kind
        self._lookup = _FunctionLookup((), {}, frozenset())
        self.source: Any = None  # model.io.reader.read.ModelSource, or None for a new model
        self._source: Any = None
        self.editor: ReferenceType[Any] | None = None

    def function(self, domain: str, name: str, overload: str = "") -> Function | None:
        """Return the function that a node of this domain, operator type and overload calls, or None."""
        return self._functions_now().by_key.get((domain, name, overload))

    def lists(self, function: Function) -> bool:
        """Return whether a function is one of the model's; the time does not grow with their number."""
        return function in self._functions_now().all

    def _functions_now(self) -> _FunctionLookup:
        if self._lookup.listed is not self.functions:
            by_key = {function.key: function for function in reversed(self.functions)}  # of duplicate keys the first
            self._lookup = _FunctionLookup(self.functions, by_key, frozenset(self.functions))
        return self._lookup

    def forget_keys(self) -> None:
        """Discard the cached lookup of functions, after a function's key changed."""
        self._lookup = _FunctionLookup((), {}, frozenset())

    def root_graphs(self) -> Iterator[Graph]:
        """Yield the main graph, function bodies and training graphs, without the bodies inside them."""
        yield self.graph
        for function in self.functions:
            yield function.body
        for training in self.training_info:
            for graph in (training.initialization, training.algorithm):
                if graph is not None:
                    yield graph

    def graphs(self, progress: Progress = SILENT) -> Iterator[Graph]:
        """Yield every graph, bodies included."""
        for root in self.root_graphs():
            yield from root.walk(progress)

    def __repr__(self) -> str:
        return f"<Model of {self.graph!r}>"


Owner = Model | Function | TrainingInfo | Node
