"""Depthwise convolution: every channel has its own small kernel, so there is no product of matrices to gain from.

Still BLAS is the quickest way to add up the taps, because numpy would pass over memory twice for each of them. `bands`
takes a few output rows at a time: they are a small banded (Toeplitz) matrix, the same for all bands of a channel,
times the input rows they need, once per column of the kernel and moved by it. `banded` does the same with rows and
columns exchanged and no bands, which wins on the smallest maps. Either multiplies some zeros.
"""

from __future__ import annotations

from math import prod

import numpy as np

from exec.arrays import Array
from exec.kernels.onnx.nn.strategies import L2_BLOCK, Maker, Runner
from exec.kernels.shared.scratch import scratch
from exec.kernels.shared.windows import Window, fill_padded
from exec.threads import PASSES, parallel_for

#: Multiply-adds of a usual product that take as long as one output of a 3×3 kernel.
_COST = 3 * PASSES


def bands(w: Array, bias: Array | None, window: Window) -> Runner:
    """Bands of output rows, each a banded matrix (rows, needed rows × kw) times the shifted inputs."""
    channels, _, kh, kw = w.shape
    stride, spread = window.strides[0], window.dilations[0]
    rows, width = window.output
    band = _band(rows)
    height = window.reach[0]
    need = (band - 1) * stride + (kh - 1) * spread + 1
    matrices = _matrices(w, window, band, need)
    count, rest = divmod(rows, band)
    rest_need = ((rest - 1) * stride + (kh - 1) * spread + 1) * kw
    block = max(1, min(channels, L2_BLOCK // (height * kw * width * w.itemsize)))

    def run(x: Array, out: Array) -> None:
        blocks = -(-channels // block)

        def one(index: int) -> None:
            image, at = divmod(index, blocks)
            part = slice(at * block, min(channels, (at + 1) * block))
            stack = scratch("bands", (part.stop - part.start, height, kw, width), x.dtype)
            _stack(x[image, part], window, stack)
            target = out[image, part]
            channel, line, _, value = stack.strides
            strides = (channel, line * band * stride, width * value, value)
            shape = (len(stack), count, need * kw, width)
            views = np.lib.stride_tricks.as_strided(stack, shape, strides)
            done = count * band
            np.matmul(matrices[part], views, out=target[:, :done].reshape(len(stack), count, band, width))
            if rest:
                last = stack[:, done * stride :].reshape(len(stack), -1, width)[:, :rest_need]
                np.matmul(matrices[part, 0, :rest, :rest_need], last, out=target[:, done:])
            if bias is not None:
                np.add(target, bias[part, None, None], out=target)

        parallel_for(one, x.shape[0] * blocks, out.size * _COST)

    return run


def _matrices(w: Array, window: Window, band: int, need: int) -> Array:
    """The banded matrix of each channel, (channels, 1, rows, needed rows × kw)."""
    channels, _, kh, kw = w.shape
    stride, spread = window.strides[0], window.dilations[0]
    matrices: Array = np.zeros((channels, band, need, kw), w.dtype)
    for row in range(band):
        for i in range(kh):
            matrices[:, row, row * stride + i * spread] = w[:, 0, i]
    return matrices.reshape(channels, 1, band, need * kw)


def _band(rows: int) -> int:
    """How many output rows one matrix makes: few, and without a rest where that can be."""
    for count in (4, 7, 2, 5, 3):
        if rows % count == 0:
            return count
    return min(rows, 4)


def _stack(x: Array, window: Window, stack: Array) -> None:
    """Fill stack (C, padded rows, kw, width) with x (C, H, W) moved and thinned out as each kernel column sees it."""
    top = window.begin[0]
    bottom = max(top, min(stack.shape[1], top + window.sizes[0]))
    stack[:, :top] = 0
    stack[:, bottom:] = 0
    rows = x[:, : bottom - top]
    seen = {tap.index: tap for tap in window.taps(1)}
    for j in range(stack.shape[2]):
        column = stack[:, top:bottom, j]
        tap = seen.get(j)
        if tap is None:
            column[...] = 0
            continue
        column[:, :, : tap.low] = 0
        column[:, :, tap.high :] = 0
        column[:, :, tap.low : tap.high] = rows[:, :, tap.source]


def banded(w: Array, bias: Array | None, window: Window) -> Runner:
    """All rows of a channel times one banded matrix: kh padded rows side by side in, one output row out."""
    channels, _, kh, kw = w.shape
    (sh, sw), (dh, dw) = window.strides, window.dilations
    rows, width = window.output
    height, reach = window.reach
    matrices: Array = np.zeros((channels, kh, reach, width), w.dtype)
    column = np.arange(width)
    for j in range(kw):
        matrices[:, :, column * sw + j * dw, column] = w[:, 0, :, j, None]
    matrices = matrices.reshape(channels, kh * reach, width)
    block = max(1, min(channels, L2_BLOCK // (rows * kh * reach * w.itemsize)))

    def run(x: Array, out: Array) -> None:
        blocks = -(-channels // block)

        def one(index: int) -> None:
            image, at = divmod(index, blocks)
            part = slice(at * block, min(channels, (at + 1) * block))
            count = part.stop - part.start
            frame = scratch("banded.frame", (count, height, reach), x.dtype)
            fill_padded(x[image, part], window, frame)
            lines = scratch("banded.lines", (count, rows, kh, reach), x.dtype)
            strides = (frame.strides[0], frame.strides[1] * sh, frame.strides[1] * dh, frame.itemsize)
            np.copyto(lines, np.lib.stride_tricks.as_strided(frame, lines.shape, strides))
            target = out[image, part]
            np.matmul(lines.reshape(count, rows, kh * reach), matrices[part], out=target)
            if bias is not None:
                np.add(target, bias[part, None, None], out=target)

        parallel_for(one, x.shape[0] * blocks, out.size * _COST)

    return run


def candidates(w: Array, window: Window) -> list[str]:
    """Names of the ways worth measuring for these weights and this window, the best guess first."""
    small = window.output[1] <= 16 and window.reach[1] <= 40 and prod(w.shape[2:]) > 1
    return ["bands", "banded"] if small else ["bands"]


MAKERS: dict[str, Maker] = {"bands": bands, "banded": banded}
