"""Run-time values: arrays, and their allocation, with the memory limit checked before anything is allocated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from onnx_workbench.exec.errors import LimitError
from onnx_workbench.exec.values.limits import current_limits
from onnx_workbench.model.ir.types import ElementType

Array = NDArray[Any]

#: What flows along an edge: ndarray, list (sequence), dict (map), SparseArray, or None (empty optional).
RuntimeValue = Any

#: Bytes that numpy may allocate without a prior check, which takes as long as adding a hundred numbers: the run checks
#: the result against a smaller limit afterwards.
UNCHECKED = 1 << 16

#: Limit for the product of the dimensions other than 0: numpy's limit even for empty arrays.
_MOST = 1 << 56


@dataclass(slots=True, eq=False)
class SparseArray:
    """Sparse tensor at run time: values [NNZ], indices [NNZ] (linearised) or [NNZ, rank], dense shape."""

    values: Array
    indices: Array
    shape: tuple[int, ...]

    @classmethod
    def of(cls, dense: Array) -> SparseArray:
        """Return the elements of a dense array that are not 0; for strings, not empty."""
        places = np.nonzero(dense)
        return cls(dense[places], np.stack(places, axis=1).astype(np.int64), dense.shape)

    def dense(self) -> Array:
        """Return the dense array; its size is checked against the memory limit first."""
        result = zeros(self.shape, self.values.dtype)
        if self.indices.ndim == 1:
            result.reshape(-1)[self.indices] = self.values
        else:
            result[tuple(self.indices.T)] = self.values
        return result


def check_size(shape: Sequence[int], dtype: DTypeLike) -> None:
    """Raise LimitError if an array of this shape would exceed the run's limit; computed in Python ints."""
    limits = current_limits()
    limit = limits.max_bytes
    if limit is None:
        return
    size = prod(map(int, shape)) * np.dtype(dtype).itemsize
    if not size and prod(max(1, int(d)) for d in shape) > _MOST:
        given = f"a result of {_written(shape, dtype)} has dimensions that no array can have, though it holds nothing"
        msg = f"{given}; expected a product of at most {_MOST:,}"
        raise LimitError(msg)
    if size > limit:
        needed = f"a result of {_written(shape, dtype)} needs {size:,} bytes"
        msg = f"{needed}, over the limit of {limit:,} bytes for a tensor"
        raise LimitError(msg)
    if size > limits.left:
        limits.require(size, f"a result of {_written(shape, dtype)}")


def _written(shape: Sequence[int], dtype: DTypeLike) -> str:
    """Format a dtype and shape: float[2,3]."""
    try:
        name = ElementType.from_numpy(np.dtype(dtype)).text
    except ValueError:
        name = np.dtype(dtype).name
    return f"{name}[{','.join(str(int(d)) for d in shape)}]"


def empty(shape: Sequence[int], dtype: DTypeLike) -> Array:
    """Like numpy.empty, after the size was checked against the limit."""
    kind = np.dtype(dtype)
    if not 0 < prod(map(int, shape)) * kind.itemsize <= UNCHECKED:
        check_size(shape, kind)
    return np.empty(tuple(shape), kind)


def zeros(shape: Sequence[int], dtype: DTypeLike) -> Array:
    """Like numpy.zeros, after the size was checked against the limit."""
    check_size(shape, dtype)
    return np.zeros(tuple(shape), dtype)


def full(shape: Sequence[int], value: Any, dtype: DTypeLike) -> Array:
    """Like numpy.full, after the size was checked against the limit."""
    result = empty(shape, dtype)
    result[...] = value
    return result
