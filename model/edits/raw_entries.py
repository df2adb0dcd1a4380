"""Storage of message fields in model objects, for `raw_fields`: one table of fields for each kind of object.

A field holds entries: texts, numbers, or messages. To edit a message, a copy of it is changed by its descriptors,
decoded, and stored by the same edit, with the same checks, that other editors use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from onnx_workbench.model.analysis.scoping import visible_values
from onnx_workbench.model.edits import (
    devices,
    function_attributes,
    functions,
    initializers,
    interface,
    nodes,
    properties,
    tensors,
)
from onnx_workbench.model.edits.attributes import remove_attribute, rename_attribute
from onnx_workbench.model.edits.raw_codecs import (
    ANNOTATION_CODEC,
    ATTRIBUTE_CODEC,
    CONFIGURATION_CODEC,
    IMPORT_CODEC,
    NODE_DEVICE_CODEC,
    PAIR_CODEC,
    TYPE_CODEC,
    Codec,
    spliced,
)
from onnx_workbench.model.edits.values import connect, disconnect, rename_value, set_type
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetAttribute, SetField, SetInputs, SetOutputs
from onnx_workbench.model.io.message_fields import parse_pair
from onnx_workbench.model.io.protobuf import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorAnnotation,
    TrainingInfoProto,
    ValueInfoProto,
    text,
)
from onnx_workbench.model.io.reader.decode import (
    read_pairs,
)
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute
from onnx_workbench.model.ir.devices import DeviceConfiguration, NodeDeviceConfiguration
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, QuantizationAnnotation, TrainingInfo, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.model.text.attributes import plainest

MESSAGES: Mapping[type, Any] = {
    Model: ModelProto, Graph: GraphProto, Function: FunctionProto, TrainingInfo: TrainingInfoProto, Node: NodeProto,
    Value: ValueInfoProto,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object's message. Its functions raise ModelError for values they refuse.

    items    its entries in the object; of a singular field one, or none if unset
    add      append an entry to a repeated field, or set a singular one
    change   replace the entry at an index; None where entries are objects of the model
    remove   remove the entry at an index; None for required fields
    codec    for entries that are edited as messages
    prompt   prompt for the text from which `new` creates an entry; "" if it takes none
    """

    items: Callable[[Any], Sequence[Any]]
    add: Callable[[Transaction, Any, Any], object]
    change: Callable[[Transaction, Any, int, Any], object] | None = None
    remove: Callable[[Transaction, Any, int], object] | None = None
    codec: Codec | None = None
    prompt: str = ""
    new: Callable[[str], Any] = str


def _scalar(
    name: str, put: Callable[[Transaction, Any, Any], object] | None = None, *, required: bool = False
) -> Field:
    def plain(edit: Transaction, target: Any, value: Any) -> None:
        edit.do(SetField(target, name, value))

    def items(target: Any) -> Sequence[Any]:
        value = getattr(target, name)
        return () if value == "" else (value,)

    store = put or plain
    remove = None if required else lambda edit, target, _: store(edit, target, "")
    return Field(items, store, lambda edit, target, _, value: store(edit, target, value), remove, prompt=name)


def _list(
    items: Callable[[Any], Sequence[Any]],
    store: Callable[[Transaction, Any, tuple[Any, ...]], object],
    codec: Codec,
    prompt: str,
    new: Callable[[str], Any],
) -> Field:
    """Return a repeated field whose entries are stored together."""
    return Field(
        items,
        lambda edit, target, entry: store(edit, target, (*items(target), entry)),
        lambda edit, target, index, entry: store(edit, target, spliced(items(target), index, entry)),
        lambda edit, target, index: store(edit, target, spliced(items(target), index, None)),
        codec, prompt, new,
    )  # fmt: skip


def _store_metadata(edit: Transaction, target: Any, pairs: tuple[tuple[str, str], ...]) -> None:
    key = _repeated(key for key, _ in pairs)
    if "" in dict(pairs):
        raise ModelError("A metadata entry needs a key", "The key is empty.", target)
    if key is not None:
        raise ModelError(f"Key {key!r} already exists", "Keys are unique.", target)
    edit.do(SetField(target, "metadata", dict(pairs)))


def _repeated(keys: Iterable[str]) -> str | None:
    return next((key for key, count in Counter(keys).items() if count > 1), None)


def _store_imports(edit: Transaction, target: Model | Function, entries: tuple[tuple[str, int], ...]) -> None:
    entries = tuple(("" if domain == "ai.onnx" else domain, version) for domain, version in entries)
    twice = _repeated(domain for domain, _ in entries)
    if twice is not None:
        raise ModelError(f"{twice or 'ai.onnx'} is imported already", "A domain is imported once.", target)
    for domain, version in entries:
        if target.opset_imports.get(domain) != version:
            properties.check_opset_version(version, target)
    edit.do(SetField(target, "opset_imports", dict(entries)))


def _store_annotations(edit: Transaction, graph: Graph, entries: tuple[Any, ...]) -> None:
    made = (_annotation(graph, entry) if isinstance(entry, TensorAnnotation) else entry for entry in entries)
    properties.set_quantization_annotations(edit, graph, tuple(made))


def _annotation(graph: Graph, message: TensorAnnotation) -> QuantizationAnnotation:
    pairs = read_pairs(message.quant_parameter_tensor_names)
    parameters = tuple((key, value_of(graph, name)) for key, name in pairs)
    return QuantizationAnnotation(value_of(graph, text(message.tensor_name)), parameters, message)


def value_of(graph: Graph, name: str) -> Value:
    """Return the value of a name visible in a graph; ModelError when there is none."""
    value = visible_values(graph).get(name)
    if value is None:
        raise ModelError(f"There is no value {name!r} here", "Name a value of this graph or of an outer one.", graph)
    return value


def _change_configuration(edit: Transaction, model: Model, index: int, made: DeviceConfiguration) -> None:
    old = model.configurations[index]
    if made.name != old.name:
        devices.rename_configuration(edit, old, made.name)
    else:
        properties.set_configurations(edit, spliced(model.configurations, index, made))


def _bindings(field: str) -> Field:
    def store(edit: Transaction, training: TrainingInfo, pairs: tuple[tuple[str, str], ...]) -> None:
        key = _repeated(key for key, _ in pairs)
        if key is not None:
            raise ModelError(f"{key} is bound already", "An initializer is set by one output.", training)
        properties.set_bindings(edit, training, **{field.removesuffix("_binding"): dict(pairs)})

    def remove(edit: Transaction, training: TrainingInfo, index: int) -> None:
        edit.do(SetField(training, field, spliced(getattr(training, field), index, None)))

    stored = _list(lambda training: getattr(training, field), store, PAIR_CODEC, "initializer = output", parse_pair)
    return replace(stored, remove=remove)  # works while other entries are invalid


def _connect(edit: Transaction, node: Node, index: int, name: str) -> None:
    assert node.graph is not None
    if name:
        connect(edit, node, index, value_of(node.graph, name))
    elif index < len(node.inputs):
        disconnect(edit, node, index)
    else:
        edit.do(SetInputs(node, (*node.inputs, None)))


def _rename_output(edit: Transaction, node: Node, index: int, name: str) -> None:
    value = node.outputs[index]
    if value is None:
        raise ModelError("This output is left out", "Give the node more outputs in the inspector.", node)
    rename_value(edit, value, name)


def _remove_output(edit: Transaction, node: Node, index: int) -> None:
    value = node.outputs[index]
    if value is not None and value.uses:
        raise ModelError(f"Output {value.name} is used", f"{node.title} cannot lose an output that is in use.", value)
    edit.do(SetOutputs(node, spliced(node.outputs, index, None)))


def _add_attribute(edit: Transaction, node: Node, made: Attribute) -> None:
    if made.name in node.attributes:
        raise ModelError(f"{node.title} has {made.name} already", "Attribute names are unique.", node)
    edit.do(SetAttribute(node, made.name, made))


def _change_attribute(edit: Transaction, node: Node, index: int, made: Attribute) -> None:
    old = list(node.attributes.values())[index]
    if made.name != old.name:
        rename_attribute(edit, node, old.name, made.name)
    elif made.kind is old.kind and made.value is not old.value and isinstance(made.value, (Tensor, SparseTensor)):
        tensors.set_tensor_at(edit, tensors.TensorLocation(node, made.name), made.value)  # declared types follow
    else:
        edit.do(SetAttribute(node, made.name, made))


def _new_attribute(name: str) -> Attribute:
    if not name:
        raise ModelError("An attribute needs a name", "The name is empty.")
    return make_attribute(name, 0)


def _change_default(edit: Transaction, function: Function, index: int, made: Attribute) -> None:
    old = function.attribute_defaults[index]
    if made.name != old.name:
        function_attributes.rename(edit, function, old.name, made.name)
    else:
        function_attributes.set_default(edit, function, made)


def _change_device(edit: Transaction, node: Node, index: int, made: NodeDeviceConfiguration) -> None:
    old = node.device_configurations[index]
    pairs = zip(made.sharding, old.sharding, strict=False)
    changed = next((position for position, (new, spec) in enumerate(pairs) if new != spec), None)
    if changed is not None and len(made.sharding) == len(old.sharding):
        devices.set_sharding(edit, node, index, changed, made.sharding[changed])
    else:
        devices.set_device_configuration(edit, node, index, made)


def _name_function(edit: Transaction, function: Function, name: str) -> None:
    """Rename a function's key only; calls do not follow, as in every raw edit."""
    edit.do(SetField(function, "name", name))
    edit.do(SetField(function.body, "name", name))


def _declare(edit: Transaction, graph: Graph, name: str) -> None:
    value = value_of(graph, name)
    if value.type is not None:
        raise ModelError(f"{name} has a type already", "Edit it where it is declared.", value)
    set_type(edit, value, TensorType(ElementType.FLOAT))


def _names(values: Iterable[Value | None]) -> list[str]:
    return [value.name if value is not None else "" for value in values]


def _constants(graph: Graph, kind: type[Tensor] | type[SparseTensor]) -> list[Value]:
    return [value for value in graph.initializers if isinstance(value.initializer, kind)]


def _declared(graph: Graph) -> list[Value]:
    return [value for value in graph.declared if value.type is not None]


def _training_graph(field: Any) -> Field:
    def items(training: TrainingInfo) -> Sequence[Graph]:
        graph = getattr(training, field)
        return () if graph is None else (graph,)

    return Field(
        items,
        lambda edit, training, _: edit.do(SetField(training, field, Graph(field))),
        remove=lambda edit, training, _: properties.set_training_graph(edit, training, field, None),
    )


_DOC = _scalar("doc_string")
_METADATA = _list(
    lambda target: tuple(target.metadata.items()), _store_metadata, PAIR_CODEC, "key", lambda key: (key, "")
)
_IMPORTS = _list(lambda target: tuple(target.opset_imports.items()), _store_imports, IMPORT_CODEC, "domain",
                 lambda domain: (domain, 1))  # fmt: skip

#: By kind of object and name in its message.
FIELDS: Mapping[type, Mapping[str, Field]] = {
    Model: {
        "functions": Field(
            lambda m: m.functions, lambda edit, _, name: functions.add_function(edit, name),
            remove=lambda edit, m, index: functions.remove_function(edit, m.functions[index]), prompt="name",
        ),
        "training_info": Field(
            lambda m: m.training_info, lambda edit, *_: properties.add_training(edit, TrainingInfo()),
            remove=lambda edit, m, index: properties.remove_training(edit, m.training_info[index]),
        ),
        "graph": Field(lambda m: (m.graph,), lambda *_: None),
        "ir_version": _scalar("ir_version", lambda edit, _, n: properties.set_ir_version(edit, n), required=True),
        "model_version": _scalar("model_version", required=True),
        "producer_name": _scalar("producer_name"),
        "producer_version": _scalar("producer_version"),
        "domain": _scalar("domain"),
        "doc_string": _DOC,
        "opset_import": _IMPORTS,
        "metadata_props": _METADATA,
        "configuration": Field(
            lambda m: m.configurations,
            lambda edit, m, made: properties.set_configurations(edit, (*m.configurations, made)),
            _change_configuration,
            lambda edit, m, index: devices.remove_configuration(edit, m.configurations[index]),
            CONFIGURATION_CODEC, "name", lambda name: DeviceConfiguration(name, 1),
        ),
    },
    TrainingInfo: {
        "initialization": _training_graph("initialization"),
        "algorithm": _training_graph("algorithm"),
        "initialization_binding": _bindings("initialization_binding"),
        "update_binding": _bindings("update_binding"),
    },
    Graph: {
        "node": Field(
            lambda g: g.nodes, nodes.add_node,
            remove=lambda edit, g, index: nodes.delete(edit, [g.nodes[index]], with_constants=False),
            prompt="op_type",
        ),
        "input": Field(
            lambda g: g.inputs, partial(interface.add_input, type=TensorType(ElementType.FLOAT)),
            remove=lambda edit, g, index: interface.remove_input(edit, g, g.inputs[index]), prompt="name",
        ),
        "output": Field(
            lambda g: g.outputs, lambda edit, g, name: interface.add_output(edit, g, value_of(g, name)),
            remove=lambda edit, g, index: interface.remove_output(edit, g, g.outputs[index]),
            prompt="name of a value",
        ),
        "initializer": Field(
            lambda g: _constants(g, Tensor),
            lambda edit, g, name: initializers.add_initializer(edit, g, ArrayTensor(np.zeros((), np.float32)), name),
            remove=lambda edit, g, index: initializers.remove_initializer(edit, _constants(g, Tensor)[index]),
            prompt="name",
        ),
        "sparse_initializer": Field(
            lambda g: _constants(g, SparseTensor),
            lambda edit, g, name: initializers.add_initializer(edit, g, plainest(AttributeKind.SPARSE_TENSOR), name),
            remove=lambda edit, g, index: initializers.remove_initializer(edit, _constants(g, SparseTensor)[index]),
            prompt="name",
        ),
        "value_info": Field(
            _declared, _declare, remove=lambda edit, g, index: set_type(edit, _declared(g)[index], None),
            prompt="name of a value",
        ),
        "name": _scalar("name", required=True),
        "doc_string": _DOC,
        "metadata_props": _METADATA,
        "quantization_annotation": _list(
            lambda g: g.quantization_annotations, _store_annotations, ANNOTATION_CODEC, "name of a value",
            lambda name: TensorAnnotation(tensor_name=name),
        ),
    },
    Function: {
        "node": Field(
            lambda f: f.body.nodes, lambda edit, f, name: nodes.add_node(edit, f.body, name),
            remove=lambda edit, f, index: nodes.delete(edit, [f.body.nodes[index]], with_constants=False),
            prompt="op_type",
        ),
        "name": _scalar("name", _name_function, required=True),
        "domain": _scalar("domain"),
        "overload": _scalar("overload"),
        "doc_string": _DOC,
        "input": Field(
            lambda f: _names(f.body.inputs), lambda edit, f, name: interface.add_input(edit, f.body, name),
            lambda edit, f, index, name: rename_value(edit, f.body.inputs[index], name),
            lambda edit, f, index: interface.remove_input(edit, f.body, f.body.inputs[index]), prompt="name",
        ),
        "output": Field(
            lambda f: _names(f.body.outputs),
            lambda edit, f, name: interface.add_output(edit, f.body, value_of(f.body, name)),
            lambda edit, f, index, name: rename_value(edit, f.body.outputs[index], name),
            lambda edit, f, index: interface.remove_output(edit, f.body, f.body.outputs[index]),
            prompt="name of a value",
        ),
        "attribute": Field(
            lambda f: f.attributes, function_attributes.require,
            lambda edit, f, index, name: function_attributes.rename(edit, f, f.attributes[index], name),
            lambda edit, f, index: function_attributes.remove(edit, f, f.attributes[index]), prompt="name",
        ),
        "attribute_proto": Field(
            lambda f: f.attribute_defaults, function_attributes.set_default, _change_default,
            lambda edit, f, index: function_attributes.remove(edit, f, f.attribute_defaults[index].name),
            ATTRIBUTE_CODEC, "name", _new_attribute,
        ),
        "opset_import": _IMPORTS,
        "metadata_props": _METADATA,
    },
    Node: {
        "name": _scalar("name", nodes.rename_node),
        "op_type": _scalar("op_type", required=True),
        "domain": _scalar("domain"),
        "overload": _scalar("overload"),
        "doc_string": _DOC,
        "input": Field(
            lambda n: _names(n.inputs), lambda edit, n, name: _connect(edit, n, len(n.inputs), name), _connect,
            lambda edit, n, index: edit.do(SetInputs(n, spliced(n.inputs, index, None))), prompt="name of a value",
        ),
        "output": Field(
            lambda n: _names(n.outputs), lambda edit, n, _: nodes.produce_output(edit, n, len(n.outputs)),
            _rename_output, _remove_output,
        ),
        "attribute": Field(
            lambda n: list(n.attributes.values()), _add_attribute, _change_attribute,
            lambda edit, n, index: remove_attribute(edit, n, list(n.attributes)[index]),
            ATTRIBUTE_CODEC, "name", _new_attribute,
        ),
        "device_configurations": Field(
            lambda n: n.device_configurations,
            lambda edit, n, made: devices.set_device_configuration(edit, n, len(n.device_configurations), made),
            _change_device,
            lambda edit, n, index: devices.set_device_configuration(edit, n, index, None),
            NODE_DEVICE_CODEC, "name of a configuration", NodeDeviceConfiguration,
        ),
        "metadata_props": _METADATA,
    },
    Value: {
        "name": _scalar("name", rename_value, required=True),
        "doc_string": _DOC,
        "metadata_props": _METADATA,
        "type": Field(
            lambda v: () if v.type is None else (v.type,), set_type,
            lambda edit, v, _, kind: set_type(edit, v, kind),
            codec=TYPE_CODEC, new=lambda _: TensorType(ElementType.FLOAT),
        ),
    },
}  # fmt: skip
