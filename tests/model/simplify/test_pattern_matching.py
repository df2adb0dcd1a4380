"""Patterns are found where the model computes what they do, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.api import rewrite
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.inference.infer import infer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.simplify.pattern_matching import find
from onnx_workbench.model.simplify.pattern_rules import patterns_in, rules_in
from tests.examples import examples

HEADER = '<domain: "r", opset_import: ["" : 17]> '


def model_of(body: str, signature: str = "(float[N, 4] x) => (float[N, 4] y)", constants: str = "") -> Model:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g {signature} {constants} {{ {body} }}'
    return load(onnx.parser.parse_model(text).SerializeToString())


def places(model: Model, pattern: str) -> list[list[str]]:
    """The outputs of the nodes of each place, sorted."""
    one = patterns_in((HEADER + "pattern " + pattern).encode())["r"]
    found, _ = find(one, model, infer(model).type_of)
    return [sorted(v.name for n in place.of(one) for v in n.outputs if v is not None) for place in found]


def test_a_value_that_is_used_elsewhere_must_be_an_output():
    model = model_of("a = Relu(x) y = Neg(a) z = Abs(a)", "(float[4] x) => (float[4] y, float[4] z)")
    assert places(model, "(x) => (y) { a = Relu(x) y = Neg(a) }") == []
    assert places(model, "(x) => (a, y) { a = Relu(x) y = Neg(a) }") == [["a", "y"]]
    assert places(model, "(x) => (y, z) { a = Relu(x) y = Neg(a) z = Abs(a) }") == [["a", "y", "z"]]


def test_a_value_that_the_graph_returns_must_be_an_output():
    model = model_of("a = Relu(x) y = Neg(a)", "(float[4] x) => (float[4] y, float[4] a)")
    assert places(model, "(x) => (y) { a = Relu(x) y = Neg(a) }") == []


def test_inputs_of_commutative_operators_match_in_any_order():
    model = model_of("s = Sigmoid(x) y = Mul(x, s)")
    assert places(model, "(x) => (y) { s = Sigmoid(x) y = Mul(s, x) }") == [["s", "y"]]
    model = model_of("s = Sigmoid(x) y = Sub(x, s)")
    assert places(model, "(x) => (y) { s = Sigmoid(x) y = Sub(s, x) }") == []


def test_an_input_that_is_used_twice_is_one_value():
    model = model_of("s = Sigmoid(x) n = Neg(x) y = Mul(n, s)")
    assert places(model, "(x) => (y) { s = Sigmoid(x) y = Mul(s, x) }") == []
    assert places(model, "(x, z) => (y) { s = Sigmoid(x) y = Mul(s, z) }") == [["s", "y"]]


def test_constants_have_equal_numbers_in_any_form_and_precision():
    pattern = "(x) => (y) { k = Constant <value_float = 0.5> () y = Mul(k, x) }"
    half = "<float16 h = {14336}>"  # the bits of 0.5
    assert places(model_of("y = Mul(x, h)", "(float16[4] x) => (float16[4] y)", half), pattern) == [["y"]]
    assert places(model_of("y = Mul(x, h)", constants="<float[1] h = {0.5}>"), pattern) == [["y"]]
    assert places(model_of("h = Constant <value_float = 0.5> () y = Mul(h, x)"), pattern) == [["y"]]
    assert places(model_of("y = Mul(x, h)", constants="<float[4] h = {0.5, 0.5, 0.5, 0.5}>"), pattern) == []
    assert places(model_of("y = Mul(x, h)", constants="<float h = {0.25}>"), pattern) == []
    assert places(model_of("y = Mul(x, h)", "(float[4] x, float h) => (float[4] y)"), pattern) == []


def test_attributes_match_or_are_captured_with_their_defaults():
    given, default = "y = Softmax <axis = 1> (x)", "y = Softmax (x)"
    assert places(model_of(given), "(x) => (y) { y = Softmax (x) }") == []
    assert places(model_of(default), "(x) => (y) { y = Softmax <axis = -1> (x) }") == [["y"]]
    assert places(model_of(given), "(x) => (y) { y = Softmax <axis = 1> (x) }") == [["y"]]
    captured = "<a> (x) => (y) { s = Softmax <axis: int = @a> (x) y = LogSoftmax <axis: int = @a> (s) }"
    assert places(model_of("s = Softmax <axis = 1> (x) y = LogSoftmax <axis = 1> (s)"), captured) == [["s", "y"]]
    assert places(model_of("s = Softmax <axis = 1> (x) y = LogSoftmax <axis = 0> (s)"), captured) == []


def test_optional_inputs_are_given_in_both_or_in_none():
    low = "<float low = {0.0}>"
    assert places(model_of("y = Clip(x, low)", constants=low), "(x) => (y) { y = Clip(x) }") == []
    assert places(model_of("y = Clip(x, low)", constants=low), "(x, a) => (y) { y = Clip(x, a) }") == [["y"]]
    assert places(model_of("y = Clip(x,,low)", constants=low), "(x, a) => (y) { y = Clip(x,,a) }") == [["y"]]
    assert places(model_of("y = Clip(x,,low)", constants=low), "(x, a) => (y) { y = Clip(x, a) }") == []


def test_an_input_of_optional_type_is_given_or_left_out():
    pattern = "(x, a, b) => (y) <optional(float) a, optional(float) b> { y = Clip(x, a, b) }"
    low = "<float low = {0.0}, float high = {6.0}, int64 other = {0}>"
    for inputs in ("x", "x, low", "x,,high", "x, low, high"):
        assert places(model_of(f"y = Clip({inputs})", constants=low), pattern) == [["y"]]
    assert places(model_of("y = Clip(x, other)", constants=low), pattern) == []
    replacement = "replacement (x, a, b) => (y) { z = Clip(x, a, b) y = Relu(z) }"
    model = model_of("z = Clip(x, low) y = Clip(z,,high)", constants=low)
    rewrite(model, f"{HEADER} pattern {pattern} {HEADER} {replacement}".encode())
    first, _, second, _ = model.graph.nodes
    assert [[v and v.name for v in node.inputs] for node in (first, second)] == [["x", "low"], ["z", None, "high"]]


def test_places_left_out_are_said_when_the_first_node_is_replaced():
    model = model_of("a = Relu(x) b = Relu(a) y = Relu(b)")
    rule = f"""
        {HEADER} pattern (x) => (y) {{ a = Relu(x) y = Relu(a) }}
        {HEADER} replacement (x) => (y) {{ b = Relu(x) y = Min(b, b, b) }}
    """
    report = rewrite(model, rule.encode(), checks=0).report
    assert report.applied == {"r": 1}
    assert [refusal.reason for refusal in report.refusals] == [
        "the place was left out, as it shares nodes with another one"
    ]


def test_declared_types_must_hold():
    model = model_of("y = Relu(x)")
    assert places(model, "(x) => (y) <float[M, 4] x> { y = Relu(x) }") == [["y"]]
    assert places(model, "(x) => (y) <float[M, 5] x> { y = Relu(x) }") == []
    assert places(model, "(x) => (y) <float16[M, 4] y> { y = Relu(x) }") == []
    assert places(model, "(x) => (y) <float[4] x> { y = Relu(x) }") == []


def test_places_do_not_overlap_and_those_left_out_are_counted():
    model = model_of("a = Relu(x) b = Relu(a) c = Relu(b) y = Relu(c)")
    pattern = patterns_in((HEADER + "pattern (x) => (y) { a = Relu(x) y = Relu(a) }").encode())["r"]
    found, overlapping = find(pattern, model, infer(model).type_of)
    assert (len(found), overlapping) == (2, 1)
    model = model_of("a = Relu(x) b = Relu(a) y = Relu(b)")
    found, overlapping = find(pattern, model, infer(model).type_of)
    assert (len(found), overlapping) == (1, 1)


def test_a_path_that_leaves_and_comes_back_is_no_place():
    outputs = "(float[4] x) => (float[4] y, float[4] a)"
    model = model_of("a = Relu(x) b = Abs(a) y = Add(a, b)", outputs)
    assert places(model, "(x, b) => (a, y) { a = Relu(x) y = Add(a, b) }") == []
    model = model_of("a = Relu(x) b = Abs(x) y = Add(a, b)", outputs)
    assert places(model, "(x, b) => (a, y) { a = Relu(x) y = Add(a, b) }") == [["a", "y"]]


def test_subgraphs_and_functions_are_searched():
    text = """
        <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[4] x, bool c) => (float[4] y) {
            z = If(c) <then_branch = t () => (float[4] p) { q = Relu(x) p = Neg(q) },
                       else_branch = e () => (float[4] r) { r = Abs(x) }>
            y = local.f(z)
        }
        <domain: "local", opset_import: ["" : 17]>
        f (u) => (w) { v = Relu(u) w = Neg(v) }
    """
    model = load(onnx.parser.parse_model(text).SerializeToString())
    assert places(model, "(x) => (y) { a = Relu(x) y = Neg(a) }") == [["p", "q"], ["v", "w"]]


def test_nodes_with_subgraphs_match_when_these_compute_the_same():
    branches = (
        "then_branch = t () => (float[4] p) {{ p = {0}(a) }}, else_branch = e () => (float[4] r) {{ r = Abs(a) }}"
    )
    body = f"a = Relu(x) y = If(c) <{branches}>"
    model = model_of(body.format("Neg"), "(float[4] x, bool c) => (float[4] y)")
    assert places(model, f"(x, c) => (y) {{ {body.format('Neg')} }}") == [["a", "y"]]
    assert places(model, f"(x, c) => (y) {{ {body.format('Exp')} }}") == []


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("pattern (x) => (y) { y = Relu(x) ", "Line 1"),
        (HEADER + "pattern (x) => (y) { k = Constant <value_float = 1.0> () }", "no nodes besides constants"),
        (HEADER + "pattern (x) => (y, z) { y = Relu(x) }", "no node of it produces its output z"),
        (HEADER + "pattern (x, z) => (y) { y = Relu(x) }", "no node of it uses its input z"),
        (HEADER + "pattern (x) => (y) { y = Add(x, q) }", "nothing in it defines q"),
        (HEADER + "pattern (x, z) => (y, w) { y = Relu(x) w = Relu(z) }", "is connected to"),
        (HEADER + "pattern (x) => (y) { a = Neg(x) y = Relu(x) }", "nothing in it uses Neg"),
        (HEADER + "pattern (x) => (y) { y = Reul(x) }", "no operator Reul; did you mean Relu?"),
        (HEADER + "pattern (x) => (y) { y = my.Op(x) }", "imports no version of my"),
        (HEADER + "relu (x) => (y) { y = Relu(x) }", "a function relu"),
        (HEADER + "pattern <a>(x) => (y) { k = Constant <value_float: float = @a> () y = Mul(x, k) }", "no numbers"),
        ("", "A rule is two functions"),
        ("\x00\xff", "not UTF-8"),
    ],
)
def test_what_cannot_be_searched_for_is_refused(text, part):
    with pytest.raises(ModelError) as caught:
        patterns_in(text.encode("latin-1"))
    assert part.lower() in str(caught.value).lower()


@pytest.mark.parametrize(
    ("replacement", "part"),
    [
        ("", "it has no replacement"),
        ("replacement (x, z) => (y) { y = Add(x, z) }", "the inputs (x), its replacement (x, z)"),
        ("replacement (x) => (z) { z = Relu(x) }", "the outputs (y), its replacement (z)"),
        ("replacement <a>(x) => (y) { y = Elu <alpha: float = @a> (x) }", "uses the attribute a"),
        ("replacement (x) => (y) { y = Add(x, w) }", "nothing in the replacement defines w"),
        ("pattern (x) => (y) { y = Abs(x) }", "two functions pattern"),
    ],
)
def test_rules_that_do_not_fit_are_refused(replacement, part):
    text = HEADER + "pattern (x) => (y) { y = Relu(x) } " + (HEADER + replacement if replacement else "")
    with pytest.raises(ModelError) as caught:
        rules_in(text.encode())
    assert part.lower() in str(caught.value).lower()


_UNARY, _BINARY = ("Sin", "Cos", "Tanh", "Exp"), ("Add", "Sub", "Mul")


@st.composite
def patterns(draw: Any) -> tuple[list[tuple[str, str, list[str]]], list[str]]:
    """Nodes (output, operator, inputs) that all lead to the last one, and the inputs they use."""
    names, nodes, open_ends = ["x", "z"], list[tuple[str, str, list[str]]](), list[str]()
    for number in range(draw(st.integers(1, 6))):
        operator = draw(st.sampled_from(_UNARY + _BINARY))
        count = 2 if operator in _BINARY else 1
        given = [draw(st.sampled_from(names)) for _ in range(count)]
        if number and not set(given) & set(open_ends):
            given[0] = open_ends[-1]
        nodes.append((f"n{number}", operator, given))
        names.append(f"n{number}")
        open_ends = [name for name in open_ends if name not in given] + [f"n{number}"]
    while len(open_ends) > 1:
        name = f"n{len(nodes)}"
        nodes.append((name, "Add", open_ends[:2]))
        open_ends = [*open_ends[2:], name]
    nodes.append(("last", "Erf", open_ends))
    used = {name for _, _, given in nodes for name in given}
    return nodes, [name for name in ("x", "z") if name in used]


def planted(nodes: list[tuple[str, str, list[str]]], between: list[str], *, is_swapped: bool) -> Model:
    """A chain of copies of a pattern with an operator after each."""
    body, current = [], "x"
    for number, filler in enumerate(between):
        names = {"x": current, "z": "z", **{made: f"{made}_{number}" for made, _, _ in nodes}}
        for made, operator, taken in nodes:
            order = taken[::-1] if is_swapped and operator in ("Add", "Mul") else taken
            body.append(f"{names[made]} = {operator}({', '.join(names[v] for v in order)})")
        body.append(f"f{number} = {filler}(last_{number})")
        current = f"f{number}"
    return model_of(" ".join(body), f"(float[4] x, float[4] z) => (float[4] {current})")


BETWEEN = st.lists(st.sampled_from(["Abs", "Neg", "Relu"]), min_size=1, max_size=5)


@settings(max_examples=examples(30))
@given(patterns(), BETWEEN, st.booleans())
def test_all_planted_copies_are_found(pattern, between, is_swapped):
    nodes, inputs = pattern
    model = planted(nodes, between, is_swapped=is_swapped)
    text = " ".join(f"{made} = {operator}({', '.join(given)})" for made, operator, given in nodes)
    assert len(places(model, f"({', '.join(inputs)}) => (last) {{ {text} }}")) == len(between)


@settings(max_examples=examples(8))
@given(patterns(), BETWEEN)
def test_rewritten_copies_compute_the_same_in_onnx_runtime(pattern, between):
    onnxruntime = pytest.importorskip("onnxruntime")
    nodes, inputs = pattern
    model = planted(nodes, between, is_swapped=False)
    *inner, (_, _, end) = nodes
    same = " ".join(f"{made} = {operator}({', '.join(given)})" for made, operator, given in inner)
    ends = f"({', '.join(inputs)}) => (last)"
    rule = f"""
        {HEADER} pattern {ends} {{ {same} last = Erf({end[0]}) }}
        {HEADER} replacement {ends} {{ {same} minus = Neg({end[0]}) odd = Erf(minus) last = Neg(odd) }}
    """
    feeds = {name: np.linspace(-1, 1, 4, dtype=np.float32) for name in ("x", "z")}
    results = []
    for _ in range(2):
        data = to_bytes(model)
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        given_inputs = {one.name: feeds[one.name] for one in session.get_inputs()}
        results.append(session.run(None, given_inputs)[0])
        if len(results) == 1:
            assert rewrite(model, rule.encode(), checks=0).report.applied == {"r": len(between)}
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4, atol=1e-5)
