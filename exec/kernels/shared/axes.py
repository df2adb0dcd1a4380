"""Validation of axes and integer lists: negative, repeated, out of range, as attribute or as tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.exec.values.statistics import describe

#: Number of input shapes for which a prepared kernel caches derived data; dynamic axes cause many.
KEPT_SHAPES = 8


def normal_axis(axis: int, rank: int, name: str = "axis") -> int:
    """Return `axis` as a non-negative number; KernelError unless it is within [-rank, rank)."""
    if -rank <= axis < rank:
        return axis + rank if axis < 0 else axis
    msg = f"{name} is {axis}; expected within [{-rank}, {rank - 1}] for rank {rank}"
    raise KernelError(msg)


def normal_axes(axes: Sequence[int], rank: int, name: str = "axes") -> tuple[int, ...]:
    """Return all axes as non-negative numbers, in their order; KernelError when out of range or repeated."""
    result = tuple(normal_axis(a, rank, name) for a in axes)
    if len(set(result)) != len(result):
        msg = f"{name} {list(axes)} name the same axis of rank {rank} twice; expected each once"
        raise KernelError(msg)
    return result


def integers(values: Array, name: str) -> list[int]:
    """Return a 0-D or 1-D integer tensor as a list of Python ints; KernelError for anything else."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu" or values.ndim > 1:
        msg = f"{name} is {describe(values)}; expected integers in one dimension"
        raise KernelError(msg)
    found_values = values.tolist()
    return found_values if isinstance(found_values, list) else [found_values]


def one_element(value: Array, name: str) -> Array:
    """Return a tensor of one element without axes; KernelError for anything else."""
    if value.size != 1:
        msg = f"{name} is {describe(value)}; expected one element"
        raise KernelError(msg)
    return value.reshape(())


def scalar_float(value: Array, name: str) -> float:
    """Return the number in a tensor of one element; KernelError for anything else."""
    if not isinstance(value, np.ndarray) or value.size != 1 or value.dtype.kind not in "iufbV":
        msg = f"{name} is {describe(value)}; expected one number"
        raise KernelError(msg)
    return float(value.reshape(-1)[0])


def scalar_int(value: Array, name: str) -> int:
    """Return the integer in a tensor of one element; KernelError for anything else."""
    if not isinstance(value, np.ndarray) or value.size != 1 or value.dtype.kind not in "iufb":
        msg = f"{name} is {describe(value)}; expected one number"
        raise KernelError(msg)
    try:
        return int(value.reshape(-1)[0])
    except (OverflowError, ValueError):
        msg = f"{name} is {value.reshape(-1)[0]}; expected a finite number"
        raise KernelError(msg) from None
