import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QApplication

from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import InsertNode, RemoveNode, SetField
from onnx_workbench.model.ir.graph import Graph, Model, Node
from onnx_workbench.viewer.dialogs.edit_text import EditTextDialog
from onnx_workbench.viewer.panels.raw_messages import RawMessagesPanel
from onnx_workbench.viewer.run.workspace import Workspace
from tests.model import builders


@pytest.fixture
def panel(qtbot):
    workspace = Workspace(builders.document(builders.BRANCHES), title="raw")
    panel = RawMessagesPanel(workspace)
    qtbot.addWidget(panel)
    panel.resize(700, 400)
    panel.show()
    qtbot.waitUntil(lambda: "were saved" in panel.status.text())
    yield panel
    workspace.close()


GRAPH = (("graph", 0),)


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


def test_open_rows_stay_open_when_an_edit_changes_the_messages(qtbot, panel):
    paths = [(("functions", 0),), (("functions", 0), ("node", 1)), (("graph", 0), ("node", 0))]
    for path in paths:
        panel.tree.expand(cell(panel, path, 0))
    panel.tree.collapse(cell(panel, paths[2], 0))
    panel.tree.setCurrentIndex(cell(panel, (("graph", 0), ("name", 0)), 0))
    bar = panel.tree.verticalScrollBar()
    bar.setValue(bar.maximum())
    scrolled = bar.value()
    assert scrolled > 0
    node = builders.node(panel.workspace.model, "inner")
    with qtbot.waitSignal(panel.model.modelReset), panel.workspace.document.edit("Rename") as edit:
        rename_node(edit, node, "other")
    assert [panel.tree.isExpanded(cell(panel, path, 0)) for path in paths] == [True, True, False]
    assert bar.value() == scrolled


def panel_of(qtbot, count):
    """The panel of a graph of so many nodes, read."""
    graph = Graph("wide")
    for index in range(count):
        InsertNode(graph, Node("Relu", name=f"n{index}")).apply()
    panel = RawMessagesPanel(Workspace(Document(Model(graph, opset=20)), title="wide"))
    qtbot.addWidget(panel)
    panel.show()
    qtbot.waitUntil(lambda: "were saved" in panel.status.text())
    return panel


def test_a_large_message_is_fetched_as_one_scrolls(qtbot):
    panel = panel_of(qtbot, 1800)
    workspace = panel.workspace
    index = panel.model.index_of((("graph", 0),))
    assert panel.model.rowCount(index) < 1800
    workspace.selection.set([workspace.model.graph.nodes.last])
    assert panel.tree.currentIndex().data() == "node[1799]"
    workspace.close()


W = (("graph", 0), ("initializer", 0))


@pytest.fixture
def wide(qtbot):
    """The panel of a graph of 5000 nodes."""
    panel = panel_of(qtbot, 5000)
    yield panel
    panel.workspace.close()


def test_very_many_fields_of_one_name_come_in_stretches(wide):
    model, graph = wide.model, wide.model.index_of(GRAPH)
    rows = [model.index(row, 0, graph) for row in range(model.rowCount(graph))]
    assert [rows[0].data(), rows[9].data(), rows[10].data()] == ["node[0…499]", "node[4500…4999]", "name"]
    assert rows[1].siblingAtColumn(2).data() == "500 fields"
    node = model.index_of((*GRAPH, ("node", 1234), ("name", 0)))
    assert node.siblingAtColumn(2).data() == "n1234"
    assert model.parent(model.parent(node)).data() == "node[1000…1499]"


@pytest.mark.long
def test_stretches_stay_open_when_the_messages_are_read_anew(qtbot, wide):
    path = (*GRAPH, ("node", 700))
    wide.tree.setCurrentIndex(cell(wide, path, 0))
    wide.tree.expand(cell(wide, path, 0))
    with qtbot.waitSignal(wide.model.modelReset), wide.workspace.document.edit("Rename") as edit:
        rename_node(edit, wide.workspace.model.graph.nodes.first, "other")
    index = cell(wide, path, 0)
    assert wide.tree.isExpanded(index)
    assert wide.tree.isExpanded(index.parent())
    assert wide.tree.currentIndex().data(Qt.ItemDataRole.UserRole) == path


@pytest.mark.long
def test_what_was_closed_around_the_current_row_stays_closed(qtbot, wide):
    path = (*GRAPH, ("node", 700))
    wide.tree.setCurrentIndex(cell(wide, path, 0))
    wide.tree.collapse(cell(wide, path, 0).parent())
    with qtbot.waitSignal(wide.model.modelReset), wide.workspace.document.edit("Rename") as edit:
        rename_node(edit, wide.workspace.model.graph.nodes.first, "other")
    assert wide.tree.currentIndex().data(Qt.ItemDataRole.UserRole) == path
    assert not wide.tree.isExpanded(wide.tree.currentIndex().parent())


@pytest.mark.long
def test_an_edit_while_the_messages_are_read_begins_anew(qtbot, wide):
    document = wide.workspace.document
    read = []
    wide.model.modelReset.connect(lambda: read.append(cell(wide, (*GRAPH, ("name", 0))).data()))
    builders.do(document, SetField(document.model.graph, "name", "second"))
    wide.refresh()
    builders.do(document, SetField(document.model.graph, "name", "third"))
    qtbot.waitUntil(lambda: bool(read))
    assert read == ["third"]


def dialog():
    return next(w for w in QApplication.topLevelWidgets() if isinstance(w, EditTextDialog) and w.isVisible())


def choose(menu, title):
    next(a for a in menu.actions() if a.text() == title).trigger()


def test_a_double_click_edits_the_message_around_a_field(qtbot, panel):
    index = cell(panel, (*W, ("dims", 0)), 2)
    panel.tree.scrollTo(index)
    place = panel.tree.visualRect(index).center()
    qtbot.mouseClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=place)
    qtbot.mouseDClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert "TensorProto of tensor w" in dialog().subject.text()
    dialog().reject()


def test_the_menu_edits_a_message_and_the_tree_follows(qtbot, panel):
    path = (*W, ("doc_string", 0))
    panel.build_menu(panel.model.index_of(W))
    choose(panel.menu, "Edit Messa&ge…")
    dialog().text.appendPlainText('doc_string: "weights of the branch"')
    qtbot.mouseClick(dialog().ok, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: cell(panel, path).data() == "weights of the branch")
    assert builders.value(panel.workspace.model, "w").initializer.doc_string == "weights of the branch"
    panel.workspace.document.undo()
    qtbot.waitUntil(lambda: cell(panel, path).data() != "weights of the branch")


def test_the_menu_without_a_row_edits_the_model(qtbot, panel):
    panel.build_menu(QModelIndex())
    choose(panel.menu, "Edit Messa&ge…")
    assert "ModelProto" in dialog().subject.text()
    dialog().reject()


def test_a_tensor_opens_in_the_tensor_panel(qtbot, received, panel):
    asked = received(panel.workspace.action_requested)
    panel.build_menu(panel.model.index_of((*W, ("float_data", 0))))
    choose(panel.menu, "Edit as &Tensor")
    assert asked == ["panel.tensor"]
    assert panel.workspace.selection.current is builders.value(panel.workspace.model, "w")


def test_rows_of_before_an_edit_open_no_other_message(qtbot, wide):
    path = (*GRAPH, ("node", 700))
    wide.tree.setCurrentIndex(cell(wide, path, 0))
    document = wide.workspace.document
    builders.do(document, RemoveNode(document.model.graph.nodes.first))
    wide.edit(wide.tree.currentIndex())
    assert "read again" in wide.error.text()
    qtbot.waitUntil(lambda: cell(wide, (*path, ("name", 0))).data() == "n701")
