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
