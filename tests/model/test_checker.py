"""The checker knows after any edits what checking everything anew finds."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant

from onnx_workbench.model.checks import Checker, check_model
from onnx_workbench.model.edits import nodes, values
from onnx_workbench.model.history.steps import (
    InsertNode,
    RemoveNode,
    SetAttribute,
    SetField,
    SetGraphInputs,
    SetInput,
)
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.model.progress import Cancelled, Progress
from tests.examples import examples
from tests.model import builders
from tests.model.checking import assert_agrees
from tests.model.edits.test_any_edits import AnyEdits
from tests.model.snapshots import snapshot


def test_the_checker_keeps_up_with_edits():
    document = builders.document()
    checker = Checker(document)
    assert [p.severity for p in checker.run() if p.severity == "error"] == []
    fourth = builders.node(document, "fourth")
    builders.do(document, SetAttribute(fourth, "axis", make_attribute("axis", 1.0)))
    assert [p.rule for p in checker.problems if p.severity == "error"] == ["attribute-kind"]
    document.undo()
    assert [p.rule for p in checker.problems if p.severity == "error"] == []
    builders.one_edit(document, nodes.delete, [builders.node(document, "second")])
    assert not checker.finished  # only what an edit touches is checked at once
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
        builders.one_edit(document, step)
        expected = {(p.rule, p.message) for p in check_model(document.model)}
        assert {(p.rule, p.message) for p in checker.run()} == expected
    while document.undo():
        expected = {(p.rule, p.message) for p in check_model(document.model)}
        assert {(p.rule, p.message) for p in checker.run()} == expected


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


class CountedChecks(Progress):
    """Counts the calls of `check`, and is cancelled after the last one."""

    def __init__(self, last=None):
        super().__init__()
        self.count, self.last = 0, last

    def check(self):
        self.count += 1
        super().check()
        if self.count == self.last:
            self.cancel()


def test_a_cancelled_check_ends_soon_and_resumes_where_it_was():
    document = with_many_nodes()
    checker = Checker(document)
    check_model(document.model)  # which makes the index of names
    whole = CountedChecks()
    Checker(document).find(whole)
    assert whole.count >= 8 * 2000 // 256  # names, sizes, nodes …: an edit waits for the next one
    for last in range(1, whole.count - 1, 5):
        with pytest.raises(Cancelled):
            checker.find(CountedChecks(last))
    assert_agrees(checker, document)


def test_bodies_that_come_and_go_are_checked_and_forgotten():
    document = builders.document(builders.BRANCHES)
    checker = Checker(document)
    checker.run()
    holder = next(n for n in document.model.graph.nodes if n.bodies)
    body = holder.bodies[0]
    builders.do(document, InsertNode(body, Node("Relu", (), (Value("lonely"),), name="lonely")))
    assert any(p.place.name == "lonely" for p in checker.run() if isinstance(p.place, Node))
    builders.do(document, RemoveNode(holder))
    assert not any(p.place.name == "lonely" for p in checker.run() if isinstance(p.place, Node))
    document.undo()
    assert any(p.place.name == "lonely" for p in checker.run() if isinstance(p.place, Node))


def test_a_node_without_wires_is_forgotten_with_its_problems():
    document = builders.document()
    checker = Checker(document)
    checker.run()
    builders.do(document, InsertNode(document.model.graph, Node("NoSuch", (), (), name="lonely")))
    assert "operator" in [p.rule for p in checker.run()]
    document.undo()
    assert_agrees(checker, document)


def test_an_odd_name_left_only_in_bodies_is_not_the_graphs():
    document = builders.document(OUTER_AND_BODIES)
    checker = Checker(document)
    outer, first = builders.node(document, "outer"), builders.node(document, "kept")
    with document.edit("Odd names") as edit:
        values.rename_value(edit, outer.outputs[0], "<b>")
        nodes.rename_node(edit, first, "<b>")
    assert_agrees(checker, document)
    builders.one_edit(document, nodes.delete, [outer])
    builders.one_edit(document, nodes.rename_node, first, "fine")
    assert_agrees(checker, document)


def test_an_order_that_an_edit_fixes_is_no_problem_any_more():
    document = builders.document()
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


def test_an_edit_of_thousands_of_steps_is_checked_when_there_is_time():
    document = builders.document()
    checker = Checker(document)
    before = checker.run()
    node = document.model.graph.nodes.first
    with document.edit("Much") as edit:
        for count in range(6000):
            edit.do(SetField(node, "doc_string", f"{count}"))
        edit.do(SetField(node, "op_type", "Nope"))
    assert not checker.finished
    assert "operator" in [p.rule for p in checker.run()]
    document.undo()
    assert not checker.finished
    assert checker.run() == before
    assert_agrees(checker, document)


class CheckedEdits(AnyEdits):
    """Whatever a user does, the checker knows what checking everything anew finds."""

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
TestCheckedRepairs = pytest.mark.long(TestCheckedRepairs)
TestCheckedRepairs.settings = settings(stateful_step_count=25, max_examples=examples(40))

TestCheckedEdits = CheckedEdits.TestCase
TestCheckedEdits = pytest.mark.long(TestCheckedEdits)
TestCheckedEdits.settings = settings(stateful_step_count=25)
