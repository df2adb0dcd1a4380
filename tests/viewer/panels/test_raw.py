import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit

from model.steps import SetField
from tests.model import builders
from viewer.panels.raw import RawPanel
from viewer.workspace import Workspace


@pytest.fixture
def panel(qtbot):
    workspace = Workspace(builders.document(builders.BRANCHES), title="raw")
    panel = RawPanel(workspace)
    qtbot.addWidget(panel)
    panel.resize(700, 400)
    panel.show()
    qtbot.waitUntil(lambda: "would be saved" in panel.status.text())
    yield panel
    workspace.close()


def cell(panel, path, column=2):
    return panel.model.index_of(path).siblingAtColumn(column)


def test_selecting_on_the_graph_shows_the_message(qtbot, panel):
    inner = builders.node(panel.workspace.model, "inner")
    panel.workspace.selection.set([inner])
    current = panel.tree.currentIndex()
    assert current.data() == "node[0]"
    assert current.data(Qt.ItemDataRole.UserRole)[:2] == (("graph", 0), ("node", 1))


def test_choosing_a_field_selects_what_it_belongs_to(qtbot, panel):
    path = (("functions", 0), ("node", 1), ("op_type", 0))
    panel.tree.setCurrentIndex(cell(panel, path, 0))
    function = panel.workspace.model.functions[0]
    assert panel.workspace.selection.items == (function.body.nodes.last,)
    assert panel.workspace.graph is function.body


def test_a_value_is_edited_in_place_and_undone(qtbot, panel):
    path = (("graph", 0), ("node", 0), ("name", 0))
    index = cell(panel, path)
    panel.tree.setCurrentIndex(index)
    panel.tree.edit(index)
    editor = panel.tree.viewport().findChild(QLineEdit)
    editor.selectAll()
    qtbot.keyClicks(editor, "twice")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    document = panel.workspace.document
    qtbot.waitUntil(lambda: document.model.graph.nodes.first.name == "twice")
    qtbot.waitUntil(lambda: cell(panel, path).data() == "twice")
    document.undo()
    qtbot.waitUntil(lambda: cell(panel, path).data() == "double")


def begin(panel, path):
    """Open the field of a value."""
    index = cell(panel, path)
    panel.tree.setCurrentIndex(index)
    panel.tree.edit(index)
    return panel.tree.itemDelegateForColumn(2).editor


def test_what_is_refused_stays_in_its_field(qtbot, panel):
    path = (("ir_version", 0),)
    editor = begin(panel, path)
    editor.selectAll()
    qtbot.keyClicks(editor, "many")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert "not a whole number" in panel.error.text()
    delegate = panel.tree.itemDelegateForColumn(2)
    qtbot.waitUntil(lambda: delegate.editor not in (None, editor))
    again = delegate.editor
    assert (again.text(), panel.workspace.model.ir_version) == ("many", 10)
    assert "not a whole number" in again.toolTip()
    again.selectAll()
    qtbot.keyClicks(again, "9")
    qtbot.keyClick(again, Qt.Key.Key_Return)
    assert panel.workspace.model.ir_version == 9
    assert not panel.error.isVisible()


@pytest.mark.parametrize("text", ["x" * 500, "two\nlines", "tab\tand \u202e", "bytes \udcff"])
def test_a_text_is_edited_as_a_whole(qtbot, panel, text):
    model = panel.workspace.model
    with panel.workspace.document.edit("Describe") as edit:
        edit.do(SetField(model.graph, "doc_string", text))
    path = (("graph", 0), ("doc_string", 0))
    qtbot.waitUntil(lambda: panel.model.source(cell(panel, path)) == text)
    editor = begin(panel, path)
    qtbot.keyClick(editor, Qt.Key.Key_End, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(editor, Qt.Key.Key_End)
    qtbot.keyClicks(editor, "!")
    qtbot.keyClick(editor, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert model.graph.doc_string == text + "!"


def test_a_text_too_long_for_a_field_is_not_edited_here(qtbot, panel):
    with panel.workspace.document.edit("Describe") as edit:
        edit.do(SetField(panel.workspace.model.graph, "doc_string", "x" * 30_000))
    path = (("graph", 0), ("doc_string", 0))
    qtbot.waitUntil(lambda: "…" in cell(panel, path).data())
    assert not panel.model.flags(cell(panel, path)) & Qt.ItemFlag.ItemIsEditable


def test_a_large_message_is_fetched_as_one_scrolls(qtbot):
    from model.document import Document
    from model.graph import Graph, Model, Node
    from model.steps import InsertNode

    graph = Graph("wide")
    for index in range(1800):
        InsertNode(graph, Node("Relu", name=f"n{index}")).apply()
    workspace = Workspace(Document(Model(graph, opset=20)), title="wide")
    panel = RawPanel(workspace)
    qtbot.addWidget(panel)
    panel.show()
    qtbot.waitUntil(lambda: "would be saved" in panel.status.text())
    index = panel.model.index_of((("graph", 0),))
    assert panel.model.rowCount(index) < 1800
    last = graph.nodes.last
    workspace.selection.set([last])
    assert panel.tree.currentIndex().data() == "node[1799]"
    workspace.close()


def test_what_is_typed_outlives_an_edit_made_elsewhere(qtbot, panel):
    editor = begin(panel, (("ir_version", 0),))
    editor.selectAll()
    qtbot.keyClicks(editor, "1")
    with panel.workspace.document.edit("Rename") as edit:
        edit.do(SetField(panel.workspace.model.graph, "name", "other"))
    qtbot.wait(700)
    qtbot.keyClicks(editor, "1")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert panel.workspace.model.ir_version == 11
    qtbot.waitUntil(lambda: cell(panel, (("graph", 0), ("name", 0))).data() == "other")
