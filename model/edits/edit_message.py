"""Edit any message of a model as protobuf text: a node, a tensor, a declaration, the header of a graph, …

The text is that of the message that saving would write. A changed text is decoded as a file would be, stored by the
edits that other editors use, and compared with what is written then: what the model cannot keep is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onnx_workbench.model.analysis.scoping import value_named, visible_values
from onnx_workbench.model.edits import devices, functions, initializers, nodes, properties
from onnx_workbench.model.edits.values import ensure_order, rename_value, set_type, why_not_connect
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetAttribute, SetField, SetInputs, SetOutputs
from onnx_workbench.model.io.message_text import MessageText
from onnx_workbench.model.io.protobuf import Message, text
from onnx_workbench.model.io.reader.decode import (
    MessageDecoder,
    read_device_configuration,
    read_entries,
    read_node_device_configuration,
    read_pairs,
    read_type,
)
from onnx_workbench.model.io.reader.import_graph import normal_domain, read_opsets
from onnx_workbench.model.io.reader.payloads import PayloadTable
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor, TensorFiles, is_stored_outside
from onnx_workbench.model.io.writer.export_graph import PARTS, write_message
from onnx_workbench.model.io.writer.storage_plan import StoragePlan
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, QuantizationAnnotation, TrainingInfo, Value
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor

Target = Model | Graph | Function | TrainingInfo | Node | Value


def field_of(value: Value) -> str:
    """Return the field of its graph with the message of a value that is edited first: its tensor if it has one."""
    if value.initializer is not None:
        return "sparse_initializer" if isinstance(value.initializer, SparseTensor) else "initializer"
    if value.graph is not None and isinstance(value.graph.owner, Function):
        return "value_info"  # its inputs and outputs are names
    return "input" if value.is_input else "output" if value.is_output else "value_info"


class MessageEdit:
    """The message of an object as `text`; `apply` makes the object that of a changed text, as part of one edit.

    `field` is the one of its graph that lists a value: see `field_of`. Long contents and graphs are named by the text
    and stay as they are. ModelError for a tensor whose values go to a data file that is not written yet.
    """

    def __init__(self, target: Target, field: str = "") -> None:
        if isinstance(target, Graph) and isinstance(target.owner, Function):
            target = target.owner  # the body has no message of its own
        self.target: Target = target
        self.field = field or (field_of(target) if isinstance(target, Value) else "")
        if isinstance(target, Value) and target.graph is None:
            raise ModelError(f"{target.name} is in no graph", "It was removed.", target)
        self._graphs: dict[str, Graph] = {}
        self._contents = self._contents_now()
        for tensor in _tensors(self._contents):
            if not isinstance(tensor, ProtoTensor) and is_stored_outside(tensor):
                raise ModelError(
                    "The tensor is not written yet", "Its values go to a data file. Save the model first.", target
                )
        self._codec = self._encoded()
        self.text = self._codec.text
        self._old = self._codec.read(self.text)

    @property
    def kind(self) -> str:
        """The message's name in onnx.proto."""
        return str(self._old.DESCRIPTOR.name)

    @property
    def parts(self) -> tuple[str, ...]:
        """The fields that the text leaves out, as their messages are edited one by one."""
        return PARTS.get(self.kind, ())

    def read(self, source: str) -> Message:
        """Return the message of a text; MessageTextError where it is none. Reads no model: any thread."""
        message: Message = self._codec.read(source)
        for field, _ in message.ListFields():
            if field.name in self.parts:
                raise ModelError(f"{field.name} is not part of this text", "Each entry has a message of its own.")
        return message

    def apply(self, edit: Transaction, source: str) -> None:
        """Make the object that of a changed text; ModelError for what the model cannot keep."""
        new: Any = self.read(source)
        if self._encoded().text != self.text or not _are(self._contents, self._contents_now()):
            raise ModelError("The message has changed", "Open it again to edit its current content.", self.target)
        self._store(edit, new)
        typed = self._lines(new, [self._codec.table])
        if self._is_written(typed):
            return
        if not self.field.endswith("initializer"):  # a tensor is that of its message
            self._start_with(edit, new)
        if not self._is_written(typed):
            raise ModelError("The model cannot keep this message", "It would write another one.", self.target)

    def _start_with(self, edit: Transaction, new: Any) -> None:
        """Let saving begin with a message, for what the model does not hold: unknown fields, and defaults spelled out.

        Left out is what has a message of its own.
        """
        if self.field == "value_info" and not (new.HasField("type") or new.doc_string or new.metadata_props):
            raise ModelError("The value is not declared", "Give it a type: else no message of it is written.")
        start = type(new)()
        start.CopyFrom(new)
        for field in (*self.parts, *_HELD_APART.get(self.kind, ())):
            start.ClearField(field)
        edit.do(SetField(self.target, "messages", {**self.target.messages, self.field or self.kind: start}))

    # -- text ------------------------------------------------------------------------------------------------

    def _written(self) -> tuple[Any, StoragePlan]:
        plan = StoragePlan()
        return write_message(self.target, self.field, plan, self._name_of_graph), plan

    def _encoded(self) -> MessageText:
        message, plan = self._written()
        return MessageText(message, plan.tables.values(), self._label)

    def _name_of_graph(self, graph: Graph) -> str:
        """Return the name by which the graph is found again when the text was read."""
        name = f"{graph.name}\0{graph.id}"
        self._graphs[name] = graph
        return name

    def _label(self, message: Any) -> str:
        return text(message.name).partition("\0")[0]

    def _graph(self, message: Any) -> Graph:
        graph = self._graphs.get(text(message.name))
        if graph is None:
            raise ModelError("A graph is not given as text", "Keep the line that names it as unchanged.", self.target)
        return graph

    def _contents_now(self) -> tuple[Any, ...]:
        """Return the tensors and attributes in the message, to notice that another edit replaced one."""
        if isinstance(self.target, Node):
            return tuple(self.target.attributes.values())
        return (
            (self.target.initializer,) if self.field.endswith("initializer") and isinstance(self.target, Value) else ()
        )

    def _lines(self, message: Any, tables: Iterable[PayloadTable]) -> list[str]:
        return MessageText(message, tables, self._label).text.splitlines()

    def _is_written(self, typed: Sequence[str]) -> bool:
        written, plan = self._written()
        return self._lines(written, plan.tables.values()) == typed

    # -- storing ---------------------------------------------------------------------------------------------

    def _store(self, edit: Transaction, new: Any) -> None:
        target = self.target
        match target:
            case Model():
                self._store_model(edit, target, new)
            case Graph():
                _set(edit, target, "name", text(new.name))
                if _differs(self._old, new, "quantization_annotation"):
                    annotations = tuple(_annotation(target, entry) for entry in new.quantization_annotation)
                    _clear(edit, target, "quantization_annotations")
                    properties.set_quantization_annotations(edit, target, annotations)
            case Function():
                self._store_function(edit, target, new)
            case TrainingInfo():
                self._store_training(edit, target, new)
            case Node():
                self._store_node(edit, target, new)
            case Value() if self.field.endswith("initializer"):
                self._store_tensor(edit, target, new)
                return
            case Value():
                rename_value(edit, target, text(new.name))
                kind = read_type(new.type) if new.HasField("type") else None
                if kind != target.type:
                    set_type(edit, target, kind)
        if not isinstance(target, TrainingInfo):
            _set(edit, target, "doc_string", text(new.doc_string))
            if _differs(self._old, new, "metadata_props"):
                _require_unique("Key", (text(entry.key) for entry in new.metadata_props))
                _set(edit, target, "metadata", read_entries(new.metadata_props))

    def _store_model(self, edit: Transaction, model: Model, new: Any) -> None:
        if new.ir_version != model.ir_version:
            properties.set_ir_version(edit, new.ir_version)
        _set(edit, model, "model_version", new.model_version)
        for field in ("producer_name", "producer_version", "domain"):
            _set(edit, model, field, text(getattr(new, field)))
        self._store_imports(edit, model, new)
        if not _differs(self._old, new, "configuration"):
            return
        configurations = tuple(map(read_device_configuration, new.configuration))
        if len(configurations) == len(model.configurations):
            for index, one in enumerate(configurations):  # the references of nodes follow
                if one.name != model.configurations[index].name:
                    devices.rename_configuration(edit, model.configurations[index], one.name)
        _clear(edit, model, "configurations")
        properties.set_configurations(edit, configurations)

    def _store_imports(self, edit: Transaction, target: Model | Function, new: Any) -> None:
        if not _differs(self._old, new, "opset_import"):
            return
        _require_unique("Import of domain", (normal_domain(text(entry.domain)) for entry in new.opset_import), True)
        imports = read_opsets(new.opset_import)
        for version in set(imports.values()) - set(target.opset_imports.values()):
            properties.check_opset_version(version, target)
        _set(edit, target, "opset_imports", imports)

    def _store_function(self, edit: Transaction, function: Function, new: Any) -> None:
        """Store the header of a function; calls do not follow its name."""
        if text(new.name) != function.name:
            _set(edit, function, "name", text(new.name))
            _set(edit, function.body, "name", text(new.name))
        _set(edit, function, "domain", normal_domain(text(new.domain)))
        _set(edit, function, "overload", text(new.overload))
        self._store_imports(edit, function, new)
        body = function.body
        inputs, outputs = _names(new.input), _names(new.output)
        if len(inputs) == len(body.inputs) and len(outputs) == len(body.outputs):
            for value, name in zip((*body.inputs, *body.outputs), (*inputs, *outputs), strict=True):
                rename_value(edit, value, name)
        else:
            input_by_name = {value.name: value for value in body.inputs}
            functions.set_signature(
                edit, function,
                inputs=tuple(input_by_name.get(name) or Value(name) for name in inputs),
                outputs=tuple(_visible(body, name) for name in outputs),
            )  # fmt: skip
        if _differs(self._old, new, "attribute") or _differs(self._old, new, "attribute_proto"):
            formal = _names(new.attribute)
            _require_unique("Attribute", (*formal, *(text(one.name) for one in new.attribute_proto)))
            held = {one.name: one for one in function.attribute_defaults}
            defaults = self._attributes(edit, held, self._old.attribute_proto, new.attribute_proto)
            _clear(edit, function, "attribute_defaults")
            functions.set_signature(edit, function, attributes=formal, defaults=defaults)

    def _store_training(self, edit: Transaction, training: TrainingInfo, new: Any) -> None:
        for field in ("initialization", "algorithm"):
            held = getattr(training, field)
            if new.HasField(field) and self._graph(getattr(new, field)) is held:
                continue
            if held is not None or new.HasField(field):
                properties.set_training_graph(edit, training, field, None)
        for field, key in (("initialization_binding", "initialization"), ("update_binding", "update")):
            pairs = read_pairs(getattr(new, field))
            if pairs != getattr(training, field):
                _require_unique("Binding of", (name for name, _ in pairs))
                properties.set_bindings(edit, training, **{key: dict(pairs)})

    def _store_node(self, edit: Transaction, node: Node, new: Any) -> None:
        if not new.op_type:
            raise ModelError("A node needs an operator", "op_type is empty.", node)
        nodes.rename_node(edit, node, text(new.name))
        _set(edit, node, "op_type", text(new.op_type))
        _set(edit, node, "domain", normal_domain(text(new.domain)))
        _set(edit, node, "overload", text(new.overload))
        _set_inputs(edit, node, _names(new.input))
        _set_outputs(edit, node, _names(new.output))
        self._set_attributes(edit, node, new)
        if _differs(self._old, new, "device_configurations"):
            configurations = tuple(map(read_node_device_configuration, new.device_configurations))
            _clear(edit, node, "device_configurations")
            nodes.set_device_configurations(edit, node, configurations)

    def _set_attributes(self, edit: Transaction, node: Node, new: Any) -> None:
        if not _differs(self._old, new, "attribute"):
            return
        names = [text(one.name) for one in new.attribute]
        _require_unique("Attribute", names)
        attributes = self._attributes(edit, node.attributes, self._old.attribute, new.attribute)
        _require_unique("Graph", (str(graph.id) for attribute in attributes for graph in attribute.graphs))
        is_reordered = list(node.attributes) != names
        for old in node.attributes.values():  # removed first, so that their graphs may move to others
            if is_reordered or not any(old is attribute for attribute in attributes):
                edit.do(SetAttribute(node, old.name, None))
        for index, attribute in enumerate(attributes):
            if attribute.name not in node.attributes:
                edit.do(SetAttribute(node, attribute.name, attribute, index))

    def _attributes(
        self, edit: Transaction, held: Mapping[str, Attribute], old: Iterable[Any], new: Iterable[Any]
    ) -> tuple[Attribute, ...]:
        """Return the attributes of new messages: those held where a message is the old one, else with it as source."""
        decoder = self._decoder(edit)
        before = {text(one.name): one.SerializeToString() for one in old}
        attributes = []
        for message in new:
            name = text(message.name)
            if before.get(name) == message.SerializeToString():
                attributes.append(held[name])
                continue
            attribute = decoder.attribute(message, self._graph)
            if attribute.kind is AttributeKind.UNDEFINED:
                raise ModelError(f"Attribute {name} needs a type", "Write for example type: INT.", self.target)
            attributes.append(attribute)
        return tuple(attributes)

    def _store_tensor(self, edit: Transaction, value: Value, new: Any) -> None:
        sparse = self.field == "sparse_initializer"
        rename_value(edit, value, text(new.values.name if sparse else new.name))
        if new.SerializeToString() != self._old.SerializeToString():
            decoder = self._decoder(edit)
            tensor = decoder.sparse_tensor(new) if sparse else ProtoTensor(new, decoder.files)
            initializers.set_tensor(edit, value, tensor)

    def _decoder(self, edit: Transaction) -> MessageDecoder:
        """Return a decoder of messages with the contents that the text names; external data stay in their folder."""
        read = (tensor.files for tensor in _tensors(self._contents) if isinstance(tensor, ProtoTensor))
        source = edit.model.source
        files = next(read, None if source is None else source.files)
        folders = [] if files is None else files.folders
        return MessageDecoder(TensorFiles(self._codec.table, *(folders or [None])))


def _set(edit: Transaction, target: Target, field: str, content: object) -> None:
    if getattr(target, field) != content:
        edit.do(SetField(target, field, content))


def _clear(edit: Transaction, target: Target, field: str) -> None:
    """Empty a list before it is set, as a step that changes no more than the sources of its parts is dropped."""
    edit.do(SetField(target, field, ()))


def _differs(old: Any, new: Any, field: str) -> bool:
    return [one.SerializeToString() if isinstance(one, Message) else one for one in getattr(old, field)] != [
        one.SerializeToString() if isinstance(one, Message) else one for one in getattr(new, field)
    ]


def _names(entries: Iterable[str | bytes]) -> tuple[str, ...]:
    return tuple(map(text, entries))


def _are(first: Sequence[object], second: Sequence[object]) -> bool:
    return len(first) == len(second) and all(one is other for one, other in zip(first, second, strict=True))


def _require_unique(what: str, keys: Iterable[str], may_be_empty: bool = False) -> None:
    for key, count in Counter(keys).items():
        if count > 1:
            raise ModelError(f"{what} {key!r} is given twice", "Write one of them.")
        if not key and not may_be_empty:
            raise ModelError(f"{what} without a name", "The name is empty.")


def _tensors(contents: Iterable[Any]) -> Iterable[Tensor]:
    for content in contents:
        value = content.value if isinstance(content, Attribute) else content
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Tensor):
                yield part
            elif isinstance(part, SparseTensor):
                yield from (part.values, part.indices)


def _visible(graph: Graph, name: str) -> Value:
    value = visible_values(graph).get(name)
    if value is None:
        raise ModelError(f"There is no value {name!r} here", "Name a value of this graph or of an outer one.", graph)
    return value


def _annotation(graph: Graph, message: Any) -> QuantizationAnnotation:
    pairs = read_pairs(message.quant_parameter_tensor_names)
    parameters = tuple((key, _visible(graph, name)) for key, name in pairs)
    return QuantizationAnnotation(_visible(graph, text(message.tensor_name)), parameters, message)


def _set_inputs(edit: Transaction, node: Node, names: Sequence[str]) -> None:
    if list(names) == [value.name if value is not None else "" for value in node.inputs]:
        return
    assert node.graph is not None
    input_by_name = {value.name: value for value in node.inputs if value is not None}
    inputs = tuple((input_by_name.get(name) or _visible(node.graph, name)) if name else None for name in names)
    added = [value for value in dict.fromkeys(inputs) if value is not None and value.name not in input_by_name]
    for value in added:
        if reason := why_not_connect(node, value):
            raise ModelError(f"{value.name} cannot be connected to {node.title}", reason, node)
    edit.do(SetInputs(node, inputs))
    for value in added:
        ensure_order(edit, value, node)


def _set_outputs(edit: Transaction, node: Node, names: Sequence[str]) -> None:
    """Set the outputs of a node by their names: another name at a value's place renames it, unless it moves."""
    old = node.outputs
    if list(names) == [value.name if value is not None else "" for value in old]:
        return
    assert node.graph is not None
    _require_unique("Output", (name for name in names if name))
    output_by_name = {value.name: value for value in old if value is not None}
    outputs: list[Value | None] = []
    for index, name in enumerate(names):
        here = old[index] if index < len(old) else None
        value = output_by_name.get(name) if name else None
        if value is None and name and here is not None and here.name not in names:
            value = here
            rename_value(edit, here, name)
        elif value is None and name:
            if value_named(node.graph, name) is not None:
                raise ModelError(f"A value named {name} already exists", "Another object defines it.", node)
            value = Value(name)
        outputs.append(value)
    for gone in old:
        if gone is not None and gone not in outputs and gone.uses:
            raise ModelError(f"Output {gone.name} is used", f"{node.title} cannot lose an output that is in use.", gone)
    edit.do(SetOutputs(node, tuple(outputs)))


#: Fields besides `PARTS` that are written from objects with messages of their own.
_HELD_APART = {
    "NodeProto": ("attribute",),
    "FunctionProto": ("attribute_proto",),
    "TrainingInfoProto": ("initialization", "algorithm"),
}
