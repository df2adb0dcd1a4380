"""Broadcasting: numpy's rules from opset 7 on, the attributes `broadcast` and `axis` before."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.values.arrays import UNCHECKED, Array, check_size, empty


def broadcast_shape(*inputs: Array) -> tuple[int, ...]:
    """Return the broadcast shape; KernelError names the incompatible shapes. Allocates nothing."""
    try:
        # numpy.broadcast takes at most 64 arguments.
        shapes = [a.shape for a in inputs]
        return np.broadcast_shapes(*shapes) if len(inputs) > 2 else np.broadcast(*inputs).shape
    except ValueError:
        given = " and ".join(str(list(a.shape)) for a in inputs)
        msg = f"shapes {given} cannot be broadcast together; expected equal lengths, or 1, from the last axis on"
        raise KernelError(msg) from None


def binary(ufunc: np.ufunc, a: Array, b: Array) -> Array:
    """Return ufunc(a, b) of two tensors of one type; larger results are checked against the memory limit first."""
    shape, other = a.shape, b.shape
    # Most second operands have the shape of the first, or of its last axes; asking numpy takes longer than adding.
    is_plain = other == shape or not other or shape[-len(other) :] == other
    result: Array
    try:
        if not (is_plain or 0 < a.nbytes * b.size <= UNCHECKED):
            result = ufunc(a, b, out=empty(broadcast_shape(a, b), _kind(ufunc, a, b)), casting="equiv")
        else:
            if a.nbytes > UNCHECKED:
                check_size(shape, _kind(ufunc, a, b))
            result = ufunc(a, b, casting="equiv", order="C")
    except TypeError:
        check_one_type(a, b)
        raise
    except ValueError:
        broadcast_shape(a, b)
        raise
    return result if shape else np.asarray(result)


def _kind(ufunc: np.ufunc, a: Array, b: Array) -> np.dtype[Any]:
    """Return the result type of a ufunc: that of its operands, or bool."""
    return ufunc.resolve_dtypes((a.dtype, b.dtype, None), casting="equiv")[-1]


def check_one_type(*inputs: Array) -> None:
    """Raise KernelError where inputs differ in type, which numpy would promote."""
    if len(inputs) == 2 and inputs[0].dtype == inputs[1].dtype:
        return
    if any(x.dtype != inputs[0].dtype for x in inputs):
        msg = f"inputs are {' and '.join(x.dtype.name for x in inputs)}; expected the same type"
        raise KernelError(msg)


def legacy_operand(a: Array, b: Array, broadcast: int, axis: int | None) -> Array:
    """Return `b` as a view that numpy broadcasts over `a` as `broadcast` and `axis` of opsets 1 to 6 specify.

    With broadcast=1 b has one element, or its dimensions are those of `a` from `axis` on (the last ones without
    `axis`). With broadcast=0 the shapes should be equal; whatever numpy can broadcast is accepted, since files exist
    whose opset number is older than their nodes.
    """
    if not broadcast or a.shape == b.shape:
        return b
    if b.size == 1 and b.ndim <= a.ndim:
        return b.reshape(())
    start = a.ndim - b.ndim if axis is None else axis + (a.ndim if axis < 0 else 0)
    stop = start + b.ndim
    if start < 0 or stop > a.ndim:
        given = f"a second input of shape {list(b.shape)} does not fit {list(a.shape)} from axis {start} on"
        msg = f"{given}; expected no more axes than there are from it on"
        raise KernelError(msg)
    return b.reshape((1,) * start + b.shape + (1,) * (a.ndim - stop))


def unidirectional(x: Array, shape: tuple[int, ...]) -> Array:
    """Return a view of `x` broadcast to exactly `shape`; KernelError when that is impossible."""
    check_size(shape, x.dtype)
    try:
        return np.broadcast_to(x, shape)
    except ValueError:
        msg = f"shape {list(x.shape)} cannot be broadcast to {list(shape)}; expected its lengths, or 1, from the last"
        raise KernelError(msg) from None
