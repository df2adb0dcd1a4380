"""Edit sparse tensors: single elements, or the whole with the operations of dense tensors, without their zeros.

Pure functions that may take long, like those of `model.edits.tensors`, which they use.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.budget import WINDOW_TENSOR, made_limit
from onnx_workbench.model.edits.initializers import RoundingReport
from onnx_workbench.model.edits.tensors import kind_of, remade, resolved_shape
from onnx_workbench.model.edits.tensors import retype as retype_dense
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.tensors.mapped_arrays import array_of
from onnx_workbench.model.ir.tensors import PIECE, ArrayTensor, SparseTensor, Tensor, element_count
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.text.elements import parse_element

if TYPE_CHECKING:
    from numpy.typing import NDArray


def on_dense(tensor: SparseTensor, change: Callable[[Tensor], Tensor]) -> SparseTensor:
    """Apply an edit of dense tensors to a sparse tensor; ModelError where the dense form takes more than 2 GiB."""
    return from_dense(tensor, change(to_dense(tensor)))


def from_dense(old: SparseTensor, dense: Tensor) -> SparseTensor:
    """Store the values of a dense tensor in sparse form, with the old tensor's names and index format."""
    sparse = to_sparse(dense)
    kind = kind_of(sparse.values)
    before = SparseTensor(remade(old.values, sparse.values.numpy(), kind), old.indices, old.shape, old.source)
    return _sparse_from_parts(before, sparse.values.numpy(), sparse.indices.numpy(), tuple(sparse.shape))


def reshape(tensor: SparseTensor, shape: tuple[int, ...]) -> SparseTensor:
    """Reshape without densifying, to as many elements; one dimension may be -1."""
    positions = linear_indices(tensor)
    return _sparse_from_parts(tensor, tensor.values.numpy(), positions, resolved_shape(tensor, shape))


def retype(
    tensor: SparseTensor, kind: ElementType, cast: Callable[[NDArray[Any], ElementType], NDArray[Any]]
) -> tuple[SparseTensor, RoundingReport]:
    """Convert the element type; also returns the loss. `cast` is the ONNX cast of exec, passed in."""
    if kind is ElementType.STRING:
        raise ModelError("Strings cannot be sparse", "Sparse tensors hold numbers.")
    values, report = retype_dense(tensor.values, kind, cast)
    return SparseTensor(values, tensor.indices, tensor.shape, tensor.source), report


def _sparse_from_parts(
    old: SparseTensor, values: NDArray[Any], positions: NDArray[Any], shape: tuple[int, ...]
) -> SparseTensor:
    """Return a sparse tensor of these entries with the old names and index format: linear, or one index per
    dimension.
    """
    indices = np.asarray(positions, np.int64)
    if old.indices.numpy().ndim == 2:
        places = np.unravel_index(indices, shape) if len(indices) else ()
        indices = np.stack(places, axis=1) if len(indices) else np.zeros((0, len(shape)), np.int64)
    stored = remade(old.values, values.reshape(-1))
    return SparseTensor(stored, remade(old.indices, indices.astype(np.int64)), shape, old.source)


def set_element(tensor: SparseTensor, index: tuple[int, ...], text: str) -> SparseTensor:
    """Set one element; zero removes its entry. Entries end up sorted by index."""
    kind = kind_of(tensor.values)
    value = parse_element(text, kind)
    positions, values = linear_indices(tensor), tensor.values.numpy().reshape(-1)
    flat = int(np.ravel_multi_index(index, tensor.shape)) if index else 0
    kept = np.argsort(positions, kind="stable")  # as the specification demands; files may violate it
    kept = kept[positions[kept] != flat]
    positions, values = positions[kept], values[kept]
    if value != 0 if kind is not ElementType.STRING else value != "":
        at = int(np.searchsorted(positions, flat))
        positions = np.insert(positions, at, flat)
        values = np.concatenate((values[:at], np.asarray([value]).astype(values.dtype), values[at:]))
    return _sparse_from_parts(tensor, values, positions, tensor.shape)


def linear_indices(tensor: SparseTensor) -> NDArray[np.int64]:
    """Return the row-major linear index of each entry; ModelError when one is out of bounds."""
    size = prod(tensor.shape)
    if size >= 1 << 63 or any(d < 0 for d in tensor.shape):
        raise ModelError(
            "The values are not available", f"The shape {list(tensor.shape)} is not possible.", tensor.name
        )
    _check_entries(tensor.values.size, tensor.nbytes, tensor.name)
    indices = tensor.indices.numpy().astype(np.int64)
    count = tensor.values.size
    good = indices.shape == (count,) or indices.shape == (count, len(tensor.shape))
    if not good:
        raise ModelError("The values are not available", f"Indices have the shape {list(indices.shape)}.", tensor.name)
    limits = np.array(tensor.shape, np.int64) if indices.ndim == 2 else np.array(size, np.int64)
    if indices.size and ((indices < 0).any() or (indices >= limits).any()):
        raise ModelError("The values are not available", "An index lies outside the shape.", tensor.name)
    if indices.ndim == 1:
        return indices
    strides = np.array([prod(tensor.shape[axis + 1 :]) for axis in range(len(tensor.shape))], np.int64)
    return np.asarray(indices @ strides)


def to_dense(tensor: SparseTensor) -> ArrayTensor:
    """Convert to a dense tensor; ModelError when that takes more than the budget, see `made_limit`."""
    kind = kind_of(tensor.values)
    dtype = kind.numpy_dtype
    needed, limit = element_count(tensor.shape) * dtype.itemsize, made_limit(tensor.nbytes)
    if needed > limit:
        detail = f"Dense, {list(tensor.shape)} needs {needed:,} bytes; at most {limit:,} are made of {tensor.nbytes:,}."
        raise ModelError("The tensor is too large", detail)
    positions, count = linear_indices(tensor), element_count(tensor.shape)
    empty = np.full(min(count, PIECE), "" if kind is ElementType.STRING else 0, dtype)
    array = array_of((empty[: count - start] for start in range(0, count, PIECE)), dtype, (count,))
    array[positions] = tensor.values.numpy().reshape(-1)
    return ArrayTensor(array.reshape(tensor.shape), kind, name=tensor.name, doc_string=tensor.values.doc_string)


def to_sparse(tensor: Tensor) -> SparseTensor:
    """Convert to a sparse tensor with linear indices."""
    kind = kind_of(tensor)
    if kind is ElementType.STRING:
        raise ModelError("Strings cannot be sparse", "Sparse tensors hold numbers.")
    positions, values = [np.zeros(0, np.int64)], [np.zeros(0, kind.numpy_dtype)]
    start = count = 0
    for piece in tensor.pieces():
        here = np.flatnonzero(piece)
        count += len(here)
        _check_entries(count, count * (kind.numpy_dtype.itemsize + 8), tensor.name)
        positions.append(here + start)
        values.append(piece[here])
        start += piece.size
    stored = ArrayTensor(np.concatenate(values), kind, name=tensor.name, doc_string=tensor.doc_string)
    return SparseTensor(stored, ArrayTensor(np.concatenate(positions).astype(np.int64)), tensor.shape)


def _check_entries(count: int, nbytes: int, name: str) -> None:
    """Raise ModelError for more entries of a sparse tensor than are held in memory."""
    if nbytes > WINDOW_TENSOR:
        detail = f"{count:,} entries take {nbytes:,} bytes; at most {WINDOW_TENSOR:,} are held."
        raise ModelError("The sparse tensor is too large", detail, name)
