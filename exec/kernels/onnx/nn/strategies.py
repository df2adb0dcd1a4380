"""Ways to compute a float convolution, over two spatial axes if nothing else is said.

No single one is fastest: im2col copies every input once per tap and multiplies once, the kw-stack copies once per
kernel column and adds up a product per kernel row. All give the same result up to rounding (below 1e-6 of the largest).

Left out, as ten or eleven image models took less than 3 % longer without in the mean: one product per tap on the input
itself, read from an offset; strips of the input in which each window is a contiguous matrix; and Winograd's transforms
of 3×3 kernels, without which the models took 3 % less with AVX-512 and 2 % more with AVX2, a U-Net 7 and 19 % more.

Every factory takes the weights (M, C, kh, kw), a Window and returns a function of one unpadded input x (N, C, H, W) and
the output (N, M, OH, OW) it fills; bias is (M,) or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from onnx_workbench.exec.kernels.shared import blas
from onnx_workbench.exec.kernels.shared.products import LONGEST, UNPACKED
from onnx_workbench.exec.kernels.shared.scratch import KEPT_BYTES, scratch
from onnx_workbench.exec.kernels.shared.windows import Window, fill_padded, positions, windows_of
from onnx_workbench.exec.kernels.threads import WORTH, parallel_for, pieces, split
from onnx_workbench.exec.values.arrays import Array

Runner = Callable[[Array, Array], None]
Maker = Callable[[Array, "Array | None", Window], Runner]

#: Bytes of intermediate values per block, so that the next pass still finds it in the L2 cache.
L2_BLOCK = 1 << 20

#: Bytes of shifted copies of the input per block: many kernel columns of a large map take far more than a cache holds.
_STACK_BLOCK = 4 << 20

#: Elements of the columns of a map that is copied and multiplied at once, and images in one call: they take buffers.
_TINY = 1 << 16
_FEW_IMAGES = 16

#: Products with fewer columns are split by rows among threads.
_FEW_COLUMNS = 256


def _is_small(outputs: int, window: Window) -> bool:
    """Return whether a map has fewer pixels than outputs: then weights are what a product reads, and each once."""
    return positions(window) <= min(outputs, _FEW_COLUMNS)


def add_bias(block: Array, bias: Array | None) -> None:
    """Add (M,) to (M, L) in place."""
    if bias is not None:
        np.add(block, bias[:, None], out=block)


def pointwise(w: Array, bias: Array | None, window: Window) -> Runner:
    """1×1 kernel: the matrix product of weights and pixels, after dropping pixels that strides skip."""
    matrix: Array = np.ascontiguousarray(w.reshape(w.shape[:2]))
    rows, cols = window.strides
    skips, pixels = window.strides != (1, 1) or window.output != window.sizes, positions(window)
    column = None if bias is None else bias[:, None]

    def run(x: Array, out: Array) -> None:
        if skips:
            x = np.ascontiguousarray(x[:, :, ::rows, ::cols])
        images = len(x)
        source, target = x.reshape(images, -1, pixels), out.reshape(images, -1, pixels)
        if matrix.size * pixels <= UNPACKED and out.size * matrix.shape[1] < WORTH:
            np.matmul(matrix, source, target)
            if column is not None:
                np.add(target, column, target)
            return
        workers = pieces(out.size * matrix.shape[1])
        if workers > 1 and pixels <= _FEW_COLUMNS:
            _by_outputs(matrix, bias, source, target, workers)
            return
        step = _columns(matrix.size, pixels, workers)
        per_image = -(-pixels // step)

        def block(index: int) -> None:
            image, at = divmod(index, per_image)
            part = slice(at * step, (at + 1) * step)
            np.matmul(matrix, source[image, :, part], target[image, :, part])
            add_bias(target[image, :, part], bias)

        parallel_for(block, images * per_image, out.size * matrix.shape[1])

    return run


def _by_outputs(matrix: Array, bias: Array | None, source: Array, target: Array, workers: int) -> None:
    """Split the output channels among the cores: for products with few columns."""
    parts = split(len(matrix), workers)

    def part(index: int) -> None:
        image, at = divmod(index, len(parts))
        here = slice(*parts[at])
        np.matmul(matrix[here], source[image], target[image, here])
        add_bias(target[image, here], None if bias is None else bias[here])

    parallel_for(part, len(source) * len(parts), target.size * matrix.shape[1])


def im2col(w: Array, bias: Array | None, window: Window, group: int = 1) -> Runner:
    """Any kernel, over any number of axes: im2col of a band of the first into columns that stay in cache, then one
    product for each group.
    """
    outputs, depth = len(w) // group, prod(w.shape[1:])
    matrices = np.ascontiguousarray(w).reshape(group, outputs, depth)
    column = None if bias is None else bias.reshape(group, outputs, 1)
    rows, rest = window.output[0], prod(window.output[1:])
    band = _shared(_im2col_band(group * depth * w.itemsize, window), rows, w.size * rest)
    bands = -(-rows // band)
    is_small = group == 1 and (_is_small(outputs, window) or _copies_all(outputs, depth, w.itemsize, window))

    def multiply(columns: Array, target: Array) -> None:
        np.matmul(matrices, columns, target)
        if column is not None:
            np.add(target, column, target)

    def run(x: Array, out: Array) -> None:
        if window.is_plain:  # the pixels are the columns
            multiply(x.reshape(len(x), group, depth, -1), out.reshape(len(x), group, outputs, -1))
            return
        frame = x
        if any(window.begin) or any(window.end):
            frame = scratch("im2col.frame", (*x.shape[:2], *window.reach), x.dtype)
            fill_padded(x, window, frame)
        views = windows_of(frame, window)
        if is_small:
            columns = scratch("im2col.columns", views.shape, x.dtype)
            np.copyto(columns, views)
            source, target = columns.reshape(len(x), depth, -1), out.reshape(len(x), outputs, -1)
            _by_outputs(matrices[0], bias, source, target, pieces(out.size * depth))
            return

        def one(index: int) -> None:
            image, at = divmod(index, bands)
            first, last = at * band, min(rows, (at + 1) * band)
            part = views[image][(..., slice(first, last), *(slice(None),) * (window.rank - 1))]
            columns = scratch("im2col.columns", part.shape, x.dtype)
            np.copyto(columns, part)
            target = out[image].reshape(group, outputs, -1)[:, :, first * rest : last * rest]
            multiply(columns.reshape(group, depth, -1), target)

        parallel_for(one, x.shape[0] * bands, out.size * depth)

    return run


def is_tiny(shape: Sequence[int], window: Window) -> bool:
    """Return whether copies and products for weights of a shape (M, C, kh, kw) cost less than the calls around them."""
    columns = prod(shape[1:]) * positions(window)
    frame = shape[1] * prod(window.reach)  # more than the columns where strides skip most of the padding
    return max(columns, frame) <= _TINY and shape[0] * columns <= UNPACKED


def at_once(w: Array, bias: Array | None, window: Window) -> Runner:
    """Tiny maps: im2col in as few calls as possible, two copies and a product; the padded frame keeps its zeros."""
    matrix = np.ascontiguousarray(w.reshape(len(w), -1))
    ends = [min(size, r - at) for size, r, at in zip(window.sizes, window.reach, window.begin, strict=True)]
    reached: Any = (..., *(slice(max(0, end)) for end in ends))
    place: Any = (..., *(slice(at, at + max(0, end)) for at, end in zip(window.begin, ends, strict=True)))
    frame = views = np.empty((0, 0, 0, 0), w.dtype)
    column = None if bias is None else bias[:, None]

    def some(x: Array, out: Array) -> None:
        frame[(slice(len(x)), *place)] = x[reached]
        columns = views[: len(x)].reshape(len(x), matrix.shape[1], -1)  # a copy
        target = out.reshape(len(x), len(matrix), -1)
        np.matmul(matrix, columns, target)
        if column is not None:
            np.add(target, column, target)

    def run(x: Array, out: Array) -> None:
        nonlocal frame, views
        if len(frame) < min(len(x), _FEW_IMAGES):
            frame = np.zeros((min(len(x), _FEW_IMAGES), x.shape[1], *window.reach), x.dtype)
            views = windows_of(frame, window)
        for first in range(0, len(x), _FEW_IMAGES):
            some(x[first : first + _FEW_IMAGES], out[first : first + _FEW_IMAGES])

    return run


def _im2col_band(column_bytes: int, window: Window) -> int:
    """Return the rows of a band of im2col."""
    rows, rest = window.output[0], prod(window.output[1:])
    return max(1, min(rows, L2_BLOCK // (column_bytes * rest) or 1), min(rows, -(-64 // rest)))


def _copies_all(outputs: int, depth: int, itemsize: int, window: Window) -> bool:
    """Return whether im2col is of the whole map at once, and cores share the outputs.

    So it is where outputs take several times the memory of the columns: a band would write short pieces of each.
    """
    return 4 * depth <= outputs and depth * positions(window) * itemsize <= KEPT_BYTES


def kw_stack(w: Array, bias: Array | None, window: Window) -> Runner:
    """Stride 1: copies of the input shifted by each kernel column; each kernel row is then one product, summed up."""
    outputs, channels, kh, kw = w.shape
    matrices = [np.ascontiguousarray(w[:, :, i].transpose(0, 2, 1).reshape(outputs, -1)) for i in range(kh)]
    rows, width = window.output
    drop, shift = window.dilations
    height = window.reach[0]
    is_small = _is_small(outputs, window)
    band = _kw_stack_band(w.shape, w.itemsize, window)
    band = band if is_small else _shared(band, rows, w.size * width)
    bands, depth = -(-rows // band), channels * kh * kw

    def run(x: Array, out: Array) -> None:
        # Of a small map each core computes some of the outputs, else some of the rows.
        parts = split(outputs, pieces(out.size * depth) if is_small else 1)

        def one(index: int) -> None:
            index, share = divmod(index, len(parts))
            image, at = divmod(index, bands)
            here = slice(*parts[share])
            first, last = at * band, min(rows, (at + 1) * band)
            need = min(height, last + (kh - 1) * drop) - first
            stack = scratch("kw_stack", (kw, channels, need, width), x.dtype)
            _stack_columns(x[image], window, first, stack, shift)
            flat = stack.reshape(kw * channels, need * width)
            target = out[image].reshape(outputs, -1)[here, first * width : last * width]
            length = (last - first) * width
            np.matmul(matrices[0][here], flat[:, :length], target)
            for i in range(1, kh):
                start = i * drop * width
                blas.gemm_add(matrices[i][here], flat[:, start : start + length], target)
            add_bias(target, None if bias is None else bias[here])

        parallel_for(one, x.shape[0] * bands * len(parts), out.size * depth)

    return run


def _kw_stack_band(shape: Sequence[int], itemsize: int, window: Window) -> int:
    """Return the rows of a band of kw_stack, for weights of a shape (M, C, kh, kw)."""
    outputs, channels, _, kw = shape
    rows, row = window.output[0], window.output[1] * itemsize
    if _is_small(outputs, window):
        return rows
    return max(1, min(rows, L2_BLOCK // (outputs * row), _STACK_BLOCK // (kw * channels * row)))


def _stack_columns(image: Array, window: Window, first: int, stack: Array, shift: int) -> None:
    """Fill stack[j] with the rows from `first` (in padded coordinates), moved left by tap j; zeros outside."""
    top = first - window.begin[0]
    low, high = max(0, -top), max(0, min(stack.shape[2], window.sizes[0] - top))
    if low > 0:
        stack[:, :, :low] = 0
    if high < stack.shape[2]:
        stack[:, :, high:] = 0
    width = stack.shape[3]
    for j in range(stack.shape[0]):
        left = j * shift - window.begin[1]
        start, stop = min(width, max(0, -left)), max(0, min(width, window.sizes[1] - left))
        stop = max(start, stop)
        stack[j, :, :, :start] = 0
        stack[j, :, :, stop:] = 0
        stack[j, :, low:high, start:stop] = image[:, top + low : top + high, left + start : left + stop]


def quickest(shape: Sequence[int], window: Window) -> Maker:
    """The way taken for weights of a shape (M, C, kh, kw); the same whenever asked.

    Of im2col and the kw-stack on 194 shapes of the grid of tests/benchmarks/bench_convolution.py, with AVX-512 and AVX2
    (Zen 5), this takes 0.6 % longer than the quicker one in the mean; always either one 6 and 11 %.
    """
    outputs, channels, kh, kw = shape
    if (kh, kw) == (1, 1) and not any(window.begin) and not any(window.end):
        return pointwise
    if is_tiny(shape, window):
        return at_once
    if stacks(shape, window) and outputs <= 4 * channels:  # outputs are passed over once per kernel row
        return kw_stack
    return im2col


def stacks(shape: Sequence[int], window: Window) -> bool:
    """Return whether `kw_stack` computes weights of a shape, and differs from im2col."""
    return window.strides == (1, 1) and shape[3] > 1 and positions(window) > 1


def _shared(band: int, rows: int, work: int) -> int:
    """Return the number of rows per piece such that every core gets one; `work` is that of one row."""
    return min(band, -(-rows // pieces(work * rows)))


def _columns(size: int, pixels: int, workers: int) -> int:
    """Return how many columns to multiply at once: all, or one part per core.

    BLAS splits them itself by cache size. Fewer where a single call would delay cancellation.
    """
    share = pixels if workers == 1 else max(64, -(-pixels // workers))
    return min(share, max(256, LONGEST // size))
