"""Working memory that kernels use again and again: fresh pages cost more than the arithmetic on them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import DTypeLike

from exec.arrays import Array, check_size

#: Larger buffers are handed to the caller alone and freed with it.
KEPT_BYTES = 16 << 20

_local = threading.local()


def scratch(slot: str, shape: Sequence[int], dtype: DTypeLike) -> Array:
    """An uninitialised array of this thread; the next request for the same slot on the same thread reuses it.

    Only for what does not leave the kernel call. Its size is held against the memory limit first.
    """
    kind = np.dtype(dtype)
    check_size(shape, kind)
    size = prod(shape) * kind.itemsize
    buffers: dict[str, Array] = _local.__dict__.setdefault("buffers", {})
    buffer = buffers.get(slot)
    if buffer is None or buffer.nbytes < size:
        buffer = np.empty(size, np.uint8)
        if size <= KEPT_BYTES:
            buffers[slot] = buffer
    return buffer[:size].view(kind).reshape(shape)
