"""Softmax, LogSoftmax and Hardmax: along one axis since opset 13, over everything from the axis on before."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import normal_axis
from onnx_workbench.exec.kernels.shared.blocks import PARALLEL, PIECE, in_pieces, ones
from onnx_workbench.exec.kernels.shared.dtypes import compute_dtype
from onnx_workbench.exec.kernels.shared.scratch import scratch
from onnx_workbench.exec.values.arrays import Array, empty

#: Longer rows are summed pairwise by numpy, which is more exact.
_LONGEST_ROW = 4096
#: exp of anything up to this, added up a billion times, stays far from float32's largest number.
_SAFE_EXPONENT = 60.0
#: With row sums above this, no exponential that matters was denormal.
_SAFE_SUM = 1e-10


def softmax_rows(x: Array, target: Array) -> None:
    """Fill `target` with the softmax along axis 1 of a wide array [outer, n, …]; not in place.

    The row maximum is subtracted only where needed: in short rows finding it takes longer than all the rest, and one
    comparison shows for the whole piece that no exponential can overflow.
    """
    if np.maximum.reduce(x, None) < _SAFE_EXPONENT:
        np.exp(x, target)
        sums = _sums(target)
        if np.minimum.reduce(sums, None) > _SAFE_SUM:
            np.divide(target, sums, target)
            return
    np.subtract(x, x.max(axis=1, keepdims=True), target)
    np.exp(target, target)
    np.divide(target, _sums(target), target)


def _softmax_half_rows(x: Array, target: Array) -> None:
    """Softmax of float16: each step of the specification's function body is rounded to float16, as in other runtimes.

    A sum beyond float16 stays in float32.
    """
    np.subtract(x, x.max(axis=1, keepdims=True), target)
    exponentials = np.exp(target.astype(np.float32)).astype(np.float16).astype(np.float32)
    sums = _sums(exponentials)
    rounded = sums.astype(np.float16)
    np.copyto(target, exponentials / np.where(np.isinf(rounded), sums, rounded), casting="unsafe")


def log_softmax_rows(x: Array, target: Array) -> None:
    """Fill `target` with the logarithm of the softmax along axis 1; not in place."""
    if x.shape[1] > 1 and x.max() < _SAFE_EXPONENT:  # of one element it is exactly 0
        np.exp(x, target)
        sums = _sums(target)
        if sums.min() > _SAFE_SUM:
            np.subtract(x, np.log(sums), target)
            return
    np.subtract(x, x.max(axis=1, keepdims=True), target)
    np.subtract(target, np.log(_sums(np.exp(target))), target)


def _sums(x: Array) -> Array:
    """Sum along axis 1, kept as an axis; rows of moderate length are fastest as a product with ones."""
    if x.ndim == 2 and x.shape[1] <= _LONGEST_ROW:
        return np.asarray(np.matmul(x, ones(x.shape[1], x.dtype)))
    return np.asarray(x.sum(axis=1, keepdims=True))


def _hardmax_rows(x: Array, target: Array) -> None:
    first = np.argmax(x, axis=1, keepdims=True)
    target.fill(0)
    np.put_along_axis(target, first, 1, axis=1)


def _by_rows(x: Array, axis: int, flatten: bool, fill: Callable[[Array, Array], None]) -> Array:
    """Run `fill` over pieces of the outer axes that fit the cache."""
    result = empty(x.shape, x.dtype)
    if not result.size:
        return result
    axis = normal_axis(axis, max(x.ndim, 1)) if not (flatten and axis == x.ndim) else axis
    outer = prod(x.shape[:axis])
    shape: tuple[int, ...] = (outer, x.size // outer)
    inner = prod(x.shape[axis + 1 :])
    if not flatten and inner > 1:
        shape = (outer, x.shape[axis], inner)
    source, target = x.reshape(shape), result.reshape(shape)
    wide = compute_dtype(x.dtype)
    if fill is softmax_rows and x.dtype == np.float16:
        wide, fill = x.dtype, _softmax_half_rows
    if x.size <= PIECE and wide == x.dtype:
        fill(source, target)
        return result
    step = max(1, PIECE * outer // x.size)

    def one(rows: slice) -> None:
        if wide == x.dtype:
            fill(source[rows], target[rows])
        else:
            piece = source[rows].astype(wide)
            filled = scratch("softmax", piece.shape, wide)
            fill(piece, filled)
            target[rows] = filled

    in_pieces(one, outer, step, max(2, PARALLEL * outer // x.size))
    return result


def _register(op_type: str, fill: Callable[[Array, Array], None]) -> None:
    """The version over all axes from `axis` on, flattened, and the one along one axis."""

    def flattened(x: Array, *, axis: int = 1) -> Array:
        return _by_rows(x, axis, True, fill)

    def along(x: Array, *, axis: int = -1) -> Array:
        return _by_rows(x, axis, False, fill)

    kernel(op_type, since=1)(flattened)
    kernel(op_type, since=13)(along)


_register("Softmax", softmax_rows)
_register("LogSoftmax", log_softmax_rows)
_register("Hardmax", _hardmax_rows)


def log_softmax(x: Array, axis: int) -> Array:
    """Return the logarithm of the softmax along one axis."""
    return _by_rows(x, axis, False, log_softmax_rows)
