"""A new opset number in the inspector: nodes that it defines differently are named, and a conversion is offered."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox

from onnx_workbench.viewer.dialogs.convert import ConvertDialog
from onnx_workbench.viewer.inspector.panel import InspectorPanel
from tests.viewer.inspector.inspector_actions import write

SOFTMAX_9 = """<ir_version: 7, opset_import: ["" : 9]> g (float[2,3,4] x) => (float[2,3,4] y) {
    [before] a = Sin (x)
    [soft] y = Softmax (a)
}"""

FUNCTION = """<ir_version: 8, opset_import: ["" : 12, "local" : 1]> g (float[2,3] x) => (float[2,3] y) {
    [call] y = local.f (x)
}
<domain: "local", opset_import: ["" : 12]> f (a) => (b) { [inner] b = Softmax (a) }"""


def write_opset(desk, text, target=None, domain=""):
    """Type a version into the row of an opset import."""
    desk.select(target or desk.workspace.model)
    desk.window.docks.open("inspector")
    panel = desk.child(InspectorPanel)
    desk.qtbot.waitUntil(lambda: panel.tree.rows.find("opsets", f"opset {domain}").isValid())
    write(desk.qtbot, panel, "opsets", f"opset {domain}", text=text)
    return panel


def questions(desk):
    return [box for box in desk.window.findChildren(QMessageBox) if box.isVisible()]


def answer(desk, text):
    (box,) = questions(desk)
    button = next(button for button in box.buttons() if button.text().replace("&", "") == text)
    desk.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


@pytest.mark.long
def test_nodes_that_change_meaning_are_named_with_a_conversion(desk):
    desk.open(SOFTMAX_9)
    write_opset(desk, "13")
    (box,) = questions(desk)
    assert box.text() == "Opset 13 of ai.onnx defines 1 node differently."
    assert "Softmax: soft\n" in box.informativeText()
    assert "before" not in box.informativeText()  # Sin is the same in both
    assert desk.workspace.model.opset_imports[""] == 9  # nothing is done unasked
    assert desk.document.undo_title is None
    assert box.defaultButton().text().replace("&", "") == "Convert…"
    desk.qtbot.keyClick(box, Qt.Key.Key_Return)
    dialog = desk.child(ConvertDialog)
    assert dialog.opset.currentData() == 13
    desk.qtbot.waitUntil(dialog.ok.isEnabled)
    desk.qtbot.mouseClick(dialog.ok, Qt.MouseButton.LeftButton)
    desk.qtbot.waitUntil(lambda: desk.workspace.model.opset_imports[""] == 13)
    assert len(desk.workspace.graph.nodes) > 2  # Softmax over what was flattened
    desk.run("edit.undo")
    assert desk.workspace.model.opset_imports[""] == 9


@pytest.mark.long
def test_the_number_alone_can_be_changed(desk):
    desk.open(SOFTMAX_9)
    write_opset(desk, "13")
    answer(desk, "Change Number Only")
    assert desk.workspace.model.opset_imports[""] == 13
    assert [node.name for node in desk.workspace.graph.nodes] == ["before", "soft"]
    assert desk.document.undo_title == "Set opset ai.onnx of model"
    desk.run("edit.undo")
    assert desk.workspace.model.opset_imports[""] == 9


def test_cancel_changes_nothing(desk):
    desk.open(SOFTMAX_9)
    panel = write_opset(desk, "13")
    answer(desk, "Cancel")
    assert desk.workspace.model.opset_imports[""] == 9
    assert desk.document.undo_title is None
    assert panel.tree.rows.row(panel.tree.rows.find("opsets", "opset ")).text == "9"


@pytest.mark.long
@pytest.mark.parametrize("version", [10, 9])
def test_no_question_where_no_node_changes_meaning(desk, version):
    desk.open(SOFTMAX_9)
    write_opset(desk, str(version))
    assert questions(desk) == []
    assert desk.workspace.model.opset_imports[""] == version


@pytest.mark.long
def test_the_nodes_of_a_function_count_for_its_own_imports(desk):
    desk.open(FUNCTION)
    write_opset(desk, "13")  # of the model, which itself holds a call alone
    assert questions(desk) == []
    write_opset(desk, "13", desk.workspace.model.functions[0])
    (box,) = questions(desk)
    assert "Softmax: inner" in box.informativeText()
    answer(desk, "Change Number Only")
    assert desk.workspace.model.functions[0].opset_imports[""] == 13


@pytest.mark.long
def test_for_a_version_without_converter_the_number_alone_is_offered(desk):
    desk.open(SOFTMAX_9.replace("Softmax", "Flatten").replace("float[2,3,4] y", "float[2,12] y"))
    write_opset(desk, "1")
    (box,) = questions(desk)
    assert [button.text().replace("&", "") for button in box.buttons() if "Convert" in button.text()] == []
    assert "Flatten: soft" in box.informativeText()
    answer(desk, "Cancel")
    assert desk.workspace.model.opset_imports[""] == 9


@pytest.mark.long
def test_many_nodes_are_listed_by_operator(desk):
    rows = "\n".join(f"[n{i}] v{i + 1} = Softmax (v{i})" for i in range(30))
    desk.open(f'<ir_version: 7, opset_import: ["" : 9]> g (float[2] v0) => (float[2] v30) {{ {rows} }}')
    write_opset(desk, "13")
    (box,) = questions(desk)
    assert "Softmax: n0, n1, n2, n3 and 26 more\n" in box.informativeText()
    answer(desk, "Cancel")


@pytest.mark.long
def test_the_question_goes_with_its_document(desk):
    tab = desk.open(SOFTMAX_9)
    write_opset(desk, "13")
    desk.window.area.remove_tab(tab)
    desk.qtbot.waitUntil(lambda: questions(desk) == [])
