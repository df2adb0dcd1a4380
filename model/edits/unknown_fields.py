"""Add, change and remove protobuf fields that onnx.proto does not define, by their path in the message.

The protobuf runtime preserves such fields unchanged, so a change is stored with the object whose message they are in,
as `UnknownChange`, and applied when the model is written.
"""

from __future__ import annotations

import re

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.io.message_fields import Path, hexadecimal, integer
from onnx_workbench.model.io.raw_view import RawContents, RawField, contents_of, fields, root
from onnx_workbench.model.io.unknown_fields import identifying, unnamed
from onnx_workbench.model.io.wire import FIXED32, FIXED64, LENGTH, START_GROUP, VARINT, encode_tag, encode_varint
from onnx_workbench.model.ir.graph import Function, Model, Node, Value
from onnx_workbench.model.ir.unknown_fields import UnknownChange

_LARGEST_NUMBER = (1 << 29) - 1
_RESERVED = range(19000, 20000)
_UNKNOWN = re.compile(r"field [0-9]+")

Host = Model | Function | Node | Value


def is_unknown(path: Path) -> bool:
    """Return whether a path of the raw view ends at an unknown field."""
    return bool(path) and _UNKNOWN.fullmatch(path[-1][0]) is not None


def change_unknown(edit: Transaction, host: Host, inner: Path, path: Path, text: str | None) -> None:
    """Set the content of the unknown field at a path from the model, or (None) remove it from its message.

    `inner` leads from the message of `host`, the innermost object around the field, to the field's message: see
    `UnknownChange`. The text is a number, or bytes in hexadecimal, by the field's wire type. Costs as much as writing
    the model without its weights.
    """
    contents = contents_of(edit.model)
    old = new = b""
    keys, found = _message(contents, path)
    for field in found:
        if field.schema is None:
            data = contents.read(field.start, field.end - field.start)
            old += data
            new += data if field.key != path[-1] else b"" if text is None else _encoded(field, text)
    change = UnknownChange(_named(inner, keys), old, new)
    edit.do(SetField(host, "unknown_changes", (*host.unknown_changes, change)))


def add_unknown(edit: Transaction, host: Host, inner: Path, path: Path, number: str, text: str) -> None:
    """Add an unknown field with a number to the message at a path from the model.

    `text` is an integer, or ``bytes`` followed by hexadecimal. `host` and `inner` as for `change_unknown`.
    """
    contents = contents_of(edit.model)
    keys, held, beside = _message_at(contents, path)
    known = held.message
    found = integer(number, 32, signed=False)
    if not 1 <= found <= _LARGEST_NUMBER or found in _RESERVED:
        raise ModelError(
            f"{found} is not a field number", f"Field numbers are 1 to {_LARGEST_NUMBER}, except 19000 to 19999."
        )
    if known is not None and found in known.fields:
        raise ModelError(f"Field {found} is known", f"It is {known.fields[found].name} of {known.name}: add that.")
    data = text.strip().removeprefix("bytes").strip()
    kind = VARINT if data == text.strip() else LENGTH
    old = b"".join(contents.read(f.start, f.end - f.start) for f in beside if f.schema is None)
    change = UnknownChange(_named(inner, keys), old, old + _field(found, kind, data))
    edit.do(SetField(host, "unknown_changes", (*host.unknown_changes, change)))


def _message_at(contents: RawContents, path: Path) -> tuple[list[str], RawField, list[RawField]]:
    """Return the keys of the messages on a path, the message at its end, and its fields."""
    keys: list[str] = []
    held, found = root(contents), list(fields(contents, root(contents)))
    for step in path:
        inner = next((field for field in found if field.key == step), None)
        if inner is None:
            raise ModelError(f"There is no {step[0]} here", "The model has changed in the meantime.")
        beside = sum(field.number == inner.number for field in found)
        held, found = inner, list(fields(contents, inner))
        keys.append(_key(contents, inner, found, beside))
    if any(field.wire_type == START_GROUP for field in found):
        raise ModelError(
            "The message holds a group", "The ends of unknown groups are not recorded, so they cannot be removed."
        )
    return keys, held, found


def _key(contents: RawContents, message: RawField, found: list[RawField], count: int) -> str:
    """Return the key of a message with these fields in a list of `count`: see `UnknownChange`."""
    if message.schema is None or message.message is None:
        return ""
    known = identifying(message.message)
    if known is None:
        places = ((field.number, field.content, field.end) for field in found)
        return unnamed(message.message, places, contents.read, count) if message.schema.repeated else ""
    matching = [field for field in found if field.schema is known]
    name = contents.read(matching[-1].content, matching[-1].end - matching[-1].content) if matching else b""
    return name.decode("utf-8", "surrogateescape")


def _named(inner: Path, keys: list[str]) -> tuple[tuple[str, int, str], ...]:
    """Return the last steps of a path with the keys of the messages there."""
    return tuple((*step, key) for step, key in zip(inner, keys[len(keys) - len(inner) :], strict=True))


def _message(contents: RawContents, path: Path) -> tuple[list[str], list[RawField]]:
    """Return the sibling fields, the field at a path, and the keys of the messages on the way."""
    keys, _, found = _message_at(contents, path[:-1])
    if not any(field.key == path[-1] and field.schema is None for field in found):
        raise ModelError(f"There is no {path[-1][0]} here", "The model has changed in the meantime.")
    return keys, found


def _encoded(field: RawField, text: str) -> bytes:
    """Return an unknown field with another content."""
    return _field(field.number, field.wire_type, text)


def _field(number: int, kind: int, text: str) -> bytes:
    """Encode the user's text as a field in wire format."""
    tag = encode_tag(number, kind)
    if kind == VARINT:
        held = integer(text) if text.strip().startswith("-") else integer(text, signed=False)
        return tag + encode_varint(held & (1 << 64) - 1)
    data = hexadecimal(text)
    if kind == LENGTH:
        return tag + encode_varint(len(data)) + data
    size = {FIXED32: 4, FIXED64: 8}[kind]
    if len(data) != size:
        raise ModelError(f"{len(data)} bytes do not fit", f"The field holds {size} bytes.")
    return tag + data
