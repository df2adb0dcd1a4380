"""Reader of ONNX Runtime's own format (.ort): a FlatBuffer of a model, converted to a ModelProto.

Tables and fields: onnxruntime/core/flatbuffers/schema/ort.fbs; their encoding: the FlatBuffers internals page,
https://flatbuffers.dev/internals. Every offset is checked against the file size. A field is identified by its index in
its table; an absent field has its default.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.protobuf import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
)
from onnx_workbench.model.io.wire import DEPTH_LIMIT
from onnx_workbench.model.progress import Progress

#: Maximum nesting of graphs.
#: A FlatBuffer may refer to one object many times: limits on entries and text read, as multiples of the file size.
_MOST_ENTRIES, _MOST_TEXT = 4, 64
_SPARE = 1 << 20
_STRING = 8  # TensorProto.STRING
_LEAST_IR = 4  # older versions required initializers to be inputs, which the format does not store
_NO_VERSION = (1 << 63) - 1  # written by ONNX Runtime for a model without a version


class _Damaged(Exception):
    """Damage in the buffer; the message becomes the detail of a ModelError."""


def parse_ort(data: bytes, progress: Progress) -> ModelProto:
    """Return the model of a .ort file; ModelError describes damage. Copies weights; any thread."""
    try:
        return _OrtReader(data, progress).model()
    except (_Damaged, struct.error, ValueError) as error:
        raise ModelError("The file is damaged", f"It is not a valid model in ORT format: {error}.") from error


class _Table:
    """A table of the buffer: fields by index."""

    __slots__ = ("_at", "_buffer", "_fields")

    def __init__(self, buffer: _Buffer, at: int) -> None:
        buffer.count(1)
        self._buffer, self._at = buffer, at
        start = at - buffer.unpack("<i", at)
        size = buffer.unpack("<H", start)
        self._fields = buffer.unpack_many("H", start + 4, max(size // 2 - 2, 0))

    def _field(self, place: int) -> int:
        """Return the offset of a field; 0 when it is absent."""
        offset = self._fields[place] if place < len(self._fields) else 0
        return self._at + offset if offset else 0

    def number(self, place: int, form: str = "<q") -> Any:
        at = self._field(place)
        return self._buffer.unpack(form, at) if at else 0

    def text(self, place: int) -> str:
        at = self._field(place)
        return self._buffer.text(self._buffer.target_of(at)) if at else ""

    def table(self, place: int) -> _Table | None:
        at = self._field(place)
        return _Table(self._buffer, self._buffer.target_of(at)) if at else None

    def tables(self, place: int) -> Iterator[_Table]:
        start, count = self._vector(place)
        for number in range(count):
            yield _Table(self._buffer, self._buffer.target_of(start + 4 * number))

    def texts(self, place: int) -> list[str]:
        start, count = self._vector(place)
        self._buffer.count(count)
        return [self._buffer.text(self._buffer.target_of(start + 4 * number)) for number in range(count)]

    def numbers(self, place: int, form: str) -> tuple[Any, ...]:
        start, count = self._vector(place)
        self._buffer.count(count)
        return self._buffer.unpack_many(form, start, count)

    def bytes(self, place: int) -> bytes:
        start, count = self._vector(place)
        return self._buffer.bytes(start, count)

    def _vector(self, place: int) -> tuple[int, int]:
        """Return the offset of a vector's first entry, and the number of entries."""
        at = self._field(place)
        if not at:
            return 0, 0
        start = self._buffer.target_of(at)
        return start + 4, self._buffer.unpack("<I", start)


class _Buffer:
    """The bytes of a file, with limits on how much may be read from them in total."""

    def __init__(self, data: bytes, progress: Progress) -> None:
        self._data, self._progress = data, progress
        self._entries = _MOST_ENTRIES * len(data) + _SPARE
        self._text = _MOST_TEXT * len(data) + _SPARE
        self._raw = len(data)
        self._texts: dict[int, str] = {}

    def count(self, entries: int) -> None:
        self._progress.check()
        self._entries -= entries
        if self._entries < 0:
            raise _Damaged("its parts refer to each other too often")

    def unpack(self, form: str, at: int) -> Any:
        if at < 0:
            raise _Damaged(f"an offset leads {-at:,} bytes before its beginning")
        return struct.unpack_from(form, self._data, at)[0]

    def unpack_many(self, form: str, at: int, count: int) -> tuple[Any, ...]:
        if at < 0 or at + count * struct.calcsize(f"<{form}") > len(self._data):
            raise _Damaged(f"the list at byte {at:,} claims {count:,} entries")
        return struct.unpack_from(f"<{count}{form}", self._data, at)

    def target_of(self, at: int) -> int:
        """Return the target of the offset stored at a position."""
        target: int = at + self.unpack("<I", at)
        return target

    def text(self, at: int) -> str:
        found = self._texts.get(at)
        if found is None:
            length = self.unpack("<I", at)
            self._require(at + 4, length)
            found = self._texts[at] = self._data[at + 4 : at + 4 + length].decode("utf-8", "replace")
        self._text -= len(found)
        if self._text < 0:
            raise _Damaged("its strings are repeated too often")
        return found

    def bytes(self, at: int, length: int) -> bytes:
        self._require(at, length)
        self._raw -= length
        if self._raw < 0:
            raise _Damaged("the weights of its tensors take more than the file")
        return self._data[at : at + length]

    def _require(self, at: int, length: int) -> None:
        if at + length > len(self._data):
            raise _Damaged(f"{length:,} bytes at {at:,} reach beyond its end at {len(self._data):,}")


class _OrtReader:
    """Converts tables to messages; fields are numbered as in ort.fbs."""

    def __init__(self, data: bytes, progress: Progress) -> None:
        self._buffer = _Buffer(data, progress)

    def model(self) -> ModelProto:
        session = _Table(self._buffer, self._buffer.target_of(0))
        table = session.table(1)
        if table is None:
            raise _Damaged("it holds no model")
        model = ModelProto(ir_version=max(table.number(0), _LEAST_IR))
        version = table.number(5)
        if version != _NO_VERSION:
            model.model_version = version
        for entry in table.tables(1):
            model.opset_import.add(domain=entry.text(0), version=entry.number(1))
        model.producer_name, model.producer_version = table.text(2), table.text(3)
        model.domain, model.doc_string = table.text(4), table.text(6)
        graph = table.table(7)
        if graph is not None:
            self._graph(graph, model.graph, 0)
        model.graph.doc_string = table.text(8)
        for entry in table.tables(9):
            model.metadata_props.add(key=entry.text(0), value=entry.text(1))
        return model

    def _graph(self, table: _Table, graph: GraphProto, depth: int) -> None:
        if depth > DEPTH_LIMIT:
            raise _Damaged(f"its graphs are nested more than {DEPTH_LIMIT} deep")
        for initializer in table.tables(0):
            self._tensor(initializer, graph.initializer.add())
        for sparse in table.tables(7):
            self._sparse(sparse, graph.sparse_initializer.add())
        types = {info.text(0): info for info in table.tables(1)}
        nodes = [self._node(node, depth) for node in table.tables(2)]
        graph.node.extend(_sorted(nodes))
        inputs, outputs = table.texts(5), table.texts(6)
        inner = dict.fromkeys(name for node in nodes for name in node.output if name and name not in outputs)
        for names, infos in ((inputs, graph.input), (outputs, graph.output), (inner, graph.value_info)):
            for name in names:
                info = types.get(name)
                if infos is not graph.value_info or (info is not None and info.table(2) is not None):
                    added = infos.add(name=name)
                    if info is not None:
                        added.doc_string = info.text(1)
                        self._type(info.table(2), added.type, 0)

    def _node(self, table: _Table, depth: int) -> NodeProto:
        node = NodeProto(
            name=table.text(0),
            doc_string=table.text(1),
            domain=table.text(2),
            op_type=table.text(5),
            input=table.texts(8),
            output=table.texts(9),
        )
        for attribute in table.tables(10):
            self._attribute(attribute, node.attribute.add(), depth)
        return node

    def _attribute(self, table: _Table, attribute: AttributeProto, depth: int) -> None:
        attribute.name, attribute.doc_string = table.text(0), table.text(1)
        attribute.type = kind = table.number(2, "<i")
        match kind:
            case AttributeProto.FLOAT:
                attribute.f = table.number(3, "<f")
            case AttributeProto.INT:
                attribute.i = table.number(4)
            case AttributeProto.STRING:
                attribute.s = table.text(5).encode()
            case AttributeProto.TENSOR:
                _with(table.table(6), lambda inner: self._tensor(inner, attribute.t))
            case AttributeProto.GRAPH:
                _with(table.table(7), lambda inner: self._graph(inner, attribute.g, depth + 1))
            case AttributeProto.FLOATS:
                attribute.floats.extend(table.numbers(8, "f"))
            case AttributeProto.INTS:
                attribute.ints.extend(table.numbers(9, "q"))
            case AttributeProto.STRINGS:
                attribute.strings.extend(text.encode() for text in table.texts(10))
            case AttributeProto.TENSORS:
                for inner in table.tables(11):
                    self._tensor(inner, attribute.tensors.add())
            case AttributeProto.GRAPHS:
                for inner in table.tables(12):
                    self._graph(inner, attribute.graphs.add(), depth + 1)
            case _:
                raise _Damaged(f"attribute {attribute.name[:100]!r} has the type {kind}")

    def _tensor(self, table: _Table, tensor: TensorProto) -> None:
        tensor.name, tensor.doc_string = table.text(0), table.text(1)
        tensor.dims.extend(table.numbers(2, "q"))
        tensor.data_type = table.number(3, "<i")
        if tensor.data_type == _STRING:
            tensor.string_data.extend(text.encode() for text in table.texts(5))
        else:
            tensor.raw_data = table.bytes(4)

    def _sparse(self, table: _Table, sparse: Any) -> None:
        _with(table.table(0), lambda inner: self._tensor(inner, sparse.values))
        _with(table.table(1), lambda inner: self._tensor(inner, sparse.indices))
        sparse.dims.extend(table.numbers(2, "q"))

    def _type(self, table: _Table | None, found: TypeProto, depth: int) -> None:
        if table is None:
            return
        if depth > DEPTH_LIMIT:
            raise _Damaged(f"a type is nested more than {DEPTH_LIMIT} deep")
        found.denotation = table.text(0)
        inner = table.table(2)
        if inner is None:
            return
        match table.number(1, "<B"):
            case 1:
                found.tensor_type.elem_type = inner.number(0, "<i")
                _with(inner.table(1), lambda shape: self._shape(shape, found.tensor_type.shape))
            case 2:
                self._type(inner.table(0), found.sequence_type.elem_type, depth + 1)
            case 3:
                found.map_type.key_type = inner.number(0, "<i")
                self._type(inner.table(1), found.map_type.value_type, depth + 1)

    def _shape(self, table: _Table, shape: Any) -> None:
        shape.SetInParent()
        for dimension in table.tables(0):
            added, value = shape.dim.add(denotation=dimension.text(1)), dimension.table(0)
            kind = 0 if value is None else value.number(0, "<b")
            if value is not None and kind == 1:
                added.dim_value = value.number(1)
            elif value is not None and kind == 2:
                added.dim_param = value.text(2)


def _with(table: _Table | None, read: Callable[[_Table], object]) -> None:
    if table is not None:
        read(table)


def _sorted(nodes: list[NodeProto]) -> list[NodeProto]:
    """Sort nodes topologically, as ONNX requires; ONNX Runtime stores them in order of creation.

    Of several ready nodes the earlier one comes first; nodes on cycles and after them keep their order, at the end.
    """
    producer = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    users: list[list[int]] = [[] for _ in nodes]
    waiting = [0] * len(nodes)
    for number, node in enumerate(nodes):
        for name in _needed(node):
            made_by = producer.get(name)
            if made_by is not None and made_by != number:
                users[made_by].append(number)
                waiting[number] += 1
    ready = [number for number in range(len(nodes)) if not waiting[number]]
    heapify(ready)
    order = []
    while ready:
        order.append(number := heappop(ready))
        for user in users[number]:
            waiting[user] -= 1
            if not waiting[user]:
                heappush(ready, user)
    done = set(order)
    return [nodes[number] for number in (*order, *(n for n in range(len(nodes)) if n not in done))]


def _needed(node: NodeProto) -> set[str]:
    """Return the names that a node reads, those inside its subgraphs included."""
    names = set(node.input)
    pending = [graph for attribute in node.attribute for graph in (attribute.g, *attribute.graphs)]
    while pending:
        for inner in pending.pop().node:
            names.update(inner.input)
            pending += [graph for attribute in inner.attribute for graph in (attribute.g, *attribute.graphs)]
    return names
