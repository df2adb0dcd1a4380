"""Kernels against ONNX Runtime and onnx.reference.

Run from the repository root: ``python -m tests.benchmarks.bench_kernels [part of a name …] [--reference]``. Weights
are constants for both engines. One thread, CPU time, the least of several rounds in turns; a ratio above 1 means that
many times slower than ONNX Runtime.
"""

from __future__ import annotations

import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import onnxruntime
from onnx import ModelProto, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.kernels.registry import find
from tests.exec.kernels.harness import one_node_model


@dataclass(frozen=True)
class Case:
    """One node: its first `fed` inputs come with the call, the others are constants."""

    op_type: str
    opset: int
    inputs: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    fed: int = 1
    outputs: int = 1
    domain: str = ""


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def integers(dtype: Any, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return np.random.default_rng(0).integers(info.min, info.max, shape, dtype, endpoint=True)


def number(value: float, dtype: Any = np.float32) -> Any:
    return np.array(value, dtype)


def fed(op_type: str, opset: int, *inputs: Any, outputs: int = 1, **attributes: Any) -> Case:
    """A node all of whose inputs come with the call."""
    return Case(op_type, opset, list(inputs), attributes, len(inputs), outputs)


def positive(*shape: int) -> Any:
    return np.abs(normal(*shape)) + np.float32(0.1)


def conv(
    channels: int, outputs: int, size: int, kernel: int, stride: int = 1, pad: int | None = None, **more: Any
) -> Case:
    """A square Conv with bias; group may be among `more`."""
    group = more.get("group", 1)
    pad = kernel // 2 if pad is None else pad
    weights = normal(outputs, channels // group, kernel, kernel) / math.sqrt(channels // group * kernel * kernel)
    attributes = {"pads": [pad] * 4, "strides": [stride] * 2, **more}
    return Case("Conv", 13, [normal(1, channels, size, size), weights, normal(outputs)], attributes)


def depthwise(channels: int, size: int, kernel: int = 3, stride: int = 1) -> Case:
    return conv(channels, channels, size, kernel, stride, group=channels)


def transposed(channels: int, outputs: int, size: int, kernel: int, pad: int) -> Case:
    """A square ConvTranspose of stride 2."""
    weights = normal(channels, outputs, kernel, kernel) / math.sqrt(channels * kernel)
    attributes = {"strides": [2, 2], "pads": [pad] * 4}
    return Case("ConvTranspose", 13, [normal(1, channels, size, size), weights, normal(outputs)], attributes)


def recurrent(op_type: str, gates: int, steps: int, batch: int, inputs: int, hidden: int, **more: Any) -> Case:
    directions = 2 if more.get("direction") == "bidirectional" else 1
    scale = np.float32(1 / math.sqrt(hidden))
    weights = [
        normal(directions, gates * hidden, inputs) * scale,
        normal(directions, gates * hidden, hidden) * scale,
        normal(directions, 2 * gates * hidden) * scale,
    ]
    attributes = {"hidden_size": hidden, **more}
    return Case(op_type, 14, [normal(steps, batch, inputs), *weights], attributes, outputs=3 if gates == 4 else 2)


def pool(op_type: str, channels: int, size: int, kernel: int, stride: int, pad: int) -> Case:
    attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    return Case(op_type, 12, [normal(1, channels, size, size)], attributes)


def batch_norm(channels: int, size: int) -> Case:
    constants = [normal(channels), normal(channels), normal(channels), positive(channels)]
    return Case("BatchNormalization", 15, [normal(1, channels, size, size), *constants])


def resize(size: int, target: int, channels: int = 64, **attributes: Any) -> Case:
    sizes = np.array([1, channels, target, target])
    empty = np.zeros(0, np.float32)
    return Case("Resize", 13, [normal(1, channels, size, size), empty, empty, sizes], attributes)


def forest(trees: int = 200, depth: int = 6) -> dict[str, Any]:
    """Attributes of a regressor of complete trees over eight features."""
    rng = np.random.default_rng(0)
    inner, nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    order = np.arange(nodes)
    split = order < inner
    each = {
        "nodes_nodeids": order,
        "nodes_truenodeids": np.where(split, 2 * order + 1, 0),
        "nodes_falsenodeids": np.where(split, 2 * order + 2, 0),
    }
    every = {name: np.tile(values, trees).tolist() for name, values in each.items()}
    leaves = np.tile(order[~split], trees).tolist()
    return every | {
        "nodes_modes": ["BRANCH_LEQ" if s else "LEAF" for s in split] * trees,
        "nodes_treeids": np.repeat(np.arange(trees), nodes).tolist(),
        "nodes_featureids": rng.integers(0, 8, trees * nodes).tolist(),
        "nodes_values": rng.standard_normal(trees * nodes).tolist(),
        "target_nodeids": leaves,
        "target_treeids": np.repeat(np.arange(trees), nodes - inner).tolist(),
        "target_ids": [0] * len(leaves),
        "target_weights": rng.standard_normal(len(leaves)).tolist(),
        "n_targets": 1,
    }


BIG = normal(8, 128, 32, 32)
TEXT = normal(1, 128, 3072)
TABLE, IDS = normal(30000, 256), np.random.default_rng(0).integers(0, 30000, (8, 128))
SCORES, MASK = normal(8, 12, 128, 128), normal(8, 1, 128, 128) > 0
BYTE = number(128, np.uint8)
HEADS = {"equation": "bqhd,bkhd->bhqk"}
CASES: dict[str, Case] = {
    "Add same": fed("Add", 14, BIG, BIG),
    "Add channel": fed("Add", 14, BIG, normal(128, 1, 1)),
    "Add row": fed("Add", 14, TEXT, normal(3072)),
    "Add scalar": fed("Add", 14, BIG, number(2)),
    "Add small": fed("Add", 14, normal(4), normal(4)),
    "Div same": fed("Div", 14, BIG, BIG),
    "Div int": fed("Div", 14, integers(np.int64, 1000000), np.full(1, 7, np.int64)),
    "Mod": fed("Mod", 13, integers(np.int32, 1000000), np.full(1, 7, np.int32)),
    "Pow 2": fed("Pow", 15, BIG, number(2)),
    "Pow 3": fed("Pow", 15, BIG, number(3)),
    "Pow 2.5": fed("Pow", 15, abs(BIG), number(2.5)),
    "Gelu": fed("Gelu", 20, BIG),
    "Gelu tanh": fed("Gelu", 20, BIG, approximate="tanh"),
    **{name: fed(name, 13, BIG) for name in ("Exp", "Erf", "Tanh", "Sigmoid", "Relu")},
    **{name: fed(name, 13, BIG) for name in ("HardSigmoid", "Elu", "Softplus")},
    "Sqrt": fed("Sqrt", 13, abs(BIG)),
    "HardSwish": fed("HardSwish", 14, BIG),
    "Mish": fed("Mish", 18, BIG),
    "LeakyRelu": fed("LeakyRelu", 16, BIG, alpha=0.1),
    "PRelu": fed("PRelu", 16, BIG, normal(128, 1, 1)),
    "Clip": fed("Clip", 13, BIG, number(0), number(6)),
    "Greater": fed("Greater", 13, BIG, number(0)),
    "Softmax 128": fed("Softmax", 13, normal(12, 128, 128)),
    "Softmax 1000": fed("Softmax", 13, normal(64, 1000)),
    "Softmax 16": fed("Softmax", 13, normal(4096, 16)),
    "Softmax 10": fed("Softmax", 13, normal(100, 10)),
    "Softmax channels": fed("Softmax", 13, normal(1, 21, 128, 128), axis=1),
    "LogSoftmax": fed("LogSoftmax", 13, normal(64, 1000)),
    "MatMul 3-D × 2-D": fed("MatMul", 13, normal(1, 128, 768), normal(768, 768)),
    "MatMul heads": fed("MatMul", 13, normal(1, 12, 128, 64), normal(1, 12, 64, 128)),
    "MatMul vector": fed("MatMul", 13, normal(1, 768), normal(768, 3072)),
    "Gemm": fed("Gemm", 13, normal(64, 2048), normal(1000, 2048), normal(1000), transB=1),
    "Gemm row": fed("Gemm", 13, normal(1, 2048), normal(1000, 2048), normal(1000), transB=1),
    "MatMulInteger": fed("MatMulInteger", 10, integers(np.uint8, 128, 768), integers(np.int8, 768, 768), BYTE),
    "Einsum heads": fed("Einsum", 12, normal(1, 128, 12, 64), normal(1, 128, 12, 64), **HEADS),
    "ReduceMean last": fed("ReduceMean", 18, TEXT, np.array([-1])),
    "ReduceMean 768": fed("ReduceMean", 18, normal(512, 768), np.array([-1])),
    "ReduceMean spatial": fed("ReduceMean", 18, BIG, np.array([2, 3])),
    "ReduceMean 49": fed("ReduceMean", 18, normal(8, 512, 7, 7), np.array([2, 3])),
    "ReduceSum channels": fed("ReduceSum", 13, BIG, np.array([1])),
    "ReduceMax last": fed("ReduceMax", 20, TEXT, np.array([-1])),
    "ReduceL2": fed("ReduceL2", 18, normal(512, 768), np.array([-1])),
    "ArgMax": fed("ArgMax", 13, normal(64, 1000), axis=-1),
    "TopK 5 of 1000": fed("TopK", 11, normal(64, 1000), np.array([5]), outputs=2),
    "TopK 300 of 8400": fed("TopK", 11, normal(1, 8400), np.array([300]), outputs=2),
    "CumSum": fed("CumSum", 14, normal(64, 1000), np.array(1)),
    "QuantizeLinear": fed("QuantizeLinear", 13, BIG, number(0.02), BYTE),
    "DequantizeLinear": fed("DequantizeLinear", 13, integers(np.uint8, 8, 128, 32, 32), number(0.02), BYTE),
    "DequantizeLinear axis": fed(
        "DequantizeLinear", 13, integers(np.int8, 512, 512, 3, 3), abs(normal(512)), np.zeros(512, np.int8), axis=0
    ),
    "DynamicQuantizeLinear": fed("DynamicQuantizeLinear", 11, BIG, outputs=3),
    "Cast f32→i64": fed("Cast", 13, BIG, to=7),
    "Cast f32→f16": fed("Cast", 13, BIG, to=10),
    "Reshape": fed("Reshape", 14, BIG, np.array([0, -1])),
    "Transpose": fed("Transpose", 13, SCORES, perm=[0, 2, 1, 3]),
    "Slice": fed("Slice", 13, BIG, np.array([8]), np.array([24]), np.array([2])),
    "Expand": fed("Expand", 13, MASK, np.array([8, 12, 128, 128])),
    "Gather rows": fed("Gather", 13, TABLE, IDS),
    "Gather one": fed("Gather", 13, BIG, np.array(3), axis=1),
    "GatherElements": fed("GatherElements", 13, SCORES, abs(integers(np.int64, 8, 12, 128, 128) % 128), axis=3),
    "Concat": fed("Concat", 13, BIG, BIG, axis=1),
    "Pad": fed("Pad", 13, BIG, np.array([0, 0, 1, 1, 0, 0, 1, 1])),
    "Pad, reflect": fed("Pad", 13, BIG, np.array([0, 0, 1, 1, 0, 0, 1, 1]), mode="reflect"),
    "Where": fed("Where", 16, MASK, SCORES, number(-1e9)),
    "Tile": fed("Tile", 13, TABLE[:512], np.array([4, 2])),
    "ScatterND": fed("ScatterND", 18, TABLE, IDS[:, :, None], TABLE[IDS]),
    "OneHot": fed("OneHot", 11, IDS, np.array(1000), np.array([0, 1], np.float32)),
    "NonZero": fed("NonZero", 13, MASK),
    "200 trees, 20 rows": Case("TreeEnsembleRegressor", 3, [normal(20, 8)], forest(), domain="ai.onnx.ml"),
    "Conv 3x3 64@56": conv(64, 64, 56, 3),
    "Conv 3x3 128@28": conv(128, 128, 28, 3),
    "Conv 3x3 256@14": conv(256, 256, 14, 3),
    "Conv 3x3 512@7": conv(512, 512, 7, 3),
    "Conv 3x3 32@256": conv(32, 32, 256, 3),
    "Conv 3x3 64@128": conv(64, 64, 128, 3),
    "Conv 3x3 256@32": conv(256, 256, 32, 3),
    "Conv 3x3 512@14": conv(512, 512, 14, 3),
    "Conv 3x3 64>192@56": conv(64, 192, 56, 3),
    "Conv 3x3 s2 128@56": conv(128, 128, 56, 3, 2),
    "Conv 3x3 s2 256@28": conv(256, 256, 28, 3, 2),
    "Conv 3x3 dilated": conv(64, 64, 56, 3, 1, 2, dilations=[2, 2]),
    "Conv 5x5 32@28": conv(32, 96, 28, 5),
    "Conv 7x7 s2 stem": conv(3, 64, 224, 7, 2),
    "Conv 3x3 s2 stem": conv(3, 32, 224, 3, 2),
    "Conv 3x3 stem": conv(3, 64, 224, 3),
    "Conv 11x11 s4": conv(3, 96, 224, 11, 4, 0),
    "Conv patch 16": conv(3, 768, 224, 16, 16, 0),
    "Conv 1x1 64>256@56": conv(64, 256, 56, 1),
    "Conv 1x1 256>64@56": conv(256, 64, 56, 1),
    "Conv 1x1 512>128@28": conv(512, 128, 28, 1),
    "Conv 1x1 1024>256@14": conv(1024, 256, 14, 1),
    "Conv 1x1 2048>512@7": conv(2048, 512, 7, 1),
    "Conv 1x1 s2 256>512": conv(256, 512, 56, 1, 2),
    "Conv 1x1 96>24@56": conv(96, 24, 56, 1),
    "Conv 1x1 16>96@112": conv(16, 96, 112, 1),
    "Conv 1x1 160>960@7": conv(160, 960, 7, 1),
    "Conv groups 8": conv(128, 128, 28, 3, group=8),
    "Conv groups 32": conv(256, 256, 28, 3, group=32),
    "Conv groups 3 1x1": conv(240, 240, 28, 1, group=3),
    "Depthwise 32@112": depthwise(32, 112),
    "Depthwise 96@112 s2": depthwise(96, 112, stride=2),
    "Depthwise 144@56": depthwise(144, 56),
    "Depthwise 144@56 s2": depthwise(144, 56, stride=2),
    "Depthwise 192@28": depthwise(192, 28),
    "Depthwise 384@14": depthwise(384, 14),
    "Depthwise 576@14 s2": depthwise(576, 14, stride=2),
    "Depthwise 960@7": depthwise(960, 7),
    "Depthwise 5x5 120@28": depthwise(120, 28, 5),
    "Depthwise 5x5 672@14 s2": depthwise(672, 14, 5, 2),
    "Conv 1-D": Case("Conv", 13, [normal(8, 64, 500), normal(128, 64, 5) / 18, normal(128)], {"pads": [2, 2]}),
    "Conv 3-D": Case("Conv", 13, [normal(1, 16, 16, 32, 32), normal(32, 16, 3, 3, 3) / 20], {"pads": [1] * 6}),
    "ConvTranspose 2 s2": transposed(128, 64, 32, 2, 0),
    "ConvTranspose 4 s2": transposed(64, 32, 32, 4, 1),
    "MaxPool 3 s2 64@112": pool("MaxPool", 64, 112, 3, 2, 1),
    "MaxPool 2 s2 64@128": pool("MaxPool", 64, 128, 2, 2, 0),
    "MaxPool 3 s1 480@14": pool("MaxPool", 480, 14, 3, 1, 1),
    "AveragePool 3 s1 256@28": pool("AveragePool", 256, 28, 3, 1, 1),
    "AveragePool 2 s2 128@56": pool("AveragePool", 128, 56, 2, 2, 0),
    "AveragePool 7": pool("AveragePool", 1024, 7, 7, 1, 0),
    "GlobalAveragePool": Case("GlobalAveragePool", 13, [normal(1, 2048, 7, 7)]),
    "BatchNorm 64@112": batch_norm(64, 112),
    "BatchNorm 256@56": batch_norm(256, 56),
    "BatchNorm 512@7": batch_norm(512, 7),
    "InstanceNorm 64@64": Case("InstanceNormalization", 13, [normal(1, 64, 64, 64), normal(64), normal(64)]),
    "LayerNorm 128x768": Case("LayerNormalization", 17, [normal(1, 128, 768), normal(768), normal(768)]),
    "LayerNorm 197x768": Case("LayerNormalization", 17, [normal(1, 197, 768), normal(768), normal(768)]),
    "GroupNorm 32": Case(
        "GroupNormalization", 21, [normal(1, 256, 32, 32), normal(256), normal(256)], {"num_groups": 32}
    ),
    "LRN 5": Case("LRN", 13, [positive(1, 96, 54, 54)], {"size": 5}),
    "LSTM 50x1x128": recurrent("LSTM", 4, 50, 1, 128, 128),
    "LSTM 50x8x256": recurrent("LSTM", 4, 50, 8, 256, 256),
    "LSTM 100x1x256 bi": recurrent("LSTM", 4, 100, 1, 256, 256, direction="bidirectional"),
    "GRU 50x1x128": recurrent("GRU", 3, 50, 1, 128, 128),
    "GRU 50x8x256": recurrent("GRU", 3, 50, 8, 256, 256, linear_before_reset=1),
    "RNN 50x8x256": recurrent("RNN", 1, 50, 8, 256, 256),
    "Resize nearest ×2": resize(64, 128, coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "Resize linear ×2": resize(64, 128, mode="linear"),
    "Resize linear 65>129": resize(65, 129, 21, mode="linear", coordinate_transformation_mode="align_corners"),
    "Resize cubic ×2": resize(64, 128, 16, mode="cubic"),
    "GridSample": Case("GridSample", 16, [normal(1, 32, 64, 64), np.tanh(normal(1, 64, 64, 2))], fed=2),
    "Attention 12x128": Case("Attention", 23, [normal(1, 12, 128, 64)] * 3, fed=3),
}  # fmt: skip


def model_of(case: Case) -> tuple[ModelProto, dict[str, Any]]:
    """The node with its constants as initializers."""
    model, feeds = one_node_model(
        case.op_type, case.inputs, opset=case.opset, domain=case.domain, outputs=case.outputs, **case.attributes
    )
    for name in [i.name for i in model.graph.input][case.fed :]:
        model.graph.initializer.append(numpy_helper.from_array(feeds.pop(name), name))
    del model.graph.input[case.fed :]
    return model, feeds


def theirs(model: ModelProto, feeds: dict[str, Any]) -> Callable[[], Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    typed = shape_inference.infer_shapes(model).SerializeToString()
    session = onnxruntime.InferenceSession(typed, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


def ours(case: Case) -> Callable[[], Any]:
    """The prepared kernel, as a plan would call it."""
    kernel = find(case.op_type, case.opset, case.domain)
    attributes = {k: tuple(v) if isinstance(v, list) else v for k, v in case.attributes.items()}
    constants = [None if i < case.fed else v for i, v in enumerate(case.inputs)]
    prepared = kernel.prepare(constants, **attributes) if kernel.prepare else None
    if prepared is not None:
        return lambda: prepared(*case.inputs)
    leading = (Context(case.op_type, case.opset, wanted=(True,) * case.outputs),) if kernel.takes_context else ()
    return lambda: kernel.function(*leading, *case.inputs, **attributes)


def once(run: Callable[[], Any], count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        run()
    return (time.process_time() - start) / count


def measure(case: Case, *, reference: bool) -> tuple[float, float, float]:
    """CPU seconds of one call: ours, ONNX Runtime's, onnx.reference's (NaN when not asked for)."""
    model, feeds = model_of(case)
    engines = [ours(case), theirs(model, feeds)]
    mine, other = (e() for e in engines)
    first = mine[0] if isinstance(mine, tuple) else mine
    np.testing.assert_allclose(first, other[0], rtol=2e-4, atol=2e-4 * float(np.abs(other[0]).max()))
    count = max(1, int(0.004 / max(once(engines[0], 2), 1e-7)))
    least = [math.inf, math.inf]
    for _ in range(9):
        least = [min(t, once(engine, count)) for t, engine in zip(least, engines, strict=True)]
    slow = math.nan
    if reference:
        evaluator = ReferenceEvaluator(model)
        slow = once(lambda: evaluator.run(None, feeds), 1)
    return least[0], least[1], slow


def main() -> None:
    """Print a line per kernel and the geometric mean."""
    warnings.simplefilter("ignore")
    wanted = [a.lower() for a in sys.argv[1:] if not a.startswith("-")]
    ratios = []
    print(f"{'kernel':26} {'ours ms':>9} {'ORT ms':>9} {'ratio':>6} {'reference':>9}")
    with np.errstate(all="ignore"):
        for name, case in CASES.items():
            if wanted and not any(w in name.lower() for w in wanted):
                continue
            mine, other, slow = measure(case, reference="--reference" in sys.argv)
            ratios.append(mine / other)
            times = "" if math.isnan(slow) else f"{slow / mine:8.1f}×"
            print(f"{name:26} {mine * 1e3:9.3f} {other * 1e3:9.3f} {mine / other:6.2f} {times:>9}", flush=True)
    if ratios:
        print(f"{'geometric mean':26} {'':9} {'':9} {math.exp(sum(map(math.log, ratios)) / len(ratios)):6.2f}")


if __name__ == "__main__":
    main()
