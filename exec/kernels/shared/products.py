"""Matrix products in pieces of the size OpenBLAS computes best."""

from __future__ import annotations

import threading
import weakref

import numpy as np

from exec.arrays import Array, empty
from exec.kernels.shared import blas
from exec.kernels.shared.scratch import aligned, scratch
from exec.threads import parallel_for

#: Up to rows × columns × depth of this OpenBLAS multiplies in place, where `blas.multiplies_unpacked`. Beyond it packs
#: both matrices first, which costs more than it saves when one of them is small.
UNPACKED = 1_000_000
#: Multiply-adds of one call of BLAS, which cannot be interrupted: some tenths of a second.
LONGEST = 1 << 33
_STEP = 64
_LEAST_ROWS = 16
_ROWS_AT_ONCE = 6  # pieces of any other number of rows leave some that are computed more slowly; measured
_LEAST, _MOST = 128, 448  # columns; measured
_FEW = 64  # columns that are cheaper to compute without packing, a few rows at a time
#: A product so shallow takes less time to compute than to write: tiles of few rows keep to few pages of the result.
_SHALLOW, _SHALLOW_ROWS = 64, 32


def columns_unpacked(rows: int, depth: int) -> int:
    """How many columns a product may have to be computed without packing; 0 when that does not pay."""
    count = UNPACKED // max(1, rows * depth) // _STEP * _STEP
    return min(count, _MOST) if count >= _LEAST and blas.multiplies_unpacked() else 0


def rows_unpacked(depth: int, columns: int) -> int:
    """How many rows a product may have to be computed without packing; 0 when that does not pay."""
    count = UNPACKED // max(1, depth * columns)
    return count if count >= _LEAST_ROWS else 0


def matmul_columns(a: Array, b: Array, out: Array) -> None:
    """a (M, K) @ b (K, N) into out (M, N), in pieces of columns or rows where that is quicker; float32 gains most."""
    count = b.shape[1]
    if count <= _FEW:
        _few_columns(a, b, out)
        return
    if a.shape[1] <= _SHALLOW and a.size * count > UNPACKED and a.dtype == np.float32 and blas.multiplies_unpacked():
        _shallow(a, b, out)
        return
    step = columns_unpacked(*a.shape) if a.dtype == np.float32 else 0
    pieces = count // step if step else 0
    if pieces < 2:
        np.matmul(a, b, out=out)
        return
    done = pieces * step
    np.matmul(a, _pieces(b, pieces, step), out=_pieces(out, pieces, step))
    if done < count:
        np.matmul(a, b[:, done:], out=out[:, done:])


def _shallow(a: Array, b: Array, out: Array) -> None:
    """a @ b of little depth in tiles: written where it is cold, whole columns touch too many pages at once."""
    (rows, depth), columns = a.shape, b.shape[1]
    high, wide = max(1, -(-rows // -(-rows // _SHALLOW_ROWS))), min(_MOST, columns)
    down, across = rows // high * high, columns // wide * wide
    upper = a[:down].reshape(-1, high, depth)
    np.matmul(upper[:, None], _tiles(b[:, :across], depth, wide)[0], out=_tiles(out[:down, :across], high, wide))
    if across < columns:
        np.matmul(upper, b[:, across:], out=_tiles(out[:down, across:], high, columns - across)[:, 0])
    if down < rows:
        np.matmul(a[down:], b, out=out[down:])


def _few_columns(a: Array, b: Array, out: Array) -> None:
    """a @ b with few columns in pieces of rows; as the sum of two products where that makes them small enough."""
    (rows, depth), columns = a.shape, b.shape[1]
    parts = -(-depth * columns * 3 * _ROWS_AT_ONCE // UNPACKED)
    if parts != 2 or depth % 2 or rows < _LEAST_ROWS or a.dtype != np.float32 or not blas.multiplies_unpacked():
        matmul_stack(a, b, out)
        return
    halves = scratch("products of halves", (2, rows, columns), out.dtype)
    matmul_stack(a.reshape(rows, 2, -1).swapaxes(0, 1), b.reshape(2, -1, columns), halves)
    np.add(halves[0], halves[1], out=out)


def matmul_stack(a: Array, b: Array, out: Array) -> None:
    """The products a (…, M, K) @ b (…, K, N) of stacks, with numpy's broadcasting, into out (…, M, N).

    Small matrices, as those of one head of attention, are multiplied in pieces of rows that need no packing. The
    kernels for them want the rows of b contiguous: a transposed b is copied first.
    """
    rows, depth = a.shape[-2:]
    if b.strides[-1] != b.itemsize and rows >= _LEAST_ROWS:
        b = np.ascontiguousarray(b)
    most = rows_unpacked(depth, b.shape[-1])
    if rows <= most or not most or a.dtype != np.float32 or not blas.multiplies_unpacked():
        np.matmul(a, b, out=out)
        return
    even = -(-rows // -(-rows // most))
    step = min(-(-even // _ROWS_AT_ONCE), most // _ROWS_AT_ONCE) * _ROWS_AT_ONCE
    done = rows // step * step
    left, target = _row_pieces(a[..., :done, :], step), _row_pieces(out[..., :done, :], step)
    np.matmul(left, b[..., None, :, :], out=target, order="C")  # all pieces while their b is in the cache
    if done < rows:
        np.matmul(a[..., done:, :], b, out=out[..., done:, :])


def _row_pieces(stack: Array, step: int) -> Array:
    """A stack of matrices (…, R, C) as (…, R / step, step, C); a view."""
    return stack.reshape(*stack.shape[:-2], -1, step, stack.shape[-1])


def _tiles(matrix: Array, high: int, wide: int) -> Array:
    """A matrix (R, N) as (R / high, N / wide, high, wide); a view."""
    row, value = matrix.strides
    shape = (matrix.shape[0] // high, matrix.shape[1] // wide, high, wide)
    return np.lib.stride_tricks.as_strided(matrix, shape, (high * row, wide * value, row, value))


def _pieces(matrix: Array, count: int, step: int) -> Array:
    """The first columns of a matrix (R, N) as (count, R, step); a view."""
    row, value = matrix.strides
    shape = (count, matrix.shape[0], step)
    return np.lib.stride_tricks.as_strided(matrix, shape, (step * value, row, value))


# --- weights laid out for products -------------------------------------------------------------------------------

#: Columns and rows of a panel, as many as a product of a few rows may have to be computed in place.
_WIDE, _DEEP = 64, 768
#: Rows of the input that are multiplied by a panel at a time, measured.
_HIGH = 16
#: Panels that one call multiplies: their products stay in the second-level cache until they are added up.
_PANELS, _FEW_PANELS = 6, 3
#: Of a longer input BLAS packs the weight once for more rows than that costs.
_MOST_ROWS = 256
#: Smaller weights stay in the cache between runs.
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
    """A constant matrix (K, N) for products from the left, kept in panels as small products read them.

    BLAS copies both factors into an order of its own before it multiplies; where the input has few rows, as many as
    a text has tokens, that costs a third of the product. Panels of 64 columns are small enough to be multiplied
    without, a few rows at a time, and are read from memory once. Where the matrix is deeper than a panel, so are
    several products added up. The last panels are filled up with zeros.
    """

    def __init__(self, matrix: Array) -> None:
        self.depth, self.columns = matrix.shape
        blocks = -(-self.depth // _DEEP)
        self._deep = -(-self.depth // blocks)
        count = -(-self.columns // _WIDE)
        at_once = _PANELS if blocks <= 2 else _FEW_PANELS
        panels = aligned((count, blocks, self._deep, _WIDE), matrix.dtype)
        panels[...] = 0
        self._groups: list[Array] = []
        for first in range(0, count, at_once):
            group = panels[first : first + at_once].reshape(blocks, -1, self._deep, _WIDE)  # in the order it is read
            for block, panel in np.ndindex(group.shape[:2]):
                rows, column = block * self._deep, (first + panel) * _WIDE
                part = matrix[rows : rows + self._deep, column : column + _WIDE]
                group[block, panel, : part.shape[0], : part.shape[1]] = part
            self._groups.append(group)

    def product(self, x: Array) -> Array:
        """x (…, K) @ the matrix, of the same type."""
        result = empty((*x.shape[:-1], self.columns), x.dtype)
        source, target = x.reshape(-1, self.depth), result.reshape(-1, self.columns)
        left = self._in_blocks(source)
        at_once = self._groups[0].shape[1] * _WIDE

        def part(index: int) -> None:
            first = index * at_once
            _multiply(left, self._groups[index], target[:, first : first + at_once])

        parallel_for(part, len(self._groups), source.size * self.columns)
        return result

    def _in_blocks(self, source: Array) -> Array:
        """The rows (M, K) as (blocks, M, depth of a block), filled up with zeros where the last block is shorter."""
        blocks, rows = self._groups[0].shape[0], len(source)
        if blocks * self._deep == self.depth:
            return np.ascontiguousarray(source).reshape(rows, blocks, -1).swapaxes(0, 1)
        left = scratch("rows in blocks", (blocks, rows, self._deep), source.dtype)
        for block in range(blocks):
            here = source[:, block * self._deep : (block + 1) * self._deep]
            left[block, :, : here.shape[1]] = here
            left[block, :, here.shape[1] :] = 0
        return left


def _multiply(left: Array, group: Array, target: Array) -> None:
    """Rows (blocks, M, deep) times a group of panels (blocks, panels, deep, wide), added up into its columns (M, N)."""
    blocks, panels = group.shape[:2]
    rows, columns = target.shape
    whole = columns // _WIDE
    places = target[:, : whole * _WIDE].reshape(rows, whole, _WIDE).swapaxes(0, 1)
    if blocks == 1 and whole == panels:
        _by_rows(left, group, places[None])
        return
    products = scratch("products of panels", (blocks, panels, rows, _WIDE), target.dtype)
    _by_rows(left, group, products)
    np.add.reduce(products[:, :whole], axis=0, out=places)
    if whole < panels:
        rest = target[:, whole * _WIDE :]
        np.add.reduce(products[:, whole, :, : rest.shape[1]], axis=0, out=rest)


def _by_rows(left: Array, group: Array, out: Array) -> None:
    """The products of rows with panels into out (blocks, panels, M, wide): panel by panel, some rows at a time."""
    rows = left.shape[1]
    high = min(_HIGH, rows)
    done = rows // high * high
    np.matmul(
        _row_pieces(left[:, None, :done], high), group[:, :, None], out=_row_pieces(out[:, :, :done], high), order="C"
    )
    if done < rows:
        np.matmul(left[:, None, done:], group, out=out[:, :, done:], order="C")


class LaidOut:
    """A constant matrix (K, N) that is laid out when the first input comes that gains from it."""

    def __init__(self, matrix: Array) -> None:
        self._matrix: Array | None = matrix if _is_large(matrix) else None
        self._weight: Weight | None = None

    @property
    def may_pay(self) -> bool:
        """Whether there is an input that gains from it."""
        return self._matrix is not None or self._weight is not None

    def product(self, x: Array) -> Array | None:
        """x (…, K) @ the matrix; None where another way is as quick, or the copy would take too much memory."""
        matrix = self._matrix
        if matrix is not None and pays(x, matrix):
            self._matrix = None
            if _kept.take(matrix.nbytes):
                self._weight = _laid_out(matrix)
        weight = self._weight
        return weight.product(x) if weight is not None and pays(x, weight) else None


def _laid_out(matrix: Array) -> Weight | None:
    """The matrix in panels, whose bytes were taken from what is left; None where there is no memory for them."""
    try:
        weight = Weight(matrix)
    except MemoryError:
        _kept.give_back(matrix.nbytes)
        return None
    weakref.finalize(weight, _kept.give_back, matrix.nbytes)
    return weight


def _is_large(matrix: Array) -> bool:
    """Whether it is read from memory in every run, and in a form that BLAS multiplies where it lies."""
    if matrix.ndim != 2 or matrix.dtype != np.float32 or matrix.nbytes < _LEAST_BYTES or matrix.shape[1] < _WIDE:
        return False
    return blas.multiplies_unpacked()


def pays(x: Array, weight: Array | Weight) -> bool:
    """Whether x @ weight gains from the layout: there are rows to multiply, and not too many."""
    depth = weight.depth if isinstance(weight, Weight) else weight.shape[0]
    return x.dtype == np.float32 and x.ndim > 1 and x.shape[-1] == depth < x.size <= _MOST_ROWS * depth
