"""Bookmarks: set by key in the window, listed with notes, kept with the file."""

import json

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit

from onnx_workbench.model.ir.graph import Node
from onnx_workbench.viewer.document.bookmarks import METADATA_KEY, Bookmarks
from onnx_workbench.viewer.document.highlights import Highlights
from onnx_workbench.viewer.document.model_signals import ModelSignals

TEXT = """<ir_version: 8, opset_import: ["": 18]>
g (float[2] x) => (float[2] z) { a = Relu(x)  b = Neg(a)  z = Abs(b) }"""


def operators(panel):
    return [element.op_type if isinstance(element, Node) else element.name for element in panel.model.rows]


def opened(window, qtbot, tmp_path):
    path = tmp_path / "model.onnxtxt"
    if not path.exists():
        path.write_text(TEXT)
    window.files.open([path])
    qtbot.waitUntil(lambda: window.area.tab is not None)
    return window.area.tab.workspace


@pytest.mark.long
def test_the_action_adds_then_removes_a_bookmark(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, tmp_path)
    panel = window.docks.open("bookmarks")
    workspace.selection.set([workspace.graph.nodes[1]])
    workspace.trigger("go.toggle_bookmark")
    assert operators(panel) == ["Neg"]
    assert list(workspace.highlights.marks["bookmarks"]) == [workspace.graph.nodes[1]]
    workspace.trigger("go.toggle_bookmark")
    assert operators(panel) == []


def test_a_note_is_typed_into_the_table_and_a_click_goes_to_the_node(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, tmp_path)
    panel = window.docks.open("bookmarks")
    workspace.bookmarks.toggle([*workspace.graph.nodes])
    index = panel.model.index(1, 0)
    panel.table.clicked.emit(index)
    assert workspace.selection.items == (workspace.graph.nodes[1],)
    panel.table.setCurrentIndex(index)
    qtbot.keyClick(panel.table, Qt.Key.Key_F2)
    editor = panel.table.findChild(QLineEdit)
    qtbot.keyClicks(editor, "look <b>here</b>")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: workspace.bookmarks.notes[workspace.graph.nodes[1]] == "look <b>here</b>")
    assert panel.model.index(1, 2).data() == "look <b>here</b>"


@pytest.mark.long
def test_a_bookmark_of_a_deleted_node_comes_back_with_undo(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, tmp_path)
    panel = window.docks.open("bookmarks")
    node = workspace.graph.nodes[2]
    workspace.bookmarks.toggle([node])
    workspace.selection.set([node])
    workspace.trigger("edit.delete")
    assert panel.model.index(0, 1).data() == "Abs, deleted"
    workspace.document.undo()
    assert panel.model.index(0, 1).data() == "Abs"


def test_bookmarks_are_there_when_the_file_is_opened_again(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, tmp_path)
    node, value = workspace.graph.nodes[1], workspace.graph.outputs[0]
    workspace.bookmarks.toggle([node, value])
    workspace.bookmarks.set_note(node, "here")
    window.area.remove_tab(window.area.tab)
    again = opened(window, qtbot, tmp_path)
    assert list(again.bookmarks.notes.items()) == [(again.graph.nodes[1], "here"), (again.graph.outputs[0], "")]


@pytest.mark.long
def test_bookmarks_can_be_stored_in_the_model(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, tmp_path)
    workspace.bookmarks.set_note(workspace.graph.nodes[0], "begins")
    workspace.trigger("go.store_bookmarks")
    assert json.loads(workspace.model.metadata[METADATA_KEY]) == [[0, "node", "", "a", "begins"]]
    made = Bookmarks(workspace.model, ModelSignals(workspace.document), Highlights())
    assert made.notes == {workspace.graph.nodes[0]: "begins"}


def test_next_bookmark_goes_round(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, tmp_path)
    first, _, last = workspace.graph.nodes
    workspace.bookmarks.toggle([last, first])
    went = []
    for _ in range(3):
        workspace.trigger("go.next_bookmark")
        went.append(workspace.selection.current)
    assert went == [last, first, last]
    workspace.trigger("go.previous_bookmark")
    assert workspace.selection.current is first


def test_what_a_file_says_of_bookmarks_is_not_believed(workspace):
    before = dict(workspace.bookmarks.notes)
    for state in (
        None,
        3,
        "x",
        {},
        [1, [2]],
        [[0, "node", 1, "", ""]],
        [[-5, "node", "a", "a", ""]],
        [[0, "x", "", "", ""]],
    ):
        workspace.bookmarks.restore(state)
    assert workspace.bookmarks.notes == before
    workspace.model.metadata = {METADATA_KEY: "[" * 100_000}
    workspace.bookmarks.restore_stored()
    assert workspace.bookmarks.notes == before
