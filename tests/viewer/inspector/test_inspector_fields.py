"""Typing in the inspector: what is typed is neither lost nor given to another object."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QApplication

from onnx_workbench.model.history.steps import SetAttribute
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.viewer.actions.shortcuts_dialog import INSPECTOR
from tests.model import builders
from tests.viewer.inspector.inspector_actions import begin, index, relu, row
from tests.viewer.painted import Painted
from tests.viewer.pointer import hover


def test_what_is_typed_survives_changes_elsewhere(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    editor = begin(qtbot, panel, "attributes", "alpha")
    editor.selectAll()
    qtbot.keyClicks(editor, "0.7")
    builders.do(workspace.document, SetAttribute(node, "aaa", make_attribute("aaa", 1)))
    workspace.document.undo()
    assert panel.tree.editor is editor
    assert (editor.text(), editor.cursorPosition()) == ("0.7", 3)
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert node.attributes["alpha"].value == pytest.approx(0.7)


def test_typing_on_a_row_begins_its_value_anew(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    panel.tree.set_current(index(panel, "attributes", "alpha"))
    qtbot.keyClick(panel.tree, Qt.Key.Key_Space)
    assert panel.tree.editor is None
    qtbot.keyClicks(panel.tree, "3")
    editor = panel.tree.editor
    assert editor is not None
    qtbot.keyClicks(editor, ".5")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert node.attributes["alpha"].value == 3.5
    panel.tree.set_current(index(panel, "attributes"))
    qtbot.keyClicks(panel.tree, "a")
    assert panel.tree.editor is None, "a heading has no value"


def test_the_current_row_survives_undo_and_another_node(qtbot, panel, workspace):
    first, second = relu(workspace), workspace.model.graph.nodes[1]
    workspace.selection.set([first])
    panel.tree.set_current(index(panel, "inputs", "input 0"))
    builders.do(workspace.document, SetAttribute(first, "aaa", make_attribute("aaa", 1)))
    assert panel.tree.rows.path(panel.tree.currentIndex()) == ("inputs", "input 0")
    workspace.selection.set([second])
    assert panel.tree.rows.path(panel.tree.currentIndex()) == ("inputs", "input 0")


def test_selecting_something_else_takes_what_was_typed(qtbot, panel, workspace):
    first, second = relu(workspace), workspace.model.graph.nodes[1]
    workspace.selection.set([first])
    editor = begin(qtbot, panel, "attributes", "alpha")
    editor.selectAll()
    qtbot.keyClicks(editor, "0.75")
    workspace.selection.set([second])
    assert first.attributes["alpha"].value == 0.75
    assert panel.tree.editor is None
    assert row(panel, "op_type").text == "Neg"


def test_leaving_the_field_takes_what_was_typed(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    editor = begin(qtbot, panel, "attributes", "alpha")
    editor.selectAll()
    qtbot.keyClicks(editor, "2.5")
    panel.head.model.setFocus()
    QApplication.processEvents()
    assert node.attributes["alpha"].value == 2.5


def test_tab_goes_on_to_the_next_field(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    editor = begin(qtbot, panel, "op_type")
    qtbot.keyClick(editor, Qt.Key.Key_Tab)
    assert panel.tree.rows.path(panel.tree.currentIndex()) == ("name",)
    assert panel.tree.editor is not None
    assert panel.tree.editor.text() == "Relu_0"


def test_labels_get_more_room_by_dragging(qtbot, panel):
    tree = panel.tree
    before = tree.columnWidth(0)
    start = QPoint(before, 30)
    qtbot.mousePress(tree.viewport(), Qt.MouseButton.LeftButton, pos=start)
    hover(tree.viewport(), start + QPoint(40, 0), Qt.MouseButton.LeftButton)
    qtbot.mouseRelease(tree.viewport(), Qt.MouseButton.LeftButton, pos=start + QPoint(40, 0))
    assert abs(tree.columnWidth(0) - before - 40) <= 2


def test_its_keys_win_over_the_windows_shortcuts(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    fired = []
    for keys in ("Del", "F2", "Ctrl+C"):
        shortcut = QShortcut(QKeySequence(keys), panel)
        shortcut.activated.connect(lambda keys=keys: fired.append(keys))
    panel.activate()
    panel.tree.set_current(index(panel, "attributes", "alpha"))
    qtbot.keyClick(panel.tree, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(panel.tree, Qt.Key.Key_F2)
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Escape)
    qtbot.keyClick(panel.tree, Qt.Key.Key_Delete)
    assert fired == []
    assert QApplication.clipboard().text() == "0.5"
    assert "alpha" not in node.attributes


def test_what_was_collapsed_stays_so(panel, workspace):
    first, second = relu(workspace), workspace.model.graph.nodes[1]
    workspace.selection.set([first])
    inputs = panel.tree.rows.find("inputs").siblingAtColumn(0)
    panel.tree.collapse(inputs)
    workspace.selection.set([second])
    assert not panel.tree.isExpanded(panel.tree.rows.find("inputs").siblingAtColumn(0))


def test_a_refused_text_holds_on_when_another_row_is_clicked(qtbot, panel, workspace):
    workspace.selection.set([workspace.model])
    editor = begin(qtbot, panel, "ir_version")
    editor.selectAll()
    qtbot.keyClicks(editor, "ten")
    elsewhere = panel.tree.visualRect(index(panel, "model_version")).center()
    for click in (qtbot.mouseClick, qtbot.mouseDClick):
        click(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=elsewhere)
        assert panel.tree.editor is editor
        assert (editor.text(), editor.hasFocus()) == ("ten", True)
        assert "not a whole number" in panel.tree.fields.error_text
    qtbot.keyClick(editor, Qt.Key.Key_Escape)
    assert panel.tree.editor is None
    qtbot.mouseDClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=elsewhere)
    assert panel.tree.rows.path(panel.tree.currentIndex()) == ("model_version",)


def test_a_refused_text_is_reported_when_something_else_is_shown(qtbot, panel, workspace, received):
    messages = received(workspace.messages.shown)
    workspace.selection.set([workspace.model])
    editor = begin(qtbot, panel, "ir_version")
    editor.selectAll()
    qtbot.keyClicks(editor, "ten")
    before = workspace.model.ir_version
    workspace.selection.set([relu(workspace)])
    assert "ten was not accepted" in messages[0].title
    assert "not a whole number" in messages[0].detail
    assert (workspace.model.ir_version, panel.tree.editor) == (before, None)


def test_saving_commits_typing_and_waits_for_refused_text(qtbot, panel, workspace):
    saved = []
    QShortcut(QKeySequence("Ctrl+S"), panel).activated.connect(lambda: saved.append(workspace.model.ir_version))
    panel.activateWindow()
    workspace.selection.set([workspace.model])
    editor = begin(qtbot, panel, "ir_version")
    for text, expected in (("ten", []), ("9", [9])):
        editor.selectAll()
        qtbot.keyClicks(editor, text)
        qtbot.keyClick(editor, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
        assert saved == expected


def test_the_list_of_shortcuts_reports_the_keys_of_the_rows(qtbot, panel, workspace):
    listed = dict(INSPECTOR)
    graph = workspace.model.graph
    workspace.selection.set([graph])
    panel.activate()
    panel.tree.set_current(index(panel, "inputs", "input 1 flag"))
    qtbot.keyClick(panel.tree, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert listed["Move up in a list (or drag the row)"] == "Alt+Up"
    assert [v.name for v in graph.inputs] == ["flag", "x"]
    menu = panel.tree.menu(panel.tree.currentIndex())
    shown = {a.text().partition("\t")[2] for a in menu.actions() if "\t" in a.text()}
    assert shown - {"F2", "Ctrl+C"} <= set(listed.values())


def test_a_field_that_opens_and_closes_paints_no_other_row(qtbot, net):
    panel, workspace, _, _, concat = net
    workspace.selection.set([concat])
    area = panel.tree.visualRect(index(panel, "attributes", "axis"))
    panel.tree.setFocus()
    panel.tree.set_current(index(panel, "attributes", "axis"))
    qtbot.waitUntil(panel.tree.hasFocus)
    QApplication.processEvents()
    painted = Painted(panel.tree.viewport())
    qtbot.keyClick(panel.tree, Qt.Key.Key_F2)
    qtbot.waitUntil(panel.tree.editor.hasFocus)
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Return)
    qtbot.waitUntil(panel.tree.hasFocus)
    QApplication.processEvents()
    rows = painted.region.boundingRect()
    assert rows.intersects(area)
    assert (rows.top(), rows.bottom()) == (area.top(), area.bottom())


def test_input_methods_work_after_a_field_closed_or_a_row_chosen(qtbot, net):
    panel, workspace, _, _, concat = net
    workspace.selection.set([concat])
    panel.tree.setFocus()
    panel.tree.set_current(index(panel, "attributes", "axis"))
    received = Qt.WidgetAttribute.WA_InputMethodEnabled
    assert panel.tree.testAttribute(received)
    qtbot.keyClick(panel.tree, Qt.Key.Key_F2)
    qtbot.waitUntil(panel.tree.editor.hasFocus)
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Return)
    qtbot.waitUntil(panel.tree.hasFocus)
    assert panel.tree.testAttribute(received)
