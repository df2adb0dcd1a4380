"""Operators that change or return the shape and move no data: Reshape, Squeeze, Transpose, Expand, Shape …

All but Shape and Size return views of their input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel, prepares
from onnx_workbench.exec.kernels.shared.axes import KEPT_SHAPES, integers, normal_axes
from onnx_workbench.exec.values.arrays import Array, RuntimeValue, check_size


@kernel("Identity", since=1)
def identity_1(x: RuntimeValue) -> RuntimeValue:
    """Return the input itself: a tensor, sequence or optional."""
    return x


@kernel("Reshape", since=1)
def reshape_1(data: Array, *, shape: Sequence[int] | None = None) -> Array:
    """To the shape of the attribute; 0 keeps a dimension, -1 is inferred."""
    return _reshape(data, list(shape or ()))


@kernel("Reshape", since=5, without=("allowzero",))
@kernel("Reshape", since=14)
def reshape_14(data: Array, shape: Array, *, allowzero: int = 0) -> Array:
    """To the shape of the second input; -1 is inferred, and 0 keeps a dimension, without `allowzero`."""
    dims = integers(shape, "shape")
    return _reshape(data, dims, keep_zero=bool(allowzero))


def _reshape(data: Array, dims: list[int], *, keep_zero: bool = False) -> Array:
    wanted = list(dims)
    if 0 in wanted and not keep_zero:
        if any(d == 0 for d in wanted[data.ndim :]):
            given = f"shape {wanted} copies a dimension that the input of shape {data.shape} does not have"
            msg = f"{given}; expected 0 only where it has one"
            raise KernelError(msg)
        wanted = [data.shape[i] if d == 0 else d for i, d in enumerate(wanted)]
    if keep_zero and 0 in wanted and -1 in wanted:
        msg = f"shape {wanted} has both 0 and -1; with allowzero the -1 cannot be inferred"
        raise KernelError(msg)
    if any(d < -1 for d in wanted):
        msg = f"shape {wanted} has a dimension below -1; expected sizes from 0, or one -1"
        raise KernelError(msg)
    if not data.flags.c_contiguous:
        check_size(data.shape, data.dtype)
    try:
        return data.reshape(wanted)
    except (ValueError, OverflowError):
        given = f"cannot reshape {data.size} elements of shape {data.shape} to {wanted}"
        msg = f"{given}; expected a shape of as many elements"
        raise KernelError(msg) from None


@prepares(reshape_14)
def prepare_reshape(constants: Sequence[Array | None], **attributes: int) -> Callable[..., Array] | None:
    """Pass a constant shape that copies no dimension directly to numpy."""
    shape = constants[1]
    dims = tuple(shape.tolist()) if isinstance(shape, np.ndarray) and shape.ndim == 1 else (0,)
    if 0 in dims or min(dims, default=1) < -1 or dims.count(-1) > 1:
        return None

    def run(data: Array, shape: Array) -> Array:
        if not data.flags.c_contiguous:
            return reshape_14(data, shape, **attributes)
        try:
            return data.reshape(dims)
        except ValueError:
            return reshape_14(data, shape, **attributes)  # the plain kernel reports what is wrong

    return run


@kernel("Squeeze", since=1)
def squeeze_1(data: Array, *, axes: Sequence[int] | None = None) -> Array:
    """Remove the given axes of length 1, or all of them."""
    return squeeze(data, axes)


@kernel("Squeeze", since=13)
def squeeze_13(data: Array, axes: Array | None = None) -> Array:
    """With the axes as an input."""
    return squeeze(data, None if axes is None else integers(axes, "axes"))


def squeeze(data: Array, axes: Sequence[int] | None) -> Array:
    """Return a view without the given axes, which must have length 1; None: all axes of length 1."""
    return data.reshape(_squeezed(data.shape, axes))


def _squeezed(shape: tuple[int, ...], axes: Sequence[int] | None) -> tuple[int, ...]:
    if axes is None:
        return tuple([d for d in shape if d != 1])
    drop = normal_axes(axes, len(shape))
    for axis in drop:
        if shape[axis] != 1:
            msg = f"axis {axis} of shape {shape} cannot be squeezed; expected length 1"
            raise KernelError(msg)
    return tuple([d for i, d in enumerate(shape) if i not in drop])


@kernel("Unsqueeze", since=1)
def unsqueeze_1(data: Array, *, axes: Sequence[int]) -> Array:
    """Insert axes of length 1 at these positions of the result."""
    return unsqueeze(data, axes)


@kernel("Unsqueeze", since=13)
def unsqueeze_13(data: Array, axes: Array) -> Array:
    """With the axes as an input."""
    return unsqueeze(data, integers(axes, "axes"))


def unsqueeze(data: Array, axes: Sequence[int]) -> Array:
    """Return a view with axes of length 1 inserted; the axes are those of the result."""
    return data.reshape(_unsqueezed(data.shape, axes))


def _unsqueezed(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    rank = len(shape) + len(axes)
    new = normal_axes(axes, rank)
    old = iter(shape)
    return tuple([1 if i in new else next(old) for i in range(rank)])


@prepares(squeeze_1, squeeze_13)
def prepare_squeeze(
    constants: Sequence[Array | None], *, axes: Sequence[int] | None = None
) -> Callable[..., Array] | None:
    """Drop constant axes once for each shape."""
    constant_axes = constants[1] if len(constants) > 1 else None
    return _reshaping(_squeezed, axes if constant_axes is None else integers(constant_axes, "axes"))


@prepares(unsqueeze_1, unsqueeze_13)
def prepare_unsqueeze(
    constants: Sequence[Array | None], *, axes: Sequence[int] | None = None
) -> Callable[..., Array] | None:
    """Insert constant axes once for each shape."""
    constant_axes = constants[1] if len(constants) > 1 else None
    return _reshaping(_unsqueezed, axes if constant_axes is None else integers(constant_axes, "axes"))


def _reshaping(
    shape_of: Callable[[tuple[int, ...], Sequence[int]], tuple[int, ...]], axes: Sequence[int] | None
) -> Callable[..., Array] | None:
    """Return a kernel that reshapes to shape_of(shape of the data, axes); None where there are no constant axes."""
    if axes is None:
        return None
    known: dict[tuple[int, ...], tuple[int, ...]] = {}

    def run(data: Array, _axes: Array | None = None) -> Array:
        shape = data.shape
        wanted = known.get(shape)
        if wanted is None:
            wanted = shape_of(shape, axes)
            if len(known) < KEPT_SHAPES:
                known[shape] = wanted
        return data.reshape(wanted)

    return run


@kernel("Transpose", since=1)
def transpose_1(data: Array, *, perm: Sequence[int] | None = None) -> Array:
    """Permute the axes; reversed when `perm` is absent."""
    if perm is None:
        return data.T
    try:
        return data.transpose(perm)
    except ValueError:
        given = f"perm {list(perm)} is no permutation of the {data.ndim} axes of shape {data.shape}"
        msg = f"{given}; expected each axis once"
        raise KernelError(msg) from None


@kernel("Expand", since=8)
def expand_8(x: Array, shape: Array) -> Array:
    """Broadcast both ways with `shape`; the result is a read-only view with strides of 0."""
    dims = integers(shape, "shape")
    if any(d < 0 for d in dims):
        msg = f"shape {dims} has a negative dimension; expected sizes from 0"
        raise KernelError(msg)
    rank = max(x.ndim, len(dims))
    mine = (1,) * (rank - x.ndim) + x.shape
    theirs = [1] * (rank - len(dims)) + dims
    if any(a != b and a != 1 and b != 1 for a, b in zip(mine, theirs, strict=True)):
        given = f"an input of shape {x.shape} cannot be broadcast with {dims}"
        msg = f"{given}; expected sizes of 1 or the same, from the last axis on"
        raise KernelError(msg)
    result = [b if a == 1 else a for a, b in zip(mine, theirs, strict=True)]
    check_size(result, x.dtype)
    return np.broadcast_to(x, result)


@kernel("Shape", since=1, without=("end", "start"))
@kernel("Shape", since=15)
def shape_15(data: Array, *, end: int | None = None, start: int = 0) -> Array:
    """Return the dimensions from `start` to `end`, both clamped to the rank."""
    rank = len(data.shape)
    first = max(start + rank, 0) if start < 0 else start
    last = rank if end is None else max(end + rank, 0) if end < 0 else end
    return np.array(data.shape[first:last], np.int64)


@kernel("Size", since=1)
def size_1(data: Array) -> Array:
    """Return the number of elements as an int64 scalar."""
    return np.array(data.size, np.int64)
