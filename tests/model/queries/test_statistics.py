"""Costs of models, held against numbers worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.io.read import load
from model.passes.inference import infer
from model.queries.polynomial import Polynomial, product
from model.queries.statistics import operator_of, scope_of, statistics
from tests.model import builders


def of(text, **bindings):
    model = builders.model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    return statistics(model, infer(model).type_of, bindings)


@pytest.mark.parametrize(
    ("text", "macs"),
    [
        # out 16·32·32 times 3·5·5
        ("g (float[1,3,32,32] x, float[16,3,5,5] w) => (y) { y = Conv<pads=[2,2,2,2]>(x, w) }", 1228800),
        # depthwise: out 8·30·30 times 1·3·3
        ("g (float[1,8,32,32] x, float[8,1,3,3] w) => (y) { y = Conv<group=8>(x, w) }", 8 * 30 * 30 * 9),
        # transposed: in 4·5·5 times 2·3·3
        ("g (float[1,4,5,5] x, float[4,2,3,3] w) => (y) { y = ConvTranspose(x, w) }", 4 * 25 * 18),
        ("g (float[7,2,3] a, float[3,5] b) => (y) { y = MatMul(a, b) }", 7 * 2 * 3 * 5),
        ("g (float[3] a, float[3] b) => (y) { y = MatMul(a, b) }", 3),
        ("g (float[3,2] a, float[3,5] b) => (y) { y = Gemm<transA=1>(a, b) }", 2 * 3 * 5),
        # sequence 6, batch 2, hidden 4, input 3: 4 gates
        ("g (float[6,2,3] x, float[1,16,3] w, float[1,16,4] r) => (y) { y = LSTM<hidden_size=4>(x, w, r) }", 1344),
        ('g (float[2,3,4] a, float[2,4,5] b) => (y) { y = Einsum<equation="bij,bjk->bik">(a, b) }', 120),
        ("g (float[2,3] a) => (y) { y = Relu(a) }", 0),
    ],
)  # fmt: skip
def test_multiply_adds(text, macs):
    total = of(text).total()
    assert total.macs == macs
    assert total.unknown == 0


def test_dimensions_stay_in_formulas_until_they_are_bound():
    text = "g (float[batch,seq,64] x, float[64,10] w) => (y) { y = MatMul(x, w) }"
    total = of(text).total()
    assert str(total.macs) == "640·batch·seq"
    assert total.flops == total.macs * 2
    assert str(total.activation_bytes) == "40·batch·seq"
    assert of(text).symbols == {"batch", "seq"}
    assert of(text, batch=2, seq=8).total().macs == 640 * 16
    assert str(of(text, batch=2).total().macs) == "1,280·seq"


def test_what_is_not_known_is_not_nothing():
    text = "g (float[2,?] x, float[4,4] w) => (y) { y = MatMul(x, w) }"
    model = builders.model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    total = statistics(model, lambda value: value.type).total()
    assert total.macs == 0
    assert total.unknown == 1


def test_parameters_are_counted_once_and_unused_ones_too():
    model = builders.model("""<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y)
        <float[4] w = {1.0, 2.0, 3.0, 4.0}, double[2] spare = {1.0, 2.0}>
        { a = Mul(x, w) b = Add(a, w) y = Relu(b) }""")
    for node, name in zip(model.graph.nodes, ("block/one/mul", "block/two/add", "last"), strict=True):
        node.name = name
    found = statistics(model, infer(model).type_of)
    total = found.total()
    assert (total.parameters, total.parameter_bytes) == (4 + 2, 16 + 16)
    assert [n.parameters for n in found.nodes] == [4, 0, 0]
    assert {k: t.nodes for k, t in found.by(operator_of).items()} == {"Mul": 1, "Add": 1, "Relu": 1}
    assert {k: t.nodes for k, t in found.by(scope_of).items()} == {"block": 2, "": 1}
    assert scope_of(found.nodes[0].node, 2) == "block/one"
    assert total.flops == 12


def test_functions_count_once_for_each_call():
    model = builders.model("""<ir_version: 10, opset_import: ["": 21, "l": 1]> g (float[2,3] x) => (float[2,3] y)
        { a = l.f(x) y = l.f(a) }
        <domain: "l", opset_import: ["": 21]> f (v) => (o) { o = Relu(v) }""")
    found = statistics(model, infer(model).type_of)
    assert [n.calls for n in found.nodes] == [1, 1, 2]
    assert found.total().flops == 6 * 2 + 12


def test_a_function_that_calls_itself_ends():
    model = builders.model("""<ir_version: 10, opset_import: ["": 21, "l": 1]> g (float[2] x) => (float[2] y)
        { y = l.f(x) } <domain: "l", opset_import: ["": 21, "l": 1]> f (v) => (o) { o = l.f(v) }""")
    assert statistics(model, lambda v: v.type).total().nodes == 2


@pytest.mark.parametrize(
    ("name", "macs"),
    [("light_resnet50", 4.09e9), ("light_densenet121", 2.83e9), ("light_squeezenet", 0.349e9)],
)
def test_known_networks(shared_models, name, macs):
    """As the literature counts them at 224×224."""
    path = shared_models / f"onnx__{name}" / "model.onnx"
    if not path.exists():
        pytest.skip("the model is not there")
    model = load(path)
    assert statistics(model, infer(model).type_of).total().macs.constant == pytest.approx(macs, rel=0.01)


symbol = st.sampled_from("abc")
small = st.integers(-5, 5)
polynomials = st.lists(st.tuples(st.lists(symbol, max_size=3), small), max_size=4).map(
    lambda terms: sum((product(names) * factor for names, factor in terms), Polynomial())
)


@given(polynomials, polynomials, polynomials, small, small, small)
def test_polynomials_calculate_like_their_values(p, q, r, a, b, c):
    at = {"a": a, "b": b, "c": c}
    assert (p + q).bind(at) == p.bind(at).constant + q.bind(at).constant
    assert (p * q).bind(at) == p.bind(at).constant * q.bind(at).constant
    assert p * (q + r) == p * q + p * r
    assert (p == q) == (str(p) == str(q))
    assert p + p * -1 == 0
