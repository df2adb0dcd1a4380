"""Copies of messages that can be edited by field descriptors, and conversion of entries to such copies and back.

For `raw_entries`: attributes, types, tensors, pairs, imports, devices and annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io import message_fields
from onnx_workbench.model.io.message_fields import Path, TensorMessage
from onnx_workbench.model.io.protobuf import (
    DeviceConfigurationProto,
    NodeDeviceConfigurationProto,
    OperatorSetIdProto,
    SparseTensorProto,
    StringStringEntryProto,
    TensorAnnotation,
    TypeProto,
    text,
)
from onnx_workbench.model.io.reader.decode import (
    MessageDecoder,
    read_device_configuration,
    read_node_device_configuration,
    read_type,
)
from onnx_workbench.model.io.tensors.proto_tensor import TensorFiles
from onnx_workbench.model.io.writer.encode import (
    set_pairs,
    set_text,
    write_device_configuration,
    write_node_device,
    write_type,
)
from onnx_workbench.model.io.writer.export_graph import write_plain_attribute
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import QuantizationAnnotation
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.model.text.attributes import convert_value, plainest


class Editable(Protocol):
    """Mutable copy of a message, changed by paths."""

    def set(self, path: Path, text: str) -> None:
        """Set a scalar."""

    def remove(self, path: Path) -> None:
        """Remove a field."""

    def add(self, path: Path, name: str, text: str) -> None:
        """Add a field to the message at a path."""

    def missing(self, path: Path) -> dict[str, str]:
        """Return the fields that can be added to the message at a path, with the prompt for each."""

    @property
    def message(self) -> Any:
        """The changed message."""


class PlainMessage:
    """A message whose contents are all in the message itself."""

    def __init__(self, message: Any) -> None:
        self.message = message

    def set(self, path: Path, text: str) -> None:
        message_fields.set_field(self.message, path, text)

    def remove(self, path: Path) -> None:
        message_fields.remove_field(self.message, path)

    def add(self, path: Path, name: str, text: str) -> None:
        message_fields.add_field(self.message, path, name, text)

    def missing(self, path: Path) -> dict[str, str]:
        return message_fields.missing_fields(self.message, path)


#: The field of AttributeProto that holds values of a kind.
VALUE_FIELDS: Mapping[AttributeKind, str] = {
    AttributeKind.FLOAT: "f", AttributeKind.INT: "i", AttributeKind.STRING: "s", AttributeKind.TENSOR: "t",
    AttributeKind.GRAPH: "g", AttributeKind.SPARSE_TENSOR: "sparse_tensor", AttributeKind.TYPE_PROTO: "tp",
    AttributeKind.FLOATS: "floats", AttributeKind.INTS: "ints", AttributeKind.STRINGS: "strings",
    AttributeKind.TENSORS: "tensors", AttributeKind.GRAPHS: "graphs", AttributeKind.SPARSE_TENSORS: "sparse_tensors",
    AttributeKind.TYPE_PROTOS: "type_protos",
}  # fmt: skip
TENSOR_FIELDS = {kind: name for kind, name in VALUE_FIELDS.items() if "tensor" in name or name == "t"}
_SPARSE_LISTS = frozenset({AttributeKind.SPARSE_TENSORS})
_SCALAR_KINDS = frozenset({AttributeKind.INT, AttributeKind.FLOAT, AttributeKind.STRING})
_OBJECT_KINDS = frozenset({AttributeKind.TENSOR, AttributeKind.SPARSE_TENSOR, AttributeKind.GRAPH})
_TEXTS = ("doc_string", "ref_attr_name")


class AttributeMessage(PlainMessage):
    """An AttributeProto without its tensors and graphs, which stay the objects they are."""

    def __init__(self, attribute: Attribute) -> None:
        super().__init__(write_plain_attribute(attribute))
        self._held = attribute
        self._decoder = MessageDecoder(TensorFiles(None, None))

    @property
    def attribute(self) -> Attribute:
        """The changed attribute. Another kind or reference replaces the value, which is converted if possible."""
        held, made = self._held, self._decoder.attribute(self.message)
        if not made.kind:
            raise ModelError("0 is not an attribute type", "An attribute needs a type.")
        common = replace(held, name=made.name, doc_string=made.doc_string)
        if made.reference != held.reference:
            return replace(common, reference=made.reference, value=None if made.reference else plainest(held.kind))
        if made.kind is not held.kind:
            return replace(common, kind=made.kind, value=convert_value(held, made.kind), reference="")
        if held.reference or held.kind.element in _OBJECT_KINDS:
            return common
        return replace(common, value=made.value)

    def remove(self, path: Path) -> None:
        if len(path) == 1 and self._held.kind.element in _OBJECT_KINDS and path[0][0] not in _TEXTS:
            self._held = replace(self._held, value=spliced(self._items, path[0][1], None))
        else:
            super().remove(path)

    def add(self, path: Path, name: str, text: str) -> None:
        if name == "ref_attr_name" and not text:
            raise ModelError(f"{self._held.name} refers to nothing", "Name an attribute of the function.")
        if path or self.missing(path).get(name):
            super().add(path, name, text)
        elif self._held.kind is AttributeKind.TYPE_PROTOS:
            write_type(self.message.type_protos.add(), TensorType(ElementType.FLOAT))
        else:
            self._held = replace(self._held, value=(*self._items, plainest(self._held.kind.element)))

    def missing(self, path: Path) -> dict[str, str]:
        found = super().missing(path)
        if path:
            return found
        field = VALUE_FIELDS.get(self._held.kind)
        is_list = self._held.kind.is_list and self._held.kind not in _SPARSE_LISTS and not self._held.reference
        names = (*_TEXTS, *((field,) if is_list and field else ()))
        prompts = found | {"ref_attr_name": "name of an attribute of the function"}
        return {name: prompts[name] for name in names if name in found}

    @property
    def _items(self) -> tuple[Any, ...]:
        value: Any = self._held.value
        return value or ()


def spliced(items: Sequence[Any], index: int, item: Any) -> tuple[Any, ...]:
    """Return items with one replaced, appended (at the end) or (None) removed."""
    return (*items[:index], *(() if item is None else (item,)), *items[index + 1 :])


# -- entries that are messages --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Codec:
    """Conversion of an entry to an editable message, and back.

    `key` is a field it must have. `can_set` and `can_remove` return whether a field of an entry can be set or removed.
    """

    open: Callable[[Any], Editable]
    read: Callable[[Any], Any]
    key: str = ""
    can_set: Callable[[Any, Path], bool] = lambda _entry, _path: True
    can_remove: Callable[[Any, Path], bool] = lambda _entry, _path: True


def _message(kind: type[Any], write: Callable[[Any, Any], None], read: Callable[[Any], Any], key: str = "") -> Codec:
    def open_entry(entry: Any) -> Editable:
        message = kind()
        source = getattr(entry, "source", None)
        if isinstance(source, kind):
            message.CopyFrom(source)  # with fields that onnx.proto does not define
        write(message, entry)
        return PlainMessage(message)

    return Codec(open_entry, lambda copy: read(copy.message), key)


def _write_pair(out: StringStringEntryProto, pair: tuple[str, str]) -> None:
    set_text(out, "key", pair[0])
    set_text(out, "value", pair[1])


def _write_import(out: OperatorSetIdProto, entry: tuple[str, int]) -> None:
    set_text(out, "domain", entry[0])
    out.version = entry[1]


def _write_annotation(out: TensorAnnotation, annotation: QuantizationAnnotation) -> None:
    set_text(out, "tensor_name", annotation.value.name)
    pairs = tuple((key, value.name) for key, value in annotation.parameters)
    set_pairs(out, "quant_parameter_tensor_names", pairs)


def _can_set_in_attribute(attribute: Attribute, path: Path) -> bool:
    (field, _), *below = path
    if field == VALUE_FIELDS.get(attribute.kind):
        element = attribute.kind.element
        return element is AttributeKind.TYPE_PROTO if below else element in _SCALAR_KINDS
    return field in ("name", "type", *_TEXTS)


def _can_remove_from_attribute(attribute: Attribute, path: Path) -> bool:
    (field, _), *below = path
    return bool(below) or field in _TEXTS or (attribute.kind.is_list and field == VALUE_FIELDS.get(attribute.kind))


PAIR_CODEC = _message(StringStringEntryProto, _write_pair, lambda m: (text(m.key), text(m.value)), "key")
IMPORT_CODEC = _message(OperatorSetIdProto, _write_import, lambda m: (text(m.domain), m.version), "domain")
CONFIGURATION_CODEC = _message(DeviceConfigurationProto, write_device_configuration, read_device_configuration, "name")
NODE_DEVICE_CODEC = _message(
    NodeDeviceConfigurationProto, write_node_device, read_node_device_configuration, "configuration_id"
)
ANNOTATION_CODEC = _message(TensorAnnotation, _write_annotation, lambda m: m, "tensor_name")
TYPE_CODEC = _message(TypeProto, write_type, read_type)
ATTRIBUTE_CODEC = Codec(
    AttributeMessage, lambda copy: copy.attribute, "name", _can_set_in_attribute, _can_remove_from_attribute
)
TENSOR_CODEC = Codec(TensorMessage, lambda copy: copy.tensor)
DIMS_CODEC = _message(SparseTensorProto, lambda m, dims: m.dims.extend(dims), lambda m: tuple(m.dims))
