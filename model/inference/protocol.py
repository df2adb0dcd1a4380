"""Reply format of the child: the types found in each graph, each distinct type once, and type errors."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx_workbench.model.ir.types import Shape, TensorType, Type, element_type

#: A graph by the number of its message, and a node in it by its first output, which has a name.
Spot = tuple[Any, str]


@dataclass(frozen=True, slots=True)
class TypeFault:
    """A node with wrong input types, or sizes; `calls` lead to its function, outer ones first."""

    spot: Spot
    calls: tuple[Spot, ...]
    reason: str
    is_type: bool  # False: a mismatch of sizes
    is_sure: bool  # False: it may be in a branch that is never taken
    types: tuple[Type | None, ...]
    is_computed: bool = False  # runtimes compute it all the same


def encode(graphs: Sequence[Mapping[str, Type]], faults: Iterable[TypeFault] = ()) -> bytes:
    """Encode types by value name, graph by graph, and errors, whose locations refer to these graphs. Runs in the
    child.
    """
    numbers: dict[Type | None, int] = {}
    named = [{name: numbers.setdefault(kind, len(numbers)) for name, kind in types.items()} for types in graphs]
    sent = [
        [
            f.spot,
            f.calls,
            f.reason,
            f.is_type,
            f.is_sure,
            [numbers.setdefault(t, len(numbers)) for t in f.types],
            f.is_computed,
        ]
        for f in faults
    ]
    return json.dumps([[_written(kind) for kind in numbers], named, sent]).encode()


def decode(reply: bytes) -> tuple[list[dict[str, Type]], list[TypeFault]]:
    """Decode what `encode` encoded."""
    written, named, sent = json.loads(reply)
    kinds = [_read(content) for content in written]
    graphs = [{name: t for name, number in graph.items() if (t := kinds[number]) is not None} for graph in named]
    faults = [
        TypeFault(
            tuple(spot), tuple(map(tuple, calls)), reason, is_type, is_sure, tuple(kinds[n] for n in types), is_computed
        )
        for spot, calls, reason, is_type, is_sure, types, is_computed in sent
    ]
    return graphs, faults


def _written(kind: Type | None) -> Any:
    """Encode a plain tensor type as its number and sizes, any other as its message."""
    if kind is None:
        return None
    if isinstance(kind, TensorType) and not kind.denotation and (kind.shape is None or not kind.shape.denotations):
        return [int(kind.element_type), None if kind.shape is None else list(kind.shape.dims)]
    from onnx_workbench.model.io.protobuf import TypeProto
    from onnx_workbench.model.io.writer.encode import write_type

    proto = TypeProto()
    write_type(proto, kind)
    return base64.b64encode(proto.SerializeToString()).decode()


def _read(content: Any) -> Type | None:
    if content is None:
        return None
    if isinstance(content, list):
        number, dims = content
        return TensorType(element_type(number), None if dims is None else Shape(tuple(dims)))
    from onnx_workbench.model.io.protobuf import TypeProto
    from onnx_workbench.model.io.reader.decode import read_type

    return read_type(TypeProto.FromString(base64.b64decode(content)))
