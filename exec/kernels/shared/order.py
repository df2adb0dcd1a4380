"""Arrays whose last axis (features) is outermost in memory, as a transpose to channels-last gives.

Elementwise kernels and normalisations keep that order, so that a chain of them works on contiguous memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from onnx_workbench.exec.values.arrays import Array, empty


def features_first(x: Array) -> bool:
    """Return whether the last axis is the outermost in memory, the others follow in order, without gaps."""
    return x.ndim > 1 and not x.flags.c_contiguous and np.moveaxis(x, -1, 0).flags.c_contiguous


def empty_features_first(shape: Sequence[int], dtype: DTypeLike) -> Array:
    """Like `exec.values.arrays.empty`, with the last axis outermost in memory."""
    return np.moveaxis(empty((shape[-1], *shape[:-1]), dtype), 0, -1)
