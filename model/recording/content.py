"""Steps and what they carry as JSON, and back. How objects are referred to is the business of a `References`."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from model.attributes import Attribute, AttributeKind, make_attribute
from model.devices import DeviceConfiguration, NodeDeviceConfiguration, ShardedDimension, ShardingSpec
from model.errors import ModelError
from model.graph import Details, Function, Graph, Node, QuantizationAnnotation, TrainingInfo, Value, Values
from model.io.decode import MessageDecoder, Origin
from model.io.messages import message_pieces, read_message
from model.io.payloads import Payload
from model.io.protobuf import AttributeProto, FunctionProto, GraphProto, NodeProto
from model.io.tensors import ProtoTensor, TensorFiles
from model.io.unknown import fields_of, has_unknown, own_unknown
from model.recording.store import Parts
from model.steps import InsertNode, SetGraphOutputs
from model.tensors import ArrayTensor, SparseTensor, Tensor
from model.types import (
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
from model.unknown import UnknownChange

_SMALL = 64  # elements that are written as numbers a person can read
_LARGE = 1 << 16  # bytes of values from which on they are kept beside a journal
_DEEPEST = 100


class References(Protocol):
    """Refers to objects of a model: by number or by name."""

    def of(self, target: Any) -> Any:
        """How an object that is in the model is written."""

    def find(self, reference: Any, kind: type[Any]) -> Any:
        """The object a reference means; ModelError when there is none."""

    def add(self, made: Any, reference: Any) -> None:
        """A new object comes with what is being read, under this reference."""

    def new(self, made: Any) -> Any:
        """The reference a new object gets while it is written."""

    def removed(self, node: Node) -> None:
        """A node leaves its graph with this step; later steps of the same edit may still speak of it."""

    def tensor(self, tensor: Tensor) -> Any:
        """How to refer to a tensor of the opened file instead of writing its values; None when it is not one."""

    def find_tensor(self, reference: Any) -> Tensor:
        """The tensor of the opened file."""

    def put(self, piece: Payload | tuple[int, Parts]) -> Any:
        """A reference to bytes that are too many for a line; None when they must be in it all the same."""

    def get(self, reference: Any) -> bytes:
        """The bytes of such a reference."""

    @property
    def files(self) -> TensorFiles:
        """Where tensors look for values in other files."""


class Encoder:
    """Writes content as JSON values."""

    def __init__(self, references: References) -> None:
        self._references = references

    def attribute(self, attribute: Attribute) -> dict[str, Any]:
        """An attribute with its kind."""
        entry: dict[str, Any] = {"name": attribute.name, "kind": attribute.kind.name}
        if attribute.reference:
            entry["reference"] = attribute.reference
        elif attribute.value is not None:
            entry["value"] = self._value_of(attribute)
        if attribute.doc_string:
            entry["doc_string"] = attribute.doc_string
        if isinstance(attribute.source, Origin) and has_unknown(attribute.source.proto):
            entry["source"] = _base64(_rest_of(attribute.source.proto))
        return entry

    def _value_of(self, attribute: Attribute) -> Any:
        value: Any = attribute.value
        encode = _ENCODE.get(attribute.kind.element)
        if encode is None:
            return value
        return [encode(self, part) for part in value] if attribute.kind.is_list else encode(self, value)

    def number(self, number: float) -> Any:
        """A float; the ones JSON lacks as texts."""
        return number if math.isfinite(number) else str(number)

    def tensor(self, tensor: Tensor) -> dict[str, Any]:
        """A tensor: a reference into the opened file, a few readable numbers, or its bytes; as it stands if broken."""
        known = self._references.tensor(tensor)
        if known is not None:
            return {"from": known}
        kind = tensor.element_type
        large = tensor.storage == "external" or tensor.nbytes > _LARGE
        if isinstance(tensor, ProtoTensor) and (large or tensor.problem or has_unknown(tensor.source)):
            return {"message": [self._piece(piece) for piece in message_pieces(tensor)]}
        entry: dict[str, Any] = {"type": int(kind), "shape": list(tensor.shape)}
        for field in ("name", "doc_string"):
            if getattr(tensor, field):
                entry[field] = getattr(tensor, field)
        if tensor.metadata:
            entry["metadata"] = dict(tensor.metadata)
        assert isinstance(kind, ElementType)
        if tensor.nbytes > _LARGE and (put := self._references.put((tensor.nbytes, lambda: _packed(tensor, kind)))):
            entry["at"] = put
            return entry
        values = tensor.numpy()
        if kind is ElementType.STRING:
            entry["values"] = [str(text) for text in values.reshape(-1)]
        elif tensor.size <= _SMALL and kind in _READABLE:
            entry["values"] = [self.number(v) if isinstance(v, float) else v for v in values.reshape(-1).tolist()]
        else:
            entry["bytes"] = _base64(b"".join(_packed(tensor, kind)))
        return entry

    def _piece(self, piece: bytes | Payload) -> Any:
        if isinstance(piece, Payload):
            return self._references.put(piece) or _base64(piece.read())
        put = self._references.put((len(piece), lambda: [piece])) if len(piece) > _LARGE else None
        return put or _base64(piece)

    def sparse_tensor(self, tensor: SparseTensor) -> dict[str, Any]:
        """Values, indices and the dense shape."""
        return {
            "values": self.tensor(tensor.values),
            "indices": self.tensor(tensor.indices),
            "shape": list(tensor.shape),
        }

    def any_tensor(self, tensor: Tensor | SparseTensor | None) -> Any:
        """Either kind, or None."""
        if tensor is None:
            return None
        return {"sparse": self.sparse_tensor(tensor)} if isinstance(tensor, SparseTensor) else self.tensor(tensor)

    def type(self, kind: Type | None) -> Any:
        """A type; None when there is none."""
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
        """A new value."""
        entry: dict[str, Any] = {"new": self._references.new(value), "name": value.name}
        if value.type is not None:
            entry["type"] = self.type(value.type)
        if value.doc_string or value.metadata:
            entry["details"] = [value.doc_string, dict(value.metadata)]
        return entry

    def value_or_reference(self, value: Value | None) -> Any:
        """A value that is in the model, or a new one, or None."""
        if value is None:
            return None
        known = self._references.of(value)
        return self.value(value) if known is None else known

    def values(self, values: Sequence[Value | None]) -> list[Any]:
        """Several of them."""
        return [self.value_or_reference(v) for v in values]

    def node_or_reference(self, node: Node) -> Any:
        """A node that was taken out and comes back, or a new one."""
        known = self._references.of(node)
        return self.node(node) if known is None else known

    def node(self, node: Node) -> dict[str, Any]:
        """A new node with its attributes, bodies included; wires by reference."""
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

    def unknown(self, target: Node | Graph | Function) -> dict[str, Any]:
        """What its message holds that onnx.proto does not know, if anything."""
        data = own_unknown(target._source)
        return {"unknown": _base64(data)} if data else {}

    def details(self, details: Details) -> list[Any]:
        """Texts, device configurations and changes of unknown fields."""
        devices, changes = details.device_configurations, details.unknown_changes
        return [details.doc_string, dict(details.metadata), self.devices(devices), self.unknown_changes(changes)]

    def unknown_changes(self, changes: Sequence[UnknownChange]) -> list[Any]:
        """What is changed of unknown fields, as bytes on the wire."""
        return [[[list(step) for step in c.path], c.old.hex(), c.new.hex()] for c in changes]

    def devices(self, configurations: Sequence[NodeDeviceConfiguration]) -> list[Any]:
        """How a node is spread."""
        return [
            [
                c.configuration_id,
                c.pipeline_stage,
                [
                    [s.tensor_name, list(s.devices), [[k, list(v)] for k, v in s.device_groups],
                     [[d.axis, [list(p) for p in d.shards]] for d in s.dimensions]]
                    for s in c.sharding
                ],
            ]
            for c in configurations
        ]  # fmt: skip

    def graph(self, graph: Graph) -> dict[str, Any]:
        """A new graph with everything in it."""
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
            **self.unknown(graph),
        }

    def annotations(self, annotations: Sequence[QuantizationAnnotation]) -> list[Any]:
        """Which values hold the quantisation parameters of which."""
        return [
            [self.value_or_reference(a.value), [[key, self.value_or_reference(v)] for key, v in a.parameters]]
            for a in annotations
        ]

    def function(self, function: Function) -> Any:
        """A function that is in the model by reference, a new one with its body."""
        known = self._references.of(function)
        if known is not None:
            return known
        return {
            "new": self._references.new(function),
            "key": list(function.key),
            "doc_string": function.doc_string,
            "attributes": list(function.attributes),
            "attribute_defaults": [self.attribute(a) for a in function.attribute_defaults],
            "opset_imports": dict(function.opset_imports),
            "metadata": dict(function.metadata),
            "unknown_changes": self.unknown_changes(function.unknown_changes),
            "body": self.graph(function.body),
            **self.unknown(function),
        }

    def training(self, training: TrainingInfo) -> Any:
        """Training information by reference, or a new one with its graphs."""
        known = self._references.of(training)
        if known is not None:
            return known
        return {
            "new": self._references.new(training),
            "initialization": training.initialization and self.graph(training.initialization),
            "algorithm": training.algorithm and self.graph(training.algorithm),
            "initialization_binding": [list(p) for p in training.initialization_binding],
            "update_binding": [list(p) for p in training.update_binding],
        }


_READABLE = frozenset({
    ElementType.FLOAT, ElementType.DOUBLE, ElementType.INT8, ElementType.INT16, ElementType.INT32,
    ElementType.INT64, ElementType.UINT8, ElementType.UINT16, ElementType.UINT32, ElementType.UINT64,
    ElementType.BOOL,
})  # fmt: skip

_ENCODE: Mapping[AttributeKind, Any] = {
    AttributeKind.FLOAT: Encoder.number,
    AttributeKind.TENSOR: Encoder.tensor,
    AttributeKind.SPARSE_TENSOR: Encoder.sparse_tensor,
    AttributeKind.GRAPH: Encoder.graph,
    AttributeKind.TYPE_PROTO: Encoder.type,
}


class Decoder:
    """Reads what an Encoder wrote. ModelError, KeyError, TypeError or ValueError for what nobody wrote."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._depth = 0

    def attribute(self, entry: Mapping[str, Any]) -> Attribute:
        """An attribute."""
        kind = AttributeKind[entry["kind"]]
        value = entry.get("value")
        decode = _DECODE.get(kind.element)
        if value is not None and decode is not None:
            value = tuple(decode(self, part) for part in value) if kind.is_list else decode(self, value)
        if value is not None:
            value = make_attribute(entry["name"], value, kind).value
        source = None
        if "source" in entry:
            proto = AttributeProto.FromString(_unbase64(entry["source"]))
            source = MessageDecoder(self._references.files).attribute(proto).source
        return Attribute(entry["name"], kind, value, entry.get("doc_string", ""), entry.get("reference", ""), source)

    def number(self, number: Any) -> float:
        """A float."""
        return float(number)

    def tensor(self, entry: Mapping[str, Any]) -> Tensor:
        """A tensor; its size is held against the bytes that are there before anything is made of it."""
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
            from model.io.packing import unpack

            data = self._references.get(entry["at"]) if "at" in entry else _unbase64(entry["bytes"])
            count = math.prod(shape)
            if min(shape, default=0) < 0 or len(data) != (count * kind.bits + 7) // 8:
                raise ModelError("The recording is damaged", f"{len(data)} bytes for a tensor of {list(shape)}.")
            array = unpack(data, kind, count).reshape(shape)
        return ArrayTensor(array, kind, metadata=entry.get("metadata"), **texts)

    def sparse_tensor(self, entry: Mapping[str, Any]) -> SparseTensor:
        """A sparse tensor."""
        return SparseTensor(self.tensor(entry["values"]), self.tensor(entry["indices"]), tuple(entry["shape"]))

    def any_tensor(self, entry: Mapping[str, Any] | None) -> Tensor | SparseTensor | None:
        """Either kind, or None."""
        if entry is None:
            return None
        return self.sparse_tensor(entry["sparse"]) if "sparse" in entry else self.tensor(entry)

    def type(self, entry: Mapping[str, Any] | None, depth: int = 0) -> Type | None:
        """A type."""
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
        """A value that is there, or a new one."""
        if isinstance(entry, dict) and "new" in entry:
            value = Value(entry["name"], self.type(entry.get("type")))
            if "details" in entry:
                value._details = Details(*entry["details"])
            self._references.add(value, entry["new"])
            return value
        found: Value = self._references.find(entry, Value)
        return found

    def optional_value(self, entry: Any) -> Value | None:
        """The same, or None."""
        return None if entry is None else self.value(entry)

    def values(self, entries: Sequence[Any]) -> tuple[Value | None, ...]:
        """Several, some left out."""
        return tuple(self.optional_value(e) for e in entries)

    def known_values(self, entries: Sequence[Any]) -> Values:
        """Several, none left out."""
        return Values(self.value(e) for e in entries)

    def node(self, entry: Any) -> Node:
        """A new node or one that was taken out; in no graph yet."""
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
            node._source = NodeProto.FromString(_unbase64(entry["unknown"]))
        self._references.add(node, entry["new"])
        return node

    def details(self, entry: Sequence[Any]) -> Details:
        """Texts, device configurations and changes of unknown fields."""
        return Details(entry[0], dict(entry[1]), self.devices(entry[2]), self.unknown_changes(entry[3]))

    def unknown_changes(self, entries: Sequence[Any]) -> tuple[UnknownChange, ...]:
        """What is changed of unknown fields."""
        return tuple(_unknown_change(*entry) for entry in entries)

    def devices(self, entries: Sequence[Any]) -> tuple[NodeDeviceConfiguration, ...]:
        """How a node is spread."""
        return tuple(
            NodeDeviceConfiguration(name, tuple(map(_sharding, specs)), stage) for name, stage, specs in entries
        )

    def graph(self, entry: Mapping[str, Any]) -> Graph:
        """A new graph."""
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
            graph._source = GraphProto.FromString(_unbase64(entry["unknown"]))
        self._depth -= 1
        return graph

    def annotations(self, entries: Sequence[Any]) -> tuple[QuantizationAnnotation, ...]:
        """Which values hold the quantisation parameters of which."""
        return tuple(
            QuantizationAnnotation(self.value(value), tuple((key, self.value(v)) for key, v in parameters))
            for value, parameters in entries
        )

    def function(self, entry: Any) -> Function:
        """A function that is there, or a new one."""
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
            function._source = FunctionProto.FromString(_unbase64(entry["unknown"]))
        function.unknown_changes = self.unknown_changes(entry["unknown_changes"])
        return function

    def training(self, entry: Any) -> TrainingInfo:
        """Training information that is there, or new."""
        if not (isinstance(entry, dict) and "new" in entry):
            known: TrainingInfo = self._references.find(entry, TrainingInfo)
            return known
        graphs = [None if entry[k] is None else self.graph(entry[k]) for k in ("initialization", "algorithm")]
        training = TrainingInfo(*graphs)
        self._references.add(training, entry["new"])
        training.initialization_binding = tuple((a, b) for a, b in entry["initialization_binding"])
        training.update_binding = tuple((a, b) for a, b in entry["update_binding"])
        return training


def _rest_of(proto: AttributeProto) -> bytes:
    """The message of an attribute without its value, which is written as such; types keep what is in them."""
    rest = AttributeProto()
    rest.CopyFrom(proto)
    for field in _VALUES:
        rest.ClearField(field)
    return rest.SerializeToString()


_VALUES = ("f", "i", "s", "t", "g", "sparse_tensor", "floats", "ints", "strings", "tensors", "graphs", "sparse_tensors")


def _packed(tensor: Tensor, kind: ElementType) -> list[bytes]:
    from model.io.packing import pack

    return [pack(tensor.numpy(), kind)]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


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
    list(fields_of(found))  # raises for what could not be saved
    return UnknownChange(tuple((str(name), int(index)) for name, index in path), bytes.fromhex(old), found)


def device_configuration(entry: Sequence[Any]) -> DeviceConfiguration:
    """A device configuration of the model from its parts."""
    name, count, devices = entry
    return DeviceConfiguration(name, count, tuple(devices))


_DECODE: Mapping[AttributeKind, Any] = {
    AttributeKind.FLOAT: Decoder.number,
    AttributeKind.TENSOR: Decoder.tensor,
    AttributeKind.SPARSE_TENSOR: Decoder.sparse_tensor,
    AttributeKind.GRAPH: Decoder.graph,
    AttributeKind.TYPE_PROTO: Decoder.type,
}
