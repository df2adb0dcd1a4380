"""Unknown fields of messages, which the protobuf runtime keeps but does not let anyone change: done on their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet

from model.io.wire import LENGTH, Field, MessageSchema, read_field, schemas
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
    """The message whose unknown fields are meant: the one at the path, or one beside it if they have moved."""
    names = [name for name, _ in change.path]
    at = [index for _, index in change.path]
    found = [(places != at, held) for places, held in _at(message, names, []) if _parted(held)[1] == change.old]
    if not change.old:  # as most messages have it: only the place tells which is meant
        found = [(moved, held) for moved, held in found if not moved]
    return min(found, key=lambda pair: pair[0])[1] if found else None


def _at(message: Any, names: Sequence[str], places: list[int]) -> Iterator[tuple[list[int], Any]]:
    """Every message below a path of field names, with the index of each step."""
    if not names:
        yield places, message
        return
    field = next((field for field in _schema(message).fields.values() if field.name == names[0]), None)
    if field is None or field.message is None:
        return
    held = getattr(message, field.name)
    if field.repeated:
        for index, item in enumerate(held):
            yield from _at(item, names[1:], [*places, index])
    elif message.HasField(field.name):
        yield from _at(held, names[1:], [*places, 0])


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
