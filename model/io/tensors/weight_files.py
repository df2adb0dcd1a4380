"""Named arrays of weight files: .safetensors, .gguf and .npz. The header is read at once, arrays on demand.

Offsets, counts and sizes that a header claims are checked against the file before anything is read or allocated.
Formats: https://github.com/huggingface/safetensors#format and https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
(versions 2 and 3, little-endian).
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.source import FileSource, open_file
from onnx_workbench.model.io.tensors.array_files import npy_header, npz_members, read_member
from onnx_workbench.model.io.tensors.mapped_arrays import array_of
from onnx_workbench.model.io.tensors.packing import unpack
from onnx_workbench.model.ir.tensors import PIECE, ArrayTensor, Tensor, element_count
from onnx_workbench.model.ir.types import MOST_DIMENSIONS, ElementType

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Formats that are read, by suffix.
SUFFIXES: Final = (".safetensors", ".gguf", ".npz")

_LONGEST_HEADER = 100 << 20  # bytes, as in safetensors' own reader
_MOST_ARRAYS = 1_000_000
_LONGEST_TEXT = 1 << 20  # bytes
_GGUF_ALIGNMENT = 32
_E = ElementType
_SAFETENSORS = {
    "BOOL": _E.BOOL, "U8": _E.UINT8, "I8": _E.INT8, "U16": _E.UINT16, "I16": _E.INT16, "U32": _E.UINT32,
    "I32": _E.INT32, "U64": _E.UINT64, "I64": _E.INT64, "F16": _E.FLOAT16, "BF16": _E.BFLOAT16, "F32": _E.FLOAT,
    "F64": _E.DOUBLE, "F8_E4M3": _E.FLOAT8E4M3FN, "F8_E5M2": _E.FLOAT8E5M2,
}  # fmt: skip
_GGUF = {
    0: _E.FLOAT, 1: _E.FLOAT16, 24: _E.INT8, 25: _E.INT16, 26: _E.INT32, 27: _E.INT64, 28: _E.DOUBLE, 30: _E.BFLOAT16,
}  # fmt: skip
_GGUF_QUANTIZED = {
    2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K",
    14: "Q6_K", 15: "Q8_K",
}  # fmt: skip
#: Bytes of the metadata value types of GGUF that have one size; 8 is a text, 9 an array.
_GGUF_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_GGUF_TEXT, _GGUF_ARRAY, _GGUF_UINT32 = 8, 9, 4


@dataclass(frozen=True, slots=True)
class StoredArray:
    """One array of a weight file. `problem` is the reason why it cannot be read: a quantized type, a wrong size."""

    name: str
    type_name: str
    shape: tuple[int, ...]
    element_type: ElementType | None = None
    offset: int = 0
    length: int = 0
    problem: str = ""


@dataclass(frozen=True)
class WeightFile:
    """The arrays of a weight file by name, in the file's order."""

    path: Path
    arrays: dict[str, StoredArray]
    _source: FileSource | zipfile.ZipFile = field(repr=False)

    def read(self, name: str) -> Tensor:
        """Read one array. ModelError when it cannot be read, or the file changed meanwhile. Blocks; any thread."""
        array = self.arrays[name]
        if array.problem:
            raise ModelError(f"{name} cannot be read", array.problem, str(self.path))
        if isinstance(self._source, zipfile.ZipFile):
            return read_member(self._source, name, self.path)
        assert array.element_type is not None
        values = array_of(self._pieces(self._source, array), array.element_type.numpy_dtype, array.shape)
        return ArrayTensor(values, array.element_type, name=name)

    @staticmethod
    def _pieces(source: FileSource, array: StoredArray) -> Iterator[NDArray[Any]]:
        """Read an array whose elements take whole bytes, a piece at a time."""
        assert array.element_type is not None
        width = array.element_type.bits // 8
        for start in range(0, array.length, PIECE * width):
            data = source.read(array.offset + start, min(PIECE * width, array.length - start))
            yield unpack(data, array.element_type, len(data) // width)


def open_weights(path: Path) -> WeightFile:
    """Read the header of a weight file. ModelError describes and locates damage. Blocks; any thread."""
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _open_npz(path)
    if suffix not in SUFFIXES:
        raise ModelError(
            f"{path.name} has an unsupported file type", f"Weights are read from {', '.join(SUFFIXES)}.", str(path)
        )
    source = open_file(path)
    try:
        arrays = _read_safetensors(source, path) if suffix == ".safetensors" else _GgufHeader(source, path).arrays()
    except BaseException:
        source.close()
        raise
    return WeightFile(path, arrays, source)


def _damaged(path: Path, found: str) -> ModelError:
    return ModelError(f"{path.name} is damaged", found, str(path))


def _array(name: str, kind: ElementType, shape: tuple[int, ...], offset: int, size: int) -> StoredArray:
    """Describe an array at an offset of a file of `size` bytes, with the problem of its range if there is one."""
    length = (element_count(shape) * kind.bits + 7) // 8
    problem = ""
    if len(shape) > MOST_DIMENSIONS or any(dimension < 0 for dimension in shape):
        problem = f"its shape {list(shape[:10])} is not valid"
    elif offset + length > size:
        problem = f"it needs {length:,} bytes at {offset:,}, but the file ends at {size:,}"
    return StoredArray(name, kind.text, shape, kind, offset, length, problem)


# -- npz -------------------------------------------------------------------------------------------------------------


def _open_npz(path: Path) -> WeightFile:
    names = npz_members(path)
    archive = zipfile.ZipFile(path)  # for as long as the weight file
    return WeightFile(path, {name: _npz_array(archive, name) for name in names}, archive)


def _npz_array(archive: zipfile.ZipFile, name: str) -> StoredArray:
    try:
        with archive.open(f"{name}.npy") as stream:
            shape, _, dtype = npy_header(stream)
        kind = ElementType.from_numpy(dtype.newbyteorder("="))
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, RuntimeError) as error:
        return StoredArray(name, "?", (), problem=str(error))
    return StoredArray(name, kind.text, shape, kind)


# -- safetensors -----------------------------------------------------------------------------------------------------


def _read_safetensors(source: FileSource, path: Path) -> dict[str, StoredArray]:
    if source.size < 8:
        raise _damaged(path, f"It has {source.size} bytes; the length of the header alone takes 8.")
    length = int.from_bytes(source.read(0, 8), "little")
    if length > min(_LONGEST_HEADER, source.size - 8):
        raise _damaged(path, f"Its header claims {length:,} bytes of a file of {source.size:,}.")
    try:
        header = json.loads(source.read(8, length))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"Its header is not valid JSON: {error}.") from error
    if not isinstance(header, dict):
        raise _damaged(path, "Its header is not a JSON object.")
    header.pop("__metadata__", None)
    return {name: _safetensors_array(name, entry, 8 + length, source.size, path) for name, entry in header.items()}


def _safetensors_array(name: str, entry: Any, start: int, size: int, path: Path) -> StoredArray:
    match entry:
        case {"dtype": str(kind), "shape": list(shape), "data_offsets": [int(begin), int(end)]} if (
            all(type(dimension) is int for dimension in shape) and 0 <= begin <= end
        ):
            element_type = _SAFETENSORS.get(kind)
            if element_type is None:
                return StoredArray(name, kind, tuple(shape), problem=f"its type {kind} has no counterpart in ONNX")
            array = _array(name, element_type, tuple(shape), start + begin, size)
            if not array.problem and array.length != end - begin:
                found = f"it has {end - begin:,} bytes; its type and shape need {array.length:,}"
                return StoredArray(name, array.type_name, array.shape, problem=found)
            return array
    raise _damaged(path, f"The entry of {name[:100]!r} has no valid dtype, shape and data_offsets.")


# -- GGUF ------------------------------------------------------------------------------------------------------------


class _GgufHeader:
    """Reader of a GGUF file's header, from front to back."""

    def __init__(self, source: FileSource, path: Path) -> None:
        self._source, self._path = source, path
        self._at = 0
        self._buffer, self._start = b"", 0

    def arrays(self) -> dict[str, StoredArray]:
        if self._read(4) != b"GGUF":
            raise _damaged(self._path, "It does not begin with GGUF.")
        version = self._integer("<I")
        if version not in (2, 3):
            raise ModelError(
                f"{self._path.name} has an unsupported version", f"It is {version}; 2 and 3 are read.", str(self._path)
            )
        count, entries = self._integer("<Q"), self._integer("<Q")
        alignment = _GGUF_ALIGNMENT
        if max(count, entries) > _MOST_ARRAYS:
            raise _damaged(self._path, f"It claims {max(count, entries):,} entries.")
        for _ in range(entries):
            key, kind = self._text(), self._integer("<I")
            value = self._metadata(kind)
            if key == "general.alignment" and kind == _GGUF_UINT32 and value:
                alignment = value
        infos = [self._info() for _ in range(count)]
        start = -(-self._at // alignment) * alignment
        return {name: self._array(name, kind, shape, start + offset) for name, kind, shape, offset in infos}

    def _array(self, name: str, kind: int, shape: tuple[int, ...], offset: int) -> StoredArray:
        element_type = _GGUF.get(kind)
        if element_type is not None:
            return _array(name, element_type, shape, offset, self._source.size)
        quantized = _GGUF_QUANTIZED.get(kind, f"type {kind}")
        return StoredArray(name, quantized, shape, problem=f"its type {quantized} has no counterpart in ONNX")

    def _info(self) -> tuple[str, int, tuple[int, ...], int]:
        name, rank = self._text(), self._integer("<I")
        if rank > MOST_DIMENSIONS:
            raise _damaged(self._path, f"{name[:100]!r} claims {rank:,} dimensions.")
        shape = tuple(self._integer("<Q") for _ in range(rank))[::-1]  # GGUF names the fastest dimension first
        return name, self._integer("<I"), shape, self._integer("<Q")

    def _metadata(self, kind: int) -> int:
        """Skip a metadata value; return it where it is a 32-bit number, else 0."""
        if kind == _GGUF_UINT32:
            return self._integer("<I")
        if kind == _GGUF_TEXT:
            self._text()
        elif kind == _GGUF_ARRAY:
            inner, count = self._integer("<I"), self._integer("<Q")
            if inner == _GGUF_TEXT:
                for _ in range(self._within(count, 8)):
                    self._skip(self._integer("<Q"))
            else:
                self._skip(count * self._size_of(inner))
        else:
            self._skip(self._size_of(kind))
        return 0

    def _size_of(self, kind: int) -> int:
        size = _GGUF_SIZES.get(kind)
        if size is None:
            raise _damaged(self._path, f"A metadata value at byte {self._at:,} has the unknown type {kind}.")
        return size

    def _text(self) -> str:
        length = self._integer("<Q")
        if length > _LONGEST_TEXT:
            raise _damaged(self._path, f"The string at byte {self._at:,} claims {length:,} bytes.")
        return self._read(length).decode("utf-8", "replace")

    def _integer(self, form: str) -> int:
        found: int = struct.unpack(form, self._read(struct.calcsize(form)))[0]
        return found

    def _within(self, count: int, least: int) -> int:
        """Return a count of items of at least `least` bytes each, if the file has room for them."""
        if count * least > self._source.size - self._at:
            raise _damaged(self._path, f"The list at byte {self._at:,} claims {count:,} entries.")
        return count

    def _skip(self, length: int) -> None:
        self._within(length, 1)
        self._at += length

    def _read(self, length: int) -> bytes:
        self._within(length, 1)
        first = self._at - self._start
        if first < 0 or first + length > len(self._buffer):
            self._start, first = self._at, 0
            self._buffer = self._source.read(self._at, min(max(length, 1 << 16), self._source.size - self._at))
        self._at += length
        return self._buffer[first : first + length]
