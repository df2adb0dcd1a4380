"""Unknown fields of messages in serialized form: the protobuf runtime preserves but does not expose them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from onnx_workbench.model.io.wire import LENGTH, MessageSchema, WireField, read_field, schemas


def is_known(schema: MessageSchema, number: int, wire_type: int) -> bool:
    """Return whether onnx.proto defines a field of this number with this wire type, or may pack it in one."""
    known = schema.fields.get(number)
    return known is not None and (wire_type == known.wire_type or (wire_type == LENGTH and known.repeated))


def own_unknown(message: Any) -> bytes:
    """Return the unknown fields of a message, without those of messages in it."""
    if message is None or not len(UnknownFieldSet(message)):
        return b""
    data, schema = message.SerializeToString(), _schema(message)
    fields = (field for field in fields_of(data) if not is_known(schema, field.number, field.wire_type))
    return b"".join(data[field.start : field.end] for field in fields)


def has_unknown(message: Any) -> bool:
    """Return whether a message or one inside it has unknown fields."""
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


def unknown_number(message: Any, number: int) -> int | None:
    """Return the number in an unknown field, such as a value that an enumeration lacks, or None."""
    if not isinstance(message, Message):
        return None
    fields: Iterable[Any] = UnknownFieldSet(message)  # type: ignore[assignment] # it has __getitem__ and __len__ alone
    return next((f.data for f in fields if f.field_number == number and isinstance(f.data, int)), None)


def _schema(message: Any) -> MessageSchema:
    return schemas()[message.DESCRIPTOR.full_name.removeprefix("onnx.")]


def fields_of(data: bytes) -> Iterator[WireField]:
    """Parse bytes as a sequence of fields; WireError if they are not."""
    position = 0
    while position < len(data):
        field = read_field(data, position)
        yield field
        position = field.end
