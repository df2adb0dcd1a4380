"""Changes of fields that onnx.proto does not define. The protobuf runtime preserves them but cannot change them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnknownChange:
    """Replacement of all unknown fields of one message, applied when it is written.

    `path` leads to the message from the message of the object that stores this change. Its steps are a field, an index,
    and a key: the name or key of the message there; if it has none, its content; empty for a singular field. The path
    of a value begins with the field of its graph that lists it. `old` and `new` are the fields in wire format: a
    message whose unknown fields are not `old` is not the one meant.
    """

    path: tuple[tuple[str, int, str], ...]
    old: bytes
    new: bytes
