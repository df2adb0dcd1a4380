"""Operators of com.microsoft."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.fuzz.generator import FLOAT, MICROSOFT, Builder, Impossible, Value
from tests.fuzz.operators.registry import operator


@operator("Gelu", weight=1.5, domain=MICROSOFT)
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
