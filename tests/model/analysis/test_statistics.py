"""Costs of models, compared with numbers worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.model.analysis.statistics import scope_of, statistics
from onnx_workbench.model.analysis.symbolic import Size, of_terms, parse, readable, ungrouped
from onnx_workbench.model.history.steps import InsertNode
from onnx_workbench.model.inference import infer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from tests.model import builders


def of(text, **bindings):
    model = builders.model(text)
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
        # transposed in two groups: each element of the input meets 3·3·3 of the 6 filters
        ("g (float[1,4,5,5] x, float[4,3,3,3] w) => (y) { y = ConvTranspose<group=2>(x, w) }", 4 * 25 * 27),
        ("g (float[7,2,3] a, float[3,5] b) => (y) { y = MatMul(a, b) }", 7 * 2 * 3 * 5),
        ("g (float[7,1,2,3] a, float[4,3,5] b) => (y) { y = MatMul(a, b) }", 7 * 4 * 2 * 3 * 5),
        ("g (float[3] a, float[3] b) => (y) { y = MatMul(a, b) }", 3),
        ("g (float[3,2] a, float[3,5] b) => (y) { y = Gemm<transA=1>(a, b) }", 2 * 3 * 5),
        # sequence 6, batch 2, hidden 4, input 3: 4 gates
        ("g (float[6,2,3] x, float[1,16,3] w, float[1,16,4] r) => (y) { y = LSTM<hidden_size=4>(x, w, r) }", 1344),
        ('g (float[2,3,4] a, float[2,4,5] b) => (y) { y = Einsum<equation="bij,bjk->bik">(a, b) }', 120),
        ('g (float[3,1,3,4] a, float[2,4,5] b) => (float[3,2,3,5] y) {y = Einsum<equation="...ij,...jk">(a, b)}', 360),
        ('g (float[2,3] a, float[3] b) => (y) { y = Einsum<equation="i...,...->i">(a, b) }', 6),
        ('g (float[2,3] a) => (y) { y = Einsum<equation="ij->ji">(a) }', 0),
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
    assert readable(total.macs) == "640·batch·seq"
    assert total.flops == total.macs * 2
    assert readable(total.activation_bytes) == "40·batch·seq"
    assert of(text).symbols() == {"batch", "seq"}
    assert of(text, batch=2, seq=8).total().macs == 640 * 16
    assert readable(of(text, batch=2).total().macs) == "1,280·seq"


def test_what_is_not_known_is_not_nothing():
    text = "g (float[2,?] x, float[4,4] w) => (y) { y = MatMul(x, w) }"
    model = builders.model(text)
    total = statistics(model, lambda value: value.type).total()
    assert total.macs == 0
    assert total.unknown == 1


def test_parameters_are_counted_once_and_unused_ones_too():
    model = builders.model("""g (float[4] x) => (float[4] y)
        <float[4] w = {1.0, 2.0, 3.0, 4.0}, double[2] spare = {1.0, 2.0}>
        { a = Mul(x, w) b = Add(a, w) y = Relu(b) }""")
    for node, name in zip(model.graph.nodes, ("block/one/mul", "block/two/add", "last"), strict=True):
        node.name = name
    found = statistics(model, infer(model).type_of)
    total = found.total()
    assert (total.parameters, total.parameter_bytes) == (4 + 2, 16 + 16)
    assert [n.parameters for n in found.nodes] == [4, 0, 0]
    assert {k: t.nodes for k, t in found.by(lambda node: node.qualified_op_type).items()} == {
        "Mul": 1,
        "Add": 1,
        "Relu": 1,
    }
    assert {k: t.nodes for k, t in found.by(scope_of).items()} == {"block": 2, "": 1}
    assert scope_of(found.nodes[0].node, 2) == "block/one"
    assert total.flops == 12


def test_functions_count_once_for_each_call():
    model = builders.model("""<ir_version: 10, opset_import: ["": 21, "l": 1]> g (float[2,3] x) => (float[2,3] y)
        { a = l.f(x) y = l.f(a) }
        <domain: "l", opset_import: ["": 21]> f (v) => (o) { o = Relu(v) }""")
    found = statistics(model, infer(model).type_of)
    assert [n.calls for n in found.nodes] == [1, 1, 2]
    assert found.total().flops == 6 * 2  # the calls themselves compute nothing


LOOP = """g (float[2,3] x, int64 many) => (float[2,3] y) <int64 n = {5}, float[3,3] w = {1,1,1,1,1,1,1,1,1}>
    { y = Loop(COUNT, , x) <body = b (int64 i, bool c, float[2,3] v) => (bool d, float[2,3] o)
      { d = Identity(c) o = MatMul(v, w) }> }"""


def test_loops_count_as_often_as_they_go_round():
    total = of(LOOP.replace("COUNT", "n")).total()
    assert total.macs == 5 * 2 * 3 * 3
    assert total.unsure == 0


def test_loops_of_unknown_length_count_once_and_say_so():
    total = of(LOOP.replace("COUNT", "many")).total()
    assert total.macs == 2 * 3 * 3
    assert total.unsure == 2


def test_scans_count_along_what_they_scan():
    total = of("""g (float[T,3] x) => (float[T,4] y) <float[3,4] w = {1,1,1,1,1,1,1,1,1,1,1,1}>
        { y = Scan <num_scan_inputs = 1, body = b (float[3] v) => (float[4] o) { o = MatMul(v, w) }> (x) }""").total()
    assert readable(total.macs) == "12·T"


def test_functions_called_in_loops_count_in_each_turn():
    model = builders.model("""<ir_version: 10, opset_import: ["": 21, "l": 1]>
        g (float[2,3] x) => (float[2,3] y) <int64 n = {5}>
        { y = Loop(n, , x) <body = b (int64 i, bool c, float[2,3] v) => (bool d, float[2,3] o)
          { d = Identity(c) o = l.f(v) }> }
        <domain: "l", opset_import: ["": 21]> f (v) => (o) { o = Relu(v) }""")
    found = statistics(model, infer(model).type_of)
    assert {n.node.op_type: n.calls for n in found.nodes}["Relu"] == 5


MICROSOFT = [
    # projections 2·7·8·24, scores and values 2·7·7·(8+8)
    ("y = com.microsoft.Attention<num_heads = 2>(x, w, b)", "float[2,7,8] x, float[8,24] w, float[24] b",
     2 * 7 * 8 * 24 + 2 * 7 * 7 * 16),
    ("y = com.microsoft.MultiHeadAttention<num_heads = 2>(x, k, v)", "float[2,7,8] x, float[2,5,8] k, float[2,5,6] v",
     2 * 7 * 5 * 14),
    ("y = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>(x, k, v, pk, pv, l, t)",
     "float[2,1,8] x, float[2,1,4] k, float[2,1,4] v, float[2,2,9,2] pk, float[2,2,9,2] pv, int32[2] l, int32 t",
     2 * 1 * 10 * 8 * 2),
    ("y = com.microsoft.MatMulNBits<K = 4, N = 7, bits = 4, block_size = 16>(x, w, s)",
     "float[3,4] x, uint8[7,1,8] w, float[7] s", 3 * 4 * 7),
    ("y = com.microsoft.FusedMatMul<transA = 1>(x, w)", "float[4,3] x, float[4,5] w", 3 * 4 * 5),
    ("y = com.microsoft.DynamicQuantizeMatMul(x, w, s)", "float[3,4] x, int8[4,5] w, float s", 60),
    ("y = com.microsoft.QGemm<transB = 1>(x, s, z, w, s, z)", "uint8[3,4] x, float s, uint8 z, uint8[5,4] w", 60),
    ("y = com.microsoft.Gelu(x)", "float[3,4] x", 0),
]  # fmt: skip


@pytest.mark.parametrize(("call", "inputs", "macs"), MICROSOFT, ids=[m[0].split("(")[0] for m in MICROSOFT])
def test_multiply_adds_of_microsofts_operators(call, inputs, macs):
    model = builders.model(
        f'<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> g ({inputs}) => (y) {{ {call} }}'
    )
    total = statistics(model, infer(model).type_of).total()
    assert (total.macs, total.unknown) == (macs, 0)


@pytest.mark.parametrize("call", ["com.microsoft.MoE(x, x, x)", "my.own.Magic(x)"])
def test_what_nobody_here_can_count_is_not_nothing(call):
    model = builders.model(
        '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1, "my.own": 1]>'
        f" g (float[2] x) => (y) {{ y = {call} }}"
    )
    assert statistics(model, infer(model).type_of).total().unknown == 1


def test_attention_with_heads_side_by_side():
    model = builders.model("""<ir_version: 11, opset_import: ["": 23]>
        g (float[2,7,8] q, float[2,5,4] k, float[2,5,6] v) => (y)
        { y = Attention <q_num_heads = 4, kv_num_heads = 2> (q, k, v) }""")
    assert statistics(model, infer(model).type_of).total().macs == 2 * 7 * 5 * (8 + 12)


def test_sizes_that_are_formulas_are_bound_too():
    text = "g (float[N,4,T] x, float[5,4,3] w) => (y) { y = Conv<strides=[2]>(x, w) }"
    assert of(text).symbols() == {"N", "div(T - 3, 2)"}
    assert of(text, N=2, T=9).total().macs == 2 * 5 * 4 * 4 * 3


@pytest.mark.parametrize(
    ("text", "at", "value"),
    [
        ("4*N*T", {"N": 2, "T": 3}, 24),
        ("T - 2", {"T": 9}, 7),
        ("-2*T + 10", {"T": 3}, 4),
        ("div(T - 1, 2) + 1", {"T": 9}, 5),
        ("div(div(T + 1, 2), 2)*N", {"T": 9, "N": 3}, 6),
        ("batch-size", {"batch-size": 4}, 4),
        ("s0 * s1", {"s0 * s1": 4}, 4),
        ("div(T, 0) + 1", {"T": 9}, None),
        ("2*max(T - 1, 0)", {"T": 9}, 16),
        ("max(T - 1, 0) + 1", {"T": 0}, 1),
        ("min(3, T)", {"T": 2}, 2),
        ("div(T", {"T": 9}, None),
        ("T + ", {"T": 9}, None),
    ],
)
def test_formulas_of_sizes_are_read(text, at, value):
    found = parse(text, at)
    assert (found if isinstance(found, int) else None) == value


def test_formulas_keep_their_commas_where_large_numbers_lose_them():
    amount = parse("2000*div(div(T, 2000), 3)")
    assert readable(amount) == "2,000·div(div(T, 2000), 3)"
    assert ungrouped(amount) == "2000·div(div(T, 2000), 3)"


@given(st.text(alphabet="TN*+-(), divmaxn019", max_size=40))
def test_any_name_of_a_size_is_something(text):
    parse(text, {"T": 3})


def test_a_function_that_calls_itself_ends():
    model = builders.model("""<ir_version: 10, opset_import: ["": 21, "l": 1]> g (float[2] x) => (float[2] y)
        { y = l.f(x) } <domain: "l", opset_import: ["": 21, "l": 1]> f (v) => (o) { o = l.f(v) }""")
    assert statistics(model, lambda v: v.type).total().nodes == 2


@pytest.mark.timeout(300)
def test_a_size_that_nobody_would_read_is_not_known():
    formula = " + ".join("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV")
    model = builders.model("g (float[n] x) => (float[n] y) { y = Relu(x) }")
    wide = TensorType(ElementType.FLOAT, Shape((formula,) * 6))
    total = statistics(model, lambda _: wide).total()
    assert (total.unknown, total.activations) == (1, 0)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_sums_over_thousands_of_names_cost_no_more_than_others():
    graph = Graph("g")
    value = Value("x", None, graph)
    for number in range(20_000):
        made = Value(f"v{number}", TensorType(ElementType.FLOAT, Shape((f"unk{number}", 2))))
        InsertNode(graph, Node("Relu", (value,), (made,))).apply()
        value = made
    total = statistics(Model(graph, opset=21), lambda v: v.type).total()
    assert len(total.activations.symbols) == 20_000


@pytest.mark.parametrize(
    ("name", "macs"),
    [("light_resnet50", 4.09e9), ("light_densenet121", 2.83e9), ("light_squeezenet", 0.349e9)],
)
def test_known_networks(real_models, name, macs):
    """As the literature counts them at 224×224."""
    path = real_models / f"onnx__{name}" / "model.onnx"
    if not path.exists():
        pytest.skip("the model is not there")
    model = load(path)
    assert statistics(model, infer(model).type_of).total().macs == pytest.approx(macs, rel=0.01)


symbol = st.sampled_from("abc")
small = st.integers(-5, 5)
polynomials = st.lists(st.tuples(st.lists(symbol, max_size=3), small), max_size=4).map(
    lambda terms: sum(of_terms({tuple(sorted(names)): factor}) for names, factor in terms)
)


@given(polynomials, polynomials, polynomials, small, small, small)
def test_polynomials_calculate_like_their_values(p, q, r, a, b, c):
    at = {"a": a, "b": b, "c": c}

    def number(size):
        return size.bind(at) if isinstance(size, Size) else size

    assert number(p + q) == number(p) + number(q)
    assert number(p * q) == number(p) * number(q)
    assert p * (q + r) == p * q + p * r
    assert (p == q) == (str(p) == str(q))
    assert p + p * -1 == 0


@pytest.mark.parametrize("call", ["MatMul(x, w)", "Gemm(x, w)"])
def test_the_inner_size_is_taken_from_the_factor_that_has_a_number(call):
    total = of(f"g (float[2,?] x, float[4,5] w) => (float[2,5] y) {{ y = {call} }}").total()
    assert total.macs == 2 * 4 * 5
    assert total.unknown == 0


@pytest.mark.parametrize("equation", ["ab,bc->ac", "...abc,bc->a", "a,b->ab"])
def test_an_einsum_whose_letters_do_not_fit_is_not_known(equation):
    text = f'g (float[2,3] a, float[4] b) => (y) {{ y = Einsum<equation="{equation}">(a, b) }}'
    assert of(text).total().unknown == 1


def test_a_node_in_a_loop_costs_what_it_costs_in_all_turns():
    text = """g (float[2,3] x, float[3,3] w) => (y) {
        n = Constant<value = int64 {5}>()
        go = Constant<value = bool {1}>()
        y = Loop(n, go, x) <body = turn (int64 i, bool c, float[2,3] s) => (bool c2, float[2,3] s2) {
            c2 = Identity(c)
            s2 = MatMul(s, w)
        }>
    }"""
    found = of(text)
    (inner,) = (n for n in found.nodes if n.node.op_type == "MatMul")
    assert inner.macs == 18
    assert inner.in_all("macs") == 90 == found.total().macs
