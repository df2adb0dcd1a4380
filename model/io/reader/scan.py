"""Scanner: finds the structure of a large file without reading its weights.

The wire format is scanned in small windows; payloads of 4 KB and more are skipped and become placeholders in the
result. The rest, the skeleton, is a small valid message for the protobuf runtime, whatever the size of the file.
Offsets are known throughout, so the error for a damaged file locates the damage.
"""

from __future__ import annotations

from typing import Final, NamedTuple, NoReturn

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.payloads import PLACEHOLDER_BYTES, Payload, PayloadTable
from onnx_workbench.model.io.reader.source import Source
from onnx_workbench.model.io.wire import (
    DEPTH_LIMIT,
    END_GROUP,
    FIXED32,
    FIXED64,
    LENGTH,
    START_GROUP,
    VARINT,
    DataEndsError,
    FieldSchema,
    MessageSchema,
    WireError,
    encode_varint,
    read_tag,
    read_varint,
)
from onnx_workbench.model.progress import SILENT, Progress

#: Payloads of at least this many bytes stay in the file.
THRESHOLD: Final = 4096
#: Limit of the protobuf runtime.
MESSAGE_LIMIT: Final = (1 << 31) - 1

_FIRST_WINDOW = 1 << 14
_LAST_WINDOW = 1 << 20
_MARGIN = 40  # upper bound for a tag and the longest number after it
_LONG_MESSAGE = 10_000  # fields after which an attribute or tensor is left to the runtime
_BETWEEN_CHECKS = 1 << 14
_MOST_FIELDS = 3_000_000  # of those scanned one by one; far above any real model

#: Fields whose content may stay in the file, with the number of bytes of one element.
_PAYLOADS: Final = {
    "TensorProto": {4: 4, 5: 1, 7: 1, 9: 1, 10: 8, 11: 1},
    "AttributeProto": {4: 1},
}
#: Messages that are kept when truncated by the end of the file; others are dropped.
_KEPT_WHEN_CUT = frozenset({"graph", "training_info", "initialization", "algorithm", "functions", "initializer"})


class Skeleton(NamedTuple):
    """Result of a scan: a small message, and the payloads that were left out.

    `truncation` describes what a truncated file lacks; else empty.
    """

    data: bytes
    table: PayloadTable
    truncation: str


def scan(source: Source, schema: MessageSchema, progress: Progress = SILENT, threshold: int = THRESHOLD) -> Skeleton:
    """Scan the message in a source; ModelError with byte and field path when it is damaged.

    Of a truncated file the part before its end. Reads tags and small fields only.
    """
    return _Scanner(source, schema, progress, threshold, deep=False).run()


def diagnose(source: Source, schema: MessageSchema, progress: Progress = SILENT) -> None:
    """Scan every known message down to its last field; ModelError with byte and field path at the first damage."""
    _Scanner(source, schema, progress, 0, deep=True).run()


class _Frame:
    """A message being scanned (stack frame)."""

    __slots__ = (
        "content", "copied", "cut", "end", "field", "header", "payloads", "schema", "size", "start", "tag",
    )  # fmt: skip

    def __init__(self, schema: MessageSchema, start: int, content: int, end: int) -> None:
        self.schema = schema
        self.field: FieldSchema | None = None  # of the enclosing message
        self.start = start  # of its tag
        self.content = content
        self.end = end
        self.cut = False  # the file ends before the message does
        self.copied = content  # start of the bytes that are not yet in the skeleton
        self.size = 0  # bytes in the skeleton so far
        self.tag = b""
        self.header = 0  # the piece for tag and length, filled in once the size is known
        self.payloads = _PAYLOADS.get(schema.name)


class _Scanner:
    def __init__(
        self, source: Source, schema: MessageSchema, progress: Progress, threshold: int, *, deep: bool
    ) -> None:
        self._source = source
        self._size = source.size
        self._progress = progress
        self._threshold = threshold
        self._deep = deep
        self._window = b""
        self._base = 0
        self._limit = -1
        self._total = 0
        self._fields = 0
        self._next_window = _FIRST_WINDOW
        self._position = 0
        root = _Frame(schema, 0, 0, source.size)
        root.cut = True
        self._stack = [root]
        self._pieces: list[bytes | tuple[int, int]] = []
        self._table = PayloadTable()
        self._truncation = ""

    def run(self) -> Skeleton:
        stack = self._stack
        while stack:
            child = self._walk(stack[-1])
            if child is None:
                self._close(stack.pop())
            elif len(stack) > DEPTH_LIMIT:
                self._damaged(child.start, f"messages nest deeper than {DEPTH_LIMIT}")
            else:
                stack.append(child)
        return Skeleton(b"" if self._deep else self._join(), self._table, self._truncation)

    # -- walking ---------------------------------------------------------------------------------------------

    def _walk(self, frame: _Frame) -> _Frame | None:  # one loop, so that small fields cost no calls
        """Scan the fields of a message up to one that must be entered, which is returned, or to its end (None)."""
        position, end, threshold = self._position, frame.end, self._threshold
        window, base, limit = self._window, self._base, self._limit
        start, left = position, self._fields_before_check(frame)
        try:
            while position < end:
                if position > limit:
                    self._refill(position)
                    window, base, limit = self._window, self._base, self._limit
                left -= 1
                if not left:
                    left = _BETWEEN_CHECKS
                    if frame.payloads and not self._deep:
                        position = end  # a list of millions: the runtime is faster with it
                        break
                    self._count_fields()
                    self._progress.report(position, self._size, "Reading the structure")
                start = position
                index = position - base
                tag = window[index]
                index += 1
                if tag >= 0x80 or tag < 8 or tag & 7 > FIXED32:
                    number, kind, index = read_tag(window, index - 1)
                else:
                    number, kind = tag >> 3, tag & 7
                if kind == LENGTH:
                    length = window[index]
                    index += 1
                    if length >= 0x80:
                        length, index = read_varint(window, index - 1)
                    position = base + index + length
                    if position > end:
                        return self._overrun(frame, start, number, base + index, length)
                    if length >= threshold:
                        child = self._large(frame, number, start, base + index, position)
                        if child is not None:
                            return child
                elif kind == VARINT:
                    first = index
                    while window[index] >= 0x80:
                        index += 1
                    index += 1
                    if index - first > 10:
                        self._damaged(start, "a number has more than ten bytes")
                    position = base + index
                elif kind == FIXED32:
                    position = base + index + 4
                elif kind == FIXED64:
                    position = base + index + 8
                elif kind == START_GROUP:
                    position = self._skip_group(base + index, number)
                    self._refill(position)
                    window, base, limit = self._window, self._base, self._limit
                else:
                    self._damaged(start, f"group {number} ends without a start")
        except IndexError:
            position = end + 1
        except DataEndsError:
            position = end + 1
        except WireError as error:
            self._damaged(start, error.reason)
        if position > end:
            self._ends_inside(frame, start)
        else:
            self._position = position
        return None

    def _fields_before_check(self, frame: _Frame) -> int:
        return _LONG_MESSAGE if frame.payloads and not self._deep else _BETWEEN_CHECKS

    def _count_fields(self) -> None:
        self._fields += _BETWEEN_CHECKS
        if self._fields > _MOST_FIELDS and not self._deep:
            raise ModelError(
                "The model has too many parts",
                f"It has more than {_MOST_FIELDS:,} nodes, tensors and attributes, which no real model has.",
            )

    def _refill(self, position: int) -> None:
        """Move the window to a position: small after a jump, growing during sequential reading."""
        if 0 <= position - self._base <= len(self._window):
            self._next_window = min(self._next_window * 2, _LAST_WINDOW)
        else:
            self._next_window = _FIRST_WINDOW
        self._base = position
        self._window = self._source.read(position, min(self._next_window, self._size - position))
        stop = position + len(self._window)
        self._limit = self._size if stop == self._size else stop - _MARGIN

    def _large(self, frame: _Frame, number: int, start: int, content: int, end: int) -> _Frame | None:
        """Handle a long field: a message is returned to be entered, a payload becomes a placeholder."""
        field = frame.schema.fields.get(number)
        if field is None:
            return None
        if field.message is not None:
            return self._enter(frame, field, start, content, end)
        if self._deep:
            self._check_packed(field, start, content, end)
        elif frame.payloads and (unit := frame.payloads.get(number)):
            if (end - content) % unit:
                self._damaged(start, f"{field.name} has {end - content} bytes, not a multiple of {unit}")
            self._flush(frame, start)
            stand_in = self._table.add(Payload(self._source, content, end - content))
            piece = encode_varint(number << 3 | LENGTH) + bytes((PLACEHOLDER_BYTES,)) + stand_in
            self._pieces.append(piece)
            frame.size += len(piece)
            frame.copied = end
        return None

    def _enter(self, frame: _Frame, field: FieldSchema, start: int, content: int, end: int) -> _Frame:
        assert field.message is not None
        self._flush(frame, start)
        child = _Frame(field.message, start, content, end)
        child.field = field
        child.tag = encode_varint(field.number << 3 | LENGTH)
        child.header = len(self._pieces)
        self._pieces.append(b"")
        frame.copied = end
        self._position = content
        return child

    def _close(self, frame: _Frame) -> None:
        self._flush(frame, frame.end)
        if self._stack:
            header = frame.tag + encode_varint(frame.size)
            self._pieces[frame.header] = header
            self._stack[-1].size += len(header) + frame.size
        else:
            self._total = frame.size

    def _flush(self, frame: _Frame, end: int) -> None:
        """Copy the bytes between the last jump and `end` to the skeleton unchanged."""
        start = frame.copied
        if end > start and not self._deep:
            first = start - self._base
            if first >= 0 and end - self._base <= len(self._window):
                self._pieces.append(self._window[first : end - self._base])
            else:
                self._pieces.append((start, end))
            frame.size += end - start
        frame.copied = end

    def _join(self) -> bytes:
        if self._total > MESSAGE_LIMIT:
            raise ModelError(
                "The model's structure is too large",
                f"Without its weights it has {self._total:,} bytes; at most {MESSAGE_LIMIT:,} can be handled.",
            )
        out = bytearray()
        for piece in self._pieces:
            if isinstance(piece, bytes):
                out += piece
            else:
                self._progress.check()
                out += self._source.read(piece[0], piece[1] - piece[0])
        return bytes(out)

    def _skip_group(self, position: int, number: int) -> int:
        """Return the position after a group, which no ONNX message has: an unknown field."""
        open_groups = [number]
        left = _BETWEEN_CHECKS
        while open_groups:
            left -= 1
            if not left:
                left = _BETWEEN_CHECKS
                self._count_fields()
                self._progress.report(position, self._size, "Reading the structure")
            near = self._source.read(position, min(_MARGIN, self._size - position))
            number, kind, after = read_tag(near, 0)
            length = 0
            if kind == START_GROUP:
                open_groups.append(number)
                if len(open_groups) > DEPTH_LIMIT:
                    self._damaged(position, f"groups nest deeper than {DEPTH_LIMIT}")
            elif kind == END_GROUP:
                if open_groups.pop() != number:
                    self._damaged(position, f"group {number} ends inside another group")
            elif kind in (LENGTH, VARINT):
                length, after = read_varint(near, after)
                length = length if kind == LENGTH else 0
            else:
                length = 4 if kind == FIXED32 else 8
            position += after + length
            if position > self._size:
                raise DataEndsError(position, "the data ends inside a group")
        return position

    def _check_packed(self, field: FieldSchema, start: int, content: int, end: int) -> None:
        if not field.repeated:  # then it is an unknown field: only lists of numbers may be packed
            return
        unit = {FIXED32: 4, FIXED64: 8}.get(field.wire_type, 1)
        if (end - content) % unit:
            self._damaged(start, f"{field.name} has {end - content} bytes, not a multiple of {unit}")
        if field.wire_type == VARINT and end > content and self._source.read(end - 1, 1)[0] >= 0x80:
            self._damaged(start, f"the last number of {field.name} is cut")

    # -- files that end early or are damaged -----------------------------------------------------------------

    def _overrun(self, frame: _Frame, start: int, number: int, content: int, length: int) -> _Frame | None:
        """Handle a field whose length exceeds the remaining bytes."""
        field = frame.schema.fields.get(number)
        name = field.name if field is not None else f"field {number}"
        reason = f"{name} claims {length:,} bytes, {frame.end - content:,} remain"
        if not frame.cut:
            self._damaged(start, reason)
        self._truncated(start, reason)
        if field is not None and field.message is not None and name in _KEPT_WHEN_CUT:
            child = self._enter(frame, field, start, content, frame.end)
            child.cut = True
            return child
        self._drop(frame, start)
        return None

    def _ends_inside(self, frame: _Frame, start: int) -> None:
        """Handle data that ends inside a tag, a number or a group."""
        if self._size - start > _MARGIN and frame.end - start > _MARGIN:
            self._damaged(start, "a number or group does not end")
        if not frame.cut:
            self._damaged(start, "a field goes on beyond the end of its message")
        self._truncated(start, "a field is cut")
        self._drop(frame, start)

    def _drop(self, frame: _Frame, start: int) -> None:
        self._flush(frame, start)
        frame.copied = self._position = frame.end

    def _truncated(self, start: int, reason: str) -> None:
        if not self._truncation:
            self._truncation = (
                f"The file ends at byte {self._size:,}, inside the field at {self._format_location(start)}: {reason}. "
                "What comes before was read."
            )

    def _damaged(self, start: int, reason: str) -> NoReturn:
        raise ModelError("The file is damaged", f"{reason[0].upper()}{reason[1:]}.", place=self._format_location(start))

    def _format_location(self, start: int) -> str:
        """Format ``byte 123 in model.graph.node[4]``; rescans the enclosing messages to count, once per error."""
        names = [self._stack[0].schema.name.removesuffix("Proto").lower()]
        for outer, inner in zip(self._stack, self._stack[1:], strict=False):
            assert inner.field is not None
            name = inner.field.name
            names.append(f"{name}[{self._count(outer, inner)}]" if inner.field.repeated else name)
        return f"byte {start:,} in {'.'.join(names)}"

    def _count(self, outer: _Frame, inner: _Frame) -> int:
        """Count the fields with the number of `inner` before it in the enclosing message."""
        assert inner.field is not None
        position = outer.content
        count = 0
        while position < inner.start:
            near = self._source.read(position, min(_MARGIN, self._size - position))
            number, kind, after = read_tag(near, 0)
            if number == inner.field.number and kind == LENGTH:
                count += 1
            if kind == START_GROUP:
                position = self._skip_group(position + after, number)
                continue
            length = {FIXED32: 4, FIXED64: 8}.get(kind, 0)
            if kind in (LENGTH, VARINT):
                length, after = read_varint(near, after)
                length = length if kind == LENGTH else 0
            position += after + length
        return count
