"""Other precisions compute nearly the same, and what cannot follow is kept and reported."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

from onnx_workbench.exec.worker.client import WorkerSession
from onnx_workbench.model.checks import check_model
from onnx_workbench.model.convert import PrecisionOptions, convert_precision, inline_calls_that_differ
from onnx_workbench.model.diff import compare
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField, SetInitializer
from onnx_workbench.model.inference import infer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.io.writer.targets import check_target
from onnx_workbench.model.ir.types import ElementType
from tests.model import builders
from tests.model.convert.conversions import fed, made, outputs
from tests.model.snapshots import assert_linked, snapshot

FLOAT, HALF, BRAIN = ElementType.FLOAT, ElementType.FLOAT16, ElementType.BFLOAT16

NET = """net (float[2,8] x, float[8,4] w) => (float[2,4] y) <float[4] b = {1.0, 2.0, 3.0, -1e6}>
    { m = MatMul(x, w) [bias] s = Add(m, b) [last] y = Softmax(s) }"""


def network():
    return made(21, NET, 10)


def to_precision(document, target, **wish):
    source = wish.pop("source", FLOAT)
    types = infer(document.model)
    with document.edit("Convert") as edit:
        return convert_precision(edit, PrecisionOptions(source, target, **wish), types.type_of)


@pytest.mark.parametrize(("opset", "expected"), [(5, {b"FLOAT", b"FLOAT16"}), (6, {int(FLOAT), int(HALF)})])
def test_casts_name_the_type_as_their_version_does(opset, expected):
    """ "to: string (required)" before version 6, an integer from then on. Nobody infers a type from the string, so it
    is declared.
    """
    document = made(opset, "net (float[2] x) => (float[2] y) { y = Exp(x) }", 3)
    to_precision(document, HALF)
    proto = onnx.load_from_string(to_bytes(document.model))
    onnx.checker.check_model(proto)
    casts = [node for node in proto.graph.node if node.op_type == "Cast"]
    assert {onnx.helper.get_attribute_value(node.attribute[0]) for node in casts} == expected
    graph = onnx.shape_inference.infer_shapes(proto).graph
    assert {node.output[0] for node in casts} <= {value.name for value in (*graph.value_info, *graph.output)}


def test_a_cast_that_names_its_type_is_converted_with_its_users():
    document = made(5, 'net (int64[2] x, float[2] z) => (float[2] y) { a = Cast<to="FLOAT">(x) y = Sub(a, z) }', 3)
    to_precision(document, HALF)
    onnx.checker.check_model(to_bytes(document.model), full_check=True)
    assert not [p for p in check_model(document.model) if p.severity == "error"]


def test_an_output_keeps_its_shape_where_the_cast_before_it_goes():
    document = builders.document("""<ir_version: 3, opset_import: ["" : 5]>
        net (float[N, 2] x) => (float16[N, 2] y) { y = Cast<to="FLOAT16">(x) }""")
    to_precision(document, HALF)
    assert str(builders.value(document, "y").type) == "float16[N,2]"


@pytest.mark.parametrize("target", [HALF, BRAIN])
@pytest.mark.parametrize("keep_interface", [True, False])
@pytest.mark.parametrize("keep", [(), ("Softmax",), ("bia*",)])
def test_precision_computes_nearly_the_same(target, keep_interface, keep):
    document = network()
    feeds = fed(document.model)
    before, state = outputs(document.model, feeds)["y"], snapshot(document.model)
    report = to_precision(document, target, keep_interface=keep_interface, keep=keep)
    assert_linked(document.model)
    onnx.checker.check_model(to_bytes(document.model), full_check=True)
    wanted = FLOAT if keep_interface else target
    assert {v.type.element_type for v in (*document.model.graph.inputs, *document.model.graph.outputs)} == {wanted}
    assert [v.name for v in document.model.graph.outputs] == ["y"]
    kind = wanted.numpy_dtype
    after = outputs(document.model, {k: v.astype(kind) for k, v in feeds.items()})["y"]
    np.testing.assert_allclose(after.astype(np.float32), before, atol=0.05)
    if target is HALF and "bia*" not in keep:
        assert any("beyond float16" in r.text for r in report.warnings)
    document.undo()
    assert snapshot(document.model) == state


@pytest.mark.parametrize("keep_interface", [True, False])
@pytest.mark.parametrize("keep", [(), ("Softmax",)])
def test_there_and_back_keeps_the_structure(keep_interface, keep):
    document = network()
    before = load(to_bytes(document.model))
    to_precision(document, HALF, keep_interface=keep_interface, keep=keep)
    to_precision(document, FLOAT, source=HALF, keep_interface=keep_interface)
    found = compare(before, document.model, weights=False)
    assert [d for d in found.differences if d.aspect != "values"] == []


HOLDS = {
    "a kept If": (
        ("If",),
        '"": 21',
        """g (float[3] x, bool f) => (float[3] y) <float[3] w = {1.0, 2.0, 3.0}> {
            a = Exp (x)
            [choose] b = If (f) <
                then_branch = t () => (float[3] c) { d = Mul (a, w) c = Neg (d) },
                else_branch = e () => (float[3] k) <float[3] k = {0.5, 0.25, 0.125}> { }
            >
            y = Sqrt (b)
        }""",
    ),
    "an operator whose body computes in a type of its own": (
        (),
        '"": 26, "ai.onnx.preview": 1',
        """g (float[1,2,3,4] x) => (float[1,2,3,4] y) <float h = {0.5}> {
            a = Tanh (x)
            b = ai.onnx.preview.FlexAttention <
                score_mod = m (float[1,2,3,3] s) => (float[1,2,3,3] t) { t = Mul (s, h) }
            > (a, a, a)
            y = Neg (b)
        }""",
    ),
}


@pytest.mark.parametrize(("keep", "imports", "text"), HOLDS.values(), ids=HOLDS)
def test_what_is_in_the_body_of_a_kept_node_is_kept_too(keep, imports, text):
    document = Document(builders.model(f"<ir_version: 10, opset_import: [{imports}]> {text}"))
    feeds = {"f": np.array(True), "x": np.linspace(-1, 1, 24, dtype=np.float32).reshape(1, 2, 3, 4)}
    feeds = {v.name: feeds[v.name] for v in document.model.graph.inputs}
    if keep:
        feeds["x"] = feeds["x"].reshape(-1)[:3]
    before = outputs(document.model, feeds)["y"]
    to_precision(document, HALF, keep=keep)
    assert_linked(document.model)
    content = to_bytes(document.model)
    onnx.checker.check_model(content)
    holder = next(n for n in document.model.graph.nodes if n.bodies)
    inner = [v for body in holder.bodies for v in body.values()]
    assert {v.type.element_type for v in inner if v.type is not None} == {FLOAT}
    np.testing.assert_allclose(outputs(load(content), feeds)["y"], before, atol=5e-3)


def test_operators_that_do_not_take_it_stay_and_are_cast_around():
    text = "g (float[4] x) => (float[4] y) { a = Exp(x) b, c = m.Odd(a) y = Neg(b) }"
    document = Document(builders.model(f'<ir_version: 10, opset_import: ["": 21, "m": 1]> {text}'))
    with document.edit("Types"):
        for name in ("b", "c"):
            SetField(builders.value(document, name), "type", builders.value(document, "x").type).apply()
    to_precision(document, HALF)
    assert [n.op_type for n in document.model.graph.nodes] == ["Cast", "Exp", "Cast", "Odd", "Cast", "Neg", "Cast"]


def test_casts_take_the_names_and_groups_of_their_nodes():
    document = Document(
        builders.model("""<ir_version: 10, opset_import: ["": 21, "m": 1]> g (float[4] x) => (float[4] y) {
            a = Exp(x) b = Abs(a) y = Neg(b) }""")
    )
    for node, name in zip(document.model.graph.nodes, ("/a/Exp", "/a/Abs", "/b/Neg"), strict=True):
        SetField(node, "name", name).apply()
        SetField(node, "metadata", {"namespace": f"{name}: test"}).apply()
    to_precision(document, HALF, keep=("/a/Abs",), keep_interface=True)
    casts = [node for node in document.model.graph.nodes if node.op_type == "Cast"]
    assert [node.name for node in casts] == ["/a/Exp_cast", "/a/Exp_cast_1", "/a/Abs_cast", "/b/Neg_cast"]
    assert casts[2].metadata["namespace"] == "/a/Abs: test"


def test_constants_casts_bodies_and_functions_turn():
    document = Document(
        builders.model("""<ir_version: 10, opset_import: ["": 21, "l": 1]>
        g (float[3] x, int64[1] n, bool c) => (float[3] y) {
            k = Constant<value_float = 2.5>() f = Cast<to = 1>(n) z = ConstantOfShape(n) s = Mul(x, k) t = Add(s, f)
            u = Add(t, z)
            a = If (c) <then_branch = p () => (o) { o = Abs(u) }, else_branch = q () => (o) { o = Neg(x) }>
            y = l.f(a) }
        <domain: "l", opset_import: ["": 21]> f (v) => (o) { i = Constant<value = float {0.5}>() o = Mul(v, i) }""")
    )
    feeds = {"x": np.array([1, 2, -3], np.float32), "n": np.array([3]), "c": np.array(True)}
    before = outputs(document.model, feeds)["y"]
    to_precision(document, HALF)
    onnx.checker.check_model(to_bytes(document.model), full_check=True)
    np.testing.assert_allclose(outputs(document.model, feeds)["y"], before, rtol=1e-2)


def test_what_a_call_reports_stays_and_is_cast():
    document = Document(
        builders.model("""<ir_version: 10, opset_import: ["": 21, "l": 1]> g (float[3] x) => (float[3] y) {
            y = l.f<factor = 2.5, some = [1.0, 2.0, 3.0]>(x) }
        <domain: "l", opset_import: ["": 21]> f <factor, some> (v) => (o) {
            a = Constant<value_float: float = @factor>() b = Constant<value_floats: floats = @some>()
            c = Mul(v, a) o = Add(c, b) }""")
    )
    feeds = {"x": np.array([1, 2, -3], np.float32)}
    before = outputs(document.model, feeds)["y"]
    to_precision(document, HALF)
    onnx.checker.check_model(to_bytes(document.model))
    np.testing.assert_allclose(outputs(document.model, feeds)["y"], before, rtol=1e-2)
    operators = [node.op_type for node in document.model.functions[0].body.nodes]
    assert Counter(operators) == {"Constant": 2, "Cast": 2, "Mul": 1, "Add": 1}


def test_sequences_cannot_be_cast():
    text = "g (seq(float[2]) x) => (seq(float[2]) y) { y = Identity(x) }"
    document = Document(builders.model(text))
    state = snapshot(document.model)
    with pytest.raises(ModelError, match="x cannot be cast"):
        to_precision(document, HALF)
    assert snapshot(document.model) == state
    to_precision(document, HALF, keep_interface=False)
    assert str(builders.value(document, "y").type) == "seq(float16[2])"


@pytest.mark.parametrize(
    "body",
    [
        "s = unknown.Foo(x) t = SequenceInsert(s, x) n = SequenceLength(t)",
        "t = unknown.Foo(x) u = SequenceInsert(t, x) s = SequenceErase(u) n = unknown.Bar(s)",
    ],
)
def test_a_sequence_beside_an_unknown_operator_is_not_cast(body):
    text = f"""<ir_version: 8, opset_import: ["" : 19, "unknown" : 1]> g (float[2] x) => (int64 n) {{ {body} }}"""
    with pytest.raises(ModelError, match=r"[st] cannot be cast: It is a sequence or optional"):
        to_precision(builders.document(text), HALF)


def test_operators_that_take_no_bfloat16_yet_are_reported():
    text = "g (float[2] x) => (float[2] y) { a = Relu(x) b = Relu(a) y = Neg(b) }"
    reported = "3 nodes stay float: in opset 11, Relu, Neg take no bfloat16"
    for opset, warnings in ((11, [reported]), (13, [])):
        assert [remark.text for remark in to_precision(made(opset, text), BRAIN).warnings] == warnings
    assert not to_precision(made(13, text), BRAIN, keep=["Relu"]).warnings


def test_nothing_to_convert():
    with pytest.raises(ModelError, match="nothing to convert"):
        to_precision(network(), FLOAT)


@pytest.mark.parametrize("version", [9, 12])
def test_casts_that_the_operator_set_lacks_are_refused(version):
    """The inputs became bfloat16 and were cast, which Cast could not before version 13: nothing could run it."""
    document = made(version, "g (float[2] x) => (float[2] y) { y = Sin(x) }")
    state = snapshot(document.model)
    with pytest.raises(ModelError, match="cannot cast bfloat16") as refused:
        to_precision(document, BRAIN, keep_interface=False)
    assert "since version 13" in refused.value.detail
    assert snapshot(document.model) == state


def test_types_of_a_model_without_weights_are_reported():
    report = to_precision(made(21, "free (float[N] x) => (float[N] y) { y = Neg(x) }", 10), HALF, keep_interface=False)
    assert dict(report.summary()) == {"declared types changed to float16": 2}


SUMMED = """g (uint8[2,1024] a, int8[1024,2] b) => (float[2,2] y) <float s = {0.0001}>
    { m = MatMulInteger(a, b) f = Cast<to=1>(m) [scaled] p = Mul(f, s) y = Relu(p) }"""


@pytest.mark.parametrize("keep_interface", [True, False])
def test_sums_of_integers_stay_in_range_until_they_are_scaled(keep_interface):
    """They went beyond float16 and were infinite: weights of 8 bits are multiplied so."""
    document = made(17, SUMMED)
    feeds = {"a": np.full((2, 1024), 200, np.uint8), "b": np.full((1024, 2), 100, np.int8)}
    before = outputs(document.model, feeds)["y"]
    to_precision(document, HALF, keep_interface=keep_interface)
    onnx.checker.check_model(to_bytes(document.model), full_check=True)
    np.testing.assert_allclose(outputs(document.model, feeds)["y"].astype(np.float32), before, rtol=1e-3)
    relu = next(n for n in document.model.graph.nodes if n.op_type == "Relu")
    assert infer(document.model).type_of(relu.outputs[0]).element_type is HALF


@pytest.mark.parametrize("target", [HALF, BRAIN])
def test_functions_whose_casts_calls_decide_are_converted(target):
    """What stands behind such a cast was of unknown type and stayed: the model did not run any more."""
    document = Document(
        builders.model("""
            <ir_version: 10, opset_import: ["" : 21, "f" : 1]>
            g (float[2,4] x) => (float[2,4] y) { n = f.Outer(x) y = Add(n, x) }
            <opset_import: ["" : 21, "f" : 1], domain: "f"> Outer (a) => (b) { c = f.Inner<to = 1>(a) b = Add(c, c) }
            <opset_import: ["" : 21], domain: "f"> Inner <to> (a) => (b) { c = Cast<to = @to>(a) b = Cast<to = 1>(c) }
        """)
    )
    feeds = fed(document.model)
    before = outputs(document.model, feeds)["y"]
    to_precision(document, target)
    np.testing.assert_allclose(outputs(document.model, feeds)["y"], before, rtol=0.02)
    made_here = next(f for f in document.model.functions if f.name == "Outer").body.nodes[-1].outputs[0]
    assert infer(document.model).type_of(made_here).element_type is target


@pytest.mark.parametrize("kinds", [(1, 7), (7, 1)])
def test_functions_that_give_calls_different_types_are_refused(kinds):
    """Integers were cast to the other precision and lost digits, or the model did not run any more."""
    document = Document(
        builders.model(f"""
            <ir_version: 10, opset_import: ["" : 21, "f" : 1]>
            g (float[2] x) => (y, z) {{ y = f.As<to = {kinds[0]}>(x) z = f.As<to = {kinds[1]}>(x) }}
            <opset_import: ["" : 21], domain: "f"> As <to> (a) => (b) {{ b = Cast<to = @to>(a) }}
        """)
    )
    state = snapshot(document.model)
    with pytest.raises(ModelError, match="The types in As depend on the call") as refused:
        to_precision(document, HALF)
    assert refused.value.place is next(iter(document.model.functions))
    assert snapshot(document.model) == state


DIFFERING = {
    "casts": (
        "y = f.As<to = 1>(x) n = f.As<to = 7>(x) z = Cast<to = 1>(n)",
        "<to> (a) => (b) { b = Cast<to = @to>(a) }",
    ),
    "integers first": (
        "n = Cast<to = 7>(x) m = f.As(n) z = Cast<to = 1>(m) y = f.As(x)",
        "(a) => (b) { c = Cast<to = 1>(a) d = Constant<value_float = 2.0>() e = Mul(c, d) b = CastLike(e, a) }",
    ),
    "in functions": (
        "y = f.Outer<kind = 1>(x) n = f.Outer<kind = 7>(x) z = Cast<to = 1>(n)",
        """<to> (a) => (b) { b = Cast<to = @to>(a) }
        <opset_import: ["" : 21, "f" : 1], domain: "f"> Outer <kind> (a) => (c) { b = f.As<to = @kind>(a) c = Neg(b) }
        """,
    ),
}


@pytest.mark.parametrize("target", [HALF, BRAIN])
@pytest.mark.parametrize("case", DIFFERING)
def test_calls_that_differ_are_inlined_and_converted(target, case):
    calls, function = DIFFERING[case]
    document = Document(
        builders.model(f"""
            <ir_version: 10, opset_import: ["" : 21, "f" : 1]>
            g (float[2] x) => (float[2] y, float[2] z) {{ {calls} }}
            <opset_import: ["" : 21], domain: "f"> As {function}
        """)
    )
    state, feeds = snapshot(document.model), fed(document.model)
    before = outputs(document.model, feeds)
    report = builders.one_edit(document, inline_calls_that_differ, FLOAT, infer(document.model).type_of)
    assert "differ in types" in report.changes[0].text
    assert not document.model.functions
    to_precision(document, target)
    onnx.checker.check_model(to_bytes(document.model), full_check=True)
    after = outputs(document.model, feeds)
    assert "float16" in {v.element_type.text[-7:] for v in infer(document.model).types.values()}
    np.testing.assert_allclose(after["y"], before["y"], rtol=0.02)
    np.testing.assert_allclose(after["z"], before["z"])
    document.undo()
    document.undo()
    assert snapshot(document.model) == state


def test_calls_of_the_same_types_are_not_inlined():
    document = Document(
        builders.model("""
            <ir_version: 10, opset_import: ["" : 21, "f" : 1]>
            g (float[2] x) => (float[2] y) { z = f.As<to = 1>(x) y = f.As<to = 1>(z) }
            <opset_import: ["" : 21], domain: "f"> As <to> (a) => (b) { b = Cast<to = @to>(a) }
        """)
    )
    with document.edit("Inline") as edit:
        assert inline_calls_that_differ(edit, FLOAT, infer(document.model).type_of).changes == []
    assert len(document.model.functions) == 1


LOOP = """g (float[2] x) => (float[2] z) <int64 n = {3}, bool c = {1}> {
    y = Loop(n, c, x) <body = b (int64 i, bool go, float[2] a) => (bool on, float[2] s) {
        on = Identity(go) s = Add(a, x)
    }>
    z = Neg(y)
}"""


@pytest.mark.parametrize(("version", "kind"), [(15, FLOAT), (16, BRAIN)])
def test_loops_stay_where_they_let_no_such_values_through(version, kind):
    """Up to version 15 a Loop takes no bfloat16, and was given it."""
    document = made(version, LOOP, 8)
    feeds = fed(document.model)
    before = outputs(document.model, feeds)["z"]
    report = to_precision(document, BRAIN)
    onnx.checker.check_model(to_bytes(document.model), full_check=True)
    np.testing.assert_allclose(outputs(document.model, feeds)["z"], before, rtol=0.02)
    loop = next(node for node in document.model.graph.nodes if node.op_type == "Loop")
    assert infer(document.model).type_of(loop.outputs[0]).element_type is kind
    reported = "1 node stays float: in opset 15, Loop takes no bfloat16"
    assert [remark.text for remark in report.warnings] == [reported] * (kind is FLOAT)


def test_a_value_whose_type_is_not_inferred_is_cast_too():
    """Without a type rule for ExpandDims, which takes no bfloat16, Add got a float and a bfloat16."""
    text = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
    g (float[3,2] x) => (float[1,3,2] y) <int32 axis = {0}>
    { e = com.microsoft.ExpandDims (x, axis) y = Add (e, x) }"""
    document = builders.document(text)
    feeds = fed(document.model)
    before = outputs(document.model, feeds)["y"]
    to_precision(document, BRAIN)
    np.testing.assert_allclose(outputs(document.model, feeds)["y"], before, rtol=0.05, atol=0.05)


UNKNOWN = {
    "beside a weight": "a = Relu(x) b = my.Foo(a) d = Add(b, c) y = Mul(d, x)",
    "through others": "b = my.Foo(x) d = Relu(b) e = Transpose(d) f = Transpose(e) y = Mul(f, x)",
    "to another one": "b = my.Foo(x) d = my.Foo(b) e = Neg(d) y = Add(c, e)",
    "to an output": "y = my.Foo(x)",
    "joined": "b = my.Foo(x) d = Concat<axis = 0>(b, c) e = Max(d) y = Slice(e, zero, four)",
    "chosen": "b = my.Foo(x) t = Less(x, c) y = Where(t, b, x)",
    "cast like": "b = my.Foo(x) i = Constant<value_ints = [1, 2, 3, 4]>() d = CastLike(i, b) y = Add(d, x)",
    "in a sequence": "b = my.Foo(x) q = SequenceConstruct(b, b) d = ConcatFromSequence<axis = 0>(q)"
                     " e = Slice(d, zero, four) y = Sub(e, x)",
    "inserted": "q = SequenceConstruct(x) b = my.Foo(x) r = SequenceInsert(q, b) i = Constant<value_int = 1>()"
                " d = SequenceAt(r, i) y = Exp(d)",
    "in a branch": "y = If(go) <then_branch = t () => (u) { u = my.Foo(x) },"
                   " else_branch = e () => (v) { v = Add(x, c) }>",
    "both branches": "d = If(go) <then_branch = t () => (u) { u = my.Foo(x) },"
                     " else_branch = e () => (v) { v = my.Foo(c) }> y = Add(d, c)",
    "in a loop": "n = Constant<value_int = 2>() d = Loop(n, go, x) <body = b (i, on, s) => (still, r)"
                 " { still = Identity(on) r = my.Foo(s) }> y = Add(d, c)",
    "in a scan": "d, e = Scan <num_scan_inputs = 1, body = b (s, v) => (r, w)"
                 " { q = my.Foo(s) r = Add(q, v) w = my.Foo(v) }> (start, x) y = Add(d, e)",
    "in a function": "b = l.F(x) y = Add(b, c)",
    "of integers": "i = Cast<to = 7>(x) b = my.Foo(i) d = Cast<to = 1>(b) y = Add(d, c)",
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("target", [HALF, BRAIN])
@pytest.mark.parametrize("case", UNKNOWN)
def test_an_unknown_operator_keeps_its_precision(target, case):
    """It was given floats, and its users took what it returned for the other precision."""
    head = '<ir_version: 10, opset_import: ["" : 21, "my" : 1, "l" : 1]>'
    constants = "float[4] c = {1, 2, 3, 4}, int64[1] zero = {0}, int64[1] four = {4}, bool go = {1}, float start = {0}"
    function = '<domain: "l", opset_import: ["" : 21, "my" : 1]> F (a) => (b) { d = my.Foo(a) b = Neg(d) }'
    body = '<domain: "my", opset_import: ["" : 21]> Foo (a) => (b) { b = Neg(a) }'
    text = f"{head} g (float[4] x) => (float[4] y) <{constants}> {{ {UNKNOWN[case]} }}"
    document = builders.document(text + (function if "l.F" in text else ""))
    feeds = {"x": np.array([1, -2, 3, 0.5], np.float32)}
    before = outputs(with_function(document.model, body), feeds)["y"]
    report = to_precision(document, target)
    assert any("Foo is an unknown operator" in remark.text for remark in report.warnings) is (case != "of integers")
    np.testing.assert_allclose(outputs(with_function(document.model, body), feeds)["y"], before, rtol=0.02, atol=0.02)


def with_function(model, text):
    """The model with a function for the operator that it knows nothing of, which gives what it takes."""
    proto = onnx.load_from_string(to_bytes(model))
    proto.functions.add().CopyFrom(onnx.parser.parse_function(text))
    return load(proto.SerializeToString())


EPSILONS = {
    "added": "s = Add(v, e) y = Div(v, s)",
    "subtracted": "s = Sub(v, e) y = Div(v, s)",
    "dividing": "y = Div(v, e)",
    "a lower limit": "s = Max(v, e) y = Div(v, s)",
    "a limit of Clip": "s = Clip(v, f) y = Div(v, s)",
    "a Constant": "k = Constant<value = float {-1e-12}>() s = Add(v, k) y = Div(v, s)",
    "a number": "k = Constant<value_float = 1e-12>() s = Add(k, v) y = Div(v, s)",
    "expanded": "n = Shape(v) k = Expand(e, n) s = Add(v, k) y = Div(v, s)",
}


@pytest.mark.parametrize("case", EPSILONS)
def test_what_keeps_a_divisor_from_zero_does_not_become_zero(case):
    constants = "<float[1] e = {1e-12}, float f = {1e-12}>"
    document = made(17, f"g (float[4] x) => (float[4] y) {constants} {{ v = Sub(x, x) {EPSILONS[case]} }}")
    report = to_precision(document, HALF)
    found = outputs(document.model, {"x": np.ones(4, np.float32)})["y"]
    assert not found.any()  # and no NaN
    assert any("to stay apart from 0" in remark.text for remark in report.warnings)


def test_small_numbers_elsewhere_and_beside_larger_ones_become_zero():
    text = "g (float[2] x) => (float[2] y, float[2] z) <float[2] a = {1e-12, 1e-12}, float[2] b = {1.0, 1e-12}>"
    document = made(17, text + " { y = Mul(x, a) z = Add(x, b) }")
    to_precision(document, HALF)
    assert [v.initializer.numpy().tolist() for v in document.model.graph.initializers] == [[0, 0], [1, 0]]


def test_sparse_constants_are_converted():
    sparse = onnx.helper.make_sparse_tensor(
        onnx.numpy_helper.from_array(np.array([1.5, 2.5], np.float32), "w"),
        onnx.numpy_helper.from_array(np.array([0, 3]), "i"), [2, 2],
    )  # fmt: skip
    for as_node in (False, True):
        model = builders.proto("g (float[2,2] x) => (float[2,2] y) { y = MatMul(x, w) }")
        if as_node:
            model.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["w"], sparse_value=sparse))
        else:
            model.graph.sparse_initializer.add().CopyFrom(sparse)
        document = Document(load(model.SerializeToString()))
        feeds = fed(document.model)
        before = outputs(document.model, feeds)["y"]
        to_precision(document, HALF)
        np.testing.assert_allclose(outputs(document.model, feeds)["y"], before, rtol=0.02, atol=0.02)


@pytest.mark.long
@pytest.mark.parametrize("target", [HALF, BRAIN])
def test_a_weight_too_large_to_be_held_is_converted_when_it_is_read(tmp_path, monkeypatch, target):
    """Its precision changes like that of others: in the model, in a run, in a file and in what is said."""
    path = tmp_path / "model.onnx"
    numbers = np.random.default_rng(1).normal(0, 1e4, (300, 256)).astype(np.float32)
    numbers[5, 7] = 1e30
    proto = onnx.numpy_helper.from_array(numbers, "w")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Abs", ["w"], ["y"])], "g", [], [value("y", 1, [300, 256])], [proto]
    )
    opsets = [onnx.helper.make_opsetid("", 21)]
    path.write_bytes(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
    small, large = Document(load(path)), Document(load(path))
    said = to_precision(small, target)
    monkeypatch.setattr("onnx_workbench.model.convert.precision.WINDOW_TENSOR", 1 << 16)
    monkeypatch.setattr("onnx_workbench.model.ir.tensors._CONVERTED_AT_ONCE", 1000)
    assert to_precision(large, target).summary() == said.summary()
    tensors = [initializer(document) for document in (small, large)]
    assert [tensor.storage for tensor in tensors] == ["memory", "file"]
    np.testing.assert_array_equal(*(tensor.numpy() for tensor in tensors))
    np.testing.assert_array_equal(*(tensor.read(999, 2002) for tensor in tensors))
    assert to_bytes(large.model) == to_bytes(small.model)
    session = WorkerSession(large.model)
    np.testing.assert_array_equal(session.run({}).value("y"), outputs(small.model, {})["y"])
    session.close()


@pytest.mark.parametrize("some", [False, True])
def test_a_weight_that_is_an_output_keeps_its_name_and_type(some):
    document = made(21, "g (float[2] x) => (float[2] y, float[2] w) <float[2] w = {-1, 1}> { y = Mul(x, w) }", 10)
    feeds = fed(document.model)
    before = outputs(document.model, feeds)
    to_precision(document, HALF, among=list(document.model.graph.nodes) if some else None)
    onnx.checker.check_model(to_bytes(document.model), full_check=True)
    assert [(v.name, v.type.element_type) for v in document.model.graph.outputs] == [("y", FLOAT), ("w", FLOAT)]
    after = outputs(document.model, feeds)
    np.testing.assert_array_equal(after["w"], before["w"])
    np.testing.assert_allclose(after["y"], before["y"], atol=1e-2)


def test_a_file_that_a_converted_weight_is_read_from_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr("onnx_workbench.model.convert.precision.WINDOW_TENSOR", 1 << 10)
    proto = onnx.TensorProto(name="w", data_type=1, dims=[1000], data_location=1)
    proto.external_data.add(key="location", value="w.data")
    (tmp_path / "w.data").write_bytes(bytes(4000))
    value = onnx.helper.make_tensor_value_info("y", 1, [1000])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Abs", ["w"], ["y"])], "g", [], [value], [proto])
    path = tmp_path / "model.onnx"
    path.write_bytes(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)]).SerializeToString()
    )
    document = Document(load(path))
    to_precision(document, HALF)
    merged = builders.document()  # into which the weight was merged
    builders.do(merged, SetInitializer(merged.model.graph, builders.value(merged, "w"), initializer(document)))
    for model in (document.model, merged.model):
        with pytest.raises(ModelError, match="holds weights"):
            check_target(tmp_path / "w.data", "model", own=model)


def initializer(document):
    return document.model.graph.initializers[0].initializer
