"""Dialogs that preview on the graph leave it in sight."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QRect, QSize

from onnx_workbench.viewer.dialogs.dialog_lifetime import place_beside

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
