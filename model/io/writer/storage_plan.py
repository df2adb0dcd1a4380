"""Storage plan: where the values of each tensor go when a model is written: message, data files, or nowhere."""

from __future__ import annotations

import enum
import re
import uuid
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.protobuf import TensorProto, utf8
from onnx_workbench.model.io.reader.payloads import Payload, PayloadTable, Pieces, total_length
from onnx_workbench.model.io.reader.source import BytesSource, Identity, identity_of
from onnx_workbench.model.io.tensors.external_data import ExternalDataRefused
from onnx_workbench.model.io.tensors.packed_source import PackedSource
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor, is_stored_outside
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import ElementType

#: Longest list of integers that may be a shape, and the element types of such lists.
_LONGEST_SHAPE = 64
_OF_SHAPES = frozenset({ElementType.INT32, ElementType.INT64})

_LARGE = 4096  # larger values bypass the protobuf runtime
_EXTERNAL = TensorProto.EXTERNAL
_DATA_FIELDS = (
    "raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data", "segment",
    "external_data", "data_location",
)  # fmt: skip


class DataLayout(enum.Enum):
    """Storage of tensor values."""

    KEEP = "keep"  # each where it was; new ones in the message
    INLINE = "inline"
    ONE_FILE = "one data file"
    FILE_PER_TENSOR = "one data file per tensor"
    STRIPPED = "stripped"  # large values omitted: for tools that need only types and shapes


@dataclass(frozen=True)
class Storage:
    """Storage options of a save.

    With a layout of data files, tensors of at least `threshold` bytes are stored there, except short lists of integers:
    shapes and axes, which programs need before they read data files. With STRIPPED such tensors are omitted. `among`
    restricts the layout to some tensors; the others keep their location. `apart`: use new names for data files, so that
    the old ones may be removed.
    """

    layout: DataLayout = DataLayout.KEEP
    threshold: int = 1024
    among: Collection[Tensor] | None = None
    apart: bool = False


def may_be_external(tensor: Tensor) -> bool:
    """Return whether a tensor may be stored in a data file: not strings, nor a short list of integers, maybe a shape.

    ONNX Runtime infers no shapes from data files.
    """
    if tensor.element_type in (ElementType.STRING, ElementType.UNDEFINED):
        return False
    return tensor.element_type not in _OF_SHAPES or len(tensor.shape) > 1 or tensor.size > _LONGEST_SHAPE


#: Every tensor keeps its location.
UNMOVED: Final = Storage()


@dataclass(slots=True)
class DataFile:
    """A data file to be written: its name and content."""

    name: str
    size: int = 0
    pieces: Pieces = field(default_factory=list)
    known: dict[Part, int] = field(default_factory=dict)  # offsets of file ranges already added

    def add(self, pieces: Pieces, part: Part | None) -> int:
        """Add the bytes of a tensor; returns their offset. Identical ranges are added once."""
        if part is not None and part in self.known:
            return self.known[part]
        offset = self.size
        self.pieces += pieces
        self.size += total_length(pieces)
        if part is not None:
            self.known[part] = offset
        return offset


#: A range of an open file, or a tensor in memory: source or tensor, offset, length.
Part = tuple[object, int, int]


def _part(tensor: Tensor) -> Part | None:
    """Return the location of a tensor's values: a file range, or else the tensor; None where they are unavailable."""
    if isinstance(tensor, ProtoTensor):
        if tensor.problem:
            return None
        pieces = tensor.raw_pieces()
        first = pieces[0] if pieces is not None and len(pieces) == 1 else None
        if isinstance(first, Payload):
            return first.source, first.offset, first.length
    return tensor, 0, tensor.nbytes


class SavedAs:
    """Where the saves of a model to a path put its values.

    A model continues to read from where it was opened, or holds new values in memory, while its saved file has them
    elsewhere: the next save there leaves them in place. Updated when a save ends, read when the next begins.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.layout = DataLayout.KEEP  # INLINE: all values are in the model file
        self.inside: frozenset[Part] = frozenset()  # values that are there though their tensors come from data files
        self._files: dict[str, tuple[Identity, dict[Part, int]]] = {}

    def update(self, plan: StoragePlan) -> None:
        """Record that the model was written as planned. Data files of earlier saves still count: an edit may be
        redone.
        """
        self.layout = DataLayout.INLINE if plan.rest is DataLayout.INLINE else DataLayout.KEEP
        self.inside = frozenset(plan.inlined)
        for data_file in plan.data_files:
            with suppress(OSError):
                identity = identity_of((self.path.parent / data_file.name).stat())
                self._files[data_file.name] = identity, data_file.known

    @property
    def data_files(self) -> list[Path]:
        """The data files that saves wrote next to the model."""
        return [self.path.parent / name for name in self._files]

    def beside(self) -> dict[Part, tuple[str, int]]:
        """Return data file and offset by range, for unchanged data files."""
        places: dict[Part, tuple[str, int]] = {}
        for name, (identity, offsets) in self._files.items():
            with suppress(OSError):
                if identity_of((self.path.parent / name).stat()) == identity:
                    places.update({part: (name, offset) for part, offset in offsets.items()})
        return places


class StoragePlan:
    """Decides the storage of each tensor of one save and writes its message.

    `known` is where earlier saves to the path put values. `moved`: the model goes to another folder, so external data
    must be copied. `unavailable` collects tensors whose values could not be read.
    """

    def __init__(self, storage: Storage = UNMOVED, known: SavedAs | None = None, *, moved: bool = False) -> None:
        known = known or SavedAs(Path())
        is_kept = storage.layout is DataLayout.KEEP
        self.layout = known.layout if is_kept else storage.layout
        self._among = None if is_kept else storage.among
        self.rest = (
            self.layout if self._among is None else known.layout
        )  # the layout of tensors that are not among them
        self.table = PayloadTable()
        self.tables: dict[int, PayloadTable] = {id(self.table): self.table}
        self.data_files: list[DataFile] = []
        self.unavailable: list[str] = []
        self.inlined: set[Part] = set(known.inside if self.rest is DataLayout.KEEP else ())
        self._beside = known.beside() if self.rest is DataLayout.KEEP else {}
        self._threshold = storage.threshold
        self._data_name = f"{known.path.name[:80]}.{uuid.uuid4().hex[:8]}"
        self._moved = moved or storage.apart

    @property
    def touches_every_tensor(self) -> bool:
        """Return whether tensors in undecoded attributes must be visited too."""
        return self.layout is not DataLayout.KEEP or self._moved or bool(self._beside or self.inlined)

    def warnings(self) -> list[str]:
        """Return the warnings about tensors that were left as they are."""
        return [f"The values of a tensor are not available and were left unchanged: {r}" for r in self.unavailable]

    def use(self, table: PayloadTable | None) -> None:
        """Allow payloads of this table in the messages."""
        if table is not None:
            self.tables[id(table)] = table

    def write(self, tensor: Tensor, out: TensorProto, name: str) -> None:
        """Fill a tensor's message, which is a copy of `tensor.source` or empty."""
        from onnx_workbench.model.io.writer.encode import set_entries, set_number, set_numbers, set_text

        set_text(out, "name", name)
        set_text(out, "doc_string", tensor.doc_string)
        set_entries(out, "metadata_props", tensor.metadata)
        if not isinstance(tensor, ProtoTensor):
            set_numbers(out, "dims", tensor.shape)
            set_number(out, "data_type", int(tensor.element_type))
        else:
            self.use(tensor.files.table)
        layout = self._layout_of(tensor)
        if layout is DataLayout.KEEP and self._beside and self._reuse_data_file(tensor, out):
            return
        place = self._place_of(tensor, layout)
        if place is not None:
            try:
                self._store(tensor, out, place)
            except ModelError as error:
                if not isinstance(tensor, ProtoTensor):
                    raise
                self.unavailable.append(f"{name}: {error.detail}")

    def _layout_of(self, tensor: Tensor) -> DataLayout:
        """Return the layout of this tensor; values inlined by an earlier save stay inlined."""
        if self._among is not None and tensor in self._among:
            part = _part(tensor)
            if part is not None:
                (self.inlined.add if self.layout is DataLayout.INLINE else self.inlined.discard)(part)
            return self.layout
        is_inside = self.rest is DataLayout.KEEP and self.inlined and _part(tensor) in self.inlined
        return DataLayout.INLINE if is_inside else self.rest

    def _place_of(self, tensor: Tensor, layout: DataLayout) -> DataLayout | None:
        """Return INLINE, ONE_FILE, FILE_PER_TENSOR or STRIPPED; None to leave the message as it is."""
        read = isinstance(tensor, ProtoTensor)
        external = is_stored_outside(tensor)
        if tensor.element_type == ElementType.STRING or tensor.element_type == ElementType.UNDEFINED:
            return None if read else DataLayout.INLINE
        if layout is DataLayout.KEEP:
            if external and (self._moved or not read):
                return DataLayout.FILE_PER_TENSOR if self.layout is DataLayout.FILE_PER_TENSOR else DataLayout.ONE_FILE
            return None if read else DataLayout.INLINE
        is_large = layout is not DataLayout.INLINE and tensor.nbytes >= self._threshold
        if is_large and (layout is DataLayout.STRIPPED or may_be_external(tensor)):
            return layout
        return None if read and not external else DataLayout.INLINE

    def _store(self, tensor: Tensor, out: TensorProto, place: DataLayout) -> None:
        if place is DataLayout.STRIPPED:
            _refer(out, "stripped")
            return
        if tensor.element_type == ElementType.STRING:
            values = [utf8(str(value)) for value in tensor.numpy().reshape(-1)]
            _clear_data(out)
            out.string_data.extend(values)
            return
        pieces = _raw_pieces(tensor)
        if place is DataLayout.INLINE:
            _clear_data(out)
            out.raw_data = self._inline(pieces)
            return
        file = self._data_file(tensor, place)
        _refer(out, file.name, file.add(pieces, _part(tensor)), total_length(pieces))

    def _reuse_data_file(self, tensor: Tensor, out: TensorProto) -> bool:
        """Refer to the data file of an earlier save that has the values, if there is one."""
        part = _part(tensor)
        if part is None or part not in self._beside:
            return False
        name, offset = self._beside[part]
        _refer(out, name, offset, part[2])
        return True

    def _inline(self, pieces: Pieces) -> bytes:
        """Return small values themselves, placeholders for large ones."""
        content = b""
        for piece in pieces:
            if isinstance(piece, Payload):
                content += self.table.add(piece)
            elif len(piece) >= _LARGE:
                content += self.table.add(Payload(BytesSource(piece), 0, len(piece)))
            else:
                content += piece
        return content

    def _data_file(self, tensor: Tensor, place: DataLayout) -> DataFile:
        if place is DataLayout.ONE_FILE and self.data_files:
            return self.data_files[0]
        name = f"{self._data_name}.data"
        if place is DataLayout.FILE_PER_TENSOR:
            hint = re.sub(r"[^A-Za-z0-9_-]+", "_", tensor.name)[:60]
            name = f"{self._data_name}.{len(self.data_files)}{'_' if hint else ''}{hint}.data"
        file = DataFile(name)
        self.data_files.append(file)
        return file


def _raw_pieces(tensor: Tensor) -> Pieces:
    """Return the values as raw bytes; large ones as unread file ranges."""
    if isinstance(tensor, ProtoTensor):
        if tensor.problem:
            raise ExternalDataRefused(tensor.problem)
        pieces = tensor.raw_pieces()
        if pieces is not None:
            return pieces
    kind = tensor.element_type
    if not isinstance(kind, ElementType):
        raise ModelError("The tensor cannot be written", f"Its element type {kind} is not known.", tensor.name)
    source = PackedSource(tensor, kind)
    return [Payload(source, 0, source.size) if source.size >= _LARGE else source.read(0, source.size)]


def _clear_data(out: TensorProto) -> None:
    for name in _DATA_FIELDS:
        out.ClearField(name)


def _refer(out: TensorProto, name: str, offset: int = 0, length: int | None = None) -> None:
    """Set the reference to a data file."""
    _clear_data(out)
    out.data_location = _EXTERNAL
    for key, value in (("location", name), ("offset", offset), ("length", length)):
        if value is not None:
            out.external_data.add(key=key, value=str(value))
