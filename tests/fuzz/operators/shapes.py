"""Shapes, and what is shaped by them."""

from __future__ import annotations

import numpy as np

from tests.fuzz.generator import (
    BOOL,
    FLOATS,
    I32,
    I64,
    NUMBERS,
    STRING,
    Builder,
    Dim,
    Dims,
    Impossible,
    Value,
    axis_of,
    product,
    total,
)
from tests.fuzz.operators.registry import operator


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


@operator("Shape", weight=2)
def shape(g: Builder) -> Value:
    x = g.pick((*NUMBERS, BOOL, STRING))
    if g.opset >= 15 and g.chance(0.4) and x.rank:
        start, end = sorted((g.rng.randint(0, x.rank), g.rng.randint(0, x.rank)))
        if g.chance(0.3):
            start -= x.rank
        part = x.dims[slice(start, end)] if start >= 0 else x.dims[start + x.rank : end]
        return g.add("Shape", [x], (I64, (len(part),)), sizes=part, start=start, end=end)
    return g.add("Shape", [x], (I64, (x.rank,)), sizes=x.dims)


@operator("Shape", weight=3)
def size_arithmetic(g: Builder) -> Value:
    a = g.pick((I64,), (0, 1), test=lambda v: v.sizes is not None and len(v.sizes) == 1)
    (dim,) = a.sizes or (1,)
    op = g.rng.choice(("Mul", "Add", "Div", "Neg", "Identity", "Cast", "Sub") if g.opset > 6 else ("Identity", "Cast"))
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
        there, back = (I32, I64) if g.opset > 5 else ("INT32", "INT64")
        other = g.add("Cast", [a], (I32, a.dims), to=there)
        return g.add("Cast", [other], (I64, a.dims), sizes=(dim,), to=back)
    return g.add("Identity", [a], (I64, a.dims), sizes=(dim,))


def target_shape(g: Builder, x: Value, dims: Dims, target: Value) -> Value:
    """Reshape to the sizes that a constant holds; before version 5 they were an attribute."""
    if g.opset > 4:
        return g.add("Reshape", [x, target], (x.kind, dims))
    if target.array is None or not target.array.size or x.kind not in g.kinds("Reshape"):
        raise Impossible
    return g.add("Reshape", [x], (x.kind, dims), shape=target.array.tolist())


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


@operator("Reshape", weight=4)
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
    if g.opset >= 14 and g.chance(0.5):
        return g.add("Reshape", [x, target], (x.kind, dims), allowzero=0)
    return target_shape(g, x, dims, target)


@operator("Flatten")
def flatten(g: Builder) -> Value:
    x = g.pick(g.kinds("Flatten"))
    axis = g.rng.randint(0, x.rank)
    dims = (product(x.dims[:axis]), product(x.dims[axis:]))
    negative = g.opset >= 11 and 0 < axis < x.rank and g.chance(0.3)
    return g.add("Flatten", [x], (x.kind, dims), axis=axis - x.rank if negative else axis)


@operator("Transpose", weight=2)
def transpose(g: Builder) -> Value:
    x = g.pick((*NUMBERS, BOOL))
    order = list(range(x.rank))
    g.rng.shuffle(order)
    if not order or g.chance(0.2):
        return g.add("Transpose", [x], (x.kind, x.dims[::-1]))
    return g.add("Transpose", [x], (x.kind, tuple(x.dims[i] for i in order)), perm=order)


@operator("Unsqueeze", weight=1.5)
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


@operator("Squeeze", weight=1.5)
def squeeze(g: Builder) -> Value:
    x = g.pick((*NUMBERS, BOOL), test=lambda v: 1 in v.dims)
    ones = [i for i, d in enumerate(x.dims) if d == 1]
    axes = g.rng.sample(ones, g.rng.randint(1, len(ones)))
    dims = tuple(d for i, d in enumerate(x.dims) if i not in axes)
    if g.opset >= 13:
        return g.add("Squeeze", [x, g.constant(axes)], (x.kind, dims))
    return g.add("Squeeze", [x], (x.kind, dims), axes=axes)


@operator("Concat", weight=2)
def concat(g: Builder) -> Value:
    x = g.pick(tuple(k for k in (*NUMBERS, BOOL) if k in g.kinds("Concat")), (1, 2, 3, 4))
    axis, said = axis_of(g, x)
    rest = (*x.dims[:axis], *x.dims[axis + 1 :])
    fits = [v for v in g.scope() if v.form == "tensor" and v.kind == x.kind and v.rank == x.rank
            and (*v.dims[:axis], *v.dims[axis + 1 :]) == rest]  # fmt: skip
    parts = [x, *(g.rng.choice(fits) for _ in range(g.rng.randint(0, 2)) if fits)]
    known = [v.sizes for v in parts]
    contents = tuple(d for s in known if s for d in s) if x.rank == 1 and None not in known else None
    dims = (*x.dims[:axis], total([v.dims[axis] for v in parts]), *x.dims[axis + 1 :])
    said_axis = None if said == 1 and g.opset < 4 and g.chance(0.5) else said  # 1 by default
    return g.add("Concat", parts, (x.kind, dims), axis=said_axis, sizes=contents)


@operator("Split", weight=1.5)
def split(g: Builder) -> Value:
    x = g.pick(
        tuple(k for k in (*FLOATS, I64) if k in g.kinds("Split")),
        (1, 2, 3, 4),
        test=lambda v: any(isinstance(d, int) and d > 1 for d in v.dims),
    )
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


@operator("Slice", weight=3)
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
    contents = x.sizes[start:end:step] if x.sizes is not None and x.rank == 1 else None
    if g.opset < 10:
        return g.add("Slice", [x], (x.kind, dims), starts=[start], ends=[end], axes=[axis], sizes=contents)
    bounds = [g.constant([n]) for n in (start, end, said)]
    if isinstance(dim, str) and step == 1 and not whole and g.chance(0.3):
        bounds[1] = size(g, dim)  # up to the end, as computed
        dims = x.dims if start == 0 else dims
    steps = [g.constant([step])] if step != 1 or g.chance(0.3) else []
    return g.add("Slice", [x, *bounds, *steps], (x.kind, dims), sizes=contents if bounds[1].array is not None else None)
