"""Depthwise convolution: every channel has its own small kernel, so there is no large matrix product.

Still BLAS is the fastest way to add up the taps, because numpy would pass over memory twice for each. `bands` computes
a few output rows at a time by a small banded (Toeplitz) matrix, the same for all bands of a channel, times the input
rows they need, once per kernel column, shifted by it. `two_sided` multiplies a whole small map from the left, which
sums along columns, and then from the right, which sums along rows; it copies nothing.

Both multiply by structural zeros, which is wrong for NaN or infinity; then the taps are added one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, prod

import numpy as np

from onnx_workbench.exec.kernels.onnx.nn.strategies import L2_BLOCK, Maker, Runner
from onnx_workbench.exec.kernels.shared.products import matmul_stack
from onnx_workbench.exec.kernels.shared.scratch import scratch
from onnx_workbench.exec.kernels.shared.windows import Tap, Window, padded, windows_of
from onnx_workbench.exec.kernels.threads import PASSES, parallel_for
from onnx_workbench.exec.values.arrays import Array

#: Multiply-adds of an ordinary product that take as long as one output of a 3×3 kernel.
_COST = 3 * PASSES

#: Maps of two rows or more and up to so many columns are quicker multiplied from both sides where that takes up to so
#: many multiply-adds a channel: on 152 maps of 1 to 40 rows and 4 to 80 columns that takes 3 % longer than the quicker
#: of both ways in the geometric mean, with the AVX-512 and with the AVX2 kernels of OpenBLAS (Zen 5).
_NARROW, _SMALL = 40, 70_000


def _by_blocks(
    fill: Callable[[Array, slice, Array], None], w: Array, bias: Array | None, window: Window, block: int
) -> Runner:
    """Run fill(x, channels, out), which convolves some channels of one image, for blocks of channels."""
    channels = len(w)
    blocks = -(-channels // block)

    def run(x: Array, out: Array) -> None:
        def one(index: int) -> None:
            image, at = divmod(index, blocks)
            part = slice(at * block, min(channels, (at + 1) * block))
            source, target = x[image, part], out[image, part]
            fill(source, part, target)
            values = target.reshape(-1)
            if not isfinite(np.dot(values, values)):
                _add_taps(source, w[part, 0], window, target)
            if bias is not None:
                np.add(target, bias[part, None, None], out=target)

        if len(x) * blocks == 1:
            one(0)
        else:
            parallel_for(one, len(x) * blocks, out.size * _COST)

    return run


def _add_taps(x: Array, w: Array, window: Window, out: Array) -> None:
    """Convolve x (C, H, W) with w (C, kh, kw) tap by tap."""
    views = windows_of(padded(x[None], window), window)[0]
    out[...] = 0
    for tap in np.ndindex(w.shape[1:]):
        np.add(out, views[:, *tap] * w[:, *tap, None, None], out=out)


def bands(w: Array, bias: Array | None, window: Window) -> Runner:
    """Convolve bands of output rows by a banded matrix (rows, needed rows × kw) times the shifted inputs."""
    channels, _, kh, kw = w.shape
    stride, spread = window.strides[0], window.dilations[0]
    rows, width = window.output
    band = _band(rows)
    height = window.reach[0]
    need = (band - 1) * stride + (kh - 1) * spread + 1
    matrices = _matrices(w, window, band, need)
    count, rest = divmod(rows, band)
    done = count * band
    rest_need = ((rest - 1) * stride + (kh - 1) * spread + 1) * kw

    def fill(x: Array, part: slice, out: Array) -> None:
        stack = scratch("bands", (len(x), height, kw, width), x.dtype)
        _stack(x, window, stack)
        channel, line, _, value = stack.strides
        strides = (channel, line * band * stride, width * value, value)
        views = np.lib.stride_tricks.as_strided(stack, (len(x), count, need * kw, width), strides)
        np.matmul(matrices[part], views, out=out[:, :done].reshape(len(x), count, band, width))
        if rest:
            last = stack[:, done * stride :].reshape(len(x), -1, width)[:, :rest_need]
            np.matmul(matrices[part, 0, :rest, :rest_need], last, out=out[:, done:])

    block = max(1, min(channels, L2_BLOCK // (height * kw * width * w.itemsize)))
    return _by_blocks(fill, w, bias, window, block)


def _matrices(w: Array, window: Window, band: int, need: int) -> Array:
    """Return the banded matrix of each channel, (channels, 1, rows, needed rows × kw)."""
    channels, _, kh, kw = w.shape
    stride, spread = window.strides[0], window.dilations[0]
    matrices: Array = np.zeros((channels, band, need, kw), w.dtype)
    for row in range(band):
        for i in range(kh):
            matrices[:, row, row * stride + i * spread] = w[:, 0, i]
    return matrices.reshape(channels, 1, band, need * kw)


def _band(rows: int) -> int:
    """Return the number of output rows per matrix: few, and dividing the height where possible."""
    for count in (4, 7, 2, 5, 3):
        if rows % count == 0:
            return count
    return min(rows, 4)


def _stack(x: Array, window: Window, stack: Array) -> None:
    """Fill stack (C, padded rows, kw, width) with x (C, H, W) shifted and strided as each kernel column sees it."""
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


def two_sided(w: Array, bias: Array | None, window: Window) -> Runner:
    """Multiply each map by two matrices: one sums along columns per channel, the other shifts by the kernel's columns.

    The second is the same for all channels, so that it is one product for all of them.
    """
    channels, _, _, kw = w.shape
    rows, width = window.output
    height, length = window.sizes
    downs: Array = np.zeros((rows, height, channels, kw), w.dtype)
    for tap in window.taps(0):
        downs[_places(tap)] = w[:, 0, tap.index]
    downs = np.ascontiguousarray(downs.transpose(2, 0, 3, 1)).reshape(channels, rows * kw, height)
    moves: Array = np.zeros((kw, length, width), w.dtype)
    for tap in window.taps(1):
        moves[tap.index].T[_places(tap)] = 1
    moves = moves.reshape(kw * length, width)

    def fill(x: Array, part: slice, out: Array) -> None:
        sums = scratch("two_sided", (len(x), rows * kw, length), x.dtype)
        np.matmul(downs[part], x, out=sums)
        matmul_stack(sums.reshape(-1, kw * length), moves, out.reshape(-1, width))

    block = max(1, min(channels, L2_BLOCK // (rows * kw * length * w.itemsize)))
    return _by_blocks(fill, w, bias, window, block)


def _places(tap: Tap) -> tuple[Array, Array]:
    """Return the outputs that see a tap, and the inputs they see there."""
    return np.arange(tap.low, tap.high), np.arange(tap.source.start, tap.source.stop, tap.source.step)


def candidates(w: Array, window: Window) -> list[str]:
    """Return the name of the quickest way for these weights and this window."""
    (height, length), (rows, width) = window.sizes, window.output
    small = height > 1 and length <= _NARROW and rows * w.shape[3] * length * (height + width) <= _SMALL
    return ["two_sided"] if small and prod(w.shape[2:]) > 1 else ["bands"]


MAKERS: dict[str, Maker] = {"bands": bands, "two_sided": two_sided}
