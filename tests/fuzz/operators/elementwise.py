"""Elementwise operators and casts."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import numpy as np
from onnx import TensorProto

from tests.fuzz.generator import (
    BFLOAT16,
    BOOL,
    DOUBLE,
    FLOAT,
    FLOATS,
    HALF,
    I32,
    I64,
    INTEGERS,
    NUMBERS,
    U8,
    Builder,
    Impossible,
    Value,
    broadcast,
    dtype_of,
    product,
)
from tests.fuzz.operators.registry import operator, operators, register


def unary(op: str, g: Builder, *, exact: bool = True, only_exact: bool = False, domain: str = "",
          kinds: Collection[int] = (), **attributes: tuple[object, ...]) -> Value:  # fmt: skip
    """One input, an output like it; each attribute is one of its choices, None to leave it out."""
    x = g.pick(kinds or g.kinds(op, 0, domain), exact=only_exact)
    given = {name: g.rng.choice(choices) for name, choices in attributes.items()}
    return g.add(op, [x], (x.kind, x.dims), exact=exact, domain=domain, **given)


def binary(op: str, g: Builder, *, to: int | None = None, only_exact: bool = False, exact: bool = True,
           kinds: Collection[int] = ()) -> Value:  # fmt: skip
    if g.takes(op, "broadcast"):
        return binary_by_attribute(
            op, g, BOOL if op in ("And", "Or", "Xor") else to, only_exact=only_exact, exact=exact
        )
    a = g.pick(kinds or g.kinds(op), exact=only_exact)
    others = [v for v in g.scope() if v.form == "tensor" and v.kind == a.kind and broadcast(a.dims, v.dims) is not None
              and (v.is_exact or not only_exact)]  # fmt: skip
    b = g.rng.choice(others) if others and g.chance(0.7) else g.like(a.kind, a.dims)
    if only_exact and not b.is_exact:
        raise Impossible
    dims = broadcast(a.dims, b.dims)
    assert dims is not None
    pair = [a, b] if g.chance(0.5) else [b, a]
    return g.add(op, pair, (a.kind if to is None else to, dims), exact=exact)


def binary_by_attribute(op: str, g: Builder, to: int | None, *, only_exact: bool, exact: bool) -> Value:
    """Before version 7: "the shape of the second tensor is a contiguous subset of the first", from an axis on."""
    a = g.pick(g.kinds(op), exact=only_exact)
    out = (a.kind if to is None else to, a.dims)
    if g.chance(0.3):
        return g.add(op, [a, a], out, exact=exact)
    first = g.rng.randint(0, a.rank)
    last = a.rank if g.chance(0.5) else g.rng.randint(first, a.rank)
    part = a.dims[first:last]
    if not all(isinstance(d, int) for d in part):
        raise Impossible
    axis = first if part and (last < a.rank or g.chance(0.3)) else None
    b = g.constant(g.array(a.kind, tuple(map(int, part))))
    return g.add(op, [a, b], out, exact=exact, broadcast=1, axis=axis)


def with_number(op: str, g: Builder, a: Value, number: float, **more: object) -> Value:
    """An operator whose second input is one number, a scalar."""
    b = g.constant(np.asarray(number, dtype_of(a.kind)))
    return g.add(op, [a, b], (a.kind, a.dims), broadcast=1 if g.takes(op, "broadcast") else None, **more)


@operator("Div")
def divide(g: Builder) -> Value:
    a = g.pick(g.kinds("Div"))
    return with_number("Div", g, a, g.rng.choice((1, 2, 3, 4)), exact=a.kind not in FLOATS)


@operator("Mod", weight=0.5)
def modulo(g: Builder) -> Value:
    a = g.pick(g.kinds("Mod"), exact=True)
    fmod = 1 if a.kind in FLOATS else g.rng.choice((None, 0, 1))
    return with_number("Mod", g, a, g.rng.choice((1, 2, 3)), fmod=fmod)


@operator("Pow")
def power(g: Builder) -> Value:
    a = g.pick(tuple(k for k in g.kinds("Pow") if k in (FLOAT, DOUBLE, HALF)))
    return with_number("Pow", g, a, g.rng.choice((0, 1, 2, 2, 3, 0.5)), exact=False)


@operators(("Max", "Min", "Sum", "Mean"), weight=0.5)
def variadic(op: str, g: Builder) -> Value:
    a = g.pick(g.kinds(op))
    rest = [a if g.opset < 8 else g.like(a.kind, a.dims) for _ in range(g.rng.randint(0, 2))]
    return g.add(op, [a, *rest], (a.kind, a.dims), exact=op != "Mean")


@operator("Clip")
def clip(g: Builder) -> Value:
    x = g.pick(tuple(k for k in g.kinds("Clip") if k not in (U8, BFLOAT16)))
    if g.opset < 11:
        return g.add("Clip", [x], (x.kind, x.dims), min=g.rng.choice((None, -1.0, 0.0)), max=g.rng.choice((None, 2.0)))
    ends = [g.constant(np.asarray(end, dtype_of(x.kind))) if g.chance(0.8) else None for end in (-1, 2)]
    return g.add("Clip", [x, *ends], (x.kind, x.dims))


@operator("Where")
def where(g: Builder) -> Value:
    a = g.pick(g.kinds("Where", 1))
    c = g.pick((BOOL,), test=lambda v: broadcast(v.dims, a.dims) == a.dims)
    return g.add("Where", [c, a, g.like(a.kind, a.dims)], (a.kind, a.dims))


@operator("Cast", weight=2)
def cast(g: Builder) -> Value:
    x = g.pick((*NUMBERS, BOOL), exact=True)
    late = (BFLOAT16,) if g.opset >= 13 else ()
    if x.kind == BFLOAT16 and not late:
        raise Impossible
    to = g.rng.choice((FLOAT, DOUBLE, HALF, I64, I32, BOOL, *late))
    sizes = x.sizes if to in (I64, I32) else None
    given: dict[str, object] = {"to": to if g.opset > 5 else TensorProto.DataType.Name(to)}
    if x.kind in FLOATS and to in INTEGERS:  # beyond the range, anything goes
        if g.opset < 11 or x.kind not in g.kinds("Clip"):
            raise Impossible
        ends = [g.constant(np.asarray(end, dtype_of(x.kind))) for end in (-100, 100)]
        x = g.add("Clip", [x, *ends], (x.kind, x.dims))
    if g.opset >= 15 and g.chance(0.2):
        target = g.pick((to,))
        return g.add("CastLike", [x, target], (to, x.dims))
    return g.add("Cast", [x], (to, x.dims), sizes=sizes if to == I64 else None, **given)


@operator("Cast")
def low_precision(g: Builder) -> Value:
    """There and back through a type of few bits."""
    x = g.pick((FLOAT, HALF), exact=True)
    kinds = [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2FNUZ]
    kinds += [TensorProto.UINT4, TensorProto.INT4] if g.opset >= 21 else []
    kinds += [TensorProto.FLOAT4E2M1] if g.opset >= 23 else []
    if g.opset < 19:
        raise Impossible
    to = g.rng.choice(kinds)
    given = {"saturate": g.rng.choice((None, 0, 1))} if "FLOAT8" in TensorProto.DataType.Name(to) else {}
    ends = [g.constant(np.asarray(end, dtype_of(x.kind))) for end in (0 if to == TensorProto.UINT4 else -6, 6)]
    low = g.add("Clip", [x, *ends], (x.kind, x.dims))
    low = g.add("Cast", [low], (to, x.dims), to=to, **given)
    if g.chance(0.3):
        low = g.add("Identity", [low], (to, x.dims))
    elif g.chance(0.3) and x.rank:
        flat = g.constant([-1])
        low = g.add("Reshape", [low, flat], (to, (product(x.dims),)))
    return g.add("Cast", [low], (x.kind, low.dims), to=x.kind)


register(("Abs", "Neg", "Relu", "Identity"), unary, 1.5)
register(
    ("Exp", "Sqrt", "Sigmoid", "Tanh", "Erf", "Softplus", "Softsign", "Sin", "Cos", "Atan", "Sinh", "Cosh", "Asinh",
     "HardSwish", "Mish", "Log"), partial(unary, exact=False), 0.5,
)  # fmt: skip
register(("Reciprocal", "Floor", "Ceil", "Round", "Sign", "Not", "BitwiseNot"), partial(unary, only_exact=True), 0.5)
_SLOPES = (None, 0.25, 0.75)
for _names, _attributes in (
    (("LeakyRelu", "Elu", "Celu", "Swish"), ("alpha",)), (("Selu",), ("alpha", "gamma")),
    (("HardSigmoid",), ("alpha", "beta")),
):  # fmt: skip
    register(_names, partial(unary, exact=False, **dict.fromkeys(_attributes, _SLOPES)), 0.4)
register(("ThresholdedRelu",), partial(unary, exact=False, only_exact=True, alpha=_SLOPES), 0.4)
register(("Shrink",), partial(unary, exact=False, only_exact=True, lambd=_SLOPES, bias=_SLOPES), 0.4)
register(("Gelu",), partial(unary, exact=False, approximate=(None, "none", "tanh")), 0.5)
register(("Add", "Mul", "Sub"), binary, 2)
register(("Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual"), partial(binary, to=BOOL, only_exact=True), 0.5)
register(("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr"), binary, 0.5)
