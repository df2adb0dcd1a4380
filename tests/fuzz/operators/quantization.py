"""Quantization."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from tests.fuzz.generator import FLOAT, I8, I32, U8, Builder, Impossible, Value
from tests.fuzz.operators.registry import operator


@operator("QuantizeLinear", weight=1.5)
def quantize(g: Builder) -> Value:
    x = g.pick((FLOAT,), exact=True)
    per_axis = g.opset >= 13 and x.rank and isinstance(x.dims[-1], int) and g.chance(0.4)
    shape = (int(x.dims[-1]),) if per_axis else ()
    kind = g.rng.choice((U8, I8))
    scale = g.constant(np.full(shape, g.rng.choice((0.25, 0.5)), np.float32))
    zero = (
        g.constant(np.full(shape, g.rng.choice((0, 3)), np.uint8 if kind == U8 else np.int8)) if g.chance(0.8) else None
    )
    kind = kind if zero else U8
    axis = x.rank - 1 if per_axis else None
    low = g.add("QuantizeLinear", [x, scale, zero], (kind, x.dims), axis=axis)
    return low if g.chance(0.2) else g.add("DequantizeLinear", [low, scale, zero], (FLOAT, x.dims), axis=axis)


@operator("DequantizeLinear", weight=0.7)
def dequantize_constant(g: Builder) -> Value:
    """Weights of few bits, with a scale for each row."""
    rows, width = g.rng.randint(1, 4), g.rng.randint(1, 5)
    kind = g.rng.choice((I8, U8, TensorProto.INT4, TensorProto.UINT4) if g.opset >= 21 else (I8, U8))
    name = g.name("q")
    low = helper.make_tensor(name, kind, (rows, width), [g.rng.randint(0, 7) for _ in range(rows * width)])
    if g.is_function:
        raise Impossible
    g.initializers.append(low)
    weight = Value(name, kind, (rows, width))
    scale = g.constant(np.asarray([0.25] * rows, np.float32))
    if g.opset < 13:
        raise Impossible
    return g.add("DequantizeLinear", [weight, scale], (FLOAT, (rows, width)), axis=0)


@operator("DynamicQuantizeLinear", weight=0.3)
def dynamic_quantize(g: Builder) -> Value:
    x = g.pick((FLOAT,), (1, 2, 3), exact=True, test=lambda v: all(isinstance(d, int) and d for d in v.dims))
    return g.add("DynamicQuantizeLinear", [x], (U8, x.dims), (FLOAT, ()), (U8, ()), exact=False)


@operator("MatMulInteger", weight=0.5)
def matmul_integer(g: Builder) -> Value:
    a = g.pick((U8, I8), 2)
    if not isinstance(a.dims[1], int):
        raise Impossible
    b = g.constant(g.array(a.kind, (a.dims[1], g.rng.randint(1, 3))))
    zeros = [g.constant(g.array(a.kind, ())) for _ in range(2)] if g.chance(0.5) else []
    return g.add("MatMulInteger", [a, b, *zeros], (I32, (a.dims[0], b.dims[1])))


@operator("DequantizeLinear", weight=0.7, when=lambda g: g.opset >= 21)
def blocks(g: Builder) -> Value:
    """A scale for each block along an axis."""
    block, count, other = g.rng.choice((2, 3, 4)), g.rng.randint(1, 3), g.rng.randint(1, 4)
    axis = g.rng.choice((0, 1, -1))
    shape, scales = ((count * block, other), (count, other)) if axis == 0 else ((other, count * block), (other, count))
    x = g.add("Identity", [g.constant(g.array(FLOAT, shape))], (FLOAT, shape))
    kind = g.rng.choice((U8, I8, TensorProto.INT4, TensorProto.UINT4))
    scale = g.constant(np.abs(g.array(FLOAT, scales)) + np.float32(0.25))
    zero: Value | None = None
    if g.chance(0.6) and not g.is_function and not g.depth:
        name = g.name("z")
        g.initializers.append(
            helper.make_tensor(name, kind, scales, [g.rng.randint(0, 5) for _ in range(count * other)])
        )
        zero = Value(name, kind, scales)
    given = {"axis": axis, "block_size": block}
    to = None if zero else kind
    low = g.add("QuantizeLinear", [x, scale, zero], (kind, shape), output_dtype=to, **given)
    return g.add("DequantizeLinear", [low, scale, zero], (FLOAT, shape), **given)
