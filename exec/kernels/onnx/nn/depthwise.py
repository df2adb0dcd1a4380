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
    """Rows of the kernel that see the same rows of the map: every `stride`-th from the first on."""

    first: int
    taps: list[Tap]
    weights: Array  # (C, taps, kw)


def depthwise(w: Array, bias: Array | None, window: Window) -> Runner:
    """Create a runner for weights (C, 1, kh, kw); see `strategies`."""
    channels, kw = w.shape[0], w.shape[3]
    rows, width = window.output
    phases, columns, stride = _phases(w[:, 0], window), window.taps(1), window.strides[0]
    seen = -(-window.sizes[0] // stride)
    largest = (kw + max((len(phase.taps) for phase in phases), default=0)) * seen
    block = max(1, min(channels, BLOCK // (largest * width * w.itemsize)))
    blocks = -(-channels // block)

    def run(x: Array, out: Array) -> None:
        def one(index: int) -> None:
            image, at = divmod(index, blocks)
            part = slice(at * block, min(channels, (at + 1) * block))
            target = out[image, part].reshape(-1, rows * width)
            is_first = True
            for phase in phases:
                source = x[image, part, phase.first :: stride]
                shape = (*source.shape[:1], kw, source.shape[1], width)
                planes = scratch("depthwise.planes", shape, x.dtype)
                _fill(source, window, columns, planes)
                products = scratch("depthwise.products", (len(source), len(phase.taps), *shape[2:]), x.dtype)
                flat = products.reshape(*products.shape[:2], -1)
                np.matmul(phase.weights[part], planes.reshape(len(source), kw, -1), flat)
                for i, tap in enumerate(phase.taps):
                    begin = (tap.source.start - phase.first) // stride
                    piece = flat[:, i, begin * width : (begin + tap.high - tap.low) * width]
                    place = target[:, tap.low * width : tap.high * width]
                    if is_first:
                        target[:, : tap.low * width] = 0
                        target[:, tap.high * width :] = 0
                        np.copyto(place, piece)
                    else:
                        np.add(place, piece, place)
                    is_first = False
            if is_first:  # windows of padding alone
                target[...] = 0
            if bias is not None:
                np.add(target, bias[part, None], target)

        parallel_for(one, len(x) * blocks, out.size * _COST)

    return run


def _phases(w: Array, window: Window) -> list[_Phase]:
    """Return the phases of weights (C, kh, kw)."""
    by_first: dict[int, list[Tap]] = {}
    for tap in window.taps(0):
        by_first.setdefault(tap.source.start % window.strides[0], []).append(tap)
    return [
        _Phase(first, taps, np.ascontiguousarray(w[:, [tap.index for tap in taps]])) for first, taps in by_first.items()
    ]


def _fill(source: Array, window: Window, columns: Sequence[Tap], planes: Array) -> None:
    """Fill planes (C, kw, rows, width) with rows of a map, each as a column of the kernel sees them; zeros outside."""
    length, width = source.shape[2], planes.shape[3]
    is_flat = window.strides == (1, 1) and length == width
    filled = 0
    for tap in columns:
        planes[:, filled : tap.index] = 0  # columns that see nothing but padding
        filled = tap.index + 1
        plane = planes[:, tap.index]
        if is_flat:  # as one piece, of which what runs over an edge is then zero
            shift, flat = tap.source.start - tap.low, plane.reshape(len(source), -1)
            size = flat.shape[1] - abs(shift)
            flat[:, max(0, -shift) :][:, :size] = source.reshape(len(source), -1)[:, max(0, shift) :][:, :size]
        else:
            plane[:, :, tap.low : tap.high] = source[:, :, tap.source]
        for edge in (plane[:, :, : tap.low], plane[:, :, tap.high :]):
            if edge.shape[1] < edge.shape[2]:
                edge[...] = 0
            else:  # numpy would go along the short rows
                for column in range(edge.shape[2]):
                    edge[:, :, column] = 0
    planes[:, filled:] = 0
