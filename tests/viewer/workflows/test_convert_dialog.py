"""Converting in the window: preview, one edit, refusals."""

from __future__ import annotations

import threading

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from shiboken6 import isValid

from onnx_workbench.exec.transform.convert import attempt
from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.viewer.dialogs.convert import ConvertDialog
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.workflows import apply_edits
from tests.model import builders
from tests.model.snapshots import snapshot
from tests.viewer.background_work import pause_reader, until_stopped


@pytest.fixture
def text():
    return builders.CHAIN


@pytest.fixture
def dialog(qapp, text):
    workspace = Workspace(builders.document(text))
    dialog = ConvertDialog(workspace)
    dialog.show()
    yield dialog
    if isValid(dialog):  # it is gone where it was accepted
        dialog.close()
    workspace.close()


def settled(dialog, qtbot):
    qtbot.waitUntil(lambda: dialog.ok.isEnabled() or dialog.error.isVisible())


def converted(dialog, qtbot):
    qtbot.waitUntil(lambda: dialog.ok.text() == "Close")


def lines(dialog):
    return [dialog.list.item(row).text() for row in range(dialog.list.count())]


def test_preview_then_one_edit_then_undo(dialog, qtbot):
    document = dialog.workspace.document
    before = snapshot(document.model)
    assert not dialog.ok.isEnabled()
    dialog.precision.setCurrentText("float16")
    settled(dialog, qtbot)
    assert "2 × weights converted to float16" in lines(dialog)
    assert snapshot(document.model) == before
    dialog.ok.click()
    converted(dialog, qtbot)
    assert "outputs agree on 3 random inputs" in dialog.state.text()
    assert document.undo_title == "Convert to float16"
    assert builders.value(document, "w").initializer.element_type.text == "float16"
    document.undo()
    assert snapshot(document.model) == before


def test_a_long_outcome_does_not_widen_the_dialog(dialog):
    least = dialog.minimumSizeHint().width()
    dialog.state.setText("Converted; " * 40)
    assert dialog.minimumSizeHint().width() == least


@pytest.mark.long
def test_the_result_of_an_abandoned_choice_does_not_arrive(dialog, qtbot, monkeypatch):
    """It came in front of the other one in the list, and could be applied."""
    began, resume = threading.Event(), threading.Event()

    def paused(*given):
        trial = attempt(*given)
        began.set()
        resume.wait(30)
        return trial

    monkeypatch.setattr("onnx_workbench.viewer.dialogs.convert.attempt", paused)
    dialog.precision.setCurrentText("float16")
    qtbot.waitUntil(began.is_set)
    dialog.precision.setCurrentText("bfloat16")
    resume.set()
    settled(dialog, qtbot)
    assert "2 × weights converted to bfloat16" in lines(dialog)
    assert "2 × weights converted to float16" not in lines(dialog)


def stop(dialog, qtbot, began):
    """What Stop in the status line does."""
    qtbot.waitUntil(began.is_set)
    dialog.workspace.tasks.cancel_all()


def test_stop_while_it_is_tried_out_leaves_the_choice(dialog, qtbot, monkeypatch):
    began = threading.Event()

    with monkeypatch.context() as patch:
        patch.setattr("onnx_workbench.viewer.dialogs.convert.attempt", until_stopped(began))
        dialog.precision.setCurrentText("float16")
        stop(dialog, qtbot, began)
        settled(dialog, qtbot)
    assert dialog.state.text() == "Stopped. Nothing was changed."
    dialog.ok.click()
    qtbot.waitUntil(lambda: "2 × weights converted to float16" in lines(dialog))


def test_stopping_a_comparison_keeps_the_model_and_the_choice(dialog, qtbot, monkeypatch):
    document, began = dialog.workspace.document, threading.Event()
    before = snapshot(document.model)
    dialog.precision.setCurrentText("float16")
    settled(dialog, qtbot)

    with monkeypatch.context() as patch:
        patch.setattr("onnx_workbench.exec.transform.convert.check_transformed", until_stopped(began))
        dialog.ok.click()
        stop(dialog, qtbot, began)
        settled(dialog, qtbot)
    assert dialog.state.text() == "Stopped. Nothing was changed."
    assert dialog.form.isEnabled()
    assert snapshot(document.model) == before
    dialog.ok.click()
    qtbot.waitUntil(lambda: dialog.state.text().endswith("changes to the model"))
    dialog.ok.click()
    converted(dialog, qtbot)


def test_what_cannot_be_done_is_said(dialog, qtbot):
    dialog.freeze.setText("Q=1")
    dialog.freeze.textEdited.emit("Q=1")
    settled(dialog, qtbot)
    assert "No dimension is named Q" in dialog.error.text()
    assert not dialog.ok.isEnabled()


@pytest.mark.long
def test_any_dimension_of_an_input_becomes_free(dialog, qtbot):
    document = dialog.workspace.document
    dialog.free.setText("x:0=rows")
    dialog.free.textEdited.emit("x:0=rows")
    settled(dialog, qtbot)
    assert "sizes made dynamic: rows (was N)" in lines(dialog)
    dialog.ok.click()
    converted(dialog, qtbot)
    assert "outputs agree" in dialog.state.text()
    assert document.undo_title == "Convert to any rows"
    assert builders.value(document, "x").type.shape.dims[0] == "rows"


@pytest.mark.long
def test_an_edit_behind_the_dialog_is_taken_into_account(dialog, qtbot):
    document = dialog.workspace.document
    dialog.strip["doc"].setChecked(True)
    dialog.opset.setCurrentText("13")
    settled(dialog, qtbot)
    with document.edit("Rename") as edit:
        rename_node(edit, builders.node(document, "first"), "other")
    assert not dialog.ok.isEnabled()
    settled(dialog, qtbot)
    dialog.apply()
    converted(dialog, qtbot)
    assert document.model.opset_imports[""] == 13
    assert builders.node(document, "other")


def test_functions_names_and_version_are_reported_before(dialog, qtbot):
    document = dialog.workspace.document
    dialog.renamed["nodes"].setChecked(True)
    dialog.renamed["initializers"].setChecked(True)
    dialog.ir_version.setCurrentText("9")
    settled(dialog, qtbot)
    assert lines(dialog) == [
        "4 nodes have new names",
        "2 initializers have new names",
        "the IR version is 9 instead of 10",
    ]
    dialog.ok.click()
    qtbot.waitUntil(lambda: document.undo_title is not None)
    assert document.undo_title == "Convert to new names, IR version 9"
    assert [v.name for v in document.model.graph.initializers] == ["Mul_0_B", "Add_0_B"]


def choose(dialog, *names):
    workspace = dialog.workspace
    workspace.selection.set(builders.node(workspace.document, name) for name in names)
    dialog.scope.setCurrentIndex(1)


def test_only_the_selection_is_converted(dialog, qtbot):
    document = dialog.workspace.document
    choose(dialog, "first")
    dialog.precision.setCurrentText("float16")
    settled(dialog, qtbot)
    assert [line for line in lines(dialog) if "cast" in line] == [
        "casts to float16 added",
        "casts to float added",
    ]
    dialog.ok.click()
    converted(dialog, qtbot)
    assert document.undo_title == "Convert 1 node to float16"
    assert [n.op_type for n in document.model.graph.nodes].count("Cast") > 1


@pytest.mark.long
def test_another_selection_is_tried_out_anew(dialog, qtbot):
    choose(dialog, "first")
    dialog.renamed["nodes"].setChecked(True)
    settled(dialog, qtbot)
    assert lines(dialog) == ["1 node has a new name"]
    choose(dialog, "first", "second")
    assert not dialog.ok.isEnabled()
    settled(dialog, qtbot)
    assert lines(dialog) == ["2 nodes have new names"]


def test_what_is_that_of_the_whole_model_is_refused_for_a_selection(dialog, qtbot):
    dialog.ir_version.setCurrentText("9")
    choose(dialog, "first")
    assert not dialog.ir_version.isEnabled()
    assert dialog.options().ir_version is None
    dialog.opset.setCurrentText("13")
    settled(dialog, qtbot)
    assert "The opset applies to the whole model" in dialog.error.text()
    assert not dialog.ok.isEnabled()


def test_weights_in_and_out_are_a_way_of_saving(dialog, qtbot):
    with qtbot.waitSignal(dialog.workspace.action_requested) as asked:
        dialog.weights.click()
    assert asked.args == ["file.save_options"]


def begin_long_change(dialog, qtbot, monkeypatch):
    """Have the dialog about to make a change; the document, and the event that lets it be made."""
    _, free = pause_reader(monkeypatch, apply_edits, "post_and_wait")
    document = dialog.workspace.document
    dialog.renamed["nodes"].setChecked(True)
    settled(dialog, qtbot)
    before = snapshot(document.model)
    dialog.apply()
    assert dialog.state.text() == "Changing the model: 4 steps…"
    assert not dialog.ok.isEnabled()
    assert not dialog.form.isEnabled()
    assert QApplication.overrideCursor() is None
    assert snapshot(document.model) == before
    return document, free


def test_a_long_change_is_said_before_it_is_made(dialog, qtbot, monkeypatch):
    document, free = begin_long_change(dialog, qtbot, monkeypatch)
    free.set()
    qtbot.waitUntil(lambda: document.undo_title == "Convert to new names")
    qtbot.waitUntil(lambda: not isValid(dialog) or not dialog.isVisible())


def test_an_edit_before_a_long_change_lets_it_be_tried_out_anew(dialog, qtbot, monkeypatch):
    document, free = begin_long_change(dialog, qtbot, monkeypatch)
    with document.edit("Rename") as edit:
        rename_node(edit, builders.node(document, "first"), "other")
    free.set()
    settled(dialog, qtbot)
    assert document.undo_title == "Rename"
    assert lines(dialog) == ["4 nodes have new names"]


def test_escape_stops_a_long_change_that_is_not_made_yet(dialog, qtbot, monkeypatch):
    document, free = begin_long_change(dialog, qtbot, monkeypatch)
    tasks = dialog.workspace.tasks
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    free.set()
    qtbot.waitUntil(lambda: not tasks.running)
    assert document.undo_title is None


def test_what_computes_otherwise_is_not_done(dialog, qtbot):
    document = dialog.workspace.document
    before = snapshot(document.model)
    dialog.opset.setCurrentText("13")
    settled(dialog, qtbot)
    dialog._trial.after.graph.nodes.first.op_type = "Sub"
    dialog.ok.click()
    qtbot.waitUntil(lambda: "outputs differ" in dialog.state.text())
    assert dialog.state.text().startswith("Nothing was changed")
    assert snapshot(document.model) == before


def test_the_result_stays_until_the_dialog_is_closed(dialog, qtbot):
    dialog.opset.setCurrentText("13")
    settled(dialog, qtbot)
    dialog.ok.click()
    converted(dialog, qtbot)
    assert dialog.isVisible()
    assert not dialog.cancel.isVisible()
    dialog.ok.click()
    qtbot.waitUntil(lambda: not isValid(dialog) or not dialog.isVisible())


def test_rare_choices_are_closed_and_follow_the_precision(dialog):
    assert dialog.sort.isHidden()
    dialog.more.click()
    assert dialog.sort.isVisible()
    dialog.more.click()
    assert dialog.sort.isHidden()
    assert dialog.keep.isHidden()
    dialog.precision.setCurrentIndex(dialog.precision.findData("float16"))
    assert dialog.keep.isVisible()
