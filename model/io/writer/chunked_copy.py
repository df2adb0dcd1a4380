"""Copy and serialise very large messages in chunks, with cancellation checks in between.

The protobuf runtime does either in one uninterruptible call, which takes too long for a hundred thousand nodes. Without
a progress to check, one call is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet

from onnx_workbench.model.io.protobuf import GraphProto, Message, ModelProto
from onnx_workbench.model.io.wire import LENGTH, encode_tag, encode_varint
from onnx_workbench.model.io.writer.encode import merge_texts
from onnx_workbench.model.progress import SILENT, Progress

_MOST = 500  # parts copied per call
_HOLDERS = (ModelProto, GraphProto)  # fields with very many entries


def copy_into(out: Message, source: Message, progress: Progress) -> None:
    """Copy a message into another of its kind."""
    progress.check()
    if progress is SILENT or not _is_large(source):
        out.CopyFrom(source)
        return
    out.Clear()
    for field, held in source.ListFields():
        if field.message_type is None:
            _set_plain(out, field, held)
        elif isinstance(held, Message):
            copy_into(getattr(out, field.name), held, progress)
        else:
            for first in progress.paced(range(0, len(held), _MOST), every=1):
                getattr(out, field.name).extend(held[first : first + _MOST])


def serialized(message: Message, progress: Progress) -> bytes:
    """Serialise a message, with the same result as its own method."""
    progress.check()
    if progress is SILENT or not _is_large(message):
        return message.SerializeToString()
    return b"".join(_parts(message, progress))


def _parts(message: Message, progress: Progress) -> Iterator[bytes]:
    """Yield the bytes of a large message by field number, the order in which the runtime writes."""
    for field, held in message.ListFields():
        if field.message_type is None:
            alone = type(message)()
            _set_plain(alone, field, held)
            yield alone.SerializeToString()
            continue
        tag = encode_tag(field.number, LENGTH)
        for one in progress.paced((held,) if isinstance(held, Message) else held):
            data = serialized(one, progress) if isinstance(one, _HOLDERS) else one.SerializeToString()
            yield tag + encode_varint(len(data)) + data


def _is_large(message: Message) -> bool:
    """Return whether a message is processed in chunks.

    Messages with unknown fields are not: their bytes are only available all together.
    """
    if not isinstance(message, _HOLDERS) or len(UnknownFieldSet(message)):
        return False
    if isinstance(message, ModelProto):
        return _is_large(message.graph)
    return any(field.message_type and len(held) > _MOST for field, held in message.ListFields())


def _set_plain(out: Any, field: Any, held: Any) -> None:
    """Set a number or a text, which is bytes where it is not UTF-8."""
    if isinstance(held, bytes):
        merge_texts(out, field.name, [held])
    else:
        setattr(out, field.name, held)
