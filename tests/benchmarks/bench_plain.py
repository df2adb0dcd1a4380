"""Kernels that compute by hand-chosen paths, against the plain numpy expression: CPU time of one thread, in turns.

No path may be slower than the expression that a reader would write, on any processor, but for some microseconds of
checks. Sizes are synthetic; weights are
constants, prepared as for a run. For convolutions see bench_convolution.py.

    python tests/benchmarks/bench_plain.py [NAME …] [--rounds 25]
    OPENBLAS_CORETYPE=Haswell python tests/benchmarks/bench_plain.py
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from onnx_workbench.exec.kernels import load as load_kernels
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.kernels.registry import find
from onnx_workbench.exec.kernels.shared.windows import padded, window, windows_of
from onnx_workbench.exec.kernels.threads import set_threads

_random = np.random.default_rng(0)
Pair = tuple[str, Callable[[], Any], Callable[[], Any]]


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return _random.standard_normal(shape, np.float32).astype(dtype)


def integers(*shape: int, dtype: Any = np.uint8) -> Any:
    limits = np.iinfo(dtype)
    return _random.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def ours(op_type: str, inputs: Sequence[Any], fed: int = 1, opset: int = 13, **attributes: Any) -> Callable[[], Any]:
    """The kernel as a plan calls it; inputs after the first `fed` are constants."""
    kernel = find(op_type, opset)
    constants = [None if i < fed else value for i, value in enumerate(inputs)]
    prepared = kernel.prepare(constants, **attributes) if kernel.prepare else None
    if prepared is not None:
        return lambda: prepared(*inputs)
    leading = (Context(op_type, opset),) if kernel.takes_context else ()
    return lambda: kernel.function(*leading, *inputs, **attributes)


def products() -> Iterator[Pair]:
    for rows, depth, columns in ((1, 96, 384), (1, 768, 768), (7, 512, 2048), (40, 768, 96), (200, 768, 3072)):
        a, b, c = normal(rows, depth), normal(depth, columns), normal(columns)
        yield f"MatMul {rows}x{depth}x{columns}", ours("MatMul", [a, b]), lambda a=a, b=b: a @ b
        transposed = np.ascontiguousarray(b.T)
        gemm = ours("Gemm", [a, transposed, c], transB=1)
        yield f"Gemm {rows}x{depth}x{columns}", gemm, lambda a=a, t=transposed, c=c: a @ t.T + c
    for batch, rows, depth in ((12, 50, 64), (12, 300, 64), (96, 20, 24)):
        a, b = normal(batch, rows, depth), normal(batch, depth, rows)
        yield f"MatMul {batch}x{rows}x{depth}x{rows}", ours("MatMul", [a, b], fed=2), lambda a=a, b=b: a @ b


def integer_products() -> Iterator[Pair]:
    for rows, depth, columns in ((1, 256, 1024), (30, 384, 384), (150, 512, 1024)):
        a, b, zero = integers(rows, depth), integers(depth, columns, dtype=np.int8), np.array(128, np.uint8)
        wide = b.astype(np.float64)

        def plain(a: Any = a, b: Any = wide) -> Any:
            return ((a.astype(np.float64) - 128) @ b).astype(np.int32)

        yield f"MatMulInteger {rows}x{depth}x{columns}", ours("MatMulInteger", [a, b, zero]), plain
    x, scale, zero = normal(1, 64, 60, 60), np.float32(0.03), np.array(11, np.uint8)

    def quantize() -> Any:
        return np.clip(np.rint(x / scale) + 11, 0, 255).astype(np.uint8)

    yield "QuantizeLinear 64x60x60", ours("QuantizeLinear", [x, scale, zero]), quantize
    y = integers(1, 64, 60, 60)
    yield (
        "DequantizeLinear 64x60x60",
        ours("DequantizeLinear", [y, scale, zero]),
        lambda: (y.astype(np.int32) - zero).astype(np.float32) * scale,
    )


def rowwise() -> Iterator[Pair]:
    for shape in ((1, 10), (12, 50, 50), (1, 8, 300, 300), (1, 300, 300, 8)):
        x = normal(*shape)

        def softmax(x: Any = x) -> Any:
            e = np.exp(x - x.max(-1, keepdims=True))
            return e / e.sum(-1, keepdims=True)

        yield f"Softmax {'x'.join(map(str, shape))}", ours("Softmax", [x], axis=-1), softmax
    for rows, size in ((1, 96), (50, 384), (300, 768)):
        x, w, b = normal(1, rows, size), normal(size), normal(size)

        def layer_norm(x: Any = x, w: Any = w, b: Any = b) -> Any:
            centred = x - x.mean(-1, keepdims=True)
            return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * w + b

        yield f"LayerNorm {rows}x{size}", ours("LayerNormalization", [x, w, b], opset=17), layer_norm
    for channels, size in ((24, 100), (200, 20)):
        x, each = normal(1, channels, size, size), np.abs(normal(channels)) + 1

        def batch_norm(x: Any = x, e: Any = each[:, None, None]) -> Any:
            return (x - e) / np.sqrt(e + 1e-5) * e + e

        name = f"BatchNorm {channels}x{size}x{size}"
        yield name, ours("BatchNormalization", [x, each, each, each, each], opset=15), batch_norm


def maps() -> Iterator[Pair]:
    for op, channels, size, kernel, stride in (
        ("MaxPool", 24, 100, 2, 2), ("MaxPool", 24, 100, 3, 2), ("MaxPool", 200, 20, 3, 1), ("MaxPool", 40, 40, 5, 1),
        ("AveragePool", 24, 100, 2, 2), ("AveragePool", 200, 20, 3, 1), ("AveragePool", 300, 7, 7, 1),
    ):  # fmt: skip
        x, view = normal(1, channels, size, size), window((size, size), (kernel, kernel), strides=(stride, stride))

        def pool(x: Any = x, view: Any = view, is_max: bool = op == "MaxPool") -> Any:
            windows = windows_of(padded(x, view), view)
            return windows.max((2, 3)) if is_max else windows.mean((2, 3))

        attributes = {"kernel_shape": (kernel, kernel), "strides": (stride, stride)}
        yield f"{op} {channels}x{size}x{size} k{kernel} s{stride}", ours(op, [x], **attributes), pool
    for channels, size in ((16, 40), (100, 13)):
        x = normal(1, channels, size, size)
        sizes = np.array([1, channels, 2 * size, 2 * size])
        nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        empty = np.zeros(0, np.float32)
        resize = ours("Resize", [x, empty, empty, sizes], **nearest)
        yield f"Resize nearest {channels}x{size}x{size}", resize, lambda x=x: x.repeat(2, 2).repeat(2, 3)
        places = np.clip((np.arange(2 * size) + 0.5) / 2 - 0.5, 0, size - 1)
        low = places.astype(int)
        high, part = np.minimum(low + 1, size - 1), (places - low).astype(np.float32)

        def linear(x: Any = x, low: Any = low, high: Any = high, part: Any = part) -> Any:
            x = x[..., low] * (1 - part) + x[..., high] * part
            return x[:, :, low] * (1 - part[:, None]) + x[:, :, high] * part[:, None]

        yield f"Resize linear {channels}x{size}x{size}", ours("Resize", [x, empty, empty, sizes], mode="linear"), linear
    for channels, size, kernel, stride in ((24, 100, 3, 1), (24, 100, 3, 2), (200, 12, 3, 1), (90, 30, 5, 1)):
        x, w = normal(1, channels, size, size), normal(channels, 1, kernel, kernel)
        edge = kernel // 2
        view = window((size, size), (kernel, kernel), strides=(stride, stride), pads=(edge,) * 4)

        def taps(x: Any = x, w: Any = w, view: Any = view) -> Any:
            windows, total = windows_of(padded(x, view), view), 0
            for i, j in np.ndindex(view.kernel):
                total = total + windows[:, :, i, j] * w[:, 0, i, j, None, None]
            return total

        attributes = {"group": channels, "pads": (edge,) * 4, "strides": (stride, stride)}
        yield f"depthwise {channels}x{size}x{size} k{kernel} s{stride}", ours("Conv", [x, w], **attributes), taps


def elementwise() -> Iterator[Pair]:
    for dtype in (np.float32, np.float16):
        x, y = normal(64, 3000, dtype=dtype), normal(64, 1, dtype=dtype)
        kind = np.dtype(dtype).name
        yield f"Add {kind}", ours("Add", [x, y], fed=2), lambda x=x, y=y: x + y
        yield f"Sigmoid {kind}", ours("Sigmoid", [x]), lambda x=x: 1 / (1 + np.exp(-x))
        yield f"Tanh {kind}", ours("Tanh", [x]), lambda x=x: np.tanh(x)


GROUPS = (products, integer_products, rowwise, maps, elementwise)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each kernel, and the worst."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="beginnings of names")
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args(arguments)
    load_kernels()
    set_threads(1)
    ratios = {}
    print(f"{'kernel':36} {'ours ms':>9} {'plain ms':>9}  ratio")
    with np.errstate(all="ignore"):
        for name, quick, plain in (pair for group in GROUPS for pair in group()):
            if options.names and not name.startswith(tuple(options.names)):
                continue
            found, expected = quick(), plain()
            found = found[0] if isinstance(found, tuple) else found
            np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-3 * float(np.abs(expected).max()))
            best = [math.inf, math.inf]
            for _ in range(options.rounds):
                for index, run in enumerate((quick, plain)):
                    begun = time.process_time()
                    run()
                    best[index] = min(best[index], time.process_time() - begun)
            ratios[name] = best[0] / best[1]
            print(f"{name:36} {best[0] * 1e3:9.3f} {best[1] * 1e3:9.3f} {ratios[name]:6.2f}", flush=True)
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    worst = max(ratios, key=lambda name: ratios[name])
    print(f"geometric mean of {len(ratios)}: {mean:.2f}; at most {ratios[worst]:.2f}: {worst}")


if __name__ == "__main__":
    main()
