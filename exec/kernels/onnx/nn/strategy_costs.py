"""Which way to compute a float convolution: decided by estimated time, from shapes, strides and one processor feature.

Nothing is timed, so that the first run makes no trials and the same ways are taken in every session on a machine. The
last bits of a result still depend on the number of threads, by which the ways cut their products. The estimate of a
way is a sum over what it does to one image: multiply-adds, elements copied into the form that BLAS reads, elements of
outputs read and written between products, weights read, calls. The nanoseconds of each were fitted to 262
measurements (80 of them of convolutions of real models, the rest of random ones) on one thread, with the AVX2 and
with the AVX-512 kernels of OpenBLAS. These differ in the time of a multiply-add alone, which is all that is asked of
the processor. The ways chosen took 2.6 % longer than the quickest ones in the geometric mean, 1.5 times at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from onnx_workbench.exec.kernels.onnx.nn import strips
from onnx_workbench.exec.kernels.shared import blas
from onnx_workbench.exec.kernels.shared.windows import Window

#: Nanoseconds of a float32 multiply-add in a large product: with AVX-512 kernels of BLAS, and without.
_WIDE, _NARROW = 0.0108, 0.0216


class _Work(NamedTuple):
    """Sizes of a convolution of one image."""

    outputs: int
    channels: int
    kernel: tuple[int, int]
    window: Window

    @property
    def frame(self) -> tuple[int, int]:
        """Height and width of the padded input."""
        window = self.window
        rows, columns = (sum(n) for n in zip(window.sizes, window.begin, window.end, strict=True))
        return rows, columns

    @property
    def weights(self) -> int:
        """Elements of the weights."""
        return self.outputs * self.channels * prod(self.kernel)


def quickest(names: Sequence[str], shape: Sequence[int], window: Window) -> str:
    """The name of the way estimated to be quickest for weights of a shape (M, C, kh, kw); the same whenever asked."""
    if len(names) == 1:
        return names[0]
    work = _Work(shape[0], shape[1], (shape[2], shape[3]), window)
    multiply = _WIDE if blas.multiplies_unpacked() else _NARROW
    return min(names, key=lambda name: _COSTS[name](work, multiply))


def _im2col(work: _Work, multiply: float) -> float:
    pixels = prod(work.window.output)
    columns = work.channels * prod(work.kernel) * pixels
    return (
        work.weights * pixels * multiply * 1.03 + 0.47 * columns + 0.04 * work.outputs * pixels + _read(work, 0.5, 30)
    )


def _kw_stack(work: _Work, multiply: float) -> float:
    (rows, width), (kh, kw) = work.window.output, work.kernel
    copied = work.channels * kw * work.frame[0] * width
    written = work.outputs * rows * width * kh
    return work.weights * rows * width * multiply + 0.58 * copied + 0.035 * written + _read(work, 0.53, 11 * kh)


def _strips(work: _Work, multiply: float) -> float:
    rows, width = work.window.output
    copied = work.channels * work.kernel[1] * work.frame[0] * width
    calls = 20 + 2 * strips.copies(work.channels, work.kernel[1], work.window)
    return work.weights * rows * width * multiply * 1.25 + 0.67 * copied + _read(work, 0.0, calls)


def _shifted(work: _Work, multiply: float) -> float:
    (rows, width), (kh, kw), (height, full) = work.window.output, work.kernel, work.frame
    wide = width + (kw - 1) * work.window.dilations[1] // work.window.strides[1]  # with columns that are dropped
    copied = work.channels * height * full
    written = work.outputs * rows * wide * kh * kw
    products = work.weights * rows * wide * multiply * 0.97
    return products + 1.22 * copied + 0.14 * written + _read(work, 0.63, 9 * kh * kw)


def _winograd_rows(work: _Work, multiply: float) -> float:
    rows, width = work.window.output
    tiles, taps = -(-rows // 2) * width, 4 * work.kernel[1]
    products = work.outputs * work.channels * taps * tiles * multiply
    sums = (0.65 * work.channels + 0.31 * work.outputs) * taps * tiles
    return products + sums + 0.7 * work.outputs * work.channels * taps + 60_000


def _winograd(work: _Work, multiply: float) -> float:
    rows, width = work.window.output
    tiles = -(-rows // 2) * -(-width // 2)
    products = work.outputs * work.channels * 16 * tiles * multiply * 0.9
    sums = (2.1 * work.channels + 0.72 * work.outputs) * 16 * tiles
    return products + sums + 0.66 * work.outputs * work.channels * 16 + 80_000


def _read(work: _Work, each: float, microseconds: float) -> float:
    """Nanoseconds of reading the weights and of calls."""
    return each * work.weights + 1000 * microseconds


_COSTS: dict[str, Callable[[_Work, float], float]] = {
    "im2col": _im2col,
    "kw_stack": _kw_stack,
    "strips": _strips,
    "shifted": _shifted,
    "winograd_rows": _winograd_rows,
    "winograd": _winograd,
}
