"""The protobuf wire format: single fields with their positions, and the ONNX messages as tables.

The rules are those of the protobuf runtime: a varint has at most ten bytes and need not be minimal, a tag
fits 32 bits, groups nest and end with their own number, messages nest at most 100 deep.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

from onnx_workbench.model.io.protobuf import ModelProto, message_class

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
START_GROUP: Final = 3
END_GROUP: Final = 4
FIXED32: Final = 5

#: Maximum nesting of messages and groups, as in the protobuf runtime.
DEPTH_LIMIT: Final = 100

#: The wire type of a field by its type in onnx.proto.
WIRE_TYPES: Final = {
    1: FIXED64, 2: FIXED32, 3: VARINT, 4: VARINT, 5: VARINT, 6: FIXED64, 7: FIXED32, 8: VARINT,
    9: LENGTH, 10: START_GROUP, 11: LENGTH, 12: LENGTH, 13: VARINT, 14: VARINT, 15: FIXED32,
    16: FIXED64, 17: VARINT, 18: VARINT,
}  # fmt: skip
_STRING = 9

#: Fields of bytes that hold text.
BYTES_OF_TEXT: Final = frozenset({"s", "strings", "string_data"})


class WireError(ValueError):
    """Malformed wire format; `position` is relative to the buffer."""

    def __init__(self, position: int, reason: str) -> None:
        self.position = position
        self.reason = reason
        super().__init__(f"{reason} at byte {position}")


class DataEndsError(WireError):
    """The data ends inside a number or a group."""


class FieldOverrunError(WireError):
    """The data ends before `field` does."""

    def __init__(self, field: WireField, size: int) -> None:
        self.field = field
        claimed, remaining = field.end - field.content, size - field.content
        super().__init__(field.start, f"field {field.number} claims {claimed:,} bytes, {remaining:,} remain")


class FieldSchema(NamedTuple):
    """One field of a message as declared in onnx.proto."""

    number: int
    name: str
    wire_type: int
    repeated: bool
    is_text: bool
    message: MessageSchema | None


class MessageSchema:
    """A message of onnx.proto: its fields by number."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: dict[int, FieldSchema] = {}

    def __repr__(self) -> str:
        return f"MessageSchema({self.name!r})"


@lru_cache(maxsize=1)
def schemas() -> dict[str, MessageSchema]:
    """Return every message reachable from ModelProto, by name."""
    by_name: dict[str, MessageSchema] = {}
    _add_schema(ModelProto.DESCRIPTOR, by_name)
    return by_name


@lru_cache(maxsize=1)
def operator_set_schema() -> MessageSchema:
    """Return the message OperatorSetProto."""
    return _add_schema(message_class("OperatorSetProto").DESCRIPTOR, dict(schemas()))


def _add_schema(descriptor: Any, found: dict[str, MessageSchema]) -> MessageSchema:
    name = descriptor.full_name.removeprefix("onnx.")
    if name in found:
        return found[name]
    schema = found[name] = MessageSchema(name)
    for field in descriptor.fields:
        inner = None if field.message_type is None else _add_schema(field.message_type, found)
        repeated = is_repeated(field)
        wire_type = WIRE_TYPES[field.type]
        is_text = field.type == _STRING
        schema.fields[field.number] = FieldSchema(field.number, field.name, wire_type, repeated, is_text, inner)
    return schema


def is_repeated(field: Any) -> bool:
    """Return whether a field of a descriptor is a list."""
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == 3)


class WireField(NamedTuple):
    """One field on the wire.

    `value` is the number of a varint or fixed field; else the length of the content, which begins at `content`.
    Positions are relative to the buffer.
    """

    number: int
    wire_type: int
    start: int
    content: int
    end: int
    value: int


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return the varint at a position and the position after it; WireError when it is truncated or too long."""
    value = shift = 0
    start = position
    size = len(data)
    while True:
        if position >= size:
            raise DataEndsError(start, "the data ends inside a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
        if shift >= 70:
            raise WireError(start, "a number has more than ten bytes")


def read_tag(data: bytes | memoryview, position: int) -> tuple[int, int, int]:
    """Return the field number and wire type at a position, and the position after the tag."""
    tag, after = read_varint(data, position)
    number, wire_type = tag >> 3, tag & 7
    if after - position > 5 or tag > 0xFFFF_FFFF or number == 0:
        raise WireError(position, f"a field has the number {number}, which no field can have")
    if wire_type > FIXED32:
        raise WireError(position, f"field {number} has wire type {wire_type}, which does not exist")
    return number, wire_type, after


def read_field(data: bytes | memoryview, position: int) -> WireField:
    """Return the field at a position, groups included; WireError when it does not end within the data."""
    number, wire_type, content = read_tag(data, position)
    value = 0
    if wire_type == VARINT:
        value, end = read_varint(data, content)
    elif wire_type == LENGTH:
        value, content = read_varint(data, content)
        end = content + value
    elif wire_type == START_GROUP:
        end = _skip_group(data, content, number)
    elif wire_type == END_GROUP:
        raise WireError(position, f"group {number} ends without a start")
    else:
        end = content + (8 if wire_type == FIXED64 else 4)
    if wire_type in (FIXED32, FIXED64):
        value = int.from_bytes(data[content:end], "little")
    field = WireField(number, wire_type, position, content, end, value)
    if end > len(data):
        raise FieldOverrunError(field, len(data))
    return field


def _skip_group(data: bytes | memoryview, position: int, number: int) -> int:
    open_groups = [number]
    while open_groups:
        number, wire_type, content = read_tag(data, position)
        if wire_type == START_GROUP:
            open_groups.append(number)
            if len(open_groups) > DEPTH_LIMIT:
                raise WireError(position, f"groups nest deeper than {DEPTH_LIMIT}")
            position = content
        elif wire_type == END_GROUP:
            if open_groups.pop() != number:
                raise WireError(position, f"group {number} ends inside another group")
            position = content
        else:
            position = read_field(data, position).end
    return position


def encode_varint(value: int) -> bytes:
    """Encode a non-negative number below 2**64 as a varint."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_tag(number: int, wire_type: int) -> bytes:
    """Encode the tag of a field."""
    return encode_varint(number << 3 | wire_type)


def delimited(number: int, content: bytes) -> bytes:
    """Encode a field of a text, bytes or a message."""
    return encode_tag(number, LENGTH) + encode_varint(len(content)) + content
