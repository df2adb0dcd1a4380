"""How models become plans: order, functions, bodies, operator sets, and what is refused by name."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.exec.engine import lowering
from onnx_workbench.exec.engine.lowering import assumed_opset, compile_model
from onnx_workbench.exec.engine.operations import Library
from onnx_workbench.exec.engine.plan import BodyPlan, Plan
from onnx_workbench.exec.engine.snapshot import SnapshotCache
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.session import Session
from onnx_workbench.model.edits.attributes import set_attribute
from onnx_workbench.model.edits.initializers import set_tensor
from onnx_workbench.model.edits.nodes import delete_and_bridge, duplicate, move_before
from onnx_workbench.model.edits.values import connect
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.ir.tensors import ArrayTensor
from tests.exec.texts import parse, states

X = np.array([1.0, 2.0, 3.0], np.float32)


def shuffled(order: list[int]) -> Model:
    """y = ((x + 1) * 2) - 3 …, its nodes in any order."""
    nodes = " ".join(f"[n{i}] v{i + 1} = Add (v{i}, one)" for i in order)
    return parse(f"g (float[3] v0) => (float[3] v{len(order)}) <float[3] one = {{1, 1, 1}}> {{ {nodes} }}")


@pytest.mark.long
@given(st.permutations(list(range(8))))
def test_nodes_run_in_topological_order_whatever_the_file_order(order: list[int]) -> None:
    result = Session(shuffled(list(order))).run({"v0": X})
    assert result.ok
    np.testing.assert_array_equal(result.values["v8"], X + 8)


def test_a_cycle_is_named_and_the_rest_still_runs() -> None:
    model = parse("""g (float[3] x) => (float[3] y, float[3] b) {
      [first] a = Add (x, b)
      [second] b = Neg (a)
      [free] y = Neg (x)
    }""")
    result = Session(model).run({"x": X})
    np.testing.assert_array_equal(result.values["y"], -X)
    assert {f.title for f in result.failures} >= {"first"}
    assert "first" in result.failures[0].reason
    assert "second" in result.failures[0].reason


def content(plan: Plan) -> Any:
    """All that a plan says, to compare it with another one made with the same library."""

    def plain(value: Any) -> Any:
        if isinstance(value, BodyPlan):
            return [value.attribute, value.captures, value.input_names, content(value.plan)]
        if isinstance(value, Context):
            return [value.op_type, value.opset, value.domain, value.wanted, value.node_name, value.opset_imports]
        if isinstance(value, tuple):
            return [plain(item) for item in value]
        return value

    steps = [
        (s.index, s.node.uid, s.path, s.operation.number, s.ins, s.outs, s.captured, plain(s.bodies),
         plain(s.context), s.token, s.inputs)
        for s in plan.steps
    ]  # fmt: skip
    tables = plan.constants, plan.tokens, plan.undefined, plan.slots, plan.producers, plan.input_bits
    return steps, plan.size, plan.inputs, plan.outputs, tables, plan.bodied, plan.varying, plan.notes


EDITED = """g (float[3] x, bool t) => (float[3] y) <float[3] w = {1, 2, 3}, float[3] u = {4, 5, 6}>
{
    a = LeakyRelu <alpha = 0.5> (x)
    b = Mul(a, w)
    c = local.twice(b)
    d = LeakyRelu <alpha = 0.25, unknown = 1> (c)
    e = If (t) <then_branch = p () => (float[3] q) { q = Add(d, u) }, else_branch = n () => (float[3] m) { m = Neg(b) }>
    f = local.twice(e)
    h = LeakyRelu <alpha = 0.75> (f)
    y = Add(h, u)
}"""


@pytest.mark.long
@given(st.data())
def test_a_plan_after_edits_is_that_of_the_model_as_it_is(data: st.DataObject) -> None:
    document = Document(parse(EDITED + FUNCTIONS, header=HEADER))
    snapshots, library = SnapshotCache(document.model), Library()
    graph = document.model.graph

    def edit_once() -> None:
        target = data.draw(st.sampled_from(list(graph.nodes)))
        kind = data.draw(st.sampled_from(["attribute", "tensor", "delete", "duplicate", "move", "connect", "undo"]))
        if kind == "undo":
            document.undo()
            return
        with document.edit(kind) as edit:
            match kind:
                case "attribute":
                    set_attribute(edit, target, "alpha", data.draw(st.sampled_from([0.5, 0.25])))
                case "tensor":
                    value = data.draw(st.sampled_from(list(graph.initializers)))
                    set_tensor(edit, value, ArrayTensor(X * data.draw(st.integers(1, 3))))
                case "delete":
                    delete_and_bridge(edit, [target])
                case "duplicate":
                    duplicate(edit, [target])
                case "move":
                    move_before(edit, target, data.draw(st.sampled_from([*graph.nodes, None])))
                case "connect":
                    values = [*graph.inputs, *graph.initializers, *(v for n in graph.nodes for v in n.outputs if v)]
                    connect(edit, target, 0, data.draw(st.sampled_from(values)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowering, "_INTERVAL", data.draw(st.sampled_from([1, 2, 64])))
        before = None
        for _ in range(data.draw(st.integers(1, 4))):
            _, before = compile_model(snapshots.take(), library, before=before)
            with suppress(ModelError):  # an edit that the model refuses
                edit_once()
        after, _ = compile_model(snapshots.take(), library, before=before)
        assert content(after) == content(compile_model(snapshots.take(), library)[0])


def test_an_edit_at_the_end_compiles_what_follows_it_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "_INTERVAL", 4)
    document = Document(shuffled(list(range(20))))
    snapshots, library = SnapshotCache(document.model), Library()
    before, compiler = compile_model(snapshots.take(), library)
    with document.edit("Rewire") as edit:
        connect(edit, document.model.graph.nodes[17], 0, document.model.graph.inputs[0])
    after, _ = compile_model(snapshots.take(), library, before=compiler)
    assert [a is b for a, b in zip(before.steps, after.steps, strict=True)] == [True] * 16 + [False] * 4


FUNCTIONS = """
<domain: "local", opset_import: ["" : 21, "local" : 1]>
scaled <factor> (x) => (y) { f = Constant <value_float: float = @factor> () y = Mul(x, f) }
<domain: "local", opset_import: ["" : 21, "local" : 1]>
twice (x) => (y) { a = local.scaled <factor = 3.0> (x) y = local.scaled <factor = 5.0> (a) }
"""
HEADER = 'ir_version: 10, opset_import: ["" : 21, "local" : 1]'


def test_nested_functions_with_attribute_references() -> None:
    model = parse(f"g (float[3] x) => (float[3] y) {{ y = local.twice(x) }} {FUNCTIONS}", header=HEADER)
    result = Session(model).run({"x": X})
    np.testing.assert_allclose(result.values["y"], X * 15)


def test_values_inside_a_function_are_there_by_path() -> None:
    model = parse(f"g (float[3] x) => (float[3] y) {{ y = local.twice(x) }} {FUNCTIONS}", header=HEADER)
    session = Session(model)
    result = session.run({"x": X})
    call = next(iter(model.graph.nodes))
    inner = next(iter(model.functions[1].body.nodes))
    value = inner.outputs[0]
    assert value is not None
    np.testing.assert_allclose(result.value(value, (call.id,)), X * 3)


def test_a_function_that_calls_itself_is_refused_by_name() -> None:
    text = """g (float[3] x) => (float[3] y, float[3] z) { y = local.loop(x) z = Neg(x) }
    <domain: "local", opset_import: ["" : 21, "local" : 1]> loop (x) => (y) { y = local.loop(x) }"""
    result = Session(parse(text, header=HEADER)).run({"x": X})
    assert "calls itself" in result.failures[0].reason
    assert "loop" in result.failures[0].reason
    np.testing.assert_array_equal(result.values["z"], -X)


def doubling_calls(depth: int) -> Model:
    imports = 'opset_import: ["" : 21, "local" : 1]'
    bodies = ["y = Neg (x)", *(f"a = local.f{level} (x) y = local.f{level} (a)" for level in range(depth - 1))]
    functions = (f'<domain: "local", {imports}> f{n} (x) => (y) {{ {body} }}' for n, body in enumerate(bodies))
    text = f"g (float[3] x) => (float[3] y) {{ y = local.f{depth - 1} (x) }} {' '.join(functions)}"
    return parse(text, header=f"ir_version: 10, {imports}")


def test_endlessly_expanding_functions_are_refused_beforehand() -> None:
    result = Session(doubling_calls(40)).run({"x": X})
    assert not result.ok
    (failure,) = result.failures
    assert "calls of functions expand to 549,755,813,888 nodes; expected at most 200,000" in str(failure)


def test_functions_that_expand_to_few_nodes_run() -> None:
    assert Session(doubling_calls(8)).run({"x": X}).ok


def test_overloads_are_reported_apart() -> None:
    model = parse(
        """g (float[3] x) => (float[3] neg, float[3] abs) { neg = local.f:neg (x) abs = local.f:abs (x) }
        <domain: "local", overload: "neg", opset_import: ["" : 21]> f (x) => (y) { y = Neg (x) }
        <domain: "local", overload: "abs", opset_import: ["" : 21]> f (x) => (y) { y = Abs (x) }""",
        header='ir_version: 10, opset_import: ["" : 21, "local" : 1]',
    )
    result = Session(model).run({"x": -X})
    np.testing.assert_array_equal(result.values["neg"], X)
    np.testing.assert_array_equal(result.values["abs"], X)


def test_a_body_sees_values_around_it_and_keeps_its_last_turn() -> None:
    text = """g (float[3] x) => (float[3] y) {
      n = Constant <value_int: int = 4> ()
      t = Constant <value = bool {1}> ()
      w = Mul(x, x)
      y = Loop (n, t, x) <body = b (int64 i, bool c, float[3] a) => (bool k, float[3] r) {
        k = Identity(c) r = Add(a, w) }>
    }"""
    model = parse(text)
    session = Session(model)
    result = session.run({"x": X})
    np.testing.assert_allclose(result.values["y"], X + 4 * X * X)
    loop = next(n for n in model.graph.nodes if n.op_type == "Loop")
    inner = loop.bodies[0].inputs[2]
    np.testing.assert_allclose(result.value(inner), X + 3 * X * X)


def test_an_edit_inside_a_body_is_noticed() -> None:
    from onnx_workbench.model.history.steps import SetAttribute
    from onnx_workbench.model.ir.attributes import make_attribute

    text = """g (float[3] x, bool c) => (float[3] y) {
      y = If (c) <
        then_branch = t () => (float[3] a) { a = LeakyRelu <alpha = 0.5> (x) },
        else_branch = e () => (float[3] b) { b = Neg(x) }>
    }"""
    model = parse(text)
    session = Session(model)
    feeds = {"x": -X, "c": np.array(True)}
    np.testing.assert_allclose(session.run(feeds).values["y"], -0.5 * X)
    leaky = next(n for g in model.graphs() for n in g.nodes if n.op_type == "LeakyRelu")
    SetAttribute(leaky, "alpha", make_attribute("alpha", 0.25)).apply()
    np.testing.assert_allclose(session.run(feeds).values["y"], -0.25 * X)


def test_a_missing_opset_import_is_assumed_and_reported() -> None:
    model = parse("g (float[3] x) => (float[3] y) { y = Neg(x) }")
    model.opset_imports = {}
    result = Session(model).run({"x": X})
    assert result.ok
    assert any("assumed" in note for note in result.notes)
    assert assumed_opset("", 8) == 18
    assert assumed_opset("ai.onnx.ml", 8) == 3


def test_unknown_attributes_are_ignored_and_reported() -> None:
    model = parse("g (float[3] x) => (float[3] y) { y = Neg <flavour = 3> (x) }")
    result = Session(model).run({"x": X})
    assert result.ok
    assert any("flavour" in note for note in result.notes)


def test_constants_are_computed_once_and_marked() -> None:
    text = """g (float[3] x) => (float[3] y) {
      a = Constant <value_floats: floats = [1.0, 2.0, 3.0]> () b = Neg(a) y = Add(x, b) }"""
    session = Session(parse(text))
    first = states(session.run({"x": X}))
    assert first == {"a": "CONSTANT", "b": "CONSTANT", "y": "DONE"}
    again = session.run({"x": X + 1}, fresh=True)
    assert [n.state.name for n in again.nodes] == ["CONSTANT", "CONSTANT", "DONE"]
    np.testing.assert_allclose(again.values["y"], np.ones(3))


def test_an_initializer_that_is_an_input_can_be_fed() -> None:
    text = "g (float[3] x, float[3] w = {1, 1, 1}) => (float[3] y) { y = Add(x, w) }"
    session = Session(parse(text, header='ir_version: 3, opset_import: ["" : 8]'))
    np.testing.assert_allclose(session.run({"x": X}).values["y"], X + 1)
    np.testing.assert_allclose(session.run({"x": X, "w": X}).values["y"], 2 * X)
    np.testing.assert_allclose(session.run({"x": X}).values["y"], X + 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = Nonsense(x)", "no kernel for ai.onnx::Nonsense at opset 21"),
        ("y = MatMul(x)", "input 1"),
        ("y = Neg(x, x)", "at most 1"),
        ("y = Cast(x)", "attribute 'to' is required"),
    ],
)
def test_what_cannot_run_says_why(text: str, expected: str) -> None:
    result = Session(parse(f"g (float[3] x) => (float[3] y) {{ {text} }}")).run({"x": X})
    assert expected in str(result.failures[0])


@pytest.mark.parametrize(("name", "opset"), [("Bit\udce1", 21), ("Nonsense", 1 << 40)])
def test_names_and_versions_that_no_specification_can_have_are_said(name: str, opset: int) -> None:
    """A name that was no UTF-8 in the file, a version that is no 32-bit number."""
    model = parse("g (float[3] x) => (float[3] y) { y = Relu(x) }")
    (node,) = model.graph.nodes
    SetField(node, "op_type", name).apply()
    model.opset_imports = {"": opset}
    result = Session(model).run({"x": X})
    assert f"at opset {opset}" in str(result.failures[0])


def test_empty_inputs_past_those_of_the_version_are_nothing() -> None:
    text = "g (float[3] x) => (float[3] y) { y = Clip <max = 2.0> (x, , ) }"
    model = parse(text, header='ir_version: 3, opset_import: ["" : 6]')
    np.testing.assert_array_equal(Session(model).run({"x": X}).values["y"], [1, 2, 2])


def test_a_run_after_runs_for_other_values_computes_its_own() -> None:
    session = Session(
        parse("g (float[3] x) => (float[3] y) { a = Neg(x) b = Abs(a) c = Exp(b) d = Neg(c) y = Abs(d) }")
    )
    for names in (["a"], ["b"], ["c"], ["a"], ["a"], ["a", "b"], ["b"]):
        assert set(session.run({"x": X}, values=names, fresh=True).values) >= {*names, "y"}
