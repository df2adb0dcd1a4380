"""What a body takes and returns goes together with the inputs and outputs of its node."""

from __future__ import annotations

import pytest

from model.checks import check_model
from model.edits import interface
from model.errors import ModelError
from model.steps import SetGraphOutputs, SetOutputs
from tests.model import builders
from tests.model.snapshots import assert_linked, snapshot

IF = """<ir_version: 10, opset_import: ["" : 21]> g (bool go, float[2] x) => (float[2] y)
{
    [choose] y, z = If (go) <
        then_branch: graph = then () => (float[2] a, float[2] b) { a = Neg (x) b = Abs (x) },
        else_branch: graph = other () => (float[2] c, float[2] d) { c = Abs (x) d = Neg (x) }>
}"""

LOOP = """<ir_version: 10, opset_import: ["" : 21]> g (int64 n, bool go, float[2] x, float[2] w) => (float[2] y)
{
    [loop] y, z, s, t = Loop (n, go, x, w) <body: graph = body (int64 i, bool on, float[2] a, float[2] b)
        => (bool more, float[2] c, float[2] d, float[2] e, float[2] f)
        { more = Identity (on) c = Neg (a) d = Identity (x) e = Abs (a) f = Exp (a) }>
}"""

SCAN = """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x, float[3,2] v, float[2,3] w) => (float[2] y)
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
    with document.edit("Add") as edit:
        interface.add_output(edit, body, body.inputs[2])
    assert (len(node.outputs), len(body.outputs)) == (5, 6)
    assert errors(document.model) == []


def test_what_a_scan_gives_in_addition_has_an_axis():
    document, node, body = opened(SCAN)
    with document.edit("Add") as edit:
        interface.add_output(edit, body, body.inputs[2])
    assert (len(node.outputs), node.attributes["scan_output_axes"].value) == (5, (0, 1, 0))
    assert errors(document.model) == []


def test_a_loop_is_mended_to_give_what_each_step_hands_on():
    """It was mended by taking that from its body, so that the next step got nothing."""
    document, node, body = opened(LOOP.replace("y, z, s, t", "y").replace(", float[2] e, float[2] f)", ")"))
    (problem,) = [problem for problem in check_model(document.model) if problem.severity == "error"]
    with document.edit("Mend") as edit:
        problem.fix.apply(edit)
    assert (names(body.outputs), len(node.outputs)) == (["more", "c", "d"], 2)
    assert errors(document.model) == []


def test_what_cannot_be_taken_away_is_not_offered():
    document, node, body = opened(LOOP)
    with document.edit("Take all away") as edit:
        edit.do(SetGraphOutputs(document.model.graph, ()))
        edit.do(SetOutputs(node, ()))
        edit.do(SetGraphOutputs(body, ()))
    (told,) = [problem for problem in check_model(document.model) if problem.rule == "body"]
    assert (told.message, told.fix) == ("body of loop has 0 outputs", None)


def test_an_if_gives_more_once_both_branches_return_it():
    document, node, _ = opened(IF)
    for branch, count in zip(node.bodies, (2, 3), strict=True):
        with document.edit("Add") as edit:
            interface.add_output(edit, branch, document.model.graph.inputs[1])
        assert len(node.outputs) == count
        told = [] if branch is node.bodies[1] else ["then_branch of choose has 3 outputs"]
        assert errors(document.model) == told


def test_outputs_that_no_body_gives_are_mended_where_they_are_unused():
    document, node, _ = opened(IF.replace("(float[2] a, float[2] b)", "(float[2] a)"))
    mended = [problem for problem in check_model(document.model) if problem.rule == "body"]
    assert [problem.message for problem in mended] == ["then_branch of choose has 1 outputs"]
    with document.edit("Mend") as edit:
        mended[0].fix.apply(edit)
    assert names(node.outputs) == ["y"]
    (other,) = [problem for problem in check_model(document.model) if problem.rule == "body"]  # it returns more now
    with document.edit("Mend") as edit:
        other.fix.apply(edit)
    assert errors(document.model) == []
