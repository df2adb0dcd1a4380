"""One step as a JSON object a person can read, and back: ``{"do": "set attribute", "node": …, …}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx_workbench.model.history.references import ReadReferences, WriteReferences
from onnx_workbench.model.history.steps import (
    FIELDS,
    InsertNode,
    MoveUses,
    RemoveNode,
    SetAttribute,
    SetField,
    SetGraphInputs,
    SetGraphOutputs,
    SetInitializer,
    SetInput,
    SetInputs,
    SetOutputs,
    Step,
)
from onnx_workbench.model.history.value_decoder import ValueDecoder, device_configuration
from onnx_workbench.model.history.value_encoder import ValueEncoder
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Value

#: What fields belong to, as entries name it.
KINDS: Mapping[str, type[Any]] = {
    "model": Model, "graph": Graph, "function": Function, "training": TrainingInfo, "node": Node, "value": Value,
}  # fmt: skip
_NAMES = {kind: name for name, kind in KINDS.items()}


def encode(step: Step, references: WriteReferences, *, defer_tensors: bool = False) -> dict[str, Any]:
    """Write a step that is about to be applied; see ValueEncoder for `defer_tensors`."""
    write = ValueEncoder(references, defer_tensors=defer_tensors)
    of = references.of
    match step:
        case SetField():
            kind = _NAMES[type(step.target)]
            return {"do": f"set {step.field}", kind: of(step.target), "to": _field(step, write)}
        case SetAttribute():
            to = None if step.attribute is None else write.attribute(step.attribute)
            entry = {"do": "set attribute", "node": of(step.node), "name": step.name, "to": to}
            return _placed(entry, step.index)
        case InsertNode():
            before = None if step.before is None else of(step.before)
            node = write.node_or_reference(step.node)
            return {"do": "insert node", "graph": of(step.graph), "before": before, "to": node}
        case RemoveNode():
            return {"do": "remove node", "node": of(step.node)}
        case SetInputs():
            return {"do": "set inputs", "node": of(step.node), "to": write.values(step.inputs)}
        case SetInput():
            value = write.value_or_reference(step.value)
            return {"do": "set input", "node": of(step.node), "at": step.index, "to": value}
        case MoveUses():
            entry = {"do": "move uses", "from": of(step.source), "to": write.value_or_reference(step.target)}
            entry["inputs"] = [[of(user), index] for user, index in step.uses if isinstance(user, Node)]
            entry["outputs"] = [[of(user), index] for user, index in step.uses if isinstance(user, Graph)]
            return entry
        case SetOutputs():
            return {"do": "set outputs", "node": of(step.node), "to": write.values(step.outputs)}
        case SetGraphInputs():
            return {"do": "set graph inputs", "graph": of(step.graph), "to": write.values(step.inputs)}
        case SetGraphOutputs():
            return {"do": "set graph outputs", "graph": of(step.graph), "to": write.values(step.outputs)}
        case SetInitializer():
            entry = {"do": "set initializer", "graph": of(step.graph), "value": write.value_or_reference(step.value)}
            entry["to"] = write.any_tensor(step.tensor)
            return _placed(entry, step.index)


def _placed(entry: dict[str, Any], index: int | None) -> dict[str, Any]:
    """An entry with the place among its like, where that is not the last."""
    return entry if index is None else {**entry, "at": index}


def is_known(step: Step, references: WriteReferences) -> bool:
    """Whether what a step changes is in the model that the recording begins with, or came in since.

    Changes to what is in no model are not written: when it comes in it is written whole, as it is then.
    """
    match step:
        case SetField():
            return references.of(step.target) is not None
        case InsertNode() | SetGraphInputs() | SetGraphOutputs() | SetInitializer():
            return references.of(step.graph) is not None
        case MoveUses():
            return references.of(step.source) is not None
        case _:
            return references.of(step.node) is not None


def _field(step: SetField, write: ValueEncoder) -> Any:
    content: Any = step.value
    match step.field:
        case "type":
            return write.type(content)
        case "functions":
            return [write.function(f) for f in content]
        case "training_info":
            return [write.training(t) for t in content]
        case "configurations":
            return [[c.name, c.num_devices, list(c.devices), *write.kept(c.source)] for c in content]
        case "device_configurations":
            return write.devices(content)
        case "quantization_annotations":
            return write.annotations(content)
        case "declared":
            return write.values(content)
        case "unknown_changes":
            return write.unknown_changes(content)
        case "attribute_defaults":
            return [write.attribute(a) for a in content]
        case "initialization" | "algorithm":
            return None if content is None else write.graph(content)
        case _:
            return dict(content) if isinstance(content, Mapping) else content


def decode(entry: Mapping[str, Any], references: ReadReferences) -> Step:
    """The step a JSON object describes; ModelError when what it names is not in the model."""
    read = ValueDecoder(references)
    find = references.find
    match entry["do"]:
        case "set attribute":
            attribute: Attribute | None = None if entry["to"] is None else read.attribute(entry["to"])
            return SetAttribute(find(entry["node"], Node), _plain("name", entry["name"]), attribute, entry.get("at"))
        case "insert node":
            graph = find(entry["graph"], Graph)
            before = None if entry["before"] is None else find(entry["before"], Node)
            return InsertNode(graph, read.node(entry["to"]), before)
        case "remove node":
            return RemoveNode(find(entry["node"], Node))
        case "set inputs":
            return SetInputs(find(entry["node"], Node), read.values(entry["to"]))
        case "set input":
            return SetInput(find(entry["node"], Node), entry["at"], read.optional_value(entry["to"]))
        case "move uses":
            inputs = [(find(user, Node), index) for user, index in entry["inputs"]]
            outputs = [(find(user, Graph), index) for user, index in entry["outputs"]]
            return MoveUses(find(entry["from"], Value), read.value(entry["to"]), (*inputs, *outputs))
        case "set outputs":
            return SetOutputs(find(entry["node"], Node), read.values(entry["to"]))
        case "set graph inputs":
            return SetGraphInputs(find(entry["graph"], Graph), read.known_values(entry["to"]))
        case "set graph outputs":
            return SetGraphOutputs(find(entry["graph"], Graph), read.known_values(entry["to"]))
        case "set initializer":
            graph = find(entry["graph"], Graph)
            value = read.value(entry["value"])
            return SetInitializer(graph, value, read.any_tensor(entry["to"]), entry.get("at"))
    return _decode_field(entry, read, references)


def _decode_field(entry: Mapping[str, Any], read: ValueDecoder, references: ReadReferences) -> SetField:
    kind = next((k for k in KINDS if k in entry), None)
    field = str(entry["do"]).removeprefix("set ")
    if kind is None or field not in FIELDS[KINDS[kind]]:
        msg = f"nothing here does {entry['do']!r}"
        raise ValueError(msg)
    content: Any = entry["to"]
    match field:
        case "type":
            content = read.type(content)
        case "functions":
            content = tuple(read.function(f) for f in content)
        case "training_info":
            content = tuple(read.training(t) for t in content)
        case "configurations":
            content = tuple(device_configuration(c) for c in content)
        case "device_configurations":
            content = read.devices(content)
        case "quantization_annotations":
            content = read.annotations(content)
        case "declared":
            content = read.known_values(content)
        case "unknown_changes":
            content = read.unknown_changes(content)
        case "attribute_defaults":
            content = tuple(read.attribute(a) for a in content)
        case "initialization" | "algorithm":
            content = None if content is None else read.graph(content)
        case "initialization_binding" | "update_binding":
            content = tuple((a, b) for a, b in content)
        case _:
            content = _plain(field, content)
    return SetField(references.find(entry[kind], KINDS[kind]), field, content)


def _plain(field: str, content: Any) -> Any:
    """A number, text, table of texts or list of texts, which is what the field must be."""
    wanted: type[Any] = str
    if field in ("ir_version", "model_version"):
        wanted = int
    elif field in ("metadata", "opset_imports"):
        wanted = dict
    elif field == "attributes":
        wanted = list
    entries = list(content.values()) if isinstance(content, dict) else content if isinstance(content, list) else []
    of = int if field == "opset_imports" else str
    if not isinstance(content, wanted) or not all(isinstance(entry, of) for entry in entries):
        msg = f"{field} is {content!r}, not a {wanted.__name__}"
        raise TypeError(msg)
    return tuple(content) if isinstance(content, list) else content
