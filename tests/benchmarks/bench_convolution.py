"""Every way to compute a convolution over a grid of synthetic shapes, against plain numpy.

The grid is all combinations of CHANNELS, OUTPUTS, SIZES, KERNELS, STRIDES and DILATIONS below of 1 to 400 million
multiply-adds, of which --count are drawn at random. No shape is that of a model. Plain numpy copies all windows and
multiplies once. CPU time of one thread, the least of several rounds in turns; several copies of the weights are used in
turn, so that they come from no nearer cache than in a model. Printed: how much longer the choices of the program take
than the quickest way, than each way alone, and than plain numpy.

    python tests/benchmarks/bench_convolution.py [--count 400]
    OPENBLAS_CORETYPE=Haswell python tests/benchmarks/bench_convolution.py
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from onnx_workbench.exec.kernels import load as load_kernels
from onnx_workbench.exec.kernels.onnx.nn import strategies
from onnx_workbench.exec.kernels.shared.windows import Window, padded, positions, window, windows_of
from onnx_workbench.exec.kernels.threads import set_threads

CHANNELS = (3, 8, 16, 32, 64, 128, 256, 512)
OUTPUTS = (8, 16, 32, 64, 128, 256, 512)
SIZES = (7, 14, 28, 56, 112, 224)
KERNELS = ((3, 3), (5, 5), (7, 7), (1, 3), (3, 1), (1, 7), (7, 1), (3, 9))
STRIDES = (1, 2)
DILATIONS = (1, 2)
_LEAST, _MOST = 1e6, 4e8  # multiply-adds

#: Bytes of weights that are used in turn, beyond the L2 cache.
_WEIGHTS = 4 << 20
PLAIN = "plain"


class Case(NamedTuple):
    """A square convolution of one image, padded so that only strides make the map smaller."""

    channels: int
    outputs: int
    size: int
    kernel: tuple[int, int]
    stride: int
    dilation: int

    @property
    def view(self) -> Window:
        """Its window."""
        pads = [k // 2 * self.dilation for k in self.kernel]
        sizes, strides, dilations = ([n] * 2 for n in (self.size, self.stride, self.dilation))
        return window(sizes, self.kernel, strides=strides, dilations=dilations, pads=pads * 2)

    @property
    def weights(self) -> tuple[int, ...]:
        """The shape of its weights."""
        return self.outputs, self.channels, *self.kernel


class Measured(NamedTuple):
    """Milliseconds of each way."""

    case: Case
    times: dict[str, float]


def grid(count: int) -> list[Case]:
    """Draw cases of the grid, always the same."""
    cases = [Case(*one) for one in product(CHANNELS, OUTPUTS, SIZES, KERNELS, STRIDES, DILATIONS)]
    fits = [c for c in cases if c.stride == 1 or c.dilation == 1]
    fits = [c for c in fits if _LEAST <= prod(c.weights) * positions(c.view) <= _MOST]
    fits = [c for c in fits if not strategies.is_tiny(c.weights, c.view)]  # of which there is one way
    drawn = np.random.default_rng(0).permutation(len(fits))[:count]
    return [fits[i] for i in sorted(drawn)]


def plain(w: Any, bias: Any, view: Window) -> strategies.Runner:
    """The convolution as numpy has it: all windows copied, one product."""
    matrix = w.reshape(len(w), -1)

    def run(x: Any, out: Any) -> None:
        for image, target in zip(windows_of(padded(x, view), view), out, strict=True):
            np.matmul(matrix, image.reshape(-1, positions(view)), out=target.reshape(len(w), -1))
            target += bias[:, None, None]

    return run


def measure(case: Case, seconds: float) -> dict[str, float]:
    """Milliseconds of each way that fits, and of plain numpy."""
    rng, view = np.random.default_rng(0), case.view
    x = rng.standard_normal((1, case.channels, *view.sizes), np.float32)
    w, bias = rng.standard_normal(case.weights, np.float32), rng.standard_normal(case.outputs).astype(np.float32)
    makers = {PLAIN: plain, "im2col": strategies.im2col}
    if strategies.stacks(w.shape, view):
        makers["kw_stack"] = strategies.kw_stack
    copies = max(1, min(8, -(-_WEIGHTS // w.nbytes)))
    runs = {name: [make(w.copy(), bias, view) for _ in range(copies)] for name, make in makers.items()}
    out = np.empty((1, case.outputs, *view.output), np.float32)
    for ways in runs.values():  # all memory is touched before
        for run in ways:
            run(x, out)
    best = dict.fromkeys(runs, math.inf)
    begun, turn = time.process_time(), 0
    while turn < 4 or time.process_time() - begun < seconds:
        for name, ways in runs.items():
            start = time.process_time()
            ways[turn % copies](x, out)
            best[name] = min(best[name], (time.process_time() - start) * 1e3)
        turn += 1
    return best


def report(measured: Sequence[Measured]) -> None:
    """Print how much longer the choices take than the quickest way, and than others."""
    rows = []
    for case, times in measured:
        name = strategies.quickest(case.weights, case.view).__name__
        others = {"the quickest way": min(t for n, t in times.items() if n != PLAIN), PLAIN: times[PLAIN]}
        others |= {n: times.get(n, times["im2col"]) for n in ("im2col", "kw_stack")}
        rows.append((name, case, times[name], {n: times[name] / t for n, t in others.items()}))
    for against in rows[0][3]:
        ratios = np.array([row[3][against] for row in rows])
        print(
            f"{len(rows)} choices take {math.exp(np.log(ratios).mean()):.3f} of {against}, {ratios.max():.2f} at most"
        )
    for name, case, time_, ratios_ in sorted(rows, key=lambda row: -row[3]["the quickest way"])[:5]:
        print(f"    {ratios_['the quickest way']:.2f} of the quickest: {name:13} {time_:7.2f} ms {case}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the grid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400, help="shapes of the grid")
    parser.add_argument("--seconds", type=float, default=0.15, help="for each shape")
    options = parser.parse_args(arguments)
    load_kernels()
    set_threads(1)
    report([Measured(case, measure(case, options.seconds)) for case in grid(options.count)])


if __name__ == "__main__":
    main()
