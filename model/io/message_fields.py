"""Edit single protobuf messages by field, for parts of a model that have their own message: tensors, types, devices.

A path is the sequence of fields from the message down, each with its index among the fields of that name.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.protobuf import DecodeError, Message, TensorProto, utf8
from onnx_workbench.model.io.reader.payloads import Payload, PayloadTable, Pieces, restore
from onnx_workbench.model.io.reader.source import BytesSource
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor, TensorFiles
from onnx_workbench.model.io.wire import FIXED32, FIXED64, LENGTH, encode_tag, encode_varint, read_field, schemas
from onnx_workbench.model.io.writer.encode import set_text
from onnx_workbench.model.io.writer.export_graph import write_tensor
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage, StoragePlan
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.text.attributes import parse_float

Path = tuple[tuple[str, int], ...]

#: Bytes of data per line of the raw view, which are edited together.
LINE: Final = 16

_LARGE = 4096  # larger data bypasses the protobuf runtime
_MOST_EDITED = 64 << 20
_DOUBLE, _FLOAT, _INT64, _UINT64, _INT32, _STRING, _BYTES, _ENUM = 1, 2, 3, 4, 5, 9, 12, 14  # FieldDescriptor.TYPE_*
_BITS = {_INT64: 64, _INT32: 32}
_DATA = frozenset({"raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"})


def integer(text: str, bits: int = 64, *, signed: bool = True) -> int:
    """Parse an integer of `bits` bits, in any notation of Python."""
    try:
        found = int(text.strip(), 0)
    except ValueError:
        raise ModelError(f"{text[:40]!r} is not a whole number", f"This field holds a {bits}-bit integer.") from None
    least, most = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    if not least <= found < most:
        raise ModelError(f"{text[:40]!r} is too large", f"This field holds a {bits}-bit integer.")
    return found


def hexadecimal(text: str) -> bytes:
    """Parse bytes in hexadecimal, two digits each, with optional white space between."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ModelError(f"{text[:40]!r} are not bytes", "A byte is two hexadecimal digits, as in 0a ff.") from None


def _parsed(field: Any, text: str) -> Any:
    kind = field.type
    if kind == _ENUM:
        return _enumerated(field.enum_type, text)
    if kind in _BITS:
        return integer(text, _BITS[kind])
    if kind == _UINT64:
        return integer(text, signed=False)
    if kind == _FLOAT:
        return parse_float(text)
    if kind == _DOUBLE:
        return _double(text)
    return utf8(text) if kind == _BYTES else text


def _enumerated(kind: Any, text: str) -> int:
    """Parse a value of an enum by its name or number."""
    named = {name: int(value.number) for name, value in kind.values_by_name.items()}
    if (found := named.get(text.strip().upper())) is not None:
        return found
    number = integer(text, 32)
    if number not in kind.values_by_number:
        have = ", ".join(f"{n} {value.name}" for n, value in kind.values_by_number.items())
        raise ModelError(f"{number} is not a {kind.name}", f"There are: {have}.")
    return number


def _double(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ModelError(f"{text[:40]!r} is not a number", "This field holds a 64-bit floating-point number.") from None


def field_of(message: Message, name: str) -> Any:
    """Return the descriptor of a field; raise ModelError if the message has no such field."""
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        raise ModelError(f"{message.DESCRIPTOR.name} has no field {name}", "It is not part of onnx.proto.")
    return field


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == 3)


def is_repeated(kind: Any, name: str) -> bool:
    """Return whether a field of a kind of message is repeated."""
    return _is_repeated(kind.DESCRIPTOR.fields_by_name[name])


def parse_scalar(kind: Any, name: str, text: str) -> Any:
    """Parse the text of a scalar field of a kind of message by its descriptor."""
    return _parsed(kind.DESCRIPTOR.fields_by_name[name], text)


def inner(message: Any, path: Path) -> Any:
    """Return the message at a path below another."""
    for name, index in path:
        field = field_of(message, name)
        held = getattr(message, name)
        message = _item(held, name, index) if _is_repeated(field) else held
    return message


def _item(items: Any, name: str, index: int) -> Any:
    if not 0 <= index < len(items):
        raise ModelError(f"There is no {name}[{index}]", "The model has changed in the meantime.")
    return items[index]


def set_field(message: Message, path: Path, text: str) -> None:
    """Set the scalar at a path from the user's text."""
    holder, (name, index) = inner(message, path[:-1]), path[-1]
    field = field_of(holder, name)
    if field.message_type is not None:
        raise ModelError(f"{name} is a message", "Its fields are edited one by one.")
    value = _parsed(field, text)
    if _is_repeated(field):
        _item(getattr(holder, name), name, index)
        getattr(holder, name)[index] = value
    elif field.type == _STRING and value:
        set_text(holder, name, value)
    else:
        setattr(holder, name, value)


def remove_field(message: Message, path: Path) -> None:
    """Remove the field at a path; of a repeated field only the entry."""
    holder, (name, index) = inner(message, path[:-1]), path[-1]
    if _is_repeated(field_of(holder, name)):
        _item(getattr(holder, name), name, index)
        del getattr(holder, name)[index]
    else:
        holder.ClearField(name)


def add_field(message: Message, path: Path, name: str, text: str) -> None:
    """Add a field to the message at a path; to a repeated field, append an entry.

    Messages are added empty, except for key-value pairs.
    """
    holder = inner(message, path)
    field = field_of(holder, name)
    if _is_pair(field):
        entry = getattr(holder, name).add()
        for part, value in zip(("key", "value"), parse_pair(text), strict=True):
            set_text(entry, part, value)
    elif field.message_type is not None:
        if _is_repeated(field):
            getattr(holder, name).add()
        else:
            getattr(holder, name).SetInParent()
    elif _is_repeated(field):
        getattr(holder, name).append(_parsed(field, text))
    else:
        set_field(holder, ((name, 0),), text)


def _is_pair(field: Any) -> bool:
    return field.message_type is not None and field.message_type.name == "StringStringEntryProto"


def parse_pair(text: str) -> tuple[str, str]:
    """Parse a key and a value with = between."""
    key, mark, value = text.partition("=")
    if not mark:
        raise ModelError(f"{text[:40]!r} is not a pair", "Write a key, = and a value.")
    return key.strip(), value.strip()


def missing_fields(message: Message, path: Path = ()) -> dict[str, str]:
    """Return the fields that can be added to the message at a path, and the prompt for each: "" if it takes no text."""
    holder = inner(message, path)
    found: dict[str, str] = {}
    for field in holder.DESCRIPTOR.fields if isinstance(holder, Message) else ():
        group = field.containing_oneof
        free = _is_repeated(field) or not (holder.HasField(field.name) or (group and holder.WhichOneof(group.name)))
        if free:
            found[field.name] = "key = value" if _is_pair(field) else field.name if field.message_type is None else ""
    return found


def message_pieces(tensor: ProtoTensor) -> Pieces:
    """Return the message of a tensor in serialized form, with values in a file as pieces."""
    table = tensor.files.table
    return restore(tensor.source.SerializeToString(), schemas()["TensorProto"], [] if table is None else [table])


def read_message(data: bytes) -> TensorProto:
    """Parse a TensorProto; raise ModelError when the bytes are not one."""
    try:
        return TensorProto.FromString(data)
    except DecodeError as error:
        raise ModelError("The tensor is damaged", "Its bytes are not a TensorProto message.") from error


class TensorMessage:
    """A mutable copy of a tensor's message; `tensor` is the result.

    Values in a file stay there until one of their fields is changed; that reads them, up to 64 MiB.
    """

    def __init__(self, tensor: Tensor) -> None:
        if isinstance(tensor, ProtoTensor):
            self.message = TensorProto()
            self.message.CopyFrom(tensor.source)
            self._files = tensor.files
        else:
            placement = StoragePlan(Storage(DataLayout.INLINE))
            self.message = write_tensor(tensor, placement)
            self._files = TensorFiles(placement.table, None)

    @property
    def tensor(self) -> ProtoTensor:
        """The tensor of the message; its `problem` describes inconsistencies."""
        return ProtoTensor(self.message, self._files)

    def set(self, path: Path, text: str) -> None:
        """Set a field, an element of the data, or a line of raw bytes: ``(("raw_data", 0), ("bytes", 32))``."""
        name, index = path[0]
        if name not in _DATA:
            set_field(self.message, path, text)
        elif name != "raw_data":
            self._splice(name, index, self._encoded(name, text))
        elif len(path) > 1:
            self._set_line(path[1][1], hexadecimal(text))
        else:
            self._set_all(hexadecimal(text))

    def remove(self, path: Path) -> None:
        """Remove a field or an element of the data."""
        name, index = path[0]
        if name in _DATA and name != "raw_data":
            self._splice(name, index, b"")
        else:
            remove_field(self.message, path)

    def add(self, path: Path, name: str, text: str) -> None:
        """Add a field, or an element at the end of the data."""
        if path or name not in _DATA:
            add_field(self.message, path, name, text)
        elif name == "raw_data":
            self._set_content(name, hexadecimal(text))
        else:
            self._set_content(name, self._content(name) + self._encoded(name, text))

    def missing(self, path: Path) -> dict[str, str]:
        """Return the fields that can be added to the message at a path, with the prompt for each."""
        return missing_fields(self.message, path)

    # -- data ------------------------------------------------------------------------------------------------

    def _content(self, name: str) -> bytes:
        """Return the data of a field, read from the file if stored there."""
        held = getattr(self.message, name)
        if name == "raw_data":
            content = held
        else:
            alone = TensorProto()
            getattr(alone, name).extend(held)
            data = alone.SerializeToString()
            content = data[read_field(data, 0).content :] if data else b""
        table = self._files.table
        pieces = [content] if table is None else table.split(content)
        size = sum(piece.length if isinstance(piece, Payload) else len(piece) for piece in pieces)
        if size > _MOST_EDITED:
            raise ModelError(f"{name} has {size:,} bytes", "It is too large for this field; edit it as a tensor.")
        return b"".join(piece.read() if isinstance(piece, Payload) else piece for piece in pieces)

    def _set_content(self, name: str, content: bytes) -> None:
        if len(content) >= _LARGE:
            if self._files.table is None:
                self._files = TensorFiles(PayloadTable(), self._files.folder)
            assert self._files.table is not None
            content = self._files.table.add(Payload(BytesSource(content), 0, len(content)))
        self.message.ClearField(name)
        if name == "raw_data":
            self.message.raw_data = content
        elif content:
            tag = encode_tag(field_of(self.message, name).number, LENGTH)
            self.message.MergeFromString(tag + encode_varint(len(content)) + content)

    def _encoded(self, name: str, text: str) -> bytes:
        field = field_of(self.message, name)
        value = _parsed(field, text)
        if field.type in (_FLOAT, _DOUBLE):
            return struct.pack("<f" if field.type == _FLOAT else "<d", value)
        return encode_varint(value & 0xFFFF_FFFF_FFFF_FFFF)

    def _splice(self, name: str, index: int, element: bytes) -> None:
        content = self._content(name)
        start, end = self._span(name, index, content)
        self._set_content(name, content[:start] + element + content[end:])

    @staticmethod
    def _span(name: str, index: int, content: bytes) -> tuple[int, int]:
        """Return the byte range of an element of packed numbers."""
        wire = next(field.wire_type for field in schemas()["TensorProto"].fields.values() if field.name == name)
        if wire in (FIXED32, FIXED64):
            size = 4 if wire == FIXED32 else 8
            start, end = index * size, (index + 1) * size
        else:
            import numpy as np

            ends = np.flatnonzero(np.frombuffer(content, np.uint8) < 0x80)
            if index >= len(ends):
                raise ModelError(f"There is no {name}[{index}]", "The model has changed in the meantime.")
            start, end = int(ends[index - 1]) + 1 if index else 0, int(ends[index]) + 1
        if end > len(content):
            raise ModelError(f"There is no {name}[{index}]", "The model has changed in the meantime.")
        return start, end

    def _set_all(self, data: bytes) -> None:
        """Replace the raw data, which must keep the length that type and shape need, unless these were changed
        before.
        """
        tensor = self.tensor
        if not tensor.problem and len(data) != tensor.nbytes:
            raise ModelError(f"{len(data):,} bytes were given", f"Type and shape need {tensor.nbytes:,}.")
        self._set_content("raw_data", data)

    def _set_line(self, offset: int, data: bytes) -> None:
        content = self._content("raw_data")
        held = len(content[offset : offset + LINE])
        if len(data) != held:
            raise ModelError(f"{held} bytes stand in this line", f"{len(data)} were given.")
        self._set_content("raw_data", content[:offset] + data + content[offset + held :])
