"""Matrix products in pieces of the size OpenBLAS computes best."""

from __future__ import annotations

import threading
import weakref

import numpy as np

from exec.arrays import Array, empty
from exec.threads import parallel_for, split, threads

#: Up to rows × columns × depth of this OpenBLAS multiplies in place. Beyond it packs both matrices first, which costs
#: more than it saves when one of them is small.
UNPACKED = 1_000_000
_STEP = 64
_LEAST_ROWS = 16
_LEAST, _MOST = 128, 448  # columns; measured


def columns_unpacked(rows: int, depth: int) -> int:
    """How many columns a product may have to be computed without packing; 0 when that does not pay."""
    count = UNPACKED // max(1, rows * depth) // _STEP * _STEP
    return min(count, _MOST) if count >= _LEAST else 0


def matmul_columns(a: Array, b: Array, out: Array) -> None:
    """a (M, K) @ b (K, N) into out (M, N), in pieces of columns where that is quicker; float32 gains most."""
    count = b.shape[1]
    step = columns_unpacked(*a.shape) if a.dtype == np.float32 else 0
    pieces = count // step if step else 0
    if pieces < 2:
        np.matmul(a, b, out=out)
        return
    done = pieces * step
    np.matmul(a, _pieces(b, pieces, step), out=_pieces(out, pieces, step))
    if done < count:
        np.matmul(a, b[:, done:], out=out[:, done:])


def matmul_stack(a: Array, b: Array, out: Array) -> None:
    """The products a (…, M, K) @ b (…, K, N) of stacks, with numpy's broadcasting, into out (…, M, N).

    Small matrices, as those of one head of attention, are multiplied in pieces of rows that need no packing. The
    kernels for them want the rows of b contiguous: a transposed b is copied first.
    """
    rows, depth = a.shape[-2:]
    if b.strides[-1] != b.itemsize and rows >= _LEAST_ROWS:
        b = np.ascontiguousarray(b)
    most = UNPACKED // max(1, depth * b.shape[-1])
    if rows <= most or most < _LEAST_ROWS or a.dtype != np.float32:
        np.matmul(a, b, out=out)
        return
    step = -(-rows // -(-rows // most))
    done = rows // step * step
    np.matmul(_row_pieces(a[..., :done, :], step), b[..., None, :, :], out=_row_pieces(out[..., :done, :], step))
    if done < rows:
        np.matmul(a[..., done:, :], b, out=out[..., done:, :])


def _row_pieces(stack: Array, step: int) -> Array:
    """A stack of matrices (…, R, C) as (…, R / step, step, C); a view."""
    return stack.reshape(*stack.shape[:-2], -1, step, stack.shape[-1])


def _pieces(matrix: Array, count: int, step: int) -> Array:
    """The first columns of a matrix (R, N) as (count, R, step); a view."""
    row, value = matrix.strides
    shape = (count, matrix.shape[0], step)
    return np.lib.stride_tricks.as_strided(matrix, shape, (step * value, row, value))


# --- weights laid out for products -------------------------------------------------------------------------------

#: Rows of a laid-out weight that are multiplied at a time: enough work, and BLAS packs no more than the cache holds.
_BLOCK = 384
#: Smaller weights stay in the cache between runs, shorter inputs are bound by reading the weight once.
_LEAST_BYTES = 1 << 20
#: All laid-out weights of the process together may take so many bytes.
_KEPT_BYTES = 1 << 30


class _Allowance:
    """What is left of a number of bytes that several may take from. Any thread."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Whether there was so much, which is taken then."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give_back(self, size: int) -> None:
        """What was taken is free again."""
        with self._lock:
            self._left += size


_kept = _Allowance(_KEPT_BYTES)


class Weight:
    """A constant matrix (K, N) for products from the left, kept transposed; its products are transposed as well.

    Of the two factors BLAS packs the one that counts as its right one piece by piece, right before it is used, and
    the left one as a whole. Taking a large weight for the right one is a tenth quicker, where the input has about
    as many rows as a text has tokens, and means computing the transposed product: features are its outer axis in
    memory. What follows keeps that order (see `exec.kernels.shared.order`).
    """

    def __init__(self, matrix: Array) -> None:
        self.depth, self.columns = matrix.shape
        self._turned: Array = np.ascontiguousarray(matrix.T)  # no copy of what is the transpose of a constant

    def product(self, x: Array) -> Array:
        """x (…, K) @ the matrix, for at least two axes, of the same type; features outermost in memory."""
        leading = x.shape[:-1]
        out = empty((self.columns, *leading), x.dtype)
        right = x.reshape(-1, self.depth).T
        target = out.reshape(self.columns, -1)
        parts = split(self.columns, max(-(-self.columns // _BLOCK), threads(right.size * self.columns)))

        def part(index: int) -> None:
            here = slice(*parts[index])
            np.matmul(self._turned[here], right, out=target[here])

        parallel_for(part, len(parts), right.size * self.columns)
        return np.moveaxis(out, 0, -1)


def laid_out(matrix: Array) -> Weight | None:
    """The matrix in the form products read quickest, or None where that does not pay or would take too much memory."""
    if matrix.ndim != 2 or matrix.dtype != np.float32 or matrix.nbytes < _LEAST_BYTES or matrix.shape[1] < _BLOCK:
        return None
    if matrix.T.flags.c_contiguous:
        return Weight(matrix)
    if not _kept.take(matrix.nbytes):
        return None
    weight = Weight(matrix)
    weakref.finalize(weight, _kept.give_back, matrix.nbytes)
    return weight


def pays(x: Array) -> bool:
    """Whether x @ weight gains from the layout: there are enough rows to multiply."""
    return x.ndim >= 2 and x.size >= _LEAST_ROWS * x.shape[-1]
