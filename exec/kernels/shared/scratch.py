"""Reusable working memory (scratch buffers) for kernels: fresh pages cost more than the arithmetic on them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import DTypeLike

from onnx_workbench.exec.kernels.allocation import Array, check_size

#: Larger buffers are not reused and freed with the caller.
KEPT_BYTES = 16 << 20

#: Bytes of a cache line, and of the widest registers: a load that crosses a line counts twice.
_LINE = 64

#: Size of the blocks that a matrix is transposed in, and how many elements further apart their rows are, measured.
_BLOCK_ROWS, _BLOCK_COLUMNS, _APART = 1024, 64, 8

_local = threading.local()


def aligned(shape: Sequence[int], dtype: DTypeLike) -> Array:
    """Return an uninitialised array aligned to a cache line, which numpy does not guarantee."""
    kind = np.dtype(dtype)
    size = prod(shape) * kind.itemsize
    buffer = np.empty(size + _LINE, np.uint8)
    start = -buffer.ctypes.data % _LINE
    return buffer[start : start + size].view(kind).reshape(shape)


def scratch(slot: str, shape: Sequence[int], dtype: DTypeLike) -> Array:
    """Return an uninitialised array of this thread; the next request for the same slot on the same thread reuses it.

    Only for data that does not leave the kernel call. Growth is checked against the memory limit first.
    """
    kind = np.dtype(dtype)
    size = prod(shape) * kind.itemsize
    buffers: dict[str, Array] = _local.__dict__.setdefault("buffers", {})
    buffer = buffers.get(slot)
    if buffer is None or buffer.nbytes < size:
        check_size(shape, kind)
        buffer = aligned((size,), np.uint8)
        if size <= KEPT_BYTES:
            buffers[slot] = buffer
    return buffer[:size].view(kind).reshape(shape)


def copy_transposed(matrix: Array, out: Array) -> None:
    """Copy the transpose of a matrix (R, C) with contiguous rows to out (C, R).

    In blocks, each of them gathered first: the rows of most weights are a multiple of 4 KB apart, so that their lines
    would evict each other from the cache, and the copy would take nine times as long.
    """
    for top in range(0, matrix.shape[0], _BLOCK_ROWS):
        rows = matrix[top : top + _BLOCK_ROWS]
        block = scratch("transposed", (len(rows), _BLOCK_COLUMNS + _APART), matrix.dtype)
        for first in range(0, matrix.shape[1], _BLOCK_COLUMNS):
            part = rows[:, first : first + _BLOCK_COLUMNS]
            gathered = block[:, : part.shape[1]]
            np.copyto(gathered, part)
            out[first : first + _BLOCK_COLUMNS, top : top + _BLOCK_ROWS] = gathered.T
