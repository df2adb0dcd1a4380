"""The spreadsheet of nodes: what it shows, edits, refuses, copies and pastes."""

from __future__ import annotations

import sys

import pytest
from PySide6.QtCore import QItemSelectionModel, Qt
from PySide6.QtWidgets import QApplication

from onnx_workbench.model.edits import nodes
from onnx_workbench.model.edits.attributes import set_attribute
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.text import regular_expressions
from onnx_workbench.viewer.panels.node_table import NodeTablePanel
from onnx_workbench.viewer.panels.node_table_model import NodeTableModel
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.tasks import event_loop
from tests.model import builders
from tests.viewer.background_work import wait_for_readers

CONVS = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[1, 4, 8, 8] x, float[4, 1, 3, 3] w, bool f) => (float[?, ?, ?, ?] y)
{
    [a] p = Conv <group: int = 4, strides: ints = [2, 2]> (x, w)
    [b] q = Conv <group: int = 10> (p, w)
    [r] s = Relu (q)
    [i] y = If (f) <
        then_branch: graph = t () => (float[?, ?, ?, ?] u) { [c] u = Conv <group: int = 2> (s, w) },
        else_branch: graph = e () => (float[?, ?, ?, ?] v) { v = Neg (s) }
    >
}
"""


@pytest.fixture
def panel(desk):
    desk.open(CONVS)
    panel = NodeTablePanel(desk.workspace)
    desk.qtbot.addWidget(panel)
    panel.resize(900, 300)
    panel.show()
    listed(panel, desk.qtbot)
    return panel


def listed(panel, qtbot):
    """Wait until the nodes are listed and sorted."""
    qtbot.waitUntil(lambda: not panel._search.running)
    wait_for_readers(qtbot)


@pytest.mark.long
def test_it_opens_with_the_most_frequent_operator_but_no_constants(desk):
    desk.open("""
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[2] x) => (float[2] y) {
        one = Constant <value_float = 1.0> () two = Constant <value_float = 2.0> () a = Neg (x) b = Add (a, one)
        y = Add (b, two)
    }
    """)
    panel = NodeTablePanel(desk.workspace)
    desk.qtbot.addWidget(panel)
    panel.show()
    listed(panel, desk.qtbot)
    assert panel.operator.currentText() == "Add (2)"


def column(panel, title):
    return [c.title for c in panel.model.columns].index(title)


def cells(panel, title):
    return [panel.model.index(row, column(panel, title)).data() for row in range(panel.model.rowCount())]


def select(panel, title, *rows):
    selection = panel.table.selectionModel()
    selection.clearSelection()
    for row in rows:
        selection.select(panel.model.index(row, column(panel, title)), QItemSelectionModel.SelectionFlag.Select)


def choose(panel, index):
    """An operator of the list, as a user does."""
    panel.operator.setCurrentIndex(index)
    panel.operator.activated.emit(index)


@pytest.mark.long
def test_every_node_of_the_operator_in_all_graphs(panel):
    assert panel.operator.currentText() == "Conv (3)"
    assert cells(panel, "Name") == ["a", "b", "c"]
    assert cells(panel, "group") == ["4", "10", "2"]
    assert cells(panel, "strides") == ["2, 2", "", ""]
    assert cells(panel, "auto_pad") == ["NOTSET"] * 3, "defaults are shown"
    assert cells(panel, "Graph") == ["g", "g", "g › i › then_branch"]


@pytest.mark.long
def test_numbers_sort_as_numbers(panel, qtbot):
    panel.table.sortByColumn(column(panel, "group"), Qt.SortOrder.AscendingOrder)
    qtbot.waitUntil(lambda: cells(panel, "group") == ["2", "4", "10"])
    panel.table.sortByColumn(column(panel, "group"), Qt.SortOrder.DescendingOrder)
    qtbot.waitUntil(lambda: cells(panel, "Name") == ["b", "a", "c"])


@pytest.mark.long
def test_what_is_no_number_stands_between_numbers_and_texts(panel, desk):
    with desk.document.edit("Set") as edit:
        set_attribute(edit, desk.node("a"), "score", float("nan"))
        set_attribute(edit, desk.node("c"), "score", -1.0)
    panel.refresh()
    listed(panel, desk.qtbot)
    for order in (Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder):
        panel.table.sortByColumn(column(panel, "score"), order)
        listed(panel, desk.qtbot)
        assert cells(panel, "score") == ["-1.0", "nan", ""], "nodes without the attribute come last"


@pytest.mark.long
def test_nodes_are_sorted_in_the_background(panel, desk):
    select(panel, "Name", 0)
    panel.table.sortByColumn(column(panel, "group"), Qt.SortOrder.AscendingOrder)
    assert cells(panel, "group") == ["4", "10", "2"], "the window goes on"
    desk.qtbot.waitUntil(lambda: cells(panel, "group") == ["2", "4", "10"])
    assert panel._selected_nodes() == [desk.node("a")]
    panel.filter.setText("-name:b")
    panel.refresh()
    desk.qtbot.waitUntil(lambda: cells(panel, "group") == ["2", "4"])
    assert panel._selected_nodes() == [desk.node("a")]


@pytest.mark.long
def test_edits_while_nodes_are_sorted(panel, desk):
    panel.table.sortByColumn(column(panel, "group"), Qt.SortOrder.AscendingOrder)
    builders.one_edit(desk.document, set_attribute, desk.node("c"), "group", 20)
    desk.qtbot.waitUntil(lambda: cells(panel, "group") == ["4", "10", "20"])
    panel.table.sortByColumn(column(panel, "group"), Qt.SortOrder.DescendingOrder)
    builders.one_edit(desk.document, nodes.delete, [desk.node("a")])
    desk.qtbot.waitUntil(lambda: cells(panel, "group") == ["20", "10"])


@pytest.mark.long
def test_the_filter_speaks_the_query_language(panel, desk):
    panel.filter.setText("attr:group=10")
    panel.refresh()
    listed(panel, desk.qtbot)
    assert cells(panel, "Name") == ["b"]
    panel.filter.setText("name:/(/")
    panel.refresh()
    assert "regular expression" in panel.error.text()


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal for it")
def test_an_expression_that_takes_too_long_is_said(panel, desk, monkeypatch):
    """It blocked the window until the program was killed."""
    monkeypatch.setattr(regular_expressions, "LIMIT_SECONDS", 0.05)
    builders.do(desk.document, SetField(desk.node("b"), "name", "a" * 40))
    listed(panel, desk.qtbot)
    before = panel.status.text(), cells(panel, "Name")
    panel.filter.setText("name:/(a+)+b/")
    panel.refresh()
    desk.qtbot.waitUntil(lambda: "takes too long" in panel.error.text())
    assert (panel.status.text(), cells(panel, "Name")) == before
    panel.filter.setText("name:/a+/")
    desk.qtbot.waitUntil(lambda: cells(panel, "Name") == ["a", "a" * 40])
    assert panel.error.isHidden()


@pytest.mark.long
def test_a_cell_is_edited_and_undone(panel, desk):
    index = panel.model.index(0, column(panel, "strides"))
    panel.model.write(index, "1, 1")
    assert desk.node("a").attributes["strides"].value == (1, 1)
    assert desk.document.undo_title == "Set strides of a"
    desk.run("edit.undo")
    assert cells(panel, "strides")[0] == "2, 2"


@pytest.mark.long
def test_typing_into_a_cell(panel, desk):
    index = panel.model.index(1, column(panel, "group"))
    panel.table.setCurrentIndex(index)
    panel.table.edit(index)
    editor = panel.table.findChild(type(panel.filter))
    assert editor.text() == "10"
    editor.selectAll()
    desk.qtbot.keyClicks(editor, "5")
    desk.qtbot.keyClick(editor, Qt.Key.Key_Return)
    desk.qtbot.waitUntil(lambda: desk.node("b").attributes["group"].value == 5)


def test_wrong_input_is_refused_saying_why(panel, desk):
    index = panel.model.index(0, column(panel, "group"))
    with pytest.raises(ModelError, match="four"):
        panel.model.write(index, "four")
    assert desk.node("a").attributes["group"].value == 4


def test_many_cells_at_once(panel, desk):
    select(panel, "group", 0, 1, 2)
    panel.bulk.setText("1")
    desk.qtbot.mouseClick(panel.set_button, Qt.MouseButton.LeftButton)
    assert cells(panel, "group") == ["1", "1", "1"]
    desk.run("edit.undo")
    assert cells(panel, "group") == ["4", "10", "2"]


def test_all_or_nothing(panel, desk):
    select(panel, "Name", 0, 1)
    panel.bulk.setText("same")
    panel.set_selected()
    assert "same" in panel.error.text()
    assert cells(panel, "Name") == ["a", "b", "c"]


@pytest.mark.long
def test_copy_paste_and_clear(panel, desk):
    select(panel, "group", 0, 1)
    panel.copy_cells()
    assert QApplication.clipboard().text() == "4\n10\n"
    QApplication.clipboard().setText("7\n8\n")
    panel.paste_cells()
    assert cells(panel, "group") == ["7", "8", "2"]
    QApplication.clipboard().setText("3")
    panel.paste_cells()
    assert cells(panel, "group") == ["3", "3", "2"]
    panel.clear_cells()
    assert "group" not in desk.node("a").attributes
    assert cells(panel, "group") == ["1", "1", "2"], "the default is in force"


@pytest.mark.long
def test_rows_follow_what_happens_elsewhere(panel, desk):
    desk.select(desk.node("a"))
    desk.run("edit.delete")
    desk.qtbot.waitUntil(lambda: cells(panel, "Name") == ["b", "c"])
    choose(panel, 0)
    listed(panel, desk.qtbot)
    assert "Operator" in [c.title for c in panel.model.columns]
    assert set(cells(panel, "Operator")) == {"Conv", "Relu", "If", "Neg"}


def test_what_is_refused_stays_in_its_cell_until_esc(panel, desk, texts):
    before = texts()
    column = next(i for i, c in enumerate(panel.model.columns) if c.title == "Name")
    index = panel.model.index(0, column)
    delegate = panel.table.itemDelegate()
    panel.table.setCurrentIndex(index)
    panel.table.edit(index)
    editor = delegate.editor
    editor.selectAll()
    taken = next(node.name for node in panel.model.rows if node.name != panel.model.rows[0].name)
    desk.qtbot.keyClicks(editor, taken)
    desk.qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert delegate.editor is editor
    assert editor.text() == taken
    assert taken in delegate.error_text
    desk.qtbot.keyClick(editor, Qt.Key.Key_Escape)
    assert delegate.editor is None
    assert texts() == before


def begin_and_type(panel, desk, title, text):
    """Type into a cell of the first row; its field."""
    index = panel.model.index(0, column(panel, title))
    panel.table.setCurrentIndex(index)
    panel.table.edit(index)
    field = panel.table.itemDelegate().editor
    field.selectAll()
    desk.qtbot.keyClicks(field, text)
    return field


def test_a_double_click_elsewhere_leaves_what_is_refused_in_its_cell(panel, desk, texts):
    before = texts()
    table, delegate = panel.table, panel.table.itemDelegate()
    taken = panel.model.rows[1].name
    begin_and_type(panel, desk, "Name", taken)
    at = table.visualRect(panel.model.index(0, column(panel, "group"))).center()
    desk.qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=at)
    desk.qtbot.mouseDClick(table.viewport(), Qt.MouseButton.LeftButton, pos=at)
    desk.qtbot.waitUntil(lambda: delegate.editor is not None and delegate.editor.text() == taken)
    assert table.currentIndex().column() == column(panel, "Name")
    desk.qtbot.keyClick(delegate.editor, Qt.Key.Key_Escape)
    assert texts() == before


@pytest.mark.long
def test_rows_follow_what_is_selected_on_the_graph(panel, desk):
    for name in ("b", "c"):
        desk.select(desk.node(name))
        assert [panel.model.rows[i.row()].name for i in panel.table.selectionModel().selectedIndexes()] == [name]
    desk.select(desk.node("r"))
    assert panel.table.selectionModel().selectedIndexes() == []


def test_what_is_no_table_is_refused(panel, desk, texts):
    before = texts()
    select(panel, "group", 0)
    QApplication.clipboard().setText("x" * 200_000)  # more than a cell may hold
    panel.paste_cells()
    assert "There is no table on the clipboard" in panel.error.text()
    assert texts() == before


@pytest.mark.long
def test_a_table_nobody_sees_is_brought_up_to_date_when_it_is_shown(panel, desk):
    seen = NodeTablePanel(desk.workspace)
    desk.qtbot.addWidget(seen)
    seen.show()
    listed(seen, desk.qtbot)
    panel.hide()
    builders.one_edit(desk.document, nodes.delete, [desk.node("a")])
    desk.qtbot.waitUntil(lambda: cells(seen, "Name") == ["b", "c"])
    assert panel.model.rowCount() == 3, "listing many nodes takes time that nobody has use for"
    panel.show()
    listed(panel, desk.qtbot)
    assert cells(panel, "Name") == ["b", "c"]


@pytest.mark.long
def test_a_large_model_is_listed_over_several_turns(panel, desk, monkeypatch):
    monkeypatch.setattr(event_loop, "CHUNK_SECONDS", 0)
    choose(panel, 0)
    assert "so far" in panel.status.text()
    desk.select(desk.node("a"))
    desk.run("edit.delete")  # in the middle: what was gone through is not the graph any more
    desk.qtbot.waitUntil(lambda: set(cells(panel, "Name")) >= {"b", "c", "r", "i"})
    assert "a" not in cells(panel, "Name")
    assert panel.status.text() == f"{len(panel.model.rows)} nodes"
    assert panel.operator.currentText().startswith("All operators")


@pytest.mark.long
def test_what_is_selected_stays_selected_when_the_list_is_filtered(panel, desk):
    choose(panel, 0)
    listed(panel, desk.qtbot)
    select(panel, "Name", *(row for row in range(panel.model.rowCount()) if row != 2))
    chosen = [node for row, node in enumerate(panel.model.rows) if row != 2]
    panel.filter.setText("op:conv")
    panel.refresh()
    listed(panel, desk.qtbot)
    rows = {index.row() for index in panel.table.selectionModel().selectedIndexes()}
    assert [panel.model.rows[row] for row in sorted(rows)] == [n for n in chosen if n.op_type == "Conv"]


CALLS = """
<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
g (float[3] x) => (float[3] y)
{
    [one] p = local.Scale <alpha: float = 2.0> (x)
    [two] y = local.Scale (p)
}
<domain: "local", opset_import: ["" : 21]>
Scale <alpha: float = 1.0> (a) => (b)
{
    k = Constant <value_float: float = @alpha> ()
    b = Mul (a, k)
}
"""


@pytest.mark.long
def test_calls_of_a_function_have_its_attributes_and_their_kinds(desk):
    desk.open(CALLS)
    panel = NodeTablePanel(desk.workspace)
    desk.qtbot.addWidget(panel)
    panel.show()
    listed(panel, desk.qtbot)
    assert panel.operator.currentText() == "local::Scale (2)"
    assert cells(panel, "alpha") == ["2.0", "1.0"]
    select(panel, "alpha", 0, 1)
    panel.bulk.setText("3")
    desk.qtbot.mouseClick(panel.set_button, Qt.MouseButton.LeftButton)
    assert [desk.node(n).attributes["alpha"].value for n in ("one", "two")] == [3.0, 3.0]
    assert {desk.node(n).attributes["alpha"].kind.name for n in ("one", "two")} == {"FLOAT"}


@pytest.mark.long
def test_what_a_function_gives_is_written_as_it_is_shown(desk):
    desk.open(CALLS.replace("k = Constant", "k2 = Constant <value_float: float = 1.0> ()\n    k = Constant"))
    panel = NodeTablePanel(desk.workspace)
    desk.qtbot.addWidget(panel)
    panel.show()
    listed(panel, desk.qtbot)
    choose(panel, panel.operator.findText("Constant (2)"))
    listed(panel, desk.qtbot)
    assert cells(panel, "value_float") == ["1.0", "@alpha"]
    for row, text in ((0, "@alpha"), (1, "3")):
        select(panel, "value_float", row)
        panel.bulk.setText(text)
        desk.qtbot.mouseClick(panel.set_button, Qt.MouseButton.LeftButton)
    assert cells(panel, "value_float") == ["@alpha", "3.0"]
    assert [node.attributes["value_float"].reference for node in panel.model.rows] == ["alpha", ""]


@pytest.mark.long
def test_selecting_every_cell_asks_only_for_those_in_view(desk, monkeypatch):
    asked = []
    flags = NodeTableModel.flags

    def counted(self, index):
        asked.append(index.row())
        return flags(self, index)

    monkeypatch.setattr(NodeTableModel, "flags", counted)
    rows = "\n".join(f"v{n + 1} = LeakyRelu (v{n})" for n in range(600))
    desk.open(f'<ir_version: 10, opset_import: ["" : 21]> g (float[4] v0) => (float[4] v600) {{ {rows} }}')
    panel = NodeTablePanel(desk.workspace)
    desk.qtbot.addWidget(panel)
    panel.resize(600, 300)
    panel.show()
    listed(panel, desk.qtbot)
    panel.table.grab()
    asked.clear()
    panel.table.selectAll()
    panel.table.grab()
    assert panel.set_button.text() == "Set 1,200 cells"
    assert len(set(asked)) < 100


def test_nodes_without_names_and_tensors_are_reported_apart(desk):
    """A table of a few hundred constants was a column of nothing and one of the word tensor."""
    desk.open("""
    <ir_version: 10, opset_import: ["" : 21]>
    g () => (float[2] a, float[8, 4] b)
    {
        a = Constant <value: tensor = float[2] {0.5, 1}> ()
        [named] b = ConstantOfShape <value: tensor = float[1] {3}> (s)
    }
    """)
    panel = NodeTablePanel(desk.workspace)
    desk.qtbot.addWidget(panel)
    panel.show()
    choose(panel, 0)
    listed(panel, desk.qtbot)
    assert cells(panel, "Name") == ["a", "named"]
    assert cells(panel, "value") == ["[0.5, 1]", "[3]"]
    first = panel.model.index(0, column(panel, "Name"))
    assert panel.model.data(first, Qt.ItemDataRole.EditRole) == ""
    muted = [panel.model.index(row, 0).data(Qt.ItemDataRole.ForegroundRole) for row in (0, 1)]
    assert muted == [theme().muted, None]
    panel.model.write(first, "renamed")
    assert cells(panel, "Name") == ["renamed", "named"]


def test_a_refusal_calls_a_node_by_the_name_it_has(desk):
    desk.open("""
    <ir_version: 10, opset_import: ["" : 21]>
    g () => (float[2] a) { [first] a = Constant <value: tensor = float[2] {0.5, 1}> () }
    """)
    panel = NodeTablePanel(desk.workspace)
    desk.qtbot.addWidget(panel)
    panel.show()
    listed(panel, desk.qtbot)
    select(panel, "Name", 0)
    cell = panel.model.index(0, column(panel, "value"))
    panel.table.selectionModel().select(cell, QItemSelectionModel.SelectionFlag.Select)
    panel.bulk.setText("renamed")
    desk.qtbot.mouseClick(panel.set_button, Qt.MouseButton.LeftButton)
    assert "of first cannot be edited as text" in panel.error.text()
    assert cells(panel, "Name") == ["first"]
