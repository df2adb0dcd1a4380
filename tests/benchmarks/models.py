"""Writes networks of well-known architectures with random weights as ONNX files, for the benchmarks.

Only the architecture matters: shapes, operators and how they are connected are those of the usual exports.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Builder:
    """A graph in the making: `op` adds a node and returns the name of its first output."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.name = name
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self._random = np.random.default_rng(seed)
        self._counter = itertools.count()

    def input(self, name: str, shape: Sequence[int], kind: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, array: Any) -> str:
        name = f"c{next(self._counter)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape: int, fan: int | None = None) -> str:
        """Normal numbers scaled so that activations neither vanish nor grow."""
        fan = int(np.prod(shape[1:])) if fan is None else fan
        numbers = self._random.standard_normal(shape, np.float32) * np.float32((2 / max(fan, 1)) ** 0.5)
        return self.constant(numbers)

    def ones(self, size: int) -> str:
        return self.constant(1 + 0.05 * self._random.standard_normal(size).astype(np.float32))

    def small(self, size: int) -> str:
        return self.constant(0.05 * self._random.standard_normal(size).astype(np.float32))

    def op(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        return self.ops(op_type, *inputs, outputs=outputs, **attributes)[0]

    def ops(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        names = [f"v{next(self._counter)}" for _ in range(outputs)]
        self.nodes.append(helper.make_node(op_type, inputs, names, name=f"{op_type}_{len(self.nodes)}", **attributes))
        return names

    def model(self, *outputs: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            self.name,
            self.inputs,
            [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
            self.initializers,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(model)
        onnx.checker.check_model(inferred)
        return inferred

    # -- layers ----------------------------------------------------------------------------------------------

    def conv(self, x: str, c_in: int, c_out: int, k: int, stride: int = 1, group: int = 1, bias: bool = True) -> str:
        pad = k // 2
        parameters = [self.weight(c_out, c_in // group, k, k)] + ([self.small(c_out)] if bias else [])
        return self.op(
            "Conv", x, *parameters, kernel_shape=[k, k], strides=[stride] * 2, pads=[pad] * 4, group=group,
            dilations=[1, 1],
        )  # fmt: skip

    def batch_norm(self, x: str, channels: int) -> str:
        variance = self.constant(np.abs(1 + 0.1 * self._random.standard_normal(channels)).astype(np.float32))
        scale, shift, mean = self.ones(channels), self.small(channels), self.small(channels)
        return self.op("BatchNormalization", x, scale, shift, mean, variance, epsilon=1e-5)

    def linear(self, x: str, n_in: int, n_out: int) -> str:
        return self.op("Add", self.op("MatMul", x, self.weight(n_in, n_out, fan=n_in)), self.small(n_out))

    def layer_norm(self, x: str, size: int) -> str:
        return self.op("LayerNormalization", x, self.ones(size), self.small(size), axis=-1, epsilon=1e-5)

    def gelu(self, x: str) -> str:
        half = self.op("Erf", self.op("Div", x, self.constant(np.float32(2**0.5))))
        return self.op(
            "Mul", self.op("Mul", x, self.op("Add", half, self.constant(np.float32(1)))), self.constant(np.float32(0.5))
        )

    def gelu_tanh(self, x: str) -> str:
        cube = self.op("Pow", x, self.constant(np.float32(3)))
        inner = self.op("Add", x, self.op("Mul", cube, self.constant(np.float32(0.044715))))
        curved = self.op("Tanh", self.op("Mul", inner, self.constant(np.float32((2 / np.pi) ** 0.5))))
        return self.op(
            "Mul",
            self.op("Mul", x, self.constant(np.float32(0.5))),
            self.op("Add", curved, self.constant(np.float32(1))),
        )

    def attention(self, x: str, length: int, size: int, heads: int, mask: str = "") -> str:
        """Multi-head attention written out as exporters do."""
        depth = size // heads
        split = self.constant(np.array([0, length, heads, depth], np.int64))
        parts = []
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            projected = self.op("Reshape", self.linear(x, size, size), split)
            parts.append(self.op("Transpose", projected, perm=perm))
        scores = self.op("Div", self.op("MatMul", parts[0], parts[1]), self.constant(np.float32(depth**0.5)))
        if mask:
            scores = self.op("Add", scores, mask)
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), parts[2])
        merged = self.op("Transpose", mixed, perm=[0, 2, 1, 3])
        flat = self.op("Reshape", merged, self.constant(np.array([0, length, size], np.int64)))
        return self.linear(flat, size, size)


# --- architectures ---------------------------------------------------------------------------------------------


def resnet50(name: str = "resnet50") -> onnx.ModelProto:
    """ResNet-50 at 224 with BatchNormalization folded."""
    b = Builder(name)
    x = b.op("Relu", b.conv(b.input("x", (1, 3, 224, 224)), 3, 64, 7, 2))
    x = b.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for width, blocks, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            stride = first if block == 0 else 1
            y = b.op("Relu", b.conv(x, channels, width, 1))
            y = b.op("Relu", b.conv(y, width, width, 3, stride))
            y = b.conv(y, width, 4 * width, 1)
            side = b.conv(x, channels, 4 * width, 1, stride) if block == 0 else x
            channels = 4 * width
            x = b.op("Relu", b.op("Add", y, side))
    x = b.op("Flatten", b.op("GlobalAveragePool", x))
    return b.model(b.op("Gemm", x, b.weight(1000, 2048), b.small(1000), transB=1))


def mobilenetv2(name: str = "mobilenetv2", *, bn: bool = False) -> onnx.ModelProto:
    """MobileNetV2 at 224, with BatchNormalization folded or not."""
    b = Builder(name)

    def block(x: str, c_in: int, c_out: int, k: int, stride: int = 1, group: int = 1, act: bool = True) -> str:
        x = b.conv(x, c_in, c_out, k, stride, group, bias=not bn)
        x = b.batch_norm(x, c_out) if bn else x
        return b.op("Clip", x, b.constant(np.float32(0)), b.constant(np.float32(6))) if act else x

    x = block(b.input("x", (1, 3, 224, 224)), 3, 32, 3, 2)
    channels = 32
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expand, c_out, repeats, first in stages:
        for index in range(repeats):
            stride, wide = first if index == 0 else 1, channels * expand
            y = block(x, channels, wide, 1) if expand > 1 else x
            y = block(y, wide, wide, 3, stride, wide)
            y = block(y, wide, c_out, 1, act=False)
            x = b.op("Add", x, y) if stride == 1 and channels == c_out else y
            channels = c_out
    x = b.op("Flatten", b.op("GlobalAveragePool", block(x, channels, 1280, 1)))
    return b.model(b.op("Gemm", x, b.weight(1000, 1280), b.small(1000), transB=1))


def unet(name: str = "unet", *, size: int = 256, base: int = 32) -> onnx.ModelProto:
    """U-Net of four levels with skip connections."""
    b = Builder(name)

    def double(x: str, c_in: int, c_out: int) -> str:
        return b.op("Relu", b.conv(b.op("Relu", b.conv(x, c_in, c_out, 3)), c_out, c_out, 3))

    x = double(b.input("x", (1, 3, size, size)), 3, base)
    skips = []
    channels = base
    for _ in range(4):
        skips.append((x, channels))
        x = double(b.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), channels, 2 * channels)
        channels *= 2
    for skip, width in reversed(skips):
        weight = b.weight(channels, width, 2, 2)
        x = b.op("ConvTranspose", x, weight, b.small(width), kernel_shape=[2, 2], strides=[2, 2])
        x = double(b.op("Concat", skip, x, axis=1), channels, width)
        channels = width
    return b.model(b.conv(x, base, 2, 1))


def bert_base(name: str = "bert_base", *, length: int = 128, layers: int = 12) -> onnx.ModelProto:
    """BERT-base with an attention mask."""
    b = Builder(name)
    size, heads = 768, 12
    ids = b.input("input_ids", (1, length), TensorProto.INT64)
    mask = b.input("attention_mask", (1, length), TensorProto.INT64)
    bias = b.op("Cast", b.op("Unsqueeze", mask, b.constant(np.array([1, 2], np.int64))), to=TensorProto.FLOAT)
    bias = b.op("Mul", b.op("Sub", b.constant(np.float32(1)), bias), b.constant(np.float32(-10000)))
    x = b.op("Gather", b.weight(30522, size, fan=2), ids)
    x = b.op("Add", x, b.weight(1, length, size, fan=2))
    x = b.layer_norm(x, size)
    for _ in range(layers):
        x = b.layer_norm(b.op("Add", x, b.attention(x, length, size, heads, bias)), size)
        inner = b.linear(b.gelu(b.linear(x, size, 4 * size)), 4 * size, size)
        x = b.layer_norm(b.op("Add", x, inner), size)
    first = b.op("Gather", x, b.constant(np.int64(0)), axis=1)
    pooled = b.op("Tanh", b.op("Gemm", first, b.weight(size, size), b.small(size), transB=1))
    return b.model(x, pooled)


def gpt2(name: str = "gpt2", *, length: int = 64, layers: int = 12) -> onnx.ModelProto:
    """GPT-2 small with a causal mask and the output layer over the whole vocabulary."""
    b = Builder(name)
    size, heads = 768, 12
    table = b.weight(50257, size, fan=2)
    x = b.op("Gather", table, b.input("input_ids", (1, length), TensorProto.INT64))
    x = b.op("Add", x, b.weight(1, length, size, fan=2))
    mask = b.constant(np.triu(np.full((length, length), -10000, np.float32), 1)[None, None])
    for _ in range(layers):
        x = b.op("Add", x, b.attention(b.layer_norm(x, size), length, size, heads, mask))
        inner = b.linear(b.gelu_tanh(b.linear(b.layer_norm(x, size), size, 4 * size)), 4 * size, size)
        x = b.op("Add", x, inner)
    x = b.layer_norm(x, size)
    return b.model(b.op("MatMul", x, b.op("Transpose", table, perm=[1, 0])))


def vit_b16(name: str = "vit_b16", *, layers: int = 12) -> onnx.ModelProto:
    """ViT-B/16 at 224: patches, a class token, twelve encoder layers."""
    b = Builder(name)
    size, heads, length = 768, 12, 197
    x = b.op(
        "Conv", b.input("x", (1, 3, 224, 224)), b.weight(size, 3, 16, 16), b.small(size), kernel_shape=[16, 16],
        strides=[16, 16],
    )  # fmt: skip
    x = b.op("Reshape", x, b.constant(np.array([1, size, 196], np.int64)))
    x = b.op("Concat", b.weight(1, 1, size, fan=2), b.op("Transpose", x, perm=[0, 2, 1]), axis=1)
    x = b.op("Add", x, b.weight(1, length, size, fan=2))
    for _ in range(layers):
        x = b.op("Add", x, b.attention(b.layer_norm(x, size), length, size, heads))
        x = b.op("Add", x, b.linear(b.gelu(b.linear(b.layer_norm(x, size), size, 4 * size)), 4 * size, size))
    first = b.op("Gather", b.layer_norm(x, size), b.constant(np.int64(0)), axis=1)
    return b.model(b.op("Gemm", first, b.weight(1000, size), b.small(1000), transB=1))


def lstm_gru(name: str = "lstm_gru", *, length: int = 100, size: int = 256) -> onnx.ModelProto:
    """Two layers of bidirectional LSTM, one of GRU, and a classifier."""
    b = Builder(name)
    x = b.input("x", (length, 4, 128))
    width = 128
    for _ in range(2):
        weights = [b.weight(2, 4 * size, width, fan=width), b.weight(2, 4 * size, size, fan=2 * size)]
        y = b.op("LSTM", x, *weights, b.constant(np.zeros((2, 8 * size), np.float32)), outputs=3,
                 hidden_size=size, direction="bidirectional")  # fmt: skip
        x = b.op("Transpose", y, perm=[0, 2, 1, 3])
        x = b.op("Reshape", x, b.constant(np.array([0, 0, -1], np.int64)))
        width = 2 * size
    weights = [b.weight(1, 3 * size, width, fan=width), b.weight(1, 3 * size, size, fan=2 * size)]
    y = b.op("GRU", x, *weights, b.constant(np.zeros((1, 6 * size), np.float32)), outputs=2, hidden_size=size)
    x = b.op("Squeeze", y, b.constant(np.array([1], np.int64)))
    return b.model(b.op("Softmax", b.linear(x, size, 50), axis=-1))


# --- quantised -------------------------------------------------------------------------------------------------


def quantise(model: onnx.ModelProto, feeds: dict[str, Any]) -> onnx.ModelProto:
    """QuantizeLinear and DequantizeLinear around every Conv and Gemm, scales from one run; weights in int8."""
    values = calibrate(model, feeds)
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    del graph.node[:], graph.value_info[:]
    made: dict[str, str] = {}

    def add(name: str, array: Any) -> str:
        graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def activation(name: str) -> str:
        if name not in made:
            low, high = min(0.0, float(values[name].min())), max(0.0, float(values[name].max()))
            scale = max(high - low, 1e-6) / 255
            parameters = [add(f"{name}_scale", np.float32(scale)), add(f"{name}_zero", np.uint8(round(-low / scale)))]
            graph.node.append(helper.make_node("QuantizeLinear", [name, *parameters], [f"{name}_q"]))
            graph.node.append(helper.make_node("DequantizeLinear", [f"{name}_q", *parameters], [f"{name}_dq"]))
            made[name] = f"{name}_dq"
        return made[name]

    def weight(name: str) -> str:
        if name not in made:
            array = weights[name]
            scale = (np.abs(array.reshape(array.shape[0], -1)).max(1) / 127).astype(np.float32)
            shaped = scale.reshape(-1, *[1] * (array.ndim - 1))
            add(f"{name}_q", np.clip(np.rint(array / shaped), -127, 127).astype(np.int8))
            parameters = [add(f"{name}_scale", scale), add(f"{name}_zero", np.zeros(len(scale), np.int8))]
            made[name] = f"{name}_dq"
            graph.node.append(helper.make_node("DequantizeLinear", [f"{name}_q", *parameters], [made[name]], axis=0))
        return made[name]

    for node in model.graph.node:
        copy = graph.node.add()
        if node.op_type in ("Conv", "Gemm"):
            inputs = [activation(node.input[0]), weight(node.input[1]), *node.input[2:]]
            graph.node.remove(copy)
            copy = graph.node.add()
            copy.CopyFrom(node)
            copy.input[:] = inputs
        else:
            copy.CopyFrom(node)
    used = {i for n in graph.node for i in n.input}
    kept = [t for t in graph.initializer if t.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return onnx.shape_inference.infer_shapes(result)


def calibrate(model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any]:
    """Every float value of a model for one input."""
    from onnx_workbench.exec.session import Session
    from onnx_workbench.model.io.reader.read import load

    result = Session(load(model.SerializeToString())).run(feeds).raise_for_failure()
    return {name: v for name in result.values if isinstance(v := result.values[name], np.ndarray)} | feeds


def random_feeds(model: onnx.ModelProto, seed: int = 0) -> dict[str, Any]:
    """An input for each of a model's inputs: normal numbers, token numbers, ones for a mask."""
    random = np.random.default_rng(seed)
    feeds: dict[str, Any] = {}
    for value in model.graph.input:
        shape = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        if value.type.tensor_type.elem_type != TensorProto.INT64:
            feeds[value.name] = random.standard_normal(shape, np.float32)
        elif "mask" in value.name:
            feeds[value.name] = np.ones(shape, np.int64)
        else:
            feeds[value.name] = random.integers(0, 30000, shape)
    return feeds


def _quantised(make: Callable[[str], onnx.ModelProto], name: str) -> onnx.ModelProto:
    model = make(name)
    return quantise(model, random_feeds(model))


#: Every architecture by name.
MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet50": resnet50,
    "mobilenetv2": mobilenetv2,
    "mobilenetv2_bn": lambda: mobilenetv2("mobilenetv2_bn", bn=True),
    "unet": unet,
    "bert_base": bert_base,
    "gpt2": gpt2,
    "vit_b16": vit_b16,
    "lstm_gru": lstm_gru,
    "resnet50_qdq": lambda: _quantised(resnet50, "resnet50_qdq"),
    "mobilenetv2_qdq": lambda: _quantised(mobilenetv2, "mobilenetv2_qdq"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", choices=[*MODELS, []], help="all unless named")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.models or MODELS:
        path = options.folder / f"{name}.onnx"
        onnx.save(MODELS[name](), path)
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
