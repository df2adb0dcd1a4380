"""Matrix products of floats, in tiles of the size that OpenBLAS computes fastest."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.shared import blas
from onnx_workbench.exec.kernels.threads import WORTH, parallel_for, split, threads
from onnx_workbench.exec.values.arrays import UNCHECKED, Array, empty

#: Up to rows × columns × depth of this OpenBLAS multiplies without packing, where `blas.multiplies_unpacked`. Beyond it
#: packs both matrices first, which costs more than it saves when one of them is small.
UNPACKED = 1_000_000
#: Multiply-adds per BLAS call, which cannot be interrupted: some tenths of a second.
LONGEST = 1 << 33
#: Elements of a result that may be made before its size is checked.
_SMALL = UNCHECKED // 8
_LEAST_ROWS = 16
_ROWS_AT_ONCE = 6  # other numbers of rows leave a slower remainder; measured


def _rows_unpacked(depth: int, columns: int) -> int:
    """Return how many rows a product may have to be computed without packing; 0 when that does not pay."""
    count = UNPACKED // max(1, depth * columns)
    return count if count >= _LEAST_ROWS else 0


def matmul_stack(a: Array, b: Array, out: Array) -> None:
    """Compute the products a (…, M, K) @ b (…, K, N) of stacks, with numpy's broadcasting, into out (…, M, N).

    Small matrices, as those of one attention head, are multiplied in row tiles that need no packing. Their kernels
    require contiguous rows of b: a transposed b is copied first.
    """
    rows, depth = a.shape[-2:]
    if b.strides[-1] != b.itemsize and rows >= _LEAST_ROWS:
        b = np.ascontiguousarray(b)
    most = _rows_unpacked(depth, b.shape[-1])
    if rows <= most or not most or a.dtype != np.float32 or not blas.multiplies_unpacked():
        np.matmul(a, b, out=out)
        return
    even = -(-rows // -(-rows // most))
    step = min(-(-even // _ROWS_AT_ONCE), most // _ROWS_AT_ONCE) * _ROWS_AT_ONCE
    done = rows // step * step
    left, target = row_pieces(a[..., :done, :], step), row_pieces(out[..., :done, :], step)
    np.matmul(left, b[..., None, :, :], out=target, order="C")  # all pieces while their b is in the cache
    if done < rows:
        np.matmul(a[..., done:, :], b, out=out[..., done:, :])


def row_pieces(stack: Array, step: int) -> Array:
    """Reshape a stack of matrices (…, R, C) to (…, R / step, step, C); a view."""
    return stack.reshape(*stack.shape[:-2], -1, step, stack.shape[-1])


def product(a: Array, b: Array) -> Array:
    """Return a @ b of float32 or float64 arrays of one type with numpy's rules for ranks, by BLAS throughout."""
    if b.ndim == 2 <= a.ndim and a.shape[-1] == b.shape[0] and a.flags.forc and b.flags.forc:
        depth, columns = b.shape
        if 0 < a.size * columns <= min(WORTH, _SMALL * depth):  # the calls below take longer than a small product
            small: Array = np.matmul(a if a.ndim == 2 else a.reshape(-1, depth), b)
            return small if a.ndim == 2 else small.reshape(*a.shape[:-1], columns)
    shape = product_shape(a, b)
    result = np.empty(shape, a.dtype) if prod(shape) <= _SMALL else empty(shape, a.dtype)
    if not (a.size and b.size):
        result[...] = 0  # empty sums, if the result has elements
        return result
    work = result.size * a.shape[-1]
    out = result
    if a.ndim > 2 == b.ndim:  # one large product instead of many small ones
        a, out = a.reshape(-1, a.shape[-1]), result.reshape(-1, b.shape[1])
    a, b = (a if a.flags.forc else _for_blas(a)), (b if b.flags.forc else _for_blas(b))
    one_piece = work < WORTH
    if min(a.ndim, b.ndim) < 2 or (one_piece and out.ndim == 2):
        np.matmul(a, b, out)
    elif out.ndim == 2:
        _flat_product(a, b, out, work)
    elif one_piece or _parts(work) == 1 or not a.ndim == b.ndim == len(shape):
        matmul_stack(a, b, out)
    else:
        _stack_product(a, b, out, work)
    return result


def _flat_product(a: Array, b: Array, out: Array, work: int) -> None:
    """Multiply two matrices in pieces along the longer side, for threads and limit checks."""
    rows = len(out) >= out.shape[1]
    parts = split(max(out.shape), _parts(work))

    def part(index: int) -> None:
        here = slice(*parts[index])
        if rows:
            np.matmul(a[here], b, out[here])
        else:
            np.matmul(a, b[:, here], out[:, here])

    parallel_for(part, len(parts), work)


def _parts(work: int) -> int:
    """Return the number of pieces: one per thread, more where each would delay cancellation."""
    return max(threads(work), work // LONGEST)


def _stack_product(a: Array, b: Array, out: Array, work: int) -> None:
    """Multiply two stacks of matrices of equal rank in pieces along the longest axis, for threads and limit checks."""
    axis = max(range(out.ndim - 2), key=lambda i: out.shape[i])
    parts = split(out.shape[axis], _parts(work))

    def part(index: int) -> None:
        here = (*(slice(None),) * axis, slice(*parts[index]))
        left, right = (x[here] if x.shape[axis] > 1 else x for x in (a, b))
        matmul_stack(left, right, out[here])

    parallel_for(part, len(parts), work)


def product_shape(a: Array, b: Array) -> tuple[int, ...]:
    """Return the shape of a @ b; KernelError when the shapes do not fit."""
    if a.ndim == b.ndim >= 2 and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2]:
        return (*a.shape[:-1], b.shape[-1])
    fits = a.ndim and b.ndim and a.shape[-1] == b.shape[-2 if b.ndim > 1 else 0]
    try:
        leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        fits = False
    if not fits:
        given = f"shapes {list(a.shape)} and {list(b.shape)}"
        msg = f"{given} cannot be multiplied as matrices; expected […, N, K] and […, K, M]"
        raise KernelError(msg)
    return leading + (a.shape[-2:-1] if a.ndim > 1 else ()) + (b.shape[-1:] if b.ndim > 1 else ())


def _for_blas(x: Array) -> Array:
    """Return `x`, copied if its matrices have strided rows and columns, which BLAS cannot read."""
    if x.ndim < 2 or x.itemsize in x.strides[-2:]:
        return x
    return np.ascontiguousarray(x)
