"""The dialog: what it lists, what it refuses, and that it does what it lists."""

from __future__ import annotations

import sys

import pytest
from PySide6.QtCore import Qt
from shiboken6 import isValid

from onnx_workbench.model.edits.attributes import set_attribute
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.text import regular_expressions
from onnx_workbench.viewer.dialogs.find_replace import FindReplaceDialog
from onnx_workbench.viewer.tasks import event_loop
from tests.model import builders


@pytest.fixture
def dialog(desk):
    desk.run("edit.replace")
    return desk.child(FindReplaceDialog)


def fill(dialog, find, replace, *kinds, scope=2, wait=True):
    dialog.pattern.setText(find)
    dialog.replacement.setText(replace)
    dialog.scope.setCurrentIndex(scope)
    for kind, box in dialog.kinds.items():
        box.setChecked(kind in kinds)
    dialog.search()
    while wait and dialog.is_searching:  # a slow machine lists them over several turns
        dialog._search.next_chunk()


def listed(dialog):
    return [(r.before, r.after) for r in dialog.model.rows]


def test_what_is_listed_is_what_happens(desk, dialog):
    fill(dialog, "ir", "IR", "node names")
    assert listed(dialog) == [("first", "fIRst"), ("third", "thIRd")]
    desk.qtbot.mouseClick(dialog.apply_button, Qt.MouseButton.LeftButton)
    assert [n.name for n in desk.workspace.graph.nodes] == ["fIRst", "second", "thIRd", "fourth"]
    desk.run("edit.undo")
    assert desk.node("first")


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal for it")
def test_an_expression_that_takes_too_long_lists_nothing(desk, dialog, monkeypatch):
    """It blocked the window until the program was killed."""
    monkeypatch.setattr(regular_expressions, "LIMIT_SECONDS", 0.05)
    builders.do(desk.document, SetField(desk.node("fourth"), "name", "a" * 40))
    dialog.regex.setChecked(True)
    fill(dialog, "first|(a+)+b", "x", "node names")
    assert "takes too long" in dialog.error.text()
    assert not listed(dialog)
    assert not dialog.apply_button.isEnabled()
    dialog.pattern.setText("first|(a+)+c")
    dialog.apply()
    assert "takes too long" in dialog.error.text()
    assert desk.node("first")
    fill(dialog, "first|a+", "x", "node names")
    assert dialog.error.isHidden()
    assert listed(dialog) == [("first", "x"), ("a" * 40, "x")]


@pytest.mark.long
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


def test_a_large_model_is_gone_through_bit_by_bit(desk, dialog, qtbot, monkeypatch):
    monkeypatch.setattr(event_loop, "CHUNK_SECONDS", 0)  # one thing a turn
    fill(dialog, "ir", "IR", "node names", wait=False)
    assert dialog.is_searching
    assert not listed(dialog)
    qtbot.waitUntil(lambda: not dialog.is_searching)
    assert listed(dialog) == [("first", "fIRst"), ("third", "thIRd")]
    fill(dialog, "f", "F", "node names", wait=False)
    builders.do(desk.document, SetField(desk.node("fourth"), "name", "other"))
    dialog.apply()
    qtbot.waitUntil(lambda: [n.name for n in desk.workspace.graph.nodes] == ["First", "second", "third", "other"])


@pytest.mark.long
def test_values_of_attributes_are_listed_with_their_names(desk, dialog):
    builders.one_edit(desk.document, set_attribute, desk.node("first"), "axes", [1, 2])
    fill(dialog, "2", "x", "attribute values")
    assert [dialog.model.index(0, column).data() for column in range(4)] == ["first", "axes", "1, 2", "1, x"]
    dialog.apply()
    assert "axes of first cannot be 1, x" in dialog.error.text()
    fill(dialog, "2", "3", "attribute values")
    dialog.apply()
    assert desk.node("first").attributes["axes"].value == (1, 3)


def test_replace_waits_for_the_search_without_holding_up_the_window(desk, dialog, monkeypatch):
    monkeypatch.setattr(event_loop, "CHUNK_SECONDS", -1.0)  # one place at a time
    fill(dialog, "ir", "IR", "node names", wait=False)
    dialog.apply()
    assert dialog.is_searching
    assert desk.document.undo_title is None
    desk.qtbot.waitUntil(lambda: desk.document.undo_title == "Replace ir by IR")
    assert [n.name for n in desk.workspace.graph.nodes] == ["fIRst", "second", "thIRd", "fourth"]


@pytest.mark.long
def test_another_text_takes_back_that_it_is_to_be_replaced(desk, dialog, monkeypatch):
    monkeypatch.setattr(event_loop, "CHUNK_SECONDS", -1.0)
    fill(dialog, "ir", "IR", "node names", wait=False)
    dialog.apply()
    dialog.pattern.setText("second")
    desk.qtbot.waitUntil(lambda: not dialog._delay.isActive() and not dialog.is_searching)
    assert listed(dialog) == [("second", "IR")]
    assert desk.document.undo_title is None


def test_closing_the_dialog_still_replaces_what_was_asked_for(desk, dialog, monkeypatch):
    monkeypatch.setattr(event_loop, "CHUNK_SECONDS", -1.0)
    fill(dialog, "ir", "IR", "node names", wait=False)
    dialog.apply()
    dialog.reject()
    assert not dialog.isVisible()
    assert desk.document.undo_title is None, "the window is not blocked"
    desk.qtbot.waitUntil(lambda: desk.document.undo_title == "Replace ir by IR")
    assert [n.name for n in desk.workspace.graph.nodes] == ["fIRst", "second", "thIRd", "fourth"]
    desk.qtbot.waitUntil(lambda: not isValid(dialog))
