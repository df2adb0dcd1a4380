"""Unknown fields of messages, which the protobuf runtime keeps but does not let anyone change: done on their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet

from model.io.protobuf import text
from model.io.wire import LENGTH, Field, FieldSchema, MessageSchema, read_field, schemas
from model.unknown import UnknownChange


def is_known(schema: MessageSchema, number: int, wire_type: int) -> bool:
    """Whether onnx.proto has a field of this number that may stand on the wire in this form."""
    known = schema.fields.get(number)
    return known is not None and wire_type in (known.wire_type, LENGTH)


def own_unknown(message: Any) -> bytes:
    """The fields of a message, not of those inside it, that onnx.proto does not know."""
    return _parted(message)[1] if message is not None and len(UnknownFieldSet(message)) else b""


def has_unknown(message: Any) -> bool:
    """Whether a message or one inside it holds fields that onnx.proto does not know."""
    if len(UnknownFieldSet(message)):
        return True
    for field in _schema(message).fields.values():
        if field.message is None:
            continue
        if field.repeated:
            held = getattr(message, field.name)
        else:
            held = [getattr(message, field.name)] if message.HasField(field.name) else []
        if any(map(has_unknown, held)):
            return True
    return False


def change_unknown(message: Any, changes: Sequence[UnknownChange]) -> None:
    """Make changes of unknown fields in a message and those inside it; what is no longer there is passed over.

    Writes and reads anew each message that is changed, with all that is in it.
    """
    for change in changes:
        holder = _holder(message, change)
        if holder is not None:
            known, _ = _parted(holder)
            holder.Clear()
            holder.MergeFromString(known + change.new)


def _holder(message: Any, change: UnknownChange) -> Any:
    """The message whose unknown fields are meant.

    Of those in lists that go by something, the one that goes by it, wherever it is now; of others the one in its
    place. When none does, it may go by something else now: it is told by its unknown fields if no other has them.
    """
    same, others = [], []
    for places, held in _at(message, [name for name, _, _ in change.path]):
        if own_unknown(held) != change.old:
            continue
        wanted = [(index, key) for _, index, key in change.path]
        if all(key == k if k else index == i for (index, key), (i, k) in zip(places, wanted, strict=True)):
            same.append((places != wanted, held))
        else:
            others.append(held)
    if same:
        return min(same, key=lambda pair: pair[0])[1]
    return others[0] if change.old and len(others) == 1 else None


def _at(message: Any, names: Sequence[str]) -> Iterator[tuple[list[tuple[int, str]], Any]]:
    """Every message below a path of field names, with the index of each step and what the message there goes by."""
    if not names:
        yield [], message
        return
    field = next((field for field in _schema(message).fields.values() if field.name == names[0]), None)
    if field is None or field.message is None or not (field.repeated or message.HasField(field.name)):
        return
    known = identifying(field.message)
    for index, item in enumerate(getattr(message, field.name) if field.repeated else [getattr(message, field.name)]):
        key = text(getattr(item, known.name)) if known is not None else ""
        for places, held in _at(item, names[1:]):
            yield [(index, key), *places], held


def identifying(schema: MessageSchema) -> FieldSchema | None:
    """The text by which messages of a kind are told from those beside them; None where only their place does that."""
    named = {field.name: field for field in schema.fields.values() if field.is_text and not field.repeated}
    return next((named[name] for name in _IDENTIFYING if name in named), None)


_IDENTIFYING = ("name", "key", "tensor_name", "configuration_id", "domain")


def _schema(message: Any) -> MessageSchema:
    return schemas()[message.DESCRIPTOR.full_name.removeprefix("onnx.")]


def _parted(message: Any) -> tuple[bytes, bytes]:
    """The bytes of the fields that are known, and of those that are not."""
    data, schema = message.SerializeToString(), _schema(message)
    known, unknown = bytearray(), bytearray()
    for field in fields_of(data):
        part = known if is_known(schema, field.number, field.wire_type) else unknown
        part += data[field.start : field.end]
    return bytes(known), bytes(unknown)


def fields_of(data: bytes) -> Iterator[Field]:
    """The fields that follow each other in bytes; WireError when they are something else."""
    position = 0
    while position < len(data):
        field = read_field(data, position)
        yield field
        position = field.end
