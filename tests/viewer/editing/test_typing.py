"""Typing in the inspector of a real window, then doing something else: nothing is lost, nothing goes astray."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QMessageBox

from onnx_workbench.model.edits.initializers import add_initializer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.tensors import ArrayTensor


@pytest.fixture
def tree(desk):
    """The inspector's rows, with the first node selected."""
    desk.select(desk.node("first"))
    tree = desk.window.docks.open("inspector").tree
    desk.window.activateWindow()
    desk.qtbot.waitUntil(desk.window.isActiveWindow)
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


def test_a_click_on_another_node_reports_what_was_refused(desk, tree, texts):
    before = texts()
    begin(desk, tree, "name", text="second")
    click_node(desk, "third")
    assert desk.workspace.selection.items == (desk.node("third"),)
    assert any("second was not accepted" in title for title in desk.messages())
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
        from onnx_workbench.model.edits.properties import set_text

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


@pytest.fixture
def file(desk, tmp_path):
    """The file of the document, now open in a second tab."""
    path = tmp_path / "a.onnx"
    path.write_bytes(to_bytes(desk.document.model))
    desk.window.files.open([path])
    desk.qtbot.waitUntil(lambda: len(desk.window.tabs()) == 2)
    desk.settle()
    return path


@pytest.mark.long
def test_saving_takes_what_is_being_typed(desk, tree, file):
    desk.select(desk.node("first"))
    tree = desk.window.docks.open("inspector").tree
    QApplication.processEvents()
    begin(desk, tree, "name", text="renamed")
    saved = []
    desk.window.files.saver.save(desk.window.tab, lambda: saved.append(True))
    desk.qtbot.waitUntil(lambda: bool(saved))
    assert load(file).graph.nodes.first.name == "renamed"


@pytest.fixture
def cell(desk, file):
    """The field of the first element of a constant, open in the tensor panel."""
    with desk.document.edit("Add") as edit:
        value = add_initializer(edit, desk.workspace.graph, ArrayTensor(np.array([1, 2], np.uint8)), "bytes")
    panel = desk.window.docks.open("tensor")
    desk.window.activateWindow()
    desk.select(value)
    table = panel.pane.table
    desk.qtbot.waitUntil(lambda: table.cells.rowCount() == 1)
    table.setCurrentIndex(table.cells.index(0, 0))
    table.edit(table.cells.index(0, 0))
    return table.findChild(QLineEdit)


def retype(desk, field, text):
    field.selectAll()
    desk.qtbot.keyClicks(field, text)


def elements(desk):
    return desk.value("bytes").initializer.numpy().tolist()


@pytest.mark.long
def test_saving_takes_the_element_that_is_being_typed(desk, cell, file):
    retype(desk, cell, "7")
    QTest.keyClick(cell, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
    assert elements(desk) == [7, 2]
    desk.qtbot.waitUntil(lambda: not desk.document.modified)
    assert load(file).graph.initializers[-1].initializer.numpy().tolist() == [7, 2]


@pytest.mark.long
def test_an_element_that_is_refused_holds_saving_back(desk, cell):
    retype(desk, cell, "300")
    QTest.keyClick(cell, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
    assert "0 to 255" in cell.accessibleDescription()
    assert not desk.window.files.saving
    retype(desk, cell, "30")
    desk.run("file.save")  # as from the menu
    assert elements(desk) == [30, 2]
