"""Steps that are more than one field: what they leave behind, and what taking them back restores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.model.edits import nodes
from onnx_workbench.model.history.steps import MoveUses
from onnx_workbench.model.ir.graph import Value
from tests.model import builders
from tests.model.snapshots import assert_known, assert_linked, snapshot

SHARED = """
shared (float[4] x, bool flag) => (float[4] s, float[4] y)
{
    [maker] s = Relu (x)
    [plain] a = Neg (s)
    [twice] b = Add (s, a)
    [thrice] c = Sum (s, b, s, s)
    [choose] z = If (flag) <
        then_branch: graph = yes () => (float[4] s) { [inside] unseen = Abs (s) },
        else_branch: graph = no () => (float[4] other) { other = Mul (s, c) }
    >
    [last] y = Add (z, s)
}
"""


def shared():
    document = builders.document(SHARED)
    return document, builders.value(document, "s"), builders.value(document, "x")


def move(document, source, target, uses):
    builders.do(document, MoveUses(source, target, tuple(uses)))


def test_all_uses_of_a_value_are_one_step():
    document, value, other = shared()
    uses, before = tuple(value.uses), tuple(other.uses)
    assert len(uses) == 10
    builders.one_edit(document, nodes.replace_uses, value, other)
    assert len(document.current.steps) == 1
    assert not value.uses
    assert not value.is_output
    assert tuple(other.uses) == (*before, *uses)
    assert other.is_output
    assert_linked(document.model)


@given(picks=st.lists(st.booleans(), min_size=10, max_size=10))
def test_taking_a_move_back_restores_the_order_of_all_uses(picks):
    document, value, other = shared()
    before = tuple(value.uses), tuple(other.uses)
    text = snapshot(document.model)
    move(document, value, other, (use for use, is_moved in zip(value.uses, picks, strict=True) if is_moved))
    after = tuple(value.uses), tuple(other.uses)
    assert_linked(document.model)
    assert_known(document.model)
    document.undo()
    assert (tuple(value.uses), tuple(other.uses)) == before
    assert snapshot(document.model) == text
    document.redo()
    assert (tuple(value.uses), tuple(other.uses)) == after
    assert_linked(document.model)


def test_inserting_behind_a_value_takes_two_steps_for_any_uses():
    document, value, _ = shared()
    with document.edit("Insert") as edit:
        nodes.insert_on_edge(edit, value, "Neg", users=[use for use in value.uses if use[0] is not value.graph])
    assert len(document.current.steps) == 2
    assert [getattr(user, "name", "") for user, _ in value.uses] == ["shared", "Neg"]


def test_uses_of_another_value_are_refused_and_nothing_is_changed():
    document, value, other = shared()
    before = snapshot(document.model)
    mine, theirs = tuple(value.uses), tuple(other.uses)
    for uses in ((*mine, *theirs), (mine[0], mine[0])):
        with pytest.raises(ValueError, match="not all of these are uses of <Value 's'>"):
            move(document, value, other, uses)
    assert snapshot(document.model) == before
    assert_linked(document.model)


def test_moving_nothing_or_to_itself_is_no_edit():
    document, value, other = shared()
    move(document, value, other, ())
    move(document, value, value, value.uses)
    assert document.current is document.root


def test_a_name_nothing_defines_belongs_where_it_is_used():
    document, value, _ = shared()
    lost = Value("lost")
    move(document, value, lost, list(value.uses)[:1])
    assert lost.graph is document.model.graph
