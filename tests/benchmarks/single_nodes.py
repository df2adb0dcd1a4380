"""Single nodes in which models are furthest from ONNX Runtime, and a chain of tiny ones, as models with inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

Feeds = dict[str, Any]
_random = np.random.default_rng(0)
_TYPES = {"float16": 10, "float32": 1, "uint8": 2, "int8": 3}


def _floats(*shape: int, dtype: Any = np.float32) -> Any:
    return (_random.standard_normal(shape) * 0.1).astype(dtype)


def _bytes(*shape: int, dtype: Any = np.uint8) -> Any:
    low, high = (-127, 128) if dtype is np.int8 else (0, 256)
    return _random.integers(low, high, shape).astype(dtype)


def single(
    op: str, feeds: Feeds, weights: dict[str, Any], outputs: Sequence[tuple[str, int]], **options: Any
) -> tuple[bytes, Feeds]:
    """A model of one node that takes the feeds and then the weights; "" leaves an input out."""
    domain = options.pop("domain", "")
    order = options.pop("order", [*feeds, *weights])
    node = helper.make_node(op, order, [name for name, _ in outputs], domain=domain, **options)
    inputs = [helper.make_tensor_value_info(n, _TYPES[v.dtype.name], v.shape) for n, v in feeds.items()]
    ends = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs if name]
    initializers = [numpy_helper.from_array(v, n) for n, v in weights.items()]
    graph = helper.make_graph([node], "g", inputs, ends, initializers)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString(), feeds


def _recurrent(op: str, gates: int, length: int, size: int) -> tuple[bytes, Feeds]:
    weights = {
        "w": _floats(1, gates * size, size),
        "r": _floats(1, gates * size, size),
        "b": _floats(1, 2 * gates * size),
    }
    return single(op, {"x": _floats(length, 1, size)}, weights, [("y", 1)], hidden_size=size)


def _quantized_lstm(length: int, batch: int, size: int) -> tuple[bytes, Feeds]:
    weights = {
        "w": _bytes(1, size, 4 * size, dtype=np.int8), "r": _bytes(1, size, 4 * size, dtype=np.int8),
        "b": _floats(1, 8 * size),
        "ws": np.full(1, 0.001, np.float32), "wz": np.zeros(1, np.int8),
        "rs": np.full(1, 0.001, np.float32), "rz": np.zeros(1, np.int8),
    }  # fmt: skip
    order = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    feeds = {"x": _floats(length, batch, size)}
    return single(
        "DynamicQuantizeLSTM", feeds, weights, [("y", 1)], domain="com.microsoft", order=order, hidden_size=size
    )


def _conv_integer(channels: int, side: int, kernel: int, **options: Any) -> tuple[bytes, Feeds]:
    weights = {
        "w": _bytes(channels, channels // options.get("group", 1), kernel, kernel),
        "xz": np.array(128, np.uint8), "wz": np.array(120, np.uint8),
    }  # fmt: skip
    pads = [kernel // 2 * options.get("dilations", [1])[0]] * 4
    return single("ConvInteger", {"x": _bytes(1, channels, side, side)}, weights, [("y", 6)], pads=pads, **options)


def _matmul_integer(rows: int, depth: int, columns: int) -> tuple[bytes, Feeds]:
    weights = {"w": _bytes(depth, columns, dtype=np.int8), "xz": np.array(128, np.uint8)}
    return single("MatMulInteger", {"x": _bytes(rows, depth)}, weights, [("y", 6)])


def _float16_conv(channels: int, side: int, kernel: int, **options: Any) -> tuple[bytes, Feeds]:
    weights = {"w": _floats(channels, channels // options.get("group", 1), kernel, kernel, dtype=np.float16)}
    x = _floats(1, channels, side, side, dtype=np.float16)
    return single("Conv", {"x": x}, weights, [("y", 10)], pads=[kernel // 2] * 4, **options)


CASES: dict[str, Callable[[], tuple[bytes, Feeds]]] = {
    "lstm_int8 100x1x128": lambda: _quantized_lstm(100, 1, 128),
    "lstm_int8 100x1x512": lambda: _quantized_lstm(100, 1, 512),
    "lstm_int8 40x8x256": lambda: _quantized_lstm(40, 8, 256),
    "lstm 200x1x64": lambda: _recurrent("LSTM", 4, 200, 64),
    "lstm 200x1x256": lambda: _recurrent("LSTM", 4, 200, 256),
    "gru 200x1x64": lambda: _recurrent("GRU", 3, 200, 64),
    "gru 200x1x256": lambda: _recurrent("GRU", 3, 200, 256),
    "conv_integer 64x64 3x3": lambda: _conv_integer(64, 64, 3),
    "conv_integer 16x256 3x3": lambda: _conv_integer(16, 256, 3),
    "conv_integer 64x32 3x3 dilated": lambda: _conv_integer(64, 32, 3, dilations=[2, 2]),
    "conv_integer 128x56 1x1": lambda: _conv_integer(128, 56, 1),
    "conv_integer 96x56 3x3 depthwise": lambda: _conv_integer(96, 56, 3, group=96),
    "matmul_integer 1x512x512": lambda: _matmul_integer(1, 512, 512),
    "matmul_integer 128x768x768": lambda: _matmul_integer(128, 768, 768),
    "conv_float16 64x64 3x3": lambda: _float16_conv(64, 64, 3),
    "conv_float16 16x256 3x3": lambda: _float16_conv(16, 256, 3),
    "conv_float16 128x56 1x1": lambda: _float16_conv(128, 56, 1),
    "conv_float16 96x56 3x3 depthwise": lambda: _float16_conv(96, 56, 3, group=96),
}


def _chain(count: int = 2000) -> tuple[bytes, Feeds]:
    """Tiny additions, one after the other: what a node costs besides its kernel."""
    nodes = [helper.make_node("Add", [f"v{i}", "c"], [f"v{i + 1}"]) for i in range(count)]
    ends = [helper.make_tensor_value_info(n, 1, [4]) for n in ("v0", f"v{count}")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], [numpy_helper.from_array(_floats(4), "c")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString(), {"v0": _floats(4)}


CASES["2000 tiny nodes"] = _chain
