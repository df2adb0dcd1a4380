"""Typing in the inspector of a real window, then doing something else: nothing is lost, nothing goes astray."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMessageBox

from model.io.read import load


@pytest.fixture
def tree(desk):
    """The inspector's rows, with the first node selected."""
    desk.select(desk.node("first"))
    tree = desk.window.docks.open("inspector").tree
    desk.window.activateWindow()
    desk.qtbot.wait(20)
    return tree


def begin(desk, tree, *path, text):
    """Open a field and type into it, without taking it."""
    assert tree.begin_edit(tree.rows.find(*path))
    tree.editor.selectAll()
    desk.qtbot.keyClicks(tree.editor, text)
    return tree.editor


def click_node(desk, name):
    left, top, width, height = desk.view.scene.rect(desk.box(desk.node(name)))
    point = desk.point(left + width / 2, top + height / 2)
    desk.qtbot.mouseClick(desk.view, Qt.MouseButton.LeftButton, pos=point)


def test_a_click_on_another_node_gives_the_text_to_the_first(desk, tree):
    begin(desk, tree, "name", text="renamed")
    click_node(desk, "second")
    assert desk.workspace.selection.items == (desk.node("second"),)
    assert desk.node("renamed").op_type == "Mul"
    assert tree.editor is None


def test_a_click_on_another_node_tells_what_was_refused(desk, tree, texts):
    before = texts()
    begin(desk, tree, "name", text="second")
    click_node(desk, "third")
    assert desk.workspace.selection.items == (desk.node("third"),)
    assert any("second was not taken" in title for title in desk.messages())
    assert texts() == before


def test_undo_while_typing_is_the_fields(desk, tree):
    editor = begin(desk, tree, "name", text="renamed")
    desk.qtbot.keyClick(editor, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert editor.text() == "first"
    assert tree.editor is editor
    assert desk.document.undo_title is None


def test_an_edit_of_the_same_node_elsewhere_leaves_what_is_typed(desk, tree):
    editor = begin(desk, tree, "name", text="renamed")
    with desk.document.edit("Describe") as edit:
        from model.edits.properties import set_text

        set_text(edit, desk.node("first"), "doc_string", "other")
    assert tree.editor is editor
    desk.qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert desk.node("renamed").doc_string == "other"


def test_closing_the_tab_asks_about_what_is_being_typed(desk, tree):
    begin(desk, tree, "name", text="renamed")
    tab = desk.window.tab
    desk.window.files.close(tab)
    box = next(w for w in desk.window.findChildren(QMessageBox) if w.isVisible())
    assert tab in desk.window.tabs()
    assert desk.node("renamed").op_type == "Mul"
    box.reject()


def test_saving_takes_what_is_being_typed(desk, tree, tmp_path):
    from model.io.save import to_bytes

    path = tmp_path / "a.onnx"
    path.write_bytes(to_bytes(desk.document.model))
    desk.window.files.open([path])
    desk.qtbot.waitUntil(lambda: len(desk.window.tabs()) == 2, timeout=20_000)
    desk.settle()
    desk.select(desk.node("first"))
    tree = desk.window.docks.open("inspector").tree
    QApplication.processEvents()
    begin(desk, tree, "name", text="renamed")
    saved = []
    desk.window.files.save(desk.window.tab, lambda: saved.append(True))
    desk.qtbot.waitUntil(lambda: bool(saved))
    assert load(path).graph.nodes.first.name == "renamed"
