"""Add and remove fields by their path in the protobuf message, for the raw view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from onnx_workbench.model.edits import (
    devices,
    function_attributes,
    functions,
    initializers,
    interface,
    nodes,
    properties,
)
from onnx_workbench.model.edits.attributes import remove_attribute, set_attribute
from onnx_workbench.model.edits.raw_fields import FieldPath, host_of, parse_item, place_of, set_field, with_reference
from onnx_workbench.model.edits.raw_messages import swapped, value_of
from onnx_workbench.model.edits.unknown_fields import add_unknown, change_unknown, is_unknown
from onnx_workbench.model.edits.values import connect, set_type
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetAttribute, SetField, SetInputs, SetOutputs
from onnx_workbench.model.io.message_fields import Path, missing_fields
from onnx_workbench.model.io.raw_view import BYTES, PAGE
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute
from onnx_workbench.model.ir.devices import DeviceConfiguration, NodeDeviceConfiguration
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, QuantizationAnnotation, TrainingInfo, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, TensorType

Remove = Callable[[Transaction], object]
Add = Callable[[Transaction, str], object]

_TEXTS = frozenset({"doc_string", "producer_name", "producer_version", "domain", "overload", "name", "model_version"})


def can_remove(model: Model, path: Path) -> bool:
    """Return whether `remove_field` supports a field."""
    return _removal(model, path) is not None


def remove_field(edit: Transaction, path: Path) -> None:
    """Remove a field, or one entry of a repeated field, from its message; ModelError if it is required."""
    removal = _removal(edit.model, path)
    if removal is None:
        raise ModelError(f"{path[-1][0]} cannot be removed", "The message needs it.")
    removal(edit)


def addable(model: Model, path: Path) -> dict[str, str]:
    """Return the fields that can be added to the message at a path, with the prompt for each (``""`` for none)."""
    place = place_of(model, path)
    if place is None:
        return {}
    if place.part is not None:
        return {name: name if text else "" for name, text in missing_fields_of(place).items()}
    return {name: ask for name, (ask, _) in _additions(place).items()}


def missing_fields_of(place: FieldPath) -> dict[str, bool]:
    """Return the missing fields of a message part, and whether each takes a text."""
    part = place.part
    assert part is not None
    try:
        return missing_fields(part.open().message, part.path)
    except ModelError:
        return {}


def add_field(edit: Transaction, path: Path, name: str, text: str = "") -> None:
    """Add a field to the message at a path; to a repeated field an entry at its end."""
    place = place_of(edit.model, path)
    if place is not None and place.part is not None:
        inner = place.part.path
        place.part.change(edit, lambda copy: copy.add(inner, name, text))
        return
    addition = None if place is None else _additions(place).get(name)
    if addition is None:
        raise ModelError(f"{name} cannot be added here", "The message has it already, or has another editor.")
    addition[1](edit, text)


def add_unknown_field(edit: Transaction, path: Path, number: str, text: str) -> None:
    """Add a field that onnx.proto does not define to the message at a path: see `add_unknown`."""
    host, inner = host_of(edit.model, (*path, ("", 0)))
    add_unknown(edit, host, inner, path, number, text)


# -- removing -------------------------------------------------------------------------------------------------


def _removal(model: Model, path: Path) -> Remove | None:
    if is_unknown(path):
        host, inner = host_of(model, path)
        return lambda edit: change_unknown(edit, host, inner, path, None)
    place = place_of(model, path)
    if place is None or not path or path[-1][0] in (PAGE, BYTES):
        return None
    part = place.part
    if part is not None and part.path:
        inner = part.path
        return lambda edit: part.change(edit, lambda copy: copy.remove(inner))
    if not place.rest:
        return _removal_of_object(place, path)
    return _removal_below(place, path)


def _removal_of_object(place: FieldPath, path: Path) -> Remove | None:
    target: Any = place.target
    match target, place.field:
        case Node(), "node":
            return lambda edit: nodes.delete(edit, [target], with_constants=False)
        case Function(), _:
            return lambda edit: functions.remove_function(edit, target)
        case TrainingInfo(), _:
            return lambda edit: properties.remove_training(edit, target)
        case Value(), "initializer" | "sparse_initializer":
            return lambda edit: initializers.remove_initializer(edit, target)
        case Value(), "value_info":
            return lambda edit: set_type(edit, target, None)
        case Graph(), "initialization" | "algorithm" if isinstance(target.owner, TrainingInfo):
            owner, which = target.owner, place.field
            return lambda edit: properties.set_training_graph(edit, owner, which, None)
        case Graph(), "graphs" if isinstance(target.owner, Node):
            holder: Node = target.owner
            held = next(a for a in holder.attributes.values() if any(g is target for g in a.graphs))
            kept = replace(held, value=tuple(g for g in held.graphs if g is not target))
            return lambda edit: edit.do(SetAttribute(holder, held.name, kept))
        case Value(), "input" | "output":
            return _removal_from_interface(target, place.field, path)
    return None


def _removal_from_interface(value: Value, field: str, path: Path) -> Remove:
    def remove(edit: Transaction) -> None:
        holder = place_of(edit.model, path[:-1])
        graph = holder.target if holder is not None else None
        assert isinstance(graph, Graph)
        (interface.remove_input if field == "input" else interface.remove_output)(edit, graph, value)

    return remove


def _removal_below(place: FieldPath, path: Path) -> Remove | None:
    target: Any = place.target
    (name, index), *below = place.rest
    match target, name, len(below):
        case Graph(), "quantization_annotation", 1 if below[0][0] == "quant_parameter_tensor_names":
            return lambda edit: _drop_parameter(edit, target, index, below[0][1])
        case _, "metadata_props", 0:
            return lambda edit: properties.set_metadata(edit, target, list(target.metadata)[index], None)
        case ((Model() | Function()), "opset_import", 0):
            return lambda edit: properties.set_opset(edit, target, list(target.opset_imports)[index], None)
        case Model(), "configuration", 0:
            return lambda edit: devices.remove_configuration(edit, target.configurations[index])
        case Graph(), "quantization_annotation", 0:
            kept = (*target.quantization_annotations[:index], *target.quantization_annotations[index + 1 :])
            return lambda edit: properties.set_quantization_annotations(edit, target, kept)
        case TrainingInfo(), _, 0:
            return lambda edit: edit.do(SetField(target, name, _without(getattr(target, name), index)))
        case Node(), "input", 0:
            return lambda edit: edit.do(SetInputs(target, _without(target.inputs, index)))
        case Node(), "output", 0:
            return lambda edit: _drop_output(edit, target, index)
        case Node(), "device_configurations", 0:
            return lambda edit: devices.put_device_configuration(edit, target, index, None)
        case Node(), "attribute", 0:
            return lambda edit: remove_attribute(edit, target, list(target.attributes)[index])
        case Node(), "attribute", 1:
            attribute = list(target.attributes.values())[index]
            changed = _attribute_without(attribute, *below[0])
            return None if changed is None else lambda edit: edit.do(SetAttribute(target, attribute.name, changed))
        case Function(), "attribute", 0:
            return lambda edit: function_attributes.remove(edit, target, target.attributes[index])
        case Function(), "attribute_proto", 0:
            return lambda edit: function_attributes.remove(edit, target, target.attribute_defaults[index].name)
        case Function(), "input" | "output", 0:
            values = target.body.inputs if name == "input" else target.body.outputs
            taken = interface.remove_input if name == "input" else interface.remove_output
            return lambda edit: taken(edit, target.body, values[index])
        case _, _, 0 if name in _TEXTS - {"name", "model_version"} or (name == "name" and isinstance(target, Node)):
            return lambda edit: set_field(edit, path, "")
    return None


def _without(items: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    return (*items[:index], *items[index + 1 :])


def _drop_parameter(edit: Transaction, graph: Graph, index: int, entry: int) -> None:
    annotation = graph.quantization_annotations[index]
    made = replace(annotation, parameters=_without(annotation.parameters, entry))
    properties.set_quantization_annotations(edit, graph, swapped(graph.quantization_annotations, index, made))


def _drop_output(edit: Transaction, node: Node, index: int) -> None:
    value = node.outputs[index]
    if value is not None and value.uses:
        raise ModelError(f"Output {value.name} is used", f"{node.title} cannot lose it while others use it.", value)
    edit.do(SetOutputs(node, _without(node.outputs, index)))


def _attribute_without(attribute: Attribute, field: str, index: int) -> Attribute | None:
    """Return an attribute without one entry of its list, its text or its reference."""
    if field == "doc_string":
        return replace(attribute, doc_string="")
    if field == "ref_attr_name":
        return with_reference(attribute, "")
    if attribute.kind.is_list and isinstance(attribute.value, tuple) and field != "name":
        return replace(attribute, value=_without(attribute.value, index))
    return None


# -- adding ---------------------------------------------------------------------------------------------------

_Additions = Mapping[str, tuple[str, Add]]  # by field: the prompt, and the function that adds it


def _additions(place: FieldPath) -> _Additions:
    target: Any = place.target
    if place.rest:
        return _additions_below(place)
    match target:
        case Model():
            return _with_texts(target, _MODEL, ("producer_name", "producer_version", "domain", "doc_string"))
        case Graph():
            return _with_texts(target, _of_graph(target), ("doc_string",))
        case Function():
            return _with_texts(target, _of_function(target), ("overload", "doc_string"))
        case Node():
            return _with_texts(target, _of_node(target), ("name", "overload", "doc_string"))
        case TrainingInfo():
            return _of_training(target)
        case Value() if not place.field.endswith("initializer"):
            missing: dict[str, tuple[str, Add]] = {"metadata_props": _metadata(target)}
            if target.type is None:
                missing["type"] = ("", lambda edit, _: set_type(edit, target, TensorType(ElementType.FLOAT)))
            return _with_texts(target, missing, ("doc_string",))
    return {}


def _with_texts(target: Any, others: _Additions, texts: tuple[str, ...]) -> _Additions:
    """Return what can be added, and the texts that are empty."""
    found = dict(others)
    for field in texts:
        if not getattr(target, field):
            found[field] = (field, partial(_set_text, target=target, field=field))
    return found


def _set_text(edit: Transaction, text: str, *, target: Any, field: str) -> None:
    edit.do(SetField(target, field, text))


def _metadata(target: Any) -> tuple[str, Add]:
    def add(edit: Transaction, key: str) -> None:
        if key in target.metadata:
            raise ModelError(f"There is an entry {key!r} already", "Keys are unique.", target)
        properties.set_metadata(edit, target, key, "")

    return "key", add


def _add_configuration(edit: Transaction, name: str) -> None:
    made = DeviceConfiguration(name, 1)
    properties.set_configurations(edit, (*edit.model.configurations, made))


_MODEL: _Additions = {
    "opset_import": ("domain", lambda edit, text: _add_import(edit, edit.model, text)),
    "metadata_props": ("key", lambda edit, text: _metadata(edit.model)[1](edit, text)),
    "functions": ("name", functions.add_function),
    "configuration": ("name", _add_configuration),
    "training_info": ("", lambda edit, _: properties.add_training(edit, TrainingInfo())),
}


def _add_import(edit: Transaction, target: Model | Function, domain: str) -> None:
    domain = "" if domain == "ai.onnx" else domain
    if domain in target.opset_imports:
        raise ModelError(f"{domain or 'ai.onnx'} is imported already", "A domain is imported once.", target)
    properties.set_opset(edit, target, domain, 1)


def _of_graph(graph: Graph) -> _Additions:
    def visible(name: str) -> Value:
        return value_of(graph, name)

    def annotate(edit: Transaction, name: str) -> None:
        made = QuantizationAnnotation(visible(name), ())
        properties.set_quantization_annotations(edit, graph, (*graph.quantization_annotations, made))

    def declare(edit: Transaction, name: str) -> None:
        if visible(name).type is not None:
            raise ModelError(f"{name} has a type already", "Edit it where it is declared.", visible(name))
        set_type(edit, visible(name), TensorType(ElementType.FLOAT))

    zero = ArrayTensor(np.zeros((), np.float32))
    return {
        "node": ("op_type", lambda edit, text: nodes.add_node(edit, graph, text)),
        "input": ("name", lambda edit, text: interface.add_input(edit, graph, text, TensorType(ElementType.FLOAT))),
        "output": ("name of a value", lambda edit, text: interface.add_output(edit, graph, visible(text))),
        "initializer": ("name", lambda edit, text: initializers.add_initializer(edit, graph, zero, text)),
        "value_info": ("name of a value", declare),
        "quantization_annotation": ("name of a value", annotate),
        "metadata_props": _metadata(graph),
    }


def _of_function(function: Function) -> _Additions:
    body = function.body

    def output(edit: Transaction, name: str) -> None:
        interface.add_output(edit, body, value_of(body, name))

    def default(edit: Transaction, name: str) -> None:
        function_attributes.set_default(edit, function, make_attribute(name, 0))

    return {
        "input": ("name", lambda edit, text: interface.add_input(edit, body, text)),
        "output": ("name of a value", output),
        "attribute": ("name", lambda edit, text: function_attributes.require(edit, function, text)),
        "attribute_proto": ("name", default),
        "node": ("op_type", lambda edit, text: nodes.add_node(edit, body, text)),
        "opset_import": ("domain", lambda edit, text: _add_import(edit, function, text)),
        "metadata_props": _metadata(function),
    }


def _of_node(node: Node) -> _Additions:
    def attribute(edit: Transaction, name: str) -> None:
        if name in node.attributes:
            raise ModelError(f"{node.title} has {name} already", "Attributes have names of their own.", node)
        set_attribute(edit, node, name, 0, AttributeKind.INT)

    def take_input(edit: Transaction, name: str) -> None:
        if name and node.graph is not None:
            connect(edit, node, len(node.inputs), value_of(node.graph, name))
        else:
            edit.do(SetInputs(node, (*node.inputs, None)))

    def device(edit: Transaction, name: str) -> None:
        made = NodeDeviceConfiguration(name)
        nodes.set_device_configurations(edit, node, (*node.device_configurations, made))

    return {
        "input": ("name of a value", take_input),
        "output": ("", lambda edit, _: nodes.produce_output(edit, node, len(node.outputs))),
        "attribute": ("name", attribute),
        "device_configurations": ("name of a configuration", device),
        "metadata_props": _metadata(node),
    }


def _of_training(training: TrainingInfo) -> _Additions:
    found: dict[str, tuple[str, Add]] = {}
    for field in ("initialization", "algorithm"):
        if getattr(training, field) is None:
            made = Graph(field)
            found[field] = ("", partial(_set_graph, training=training, field=field, graph=made))
        bound = "initialization_binding" if field == "initialization" else "update_binding"
        found[bound] = ("initializer = output", partial(_bind, training=training, field=bound))
    return found


def _set_graph(edit: Transaction, _text: str, *, training: TrainingInfo, field: str, graph: Graph) -> None:
    edit.do(SetField(training, field, graph))


def _bind(edit: Transaction, text: str, *, training: TrainingInfo, field: str) -> None:
    key, output = _pair(text)
    if key in dict(getattr(training, field)):
        raise ModelError(f"{key} is bound already", "An initializer is set by one output.", training)
    bindings = {**dict(getattr(training, field)), key: output}
    properties.set_bindings(edit, training, **{field.removesuffix("_binding"): bindings})


def _pair(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not mark:
        raise ModelError(f"{text[:40]!r} is no pair", "Write a key, = and a name.")
    return key.strip(), value.strip()


def _additions_below(place: FieldPath) -> _Additions:
    """Return list entries of attributes that can be added, and other fields of an attribute."""
    target: Any = place.target
    name, index = place.rest[0]
    if len(place.rest) == 1 and name == "quantization_annotation" and index < len(target.quantization_annotations):
        return {"quant_parameter_tensor_names": ("key = name", partial(_add_parameter, graph=target, index=index))}
    if len(place.rest) != 1 or name not in ("attribute", "attribute_proto"):
        return {}
    if isinstance(target, Node) and index < len(target.attributes):
        attribute = list(target.attributes.values())[index]

        def put(edit: Transaction, made: Attribute) -> None:
            edit.do(SetAttribute(target, attribute.name, made))

    elif isinstance(target, Function) and name == "attribute_proto" and index < len(target.attribute_defaults):
        attribute = target.attribute_defaults[index]

        def put(edit: Transaction, made: Attribute) -> None:
            function_attributes.set_default(edit, target, made)

    else:
        return {}
    return _of_attribute(attribute, put)


def _add_parameter(edit: Transaction, text: str, *, graph: Graph, index: int) -> None:
    key, name = _pair(text)
    annotation = graph.quantization_annotations[index]
    made = replace(annotation, parameters=(*annotation.parameters, (key, value_of(graph, name))))
    properties.set_quantization_annotations(edit, graph, swapped(graph.quantization_annotations, index, made))


_FIELDS = {
    AttributeKind.INTS: "ints", AttributeKind.FLOATS: "floats", AttributeKind.STRINGS: "strings",
    AttributeKind.TENSORS: "tensors", AttributeKind.GRAPHS: "graphs", AttributeKind.TYPE_PROTOS: "type_protos",
}  # fmt: skip


def _of_attribute(attribute: Attribute, put: Callable[[Transaction, Attribute], None]) -> _Additions:
    found: dict[str, tuple[str, Add]] = {}
    if not attribute.doc_string:
        found["doc_string"] = ("doc_string", lambda edit, text: put(edit, replace(attribute, doc_string=text)))
    if not attribute.reference:
        found["ref_attr_name"] = (
            "name of an attribute of the function",
            lambda edit, text: put(edit, _referring(attribute, text)),
        )
    field = _FIELDS.get(attribute.kind)
    if field is not None and not attribute.reference:
        takes_text = attribute.kind in (AttributeKind.INTS, AttributeKind.FLOATS, AttributeKind.STRINGS)
        found[field] = (field if takes_text else "", lambda edit, text: put(edit, _with_item(attribute, text)))
    return found


def _referring(attribute: Attribute, name: str) -> Attribute:
    if not name:
        raise ModelError(f"{attribute.name} refers to nothing", "Name an attribute of the function.")
    return with_reference(attribute, name)


def _with_item(attribute: Attribute, text: str) -> Attribute:
    items: Any = attribute.value or ()
    return replace(attribute, value=(*items, parse_item(attribute.kind.element, text)))
