"""Edit sparse tensors as a whole with the operations of dense tensors, without storing their zeros.

Pure functions that may take long, like those of `model.edits.tensors`, which they use.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.edits.initializers import RoundingReport
from onnx_workbench.model.edits.tensors import kind_of, linear_indices, remade, to_dense, to_sparse
from onnx_workbench.model.edits.tensors import retype as retype_dense
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType

if TYPE_CHECKING:
    from numpy.typing import NDArray


def on_dense(tensor: SparseTensor, change: Callable[[Tensor], Tensor]) -> SparseTensor:
    """Apply an edit of dense tensors to a sparse tensor; ModelError where the dense form takes more than 2 GiB."""
    return from_dense(tensor, change(to_dense(tensor)))


def from_dense(old: SparseTensor, dense: Tensor) -> SparseTensor:
    """Store the values of a dense tensor in sparse form, with the old tensor's names and index format."""
    made = to_sparse(dense)
    kind = kind_of(made.values)
    before = SparseTensor(remade(old.values, made.values.numpy(), kind), old.indices, old.shape, old.source)
    return _sparse_from_parts(before, made.values.numpy(), made.indices.numpy(), tuple(made.shape))


def reshape(tensor: SparseTensor, shape: tuple[int, ...]) -> SparseTensor:
    """Reshape without densifying, to as many elements; one dimension may be -1."""
    size = prod(tensor.shape)
    positions = linear_indices(tensor)
    known = prod(d for d in shape if d != -1)
    if shape.count(-1) == 1 and known and size % known == 0:
        shape = tuple(size // known if d == -1 else d for d in shape)
    if any(d < 0 for d in shape) or prod(shape) != size:
        listed = "×".join(map(str, shape)) or "scalar"
        raise ModelError(f"{size:,} elements do not fit {listed}", f"The shape now is {list(tensor.shape)}.")
    return _sparse_from_parts(tensor, tensor.values.numpy(), positions, shape)


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
    made = remade(old.values, values.reshape(-1))
    return SparseTensor(made, remade(old.indices, indices.astype(np.int64)), shape, old.source)
