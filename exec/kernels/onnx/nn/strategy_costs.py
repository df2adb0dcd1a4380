"""Which way to compute a float convolution: decided by estimated time, from shapes and strides alone.

Nothing is timed and no feature of the processor is asked for, so that the first run makes no trials and the same ways
are taken in every session on a machine. The last bits of a result still depend on the number of threads, by which the
ways cut their products. What a way does to one image is counted (`Work`), and each count has a rate, the same for all
ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from onnx_workbench.exec.kernels.onnx.nn import winograd
from onnx_workbench.exec.kernels.onnx.nn.strategies import copies_all, im2col_band, kw_stack_band
from onnx_workbench.exec.kernels.shared.windows import Window, positions

#: Bytes of an element: rates and bands are those of float32.
_SIZE = 4


class Work(NamedTuple):
    """What a way does to one image, in elements where nothing else is said."""

    multiply_adds: float
    read: float  # by products, of their right factor
    copied: float  # into the form that products read
    added: float  # by additions outside of products
    written: float  # by products; twice where they add to what is there
    weights: float
    rows: float  # contiguous pieces that copies and products write
    calls: float  # of numpy; one of BLAS through ctypes (`blas.gemm_add`) counts as five


#: Nanoseconds of each. Fitted by tests/benchmarks/bench_convolution.py to measurements of every way on 400 shapes of
#: its synthetic grid (3 to 512 channels, 8 to 512 outputs, maps of 7 to 224, eight kernels, strides and dilations 1 and
#: 2), of which two thirds are fitted: one thread of a Zen 4 processor, with the AVX2 and with the AVX-512 kernels of
#: OpenBLAS, which multiply about as fast as each other there. On the other third the ways chosen take 1.8 % longer than
#: the quickest ones in the geometric mean. Choices by half of the time for a multiply-add, as AVX-512 units of full
#: width take, lose hardly more.
RATES = Work(
    multiply_adds=0.0217, read=0.13, copied=0.16, added=0.257, written=0.031, weights=0.28, rows=4.3, calls=1360.0
)


def quickest(names: Sequence[str], shape: Sequence[int], window: Window) -> str:
    """The name of the way estimated to be quickest for weights of a shape (M, C, kh, kw); the same whenever asked."""
    return names[0] if len(names) == 1 else min(names, key=lambda name: nanoseconds(name, shape, window))


def nanoseconds(name: str, shape: Sequence[int], window: Window) -> float:
    """Estimate the time of a way for one image."""
    return sum(count * rate for count, rate in zip(work_of(name, shape, window), RATES, strict=True))


def work_of(name: str, shape: Sequence[int], window: Window) -> Work:
    """Count what a way does."""
    return _WAYS[name](shape, window)


def _im2col(shape: Sequence[int], window: Window) -> Work:
    outputs, depth, pixels = shape[0], prod(shape[1:]), positions(window)
    columns, height = depth * pixels, window.output[0]
    is_whole = copies_all(outputs, depth, _SIZE, window)
    bands = 1 if is_whole else -(-height // im2col_band(depth * _SIZE, window))
    return Work(
        multiply_adds=outputs * columns,
        read=columns,
        copied=columns + _padded(shape, window),
        added=outputs * pixels,
        written=outputs * pixels,
        weights=prod(shape),
        rows=outputs * bands + (depth + shape[1]) * height,
        calls=4 + 4 * bands,
    )


def _kw_stack(shape: Sequence[int], window: Window) -> Work:
    (outputs, channels, kh, kw), pixels = shape, positions(window)
    height, width = window.output
    bands = -(-height // kw_stack_band(shape, _SIZE, window))
    lines = min(_frame(window)[0], height + bands * (kh - 1) * window.dilations[0])
    return Work(
        multiply_adds=prod(shape) * pixels,
        read=channels * kh * kw * pixels,
        copied=channels * kw * lines * width,
        added=outputs * pixels,
        written=outputs * pixels * (2 * kh - 1),
        weights=prod(shape),
        rows=outputs * bands * kh + channels * kw * height,
        calls=bands * (3 * kw + 5 * kh),
    )


def _winograd_rows(shape: Sequence[int], window: Window) -> Work:
    outputs, channels, _, kw = shape
    bands, tiles, parts = winograd.rows_parts(outputs, channels, window)
    height = window.output[0]
    return Work(
        multiply_adds=4 * kw * outputs * channels * tiles,
        read=4 * kw * channels * tiles,
        copied=channels * prod(_frame(window)),
        added=(4 * channels + 5 * outputs) * tiles,
        written=4 * outputs * tiles * (2 * kw - 1),
        weights=4 * kw * outputs * channels,
        rows=4 * kw * outputs * bands + (channels + outputs) * height,
        calls=bands * (5 + 20 * kw + 6 * parts),
    )


def _winograd(shape: Sequence[int], window: Window) -> Work:
    outputs, channels = shape[:2]
    bands, tiles = winograd.parts(outputs, channels, window)
    height = window.output[0]
    return Work(
        multiply_adds=16 * outputs * channels * tiles,
        read=16 * channels * tiles,
        copied=4 * channels * tiles,
        added=(24 * channels + 28 * outputs) * tiles,
        written=16 * outputs * tiles,
        weights=16 * outputs * channels,
        rows=16 * outputs * bands + 2 * (channels + outputs) * height,
        calls=50 * bands,
    )


def _frame(window: Window) -> tuple[int, int]:
    """Height and width of the padded input."""
    height, width = (sum(n) for n in zip(window.sizes, window.begin, window.end, strict=True))
    return height, width


def _padded(shape: Sequence[int], window: Window) -> int:
    """Elements of the padded input; 0 where there is no padding."""
    return shape[1] * prod(_frame(window)) if any(window.begin) or any(window.end) else 0


_WAYS: dict[str, Callable[[Sequence[int], Window], Work]] = {
    "im2col": _im2col,
    "kw_stack": _kw_stack,
    "winograd_rows": _winograd_rows,
    "winograd": _winograd,
}
