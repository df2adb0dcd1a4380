"""Encode immutable parts of the IR into messages: types, texts, details. Only differences are set.

Every function gets a copy of the message that the object was read from, or an empty one for a new object. Unchanged
fields are not touched, so unknown fields and unusual encodings survive an edit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onnx_workbench.model.io.protobuf import (
    DeviceConfigurationProto,
    NodeDeviceConfigurationProto,
    ShardingSpecProto,
    TensorShapeProto,
    TypeProto,
    text,
    utf8,
)
from onnx_workbench.model.io.reader.decode import (
    read_entries,
    read_node_device_configuration,
    read_pairs,
    read_type,
)
from onnx_workbench.model.io.reader.import_graph import normal_domain, read_opsets
from onnx_workbench.model.io.wire import delimited
from onnx_workbench.model.ir.devices import DeviceConfiguration, NodeDeviceConfiguration, ShardingSpec
from onnx_workbench.model.ir.lazy_details import Details
from onnx_workbench.model.ir.types import (
    Dimension,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
    Type,
)


def set_text(message: Any, field: str, value: str) -> None:
    """Set a string field if it differs; an empty one is cleared."""
    if text(getattr(message, field)) == value:
        return
    message.ClearField(field)
    if not value:
        return
    try:
        setattr(message, field, value)
    except UnicodeEncodeError:
        merge_texts(message, field, [utf8(value)])


def set_texts(message: Any, field: str, values: Sequence[str]) -> None:
    """Set a repeated string field if it differs."""
    held = getattr(message, field)[:]
    if held == values or [text(value) for value in held] == list(values):
        return
    message.ClearField(field)
    try:
        getattr(message, field).extend(values)
    except UnicodeEncodeError:
        message.ClearField(field)
        merge_texts(message, field, map(utf8, values))


def merge_texts(message: Any, field: str, values: Iterable[bytes]) -> None:
    """Merge a text, or entries of a list, that is not UTF-8: the runtime accepts those only by parsing."""
    number = message.DESCRIPTOR.fields_by_name[field].number
    for data in values:
        message.MergeFromString(delimited(number, data))


def set_number(message: Any, field: str, value: float) -> None:
    """Set a scalar field if it differs; a field that is absent counts as its default."""
    if getattr(message, field) != value:
        setattr(message, field, value)


def set_numbers(message: Any, field: str, values: Sequence[float]) -> None:
    """Set a repeated scalar field if it differs."""
    held = getattr(message, field)
    if len(held) != len(values) or tuple(held) != tuple(values):
        message.ClearField(field)
        getattr(message, field).extend(values)


def set_entries(message: Any, field: str, values: Mapping[str, str]) -> None:
    """Set a list of string pairs that represents a mapping if it differs."""
    if read_entries(getattr(message, field)) != values:
        set_pairs(message, field, tuple(values.items()))


def set_pairs(message: Any, field: str, values: Sequence[tuple[str, str]]) -> None:
    """Set a list of string pairs if it differs."""
    entries = getattr(message, field)
    if read_pairs(entries) == values:
        return
    old = {text(entry.key): entry.SerializeToString() for entry in entries}
    message.ClearField(field)
    for key, value in values:
        entry = getattr(message, field).add()
        entry.MergeFromString(old.get(key, b""))
        set_text(entry, "key", key)
        set_text(entry, "value", value)


def set_opsets(message: Any, imports: Mapping[str, int]) -> None:
    """Set the opset imports if they differ, keeping the spelling of domains."""
    entries = message.opset_import
    if read_opsets(entries) == imports:
        return
    old = {normal_domain(text(e.domain)): e.SerializeToString() for e in entries}
    message.ClearField("opset_import")
    for domain, version in imports.items():
        entry = message.opset_import.add()
        entry.MergeFromString(old.get(domain, b""))
        if domain not in old:
            entry.domain = ""  # present even if empty: some readers test for presence
            set_text(entry, "domain", domain)
        set_number(entry, "version", version)


def set_details(message: Any, details: Details) -> None:
    """Set the texts of a node or value if they differ."""
    set_text(message, "doc_string", details.doc_string)
    set_entries(message, "metadata_props", details.metadata)


def set_node_devices(message: Any, configurations: Sequence[NodeDeviceConfiguration]) -> None:
    """Set the device configurations of a node if they differ."""
    if tuple(map(read_node_device_configuration, message.device_configurations)) == tuple(configurations):
        return
    message.ClearField("device_configurations")
    for configuration in configurations:
        message.device_configurations.append(node_device_message(configuration))


def node_device_message(configuration: NodeDeviceConfiguration) -> NodeDeviceConfigurationProto:
    """Return the message of a node's part in a device configuration."""
    out = NodeDeviceConfigurationProto()
    if configuration.source is not None:
        out.CopyFrom(configuration.source)
        if read_node_device_configuration(out) == configuration:
            return out
        out.ClearField("sharding_spec")
    set_text(out, "configuration_id", configuration.configuration_id)
    out.ClearField("pipeline_stage")
    if configuration.pipeline_stage is not None:
        out.pipeline_stage = configuration.pipeline_stage
    for sharding in configuration.sharding:
        _write_sharding(out.sharding_spec.add(), sharding)
    return out


def _write_sharding(out: ShardingSpecProto, sharding: ShardingSpec) -> None:
    set_text(out, "tensor_name", sharding.tensor_name)
    out.device.extend(sharding.devices)
    for key, values in sharding.device_groups:
        entry = out.index_to_device_group_map.add()
        entry.key = key
        entry.value.extend(values)
    for dimension in sharding.dimensions:
        dim = out.sharded_dim.add()
        dim.axis = dimension.axis
        for size, count in dimension.shards:
            part = dim.simple_sharding.add()
            part.num_shards = count
            if isinstance(size, int):
                part.dim_value = size
            elif size is not None:
                set_text(part, "dim_param", size)


def device_message(configuration: DeviceConfiguration) -> DeviceConfigurationProto:
    """Return the message of a device configuration of the model."""
    out = DeviceConfigurationProto()
    if configuration.source is not None:
        out.CopyFrom(configuration.source)
    set_text(out, "name", configuration.name)
    set_number(out, "num_devices", configuration.num_devices)
    set_texts(out, "device", configuration.devices)
    return out


def write_type(out: TypeProto, value: Type) -> None:
    """Set a type if it differs, changing as little of it as possible."""
    if read_type(out) == value:
        return
    kind = _TYPE_FIELDS[type(value)]
    if out.WhichOneof("value") != kind:
        out.Clear()
    inner = getattr(out, kind)
    inner.SetInParent()
    match value:
        case TensorType() | SparseTensorType():
            set_number(inner, "elem_type", int(value.element_type))
            if value.shape is None:
                inner.ClearField("shape")
            else:
                inner.shape.SetInParent()
                _write_shape(inner.shape, value.shape)
        case SequenceType() | OptionalType():
            _write_inner(inner, "elem_type", value.element)
        case MapType():
            set_number(inner, "key_type", int(value.key_type))
            _write_inner(inner, "value_type", value.value)
        case OpaqueType():
            set_text(inner, "domain", value.domain)
            set_text(inner, "name", value.name)
    set_text(out, "denotation", value.denotation)


_TYPE_FIELDS = {
    TensorType: "tensor_type",
    SparseTensorType: "sparse_tensor_type",
    SequenceType: "sequence_type",
    OptionalType: "optional_type",
    MapType: "map_type",
    OpaqueType: "opaque_type",
}


def _write_inner(out: Any, field: str, value: Type | None) -> None:
    if value is None:
        out.ClearField(field)
    else:
        getattr(out, field).SetInParent()
        write_type(getattr(out, field), value)


def _write_shape(out: TensorShapeProto, shape: Shape) -> None:
    del out.dim[shape.rank :]
    while len(out.dim) < shape.rank:
        out.dim.add()
    denotations = shape.denotations or ("",) * shape.rank
    for entry, dimension, denotation in zip(out.dim, shape.dims, denotations, strict=True):
        if _dimension_of(entry) != dimension:
            entry.ClearField("dim_value")
            entry.ClearField("dim_param")
            if isinstance(dimension, int):
                entry.dim_value = dimension
            elif dimension is not None:
                set_text(entry, "dim_param", dimension)
        set_text(entry, "denotation", denotation)


def _dimension_of(entry: TensorShapeProto.Dimension) -> Dimension:
    if entry.WhichOneof("value") == "dim_value":
        return entry.dim_value
    return text(entry.dim_param) or None
