"""Messages with snapshots from the program to its worker: only the parts that the worker does not have."""

from __future__ import annotations

import io
import os
import pickle
from array import array
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from math import prod
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
from onnx_workbench.model.ir.types import ElementType

#: Tensors below this size are sent, larger ones in a file are read there by the worker.
_IN_FILE_BYTES = 1 << 16

_fields_of_attribute = attrgetter(*(f.name for f in fields(AttributeSnapshot)))
_fields_of_node = attrgetter(*(f.name for f in fields(NodeSnapshot)))
#: The fields of a GraphSnapshot but the nodes, its last.
_frame_of = attrgetter(*(f.name for f in fields(GraphSnapshot) if f.name != "nodes"))


@dataclass(frozen=True, slots=True)
class FileRange:
    """A tensor that the worker reads from the file itself, if the file has not changed."""

    path: str
    identity: Identity
    offset: int
    element_type: ElementType
    shape: tuple[int, ...]

    def read(self) -> Array:
        """Read the array from the file; ModelError if the file has changed."""
        dtype = self.element_type.numpy_dtype
        try:
            with open(self.path, "rb") as file:
                if identity_of(os.fstat(file.fileno())) != self.identity:
                    raise ModelError("The file changed on disk since it was opened", f"{self.path}. Reload it.")
                array = np.fromfile(file, dtype.newbyteorder("<"), prod(self.shape), offset=self.offset)
        except OSError as error:
            raise ModelError("The file cannot be read", f"{self.path}: {error.strerror or error}") from error
        return array.reshape(self.shape).astype(dtype, copy=False)


@dataclass(frozen=True, slots=True)
class RefusedRead:
    """A tensor whose values the program could not read: title and detail of the ModelError."""

    title: str
    detail: str

    def read(self) -> Array:
        """Raise the ModelError."""
        raise ModelError(self.title, self.detail)


class SentTensor(Tensor):
    """A tensor on the worker's side: a range of a file, a value, or the reason why there is none."""

    __slots__ = ("_content",)

    def __init__(self, content: FileRange | RefusedRead | RuntimeValue) -> None:
        kind: ElementType | int = ElementType.UNDEFINED
        shape: tuple[int, ...] = ()
        if isinstance(content, FileRange):
            kind, shape = content.element_type, content.shape
        elif isinstance(content, np.ndarray):
            kind, shape = ElementType.from_numpy(content.dtype), content.shape
        super().__init__(kind, shape)
        self._content = content

    @property
    def storage(self) -> str:
        """The storage kind, ``file`` for a range."""
        return "file" if isinstance(self._content, FileRange) else "memory"

    def numpy(self) -> Array:
        """Return the values, which for a sparse tensor are a SparseArray; ModelError if they cannot be read."""
        content = self._content
        found: Array = content.read() if isinstance(content, (FileRange, RefusedRead)) else content
        return found


def tensor_message(tensor: Tensor | SparseTensor, exchange: SharedMemoryExchange) -> Any:
    """Return the message for a tensor: its location in a file, or its values. May read a file.

    ModelError if there is no room for the values. For a tensor that cannot be read the message holds the error.
    """
    try:
        if isinstance(tensor, ProtoTensor) and tensor.nbytes >= _IN_FILE_BYTES:
            file_range = _file_range(tensor)
            if file_range is not None:
                return file_range
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


@dataclass(frozen=True, slots=True)
class GraphMessage:
    """A graph within a snapshot, without the nodes that were sent before."""

    frame: tuple[Any, ...]  # its fields but the nodes
    numbers: bytes  # uids of the nodes
    fresh: Sequence[NodeSnapshot]  # the nodes among these that were never sent


class SnapshotSender:
    """The program's side: keeps track of what the worker has."""

    def __init__(self, exchange: SharedMemoryExchange) -> None:
        self._exchange = exchange
        self._nodes: set[int] = set()
        self._tensors: set[int] = set()
        self._names: dict[int, str] = {}  # of all values, as sent last

    def model(self, snapshot: ModelSnapshot) -> ModelMessage:
        """Return the message for a snapshot, which must then be sent. Reads tensors that are new and not in a file.

        If it raises, the record of what the worker has is unchanged.
        """
        sent = self._names
        names = {number: name for number, name in snapshot.names.items() if sent.get(number) != name}
        buffer = io.BytesIO()
        pickler = _Pickler(buffer, self._nodes)
        pickler.dump(replace(snapshot, names={}, tensors={}))
        wanted = sorted(pickler.tensors - self._tensors)
        tensors = {n: tensor_message(snapshot.tensors[n], self._exchange) for n in wanted}
        self._names.update(names)
        self._nodes.update(pickler.nodes)
        self._tensors.update(tensors)
        return ModelMessage(buffer.getvalue(), tensors, names)


def _references(value: Any) -> list[TensorReference]:
    if isinstance(value, TensorReference):
        return [value]
    return [*value] if isinstance(value, tuple) and value and isinstance(value[0], TensorReference) else []


class _Pickler(pickle.Pickler):
    """Writes graphs as GraphMessage and objects of snapshots by their fields, which is faster than as dataclasses.

    Collects the uids of the new `nodes`, and the numbers of the `tensors` of these and of the graphs.
    """

    def __init__(self, buffer: io.BytesIO, nodes: Collection[int]) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self._nodes = nodes
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
        numbers = [node.uid for node in graph.nodes]
        fresh = [node for node in graph.nodes if node.uid not in self._nodes]
        self.nodes.update(node.uid for node in fresh)
        self.tensors.update(tensor for _, tensor in graph.initializers)
        return _frame_of(graph), array("q", numbers).tobytes(), fresh


class SnapshotReceiver:
    """The worker's side: rebuilds snapshots from messages."""

    def __init__(self, exchange: SharedMemoryExchange) -> None:
        self._exchange = exchange
        self._nodes: dict[int, NodeSnapshot] = {}
        self._tensors: dict[int, Tensor | SparseTensor] = {}
        self._names: dict[int, str] = {}

    @no_collection()
    def model(self, message: ModelMessage) -> ModelSnapshot:
        """Return the snapshot that was sent."""
        snapshot: ModelSnapshot = _Unpickler(io.BytesIO(message.content), self._graph).load()
        self._names.update(message.names)
        for number, sent in message.tensors.items():
            read_there = isinstance(sent, (FileRange, RefusedRead))
            self._tensors[number] = SentTensor(sent if read_there else self._exchange.decode(sent))
        return replace(snapshot, names=self._names, tensors=self._tensors)

    def _graph(self, *fields_of_message: Any) -> GraphSnapshot:
        """Return a graph; LookupError if an earlier message, with nodes of it, could not be read."""
        sent = GraphMessage(*fields_of_message)
        self._nodes.update((node.uid, node) for node in sent.fresh)
        nodes = map(self._nodes.__getitem__, array("q", sent.numbers))
        return GraphSnapshot(*(*sent.frame, tuple(nodes)))


class _Unpickler(pickle.Unpickler):
    """Rebuilds graphs by a function of the SnapshotReceiver. Reads only data written by the parent process."""

    def __init__(self, buffer: io.BytesIO, graph: Callable[..., GraphSnapshot]) -> None:
        super().__init__(buffer)
        self._graph = graph

    def find_class(self, module: str, name: str) -> Any:
        """Return the class for a name; for GraphMessage the function that rebuilds the graph."""
        is_graph = (module, name) == (GraphMessage.__module__, GraphMessage.__name__)
        return self._graph if is_graph else super().find_class(module, name)
