"""Depthwise convolution: every channel has its own small kernel, so there is no large matrix product.

Still BLAS is the fastest way to add up the taps, as numpy would pass over memory twice for each. A product for each
channel sums up the taps of each row of the kernel, of copies of the map shifted as its columns see it. numpy adds these
sums, shifted by whole rows: every pass is over long contiguous memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from onnx_workbench.exec.kernels.onnx.nn.strategies import Runner
from onnx_workbench.exec.kernels.shared.scratch import scratch
from onnx_workbench.exec.kernels.shared.windows import Tap, Window
from onnx_workbench.exec.kernels.threads import PASSES, parallel_for
from onnx_workbench.exec.values.arrays import Array

#: Multiply-adds of an ordinary product that take as long as one output of a 3×3 kernel.
_COST = 3 * PASSES

#: Bytes of copies and products of a block of channels: a quarter of that takes 15 % longer, more no less (Zen 5).
BLOCK = 4 << 20


class _Phase(NamedTuple):
    """Rows of the kernel that see the same rows of the map: the stride divides what they are apart."""

    top: int  # row of the map that the first of them sees first
    ahead: list[int]  # how many of the rows seen each is ahead of the first
    weights: Array  # (C, rows, kw)

    def seen(self, rows: int) -> int:
        """Return the number of rows seen for so many rows of outputs."""
        return rows + self.ahead[-1]


def depthwise(w: Array, bias: Array | None, window: Window) -> Runner:
    """Create a runner for weights (C, 1, kh, kw); see `strategies`."""
    channels, kw = w.shape[0], w.shape[3]
    rows, width = window.output
    phases, columns = _phases(w[:, 0], window), window.taps(1)
    largest = max((kw + len(phase.ahead)) * phase.seen(rows) for phase in phases)
    block = max(1, min(channels, BLOCK // (largest * width * w.itemsize)))
    blocks = -(-channels // block)

    def run(x: Array, out: Array) -> None:
        def one(index: int) -> None:
            image, at = divmod(index, blocks)
            part = slice(at * block, min(channels, (at + 1) * block))
            target = out[image, part].reshape(-1, rows * width)
            count = len(target)
            for phase in phases:
                weights, seen = phase.weights[part], phase.seen(rows)
                planes = scratch("depthwise.planes", (count, kw, seen, width), x.dtype)
                _fill(x[image, part], window, columns, phase.top, planes)
                flat = planes.reshape(count, -1, seen * width)
                is_first = phase is phases[0]
                if is_first and len(phase.ahead) == 1:
                    np.matmul(weights, flat, target[:, None])
                    continue
                products = scratch("depthwise.products", (count, len(phase.ahead), seen * width), x.dtype)
                np.matmul(weights, flat, products)
                sums = [products[:, i, n * width : (n + rows) * width] for i, n in enumerate(phase.ahead)]
                if is_first:
                    np.add(sums.pop(), sums.pop(), target)
                for more in sums:
                    np.add(target, more, target)
            if bias is not None:
                np.add(target, bias[part, None], target)

        parallel_for(one, len(x) * blocks, out.size * _COST)

    return run


def _phases(w: Array, window: Window) -> list[_Phase]:
    """Return the phases of weights (C, kh, kw), that of the most rows first."""
    stride, spread = window.strides[0], window.dilations[0]
    by_rest: dict[int, list[int]] = {}
    for i in range(w.shape[1]):
        by_rest.setdefault(i * spread % stride, []).append(i)
    result = []
    for taps in sorted(by_rest.values(), key=len, reverse=True):
        ahead = [(i - taps[0]) * spread // stride for i in taps]
        result.append(_Phase(taps[0] * spread - window.begin[0], ahead, np.ascontiguousarray(w[:, taps])))
    return result


def _fill(x: Array, window: Window, columns: Sequence[Tap], top: int, planes: Array) -> None:
    """Fill planes (C, kw, rows, width) with the rows of x (C, H, W) from `top` on, each as a column of the kernel sees
    them; zeros outside.
    """
    stride, (height, length), (seen, width) = window.strides[0], x.shape[1:], planes.shape[2:]
    low = min(seen, max(0, -(top // stride)))
    high = max(low, min(seen, (height - 1 - top) // stride + 1))
    planes[:, :, :low] = 0
    planes[:, :, high:] = 0
    if low == high:
        return
    first = low * stride + top
    source = x[:, first : first + (high - low - 1) * stride + 1 : stride]
    is_flat = window.strides == (1, 1) and length == width
    filled = 0
    for tap in columns:
        planes[:, filled : tap.index] = 0  # columns that see nothing but padding
        filled = tap.index + 1
        plane = planes[:, tap.index, low:high]
        if is_flat:  # as one piece, of which what runs over an edge is then zero
            shift, flat = tap.source.start - tap.low, plane.reshape(len(x), -1)
            size = flat.shape[1] - abs(shift)
            flat[:, max(0, -shift) :][:, :size] = source.reshape(len(x), -1)[:, max(0, shift) :][:, :size]
        else:
            plane[:, :, tap.low : tap.high] = source[:, :, tap.source]
        for edge in (plane[:, :, : tap.low], plane[:, :, tap.high :]):
            if edge.shape[1] < edge.shape[2]:
                edge[...] = 0
            else:  # numpy would go along the short rows
                for column in range(edge.shape[2]):
                    edge[:, :, column] = 0
    planes[:, filled:] = 0
