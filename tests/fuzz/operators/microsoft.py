"""Operators of com.microsoft; their oracle is ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from onnx import helper

from tests.fuzz.generator import (
    BOOL,
    FLOAT,
    I8,
    I32,
    I64,
    MICROSOFT,
    STRING,
    U8,
    Builder,
    Dims,
    Impossible,
    Value,
    is_doubtful,
)
from tests.fuzz.operators.registry import operator
from tests.fuzz.operators.shapes import target_shape

_here = partial(operator, domain=MICROSOFT)


def add(g: Builder, op: str, inputs: Sequence[Value | None], *outputs: tuple[int, Dims], **attributes: Any) -> Value:
    return g.add(op, inputs, *outputs, domain=MICROSOFT, exact=False, **attributes)


def rows(g: Builder, ranks: Sequence[int] = (2, 3)) -> tuple[Value, int]:
    """Floats, and how many stand in a row."""
    x = g.pick((FLOAT,), ranks, test=lambda v: isinstance(v.dims[-1], int) and v.dims[-1] > 1 and not is_doubtful(v))
    return x, int(x.dims[-1])


def floats(g: Builder, *shape: int) -> Value:
    """Constants."""
    return g.constant(g.array(FLOAT, shape))


def numbers(g: Builder, kind: np.dtype[Any] | type, low: int, high: int, *shape: int) -> Value:
    """Constant integers from `low` to below `high`."""
    draws = np.random.default_rng(g.rng.getrandbits(32))
    return g.constant(draws.integers(low, high, shape).astype(kind))


@_here("Gelu", weight=1.5)
def activation(g: Builder) -> Value:
    x, width = rows(g)
    op = g.rng.choice(("Gelu", "FastGelu", "QuickGelu", "BiasGelu"))
    bias = [floats(g, width)] if op == "BiasGelu" or (op == "FastGelu" and g.chance(0.5)) else []
    given = {"alpha": g.rng.choice((None, 1.0))} if op == "QuickGelu" else {}
    return add(g, op, [x, *bias], (FLOAT, x.dims), **given)


@_here("FusedMatMul", weight=0.7)
def product(g: Builder) -> Value:
    x, width = rows(g)
    alpha = g.rng.choice((None, 0.5))
    if x.rank == 3 and isinstance(x.dims[1], int) and g.chance(0.3):  # with the axes of a batch and a row exchanged
        b = floats(g, width, 3)
        return add(g, "FusedMatMul", [x, b], (FLOAT, (*x.dims[:-1], 3)), alpha=alpha)
    return add(g, "FusedMatMul", [x, floats(g, 3, width)], (FLOAT, (*x.dims[:-1], 3)), transB=1, alpha=alpha)


@_here("FusedGemm", weight=0.7)
def fused_gemm(g: Builder) -> Value:
    x, width = rows(g, (2,))
    name = g.rng.choice(("Relu", "Tanh", "Sigmoid", "LeakyRelu", "Elu", "Softsign", "HardSigmoid"))
    given = {"activation_alpha": g.rng.choice((None, 0.25)) if name in ("LeakyRelu", "Elu", "HardSigmoid") else None,
             "alpha": g.rng.choice((None, 0.5)), "beta": g.rng.choice((None, 2.0)),
             "activation_beta": 0.3 if name == "HardSigmoid" else None}  # fmt: skip
    c = [floats(g, 2)] if g.chance(0.5) else []
    return add(g, "FusedGemm", [x, floats(g, width, 2), *c], (FLOAT, (x.dims[0], 2)), activation=name, **given)


@_here("SkipLayerNormalization")
def skip_normalization(g: Builder) -> Value:
    x, width = rows(g, (3,))
    skip = x if g.chance(0.3) else add(g, "Gelu", [x], (FLOAT, x.dims))
    epsilon = g.rng.choice((None, 1e-3))
    if g.chance(0.5):
        bias = [floats(g, width)] if g.chance(0.5) else []
        return add(g, "SkipSimplifiedLayerNormalization", [x, skip, floats(g, width), *bias], (FLOAT, x.dims),
                   epsilon=epsilon)  # fmt: skip
    more = [floats(g, width) if g.chance(0.7) else None for _ in range(2)]
    return add(g, "SkipLayerNormalization", [x, skip, floats(g, width), *more], (FLOAT, x.dims), epsilon=epsilon)


@_here("Trilu", weight=0.5)
def shaped(g: Builder) -> Value:
    x, width = rows(g)
    op = g.rng.choice(("Trilu", "ExpandDims", "Pad", "Unique", "CDist", "Range", "UnfoldTensor"))
    if op == "Trilu":
        return add(g, op, [x], (FLOAT, x.dims), upper=g.rng.choice((None, 0)))
    if op == "ExpandDims":
        return add(g, op, [x, g.constant(np.asarray(0, np.int32))], (FLOAT, (1, *x.dims)))
    if op == "Pad" and x.rank == 2 and isinstance(x.dims[0], int):
        a, b, c, d = (g.rng.choice((0, 1, 2)) for _ in range(4))
        value = [floats(g, 1)] if g.chance(0.5) else []
        dims = (x.dims[0] + a + c, width + b + d)
        return add(g, op, [x, g.constant([a, b, c, d]), *value], (FLOAT, dims), mode=g.rng.choice((None, "constant")))
    if op == "Unique":
        n = g.unknown()
        flat = target_shape(g, floats(g, 2, 3), (6,), g.constant([-1]))
        return add(g, op, [flat], (FLOAT, (n,)), (I64, (6,)), (I64, (n,)))
    if op == "CDist" and x.rank == 2:
        metric = g.rng.choice(("euclidean", "sqeuclidean"))
        return add(g, op, [x, floats(g, 3, width)], (FLOAT, (x.dims[0], 3)), metric=metric)
    if op == "Range":
        ends = [g.constant(np.asarray(n, np.float32)) for n in (1, 4, 2)]
        return add(g, op, ends, (FLOAT, (2,)))
    if op == "UnfoldTensor" and width > 2:
        return add(g, op, [x], (FLOAT, (*x.dims[:-1], width - 1, 2)), size=2, step=1, dim=-1)
    raise Impossible


# -- quantized


def scale_and_zero(g: Builder, kind: int) -> list[Value]:
    """Of few bits, so that a half stays one."""
    scale = g.constant(np.asarray(g.rng.choice((0.125, 0.25, 0.5)), np.float32))
    return [scale, g.constant(np.asarray(g.rng.choice((0, 1, 7)), np.uint8 if kind == U8 else np.int8))]


@_here("QLinearAdd", weight=1.5)
def quantized(g: Builder) -> Value:
    """Bytes with a scale and a zero point on both sides."""
    x = g.pick((U8, I8), (1, 2, 3), test=lambda v: not is_doubtful(v))
    op = g.rng.choice(("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax",
                       "QLinearConcat", "QLinearWhere", "QuantizeLinear"))  # fmt: skip
    ours, theirs, result = (scale_and_zero(g, x.kind) for _ in range(3))
    if op in ("QLinearAdd", "QLinearMul"):
        other = g.like(x.kind, x.dims)
        return add(g, op, [x, *ours, other, *theirs, *result], (x.kind, x.dims))
    if op in ("QLinearSigmoid", "QLinearLeakyRelu"):
        given = {"alpha": g.rng.choice((None, 0.25))} if op == "QLinearLeakyRelu" else {}
        return add(g, op, [x, *ours, *result], (x.kind, x.dims), **given)
    if op == "QLinearSoftmax":
        axis = g.rng.randrange(-x.rank, x.rank)
        return add(g, op, [x, *ours, *result], (x.kind, x.dims), axis=axis, opset=g.rng.choice((12, 13)))
    if op == "QLinearConcat":
        dims = (*x.dims[:-1], f"({x.dims[-1]}*2)" if isinstance(x.dims[-1], str) else 2 * x.dims[-1])
        return add(g, op, [*result, x, *ours, x, *theirs], (x.kind, dims), axis=x.rank - 1)
    if op == "QLinearWhere":
        condition = g.constant(g.array(BOOL, (1,) * x.rank))
        return add(g, op, [condition, x, *ours, g.like(x.kind, x.dims), *theirs, *result], (x.kind, x.dims))
    real = g.pick((FLOAT,), exact=True)
    low = add(g, op, [real, *ours], (x.kind, real.dims))
    return add(g, "DequantizeLinear", [low, *ours], (FLOAT, real.dims))


@_here("QLinearGlobalAveragePool", weight=0.7)
def quantized_pool(g: Builder) -> Value:
    """Windows over bytes; ONNX Runtime has them for unsigned ones with channels first or last."""
    x = numbers(g, np.uint8, 0, 200, 1, 2, 4, g.rng.choice((3, 4)))
    if g.chance(0.5):
        x = g.add("Identity", [x], (U8, x.dims))
    ours, result = (scale_and_zero(g, U8) for _ in range(2))
    if g.chance(0.4):
        return add(g, "QLinearGlobalAveragePool", [x, *ours, *result], (U8, (1, 2, 1, 1)), channels_last=0)
    kernel, stride = [g.rng.choice((1, 2)), 2], g.rng.choice((1, 2))
    pads = [0, g.rng.choice((0, 1)), 0, g.rng.choice((0, 1))]
    height, width = ((int(d) + p - k) // stride + 1 for d, p, k in zip(x.dims[2:], (0, pads[1] + pads[3]), kernel,
                                                                       strict=True))  # fmt: skip
    return add(g, "QLinearAveragePool", [x, *ours, *result], (U8, (1, 2, height, width)), kernel_shape=kernel,
               pads=pads, strides=[stride, stride], count_include_pad=g.rng.choice((None, 0, 1)))  # fmt: skip


@_here("MatMulIntegerToFloat", weight=0.7)
def integer_product(g: Builder) -> Value:
    width, out = g.rng.randint(2, 5), g.rng.randint(1, 4)
    kind = g.rng.choice((U8, I8))
    b = g.constant(g.array(kind, (width, out)))
    per_column = g.chance(0.5)
    scale = g.constant(np.full((out,) if per_column else (), 0.25, np.float32))
    zero = g.constant(g.array(kind, (out,) if per_column else ()))
    bias = floats(g, out) if g.chance(0.5) else None
    if g.chance(0.5):
        a = g.constant(g.array(U8, (3, width)))
        a_scale, a_zero = scale_and_zero(g, U8)
        return add(g, "MatMulIntegerToFloat", [a, b, a_scale, scale, a_zero, zero, bias], (FLOAT, (3, out)))
    real = g.add("Identity", [floats(g, 3, width)], (FLOAT, (3, width)))
    return add(g, "DynamicQuantizeMatMul", [real, b, scale, zero, bias], (FLOAT, (3, out)))


@_here("MatMulNBits")
def blocked_product(g: Builder) -> Value:
    """Weights of 4 or 8 bits with a scale for each block of a column."""
    bits, block, columns = g.rng.choice((4, 4, 8)), g.rng.choice((16, 32)), g.rng.randint(1, 4)
    inner = g.rng.choice((16, 24, 32, 40, 64))
    blocks = -(-inner // block)
    weight = numbers(g, np.uint8, 0, 256, columns, blocks, block * bits // 8)
    scales = g.constant(np.abs(g.array(FLOAT, (columns * blocks,))) / 8 + np.float32(0.125))
    zeros = numbers(g, np.uint8, 0, 256, columns * -(-blocks * bits // 8)) if g.chance(0.5) else None
    bias = floats(g, columns) if g.chance(0.3) else None
    lead: Dims = g.rng.choice(((3,), (2, 2)))
    x = g.add("Identity", [floats(g, *map(int, lead), inner)], (FLOAT, (*lead, inner)))
    return add(g, "MatMulNBits", [x, weight, scales, zeros, None, bias], (FLOAT, (*lead, columns)), K=inner, N=columns,
               bits=bits, block_size=block)  # fmt: skip


@_here("GatherBlockQuantized", weight=0.7)
def blocked_gather(g: Builder) -> Value:
    width = g.rng.choice((16, 32, 48))
    data = numbers(g, np.uint8, 0, 256, 3, width // 2)
    scales = g.constant(np.abs(g.array(FLOAT, (3, width // 16))) + np.float32(0.25))
    zeros = [numbers(g, np.uint8, 0, 256, 3, -(-(width // 16) // 2))] if g.chance(0.5) else []
    indices = numbers(g, np.int64, -3, 3, 2)
    return add(g, "GatherBlockQuantized", [data, indices, scales, *zeros], (FLOAT, (2, width)), gather_axis=0,
               quantize_axis=1, block_size=16, bits=4)  # fmt: skip


# -- transformers


@_here("MultiHeadAttention")
def attention(g: Builder) -> Value:
    heads, size, batch, length = g.rng.randint(1, 3), g.rng.choice((2, 4)), g.rng.randint(1, 2), g.rng.randint(1, 4)
    total, width = g.rng.randint(1, 5), heads * size
    query = g.add("Identity", [floats(g, batch, length, width)], (FLOAT, (batch, length, width)))
    given: dict[str, object] = {"num_heads": heads, "scale": g.rng.choice((None, 0.5))}
    if g.chance(0.5):
        mask = None
        bias = floats(g, 3 * width) if g.chance(0.5) else None
        key, value = floats(g, batch, total, width), floats(g, batch, total, width)
        added = floats(g, g.rng.choice((1, batch)), g.rng.choice((1, heads)), length, total) if g.chance(0.4) else None
        return add(g, "MultiHeadAttention", [query, key, value, bias, mask, added], (FLOAT, (batch, length, width)),
                   unidirectional=g.rng.choice((None, 0)), **given)  # fmt: skip
    weights, bias = floats(g, width, 3 * width), floats(g, 3 * width)
    mask = g.rng.choice((None, numbers(g, np.int32, 1, length + 1, batch),
                         g.constant(np.ones((batch, length), np.int32))))  # fmt: skip
    return add(g, "Attention", [query, weights, bias, mask], (FLOAT, (batch, length, width)),
               unidirectional=g.rng.choice((None, 0, 1)), **given)  # fmt: skip


@_here("RotaryEmbedding", weight=0.7)
def rotary(g: Builder) -> Value:
    batch, length, heads, size = g.rng.randint(1, 2), g.rng.randint(1, 3), g.rng.randint(1, 2), g.rng.choice((2, 4, 8))
    x = g.add("Identity", [floats(g, batch, length, heads * size)], (FLOAT, (batch, length, heads * size)))
    angles = [floats(g, 6, size // 2) for _ in range(2)]
    at = g.rng.choice((numbers(g, np.int64, 0, 3, 1), numbers(g, np.int64, 0, 6, batch, length)))
    given = {"interleaved": g.rng.choice((None, 0, 1)), "num_heads": heads}
    return add(g, "RotaryEmbedding", [x, at, *angles], (FLOAT, x.dims), **given)


@_here("EmbedLayerNormalization", weight=0.7)
def embedding(g: Builder) -> Value:
    batch, length, width = g.rng.randint(1, 2), g.rng.randint(1, 4), g.rng.choice((2, 4))
    ids = g.add("Identity", [numbers(g, np.int32, 0, 5, batch, length)], (I32, (batch, length)))
    segments = numbers(g, np.int32, 0, 2, batch, length) if g.chance(0.6) else None
    tables = [floats(g, 5, width), floats(g, 6, width), floats(g, 2, width) if segments else None]
    mask = g.constant(g.array(BOOL, (batch, length)).astype(np.int32)) if g.chance(0.5) else None
    return add(g, "EmbedLayerNormalization", [ids, segments, *tables, floats(g, width), floats(g, width), mask],
               (FLOAT, (batch, length, width)), (I32, (batch,)), epsilon=g.rng.choice((None, 1e-3)))  # fmt: skip


# -- images, texts


@_here("FusedConv", weight=0.7)
def fused_conv(g: Builder) -> Value:
    x = g.add("Identity", [floats(g, 1, 2, 4, 4)], (FLOAT, (1, 2, 4, 4)))
    w, b = floats(g, 2, 2, 3, 3), floats(g, 2)
    name, parameters = g.rng.choice((("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.25]),
                                     ("Clip", [-1.0, 1.0]), ("HardSigmoid", [0.3, 0.4])))  # fmt: skip
    return add(g, "FusedConv", [x, w, b], (FLOAT, (1, 2, 4, 4)), activation=name, activation_params=parameters,
               pads=[1, 1, 1, 1], kernel_shape=g.rng.choice((None, [3, 3])))  # fmt: skip


@_here("CropAndResize", weight=0.5)
def image(g: Builder) -> Value:
    x = g.add("Identity", [floats(g, 2, 2, 4, 5)], (FLOAT, (2, 2, 4, 5)))
    if g.chance(0.5):
        grid = g.constant(np.clip(g.array(FLOAT, (2, 3, 3, 2)) / 2, -1.25, 1.25).astype(np.float32))
        given = {"mode": g.rng.choice((None, "bilinear", "nearest")), "align_corners": g.rng.choice((None, 1)),
                 "padding_mode": g.rng.choice((None, "border", "reflection"))}  # fmt: skip
        return add(g, "GridSample", [x, grid], (FLOAT, (2, 2, 3, 3)), **given)
    boxes = g.constant(np.sort(np.abs(g.array(FLOAT, (3, 4))) / 2, axis=-1).astype(np.float32))
    size = g.constant(np.asarray([2, 3], np.int32))
    given = {"mode": g.rng.choice((None, "bilinear", "nearest")), "extrapolation_value": g.rng.choice((None, 1.5))}
    return add(g, "CropAndResize", [x, boxes, numbers(g, np.int32, 0, 2, 3), size], (FLOAT, (3, 2, 2, 3)), **given)


@_here("MurmurHash3", weight=0.5)
def hashed(g: Builder) -> Value:
    x = g.pick((I32, I64, FLOAT, STRING), exact=True)
    positive = g.rng.choice((None, 0, 1))
    to = I32 if positive == 0 else helper.np_dtype_to_tensor_dtype(np.dtype(np.uint32))
    found = add(g, "MurmurHash3", [x], (to, x.dims), seed=g.rng.choice((None, 3)), positive=positive)
    return g.add("Cast", [found], (I64, x.dims), to=I64 if g.opset > 5 else "INT64")
