"""Mathematical kernels against ONNX Runtime and plain numpy, one thread, CPU time of the best of several rounds.

Run from the repository root: ``python -m tests.benchmarks.bench_kernels_math [name …]``. The engines take turns in
one process; a ratio above 1 means that many times slower than the yardstick.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from tests.exec.kernels.harness import call, one_node_model

Case = tuple[str, int, list[Any], dict[str, Any], Callable[..., Any] | None]


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def integers(dtype: Any, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return np.random.default_rng(0).integers(info.min, info.max, shape, dtype, endpoint=True)


def number(value: float, dtype: Any = np.float32) -> Any:
    return np.array(value, dtype)


def erf(x: Any) -> Any:
    return np.array([math.erf(v) for v in x.reshape(-1).tolist()], x.dtype).reshape(x.shape)


def softmax(x: Any, **_: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def quantize(x: Any, s: Any, z: Any) -> Any:
    return np.clip(np.rint(x / s) + z, 0, 255).astype(np.uint8)


BIG = normal(8, 128, 32, 32)
TEXT = normal(1, 128, 3072)
CASES: dict[str, Case] = {
    "Add same": ("Add", 14, [BIG, BIG], {}, np.add),
    "Add channel": ("Add", 14, [BIG, normal(128, 1, 1)], {}, np.add),
    "Add row": ("Add", 14, [TEXT, normal(3072)], {}, np.add),
    "Add scalar": ("Add", 14, [BIG, number(2)], {}, np.add),
    "Mul channel": ("Mul", 14, [BIG, normal(128, 1, 1)], {}, np.multiply),
    "Div same": ("Div", 14, [BIG, BIG], {}, np.divide),
    "Add small": ("Add", 14, [normal(4), normal(4)], {}, np.add),
    "Pow 2": ("Pow", 15, [BIG, number(2)], {}, np.power),
    "Pow 3": ("Pow", 15, [BIG, number(3)], {}, np.power),
    "Pow 2.5": ("Pow", 15, [abs(BIG), number(2.5)], {}, np.power),
    "Sqrt": ("Sqrt", 13, [abs(BIG)], {}, np.sqrt),
    "Exp": ("Exp", 13, [BIG], {}, np.exp),
    "Erf": ("Erf", 13, [BIG], {}, None),
    "Gelu": ("Gelu", 20, [BIG], {}, None),
    "Gelu tanh": ("Gelu", 20, [BIG], {"approximate": "tanh"}, None),
    "Tanh": ("Tanh", 13, [BIG], {}, np.tanh),
    "Sigmoid": ("Sigmoid", 13, [BIG], {}, lambda x: 1 / (1 + np.exp(-x))),
    "Relu": ("Relu", 14, [BIG], {}, lambda x: np.maximum(x, 0)),
    "LeakyRelu": ("LeakyRelu", 16, [BIG], {"alpha": 0.1}, lambda x, **_: np.where(x < 0, 0.1 * x, x)),
    "PRelu": ("PRelu", 16, [BIG, normal(128, 1, 1)], {}, lambda x, s: np.where(x < 0, s * x, x)),
    "Clip": ("Clip", 13, [BIG, number(0), number(6)], {}, np.clip),
    "HardSwish": ("HardSwish", 14, [BIG], {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "HardSigmoid": ("HardSigmoid", 6, [BIG], {}, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    "Elu": ("Elu", 6, [BIG], {}, lambda x: np.where(x < 0, np.expm1(x), x)),
    "Softplus": ("Softplus", 1, [BIG], {}, lambda x: np.logaddexp(0, x)),
    "Mish": ("Mish", 18, [BIG], {}, lambda x: x * np.tanh(np.logaddexp(0, x))),
    "Softmax 128": ("Softmax", 13, [normal(12, 128, 128)], {}, softmax),
    "Softmax 1000": ("Softmax", 13, [normal(64, 1000)], {}, softmax),
    "Softmax 16": ("Softmax", 13, [normal(4096, 16)], {}, softmax),
    "Softmax 10": ("Softmax", 13, [normal(100, 10)], {}, softmax),
    "Softmax channels": ("Softmax", 13, [normal(1, 21, 128, 128)], {"axis": 1}, None),
    "LogSoftmax": ("LogSoftmax", 13, [normal(64, 1000)], {}, None),
    "MatMul 3-D × 2-D": ("MatMul", 13, [normal(1, 128, 768), normal(768, 768)], {}, np.matmul),
    "MatMul heads": ("MatMul", 13, [normal(1, 12, 128, 64), normal(1, 12, 64, 128)], {}, np.matmul),
    "MatMul vector": ("MatMul", 13, [normal(1, 768), normal(768, 3072)], {}, np.matmul),
    "Gemm": ("Gemm", 13, [normal(64, 2048), normal(1000, 2048), normal(1000)], {"transB": 1}, None),
    "Gemm row": ("Gemm", 13, [normal(1, 2048), normal(1000, 2048), normal(1000)], {"transB": 1}, None),
    "MatMulInteger": (
        "MatMulInteger",
        10,
        [integers(np.uint8, 128, 768), integers(np.int8, 768, 768), number(128, np.uint8), number(0, np.int8)],
        {},
        None,
    ),
    "Einsum heads": (
        "Einsum",
        12,
        [normal(1, 128, 12, 64), normal(1, 128, 12, 64)],
        {"equation": "bqhd,bkhd->bhqk"},
        lambda a, b, equation: np.einsum(equation, a, b),
    ),
    "ReduceMean last": ("ReduceMean", 18, [TEXT, np.array([-1])], {}, lambda x, _: x.mean(-1, keepdims=True)),
    "ReduceMean 768": ("ReduceMean", 18, [normal(512, 768), np.array([-1])], {}, lambda x, _: x.mean(-1)),
    "ReduceMean spatial": (
        "ReduceMean",
        18,
        [BIG, np.array([2, 3])],
        {},
        lambda x, _: x.mean((2, 3), keepdims=True),
    ),
    "ReduceMean 49": ("ReduceMean", 18, [normal(8, 512, 7, 7), np.array([2, 3])], {}, lambda x, _: x.mean((2, 3))),
    "ReduceSum channels": ("ReduceSum", 13, [BIG, np.array([1])], {}, lambda x, _: x.sum(1, keepdims=True)),
    "ReduceMax last": ("ReduceMax", 20, [TEXT, np.array([-1])], {}, lambda x, _: x.max(-1, keepdims=True)),
    "ReduceL2": ("ReduceL2", 18, [normal(512, 768), np.array([-1])], {}, lambda x, _: np.linalg.norm(x, axis=-1)),
    "ArgMax": ("ArgMax", 13, [normal(64, 1000)], {"axis": -1}, None),
    "TopK 5 of 1000": ("TopK", 11, [normal(64, 1000), np.array([5])], {}, None),
    "TopK 300 of 8400": ("TopK", 11, [normal(1, 8400), np.array([300])], {}, None),
    "CumSum": ("CumSum", 14, [normal(64, 1000), np.array(1)], {}, None),
    "QuantizeLinear": ("QuantizeLinear", 13, [BIG, number(0.02), number(128, np.uint8)], {}, quantize),
    "DequantizeLinear": (
        "DequantizeLinear",
        13,
        [integers(np.uint8, 8, 128, 32, 32), number(0.02), number(128, np.uint8)],
        {},
        lambda x, s, z: (x.astype(np.float32) - z) * s,
    ),
    "DequantizeLinear axis": (
        "DequantizeLinear",
        13,
        [integers(np.int8, 512, 512, 3, 3), abs(normal(512)), np.zeros(512, np.int8)],
        {"axis": 0},
        None,
    ),
    "DynamicQuantizeLinear": ("DynamicQuantizeLinear", 11, [BIG], {}, None),
    "Cast f32→i64": ("Cast", 13, [BIG], {"to": 7}, None),
    "Cast f32→f16": ("Cast", 13, [BIG], {"to": 10}, None),
    "Greater": ("Greater", 13, [BIG, number(0)], {}, np.greater),
    "Mod": ("Mod", 13, [integers(np.int32, 1000000), np.full(1, 7, np.int32)], {}, np.mod),
    "Div int": ("Div", 14, [integers(np.int64, 1000000), np.full(1, 7, np.int64)], {}, np.floor_divide),
}
OUTPUTS = {"TopK": 2, "DynamicQuantizeLinear": 3}


def best(run: Callable[[], Any], rounds: int = 7) -> float:
    """CPU seconds of one call, the least of several rounds of at least 5 ms each."""
    start = time.process_time()
    run()
    count = max(1, int(0.005 / max(time.process_time() - start, 1e-7)))
    least = math.inf
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(count):
            run()
        least = min(least, (time.process_time() - start) / count)
    return least


def ort_runner(case: Case) -> Callable[[], Any] | None:
    """A call of ONNX Runtime on one thread with the inputs bound, or None where it is absent or has no kernel."""
    try:
        import onnxruntime as ort
    except ImportError:
        return None
    op_type, opset, inputs, attributes, _ = case
    import onnx

    model, feeds = one_node_model(op_type, inputs, opset=opset, outputs=OUTPUTS.get(op_type, 1), **attributes)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    model = onnx.shape_inference.infer_shapes(model)
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


def main() -> None:
    """Print a line per case and the geometric means."""
    wanted = [a.lower() for a in sys.argv[1:]]
    ratios = []
    print(f"{'case':24} {'ours ms':>9} {'ORT ms':>9} {'numpy ms':>9} {'ours/ORT':>9} {'ours/numpy':>10}")
    for name, case in CASES.items():
        if wanted and not any(w in name.lower() for w in wanted):
            continue
        op_type, opset, inputs, attributes, plain = case
        ours = best(partial(call, op_type, inputs, opset=opset, **attributes))
        runner = ort_runner(case)
        ort = best(runner) if runner else math.nan
        with np.errstate(all="ignore"):
            base = best(partial(plain, *inputs, **attributes)) if plain else math.nan
        ratios.append(ours / ort)
        print(f"{name:24} {ours * 1e3:9.3f} {ort * 1e3:9.3f} {base * 1e3:9.3f} {ours / ort:9.2f} {ours / base:10.2f}")
    known = [r for r in ratios if not math.isnan(r)]
    if known:
        print(f"geometric mean ours/ORT {math.exp(sum(map(math.log, known)) / len(known)):.2f} over {len(known)}")


if __name__ == "__main__":
    main()
