from collections import Counter
from dataclasses import replace

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant

from model.attributes import make_attribute
from model.checks import Checker, check_model
from model.checks.models import check_properties
from model.checks.standing import check_graph
from model.devices import DeviceConfiguration, NodeDeviceConfiguration, ShardingSpec
from model.document import Document
from model.edits import nodes, properties, values
from model.errors import ModelError
from model.graph import Function, Graph, Model, Node, TrainingInfo, Value
from model.io.read import load
from model.io.save import to_bytes
from model.lookup import Lookup
from model.steps import (
    InsertNode,
    RemoveNode,
    SetAttribute,
    SetField,
    SetGraphInputs,
    SetGraphOutputs,
    SetInitializer,
    SetInput,
    SetInputs,
    SetOutputs,
)
from model.tensors import ArrayTensor
from model.types import ElementType, MapType, SequenceType, Shape, TensorType
from tests.model import builders
from tests.model.edits.test_any_edits import AnyEdits
from tests.model.snapshots import assert_known, snapshot


def errors(model):
    return [p for p in check_model(model) if p.severity == "error"]


def rules(model):
    return [p.rule for p in errors(model)]


def test_legal_models_raise_no_false_alarm(onnx_models):
    for path in onnx_models:
        assert errors(load(path)) == [], path


def test_real_models_raise_no_false_alarm(shared_models):
    for path in sorted(shared_models.glob("*/model.onnx")):
        found = errors(load(path))
        if path.parent.name == "onnxruntime__mul_1":  # IR 3 with an initializer that is no input, as it says
            assert [p.rule for p in found] == ["initializer-input"]
        else:
            assert found == [], path


@pytest.fixture
def document():
    return builders.document()


def test_order_is_checked_and_can_be_mended(document):
    graph, node = document.model.graph, builders.node(document, "first")
    with document.edit("Move") as edit:
        edit.do(RemoveNode(node))
        edit.do(InsertNode(graph, node))
    (problem,) = errors(document.model)
    assert problem.rule == "order"
    assert problem.place is builders.node(document, "second")
    with document.edit(problem.fix.title) as edit:
        problem.fix.apply(edit)
    assert errors(document.model) == []


def test_cycles_are_named(document):
    SetInput(builders.node(document, "first"), 1, builders.value(document, "c")).apply()
    (problem,) = errors(document.model)
    assert problem.rule == "cycle"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda d: SetAttribute(builders.node(d, "fourth"), "axis", make_attribute("axis", 1.0)), "attribute-kind"),
        (lambda d: SetAttribute(builders.node(d, "fourth"), "axes", make_attribute("axes", 1)), "attribute-unknown"),
        (lambda d: SetField(builders.node(d, "second"), "op_type", "Relo"), "operator"),
        (lambda d: SetField(builders.node(d, "second"), "op_type", "Upsample"), "operator-deprecated"),
        (lambda d: SetField(builders.node(d, "second"), "domain", "com.microsoft"), "opset-import"),
        (lambda d: SetField(builders.node(d, "second"), "op_type", "Concat"), "attribute-missing"),
        (lambda d: SetField(d.model, "opset_imports", {"": 5}), None),
        (lambda d: SetField(d.model, "opset_imports", {}), "opset-import"),
        (lambda d: SetField(d.model, "ir_version", 0), "ir-version"),
        (lambda d: SetField(d.model.graph, "name", ""), "graph-name"),
        (lambda d: SetField(builders.value(d, "x"), "type", None), "interface-type"),
        (lambda d: SetField(builders.value(d, "r"), "name", "a"), "duplicate-value"),
        (lambda d: SetInput(builders.node(d, "third"), 0, None), "input-missing"),
        (lambda d: SetInputs(builders.node(d, "second"), ()), "arity"),
        (lambda d: SetInput(builders.node(d, "third"), 0, Value("ghost")), "undefined-value"),
    ],
)
def test_each_broken_rule_is_found(document, change, rule):
    change(document).apply()
    found = rules(document.model)
    if rule is None:
        assert found == []
    else:
        assert rule in found


def test_a_gelu_needs_its_opset(document):
    SetField(builders.node(document, "second"), "op_type", "Gelu").apply()
    SetField(document.model, "opset_imports", {"": 19}).apply()
    (problem,) = errors(document.model)
    assert problem.rule == "operator-version"
    assert "from version 20 on" in problem.detail


def test_types_that_disagree_are_found():
    model = builders.model("""
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[2] x, int64[2] i) => (float[2] y) { y = Add (x, i) }
    """)
    (problem,) = errors(model)
    assert problem.rule == "type"
    assert "tensor(int64)" in problem.message


def test_bodies_are_checked():
    document = builders.document(builders.BRANCHES)
    body = builders.graph(document, "yes")
    with document.edit("Return twice") as edit:
        from model.steps import SetGraphOutputs

        edit.do(SetGraphOutputs(body, ()))
    assert "body" in rules(document.model)


def test_problems_of_functions_are_found():
    document = builders.document(builders.BRANCHES)
    function = document.model.functions[0]
    constant = next(iter(function.body.nodes))
    attribute = replace(constant.attributes["value_float"], reference="nonsense")
    SetAttribute(constant, "value_float", attribute).apply()
    assert rules(document.model) == ["attribute-reference"]
    SetField(document.model, "opset_imports", {"": 21}).apply()
    assert "opset-import" in rules(document.model)


def test_every_fix_of_a_broken_model_mends_what_it_says():
    text = """
        <ir_version: 3, opset_import: ["" : 9]>
        g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}, float[2] idle = {1.0, 2.0}>
        { [n] y = Add (x, w) [n] z = Relu (x) }
    """
    document = builders.document(text)
    for _ in range(20):
        fixable = [p for p in check_model(document.model) if p.fix]
        if not fixable:
            break
        before = snapshot(document.model)
        with document.edit(fixable[0].fix.title) as edit:
            fixable[0].fix.apply(edit)
        assert fixable[0] not in check_model(document.model)
        document.undo()
        assert snapshot(document.model) == before
        document.redo()
    assert check_model(document.model) == []
    onnx.checker.check_model(onnx.parser.parse_model(builders.CHAIN))


FIRST = "g (float[2] x) => (float[2] y) { [first] y = Relu (x) }"
CALLS = """
    <ir_version: 10, opset_import: ["" : 21, "l" : 1]>
    g (float[2] x) => (float[2] y) { [call] y = l.f <scale = 2> (x) }
    <domain: "l", opset_import: ["" : 21]> f (v) => (o) { o = Abs (v) }
"""


def first(document):
    return document.model.graph.nodes[0]


def only(*changes):
    """Changes of a model of one node or call, each a function of the document that returns a step."""
    return changes


@pytest.mark.parametrize(
    ("text", "changes", "rule", "mended"),
    [
        (FIRST, only(lambda d: SetField(d.model.graph.inputs[0], "name", "")), "value-name", "Name it"),
        (
            FIRST,
            only(lambda d: SetGraphInputs(d.model.graph, d.model.graph.inputs * 2)),
            "duplicate-input",
            "List each input once",
        ),
        (
            "g (float[2] x) => (float[2] y) { [first] y = Softmax <axis = 1.0> (x) }",
            only(),
            "attribute-kind",
            "Make axis of first INT: 1",
        ),
        (
            "g (float[2] x) => (float[2] y) { [first] y = Softmax <axis = 1.5> (x) }",
            only(),
            "attribute-kind",
            None,
        ),
        (
            'g (float[1,1,4] x) => (float[1,1,4] y) { [first] y =MaxPool <kernel_shape = [1], auto_pad = "valid">(x)}',
            only(),
            "attribute-value",
            "Write auto_pad of first as VALID",
        ),
        (FIRST, only(lambda d: SetField(d.model, "ir_version", 0)), "ir-version", "Set the IR version to 4"),
        (
            FIRST,
            only(lambda d: SetOutputs(first(d), (*first(d).outputs, Value("spare")))),
            "arity",
            "Drop unused outputs of first",
        ),
        (
            FIRST,
            only(lambda d: SetField(first(d), "device_configurations", (NodeDeviceConfiguration("gone"),))),
            "device-configuration",
            "Take first out of gone",
        ),
        (
            FIRST,
            only(lambda d: SetField(d.model, "configurations", (DeviceConfiguration("c", 1, ("a", "b")),))),
            "device-configuration",
            "Say that c has 2 devices",
        ),
        (
            FIRST,
            only(
                lambda d: SetField(d.model, "configurations", (DeviceConfiguration("c", 1),)),
                lambda d: SetField(
                    first(d),
                    "device_configurations",
                    (NodeDeviceConfiguration("c", (ShardingSpec("elsewhere", (0,)),)),),
                ),
            ),
            "sharding",
            None,
        ),
        (
            CALLS,
            only(lambda d: SetInputs(first(d), (*first(d).inputs, None))),
            "arity",
            "Drop empty inputs of call",
        ),
        (CALLS, only(), "attribute-unknown", "Remove scale of call"),
        (
            CALLS,
            only(lambda d: SetField(d.model.functions[0], "attributes", ("scale", "scale"))),
            "function-attribute",
            "List each attribute of f once",
        ),
        (
            CALLS,
            only(lambda d: SetField(d.model, "functions", (*d.model.functions, Function("f", "l")))),
            "duplicate-function",
            "Remove the second f, which nothing calls",
        ),
        (
            CALLS,
            only(lambda d: SetInitializer(d.model.functions[0].body, Value("w"), ArrayTensor(np.float32([1])))),
            "initializer",
            "Make them Constant nodes",
        ),
        (CALLS, only(lambda d: SetField(d.model, "ir_version", 7)), "ir-version-contents", "Set the IR version to 8"),
        (
            FIRST,
            only(lambda d: SetField(d.model.graph.inputs[0], "type", TensorType(ElementType.FLOAT))),
            "interface-shape",
            None,
        ),
        (
            FIRST,
            only(lambda d: SetField(first(d).outputs[0], "type", TensorType(ElementType.UNDEFINED, Shape((2,))))),
            "value-type",
            None,
        ),
        (
            FIRST,
            only(
                lambda d: SetField(
                    d.model.graph.inputs[0], "type", MapType(ElementType.FLOAT, TensorType(ElementType.FLOAT))
                )
            ),
            "value-type",
            None,
        ),
        (
            FIRST,
            only(lambda d: SetField(d.model.graph.inputs[0], "type", SequenceType(None))),
            "value-type",
            None,
        ),
        (FIRST, only(lambda d: InsertNode(d.model.graph, Node("Own", (), (), domain="l"))), "arity", None),
    ],
)
def test_what_is_wrong_is_found_at_once_and_mended_where_that_is_safe(text, changes, rule, mended):
    document = builders.document(text if "<ir" in text else f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    checker = Checker(document)
    checker.run()
    for change in changes:
        with document.edit("Break") as edit:
            edit.do(change(document))
    assert_agrees(checker, document)
    found = [p for p in check_model(document.model) if p.rule == rule]
    assert found, check_model(document.model)
    if mended is None:
        assert all(p.fix is None for p in found)
        return
    before = snapshot(document.model)
    fix = found[0].fix
    with document.edit(fix.title) as edit:
        fix.apply(edit)
    assert fix.title == mended
    assert rule not in [p.rule for p in check_model(document.model)]
    assert_agrees(checker, document)
    document.undo()
    assert snapshot(document.model) == before


def test_fixes_of_one_check_do_not_undo_each_other():
    """As "Mend all" applies them: of several imports that nothing uses only the last went."""
    document = builders.document("""
        <ir_version: 3, opset_import: ["" : 21, "a" : 1, "b" : 1, "c" : 1]>
        g (float[2] x, bfloat16[2] w) => (float[2] y, bfloat16[2] v) <bfloat16[2] w = {1, 2}>
        { [first] s = l.f (x) [second] y = k.f (s) v = Neg (w) }
        <domain: "l", opset_import: ["" : 21]> f (v) => (o) { o = Abs (v) }
        <domain: "k", opset_import: ["" : 21]> f (v) => (o) { o = Abs (v) }
    """)
    gone = tuple(NodeDeviceConfiguration(name) for name in ("here", "there"))
    SetField(builders.node(document, "first"), "device_configurations", gone).apply()
    with document.edit("Mend all") as edit:
        for problem in check_model(document.model):
            if problem.fix is not None:
                problem.fix.apply(edit)
    assert check_model(document.model) == []
    assert document.model.ir_version == 8
    assert document.model.opset_imports.keys() == {"", "l", "k"}


def test_names_that_are_no_identifiers_are_told_in_one_note():
    document = builders.document('<ir_version: 10, opset_import: ["" : 21]> ' + FIRST)
    checker = Checker(document)
    assert checker.run() == []
    node = first(document)
    for target, name in ((node, "/a/b"), (node.outputs[0], "y:0"), (document.model.graph.inputs[0], "größe")):
        with document.edit("Rename") as edit:
            edit.do(SetField(target, "name", name))
    with document.edit("Measure") as edit:
        batch = TensorType(ElementType.FLOAT, Shape(("n + 1", "m")))
        edit.do(SetField(document.model.graph.inputs[0], "type", batch))
    notes = [p.message for p in checker.run()]
    assert notes == ["Sizes are named n + 1, which are no C identifiers", "3 names of g are no C identifiers"]
    assert_agrees(checker, document)
    document.undo()
    document.undo()
    assert [p.message for p in checker.run()] == ["2 names of g are no C identifiers"]
    assert_agrees(checker, document)


def test_bodies_of_old_files_list_their_constants_as_inputs():
    text = """
        <ir_version: %d, opset_import: ["" : 8]>
        g (float[2] x, bool c) => (float[2] y)
        { [choice] y = If (c) <then_branch: graph = yes () => (p) { p = Relu (x) },
            else_branch: graph = no () => (q) { q = Add (x, w) }> }
    """
    for version, expected in ((3, []), (10, ["body", "body-initializer"])):
        document = builders.document(text % version)
        body = builders.graph(document, "no")
        value = Value("w")
        user = body.nodes[0]
        with document.edit("Constant") as edit:
            edit.do(SetGraphInputs(body, (value,)))
            edit.do(SetInitializer(body, value, ArrayTensor(np.float32([1, 2]))))
            edit.do(SetInput(user, 1, value))
        assert sorted(rules(document.model)) == expected


def test_the_initialization_of_training_takes_nothing():
    graph = Graph("start")
    SetGraphInputs(graph, (Value("given", TensorType(ElementType.FLOAT, Shape(()))),)).apply()
    model = builders.model()
    SetField(model, "training_info", (TrainingInfo(initialization=graph),)).apply()
    assert "training-input" in rules(model)


def test_the_checker_keeps_up_with_edits(document):
    checker = Checker(document)
    assert [p.severity for p in checker.run() if p.severity == "error"] == []
    fourth = builders.node(document, "fourth")
    with document.edit("Break") as edit:
        edit.do(SetAttribute(fourth, "axis", make_attribute("axis", 1.0)))
    assert [p.rule for p in checker.problems if p.severity == "error"] == ["attribute-kind"]
    document.undo()
    assert [p.rule for p in checker.problems if p.severity == "error"] == []
    with document.edit("Delete") as edit:
        nodes.delete(edit, [builders.node(document, "second")])
    assert checker.finished  # what an edit touches is checked at once
    assert [p.rule for p in checker.problems if p.severity == "error"] == ["undefined-value"]
    document.undo()
    assert [p for p in checker.run() if p.severity == "error"] == []


@pytest.mark.parametrize("text", [builders.CHAIN, builders.BRANCHES])
def test_incremental_checks_agree_with_checking_anew(text):
    document = builders.document(text)
    checker = Checker(document)
    checker.run()
    first = next(iter(document.model.graph.nodes))
    steps = [
        lambda edit: values.rename_value(edit, first.outputs[0], "renamed"),
        lambda edit: nodes.duplicate(edit, [first]),
        lambda edit: edit.do(SetField(edit.model, "opset_imports", {"": 21})),
        lambda edit: edit.do(InsertNode(edit.model.graph, Node("Relu", (None,), (Value("lost"),)))),
        lambda edit: nodes.delete(edit, [first]),
    ]
    for step in steps:
        with document.edit("Step") as edit:
            step(edit)
        expected = {(p.rule, p.message) for p in check_model(document.model)}
        assert {(p.rule, p.message) for p in checker.run()} == expected
    while document.undo():
        expected = {(p.rule, p.message) for p in check_model(document.model)}
        assert {(p.rule, p.message) for p in checker.run()} == expected


def test_an_import_that_only_a_training_graph_needs_is_used():
    step = Graph("step")
    InsertNode(step, Node("Adam", (), (Value("v"),), domain="ai.onnx.preview.training")).apply()
    model = builders.model()
    training = TrainingInfo(algorithm=step)
    SetField(model, "training_info", (training,)).apply()
    SetField(model, "opset_imports", {"": 21, "ai.onnx.preview.training": 1}).apply()
    assert "unused-import" not in [p.rule for p in check_model(model)]
    SetField(model, "opset_imports", {"": 21, "ai.onnx.preview.training": 1, "ai.onnx.ml": 3}).apply()
    assert "unused-import" in [p.rule for p in check_model(model)]


OUTER_AND_BODIES = """
    <ir_version: 10, opset_import: ["" : 21, "l" : 1]>
    g (float[2] x, bool c) => (float[2] y) <float[2] w = {1.0, 2.0}>
    {
        [kept] a = Relu (x)
        [outer] b = Neg (a)
        [choice] y = If (c) <
            then_branch: graph = yes () => (p) { [inner] p = Add (b, w) },
            else_branch: graph = no () => (q) { [other] q = l.f (a) }
        >
    }
    <domain: "l", opset_import: ["" : 21]> f (v) => (o) { [within] o = Abs (v) }
"""


@pytest.mark.parametrize(
    "change",
    [
        lambda d, edit: edit.do(SetInput(builders.node(d, "inner"), 1, builders.value(d, "b"))),
        lambda d, edit: (
            edit.do(SetInput(builders.node(d, "inner"), 0, builders.value(d, "w"))),
            edit.do(SetField(d.model.functions[0].body.nodes[0], "op_type", "Abbs")),
        ),
        lambda d, edit: (
            edit.do(RemoveNode(builders.node(d, "outer"))),
            edit.do(SetField(d.model.functions[0].body.nodes[0], "op_type", "Abbs")),
        ),
        lambda d, edit: (
            edit.do(SetField(d.model, "opset_imports", {"": 21})),
            edit.do(SetField(d.model.functions[0].body.nodes[0], "op_type", "Neg")),
        ),
        lambda d, edit: (
            edit.do(SetField(d.model.functions[0], "opset_imports", {})),
            edit.do(SetField(builders.node(d, "kept"), "op_type", "Neg")),
        ),
        lambda d, edit: edit.do(SetField(builders.node(d, "inner").outputs[0], "name", "a")),
        lambda d, edit: edit.do(SetField(builders.value(d, "a"), "name", "q")),
    ],
    ids=["unused outside", "dead outside", "removed", "imports", "imports of a function", "hidden", "hiding"],
)
def test_what_an_edit_makes_wrong_elsewhere_is_found(change):
    document = builders.document(OUTER_AND_BODIES)
    checker = Checker(document)
    assert checker.run() == []
    with document.edit("Change") as edit:
        change(document, edit)
    expected = {(p.rule, p.message) for p in check_model(document.model)}
    assert expected
    assert {(p.rule, p.message) for p in checker.run()} == expected
    document.undo()
    assert checker.run() == []


def test_a_node_named_for_a_cycle_is_on_it():
    graph = Graph("g")
    first, second, after = (Node("Relu", (None,), (Value(n),), name=n) for n in "abc")
    for node in (after, first, second):
        InsertNode(graph, node).apply()
    SetInput(after, 0, second.outputs[0]).apply()
    SetInput(first, 0, second.outputs[0]).apply()
    SetInput(second, 0, first.outputs[0]).apply()
    SetGraphOutputs(graph, (after.outputs[0],)).apply()
    (cycle,) = [p for p in check_model(Model(graph, opset=21)) if p.rule == "cycle"]
    assert cycle.place in (first, second)


def test_the_checker_breathes_on_a_large_graph():
    graph = Graph("g")
    value = Value("x", None, graph)
    for number in range(5000):
        node = Node("Relu", (value,), (Value(f"v{number}"),), name=f"n{number}")
        InsertNode(graph, node).apply()
        value = node.outputs[0]
    SetGraphOutputs(graph, (value,)).apply()
    breaths = sum(problem is None for problem in check_graph(graph, Model(graph, opset=21)))
    assert breaths >= 4 * 5000 // 64  # names of values and of nodes, the rules of each node, dead nodes


def test_an_edit_before_the_first_check_walks_over_nothing():
    document = builders.document()
    checker = Checker(document)
    with document.edit("Rename") as edit:
        edit.do(SetField(builders.node(document, "first"), "name", "renamed"))
    assert Lookup.made(document.model.graph) is None
    checker.run()
    assert Lookup.made(document.model.graph) is not None


def test_bodies_that_come_and_go_are_checked_and_forgotten():
    document = builders.document(builders.BRANCHES)
    checker = Checker(document)
    checker.run()
    holder = next(n for n in document.model.graph.nodes if n.bodies)
    body = holder.bodies[0]
    with document.edit("Break") as edit:
        edit.do(InsertNode(body, Node("Relu", (), (Value("lonely"),), name="lonely")))
    assert any(p.place.name == "lonely" for p in checker.run() if isinstance(p.place, Node))
    with document.edit("Remove") as edit:
        edit.do(RemoveNode(holder))
    assert not any(p.place.name == "lonely" for p in checker.run() if isinstance(p.place, Node))
    document.undo()
    assert any(p.place.name == "lonely" for p in checker.run() if isinstance(p.place, Node))


def listing(problems):
    """Problems to compare: what is said of which object, in any order."""
    return Counter((p.rule, p.severity, p.message, p.detail, id(p.place)) for p in problems)


def assert_agrees(checker, document):
    assert listing(checker.run()) == listing(check_model(document.model))


def test_a_node_without_wires_is_forgotten_with_its_problems(document):
    checker = Checker(document)
    checker.run()
    with document.edit("Insert") as edit:
        edit.do(InsertNode(document.model.graph, Node("NoSuch", (), (), name="lonely")))
    assert "operator" in [p.rule for p in checker.run()]
    document.undo()
    assert_agrees(checker, document)


def test_an_order_that_an_edit_mends_and_asks_about_is_no_problem_any_more(document):
    graph, node = document.model.graph, builders.node(document, "first")
    after = node.next
    checker = Checker(document)
    with document.edit("Last") as edit:
        edit.do(RemoveNode(node))
        edit.do(InsertNode(graph, node))
    assert "order" in [p.rule for p in checker.run()]
    with document.edit("First") as edit:
        edit.do(RemoveNode(node))
        edit.do(InsertNode(graph, node, after))
        assert Lookup.of(graph).is_sorted  # as connecting asks
    assert_agrees(checker, document)


def test_an_edit_of_very_many_values_is_checked_in_bodies_too():
    document = builders.document(OUTER_AND_BODIES)
    graph, body = document.model.graph, builders.graph(document, "yes")
    floats = TensorType(ElementType.FLOAT)
    with document.edit("Many") as edit:
        many = [Value(f"x{number}", floats) for number in range(500)]
        edit.do(SetGraphInputs(graph, (*graph.inputs, *many)))
        for value in many:
            edit.do(InsertNode(body, Node("Add", (value, value), (Value(f"{value.name} sum"),))))
    checker = Checker(document)
    checker.run()
    with document.edit("Strings") as edit:
        for value in many:
            edit.do(SetField(value, "type", TensorType(ElementType.STRING)))
    assert_agrees(checker, document)
    assert sum(p.rule == "type" for p in checker.problems) >= 500


def with_many_nodes(text=builders.BRANCHES):
    document = builders.document(text)
    graph = document.model.graph
    with document.edit("Many") as edit:
        for number in range(2000):
            edit.do(InsertNode(graph, Node("Relu", (graph.inputs[0],), (Value(f"v{number}"),), name=f"n{number}")))
    return document


def test_names_that_come_while_a_body_is_first_checked_are_known():
    document = with_many_nodes()
    graph, checker = document.model.graph, Checker(document)
    checker.work(0.001)
    for name in ("one", "two", "three"):  # each edit makes the checker begin elsewhere in the tree
        with document.edit("Insert") as edit:
            edit.do(InsertNode(graph, Node("Relu", (graph.inputs[0],), (Value(name),), name=name), graph.nodes[0]))
        checker.work(0.001)
    checker.run()
    assert_known(document.model)


def test_a_body_that_goes_while_it_is_checked_is_forgotten():
    document = builders.document(builders.BRANCHES)
    graph, checker = document.model.graph, Checker(document)
    checker.run()
    (holder,) = (node for node in graph.nodes if node.bodies)
    with document.edit("Break") as edit:
        for number in range(5000):
            edit.do(InsertNode(holder.bodies[0], Node("NoSuch", (), (Value(f"w{number}"),))))
    assert not checker.work(0.003)
    with document.edit("Remove") as edit:
        edit.do(RemoveNode(holder))
    assert_agrees(checker, document)


def test_the_checker_breathes_when_a_domain_seems_unused():
    document = with_many_nodes()
    SetField(document.model, "opset_imports", {"": 21, "local": 1, "ai.onnx.ml": 3}).apply()
    assert sum(problem is None for problem in check_properties(document.model)) >= 2000 // 64


def test_functions_that_call_each_other_are_found_in_chains_too():
    header = '<domain: "l", opset_import: ["" : 21, "l" : 1]>'
    main = '<ir_version: 10, opset_import: ["" : 21, "l" : 1]> g (float[2] x) => (float[2] y) { y = l.f0 (x) }'
    chain = "".join(f"{header} f{n} (v) => (o) {{ o = l.f{n + 1} (v) }}\n" for n in range(50))
    ends = f"{header} f50 (v) => (o) {{ o = Abs (v) }}"
    returns = f"{header} f50 (v) => (o) {{ o = l.f48 (v) }}"
    assert errors(builders.model(main + chain + ends)) == []
    assert {p.place.name for p in errors(builders.model(main + chain + returns))} == {f"f{n}" for n in range(51)}


class CheckedEdits(AnyEdits):
    """Whatever a person does, the checker knows what checking everything anew finds."""

    def opened(self):
        self.checker = Checker(self.document)
        self.checker.run()

    @invariant()
    def knows_every_problem(self):
        assert_agrees(self.checker, self.document)


WRONG = [
    """
        <ir_version: 3, opset_import: ["" : 9]>
        g (float[2] x) => (float[2] y, float[2] nowhere) <float[2] w = {1.0, 2.0}, float[2] idle = {1.0, 2.0}>
        { [n] y = Add (x, w) [n] z = Relu (x) [late] t = Neg (u) [m] u = Neg (t) [n] y = Relu (ghost) }
    """,
    """
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[2] x, bool c) => (float[2] y)
        {
            [late] t = Neg (u) [m] u = Neg (x)
            [choice] y = If (c) <
                then_branch: graph = yes () => (p) { [first] p = Add (q, w) [second] q = Neg (t) },
                else_branch: graph = no () => (t) { }
            >
        }
    """,
]


class CheckedRepairs(CheckedEdits):
    """The same, beginning with models that break rules."""

    @initialize(text=st.sampled_from(WRONG))
    def open(self, text):
        self.document = builders.document(text)
        self.states = {0: snapshot(self.document.model)}
        self.fragment = None
        self.opened()


TestCheckedRepairs = CheckedRepairs.TestCase
TestCheckedRepairs.settings = settings(stateful_step_count=25, max_examples=40)

TestCheckedEdits = CheckedEdits.TestCase
TestCheckedEdits.settings = settings(stateful_step_count=25)


def test_what_stands_alone_in_its_file_lacks_nothing_that_the_file_cannot_have(tmp_path):
    add = onnx.helper.make_node("Add", ["x", "x"], ["y"])
    function = onnx.helper.make_function("my.domain", "Twice", ["x"], ["y"], [add], [onnx.helper.make_opsetid("", 18)])
    tensor = onnx.numpy_helper.from_array(np.zeros((2, 3), np.float32))
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy"]
    graph = onnx.helper.make_graph([add], "g", ends[:1], ends[1:])
    for name, part in {"function": function, "tensor": tensor, "node": add, "graph": graph}.items():
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(part.SerializeToString())
        model = load(path)
        document = Document(model)
        checker = Checker(document)
        assert check_model(model) == checker.run() == [], name
        with document.edit("Say what the model is for") as edit:
            edit.do(SetField(model, "doc_string", "Doubles."))  # only a whole model has one
        assert checker.run() == check_model(model), name
        assert {p.rule for p in checker.problems} >= {"opset-import"}, name


def test_a_lone_function_must_import_what_its_nodes_need(tmp_path):
    node = onnx.helper.make_node("Other", ["x"], ["y"], domain="elsewhere")
    function = onnx.helper.make_function("my.domain", "Twice", ["x"], ["y"], [node], [onnx.helper.make_opsetid("", 18)])
    (tmp_path / "f.onnx").write_bytes(function.SerializeToString())
    model = load(tmp_path / "f.onnx")
    assert [(p.rule, p.place) for p in check_model(model) if p.severity == "error"] == [
        ("opset-import", model.functions[0].body.nodes.first)
    ]


def test_an_unused_constant_says_what_it_takes_where_that_is_known():
    document = builders.document("""
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[2] x) => (float[2] y)
    <float[2] numbers = {1, 2}, string[2] texts = {"a", "b"}>
    { y = Relu (x) }
    """)
    found = [(p.message, p.detail) for p in check_model(document.model)]
    assert found == [("Initializer numbers is not used", "8 bytes."), ("Initializer texts is not used", "")]


def test_of_two_versions_of_an_operator_set_the_highest_counts():
    """As the specification binds nodes; 18 stood after 21 and was taken."""
    proto = onnx.parser.parse_model(builders.CHAIN)
    highest = proto.opset_import[0].version
    proto.opset_import.add(domain="", version=highest - 3)
    model = load(proto.SerializeToString())
    assert model.opset_imports[""] == highest
    assert to_bytes(model) == proto.SerializeToString()


TRAINED = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[2] x) => (float[2] y, float[2] kept) <float[2] w = {1, 2}> { y = Add (x, w) kept = Neg (y) }
"""


def test_an_update_may_take_an_output_of_the_main_graph():
    """As the specification says; it was an error, and renaming the output did not follow."""
    document = builders.document(TRAINED)
    model = document.model
    with document.edit("Train") as edit:
        properties.add_training(edit, TrainingInfo(Graph("initialization"), Graph("algorithm")))
        properties.set_bindings(edit, model.training_info[0], update={"w": "kept"})
    assert errors(model) == []
    with document.edit("Rename") as edit:
        values.rename_value(edit, builders.value(document, "kept"), "again")
    assert model.training_info[0].update_binding == (("w", "again"),)
    assert errors(model) == []
    with document.edit("Initialize") as edit, pytest.raises(ModelError, match="No output 'again'"):
        properties.set_bindings(edit, model.training_info[0], initialization={"w": "again"})


def test_two_training_steps_that_update_one_variable_are_found():
    document = builders.document(TRAINED)
    with document.edit("Train twice") as edit:
        for output in ("kept", "y"):
            training = TrainingInfo(Graph("initialization"), Graph("algorithm"))
            properties.add_training(edit, training)
            properties.set_bindings(edit, training, update={"w": output})
    assert [p.message for p in errors(document.model)] == ["Several training steps update w"]


@pytest.mark.parametrize(("opset", "count"), [(9, 1), (9, 2), (9, 4), (9, 5), (15, 1), (15, 2), (15, 3)])
def test_batch_normalization_gives_all_of_its_statistics_or_none(opset, count):
    """As the onnx package has it, which refuses numbers of outputs in between."""
    names = ["y", "mean", "var", "saved_mean", "saved_var"][:count]
    node = onnx.helper.make_node("BatchNormalization", list("xsbmv"), names, training_mode=1)
    if opset < 14:
        del node.attribute[:]
    tensors = [onnx.helper.make_tensor_value_info(name, 1, [2, 2] if name == "x" else [2]) for name in "xsbmv"]
    outputs = [onnx.helper.make_tensor_value_info("y", 1, [2, 2])]
    graph = onnx.helper.make_graph([node], "g", tensors, outputs)
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError:
        assert "arity" in rules(load(proto.SerializeToString()))
    else:
        assert "arity" not in rules(load(proto.SerializeToString()))
