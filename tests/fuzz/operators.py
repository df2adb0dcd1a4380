"""How each operator is drawn: its inputs from what is in scope, its attributes at random, its outputs typed.

`OPERATORS` is the list; whether a version of the operator set has one, and for which types, its schema says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.fuzz.generator import (
    BFLOAT16,
    BOOL,
    DOUBLE,
    FLOAT,
    FLOATS,
    HALF,
    I8,
    I32,
    I64,
    INTEGERS,
    MICROSOFT,
    ML,
    NUMBERS,
    STRING,
    U8,
    Builder,
    Dim,
    Dims,
    Impossible,
    Value,
    broadcast,
    dtype_of,
)

# -- elementwise


def unary(op: str, g: Builder, *, exact: bool = True, only_exact: bool = False, domain: str = "",
          kinds: Collection[int] = (), **attributes: tuple[object, ...]) -> Value:  # fmt: skip
    """One input, an output like it; each attribute is one of its choices, None to leave it out."""
    x = g.pick(kinds or g.kinds(op, 0, domain), exact=only_exact)
    given = {name: g.rng.choice(choices) for name, choices in attributes.items()}
    return g.add(op, [x], (x.kind, x.dims), exact=exact, domain=domain, **given)


def binary(op: str, g: Builder, *, to: int | None = None, only_exact: bool = False, exact: bool = True,
           kinds: Collection[int] = ()) -> Value:  # fmt: skip
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


def divide(g: Builder) -> Value:
    a = g.pick(g.kinds("Div"))
    b = g.constant(np.asarray(g.rng.choice((1, 2, 3, 4)), dtype_of(a.kind)))
    return g.add("Div", [a, b], (a.kind, a.dims), exact=a.kind not in FLOATS)


def modulo(g: Builder) -> Value:
    a = g.pick(g.kinds("Mod"), exact=True)
    b = g.constant(np.asarray(g.rng.choice((1, 2, 3)), dtype_of(a.kind)))
    return g.add("Mod", [a, b], (a.kind, a.dims), fmod=1 if a.kind in FLOATS else g.rng.choice((None, 0, 1)))


def power(g: Builder) -> Value:
    a = g.pick(tuple(k for k in g.kinds("Pow") if k in (FLOAT, DOUBLE, HALF)))
    b = g.constant(np.asarray(g.rng.choice((0, 1, 2, 2, 3, 0.5)), dtype_of(a.kind)))
    return g.add("Pow", [a, b], (a.kind, a.dims), exact=False)


def variadic(op: str, g: Builder) -> Value:
    a = g.pick(g.kinds(op))
    rest = [g.like(a.kind, a.dims) for _ in range(g.rng.randint(0, 2))]
    return g.add(op, [a, *rest], (a.kind, a.dims), exact=op != "Mean")


def clip(g: Builder) -> Value:
    x = g.pick(tuple(k for k in g.kinds("Clip") if k not in (U8, BFLOAT16)))
    if g.opset < 11:
        return g.add("Clip", [x], (x.kind, x.dims), min=g.rng.choice((None, -1.0, 0.0)), max=g.rng.choice((None, 2.0)))
    ends = [g.constant(np.asarray(end, dtype_of(x.kind))) if g.chance(0.8) else None for end in (-1, 2)]
    return g.add("Clip", [x, *ends], (x.kind, x.dims))


def where(g: Builder) -> Value:
    a = g.pick(g.kinds("Where", 1))
    c = g.pick((BOOL,), test=lambda v: broadcast(v.dims, a.dims) == a.dims)
    return g.add("Where", [c, a, g.like(a.kind, a.dims)], (a.kind, a.dims))


def cast(g: Builder) -> Value:
    x = g.pick((*NUMBERS, BOOL), exact=True)
    late = (BFLOAT16,) if g.opset >= 13 else ()
    if x.kind == BFLOAT16 and not late:
        raise Impossible
    to = g.rng.choice((FLOAT, DOUBLE, HALF, I64, I32, BOOL, *late))
    sizes = x.sizes if to in (I64, I32) else None
    given = {"to": to}
    if x.kind in FLOATS and to in INTEGERS:  # beyond the range, anything goes
        if g.opset < 11 or x.kind not in g.kinds("Clip"):
            raise Impossible
        ends = [g.constant(np.asarray(end, dtype_of(x.kind))) for end in (-100, 100)]
        x = g.add("Clip", [x, *ends], (x.kind, x.dims))
    if g.opset >= 15 and g.chance(0.2):
        target = g.pick((to,))
        return g.add("CastLike", [x, target], (to, x.dims))
    return g.add("Cast", [x], (to, x.dims), sizes=sizes if to == I64 else None, **given)


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


# -- shapes


def product(dims: Dims) -> Dim:
    """The formula of a product."""
    number = math.prod(d for d in dims if isinstance(d, int))
    names = [d for d in dims if isinstance(d, str)]
    if not names or not number:
        return number
    return "*".join([*names, *([str(number)] if number != 1 else [])])


def size(g: Builder, dim: Dim, *, scalar: bool = False) -> Value:
    """An int64 of one element that is this size, taken from a shape where it is not a number."""
    if isinstance(dim, int) and g.chance(0.8):
        return g.constant(np.asarray(dim, np.int64)) if scalar else g.constant([dim])
    holders = [v for v in g.scope() if v.form == "tensor" and dim in v.dims and v.kind in (*NUMBERS, BOOL)]
    if not holders:
        raise Impossible
    source = g.rng.choice(holders)
    axis = source.dims.index(dim)
    shape = next((v for v in g.scope() if v.sizes == source.dims and v.rank == 1), None)
    if shape is None or g.chance(0.5):
        if g.opset >= 15 and g.chance(0.3):
            part = g.add("Shape", [source], (I64, (1,)), sizes=(dim,), start=axis, end=axis + 1)
            if not scalar:
                return part
        shape = g.add("Shape", [source], (I64, (source.rank,)), sizes=source.dims)
    index = g.constant(np.asarray(axis, np.int64)) if scalar else g.constant([axis])
    return g.add("Gather", [shape, index], (I64, () if scalar else (1,)), sizes=(dim,), axis=0)


def sizes(g: Builder, dims: Dims, *, free: bool = False) -> Value:
    """A vector of sizes, computed one way or another. `free`: one of them may be -1."""
    known = next((v for v in g.scope() if v.sizes == dims and v.rank == 1 and v.kind == I64), None)
    if known is not None and g.chance(0.4):
        return known
    if all(isinstance(d, int) for d in dims) and g.chance(0.7):
        return g.constant(np.asarray(dims, np.int64))
    names = [i for i, d in enumerate(dims) if isinstance(d, str)]
    skip = g.rng.choice(names) if free and names and 0 not in dims else -1
    parts = [g.constant([-1]) if i == skip else size(g, d) for i, d in enumerate(dims)]
    if not parts:
        return g.constant(np.zeros(0, np.int64))
    if len(parts) == 1:
        return parts[0]
    return g.add("Concat", parts, (I64, (len(dims),)), axis=0, sizes=dims if skip < 0 else None)


def shape(g: Builder) -> Value:
    x = g.pick((*NUMBERS, BOOL, STRING))
    if g.opset >= 15 and g.chance(0.4) and x.rank:
        start, end = sorted((g.rng.randint(0, x.rank), g.rng.randint(0, x.rank)))
        if g.chance(0.3):
            start -= x.rank
        part = x.dims[slice(start, end)] if start >= 0 else x.dims[start + x.rank : end]
        return g.add("Shape", [x], (I64, (len(part),)), sizes=part, start=start, end=end)
    return g.add("Shape", [x], (I64, (x.rank,)), sizes=x.dims)


def size_arithmetic(g: Builder) -> Value:
    a = g.pick((I64,), (0, 1), test=lambda v: v.sizes is not None and len(v.sizes) == 1)
    (dim,) = a.sizes or (1,)
    op = g.rng.choice(("Mul", "Add", "Div", "Neg", "Identity", "Cast", "Sub"))
    number = g.rng.choice((1, 2, 3))
    other = g.constant(np.full(a.dims, number, np.int64))
    if op == "Mul":
        return g.add("Mul", [a, other], (I64, a.dims), sizes=(product((dim, number)),))
    if op in ("Add", "Sub"):
        return g.add(op, [a, other], (I64, a.dims), sizes=(f"({dim}+{number})",) if op == "Add" else None)
    if op == "Div":
        return g.add("Div", [a, other], (I64, a.dims), sizes=(f"({dim}//{number})",) if number > 1 else (dim,))
    if op == "Neg":
        return g.add("Neg", [g.add("Neg", [a], (I64, a.dims))], (I64, a.dims), sizes=(dim,))
    if op == "Cast":
        other = g.add("Cast", [a], (I32, a.dims), to=I32)
        return g.add("Cast", [other], (I64, a.dims), sizes=(dim,), to=I64)
    return g.add("Identity", [a], (I64, a.dims), sizes=(dim,))


def reshaped(g: Builder, dims: Dims) -> Dims:
    """Another shape of as many elements."""
    new = list(dims)
    for _ in range(g.rng.randint(1, 3)):
        step = g.rng.choice(("merge", "split", "one", "drop", "flat"))
        if step == "merge" and len(new) > 1:
            i = g.rng.randrange(len(new) - 1)
            new[i : i + 2] = [product((new[i], new[i + 1]))]
        elif step == "split" and any(isinstance(d, int) and d in (4, 6, 8, 12) for d in new):
            i = g.rng.choice([i for i, d in enumerate(new) if isinstance(d, int) and d in (4, 6, 8, 12)])
            new[i : i + 1] = [2, int(new[i]) // 2]
        elif step == "one":
            new.insert(g.rng.randint(0, len(new)), 1)
        elif step == "drop" and 1 in new:
            new.remove(1)
        elif step == "flat":
            new = [product(tuple(new))]
    return tuple(new[:5])


def reshape(g: Builder) -> Value:
    x = g.pick((*NUMBERS, BOOL, STRING))
    dims = reshaped(g, x.dims)
    if product(dims) != product(x.dims):
        dims = (product(x.dims),)
    if any(d == 0 and x.dims[i : i + 1] != (0,) for i, d in enumerate(dims)):
        raise Impossible  # a 0 copies a size of the input, which has none there
    formulas = [i for i, d in enumerate(dims) if isinstance(d, str)]
    if len(formulas) <= 1 and g.chance(0.6):
        target = g.constant([d if isinstance(d, int) else -1 for d in dims])
    elif g.chance(0.4) and all(i < x.rank and dims[i] == x.dims[i] for i in formulas) and 0 not in dims:
        target = g.constant([0 if i in formulas else int(d) for i, d in enumerate(dims)])  # copied
    else:
        target = sizes(g, dims, free=True)
    allow = g.rng.choice((None, 0)) if g.opset >= 14 else None
    return g.add("Reshape", [x, target], (x.kind, dims), allowzero=allow)


def flatten(g: Builder) -> Value:
    x = g.pick(g.kinds("Flatten"))
    axis = g.rng.randint(0, x.rank)
    dims = (product(x.dims[:axis]), product(x.dims[axis:]))
    negative = g.opset >= 11 and 0 < axis < x.rank and g.chance(0.3)
    return g.add("Flatten", [x], (x.kind, dims), axis=axis - x.rank if negative else axis)


def transpose(g: Builder) -> Value:
    x = g.pick((*NUMBERS, BOOL))
    order = list(range(x.rank))
    g.rng.shuffle(order)
    if not order or g.chance(0.2):
        return g.add("Transpose", [x], (x.kind, x.dims[::-1]))
    return g.add("Transpose", [x], (x.kind, tuple(x.dims[i] for i in order)), perm=order)


def axis_of(g: Builder, x: Value, since: int = 11) -> tuple[int, int]:
    """An axis, and as the attribute says it: counted from the end where the version knows that."""
    if not x.rank:
        raise Impossible
    axis = g.rng.randrange(x.rank)
    return axis, axis - x.rank if g.opset >= since and g.chance(0.4) else axis


def unsqueeze(g: Builder) -> Value:
    x = g.pick((*NUMBERS, BOOL), (0, 1, 2, 3))
    axes = sorted(g.rng.sample(range(x.rank + 2), 2 if g.chance(0.2) else 1))
    axes = [min(a, x.rank + len(axes) - 1) for a in axes]
    if len(set(axes)) != len(axes):
        axes = axes[:1]
    dims = list(x.dims)
    for a in axes:
        dims.insert(a, 1)
    if g.opset >= 13:
        return g.add("Unsqueeze", [x, g.constant(axes)], (x.kind, tuple(dims)), sizes=x.sizes if not x.rank else None)
    return g.add("Unsqueeze", [x], (x.kind, tuple(dims)), axes=axes)


def squeeze(g: Builder) -> Value:
    x = g.pick((*NUMBERS, BOOL), test=lambda v: 1 in v.dims)
    ones = [i for i, d in enumerate(x.dims) if d == 1]
    axes = g.rng.sample(ones, g.rng.randint(1, len(ones)))
    dims = tuple(d for i, d in enumerate(x.dims) if i not in axes)
    if g.opset >= 13:
        return g.add("Squeeze", [x, g.constant(axes)], (x.kind, dims))
    return g.add("Squeeze", [x], (x.kind, dims), axes=axes)


def total(parts: list[Dim]) -> Dim:
    names = [d for d in parts if isinstance(d, str)]
    number = sum(d for d in parts if isinstance(d, int))
    return number if not names else f"({'+'.join([*names, *([str(number)] if number else [])])})"


def concat(g: Builder) -> Value:
    x = g.pick((*NUMBERS, BOOL), (1, 2, 3, 4))
    axis, said = axis_of(g, x)
    rest = (*x.dims[:axis], *x.dims[axis + 1 :])
    fits = [v for v in g.scope() if v.form == "tensor" and v.kind == x.kind and v.rank == x.rank
            and (*v.dims[:axis], *v.dims[axis + 1 :]) == rest]  # fmt: skip
    parts = [x, *(g.rng.choice(fits) for _ in range(g.rng.randint(0, 2)) if fits)]
    known = [v.sizes for v in parts]
    held = tuple(d for s in known if s for d in s) if x.rank == 1 and None not in known else None
    dims = (*x.dims[:axis], total([v.dims[axis] for v in parts]), *x.dims[axis + 1 :])
    return g.add("Concat", parts, (x.kind, dims), axis=said, sizes=held)


def split(g: Builder) -> Value:
    x = g.pick((*FLOATS, I64), (1, 2, 3, 4), test=lambda v: any(isinstance(d, int) and d > 1 for d in v.dims))
    axis = g.rng.choice([i for i, d in enumerate(x.dims) if isinstance(d, int) and d > 1])
    whole = int(x.dims[axis])
    first = g.rng.randint(0 if g.opset >= 13 else 1, whole - 1)
    parts = [first, whole - first]
    given: dict[str, object] = {"axis": axis - x.rank if g.opset >= 11 and g.chance(0.3) else axis}
    inputs = [x]
    if g.opset >= 18 and g.chance(0.4):
        # "The last chunk will be smaller", no other: 5 cannot be split into 4.
        count = g.rng.choice([n for n in (2, 3, 4) if -(-whole // n) * (n - 1) <= whole])
        part = -(-whole // count)
        parts = [*[part] * (count - 1), whole - part * (count - 1)]
        given["num_outputs"] = count
    elif g.opset >= 13:
        inputs.append(g.constant(parts))
    else:
        given["split"] = parts
    shapes = [(*x.dims[:axis], p, *x.dims[axis + 1 :]) for p in parts]
    return g.add("Split", inputs, *((x.kind, s) for s in shapes), **given)


def slice_(g: Builder) -> Value:
    x = g.pick((*NUMBERS, BOOL), (1, 2, 3, 4))
    axis, said = axis_of(g, x, since=10)
    dim = x.dims[axis]
    step = g.rng.choice((1, 1, 1, 2, -1, -2)) if g.opset >= 10 else 1
    start, end = g.rng.choice((0, 1, -1, -2)), g.rng.choice((1, 2, 3, -1, 2**31 - 1, 2**63 - 1))
    if step < 0:
        start, end = g.rng.choice((-1, 2**31 - 1, 2)), g.rng.choice((-(2**31), -(2**62), 0))
    found = len(range(dim)[start:end:step]) if isinstance(dim, int) else g.unknown()
    whole = (start, step) == (0, 1) and end > 2**30
    dims = (*x.dims[:axis], dim if whole else found, *x.dims[axis + 1 :])
    held = x.sizes[start:end:step] if x.sizes is not None and x.rank == 1 else None
    if g.opset < 10:
        return g.add("Slice", [x], (x.kind, dims), starts=[start], ends=[end], axes=[axis], sizes=held)
    bounds = [g.constant([n]) for n in (start, end, said)]
    if isinstance(dim, str) and step == 1 and not whole and g.chance(0.3):
        bounds[1] = size(g, dim)  # up to the end, as computed
        dims = x.dims if start == 0 else dims
    steps = [g.constant([step])] if step != 1 or g.chance(0.3) else []
    return g.add("Slice", [x, *bounds, *steps], (x.kind, dims), sizes=held if bounds[1].array is not None else None)


def gather(g: Builder) -> Value:
    x = g.pick((*NUMBERS, BOOL, STRING), (1, 2, 3), test=lambda v: 0 not in v.dims and not _doubtful(v))
    axis, said = axis_of(g, x)
    low = x.dims[axis]
    count = low if isinstance(low, int) else 1
    rank = g.rng.choice((0, 1, 1, 2))
    negative = g.opset >= 11
    numbers = [g.rng.randrange(-count if negative else 0, count) for _ in range((1, 2, 2)[rank])]
    indices = g.constant(np.asarray(numbers, np.int64).reshape(((), (2,), (1, 2))[rank]))
    held = tuple(x.sizes[i] for i in numbers) if x.sizes and x.rank == 1 and rank < 2 else None
    dims = (*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :])
    return g.add("Gather", [x, indices], (x.kind, dims), axis=said, sizes=held)


def _doubtful(v: Value) -> bool:
    """Whether an axis may be empty although no symbol is."""
    return any(isinstance(d, str) and ("?" in d or "//" in d) for d in v.dims)


def gather_elements(g: Builder) -> Value:
    x = g.pick(NUMBERS, (1, 2, 3), test=lambda v: all(isinstance(d, int) and d > 0 for d in v.dims))
    axis, said = axis_of(g, x)
    count = int(x.dims[axis])
    dims = (*x.dims[:axis], g.rng.randint(1, 3), *x.dims[axis + 1 :])
    draws = np.random.default_rng(g.rng.getrandbits(32))
    return g.add("GatherElements", [x, g.constant(draws.integers(-count, count, dims))], (x.kind, dims), axis=said)


def scatter_elements(g: Builder) -> Value:
    op = "ScatterElements" if g.opset >= 11 else "Scatter"
    x = g.pick(NUMBERS, (1, 2, 3), test=lambda v: all(isinstance(d, int) and d > 0 for d in v.dims), exact=True)
    axis, said = axis_of(g, x)
    count = int(x.dims[axis])
    draws = np.random.default_rng(g.rng.getrandbits(32))
    chosen = draws.permutation(count)[: g.rng.randint(1, count)]
    dims = (*x.dims[:axis], len(chosen), *x.dims[axis + 1 :])
    index = np.broadcast_to(chosen.reshape([-1 if i == axis else 1 for i in range(x.rank)]), dims).copy()
    updates = g.constant(g.array(x.kind, tuple(map(int, dims))))
    how = [None, "none"] + (["add", "mul"] if g.opset >= 16 else []) + (["min", "max"] if g.opset >= 18 else [])
    reduction = g.rng.choice(how) if g.opset >= 16 and x.kind in (FLOAT, DOUBLE, I64, I32) else None
    return g.add(op, [x, g.constant(index), updates], (x.kind, x.dims), axis=said, reduction=reduction)


def gather_nd(g: Builder) -> Value:
    x = g.pick(NUMBERS, (2, 3), test=lambda v: all(isinstance(d, int) and d > 0 for d in v.dims))
    depth = g.rng.randint(1, x.rank)
    rows = [[g.rng.randrange(int(d)) for d in x.dims[:depth]] for _ in range(2)]
    return g.add("GatherND", [x, g.constant(np.asarray(rows, np.int64))], (x.kind, (2, *x.dims[depth:])))


def scatter_nd(g: Builder) -> Value:
    x = g.pick((FLOAT, DOUBLE, I64, I32), (1, 2, 3), exact=True,
               test=lambda v: all(isinstance(d, int) and d > 0 for d in v.dims))  # fmt: skip
    depth = g.rng.randint(1, x.rank)
    row = [g.rng.randrange(int(d)) for d in x.dims[:depth]]
    updates = g.constant(g.array(x.kind, (1, *map(int, x.dims[depth:]))))
    reduction = g.rng.choice((None, "none", "add", "mul")) if g.opset >= 16 else None
    return g.add("ScatterND", [x, g.constant(np.asarray([row], np.int64)), updates], (x.kind, x.dims),
                 reduction=reduction)  # fmt: skip


def expand(g: Builder) -> Value:
    x = g.pick(g.kinds("Expand"), (0, 1, 2, 3))
    others = [v for v in g.scope() if v.form == "tensor" and (f := broadcast(x.dims, v.dims)) and len(f) < 5]
    if others and g.chance(0.6):
        other = g.rng.choice(others)
        dims = broadcast(x.dims, other.dims)
        target = sizes(g, other.dims)
    else:
        dims = tuple(g.rng.choice((2, 3)) if d == 1 else d for d in x.dims)
        target = sizes(g, dims)
    assert dims is not None
    return g.add("Expand", [x, target], (x.kind, dims))


def tile(g: Builder) -> Value:
    x = g.pick(NUMBERS, (1, 2, 3))
    counts = [g.rng.choice((1, 1, 2, 3)) for _ in x.dims]
    dims = tuple(product((d, n)) for d, n in zip(x.dims, counts, strict=True))
    return g.add("Tile", [x, g.constant(counts)], (x.kind, dims))


def pad(g: Builder) -> Value:
    x = g.pick(tuple(k for k in g.kinds("Pad") if k in (FLOAT, DOUBLE, I64, I32)), (1, 2, 3, 4))
    mode = g.rng.choice(("constant", None, "edge", "reflect"))
    if mode in ("edge", "reflect") and not all(isinstance(d, int) and d > 2 for d in x.dims):
        mode = None
    low = [g.rng.choice((0, 0, 1, 2)) for _ in x.dims]
    high = [g.rng.choice((0, 0, 1, 2)) for _ in x.dims]
    if mode is None and g.chance(0.2):
        axis = g.rng.randrange(x.rank)
        if isinstance(x.dims[axis], int) and int(x.dims[axis]) > 1:
            low[axis] = -1
    dims = tuple(d if a + b == 0 else d + a + b if isinstance(d, int) else f"({d}+{a + b})"
                 for d, a, b in zip(x.dims, low, high, strict=True))  # fmt: skip
    if g.opset < 11:
        value = g.rng.choice((None, 1.5)) if mode in (None, "constant") else None
        return g.add("Pad", [x], (x.kind, dims), mode=mode, pads=[*low, *high], value=value)
    value = g.constant(g.array(x.kind, ())) if g.chance(0.5) else None
    return g.add("Pad", [x, g.constant([*low, *high]), value], (x.kind, dims), mode=mode)


def constant_of_shape(g: Builder) -> Value:
    dims = g.pick((*NUMBERS,), (0, 1, 2, 3)).dims
    kind = g.rng.choice((FLOAT, FLOAT, I64, I32, BOOL, DOUBLE, HALF))
    value = helper.make_tensor("value", kind, [1], [g.rng.choice((0, 1, 2))])
    target = sizes(g, dims)
    if target.rank != 1:
        raise Impossible
    if g.chance(0.2):
        return g.add("ConstantOfShape", [target], (FLOAT, dims))
    return g.add("ConstantOfShape", [target], (kind, dims), value=value)


def range_(g: Builder) -> Value:
    if g.chance(0.5):
        dim = g.rng.choice([d for v in g.scope() for d in v.dims] or [1])
        end = size(g, dim, scalar=True)
        return g.add("Range", [g.constant(np.asarray(0, np.int64)), end, g.constant(np.asarray(1, np.int64))],
                     (I64, (dim,)))  # fmt: skip
    kind = g.rng.choice((FLOAT, DOUBLE, I64, I32))
    numbers = g.rng.choice(((0, 5, 1), (5, 0, -2), (1, 4, 2), (3, 3, 1), (-1, 2, 1)))
    of = dtype_of(kind)
    count = max(0, -(-(numbers[1] - numbers[0]) // numbers[2]))
    return g.add("Range", [g.constant(np.asarray(n, of)) for n in numbers], (kind, (count,)))


def one_hot(g: Builder) -> Value:
    x = g.pick((I64, I32), (1, 2))
    axis = g.rng.randint(-x.rank - 1, x.rank)
    at = axis + x.rank + 1 if axis < 0 else axis
    values = g.constant(g.array(g.rng.choice((FLOAT, I64)), (2,)))
    dims = (*x.dims[:at], 4, *x.dims[at:])
    return g.add("OneHot", [x, g.constant(np.asarray(4, np.int64)), values], (values.kind, dims), axis=axis)


def eye_like(g: Builder) -> Value:
    x = g.pick((FLOAT, I64), 2)
    return g.add("EyeLike", [x], (FLOAT, x.dims), dtype=FLOAT, k=g.rng.choice((None, 0, 1, -1)))


def trilu(g: Builder) -> Value:
    x = g.pick(g.kinds("Trilu"), (2, 3))
    k = g.constant(np.asarray(g.rng.choice((-1, 0, 1, 5)), np.int64)) if g.chance(0.5) else None
    return g.add("Trilu", [x, k], (x.kind, x.dims), upper=g.rng.choice((None, 0, 1)))


def depth_to_space(g: Builder) -> Value:
    x = g.pick((FLOAT,), 4, test=lambda v: isinstance(v.dims[1], int) and v.dims[1] == 4)
    n, _, h, w = x.dims
    mode = g.rng.choice((None, "DCR", "CRD")) if g.opset >= 11 else None
    return g.add("DepthToSpace", [x], (FLOAT, (n, 1, product((h, 2)), product((w, 2)))), blocksize=2, mode=mode)


def space_to_depth(g: Builder) -> Value:
    x = g.pick((FLOAT,), 4, test=lambda v: all(isinstance(d, int) and d in (2, 4) for d in v.dims[2:]))
    n, c, h, w = x.dims
    return g.add("SpaceToDepth", [x], (FLOAT, (n, product((c, 4)), int(h) // 2, int(w) // 2)), blocksize=2)


def reverse_sequence(g: Builder) -> Value:
    x = g.pick((FLOAT, I64), (2, 3), test=lambda v: all(isinstance(d, int) and d > 0 for d in v.dims[:2]))
    lengths = g.constant([g.rng.randint(1, int(x.dims[0])) for _ in range(int(x.dims[1]))])
    return g.add("ReverseSequence", [x, lengths], (x.kind, x.dims), time_axis=0, batch_axis=1)


def nonzero(g: Builder) -> Value:
    x = g.pick((FLOAT, I64, BOOL), (1, 2, 3), exact=True)
    return g.add("NonZero", [x], (I64, (x.rank, g.unknown())))


def compress(g: Builder) -> Value:
    x = g.pick(g.kinds("Compress"), (1, 2, 3), test=lambda v: all(isinstance(d, int) for d in v.dims))
    axis, said = axis_of(g, x)
    kept = g.constant(g.array(BOOL, (int(x.dims[axis]),)))
    count = int(kept.array.sum()) if kept.array is not None else 0
    return g.add("Compress", [x, kept], (x.kind, (*x.dims[:axis], count, *x.dims[axis + 1 :])), axis=said)


def unique(g: Builder) -> Value:
    x = g.pick((FLOAT, I64, STRING), (1, 2), exact=True)
    n = g.unknown()
    outputs = [(x.kind, (n,)), (I64, (n,)), (I64, (product(x.dims),)), (I64, (n,))]
    return g.add("Unique", [x], *outputs[: g.rng.randint(1, 4)], sorted=g.rng.choice((None, 0, 1)))


# -- reductions


def reduce(op: str, g: Builder) -> Value:
    x = g.pick(tuple(k for k in g.kinds(op) if k in (FLOAT, DOUBLE, HALF, I64, I32)),
               test=lambda v: not _doubtful(v))  # fmt: skip
    axes = g.rng.sample(range(x.rank), g.rng.randint(0, x.rank))
    said = [a - x.rank if g.opset >= 11 and g.chance(0.3) else a for a in axes]
    keep = g.rng.choice((None, 0, 1))
    over = axes or list(range(x.rank))
    given: dict[str, object] = {"keepdims": keep}
    inputs: list[Value | None] = [x]
    if g.opset >= (13 if op == "ReduceSum" else 18):
        if axes:
            inputs.append(g.constant(said))
        elif g.chance(0.3):
            given["noop_with_empty_axes"] = 1
            over = []
    elif axes:
        given["axes"] = said
    if not over:
        dims = x.dims
    elif keep == 0:
        dims = tuple(d for i, d in enumerate(x.dims) if i not in over)
    else:
        dims = tuple(1 if i in over else d for i, d in enumerate(x.dims))
    exact = op in ("ReduceMax", "ReduceMin") or (op == "ReduceSum" and x.kind in INTEGERS)
    return g.add(op, inputs, (x.kind, dims), exact=exact, **given)


def arg(op: str, g: Builder) -> Value:
    x = g.pick((FLOAT, DOUBLE, I32), (1, 2, 3), exact=True, test=lambda v: not _doubtful(v))
    axis, said = axis_of(g, x)
    keep = g.rng.choice((None, 0, 1))
    rest = (1,) if keep != 0 else ()
    last = g.rng.choice((None, 0, 1)) if g.opset >= 12 else None
    dims = (*x.dims[:axis], *rest, *x.dims[axis + 1 :])
    return g.add(op, [x], (I64, dims), axis=said, keepdims=keep, select_last_index=last)


def softmax(op: str, g: Builder) -> Value:
    x = g.pick((FLOAT, DOUBLE, HALF), (1, 2, 3, 4), test=lambda v: not _doubtful(v), exact=op == "Hardmax")
    axis = axis_of(g, x)[1] if x.rank > 1 and g.chance(0.7) else None
    if axis is None and g.opset < 13 and x.rank < 2:
        axis = 0
    return g.add(op, [x], (x.kind, x.dims), axis=axis, exact=False)


def top_k(g: Builder) -> Value:
    x = g.pick((FLOAT, DOUBLE), (1, 2, 3), exact=True, test=lambda v: all(isinstance(d, int) and d for d in v.dims))
    axis, said = axis_of(g, x)
    k = g.rng.randint(1, int(x.dims[axis]))
    dims = (*x.dims[:axis], k, *x.dims[axis + 1 :])
    if g.opset < 10:
        return g.add("TopK", [x], (x.kind, dims), (I64, dims), k=k, axis=said)
    largest = g.rng.choice((None, 0, 1)) if g.opset >= 11 else None
    return g.add("TopK", [x, g.constant([k])], (x.kind, dims), (I64, dims), axis=said, largest=largest)


def cumsum(g: Builder) -> Value:
    x = g.pick((FLOAT, DOUBLE, I64, I32), (1, 2, 3))
    axis = g.constant(np.asarray(axis_of(g, x)[1], np.int64))
    given = {"exclusive": g.rng.choice((None, 1)), "reverse": g.rng.choice((None, 1))}
    return g.add("CumSum", [x, axis], (x.kind, x.dims), exact=False, **given)


# -- products, networks


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


def gemm(g: Builder) -> Value:
    a = g.pick((FLOAT, DOUBLE, HALF), 2)
    flip, other = g.chance(0.3), g.chance(0.4)
    rows, inner = a.dims[::-1] if flip else a.dims
    if not isinstance(inner, int):
        raise Impossible
    width = g.rng.randint(1, 4)
    b = g.constant(g.array(a.kind, (width, inner) if other else (inner, width)))
    shapes = [(), (width,), (1, width), (1, 1)]
    c = None if g.opset >= 11 and g.chance(0.3) else g.constant(g.array(a.kind, g.rng.choice(shapes)))
    given = {"transA": 1 if flip else None, "transB": 1 if other else g.rng.choice((None, 0)),
             "alpha": g.rng.choice((None, 0.5, 2.0)), "beta": g.rng.choice((None, 0.25, 1.0))}  # fmt: skip
    return g.add("Gemm", [a, b, c], (a.kind, (rows, width)), exact=False, **given)


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


def pool(op: str, g: Builder) -> Value:
    x = images(g, (FLOAT, DOUBLE, HALF))
    given, spatial = window(g, x, dilates=(op == "MaxPool" and g.opset >= 10) or g.opset >= 19)
    if op == "AveragePool":
        given["count_include_pad"] = g.rng.choice((None, 0, 1))
    if op == "LpPool":
        given["p"] = g.rng.choice((None, 1, 2, 3))
        if g.opset < 18:
            given.pop("dilations", None)
    dims: Dims = (x.dims[0], x.dims[1], *spatial)
    if op != "LpPool" and g.opset >= 10 and given["auto_pad"] in (None, "NOTSET") and g.chance(0.3):
        given["ceil_mode"] = 1
        dims = (*x.dims[:2], *(g.unknown() for _ in spatial))
    if op == "MaxPool" and g.opset >= 8 and g.chance(0.2) and "ceil_mode" not in given:
        return g.add(op, [x], (x.kind, dims), (I64, dims), **given)
    return g.add(op, [x], (x.kind, dims), exact=op == "MaxPool", **given)


def global_pool(op: str, g: Builder) -> Value:
    x = images(g, (FLOAT, DOUBLE, HALF))
    return g.add(op, [x], (x.kind, (*x.dims[:2], *(1,) * (x.rank - 2))), exact=op == "GlobalMaxPool")


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
    return g.add("BatchNormalization", [x, scale, bias, mean, variance], (x.kind, x.dims), exact=False, epsilon=epsilon)


def layer_normalization(op: str, g: Builder) -> Value:
    x = g.pick((FLOAT, DOUBLE), (2, 3), test=lambda v: isinstance(v.dims[-1], int) and v.dims[-1] > 1)
    inputs = [x, *(g.constant(g.array(x.kind, (int(x.dims[-1]),))) for _ in range(2 if g.chance(0.6) else 1))]
    if op == "RMSNormalization":
        return g.add(op, inputs[:2], (x.kind, x.dims), exact=False, axis=g.rng.choice((None, -1)))
    outputs = [(x.kind, x.dims)] + ([(FLOAT, (*x.dims[:-1], 1))] if g.chance(0.3) else [])
    return g.add(op, inputs, *outputs, exact=False, axis=g.rng.choice((None, -1)), epsilon=g.rng.choice((None, 0.01)))


def norm_over_axis(op: str, g: Builder) -> Value:
    if op == "MeanVarianceNormalization":
        x = g.pick((FLOAT,), 4, test=lambda v: all(isinstance(d, int) and d > 1 for d in v.dims))
        return g.add(op, [x], (FLOAT, x.dims), exact=False, axes=g.rng.choice((None, [0, 2, 3], [1])))
    x = g.pick((FLOAT,), (1, 2, 3), test=lambda v: not _doubtful(v))
    return g.add(op, [x], (FLOAT, x.dims), exact=False, axis=axis_of(g, x)[1], p=g.rng.choice((None, 1, 2)))


def resize(g: Builder) -> Value:
    x = images(g, (FLOAT,), 4)
    n, c, h, w = x.dims
    scales = g.constant(np.asarray([1, 1, 2, 2], np.float32))
    dims = (n, c, int(h) * 2, int(w) * 2)
    mode = g.rng.choice((None, "nearest", "linear"))
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


def dropout(g: Builder) -> Value:
    x = g.pick((FLOAT, DOUBLE))
    if g.opset < 12:
        return g.add("Dropout", [x], (x.kind, x.dims), ratio=g.rng.choice((None, 0.3)))
    ratio = g.constant(np.asarray(0.3, np.float32)) if g.chance(0.5) else None
    outputs = [(x.kind, x.dims)] + ([(BOOL, x.dims)] if g.chance(0.3) else [])
    return g.add("Dropout", [x, ratio], *outputs)


ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu",
               "Softsign", "Softplus")  # fmt: skip
#: The parameters an activation takes, alpha and beta. The threshold is none of the values drawn: the specification has
#: "ThresholdedRelu(x) - x if x >= alpha else 0", ONNX Runtime x > alpha.
_PARAMETERS = {"Affine": (0.5, 0.25), "LeakyRelu": (0.1,), "ThresholdedRelu": (0.45,), "ScaledTanh": (0.5, 1.5),
               "HardSigmoid": (0.3, 0.4), "Elu": (0.7,)}  # fmt: skip


def recurrent(op: str, g: Builder) -> Value:
    x = g.pick((FLOAT,), 3, test=lambda v: isinstance(v.dims[2], int) and not _doubtful(v) and 0 not in v.dims)
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
        given["linear_before_reset"] = g.rng.choice((None, 0, 1))
    if op == "LSTM" and "activations" not in given:
        given["input_forget"] = g.rng.choice((None, 0, 1))
    state = (ways, batch, hidden)
    outputs = [(FLOAT, (steps, ways, batch, hidden)), (FLOAT, state), *([(FLOAT, state)] if op == "LSTM" else [])]
    return g.add(op, inputs, *outputs[: g.rng.randint(1, len(outputs))], exact=False, **given)


def attention(g: Builder) -> Value:
    heads, length, width = g.rng.randint(1, 2), g.rng.randint(1, 4), g.rng.choice((2, 4))
    q, k, v = (g.constant(g.array(FLOAT, (1, heads, n, width))) for n in (3, length, length))
    q = g.add("Identity", [q], (FLOAT, q.dims)) if g.chance(0.5) else g.input(FLOAT, q.dims) if not g.depth else q
    given = {"is_causal": g.rng.choice((None, 0, 1)), "scale": g.rng.choice((None, 0.5)),
             "softcap": g.rng.choice((None, 1.0))}  # fmt: skip
    return g.add("Attention", [q, k, v], (FLOAT, (1, heads, 3, width)), exact=False, **given)


# -- quantization


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


def dynamic_quantize(g: Builder) -> Value:
    x = g.pick((FLOAT,), (1, 2, 3), exact=True, test=lambda v: all(isinstance(d, int) and d for d in v.dims))
    return g.add("DynamicQuantizeLinear", [x], (U8, x.dims), (FLOAT, ()), (U8, ()), exact=False)


def matmul_integer(g: Builder) -> Value:
    a = g.pick((U8, I8), 2)
    if not isinstance(a.dims[1], int):
        raise Impossible
    b = g.constant(g.array(a.kind, (a.dims[1], g.rng.randint(1, 3))))
    zeros = [g.constant(g.array(a.kind, ())) for _ in range(2)] if g.chance(0.5) else []
    return g.add("MatMulInteger", [a, b, *zeros], (I32, (a.dims[0], b.dims[1])))


# -- sequences, optionals, strings


def sequence(g: Builder) -> Value:
    x = g.pick((FLOAT, I64), (1, 2))
    again = g.add("Identity", [x], (x.kind, x.dims))
    items = g.add("SequenceConstruct", [x, again], (x.kind, x.dims), form="sequence")
    if g.chance(0.4):
        items = g.add("SequenceInsert", [items, x], (x.kind, x.dims), form="sequence")
    if g.chance(0.3):
        items = g.add("SequenceErase", [items, g.constant(np.asarray(0, np.int64))], (x.kind, x.dims), form="sequence")
    how = g.rng.choice(("at", "length", "join", "stack"))
    if how == "at":
        at = g.constant(np.asarray(g.rng.choice((0, -1)), np.int64))
        return g.add("SequenceAt", [items, at], (x.kind, x.dims))
    if how == "length":
        return g.add("SequenceLength", [items], (I64, ()))
    if how == "stack":
        return g.add("ConcatFromSequence", [items], (x.kind, (g.unknown(), *x.dims)), axis=0, new_axis=1)
    return g.add("ConcatFromSequence", [items], (x.kind, (g.unknown(), *x.dims[1:])), axis=0)


def split_to_sequence(g: Builder) -> Value:
    x = g.pick((FLOAT, I64), (2, 3), test=lambda v: isinstance(v.dims[0], int) and v.dims[0] > 0)
    keep = g.rng.choice((None, 0, 1))
    dims = x.dims[1:] if keep == 0 else (1, *x.dims[1:])
    items = g.add("SplitToSequence", [x], (x.kind, dims), form="sequence", axis=0, keepdims=keep)
    return g.add("SequenceAt", [items, g.constant(np.asarray(0, np.int64))], (x.kind, dims))


def optional(g: Builder) -> Value:
    x = g.pick((FLOAT, I64))
    held = g.add("Optional", [x], (x.kind, x.dims), form="optional")
    if g.chance(0.5):
        return g.add("OptionalGetElement", [held], (x.kind, x.dims))
    return g.add("OptionalHasElement", [held], (BOOL, ()))


def strings(g: Builder) -> Value:
    x = g.pick((STRING,))
    how = g.rng.choice(("normalize", "concat", "match", "length", "equal", "identity"))
    if how == "normalize" and x.rank == 1 and isinstance(x.dims[0], int) and g.opset >= 10:
        action = g.rng.choice((None, "LOWER", "UPPER"))
        return g.add("StringNormalizer", [x], (STRING, x.dims), case_change_action=action)
    if g.opset >= 20 and how == "concat":
        return g.add("StringConcat", [x, g.like(STRING, x.dims)], (STRING, x.dims))
    if g.opset >= 20 and how == "match":
        return g.add("RegexFullMatch", [x], (BOOL, x.dims), pattern=g.rng.choice(("[a-z]*", ".*,.*", "\\d+")))
    if g.opset >= 20 and how == "length":
        return g.add("StringSplit", [x], (STRING, (*x.dims, g.unknown())), (I64, x.dims), delimiter=",")
    if g.opset >= 19 and how == "equal":
        return g.add("Equal", [x, g.like(STRING, x.dims)], (BOOL, x.dims))
    return g.add("Identity", [x], (STRING, x.dims))


# -- control flow, functions


def _body(g: Builder, count: int) -> None:
    for _ in range(count):
        draw_node(g, nests=g.depth < 2)


def if_(g: Builder) -> Value:
    condition = g.pick((BOOL,), 0, exact=True)
    x = g.pick((FLOAT, I64, DOUBLE, HALF), test=lambda v: not _doubtful(v))
    branches = []
    for _ in range(2):
        inner = g.subgraph()
        _body(inner, g.rng.randint(0, 3))
        fits = [v for v in inner.values if (v.kind, v.dims, v.form) == (x.kind, x.dims, "tensor") and v.array is None]
        last = g.rng.choice(fits) if fits and g.chance(0.6) else inner.add("Identity", [x], (x.kind, x.dims))
        if g.chance(0.4):
            last = inner.add("Add", [last, last], (x.kind, x.dims), exact=last.is_exact)
        branches.append(inner.graph([last], g.name("branch")))
    return g.add("If", [condition], (x.kind, x.dims), exact=False, then_branch=branches[0], else_branch=branches[1])


def loop(g: Builder) -> Value:
    x = g.pick((FLOAT, I64, DOUBLE), test=lambda v: not _doubtful(v))
    inner = g.subgraph([(I64, ()), (BOOL, ()), (x.kind, x.dims)])
    going, state = inner.values[1], inner.values[2]
    inner.values = [state, inner.values[0]]
    _body(inner, g.rng.randint(0, 3))
    state = inner.add("Add", [state, inner.like(x.kind, x.dims)], (x.kind, x.dims))
    on = inner.add("Identity", [going], (BOOL, ()))
    scanned = [inner.add("Identity", [state], (x.kind, x.dims))] if g.chance(0.5) else []
    body = inner.graph([on, state, *scanned], g.name("body"))
    count = g.rng.randint(0, 3)
    trips = g.constant(np.asarray(count, np.int64))
    if g.opset < 11 or g.chance(0.5):
        first: Value | None = g.constant(np.asarray(True))
    else:
        first = None
    outputs = [(x.kind, x.dims), *((x.kind, (count, *x.dims)) for _ in scanned)]
    return g.add("Loop", [trips, first, x], *outputs, exact=False, body=body)


def scan(g: Builder) -> Value:
    x = g.pick((FLOAT,), (2, 3), test=lambda v: not _doubtful(v))
    state = g.constant(g.array(FLOAT, ()))
    inner = g.subgraph([(FLOAT, ()), (FLOAT, x.dims[1:])])
    a, b = inner.values[:2]
    _body(inner, g.rng.randint(0, 2))
    total_ = inner.add("Add", [a, inner.constant(np.asarray(1, np.float32))], (FLOAT, ()))
    each = inner.add("Mul", [b, total_], (FLOAT, x.dims[1:]))
    body = inner.graph([total_, each], g.name("body"))
    given = {"scan_input_directions": g.rng.choice((None, [0], [1])),
             "scan_output_directions": g.rng.choice((None, [0], [1]))}  # fmt: skip
    return g.add("Scan", [state, x], (FLOAT, ()), (FLOAT, x.dims), exact=False, num_scan_inputs=1, body=body, **given)


def function(g: Builder) -> Value:
    """A call of a model-local function, called twice now and then."""
    x = g.pick((FLOAT,), test=lambda v: not _doubtful(v))
    inner = Builder(g.rng, g.opset, g, is_function=True)
    inner.input(FLOAT, x.dims)
    own = g.root.domains
    _body(inner, g.rng.randint(1, 4))
    results = [v for v in inner.values if v.array is None and v.form == "tensor" and v.name not in
               {i.name for i in inner.inputs} and not _doubtful(v)]  # fmt: skip
    if not results:
        raise Impossible
    chosen = g.rng.sample(results, min(len(results), g.rng.randint(1, 2)))
    name, extra = g.name("F"), inner.inputs[1:]
    if extra:
        raise Impossible
    attributes = []
    if g.chance(0.3):
        node = helper.make_node("LeakyRelu", [inner.inputs[0].name], [g.name()])
        node.attribute.append(onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope"))
        inner.nodes.append(node)
        chosen.append(Value(node.output[0], FLOAT, x.dims, is_exact=False))
        attributes.append("slope")
    imports = [helper.make_opsetid("", g.opset), *(helper.make_opsetid(d, v) for d, v in own.items())]
    g.root.functions.append(
        helper.make_function("local", name, [inner.inputs[0].name], [v.name for v in chosen], inner.nodes, imports,
                             attributes)
    )  # fmt: skip
    g.root.domains["local"] = 1
    outputs = [(v.kind, v.dims) for v in chosen]
    slope = 0.25 if attributes else None
    found = g.add(name, [x], *outputs, exact=False, domain="local", slope=slope)
    twins = [v for v in g.scope() if (v.kind, v.dims, v.form) == (x.kind, x.dims, "tensor")]
    if g.chance(0.4):
        g.add(name, [g.rng.choice(twins)], *outputs, exact=False, domain="local", slope=slope)
    return found


# -- ai.onnx.ml and com.microsoft


def rows(g: Builder) -> Value:
    return g.pick((FLOAT,), 2, test=lambda v: isinstance(v.dims[1], int) and v.dims[1] > 0, exact=True)


def ml_scaler(g: Builder) -> Value:
    x = rows(g)
    n = int(x.dims[1])
    return g.add("Scaler", [x], (FLOAT, x.dims), domain=ML, offset=[0.5] * g.rng.choice((1, n)), scale=[2.0] * n,
                 exact=False) if n else x  # fmt: skip


def ml_elementwise(g: Builder) -> Value:
    x = rows(g)
    op = g.rng.choice(("Binarizer", "Normalizer", "Imputer"))
    given = {
        "Binarizer": {"threshold": 0.5},
        "Normalizer": {"norm": g.rng.choice((None, "MAX", "L1", "L2"))},
        "Imputer": {"imputed_value_floats": [1.5], "replaced_value_float": g.rng.choice((0.0, 0.25))},
    }[op]
    return g.add(op, [x], (FLOAT, x.dims), domain=ML, exact=op == "Binarizer", **given)


def ml_linear(g: Builder) -> Value:
    x = rows(g)
    n, targets = int(x.dims[1]), g.rng.randint(1, 3)
    draws = np.random.default_rng(g.rng.getrandbits(32))
    weights = (draws.integers(-4, 5, n * targets) / 4).tolist()
    after = g.rng.choice((None, "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"))
    if g.chance(0.5):
        return g.add("LinearRegressor", [x], (FLOAT, (x.dims[0], targets)), domain=ML, targets=targets,
                     coefficients=weights, intercepts=[0.5] * targets, post_transform=g.rng.choice((None, "NONE")),
                     exact=False)  # fmt: skip
    targets = max(targets, 2)
    weights = (draws.integers(-4, 5, n * targets) / 4 + 0.01 * np.arange(n * targets)).tolist()
    return g.add("LinearClassifier", [x], (I64, (x.dims[0],)), (FLOAT, (x.dims[0], targets)), domain=ML, exact=False,
                 coefficients=weights, intercepts=[0.1 * i for i in range(targets)], post_transform=after,
                 classlabels_ints=list(range(targets)), multi_class=1)  # fmt: skip


def ml_trees(g: Builder) -> Value:
    x = rows(g)
    mode = g.rng.choice(("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"))
    return g.add(
        "TreeEnsembleRegressor", [x], (FLOAT, (x.dims[0], 1)), domain=ML, exact=False, n_targets=1,
        nodes_treeids=[0, 0, 0, 1], nodes_nodeids=[0, 1, 2, 0],
        nodes_featureids=[g.rng.randrange(int(x.dims[1])), 0, 0, 0],
        nodes_values=[0.25, 0.0, 0.0, 0.0], nodes_modes=[mode, "LEAF", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0, 0],
        nodes_falsenodeids=[2, 0, 0, 0], target_treeids=[0, 0, 1], target_nodeids=[1, 2, 0], target_ids=[0, 0, 0],
        target_weights=[1.0, -2.0, 0.5], aggregate_function=g.rng.choice((None, "SUM", "AVERAGE", "MIN", "MAX")),
        base_values=g.rng.choice((None, [0.25])),
    )  # fmt: skip


def ml_labels(g: Builder) -> Value:
    if g.version(ML) < 2:
        raise Impossible
    if g.chance(0.5):
        x = g.pick((STRING,))
        return g.add("LabelEncoder", [x], (I64, x.dims), domain=ML, keys_strings=["a", "B"], values_int64s=[1, 2],
                     default_int64=g.rng.choice((None, 7)))  # fmt: skip
    x = g.pick((I64,), exact=True)
    return g.add("LabelEncoder", [x], (FLOAT, x.dims), domain=ML, keys_int64s=[0, 1, 2], values_floats=[0.5, 1.0, 2.0],
                 default_float=g.rng.choice((None, -1.0)))  # fmt: skip


def ml_features(g: Builder) -> Value:
    x = rows(g)
    if g.chance(0.5):
        index = g.constant([g.rng.randrange(int(x.dims[1])) for _ in range(2)])
        return g.add("ArrayFeatureExtractor", [x, index], (FLOAT, (x.dims[0], 2)), domain=ML)
    ints = g.pick((I64,), 1)
    return g.add("OneHotEncoder", [ints], (FLOAT, (*ints.dims, 3)), domain=ML, cats_int64s=[0, 1, 2], zeros=1)


def microsoft(g: Builder) -> Value:
    op = g.rng.choice(("Gelu", "FastGelu", "QuickGelu", "BiasGelu", "FusedMatMul", "SkipLayerNormalization", "Trilu",
                       "FusedGemm", "ExpandDims", "Inverse"))  # fmt: skip
    x = g.pick((FLOAT,), (2, 3), test=lambda v: isinstance(v.dims[-1], int) and v.dims[-1] > 1)
    width = int(x.dims[-1])
    bias = g.constant(g.array(FLOAT, (width,)))
    made = partial(g.add, op, domain=MICROSOFT, exact=False)
    if op in ("Gelu", "FastGelu"):
        return made([x], (FLOAT, x.dims))
    if op == "QuickGelu":
        return made([x], (FLOAT, x.dims), alpha=g.rng.choice((None, 1.0)))
    if op == "BiasGelu":
        return made([x, bias], (FLOAT, x.dims))
    if op == "FusedMatMul":
        b = g.constant(g.array(FLOAT, (3, width)))
        return made([x, b], (FLOAT, (*x.dims[:-1], 3)), transB=1, alpha=g.rng.choice((None, 0.5)))
    if op == "SkipLayerNormalization" and x.rank == 3:
        return made([x, x, bias, bias], (FLOAT, x.dims))
    if op == "Trilu":
        return made([x], (FLOAT, x.dims), upper=g.rng.choice((None, 0)))
    if op == "FusedGemm" and x.rank == 2:
        b = g.constant(g.array(FLOAT, (width, 2)))
        return made([x, b], (FLOAT, (x.dims[0], 2)), activation=g.rng.choice(("Relu", "Tanh", "LeakyRelu")))
    if op == "ExpandDims":
        return made([x, g.constant(np.asarray(0, np.int32))], (FLOAT, (1, *x.dims)))
    raise Impossible


# -- the list


@dataclass(frozen=True, slots=True)
class Operator:
    """How an operator is drawn. `name` is what the schemas must have, with its domain; `weight` how often."""

    name: str
    draw: Callable[[Builder], object]
    weight: float = 1.0
    domain: str = ""
    nests: bool = False


def _elementwise() -> list[Operator]:
    exact = ("Abs", "Neg", "Relu", "Identity")
    rounded = ("Exp", "Sqrt", "Sigmoid", "Tanh", "Erf", "Softplus", "Softsign", "Sin", "Cos", "Atan", "Sinh", "Cosh",
               "Asinh", "HardSwish", "Mish", "Log")  # fmt: skip
    jumping = ("Reciprocal", "Floor", "Ceil", "Round", "Sign", "Not", "IsNaN", "BitwiseNot")
    found = [Operator(op, partial(unary, op), 1.5) for op in exact]
    found += [Operator(op, partial(unary, op, exact=False), 0.5) for op in rounded]
    found += [Operator(op, partial(unary, op, only_exact=True), 0.5) for op in jumping if op != "IsNaN"]
    alphas = {
        "LeakyRelu": ("alpha",),
        "Elu": ("alpha",),
        "Selu": ("alpha", "gamma"),
        "HardSigmoid": ("alpha", "beta"),
        "Celu": ("alpha",),
        "ThresholdedRelu": ("alpha",),
        "Shrink": ("lambd", "bias"),
        "Swish": ("alpha",),
    }
    for op, names in alphas.items():
        choices = dict.fromkeys(names, (None, 0.25, 0.75))
        jumps = op in ("ThresholdedRelu", "Shrink")
        found.append(Operator(op, partial(unary, op, exact=False, only_exact=jumps, **choices), 0.4))
    found.append(Operator("Gelu", partial(unary, "Gelu", exact=False, approximate=(None, "none", "tanh")), 0.5))
    found += [Operator(op, partial(binary, op), 2) for op in ("Add", "Mul", "Sub")]
    found += [Operator(op, partial(binary, op, to=BOOL, only_exact=True), 0.5)
              for op in ("Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual")]  # fmt: skip
    found += [Operator(op, partial(binary, op), 0.5) for op in ("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "PRelu")
              if op != "PRelu"]  # fmt: skip
    found += [Operator(op, partial(variadic, op), 0.5) for op in ("Max", "Min", "Sum", "Mean")]
    return found


_REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
               "ReduceSumSquare", "ReduceLogSumExp")  # fmt: skip

OPERATORS: tuple[Operator, ...] = (
    *_elementwise(),
    *(Operator(op, partial(reduce, op), 0.6) for op in _REDUCTIONS),
    *(Operator(op, partial(arg, op), 0.5) for op in ("ArgMax", "ArgMin")),
    *(Operator(op, partial(softmax, op), 0.7) for op in ("Softmax", "LogSoftmax", "Hardmax")),
    *(Operator(op, partial(pool, op)) for op in ("MaxPool", "AveragePool", "LpPool")),
    *(Operator(op, partial(global_pool, op), 0.5) for op in ("GlobalAveragePool", "GlobalMaxPool")),
    *(Operator(op, partial(normalization, op), 0.6)
      for op in ("BatchNormalization", "InstanceNormalization", "GroupNormalization", "LRN")),
    *(Operator(op, partial(layer_normalization, op), 0.6) for op in ("LayerNormalization", "RMSNormalization")),
    *(Operator(op, partial(norm_over_axis, op), 0.5) for op in ("LpNormalization", "MeanVarianceNormalization")),
    *(Operator(op, partial(recurrent, op), 0.4) for op in ("RNN", "GRU", "LSTM")),
    Operator("Div", divide), Operator("Mod", modulo, 0.5), Operator("Pow", power), Operator("Clip", clip),
    Operator("Where", where), Operator("Cast", cast, 2), Operator("Cast", low_precision),
    Operator("Shape", shape, 2), Operator("Shape", size_arithmetic, 3), Operator("Reshape", reshape, 4),
    Operator("Flatten", flatten), Operator("Transpose", transpose, 2), Operator("Unsqueeze", unsqueeze, 1.5),
    Operator("Squeeze", squeeze, 1.5), Operator("Concat", concat, 2), Operator("Split", split, 1.5),
    Operator("Slice", slice_, 3), Operator("Gather", gather, 2), Operator("GatherElements", gather_elements, 0.5),
    Operator("Scatter", scatter_elements, 0.3), Operator("ScatterElements", scatter_elements, 0.5),
    Operator("GatherND", gather_nd, 0.5), Operator("ScatterND", scatter_nd, 0.5), Operator("Expand", expand, 2),
    Operator("Tile", tile), Operator("Pad", pad, 1.5), Operator("ConstantOfShape", constant_of_shape, 1.5),
    Operator("Range", range_), Operator("OneHot", one_hot, 0.5), Operator("EyeLike", eye_like, 0.4),
    Operator("Trilu", trilu, 0.5), Operator("DepthToSpace", depth_to_space, 0.4),
    Operator("SpaceToDepth", space_to_depth, 0.4), Operator("ReverseSequence", reverse_sequence, 0.4),
    Operator("NonZero", nonzero), Operator("Compress", compress, 0.5), Operator("Unique", unique, 0.5),
    Operator("TopK", top_k, 0.7), Operator("CumSum", cumsum, 0.7), Operator("MatMul", matmul, 2),
    Operator("Gemm", gemm, 1.5), Operator("Einsum", einsum, 0.7), Operator("Conv", conv, 2),
    Operator("ConvTranspose", conv_transpose, 0.5), Operator("Resize", resize, 0.7), Operator("Upsample", resize, 0.4),
    Operator("Dropout", dropout, 0.7), Operator("Attention", attention, 0.5), Operator("QuantizeLinear", quantize, 1.5),
    Operator("DequantizeLinear", dequantize_constant, 0.7), Operator("DynamicQuantizeLinear", dynamic_quantize, 0.3),
    Operator("MatMulInteger", matmul_integer, 0.5), Operator("SequenceAt", sequence),
    Operator("SplitToSequence", split_to_sequence, 0.5), Operator("Optional", optional, 0.5),
    Operator("Identity", strings),
    Operator("If", if_, 2, nests=True), Operator("Loop", loop, 1.5, nests=True), Operator("Scan", scan, nests=True),
    Operator("Identity", function, 1.5, nests=True),
    Operator("Scaler", ml_scaler, 0.3, ML), Operator("Binarizer", ml_elementwise, 0.5, ML),
    Operator("LinearRegressor", ml_linear, 0.3, ML), Operator("TreeEnsembleRegressor", ml_trees, 0.3, ML),
    Operator("LabelEncoder", ml_labels, 0.3, ML), Operator("ArrayFeatureExtractor", ml_features, 0.3, ML),
    Operator("Gelu", microsoft, 1.5, MICROSOFT),
)  # fmt: skip


def usable(g: Builder, operator: Operator, *, nests: bool = True) -> bool:
    """Whether the builder's operator set has an operator."""
    if operator.nests and (not nests or g.is_function):
        return False
    if operator.name == "Identity" and operator.draw is function:
        return g.depth == 0 and g.opset > 8  # Constant held floats alone before
    if operator.name == "Scan" and g.opset < 9:  # another one, with a batch axis
        return False
    return operator.domain == MICROSOFT or g.has(operator.name, operator.domain)


def draw_node(g: Builder, *, nests: bool = True) -> None:
    """Add a node of a random operator, or nothing where it finds no inputs."""
    operators = [o for o in OPERATORS if usable(g, o, nests=nests)]
    apply(g, g.rng.choices(operators, [o.weight for o in operators])[0])


def apply(g: Builder, operator: Operator) -> bool:
    """Add nodes of an operator; false, and nothing is added, where it finds no inputs."""
    lists = (g.nodes, g.values, g.inputs, g.initializers)
    lengths = [len(part) for part in lists]
    try:
        operator.draw(g)
    except Impossible:
        for part, length in zip(lists, lengths, strict=True):
            del part[length:]
        return False
    return True
