"""Build the message of a Model: every part starts as a copy of its source message, and only differences are set.

So unedited content is preserved, including unknown fields and unusual encodings, and a model that is back in its opened
state gives the same message as its file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar, cast

from onnx_workbench.model.io.protobuf import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    Message,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TrainingInfoProto,
    ValueInfoProto,
    text,
    utf8,
)
from onnx_workbench.model.io.reader.decode import MessageDecoder, MessageOrigin, read_type, read_value_details
from onnx_workbench.model.io.reader.import_graph import normal_domain
from onnx_workbench.model.io.writer.encode import (
    device_message,
    set_details,
    set_entries,
    set_node_devices,
    set_number,
    set_opsets,
    set_pairs,
    set_text,
    set_texts,
    write_type,
)
from onnx_workbench.model.io.writer.storage_plan import StoragePlan
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, is_same
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Value
from onnx_workbench.model.ir.lazy_details import NO_DETAILS
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.ir.types import MOST_DIMENSIONS
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

_AnyMessage = TypeVar("_AnyMessage", bound=Message)

_VALUE_FIELDS = (
    "f", "i", "s", "t", "g", "sparse_tensor", "tp", "floats", "ints", "strings", "tensors", "graphs",
    "sparse_tensors", "type_protos", "ref_attr_name", "type",
)  # fmt: skip


def write_model(model: Model, placement: StoragePlan, progress: Progress = SILENT) -> ModelProto:
    """Return the message of a model; placeholders of `placement.tables` represent values stored outside it."""
    writer = _Writer(placement, progress)
    out = _copy(ModelProto(), _start(model))
    writer.model(model, out)
    return out


def write_graph(graph: Graph, placement: StoragePlan, progress: Progress = SILENT) -> GraphProto:
    """Return the message of a single graph."""
    out = _copy(GraphProto(), _start(graph))
    _Writer(placement, progress).graph(graph, out)
    return out


def write_function(function: Function, placement: StoragePlan, progress: Progress = SILENT) -> FunctionProto:
    """Return the message of a single function."""
    out = _copy(FunctionProto(), _start(function))
    _Writer(placement, progress).function(function, out)
    return out


def write_tensor(tensor: Tensor, placement: StoragePlan) -> TensorProto:
    """Return the message of a single tensor."""
    out = TensorProto()
    _Writer(placement, SILENT).tensor(tensor, out, None, tensor.name)
    return out


#: Fields of messages that `write_message` leaves out, by the message: they hold objects with messages of their own.
PARTS: Mapping[str, tuple[str, ...]] = {
    "ModelProto": ("graph", "functions", "training_info"),
    "GraphProto": ("node", "initializer", "sparse_initializer", "input", "output", "value_info"),
    "FunctionProto": ("node", "value_info"),
}


def write_message(
    target: Model | Graph | Function | TrainingInfo | Node | Value,
    field: str,
    placement: StoragePlan,
    graph_name: Callable[[Graph], str],
) -> Message:
    """Return the message of one object without `PARTS`; graphs in it are empty but for a name from `graph_name`.

    `field` is the one of its graph that lists a value.
    """
    writer = _Writer(placement, SILENT, graph_name)
    match target:
        case Model():
            model = _header(ModelProto(), _start(target))
            writer.model_header(target, model)
            return model
        case Graph():
            graph = _header(GraphProto(), _start(target))
            writer.graph_header(target, graph)
            return graph
        case Function():
            function = _header(FunctionProto(), _start(target))
            writer.function_header(target, function, target._source)
            return function
        case TrainingInfo():
            training = _copy(TrainingInfoProto(), _start(target))
            writer.training(target, training)
            return training
        case Node():
            node = _copy(NodeProto(), _start_of_node(target))
            _ = target.attributes  # decodes them, so that their graphs are named
            writer.node(target, node)
            return node
    return writer.value(target, field)


def _header(out: _AnyMessage, source: Any) -> _AnyMessage:
    """Return a copy of a message without `PARTS`."""
    _copy(out, source)
    for field in PARTS[out.DESCRIPTOR.name]:
        out.ClearField(field)
    return out


def _write_plain_value(attribute: Attribute, out: AttributeProto) -> None:
    """Write the value from scratch, for kinds that hold no message."""
    for name in _VALUE_FIELDS:
        out.ClearField(name)
    out.type = cast("AttributeProto.AttributeType", int(attribute.kind))  # numbers are stored as they are
    if attribute.reference:
        set_text(out, "ref_attr_name", attribute.reference)
        return
    value: Any = attribute.value
    match attribute.kind:
        case AttributeKind.FLOAT:
            out.f = value
        case AttributeKind.INT:
            out.i = value
        case AttributeKind.STRING:
            out.s = utf8(value)
        case AttributeKind.FLOATS:
            out.floats.extend(value)
        case AttributeKind.INTS:
            out.ints.extend(value)
        case AttributeKind.STRINGS:
            out.strings.extend(utf8(item) for item in value)
        case AttributeKind.TYPE_PROTO:
            if value is not None:
                write_type(out.tp, value)
        case AttributeKind.TYPE_PROTOS:
            for item in value:
                write_type(out.type_protos.add(), item)
        case _:
            pass  # tensors and graphs follow in _Writer._parts


def _copy(out: _AnyMessage, source: Any) -> _AnyMessage:
    if source is not None:
        out.CopyFrom(source)
    return out


def _listed(out: Any, field: str, original: Any, sources: Sequence[Any], progress: Progress = SILENT) -> Sequence[Any]:
    """Return the messages of a repeated field for objects read from `sources`: in place, or as new copies.

    `out` is a copy of `original`, so it stays untouched where the objects are the same in the same order.
    """
    messages: RepeatedCompositeFieldContainer[Any] = getattr(out, field)
    originals = getattr(original, field) if original is not None else ()
    pairs = progress.paced(zip(originals, sources, strict=False))
    if len(messages) == len(originals) == len(sources) and all(original is source for original, source in pairs):
        return messages
    del messages[:]  # ClearField would detach this list from the message
    for source in progress.paced(sources):
        message = messages.add()
        if source is not None:
            message.CopyFrom(source)
    return messages


class _Writer:
    def __init__(
        self, placement: StoragePlan, progress: Progress, graph_name: Callable[[Graph], str] | None = None
    ) -> None:
        self._placement = placement
        self._progress = progress
        self._graph_name = graph_name
        self._decoder: object = None

    # -- model, functions, training --------------------------------------------------------------------------

    def model(self, model: Model, out: ModelProto) -> None:
        """Set the differences in a copy of the model's message."""
        self._progress.check()  # copying took a while
        original = model._source
        if model.source is not None:
            self._placement.use(model.source.files.table)
        self.model_header(model, out)
        if original is None or original.HasField("graph") or len(model.graph.nodes) or model.graph.name:
            self._part(model.graph, out.graph, None if original is None else original.graph)
        messages = _listed(out, "functions", original, [_start(f) for f in model.functions])
        for function, message in zip(model.functions, messages, strict=True):
            self.function(function, message)
        messages = _listed(out, "training_info", original, [_start(t) for t in model.training_info])
        for info, message in zip(model.training_info, messages, strict=True):
            self.training(info, message)

    def model_header(self, model: Model, out: ModelProto) -> None:
        """Set the fields of the model itself."""
        set_number(out, "ir_version", model.ir_version)
        for name in ("producer_name", "producer_version", "domain", "doc_string"):
            set_text(out, name, getattr(model, name))
        set_number(out, "model_version", model.model_version)
        set_entries(out, "metadata_props", model.metadata)
        set_opsets(out, model.opset_imports)
        out.ClearField("configuration")
        out.configuration.extend(map(device_message, model.configurations))

    def _part(self, graph: Graph, out: GraphProto, copied: GraphProto | None) -> None:
        """Write a graph into a field that holds a copy of `copied`, which may be another graph's message."""
        if self._graph_name is not None:
            out.Clear()
            out.SetInParent()
            set_text(out, "name", self._graph_name(graph))
            return
        start = _start(graph)
        if start is None:
            out.Clear()
            out.SetInParent()
        elif start is not copied:
            out.CopyFrom(start)
        self.graph(graph, out)

    def function(self, function: Function, out: FunctionProto) -> None:
        """Set the differences in a copy of the function's message."""
        original, body = function._source, function.body
        self.function_header(function, out, original)
        self._nodes(body, out, original)
        self._declared(body, out, original)

    def function_header(self, function: Function, out: FunctionProto, original: FunctionProto | None) -> None:
        """Set the fields of the function itself."""
        body = function.body
        for name in ("name", "overload", "doc_string"):
            set_text(out, name, getattr(function, name))
        _set_domain(out, function.domain)
        set_entries(out, "metadata_props", function.metadata)
        set_opsets(out, function.opset_imports)
        set_texts(out, "attribute", function.attributes)
        sources = [_origin_proto(a) for a in function.attribute_defaults]
        messages = _listed(out, "attribute_proto", original, sources)
        for attribute, message in zip(function.attribute_defaults, messages, strict=True):
            self._attribute(attribute, message)
        set_texts(out, "input", [value.name for value in body.inputs])
        set_texts(out, "output", [value.name for value in body.outputs])

    def training(self, info: TrainingInfo, out: TrainingInfoProto) -> None:
        """Set the differences in a copy of the training info's message."""
        original = _start(info)
        for name, graph in (("initialization", info.initialization), ("algorithm", info.algorithm)):
            if graph is None:
                out.ClearField(name)
            else:
                copied = getattr(original, name) if original is not None and original.HasField(name) else None
                self._part(graph, getattr(out, name), copied)
        set_pairs(out, "initialization_binding", info.initialization_binding)
        set_pairs(out, "update_binding", info.update_binding)

    # -- graphs ----------------------------------------------------------------------------------------------

    def graph(self, graph: Graph, out: GraphProto) -> None:
        """Set the differences in a copy of the graph's message."""
        original = graph._source
        self._nodes(graph, out, original)
        self._initializers(graph, out, original)
        self._values(graph, graph.inputs, "input", out, original)
        self._values(graph, graph.outputs, "output", out, original)
        self._declared(graph, out, original)
        self.graph_header(graph, out)

    def graph_header(self, graph: Graph, out: GraphProto) -> None:
        """Set the fields of the graph itself."""
        set_text(out, "name", graph.name)
        set_text(out, "doc_string", graph.doc_string)
        set_entries(out, "metadata_props", graph.metadata)
        annotations = graph.quantization_annotations
        messages = _listed(out, "quantization_annotation", graph._source, [a.source for a in annotations])
        for annotation, message in zip(annotations, messages, strict=True):
            set_text(message, "tensor_name", annotation.value.name)
            pairs = tuple((key, value.name) for key, value in annotation.parameters)
            set_pairs(message, "quant_parameter_tensor_names", pairs)

    def _initializers(self, graph: Graph, out: GraphProto, original: GraphProto | None) -> None:
        dense: list[tuple[Value, Tensor]] = []
        sparse: list[tuple[Value, SparseTensor]] = []
        for value in self._progress.paced(graph.initializers):
            if isinstance(value.initializer, SparseTensor):
                sparse.append((value, value.initializer))
            elif value.initializer is not None:
                dense.append((value, value.initializer))
        protos = [_message(t.source, TensorProto) for _, t in dense]
        messages = _listed(out, "initializer", original, protos, self._progress)
        for (value, tensor), message in self._progress.paced(zip(dense, messages, strict=True)):
            self.tensor(tensor, message, tensor.source, value.name)
        sources = [_message(t.source, SparseTensorProto) for _, t in sparse]
        messages = _listed(out, "sparse_initializer", original, sources)
        for (value, sparse_tensor), message in zip(sparse, messages, strict=True):
            self.sparse_tensor(sparse_tensor, message, value.name)

    def tensor(self, tensor: Tensor, out: TensorProto, copied: Any, name: str) -> None:
        """Set the differences in a message that is a copy of `copied`."""
        source = _message(tensor.source, TensorProto)
        if source is not None and source is not copied:
            out.CopyFrom(source)
        self._placement.write(tensor, out, name)

    def sparse_tensor(self, tensor: SparseTensor, out: SparseTensorProto, name: str) -> None:
        """Set the differences in a copy of the sparse tensor's message."""
        source = _message(tensor.source, SparseTensorProto)
        self.tensor(tensor.values, out.values, None if source is None else source.values, name)
        copied = None if source is None else source.indices
        self.tensor(tensor.indices, out.indices, copied, tensor.indices.name)
        if tuple(out.dims[:MOST_DIMENSIONS]) != tensor.shape:
            out.ClearField("dims")
            out.dims.extend(tensor.shape)

    # -- values ----------------------------------------------------------------------------------------------

    def _declared(self, graph: Graph, out: GraphProto | FunctionProto, original: Any) -> None:
        """Write value_info."""
        self._values(graph, declarations(graph, self._progress), "value_info", out, original)

    def _values(self, graph: Graph, values: Sequence[Value], field: str, out: Any, original: Any) -> None:
        paced = self._progress.paced
        infos = getattr(original, field) if original is not None else ()
        foreign = _foreign_values(graph, values, infos, original)
        edited = {value: value.messages[field] for value in paced(values) if _is_edited(value, field, graph)}
        same = values and len(values) == len(infos) == len(getattr(out, field)) and not foreign and not edited
        if same and all(_read_name(v) == text(info.name) for v, info in paced(zip(values, infos, strict=True))):
            messages = getattr(out, field)
        else:
            by_name = {text(info.name): info for info in paced(reversed(infos))}
            sources = [
                edited[v] if v in edited else v._source if v in foreign else by_name.get(_read_name(v), v._source)
                for v in paced(values)
            ]
            messages = _listed(out, field, original, sources, self._progress)
        for value, message in paced(zip(values, messages, strict=True)):
            self._value(value, message, graph, edited.get(value))

    def value(self, value: Value, field: str) -> Message:
        """Return the message of a value in a field of its graph: a tensor, or a declaration."""
        if field == "initializer" and isinstance(tensor := value.initializer, Tensor):
            dense = _copy(TensorProto(), _message(tensor.source, TensorProto))
            self.tensor(tensor, dense, tensor.source, value.name)
            return dense
        if field == "sparse_initializer" and isinstance(tensor := value.initializer, SparseTensor):
            sparse = _copy(SparseTensorProto(), _message(tensor.source, SparseTensorProto))
            self.sparse_tensor(tensor, sparse, value.name)
            return sparse
        graph = value.graph
        assert graph is not None
        original = graph.owner._source if isinstance(graph.owner, Function) else graph._source
        infos = getattr(original, field, ())
        info = next((one for one in infos if text(one.name) == _read_name(value)), value._source)
        edited = value.messages.get(field)
        out = _copy(ValueInfoProto(), info if edited is None else edited)
        self._value(value, out, graph, edited)
        return out

    def _value(self, value: Value, out: ValueInfoProto, graph: Graph, edited: ValueInfoProto | None) -> None:
        """Set the differences in a copy of a declaration of a value: the edited one, or one of those in the file."""
        set_text(out, "name", value.name)
        if value._decoder is not None:  # not decoded, so not changed
            return
        read = value._source if edited is None else edited
        if read is None:
            if value.graph is not graph and (out.HasField("type") or out.doc_string or out.metadata_props):
                return  # a subgraph may declare an outer value that its own graph does not declare
            read = out  # declaration of another value that had this name
        declared = value._type
        if declared != (read_type(read.type) if read.HasField("type") else None):
            if declared is None:
                out.ClearField("type")
            else:
                out.type.SetInParent()
                write_type(out.type, declared)
        details = value.details
        if details != read_value_details(read):
            set_details(out, details)

    # -- nodes -----------------------------------------------------------------------------------------------

    def _nodes(self, graph: Graph, out: Any, original: Any) -> None:
        nodes = list(self._progress.paced(graph.nodes))
        sources = [_start_of_node(node) for node in nodes]
        messages = _listed(out, "node", original, sources, self._progress)
        for node, message in self._progress.paced(zip(nodes, messages, strict=True), of=len(nodes)):
            self.node(node, message)

    def node(self, node: Node, out: NodeProto) -> None:
        """Set the differences in a copy of the node's message."""
        set_texts(out, "input", [value.name if value is not None else "" for value in node.inputs])
        set_texts(out, "output", [value.name if value is not None else "" for value in node.outputs])
        set_text(out, "name", node.name)
        set_text(out, "op_type", node.op_type)
        if out.domain != node.domain:
            _set_domain(out, node.domain)
        set_text(out, "overload", node.overload)
        decoder = node._decoder
        if decoder is not self._decoder and isinstance(decoder, MessageDecoder):
            self._decoder = decoder
            self._placement.use(decoder.files.table)
        start = _start_of_node(node)
        is_read = node._attributes is not None or start is not node._source
        if is_read or (self._placement.touches_every_tensor and start.attribute):
            self._attributes(tuple(node.attributes.values()), out, start)
        if node._details is not None:
            set_details(out, node.details)
            set_node_devices(out, node.device_configurations)

    def _attributes(self, attributes: Sequence[Attribute], out: NodeProto, original: NodeProto | None) -> None:
        first: dict[str, AttributeProto] = {}
        places: list[int] = []
        for index, proto in enumerate(original.attribute if original is not None else ()):
            if first.setdefault(text(proto.name), proto) is proto:
                places.append(index)
        sources = [_origin_proto(attribute) for attribute in attributes]
        if len(sources) == len(places) and all(map(is_, first.values(), sources)):
            messages: Sequence[AttributeProto] = [out.attribute[index] for index in places]
        else:
            messages = _listed(out, "attribute", None, sources)
        for attribute, message in zip(attributes, messages, strict=True):
            self._attribute(attribute, message)

    def _attribute(self, attribute: Attribute, out: AttributeProto) -> None:
        """Set the differences in a copy of the attribute's message."""
        set_text(out, "name", attribute.name)
        set_text(out, "doc_string", attribute.doc_string)
        origin = attribute.source if isinstance(attribute.source, MessageOrigin) else None
        if origin is not None:
            self._placement.use(origin.files.table)
        is_part = attribute.kind in _PARTS
        if origin is None or origin.kind is not attribute.kind:
            anew = True
        elif is_part:
            anew = (attribute.value is None) is not (origin.value is None)
        else:
            anew = not is_same(origin.value, attribute.value)
        if anew:
            _write_plain_value(attribute, out)
        else:
            set_text(out, "ref_attr_name", attribute.reference)
        is_unread = not anew and origin is not None and attribute.value == origin.value == ()  # graphs of a default
        if is_part and attribute.value is not None and not is_unread:
            self._parts(attribute, out, None if anew or origin is None else origin.proto)

    def _parts(self, attribute: Attribute, out: AttributeProto, original: AttributeProto | None) -> None:
        """Write tensors and graphs, each setting only the differences from its source."""
        field = _PARTS[attribute.kind]
        value: Any = attribute.value
        if attribute.kind.is_list:
            sources = [_part_source(item) for item in value]
            messages = _listed(out, field, original, sources)
            for item, message, source in zip(value, messages, sources, strict=True):
                self._one_part(item, message, source)
            return
        message = getattr(out, field)
        copied = None if original is None else getattr(original, field)
        if copied is not None and _part_source(value) is not copied:
            message.Clear()
            copied = None
        message.SetInParent()
        self._one_part(value, message, copied)

    def _one_part(self, item: Any, out: Any, copied: Any) -> None:
        if isinstance(item, Graph):
            self._part(item, out, copied)
        elif isinstance(item, SparseTensor):
            source = _message(item.source, SparseTensorProto)
            if source is not None and source is not copied:
                out.CopyFrom(source)
            self.sparse_tensor(item, out, item.values.name)
        else:
            self.tensor(item, out, copied, item.name)


_PARTS = {
    AttributeKind.TENSOR: "t",
    AttributeKind.GRAPH: "g",
    AttributeKind.SPARSE_TENSOR: "sparse_tensor",
    AttributeKind.TENSORS: "tensors",
    AttributeKind.GRAPHS: "graphs",
    AttributeKind.SPARSE_TENSORS: "sparse_tensors",
}


def _message(source: Any, kind: type[Any]) -> Any:
    """Return a source that is a message of this kind; None for anything else."""
    return source if isinstance(source, kind) else None


def _origin_proto(attribute: Attribute) -> AttributeProto | None:
    return attribute.source.proto if isinstance(attribute.source, MessageOrigin) else None


def _part_source(item: Graph | Tensor | SparseTensor) -> Any:
    if isinstance(item, Graph):
        return item._source
    return _message(item.source, SparseTensorProto if isinstance(item, SparseTensor) else TensorProto)


def _start(target: Model | Graph | Function | TrainingInfo) -> Any:
    """Return the message with which writing an object begins: the edited one, else the one it was read from."""
    return target.messages.get(f"{type(target).__name__}Proto", target._source)


def _start_of_node(node: Node) -> Any:
    details = node._details
    return details.messages.get("NodeProto", node._source) if details is not None else node._source


def _is_edited(value: Value, field: str, graph: Graph) -> bool:
    """Return whether the declaration of a value in a field of its graph was edited as a message."""
    details = value._details
    return details is not None and field in details.messages and value.graph is graph


def _says_something(value: Value) -> bool:
    """Return whether a value has anything to write besides its name."""
    if value._decoder is None and value._type is None and value._details is NO_DETAILS:
        return False  # the common case
    return value.type is not None or _is_described(value)


def _is_described(value: Value) -> bool:
    details = value.details
    return bool(details.doc_string or details.metadata)


def _set_domain(out: Any, domain: str) -> None:
    """Set a domain if it differs; both spellings of the standard one are equal."""
    if normal_domain(text(out.domain)) != domain:
        set_text(out, "domain", domain)


def _read_name(value: Value) -> str:
    """Return the name of a value in its file."""
    return value.name if value._source is None else text(value._source.name)


def _foreign_values(graph: Graph, values: Sequence[Value], infos: Sequence[Any], original: Any) -> set[Value]:
    """Return values read from another graph, which may share names with this file's values by coincidence."""
    if len(values) == len(infos) and all(v._source is info for v, info in zip(values, infos, strict=True)):
        return set()  # the common case
    fields = ("value_info",) if isinstance(graph.owner, Function) else ("input", "output", "value_info")
    own = {id(info) for field in fields for info in getattr(original, field, ())}
    return {v for v in values if v.graph is graph and v._source is not None and id(v._source) not in own}


def declarations(graph: Graph, progress: Progress = SILENT) -> list[Value]:
    """Return the values in value_info: those of the file that still exist, then new ones. Linear in the nodes."""
    listed = set(graph.declared)
    of_function = isinstance(graph.owner, Function)
    if not of_function:  # a function stores these as names only
        listed.update(graph.inputs, graph.outputs)
    kept = kept_declarations(graph)
    own = (*graph.inputs, *graph.outputs) if of_function else ()
    outputs = (value for node in graph.nodes for value in node.outputs)
    for value in progress.paced(dict.fromkeys(progress.paced(chain(own, outputs)))):
        if value is not None and _says_something(value) and value not in listed:
            kept.append(value)
    listed.update(kept)
    return kept + [value for value in graph.initializers if value not in listed and _says_something(value)]


def kept_declarations(graph: Graph) -> list[Value]:
    """Return the declarations of a graph that remain when it is saved.

    One of an unused, unproduced value is dropped with its producer, unless the file had no producer either.
    """
    loose = {value for value in graph.declared if not value.uses and not value.is_defined}
    if loose:
        loose -= _never_defined(loose, graph._source if not isinstance(graph.owner, Function) else graph.owner._source)
    return [value for value in graph.declared if value not in loose]


def _never_defined(values: set[Value], original: Any) -> set[Value]:
    """Return the values that the file declares without defining them."""
    if original is None:
        return set()
    defined = {text(name) for node in original.node for name in node.output}
    defined.update(text(tensor.name) for tensor in getattr(original, "initializer", ()))
    defined.update(text(getattr(info, "name", info)) for info in original.input)
    defined.discard("")  # an omitted input or output
    return {value for value in values if value._source is not None and _read_name(value) not in defined}
