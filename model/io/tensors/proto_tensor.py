"""Tensors whose values are read lazily from the model file or an external file."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.protobuf import DecodeError, TensorProto, text
from onnx_workbench.model.io.reader.payloads import (
    PLACEHOLDER_BYTES,
    JoinedPieces,
    Payload,
    PayloadTable,
    Pieces,
    restore,
    total_length,
)
from onnx_workbench.model.io.reader.source import FileSource
from onnx_workbench.model.io.tensors.external_data import (
    ExternalDataRefused,
    check_range,
    open_external,
    parse_entries,
)
from onnx_workbench.model.io.wire import schemas
from onnx_workbench.model.ir.tensors import NUMPY_DIMENSIONS, PIECE, Tensor
from onnx_workbench.model.ir.types import MOST_DIMENSIONS, ElementType, element_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

#: The fields whose numbers have different lengths.
_DTYPES = {"int32_data": "i4", "int64_data": "i8", "uint64_data": "u8"}
_DECODED_AT_ONCE = 1 << 18  # bytes; their numbers take some ten times as much
_FIXED_WIDTH = {"float_data": 4, "double_data": 8}
_EXTERNAL = 1


class TensorFiles:
    """Data sources of the tensors of one model: payloads in its file and external files.

    `folder` is the base of external data; None for a model without a folder, such as one from a pipe. `real_folder` is
    the folder of the file itself if it was opened through a link. Any thread.
    """

    def __init__(
        self,
        table: PayloadTable | None,
        folder: str | os.PathLike[str] | None,
        real_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self.table = table
        self.folder = folder
        self._real_folder = real_folder
        self._lock = threading.Lock()
        self._external: dict[str, FileSource] = {}

    @property
    def folders(self) -> list[Path]:
        """Folders of external data: the one the model was opened in, and the one of the file itself."""
        return [Path(folder) for folder in (self.folder, self._real_folder) if folder is not None]

    def opened(self) -> list[str]:
        """Return the names of the external files opened so far."""
        with self._lock:
            return list(self._external)

    def close(self) -> None:
        """Close the external files; their tensors can no longer be read."""
        with self._lock:
            for source in self._external.values():
                source.close()

    def external(self, location: str) -> FileSource:
        """Return the data file of this name, opened once and cached; Refused where the policy forbids it."""
        if self.folder is None:
            raise ExternalDataRefused(f"the model was not read from a folder, so {location!r} cannot be looked for")
        with self._lock:
            source = self._external.get(location)
            if source is None:
                source = self._external[location] = open_external(self.folder, location, self._real_folder)
            return source


class ProtoTensor(Tensor):
    """A tensor backed by a TensorProto: inline, in a range of the file, or in an external file."""

    __slots__ = ("_files",)

    source: TensorProto

    def __init__(self, proto: TensorProto, files: TensorFiles) -> None:
        super().__init__(
            element_type(proto.data_type),
            tuple(proto.dims[:MOST_DIMENSIONS]),
            name=text(proto.name),
            doc_string=text(proto.doc_string),
            metadata={text(e.key): text(e.value) for e in proto.metadata_props} if proto.metadata_props else None,
            source=proto,
        )
        self._files = files

    def with_texts(
        self, *, name: str | None = None, doc_string: str | None = None, metadata: Mapping[str, str] | None = None
    ) -> Self:
        """Return the same values with other texts, in a new message. Copies no payloads in files."""
        from onnx_workbench.model.io.writer.encode import set_entries, set_text

        tensor = super().with_texts(name=name, doc_string=doc_string, metadata=metadata)
        tensor.source = TensorProto()
        tensor.source.CopyFrom(self.source)
        set_text(tensor.source, "name", tensor.name)
        set_text(tensor.source, "doc_string", tensor.doc_string)
        set_entries(tensor.source, "metadata_props", tensor.metadata)
        return tensor

    def shares_values(self, other: Tensor) -> bool:
        """Return whether both messages differ in texts only. Copies the messages, not payloads in files."""
        if self is other or not isinstance(other, ProtoTensor) or self._files is not other._files:
            return self is other
        bare = (tensor.with_texts(name="", doc_string="", metadata={}).source for tensor in (self, other))
        return bool(next(bare) == next(bare))

    @property
    def files(self) -> TensorFiles:
        """The data sources of its values."""
        return self._files

    # -- location of values ----------------------------------------------------------------------------------

    @property
    def storage(self) -> str:
        """``inline``, ``file`` or ``external``."""
        if self.source.data_location == _EXTERNAL:
            return "external"
        if not self._has_payloads:
            return "inline"
        pieces = self._field_pieces()
        return "file" if pieces is not None and any(isinstance(p, Payload) for p in pieces) else "inline"

    @property
    def _has_payloads(self) -> bool:
        table = self._files.table
        return table is not None and bool(table.payloads)

    @property
    def location(self) -> str:
        """The external file as named by the model; empty for other storage."""
        if self.storage != "external":
            return ""
        return next((text(e.value) for e in self.source.external_data if e.key == "location"), "")

    @property
    def problem(self) -> str:
        """Why the values are not available; empty when they are."""
        try:
            self._check()
        except ModelError as error:
            return error.detail
        return ""

    def raw_pieces(self) -> Pieces | None:
        """Return the values as raw little-endian pieces that can be copied; None when they have another form.

        ModelError when they are unavailable. Reads no payload.
        """
        pieces = self._check()
        return self._field_pieces() if pieces is None and self._field_name() in _FIXED_WIDTH else pieces

    def _field_name(self) -> str:
        if self.source.HasField("raw_data"):
            return "raw_data"
        from onnx_workbench.model.io.tensors.packing import TYPED_FIELDS

        kind = self.element_type
        return TYPED_FIELDS.get(kind, "") if isinstance(kind, ElementType) else ""

    def _field_pieces(self) -> Pieces | None:
        """Return the field's serialised content as pieces; None for strings and for numbers that upb has parsed."""
        name = self._field_name()
        table = self._files.table if self._has_payloads else None
        if name == "raw_data":
            content = self.source.raw_data
        elif name in ("float_data", "double_data"):
            import numpy as np

            dtype = "<f4" if name == "float_data" else "<f8"
            content = np.array(getattr(self.source, name), dtype).tobytes()
        elif table is not None and name in ("int32_data", "int64_data", "uint64_data"):
            values = getattr(self.source, name)
            if len(values) < PLACEHOLDER_BYTES:
                return None
            small = [value if 0 <= value < 0x80 else 0 for value in values]
            pieces = table.split(bytes(small))
            return pieces if any(isinstance(p, Payload) for p in pieces) else None
        else:
            return None
        return [content] if table is None else table.split(content)

    def _external_payload(self) -> Payload:
        data = parse_entries((text(e.key), text(e.value)) for e in self.source.external_data)
        source = self._files.external(data.location)
        check_range(data, self.nbytes, source.size)
        return Payload(source, data.offset, self.nbytes)

    def _check(self) -> Pieces | None:
        """Raise ModelError when the values are missing or inconsistent with type and shape.

        Returns raw values as pieces; None for values in typed fields, some of which would be converted for that.
        """
        kind = self.element_type
        if not isinstance(kind, ElementType) or kind is ElementType.UNDEFINED:
            self._refuse(f"its element type {int(kind)} is not known")
        if len(self.source.dims) > NUMPY_DIMENSIONS:
            self._refuse(f"it has {len(self.source.dims):,} dimensions; at most {NUMPY_DIMENSIONS} can be shown")
        if any(dimension < 0 for dimension in self.shape):
            self._refuse(f"its shape {list(self.shape)} has a negative dimension")
        if self.source.HasField("segment"):
            segment = self.source.segment
            if (segment.begin, segment.end) != (0, self.size):
                self._refuse(f"only the segment {segment.begin} to {segment.end} of its values is stored")
        if self.source.data_location == _EXTERNAL:
            if kind is ElementType.STRING:
                self._refuse("strings cannot be stored in an external file")
            return [self._external_payload()]
        if self.source.HasField("raw_data"):
            if kind is ElementType.STRING:
                self._refuse("strings cannot be stored as raw data")
            pieces = self._field_pieces()
            assert pieces is not None
            self._check_length(total_length(pieces))
            return pieces
        self._check_typed(kind)
        return None

    def _check_typed(self, kind: ElementType) -> None:
        from onnx_workbench.model.io.tensors.packing import typed_count

        name = self._field_name()
        if name in _FIXED_WIDTH and not self._has_payloads:  # counted without conversion, as there may be millions
            self._check_length(len(getattr(self.source, name)) * _FIXED_WIDTH[name])
            return
        pieces = None if kind is ElementType.STRING else self._field_pieces()
        if name in _FIXED_WIDTH:
            self._check_length(0 if pieces is None else total_length(pieces))
        elif pieces is None:
            found = len(getattr(self.source, name))
            needed = self.size if kind is ElementType.STRING else typed_count(kind, self.size)
            if found != needed:
                self._refuse(f"{found:,} values are stored in {name}, but its shape needs {needed:,}")

    def _check_length(self, found: int) -> None:
        """Raise ModelError when the values do not take so many bytes."""
        if found != self.nbytes:
            self._refuse(f"{found:,} bytes are stored, but its type and shape need {self.nbytes:,}")

    def _refuse(self, reason: str) -> NoReturn:
        raise ModelError("The tensor's data is not available", reason, place=self.name)

    # -- the values ------------------------------------------------------------------------------------------

    @property
    def reads_ranges(self) -> bool:
        """Whether the values are texts, or stored with a fixed width."""
        return self.raw_pieces() is not None or self.element_type is ElementType.STRING

    def numpy(self) -> NDArray[Any]:
        """Return the values, shaped; read from their file at every call, not cached."""
        values = self.read(0, self.size)
        try:
            return values.reshape(self.shape)
        except ValueError as error:
            raise ModelError("The tensor's data is not available", f"shape {list(self.shape)}: {error}") from error

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return elements start to stop in row-major order, flat. Fixed-width formats read only these."""
        try:
            pieces = self.raw_pieces()
            start, stop, _ = slice(start, stop).indices(self.size)
            return self._read(pieces, start, max(start, stop))
        except (ValueError, MemoryError) as error:
            if isinstance(error, ModelError):
                raise
            reason = str(error) or f"{self.nbytes:,} bytes do not fit into memory"
            raise ModelError("The tensor's data is not available", reason, place=self.name) from error

    def _read(self, pieces: Pieces | None, start: int, stop: int) -> NDArray[Any]:
        from onnx_workbench.model.io.tensors.packing import group, unpack

        kind = self.element_type
        assert isinstance(kind, ElementType)
        if pieces is None:
            return self._typed_values(kind, start, stop)
        elements, size = group(kind)
        first = start // elements
        last = -(-stop // elements)
        data = JoinedPieces(pieces).read(first * size, (last - first) * size)
        skipped = start - first * elements
        return unpack(data, kind, stop - first * elements)[skipped:]

    def pieces(self) -> Iterator[NDArray[Any]]:
        """Yield all elements, flat, a million at a time; a field with numbers of different lengths is read once."""
        pieces = self._field_pieces() if self.raw_pieces() is None else None
        if pieces is None:
            for start in range(0, self.size, PIECE):
                yield self.read(start, start + PIECE)
            return
        try:
            yield from self._decoded_pieces(pieces)
        except ValueError as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError("The tensor's data is not available", str(error), place=self.name) from error

    def _decoded_pieces(self, pieces: Pieces) -> Iterator[NDArray[Any]]:
        from onnx_workbench.model.io.tensors.packing import elements_per_number, from_typed, regrouped

        kind = self.element_type
        assert isinstance(kind, ElementType)
        left = self.size
        for numbers in regrouped(self._numbers_in(pieces), PIECE // elements_per_number(kind)):
            count = min(PIECE, left)
            yield from_typed(numbers, kind, count)
            left -= count
        if left:
            msg = f"{left:,} fewer values are stored than the shape needs"
            raise ValueError(msg)

    def _typed_values(self, kind: ElementType, start: int, stop: int) -> NDArray[Any]:
        """Return a range of a typed field that is not of fixed width: texts, or numbers of different lengths."""
        import numpy as np

        from onnx_workbench.model.io.tensors.packing import elements_per_number, from_typed, typed_count

        name = self._field_name()
        if kind is ElementType.STRING:
            strings = np.empty(stop - start, object)
            strings[:] = [value.decode("utf-8", "surrogateescape") for value in self.source.string_data[start:stop]]
            return strings
        each = elements_per_number(kind)
        first, last = start // each, typed_count(kind, stop)
        pieces = self._field_pieces()
        if pieces is None:
            numbers = np.array(getattr(self.source, name)[first:last], _DTYPES[name])
        else:
            numbers = self._number_range(pieces, first, last, typed_count(kind, self.size))
        skipped = start - first * each
        return from_typed(numbers, kind, stop - first * each)[skipped:]

    def _number_range(self, pieces: Pieces, first: int, last: int, total: int) -> NDArray[Any]:
        """Return some numbers of a field in the file; decodes those before them too."""
        import numpy as np

        found, parts = 0, [np.zeros(0, _DTYPES[self._field_name()])]
        for numbers in self._numbers_in(pieces):
            if first < found + len(numbers) and found < last:
                parts.append(numbers[max(first - found, 0) : last - found])
            found += len(numbers)
            if last <= found and last < total:
                break
        if last == total and found != total:
            msg = f"{found:,} values stored where the shape needs {total:,}"
            raise ValueError(msg)
        return np.concatenate(parts)

    def _numbers_in(self, pieces: Pieces) -> Iterator[NDArray[Any]]:
        """Yield the numbers of a packed field with numbers of different lengths, chunk by chunk."""
        import numpy as np

        from onnx_workbench.model.io.tensors.packing import decode_varint_chunks

        name, length = self._field_name(), total_length(pieces)
        joined = JoinedPieces(pieces)
        chunks = (joined.read(at, _DECODED_AT_ONCE) for at in range(0, length, _DECODED_AT_ONCE))
        for numbers in decode_varint_chunks(chunks):
            signed = numbers.astype(np.uint32) if name == "int32_data" else numbers
            yield signed.view(_DTYPES[name])


def storage_mark(*, external: bool) -> TensorProto:
    """Return the marker message that determines where saving stores a new tensor: a data file, or the model itself."""
    mark = TensorProto()
    mark.data_location = TensorProto.EXTERNAL if external else TensorProto.DEFAULT
    return mark


def is_stored_outside(tensor: Tensor) -> bool:
    """Return whether saving will store the values in a data file, because they came from one or are marked for it."""
    return isinstance(tensor.source, TensorProto) and tensor.source.data_location == TensorProto.EXTERNAL


def message_pieces(tensor: ProtoTensor) -> Pieces:
    """Return the message of a tensor in serialized form, with values in a file as pieces."""
    table = tensor.files.table
    return restore(tensor.source.SerializeToString(), schemas()["TensorProto"], [] if table is None else [table])


def read_message(data: bytes) -> TensorProto:
    """Parse a TensorProto; raise ModelError when the bytes are not one."""
    try:
        return TensorProto.FromString(data)
    except DecodeError as error:
        raise ModelError("The tensor is damaged", "Its bytes are not a TensorProto message.") from error
