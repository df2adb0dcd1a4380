"""Mutations of good files: of bytes, and of fields of their messages."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf.message import Message
from onnx import ModelProto

from tests.attack.hostile_files import NUMBERS, TEXTS

_MOST_CHANGES = 4
_LARGEST = 1 << 21  # of a file of which fields are changed


def mutated(content: bytes, rng: random.Random) -> bytes:
    """A file with a few changes."""
    if len(content) <= _LARGEST and rng.random() < 0.6:
        return _with_other_fields(content, rng)
    return mutated_bytes(content, rng)


def mutated_bytes(content: bytes, rng: random.Random) -> bytes:
    """Content with a few bytes changed, removed, doubled or cut off."""
    made = bytearray(content)
    for _ in range(rng.randrange(1, _MOST_CHANGES)):
        at, length = rng.randrange(len(made) or 1), rng.choice([1, 1, 2, 8, 100])
        match rng.randrange(5):
            case 0:
                made[at : at + length] = rng.randbytes(length)
            case 1:
                del made[at : at + length]
            case 2:
                made[at:at] = made[at : at + length]
            case 3:
                made[at : at + 1] = bytes([rng.choice([0, 1, 0x7F, 0x80, 0xFF])])
            case _:
                del made[at:]
    return bytes(made)


def _with_other_fields(content: bytes, rng: random.Random) -> bytes:
    model = ModelProto.FromString(content)
    for _ in range(rng.randrange(1, _MOST_CHANGES)):
        message: Any = model
        while (inner := _messages(message)) and rng.random() < 0.85:
            message = rng.choice(inner)
        _change(message, rng)
    return model.SerializeToString().replace(b"QQ", b"\xff\xfe")


def _messages(message: Message) -> list[Message]:
    found: list[Message] = []
    for descriptor, content in message.ListFields():
        if descriptor.message_type is not None:
            found += [content] if isinstance(content, Message) else list(content)
    return found


def _change(message: Any, rng: random.Random) -> None:
    present = [descriptor.name for descriptor, _ in message.ListFields()]
    name = rng.choice(present or [descriptor.name for descriptor in message.DESCRIPTOR.fields])
    descriptor, content = message.DESCRIPTOR.fields_by_name[name], getattr(message, name)
    is_list = hasattr(content, "append") or hasattr(content, "add")
    if rng.random() < 0.2:
        message.ClearField(name)
    elif descriptor.message_type is not None:
        if is_list and len(content):
            rng.choice(
                [lambda: content.add().CopyFrom(rng.choice(content)), lambda: content.pop(rng.randrange(len(content)))]
            )()
    elif is_list:
        if len(content) and rng.random() < 0.5:
            content.pop(rng.randrange(len(content)))
        else:
            content.append(_value(descriptor, rng))
    else:
        setattr(message, name, _value(descriptor, rng))


def _value(descriptor: Any, rng: random.Random) -> Any:
    """A value that the field can hold."""
    match descriptor.cpp_type:
        case descriptor.CPPTYPE_STRING:
            text = rng.choice(TEXTS)
            return text.encode() if descriptor.type == descriptor.TYPE_BYTES else text
        case descriptor.CPPTYPE_FLOAT | descriptor.CPPTYPE_DOUBLE:
            return rng.choice([0.0, -1.0, float("nan"), float("inf"), 1e300 if descriptor.cpp_type == 5 else 1e30])
        case descriptor.CPPTYPE_ENUM:
            return rng.choice(list(descriptor.enum_type.values_by_number))
        case descriptor.CPPTYPE_INT32:
            return rng.choice([n for n in NUMBERS if -(1 << 31) <= n < 1 << 31])
        case descriptor.CPPTYPE_UINT64:
            return rng.choice([n for n in NUMBERS if n >= 0])
    return rng.choice(NUMBERS)
