"""Saving and closing a document whose edit is still on its way: it is waited for, or asked about, and never lost."""

import shutil
from threading import Event

import numpy as np
import onnx
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialogButtonBox, QFileDialog, QMessageBox, QPushButton
from shiboken6 import isValid

from onnx_workbench.model.edits import initializers
from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.model.io.reader import read as reader
from onnx_workbench.model.io.tensors.array_files import write_array
from onnx_workbench.model.io.writer.save import Saving
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.viewer.dialogs.save_options import SaveOptionsDialog
from onnx_workbench.viewer.tensor_view import editing
from onnx_workbench.viewer.workflows import background_edit
from tests.model import builders
from tests.viewer.background_work import delay, until_stopped, wait_for_readers
from tests.viewer.opening import choose, opened, rename, run, titles
from tests.viewer.tensor_view.tensor_actions import panel_of

pytestmark = pytest.mark.long

Button = QMessageBox.StandardButton


def weights_in(path):
    (found,) = (one for one in onnx.load(path).graph.initializer if one.name == "w")
    return onnx.numpy_helper.to_array(found).ravel()


def idle(window):
    working = any(tab.workspace.tasks.running for tab in window.tabs())
    return not (working or window.files.saving)


def question(qtbot, window):
    """The question that is asked, once it is."""

    def found():
        return [box for box in window.findChildren(QMessageBox) if box.isVisible()]

    qtbot.waitUntil(lambda: bool(found()))
    (box,) = found()
    return box


def answer(qtbot, box, choice):
    qtbot.mouseClick(box.button(choice), Qt.MouseButton.LeftButton)


def buttons(window):
    return [button.text() for button in window.tab.findChildren(QPushButton) if button.isVisible()]


# -- saving ----------------------------------------------------------------------------------------------------


def test_a_save_waits_for_the_edit_and_has_it(qtbot, window, being_written, delayed):
    path = window.tab.path
    assert window.tab.modified
    qtbot.waitUntil(lambda: window.actions_binding.qaction("file.save").isEnabled())
    qtbot.keyClick(window.tab.view, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
    assert window.files.saving
    qtbot.waitUntil(window.status.work.isVisible)
    assert window.status.work.text.text().startswith("Import v.npy into w")
    assert weights_in(path)[1] == 1
    delayed.set()
    qtbot.waitUntil(lambda: idle(window))
    assert weights_in(path)[1] == 7
    assert not window.tab.modified
    assert window.tab.workspace.document.undo_title == "Import v.npy into w"


def test_the_edit_shows_before_what_is_read_by_itself(qtbot, window, being_written):
    workspace, _ = being_written
    gate = Event()
    workspace.tasks.start("Computing statistics", lambda _progress: gate.wait(30))
    rename(window.tab, "renamed")  # so that it begins anew
    qtbot.waitUntil(lambda: window.status.work.text.text().startswith("Import v.npy into w"))
    gate.set()


def test_a_save_goes_on_without_an_edit_that_is_stopped(qtbot, window, being_written):
    workspace, _ = being_written
    rename(window.tab, "renamed")
    run(window, "file.save")
    qtbot.waitUntil(window.status.work.isVisible)
    qtbot.mouseClick(window.status.work.stop, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not window.tab.modified)
    assert onnx.load(window.tab.path).graph.node[0].name == "renamed"
    assert weights_in(window.tab.path)[1] == 1
    assert workspace.document.undo_title == "Rename node"


def test_a_save_goes_on_without_an_edit_that_is_refused(qtbot, window, being_written, delayed):
    workspace, _ = being_written
    run(window, "file.save")
    with workspace.document.edit("Another") as edit:
        initializers.set_tensor(edit, builders.value(workspace.document, "w"), ArrayTensor(np.ones(2, np.float32)))
    delayed.set()
    qtbot.waitUntil(lambda: idle(window))
    assert titles(window.tab) == ["The tensor has changed in the meantime"]
    assert weights_in(window.tab.path).tolist() == [1, 1]
    assert not window.tab.modified


def test_a_save_that_waits_can_be_stopped_and_the_edit_is_made(qtbot, window, being_written, delayed):
    workspace, task = being_written
    run(window, "file.save")
    qtbot.waitUntil(lambda: titles(window.tab) == ["Saving large.onnx waits for “Import v.npy into w”"])
    choose(qtbot, window.tab, "Do not save")
    assert titles(window.tab) == []
    assert not window.files.saving
    delayed.set()
    qtbot.waitUntil(lambda: task.finished)
    assert workspace.document.undo_title == "Import v.npy into w"
    qtbot.waitUntil(lambda: idle(window))
    assert weights_in(window.tab.path)[1] == 1
    assert window.tab.modified


def export(qtbot, window, monkeypatch, path):
    """Choose Export in the menu of the tensor panel, which shows the tensor that the edit is of."""
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    window.docks.panel("tensor").pane.menu.ask_export()


def test_an_export_waits_for_the_edit_and_has_it(qtbot, window, being_written, delayed, monkeypatch, tmp_path):
    path = tmp_path / "values.npy"
    export(qtbot, window, monkeypatch, path)
    qtbot.waitUntil(lambda: titles(window.tab) == ["Exporting values.npy waits for “Import v.npy into w”"])
    delayed.set()
    qtbot.waitUntil(lambda: idle(window) and path.exists())
    assert np.load(path).ravel()[1] == 7
    assert titles(window.tab) == ["values.npy was written"]


def test_an_export_that_waits_can_be_stopped(qtbot, window, being_written, delayed, monkeypatch, tmp_path):
    _, task = being_written
    path = tmp_path / "values.npy"
    export(qtbot, window, monkeypatch, path)
    qtbot.waitUntil(lambda: bool(titles(window.tab)))
    choose(qtbot, window.tab, "Do not export")
    assert titles(window.tab) == []
    delayed.set()
    qtbot.waitUntil(lambda: task.finished and idle(window))
    assert not path.exists()


def test_a_copy_that_is_chosen_with_options_waits_too(qtbot, window, being_written, delayed, tmp_path):
    run(window, "file.save_copy")
    (dialog,) = window.findChildren(SaveOptionsDialog)
    dialog.path.setText(str(tmp_path / "copy.onnx"))
    save = dialog.buttons.button(QDialogButtonBox.StandardButton.Save)
    qtbot.mouseClick(save, Qt.MouseButton.LeftButton)
    assert window.files.saving
    assert dialog.isVisible()
    delayed.set()
    qtbot.waitUntil(lambda: idle(window))
    assert weights_in(tmp_path / "copy.onnx")[1] == 7
    assert weights_in(window.tab.path)[1] == 1
    assert window.tab.modified


# -- closing ---------------------------------------------------------------------------------------------------


def test_closing_asks_about_an_edit_that_is_on_its_way_alone(qtbot, window, being_written, delayed):
    _, task = being_written
    assert window.isWindowModified()
    run(window, "file.close")
    box = question(qtbot, window)
    assert "“Import v.npy into w” is still being made." in box.informativeText()
    answer(qtbot, box, Button.Cancel)
    assert not task.cancelled
    delayed.set()
    qtbot.waitUntil(lambda: idle(window))
    assert window.tab.workspace.document.undo_title == "Import v.npy into w"


def test_what_closing_saves_has_the_edit(qtbot, window, being_written, delayed):
    path = window.tab.path
    run(window, "file.close")
    answer(qtbot, question(qtbot, window), Button.Save)
    assert window.tabs()
    delayed.set()
    qtbot.waitUntil(lambda: not window.tabs())
    assert weights_in(path)[1] == 7


def test_closing_waits_for_a_save_that_waits_until_that_is_stopped(qtbot, window, being_written, delayed):
    _, task = being_written
    path = window.tab.path
    run(window, "file.save")
    qtbot.waitUntil(lambda: titles(window.tab) == ["Saving large.onnx waits for “Import v.npy into w”"])
    run(window, "file.close")
    qtbot.waitUntil(lambda: "Stop saving" in buttons(window))
    choose(qtbot, window.tab, "Stop saving")
    assert not window.files.saving
    answer(qtbot, question(qtbot, window), Button.Cancel)
    delayed.set()
    qtbot.waitUntil(lambda: task.finished and idle(window))
    assert weights_in(path)[1] == 1
    assert window.tab.modified


def test_closing_waits_for_an_export_that_waits(qtbot, window, being_written, delayed, monkeypatch, tmp_path):
    """It was dropped without a word when the edit was discarded."""
    path = tmp_path / "values.npy"
    export(qtbot, window, monkeypatch, path)
    run(window, "file.close")
    qtbot.waitUntil(lambda: "Export values.npy: still running" in titles(window.tab))
    delayed.set()
    answer(qtbot, question(qtbot, window), Button.Discard)
    assert not window.tabs()
    assert np.load(path).ravel()[1] == 7


def test_closing_goes_on_once_an_export_that_waits_is_stopped(
    qtbot, window, being_written, delayed, monkeypatch, tmp_path
):
    _, task = being_written
    path = tmp_path / "values.npy"
    export(qtbot, window, monkeypatch, path)
    run(window, "file.close")
    qtbot.waitUntil(lambda: "Stop saving" in buttons(window))
    choose(qtbot, window.tab, "Stop saving")
    answer(qtbot, question(qtbot, window), Button.Discard)
    assert not window.tabs()
    assert task.cancelled
    assert not path.exists()


def test_closing_goes_on_once_an_export_that_waits_is_not_wanted(
    qtbot, window, being_written, delayed, monkeypatch, tmp_path
):
    path = tmp_path / "values.npy"
    export(qtbot, window, monkeypatch, path)
    run(window, "file.close")
    qtbot.waitUntil(lambda: "Do not export" in buttons(window))
    choose(qtbot, window.tab, "Do not export")
    answer(qtbot, question(qtbot, window), Button.Cancel)
    assert titles(window.tab) == []
    delayed.set()
    qtbot.waitUntil(lambda: idle(window))
    assert not path.exists()


def test_what_closing_discards_is_stopped(qtbot, window, being_written):
    _, task = being_written
    path = window.tab.path
    run(window, "file.close")
    answer(qtbot, question(qtbot, window), Button.Discard)
    assert not window.tabs()
    assert task.cancelled
    assert weights_in(path)[1] == 1


def test_closing_asks_per_document_and_waits_for_saves(qtbot, window, being_written, delayed, large_file, tmp_path):
    shutil.copy(large_file, tmp_path / "other.onnx")
    first, second = window.tab.path, opened(window, qtbot, tmp_path / "other.onnx").path
    rename(window.tab, "renamed")
    window.close()
    for _ in range(2):
        assert window.isVisible()
        box = question(qtbot, window)
        answer(qtbot, box, Button.Save)
        qtbot.waitUntil(lambda box=box: not isValid(box))
        delayed.set()
    qtbot.waitUntil(lambda: not isValid(window))
    assert weights_in(first)[1] == 7
    assert onnx.load(second).graph.node[0].name == "renamed"


def test_what_is_worked_out_on_a_copy_is_asked_about(qtbot, window, large_file, monkeypatch):
    tab = opened(window, qtbot, large_file)
    qtbot.waitUntil(lambda: tab.workspace.types.inferred is not None)
    began = Event()
    monkeypatch.setattr(background_edit, "declare_all", until_stopped(began))
    run(window, "model.write_types")
    qtbot.waitUntil(began.is_set)
    window.close()
    box = question(qtbot, window)
    assert "“Write inferred types” is still being made." in box.informativeText()
    answer(qtbot, box, Button.Discard)
    qtbot.waitUntil(lambda: not isValid(window))


def test_what_is_edited_while_closing_saves_is_asked_about(qtbot, window, large_file, monkeypatch):
    gate = delay(monkeypatch, Saving, "run")
    tab = opened(window, qtbot, large_file)
    rename(tab, "saved")
    window.files.close(tab)
    answer(qtbot, question(qtbot, window), Button.Save)
    wait_for_readers(qtbot)
    builders.one_edit(tab.workspace.document, rename_node, tab.workspace.graph.nodes.last, "more")
    gate.set()
    qtbot.waitUntil(lambda: not window.files.saving)
    answer(qtbot, question(qtbot, window), Button.Cancel)
    assert window.tabs() == [tab]


def test_a_tab_stays_open_with_what_was_refused_while_closing_saved(qtbot, window, being_written, delayed):
    workspace, _ = being_written
    with workspace.document.edit("Another") as edit:
        initializers.set_tensor(edit, builders.value(workspace.document, "w"), ArrayTensor(np.ones(2, np.float32)))
    window.close()
    answer(qtbot, question(qtbot, window), Button.Save)
    delayed.set()
    qtbot.waitUntil(lambda: idle(window))
    assert titles(window.tab) == ["The tensor has changed in the meantime"]
    assert weights_in(window.tab.path).tolist() == [1, 1]
    window.close()
    qtbot.waitUntil(lambda: not isValid(window))


@pytest.mark.parametrize("stopped", [False, True])
def test_a_file_being_written_is_finished_before_closing(qtbot, window, large_file, monkeypatch, tmp_path, stopped):
    gate = Event()
    monkeypatch.setattr(editing, "write_array", lambda *given: gate.wait(30) and write_array(*given))
    tab = opened(window, qtbot, large_file)
    value = builders.value(tab.workspace.document, "w")
    panel_of(qtbot, window, value).pane.editing.export(value.initializer, tmp_path / "w.npy")
    window.close()
    qtbot.waitUntil(lambda: titles(tab) == ["Export w.npy: still running"])
    if stopped:
        choose(qtbot, tab, "Stop saving")
    assert window.isVisible()
    gate.set()
    qtbot.waitUntil(lambda: not isValid(window))
    assert np.load(tmp_path / "w.npy")[1] == 1


# -- reading again ---------------------------------------------------------------------------------------------


def test_an_edit_during_a_reload_is_not_lost(qtbot, window, large_file, monkeypatch, delayed):
    gate, read = Event(), reader.load
    tab = opened(window, qtbot, large_file)
    monkeypatch.setattr(reader, "load", lambda *given: gate.wait(30) and read(*given))
    window.files.reload(tab)
    panel = panel_of(qtbot, window, builders.value(tab.workspace.document, "w"))
    panel.pane.editing.fill([], "7")
    assert tab.modified
    gate.set()
    qtbot.waitUntil(lambda: titles(tab) == ["The file was changed by another program"])
    delayed.set()
    qtbot.waitUntil(lambda: idle(window))
    assert window.tabs() == [tab]
    assert tab.workspace.document.undo_title == "Fill w with 7"
