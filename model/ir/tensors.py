"""Tensors: shape and type without reading a file, values on demand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from onnx_workbench.model.ir.types import ElementType, Shape, TensorType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray


_MOST_COUNTED = 1 << 128
NUMPY_DIMENSIONS = 64
_CONVERTED_AT_ONCE = 1 << 16  # elements
#: Elements of the pieces in which large tensors are read.
PIECE = 1 << 20


def element_count(shape: Iterable[int]) -> int:
    """Return the number of elements of a shape; 0 with a negative dimension. Above 2^128 an arbitrary larger number."""
    count = 1
    for dimension in shape:
        if dimension <= 0:
            return 0
        if count < _MOST_COUNTED:
            count *= dimension
    return count


class Tensor(ABC):
    """An immutable dense tensor. `element_type`, `shape` and `nbytes` never touch the file; `numpy` does.

    `shape` is the file's claim and may be nonsense in a hostile one (`problem` then says so). `source` is the message
    it was read from, kept for model.io so that unedited tensors are written back unchanged.
    """

    __slots__ = ("doc_string", "element_type", "metadata", "name", "shape", "source")

    def __init__(
        self,
        element_type: ElementType | int,
        shape: tuple[int, ...],
        *,
        name: str = "",
        doc_string: str = "",
        metadata: Mapping[str, str] | None = None,
        source: Any = None,
    ) -> None:
        self.element_type = element_type
        self.shape = shape
        self.name = name
        self.doc_string = doc_string
        self.metadata: Mapping[str, str] = metadata or {}
        self.source = source

    @property
    def size(self) -> int:
        """Number of elements, see `element_count`."""
        return element_count(self.shape)

    @property
    def type(self) -> TensorType:
        """The type of a value that holds the tensor: element type and shape."""
        return TensorType(self.element_type, Shape(tuple(self.shape)))

    @property
    def nbytes(self) -> int:
        """Bytes of the values as stored (packed types packed); 0 for strings. Reads no file."""
        bits = self.element_type.bits if isinstance(self.element_type, ElementType) else 0
        return (self.size * bits + 7) // 8

    @property
    def problem(self) -> str:
        """Message why the values are not available, for the user; empty if they are. May stat a file."""
        return ""

    @property
    def storage(self) -> str:
        """Storage of the values: ``memory``, ``inline`` (small, parsed), ``file`` or ``external``."""
        return "memory"

    @abstractmethod
    def numpy(self) -> NDArray[Any]:
        """Return the values, shaped; sub-byte types one element per byte, strings as an object array of str.

        Reads the file if they are in one, so not for more than 1 MiB on the GUI thread. Do not write into the result.
        ModelError when `problem` is set or the file changed since it was opened.
        """

    @property
    def reads_ranges(self) -> bool:
        """Whether `read` takes no more time and memory than what it returns; else it reads all values each time."""
        return False

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return elements start to stop in row-major order, flat, reading no more than these where possible."""
        return self.numpy().reshape(-1)[start:stop]

    def pieces(self) -> Iterator[NDArray[Any]]:
        """Yield all elements in row-major order, flat, a million at a time."""
        whole = None if self.reads_ranges else self.numpy().reshape(-1)
        for start in range(0, self.size, PIECE):
            stop = min(start + PIECE, self.size)
            yield self.read(start, stop) if whole is None else whole[start:stop]

    def with_texts(
        self, *, name: str | None = None, doc_string: str | None = None, metadata: Mapping[str, str] | None = None
    ) -> Self:
        """Return the same values with other texts; None keeps a text. Reads and copies no values."""
        tensor = copy(self)
        tensor.name = self.name if name is None else name
        tensor.doc_string = self.doc_string if doc_string is None else doc_string
        tensor.metadata = self.metadata if metadata is None else metadata
        return tensor

    def shares_values(self, other: Tensor) -> bool:
        """Return whether both surely have the same values, whatever their texts. Reads no file and compares no
        arrays.
        """
        return self is other

    def __repr__(self) -> str:
        kind = self.element_type.text if isinstance(self.element_type, ElementType) else self.element_type
        return f"<{type(self).__name__} {self.name!r} {kind}{list(self.shape)}>"


class ArrayTensor(Tensor):
    """A tensor in memory, created by an edit, a pass or a script. The array must not be changed later."""

    __slots__ = ("_array",)

    def __init__(
        self,
        array: np.ndarray[Any, Any],
        element_type: ElementType | None = None,
        *,
        name: str = "",
        doc_string: str = "",
        metadata: Mapping[str, str] | None = None,
        source: Any = None,
    ) -> None:
        super().__init__(
            ElementType.from_numpy(array.dtype) if element_type is None else element_type,
            tuple(int(d) for d in array.shape),
            name=name,
            doc_string=doc_string,
            metadata=metadata,
            source=source,
        )
        self._array = array

    @property
    def reads_ranges(self) -> bool:
        """True: a range is a view."""
        return True

    def numpy(self) -> NDArray[Any]:
        """Return the array itself."""
        return self._array

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return a range; a view unless the array lies in another order."""
        return (self._array.reshape(-1) if self._array.flags.c_contiguous else self._array.flat)[start:stop]

    def shares_values(self, other: Tensor) -> bool:
        """Return whether the other has the very same array."""
        return (
            isinstance(other, ArrayTensor) and self._array is other._array and self.element_type == other.element_type
        )


class ConvertedTensor(Tensor):
    """Another tensor with elements of another type, converted whenever they are read: of one too large to be held."""

    __slots__ = ("_convert", "original")

    def __init__(
        self, original: Tensor, element_type: ElementType, convert: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> None:
        super().__init__(
            element_type,
            original.shape,
            name=original.name,
            doc_string=original.doc_string,
            metadata=original.metadata,
        )
        self.original = original
        self._convert = convert

    @property
    def problem(self) -> str:
        """Why the original's values are not available."""
        return self.original.problem

    @property
    def storage(self) -> str:
        """``file``, as the values are read from there."""
        return "file"

    @property
    def reads_ranges(self) -> bool:
        """As the original."""
        return self.original.reads_ranges

    def pieces(self) -> Iterator[NDArray[Any]]:
        """Yield the pieces of the original, converted."""
        import numpy as np

        for piece in self.original.pieces():
            starts = range(0, piece.size, _CONVERTED_AT_ONCE)
            yield np.concatenate([self._convert(piece[at : at + _CONVERTED_AT_ONCE]) for at in starts])

    def numpy(self) -> NDArray[Any]:
        """Return the values, shaped; converted at every call, not cached."""
        return self.read(0, self.size).reshape(self.shape)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Read and convert a range, in small pieces, as conversions may need several times as much memory."""
        import numpy as np

        start, stop, _ = slice(start, stop).indices(self.size)
        starts = range(start, stop, _CONVERTED_AT_ONCE)
        parts = [self._convert(self.original.read(at, min(at + _CONVERTED_AT_ONCE, stop))) for at in starts]
        return np.concatenate(parts or [self._convert(self.original.read(0, 0))])


class SparseTensor:
    """SparseTensorProto: values [NNZ] and indices, [NNZ] linear or [NNZ, rank], of a dense shape."""

    __slots__ = ("indices", "shape", "source", "values")

    def __init__(self, values: Tensor, indices: Tensor, shape: tuple[int, ...], source: Any = None) -> None:
        self.values = values
        self.indices = indices
        self.shape = shape
        self.source = source

    @property
    def element_type(self) -> ElementType | int:
        """The type of the values."""
        return self.values.element_type

    @property
    def type(self) -> TensorType:
        """The type of a value that holds the tensor: that of the dense tensor."""
        return TensorType(self.element_type, Shape(tuple(self.shape)))

    @property
    def name(self) -> str:
        """The name, which the format keeps in the values tensor."""
        return self.values.name

    @property
    def nbytes(self) -> int:
        """Bytes of values and indices as stored. Reads no file."""
        return self.values.nbytes + self.indices.nbytes

    @property
    def problem(self) -> str:
        """Message why the values are not available, or empty."""
        if len(self.shape) > NUMPY_DIMENSIONS:
            return f"it has {len(self.shape):,} dimensions; at most {NUMPY_DIMENSIONS} can be shown"
        return self.values.problem or self.indices.problem

    def __repr__(self) -> str:
        return f"<SparseTensor {self.name!r} {self.values!r} of {list(self.shape)}>"
