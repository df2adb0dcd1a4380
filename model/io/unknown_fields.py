"""Unknown fields of messages, which the protobuf runtime keeps but does not let anyone change: done on their bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet

from onnx_workbench.model.io.protobuf import text
from onnx_workbench.model.io.wire import LENGTH, FieldSchema, MessageSchema, WireField, read_field, schemas
from onnx_workbench.model.ir.unknown_fields import UnknownChange


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
    """The message whose unknown fields are meant, wherever in its lists it is now.

    It is the one that goes by the same and, of several, stands where it stood. One that nothing else names may hold
    something else by now, and is then the one in its place if none came or went. When none is found, it may go by
    another name: it is told by its unknown fields if no other has them.
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
    """How far a message in a list is from being the one that was meant; 0 is nearest."""
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
    """Every message below a path of field names, with the index of each step and what the message there goes by."""
    if not names:
        yield [], message
        return
    field = next((field for field in _schema(message).fields.values() if field.name == names[0]), None)
    if field is None or field.message is None or not (field.repeated or message.HasField(field.name)):
        return
    items = getattr(message, field.name) if field.repeated else [getattr(message, field.name)]
    for index, item in enumerate(items):
        known = identifying(field.message)
        if known is not None:
            key = text(getattr(item, known.name))
        else:
            key = unnamed(field.message, *_contents(item), len(items)) if field.repeated else ""
        for steps, held in _at(item, names[1:]):
            yield [(index, key), *steps], held


def identifying(schema: MessageSchema) -> FieldSchema | None:
    """The text by which messages of a kind are told from those beside them; None where nothing names them."""
    named = {field.name: field for field in schema.fields.values() if field.is_text and not field.repeated}
    return next((named[name] for name in _IDENTIFYING if name in named), None)


def unnamed(
    schema: MessageSchema, parts: Iterable[tuple[int, int, int]], read: Callable[[int, int], bytes], count: int
) -> str:
    """What a message in a list that nothing names goes by: how many the list has, and what its known fields hold.

    `parts` are number, begin and end of the content of its fields, and `read` gives so many bytes from a position; of
    long fields it is their length that counts.
    """
    held = []
    for number, start, end in parts:
        if number in schema.fields:
            held.append(f"{number}:{read(start, end - start).hex() if end - start <= _SHORT else end - start}")
    return f"{_UNNAMED}{count} {' '.join(sorted(held))}"


_UNNAMED = "="  # what the key of a message without a name begins with
_SHORT = 64  # bytes
_IDENTIFYING = ("name", "key", "tensor_name", "configuration_id", "domain")


def _contents(message: Any) -> tuple[Iterator[tuple[int, int, int]], Callable[[int, int], bytes]]:
    """Where the fields of a message stand once it is written, and how to read them."""
    data = message.SerializeToString()
    places = ((field.number, field.content, field.end) for field in fields_of(data))
    return places, lambda start, size: data[start : start + size]


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


def fields_of(data: bytes) -> Iterator[WireField]:
    """The fields that follow each other in bytes; WireError when they are something else."""
    position = 0
    while position < len(data):
        field = read_field(data, position)
        yield field
        position = field.end
