"""Protobuf text of a message, to be edited: long contents are named instead of shown, unknown fields are written out.

The text is that of ``google.protobuf.text_format``, of messages that have two more fields: ``unchanged`` names a
content that stays what it is (numbers, bytes, a graph), and ``unknown`` holds a field that onnx.proto does not define.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.protobuf import Message, ModelProto
from onnx_workbench.model.io.reader.payloads import PayloadTable, total_length
from onnx_workbench.model.io.unknown_fields import fields_of
from onnx_workbench.model.io.wire import (
    BYTES_OF_TEXT,
    DEPTH_LIMIT,
    END_GROUP,
    FIXED32,
    FIXED64,
    LENGTH,
    START_GROUP,
    VARINT,
    WIRE_TYPES,
    WireError,
    WireField,
    delimited,
    encode_tag,
    encode_varint,
    is_repeated,
    read_field,
)

_UNCHANGED, _UNKNOWN = 536_870_910, 536_870_911
_RESERVED = range(19_000, 20_000)
_LONGEST_BYTES, _LONGEST = 256, 4096  # content in bytes above which a field is named instead of shown
_TYPES = descriptor_pb2.FieldDescriptorProto
_NAN = {FIXED32: ("<f", b"\0\0\xc0\x7f"), FIXED64: ("<d", b"\0\0\0\0\0\0\xf8\x7f")}  # the one that text can say
_CONTENTS: Final = {VARINT: "varint", FIXED32: "fixed32", FIXED64: "fixed64", LENGTH: "bytes", START_GROUP: "group"}
_MARK = re.compile(r"#(\d+)(?!\d)")


class MessageTextError(ModelError):
    """The text is not a message; `line` and `column` count from 1."""

    def __init__(self, line: int, column: int, reason: str) -> None:
        super().__init__(f"Line {line}, column {column}", reason)
        self.line, self.column = line, column


class _Kept(NamedTuple):
    """Content that a text names: the fields in wire format, their name, and the message they are in."""

    data: bytes
    field: str
    message: str


class MessageText:
    """A message as `text`; `read` returns the message of a changed text. Contents named by the text stay in `table`.

    The message may contain placeholders of `tables` and graphs; of a graph the text shows the label only. Cost: linear
    in the length of the text.
    """

    def __init__(
        self, message: Message, tables: Iterable[PayloadTable] = (), label: Callable[[Any], str] = lambda _graph: ""
    ) -> None:
        self.table = PayloadTable()
        self._kind: Any = type(message)
        self._tables = tuple(tables)
        self._label = label
        self._kept: list[_Kept] = []
        data = self._shown(message.SerializeToString(), message.DESCRIPTOR, 0)
        shown = _class_of(message.DESCRIPTOR.name, is_for_reading=False).FromString(data)
        printed = text_format.MessageToString(shown, as_utf8=True, use_short_repeated_primitives=True)
        self.text = "".join(character if character.isprintable() else _escape(character) for character in printed)

    def read(self, source: str) -> Any:
        """Return the message of a text; MessageTextError with line and column where it is none."""
        typed = _class_of(self._kind.DESCRIPTOR.name, is_for_reading=True)()
        try:
            text_format.Parse(source, typed)
        except text_format.ParseError as error:
            reason = re.sub(r"^\d+:\d+ : ", "", str(error)).replace(f"{_PACKAGE}.", "")
            raise MessageTextError(error.GetLine() or 1, error.GetColumn() or 1, reason) from error
        except (RecursionError, ValueError, UnicodeError) as error:
            raise MessageTextError(1, 1, f"It cannot be read: {str(error)[:200]}") from error
        return self._kind.FromString(self._typed(typed.SerializeToString(), self._kind.DESCRIPTOR, source))

    # -- showing ---------------------------------------------------------------------------------------------

    def _shown(self, data: bytes, descriptor: Any, depth: int) -> bytes:
        """Return a message in the format of the text's classes."""
        out = bytearray()
        groups: dict[int, list[WireField]] = defaultdict(list)
        for field in fields_of(data):
            known = descriptor.fields_by_number.get(field.number)
            if known is not None and _holds(known, field):
                groups[field.number].append(field)
            else:
                out += delimited(_UNKNOWN, _unknown(data, field))
        for number, fields in groups.items():
            known = descriptor.fields_by_number[number]
            if known.message_type is None:
                parts = [data[field.start : field.end] for field in fields]
                out += self._scalars(known, b"".join(parts), [data[field.content : field.end] for field in fields])
                continue
            for field in fields:
                content = data[field.content : field.end]
                if known.message_type.name == "GraphProto" or depth >= DEPTH_LIMIT:
                    graph = message_factory.GetMessageClass(known.message_type).FromString(content)
                    out += self._keep(known, data[field.start : field.end], self._label(graph))
                else:
                    out += delimited(number, self._shown(content, known.message_type, depth + 1))
        return bytes(out)

    def _scalars(self, known: Any, data: bytes, contents: Sequence[bytes]) -> bytes:
        """Return the fields of one name, or what names them where they are long or text cannot say them."""
        joined = b"".join(contents)
        for table in self._tables:
            if table.nonce in joined:
                pieces = [piece for part in contents for piece in table.split(part)]
                size = total_length(pieces)
                kept = b"".join(p if isinstance(p, bytes) else self.table.add(p) for p in pieces)
                return self._keep(known, delimited(known.number, kept), f"{size:,} bytes")
        is_bytes = known.type == _TYPES.TYPE_BYTES and known.name not in BYTES_OF_TEXT
        if len(joined) > (_LONGEST_BYTES if is_bytes else _LONGEST):
            return self._keep(known, data, f"{len(joined):,} bytes")
        wire = FIXED32 if known.type == _TYPES.TYPE_FLOAT else FIXED64 if known.type == _TYPES.TYPE_DOUBLE else None
        if wire is not None and _has_odd_nan(joined, *_NAN[wire]):
            return self._keep(known, data, "numbers with a NaN that carries bits")
        return data

    def _keep(self, known: Any, data: bytes, label: str) -> bytes:
        self._kept.append(_Kept(data, known.name, known.containing_type.name))
        name = f"#{len(self._kept)} {known.name}{f', {label}' if label else ''}"
        return delimited(_UNCHANGED, name.encode("utf-8", "replace"))

    # -- reading ---------------------------------------------------------------------------------------------

    def _typed(self, data: bytes, descriptor: Any, source: str) -> bytes:
        """Return a message of the text in the format of onnx.proto."""
        out = bytearray()
        named: list[_Kept] = []
        present = set()
        for field in fields_of(data):
            content = data[field.content : field.end]
            known = descriptor.fields_by_number.get(field.number)
            if field.number == _UNCHANGED:
                named.append(self._found(content.decode("utf-8", "replace"), descriptor, source))
            elif field.number == _UNKNOWN:
                out += _encoded_unknown(content, descriptor, source)
            elif known is None or known.message_type is None:
                out += data[field.start : field.end]
                present.add(known.name if known is not None else "")
            else:
                out += delimited(field.number, self._typed(content, known.message_type, source))
                present.add(known.name)
        for kept in named:
            if kept.field in present:
                raise _at(source, kept.field, f"{kept.field} is given, and also named as unchanged.")
            out += kept.data
        return bytes(out)

    def _found(self, name: str, descriptor: Any, source: str) -> _Kept:
        """Return the content that an ``unchanged`` names."""
        mark = _MARK.match(name)
        number = int(mark[1][:9]) if mark else 0
        if not 1 <= number <= len(self._kept):
            count = len(self._kept)
            have = f"There are #1 to #{count}." if count else "Nothing in this message is left out."
            raise _at(source, name[:40], f"{name[:40]!r} names no content of this message. {have}")
        kept = self._kept[number - 1]
        if kept.message != descriptor.name:
            raise _at(
                source, name[:40], f"#{number} is the {kept.field} of a {kept.message}, not of {descriptor.name}."
            )
        return kept


def _escape(character: str) -> str:
    """Return the escape of a character that cannot be seen, or that an editor changes, as it stands in a string."""
    return character if character == "\n" else "".join(f"\\{byte:03o}" for byte in character.encode())


def _at(source: str, what: str, reason: str) -> MessageTextError:
    """Return an error at the place of some text; at the beginning where it is not found."""
    position = max(source.find(what), 0) if what else 0
    line = source.count("\n", 0, position) + 1
    return MessageTextError(line, position - source.rfind("\n", 0, position), reason)


def _holds(known: Any, field: WireField) -> bool:
    """Return whether the runtime reads a field of the wire as this one, and text can say it."""
    wire = WIRE_TYPES[known.type]
    if known.enum_type is not None and field.wire_type == VARINT:
        return field.value in known.enum_type.values_by_number
    return field.wire_type == wire or (field.wire_type == LENGTH and wire != LENGTH and is_repeated(known))


def _has_odd_nan(data: bytes, code: str, plain: bytes) -> bool:
    size = len(plain)
    numbers = (data[at : at + size] for at in range(0, len(data) - size + 1, size))
    return any(
        number != plain and struct.unpack(code, number)[0] != struct.unpack(code, number)[0] for number in numbers
    )


# -- unknown fields -------------------------------------------------------------------------------------------


def _unknown(data: bytes, field: WireField) -> bytes:
    """Return an unknown field as the message UnknownField of the text."""
    number = encode_tag(1, VARINT) + encode_varint(field.number)
    if field.wire_type == VARINT:
        return number + encode_tag(2, VARINT) + encode_varint(field.value)
    content = data[field.content : field.end]
    if field.wire_type == START_GROUP:
        end = len(encode_tag(field.number, END_GROUP))
        return number + delimited(6, content[:-end])
    if field.wire_type == LENGTH:
        return number + delimited(5, content)
    return number + encode_tag(3 if field.wire_type == FIXED32 else 4, field.wire_type) + content


def _encoded_unknown(content: bytes, descriptor: Any, source: str) -> bytes:
    """Return the field of an UnknownField in wire format."""
    parts = {field.number: field for field in fields_of(content)}
    number = parts.pop(1).value if 1 in parts else 0
    if not 1 <= number < _UNCHANGED or number in _RESERVED:
        reason = f"{number} is no number of a field: write 1 to {_UNCHANGED - 1}, but not 19000 to 19999."
        raise _at(source, f"number: {number}", reason)
    if len(parts) != 1:
        names = ", ".join(_CONTENTS.values())
        raise _at(source, f"number: {number}", f"Field {number} needs one content: {names}.")
    ((kind, part),) = parts.items()
    data = content[part.content : part.end]
    if kind == 6:
        found = encode_tag(number, START_GROUP) + data + encode_tag(number, END_GROUP)
        try:
            whole = read_field(found, 0).end == len(found)
        except WireError:
            whole = False
        if not whole:
            raise _at(source, "group:", f"The group of field {number} is not made of whole fields.")
    elif kind == 5:
        found = delimited(number, data)
    else:
        found = encode_tag(number, part.wire_type) + data
    known = descriptor.fields_by_number.get(number)
    if known is not None and _holds(known, read_field(found, 0)):
        raise _at(source, f"number: {number}", f"Field {number} is {known.name} of {descriptor.name}: write that.")
    return found


# -- the classes of the text ----------------------------------------------------------------------------------

_PACKAGE = "onnx_text"


def _class_of(name: str, *, is_for_reading: bool) -> Any:
    return _classes(is_for_reading)[name]


@lru_cache(maxsize=2)
def _classes(is_for_reading: bool) -> dict[str, Any]:
    """Return the messages of onnx.proto with the two more fields, by name.

    For reading, texts are bytes: so those that are not UTF-8, which files may contain, are read as they are shown.
    """
    file = descriptor_pb2.FileDescriptorProto()
    ModelProto.DESCRIPTOR.file.CopyToProto(file)
    file.name, file.package = f"{_PACKAGE}.proto", _PACKAGE
    names = list(_extend(file.message_type, is_for_reading))
    unknown = file.message_type.add(name="UnknownField")
    kinds = (_TYPES.TYPE_UINT32, _TYPES.TYPE_INT64, _TYPES.TYPE_FIXED32, _TYPES.TYPE_FIXED64, _TYPES.TYPE_BYTES)
    for number, (label, kind) in enumerate(zip(("number", *_CONTENTS.values()), (*kinds, kinds[-1]), strict=True), 1):
        unknown.field.add(name=label, number=number, type=kind, label=_TYPES.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{n}")) for n in names}


def _extend(messages: Iterable[Any], is_for_reading: bool) -> Iterator[str]:
    for message in messages:
        yield message.name
        list(_extend(message.nested_type, is_for_reading))
        for field in message.field:
            if field.type_name:
                field.type_name = field.type_name.replace(".onnx.", f".{_PACKAGE}.", 1)
            if is_for_reading and field.type == _TYPES.TYPE_STRING:
                field.type = _TYPES.TYPE_BYTES
        repeated = _TYPES.LABEL_REPEATED
        message.field.add(name="unchanged", number=_UNCHANGED, type=_TYPES.TYPE_STRING, label=repeated)
        message.field.add(
            name="unknown", number=_UNKNOWN, type=_TYPES.TYPE_MESSAGE, label=repeated,
            type_name=f".{_PACKAGE}.UnknownField",
        )  # fmt: skip
