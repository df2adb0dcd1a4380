"""Undo in a box beside the document."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from onnx_workbench.viewer.widgets.undo_forwarding import forward_undo


@pytest.fixture
def taken(qtbot):
    """A window with a box and the keys of its document; what the document was asked for."""
    window = QWidget()
    qtbot.addWidget(window)
    box = QLineEdit("0, 0", window)
    forward_undo(box)
    QVBoxLayout(window).addWidget(box)
    asked = []
    for name, keys in (("undo", QKeySequence.StandardKey.Undo), ("redo", QKeySequence.StandardKey.Redo)):
        QShortcut(keys, window).activated.connect(lambda name=name: asked.append(name))
    with qtbot.waitActive(window):
        window.show()
        window.activateWindow()
    box.setFocus()
    yield box, asked
    window.close()


def test_a_box_with_nothing_to_undo_leaves_it_to_the_document(qtbot, taken):
    box, asked = taken
    qtbot.keyClick(box, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(box, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    assert asked == ["undo", "redo"]


def test_what_was_typed_is_undone_first(qtbot, taken):
    box, asked = taken
    qtbot.keyClick(box, Qt.Key.Key_7)
    assert box.text() == "0, 07"
    qtbot.keyClick(box, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert (box.text(), asked) == ("0, 0", [])
    qtbot.keyClick(box, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert asked == ["undo"]
