"""Makes resources/sample/digits.onnx: draws digits, trains a small network on them with numpy, and writes it as ONNX.

    python packaging/sample/make_sample.py

Takes about a minute. Needs numpy, Pillow and onnx. The result depends on their versions only in the last digits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image, ImageDraw, ImageFont

TARGET = Path(__file__).resolve().parents[2] / "resources" / "sample" / "digits.onnx"
SIZE = 28
CHANNELS, WIDE = 12, 24
MEAN, DEVIATION = 0.13, 0.31
Floats = NDArray[np.float32]


def draw_digits(rng: np.random.Generator, count: int) -> tuple[Floats, NDArray[np.int64]]:
    """Images [count, 1, 28, 28] from 0 to 255 and the digits on them, each turned, moved, scaled and noisy."""
    digits = rng.integers(0, 10, count)
    images = np.empty((count, 1, SIZE, SIZE), np.float32)
    for index, digit in enumerate(digits):
        font = ImageFont.load_default(float(rng.uniform(17, 27)))
        image = Image.new("L", (SIZE * 2, SIZE * 2))
        ImageDraw.Draw(image).text((SIZE, SIZE), str(digit), fill=255, font=font, anchor="mm")
        shear = float(rng.uniform(-0.25, 0.25))
        image = image.transform(image.size, Image.Transform.AFFINE, (1, shear, -shear * SIZE, 0, 1, 0))
        image = image.rotate(float(rng.uniform(-15, 15)), Image.Resampling.BILINEAR)
        left, top = (SIZE // 2 + rng.integers(-3, 4, 2)).tolist()
        images[index, 0] = np.asarray(image.crop((left, top, left + SIZE, top + SIZE)), np.float32)
    return np.clip(images + rng.normal(0, 12, images.shape), 0, 255).round().astype(np.float32), digits


class Conv:
    """A 3 × 3 convolution with padding 1; keeps what its gradient needs."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int, stride: int = 1) -> None:
        self.weight = rng.normal(0, (2 / (9 * inputs)) ** 0.5, (outputs, inputs, 3, 3)).astype(np.float32)
        self.bias = np.zeros(outputs, np.float32)
        self.stride = stride

    def forward(self, x: Floats) -> Floats:
        """The convolution of x [N, C, H, W]."""
        self.shape = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, :: self.stride, :: self.stride]
        self.columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(*windows.shape[:1], *windows.shape[2:4], -1)
        result = self.columns @ self.weight.reshape(len(self.weight), -1).T + self.bias
        return result.transpose(0, 3, 1, 2)

    def backward(self, gradient: Floats) -> Floats:
        """The gradient by x; notes those by weight and bias."""
        rows = gradient.transpose(0, 2, 3, 1)
        flat = rows.reshape(-1, rows.shape[-1])
        self.d_weight = (flat.T @ self.columns.reshape(len(flat), -1)).reshape(self.weight.shape)
        self.d_bias = flat.sum(0)
        columns = (rows @ self.weight.reshape(len(self.weight), -1)).reshape(*rows.shape[:3], self.shape[1], 3, 3)
        padded = np.zeros((*self.shape[:2], self.shape[2] + 2, self.shape[3] + 2), np.float32)
        step, (height, width) = self.stride, rows.shape[1:3]
        for i in range(3):
            for j in range(3):
                part = columns[..., i, j].transpose(0, 3, 1, 2)
                padded[:, :, i : i + step * height : step, j : j + step * width : step] += part
        return padded[:, :, 1:-1, 1:-1]


class Network:
    """conv–relu–pool, a residual block, conv–relu with stride 2, mean over the image, linear."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.stem = Conv(rng, 1, CHANNELS)
        self.first = Conv(rng, CHANNELS, CHANNELS)
        self.second = Conv(rng, CHANNELS, CHANNELS)
        self.down = Conv(rng, CHANNELS, WIDE, stride=2)
        self.weight = rng.normal(0, 0.2, (10, WIDE)).astype(np.float32)
        self.bias = np.zeros(10, np.float32)

    def forward(self, images: Floats) -> Floats:
        """Logits [N, 10]."""
        x = (images / 255 - MEAN) / DEVIATION
        self.a, self.mask_a = _pool(np.maximum(self.stem.forward(x), 0))
        self.b = np.maximum(self.first.forward(self.a), 0)
        self.c = np.maximum(self.second.forward(self.b) + self.a, 0)
        self.d, self.mask_d = _pool(self.c)
        self.e = np.maximum(self.down.forward(self.d), 0)
        self.mean = self.e.mean((2, 3))
        return self.mean @ self.weight.T + self.bias

    def backward(self, gradient: Floats) -> None:
        """Note the gradient of every parameter."""
        self.d_weight, self.d_bias = gradient.T @ self.mean, gradient.sum(0)
        area = self.e.shape[2] * self.e.shape[3]
        g = ((gradient @ self.weight) / area)[:, :, None, None] * (self.e > 0)
        g = _unpool(self.down.backward(g.astype(np.float32)), self.mask_d) * (self.c > 0)
        inner = self.second.backward(g) * (self.b > 0)
        g = g + self.first.backward(inner)
        self.stem.backward(_unpool(g, self.mask_a))

    def parameters(self) -> list[tuple[object, str]]:
        """Owner and name of every parameter; its gradient is the same name with d_ before it."""
        owners: list[object] = [self.stem, self.first, self.second, self.down, self]
        return [(owner, name) for owner in owners for name in ("weight", "bias")]


def _pool(x: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """2 × 2 maximum, and where it (or zero, for the rectifier before it) did not come from."""
    blocks = x.reshape(*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2)
    best = blocks.max((3, 5), keepdims=True)
    return best[:, :, :, 0, :, 0], (blocks == best) & (blocks > 0)


def _unpool(gradient: Floats, mask: NDArray[np.bool_]) -> Floats:
    spread = gradient[:, :, :, None, :, None] * mask
    shape = (*mask.shape[:2], mask.shape[2] * 2, mask.shape[4] * 2)
    return spread.reshape(shape).astype(np.float32)


def train(network: Network, rng: np.random.Generator, steps: int = 900, batch: int = 64) -> None:
    """Adam with a falling rate on freshly drawn digits."""
    images, digits = draw_digits(rng, 12_000)
    moments = [[np.zeros_like(getattr(*p)), np.zeros_like(getattr(*p))] for p in network.parameters()]
    for step in range(1, steps + 1):
        chosen = rng.integers(0, len(images), batch)
        logits = network.forward(images[chosen])
        probabilities = softmax(logits)
        probabilities[np.arange(batch), digits[chosen]] -= 1
        network.backward(probabilities / batch)
        rate = 0.004 * (1 - step / (steps + 1))
        for (owner, name), (first, second) in zip(network.parameters(), moments, strict=True):
            gradient = getattr(owner, f"d_{name}")
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient**2 - second)
            update = (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
            setattr(owner, name, (getattr(owner, name) - rate * update).astype(np.float32))


def softmax(logits: Floats) -> Floats:
    """Rows that add up to one."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def normalize_function() -> onnx.FunctionProto:
    """Normalize: bytes 0 … 255 to floats around zero; a function of the model, to look into."""
    nodes = [
        helper.make_node("Cast", ["image"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Constant", [], ["largest"], value_float=255.0),
        helper.make_node("Div", ["floats", "largest"], ["scaled"]),
        helper.make_node("Constant", [], ["mean_value"]),
        helper.make_node("Sub", ["scaled", "mean_value"], ["centred"]),
        helper.make_node("Constant", [], ["deviation_value"]),
        helper.make_node("Div", ["centred", "deviation_value"], ["normalized"]),
    ]
    for node, attribute in ((nodes[3], "mean"), (nodes[5], "deviation")):
        reference = onnx.AttributeProto(name="value_float", type=onnx.AttributeProto.FLOAT, ref_attr_name=attribute)
        node.attribute.append(reference)
    function = helper.make_function(
        "sample.images", "Normalize", ["image"], ["normalized"], nodes, [helper.make_opsetid("", 18)],
        ["mean", "deviation"],
    )  # fmt: skip
    function.doc_string = "Bytes from 0 to 255 become floats with mean 0 and deviation 1 over the training images."
    return function


def build_nodes() -> list[onnx.NodeProto]:
    """The network's nodes, named by scope as exporters do."""

    def conv(scope: str, source: str, stride: int = 1) -> onnx.NodeProto:
        inputs = [source, f"{scope}.weight", f"{scope}.bias"]
        return node("Conv", f"/{scope}/Conv", inputs, kernel_shape=[3, 3], pads=[1] * 4, strides=[stride] * 2)

    def node(op_type: str, name: str, inputs: list[str], **attributes: object) -> onnx.NodeProto:
        return helper.make_node(op_type, inputs, [f"{name}_output_0"], name=name, **attributes)

    def output(name: str) -> str:
        return f"{name}_output_0"

    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        node("Normalize", "/Normalize", ["image"], domain="sample.images", mean=MEAN, deviation=DEVIATION),
        conv("stem", output("/Normalize")),
        node("Relu", "/stem/Relu", [output("/stem/Conv")]),
        node("MaxPool", "/stem/MaxPool", [output("/stem/Relu")], **pool),
        conv("block/first", output("/stem/MaxPool")),
        node("Relu", "/block/first/Relu", [output("/block/first/Conv")]),
        conv("block/second", output("/block/first/Relu")),
        node("Add", "/block/Add", [output("/block/second/Conv"), output("/stem/MaxPool")]),
        node("Relu", "/block/Relu", [output("/block/Add")]),
        node("MaxPool", "/block/MaxPool", [output("/block/Relu")], **pool),
        conv("down", output("/block/MaxPool"), stride=2),
        node("Relu", "/down/Relu", [output("/down/Conv")]),
        node("GlobalAveragePool", "/head/GlobalAveragePool", [output("/down/Relu")]),
        node("Flatten", "/head/Flatten", [output("/head/GlobalAveragePool")]),
        node("Gemm", "/head/Gemm", [output("/head/Flatten"), "head.weight", "head.bias"], transB=1),
    ]
    logits = output("/head/Gemm")
    nodes.append(helper.make_node("Softmax", [logits], ["probabilities"], name="/head/Softmax", axis=1))
    nodes.append(helper.make_node("ArgMax", [logits], ["digit"], name="/head/ArgMax", axis=1, keepdims=0))
    return nodes


def build_model(network: Network) -> onnx.ModelProto:
    """The trained network as a checked ONNX model with inferred shapes."""
    tensors = {"head.weight": network.weight, "head.bias": network.bias}
    scopes = {"stem": network.stem, "block/first": network.first, "block/second": network.second, "down": network.down}
    for scope, layer in scopes.items():
        tensors |= {f"{scope}.weight": layer.weight, f"{scope}.bias": layer.bias}
    image = helper.make_tensor_value_info("image", TensorProto.UINT8, ["batch", 1, SIZE, SIZE])
    image.doc_string = "A digit, white on black."
    graph = helper.make_graph(
        build_nodes(),
        "digits",
        [image],
        [
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10]),
            helper.make_tensor_value_info("digit", TensorProto.INT64, ["batch"]),
        ],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
        doc_string="Recognises a handwritten-looking digit.",
    )
    model = helper.make_model(
        graph,
        functions=[normalize_function()],
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("sample.images", 1)],
        ir_version=9,
        producer_name="ONNX Workbench sample",
    )
    model.doc_string = "The sample model of ONNX Workbench: a small residual network trained on drawn digits."
    helper.set_model_props(model, {"task": "image classification", "classes": "0 1 2 3 4 5 6 7 8 9"})
    onnx.checker.check_model(model, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(inferred)
    return inferred


def main() -> None:
    """Train, measure on digits not seen before, write."""
    rng = np.random.default_rng(2024)
    network = Network(rng)
    train(network, rng)
    images, digits = draw_digits(rng, 2000)
    right = float((network.forward(images).argmax(1) == digits).mean())
    print(f"{100 * right:.1f} % of 2000 new digits recognised")
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(build_model(network), TARGET)
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
