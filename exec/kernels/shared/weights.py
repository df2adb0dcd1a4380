"""Constant matrices packed for products with few rows, as for the tokens of a text.

BLAS packs both factors before it multiplies; with few rows that costs a third of the product. Two layouts need no
packing. `Panels` suits any input: each panel is read from memory once and stays in the cache for all rows. `Rows` suits
an input as large as one panel: then the input stays in the cache, and the matrix is read during the product, not
before.
"""

from __future__ import annotations

import threading
import weakref

import numpy as np

from onnx_workbench.exec.kernels.shared import blas
from onnx_workbench.exec.kernels.shared.products import row_pieces
from onnx_workbench.exec.kernels.shared.scratch import aligned, copy_transposed, scratch
from onnx_workbench.exec.kernels.threads import parallel_for
from onnx_workbench.exec.values.arrays import Array, empty
from onnx_workbench.exec.values.limits import current_limits

#: Columns and rows of a panel: the most that a product of a few rows computes without packing.
_WIDE, _DEEP = 64, 768
#: Rows that are multiplied by a panel at a time, measured.
_HIGH = 16
#: Panels per call: their products stay in the second-level cache until they are summed.
_PANELS, _FEW_PANELS = 6, 3
#: An input of so many rows and up to `_WIDE` is faster as a zero-padded panel, measured.
_LEAST_FULL = 52
#: For longer inputs BLAS's packing is amortized over more rows.
_MOST_ROWS = 256
#: Smaller weights stay in the cache between runs.
_LEAST_BYTES = 1 << 20
#: Budget in bytes for all packed weights of the process.
_KEPT_BYTES = 1 << 30


class _Allowance:
    """A shared budget of bytes. Any thread."""

    def __init__(self, size: int) -> None:
        self.left = size
        self._lock = threading.Lock()

    def reserve(self, size: int) -> bool:
        """Take bytes from the budget; returns whether there were enough."""
        with self._lock:
            if size > self.left:
                return False
            self.left -= size
            return True

    def give_back(self, size: int) -> None:
        """Return bytes to the budget."""
        with self._lock:
            self.left += size


_kept = _Allowance(_KEPT_BYTES)


def laid_out_bytes() -> int:
    """Return the bytes of all packed matrices of the process."""
    return _KEPT_BYTES - _kept.left


def _blocks(depth: int) -> tuple[int, int]:
    """Return the number of blocks for a sum of this depth, and the depth of each; the last may be smaller."""
    blocks = -(-depth // _DEEP)
    return blocks, -(-depth // blocks)


class Panels:
    """Packed constant matrix (K, N) for products from the left, in panels.

    Panels of 64 columns are small enough to be multiplied without packing, a few rows at a time, and are read from
    memory once. A matrix deeper than a panel takes several products, which are summed. The last panels are padded with
    zeros.
    """

    def __init__(self, matrix: Array) -> None:
        self.depth, self.columns = matrix.shape
        blocks, self._deep = _blocks(self.depth)
        count = -(-self.columns // _WIDE)
        at_once = _PANELS if blocks <= 2 else _FEW_PANELS
        panels = aligned((count, blocks, self._deep, _WIDE), matrix.dtype)
        self._groups: list[Array] = []
        for first in range(0, count, at_once):
            group = panels[first : first + at_once].reshape(blocks, -1, self._deep, _WIDE)  # in the order it is read
            for block, panel in np.ndindex(group.shape[:2]):
                rows, column = block * self._deep, (first + panel) * _WIDE
                _fill_panel(group[block, panel], matrix[rows : rows + self._deep, column : column + _WIDE])
            self._groups.append(group)

    @staticmethod
    def size(matrix: Array) -> int:
        """Return the bytes of the packed copy."""
        return matrix.nbytes

    def product(self, x: Array) -> Array:
        """Return x (…, K) @ the matrix, of the same type."""
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
        """Split the rows (M, K) into (blocks, M, depth of a block), the last block padded with zeros."""
        blocks, rows = self._groups[0].shape[0], len(source)
        if blocks * self._deep == self.depth:
            return np.ascontiguousarray(source).reshape(rows, blocks, -1).swapaxes(0, 1)
        left = scratch("rows in blocks", (blocks, rows, self._deep), source.dtype)
        for block in range(blocks):
            here = source[:, block * self._deep : (block + 1) * self._deep]
            left[block, :, : here.shape[1]] = here
            left[block, :, here.shape[1] :] = 0
        return left


def _fill_panel(panel: Array, part: Array) -> None:
    """Copy a part of the matrix to the upper left corner of its panel, and zeros to the rest."""
    rows, columns = part.shape
    if part.strides[1] == part.itemsize:
        panel[:rows, :columns] = part
    else:
        copy_transposed(part.T, panel[:rows, :columns])
    panel[:rows, columns:] = 0
    panel[rows:] = 0


def _multiply(left: Array, group: Array, target: Array) -> None:
    """Multiply rows (blocks, M, deep) by a group of panels (blocks, panels, deep, wide), summed into its columns (M,
    N).
    """
    blocks, panels = group.shape[:2]
    rows, columns = target.shape
    whole = columns // _WIDE
    places = target[:, : whole * _WIDE].reshape(rows, whole, _WIDE).swapaxes(0, 1)
    if blocks == 1 and whole == panels:
        _by_rows(left[:, None], group, places[None])
        return
    products = scratch("products of panels", (blocks, panels, rows, _WIDE), target.dtype)
    _by_rows(left[:, None], group, products)
    np.add.reduce(products[:, :whole], axis=0, out=places)
    if whole < panels:
        rest = target[:, whole * _WIDE :]
        np.add.reduce(products[:, whole, :, : rest.shape[1]], axis=0, out=rest)


def _by_rows(left: Array, panels: Array, out: Array) -> None:
    """Multiply rows (…, M, deep) by panels (…, deep, wide) into out (…, M, wide), some rows at a time."""
    rows = left.shape[-2]
    high = min(_HIGH, rows)
    done = rows // high * high
    np.matmul(
        row_pieces(left[..., :done, :], high), panels[..., None, :, :], row_pieces(out[..., :done, :], high), order="C"
    )
    if done < rows:
        np.matmul(left[..., done:, :], panels, out[..., done:, :], order="C")


class Rows:
    """Transposed constant matrix (K, N) for products from the left; not copied if stored so already.

    The transposed input is the panel, through which the rows of the transposed matrix are streamed; that gives the
    transposed result, one part at a time.
    """

    #: Result columns computed before they are transposed into the output, from the second-level cache.
    _AT_ONCE = 384
    #: Padding of the rows computed first: rows a power of two apart map to the same cache sets.
    _APART = 8

    def __init__(self, matrix: Array) -> None:
        self.depth, self.columns = matrix.shape
        blocks, deep = _blocks(self.depth)
        if self.size(matrix):
            rows = aligned((self.columns, blocks * deep), matrix.dtype)
            rows[:, self.depth :] = 0
            copy_transposed(matrix, rows[:, : self.depth])
        else:
            rows = matrix.T
        self._rows = rows.reshape(self.columns, blocks, deep).swapaxes(0, 1)

    @staticmethod
    def size(matrix: Array) -> int:
        """Return the bytes of the packed copy."""
        blocks, deep = _blocks(len(matrix))
        return 0 if matrix.T.flags.c_contiguous and blocks * deep == len(matrix) else matrix.nbytes

    def product(self, x: Array) -> Array:
        """Return x (…, K), of no more than `_WIDE` rows, @ the matrix, of the same type."""
        result = empty((*x.shape[:-1], self.columns), x.dtype)
        source, target = x.reshape(-1, self.depth), result.reshape(-1, self.columns)
        panels = self._panels(source)

        def part(index: int) -> None:
            here = slice(index * self._AT_ONCE, (index + 1) * self._AT_ONCE)
            rows = self._rows[:, here]
            shape = (*rows.shape[:2], _WIDE + self._APART)
            products = scratch("products of rows", shape, x.dtype)[..., :_WIDE]
            _by_rows(rows, panels, products)
            total = products[0]
            for block in products[1:]:
                np.add(total, block, total)
            target[:, here] = total[:, : len(source)].T

        parallel_for(part, -(-self.columns // self._AT_ONCE), source.size * self.columns)
        return result

    def _panels(self, source: Array) -> Array:
        """Split the rows (M, K) into panels (blocks, depth of a block, wide), zero-padded."""
        blocks, _, deep = self._rows.shape
        panels = scratch("input as panels", (blocks * deep, _WIDE), source.dtype)
        panels[: self.depth, : len(source)] = source.T
        panels[: self.depth, len(source) :] = 0
        panels[self.depth :] = 0
        return panels.reshape(blocks, deep, _WIDE)


class LaidOut:
    """A constant matrix (K, N) that is packed when the first input comes that gains from it."""

    def __init__(self, matrix: Array) -> None:
        self._matrix = matrix if _is_large(matrix) else None
        self._layouts: dict[type[Panels | Rows], Panels | Rows | None] = {}  # None: the budget was exhausted

    @property
    def may_pay(self) -> bool:
        """Return whether some input can gain from packing."""
        return self._matrix is not None

    def product(self, x: Array) -> Array | None:
        """Return x (…, K) @ the matrix; None where plain BLAS is as fast, or the budget is exhausted."""
        if self._matrix is None or not pays(x, self._matrix):
            return None
        rows = x.size // x.shape[-1]
        for kind in (Rows, Panels) if _LEAST_FULL <= rows <= _WIDE else (Panels,):
            if kind not in self._layouts:
                self._layouts[kind] = _laid_out(kind, self._matrix)
            layout = self._layouts[kind]
            if layout is not None:
                return layout.product(x)
        return None


def _laid_out(kind: type[Panels | Rows], matrix: Array) -> Panels | Rows | None:
    """Return the packed matrix, its bytes taken from the budget; None where that is exhausted."""
    size, limits = kind.size(matrix), current_limits()
    if size > limits.left or not _kept.reserve(size):
        return None
    limits.reserve(size)
    try:
        layout = kind(matrix)
    except MemoryError:
        _kept.give_back(size)
        return None
    weakref.finalize(layout, _kept.give_back, size)
    return layout


def _is_large(matrix: Array) -> bool:
    """Return whether the matrix exceeds the cache and has a layout that BLAS reads directly."""
    if matrix.ndim != 2 or matrix.dtype != np.float32 or matrix.nbytes < _LEAST_BYTES or matrix.shape[1] < _WIDE:
        return False
    return blas.multiplies_unpacked()


def pays(x: Array, matrix: Array) -> bool:
    """Return whether x @ matrix gains from packing: some rows, but not too many."""
    depth = len(matrix)
    return x.dtype == np.float32 and x.ndim > 1 and x.shape[-1] == depth < x.size <= _MOST_ROWS * depth
