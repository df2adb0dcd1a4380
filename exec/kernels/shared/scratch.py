"""Working memory that kernels use again and again: fresh pages cost more than the arithmetic on them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import DTypeLike

from onnx_workbench.exec.kernels.allocation import Array, check_size

#: Larger buffers are handed to the caller alone and freed with it.
KEPT_BYTES = 16 << 20

#: Bytes of a line of the cache, and of the widest registers: a load that crosses a line counts twice.
_LINE = 64

_local = threading.local()


def aligned(shape: Sequence[int], dtype: DTypeLike) -> Array:
    """An uninitialised array that begins at a line of the cache, which numpy's own need not."""
    kind = np.dtype(dtype)
    size = prod(shape) * kind.itemsize
    buffer = np.empty(size + _LINE, np.uint8)
    start = -buffer.ctypes.data % _LINE
    return buffer[start : start + size].view(kind).reshape(shape)


def scratch(slot: str, shape: Sequence[int], dtype: DTypeLike) -> Array:
    """An uninitialised array of this thread; the next request for the same slot on the same thread reuses it.

    Only for what does not leave the kernel call. More than there is already is held against the memory limit first.
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
