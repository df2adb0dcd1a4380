"""The costs of a model in the window."""

from __future__ import annotations

import csv
import errno
import os

import pytest
from PySide6.QtCore import Qt, QTimer

from onnx_workbench.model.edits import nodes, values
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.viewer.panels.statistics import StatisticsPanel
from onnx_workbench.viewer.run.workspace import Workspace
from tests.model import builders
from tests.viewer.background_work import wait_for_readers


@pytest.fixture
def panel(qtbot):
    workspace = Workspace(builders.document(), title="chain")
    panel = StatisticsPanel(workspace)
    qtbot.addWidget(panel)
    panel.show()
    workspace.types.start()
    qtbot.waitUntil(lambda: "64·N B" in panel.summary.text() or "64·N" in panel.summary.text())
    yield panel
    workspace.close()


def cells(panel):
    return {
        panel.model.index(r, 0).data(): [panel.model.index(r, c).data() for c in range(1, panel.model.columnCount())]
        for r in range(panel.model.rowCount())
    }


def show_nodes(panel, qtbot):
    panel.group.setCurrentIndex(panel.group.findData("node"))
    qtbot.waitUntil(lambda: panel.model.rows[0].node is not None)


def test_formulas_until_dimensions_have_numbers(panel, qtbot, received):
    assert cells(panel)["Mul"] == ["1", "4", "16 B", "0", "4·N", "4·N", "16·N"]
    panel.bindings.setText("N=2")
    panel.bindings.editingFinished.emit()
    qtbot.waitUntil(lambda: cells(panel)["Mul"][4] == "8")
    panel.bindings.setText("N")
    messages = received(panel.workspace.messages.shown)
    panel.bindings.editingFinished.emit()
    assert "does not set a dimension" in messages[0].title


def test_a_selection_is_summed_up_by_itself(panel, qtbot):
    workspace = panel.workspace
    workspace.selection.set([builders.node(workspace.document, name) for name in ("first", "second")])
    assert set(cells(panel)) == {"Mul", "Relu", "Add", "Softmax"}
    panel.scope.setCurrentIndex(1)
    qtbot.waitUntil(lambda: set(cells(panel)) == {"Mul", "Relu"})
    assert panel.summary.text().startswith("4 parameters")
    workspace.selection.set([builders.node(workspace.document, "third")])
    qtbot.waitUntil(lambda: set(cells(panel)) == {"Add"})
    panel.scope.setCurrentIndex(0)
    qtbot.waitUntil(lambda: len(cells(panel)) == 4)


@pytest.mark.long
def test_the_selected_row_survives_an_edit(panel, qtbot):
    workspace = panel.workspace
    show_nodes(panel, qtbot)
    panel.table.selectRow(next(r for r, row in enumerate(panel.model.rows) if row.node.name == "second"))
    chosen = panel.model.rows[panel.table.currentIndex().row()].node
    assert workspace.selection.current is chosen
    other = builders.node(workspace.document, "first")
    workspace.selection.set([other])
    count = len(panel.model.rows)
    builders.one_edit(workspace.document, nodes.delete_and_bridge, [builders.node(workspace.document, "third")])
    qtbot.waitUntil(lambda: len(panel.model.rows) == count - 1)
    assert panel.model.rows[panel.table.currentIndex().row()].node is chosen
    assert workspace.selection.current is other


def test_rows_are_sorted_in_the_background_and_the_current_one_stays(panel, qtbot):
    panel.table.setCurrentIndex(panel.model.index(0, 0))
    before = [row.title for row in panel.model.rows]
    panel.table.sortByColumn(0, Qt.SortOrder.DescendingOrder)
    assert [row.title for row in panel.model.rows] == before
    qtbot.waitUntil(lambda: [row.title for row in panel.model.rows] == ["Softmax", "Relu", "Mul", "Add"])
    assert panel.model.rows[panel.table.currentIndex().row()].title == before[0]
    panel.table.sortByColumn(0, Qt.SortOrder.AscendingOrder)
    panel.group.setCurrentIndex(panel.group.findData("node"))
    qtbot.waitUntil(
        lambda: [row.title.split()[-1] for row in panel.model.rows] == ["third", "first", "second", "fourth"]
    )


@pytest.mark.long
def test_a_name_with_a_dot_is_suggested_and_a_formula_is_not(panel, qtbot):
    workspace = panel.workspace
    x = builders.value(workspace.document, "x")
    with workspace.document.edit("Other sizes") as edit:
        values.set_type(edit, x, TensorType(ElementType.FLOAT, Shape(("Dyn.0", "max(4, Dyn.0)"))))
    workspace.types.start()
    qtbot.waitUntil(lambda: panel.bindings.placeholderText() == "Dyn.0=1")


def test_going_to_a_row_does_not_limit_what_is_summed_up(panel, qtbot):
    workspace = panel.workspace
    workspace.selection.set([builders.node(workspace.document, name) for name in ("first", "second")])
    panel.scope.setCurrentIndex(1)
    panel.group.setCurrentIndex(2)
    qtbot.waitUntil(lambda: panel.model.rowCount() == 2)
    panel.table.setCurrentIndex(panel.model.index(1, 0))
    assert len(workspace.selection.nodes) == 1
    assert panel.model.rowCount() == 2


@pytest.mark.long
def test_edits_are_followed(panel, qtbot):
    with panel.workspace.document.edit("Insert") as edit:
        nodes.insert_on_edge(edit, builders.value(panel.workspace.document, "r"), "Neg")
    qtbot.waitUntil(lambda: "Neg" in cells(panel))


def test_nothing_is_counted_that_nobody_sees(panel, qtbot):
    seen = StatisticsPanel(panel.workspace)
    qtbot.addWidget(seen)
    seen.show()
    panel.hide()
    with panel.workspace.document.edit("Insert") as edit:
        nodes.insert_on_edge(edit, builders.value(panel.workspace.document, "r"), "Neg")
    qtbot.waitUntil(lambda: "Neg" in cells(seen))
    delays = [*seen.findChildren(QTimer), *panel.findChildren(QTimer)]
    qtbot.waitUntil(lambda: not panel.workspace.tasks.running and not any(delay.isActive() for delay in delays))
    assert "Neg" not in cells(panel)
    panel.show()
    qtbot.waitUntil(lambda: "Neg" in cells(panel))


def test_node_by_node_goes_to_nodes_and_colours_the_graph(panel, qtbot, received):
    show_nodes(panel, qtbot)
    rows = [panel.model.rows[r].node.name for r in range(panel.model.rowCount())]
    panel.table.selectRow(rows.index("second"))
    assert panel.workspace.selection.current.name == "second"
    overlays = received(panel.workspace.highlights.overlay_changed)
    panel.table.sortByColumn(7, panel.table.horizontalHeader().sortIndicatorOrder())
    panel.colour.setChecked(True)
    assert set(overlays[-1].values()) == {16.0}
    panel.colour.setChecked(False)
    assert overlays[-1] is None


def test_what_holds_a_body_is_coloured_by_all_that_is_in_it(qtbot, received):
    workspace = Workspace(builders.document(builders.BRANCHES), title="branches")
    panel = StatisticsPanel(workspace)
    qtbot.addWidget(panel)
    panel.show()
    workspace.types.start()
    qtbot.waitUntil(lambda: workspace.types.inferred is not None and panel.found is not None)
    overlays = received(workspace.highlights.overlay_changed)
    panel.table.sortByColumn(7, panel.table.horizontalHeader().sortIndicatorOrder())
    panel.colour.setChecked(True)
    holder = next(n for n in workspace.model.graph.nodes if n.bodies)
    inside = {n for body in holder.bodies for n in body.nodes}
    numbers = overlays[-1]
    own = next(n.activation_bytes for n in panel.found.nodes if n.node is holder)
    within = sum(numbers[node] for node in inside)
    assert within > 0
    assert numbers[holder] == within + (own.constant if own is not None else 0)
    workspace.close()


def test_saving(panel, tmp_path):
    panel.save(tmp_path / "costs.csv")
    with (tmp_path / "costs.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0][:2] == ["what", "nodes"]
    assert ["Mul", "1", "4", "16", "0", "4·N", "4·N", "16·N"] in rows


def test_non_utf8_names_are_saved_and_a_failure_keeps_the_file(panel, qtbot, tmp_path):
    with panel.workspace.document.edit("Rename") as edit:
        edit.do(SetField(builders.node(panel.workspace.document, "first"), "name", os.fsdecode(b"caf\xe9")))
    show_nodes(panel, qtbot)
    path, messages = tmp_path / "costs.csv", []
    panel.workspace.messages.shown.connect(messages.append)
    panel.save(path)
    assert "caf\\udce9" in path.read_text("utf-8")
    assert not messages
    before = path.read_bytes()
    panel.model.rows = Failing(panel.model.rows)
    panel.save(path)
    assert [message.title for message in messages] == ["costs.csv cannot be written"]
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["costs.csv"]


class Failing(list):
    """Rows of which the last is never written, as on a disk that is full by then."""

    def __iter__(self):
        yield self[0]
        raise OSError(errno.ENOSPC, "No space left on device")


def test_the_graph_is_coloured_by_one_thing_at_a_time(panel, received):
    overlays = received(panel.workspace.highlights.overlay_changed)
    panel.colour.setChecked(True)
    node = builders.node(panel.workspace.document, "second")
    panel.workspace.runs.overlays.show({node: 3.0}, "from elsewhere")
    assert not panel.colour.isChecked()
    assert overlays[-1] == {node: 3.0}


def test_titles_say_what_is_counted(panel):
    tips = [
        panel.model.headerData(section, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole)
        for section in range(panel.model.columnCount())
    ]
    assert tips[0] is None
    assert "kernel" in tips[4]
    assert all("formulas" in tip for tip in tips[1:])
    assert panel.bindings.placeholderText() == "N=1"


SCOPES = """
scopes (float[2, 4] x) => (float[2, 4] y)
{
    [one] a = Relu (x)
    [two] b = Exp (a)
    [three] y = Sin (b)
}
"""


def test_scopes_begin_where_they_branch_and_go_as_deep_as_asked(qtbot):
    document = builders.document(SCOPES)
    names = {"one": "/model/one/a/Relu", "two": "/model/one/b/Exp", "three": "/model/two/Sin"}
    with document.edit("Rename") as edit:
        for old, new in names.items():
            nodes.rename_node(edit, builders.node(document, old), new)
    workspace = Workspace(document, title="scopes")
    panel = StatisticsPanel(workspace)
    qtbot.addWidget(panel)
    panel.show()
    qtbot.waitUntil(lambda: panel.found is not None)
    assert not panel.levels.isVisible()
    panel.group.setCurrentIndex(panel.group.findData("scope"))
    wait_for_readers(qtbot)
    assert panel.levels.isVisible()
    assert {title: row[0] for title, row in cells(panel).items()} == {"model/one": "2", "model/two": "1"}
    panel.levels.setValue(3)
    qtbot.waitUntil(lambda: set(cells(panel)) == {"model/one/a", "model/one/b", "model/two"})
    panel.levels.setValue(1)
    qtbot.waitUntil(lambda: set(cells(panel)) == {"model"})
    workspace.close()


def test_sums_say_what_they_lack(qtbot):
    """The size of what an unknown operator gives is not known: its users cost something, not nothing."""
    text = """<ir_version: 10, opset_import: ["" : 21, "com.example" : 1]> g (float[2, 3] x) => (float[2, 3] y, z)
        { y = Neg (x) u = com.example.Unknown (x) v = Neg (u) z = Exp (v) }"""
    workspace = Workspace(builders.document(text), title="partly")
    panel = StatisticsPanel(workspace)
    qtbot.addWidget(panel)
    panel.show()
    workspace.types.start()
    qtbot.waitUntil(lambda: "Neg" in cells(panel) and cells(panel)["Neg"][4] == "6 + ?")
    assert cells(panel)["Exp"] == ["1", "0", "0 B", "0", "?", "?", "?"]
    assert "3 nodes not known" in panel.summary.text()
    workspace.close()


def test_the_sums_are_reported_in_full_beside_or_above_the_choices(qtbot, panel):
    needed = panel.summary.sizeHint().width()
    for width in (needed + 40, 4 * needed):
        panel.resize(width, 300)
        qtbot.waitUntil(lambda: panel.summary.width() >= needed)
        assert panel.save_button.geometry().right() <= panel.width()
