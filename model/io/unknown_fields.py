"""Edit unknown fields of messages in serialized form: the protobuf runtime preserves but does not expose them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from onnx_workbench.model.io.protobuf import text
from onnx_workbench.model.io.wire import LENGTH, FieldSchema, MessageSchema, WireField, read_field, schemas
from onnx_workbench.model.ir.unknown_fields import UnknownChange


def is_known(schema: MessageSchema, number: int, wire_type: int) -> bool:
    """Return whether onnx.proto defines a field of this number with this wire type, or may pack it in one."""
    known = schema.fields.get(number)
    return known is not None and (wire_type == known.wire_type or (wire_type == LENGTH and known.repeated))


def own_unknown(message: Any) -> bytes:
    """Return the unknown fields of a message, without those of messages in it."""
    return _parted(message)[1] if message is not None and len(UnknownFieldSet(message)) else b""


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


def change_unknown(message: Any, changes: Sequence[UnknownChange]) -> None:
    """Apply changes of unknown fields in a message and those inside it; missing ones are skipped.

    Reserializes each changed message with all its content.
    """
    for change in changes:
        holder = _holder(message, change)
        if holder is not None:
            known, _ = _parted(holder)
            holder.Clear()
            holder.MergeFromString(known + change.new)


def _holder(message: Any, change: UnknownChange) -> Any:
    """Find the message whose unknown fields are meant, at its current position in its list.

    It is the one with the same key and, among several, at the same position. An unnamed one may have changed; then it
    is the one at its position if none was added or removed. If none is found, it may have been renamed: then its
    unknown fields identify it, if they are unique.
    """
    same, others = [], []
    for steps, held in _at(message, [name for name, _, _ in change.path]):
        if own_unknown(held) != change.old:
            continue
        fits = [_fit(now, then) for now, (_, *then) in zip(steps, change.path, strict=True)]
        if _NO_FIT in fits:
            others.append(held)
        else:
            same.append((sum(fits), held))
    if same:
        return min(same, key=lambda pair: pair[0])[1]
    return others[0] if change.old and len(others) == 1 else None


_NO_FIT = -1


def _fit(now: tuple[int, str], then: Sequence[Any]) -> int:
    """Return the distance of a message in a list from the one searched; 0 is nearest."""
    (index, key), (old_index, old_key) = now, then
    if key == old_key or not old_key:
        return int(index != old_index) if old_key else (0 if index == old_index else _NO_FIT)
    if not old_key.startswith(_UNNAMED):
        return _NO_FIT
    count, content = (part.split(" ", 1) for part in (key, old_key))
    if count[1:] == content[1:]:
        return 1 + int(index != old_index)
    return 3 if count[0] == content[0] and index == old_index else _NO_FIT


def _at(message: Any, names: Sequence[str]) -> Iterator[tuple[list[tuple[int, str]], Any]]:
    """Yield every message below a path of field names, with the index and the key of each step."""
    if not names:
        yield [], message
        return
    field = next((field for field in _schema(message).fields.values() if field.name == names[0]), None)
    if field is None or field.message is None or not (field.repeated or message.HasField(field.name)):
        return
    items = getattr(message, field.name) if field.repeated else [getattr(message, field.name)]
    for index, item in enumerate(items):
        key = _key(field, item, len(items))
        for steps, held in _at(item, names[1:]):
            yield [(index, key), *steps], held


def _key(field: FieldSchema, item: Any, count: int) -> str:
    """Return the key of a message in a field with `count` of them: see `UnknownChange`."""
    assert field.message is not None
    known = _identifying(field.message)
    if known is not None:
        return text(getattr(item, known.name))
    return _unnamed(field.message, item, count) if field.repeated else ""


def unknown_changes(before: Any, after: Any, path: tuple[tuple[str, int, str], ...] = ()) -> Iterator[UnknownChange]:
    """Yield the changes that give a message, and those in it at the same places, the unknown fields of another."""
    old, new = own_unknown(before), own_unknown(after)
    if old != new:
        yield UnknownChange(path, old, new)
    for field in _schema(before).fields.values():
        if field.message is None or not (
            field.repeated or (before.HasField(field.name) and after.HasField(field.name))
        ):
            continue
        first, second = getattr(before, field.name), getattr(after, field.name)
        pairs = list(zip(first, second, strict=False)) if field.repeated else [(first, second)]
        for index, (item, other) in enumerate(pairs):
            yield from unknown_changes(item, other, (*path, (field.name, index, _key(field, item, len(pairs)))))


def _identifying(schema: MessageSchema) -> FieldSchema | None:
    """Return the text field that identifies messages of a kind among their siblings; None if there is none."""
    named = {field.name: field for field in schema.fields.values() if field.is_text and not field.repeated}
    return next((named[name] for name in _IDENTIFYING if name in named), None)


def _unnamed(schema: MessageSchema, message: Any, count: int) -> str:
    """Return the key of an unnamed message in a list: the length of the list, and the content of its known fields.

    Of long fields only the length is used.
    """
    held, data = [], message.SerializeToString()
    for field in fields_of(data):
        if field.number in schema.fields:
            size = field.end - field.content
            held.append(f"{field.number}:{data[field.content : field.end].hex() if size <= _SHORT else size}")
    return f"{_UNNAMED}{count} {' '.join(sorted(held))}"


_UNNAMED = "="  # prefix of the key of an unnamed message
_SHORT = 64  # bytes
_IDENTIFYING = ("name", "key", "tensor_name", "configuration_id", "domain")


def _schema(message: Any) -> MessageSchema:
    return schemas()[message.DESCRIPTOR.full_name.removeprefix("onnx.")]


def _parted(message: Any) -> tuple[bytes, bytes]:
    """Return the bytes of the known and of the unknown fields."""
    data, schema = message.SerializeToString(), _schema(message)
    known, unknown = bytearray(), bytearray()
    for field in fields_of(data):
        part = known if is_known(schema, field.number, field.wire_type) else unknown
        part += data[field.start : field.end]
    return bytes(known), bytes(unknown)


def fields_of(data: bytes) -> Iterator[WireField]:
    """Parse bytes as a sequence of fields; WireError if they are not."""
    position = 0
    while position < len(data):
        field = read_field(data, position)
        yield field
        position = field.end
