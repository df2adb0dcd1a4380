"""Changes of fields that onnx.proto does not define. The protobuf runtime keeps them but changes none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnknownChange:
    """A message whose unknown fields are replaced as a whole when it is written.

    `path` leads there from the message of the object that keeps this, by fields with the index and what the message
    there goes by: its name or key, or what it held where nothing names it, empty where there is but one. Of a value it
    begins with the field of its graph that lists it. `old` and `new` are the fields as on the wire: a message that has
    other unknown fields than `old` is not the one meant.
    """

    path: tuple[tuple[str, int, str], ...]
    old: bytes
    new: bytes
