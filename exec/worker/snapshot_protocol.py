"""Messages with snapshots from the program to its worker: only the parts that the worker does not have."""

from __future__ import annotations

import io
import itertools
import os
import pickle
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from onnx_workbench.exec.engine.operations import runtime_constant
from onnx_workbench.exec.engine.snapshot import (
    AttributeSnapshot,
    GraphSnapshot,
    ModelSnapshot,
    NodeSnapshot,
    TensorReference,
)
from onnx_workbench.exec.values.arrays import Array, RuntimeValue
from onnx_workbench.exec.worker.shared_memory import SharedMemoryExchange
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.garbage import no_collection
from onnx_workbench.model.io.reader.payloads import Payload
from onnx_workbench.model.io.reader.source import FileSource, Identity, identity_of
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType, Type

#: Tensors below this size are sent, larger ones in a file are read there by the worker.
_IN_FILE_BYTES = 1 << 16

#: Nodes or names that are compared at once with what was sent before.
_PIECE = 500

_fields_of_attribute = attrgetter(*(f.name for f in fields(AttributeSnapshot)))
_fields_of_node = attrgetter(*(f.name for f in fields(NodeSnapshot)))
#: The fields of a GraphSnapshot but the uid and the nodes, which differ after every edit.
_frame_of = attrgetter(*(f.name for f in fields(GraphSnapshot) if f.name not in ("uid", "nodes")))


@dataclass(frozen=True, slots=True)
class FileRange:
    """A tensor that the worker reads from the file itself, if the file has not changed."""

    path: str
    identity: Identity
    offset: int
    element_type: ElementType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RefusedRead:
    """A tensor whose values are not available: title and detail of the ModelError."""

    title: str
    detail: str


class RangeTensor(Tensor):
    """A FileRange on the worker's side."""

    __slots__ = ("_range",)

    def __init__(self, found: FileRange) -> None:
        super().__init__(found.element_type, found.shape)
        self._range = found

    @property
    def storage(self) -> str:
        """The storage kind, ``file``."""
        return "file"

    def numpy(self) -> Array:
        """Read the array from the file; ModelError if the file has changed."""
        found, dtype = self._range, self._range.element_type.numpy_dtype
        try:
            with open(found.path, "rb") as file:
                if identity_of(os.fstat(file.fileno())) != found.identity:
                    raise ModelError("The file changed on disk since it was opened", f"{found.path}. Reload it.")
                array = np.fromfile(file, dtype.newbyteorder("<"), self.size, offset=found.offset)
        except OSError as error:
            raise ModelError("The file cannot be read", f"{found.path}: {error.strerror or error}") from error
        return array.reshape(found.shape).astype(dtype, copy=False)


class ValueTensor(Tensor):
    """A tensor that was sent as a value."""

    __slots__ = ("_value",)

    def __init__(self, value: RuntimeValue) -> None:
        known = isinstance(value, np.ndarray)
        super().__init__(ElementType.from_numpy(value.dtype) if known else ElementType.UNDEFINED, ())
        self._value = value

    def numpy(self) -> Array:
        """Return the value, which for a sparse tensor is a SparseArray."""
        value: Array = self._value
        return value


class RefusedTensor(Tensor):
    """A tensor that the program could not read."""

    __slots__ = ("_refusal",)

    def __init__(self, refusal: RefusedRead) -> None:
        super().__init__(ElementType.UNDEFINED, ())
        self._refusal = refusal

    def numpy(self) -> Array:
        """Raise the ModelError with which reading it failed in the program."""
        raise ModelError(self._refusal.title, self._refusal.detail)


def tensor_message(tensor: Tensor | SparseTensor, exchange: SharedMemoryExchange) -> Any:
    """Return the message for a tensor: its location in a file, or its values. May read a file.

    ModelError if there is no room for the values. For a tensor that cannot be read the message holds the error.
    """
    try:
        if isinstance(tensor, ProtoTensor) and tensor.nbytes >= _IN_FILE_BYTES:
            found = _file_range(tensor)
            if found is not None:
                return found
        if isinstance(tensor, Tensor) and tensor.nbytes >= _IN_FILE_BYTES:  # many, not to be held all at once
            return exchange.encode_pieces(tensor.pieces, ElementType(tensor.element_type), tensor.shape)
        value = runtime_constant(tensor)
    except (ModelError, ValueError) as error:
        return RefusedRead(
            getattr(error, "title", "The values are not available"), getattr(error, "detail", str(error))
        )
    return exchange.encode(value)


def _file_range(tensor: ProtoTensor) -> FileRange | None:
    kind = tensor.element_type
    if not isinstance(kind, ElementType) or kind.bits < 8 or kind is ElementType.STRING:
        return None
    pieces = tensor.raw_pieces()
    if pieces is None or len(pieces) != 1 or not isinstance(pieces[0], Payload):
        return None
    payload = pieces[0]
    source = payload.source
    if not isinstance(source, FileSource) or payload.length != tensor.nbytes:
        return None
    try:
        same = identity_of(Path(source.name).stat()) == source.identity
    except (OSError, ValueError):
        return None
    path = Path(source.name).absolute()
    return FileRange(str(path), source.identity, payload.offset, kind, tensor.shape) if same else None


@dataclass(slots=True)
class ModelMessage:
    """A snapshot without the parts that were sent before."""

    content: bytes
    tensors: dict[int, Any]
    names: dict[int, str]
    input_types: Mapping[int, Type | None] | None  # None: the types that the graph declares


@dataclass(frozen=True, slots=True)
class GraphMessage:
    """A graph within a snapshot, as the difference to the version that was sent before."""

    uid: int
    graph: int
    frame: Sequence[Any]  # its fields but the uid and the nodes; empty if unchanged
    before: int  # the uid of the version sent before; 0: none
    ends: tuple[int, int]  # numbers of unchanged nodes at the beginning and at the end
    numbers: bytes  # uids of the nodes between these
    fresh: Sequence[NodeSnapshot]  # the nodes among these that were never sent


def same_ends(before: tuple[object, ...], now: tuple[object, ...], piece: int = _PIECE) -> tuple[int, int]:
    """Return how many elements both share at the beginning and, of the rest, at the end, in multiples of `piece`.

    A hundred times as fast as a loop over the elements, and blocks no other thread for long.
    """
    most = min(len(before), len(now))
    start = end = 0
    while start + piece <= most and before[start : start + piece] == now[start : start + piece]:
        start += piece
    behind, ahead = before[::-1], now[::-1]
    while start + end + piece <= most and behind[end : end + piece] == ahead[end : end + piece]:
        end += piece
    return start, end


class SnapshotSender:
    """The program's side: keeps track of what the worker has."""

    def __init__(self, exchange: SharedMemoryExchange) -> None:
        self._exchange = exchange
        self._graphs: dict[int, GraphSnapshot] = {}  # as sent last, by number
        self._nodes: set[int] = set()
        self._tensors: set[int] = set()
        self._ids: list[int] = []  # of all values
        self._texts: list[str] = []  # their names, as sent last

    def model(self, snapshot: ModelSnapshot) -> ModelMessage:
        """Return the message for a snapshot, which must then be sent. Reads tensors that are new and not in a file.

        If it raises, the record of what the worker has is unchanged.
        """
        ids, texts, names = self._new_names(snapshot)
        buffer = io.BytesIO()
        pickler = _Pickler(buffer, self._graphs, self._nodes)
        types = None if snapshot.input_types == _types_in(snapshot.graph) else snapshot.input_types
        pickler.dump(replace(snapshot, names={}, tensors={}, input_types={}))
        wanted = sorted(pickler.tensors - self._tensors)
        tensors = {n: tensor_message(snapshot.tensors[n], self._exchange) for n in wanted}
        self._ids, self._texts = ids, texts
        self._graphs.update(pickler.graphs)
        self._nodes.update(pickler.nodes)
        self._tensors.update(tensors)
        return ModelMessage(buffer.getvalue(), tensors, names, types)

    def _new_names(self, snapshot: ModelSnapshot) -> tuple[list[int], list[str], dict[int, str]]:
        """Return the ids and names of all values, and by id the names that are new or changed."""
        found: dict[int, str] = {}
        ids, texts = list(snapshot.names), list[str]()
        rest = iter(snapshot.names.values())
        for start in range(0, len(ids), _PIECE):
            piece = slice(start, start + _PIECE)
            now = list(itertools.islice(rest, len(ids[piece])))
            if now != self._texts[piece] or ids[piece] != self._ids[piece]:
                before = dict(zip(self._ids[piece], self._texts[piece], strict=True))
                found.update((i, name) for i, name in zip(ids[piece], now, strict=True) if before.get(i) != name)
            texts += now
        return ids, texts, found


def _types_in(graph: GraphSnapshot) -> dict[int, Type | None]:
    return dict(zip(graph.inputs, graph.input_types, strict=True))


def _references(value: Any) -> list[TensorReference]:
    if isinstance(value, TensorReference):
        return [value]
    return [*value] if isinstance(value, tuple) and value and isinstance(value[0], TensorReference) else []


class _Pickler(pickle.Pickler):
    """Writes graphs as GraphMessage and objects of snapshots by their fields, which is faster than as dataclasses.

    Collects the `graphs` that were written, the uids of the new `nodes`, and the numbers of the `tensors` of both.
    """

    def __init__(self, buffer: io.BytesIO, graphs: Mapping[int, GraphSnapshot], nodes: Collection[int]) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self._graphs, self._nodes = graphs, nodes
        self.graphs: dict[int, GraphSnapshot] = {}
        self.nodes: set[int] = set()
        self.tensors: set[int] = set()

    def reducer_override(self, thing: object) -> Any:
        """Return the constructor and the arguments that rebuild the object on the other side."""
        match thing:
            case GraphSnapshot():
                return GraphMessage, self._message(thing)
            case NodeSnapshot():
                return NodeSnapshot, _fields_of_node(thing)
            case AttributeSnapshot():
                self.tensors.update(reference.number for reference in _references(thing.value))
                return AttributeSnapshot, _fields_of_attribute(thing)
        return NotImplemented

    def _message(self, graph: GraphSnapshot) -> tuple[Any, ...]:
        """Return the fields of a GraphMessage."""
        before = self._graphs.get(graph.graph)
        frame, uid, start, end = _frame_of(graph), 0, 0, 0
        if before is not None:
            uid, (start, end) = before.uid, same_ends(before.nodes, graph.nodes)
            if frame == _frame_of(before):
                frame = ()  # pickling a thousand types takes milliseconds in which no other thread can run
        between = graph.nodes[start : len(graph.nodes) - end]
        fresh = [node for node in between if node.uid not in self._nodes]
        self.graphs[graph.graph] = graph
        self.nodes.update(node.uid for node in fresh)
        self.tensors.update(tensor for _, tensor in graph.initializers)
        numbers = array("q", [node.uid for node in between]).tobytes()
        return graph.uid, graph.graph, frame, uid, (start, end), numbers, fresh


class SnapshotReceiver:
    """The worker's side: rebuilds snapshots from messages."""

    def __init__(self, exchange: SharedMemoryExchange) -> None:
        self._exchange = exchange
        self._nodes: dict[int, NodeSnapshot] = {}
        self._graphs: dict[int, GraphSnapshot] = {}  # as received last, by number
        self._tensors: dict[int, Tensor | SparseTensor] = {}
        self._names: dict[int, str] = {}

    @no_collection()
    def model(self, message: ModelMessage) -> ModelSnapshot:
        """Return the snapshot that was sent."""
        snapshot: ModelSnapshot = _Unpickler(io.BytesIO(message.content), self._graph).load()
        self._names.update(message.names)
        types = _types_in(snapshot.graph) if message.input_types is None else message.input_types
        for number, sent in message.tensors.items():
            self._tensors[number] = self._tensor(sent)
        return replace(snapshot, names=self._names, tensors=self._tensors, input_types=types)

    def _graph(self, *fields_of_message: Any) -> GraphSnapshot:
        sent = GraphMessage(*fields_of_message)
        self._nodes.update((node.uid, node) for node in sent.fresh)
        last = self._graphs.get(sent.graph)
        if sent.before and (last is None or last.uid != sent.before):
            # A previous message could not be read, for example for lack of memory.
            msg = f"the graph as it was sent before: {sent.before}"
            raise LookupError(msg)
        before, (start, end) = () if last is None else last.nodes, sent.ends
        frame = sent.frame or _frame_of(last)
        between = map(self._nodes.__getitem__, array("q", sent.numbers))
        nodes = *before[:start], *between, *before[len(before) - end :]
        graph = GraphSnapshot(*(sent.uid, *frame, nodes))
        self._graphs[graph.graph] = graph
        return graph

    def _tensor(self, sent: Any) -> Tensor:
        if isinstance(sent, FileRange):
            return RangeTensor(sent)
        if isinstance(sent, RefusedRead):
            return RefusedTensor(sent)
        return ValueTensor(self._exchange.decode(sent))


class _Unpickler(pickle.Unpickler):
    """Rebuilds graphs by a function of the SnapshotReceiver. Reads only data written by the parent process."""

    def __init__(self, buffer: io.BytesIO, graph: Callable[..., GraphSnapshot]) -> None:
        super().__init__(buffer)
        self._graph = graph

    def find_class(self, module: str, name: str) -> Any:
        """Return the class for a name; for GraphMessage the function that rebuilds the graph."""
        is_graph = (module, name) == (GraphMessage.__module__, GraphMessage.__name__)
        return self._graph if is_graph else super().find_class(module, name)
