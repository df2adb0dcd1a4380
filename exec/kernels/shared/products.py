"""Matrix products in pieces of the size OpenBLAS computes best."""

from __future__ import annotations

import numpy as np

from exec.arrays import Array

#: Up to rows × columns × depth of this OpenBLAS multiplies in place. Beyond it packs both matrices first, which costs
#: more than it saves when one of them is small.
UNPACKED = 1_000_000
_STEP = 64
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


def _pieces(matrix: Array, count: int, step: int) -> Array:
    """The first columns of a matrix (R, N) as (count, R, step); a view."""
    row, value = matrix.strides
    shape = (count, matrix.shape[0], step)
    return np.lib.stride_tricks.as_strided(matrix, shape, (step * value, row, value))
