"""The dialog: what it lists, what it refuses, and that it does what it lists."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from tests.model import builders
from viewer.dialogs.find_replace import FindReplaceDialog


@pytest.fixture
def dialog(desk):
    desk.run("edit.replace")
    return desk.child(FindReplaceDialog)


def fill(dialog, find, replace, *kinds, scope=2):
    dialog.pattern.setText(find)
    dialog.replacement.setText(replace)
    dialog.scope.setCurrentIndex(scope)
    for kind, box in dialog.kinds.items():
        box.setChecked(kind in kinds)
    dialog.search()


def listed(dialog):
    return [(r.before, r.after) for r in dialog.model.rows]


def test_what_is_listed_is_what_happens(desk, dialog):
    fill(dialog, "ir", "IR", "node names")
    assert listed(dialog) == [("first", "fIRst"), ("third", "thIRd")]
    desk.qtbot.mouseClick(dialog.apply_button, Qt.MouseButton.LeftButton)
    assert [n.name for n in desk.workspace.graph.nodes] == ["fIRst", "second", "thIRd", "fourth"]
    desk.run("edit.undo")
    assert desk.node("first")


def test_a_row_can_be_left_out(desk, dialog):
    fill(dialog, "ir", "IR", "node names")
    listed = dialog.model.rowCount()
    dialog.model.setData(dialog.model.index(0, 0), Qt.CheckState.Unchecked, Qt.ItemDataRole.CheckStateRole)
    assert dialog.status.text().startswith(f"{listed - 1} place")
    dialog.apply()
    assert [n.name for n in desk.workspace.graph.nodes] == ["first", "second", "thIRd", "fourth"]


def test_clashes_are_refused_in_the_dialog(desk, dialog):
    fill(dialog, "first", "second", "node names")
    dialog.apply()
    assert "Two would be named second" in dialog.error.text()
    assert desk.node("first")


def test_a_wrong_expression_is_said(dialog):
    dialog.regex.setChecked(True)
    fill(dialog, "(", "", "node names")
    assert "regular expression" in dialog.error.text()
    assert not dialog.apply_button.isEnabled()


def test_groups_of_a_regular_expression(desk, dialog):
    dialog.regex.setChecked(True)
    fill(dialog, r"(\w)\w*", r"\1", "node names", scope=1)
    assert listed(dialog) == [("first", "f"), ("second", "s"), ("third", "t"), ("fourth", "f")]


def test_the_selection_alone(desk):
    desk.select(desk.node("first"), desk.node("second"))
    desk.run("edit.replace")
    dialog = desk.child(FindReplaceDialog)
    assert dialog.scope.currentIndex() == 0
    fill(dialog, "d", "D", "node names", scope=0)
    assert listed(dialog) == [("second", "seconD")]


def test_operators_and_bodies_in_the_whole_model(desk):
    desk.open(builders.BRANCHES)
    desk.run("edit.replace")
    dialog = desk.child(FindReplaceDialog)
    fill(dialog, "Mul", "Div", "operator types")
    dialog.apply()
    assert desk.node("inner").op_type == "Div"
    assert [n.op_type for n in desk.document.model.functions[0].body.nodes] == ["Constant", "Div"]
