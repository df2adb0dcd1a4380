"""Bodies of If, Loop and Scan, and model-local functions."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
from onnx import helper

from tests.fuzz.generator import BOOL, DOUBLE, FLOAT, HALF, I64, Builder, Impossible, Value, is_doubtful
from tests.fuzz.operators.registry import draw_node, operator


def _body(g: Builder, count: int) -> None:
    for _ in range(count):
        draw_node(g, nests=g.depth < 2)


@operator("If", weight=2, nests=True, when=lambda g: not g.is_function)
def if_(g: Builder) -> Value:
    condition = g.pick((BOOL,), 0, exact=True)
    x = g.pick(tuple(k for k in (FLOAT, I64, DOUBLE, HALF) if k in g.kinds("Add")), test=lambda v: not is_doubtful(v))
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


@operator("Loop", weight=1.5, nests=True, when=lambda g: not g.is_function)
def loop(g: Builder) -> Value:
    x = g.pick(tuple(k for k in (FLOAT, I64, DOUBLE) if k in g.kinds("Add")), test=lambda v: not is_doubtful(v))
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


# Before 9 another one, with a batch axis
@operator("Scan", nests=True, when=lambda g: g.opset > 8 and not g.is_function)
def scan(g: Builder) -> Value:
    x = g.pick((FLOAT,), (2, 3), test=lambda v: not is_doubtful(v))
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


def _may_call(g: Builder) -> bool:
    """A function is called by the graph and by other functions; before 9, Constant held floats alone."""
    return g.opset > 8 and (g.depth == 0 or (g.is_function and g.depth < 3))


@operator("Identity", weight=1.5, nests=True, when=_may_call)
def function(g: Builder) -> Value:
    """A call of a model-local function, called twice now and then."""
    x = g.pick((FLOAT,), test=lambda v: not is_doubtful(v))
    inner = Builder(g.rng, g.opset, g, is_function=True)
    inner.input(FLOAT, x.dims)
    own = g.root.domains
    _body(inner, g.rng.randint(1, 4))
    results = [v for v in inner.values if v.array is None and v.form == "tensor" and v.name not in
               {i.name for i in inner.inputs} and not is_doubtful(v)]  # fmt: skip
    if not results:
        raise Impossible
    chosen = g.rng.sample(results, min(len(results), g.rng.randint(1, 2)))
    if len(inner.inputs) > 1:
        raise Impossible
    name, overload = g.name("F"), None
    if g.chance(0.2):
        name, overload = "Overloaded", name
    attributes = []
    if g.chance(0.3):
        node = helper.make_node("LeakyRelu", [inner.inputs[0].name], [g.name()])
        node.attribute.append(onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope"))
        inner.nodes.append(node)
        chosen.append(Value(node.output[0], FLOAT, x.dims, is_exact=False))
        attributes.append("slope")
    imports = [helper.make_opsetid("", g.opset), *(helper.make_opsetid(d, v) for d, v in own.items())]
    given = [inner.inputs[0].name], [v.name for v in chosen], inner.nodes, imports, attributes
    g.root.functions.append(helper.make_function("local", name, *given, overload=overload))
    g.root.domains["local"] = 1
    outputs = [(v.kind, v.dims) for v in chosen]
    slope = 0.25 if attributes else None
    call = partial(g.add, name, exact=False, domain="local", overload=overload, slope=slope)
    found = call([x], *outputs)
    twins = [v for v in g.scope() if (v.kind, v.dims, v.form) == (x.kind, x.dims, "tensor")]
    if g.chance(0.4):
        call([g.rng.choice(twins)], *outputs)
    return found
