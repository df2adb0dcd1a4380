"""Reductions, and what goes along an axis."""

from __future__ import annotations

import numpy as np

from tests.fuzz.generator import DOUBLE, FLOAT, HALF, I32, I64, INTEGERS, Builder, Value, axis_of, is_doubtful
from tests.fuzz.operators.registry import operator, operators

_REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
               "ReduceSumSquare", "ReduceLogSumExp")  # fmt: skip


@operators(_REDUCTIONS, weight=0.6)
def reduce(op: str, g: Builder) -> Value:
    x = g.pick(tuple(k for k in g.kinds(op) if k in (FLOAT, DOUBLE, HALF, I64, I32)),
               test=lambda v: not is_doubtful(v))  # fmt: skip
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


@operators(("ArgMax", "ArgMin"), weight=0.5)
def arg(op: str, g: Builder) -> Value:
    x = g.pick((FLOAT, DOUBLE, I32), (1, 2, 3), exact=True, test=lambda v: not is_doubtful(v))
    axis, said = axis_of(g, x)
    keep = g.rng.choice((None, 0, 1))
    rest = (1,) if keep != 0 else ()
    last = g.rng.choice((None, 0, 1)) if g.opset >= 12 else None
    dims = (*x.dims[:axis], *rest, *x.dims[axis + 1 :])
    return g.add(op, [x], (I64, dims), axis=said, keepdims=keep, select_last_index=last)


@operators(("Softmax", "LogSoftmax", "Hardmax"), weight=0.7)
def softmax(op: str, g: Builder) -> Value:
    x = g.pick((FLOAT, DOUBLE, HALF), (1, 2, 3, 4), test=lambda v: not is_doubtful(v), exact=op == "Hardmax")
    axis = axis_of(g, x)[1] if x.rank > 1 and g.chance(0.7) else None
    if axis is None and g.opset < 13 and x.rank < 2:
        axis = 0
    return g.add(op, [x], (x.kind, x.dims), axis=axis, exact=False)


@operator("TopK", weight=0.7)
def top_k(g: Builder) -> Value:
    x = g.pick((FLOAT, DOUBLE), (1, 2, 3), exact=True, test=lambda v: all(isinstance(d, int) and d for d in v.dims))
    axis, said = axis_of(g, x)
    k = g.rng.randint(1, int(x.dims[axis]))
    dims = (*x.dims[:axis], k, *x.dims[axis + 1 :])
    if g.opset < 10:
        return g.add("TopK", [x], (x.kind, dims), (I64, dims), k=k, axis=said)
    largest = g.rng.choice((None, 0, 1)) if g.opset >= 11 else None
    return g.add("TopK", [x, g.constant([k])], (x.kind, dims), (I64, dims), axis=said, largest=largest)


@operator("CumSum", weight=0.7)
def cumsum(g: Builder) -> Value:
    x = g.pick((FLOAT, DOUBLE, I64, I32), (1, 2, 3))
    axis = g.constant(np.asarray(axis_of(g, x)[1], np.int64))
    given = {"exclusive": g.rng.choice((None, 1)), "reverse": g.rng.choice((None, 1))}
    return g.add("CumSum", [x, axis], (x.kind, x.dims), exact=False, **given)
