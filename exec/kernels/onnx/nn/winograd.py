"""Winograd convolution for kernels of three rows and stride 1: along the rows alone, or in both directions.

F(2×2, 3×3) computes output tiles of 2×2 from input tiles of 4×4 in three steps: input and weights are transformed by
additions alone, 16 matrix products in between replace the nine of the direct form for each four outputs (2.25 times
fewer multiplications), and the result is transformed back. F(2, 3) along the rows alone makes two output rows of four
input rows: 1.5 times fewer multiplications, but a third of the additions, over whole rows, and as exact as the direct
form. It wins up to about 256 channels.

Only the smallest tiles are used: larger ones multiply less still but lose 1 to 3 decimal digits.

Tiles are stored one after the other with as many extra columns as the kernel needs to the right, so that the right
neighbour is the next element and every addition runs over long contiguous memory.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnx_workbench.exec.kernels.shared import blas
from onnx_workbench.exec.kernels.shared.scratch import scratch
from onnx_workbench.exec.kernels.shared.windows import Window
from onnx_workbench.exec.kernels.threads import parallel_for, pieces
from onnx_workbench.exec.values.arrays import Array

_Runner = Callable[[Array, Array], None]

_KERNEL = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], np.float64)
#: Transformed input and products of one band should roughly fit L2, but be no smaller than the weights, which every
#: band reads again. Along rows alone there are fewer products, which need more columns to be fast.
_BAND_BYTES, _ROWS_BAND_BYTES, _MOST_BAND_BYTES = 3 << 20, 8 << 20, 16 << 20
#: Bytes of products that are combined at a time, so that each addition finds them in the L2 cache.
_JOIN_BYTES = 1 << 19
#: Weights that are transformed at a time, in float64, so that they stay in L2.
_WEIGHTS_AT_ONCE = 1 << 15
#: Bytes of an element, always float32.
_ITEM = 4


def _even_bands(tile_rows: int, row_bytes: int, most_bytes: int, workers: int) -> tuple[int, int]:
    """Return tile rows per band and number of bands: of equal height, at least one for each worker."""
    band = max(1, min(tile_rows, most_bytes // row_bytes))
    band = -(-tile_rows // max(workers, -(-tile_rows // band)))
    return band, -(-tile_rows // band)


def winograd(w: Array, bias: Array | None, window: Window) -> _Runner:
    """Create a runner for float32 weights (M, C, 3, 3); see `strategies`."""
    outputs, channels = w.shape[:2]
    kernels = _transformed(np.kron(_KERNEL, _KERNEL), w)
    rows, width = window.output
    tile_rows, line = _tiles(window)
    band, bands = _bands(outputs, channels, window, pieces(outputs * channels * rows * width * 4))

    def run(x: Array, out: Array) -> None:
        def one(index: int) -> None:
            image, at = divmod(index, bands)
            first, last = at * band, min(tile_rows, (at + 1) * band)
            count = (last - first) * line
            phases = scratch("winograd.phases", (2, 2, channels, last - first + 1, line), x.dtype)
            _split(x[image], window, 2 * first, phases)
            tiles = _transform_input(phases.reshape(2, 2, channels, -1), count, line)
            products = scratch("winograd.products", (16, outputs, count), x.dtype)
            np.matmul(kernels, tiles, out=products)
            _transform_output(products, bias, out[image, :, 2 * first : 2 * last], line)

        parallel_for(one, x.shape[0] * bands, out.size * channels * 4)

    return run


def parts(outputs: int, channels: int, window: Window) -> tuple[int, int]:
    """Return the number of bands, and of tiles with those beyond the map, on one thread."""
    tile_rows, line = _tiles(window)
    return _bands(outputs, channels, window, 1)[1], tile_rows * line


def _tiles(window: Window) -> tuple[int, int]:
    """Return rows of tiles, and how many a row has: one more than the map."""
    rows, width = window.output
    return -(-rows // 2), -(-width // 2) + 1


def _bands(outputs: int, channels: int, window: Window, workers: int) -> tuple[int, int]:
    """Return tile rows per band and number of bands."""
    tile_rows, line = _tiles(window)
    weights = 16 * outputs * channels * _ITEM
    most = max(_BAND_BYTES, min(weights, _MOST_BAND_BYTES))
    return _even_bands(tile_rows, 16 * (outputs + channels) * line * _ITEM, most, workers)


def winograd_rows(w: Array, bias: Array | None, window: Window) -> _Runner:
    """Create a runner for float32 weights (M, C, 3, kw) that saves along the rows alone; see `strategies`."""
    outputs, channels, _, taps = w.shape
    kernels = _transformed(np.kron(_KERNEL, np.eye(taps)), w).reshape(4, taps, outputs, channels)
    rows, width = window.output
    line, step = window.reach[1], window.dilations[1]
    ahead = line - width
    tile_rows = -(-rows // 2)
    work = outputs * channels * rows * width * 2 * taps
    band, bands = _rows_bands(outputs, channels, window, pieces(work))

    def run(x: Array, out: Array) -> None:
        def one(index: int) -> None:
            image, at = divmod(index, bands)
            first, last = at * band, min(tile_rows, (at + 1) * band)
            count = (last - first) * line
            phases = scratch("winograd.phases", (2, channels, last - first + 1, line), x.dtype)
            _split_rows(x[image], window, 2 * first, phases)
            tiles = _transform_rows(phases.reshape(2, channels, -1), count, line, ahead)
            products = scratch("winograd.products", (4, outputs, count), x.dtype)
            np.matmul(kernels[:, 0], tiles[..., :count], out=products)
            for tap in range(1, taps):
                for tile, kernel, product in zip(tiles, kernels[:, tap], products, strict=True):
                    blas.gemm_add(kernel, tile[:, tap * step : tap * step + count], product)
            _join_rows(products, bias, out[image, :, 2 * first : 2 * last], line)

        parallel_for(one, x.shape[0] * bands, work * x.shape[0])

    return run


def rows_parts(outputs: int, channels: int, window: Window) -> tuple[int, int, int]:
    """Return the number of bands, of tiles with those beyond the map, and of parts that a band is joined in."""
    band, bands = _rows_bands(outputs, channels, window, 1)
    line = window.reach[1]
    return bands, -(-window.output[0] // 2) * line, -(-outputs // _joined(band * line))


def _rows_bands(outputs: int, channels: int, window: Window, workers: int) -> tuple[int, int]:
    """Return tile rows per band and number of bands."""
    row_bytes = 4 * (outputs + channels) * window.reach[1] * _ITEM
    return _even_bands(-(-window.output[0] // 2), row_bytes, _ROWS_BAND_BYTES, workers)


def _joined(tiles: int) -> int:
    """Return how many outputs of a band are joined at a time."""
    return max(1, _JOIN_BYTES // (4 * tiles * _ITEM))


def _transformed(matrix: Array, w: Array) -> Array:
    """Multiply the kernels of w (M, C, kh, kw) by a matrix (T, kh × kw) in float64, some outputs at once: (T, M, C)."""
    outputs, channels = w.shape[:2]
    result = np.empty((len(matrix), outputs, channels), w.dtype)
    step = max(1, _WEIGHTS_AT_ONCE // max(1, w[0].size))
    for first in range(0, outputs, step):
        taps = w[first : first + step].reshape(-1, matrix.shape[1]).T.astype(np.float64, order="C")
        result[:, first : first + step] = np.matmul(matrix, taps).reshape(len(matrix), -1, channels)
    return result


def _split_rows(image: Array, window: Window, top: int, phases: Array) -> None:
    """Write the rows from `top` on, in padded coordinates, into planes (2, C, rows, reach) of even and odd rows."""
    before = window.begin[1]
    after = min(phases.shape[3], before + window.sizes[1])
    phases[..., :before] = 0
    phases[..., after:] = 0
    for a in range(2):
        low, high, source = _inside(top + a - window.begin[0], window.sizes[0], phases.shape[2])
        plane = phases[a]
        plane[:, :low] = 0
        plane[:, high:] = 0
        plane[:, low:high, before:after] = image[:, source, : after - before]


def _transform_rows(phases: Array, count: int, line: int, ahead: int) -> Array:
    """B^T d for all tiles: (2, C, L + line) phases to (4, C, L + ahead), zeros behind the last."""
    tiles = scratch("winograd.tiles", (4, phases.shape[1], count + ahead), phases.dtype)
    tiles[..., count:] = 0
    target = tiles[..., :count]
    here, below = phases[..., :count], phases[..., line : line + count]
    np.subtract(here[0], below[0], out=target[0])
    np.add(here[1], below[0], out=target[1])
    np.subtract(below[0], here[1], out=target[2])
    np.subtract(here[1], below[1], out=target[3])
    return tiles


def _join_rows(products: Array, bias: Array | None, out: Array, line: int) -> None:
    """A^T m for all tiles (4, M, L), written to the rows of `out` (M, rows, width); a few outputs at a time."""
    outputs, count = products.shape[1:]
    height, width = out.shape[1:]
    step = _joined(count)
    for start in range(0, outputs, step):
        part = slice(start, start + step)
        zero, one, two, three = products[:, part].reshape(4, -1, count // line, line)
        if bias is not None:
            np.add(one, bias[part, None, None], out=one)
        np.add(zero, one, out=zero)
        np.subtract(one, two, out=one)
        even, odd = -(-height // 2), height // 2
        np.add(zero[:, :even, :width], two[:, :even, :width], out=out[part, 0::2])
        np.subtract(one[:, :odd, :width], three[:, :odd, :width], out=out[part, 1::2])


def _split(image: Array, window: Window, top: int, phases: Array) -> None:
    """Write the rows from `top` on, in padded coordinates, into planes of even and odd rows and columns."""
    for a in range(2):
        rows = _inside(top + a - window.begin[0], window.sizes[0], phases.shape[3])
        for b in range(2):
            columns = _inside(b - window.begin[1], window.sizes[1], phases.shape[4])
            plane = phases[a, b]
            plane[:, : rows[0]] = 0
            plane[:, rows[1] :] = 0
            plane[:, :, : columns[0]] = 0
            plane[:, :, columns[1] :] = 0
            plane[:, rows[0] : rows[1], columns[0] : columns[1]] = image[:, rows[2], columns[2]]


def _inside(offset: int, size: int, count: int) -> tuple[int, int, slice]:
    """Return which of `count` positions offset, offset + 2, … lie in range(size), and where they are."""
    low = min(count, max(0, -(offset // 2)))
    high = max(low, min(count, (size - 1 - offset) // 2 + 1))
    first = low * 2 + offset
    return low, high, slice(first, first + 2 * (high - low), 2) if high > low else slice(0, 0)


def _transform_input(phases: Array, count: int, line: int) -> Array:
    """B^T d B for all tiles: (2, 2, C, L + line) phases to (16, C, L)."""
    channels = phases.shape[2]
    half = scratch("winograd.half", (4, 2, channels, count + 1), phases.dtype)
    half[..., count] = 0
    here, below = phases[..., :count], phases[..., line : line + count]
    np.subtract(here[0], below[0], out=half[0, ..., :count])
    np.add(here[1], below[0], out=half[1, ..., :count])
    np.subtract(below[0], here[1], out=half[2, ..., :count])
    np.subtract(here[1], below[1], out=half[3, ..., :count])
    tiles = scratch("winograd.tiles", (4, 4, channels, count), phases.dtype)
    even, odd = half[:, 0, :, :count], half[:, 1, :, :count]
    next_even, next_odd = half[:, 0, :, 1:], half[:, 1, :, 1:]
    np.subtract(even, next_even, out=tiles[:, 0])
    np.add(odd, next_even, out=tiles[:, 1])
    np.subtract(next_even, odd, out=tiles[:, 2])
    np.subtract(odd, next_odd, out=tiles[:, 3])
    return tiles.reshape(16, channels, count)


def _transform_output(products: Array, bias: Array | None, out: Array, line: int) -> None:
    """A^T m A for all tiles, written to the rows of `out` (M, rows, width)."""
    outputs, count = products.shape[1:]
    grid = products.reshape(4, 4, outputs, count)
    if bias is not None:  # the middle product counts once in each of the four outputs of a tile
        np.add(grid[1, 1], bias[:, None], out=grid[1, 1])
    rows = scratch("winograd.rows", (2, 4, outputs, count), products.dtype)
    np.add(grid[0], grid[1], out=rows[0])
    np.add(rows[0], grid[2], out=rows[0])
    np.subtract(grid[1], grid[2], out=rows[1])
    np.subtract(rows[1], grid[3], out=rows[1])
    sums = grid[0, :2]  # no longer needed
    differences = grid[1, :2]
    np.add(rows[:, 1], rows[:, 2], out=sums)
    np.subtract(rows[:, 1], rows[:, 2], out=differences)
    for a in range(2):
        target = out[:, a::2]
        height = target.shape[1]
        even, odd = target[:, :, 0::2], target[:, :, 1::2]
        shape = (outputs, count // line, line)
        np.add(
            sums[a].reshape(shape)[:, :height, : even.shape[2]],
            rows[a, 0].reshape(shape)[:, :height, : even.shape[2]],
            out=even,
        )
        np.subtract(
            differences[a].reshape(shape)[:, :height, : odd.shape[2]],
            rows[a, 3].reshape(shape)[:, :height, : odd.shape[2]],
            out=odd,
        )
