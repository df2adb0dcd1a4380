"""Build the linked IR from a parsed ModelProto: one slotted object per node and value, names resolved once.

Invalid files are linked as far as possible, and every broken rule is listed: of two definitions of a name uses refer to
the first, the second keeps its position and name; an undefined name becomes a Value whose `is_defined` is False.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.garbage import no_collection
from onnx_workbench.model.io.protobuf import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TrainingInfoProto,
    ValueInfoProto,
    text,
)
from onnx_workbench.model.io.reader.decode import (
    MessageDecoder,
    has_graphs,
    read_device_configuration,
    read_entries,
    read_pairs,
)
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor
from onnx_workbench.model.ir.graph import (
    Function,
    Graph,
    Model,
    Node,
    QuantizationAnnotation,
    TrainingInfo,
    Value,
    Values,
    next_id,
)
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.progress import SILENT, Progress

#: Limit on nodes and tensors: the objects of a hostile file would exhaust the memory.
MOST_ELEMENTS: Final = 1_000_000
_MOST_PROBLEMS = 200
_MOST_PORTS, _MOST_ATTRIBUTES = 100_000, 2_000  # inputs and outputs, also of a graph, and attributes, of one node
_MOST_IMPORTS = 2_000  # of operator sets
_SPELT_OUT = "ai.onnx"  # a second spelling of the standard domain, the empty string
_BETWEEN_CHECKS = 4096


class _Scope:
    """Visible names of a graph: its own, then those of the enclosing graphs."""

    __slots__ = ("graph", "names", "outer")

    def __init__(self, graph: Graph, outer: _Scope | None) -> None:
        self.graph = graph
        self.names: dict[str, Value] = {}
        self.outer = outer

    def find(self, name: str) -> Value | None:
        scope: _Scope | None = self
        while scope is not None:
            value = scope.names.get(name)
            if value is not None:
                return value
            scope = scope.outer
        return None

    def unresolved(self, name: str) -> Value:
        """Return an undefined value, stored in the outermost scope so that all subgraphs share it."""
        scope = self
        while scope.outer is not None:
            scope = scope.outer
        value = scope.names[name] = Value(name, None, scope.graph)
        return value


#: A node, its inputs so far, and the index and name of each that no earlier node produces.
_Waiting = tuple[Node, list[Value | None], list[tuple[int, str]]]


class ModelBuilder:
    """Builds the objects of one file; `problems` lists the broken rules.

    Nodes are not searched for subgraphs when no attribute of the file can be a graph.
    """

    def __init__(self, decoder: MessageDecoder, progress: Progress = SILENT, *, may_have_graphs: bool = True) -> None:
        self._decoder = decoder
        self._may_have_graphs = may_have_graphs
        self._progress = progress
        self._nodes = 0
        self._is_spelt_out = False  # whether a node read since the last check names "ai.onnx"
        self.problems: list[str] = []

    def model(self, proto: ModelProto) -> Model:
        """Build the whole model."""
        self._may_have_graphs |= proto.ir_version < 2  # older versions did not store the kind of attributes
        with no_collection():
            model = Model(Graph(), ir_version=proto.ir_version)
            model._source = proto
            model.producer_name = text(proto.producer_name)
            model.producer_version = text(proto.producer_version)
            model.domain = text(proto.domain)
            model.model_version = proto.model_version
            model.doc_string = text(proto.doc_string)
            model.metadata = read_entries(proto.metadata_props)
            model.opset_imports = self._opsets(proto.opset_import)
            scope = self._graph(proto.graph, model.graph, None)
            self._check_spelling("Nodes name", "which onnx's checker refuses; no name means the same")
            model.functions = tuple(self._function(function) for function in proto.functions)
            model.training_info = tuple(self._training(info, scope) for info in proto.training_info)
            model.configurations = tuple(read_device_configuration(c) for c in proto.configuration)
            for function in model.functions:
                function.model = model
            for info in model.training_info:
                info.model = model
            self._check_header(proto)
        return model

    def graph(self, proto: GraphProto) -> Model:
        """Build a model around a lone graph."""
        model = Model()
        with no_collection():
            self._graph(proto, model.graph, None)
        return model

    def node(self, proto: NodeProto) -> Model:
        """Build a model around a lone node: its inputs and outputs become those of the graph."""
        model = self.graph(GraphProto(node=[proto]))
        self.problems.clear()  # undefined inputs are expected here
        graph = model.graph
        node = graph.nodes.first
        assert node is not None
        graph.inputs = Values(dict.fromkeys(v for v in node.inputs if v is not None and v.producer is None))
        graph.outputs = Values(value for value in node.outputs if value is not None)
        for index, value in enumerate(graph.outputs):
            value._used_by(graph, index)
        return model

    def function(self, proto: FunctionProto) -> Model:
        """Build a model around a lone function; its main graph is empty."""
        model = Model()
        with no_collection():
            model.functions = (self._function(proto),)
        model.functions[0].model = model
        model.opset_imports = model.functions[0].opset_imports
        return model

    # -- graphs ----------------------------------------------------------------------------------------------

    def _graph(self, proto: GraphProto, graph: Graph, outer: _Scope | None) -> _Scope:
        graph._source = proto
        graph.name = text(proto.name)
        graph.doc_string = text(proto.doc_string)
        if proto.metadata_props:
            graph.metadata = read_entries(proto.metadata_props)
        scope = _Scope(graph, outer)
        if len(proto.input) + len(proto.output) > _MOST_PORTS:
            raise ModelError(
                "A graph has too many inputs or outputs",
                f"Graph {text(proto.name)[:60]!r} has {len(proto.input):,} inputs and {len(proto.output):,} outputs. "
                f"At most {_MOST_PORTS:,} in all can be handled.",
                f"graph {text(proto.name)[:60]!r}",
            )
        graph.inputs = Values(self._define(scope, text(i.name), "graph input", i) for i in proto.input)
        self._initializers(proto, scope)
        bodies = self._nodes_of(proto.node, scope)
        self._declare(proto.value_info, scope)
        graph.outputs = Values(self._output(scope, info) for info in proto.output)
        for index, value in enumerate(graph.outputs):
            value._used_by(graph, index)
        if proto.quantization_annotation:
            graph.quantization_annotations = tuple(
                QuantizationAnnotation(
                    self._resolve(scope, text(annotation.tensor_name)),
                    tuple(
                        (key, self._resolve(scope, name))
                        for key, name in read_pairs(annotation.quant_parameter_tensor_names)
                    ),
                    source=annotation,
                )
                for annotation in proto.quantization_annotation
            )
        self._read_bodies(bodies, scope)
        return scope

    def _define(self, scope: _Scope, name: str, what: str, info: ValueInfoProto | None = None) -> Value:
        """Create a value in the scope's graph. The first one of a name is the one that uses refer to."""
        value = Value(name, None, scope.graph)
        if info is not None:
            self._attach(value, info)
        if not name:  # an omitted name is empty too, and must not refer to this value
            self._problem(f"{what[0].upper()}{what[1:]} of graph {scope.graph.name!r} has no name")
        elif name in scope.names:
            self._problem(f"{what} {name!r} of graph {scope.graph.name!r} is defined a second time")
        else:
            scope.names[name] = value
        return value

    def _attach(self, value: Value, info: ValueInfoProto) -> None:
        value._source = info
        value._decoder = self._decoder
        value._details = None

    def _initializers(self, proto: GraphProto, scope: _Scope) -> None:
        graph, files = scope.graph, self._decoder.files
        self._count(len(proto.initializer) + len(proto.sparse_initializer))
        tensors: list[Tensor | SparseTensor] = [ProtoTensor(tensor, files) for tensor in proto.initializer]
        tensors += [self._decoder.sparse_tensor(tensor) for tensor in proto.sparse_initializer]
        for tensor in tensors:
            value = scope.names.get(tensor.name)
            if value is None or value.initializer is not None:
                value = self._define(scope, tensor.name, "initializer")
            value.initializer = tensor
            graph.initializers.append(value)

    def _nodes_of(self, protos: Sequence[NodeProto], scope: _Scope) -> list[tuple[Node, NodeProto]]:
        """Create nodes with outputs and inputs linked; returns those with subgraphs, which are read afterwards.

        Names used before their definition are linked at the end.
        """
        names, decoder = scope.names, self._decoder
        append, new_node = scope.graph.nodes._append, Node.__new__
        self._count(len(protos))
        waiting: list[_Waiting] = []
        bodies = []
        for number, proto in enumerate(protos):
            if number % _BETWEEN_CHECKS == 0:
                self._progress.report(number, len(protos), "Linking nodes")
            # Inlined Node() without calls and loops that a new node does not need: half the time of opening.
            node = new_node(Node)
            node.id = next_id()
            late: list[tuple[int, str]] = []
            inputs: list[Value | None] = []
            for index, name in enumerate(proto.input[:]):
                value = names.get(name if type(name) is str else text(name))
                if value is not None:
                    use = (node, index)
                    if value._uses is None:
                        value._uses = {use: None}
                    else:
                        value._uses[use] = None
                elif name:
                    late.append((index, text(name)))
                inputs.append(value)
            node.inputs = tuple(inputs)
            node.outputs = self._outputs_of(node, proto, scope)
            if len(inputs) + len(node.outputs) > _MOST_PORTS or len(proto.attribute) > _MOST_ATTRIBUTES:
                raise _too_large(number, proto, scope.graph)
            if _describe(node, proto):
                self._is_spelt_out = True
            node._decoder = decoder
            append(node)
            if late:
                waiting.append((node, inputs, late))
            if self._may_have_graphs and has_graphs(proto):
                node._attributes = {}
                bodies.append((node, proto))
        self._link_waiting(waiting, scope)
        return bodies

    def _outputs_of(self, node: Node, proto: NodeProto, scope: _Scope) -> tuple[Value | None, ...]:
        names, graph = scope.names, scope.graph
        outputs: list[Value | None] = []
        for index, name in enumerate(proto.output[:]):
            output: Value | None
            if name and type(name) is str and name not in names:
                output = names[name] = Value(name, None, graph)
            else:
                output = self._made(scope, name)
            if output is not None:
                output.producer = node
                output.index = index
            outputs.append(output)
        return tuple(outputs)

    def _made(self, scope: _Scope, name: str | bytes) -> Value | None:
        """Return the value for an output name that is empty, malformed or taken."""
        if not name:
            return None
        return self._define(scope, text(name), "value")

    def _link_waiting(self, waiting: list[_Waiting], scope: _Scope) -> None:
        unsorted = 0
        for node, inputs, late in waiting:
            for index, name in self._progress.paced(late):
                value = scope.names.get(name)
                if value is not None and value.producer is not None:
                    unsorted += 1
                elif value is None:
                    value = self._resolve(scope, name)
                inputs[index] = value
                value._used_by(node, index)
            node.inputs = tuple(inputs)
        if unsorted:
            used, makers = f"{unsorted} inputs are used", "nodes that make them"
            if unsorted == 1:
                used, makers = "1 input is used", "node that makes it"
            self._problem(f"Nodes of graph {scope.graph.name!r} are not in order: {used} before the {makers}")

    def _resolve(self, scope: _Scope, name: str) -> Value:
        value = scope.find(name)
        if value is None:
            self._problem(f"Nothing in graph {scope.graph.name!r} defines the value {name!r}")
            value = scope.unresolved(name)
        return value

    def _declare(self, infos: Iterable[ValueInfoProto], scope: _Scope) -> None:
        """Set types of values between the nodes; the names may be undefined."""
        declared = []
        graph, names, decoder = scope.graph, scope.names, self._decoder
        for info in infos:
            name = info.name
            name = name if type(name) is str else text(name)
            value = names.get(name) or scope.find(name)
            if value is None:
                value = names[name] = Value(name, None, graph)
            if value._source is None and (value.graph is graph or not value.is_defined):
                value._source, value._decoder, value._details = info, decoder, None  # _attach, without the call
            declared.append(value)
        scope.graph.declared = Values(declared)

    def _output(self, scope: _Scope, info: ValueInfoProto) -> Value:
        value = self._resolve(scope, text(info.name))
        if value._source is None and (value.graph is scope.graph or not value.is_defined):
            self._attach(value, info)
        return value

    def _read_bodies(self, nodes: list[tuple[Node, NodeProto]], scope: _Scope) -> None:
        """Read subgraphs last, as they see everything defined around them. Nesting is limited by the runtime."""

        def read(proto: GraphProto) -> Graph:
            body = Graph()
            body.owner = owner
            self._graph(proto, body, scope)
            return body

        for owner, proto in nodes:
            owner._attributes = self._decoder.read_attributes(proto.attribute, read)

    # -- the rest of a model ---------------------------------------------------------------------------------

    def _function(self, proto: FunctionProto) -> Function:
        function = Function(text(proto.name), normal_domain(text(proto.domain)), text(proto.overload))
        function._source = proto
        function.doc_string = text(proto.doc_string)
        function.attributes = tuple(text(name) for name in proto.attribute)
        function.attribute_defaults = tuple(self._decoder.attribute(a) for a in proto.attribute_proto)
        function.opset_imports = self._opsets(proto.opset_import)
        function.metadata = read_entries(proto.metadata_props)
        body = function.body
        scope = _Scope(body, None)
        body.inputs = Values(self._define(scope, text(name), "input") for name in proto.input)
        bodies = self._nodes_of(proto.node, scope)
        self._declare(proto.value_info, scope)
        body.outputs = Values(self._resolve(scope, text(name)) for name in proto.output)
        for index, value in enumerate(body.outputs):
            value._used_by(body, index)
        self._read_bodies(bodies, scope)
        self._is_spelt_out |= any(entry.domain == _SPELT_OUT for entry in proto.opset_import)
        why = "which other programs refuse in functions; no name means the same"
        self._check_spelling(f"Function {function.name} names", why)
        return function

    def _training(self, proto: TrainingInfoProto, main: _Scope) -> TrainingInfo:
        """Read training graphs, which see the initializers of the main graph: the state they update.

        A step runs the main graph and the algorithm as one graph, so the algorithm sees all values of the main graph.
        """
        state = _Scope(main.graph, None)
        state.names = {value.name: value for value in main.graph.initializers}
        initialization = self._training_graph(proto.initialization, state) if proto.HasField("initialization") else None
        state.names.update((name, value) for name, value in main.names.items() if value.is_defined)
        algorithm = self._training_graph(proto.algorithm, state) if proto.HasField("algorithm") else None
        info = TrainingInfo(initialization, algorithm)
        info._source = proto
        info.initialization_binding = read_pairs(proto.initialization_binding)
        info.update_binding = read_pairs(proto.update_binding)
        return info

    def _training_graph(self, proto: GraphProto, state: _Scope) -> Graph:
        graph = Graph()
        self._graph(proto, graph, state)
        return graph

    def _opsets(self, imports: Sequence[OperatorSetIdProto]) -> Mapping[str, int]:
        found: dict[str, int] = {}
        if len(imports) > _MOST_IMPORTS:
            raise ModelError(
                "The model imports too many operator sets",
                f"opset_import has {len(imports):,} entries; at most {_MOST_IMPORTS:,} can be handled.",
                "opset_import",
            )
        for entry in imports:
            domain = normal_domain(text(entry.domain))
            if found.setdefault(domain, entry.version) != entry.version:
                self._problem(f"The operator set {domain or 'ai.onnx'!r} is imported in two versions")
        return read_opsets(imports)

    def _check_header(self, proto: ModelProto) -> None:
        if not proto.HasField("ir_version"):
            self._problem("The file does not say its IR version")
        if not proto.opset_import and proto.ir_version >= 3:
            self._problem("The model imports no operator set")
        if not proto.HasField("graph"):
            self._problem("The file has no graph")
        if 0 < proto.ir_version < 4:
            inputs = {info.name for info in proto.graph.input}
            missing = [t.name for t in proto.graph.initializer if t.name not in inputs]
            if missing:
                self._problem(
                    f"{len(missing)} initializers are not graph inputs, which IR version {proto.ir_version} requires"
                )

    def _check_spelling(self, where: str, why: str) -> None:
        """Note if the previously read object uses the second spelling of the standard domain."""
        if self._is_spelt_out:
            self._problem(f"{where} the domain {_SPELT_OUT!r}, {why}")
        self._is_spelt_out = False

    def _count(self, more: int) -> None:
        self._nodes += more
        if self._nodes > MOST_ELEMENTS:
            raise ModelError(
                "The model has too many parts",
                f"It has more than {MOST_ELEMENTS:,} nodes and tensors, which no real model has.",
            )

    def _problem(self, words: str) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(words)
        elif len(self.problems) == _MOST_PROBLEMS:
            self.problems.append("There are more problems of this kind than are listed")


def _too_large(number: int, proto: NodeProto, graph: Graph) -> ModelError:
    return ModelError(
        "A node has too many inputs, outputs or attributes",
        f"Node {number} ({text(proto.op_type)[:60]!r}) has {len(proto.input):,} inputs, {len(proto.output):,} outputs "
        f"and {len(proto.attribute):,} attributes. At most {_MOST_PORTS:,} inputs and outputs and {_MOST_ATTRIBUTES:,} "
        "attributes can be handled.",
        f"node[{number}] of graph {graph.name[:60]!r}",
    )


def read_opsets(entries: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """Return opset versions by domain; of duplicates the highest, which nodes are bound to."""
    versions: dict[str, int] = {}
    for entry in entries:
        domain = normal_domain(text(entry.domain))
        versions[domain] = max(versions.get(domain, entry.version), entry.version)
    return versions


def normal_domain(domain: str) -> str:
    """Normalize the two spellings of the standard domain to ``""``."""
    return "" if domain == _SPELT_OUT else domain


def _describe(node: Node, proto: NodeProto) -> bool:
    """Set the name and operator of a new node; the rest is decoded from the message on first use.

    Returns whether it names the standard domain, which most nodes leave empty.
    """
    op_type, name, domain, overload = proto.op_type, proto.name, proto.domain, proto.overload
    node.op_type = op_type if type(op_type) is str else text(op_type)
    node.name = name if type(name) is str else text(name)
    node.domain = domain if not domain else normal_domain(text(domain))
    node.overload = overload if not overload else text(overload)
    node._source = proto
    node._attributes = node._details = node._next = None
    return domain == _SPELT_OUT
