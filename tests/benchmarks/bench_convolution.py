"""Every way to compute a convolution over a grid of synthetic shapes, against plain numpy; the rates of strategy_costs.

The grid is all combinations of CHANNELS, OUTPUTS, SIZES, KERNELS, STRIDES and DILATIONS below of 1 to 400 million
multiply-adds, of which --count are drawn at random. No shape is that of a model. Plain numpy copies all windows and
multiplies once. CPU time of one thread, the least of several rounds in turns; several copies of the weights are used in
turn, so that they come from no nearer cache than in a model. Printed: for each choice how much longer it takes than the
quickest way, and than plain numpy.

With --fit, files of both kinds of processor give the rates: of two thirds of the grid, by least squares of the relative
error with no rate below 0. What the choice loses is then printed for the other third.

    python tests/benchmarks/bench_convolution.py [--count 400] [--save WIDE.json]
    OPENBLAS_CORETYPE=Haswell python tests/benchmarks/bench_convolution.py [--save NARROW.json]
    python tests/benchmarks/bench_convolution.py --fit WIDE.json NARROW.json
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from onnx_workbench.exec.kernels import load as load_kernels
from onnx_workbench.exec.kernels.onnx.nn import strategies, strategy_costs
from onnx_workbench.exec.kernels.shared import blas
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
    """Milliseconds of each way, with the kernels of BLAS for AVX-512 or without."""

    case: Case
    wide: bool
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
    makers = {PLAIN: plain} | {n: strategies.MAKERS[n] for n in strategies.candidates(w, view)}
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


def report(measured: Sequence[Measured], choose: Callable[[Measured], str], title: str) -> None:
    """Print how much longer the choices take than the quickest way, and than plain numpy."""
    rows = []
    for one in measured:
        ways, name = {n: t for n, t in one.times.items() if n != PLAIN}, choose(one)
        rows.append((ways[name] / min(ways.values()), ways[name] / one.times[PLAIN], name, one))
    for index, against in enumerate(("the quickest way", "plain numpy")):
        ratios = np.array([row[index] for row in rows])
        mean = math.exp(np.log(ratios).mean())
        print(f"{title}: {len(rows)} choices take {mean:.3f} of {against}, {ratios.max():.2f} at most")
    for lost, slow, name, one in sorted(rows, key=lambda row: -row[1])[:5]:
        print(f"    {slow:.2f} of plain, {lost:.2f} of the quickest: {name:13} {one.times[name]:7.2f} ms {one.case}")


def chosen(one: Measured) -> str:
    """The way that the program takes."""
    names = [n for n in one.times if n != PLAIN]
    return min(names, key=lambda n: strategy_costs.nanoseconds(n, one.case.weights, one.case.view))


def fit(measured: Sequence[Measured]) -> None:
    """Print the rates that fit two thirds of the measurements, and what choices by them lose on the others."""
    counts, times = [], []
    for index, one in enumerate(measured):
        if index % 3:
            for name in one.times:
                if name != PLAIN:
                    counts.append(_row(name, one))
                    times.append(one.times[name] * 1e6)
    table = np.array(counts) / np.array(times)[:, None]
    largest = table.max(0)  # columns of like size, for the descent
    rates = _least_squares(table / largest) / largest
    names = strategy_costs.Work._fields
    print("nanoseconds of each:", ", ".join(f"{name} {rate:.4g}" for name, rate in zip(names, rates, strict=True)))
    print(f"relative error of the times: {np.abs(table @ rates - 1).mean():.2f} in the mean")

    half = rates * [0.5, *[1.0] * (len(names) - 1)]
    for kind, these in (("", rates), (", half of the time for a multiply-add", half)):
        for wide in (True, False):
            others = [one for index, one in enumerate(measured) if index % 3 == 0 and one.wide is wide]
            report(others, partial(_least, these), f"fitted, {'wide' if wide else 'narrow'}{kind}")


def _least(rates: Any, one: Measured) -> str:
    return min((n for n in one.times if n != PLAIN), key=lambda n: float(_row(n, one) @ rates))


def _row(name: str, one: Measured) -> Any:
    """What a way does."""
    return np.array(strategy_costs.work_of(name, one.case.weights, one.case.view))


def _least_squares(table: Any) -> Any:
    """Rates of at least 0 that bring each row nearest to 1, by coordinate descent."""
    rates = np.zeros(table.shape[1])
    squares, rest = (table**2).sum(0), np.ones(len(table))
    for _ in range(20_000):
        for column in np.flatnonzero(squares):
            old = rates[column]
            rates[column] = max(0.0, old + table[:, column] @ rest / squares[column])
            rest -= table[:, column] * (rates[column] - old)
    return rates


def _load(path: Path) -> list[Measured]:
    rows = json.loads(path.read_text())
    return [Measured(Case(*c[:3], tuple(c[3]), *c[4:]), wide, times) for c, wide, times in rows]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the grid, or fit rates to files of measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400, help="shapes of the grid")
    parser.add_argument("--seconds", type=float, default=0.15, help="for each shape")
    parser.add_argument("--save", type=Path, help="file for the measurements")
    parser.add_argument("--fit", type=Path, nargs="+", metavar="FILE", help="fit the rates to saved measurements")
    options = parser.parse_args(arguments)
    if options.fit:
        measured = [one for path in options.fit for one in _load(path)]
        for wide in (True, False):
            report([one for one in measured if one.wide is wide], chosen, "now, " + ("wide" if wide else "narrow"))
        fit(measured)
        return
    load_kernels()
    set_threads(1)
    wide = blas.multiplies_unpacked()
    measured = [Measured(case, wide, measure(case, options.seconds)) for case in grid(options.count)]
    if options.save:
        options.save.write_text(json.dumps(measured))
    report(measured, chosen, "wide" if wide else "narrow")


if __name__ == "__main__":
    main()
