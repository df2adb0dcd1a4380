import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit

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


def test_what_does_not_fit_is_said(qtbot, panel):
    said = []
    panel.workspace.messaged.connect(said.append)
    panel.model.setData(cell(panel, (("ir_version", 0),)), "many")
    assert "not a whole number" in said[0].title
    assert panel.workspace.model.ir_version == 10


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
