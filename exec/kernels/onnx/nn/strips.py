"""Convolution of few channels over large maps: strips of the input in which every window is one contiguous matrix.

A strip is some tens of columns wide. It holds each input row once per kernel column, shifted by it, row after row; so
the rows that one output row needs are adjacent, those of the next begin one row later, and each is the right factor of
a product small enough for BLAS to compute without packing. Each value is copied once per kernel column, where im2col
copies once per tap.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnx_workbench.exec.kernels.shared import blas
from onnx_workbench.exec.kernels.shared.products import matmul_stack, rows_unpacked
from onnx_workbench.exec.kernels.shared.scratch import scratch
from onnx_workbench.exec.kernels.shared.windows import Window
from onnx_workbench.exec.kernels.threads import parallel_for, pieces
from onnx_workbench.exec.values.arrays import Array

_Runner = Callable[[Array, Array], None]

#: Strips of one band of rows stay in the L2 cache.
_BAND_BYTES = 1 << 20
#: Columns of a strip: BLAS computes 16 at a time, and gains nothing beyond 64.
_LEAST, _MOST, _AT_ONCE = 24, 64, 16
#: On narrower maps copies and calls cost as much as they save.
_LEAST_WIDTH = 48


def strips(w: Array, bias: Array | None, window: Window) -> _Runner:
    """Return a runner for weights (M, C, kh, kw) whose rows are not dilated; see `strategies`."""
    outputs, channels, kh, kw = w.shape
    rows, width = window.output
    strip = columns(window)
    matrix = np.ascontiguousarray(w.transpose(0, 2, 3, 1)).reshape(outputs, -1)
    stride, work = window.strides[0], w.size * rows * width
    band = -(-rows // max(bands(channels, kw, window), min(rows, pieces(work))))
    count = -(-rows // band)

    def run(x: Array, out: Array) -> None:
        def one(index: int) -> None:
            image, at = divmod(index, count)
            first, last = at * band, min(rows, (at + 1) * band)
            height = (last - first - 1) * stride + kh
            lines = scratch("strips", (width // strip, height, kw, channels, strip), x.dtype)
            _fill(x[image], window, first * stride, lines)
            target = out[image, :, first:last]
            places = target.reshape(outputs, last - first, -1, strip).transpose(2, 1, 0, 3)
            matmul_stack(matrix, _windows(lines, last - first, kh, stride), places)
            if bias is not None:
                np.add(target, bias[:, None, None], out=target)

        parallel_for(one, x.shape[0] * count, work * x.shape[0])

    return run


def fits(w: Array, window: Window) -> bool:
    """Return whether this way may be quickest for float32 weights: it may for few channels on wide maps."""
    strip = _columns(window.output[1])
    if window.dilations[0] > 1 or window.output[1] < _LEAST_WIDTH or not strip or w.dtype != np.float32:
        return False
    return rows_unpacked(w[0].size, strip) > 0 and blas.multiplies_unpacked()


def copies(channels: int, kw: int, window: Window) -> int:
    """Return the number of copies into strips: one for each kernel column, strip and band."""
    return kw * (window.output[1] // columns(window)) * bands(channels, kw, window)


def columns(window: Window) -> int:
    """Return the columns of a strip."""
    return _columns(window.output[1]) or window.output[1]


def bands(channels: int, kw: int, window: Window) -> int:
    """Return the number of bands of rows whose strips stay in the L2 cache."""
    rows, width = window.output
    most = max(1, _BAND_BYTES // (kw * channels * width * window.strides[0] * np.dtype(np.float32).itemsize))
    return -(-rows // most)


def _columns(width: int) -> int:
    """Return the columns per strip for a map width: as BLAS computes best; 0 if there is none."""
    parts = [width // count for count in range(1, width // _LEAST + 1) if width % count == 0]
    return max((n for n in parts if n <= _MOST), key=lambda n: (n / -(-n // _AT_ONCE), n), default=0)


def _windows(lines: Array, rows: int, kh: int, stride: int) -> Array:
    """Return the inputs of each output row, as matrices (strips, rows, kh · kw · C, columns); a view."""
    count, _, kw, channels, columns = lines.shape
    strip, line, *_, row, value = lines.strides
    shape = (count, rows, kh * kw * channels, columns)
    return np.lib.stride_tricks.as_strided(lines, shape, (strip, line * stride, row, value), writeable=False)


def _fill(image: Array, window: Window, top: int, lines: Array) -> None:
    """Copy the rows from `top` on, in padded coordinates, to lines (strips, rows, kw, C, columns); zeros outside."""
    count, height, kw, _, columns = lines.shape
    (size_y, size_x), stride = window.sizes, window.strides[1]
    top -= window.begin[0]
    low = min(height, max(0, -top))
    high = max(low, min(height, size_y - top))
    lines[:, :low] = 0
    lines[:, high:] = 0
    rows = image[:, top + low : top + high].swapaxes(0, 1)
    for strip, tap in np.ndindex(count, kw):
        begin = strip * columns * stride + tap * window.dilations[1] - window.begin[1]
        left = min(columns, max(0, -(begin // stride)))
        right = max(left, min(columns, (size_x - 1 - begin) // stride + 1))
        target, first = lines[strip, low:high, tap], begin + left * stride
        target[..., :left] = 0
        target[..., right:] = 0
        target[..., left:right] = rows[..., first : first + (right - left) * stride : stride]
