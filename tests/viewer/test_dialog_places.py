"""Dialogs that preview on the graph leave it in sight."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QRect, QSize
from PySide6.QtWidgets import QDialog, QWidget

from onnx_workbench.viewer.dialogs.dialog_lifetime import place_beside, show_aside
from onnx_workbench.viewer.run.workspace import Workspace
from tests.model import builders

SCREEN = QRect(0, 0, 1600, 1000)
DIALOG = QSize(600, 640)


@pytest.mark.parametrize(
    ("window", "left"),
    [
        (QRect(0, 0, 900, 700), 900),  # there is room beside it
        (QRect(160, 90, 1280, 820), 1000),  # partly over its right side
        (QRect(0, 0, 1600, 1000), 1000),
    ],
)
def test_a_dialog_hides_as_little_of_the_window_as_the_screen_allows(window, left):
    placed = QRect(place_beside(window, DIALOG, SCREEN), DIALOG)
    assert placed.left() == left
    assert SCREEN.contains(placed)
    assert not placed.contains(window.center())


def test_a_dialog_larger_than_the_screen_begins_in_its_corner():
    placed = place_beside(QRect(0, 0, 500, 400), QSize(700, 600), QRect(10, 20, 640, 480))
    assert (placed.x(), placed.y()) == (10, 20)


def test_a_dialog_is_no_higher_than_the_screen(qtbot):
    window, workspace = QWidget(), Workspace(builders.document())
    qtbot.addWidget(window)
    window.show()
    dialog = QDialog(window)
    dialog.resize(300, 5000)
    show_aside(workspace, dialog)
    assert dialog.height() < window.screen().availableGeometry().height()
    workspace.close()
