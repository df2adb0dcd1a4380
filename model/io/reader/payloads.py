"""Placeholders for tensor payloads that stay in their file while the message around them is parsed and changed.

A placeholder is 24 bytes: a random nonce per table and the index of the payload. All lie in 0x20 … 0x5F,
so they are also six ordinary floats, three doubles or 24 varints and pass through any packed field unchanged.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from onnx_workbench.model.io.reader.source import Source
from onnx_workbench.model.io.wire import LENGTH, MessageSchema, encode_varint, read_field

PLACEHOLDER_BYTES: Final = 24
_NONCE_BYTES = 16


class Payload(NamedTuple):
    """A byte range of a source that is left out of the parsed message."""

    source: Source
    offset: int
    length: int

    def read(self) -> bytes:
        """Return the bytes; ModelError when the file changed since it was opened."""
        return self.source.read(self.offset, self.length)


#: Serialised bytes with payloads in between, in order.
Pieces = list[bytes | Payload]


class PayloadTable:
    """The payloads of one scan or one save, and the nonce of their placeholders."""

    __slots__ = ("nonce", "payloads")

    def __init__(self) -> None:
        self.nonce = _make_nonce()
        self.payloads: list[Payload] = []

    def add(self, payload: Payload) -> bytes:
        """Add a payload; returns its placeholder."""
        index = len(self.payloads)
        self.payloads.append(payload)
        return self.nonce + bytes((index >> shift & 0x1F) + 0x20 for shift in range(35, -1, -5))

    def at(self, content: bytes, position: int) -> Payload | None:
        """Return the payload of the placeholder at a position; None if there is no valid one."""
        digits = content[position + _NONCE_BYTES : position + PLACEHOLDER_BYTES]
        index = 0
        for digit in digits:
            if not 0x20 <= digit < 0x40:
                return None
            index = index << 5 | digit - 0x20
        return self.payloads[index] if len(digits) == 8 and index < len(self.payloads) else None

    def split(self, content: bytes) -> Pieces:
        """Split the content of one field into literal bytes and payloads.

        More than one piece only when a file stores a packed field in several parts, which are then joined.
        """
        pieces: Pieces = []
        done = position = 0
        while (position := content.find(self.nonce, position)) >= 0:
            payload = self.at(content, position)
            if payload is None:
                position += 1
                continue
            if position > done:
                pieces.append(content[done:position])
            pieces.append(payload)
            done = position = position + PLACEHOLDER_BYTES
        if done < len(content) or not pieces:
            pieces.append(content[done:])
        return pieces


def _make_nonce() -> bytes:
    return bytes(0x20 + (byte & 0x3F) for byte in os.urandom(_NONCE_BYTES))


def total_length(pieces: Pieces) -> int:
    """Return the total number of bytes of the pieces."""
    return sum(len(piece) if isinstance(piece, bytes) else piece.length for piece in pieces)


class JoinedPieces:
    """Pieces as one sequence of bytes, of which only what is asked for is read."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = list(pieces)
        self._starts = [0]
        for piece in self._pieces:
            self._starts.append(self._starts[-1] + (len(piece) if isinstance(piece, bytes) else piece.length))

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self._starts[-1]

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes from a position, fewer at the end."""
        parts = []
        end = min(offset + length, self.size)
        index = bisect_right(self._starts, offset) - 1
        while offset < end:
            piece, start = self._pieces[index], self._starts[index]
            stop = min(end, self._starts[index + 1])
            if isinstance(piece, bytes):
                parts.append(piece[offset - start : stop - start])
            else:
                parts.append(piece.source.read(piece.offset + offset - start, stop - offset))
            offset, index = stop, index + 1
        return parts[0] if len(parts) == 1 else b"".join(parts)


def restore(data: bytes, schema: MessageSchema, tables: list[PayloadTable]) -> Pieces:
    """Substitute payloads for the placeholders in a serialised message, with corrected lengths around them.

    Enters only messages that contain a placeholder. Reads no payload.
    """
    marks = sorted(_marks(data, tables))
    if not marks:
        return [data]
    return _Restorer(data, marks).run(schema)


class _Mark(NamedTuple):
    position: int
    payload: Payload


def _marks(data: bytes, tables: list[PayloadTable]) -> list[_Mark]:
    marks = []
    for table in tables:
        position = data.find(table.nonce) if table.payloads else -1
        while position >= 0:
            payload = table.at(data, position)
            if payload is not None:
                marks.append(_Mark(position, payload))
            position = data.find(table.nonce, position + 1)
    return marks


class _Level:
    """A message that contains placeholders, while its pieces are assembled."""

    __slots__ = ("copied", "end", "header", "position", "schema", "size")

    def __init__(self, schema: MessageSchema, position: int, end: int, header: int) -> None:
        self.schema = schema
        self.position = self.copied = position
        self.end = end
        self.header = header  # index of the piece that becomes its length
        self.size = 0


class _Restorer:
    def __init__(self, data: bytes, marks: list[_Mark]) -> None:
        self._data = data
        self._marks = marks
        self._positions = [mark.position for mark in marks]
        self._pieces: Pieces = []

    def run(self, schema: MessageSchema) -> Pieces:
        """Visit every placeholder with an explicit stack, without recursion."""
        levels = [_Level(schema, 0, len(self._data), -1)]
        while True:
            inner = self._next(levels[-1])
            if inner is not None:
                levels.append(inner)
                continue
            done = levels.pop()
            if not levels:
                return self._pieces
            length = encode_varint(done.size)
            self._pieces[done.header] = length
            levels[-1].size += len(length) + done.size

    def _next(self, level: _Level) -> _Level | None:
        """Advance to the next message that must be entered; None at the end of the level."""
        while level.position < level.end:
            first = bisect_left(self._positions, level.position)
            if first == len(self._positions) or self._positions[first] >= level.end:
                break
            field = read_field(self._data, level.position)
            mark = self._positions[first]
            level.position = field.end
            if mark >= field.end:
                continue
            schema = level.schema.fields.get(field.number)
            if field.wire_type != LENGTH or schema is None:
                continue
            length_at = field.content - len(encode_varint(field.value))
            self._copy(level, length_at)
            level.copied = field.end
            if schema.message is None:
                self._fill(level, field.content, field.end, first)
            else:
                self._pieces.append(b"")
                return _Level(schema.message, field.content, field.end, len(self._pieces) - 1)
        self._copy(level, level.end)
        return None

    def _copy(self, level: _Level, end: int) -> None:
        if end > level.copied:
            self._pieces.append(self._data[level.copied : end])
            level.size += end - level.copied

    def _fill(self, level: _Level, start: int, end: int, first: int) -> None:
        """Insert the payloads of one field, whose content is start to end."""
        parts: Pieces = []
        for index in range(first, bisect_left(self._positions, end)):
            mark = self._marks[index]
            if mark.position > start:
                parts.append(self._data[start : mark.position])
            parts.append(mark.payload)
            start = mark.position + PLACEHOLDER_BYTES
        if start < end:
            parts.append(self._data[start:end])
        length = encode_varint(total_length(parts))
        self._pieces.append(length)
        self._pieces.extend(parts)
        level.size += len(length) + total_length(parts)
