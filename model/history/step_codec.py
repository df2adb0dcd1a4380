"""One step as a readable JSON object, and back: ``{"do": "set attribute", "node": …, …}``.

The role that a kind of step declares for each field decides how the field is written; see steps.Role.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from onnx_workbench.model.history.references import ReadReferences, WriteReferences
from onnx_workbench.model.history.sound_steps import why_unsound
from onnx_workbench.model.history.steps import (
    FIELDS,
    KINDS_OF_STEPS,
    Reference,
    Role,
    SetField,
    Step,
    references_of,
)
from onnx_workbench.model.history.value_decoder import (
    ValueDecoder,
    pairs_of,
    text_of,
    texts_of,
    whole,
)
from onnx_workbench.model.history.value_encoder import ValueEncoder
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Value

#: Kinds of objects that have fields, by their names in entries.
KINDS: Mapping[str, type[Any]] = {
    "model": Model, "graph": Graph, "function": Function, "training": TrainingInfo, "node": Node, "value": Value,
}  # fmt: skip
_NAMES = {kind: name for name, kind in KINDS.items()}


def encode(step: Step, references: WriteReferences, *, defer_tensors: bool = False) -> dict[str, Any]:
    """Encode a step that is about to be applied; see ValueEncoder for `defer_tensors`."""
    write = ValueEncoder(references, defer_tensors=defer_tensors)
    if isinstance(step, SetField):
        to = _codec_of(step.field).write(write, step.value)
        return {"do": f"set {step.field}", _NAMES[type(step.target)]: references.of(step.target), "to": to}
    entry: dict[str, Any] = {"do": step.verb}
    for declared in references_of(type(step)):
        content = getattr(step, declared.name)
        if declared.role is Role.USES:
            for kind, key in _USERS.items():
                entry[key] = [[references.of(user), index] for user, index in content if isinstance(user, kind)]
        elif content is not None or declared.role is not Role.PLAIN:  # a missing index means the end of the list
            entry[declared.key] = None if content is None else _WRITE[declared.role](write, content)
    return entry


_USERS: Mapping[type[Any], str] = {Node: "inputs", Graph: "outputs"}

_WRITE: Mapping[Role, Callable[[ValueEncoder, Any], Any]] = {
    Role.CHANGED: ValueEncoder.reference,
    Role.BESIDE: ValueEncoder.reference,
    Role.NODE: ValueEncoder.node_or_reference,
    Role.VALUE: ValueEncoder.value_or_reference,
    Role.VALUES: ValueEncoder.values,
    Role.ATTRIBUTE: ValueEncoder.attribute,
    Role.TENSOR: ValueEncoder.any_tensor,
    Role.PLAIN: lambda _write, content: content,
}


def is_known(step: Step, references: WriteReferences) -> bool:
    """Return whether the object of a step is in the model that the recording starts from, or was added since.

    Changes of objects outside the model are not recorded: an object is recorded whole when it is added.
    """
    return references.of(step.changed) is not None


def decode(entry: Mapping[str, Any], references: ReadReferences) -> Step:
    """Decode a step from a JSON object; raise ModelError when it refers to an object that is not in the model."""
    read = ValueDecoder(references)
    try:
        step = _decode_step(entry, read, references)
        reason = why_unsound(step)
        if reason:
            raise ValueError(reason)
    except BaseException:
        read.take_back()
        raise
    return step


def _decode_step(entry: Mapping[str, Any], read: ValueDecoder, references: ReadReferences) -> Step:
    kind: Any = KINDS_OF_STEPS.get(entry["do"])
    if kind is None:
        return _decode_field(entry, read, references)
    step: Step = kind(**{d.name: _decoded(entry, d, read, references) for d in references_of(kind)})
    return step


def _decoded(entry: Mapping[str, Any], declared: Reference, read: ValueDecoder, references: ReadReferences) -> Any:
    if declared.role is Role.USES:
        return tuple(
            (references.find(u, kind), whole(index)) for kind, key in _USERS.items() for u, index in entry[key]
        )
    if declared.role is Role.PLAIN:
        content = entry.get(declared.key) if declared.is_optional else entry[declared.key]
        if declared.kind is str:
            return text_of(content)
        return None if content is None and declared.is_optional else whole(content)
    content = entry[declared.key]
    if declared.role in (Role.CHANGED, Role.BESIDE):
        is_left_out = content is None and declared.is_optional
        return None if is_left_out or declared.kind is None else references.find(content, declared.kind)
    if declared.role is Role.VALUES:
        return read.values(content) if declared.is_optional else read.known_values(content)
    is_left_out = content is None and (declared.is_optional or declared.role is Role.TENSOR)
    return None if is_left_out else _READ[declared.role](read, content)


_READ: Mapping[Role, Callable[[ValueDecoder, Any], Any]] = {
    Role.NODE: ValueDecoder.node,
    Role.VALUE: ValueDecoder.value,
    Role.ATTRIBUTE: ValueDecoder.attribute,
    Role.TENSOR: ValueDecoder.any_tensor,
}


class _Codec(NamedTuple):
    """Encoder and decoder of the value of an object's field."""

    write: Callable[[ValueEncoder, Any], Any]
    read: Callable[[ValueDecoder, Any], Any]


def _each(codec: _Codec) -> _Codec:
    return _Codec(
        lambda write, contents: [codec.write(write, one) for one in contents],
        lambda read, entries: tuple([codec.read(read, one) for one in entries]),
    )


_GRAPH = _Codec(
    lambda write, graph: None if graph is None else write.graph(graph),
    lambda read, entry: None if entry is None else read.graph(entry),
)
_PAIRS = _Codec(lambda _write, pairs: pairs, lambda _read, entries: pairs_of(entries))

#: Codecs of the fields that hold more than numbers and texts.
_FIELDS: Mapping[str, _Codec] = {
    "type": _Codec(ValueEncoder.type, ValueDecoder.type),
    "functions": _each(_Codec(ValueEncoder.function, ValueDecoder.function)),
    "training_info": _each(_Codec(ValueEncoder.training, ValueDecoder.training)),
    "configurations": _each(_Codec(ValueEncoder.device, ValueDecoder.device)),
    "device_configurations": _Codec(ValueEncoder.devices, ValueDecoder.devices),
    "quantization_annotations": _Codec(ValueEncoder.annotations, ValueDecoder.annotations),
    "declared": _Codec(ValueEncoder.values, ValueDecoder.known_values),
    "messages": _Codec(ValueEncoder.messages, ValueDecoder.messages),
    "attribute_defaults": _each(_Codec(ValueEncoder.attribute, ValueDecoder.attribute)),
    "initialization": _GRAPH,
    "algorithm": _GRAPH,
    "initialization_binding": _PAIRS,
    "update_binding": _PAIRS,
}


def _codec_of(field: str) -> _Codec:
    return _FIELDS.get(field) or _Codec(
        lambda _write, content: dict(content) if isinstance(content, Mapping) else content,
        lambda _read, content: _plain(field, content),
    )


def _decode_field(entry: Mapping[str, Any], read: ValueDecoder, references: ReadReferences) -> SetField:
    kind = next((k for k in KINDS if k in entry), None)
    field = str(entry["do"]).removeprefix("set ")
    if kind is None or field not in FIELDS[KINDS[kind]]:
        msg = f"unknown step {entry['do']!r}"
        raise ValueError(msg)
    content = _codec_of(field).read(read, entry["to"])
    return SetField(references.find(entry[kind], KINDS[kind]), field, content)


def _plain(field: str, content: Any) -> Any:
    """Return a plain value (number, text, dictionary or list of texts) after checking that the field has this type."""
    if field in ("ir_version", "model_version"):
        return whole(content)
    if field == "opset_imports":
        return {text_of(domain): whole(version) for domain, version in dict(content).items()}
    if field == "metadata":
        return texts_of(content)
    if field == "attributes" and isinstance(content, list):
        return tuple(map(text_of, content))
    return text_of(content)
