"""What a body takes and returns goes together with the inputs and outputs of its node."""

from __future__ import annotations

import pytest

from onnx_workbench.model.checks import check_model
from onnx_workbench.model.edits import interface
from onnx_workbench.model.edits.constants import add_constant
from onnx_workbench.model.edits.values import connect
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetGraphInputs, SetGraphOutputs, SetOutputs
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.text.types import parse_type
from tests.model import builders
from tests.model.snapshots import assert_linked, snapshot

IF = """g (bool go, float[2] x) => (float[2] y)
{
    [choose] y, z = If (go) <
        then_branch: graph = then () => (float[2] a, float[2] b) { a = Neg (x) b = Abs (x) },
        else_branch: graph = other () => (float[2] c, float[2] d) { c = Abs (x) d = Neg (x) }>
}"""

LOOP = """g (int64 n, bool go, float[2] x, float[2] w) => (float[2] y)
{
    [loop] y, z, s, t = Loop (n, go, x, w) <body: graph = body (int64 i, bool on, float[2] a, float[2] b)
        => (bool more, float[2] c, float[2] d, float[2] e, float[2] f)
        { more = Identity (on) c = Neg (a) d = Identity (x) e = Abs (a) f = Exp (a) }>
}"""

SCAN = """g (float[2] x, float[3,2] v, float[2,3] w) => (float[2] y)
{
    [scan] y, z, s, t = Scan (x, x, v, w) <num_scan_inputs = 2, scan_input_axes = [0, 1], scan_output_axes = [0, 1],
        body: graph = body (float[2] a, float[2] b, float[2] p, float[2] q)
        => (float[2] c, float[2] d, float[2] e, float[2] f)
        { c = Neg (a) d = Identity (x) e = Abs (p) f = Exp (p) }>
}"""


def opened(text):
    document = builders.document(text)
    node = document.model.graph.nodes.first
    return document, node, node.bodies[0]


def names(values):
    return [value.name for value in values]


def errors(model):
    return [problem.message for problem in check_model(model) if problem.severity == "error"]


def remove(document, graph, name, side="outputs"):
    """Remove an input or output of a graph, and see that it is undone whole."""
    before = snapshot(document.model)
    value = next(v for v in getattr(graph, side) if v.name == name)
    with document.edit("Remove") as edit:
        (interface.remove_outputs if side == "outputs" else interface.remove_inputs)(edit, graph, [value])
    assert_linked(document.model)
    document.undo()
    assert snapshot(document.model) == before
    document.redo()
    assert errors(document.model) == []


def test_an_if_loses_an_output_with_both_branches():
    document, node, then = opened(IF)
    remove(document, then, "b")
    assert (names(node.outputs), [names(branch.outputs) for branch in node.bodies]) == (["y"], [["a"], ["c"]])


@pytest.mark.parametrize(("text", "name"), [(IF, "a"), (LOOP, "c"), (SCAN, "c")])
def test_what_is_used_outside_stays(text, name):
    document, _, body = opened(text)
    before = snapshot(document.model)
    value = next(v for v in body.outputs if v.name == name)
    with pytest.raises(ModelError, match="is used"), document.edit("Remove") as edit:
        interface.remove_output(edit, body, value)
    assert snapshot(document.model) == before


def test_what_a_loop_collects_goes_with_the_output_of_its_node():
    document, node, body = opened(LOOP)
    remove(document, body, "e")
    assert (names(node.outputs), names(body.outputs)) == (["y", "z", "t"], ["more", "c", "d", "f"])
    assert len(node.inputs) == len(body.inputs) == 4


@pytest.mark.parametrize(("side", "name"), [("outputs", "d"), ("inputs", "b")])
def test_what_a_loop_carries_goes_on_all_sides(side, name):
    document, node, body = opened(LOOP)
    remove(document, body, name, side)
    assert (names(node.outputs), names(node.inputs)) == (["y", "s", "t"], ["n", "go", "x"])
    assert (names(body.outputs), names(body.inputs)) == (["more", "c", "e", "f"], ["i", "on", "a"])


@pytest.mark.parametrize(("side", "name"), [("outputs", "more"), ("inputs", "i")])
def test_what_every_loop_has_stays(side, name):
    document, _, body = opened(LOOP)
    with pytest.raises(ModelError, match="The body of loop must"):
        remove(document, body, name, side)


def test_what_a_scan_collects_goes_with_its_axis():
    document, node, body = opened(SCAN)
    remove(document, body, "e")
    assert (names(node.outputs), node.attributes["scan_output_axes"].value) == (["y", "z", "t"], (1,))


def test_what_a_scan_takes_goes_with_its_axis_and_is_counted():
    document, node, body = opened(SCAN)
    remove(document, body, "q", "inputs")
    assert (names(node.inputs), names(body.inputs)) == (["x", "x", "v"], ["a", "b", "p"])
    assert (node.attributes["num_scan_inputs"].value, node.attributes["scan_input_axes"].value) == (1, (0,))


def test_what_a_scan_carries_goes_on_all_sides():
    document, node, body = opened(SCAN)
    remove(document, body, "b", "inputs")
    assert (names(node.outputs), names(node.inputs)) == (["y", "s", "t"], ["x", "v", "w"])
    assert (names(body.outputs), names(body.inputs)) == (["c", "e", "f"], ["a", "p", "q"])


def test_a_node_gives_what_its_body_returns_in_addition():
    document, node, body = opened(LOOP)
    builders.one_edit(document, interface.add_output, body, body.inputs[2])
    assert (len(node.outputs), len(body.outputs)) == (5, 6)
    assert errors(document.model) == []


def test_what_a_scan_gives_in_addition_has_an_axis():
    document, node, body = opened(SCAN)
    builders.one_edit(document, interface.add_output, body, body.inputs[2])
    assert (len(node.outputs), node.attributes["scan_output_axes"].value) == (5, (0, 1, 0))
    assert errors(document.model) == []


def test_a_loop_is_fixed_to_give_what_each_step_hands_on():
    """It was fixed by taking that from its body, so that the next step got nothing."""
    document, node, body = opened(LOOP.replace("y, z, s, t", "y").replace(", float[2] e, float[2] f)", ")"))
    (problem,) = [problem for problem in check_model(document.model) if problem.severity == "error"]
    builders.one_edit(document, problem.fix.apply)
    assert (names(body.outputs), len(node.outputs)) == (["more", "c", "d"], 2)
    assert errors(document.model) == []


def test_what_cannot_be_taken_away_is_not_offered():
    document, node, body = opened(LOOP)
    with document.edit("Take all away") as edit:
        edit.do(SetGraphOutputs(document.model.graph, ()))
        edit.do(SetOutputs(node, ()))
        edit.do(SetGraphOutputs(body, ()))
    (report,) = [problem for problem in check_model(document.model) if problem.rule == "body"]
    assert (report.message, report.fix) == ("body of loop has 0 outputs", None)


def test_an_if_gives_more_once_both_branches_return_it():
    document, node, _ = opened(IF)
    for branch, count in zip(node.bodies, (2, 3), strict=True):
        builders.one_edit(document, interface.add_output, branch, document.model.graph.inputs[1])
        assert len(node.outputs) == count
        report = [] if branch is node.bodies[1] else ["then_branch of choose has 3 outputs"]
        assert [error for error in errors(document.model) if "a value of an outer graph" not in error] == report


def test_outputs_that_no_body_gives_are_fixed_where_they_are_unused():
    document, node, _ = opened(IF.replace("(float[2] a, float[2] b)", "(float[2] a)"))
    fixed = [problem for problem in check_model(document.model) if problem.rule == "body"]
    assert [problem.message for problem in fixed] == ["then_branch of choose has 1 outputs"]
    builders.one_edit(document, fixed[0].fix.apply)
    assert names(node.outputs) == ["y"]
    (other,) = [problem for problem in check_model(document.model) if problem.rule == "body"]  # it returns more now
    builders.one_edit(document, other.fix.apply)
    assert errors(document.model) == []


def fix(document, message):
    """Apply the fix of the one error there is, and see that it is undone whole."""
    (problem,) = [problem for problem in check_model(document.model) if problem.severity == "error"]
    assert problem.message == message
    before = snapshot(document.model)
    with document.edit(problem.fix.title) as edit:
        problem.fix.apply(edit)
    assert_linked(document.model)
    document.undo()
    assert snapshot(document.model) == before
    document.redo()
    return problem.fix.title


def add_input(document, body, name, kind=None):
    before = snapshot(document.model)
    value = builders.one_edit(document, interface.add_input, body, name, parse_type(kind) if kind else None)
    assert_linked(document.model)
    document.undo()
    assert snapshot(document.model) == before
    document.redo()
    return value


def test_an_added_loop_state_is_handed_on_and_starts_at_zero():
    document, node, body = opened(LOOP)
    add_input(document, body, "k", "float[3]")
    assert (names(body.inputs), len(node.inputs)) == (["i", "on", "a", "b", "k"], 5)
    assert names(body.outputs) == ["more", "c", "d", "k", "e", "f"]
    kept = [value.name for value in node.outputs]
    assert (kept[:2], kept[3:]) == (["y", "z"], ["s", "t"])
    assert fix(document, "Input 4 of loop is not connected") == "Initialize k of loop with zeros"
    assert errors(document.model) == []
    assert node.inputs[4].initializer.numpy().tolist() == [0, 0, 0]


@pytest.mark.parametrize("kind", [None, "float[n]", "seq(float[2])", "float[100000,100000]"])
def test_a_loop_that_begins_with_nobody_knows_what_is_not_fixed(kind):
    document, _, body = opened(LOOP)
    add_input(document, body, "k", kind)
    (report,) = [problem for problem in check_model(document.model) if problem.severity == "error"]
    assert (report.rule, report.fix) == ("input-missing", None)


def test_what_a_scan_takes_in_addition_is_counted_and_has_an_axis():
    document, node, body = opened(SCAN)
    add_input(document, body, "r", "float[2]")
    assert (len(node.inputs), len(node.outputs), len(body.outputs)) == (5, 4, 4)
    assert node.attributes["num_scan_inputs"].value == 3
    assert node.attributes["scan_input_axes"].value == (0, 1, 0)
    (report,) = [problem for problem in check_model(document.model) if problem.severity == "error"]
    assert (report.message, report.fix) == ("Input 4 of scan is not connected", None)
    builders.one_edit(document, connect, node, 4, document.model.graph.inputs[2])
    assert errors(document.model) == []


def test_a_branch_of_an_if_takes_nothing():
    document, node, then = opened(IF)
    add_input(document, then, "k")
    assert len(node.inputs) == 1
    assert fix(document, "then_branch of choose has 1 inputs") == "Remove the inputs k, which the node does not pass"
    assert errors(document.model) == []


def test_constants_of_a_loop_that_become_inputs_come_to_its_node():
    document, node, body = opened(LOOP)
    with document.edit("Turn") as edit:
        interface.initializer_to_input(edit, body, add_constant(edit, body, "k: float[3]"))
    fix(document, "Input 4 of loop is not connected")
    assert errors(document.model) == []
    assert (len(node.inputs), len(node.outputs), len(body.outputs)) == (5, 5, 6)


PLAIN = """g (int64 n, bool go, float[2] x, float[2] w) => (float[2] y)
{
    [loop] y = Loop (n, go, x) <body: graph = body (int64 i, bool on, float[2] a) => (bool more, float[2] c)
        { more = Identity (on) c = Neg (a) }>
}"""


def test_a_body_takes_what_its_loop_is_given_in_addition():
    document, node, body = opened(PLAIN)
    builders.one_edit(document, connect, node, 3, document.model.graph.inputs[3])
    fix(document, "body of loop has 3 inputs")
    assert errors(document.model) == []
    assert (names(body.inputs), names(body.outputs)) == (["i", "on", "a", "w_1"], ["more", "c", "w_1"])
    assert str(body.inputs[3].type) == "float[2]"
    assert names(node.outputs)[0] == "y"
    assert len(node.outputs) == 2


def test_a_body_short_of_an_input_takes_the_next_state():
    document, node, body = opened(LOOP)
    builders.one_edit(document, connect, node, 4, document.model.graph.inputs[3])
    add_input(document, body, "k")
    assert (len(body.inputs), len(node.inputs), names(body.outputs)) == (5, 5, ["more", "c", "d", "e", "f"])


def test_a_loop_that_gives_less_than_it_hands_on_is_not_guessed_at():
    document, node, body = opened(LOOP.replace("y, z, s, t =", "y =").replace(", float[2] e, float[2] f)", ")"))
    builders.do(document, SetGraphOutputs(body, body.outputs[:2]))
    add_input(document, body, "k")
    assert (len(body.inputs), len(node.inputs), names(body.outputs), len(node.outputs)) == (5, 5, ["more", "c"], 1)


def test_a_body_that_collects_values_too_is_not_guessed_at():
    document, node, _ = opened(LOOP)
    builders.one_edit(document, connect, node, 4, document.model.graph.inputs[3])
    (report,) = [problem for problem in check_model(document.model) if problem.severity == "error"]
    assert (report.message, report.fix) == ("body of loop has 4 inputs", None)
    assert "Add inputs to the body" in report.detail


def test_a_loop_body_short_of_outputs_is_reported_and_fixed():
    document, node, body = opened(PLAIN)
    with document.edit("Take one more") as edit:
        connect(edit, node, 3, document.model.graph.inputs[3])
        edit.do(SetGraphInputs(body, (*body.inputs, Value("k"))))
    fix(document, "body of loop has 2 outputs")
    assert errors(document.model) == []
    assert (names(body.outputs), len(node.outputs)) == (["more", "c", "k"], 2)


def test_used_body_inputs_without_a_source_must_be_connected():
    document, node, _ = opened(LOOP.replace("(n, go, x, w)", "(n, go, x)").replace("f = Exp (a)", "f = Exp (b)"))
    (report,) = [problem for problem in check_model(document.model) if problem.rule == "body"]
    assert (report.fix, report.detail) == (None, "Loop expects 3. Connect b as input 3 of loop.")
    builders.one_edit(document, connect, node, 3, document.model.graph.inputs[3])
    assert errors(document.model) == []
