"""Depthwise convolution: every channel has its own small kernel, so there is no product of matrices to gain from.

Two ways, chosen by measuring. `taps` adds the shifted input once per tap, in blocks of channels that stay in cache:
two passes per tap, best on large maps. `banded` turns the kernel into a banded (Toeplitz) matrix per channel, so
that BLAS does all taps at once: it multiplies many zeros, yet wins on small maps.
"""

from __future__ import annotations

from math import prod

import numpy as np

from exec.arrays import Array
from exec.kernels.onnx.nn.strategies import L2_BLOCK, Maker, Runner
from exec.kernels.shared.scratch import scratch
from exec.kernels.shared.windows import Window, fill_padded
from exec.threads import parallel_for


def taps(w: Array, bias: Array | None, window: Window) -> Runner:
    """Sum of shifted inputs, each times its weight; the input is cut into phases so that strides are shifts too.

    `w` is (C, 1, kh, kw). Rows keep the width of the padded phase: one contiguous run per channel and tap.
    """
    channels, _, kh, kw = w.shape
    (sh, sw), (dh, dw) = window.strides, window.dilations
    rows, width = window.output
    phase_width = width + (kw - 1) * dw // sw
    phase_height = rows + (kh - 1) * dh // sh
    area = phase_height * phase_width
    length = (rows - 1) * phase_width + width
    offsets = [
        (i * dh % sh * sw + j * dw % sw, i * dh // sh * phase_width + j * dw // sw)
        for i in range(kh)
        for j in range(kw)
    ]
    weights = np.ascontiguousarray(w.reshape(channels, kh * kw).T)[:, :, None]
    block = max(1, min(channels, L2_BLOCK // 2 // ((sh * sw + 2) * area * w.itemsize)))

    def run(x: Array, out: Array) -> None:
        blocks = -(-channels // block)

        def one(index: int) -> None:
            image, at = divmod(index, blocks)
            part = slice(at * block, min(channels, (at + 1) * block))
            count = part.stop - part.start
            phases = _phases(x[image, part], window, phase_height, phase_width)
            total = scratch("depthwise.total", (count, rows * phase_width), x.dtype)
            product = scratch("depthwise.product", (count, length), x.dtype)
            kept = total[:, :length]
            for number, (phase, offset) in enumerate(offsets):
                source = phases[phase, :, offset : offset + length]
                if number == 0:
                    np.multiply(source, weights[0, part], out=kept)
                else:
                    np.multiply(source, weights[number, part], out=product)
                    np.add(kept, product, out=kept)
            grid = total.reshape(count, rows, phase_width)[:, :, :width]
            if bias is None:
                out[image, part] = grid
            else:
                np.add(grid, bias[part, None, None], out=out[image, part])

        parallel_for(one, x.shape[0] * blocks)

    return run


def _phases(x: Array, window: Window, height: int, width: int) -> Array:
    """The padded (C, H, W) input as (phases, C, height * width), one phase per combination of stride offsets."""
    sh, sw = window.strides
    phases = scratch("depthwise.phases", (sh * sw, x.shape[0], height * width), x.dtype)
    if sh * sw == 1:
        fill_padded(x, window, phases.reshape(x.shape[0], height, width))
        return phases
    frame = scratch("depthwise.frame", (x.shape[0], height * sh, width * sw), x.dtype)
    fill_padded(x, window, frame)
    for number in range(sh * sw):
        phase = frame[:, number // sw :: sh, number % sw :: sw]
        phases[number].reshape(phase.shape)[...] = phase
    return phases


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

        parallel_for(one, x.shape[0] * blocks)

    return run


def candidates(w: Array, window: Window) -> list[str]:
    """Names of the ways worth measuring for these weights and this window, the best guess first."""
    size = prod(w.shape[2:])
    matrix_bytes = w.shape[0] * w.shape[2] * window.reach[1] * window.output[1] * w.itemsize
    if window.output[1] > 64 or matrix_bytes > (8 << 20):
        return ["taps"]
    return ["banded", "taps"] if size > 1 else ["taps"]


MAKERS: dict[str, Maker] = {"taps": taps, "banded": banded}
