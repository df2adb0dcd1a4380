"""The dialog that edits a message as text, through its widgets."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget

from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.viewer.dialogs.edit_message import edit_message
from onnx_workbench.viewer.dialogs.edit_text import EditTextDialog
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.theme import theme
from tests.model import builders


@pytest.fixture
def branches(qtbot):
    workspace = Workspace(builders.document(builders.BRANCHES), title="message")
    yield workspace
    workspace.close()


@pytest.fixture
def window(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    window.show()
    return window


def opened(window, workspace, target):
    edit_message(window, workspace, target)
    return next(w for w in QApplication.topLevelWidgets() if isinstance(w, EditTextDialog) and w.isVisible())


def write(dialog, old, new):
    text = dialog.text.toPlainText()
    assert old in text
    dialog.text.setPlainText(text.replace(old, new, 1))


def test_a_message_is_edited_and_undone(qtbot, window, branches):
    node = branches.model.graph.nodes.first
    before = to_bytes(branches.model)
    dialog = opened(window, branches, node)
    assert dialog.subject.text().startswith("NodeProto of double")
    write(dialog, 'name: "double"', 'name: "twice"\nmetadata_props { key: "a" value: "b" }')
    qtbot.mouseClick(dialog.ok, Qt.MouseButton.LeftButton)
    assert (node.name, dict(node.metadata)) == ("twice", {"a": "b"})
    assert branches.document.undo_title == "Edit message of double"
    branches.document.undo()
    assert to_bytes(branches.model) == before


def test_an_error_is_shown_with_its_place_while_one_types(qtbot, window, branches):
    dialog = opened(window, branches, branches.model.graph.nodes.first)
    write(dialog, 'name: "double"', "name: double")
    line = dialog.text.toPlainText().split("\n").index("name: double") + 1
    qtbot.waitUntil(lambda: not dialog.ok.isEnabled())
    assert f"Line {line}, column 7" in dialog.error.text()
    (mark,) = dialog.text.extraSelections()
    assert mark.cursor.blockNumber() == line - 1
    assert mark.format.background().color().alpha() < theme().error.alpha() == 255, "the theme keeps its colour"
    write(dialog, "name: double", 'name: "double"')
    qtbot.waitUntil(dialog.ok.isEnabled)
    assert not dialog.error.isVisible()
    assert not dialog.text.extraSelections()
    dialog.reject()


def test_what_the_model_refuses_stays_in_the_dialog(qtbot, window, branches):
    dialog = opened(window, branches, branches.model.graph.nodes.first)
    write(dialog, 'input: "x"', 'input: "nothing"')
    qtbot.mouseClick(dialog.ok, Qt.MouseButton.LeftButton)
    assert dialog.isVisible()
    assert "no value 'nothing'" in dialog.error.text()
    assert not branches.document.modified
    dialog.reject()


def test_an_opset_number_that_changes_nodes_is_pointed_out(qtbot, window, branches):
    dialog = opened(window, branches, branches.model)
    assert not dialog.note.isVisible()
    write(dialog, "version: 21", "version: 5")
    dialog.check()
    assert "defines" in dialog.note.text()
    assert "Convert" in dialog.note.text()
    dialog.reject()


def test_a_header_says_what_it_leaves_out(qtbot, window, branches):
    dialog = opened(window, branches, branches.model)
    assert "Without graph, functions, training_info" in dialog.subject.text()
    write(dialog, "ir_version: 10", "ir_version: 10\ngraph { }")
    dialog.check()
    assert "not part of this text" in dialog.error.text()
    dialog.reject()


def test_the_dialog_closes_with_its_document(qtbot, window):
    workspace = Workspace(builders.document(), title="closed")
    dialog = opened(window, workspace, workspace.model)
    with qtbot.waitSignal(dialog.rejected):
        workspace.close()


def test_a_text_of_any_characters_is_kept(qtbot, window, branches):
    text = 'tab\tand \u202e\u00a0\u2028 bytes \udcff, 中文 \\ "quoted"'
    graph = branches.model.graph
    builders.do(branches.document, SetField(graph, "doc_string", text))
    dialog = opened(window, branches, graph)
    write(dialog, 'name: "branches"', 'name: "other"')
    qtbot.mouseClick(dialog.ok, Qt.MouseButton.LeftButton)
    assert (graph.name, graph.doc_string) == ("other", text)
