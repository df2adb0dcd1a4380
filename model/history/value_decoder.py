"""Decoder of the JSON values that ValueEncoder writes."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.references import ReadReferences
from onnx_workbench.model.history.steps import InsertNode, SetGraphOutputs, detach_graph
from onnx_workbench.model.io.protobuf import (
    AttributeProto,
    DeviceConfigurationProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeDeviceConfigurationProto,
    NodeProto,
    SparseTensorProto,
    TensorAnnotation,
    TrainingInfoProto,
    ValueInfoProto,
)
from onnx_workbench.model.io.reader.decode import (
    MessageDecoder,
    read_device_configuration,
    read_node_device_configuration,
)
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor, read_message
from onnx_workbench.model.io.wire import DEPTH_LIMIT
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute
from onnx_workbench.model.ir.devices import DeviceConfiguration, NodeDeviceConfiguration
from onnx_workbench.model.ir.graph import Function, Graph, Node, QuantizationAnnotation, TrainingInfo, Value, Values
from onnx_workbench.model.ir.lazy_details import Details
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor, Tensor
from onnx_workbench.model.ir.types import (
    ElementType,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
    Type,
    element_type,
)

_AnyMessage = TypeVar("_AnyMessage", bound=Message)


class ValueDecoder:
    """Decoder of ValueEncoder's values. Raises ModelError, KeyError, TypeError or ValueError for invalid ones."""

    def __init__(self, references: ReadReferences) -> None:
        self._references = references
        self._depth = 0
        self._graphs: list[Graph] = []

    def take_back(self) -> None:
        """Take back the uses of values of the model by what was decoded, as it will not be applied."""
        for graph in self._graphs:
            detach_graph(graph)

    def attribute(self, entry: Mapping[str, Any]) -> Attribute:
        """Decode an attribute."""
        kind = AttributeKind[entry["kind"]]
        value = entry.get("value")
        name = text_of(entry["name"])
        texts = text_of(entry.get("doc_string", "")), text_of(entry.get("reference", ""))
        decode = _DECODE.get(kind.element)
        if value is not None and decode is not None:
            value = tuple(decode(self, part) for part in value) if kind.is_list else decode(self, value)
        if value is not None:
            value = make_attribute(name, value, kind).value
        source = None
        if "source" in entry:
            proto = _message(AttributeProto, entry["source"])
            source = MessageDecoder(self._references.files).attribute(proto).source
        return Attribute(name, kind, value, *texts, source)

    def number(self, number: Any) -> float:
        """Decode a float."""
        return float(number)

    def tensor(self, entry: Mapping[str, Any]) -> Tensor:
        """Decode a tensor; its shape is checked against the number of bytes before an array is allocated."""
        import numpy as np

        if "from" in entry:
            return self._references.find_tensor(entry["from"])
        if "message" in entry:
            parts = (_unbase64(p) if isinstance(p, str) else self._references.get(p) for p in entry["message"])
            return ProtoTensor(read_message(b"".join(parts)), self._references.files)
        kind, shape = ElementType(entry["type"]), tuple(whole(size) for size in entry["shape"])
        texts = {"name": text_of(entry.get("name", "")), "doc_string": text_of(entry.get("doc_string", ""))}
        if "values" in entry:
            values = [float(v) if isinstance(v, str) and kind.is_float else v for v in entry["values"]]
            array = np.array(values, kind.numpy_dtype).reshape(shape)
        else:
            from onnx_workbench.model.io.tensors.packing import unpack

            data = self._references.get(entry["at"]) if "at" in entry else _unbase64(entry["bytes"])
            count = math.prod(shape)
            if min(shape, default=0) < 0 or len(data) != (count * kind.bits + 7) // 8:
                raise ModelError("The recording is damaged", f"{len(data)} bytes for a tensor of {list(shape)}.")
            array = unpack(data, kind, count).reshape(shape)
        metadata = texts_of(entry["metadata"]) if entry.get("metadata") is not None else None
        return ArrayTensor(array, kind, metadata=metadata, **texts)

    def sparse_tensor(self, entry: Mapping[str, Any]) -> SparseTensor:
        """Decode a sparse tensor."""
        source = _message(SparseTensorProto, entry["unknown"]) if "unknown" in entry else None
        return SparseTensor(
            self.tensor(entry["values"]), self.tensor(entry["indices"]), tuple(map(whole, entry["shape"])), source
        )

    def any_tensor(self, entry: Mapping[str, Any] | None) -> Tensor | SparseTensor | None:
        """Decode a dense or sparse tensor, or None."""
        if entry is None:
            return None
        return self.sparse_tensor(entry["sparse"]) if "sparse" in entry else self.tensor(entry)

    def type(self, entry: Mapping[str, Any] | None, depth: int = 0) -> Type | None:
        """Decode a type; None is no type."""
        if entry is None:
            return None
        if depth > DEPTH_LIMIT:
            raise ModelError("The recording is damaged", f"Types are nested more than {DEPTH_LIMIT} deep.")
        denotation = text_of(entry.get("denotation", ""))
        shape = None
        if "shape" in entry:
            sizes = (size if size is None or isinstance(size, str) else whole(size) for size in entry["shape"])
            shape = Shape(tuple(sizes), tuple(map(text_of, entry.get("denotations", ()))))
        if "tensor" in entry:
            return TensorType(element_type(entry["tensor"]), shape, denotation)
        if "sparse" in entry:
            return SparseTensorType(element_type(entry["sparse"]), shape, denotation)
        if "map" in entry:
            return MapType(element_type(entry["map"][0]), self.type(entry["map"][1], depth + 1), denotation)
        if "opaque" in entry:
            domain, name = entry["opaque"]
            return OpaqueType(text_of(domain), text_of(name), denotation)
        if "sequence" in entry:
            return SequenceType(self.type(entry["sequence"], depth + 1), denotation)
        return OptionalType(self.type(entry["optional"], depth + 1), denotation)

    def value(self, entry: Any) -> Value:
        """Return a value of the model, or decode a new one."""
        if isinstance(entry, dict) and "new" in entry:
            value = Value(text_of(entry["name"]), self.type(entry.get("type")))
            if "details" in entry:
                value._details = self.details(entry["details"])
            if "unknown" in entry:
                value._source = _message(ValueInfoProto, entry["unknown"])
            self._references.add(value, entry["new"])
            return value
        found: Value = self._references.find(entry, Value)
        return found

    def optional_value(self, entry: Any) -> Value | None:
        """Decode a value, or None."""
        return None if entry is None else self.value(entry)

    def values(self, entries: Sequence[Any]) -> tuple[Value | None, ...]:
        """Decode a list of values; None is an omitted one."""
        return tuple(self.optional_value(e) for e in entries)

    def known_values(self, entries: Sequence[Any]) -> Values:
        """Decode a list of values without omitted ones."""
        return Values(self.value(e) for e in entries)

    def node(self, entry: Any) -> Node:
        """Return a node that was removed, or decode a new one; it is in no graph yet."""
        if not isinstance(entry, dict):
            removed: Node = self._references.find(entry, Node)
            return removed
        outputs = self.values(entry["outputs"])
        node = Node(
            text_of(entry["op_type"]),
            self.values(entry["inputs"]),
            outputs,
            name=text_of(entry.get("name", "")),
            domain=text_of(entry.get("domain", "")),
            overload=text_of(entry.get("overload", "")),
            attributes={a["name"]: self.attribute(a) for a in entry.get("attributes", ())},
        )
        if "details" in entry:
            node._details = self.details(entry["details"])
        if "unknown" in entry:
            node._source = _message(NodeProto, entry["unknown"])
        self._references.add(node, entry["new"])
        return node

    def details(self, entry: Sequence[Any]) -> Details:
        """Decode texts, device configurations and edited messages."""
        return Details(text_of(entry[0]), texts_of(entry[1]), self.devices(entry[2]), self.messages(entry[3]))

    def messages(self, entry: Mapping[str, str]) -> dict[str, Any]:
        """Decode edited messages. The kind follows from the key, so a damaged recording cannot name a wrong one."""
        return {key: _message(_MESSAGES[key], data) for key, data in dict(entry).items()}

    def devices(self, entries: Sequence[str]) -> tuple[NodeDeviceConfiguration, ...]:
        """Decode the device configurations of a node."""
        return tuple(read_node_device_configuration(_message(NodeDeviceConfigurationProto, one)) for one in entries)

    def device(self, entry: str) -> DeviceConfiguration:
        """Decode a device configuration of the model."""
        return read_device_configuration(_message(DeviceConfigurationProto, entry))

    def graph(self, entry: Any) -> Graph:
        """Return a graph that was removed, or decode a new one."""
        if not isinstance(entry, dict):
            removed: Graph = self._references.find(entry, Graph)
            return removed
        self._depth += 1
        if self._depth > DEPTH_LIMIT:
            raise ModelError("The recording is damaged", f"Graphs are nested more than {DEPTH_LIMIT} deep.")
        graph = Graph(text_of(entry["name"]))
        self._graphs.append(graph)
        self._references.add(graph, entry["new"])
        graph.doc_string, graph.metadata = text_of(entry["doc_string"]), texts_of(entry["metadata"])
        graph.inputs = self.known_values(entry["inputs"])
        for reference, tensor in entry["initializers"]:
            value = self.value(reference)
            _refuse_others_value(value, graph)
            value.initializer = self.any_tensor(tensor)
            graph.initializers.append(value)
        for value in (*graph.inputs, *graph.initializers, *self.known_values(entry["values"])):
            _refuse_others_value(value, graph)
            value.graph = graph
        for node in map(self.node, entry["nodes"]):
            for output in node.outputs:
                _refuse_others_value(output, graph)
            InsertNode(graph, node).apply()
        SetGraphOutputs(graph, self.known_values(entry["outputs"])).apply()
        graph.declared = self.known_values(entry["declared"])
        graph.quantization_annotations = self.annotations(entry["quantization_annotations"])
        if "unknown" in entry:
            graph._source = _message(GraphProto, entry["unknown"])
        graph.messages = self.messages(entry.get("messages", {}))
        self._depth -= 1
        return graph

    def annotations(self, entries: Sequence[Any]) -> tuple[QuantizationAnnotation, ...]:
        """Decode quantization annotations: values and the values of their quantization parameters."""
        return tuple(
            QuantizationAnnotation(
                self.value(value),
                tuple((text_of(key), self.value(v)) for key, v in parameters),
                _kept(TensorAnnotation, kept),
            )
            for value, parameters, *kept in entries
        )

    def function(self, entry: Any) -> Function:
        """Return a function of the model, or decode a new one."""
        if not (isinstance(entry, dict) and "new" in entry):
            present: Function = self._references.find(entry, Function)
            return present
        domain, name, overload = map(text_of, entry["key"])
        function = Function(name, domain, overload, self.graph(entry["body"]))
        _refuse_outer_values(function)
        self._references.add(function, entry["new"])
        function.doc_string = text_of(entry["doc_string"])
        function.attributes = tuple(map(text_of, entry["attributes"]))
        function.attribute_defaults = tuple(self.attribute(a) for a in entry["attribute_defaults"])
        imports = dict(entry["opset_imports"])
        function.opset_imports = {text_of(domain): whole(version) for domain, version in imports.items()}
        function.metadata = texts_of(entry["metadata"])
        if "unknown" in entry:
            function._source = _message(FunctionProto, entry["unknown"])
        function.messages = self.messages(entry.get("messages", {}))
        return function

    def training(self, entry: Any) -> TrainingInfo:
        """Return training information of the model, or decode new one."""
        if not (isinstance(entry, dict) and "new" in entry):
            present: TrainingInfo = self._references.find(entry, TrainingInfo)
            return present
        graphs = [None if entry[k] is None else self.graph(entry[k]) for k in ("initialization", "algorithm")]
        training = TrainingInfo(*graphs)
        self._references.add(training, entry["new"])
        training.initialization_binding = pairs_of(entry["initialization_binding"])
        training.update_binding = pairs_of(entry["update_binding"])
        if "unknown" in entry:
            training._source = _message(TrainingInfoProto, entry["unknown"])
        training.messages = self.messages(entry.get("messages", {}))
        return training


def _refuse_others_value(value: Value | None, graph: Graph) -> None:
    """Raise ValueError if a value that a new graph defines is one of the model, or of a node already."""
    if value is not None and (value.graph not in (None, graph) or value.producer is not None):
        msg = f"the new graph {graph.name} defines {value.name}, which something else defines"
        raise ValueError(msg)


def _refuse_outer_values(function: Function) -> None:
    """Raise ValueError if nodes of a function use values of another graph."""
    inside = set(function.body.walk())
    for graph in inside:
        for value in (*graph.outputs, *(v for node in graph.nodes for v in node.inputs if v is not None)):
            if value.graph not in inside:
                msg = f"the function {function.name} uses {value.name}, which is not in it"
                raise ValueError(msg)


def _kept(kind: type[Any], entry: Sequence[str]) -> Any:
    """Decode the message that `ValueEncoder.kept` encoded, or None."""
    return _message(kind, entry[0]) if entry else None


def _message(kind: type[_AnyMessage], text: str) -> _AnyMessage:
    try:
        return kind.FromString(_unbase64(text))
    except DecodeError as error:
        raise ModelError("The recording is damaged", f"A {kind.__name__} in it: {error}.") from error


def text_of(content: Any) -> str:
    """Return a text of a recording; TypeError for anything else."""
    if not isinstance(content, str):
        msg = f"{content!r:.100} is not a string"
        raise TypeError(msg)
    return content


def whole(content: Any) -> int:
    """Return an integer of 64 bits in a recording; TypeError or ValueError for anything else."""
    if not isinstance(content, int) or isinstance(content, bool):
        msg = f"{content!r:.100} is not an integer"
        raise TypeError(msg)
    if not -(1 << 63) <= content < 1 << 63:
        msg = f"{content!r:.100} has more than 64 bits"
        raise ValueError(msg)
    return content


def texts_of(content: Any) -> dict[str, str]:
    """Return texts by texts, as metadata."""
    return {text_of(key): text_of(text) for key, text in dict(content).items()}


def pairs_of(content: Any) -> tuple[tuple[str, str], ...]:
    """Return pairs of texts, as bindings."""
    return tuple((text_of(first), text_of(second)) for first, second in content)


def _unbase64(text: str) -> bytes:
    return base64.b64decode(text)


#: Kinds of the edited messages of objects, by their keys: of a value, the field of its graph that lists it.
_MESSAGES: Mapping[str, type[Any]] = {
    kind.DESCRIPTOR.name: kind for kind in (ModelProto, GraphProto, FunctionProto, TrainingInfoProto, NodeProto)
} | dict.fromkeys(("input", "output", "value_info"), ValueInfoProto)

_DECODE: Mapping[AttributeKind, Any] = {
    AttributeKind.FLOAT: ValueDecoder.number,
    AttributeKind.TENSOR: ValueDecoder.tensor,
    AttributeKind.SPARSE_TENSOR: ValueDecoder.sparse_tensor,
    AttributeKind.GRAPH: ValueDecoder.graph,
    AttributeKind.TYPE_PROTO: ValueDecoder.type,
}
