"""Editing sparse tensors as a whole: what a dense tensor can be edited with, without their zeros being stored.

Functions are pure and may take long, as those of `model.edits.tensors`, whose edits they borrow.
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
    """The sparse tensor with an edit of dense tensors done to it; refused where dense takes more than 2 GiB."""
    return from_dense(tensor, change(to_dense(tensor)))


def from_dense(old: SparseTensor, dense: Tensor) -> SparseTensor:
    """The values of a dense tensor in the place of a sparse one: under its names, with indices of the form it had."""
    made = to_sparse(dense)
    kind = kind_of(made.values)
    before = SparseTensor(remade(old.values, made.values.numpy(), kind), old.indices, old.shape, old.source)
    return _put_together(before, made.values.numpy(), made.indices.numpy(), tuple(made.shape))


def reshape(tensor: SparseTensor, shape: tuple[int, ...]) -> SparseTensor:
    """The same entries in another dense shape of as many elements; one dimension may be -1. Needs no dense array."""
    size = prod(tensor.shape)
    positions = linear_indices(tensor)
    known = prod(d for d in shape if d != -1)
    if shape.count(-1) == 1 and known and size % known == 0:
        shape = tuple(size // known if d == -1 else d for d in shape)
    if any(d < 0 for d in shape) or prod(shape) != size:
        listed = "×".join(map(str, shape)) or "scalar"
        raise ModelError(f"{size:,} elements do not fit {listed}", f"The shape now is {list(tensor.shape)}.")
    return _put_together(tensor, tensor.values.numpy(), positions, shape)


def retype(
    tensor: SparseTensor, kind: ElementType, cast: Callable[[NDArray[Any], ElementType], NDArray[Any]]
) -> tuple[SparseTensor, RoundingReport]:
    """The sparse tensor in another element type, and what its entries lose; `cast` is exec's, handed in."""
    if kind is ElementType.STRING:
        raise ModelError("Strings cannot be sparse", "Sparse tensors hold numbers.")
    values, report = retype_dense(tensor.values, kind, cast)
    return SparseTensor(values, tensor.indices, tensor.shape, tensor.source), report


def _put_together(
    old: SparseTensor, values: NDArray[Any], positions: NDArray[Any], shape: tuple[int, ...]
) -> SparseTensor:
    """Entries under the old tensor's names, with indices of the form it had: linear, or one a dimension."""
    indices = np.asarray(positions, np.int64)
    if old.indices.numpy().ndim == 2:
        places = np.unravel_index(indices, shape) if len(indices) else ()
        indices = np.stack(places, axis=1) if len(indices) else np.zeros((0, len(shape)), np.int64)
    made = remade(old.values, values.reshape(-1))
    return SparseTensor(made, remade(old.indices, indices.astype(np.int64)), shape, old.source)
