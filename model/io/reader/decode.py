"""Decode messages to immutable parts of the IR: attributes, types, details. Called lazily on first access."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

from onnx_workbench.model.io.protobuf import (
    AttributeProto,
    DeviceConfigurationProto,
    GraphProto,
    NodeDeviceConfigurationProto,
    NodeProto,
    ShardingSpecProto,
    SparseTensorProto,
    StringStringEntryProto,
    TensorShapeProto,
    TypeProto,
    ValueInfoProto,
    text,
)
from onnx_workbench.model.io.reader.payloads import Payload
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor, TensorFiles
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.devices import (
    DeviceConfiguration,
    NodeDeviceConfiguration,
    ShardedDimension,
    ShardingSpec,
)
from onnx_workbench.model.ir.graph import Graph
from onnx_workbench.model.ir.lazy_details import NO_DETAILS, Details
from onnx_workbench.model.ir.tensors import SparseTensor
from onnx_workbench.model.ir.types import (
    MOST_DIMENSIONS,
    Dimension,
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


class MessageOrigin(NamedTuple):
    """The message an attribute was read from, and the kind and value decoded from it.

    An attribute that still has this very value is written back as that message.
    """

    proto: AttributeProto
    kind: AttributeKind
    value: Any
    files: TensorFiles


GraphReader = Callable[[GraphProto], Graph]


class MessageDecoder:
    """Implementation of `DetailsDecoder` for one file. Reads only messages, and long strings left in the file."""

    def __init__(self, files: TensorFiles) -> None:
        self.files = files

    def attributes(self, source: NodeProto) -> dict[str, Attribute]:
        """Return the attributes of a node without subgraphs, in file order; of duplicates the first."""
        return self.read_attributes(source.attribute, None)

    def read_attributes(self, protos: Iterable[AttributeProto], read_graph: GraphReader | None) -> dict[str, Attribute]:
        """Return attributes by name; `read_graph` creates the subgraphs."""
        attributes: dict[str, Attribute] = {}
        for proto in protos:
            attribute = self.attribute(proto, read_graph)
            attributes.setdefault(attribute.name, attribute)
        return attributes

    def attribute(self, proto: AttributeProto, read_graph: GraphReader | None = None) -> Attribute:
        """Decode one attribute. Files before IR version 2 have no `type`: then the field that is set determines it."""
        kind = _kind(proto)
        reference = text(proto.ref_attr_name)
        value = None if reference else self._value(proto, kind, read_graph)
        return Attribute(
            text(proto.name),
            kind,
            value,
            text(proto.doc_string),
            reference,
            source=MessageOrigin(proto, kind, value, self.files),
        )

    def _value(self, proto: AttributeProto, kind: AttributeKind, read_graph: GraphReader | None) -> Any:
        match kind:
            case AttributeKind.INT:
                return proto.i
            case AttributeKind.INTS:
                return tuple(proto.ints)
            case AttributeKind.FLOAT:
                return proto.f
            case AttributeKind.FLOATS:
                return tuple(proto.floats)
            case AttributeKind.STRING:
                return self._string(proto.s)
            case AttributeKind.STRINGS:
                texts = {value: self._string(value) for value in set(proto.strings)}  # trees repeat a few of them
                return tuple([texts[value] for value in proto.strings])
            case AttributeKind.TENSOR:
                return ProtoTensor(proto.t, self.files) if proto.HasField("t") else None
            case AttributeKind.TENSORS:
                return tuple(ProtoTensor(tensor, self.files) for tensor in proto.tensors)
            case AttributeKind.SPARSE_TENSOR:
                return self.sparse_tensor(proto.sparse_tensor) if proto.HasField("sparse_tensor") else None
            case AttributeKind.SPARSE_TENSORS:
                return tuple(self.sparse_tensor(tensor) for tensor in proto.sparse_tensors)
            case AttributeKind.TYPE_PROTO:
                return read_type(proto.tp) if proto.HasField("tp") else None
            case AttributeKind.TYPE_PROTOS:
                return tuple(read_type(value) for value in proto.type_protos)
            case AttributeKind.GRAPH:
                return read_graph(proto.g) if read_graph is not None and proto.HasField("g") else None
            case AttributeKind.GRAPHS:
                return tuple(read_graph(graph) for graph in proto.graphs) if read_graph is not None else ()
            case AttributeKind.UNDEFINED:
                return None

    def _string(self, value: bytes) -> str:
        table = self.files.table
        if table is not None and len(value) == 24:
            pieces = table.split(value)
            value = b"".join(p.read() if isinstance(p, Payload) else p for p in pieces)
        return value.decode("utf-8", "surrogateescape")

    def sparse_tensor(self, proto: SparseTensorProto) -> SparseTensor:
        """Decode a sparse tensor; values and indices stay in the file."""
        values, indices = ProtoTensor(proto.values, self.files), ProtoTensor(proto.indices, self.files)
        return SparseTensor(values, indices, tuple(proto.dims[:MOST_DIMENSIONS]), source=proto)

    def node_details(self, source: NodeProto) -> Details:
        """Decode texts and device configurations of a node."""
        if not (source.doc_string or source.metadata_props or source.device_configurations):
            return NO_DETAILS
        return Details(
            text(source.doc_string),
            read_entries(source.metadata_props),
            tuple(read_node_device_configuration(c) for c in source.device_configurations),
        )

    def value_type(self, source: ValueInfoProto) -> Type | None:
        """Return the declared type of a value, or None."""
        return read_type(source.type) if source.HasField("type") else None

    def value_details(self, source: ValueInfoProto) -> Details:
        """Return the texts of a value."""
        return read_value_details(source)


def read_value_details(proto: ValueInfoProto) -> Details:
    """Return the texts of a value."""
    if not (proto.doc_string or proto.metadata_props):
        return NO_DETAILS
    return Details(text(proto.doc_string), read_entries(proto.metadata_props))


_IMPLIED_KINDS = (
    ("f", AttributeKind.FLOAT), ("i", AttributeKind.INT), ("s", AttributeKind.STRING), ("t", AttributeKind.TENSOR),
    ("g", AttributeKind.GRAPH), ("sparse_tensor", AttributeKind.SPARSE_TENSOR), ("tp", AttributeKind.TYPE_PROTO),
)  # fmt: skip
_IMPLIED_LISTS = (
    ("ints", AttributeKind.INTS), ("floats", AttributeKind.FLOATS), ("strings", AttributeKind.STRINGS),
    ("tensors", AttributeKind.TENSORS), ("graphs", AttributeKind.GRAPHS),
    ("sparse_tensors", AttributeKind.SPARSE_TENSORS), ("type_protos", AttributeKind.TYPE_PROTOS),
)  # fmt: skip


def _kind(proto: AttributeProto) -> AttributeKind:
    if proto.type:
        return AttributeKind(proto.type)
    for name, kind in _IMPLIED_KINDS:
        if proto.HasField(name):
            return kind
    for name, kind in _IMPLIED_LISTS:
        if len(getattr(proto, name)):
            return kind
    return AttributeKind.UNDEFINED


def has_graphs(proto: NodeProto) -> bool:
    """Return whether any attribute of a node holds a graph, whether or not it is decoded (see `bodies`)."""
    attributes = proto.attribute
    return bool(attributes) and any(attribute.HasField("g") or attribute.graphs for attribute in attributes)


def bodies(proto: NodeProto) -> list[GraphProto]:
    """Return the subgraph messages of a node in the order in which `MessageDecoder.read_attributes` creates graphs.

    A graph in another field than the one for the attribute's type is ignored, as is one in a duplicate attribute.
    """
    if not has_graphs(proto):
        return []
    graphs: dict[str, list[GraphProto]] = {}
    for attribute in proto.attribute:
        kind = AttributeKind.UNDEFINED if attribute.ref_attr_name else _kind(attribute)
        single = [attribute.g] if kind is AttributeKind.GRAPH and attribute.HasField("g") else []
        graphs.setdefault(attribute.name, list(attribute.graphs) if kind is AttributeKind.GRAPHS else single)
    return list(chain.from_iterable(graphs.values()))


def read_entries(entries: Iterable[StringStringEntryProto]) -> Mapping[str, str]:
    """Return keys and values; of duplicates the last, as in a protobuf map."""
    return {text(entry.key): text(entry.value) for entry in entries}


def read_pairs(entries: Iterable[StringStringEntryProto]) -> tuple[tuple[str, str], ...]:
    """Return keys and values in order, duplicates included."""
    return tuple((text(entry.key), text(entry.value)) for entry in entries)


def read_type(proto: TypeProto) -> Type | None:
    """Decode a TypeProto; None when it is empty or unknown."""
    kind = proto.WhichOneof("value")
    denotation = text(proto.denotation)
    match kind:
        case "tensor_type":
            tensor = proto.tensor_type
            shape = read_shape(tensor.shape) if tensor.HasField("shape") else None
            return TensorType(element_type(tensor.elem_type), shape, denotation)
        case "sparse_tensor_type":
            sparse = proto.sparse_tensor_type
            shape = read_shape(sparse.shape) if sparse.HasField("shape") else None
            return SparseTensorType(element_type(sparse.elem_type), shape, denotation)
        case "sequence_type":
            sequence = proto.sequence_type
            return SequenceType(read_type(sequence.elem_type) if sequence.HasField("elem_type") else None, denotation)
        case "optional_type":
            optional = proto.optional_type
            return OptionalType(read_type(optional.elem_type) if optional.HasField("elem_type") else None, denotation)
        case "map_type":
            mapping = proto.map_type
            value = read_type(mapping.value_type) if mapping.HasField("value_type") else None
            return MapType(element_type(mapping.key_type), value, denotation)
        case "opaque_type":
            return OpaqueType(text(proto.opaque_type.domain), text(proto.opaque_type.name), denotation)
        case _:
            return None


def read_shape(proto: TensorShapeProto) -> Shape:
    """Decode the dimensions of a shape, of more than `MOST_DIMENSIONS` the first."""
    dims: list[Dimension] = []
    denotations = []
    for dim in proto.dim[:MOST_DIMENSIONS]:
        which = dim.WhichOneof("value")
        if which == "dim_value":
            dims.append(dim.dim_value)
        else:
            dims.append(text(dim.dim_param) or None)
        denotations.append(text(dim.denotation))
    return Shape(tuple(dims), tuple(denotations) if any(denotations) else ())


def read_node_device_configuration(proto: NodeDeviceConfigurationProto) -> NodeDeviceConfiguration:
    """Decode a node's device configuration."""
    return NodeDeviceConfiguration(
        text(proto.configuration_id),
        tuple(_read_sharding(spec) for spec in proto.sharding_spec),
        proto.pipeline_stage if proto.HasField("pipeline_stage") else None,
        source=proto,
    )


def _read_sharding(proto: ShardingSpecProto) -> ShardingSpec:
    dimensions = []
    for dim in proto.sharded_dim:
        shards = []
        for part in dim.simple_sharding:
            which = part.WhichOneof("dim")
            size = part.dim_value if which == "dim_value" else text(part.dim_param) if which else None
            shards.append((size, part.num_shards))
        dimensions.append(ShardedDimension(dim.axis, tuple(shards)))
    groups = tuple((entry.key, tuple(entry.value)) for entry in proto.index_to_device_group_map)
    return ShardingSpec(text(proto.tensor_name), tuple(proto.device), groups, tuple(dimensions))


def read_device_configuration(proto: DeviceConfigurationProto) -> DeviceConfiguration:
    """Decode a device configuration of the model."""
    return DeviceConfiguration(
        text(proto.name), proto.num_devices, tuple(text(device) for device in proto.device), source=proto
    )
