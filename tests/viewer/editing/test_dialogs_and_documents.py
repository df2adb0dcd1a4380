"""Dialogs about a document do not outlive it: not the tab, not a reload, not the window."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QDialog
from shiboken6 import isValid

from onnx_workbench.viewer.dialogs.convert import ConvertDialog

#: Each opens a dialog that stays open beside the window.
ABOUT_A_DOCUMENT = (
    "model.extract",
    "model.convert",
    "model.simplify",
    "edit.replace",
    "node.extract_function",
    "file.save_options",
    "graph.batch",
)


def dialogs(desk):
    return [w for w in desk.window.findChildren(QDialog) if w.isVisible()]


@pytest.mark.long
@pytest.mark.parametrize("action", ABOUT_A_DOCUMENT)
def test_a_dialog_closes_with_its_document(desk, qtbot, action):
    tab = desk.window.tab
    desk.select(desk.node("first"), desk.node("second"))
    desk.run(action)
    (dialog,) = dialogs(desk)
    QCoreApplication.processEvents()  # whatever it began is running
    desk.window.files.close(tab)
    qtbot.waitUntil(lambda: not isValid(dialog))
    qtbot.waitUntil(lambda: not isValid(tab))


@pytest.mark.long
@pytest.mark.parametrize("action", ABOUT_A_DOCUMENT)
def test_the_dialog_of_another_document_stays(desk, qtbot, action):
    other = desk.open(title="other")
    desk.select(desk.node("first"), desk.node("second"))
    desk.run(action)
    (dialog,) = dialogs(desk)
    closed = next(tab for tab in desk.window.tabs() if tab is not other)
    desk.window.files.close(closed)
    qtbot.waitUntil(lambda: not isValid(closed))
    assert dialogs(desk) == [dialog]


def test_a_conversion_tried_out_ends_with_its_dialog(desk, qtbot):
    def trying():
        return [task for task in desk.workspace.tasks.running if task.title == "Preparing the preview"]

    desk.run("model.convert")
    dialog = desk.child(ConvertDialog)
    dialog.opset.setCurrentIndex(dialog.opset.findData(17))
    with qtbot.waitSignal(desk.workspace.tasks.started, check_params_cb=lambda task: task in trying()):
        pass
    dialog.reject()
    qtbot.waitUntil(lambda: not isValid(dialog))
    qtbot.waitUntil(lambda: not trying())
