"""Simplifying in the window: preview on the graph, one undo entry per pass, report."""

from __future__ import annotations

import threading

import pytest
from PySide6.QtCore import Qt
from shiboken6 import isValid

from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.viewer.dialogs.simplify import SimplifyDialog, StandardOperatorsDialog
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.workflows import apply_edits
from tests.model import builders
from tests.model.snapshots import snapshot
from tests.viewer.background_work import pause_reader, until_stopped

CHOICES = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y, float[2] z)
{ [one] a = Identity(x) [two] b = Identity(x) [three] c = Identity(b) [abs] y = Abs(a) [neg] z = Neg(c) }
"""


AGAIN = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) <int64[1] k = {0}, int64[2] kk = {0, 1}, int64[1] two = {2}>
{
    a = Unsqueeze(x, k) b = Squeeze(a, k) s = Abs(b) t = Reshape(s, two) c = Neg(t)
    d = Unsqueeze(c, k) e = Unsqueeze(d, k) f = Squeeze(e, kk) y = Sin(f)
}
"""


TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) <float k = {3.0}>
{ [same] a = Identity(x) [sum] c = Add(k, k) [times] y = Mul(a, c) }
"""


FUSED = """
<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1]>
g (float[2, 2] x) => (float[2, 2] y)
{ [same] a = Identity(x) [gelu] b = com.microsoft.Gelu(a) [inverse] y = com.microsoft.Inverse(b) }
"""


@pytest.fixture
def opened(qapp):
    """Opens the dialog on a model, and closes both in the end."""
    found = []

    def start(text: str, kind: type[SimplifyDialog] = SimplifyDialog) -> SimplifyDialog:
        workspace = Workspace(builders.document(text), title="chain")
        dialog = kind(workspace)
        dialog.show()
        found.append((dialog, workspace))
        return dialog

    yield start
    for dialog, workspace in found:
        if isValid(dialog):
            dialog.close()
        workspace.close()


@pytest.fixture
def dialog(opened):
    return opened(TEXT)


def test_closing_the_dialog_a_second_time_does_nothing(dialog, received):
    ended = received(dialog.finished)
    dialog.reject()
    dialog.reject()
    assert ended == [0]


def passes(dialog):
    items = [dialog.passes.topLevelItem(row) for row in range(dialog.passes.topLevelItemCount())]
    return {item.text(0): item for item in items}


def test_preview_apply_report_undo(dialog, qtbot):
    workspace = dialog.workspace
    document = workspace.document
    before = snapshot(document.model)
    qtbot.waitUntil(dialog.ok.isEnabled)
    found = passes(dialog)
    assert found["Identity"].text(1) == "1"
    dialog.passes.setCurrentItem(found["Identity"].child(0))
    assert workspace.selection.items == (builders.node(document, "same"),)
    assert snapshot(document.model) == before
    dialog.ok.click()
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.report)
    assert [n.op_type for n in document.model.graph.nodes] == ["Mul"]
    assert "outputs agree" in dialog.state.text()
    assert dialog.report.topLevelItem(0).text(2) == "1"
    titles = []
    while document.undo_title:
        titles.append(document.undo_title)
        document.undo()
    assert titles == ["Simplify with 2 passes"]
    assert snapshot(document.model) == before


def test_onnxruntime_operators_become_standard_or_stay_with_a_reason(opened, qtbot):
    dialog = opened(FUSED, StandardOperatorsDialog)
    document = dialog.workspace.document
    qtbot.waitUntil(dialog.ok.isEnabled)
    assert [item.text(1) for item in passes(dialog).values()] == ["1"]
    assert dialog.state.text() == "1 match. Left unchanged: 1 place."  # nothing of other passes, as there are none
    assert all(item.isExpanded() for item in passes(dialog).values())
    dialog.ok.click()
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.report)
    assert [n.op_type for n in document.model.graph.nodes] == ["Identity", "Gelu", "Inverse"]
    assert document.undo_title == "Replace by standard operators"


def test_what_was_stopped_can_be_begun_again(dialog, qtbot, monkeypatch):
    """The dialog stayed locked, and went on saying that it simplifies."""
    document, began = dialog.workspace.document, threading.Event()
    qtbot.waitUntil(dialog.ok.isEnabled)

    with monkeypatch.context() as patch:
        patch.setattr("onnx_workbench.exec.transform.simplify.check_transformed", until_stopped(began))
        dialog.ok.click()
        qtbot.waitUntil(began.is_set)
        dialog.workspace.tasks.cancel_all()
        qtbot.waitUntil(dialog.ok.isEnabled)
    assert dialog.state.text() == "Stopped. Nothing was changed."
    assert dialog.passes.isEnabled()
    assert document.undo_title is None
    dialog.ok.click()
    qtbot.waitUntil(lambda: "A pass can" in dialog.state.text())
    dialog.ok.click()
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.report)
    assert [n.op_type for n in document.model.graph.nodes] == ["Mul"]


@pytest.fixture
def free(monkeypatch):
    """Lets what is worked out be applied."""
    return pause_reader(monkeypatch, apply_edits, "post_and_wait")[1]


@pytest.fixture
def about_to_change(dialog, qtbot, free):
    """The dialog when all is worked out and the model is to be changed next."""
    qtbot.waitUntil(dialog.ok.isEnabled)
    dialog.ok.click()
    qtbot.waitUntil(lambda: dialog.state.text().startswith("Changing the model"))
    return dialog


def test_escape_stops_what_is_not_made_yet(about_to_change, qtbot, free):
    """It made all of it."""
    dialog, workspace = about_to_change, about_to_change.workspace
    before = snapshot(workspace.model)
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    free.set()
    qtbot.waitUntil(lambda: not workspace.tasks.running)
    assert workspace.document.undo_title is None
    assert snapshot(workspace.model) == before


def test_an_edit_before_the_change_has_it_searched_again(about_to_change, qtbot, free):
    dialog, document = about_to_change, about_to_change.workspace.document
    with document.edit("Rename") as edit:
        rename_node(edit, builders.node(document, "times"), "other")
    free.set()
    qtbot.waitUntil(lambda: "A pass can" in dialog.state.text())
    assert document.undo_title == "Rename"
    assert dialog.pages.currentWidget() is dialog.passes
    assert dialog.ok.isEnabled()


def test_what_is_stopped_before_the_change_can_be_begun_again(about_to_change, qtbot, free):
    dialog = about_to_change
    dialog.workspace.tasks.cancel_all()
    qtbot.waitUntil(dialog.ok.isEnabled)
    assert dialog.state.text() == "Stopped. Nothing was changed."
    assert dialog.passes.isEnabled()
    free.set()
    assert dialog.workspace.document.undo_title is None


def test_one_undo_takes_all_passes_back(opened, qtbot):
    dialog = opened(AGAIN)
    document = dialog.workspace.document
    before = [n.op_type for n in document.model.graph.nodes]
    qtbot.waitUntil(dialog.ok.isEnabled)
    dialog.ok.click()
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.report)
    assert [n.op_type for n in document.model.graph.nodes] == ["Abs", "Neg", "Sin"]
    assert [e.title for e in document.entries()][1:] == ["Simplify with 3 passes"]
    assert dialog.state.text().startswith("Simplified; ")
    document.undo()
    assert [n.op_type for n in document.model.graph.nodes] == before


def test_passes_that_are_not_chosen_do_nothing(dialog, qtbot):
    qtbot.waitUntil(dialog.ok.isEnabled)
    passes(dialog)["Identity"].setCheckState(0, Qt.CheckState.Unchecked)
    dialog.ok.click()
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.report)
    assert [n.op_type for n in dialog.workspace.model.graph.nodes] == ["Identity", "Mul"]


def lines(item):
    return {item.child(row).text(0): item.child(row) for row in range(item.childCount())}


def names(dialog):
    return [n.name for n in dialog.workspace.model.graph.nodes]


def click_box(dialog, item, qtbot):
    """Click the check box of a line, as a user does."""
    from PySide6.QtWidgets import QStyle, QStyleOptionViewItem

    tree = dialog.passes
    if item.parent() is not None:
        item.parent().setExpanded(True)
    tree.scrollToItem(item)
    option = QStyleOptionViewItem()
    tree.initViewItemOption(option)
    option.rect = tree.visualItemRect(item)
    option.features |= QStyleOptionViewItem.ViewItemFeature.HasCheckIndicator
    box = tree.style().subElementRect(QStyle.SubElement.SE_ItemViewItemCheckIndicator, option, tree)
    qtbot.mouseClick(tree.viewport(), Qt.MouseButton.LeftButton, pos=box.center())


def test_single_matches_are_chosen(opened, qtbot):
    dialog = opened(CHOICES)
    qtbot.waitUntil(dialog.ok.isEnabled)
    identity = passes(dialog)["Identity"]
    assert identity.text(1) == "3"
    for text, line in lines(identity).items():
        if "two" not in text:
            click_box(dialog, line, qtbot)
    assert identity.checkState(0) == Qt.CheckState.PartiallyChecked
    assert identity.text(1) == "1 of 3"
    for item in passes(dialog).values():
        if item is not identity:
            item.setCheckState(0, Qt.CheckState.Unchecked)
    dialog.ok.click()
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.report)
    assert names(dialog) == ["one", "three", "abs", "neg"]


def test_a_choice_outlives_an_edit_elsewhere(opened, qtbot):
    dialog = opened(CHOICES)
    qtbot.waitUntil(dialog.ok.isEnabled)
    identity = passes(dialog)["Identity"]
    left_out = next(text for text in lines(identity) if "two" in text)
    click_box(dialog, lines(identity)[left_out], qtbot)
    document = dialog.workspace.document
    with document.edit("Rename") as edit:
        from onnx_workbench.model.edits import values

        values.rename_value(edit, document.model.graph.inputs[0], "image")
    assert not dialog.ok.isEnabled()
    qtbot.waitUntil(dialog.ok.isEnabled)
    found = lines(passes(dialog)["Identity"])
    checked = {text for text, line in found.items() if line.checkState(0) == Qt.CheckState.Checked}
    assert checked == set(found) - {left_out}
    assert len(found) == 3


def test_only_the_selection_is_simplified(opened, qtbot):
    dialog = opened(CHOICES)
    workspace = dialog.workspace
    qtbot.waitUntil(dialog.ok.isEnabled)
    workspace.selection.set([builders.node(workspace.document, name) for name in ("two", "neg")])
    dialog.scope.setCurrentIndex(1)
    assert dialog.scope.currentText() == "Selection (2 nodes)"
    qtbot.waitUntil(dialog.ok.isEnabled)
    identity = passes(dialog)["Identity"]
    assert identity.text(1) == "1"
    dialog.passes.setCurrentItem(identity.child(0))
    assert workspace.selection.nodes == (builders.node(workspace.document, "two"),)
    assert dialog.scope.currentText() == "Selection (2 nodes)"
    dialog.ok.click()
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.report)
    assert names(dialog) == ["one", "three", "abs", "neg"]


@pytest.mark.long
def test_many_matches_have_one_line_for_the_rest(opened, qtbot):
    count = 250
    nodes = " ".join(f"n{i} = Neg(x)" for i in range(count)) + " y = Sum(" + ", ".join(f"n{i}" for i in range(count))
    dialog = opened(f'<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) {{ {nodes}) }}')
    qtbot.waitUntil(dialog.ok.isEnabled)
    same = next(item for item in passes(dialog).values() if item.childCount() > 200)
    rest = same.child(same.childCount() - 1)
    assert rest.text(0) == "… and 49 more"
    click_box(dialog, rest, qtbot)
    assert same.text(1) == "200 of 249"
    dialog.ok.click()
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.report)
    assert len(dialog.workspace.model.graph.nodes) == 51
