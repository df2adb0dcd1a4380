"""Reusable working memory (scratch buffers) for kernels: fresh pages cost more than the arithmetic on them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import DTypeLike

from onnx_workbench.exec.values.arrays import Array, check_size
from onnx_workbench.exec.values.limits import Limits, current_limits

#: Larger buffers are not reused and freed with the caller.
KEPT_BYTES = 16 << 20

#: Bytes of a cache line, and of the widest registers: a load that crosses a line counts twice.
_LINE = 64

#: Size of the blocks that a matrix is transposed in, and how many elements further apart their rows are, measured.
_BLOCK_ROWS, _BLOCK_COLUMNS, _APART = 256, 256, 8


class _Buffers:
    """The buffers that a thread keeps."""

    def __init__(self) -> None:
        self.by_slot: dict[str, Array] = {}


class _Working:
    """Bytes of all buffers of the process, and the buffers that threads keep. Any thread."""

    def __init__(self) -> None:
        self.size = 0
        self.lock = threading.RLock()  # a buffer may be freed while another is counted
        self.kept = weakref.WeakSet[_Buffers]()

    def allocate(self, size: int) -> Array:
        """Allocate a buffer that counts for the run of this thread until it is freed."""
        limits, buffer = current_limits(), aligned((size,), np.uint8)
        self._count(limits, size)
        weakref.finalize(buffer.base, self._count, limits, -size).atexit = False
        return buffer

    def _count(self, limits: Limits, size: int) -> None:
        with self.lock:
            self.size += size
            limits.use(size)


_local = threading.local()
_working = _Working()


def working_bytes(most: int) -> int:
    """Return the bytes of all buffers of the process; those that threads keep are freed if they take over `most`."""
    if _working.size > most:
        for buffers in list(_working.kept):
            buffers.by_slot.clear()
    return _working.size


def aligned(shape: Sequence[int], dtype: DTypeLike) -> Array:
    """Return an uninitialised array aligned to a cache line, which numpy does not guarantee."""
    kind = np.dtype(dtype)
    size = prod(shape) * kind.itemsize
    buffer = np.empty(size + _LINE, np.uint8)
    start = -buffer.ctypes.data % _LINE
    return buffer[start : start + size].view(kind).reshape(shape)


def scratch(slot: str, shape: Sequence[int], dtype: DTypeLike) -> Array:
    """Return an uninitialised array of this thread; the next request for the same slot on the same thread reuses it.

    Only for data that does not leave the kernel call. Growth is checked against the memory limit first,
    and counts for the run.
    """
    kind = np.dtype(dtype)
    size = prod(shape) * kind.itemsize
    buffers: _Buffers | None = getattr(_local, "buffers", None)
    if buffers is None:
        buffers = _local.buffers = _Buffers()
        _working.kept.add(buffers)
    buffer = buffers.by_slot.get(slot)
    if buffer is None or buffer.nbytes < size:
        check_size(shape, kind)
        buffer = _working.allocate(size)
        if size <= KEPT_BYTES:
            buffers.by_slot[slot] = buffer
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
