"""Import and export of tensors: .npy, .npz, .pb, raw bytes, CSV and PNG.

Sizes claimed by a file are checked against its length before anything is allocated; pickles are never loaded.
"""

from __future__ import annotations

import csv
import io
import os
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from onnx_workbench.model.budget import WINDOW_TENSOR, made_limit
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.protobuf import DecodeError, TensorProto, utf8
from onnx_workbench.model.io.reader.payloads import JoinedPieces, restore
from onnx_workbench.model.io.reader.scan import scan
from onnx_workbench.model.io.reader.source import open_file, require_regular
from onnx_workbench.model.io.tensors.csv_files import read_csv
from onnx_workbench.model.io.tensors.mapped_arrays import TEXT_BYTES, array_of, whole_array
from onnx_workbench.model.io.tensors.packing import pack, unpack
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor, TensorFiles
from onnx_workbench.model.io.wire import schemas
from onnx_workbench.model.io.writer.atomic_file import replacing
from onnx_workbench.model.io.writer.export_graph import write_tensor
from onnx_workbench.model.io.writer.storage_plan import StoragePlan
from onnx_workbench.model.ir.tensors import PIECE, ArrayTensor, Tensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.text.elements import element_text, strings

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

#: Supported formats, by suffix.
SUFFIXES: Final = (".npy", ".npz", ".pb", ".raw", ".csv", ".png")

#: Largest file, and largest array of an archive, in bytes.
MOST_BYTES: Final = 1 << 33
_PIXEL = 4  # bytes
_MOST_DRAWN = WINDOW_TENSOR // 2  # bytes of a picture's colours
_SCALED_AT_ONCE = 1 << 18  # elements
_READ_AT_ONCE = 8 << 20  # bytes
_RAW = frozenset({".raw", ".bin"})
_LONGEST_NAME: Final = 1000  # characters, in an archive
_BEGINNINGS = {".npy": b"\x93NUMPY", ".npz": b"PK", ".png": b"\x89PNG"}


# -- reading -----------------------------------------------------------------------------------------------------


def read_tensor(
    path: str | os.PathLike[str], like: Tensor | None = None, member: str = "", progress: Progress = SILENT
) -> Tensor:
    """Read the tensor in a file, by its suffix. Raw bytes and CSV take element type and shape from `like`.

    An image gets the axes of `like` if that has as many pixels; CSV gives a matrix unless it has as many cells as
    `like`. `member` names the array of an .npz with several. ModelError describes what is wrong with the file. Blocks;
    any thread.
    """
    file = Path(path)
    suffix = file.suffix.lower()
    require_regular(file)
    try:
        size = file.stat().st_size
        if size > MOST_BYTES:
            raise ModelError("The file is too large", f"{size:,} bytes; at most {MOST_BYTES:,} are read.", str(file))
        if suffix == ".npy":
            _require_beginning(file, suffix)
            with file.open("rb") as stream:
                return _tensor(_read_npy(stream, size, file), like)
        if suffix == ".npz":
            name = _member_of(file, member)
            with zipfile.ZipFile(file) as archive:
                return read_member(archive, name, file, like)
        if suffix == ".pb":
            return _read_pb(file)
        if suffix == ".csv":
            kind, shape = (ElementType.FLOAT, None) if like is None else (like.element_type, tuple(like.shape))
            return read_csv(file, kind, shape, progress)
        if suffix in _RAW:
            return _read_raw(file, like)
        if suffix == ".png":
            return _tensor(_laid_like(_read_png(file), like), like)
    except OSError as error:
        raise ModelError(f"{file.name} cannot be read", error.strerror or str(error), str(file)) from error
    except MemoryError as error:
        raise ModelError(f"{file.name} cannot be read", "It does not fit into memory.", str(file)) from error
    raise ModelError(
        f"{file.name} has an unsupported file type", f"Tensors are read from {', '.join(SUFFIXES)}.", str(file)
    )


def _require_beginning(file: Path, suffix: str) -> None:
    """Raise ModelError for the magic number of another file type. Raises OSError too."""
    with file.open("rb") as stream:
        found = stream.read(8)
    if not found:
        raise ModelError(f"{file.name} is empty", f"It has no bytes; a {suffix} file was expected.", str(file))
    if not found.startswith(_BEGINNINGS[suffix]):
        known = next((kind for kind, beginning in _BEGINNINGS.items() if found.startswith(beginning)), None)
        looks = f"It looks like a {known} file" if known else f"It begins with {found!r}"
        detail = f"{looks}; a {suffix} file begins with {_BEGINNINGS[suffix]!r}."
        raise ModelError(f"{file.name} is not a {suffix} file", detail, str(file))


def _tensor(array: NDArray[Any], like: Tensor | None, member: str = "") -> ArrayTensor:
    if array.dtype.kind in "US":
        if array.size * TEXT_BYTES > WINDOW_TENSOR or array.nbytes > WINDOW_TENSOR:
            detail = (
                f"{array.size:,} texts of up to {array.itemsize:,} bytes; at most {WINDOW_TENSOR:,} bytes are read."
            )
            raise ModelError("The strings are too large", detail)
        try:
            array = strings(array)
        except (ValueError, SystemError) as error:
            raise ModelError("The strings are damaged", f"{error}.") from error
    kind = like.element_type if like is not None else None
    if isinstance(kind, ElementType) and kind.bits and array.dtype.kind == "V" and array.dtype.names is None:
        # numpy writes types it lacks as void bytes
        array = array.view(kind.numpy_dtype) if array.dtype.itemsize == kind.numpy_dtype.itemsize else array
    try:
        return ArrayTensor(array)
    except ValueError as error:
        title = f"The array {member!r} has no ONNX element type" if member else "The array has no ONNX element type"
        raise ModelError(title, f"Its dtype is {array.dtype}.") from error


def npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, order of the elements (whether Fortran's) and dtype of an array; ValueError if they are not valid."""
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(stream)
    except (ValueError, EOFError, OverflowError, SyntaxError, TypeError, tokenize.TokenError) as error:
        reason = str(error).partition("\n")[0]  # numpy goes on with advice
        msg = f"Its header is invalid: {reason}"
        raise ValueError(msg) from error
    if dtype.hasobject:
        msg = "It holds Python objects, which may run code."
        raise ValueError(msg)
    return shape, is_fortran, dtype


def _read_npy(stream: IO[bytes], size: int, file: Path) -> NDArray[Any]:
    """Read an array from a stream of `size` bytes, a piece at a time, in the machine's byte order."""
    try:
        shape, is_fortran, dtype = npy_header(stream)
        # numpy allocates memory also for elements of 0 bytes
        needed, found = prod(int(d) for d in shape) * max(1, dtype.itemsize), size - stream.tell()
        if needed != found:
            raise ModelError(f"{file.name} is damaged", f"{found:,} bytes of values; {needed:,} are needed.", str(file))
        pieces = _npy_pieces(stream, dtype, prod(shape))
        array = array_of(pieces, dtype.newbyteorder("="), shape[::-1] if is_fortran else shape)
    except ModelError:
        raise
    except (ValueError, OverflowError) as error:
        raise ModelError(f"{file.name} cannot be read", str(error), str(file)) from error
    return array.T if is_fortran else array


def _npy_pieces(stream: IO[bytes], dtype: np.dtype[Any], count: int) -> Iterator[NDArray[Any]]:
    most = max(1, _READ_AT_ONCE // max(1, dtype.itemsize))
    for start in range(0, count, most):
        length = min(most, count - start)
        data = stream.read(length * dtype.itemsize)
        yield np.frombuffer(data, dtype).astype(dtype.newbyteorder("="), copy=False)


def npz_members(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the arrays in an .npz file."""
    file = Path(path)
    require_regular(file)
    try:
        _require_beginning(file, ".npz")
        with zipfile.ZipFile(file) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    except (OSError, zipfile.BadZipFile) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or f"{error}."
        raise ModelError(f"{file.name} cannot be read", reason, str(file)) from error


def _member_of(file: Path, member: str) -> str:
    """Return the name of the array to read, which need not be given if there is one only."""
    names = npz_members(file)
    if not names:
        raise ModelError(f"{file.name} has no arrays", "The archive holds no .npy file.", str(file))
    if not member and len(names) > 1:
        listed = ", ".join(names[:12])
        raise ModelError(f"{file.name} has {len(names)} arrays", f"Choose one of them: {listed}.", str(file))
    if member and member not in names:
        raise ModelError(f"{file.name} has no array {member}", f"It has: {', '.join(names[:12])}.", str(file))
    return member or names[0]


def read_arrays(
    path: str | os.PathLike[str],
    wanted: Collection[str] = (),
    limit: int = MOST_BYTES,
    progress: Progress = SILENT,
) -> Iterator[tuple[str, ArrayTensor]]:
    """Yield the arrays of an .npz file by name; only the `wanted` ones if it has any of them.

    ModelError describes what is wrong with the file, or that the arrays have more than `limit` bytes. Blocks; any
    thread.
    """
    file = Path(path)
    names = npz_members(file)
    names = [name for name in names if name in wanted] or names
    with zipfile.ZipFile(file) as archive:
        _check_sizes([archive.getinfo(f"{name}.npy") for name in names], limit, file)
        for name in progress.paced(names, 1):
            yield name, read_member(archive, name, file)


def _check_sizes(members: Sequence[zipfile.ZipInfo], limit: int, file: Path) -> None:
    """Raise ModelError for arrays that would take too much memory together."""
    size, packed = sum(m.file_size for m in members), sum(m.compress_size for m in members)
    if size > min(limit, made_limit(packed)):
        detail = f"{size:,} bytes, packed into {packed:,}; at most {min(limit, made_limit(packed)):,} are read."
        raise ModelError("The arrays are too large", detail, str(file))


def read_member(archive: zipfile.ZipFile, name: str, file: Path, like: Tensor | None = None) -> ArrayTensor:
    """Read an array of an .npz file that is open; ModelError describes what is wrong with it. Blocks; any thread."""
    info = archive.getinfo(f"{name}.npy")
    _check_sizes([info], MOST_BYTES, file)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ModelError(f"{file.name} cannot be read", f"{name} is compressed in a way that numpy does not write.")
    try:
        with archive.open(info) as stream:
            array = _read_npy(stream, info.file_size, file)
            stream.read(1)  # checks the sum of all bytes
            return _tensor(array, like, name)
    except ModelError:
        raise
    except MemoryError as error:
        raise ModelError(f"{file.name} cannot be read", "It does not fit into memory.", str(file)) from error
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ModelError(f"{file.name} is damaged", reason, str(file)) from error


def _read_pb(file: Path) -> Tensor:
    source = open_file(file)
    try:
        content = scan(source, schemas()["TensorProto"])
        proto = TensorProto.FromString(content.data)
    except (DecodeError, ModelError) as error:
        raise ModelError(f"{file.name} holds no tensor", "It is not a TensorProto message.", str(file)) from error
    if len(proto.string_data) * TEXT_BYTES > WINDOW_TENSOR or sum(map(len, proto.string_data)) > WINDOW_TENSOR:
        detail = f"{len(proto.string_data):,} texts; at most {WINDOW_TENSOR:,} bytes are read."
        raise ModelError("The strings are too large", detail, str(file))
    if content.truncation:
        raise ModelError(f"{file.name} is truncated", content.truncation, str(file))
    tensor = ProtoTensor(proto, TensorFiles(content.table, file.parent))
    if tensor.problem:
        raise ModelError(f"{file.name} holds no tensor", tensor.problem, str(file))
    kind = tensor.element_type
    assert isinstance(kind, ElementType)
    return ArrayTensor(
        whole_array(tensor), kind, name=tensor.name, doc_string=tensor.doc_string, metadata=dict(tensor.metadata)
    )


def _read_raw(file: Path, like: Tensor | None) -> Tensor:
    kind = like.element_type if like is not None else None
    if like is None or not isinstance(kind, ElementType) or kind.bits == 0:
        raise ModelError("Raw bytes need a type", "They can only be read into an existing tensor.")
    size = file.stat().st_size
    if size != like.nbytes:
        listed = "×".join(map(str, like.shape)) or "scalar"
        raise ModelError(
            f"{file.name} does not fit", f"{size:,} bytes; {kind.text} {listed} needs {like.nbytes:,}.", str(file)
        )
    with file.open("rb") as stream:
        counts = (min(PIECE, like.size - start) for start in range(0, like.size, PIECE))
        pieces = (unpack(stream.read((count * kind.bits + 7) // 8), kind, count) for count in counts)
        return ArrayTensor(array_of(pieces, kind.numpy_dtype, tuple(like.shape)), kind)


def _read_png(file: Path) -> NDArray[Any]:
    _require_beginning(file, ".png")
    with opened_picture(file, ("PNG",), WINDOW_TENSOR // _PIXEL) as picture:
        return np.array(picture if picture.mode in ("L", "RGB", "RGBA", "I;16") else picture.convert("RGB"))


@contextmanager
def opened_picture(file: Path, formats: tuple[str, ...], most: int) -> Iterator[Image]:
    """Open a picture of at most `most` pixels in one of Pillow's formats; ModelError for any other file."""
    from PIL import Image

    try:
        with Image.open(file, formats=formats) as picture:
            if picture.width * picture.height > most:
                detail = f"{picture.width:,} × {picture.height:,} pixels; at most {most:,} are read."
                raise ModelError("The picture is too large", detail, str(file))
            yield picture
    except ModelError:
        raise
    except (OSError, Image.DecompressionBombError, Image.DecompressionBombWarning, SyntaxError, ValueError) as error:
        raise ModelError(f"{file.name} cannot be read as a picture", f"{error}.", str(file)) from error


def _laid_like(picture: NDArray[Any], like: Tensor | None) -> NDArray[Any]:
    """Arrange an image like the tensor it may have been exported from: channels first, and axes of size 1."""
    sizes = [size for size in like.shape if size != 1] if like is not None else []
    for laid in (picture, np.moveaxis(picture, -1, 0)):
        if like is not None and [size for size in laid.shape if size != 1] == sizes:
            return laid.reshape(like.shape)
    return picture


# -- writing -----------------------------------------------------------------------------------------------------


def write_array(path: str | os.PathLike[str], tensor: Tensor) -> None:
    """Write a tensor to a file, by the suffix; ModelError when that format cannot hold it.

    The file is written atomically. Blocks; any thread.
    """
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix not in SUFFIXES and suffix not in _RAW:
        raise ModelError(f"{file.name} has an unsupported file type", f"Tensors are written to {', '.join(SUFFIXES)}.")
    kind = _kind(tensor)
    if suffix in _RAW and kind is ElementType.STRING:
        raise ModelError("Strings have no raw bytes", "Write .pb, .npy or .csv.")
    with replacing(file) as written:
        if suffix in _RAW:
            written.writelines(pack(piece, kind) for piece in tensor.pieces())
        elif suffix == ".pb":
            _write_pb(written, tensor)
        elif suffix == ".csv":
            _write_csv(written, tensor)
        elif suffix == ".png":
            _write_png(written, whole_array(tensor))
        elif suffix == ".npy":
            _write_npy(written, tensor)
        else:
            _write_npz(written, tensor)


def _write_pb(written: IO[bytes], tensor: Tensor) -> None:
    plain = ArrayTensor(whole_array(tensor), _kind(tensor), name=tensor.name, doc_string=tensor.doc_string)
    placement = StoragePlan()
    message = write_tensor(plain, placement)
    joined = JoinedPieces(
        restore(message.SerializeToString(), schemas()["TensorProto"], list(placement.tables.values()))
    )
    for start in range(0, joined.size, _READ_AT_ONCE):
        written.write(joined.read(start, _READ_AT_ONCE))


def _write_npy(written: IO[bytes], tensor: Tensor) -> None:
    """Write elements in C order; types that numpy lacks as void bytes, texts as long as the longest."""
    dtype = _kind(tensor).numpy_dtype
    if dtype.hasobject:
        dtype = np.dtype(f"U{max((len(str(text)) for piece in tensor.pieces() for text in piece), default=1) or 1}")
        if dtype.itemsize * tensor.size > WINDOW_TENSOR:
            detail = "In an .npy file every string takes as much room as the longest one. Write .pb or .csv."
            raise ModelError("The strings are too long", detail)
    stored = np.dtype(f"V{dtype.itemsize}") if dtype.isbuiltin == 2 else dtype
    head = {"descr": np.lib.format.dtype_to_descr(stored), "fortran_order": False, "shape": tuple(tensor.shape)}
    np.lib.format.write_array_header_1_0(written, head)
    for piece in tensor.pieces():
        written.write(np.ascontiguousarray(piece, dtype).tobytes())


def _write_npz(written: IO[bytes], tensor: Tensor) -> None:
    text = tensor.name[:_LONGEST_NAME].encode("utf-8", "replace").decode()  # tensor names need not be
    text = text.replace("\0", "?")  # which terminates a name in an archive
    name = f"{text or 'arr_0'}.npy"  # numpy's name for an unnamed array
    deflated = zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED)
    with deflated as archive, archive.open(name, "w", force_zip64=True) as member:
        _write_npy(member, tensor)


def _kind(tensor: Tensor) -> ElementType:
    if not isinstance(tensor.element_type, ElementType):
        raise ModelError("The tensor cannot be written", f"Its element type {tensor.element_type} is not known.")
    return tensor.element_type


def _write_csv(written: IO[bytes], tensor: Tensor) -> None:
    width = tensor.shape[-1] if tensor.shape and tensor.shape[-1] else 1
    pieces = ((element_text(value) for value in piece) for piece in tensor.pieces())
    cells = chain.from_iterable(pieces)
    for _ in range(0, tensor.size, width):
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerow(islice(cells, width))
        written.write(utf8(stream.getvalue()))


def _write_png(written: IO[bytes], array: NDArray[Any]) -> None:
    """Convert to uint8, other types scaled to 0 to 255; [H, W], [H, W, C] or [C, H, W]."""
    from PIL import Image

    if array.dtype == object or array.dtype.kind == "c":
        raise ModelError("Not a picture", "Only real numbers can be drawn.")
    while array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    if array.ndim == 3 and array.shape[0] in (3, 4) and array.shape[-1] not in (1, 3, 4):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[-1] == 1:
        array = array[..., 0]
    if not array.size or array.ndim > 3 or (array.ndim == 3 and array.shape[-1] not in (3, 4)):
        shape = "×".join(map(str, array.shape))
        raise ModelError("Not a picture", f"The shape is {shape}; a picture is H×W, H×W×3 or 3×H×W.")
    if array.ndim < 2:
        array = array.reshape(1, -1)
    if array.size > _MOST_DRAWN:
        raise ModelError("The picture is too large", f"{array.size:,} values; at most {_MOST_DRAWN:,} are drawn.")
    picture = np.ascontiguousarray(array) if array.dtype == np.uint8 else _in_bytes(array)
    Image.fromarray(picture).save(written, "PNG")


def _in_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Scale numbers to 0 to 255, a piece at a time."""
    scaled = np.empty(array.shape, np.uint8)
    low, high = np.inf, -np.inf
    for _, wide in _wide_pieces(array):
        finite = wide[np.isfinite(wide)]
        low, high = min(low, float(finite.min(initial=np.inf))), max(high, float(finite.max(initial=-np.inf)))
    low, high = (low, high) if low <= high else (0.0, 1.0)
    for start, wide in _wide_pieces(array):
        part = (wide - low) / ((high - low) or 1.0) * 255
        part = np.clip(np.nan_to_num(part, nan=0.0, posinf=255.0, neginf=0.0), 0, 255).round()
        scaled.reshape(-1)[start : start + part.size] = part.astype(np.uint8)
    return scaled


def _wide_pieces(array: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.float64]]]:
    for start in range(0, array.size, _SCALED_AT_ONCE):
        yield start, np.asarray(array.flat[start : start + _SCALED_AT_ONCE]).astype(np.float64)
