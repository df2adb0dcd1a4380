"""Fields of the messages below a model object: tensors, types, shardings, bindings, annotations.

For `model.edits.raw_fields`. Each function returns the edit that sets a field, or None where another module does it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from onnx_workbench.model.analysis.scoping import visible_values
from onnx_workbench.model.edits import devices, function_attributes, initializers, properties, tensors
from onnx_workbench.model.edits.values import rename_value, set_type
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetAttribute, SetField
from onnx_workbench.model.io import message_fields
from onnx_workbench.model.io.message_fields import Path, TensorMessage, integer
from onnx_workbench.model.io.protobuf import NodeDeviceConfigurationProto, SparseTensorProto, TypeProto
from onnx_workbench.model.io.reader.decode import read_node_device_configuration, read_type
from onnx_workbench.model.io.tensors.array_files import is_stored_outside
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor
from onnx_workbench.model.io.writer.encode import write_node_device, write_type
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.devices import DeviceConfiguration, NodeDeviceConfiguration
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, QuantizationAnnotation, TrainingInfo, Value
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.ir.types import Type

Setter = Callable[[Transaction, str], None]
Put = Callable[[Transaction, Any], None]


def swapped(items: tuple[Any, ...], index: int, item: Any) -> tuple[Any, ...]:
    """Return items with one replaced."""
    return (*items[:index], item, *items[index + 1 :])


# -- parts that are messages of their own ---------------------------------------------------------------------


class Editable(Protocol):
    """Mutable copy of a message, changed by paths."""

    def set(self, path: Path, text: str) -> None:
        """Set a scalar."""

    def remove(self, path: Path) -> None:
        """Remove a field."""

    def add(self, path: Path, name: str, text: str) -> None:
        """Add a field to the message at a path."""

    @property
    def message(self) -> Any:
        """The changed message."""


class _Plain:
    """A message whose contents are all in the message itself."""

    def __init__(self, message: Any) -> None:
        self.message = message

    def set(self, path: Path, text: str) -> None:
        message_fields.set_field(self.message, path, text)

    def remove(self, path: Path) -> None:
        message_fields.remove_field(self.message, path)

    def add(self, path: Path, name: str, text: str) -> None:
        message_fields.add_field(self.message, path, name, text)


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A part of the model with its own message: `path` is the path inside it, `put` stores the changed message."""

    open: Callable[[], Editable]
    put: Callable[[Transaction, Any], None]
    path: Path

    def change(self, edit: Transaction, how: Callable[[Editable], None]) -> None:
        """Change a copy and replace the part by it."""
        copy = self.open()
        how(copy)
        self.put(edit, copy)


def part_at(target: object, field: str, rest: Path) -> MessagePart | None:
    """Return the part that holds a field below an object; `field` is the field through which the object was reached."""
    name, index = rest[0] if rest else ("", 0)
    match target, name:
        case Value(), "type" if field not in ("initializer", "sparse_initializer"):
            return _type_part(target.type, lambda edit, kind: set_type(edit, target, kind), rest[1:])
        case Value(), _ if field in ("initializer", "sparse_initializer"):
            held = target.initializer
            return _any_tensor_part(held, lambda edit, made: initializers.set_tensor(edit, target, made), rest)
        case Node(), "attribute" if index < len(target.attributes):
            attribute = list(target.attributes.values())[index]
            return _attribute_part(attribute, lambda edit, made: _put_attribute(edit, target, made), rest[1:])
        case Function(), "attribute_proto" if index < len(target.attribute_defaults):
            default = target.attribute_defaults[index]
            return _attribute_part(
                default, lambda edit, made: function_attributes.set_default(edit, target, made), rest[1:]
            )
        case Node(), "device_configurations" if index < len(target.device_configurations) and len(rest) > 1:
            return _device_part(target, index, rest[1:])
    return None


def _type_part(kind: Type | None, put: Callable[[Transaction, Type | None], None], path: Path) -> MessagePart:
    def read() -> Editable:
        message = TypeProto()
        if kind is not None:
            write_type(message, kind)
        return _Plain(message)

    return MessagePart(read, lambda edit, copy: put(edit, read_type(copy.message)), path)


def _any_tensor_part(
    held: Tensor | SparseTensor | None, put: Callable[[Transaction, Any], None], path: Path
) -> MessagePart | None:
    if isinstance(held, Tensor):
        if not isinstance(held, ProtoTensor) and is_stored_outside(held):
            return None  # its values go to a data file that is not written yet
        return MessagePart(lambda: TensorMessage(held), lambda edit, copy: put(edit, copy.tensor), path)
    if held is None or not path:
        return None

    def with_part(edit: Transaction, values: Tensor, indices: Tensor, shape: tuple[int, ...]) -> None:
        put(edit, SparseTensor(values, indices, shape, held.source))

    match path[0][0]:
        case "dims":
            return MessagePart(
                lambda: _Plain(SparseTensorProto(dims=held.shape)),
                lambda edit, copy: with_part(edit, held.values, held.indices, tuple(copy.message.dims)),
                path,
            )
        case "values":
            return _any_tensor_part(
                held.values, lambda edit, made: with_part(edit, made, held.indices, held.shape), path[1:]
            )
        case _:
            return _any_tensor_part(
                held.indices, lambda edit, made: with_part(edit, held.values, made, held.shape), path[1:]
            )


_TENSOR_FIELDS = {
    "t": AttributeKind.TENSOR, "tensors": AttributeKind.TENSORS, "sparse_tensor": AttributeKind.SPARSE_TENSOR,
    "sparse_tensors": AttributeKind.SPARSE_TENSORS, "tp": AttributeKind.TYPE_PROTO,
    "type_protos": AttributeKind.TYPE_PROTOS,
}  # fmt: skip


def _attribute_part(
    attribute: Attribute, put: Callable[[Transaction, Attribute], None], path: Path
) -> MessagePart | None:
    """Return a tensor or type in an attribute."""
    field, index = path[0] if path else ("", 0)
    kind, value = attribute.kind, attribute.value
    if _TENSOR_FIELDS.get(field) is not kind or value is None:
        return None
    if kind.is_list:
        assert isinstance(value, tuple)
        if index >= len(value):
            return None
    items: Any = value
    held = items[index] if kind.is_list else items

    def put_one(edit: Transaction, made: Any) -> None:
        put(edit, replace(attribute, value=swapped(items, index, made) if kind.is_list else made))

    if kind.element is AttributeKind.TYPE_PROTO:
        return _type_part(held, put_one, path[1:])
    return _any_tensor_part(held, put_one, path[1:])


def _put_attribute(edit: Transaction, node: Node, attribute: Attribute) -> None:
    if attribute.kind in (AttributeKind.TENSOR, AttributeKind.SPARSE_TENSOR):
        made: Any = attribute.value
        tensors.put(edit, tensors.TensorLocation(node, attribute.name), made)
    else:
        edit.do(SetAttribute(node, attribute.name, attribute))


def _device_part(node: Node, index: int, path: Path) -> MessagePart:
    """Return one of a node's device configurations; invalid changes raise the same ModelError as in the inspector."""
    old = node.device_configurations[index]

    def read() -> Editable:
        message = NodeDeviceConfigurationProto()
        write_node_device(message, old)
        return _Plain(message)

    def put(edit: Transaction, copy: Editable) -> None:
        made: NodeDeviceConfiguration = read_node_device_configuration(copy.message)
        changed = [
            place
            for place, spec in enumerate(made.sharding)
            if place < len(old.sharding) and spec != old.sharding[place] and len(made.sharding) == len(old.sharding)
        ]
        if changed:
            devices.put_sharding(edit, node, index, changed[0], made.sharding[changed[0]])
        else:
            devices.put_device_configuration(edit, node, index, made)

    return MessagePart(read, put, path)


# -- the model, functions, graphs, training -------------------------------------------------------------------


def import_setter(target: Model | Function, index: int) -> Setter | None:
    """Return the setter for the domain of an opset import."""
    domains = list(target.opset_imports)
    if index >= len(domains):
        return None

    def apply(edit: Transaction, text: str) -> None:
        domain = "" if text == "ai.onnx" else text
        if domain in target.opset_imports and domain != domains[index]:
            raise ModelError(f"{domain or 'ai.onnx'} is imported already", "A domain is imported once.", target)
        pairs = ((domain if old == domains[index] else old, v) for old, v in target.opset_imports.items())
        edit.do(SetField(target, "opset_imports", dict(pairs)))

    return apply


def configuration_setter(model: Model, path: Path) -> Setter | None:
    """Return the setter for a field of one of the model's device configurations."""
    index, names = path[0][1], tuple(name for name, _ in path[1:])
    if index >= len(model.configurations):
        return None
    configuration = model.configurations[index]

    def put(edit: Transaction, changed: DeviceConfiguration) -> None:
        properties.set_configurations(edit, swapped(model.configurations, index, changed))

    match names:
        case ("name",):
            return lambda edit, text: devices.rename_configuration(edit, configuration, text)
        case ("num_devices",):
            return lambda edit, text: put(edit, replace(configuration, num_devices=integer(text, 32)))
        case ("device",):
            place = path[1][1]
            return lambda edit, text: put(
                edit, replace(configuration, devices=swapped(configuration.devices, place, text))
            )
    return None


def function_setter(function: Function, path: Path) -> Setter | None:
    """Return the setter for a formal input, output or attribute."""
    index = path[0][1]
    match tuple(name for name, _ in path):
        case ("input" | "output" as side,):
            values = function.body.inputs if side == "input" else function.body.outputs
            return None if index >= len(values) else lambda edit, text: rename_value(edit, values[index], text)
        case ("attribute",) if index < len(function.attributes):
            name = function.attributes[index]
            return lambda edit, text: function_attributes.rename(edit, function, name, text)
        case ("attribute_proto", "name") if index < len(function.attribute_defaults):
            default = function.attribute_defaults[index]
            return lambda edit, text: function_attributes.rename(edit, function, default.name, text)
    return None


def annotation_setter(graph: Graph, path: Path) -> Setter | None:
    """Return the setter for a field of a quantization annotation: its value, or a parameter's key or value."""
    index = path[0][1]
    if index >= len(graph.quantization_annotations):
        return None
    annotation = graph.quantization_annotations[index]

    def put(edit: Transaction, changed: QuantizationAnnotation) -> None:
        annotations = swapped(graph.quantization_annotations, index, changed)
        properties.set_quantization_annotations(edit, graph, annotations)

    match tuple(name for name, _ in path[1:]):
        case ("tensor_name",):
            return lambda edit, text: put(edit, replace(annotation, value=value_of(graph, text)))
        case ("quant_parameter_tensor_names", "key" | "value" as part):
            place = path[1][1]
            key, value = annotation.parameters[place]

            def apply(edit: Transaction, text: str) -> None:
                made = (text, value) if part == "key" else (key, value_of(graph, text))
                put(edit, replace(annotation, parameters=swapped(annotation.parameters, place, made)))

            return apply
    return None


def value_of(graph: Graph, name: str) -> Value:
    """Return the value of a name visible in a graph; ModelError when there is none."""
    value = visible_values(graph).get(name)
    if value is None:
        raise ModelError(f"There is no value {name!r} here", "Name one that the graph has or can see.", graph)
    return value


def binding_setter(training: TrainingInfo, path: Path) -> Setter | None:
    """Return the setter for one side of a binding."""
    match tuple(name for name, _ in path):
        case ("initialization_binding" | "update_binding" as field, "key" | "value" as part):
            pairs: tuple[tuple[str, str], ...] = getattr(training, field)
            index = path[0][1]
            if index >= len(pairs):
                return None

            def apply(edit: Transaction, text: str) -> None:
                key, output = pairs[index]
                made = swapped(pairs, index, (text, output) if part == "key" else (key, text))
                if len(dict(made)) < len(made):
                    raise ModelError(f"{text} is bound already", "An initializer is set by one output.", training)
                properties.set_bindings(edit, training, **{field.removesuffix("_binding"): dict(made)})

            return apply
    return None
