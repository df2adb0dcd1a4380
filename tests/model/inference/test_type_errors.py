"""Nodes that do not take what they get, as they show once types are inferred."""

import pytest

from onnx_workbench.model.checks.inferred import beside, check_inferred
from onnx_workbench.model.inference import infer
from tests.model import builders


def report(body, functions="", *, inputs="float[3] x, int64[3] z", outputs="float[3] y"):
    model = builders.model(f"""
        <ir_version: 10, opset_import: ["" : 18, "f" : 1]>
        g ({inputs}) => ({outputs}) {{ {body} }}
        {functions}
    """)
    inferred = infer(model)
    return [(p.severity, p.rule, p.message, p.place) for p in check_inferred(inferred)], model


def facts(problems):
    return [(severity, rule, message) for severity, rule, message, _ in problems]


ADD = '<domain: "f", opset_import: ["" : 18]> Sum (a, b) => (c) { c = Add(a, b) }'


def test_types_that_nothing_declares_are_compared_with_signatures():
    problems, model = report("a = Cast<to = 7>(x) b = Relu(x) y = Add(a, b)", outputs="float[3] y")
    assert facts(problems) == [("error", "type", "b of Add is tensor(float), a is tensor(int64)")]
    assert problems[0][3] is model.graph.outputs[0].producer


def test_a_type_that_an_operator_does_not_take():
    problems, _ = report("a = Cast<to = 9>(x) b = Relu(a) y = Cast<to = 1>(b)")
    assert facts(problems) == [("error", "type", "Input X of Relu is tensor(bool)")]


def test_sizes_that_do_not_fit():
    problems, _ = report("a = Concat<axis = 0>(x, x) y = Add(a, x)")
    assert facts(problems) == [("error", "shape", "Shape inference of Add failed")]


def test_a_function_is_looked_at_for_each_signature_of_its_calls():
    problems, model = report(
        "[first] a = f.Sum(x, x) [wrong] b = f.Sum(x, z) [again] c = f.Sum(x, z) [other] d = f.Sum(z, x) y = Relu(a)",
        ADD,
    )
    assert facts(problems) == [
        ("error", "type", "b of Add is tensor(int64), a is tensor(float) in the call wrong"),
        ("error", "type", "b of Add is tensor(float), a is tensor(int64) in the call other"),
    ]
    assert {place for *_, place in problems} <= set(model.functions[0].body.nodes)


def test_functions_in_functions_are_reported_with_all_calls():
    outer = '<domain: "f", opset_import: ["" : 18, "f" : 1]> Outer (p, q) => (r) { [inner] r = f.Sum(p, q) }'
    problems, _ = report("[one] a = f.Outer(x, x) [two] b = f.Outer(x, z) y = Relu(a)", f"{ADD} {outer}")
    assert facts(problems) == [
        ("error", "type", "b of Add is tensor(int64), a is tensor(float) in the call two › inner")
    ]


def test_attributes_that_calls_give_count():
    cast = '<domain: "f", opset_import: ["" : 18]> As <to> (a) => (c) { b = Cast<to = @to>(a) c = Relu(b) }'
    problems, _ = report("[good] y = f.As<to = 1>(z) [bad] o = f.As<to = 9>(z) [none] p = f.As(z)", cast)
    assert facts(problems) == [("error", "type", "Input X of Relu is tensor(bool) in the call bad")]


def test_bodies_of_functions_are_inferred_for_each_call():
    """The types of the first call stayed in the branches of its If."""
    either = """<domain: "f", opset_import: ["" : 18]> Either (k, a) => (c) {
        c = If (k) <then_branch = t () => (s) { s = Neg(a) }, else_branch = e () => (u) { u = Abs(a) }>
    }"""
    problems, _ = report(
        "a = f.Either(k, x) b = f.Either(k, z) y = Add(a, b)", either, inputs="bool k, float[3] x, int64[3] z"
    )
    assert facts(problems) == [("error", "type", "b of Add is tensor(int64), a is tensor(float)")]


def test_scalars_that_a_function_computes_are_scalars_for_onnx_too():
    """They were handed to its inference as vectors of one element, which Range does not take."""
    count = """<domain: "f", opset_import: ["" : 18]> Count (a) => (c) {
        i = Constant <value_ints = [0]> ()  j = Constant <value_ints = [1]> ()
        s = Shape(a)  zero = Squeeze(i, i)  one = Squeeze(j, i)  n = Gather(s, zero)
        c = Range(zero, n, one)
    }"""
    problems, _ = report("y = f.Count(x)", count, outputs="int64[n] y")
    assert facts(problems) == []


def test_a_branch_that_may_never_run_is_a_warning():
    problems, _ = report(
        """y = If (k) <then_branch = t () => (s) { [never] w = Concat<axis = 0>(x, x) s = Add(w, x) },
                       else_branch = e () => (u) { u = Abs(x) }>""",
        inputs="bool k, float[3] x",
    )
    assert facts(problems) == [("warning", "shape", "Shape inference of Add failed")]


def test_a_call_in_a_branch_that_may_never_run_is_a_warning_too():
    branches = "<then_branch = t () => (s) { [maybe] s = f.Sum(x, w) }, else_branch = e () => (u) { u = Neg(x) }>"
    inputs = "bool k, float[3] x, float[4] w"
    problems, _ = report(f"y = If (k) {branches}", ADD, inputs=inputs, outputs="float[n] y")
    message = "Shape inference of Add failed in the call maybe"
    assert facts(problems) == [("warning", "shape", message)]
    problems, _ = report(f"y = If (k) {branches} o = f.Sum(x, w)", ADD, inputs=inputs, outputs="float[n] y")
    assert facts(problems) == [("error", "shape", message)]  # another call runs for sure


@pytest.mark.parametrize("added", ["Add(v, q)", "f.Sum(v, q)"])
def test_what_a_loop_grows_is_no_misfit(added):
    """A guess at the sizes that a loop carries is taken back."""
    problems, _ = report(
        f"""y = Loop (n, k, x) <body = b (int64 i, bool c, float[?] v) => (bool c_out, float[?] w) {{
               c_out = Identity(c) w = Concat<axis = 0>(v, v) s = {added} }}>""",
        ADD,
        inputs="int64 n, bool k, float[3] x, float[4] q",
        outputs="float[M] y",
    )
    assert problems == []


def test_what_declared_types_reported_is_not_reported_again():
    from onnx_workbench.model.checks import check_model

    _, model = report("y = Add(x, z)")
    known = check_model(model)
    assert "type" in {problem.rule for problem in known}
    found = list(check_inferred(infer(model)))
    assert found
    assert list(beside(known, found)) == []


@pytest.mark.parametrize("deep", [30, 300])
def test_calls_in_calls_cost_one_look_each(deep):
    """onnx's own inference goes into each: 2 to the power of 30 turns."""
    twice = " ".join(
        f'<domain: "f", opset_import: ["" : 18, "f" : 1]> F{n} (a) => (c) '
        f"{{ p = {inner}(a) q = {inner}(p) c = Add(p, q) }}"
        for n, inner in enumerate(["Not", *(f"f.F{n}" for n in range(deep - 1))])
    )
    problems, model = report(f"[whole] y = f.F{deep - 1}(x)", twice)
    if deep < 32:  # the deepest that is looked at
        assert {place for *_, place in problems} <= set(model.functions[0].body.nodes)


@pytest.mark.parametrize("inside", ["c = Add(a, b)", "d = Add(a, b) c = f.Unknown(d)"])
def test_very_many_calls_cost_one_look(inside, monkeypatch):
    """Also where nothing is found out of what they return."""
    from onnx_workbench.model.inference import engine

    calls = " ".join(f"v{n} = f.Sum(x, {'z' if n == 250 else 'x'})" for n in range(500))
    looked = []
    learn = engine.Inference._learn_graph
    monkeypatch.setattr(
        engine.Inference, "_learn_graph", lambda self, frame, graph: (looked.append(graph), learn(self, frame, graph))
    )
    problems, model = report(
        f"{calls} y = Relu(v0)", ADD.replace("c = Add(a, b)", inside).replace("18]", '18, "f" : 1]')
    )
    assert looked.count(model.functions[0].body) == 2  # two signatures
    assert len(problems) == 1
