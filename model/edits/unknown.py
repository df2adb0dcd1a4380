"""Changing and removing fields that onnx.proto does not know, by their path in the message.

The protobuf runtime keeps such fields as they are, so a change is kept beside the object whose message they are in,
as `model.graph.UnknownChange`, and made when the model is written.
"""

from __future__ import annotations

import re

from model.document import Transaction
from model.errors import ModelError
from model.graph import Model, Node
from model.io.messages import Path, hexadecimal, integer
from model.io.rawview import Contents, RawField, contents_of, fields, root
from model.io.wire import FIXED32, FIXED64, LENGTH, START_GROUP, VARINT, encode_tag, encode_varint
from model.steps import SetField
from model.unknown import UnknownChange

_UNKNOWN = re.compile(r"field [0-9]+")

Host = Model | Node


def is_unknown(path: Path) -> bool:
    """Whether a path of the raw view ends at a field that onnx.proto does not know."""
    return bool(path) and _UNKNOWN.fullmatch(path[-1][0]) is not None


def change_unknown(edit: Transaction, host: Host, inner: Path, path: Path, text: str | None) -> None:
    """Change what the unknown field at a path from the model holds, or (None) take it out of its message.

    `inner` leads from the message of `host`, the innermost object around the field, to the field's message. What is
    written is a number, or bytes in hexadecimal, as the file has one or the other. Costs as much as writing the model
    without its weights.
    """
    contents = contents_of(edit.model)
    old = new = b""
    for field in _message(contents, path):
        if field.schema is None:
            data = contents.read(field.start, field.end - field.start)
            old += data
            new += data if field.key != path[-1] else b"" if text is None else _encoded(field, text)
    change = UnknownChange(inner, old, new)
    edit.do(SetField(host, "unknown_changes", (*host.unknown_changes, change)))


def _message(contents: Contents, path: Path) -> list[RawField]:
    """The fields beside the one at a path, with it."""
    found = list(fields(contents, root(contents)))
    for step in path[:-1]:
        held = next((field for field in found if field.key == step), None)
        found = [] if held is None else list(fields(contents, held))
    if not any(field.key == path[-1] and field.schema is None for field in found):
        raise ModelError(f"There is no {path[-1][0]} here", "The model changed meanwhile.")
    if any(field.wire_type == START_GROUP for field in found):
        raise ModelError("The message holds a group", "Where unknown groups end is not told, so all of them stay.")
    return found


def _encoded(field: RawField, text: str) -> bytes:
    """An unknown field with another content."""
    tag = encode_tag(field.number, field.wire_type)
    if field.wire_type == VARINT:
        number = integer(text) if text.strip().startswith("-") else integer(text, signed=False)
        return tag + encode_varint(number & (1 << 64) - 1)
    data = hexadecimal(text)
    if field.wire_type == LENGTH:
        return tag + encode_varint(len(data)) + data
    size = {FIXED32: 4, FIXED64: 8}[field.wire_type]
    if len(data) != size:
        raise ModelError(f"{len(data)} bytes do not fit", f"The field holds {size} bytes.")
    return tag + data
