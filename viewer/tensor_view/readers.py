"""Readers of tensor values, wherever they are: in memory, in a file, sparse, or a difference of two.

A reader may be used from any thread. Large data in files is read in ranges, never as a whole.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.edits.sparse_tensors import linear_indices
from onnx_workbench.model.edits.tensors import kind_of
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.tensors.mapped_arrays import whole_array
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Tensors up to this size are read as a whole and kept while they are shown.
KEPT_BYTES = 64 << 20

_MOST_WHOLE = 1 << 31
#: Bytes read at once of a large tensor, and elements between two that are read rather than skipped.
_MOST_READ = 8 << 20
_MOST_SKIPPED = 1 << 16


@dataclass(frozen=True, slots=True)
class TensorSlice:
    """The shown plane of a tensor: an index for every axis, and which axes are rows and columns.

    `wrap` above 0 wraps a vector into rows of this length.
    """

    fixed: tuple[int, ...] = ()
    rows: int | None = None
    columns: int | None = None
    wrap: int = 0

    def index(self, row: int, column: int) -> tuple[int, ...]:
        if self.wrap:
            return (row * self.wrap + column,)
        index = list(self.fixed)
        if self.rows is not None:
            index[self.rows] = row
        if self.columns is not None:
            index[self.columns] = column
        return tuple(index)

    def position(self, index: tuple[int, ...]) -> tuple[int, int]:
        """Return row and column of an element of this plane."""
        if self.wrap:
            return divmod(index[0], self.wrap)
        return (
            index[self.rows] if self.rows is not None else 0,
            index[self.columns] if self.columns is not None else 0,
        )

    def through(self, index: tuple[int, ...]) -> TensorSlice:
        """Return the plane of the same axes that contains an element."""
        return replace(self, fixed=tuple(index))

    def size(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Return rows and columns of the plane."""
        if self.wrap:
            count = shape[0]
            return (-(-count // self.wrap), min(self.wrap, count)) if count else (0, 0)
        if not prod(d for axis, d in enumerate(shape) if axis not in (self.rows, self.columns)):
            return 0, 0
        rows = 1 if self.rows is None else shape[self.rows]
        columns = 1 if self.columns is None else shape[self.columns]
        return (rows, columns) if rows and columns else (0, 0)


def first_slice(shape: tuple[int, ...]) -> TensorSlice:
    """Return the initial plane: the last two axes longer than one, at the start of the others; a vector wrapped."""
    rank = len(shape)
    if rank == 0:
        return TensorSlice()
    if rank == 1:
        return TensorSlice((0,), 0, None, 10 if shape[0] <= 1_000_000 else 100)
    long = [axis for axis in range(rank) if shape[axis] != 1]
    last = [axis for axis in range(rank) if axis not in long]
    rows, columns = sorted((last + long)[-2:])
    return TensorSlice((0,) * rank, rows, columns)


class Reader(ABC):
    """Reads parts of a tensor."""

    shape: tuple[int, ...]
    element_type: ElementType

    @property
    def instant(self) -> bool:
        """Return whether reading does not wait for a file."""
        return True

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @abstractmethod
    def flat(self, start: int, stop: int) -> NDArray[Any]:
        """Return elements start to stop in row-major order."""

    @abstractmethod
    def plane(self, which: TensorSlice, rows: range, columns: range) -> NDArray[Any]:
        """Return some rows and columns of a plane, as a matrix; of a wrapped vector, the last row may be partial
        (padded).
        """

    def element(self, index: tuple[int, ...]) -> Any:
        """Return one element."""
        position = 0
        for i, d in zip(index, self.shape, strict=True):
            position = position * d + i
        return self.flat(position, position + 1)[0]

    def prepare(self) -> None:  # noqa: B027 - most have nothing to do
        """Read what will be needed; off the GUI thread unless `instant`."""


class ArrayReader(Reader):
    """An array in memory."""

    def __init__(self, array: NDArray[Any], element_type: ElementType | None = None) -> None:
        self.array = array
        self.shape = tuple(int(d) for d in array.shape)
        self.element_type = ElementType.from_numpy(array.dtype) if element_type is None else element_type

    def flat(self, start: int, stop: int) -> NDArray[Any]:
        """Return elements in row-major order."""
        if self.array.flags.c_contiguous:
            return self.array.reshape(-1)[start:stop]
        return np.asarray(self.array.flat[start:stop])

    def plane(self, which: TensorSlice, rows: range, columns: range) -> NDArray[Any]:
        """Return a strided view."""
        return _plane_of(self.array, which, rows, columns)


def _plane_of(array: NDArray[Any], which: TensorSlice, rows: range, columns: range) -> NDArray[Any]:
    if which.wrap:
        count = array.shape[0]
        positions = np.add.outer(np.asarray(rows) * which.wrap, np.asarray(columns))
        return np.asarray(array[np.minimum(positions, count - 1)])
    index: list[int | slice] = [int(i) for i in which.fixed]
    if which.rows is not None:
        index[which.rows] = slice(rows.start, rows.stop, rows.step)
    if which.columns is not None:
        index[which.columns] = slice(columns.start, columns.stop, columns.step)
    part = array[tuple(index)]
    if which.rows is not None and which.columns is not None and which.rows > which.columns:
        part = part.T
    return part.reshape(len(rows), len(columns))


class TensorReader(Reader):
    """A tensor of the model. Small ones are read once; large ones in files range by range."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.shape = tuple(tensor.shape)
        self.element_type = kind_of(tensor)
        self._lock = threading.Lock()
        self._array: NDArray[Any] | None = tensor.numpy() if tensor.storage == "memory" else None
        self._ranges = self._array is None and tensor.nbytes > KEPT_BYTES and tensor.reads_ranges

    @property
    def instant(self) -> bool:
        """Return whether the values are in memory."""
        return self._array is not None

    def prepare(self) -> None:
        """Read a small tensor."""
        if not self._ranges:
            self.whole()

    def whole(self) -> NDArray[Any]:
        """Return every value; cached. ModelError above 2 GiB."""
        with self._lock:
            if self._array is None:
                if self.tensor.nbytes > _MOST_WHOLE:
                    raise ModelError("Too large for this view", f"{self.tensor.nbytes:,} bytes would be read.")
                self._array = whole_array(self.tensor)
            array: NDArray[Any] = self._array
            return array

    def flat(self, start: int, stop: int) -> NDArray[Any]:
        """Return elements in row-major order; reads only these from a large file."""
        if self._ranges and self._array is None:
            return self.tensor.read(start, stop)
        return ArrayTensor(self.whole(), self.element_type).read(start, stop)

    def plane(self, which: TensorSlice, rows: range, columns: range) -> NDArray[Any]:
        """Read only the surroundings of some elements from a large file, in parts of at most `_MOST_READ` bytes."""
        if not self._ranges or self._array is not None:
            return _plane_of(self.whole(), which, rows, columns)
        wanted = _positions(self.shape, which, rows, columns)
        order = np.argsort(wanted, axis=None, kind="stable")
        positions = wanted.reshape(-1)[order]
        result = np.empty(wanted.size, self.tensor.read(0, 0).dtype)
        most = _MOST_READ // result.itemsize
        far = np.flatnonzero(np.diff(positions) > _MOST_SKIPPED) + 1
        for first, last in pairwise([0, *far.tolist(), len(positions)]):
            while first < last:
                start = int(positions[first])
                stop = first + int(np.searchsorted(positions[first:last], start + most))
                part = self.tensor.read(start, int(positions[stop - 1]) + 1)
                result[order[first:stop]] = part[positions[first:stop] - start]
                first = stop
        return result.reshape(wanted.shape)


def _positions(shape: tuple[int, ...], which: TensorSlice, rows: range, columns: range) -> NDArray[np.int64]:
    """Return the row-major positions of a part of a plane; behind the end of a wrapped vector, that of its last."""
    down, across = (np.arange(part.start, part.stop, part.step, dtype=np.int64) for part in (rows, columns))
    if which.wrap:
        wanted = np.add.outer(down * which.wrap, across)
        return np.minimum(wanted, shape[0] - 1)
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    base = sum(
        i * s for a, (i, s) in enumerate(zip(which.fixed, strides, strict=True)) if a not in (which.rows, which.columns)
    )
    down *= strides[which.rows] if which.rows is not None else 0
    across *= strides[which.columns] if which.columns is not None else 0
    return np.asarray(base + np.add.outer(down, across), np.int64)


class SparseReader(Reader):
    """Dense values of a sparse tensor, without creating the dense tensor."""

    def __init__(self, tensor: SparseTensor) -> None:
        if tensor.problem:
            raise ModelError("The values are not available", tensor.problem)
        self.tensor = tensor
        self.shape = tuple(tensor.shape)
        self.element_type = kind_of(tensor.values)
        if prod(self.shape) >= 1 << 62 or any(d < 0 for d in self.shape):
            raise ModelError("The values are not available", f"The shape {list(self.shape)} is not possible.")
        self._lock = threading.Lock()
        self._entries: tuple[NDArray[np.int64], NDArray[Any]] | None = None

    @property
    def instant(self) -> bool:
        """Return whether the entries are in memory."""
        return self._entries is not None

    def prepare(self) -> None:
        """Read the entries."""
        self.entries()

    def entries(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the row-major positions of entries, sorted, and their values."""
        with self._lock:
            if self._entries is None:
                positions = linear_indices(self.tensor)
                order = np.argsort(positions, kind="stable")
                self._entries = positions[order], self.tensor.values.numpy().reshape(-1)[order]
            return self._entries

    def _at(self, wanted: NDArray[np.int64]) -> NDArray[Any]:
        positions, values = self.entries()
        result = np.full(wanted.shape, "", object) if values.dtype == object else np.zeros(wanted.shape, values.dtype)
        if len(positions):
            places = np.minimum(np.searchsorted(positions, wanted), len(positions) - 1)
            there = positions[places] == wanted
            result[there] = values[places[there]]
        return result

    def flat(self, start: int, stop: int) -> NDArray[Any]:
        """Return elements in row-major order."""
        return self._at(np.arange(start, min(stop, self.size), dtype=np.int64))

    def plane(self, which: TensorSlice, rows: range, columns: range) -> NDArray[Any]:
        """Return a part of a plane, zeros filled in."""
        return self._at(_positions(self.shape, which, rows, columns))


class DifferenceReader(Reader):
    """Difference of two tensors of the same shape."""

    def __init__(self, now: Reader, before: Reader) -> None:
        self.now, self.before = now, before
        self.shape = now.shape
        self.element_type = ElementType.COMPLEX128 if now.element_type.is_complex else ElementType.DOUBLE

    @property
    def instant(self) -> bool:
        """Return whether both are in memory."""
        return self.now.instant and self.before.instant

    def prepare(self) -> None:
        """Prepare both."""
        self.now.prepare()
        self.before.prepare()

    def _minus(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        dtype = self.element_type.numpy_dtype
        with np.errstate(all="ignore"):
            if a.dtype == b.dtype and a.dtype.kind in "iu":  # 64-bit differences are rounded once
                is_more = a >= b
                size = np.where(is_more, a - b, b - a).astype(f"u{a.dtype.itemsize}").astype(dtype)
                return np.asarray(np.where(is_more, size, -size))
            difference = a.astype(dtype) - b.astype(dtype)
            same = (a == b) | ((a != a) & (b != b))
        difference[same] = 0
        return np.asarray(difference)

    def flat(self, start: int, stop: int) -> NDArray[Any]:
        """Return differences in row-major order."""
        return self._minus(self.now.flat(start, stop), self.before.flat(start, stop))

    def plane(self, which: TensorSlice, rows: range, columns: range) -> NDArray[Any]:
        """Return differences of a part of a plane."""
        return self._minus(self.now.plane(which, rows, columns), self.before.plane(which, rows, columns))
