"""What the child answers: the types found in each graph, each distinct type written once."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from model.types import Shape, TensorType, Type, element_type


def encode(graphs: Sequence[Mapping[str, Type]]) -> bytes:
    """Types by value name, graph by graph. Runs in the child."""
    numbers: dict[Type, int] = {}
    named = [{name: numbers.setdefault(kind, len(numbers)) for name, kind in types.items()} for types in graphs]
    return json.dumps([[_written(kind) for kind in numbers], named]).encode()


def decode(reply: bytes) -> Iterator[dict[str, Type]]:
    """The same, as `encode` was given them."""
    written, named = json.loads(reply)
    kinds = [_read(content) for content in written]
    for graph in named:
        yield {name: kind for name, number in graph.items() if (kind := kinds[number]) is not None}


def _written(kind: Type) -> Any:
    """A plain tensor as its number and sizes, anything else as its message."""
    if isinstance(kind, TensorType) and not kind.denotation and (kind.shape is None or not kind.shape.denotations):
        return [int(kind.element_type), None if kind.shape is None else list(kind.shape.dims)]
    from model.io.encode import write_type
    from model.io.protobuf import TypeProto

    proto = TypeProto()
    write_type(proto, kind)
    return base64.b64encode(proto.SerializeToString()).decode()


def _read(content: Any) -> Type | None:
    if isinstance(content, list):
        number, dims = content
        return TensorType(element_type(number), None if dims is None else Shape(tuple(dims)))
    from model.io.decode import read_type
    from model.io.protobuf import TypeProto

    return read_type(TypeProto.FromString(base64.b64decode(content)))
