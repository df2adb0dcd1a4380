"""What exporters make of common model code, in small: sizes computed node by node, though most follow from inputs."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import onnx

_END = (1 << 63) - 1


class Traced:
    """Writes nodes as tracing does: every constant and every size is computed anew where it is used.

    `x` is the first input; texts are names of values. Weights are written where they are used, as ``w[64, 64]``.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []

    def op(self, operator: str, *inputs: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {operator} ({', '.join(inputs)})")
        return name

    def ints(self, *values: int) -> str:
        return self.op(f"Constant <value_ints = [{', '.join(map(str, values))}]>")

    def int_(self, value: int) -> str:
        return self.op(f"Constant <value = int64 {{{value}}}>")

    def float_(self, value: float) -> str:
        return self.op(f"Constant <value = float {{{value}}}>")

    def size(self, value: str, axis: int) -> str:
        return self.op("Gather <axis = 0>", self.op("Shape", value), self.int_(axis))

    def unsqueeze(self, value: str, *axes: int) -> str:
        return self.op("Unsqueeze", value, self.ints(*axes))

    def concat(self, axis: int, *values: str) -> str:
        return self.op(f"Concat <axis = {axis}>", *values)

    def shape(self, *sizes: str | int) -> str:
        return self.concat(0, *(self.ints(s) if isinstance(s, int) else self.unsqueeze(s, 0) for s in sizes))

    def view(self, value: str, *sizes: str | int) -> str:
        return self.op("Reshape", value, self.shape(*sizes))

    def transpose(self, value: str, *order: int) -> str:
        return self.op(f"Transpose <perm = {list(order)}>", value)

    def linear(self, value: str, weights: str, bias: str) -> str:
        return self.op("Add", self.op("MatMul", value, weights), bias)

    def slice(self, value: str, start: int | str, end: int | str, axis: int) -> str:
        first, last = (self.ints(b) if isinstance(b, int) else b for b in (start, end))
        return self.op("Slice", value, first, last, self.ints(axis))


def view(t: Traced) -> str:
    return t.view("x", *(t.size("x", axis) for axis in (0, 1, 3, 2)))


def rotary_attention(t: Traced) -> str:
    """Attention with rotated queries and keys and a causal mask, for sequences of any length."""
    batch, length = t.size("x", 0), t.size("x", 1)
    heads = (t.view(t.linear("x", f"w{n}[64, 64]", f"b{n}[64]"), batch, length, 4, 16) for n in "qkv")
    q, k, v = (t.transpose(value, 0, 2, 1, 3) for value in heads)
    cos, sin = (t.unsqueeze(t.op("Gather <axis = 0>", f"{name}[64, 16]", "positions"), 1) for name in ("cos", "sin"))
    q, k = _rotated(t, q, cos, sin), _rotated(t, k, cos, sin)
    scores = t.op("Div", t.op("MatMul", q, t.transpose(k, 0, 1, 3, 2)), t.float_(4.0))
    ones = t.op("ConstantOfShape <value = float[1] {1.0}>", t.shape(length, length))
    mask = t.op("Mul", t.op("Trilu <upper = 1>", ones, t.int_(1)), t.float_(-10000.0))
    mixed = t.op("MatMul", t.op("Softmax <axis = -1>", t.op("Add", scores, mask)), v)
    return t.op("Add", "x", t.op("MatMul", t.view(t.transpose(mixed, 0, 2, 1, 3), batch, length, 64), "wo[64, 64]"))


def _rotated(t: Traced, value: str, cos: str, sin: str) -> str:
    half = t.unsqueeze(t.op("Div", t.size(value, 3), t.int_(2)), 0)
    front, back = t.slice(value, 0, half, 3), t.slice(value, half, _END, 3)
    turned = t.concat(-1, t.op("Neg", back), front)
    return t.op("Add", t.op("Mul", value, cos), t.op("Mul", turned, sin))


def recurrent(t: Traced) -> str:
    """A bidirectional LSTM that begins with zeros, and a linear layer over all steps."""
    batch, length = t.size("x", 0), t.size("x", 1)
    zeros = t.shape(2, batch, 16)
    h, c = (t.op("ConstantOfShape <value = float[1] {0.0}>", zeros) for _ in "hc")
    weights = ("w[2, 64, 8]", "r[2, 64, 16]", "b[2, 128]", "")
    out = t.op('LSTM <hidden_size = 16, direction = "bidirectional">', t.transpose("x", 1, 0, 2), *weights, h, c)
    both = t.op("Reshape", t.transpose(out, 0, 2, 1, 3), t.ints(0, 0, -1))
    flat = t.view(t.transpose(both, 1, 0, 2), -1, 32)
    logits = t.view(t.op("Gemm <transB = 1>", flat, "wf[5, 32]", "bf[5]"), batch, length, 5)
    return t.op("LogSoftmax <axis = 2>", logits)


def detection(t: Traced) -> str:
    """A detector's head: a grid of the size of the picture, boxes, and NonMaxSuppression."""
    p = t.op("Conv", _conv_block(t, _conv_block(t, "x", 3, 8), 8, 16), "wp[21, 16, 1, 1]", "bp[21]")
    batch, height, width = t.size(p, 0), t.size(p, 2), t.size(p, 3)
    boxes = t.op("Sigmoid", t.transpose(t.view(p, batch, 3, 7, height, width), 0, 1, 3, 4, 2))
    rows, columns = (t.op("Cast <to = 1>", t.op("Range", t.int_(0), n, t.int_(1))) for n in (height, width))
    wanted = t.shape(height, width)
    y, x = (t.op("Expand", t.unsqueeze(value, axis), wanted) for value, axis in ((rows, 1), (columns, 0)))
    grid = t.unsqueeze(t.concat(2, t.unsqueeze(x, 2), t.unsqueeze(y, 2)), 0, 1)
    moved = t.op("Add", t.op("Sub", t.slice(boxes, 0, 2, 4), t.float_(0.5)), grid)
    centre = t.op("Mul", moved, t.float_(4.0))
    extent = t.op("Mul", t.op("Mul", t.slice(boxes, 2, 4, 4), t.float_(4.0)), t.float_(4.0))
    found = t.view(t.concat(4, centre, extent, t.slice(boxes, 4, _END, 4)), batch, -1, 7)
    places, sure, classes = t.slice(found, 0, 4, 2), t.slice(found, 4, 5, 2), t.slice(found, 5, _END, 2)
    scores = t.transpose(t.op("Mul", sure, classes), 0, 2, 1)
    limits = (t.ints(20), *(t.op(f"Constant <value = float[1] {{{limit}}}>") for limit in (0.5, 0.1)))
    kept = t.op("NonMaxSuppression <center_point_box = 1>", places, scores, *limits)
    chosen = t.op("Gather <axis = 1>", kept, t.int_(2))
    flat = (t.op("Squeeze", value, t.ints(0)) for value in (places, found))
    box, rest = (t.op("Gather <axis = 0>", value, chosen) for value in flat)
    return t.concat(1, box, t.slice(rest, 4, 6, 1))


def _conv_block(t: Traced, value: str, inner: int, outer: int) -> str:
    conv = t.op("Conv <strides = [2, 2], pads = [1, 1, 1, 1]>", value, f"w{outer}[{outer}, {inner}, 3, 3]")
    normal = t.op("BatchNormalization", conv, *(f"{name}{outer}[{outer}]" for name in ("s", "b", "m", "var")))
    return t.op("Mul", normal, t.op("Sigmoid", normal))


def vision_transformer(t: Traced) -> str:
    """Patches and a class token, a normalization and a block with Gelu, all spelled out; any batch."""
    patches = t.op("Conv <strides = [4, 4]>", "x", "wc[32, 3, 4, 4]", "bc[32]")
    flat = t.op("Reshape", patches, t.concat(0, t.slice(t.op("Shape", patches), 0, 2, 0), t.ints(-1)))
    wanted, ones = t.shape(t.size("x", 0), -1, -1), t.op("ConstantOfShape <value = int64[1] {1}>", t.ints(3))
    is_open = t.op("Equal", wanted, t.op("Mul", ones, t.int_(-1)))
    token = t.op("Expand", "token[1, 1, 32]", t.op("Where", is_open, ones, wanted))
    h = t.op("Add", t.concat(1, token, t.transpose(flat, 0, 2, 1)), "places[1, 17, 32]")
    centred = t.op("Sub", h, t.op("ReduceMean <axes = [-1]>", h))
    variance = t.op("ReduceMean <axes = [-1]>", t.op("Pow", centred, t.float_(2.0)))
    deviation = t.op("Sqrt", t.op("Add", variance, t.float_(0.00001)))
    normal = t.op("Add", t.op("Mul", t.op("Div", centred, deviation), "g[32]"), "b[32]")
    wide = t.linear(normal, "wa[32, 64]", "ba[64]")
    gate = t.op("Add", t.op("Erf", t.op("Div", wide, t.float_(1.4142135))), t.float_(1.0))
    gelu = t.op("Mul", t.op("Mul", wide, gate), t.float_(0.5))
    h = t.op("Add", h, t.linear(gelu, "wb[64, 32]", "bb[32]"))
    return t.op("Gemm <transB = 1>", t.op("Gather <axis = 1>", h, t.int_(0)), "wh[10, 32]", "bh[10]")


def skip_connection(t: Traced) -> str:
    """Two levels of a U-Net: the lower one is resized to the size of the upper."""
    upper = t.op("Relu", t.op("Conv <pads = [1, 1, 1, 1]>", "x", "w1[4, 3, 3, 3]", "b1[4]"))
    pooled = t.op("MaxPool <kernel_shape = [2, 2], strides = [2, 2]>", upper)
    lower = t.op("Relu", t.op("Conv <pads = [1, 1, 1, 1]>", pooled, "w2[4, 4, 3, 3]", "b2[4]"))
    area = t.op("Cast <to = 7>", t.shape(t.size(upper, 2), t.size(upper, 3)))
    wanted = t.concat(0, t.slice(t.op("Shape", lower), 0, 2, 0), area)
    how = 'mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel"'
    return t.op("Conv", t.concat(1, upper, t.op(f"Resize <{how}>", lower, "", "", wanted)), "w3[2, 8, 1, 1]", "b3[2]")


def windows(t: Traced) -> str:
    """A picture cut into windows, a linear layer in each, and put together again; any batch."""
    b, h, w, c = (t.size("x", axis) for axis in range(4))
    rows, columns = (t.op("Cast <to = 7>", t.op("Div", size, t.int_(4))) for size in (h, w))
    cut = t.transpose(t.view("x", b, rows, 4, columns, 4, c), 0, 1, 3, 2, 4, 5)
    inside = t.linear(t.view(t.view(cut, -1, 4, 4, c), -1, 16, c), "wm[12, 12]", "bm[12]")
    apart = t.view(t.view(inside, -1, 4, 4, c), b, rows, columns, 4, 4, -1)
    return t.view(t.transpose(apart, 0, 1, 3, 2, 4, 5), b, h, w, -1)


#: By name: inputs and outputs, what writes the nodes, and how many of them are left at the most.
ALL: dict[str, tuple[str, Callable[[Traced], str], int]] = {
    "view": ("(float[2, 3, 4, 5] x) => (float[a, b, c, d] y)", view, 1),
    "view_one_free": ("(float[N, 3, 4, 5] x) => (float[a, b, c, d] y)", view, 1),
    "view_two_free": ("(float[N, 3, H, 5] x) => (float[a, b, c, d] y)", view, 1),
    "view_all_free": ("(float[N, C, H, W] x) => (float[a, b, c, d] y)", view, 11),
    "rotary_attention": ("(float[B, S, 64] x, int64[B, S] positions) => (float[B, S, 64] y)", rotary_attention, 44),
    "recurrent": ("(float[B, S, 8] x) => (float[B, S, 5] y)", recurrent, 15),
    "detection": ("(float[1, 3, H, W] x) => (float[n, 6] y)", detection, 51),
    "vision_transformer": ("(float[B, 3, 16, 16] x) => (float[B, 10] y)", vision_transformer, 24),
    "skip_connection": ("(float[N, 3, H, W] x) => (float[N, 2, H, W] y)", skip_connection, 9),
    "windows": ("(float[B, 8, 8, 12] x) => (float[B, 8, 8, 12] y)", windows, 8),
}

_WEIGHT = re.compile(r"(\w+)(\[[\d, ]+\])(?=[,)])")


def exported(name: str) -> onnx.ModelProto:
    """The model of that name. Weights are small random numbers, the same on every call."""
    signature, write, _ = ALL[name]
    traced = Traced()
    traced.lines.append(f"y = Identity ({write(traced)})")
    body = "\n".join(traced.lines)
    nodes = _WEIGHT.sub(r"\1", body)
    text = f'<ir_version: 8, opset_import: ["" : 17]> g {signature} {{ {nodes} }}'
    proto = onnx.parser.parse_model(text)
    rng = np.random.default_rng(0)
    for key, shape in dict(_WEIGHT.findall(body)).items():
        array = (0.1 * rng.standard_normal([int(n) for n in shape[1:-1].split(",")])).astype(np.float32)
        array = abs(array) + np.float32(0.5) if key.startswith("var") else array
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, key))
    onnx.checker.check_model(proto)
    return proto
