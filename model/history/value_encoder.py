"""Encoder of the contents of steps as JSON values. References to objects are left to `WriteReferences`."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

from onnx_workbench.model.history.references import WriteReferences
from onnx_workbench.model.io.protobuf import AttributeProto, TensorProto
from onnx_workbench.model.io.reader.decode import MessageOrigin
from onnx_workbench.model.io.reader.payloads import Payload
from onnx_workbench.model.io.reader.source import BytesSource
from onnx_workbench.model.io.tensors.packed_source import PackedSource
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor, message_pieces
from onnx_workbench.model.io.unknown_fields import has_unknown, own_unknown
from onnx_workbench.model.io.writer.encode import device_message, node_device_message
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.devices import DeviceConfiguration, NodeDeviceConfiguration
from onnx_workbench.model.ir.graph import Function, Graph, Node, QuantizationAnnotation, TrainingInfo, Value
from onnx_workbench.model.ir.lazy_details import NO_DETAILS, Details
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.ir.types import (
    ElementType,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    Type,
)

_SMALL = 64  # maximum number of elements written as readable numbers
_LARGE = 1 << 16  # size in bytes above which values are stored outside the entry


class ValueEncoder:
    """Encoder of content as JSON values; with `defer_tensors`, dense tensors stay objects, to be encoded later."""

    def __init__(self, references: WriteReferences, *, defer_tensors: bool = False) -> None:
        self._references = references
        self._defers = defer_tensors

    def attribute(self, attribute: Attribute) -> dict[str, Any]:
        """Encode an attribute with its kind."""
        entry: dict[str, Any] = {"name": attribute.name, "kind": attribute.kind.name}
        if attribute.reference:
            entry["reference"] = attribute.reference
        elif attribute.value is not None:
            entry["value"] = self._value_of(attribute)
        if attribute.doc_string:
            entry["doc_string"] = attribute.doc_string
        if isinstance(attribute.source, MessageOrigin) and has_unknown(attribute.source.proto):
            entry["source"] = _base64(_rest_of(attribute.source.proto))
        return entry

    def _value_of(self, attribute: Attribute) -> Any:
        value: Any = attribute.value
        encode = _ENCODE.get(attribute.kind.element)
        if encode is None:
            return value
        return [encode(self, part) for part in value] if attribute.kind.is_list else encode(self, value)

    def number(self, number: float) -> Any:
        """Encode a float; infinities and NaN, which JSON lacks, as texts."""
        return number if math.isfinite(number) else str(number)

    def tensor(self, tensor: Tensor) -> dict[str, Any] | Tensor:
        """Encode a tensor: a reference to the opened file, readable numbers or bytes; an invalid one as its message."""
        if self._defers:
            return tensor
        reference = self._references.tensor(tensor)
        if reference is not None:
            return {"from": reference}
        kind = tensor.element_type
        large = tensor.storage == "external" or tensor.nbytes > _LARGE
        if isinstance(tensor, ProtoTensor) and (large or tensor.problem or _says_more(tensor.source)):
            return {"message": [self._piece(piece) for piece in message_pieces(tensor)]}
        entry: dict[str, Any] = {"type": int(kind), "shape": list(tensor.shape)}
        for field in ("name", "doc_string"):
            if getattr(tensor, field):
                entry[field] = getattr(tensor, field)
        if tensor.metadata:
            entry["metadata"] = dict(tensor.metadata)
        assert isinstance(kind, ElementType)
        source = PackedSource(tensor, kind)
        if source.size > _LARGE and (put := self._references.store(Payload(source, 0, source.size))):
            entry["at"] = put
            return entry
        values = tensor.numpy()
        if kind is ElementType.STRING:
            entry["values"] = [str(text) for text in values.reshape(-1)]
        elif tensor.size <= _SMALL and kind in _READABLE:
            entry["values"] = [self.number(v) if isinstance(v, float) else v for v in values.reshape(-1).tolist()]
        else:
            entry["bytes"] = _base64(source.read(0, source.size))
        return entry

    def _piece(self, piece: bytes | Payload) -> Any:
        if isinstance(piece, Payload):
            return self._references.store(piece) or _base64(piece.read())
        put = self._references.store(Payload(BytesSource(piece), 0, len(piece))) if len(piece) > _LARGE else None
        return put or _base64(piece)

    def sparse_tensor(self, tensor: SparseTensor) -> dict[str, Any]:
        """Encode values, indices and the dense shape."""
        return {
            "values": self.tensor(tensor.values),
            "indices": self.tensor(tensor.indices),
            "shape": list(tensor.shape),
            **({"unknown": _base64(data)} if (data := own_unknown(tensor.source)) else {}),
        }

    def any_tensor(self, tensor: Tensor | SparseTensor | None) -> Any:
        """Encode a dense or sparse tensor, or None."""
        if tensor is None:
            return None
        return {"sparse": self.sparse_tensor(tensor)} if isinstance(tensor, SparseTensor) else self.tensor(tensor)

    def type(self, kind: Type | None) -> Any:
        """Encode a type, or None."""
        if kind is None:
            return None
        entry: dict[str, Any] = {}
        match kind:
            case TensorType() | SparseTensorType():
                entry["sparse" if isinstance(kind, SparseTensorType) else "tensor"] = int(kind.element_type)
                if kind.shape is not None:
                    entry["shape"] = list(kind.shape.dims)
                    if kind.shape.denotations:
                        entry["denotations"] = list(kind.shape.denotations)
            case SequenceType() | OptionalType():
                entry["sequence" if isinstance(kind, SequenceType) else "optional"] = self.type(kind.element)
            case MapType():
                entry["map"] = [int(kind.key_type), self.type(kind.value)]
            case OpaqueType():
                entry["opaque"] = [kind.domain, kind.name]
        if kind.denotation:
            entry["denotation"] = kind.denotation
        return entry

    def value(self, value: Value) -> dict[str, Any]:
        """Encode a new value."""
        entry: dict[str, Any] = {"new": self._references.new(value), "name": value.name}
        if value.type is not None:
            entry["type"] = self.type(value.type)
        details = value.details
        if details != NO_DETAILS:
            entry["details"] = self.details(details)
        return entry | self.unknown(value)

    def reference(self, target: Any) -> Any:
        """Return the reference to an object of the model."""
        return self._references.of(target)

    def value_or_reference(self, value: Value | None) -> Any:
        """Encode a new value; return the reference to one of the model; None for None."""
        if value is None:
            return None
        reference = self._references.of(value)
        return self.value(value) if reference is None else reference

    def values(self, values: Sequence[Value | None]) -> list[Any]:
        """Encode a list of values."""
        return [self.value_or_reference(v) for v in values]

    def node_or_reference(self, node: Node) -> Any:
        """Return the reference to a node of the recording, which was removed before; encode a new one."""
        reference = self._references.of(node)
        return self.node(node) if reference is None else reference

    def node(self, node: Node) -> dict[str, Any]:
        """Encode a new node with its attributes and bodies; inputs and outputs as references."""
        entry: dict[str, Any] = {"new": self._references.new(node), "op_type": node.op_type}
        for field in ("domain", "overload", "name"):
            if getattr(node, field):
                entry[field] = getattr(node, field)
        entry["outputs"] = self.values(node.outputs)
        entry["inputs"] = self.values(node.inputs)
        if node.attributes:
            entry["attributes"] = [self.attribute(a) for a in node.attributes.values()]
        if node.details != Details():
            entry["details"] = self.details(node.details)
        return entry | self.unknown(node)

    def unknown(self, target: Node | Graph | Function | Value | TrainingInfo) -> dict[str, Any]:
        """Encode the unknown fields of the object's message, including those in elements of its repeated fields."""
        data = _unknown_in(target._source)
        return {"unknown": _base64(data)} if data else {}

    def kept(self, source: Any) -> list[str]:
        """Encode the message an object was read from, if it contains fields unknown to onnx.proto."""
        return [_base64(source.SerializeToString())] if source is not None and has_unknown(source) else []

    def details(self, details: Details) -> list[Any]:
        """Encode texts, device configurations and edited messages."""
        devices, messages = details.device_configurations, details.messages
        return [details.doc_string, dict(details.metadata), self.devices(devices), self.messages(messages)]

    def messages(self, messages: Mapping[str, Any]) -> dict[str, str]:
        """Encode edited messages, as bytes of the wire format."""
        return {key: _base64(message.SerializeToString()) for key, message in messages.items()}

    def devices(self, configurations: Sequence[NodeDeviceConfiguration]) -> list[str]:
        """Encode the device configurations of a node as messages."""
        return [_base64(node_device_message(c).SerializeToString()) for c in configurations]

    def device(self, configuration: DeviceConfiguration) -> str:
        """Encode a device configuration of the model as a message."""
        return _base64(device_message(configuration).SerializeToString())

    def graph(self, graph: Graph) -> Any:
        """Return the reference to a graph that was removed before; encode a new one."""
        reference = self._references.of(graph)
        return self._new_graph(graph) if reference is None else reference

    def _new_graph(self, graph: Graph) -> dict[str, Any]:
        return {
            "new": self._references.new(graph),
            "name": graph.name,
            "doc_string": graph.doc_string,
            "metadata": dict(graph.metadata),
            "inputs": self.values(graph.inputs),
            "initializers": [[self.value_or_reference(v), self.any_tensor(v.initializer)] for v in graph.initializers],
            # every value before any node, so that nodes in any order and bodies can refer to it
            "values": [self.value(v) for v in graph.values() if self._references.of(v) is None],
            "nodes": [self.node(n) for n in graph.nodes],
            "outputs": self.values(graph.outputs),
            "declared": self.values(graph.declared),
            "quantization_annotations": self.annotations(graph.quantization_annotations),
            "messages": self.messages(graph.messages),
            **self.unknown(graph),
        }

    def annotations(self, annotations: Sequence[QuantizationAnnotation]) -> list[Any]:
        """Encode quantization annotations: values and the values of their quantization parameters."""
        return [
            [
                self.value_or_reference(a.value),
                [[key, self.value_or_reference(v)] for key, v in a.parameters],
                *self.kept(a.source),
            ]
            for a in annotations
        ]

    def function(self, function: Function) -> Any:
        """Return the reference to a function of the model; encode a new one with its body."""
        reference = self._references.of(function)
        if reference is not None:
            return reference
        return {
            "new": self._references.new(function),
            "key": list(function.key),
            "doc_string": function.doc_string,
            "attributes": list(function.attributes),
            "attribute_defaults": [self.attribute(a) for a in function.attribute_defaults],
            "opset_imports": dict(function.opset_imports),
            "metadata": dict(function.metadata),
            "messages": self.messages(function.messages),
            "body": self.graph(function.body),
            **self.unknown(function),
        }

    def training(self, training: TrainingInfo) -> Any:
        """Return the reference to training information; encode new one with its graphs."""
        reference = self._references.of(training)
        if reference is not None:
            return reference
        return {
            "new": self._references.new(training),
            "initialization": training.initialization and self.graph(training.initialization),
            "algorithm": training.algorithm and self.graph(training.algorithm),
            "initialization_binding": [list(p) for p in training.initialization_binding],
            "update_binding": [list(p) for p in training.update_binding],
            "messages": self.messages(training.messages),
            **self.unknown(training),
        }


def _says_more(message: TensorProto) -> bool:
    """Return whether a tensor's message has fields besides what a readable entry holds."""
    more = ("external_data", "data_location", "segment")
    return has_unknown(message) or any(field.name in more for field, _ in message.ListFields())


_READABLE = frozenset({
    ElementType.FLOAT, ElementType.DOUBLE, ElementType.INT8, ElementType.INT16, ElementType.INT32,
    ElementType.INT64, ElementType.UINT8, ElementType.UINT16, ElementType.UINT32, ElementType.UINT64,
    ElementType.BOOL,
})  # fmt: skip

_ENCODE: Mapping[AttributeKind, Any] = {
    AttributeKind.FLOAT: ValueEncoder.number,
    AttributeKind.TENSOR: ValueEncoder.tensor,
    AttributeKind.SPARSE_TENSOR: ValueEncoder.sparse_tensor,
    AttributeKind.GRAPH: ValueEncoder.graph,
    AttributeKind.TYPE_PROTO: ValueEncoder.type,
}


def _unknown_in(source: Any) -> bytes:
    """Return a serialized message of only the unknown fields of `source`, nested ones included; empty if none."""
    if source is None:
        return b""
    rest = type(source).FromString(own_unknown(source))
    for field in _IN_PARTS:
        if field in source.DESCRIPTOR.fields_by_name:
            getattr(rest, field).MergeFrom(getattr(source, field))
    return rest.SerializeToString() if has_unknown(rest) else b""


#: Messages that are otherwise encoded as texts and numbers, without their unknown fields.
_IN_PARTS = (
    "type", "metadata_props", "device_configurations", "opset_import", "initialization_binding", "update_binding",
)  # fmt: skip


def _rest_of(proto: AttributeProto) -> bytes:
    """Return the serialized message of an attribute without its value, which is encoded separately."""
    rest = AttributeProto()
    rest.CopyFrom(proto)
    for field in _VALUES:
        rest.ClearField(field)
    return rest.SerializeToString()


_VALUES = ("f", "i", "s", "t", "g", "sparse_tensor", "floats", "ints", "strings", "tensors", "graphs", "sparse_tensors")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
