"""Products, convolutions, pooling, normalization, recurrent networks."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tests.fuzz.generator import (
    BFLOAT16,
    BOOL,
    DOUBLE,
    FLOAT,
    HALF,
    I64,
    INTEGERS,
    Builder,
    Dims,
    Impossible,
    Value,
    axis_of,
    is_doubtful,
)
from tests.fuzz.operators.registry import operator, operators


@operator("MatMul", weight=2)
def matmul(g: Builder) -> Value:
    a = g.pick(tuple(k for k in g.kinds("MatMul") if k != BFLOAT16), (1, 2, 3))
    inner = a.dims[-1]
    fits = [v for v in g.scope() if v.form == "tensor" and v.kind == a.kind and v.rank == 2 and v.dims[0] == inner]
    if fits and g.chance(0.5):
        b = g.rng.choice(fits)
    elif isinstance(inner, int):
        b = g.constant(g.array(a.kind, (inner, g.rng.randint(1, 4))))
    else:
        raise Impossible
    return g.add("MatMul", [a, b], (a.kind, (*a.dims[:-1], b.dims[1])), exact=a.kind in INTEGERS)


@operator("Gemm", weight=1.5)
def gemm(g: Builder) -> Value:
    a = g.pick((FLOAT, DOUBLE, HALF), 2)
    flip, other = g.chance(0.3), g.chance(0.4)
    rows, inner = a.dims[::-1] if flip else a.dims
    if not isinstance(inner, int):
        raise Impossible
    width = g.rng.randint(1, 4)
    b = g.constant(g.array(a.kind, (width, inner) if other else (inner, width)))
    by_attribute = g.opset < 7  # there, C is broadcast by an attribute, as the second tensor of an Add
    shapes = [(), (width,), (1, 1)] if by_attribute else [(), (width,), (1, width), (1, 1)]
    c = None if g.opset >= 11 and g.chance(0.3) else g.constant(g.array(a.kind, g.rng.choice(shapes)))
    given = {"transA": 1 if flip else None, "transB": 1 if other else g.rng.choice((None, 0)),
             "alpha": g.rng.choice((None, 0.5, 2.0)), "beta": g.rng.choice((None, 0.25, 1.0)),
             "broadcast": 1 if by_attribute else None}  # fmt: skip
    return g.add("Gemm", [a, b, c], (a.kind, (rows, width)), exact=False, **given)


@operator("Einsum", weight=0.7)
def einsum(g: Builder) -> Value:
    x = g.pick((FLOAT, DOUBLE), (2, 3))
    names = "abc"[: x.rank]
    result = "".join(g.rng.sample(names, g.rng.randint(1, x.rank)))
    dims = tuple(x.dims[names.index(n)] for n in result)
    if g.chance(0.5):
        return g.add("Einsum", [x, x], (x.kind, dims), equation=f"{names},{names}->{result}", exact=False)
    return g.add("Einsum", [x], (x.kind, dims), equation=f"{names}->{result}", exact=False)


def images(g: Builder, kinds: Collection[int] = (FLOAT,), rank: int | None = None, least: int = 1) -> Value:
    """A value of batch, channels and known spatial sizes."""
    wanted = (3, 4) if rank is None else (rank,)
    return g.pick(kinds, wanted, test=lambda v: isinstance(v.dims[1], int) and v.dims[1] > 0
                  and all(isinstance(d, int) and d >= least for d in v.dims[2:]))  # fmt: skip


def window(g: Builder, x: Value, *, dilates: bool) -> tuple[dict[str, object], Dims]:
    """Attributes of a window that fits into the spatial sizes, and the sizes it leaves."""
    spatial = [int(d) for d in x.dims[2:]]
    kernel = [g.rng.randint(1, min(3, s)) for s in spatial]
    strides = [g.rng.choice((1, 1, 2)) for _ in spatial]
    begin = [g.rng.randint(0, k - 1) for k in kernel]
    end = [g.rng.randint(0, k - 1) for k in kernel]
    spread = [2 if dilates and 2 * k - 1 <= s and g.chance(0.3) else 1 for k, s in zip(kernel, spatial, strict=True)]
    given: dict[str, object] = {"kernel_shape": kernel}
    auto = g.rng.choice((None, None, None, "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"))
    if auto in (None, "NOTSET"):
        given["pads"] = [*begin, *end]
    else:
        begin = end = [0] * len(spatial)
    if strides != [1] * len(spatial) or g.chance(0.5):
        given["strides"] = strides
    if spread != [1] * len(spatial):
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            auto = "VALID"
        given["dilations"] = spread
    given["auto_pad"] = auto
    sizes = []
    for s, k, stride, b, e, d in zip(spatial, kernel, strides, begin, end, spread, strict=True):
        whole = s + b + e - (k - 1) * d - 1
        sizes.append(-(-s // stride) if auto in ("SAME_UPPER", "SAME_LOWER") else whole // stride + 1)
    return given, tuple(sizes)


@operator("Conv", weight=2)
def conv(g: Builder) -> Value:
    x = images(g, (FLOAT, DOUBLE, HALF))
    given, spatial = window(g, x, dilates=True)
    kernel = given["kernel_shape"]
    assert isinstance(kernel, list)
    channels = int(x.dims[1])
    group = channels if channels > 1 and g.chance(0.3) else 1
    out = group * g.rng.randint(1, 2)
    w = g.constant(g.array(x.kind, (out, channels // group, *kernel)))
    b = g.constant(g.array(x.kind, (out,))) if g.chance(0.5) else None
    if g.chance(0.3):
        del given["kernel_shape"]
    return g.add("Conv", [x, w, b], (x.kind, (x.dims[0], out, *spatial)), exact=False,
                 group=group if group > 1 else None, **given)  # fmt: skip


@operator("ConvTranspose", weight=0.5)
def conv_transpose(g: Builder) -> Value:
    x = images(g, rank=g.rng.choice((3, 4)))
    n = x.rank - 2
    kernel, strides = [g.rng.randint(1, 3) for _ in range(n)], [g.rng.randint(1, 2) for _ in range(n)]
    extra = [g.rng.randint(0, s - 1) for s in strides]
    out = g.rng.randint(1, 3)
    w = g.constant(g.array(FLOAT, (int(x.dims[1]), out, *kernel)))
    dims = tuple((int(d) - 1) * s + k + e for d, s, k, e in zip(x.dims[2:], strides, kernel, extra, strict=True))
    return g.add("ConvTranspose", [x, w], (FLOAT, (x.dims[0], out, *dims)), exact=False, strides=strides,
                 output_padding=extra if any(extra) else None)  # fmt: skip


@operators(("MaxPool", "AveragePool", "LpPool"))
def pool(op: str, g: Builder) -> Value:
    x = images(g, (FLOAT, DOUBLE, HALF))
    given, spatial = window(g, x, dilates=(op == "MaxPool" and g.opset >= 10) or g.opset >= 19)
    if op == "AveragePool":
        given["count_include_pad"] = g.rng.choice((None, 0, 1)) if g.opset > 6 else None
    if op == "LpPool":
        p = g.rng.choice((None, 1, 2, 3))
        given["p"] = p if p is None or g.opset > 1 else float(p)
        if g.opset < 18:
            given.pop("dilations", None)
    dims: Dims = (x.dims[0], x.dims[1], *spatial)
    if op != "LpPool" and g.opset >= 10 and given["auto_pad"] in (None, "NOTSET") and g.chance(0.3):
        given["ceil_mode"] = 1
        dims = (*x.dims[:2], *(g.unknown() for _ in spatial))
    if op == "MaxPool" and g.opset >= 8 and g.chance(0.2) and "ceil_mode" not in given:
        return g.add(op, [x], (x.kind, dims), (I64, dims), **given)
    return g.add(op, [x], (x.kind, dims), exact=op == "MaxPool", **given)


@operators(("GlobalAveragePool", "GlobalMaxPool"), weight=0.5)
def global_pool(op: str, g: Builder) -> Value:
    x = images(g, (FLOAT, DOUBLE, HALF))
    return g.add(op, [x], (x.kind, (*x.dims[:2], *(1,) * (x.rank - 2))), exact=op == "GlobalMaxPool")


@operators(("BatchNormalization", "InstanceNormalization", "GroupNormalization", "LRN"), weight=0.6)
def normalization(op: str, g: Builder) -> Value:
    x = images(g, (FLOAT, DOUBLE))
    c = int(x.dims[1])
    epsilon = g.rng.choice((None, 1e-3))
    if op == "LRN":
        x = images(g, (FLOAT,), 4)
        return g.add("LRN", [x], (FLOAT, x.dims), size=g.rng.choice((1, 3)), exact=False)
    scale, bias = (g.constant(g.array(x.kind, (c,))) for _ in range(2))
    if op == "InstanceNormalization":
        return g.add(op, [x, scale, bias], (x.kind, x.dims), exact=False, epsilon=epsilon)
    if op == "GroupNormalization":
        if g.opset < 21:
            scale = bias = g.constant(g.array(x.kind, (1,)))
        return g.add(op, [x, scale, bias], (x.kind, x.dims), exact=False, num_groups=1, epsilon=epsilon)
    mean, variance = g.constant(g.array(x.kind, (c,))), g.constant(np.abs(g.array(x.kind, (c,))) + 1)
    given = {"is_test": 1 if g.opset < 7 else None, "consumed_inputs": [0, 0, 0, 1, 1] if g.opset < 6 else None}
    inputs = [x, scale, bias, mean, variance]
    return g.add("BatchNormalization", inputs, (x.kind, x.dims), exact=False, epsilon=epsilon, **given)


@operators(("LayerNormalization", "RMSNormalization"), weight=0.6)
def layer_normalization(op: str, g: Builder) -> Value:
    x = g.pick((FLOAT, DOUBLE), (2, 3), test=lambda v: isinstance(v.dims[-1], int) and v.dims[-1] > 1)
    inputs = [x, *(g.constant(g.array(x.kind, (int(x.dims[-1]),))) for _ in range(2 if g.chance(0.6) else 1))]
    if op == "RMSNormalization":
        return g.add(op, inputs[:2], (x.kind, x.dims), exact=False, axis=g.rng.choice((None, -1)))
    outputs = [(x.kind, x.dims)] + ([(FLOAT, (*x.dims[:-1], 1))] if g.chance(0.3) else [])
    return g.add(op, inputs, *outputs, exact=False, axis=g.rng.choice((None, -1)), epsilon=g.rng.choice((None, 0.01)))


@operators(("LpNormalization", "MeanVarianceNormalization"), weight=0.5)
def norm_over_axis(op: str, g: Builder) -> Value:
    if op == "MeanVarianceNormalization":
        x = g.pick((FLOAT,), 4, test=lambda v: all(isinstance(d, int) and d > 1 for d in v.dims))
        return g.add(op, [x], (FLOAT, x.dims), exact=False, axes=g.rng.choice((None, [0, 2, 3], [1])))
    x = g.pick((FLOAT,), (1, 2, 3), test=lambda v: not is_doubtful(v))
    return g.add(op, [x], (FLOAT, x.dims), exact=False, axis=axis_of(g, x)[1], p=g.rng.choice((None, 1, 2)))


@operator("Resize", weight=0.7)
@operator("Upsample", weight=0.4)
def resize(g: Builder) -> Value:
    x = images(g, (FLOAT,), 4)
    n, c, h, w = x.dims
    scales = g.constant(np.asarray([1, 1, 2, 2], np.float32))
    dims = (n, c, int(h) * 2, int(w) * 2)
    mode = g.rng.choice((None, "nearest", "linear"))
    if g.opset < 7:
        mode = "bilinear" if mode == "linear" else mode
        return g.add("Upsample", [x], (FLOAT, dims), height_scale=2.0, width_scale=2.0, mode=mode, exact=False)
    if g.opset < 9:
        return g.add("Upsample", [x], (FLOAT, dims), scales=[1.0, 1.0, 2.0, 2.0], mode=mode, exact=False)
    if g.opset < 11:
        return g.add("Upsample" if g.opset < 10 else "Resize", [x, scales], (FLOAT, dims), mode=mode, exact=False)
    modes = (None, "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    given = {"mode": mode, "coordinate_transformation_mode": g.rng.choice(modes)}
    if mode in (None, "nearest"):
        given["nearest_mode"] = g.rng.choice((None, "floor", "ceil", "round_prefer_ceil"))
    elif g.chance(0.3):
        given["mode"] = "cubic"
    roi = g.constant(np.zeros(0, np.float32)) if g.opset < 13 else None
    if g.chance(0.4) and not isinstance(n, str):
        empty = g.constant(np.zeros(0, np.float32)) if g.opset < 13 else None
        target = g.constant(np.asarray([n, c, int(h) + 1, int(w) * 2], np.int64))
        dims = (n, c, int(h) + 1, int(w) * 2)
        return g.add("Resize", [x, roi, empty, target], (FLOAT, dims), exact=False, **given)
    return g.add("Resize", [x, roi, scales], (FLOAT, dims), exact=False, **given)


@operator("Dropout", weight=0.7)
def dropout(g: Builder) -> Value:
    x = g.pick((FLOAT, DOUBLE))
    if g.opset < 12:
        is_test = 1 if g.opset < 7 else None
        return g.add("Dropout", [x], (x.kind, x.dims), ratio=g.rng.choice((None, 0.3)), is_test=is_test)
    ratio = g.constant(np.asarray(0.3, np.float32)) if g.chance(0.5) else None
    outputs = [(x.kind, x.dims)] + ([(BOOL, x.dims)] if g.chance(0.3) else [])
    return g.add("Dropout", [x, ratio], *outputs)


ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu",
               "Softsign", "Softplus")  # fmt: skip
#: The parameters an activation takes, alpha and beta. The threshold is none of the values drawn: the specification has
#: "ThresholdedRelu(x) - x if x >= alpha else 0", ONNX Runtime x > alpha.
_PARAMETERS = {"Affine": (0.5, 0.25), "LeakyRelu": (0.1,), "ThresholdedRelu": (0.45,), "ScaledTanh": (0.5, 1.5),
               "HardSigmoid": (0.3, 0.4), "Elu": (0.7,)}  # fmt: skip


@operators(("RNN", "GRU", "LSTM"), weight=0.4)
def recurrent(op: str, g: Builder) -> Value:
    x = g.pick((FLOAT,), 3, test=lambda v: isinstance(v.dims[2], int) and not is_doubtful(v) and 0 not in v.dims)
    steps, batch, width = x.dims
    gates, count = {"RNN": (1, 1), "GRU": (3, 2), "LSTM": (4, 3)}[op]
    hidden = g.rng.randint(1, 3)
    direction = g.rng.choice((None, "forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    weights = [g.array(FLOAT, (ways, gates * hidden, n)) / 4 for n in (int(width), hidden)]
    inputs: list[Value | None] = [x, *map(g.constant, weights)]
    if g.chance(0.5):
        inputs.append(g.constant(g.array(FLOAT, (ways, 2 * gates * hidden)) / 4))
    given: dict[str, object] = {"hidden_size": hidden, "direction": direction}
    if g.chance(0.6):
        chosen = [g.rng.choice(ACTIVATIONS) for _ in range(count)] * ways
        given["activations"] = chosen
        if "Softplus" in chosen:  # log(1 + e^x), which ONNX Runtime lets overflow from 89 on
            given["clip"] = 0.5
        given["activation_alpha"] = [_PARAMETERS[a][0] for a in chosen if a in _PARAMETERS] or None
        given["activation_beta"] = [_PARAMETERS[a][1] for a in chosen if len(_PARAMETERS.get(a, ())) > 1] or None
    if g.chance(0.3):
        given["clip"] = 0.5
    if op == "GRU":
        given["linear_before_reset"] = g.rng.choice((None, 0, 1)) if g.opset > 2 else None
    if op == "LSTM" and "activations" not in given:
        given["input_forget"] = g.rng.choice((None, 0, 1))
    state = (ways, batch, hidden)
    outputs = [(FLOAT, (steps, ways, batch, hidden)), (FLOAT, state), *([(FLOAT, state)] if op == "LSTM" else [])]
    least = 2 if op == "GRU" and g.opset < 3 else 1
    return g.add(op, inputs, *outputs[: g.rng.randint(least, len(outputs))], exact=False, **given)


@operator("Attention", weight=0.5)
def attention(g: Builder) -> Value:
    heads, length, width = g.rng.randint(1, 2), g.rng.randint(1, 4), g.rng.choice((2, 4))
    q, k, v = (g.constant(g.array(FLOAT, (1, heads, n, width))) for n in (3, length, length))
    q = g.add("Identity", [q], (FLOAT, q.dims)) if g.chance(0.5) else g.input(FLOAT, q.dims) if not g.depth else q
    given = {"is_causal": g.rng.choice((None, 0, 1)), "scale": g.rng.choice((None, 0.5)),
             "softcap": g.rng.choice((None, 1.0))}  # fmt: skip
    return g.add("Attention", [q, k, v], (FLOAT, (1, heads, 3, width)), exact=False, **given)
