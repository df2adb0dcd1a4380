"""Decoder of the JSON values that ValueEncoder writes."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.references import ReadReferences
from onnx_workbench.model.history.steps import InsertNode, SetGraphOutputs
from onnx_workbench.model.io.message_fields import read_message
from onnx_workbench.model.io.protobuf import (
    AttributeProto,
    DeviceConfigurationProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    SparseTensorProto,
    TensorAnnotation,
    TrainingInfoProto,
    ValueInfoProto,
)
from onnx_workbench.model.io.reader.decode import MessageDecoder
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor
from onnx_workbench.model.io.unknown_fields import fields_of
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute
from onnx_workbench.model.ir.devices import (
    DeviceConfiguration,
    NodeDeviceConfiguration,
    ShardedDimension,
    ShardingSpec,
)
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
from onnx_workbench.model.ir.unknown_fields import UnknownChange

_AnyMessage = TypeVar("_AnyMessage", bound=Message)

_DEEPEST = 100


class ValueDecoder:
    """Decoder of ValueEncoder's values. Raises ModelError, KeyError, TypeError or ValueError for invalid ones."""

    def __init__(self, references: ReadReferences) -> None:
        self._references = references
        self._depth = 0

    def attribute(self, entry: Mapping[str, Any]) -> Attribute:
        """Decode an attribute."""
        kind = AttributeKind[entry["kind"]]
        value = entry.get("value")
        decode = _DECODE.get(kind.element)
        if value is not None and decode is not None:
            value = tuple(decode(self, part) for part in value) if kind.is_list else decode(self, value)
        if value is not None:
            value = make_attribute(entry["name"], value, kind).value
        source = None
        if "source" in entry:
            proto = _message(AttributeProto, entry["source"])
            source = MessageDecoder(self._references.files).attribute(proto).source
        return Attribute(entry["name"], kind, value, entry.get("doc_string", ""), entry.get("reference", ""), source)

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
        kind, shape = ElementType(entry["type"]), tuple(int(d) for d in entry["shape"])
        texts = {"name": entry.get("name", ""), "doc_string": entry.get("doc_string", "")}
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
        return ArrayTensor(array, kind, metadata=entry.get("metadata"), **texts)

    def sparse_tensor(self, entry: Mapping[str, Any]) -> SparseTensor:
        """Decode a sparse tensor."""
        source = _message(SparseTensorProto, entry["unknown"]) if "unknown" in entry else None
        return SparseTensor(self.tensor(entry["values"]), self.tensor(entry["indices"]), tuple(entry["shape"]), source)

    def any_tensor(self, entry: Mapping[str, Any] | None) -> Tensor | SparseTensor | None:
        """Decode a dense or sparse tensor, or None."""
        if entry is None:
            return None
        return self.sparse_tensor(entry["sparse"]) if "sparse" in entry else self.tensor(entry)

    def type(self, entry: Mapping[str, Any] | None, depth: int = 0) -> Type | None:
        """Decode a type; None is no type."""
        if entry is None:
            return None
        if depth > _DEEPEST:
            raise ModelError("The recording is damaged", f"Types are nested more than {_DEEPEST} deep.")
        denotation = entry.get("denotation", "")
        shape = None
        if "shape" in entry:
            shape = Shape(tuple(entry["shape"]), tuple(entry.get("denotations", ())))
        if "tensor" in entry:
            return TensorType(element_type(entry["tensor"]), shape, denotation)
        if "sparse" in entry:
            return SparseTensorType(element_type(entry["sparse"]), shape, denotation)
        if "map" in entry:
            return MapType(element_type(entry["map"][0]), self.type(entry["map"][1], depth + 1), denotation)
        if "opaque" in entry:
            domain, name = entry["opaque"]
            return OpaqueType(domain, name, denotation)
        if "sequence" in entry:
            return SequenceType(self.type(entry["sequence"], depth + 1), denotation)
        return OptionalType(self.type(entry["optional"], depth + 1), denotation)

    def value(self, entry: Any) -> Value:
        """Return a value of the model, or decode a new one."""
        if isinstance(entry, dict) and "new" in entry:
            value = Value(entry["name"], self.type(entry.get("type")))
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
            known: Node = self._references.find(entry, Node)
            return known
        outputs = self.values(entry["outputs"])
        node = Node(
            entry["op_type"],
            self.values(entry["inputs"]),
            outputs,
            name=entry.get("name", ""),
            domain=entry.get("domain", ""),
            overload=entry.get("overload", ""),
            attributes={a["name"]: self.attribute(a) for a in entry.get("attributes", ())},
        )
        if "details" in entry:
            node._details = self.details(entry["details"])
        if "unknown" in entry:
            node._source = _message(NodeProto, entry["unknown"])
        self._references.add(node, entry["new"])
        return node

    def details(self, entry: Sequence[Any]) -> Details:
        """Decode texts, device configurations and changes of unknown fields."""
        return Details(entry[0], dict(entry[1]), self.devices(entry[2]), self.unknown_changes(entry[3]))

    def unknown_changes(self, entries: Sequence[Any]) -> tuple[UnknownChange, ...]:
        """Decode the changes of unknown fields."""
        return tuple(_unknown_change(*entry) for entry in entries)

    def devices(self, entries: Sequence[Any]) -> tuple[NodeDeviceConfiguration, ...]:
        """Decode the device configurations of a node."""
        return tuple(
            NodeDeviceConfiguration(name, tuple(map(_sharding, specs)), stage) for name, stage, specs in entries
        )

    def graph(self, entry: Any) -> Graph:
        """Return a graph that was removed, or decode a new one."""
        if not isinstance(entry, dict):
            known: Graph = self._references.find(entry, Graph)
            return known
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ModelError("The recording is damaged", f"Graphs are nested more than {_DEEPEST} deep.")
        graph = Graph(entry["name"])
        self._references.add(graph, entry["new"])
        graph.doc_string, graph.metadata = entry["doc_string"], dict(entry["metadata"])
        graph.inputs = self.known_values(entry["inputs"])
        for reference, tensor in entry["initializers"]:
            value = self.value(reference)
            value.initializer = self.any_tensor(tensor)
            graph.initializers.append(value)
        for value in (*graph.inputs, *graph.initializers, *self.known_values(entry["values"])):
            value.graph = graph
        for node in entry["nodes"]:
            InsertNode(graph, self.node(node)).apply()
        SetGraphOutputs(graph, self.known_values(entry["outputs"])).apply()
        graph.declared = self.known_values(entry["declared"])
        graph.quantization_annotations = self.annotations(entry["quantization_annotations"])
        if "unknown" in entry:
            graph._source = _message(GraphProto, entry["unknown"])
        self._depth -= 1
        return graph

    def annotations(self, entries: Sequence[Any]) -> tuple[QuantizationAnnotation, ...]:
        """Decode quantization annotations: values and the values of their quantization parameters."""
        return tuple(
            QuantizationAnnotation(
                self.value(value), tuple((key, self.value(v)) for key, v in parameters), _kept(TensorAnnotation, kept)
            )
            for value, parameters, *kept in entries
        )

    def function(self, entry: Any) -> Function:
        """Return a function of the model, or decode a new one."""
        if not (isinstance(entry, dict) and "new" in entry):
            known: Function = self._references.find(entry, Function)
            return known
        domain, name, overload = entry["key"]
        function = Function(name, domain, overload, self.graph(entry["body"]))
        self._references.add(function, entry["new"])
        function.doc_string = entry["doc_string"]
        function.attributes = tuple(entry["attributes"])
        function.attribute_defaults = tuple(self.attribute(a) for a in entry["attribute_defaults"])
        function.opset_imports, function.metadata = dict(entry["opset_imports"]), dict(entry["metadata"])
        if "unknown" in entry:
            function._source = _message(FunctionProto, entry["unknown"])
        function.unknown_changes = self.unknown_changes(entry["unknown_changes"])
        return function

    def training(self, entry: Any) -> TrainingInfo:
        """Return training information of the model, or decode new one."""
        if not (isinstance(entry, dict) and "new" in entry):
            known: TrainingInfo = self._references.find(entry, TrainingInfo)
            return known
        graphs = [None if entry[k] is None else self.graph(entry[k]) for k in ("initialization", "algorithm")]
        training = TrainingInfo(*graphs)
        self._references.add(training, entry["new"])
        training.initialization_binding = tuple((a, b) for a, b in entry["initialization_binding"])
        training.update_binding = tuple((a, b) for a, b in entry["update_binding"])
        if "unknown" in entry:
            training._source = _message(TrainingInfoProto, entry["unknown"])
        return training


def _kept(kind: type[Any], entry: Sequence[str]) -> Any:
    """Decode the message that `ValueEncoder.kept` encoded, or None."""
    return _message(kind, entry[0]) if entry else None


def _message(kind: type[_AnyMessage], text: str) -> _AnyMessage:
    try:
        return kind.FromString(_unbase64(text))
    except DecodeError as error:
        raise ModelError("The recording is damaged", f"A {kind.__name__} in it: {error}.") from error


def _unbase64(text: str) -> bytes:
    return base64.b64decode(text)


def _sharding(entry: Sequence[Any]) -> ShardingSpec:
    name, devices, groups, dimensions = entry
    return ShardingSpec(
        name,
        tuple(devices),
        tuple((key, tuple(members)) for key, members in groups),
        tuple(ShardedDimension(axis, tuple((size, count) for size, count in parts)) for axis, parts in dimensions),
    )


def _unknown_change(path: Sequence[Any], old: str, new: str) -> UnknownChange:
    found = bytes.fromhex(new)
    list(fields_of(found))  # raises for invalid bytes, which could not be saved
    steps = tuple((str(name), int(index), str(*key)) for name, index, *key in path)
    return UnknownChange(steps, bytes.fromhex(old), found)


def device_configuration(entry: Sequence[Any]) -> DeviceConfiguration:
    """Decode a device configuration of the model."""
    name, count, devices, *kept = entry
    return DeviceConfiguration(name, count, tuple(devices), _kept(DeviceConfigurationProto, kept))


_DECODE: Mapping[AttributeKind, Any] = {
    AttributeKind.FLOAT: ValueDecoder.number,
    AttributeKind.TENSOR: ValueDecoder.tensor,
    AttributeKind.SPARSE_TENSOR: ValueDecoder.sparse_tensor,
    AttributeKind.GRAPH: ValueDecoder.graph,
    AttributeKind.TYPE_PROTO: ValueDecoder.type,
}
