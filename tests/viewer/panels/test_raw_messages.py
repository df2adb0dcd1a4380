import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLineEdit

from onnx_workbench.model.edits.initializers import add_initializer
from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import InsertNode, RemoveNode, SetField
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.graph import Graph, Model, Node
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.viewer.dialogs.text_prompt import TextPrompt
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


def test_what_is_open_stays_open_where_it_was_when_an_edit_changes_the_messages(qtbot, panel):
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


@pytest.mark.long
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
    assert document.undo_title == "Set name of double"
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


@pytest.mark.long
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


@pytest.mark.long
def test_what_is_typed_outlives_an_edit_made_elsewhere(qtbot, panel):
    beside = RawMessagesPanel(panel.workspace)
    qtbot.addWidget(beside)
    beside.show()
    qtbot.waitUntil(lambda: "were saved" in beside.status.text())
    name = (("graph", 0), ("name", 0))
    editor = begin(panel, (("ir_version", 0),))
    editor.selectAll()
    qtbot.keyClicks(editor, "1")
    with panel.workspace.document.edit("Rename") as edit:
        edit.do(SetField(panel.workspace.model.graph, "name", "other"))
    qtbot.waitUntil(lambda: cell(beside, name).data() == "other")
    qtbot.keyClicks(editor, "1")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert panel.workspace.model.ir_version == 11
    qtbot.waitUntil(lambda: cell(panel, name).data() == "other")


def type_over(qtbot, panel, path, text):
    """Put another text into the field of a value."""
    editor = begin(panel, path)
    editor.selectAll()
    qtbot.keyClicks(editor, text)
    qtbot.keyClick(editor, Qt.Key.Key_Return)


W = (("graph", 0), ("initializer", 0))


@pytest.mark.long
def test_a_number_of_packed_data_is_edited_in_place_and_undone(qtbot, panel):
    path = (*W, ("float_data", 0), ("element", 2))
    assert cell(panel, path, 0).data() == "[2]"
    type_over(qtbot, panel, path, "-0.25")
    tensor = builders.value(panel.workspace.model, "w").initializer
    assert tensor.numpy().tolist() == [1.0, 2.0, -0.25, 4.0]
    qtbot.waitUntil(lambda: cell(panel, path).data() == "-0.25")
    panel.workspace.document.undo()
    qtbot.waitUntil(lambda: cell(panel, path).data() == "3")


@pytest.mark.long
def test_raw_bytes_are_edited_line_by_line_in_pages(qtbot, panel):
    with panel.workspace.document.edit("Add") as edit:
        values = np.arange(3000, dtype=np.int32)
        add_initializer(edit, panel.workspace.model.graph, ArrayTensor(values), "large")
    path = (("graph", 0), ("initializer", 1), ("raw_data", 0), ("page", 4096), ("bytes", 4112))
    qtbot.waitUntil(lambda: cell(panel, path, 0).data() == "4,112…4,127")
    assert cell(panel, path).data() == values[1028:1032].tobytes().hex(" ")
    type_over(qtbot, panel, path, "ff" * 16)
    assert builders.value(panel.workspace.model, "large").initializer.numpy()[1027:1033].tolist() == [
        1027, -1, -1, -1, -1, 1032,
    ]  # fmt: skip
    qtbot.waitUntil(lambda: cell(panel, path).data() == " ".join(["ff"] * 16))
    type_over(qtbot, panel, path, "00")
    assert "16 bytes stand in this line" in panel.error.text()


@pytest.mark.long
def test_delete_removes_a_field_or_says_why_not(qtbot, panel):
    document = panel.workspace.document
    before = to_bytes(document.model)
    panel.tree.setCurrentIndex(cell(panel, (*W, ("dims", 0)), 0))
    qtbot.keyClick(panel.tree, Qt.Key.Key_Delete)
    assert builders.value(document.model, "w").initializer.shape == ()
    qtbot.waitUntil(lambda: panel.model.index_of((*W, ("dims", 0))).data() != "dims[0]")
    document.undo()
    assert to_bytes(document.model) == before
    qtbot.waitUntil(lambda: panel.model.index_of((*W, ("dims", 0))).data() == "dims[0]")
    panel.tree.setCurrentIndex(cell(panel, (("graph", 0),), 0))
    qtbot.keyClick(panel.tree, Qt.Key.Key_Delete)
    assert "cannot be removed" in panel.error.text()
    panel.tree.setCurrentIndex(cell(panel, (*W, ("dims", 0)), 0))
    assert panel.error.isHidden()


def test_f2_edits_the_value_from_any_column(qtbot, panel):
    panel.tree.setCurrentIndex(cell(panel, (("graph", 0), ("node", 0), ("name", 0)), 0))
    qtbot.keyClick(panel.tree, Qt.Key.Key_F2)
    assert panel.values.editor.text() == "double"
    qtbot.keyClick(panel.values.editor, Qt.Key.Key_Escape)
    panel.tree.setCurrentIndex(cell(panel, (("graph", 0),), 0))
    qtbot.keyClick(panel.tree, Qt.Key.Key_F2)
    assert panel.values.editor is None


def choose(menu, *titles):
    """Trigger an entry of a menu, through its submenus."""
    for title in titles[:-1]:
        menu = next(a for a in menu.actions() if a.text() == title).menu()
    next(a for a in menu.actions() if a.text() == titles[-1]).trigger()


def test_fields_are_added_from_the_menu(qtbot, panel):
    panel.menu.build(panel.model.index_of(W))
    choose(panel.menu, "&Add Field", "doc_string…")
    dialog = next(w for w in QApplication.topLevelWidgets() if isinstance(w, TextPrompt) and w.isVisible())
    qtbot.keyClicks(dialog.fields[0], "weights of the branch")
    qtbot.keyClick(dialog.fields[0], Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: cell(panel, (*W, ("doc_string", 0))).data() == "weights of the branch")
    assert builders.value(panel.workspace.model, "w").initializer.doc_string == "weights of the branch"


def test_a_tensor_opens_in_the_tensor_panel(qtbot, panel):
    asked = []
    panel.workspace.action_requested.connect(asked.append)
    panel.menu.build(panel.model.index_of((*W, ("float_data", 0))))
    choose(panel.menu, "Edit as &Tensor")
    assert asked == ["panel.tensor"]
    assert panel.workspace.selection.current is builders.value(panel.workspace.model, "w")


def test_a_field_nobody_knows_is_changed_and_removed(qtbot):
    data = to_bytes(builders.document(builders.BRANCHES).model) + b"\xf8\x3e\x2a\xfa\x3e\x02hi"
    workspace = Workspace(Document(load(data)), title="raw")
    panel = RawMessagesPanel(workspace)
    qtbot.addWidget(panel)
    panel.show()
    qtbot.waitUntil(lambda: "were saved" in panel.status.text())
    number, text = (("field 1007", 0),), (("field 1007", 1),)
    type_over(qtbot, panel, number, "43")
    qtbot.waitUntil(lambda: cell(panel, number).data() == "43")
    panel.tree.setCurrentIndex(cell(panel, text))
    panel.tree.setFocus()
    qtbot.keyClick(panel.tree, Qt.Key.Key_Delete)
    assert workspace.document.undo_title.startswith("Remove field 1007 of ")
    assert to_bytes(workspace.model) == data[:-8] + b"\xf8\x3e\x2b"
    workspace.document.undo()
    workspace.document.undo()
    assert to_bytes(workspace.model) == data
    workspace.close()


def test_a_field_nobody_knows_is_added_from_the_menu(qtbot, panel):
    panel.menu.build(panel.model.index_of(W))
    choose(panel.menu, "&Add Field", "Unknown &Field…")
    dialog = next(w for w in QApplication.topLevelWidgets() if isinstance(w, TextPrompt) and w.isVisible())
    qtbot.keyClicks(dialog.fields[0], "1007")
    qtbot.keyClicks(dialog.fields[1], "many")
    qtbot.keyClick(dialog.fields[1], Qt.Key.Key_Return)
    assert "not a whole number" in dialog.error.text()
    dialog.fields[1].clear()
    qtbot.keyClicks(dialog.fields[1], "42")
    qtbot.keyClick(dialog.fields[1], Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: cell(panel, (*W, ("field 1007", 0))).data() == "42")
    panel.workspace.document.undo()
    assert not panel.workspace.document.modified


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


def test_a_stretch_is_no_field_that_could_be_removed_or_edited(qtbot, wide):
    stretch = wide.model.index(0, 0, wide.model.index_of(GRAPH))
    wide.tree.setCurrentIndex(stretch)
    qtbot.keyClick(wide.tree, Qt.Key.Key_Delete)
    assert len(wide.workspace.model.graph.nodes) == 5000
    assert not wide.model.flags(stretch.siblingAtColumn(2)) & Qt.ItemFlag.ItemIsEditable


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
def test_rows_of_before_an_edit_change_nothing(qtbot, wide):
    path = (*GRAPH, ("node", 700))
    wide.tree.setCurrentIndex(cell(wide, path, 0))
    document = wide.workspace.document
    with document.edit("Remove") as edit:
        edit.do(RemoveNode(document.model.graph.nodes.first))
    qtbot.keyClick(wide.tree, Qt.Key.Key_Delete)
    assert len(document.model.graph.nodes) == 4999
    assert "read again" in wide.error.text()
    wide.error.show_error(None)
    qtbot.keyClick(wide.tree, Qt.Key.Key_F2)
    assert "read again" in wide.error.text()
    name = cell(wide, (*path, ("name", 0)))
    assert not wide.model.flags(name) & Qt.ItemFlag.ItemIsEditable
    qtbot.waitUntil(lambda: cell(wide, (*path, ("name", 0))).data() == "n701")
    assert wide.error.isHidden()
    assert wide.model.flags(cell(wide, (*path, ("name", 0)))) & Qt.ItemFlag.ItemIsEditable


@pytest.mark.long
def test_what_is_typed_goes_to_no_other_message_that_took_the_place(qtbot, wide):
    path = (*GRAPH, ("node", 2), ("op_type", 0))
    editor = begin(wide, path)
    document = wide.workspace.document
    with document.edit("Remove") as edit:
        edit.do(RemoveNode(document.model.graph.nodes.first))
    editor.selectAll()
    qtbot.keyClicks(editor, "Abs")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert {node.op_type for node in document.model.graph.nodes} == {"Relu"}
    assert "has changed" in wide.error.text()
    qtbot.waitUntil(lambda: wide.values.editor not in (None, editor))
    assert wide.values.editor.text() == "Abs"
    qtbot.keyClick(wide.values.editor, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: cell(wide, (*path[:-1], ("name", 0))).data() == "n3")


@pytest.mark.long
def test_an_edit_while_the_messages_are_read_begins_anew(qtbot, wide):
    document = wide.workspace.document
    read = []
    wide.model.modelReset.connect(lambda: read.append(cell(wide, (*GRAPH, ("name", 0))).data()))
    with document.edit("Rename") as edit:
        edit.do(SetField(document.model.graph, "name", "second"))
    wide._start_encoding()
    with document.edit("Rename") as edit:
        edit.do(SetField(document.model.graph, "name", "third"))
    qtbot.waitUntil(lambda: bool(read))
    assert read == ["third"]
