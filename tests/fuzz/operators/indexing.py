"""Picking and placing elements."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.fuzz.generator import (
    BOOL,
    DOUBLE,
    FLOAT,
    HALF,
    I32,
    I64,
    NUMBERS,
    STRING,
    Builder,
    Impossible,
    Value,
    axis_of,
    broadcast,
    dtype_of,
    is_doubtful,
    product,
)
from tests.fuzz.operators.registry import operator
from tests.fuzz.operators.shapes import size, sizes


@operator("Gather", weight=2)
def gather(g: Builder) -> Value:
    x = g.pick((*NUMBERS, BOOL, STRING), (1, 2, 3), test=lambda v: 0 not in v.dims and not is_doubtful(v))
    axis, said = axis_of(g, x)
    low = x.dims[axis]
    count = low if isinstance(low, int) else 1
    rank = g.rng.choice((0, 1, 1, 2))
    negative = g.opset >= 11
    numbers = [g.rng.randrange(-count if negative else 0, count) for _ in range((1, 2, 2)[rank])]
    indices = g.constant(np.asarray(numbers, np.int64).reshape(((), (2,), (1, 2))[rank]))
    contents = tuple(x.sizes[i] for i in numbers) if x.sizes and x.rank == 1 and rank < 2 else None
    dims = (*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :])
    return g.add("Gather", [x, indices], (x.kind, dims), axis=said, sizes=contents)


@operator("GatherElements", weight=0.5)
def gather_elements(g: Builder) -> Value:
    x = g.pick(NUMBERS, (1, 2, 3), test=lambda v: all(isinstance(d, int) and d > 0 for d in v.dims))
    axis, said = axis_of(g, x)
    count = int(x.dims[axis])
    dims = (*x.dims[:axis], g.rng.randint(1, 3), *x.dims[axis + 1 :])
    draws = np.random.default_rng(g.rng.getrandbits(32))
    return g.add("GatherElements", [x, g.constant(draws.integers(-count, count, dims))], (x.kind, dims), axis=said)


@operator("Scatter", weight=0.3)
@operator("ScatterElements", weight=0.5)
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


@operator("GatherND", weight=0.5)
def gather_nd(g: Builder) -> Value:
    x = g.pick(NUMBERS, (2, 3), test=lambda v: all(isinstance(d, int) and d > 0 for d in v.dims))
    depth = g.rng.randint(1, x.rank)
    rows = [[g.rng.randrange(int(d)) for d in x.dims[:depth]] for _ in range(2)]
    return g.add("GatherND", [x, g.constant(np.asarray(rows, np.int64))], (x.kind, (2, *x.dims[depth:])))


@operator("ScatterND", weight=0.5)
def scatter_nd(g: Builder) -> Value:
    x = g.pick((FLOAT, DOUBLE, I64, I32), (1, 2, 3), exact=True,
               test=lambda v: all(isinstance(d, int) and d > 0 for d in v.dims))  # fmt: skip
    depth = g.rng.randint(1, x.rank)
    row = [g.rng.randrange(int(d)) for d in x.dims[:depth]]
    updates = g.constant(g.array(x.kind, (1, *map(int, x.dims[depth:]))))
    reduction = g.rng.choice((None, "none", "add", "mul")) if g.opset >= 16 else None
    return g.add("ScatterND", [x, g.constant(np.asarray([row], np.int64)), updates], (x.kind, x.dims),
                 reduction=reduction)  # fmt: skip


@operator("Expand", weight=2)
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


@operator("Tile")
def tile(g: Builder) -> Value:
    if g.opset < 6:
        return tile_of_one_axis(g)
    x = g.pick(NUMBERS, (1, 2, 3))
    counts = [g.rng.choice((1, 1, 2, 3)) for _ in x.dims]
    dims = tuple(product((d, n)) for d, n in zip(x.dims, counts, strict=True))
    return g.add("Tile", [x, g.constant(counts)], (x.kind, dims))


def tile_of_one_axis(g: Builder) -> Value:
    """Before version 6, a number and an axis, of the type of the input."""
    x = g.pick(g.kinds("Tile"), (1, 2, 3))
    axis, count = g.rng.randrange(x.rank), g.rng.choice((1, 2, 3))
    dims = (*x.dims[:axis], product((x.dims[axis], count)), *x.dims[axis + 1 :])
    number, place = (g.constant(np.asarray([n], dtype_of(x.kind))) for n in (count, axis))
    return g.add("Tile", [x, number, place], (x.kind, dims))


@operator("Pad", weight=1.5)
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
        pads = {"pads" if g.opset > 1 else "paddings": [*low, *high]}
        return g.add("Pad", [x], (x.kind, dims), mode=mode, value=value, **pads)
    value = g.constant(g.array(x.kind, ())) if g.chance(0.5) else None
    return g.add("Pad", [x, g.constant([*low, *high]), value], (x.kind, dims), mode=mode)


@operator("ConstantOfShape", weight=1.5)
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


@operator("Range")
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


@operator("OneHot", weight=0.5)
def one_hot(g: Builder) -> Value:
    x = g.pick((I64, I32), (1, 2))
    axis = g.rng.randint(-x.rank - 1, x.rank)
    at = axis + x.rank + 1 if axis < 0 else axis
    values = g.constant(g.array(g.rng.choice((FLOAT, I64)), (2,)))
    dims = (*x.dims[:at], 4, *x.dims[at:])
    return g.add("OneHot", [x, g.constant(np.asarray(4, np.int64)), values], (values.kind, dims), axis=axis)


@operator("EyeLike", weight=0.4)
def eye_like(g: Builder) -> Value:
    x = g.pick((FLOAT, I64), 2)
    return g.add("EyeLike", [x], (FLOAT, x.dims), dtype=FLOAT, k=g.rng.choice((None, 0, 1, -1)))


@operator("Trilu", weight=0.5)
def trilu(g: Builder) -> Value:
    x = g.pick(g.kinds("Trilu"), (2, 3))
    k = g.constant(np.asarray(g.rng.choice((-1, 0, 1, 5)), np.int64)) if g.chance(0.5) else None
    return g.add("Trilu", [x, k], (x.kind, x.dims), upper=g.rng.choice((None, 0, 1)))


@operator("DepthToSpace", weight=0.4)
def depth_to_space(g: Builder) -> Value:
    x = g.pick((FLOAT,), 4, test=lambda v: isinstance(v.dims[1], int) and v.dims[1] == 4)
    n, _, h, w = x.dims
    mode = g.rng.choice((None, "DCR", "CRD")) if g.opset >= 11 else None
    return g.add("DepthToSpace", [x], (FLOAT, (n, 1, product((h, 2)), product((w, 2)))), blocksize=2, mode=mode)


@operator("SpaceToDepth", weight=0.4)
def space_to_depth(g: Builder) -> Value:
    x = g.pick((FLOAT,), 4, test=lambda v: all(isinstance(d, int) and d in (2, 4) for d in v.dims[2:]))
    n, c, h, w = x.dims
    return g.add("SpaceToDepth", [x], (FLOAT, (n, product((c, 4)), int(h) // 2, int(w) // 2)), blocksize=2)


@operator("ReverseSequence", weight=0.4)
def reverse_sequence(g: Builder) -> Value:
    x = g.pick((FLOAT, I64), (2, 3), test=lambda v: all(isinstance(d, int) and d > 0 for d in v.dims[:2]))
    lengths = g.constant([g.rng.randint(1, int(x.dims[0])) for _ in range(int(x.dims[1]))])
    return g.add("ReverseSequence", [x, lengths], (x.kind, x.dims), time_axis=0, batch_axis=1)


@operator("NonZero")
def nonzero(g: Builder) -> Value:
    x = g.pick((FLOAT, I64, BOOL), (1, 2, 3), exact=True)
    return g.add("NonZero", [x], (I64, (x.rank, g.unknown())))


@operator("Compress", weight=0.5)
def compress(g: Builder) -> Value:
    x = g.pick(g.kinds("Compress"), (1, 2, 3), test=lambda v: all(isinstance(d, int) for d in v.dims))
    axis, said = axis_of(g, x)
    kept = g.constant(g.array(BOOL, (int(x.dims[axis]),)))
    count = int(kept.array.sum()) if kept.array is not None else 0
    return g.add("Compress", [x, kept], (x.kind, (*x.dims[:axis], count, *x.dims[axis + 1 :])), axis=said)


@operator("Unique", weight=0.5)
def unique(g: Builder) -> Value:
    x = g.pick((FLOAT, I64, STRING), (1, 2), exact=True)
    n = g.unknown()
    outputs = [(x.kind, (n,)), (I64, (n,)), (I64, (product(x.dims),)), (I64, (n,))]
    return g.add("Unique", [x], *outputs[: g.rng.randint(1, 4)], sorted=g.rng.choice((None, 0, 1)))
