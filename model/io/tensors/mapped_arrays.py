"""Arrays of whole tensors: a large one is a mapped temporary file, of which memory holds only what is being used."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from onnx_workbench.model.budget import WINDOW_TENSOR
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.tensors import Tensor, element_count
from onnx_workbench.model.ir.types import ElementType

if TYPE_CHECKING:
    from numpy.typing import NDArray


#: Bytes of a Python string, at least.
TEXT_BYTES: Final = 64
_ALIGNMENT: Final = 64  # bytes


def array_of(pieces: Iterable[NDArray[Any]], dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a writable array of flat pieces; above `WINDOW_TENSOR` a mapped file, which ends with the array.

    ValueError when the pieces do not have the elements of the shape; ModelError when there is no room. Blocks.
    """
    count = element_count(shape)
    size = count * dtype.itemsize
    if size <= WINDOW_TENSOR or dtype.hasobject:
        array, filled = np.empty(count, dtype), 0
        for piece in pieces:
            _check_count(filled + piece.size, count)
            array[filled : filled + piece.size] = piece
            filled += piece.size
        _check_count(filled, count, is_all=True)
        return array.reshape(shape)
    return arrays_of([(pieces, dtype, shape)])[0]


def arrays_of(parts: Iterable[tuple[Iterable[NDArray[Any]], np.dtype[Any], tuple[int, ...]]]) -> list[NDArray[Any]]:
    """Return arrays of (pieces, dtype, shape), as `array_of` does, all in one mapped file: for those that are large
    together. At least one has elements, and none of them is an object.

    They are written, not copied into the mapping: a full file system is then an error instead of a SIGBUS.
    """
    places: list[tuple[int, np.dtype[Any], tuple[int, ...]]] = []
    try:
        with tempfile.TemporaryFile() as file:
            for pieces, dtype, shape in parts:
                file.seek(-(-file.tell() // _ALIGNMENT) * _ALIGNMENT)
                places.append((file.tell(), dtype, shape))
                _write(file, pieces, dtype, element_count(shape))
            file.flush()
            mapped = np.frombuffer(mmap.mmap(file.fileno(), file.tell()), np.uint8)
    except OSError as error:
        raise _no_room(error, sum(element_count(shape) * dtype.itemsize for _, dtype, shape in places)) from error
    ends = (place + element_count(shape) * dtype.itemsize for place, dtype, shape in places)
    return [mapped[p:end].view(dtype).reshape(shape) for (p, dtype, shape), end in zip(places, ends, strict=True)]


def _write(file: IO[bytes], pieces: Iterable[NDArray[Any]], dtype: np.dtype[Any], count: int) -> None:
    filled = 0
    for piece in pieces:
        filled += piece.size
        _check_count(filled, count)
        file.write(np.ascontiguousarray(piece, dtype).view(np.uint8).data)
    _check_count(filled, count, is_all=True)


def _no_room(error: OSError, size: int) -> ModelError:
    folder, reason = tempfile.gettempdir(), error.strerror or str(error)
    detail = f"{size:,} bytes are kept in a temporary file in {folder}: {reason}."
    return ModelError("There is no room for the tensor", detail)


def _check_count(found: int, count: int, *, is_all: bool = False) -> None:
    if found > count or (is_all and found < count):
        msg = f"{found:,} values stored where the shape needs {count:,}"
        raise ValueError(msg)


def whole_array(tensor: Tensor) -> NDArray[Any]:
    """Return the values, shaped; those of a large tensor in a file are copied to a mapped one. Do not write into them.

    ModelError when they are not available. Blocks; any thread.
    """
    return tensor.numpy() if tensor.storage == "memory" else copied_array(tensor)


def copied_array(tensor: Tensor) -> NDArray[Any]:
    """Return a writable copy of the values, shaped, as `whole_array` does; ModelError for more than a million texts."""
    kind = tensor.element_type
    if kind is ElementType.STRING and tensor.size * TEXT_BYTES > WINDOW_TENSOR:
        detail = f"{tensor.size:,} texts; at most {WINDOW_TENSOR // TEXT_BYTES:,} are held at once."
        raise ModelError("The tensor has too many strings", detail, tensor.name)
    if not isinstance(kind, ElementType) or tensor.size * kind.numpy_dtype.itemsize <= WINDOW_TENSOR:
        return np.array(tensor.numpy())
    try:
        return array_of(tensor.pieces(), kind.numpy_dtype, tuple(tensor.shape))
    except ValueError as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError("The tensor's data is not available", str(error), place=tensor.name) from error
