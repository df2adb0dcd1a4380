from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QListWidget, QToolTip, QWidget

from onnx_workbench.viewer.widgets.elided_label import ElidedLabel
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

LONG = "a <b>text</b> that is much wider than what shows it"


def tip_at(qtbot, widget: QWidget, place: QPoint) -> str:
    """Return the tooltip of a place, after waiting there."""
    QToolTip.hideText()
    qtbot.waitUntil(lambda: not QToolTip.isVisible())
    QApplication.sendEvent(widget, QHelpEvent(QEvent.Type.ToolTip, place, widget.mapToGlobal(place)))
    return QToolTip.text() if QToolTip.isVisible() else ""


@pytest.fixture
def rows(qtbot) -> QListWidget:
    rows = QListWidget()
    rows.setItemDelegate(WholeTextDelegate(rows))
    rows.addItems([LONG, "ab", LONG])
    rows.item(2).setToolTip("its own")
    rows.resize(90, 90)
    qtbot.addWidget(rows)
    rows.show()
    return rows


def test_a_text_that_a_list_cuts_is_whole_on_hover_as_plain_text(qtbot, rows):
    shown = [
        tip_at(qtbot, rows.viewport(), rows.visualItemRect(rows.item(row)).topLeft() + QPoint(4, 4)) for row in range(3)
    ]
    assert "&lt;b&gt;text&lt;/b&gt;" in shown[0]
    assert shown[1:] == ["", "its own"]


def test_a_label_that_is_cut_is_whole_on_hover(qtbot):
    label = ElidedLabel()
    label.setText("much wider than the label, which cuts it")
    qtbot.addWidget(label)
    label.resize(60, 20)
    label.show()
    assert tip_at(qtbot, label, QPoint(5, 5)) == label.text()
    label.resize(600, 20)
    assert tip_at(qtbot, label, QPoint(5, 5)) == ""
