"""Two open documents shown side by side."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from onnx_workbench.model.edits import attributes, nodes
from onnx_workbench.viewer.compare.model_comparison import ModelComparison
from onnx_workbench.viewer.compare.registry import comparison_of
from onnx_workbench.viewer.panels.differences import DifferencesPanel
from onnx_workbench.viewer.run.workspace import Workspace
from tests.model import builders


def compared(qtbot):
    """A model and its edited copy, compared, with the panel of the edited one."""
    workspaces = []
    for title in ("old.onnx", "new.onnx"):
        workspace = Workspace(builders.document(), title=title)
        workspaces.append(workspace)
    old, new = workspaces
    with new.document.edit("Edit") as edit:
        attributes.set_attribute(edit, builders.node(new.document, "fourth"), "axis", 0)
        nodes.insert_on_edge(edit, builders.value(new.document, "r"), "Neg")
    panel = DifferencesPanel(new)
    qtbot.addWidget(panel)
    comparing = ModelComparison(old, new)
    with qtbot.waitSignal(comparing.changed):
        pass
    return old, new, panel


@pytest.fixture
def pair(qtbot):
    """Two compared documents that close at the end."""
    old, new, panel = compared(qtbot)
    yield old, new, panel
    old.close()
    new.close()


def cells(panel):
    return [[panel.model.index(r, c).data() for c in range(5)] for r in range(panel.model.rowCount())]


def test_lists_what_differs(pair):
    _, _, panel = pair
    assert [row[0] for row in cells(panel)] == ["+ added", "~ changed", "~ changed"]
    assert ["~ changed", "node Softmax fourth", "attribute axis", "1", "0"] in cells(panel)
    assert panel.model.headerData(3, Qt.Orientation.Horizontal) == "Before: old.onnx"
    assert panel.summary.text() == "3 differences from old.onnx"
    panel.filters["changed"].setChecked(False)
    assert [row[0] for row in cells(panel)] == ["+ added"]


def test_a_row_is_shown_in_both_and_selections_go_together(pair):
    old, new, panel = pair
    row = next(i for i, r in enumerate(cells(panel)) if r[2] == "attribute axis")
    panel.table.selectRow(row)
    assert old.selection.current is builders.node(old.document, "fourth")
    assert new.selection.current is builders.node(new.document, "fourth")
    old.selection.set([builders.node(old.document, "first")])
    assert new.selection.current is builders.node(new.document, "first")
    new.selection.set([builders.value(new.document, "c")])
    assert old.selection.current is builders.value(old.document, "c")


def test_copying_changes_both_ways(pair, qtbot):
    old, new, panel = pair
    row = next(i for i, r in enumerate(cells(panel)) if r[2] == "attribute axis")
    panel.table.selectRow(row)
    with qtbot.waitSignal(comparison_of(new).changed):
        panel.to_right.click()
    assert builders.node(new.document, "fourth").attributes["axis"].value == 1
    assert new.document.undo_title == "Copy a change from old.onnx"
    panel.table.selectAll()
    with qtbot.waitSignal(comparison_of(new).changed):
        panel.to_left.click()
    assert [n.op_type for n in old.model.graph.nodes] == ["Mul", "Relu", "Neg", "Add", "Softmax"]
    assert cells(panel) == []
    assert panel.summary.text() == "No difference from old.onnx"


def test_edits_are_followed_and_comparing_ends(pair, qtbot):
    old, new, panel = pair
    with qtbot.waitSignal(comparison_of(new).changed), old.document.edit("Rename") as edit:
        nodes.rename_node(edit, builders.node(old.document, "first"), "other")
    assert any(row[0] == "= renamed" for row in cells(panel))
    panel.end_button.click()
    assert comparison_of(old) is None
    assert comparison_of(new) is None
    assert cells(panel) == []


def test_closing_one_ends_it(qtbot):
    old, new, panel = compared(qtbot)
    old.close()
    assert comparison_of(new) is None
    assert panel.summary.text() == "Not compared with another model"
    new.close()
