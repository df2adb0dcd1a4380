"""Constant matrices packed for products with few rows, as for the tokens of a text.

BLAS packs both factors before it multiplies; with few rows that costs a third of the product. Panels need no packing:
each is read from memory once and stays in the cache for all rows.
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


class LaidOut:
    """A constant matrix (K, N) that is packed when the first input comes that gains from it."""

    def __init__(self, matrix: Array) -> None:
        self._matrix = matrix if _is_large(matrix) else None
        self._panels: Panels | None = None

    @property
    def may_pay(self) -> bool:
        """Return whether some input can gain from packing."""
        return self._matrix is not None

    def product(self, x: Array) -> Array | None:
        """Return x (…, K) @ the matrix; None where plain BLAS is as fast, or the budget is exhausted."""
        if self._matrix is None or not pays(x, self._matrix):
            return None
        if self._panels is None:
            self._panels = _panels(self._matrix)
            if self._panels is None:
                self._matrix = None  # not tried again
                return None
        return self._panels.product(x)


def _panels(matrix: Array) -> Panels | None:
    """Return the packed matrix, its bytes taken from the budget; None where that is exhausted."""
    size, limits = matrix.nbytes, current_limits()
    if size > limits.left or not _kept.reserve(size):
        return None
    limits.reserve(size)
    try:
        panels = Panels(matrix)
    except MemoryError:
        _kept.give_back(size)
        return None
    weakref.finalize(panels, _kept.give_back, size)
    return panels


def _is_large(matrix: Array) -> bool:
    """Return whether the matrix exceeds the cache and has a layout that BLAS reads directly."""
    if matrix.ndim != 2 or matrix.dtype != np.float32 or matrix.nbytes < _LEAST_BYTES or matrix.shape[1] < _WIDE:
        return False
    return blas.multiplies_unpacked()


def pays(x: Array, matrix: Array) -> bool:
    """Return whether x @ matrix gains from packing: some rows, but not too many."""
    depth = len(matrix)
    return x.dtype == np.float32 and x.ndim > 1 and x.shape[-1] == depth < x.size <= _MOST_ROWS * depth
