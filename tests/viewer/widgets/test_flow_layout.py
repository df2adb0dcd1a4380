"""The row that goes on in a new line."""

from itertools import pairwise

import pytest
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QWidget

from onnx_workbench.viewer.widgets.elided_label import ElidedLabel
from onnx_workbench.viewer.widgets.flow_layout import FlowLayout


@pytest.fixture
def row(qtbot):
    """Five widgets of 100 × 20, the third hidden."""
    holder = QWidget()
    qtbot.addWidget(holder)
    layout = FlowLayout(10)
    holder.setLayout(layout)
    boxes = []
    for number in range(5):
        box = QWidget()
        box.setFixedSize(100, 20)
        layout.addWidget(box)
        box.setVisible(number != 2)
        boxes.append(box)
    holder.show()
    return holder, boxes


@pytest.mark.parametrize(
    ("width", "lines"), [(430, [0, 0, 0, 0]), (429, [0, 0, 0, 1]), (210, [0, 0, 1, 1]), (50, [0, 1, 2, 3])]
)
def test_widgets_stand_in_as_few_lines_as_there_is_room_for(qtbot, row, width, lines):
    holder, boxes = row
    holder.resize(width, 300)
    qtbot.wait(0)
    shown = [box for number, box in enumerate(boxes) if number != 2]
    assert [box.y() // 25 for box in shown] == lines
    for one, other in pairwise(shown):
        assert other.y() > one.y() or other.x() == one.x() + 110
    assert holder.layout().heightForWidth(width) == (lines[-1] + 1) * 25 - 5


def test_sizes_it_asks_for(row):
    holder, _ = row
    assert holder.layout().sizeHint() == QSize(430, 20)
    assert holder.layout().minimumSize() == QSize(100, 20)


def test_what_is_taken_out_is_no_longer_arranged(qtbot, row):
    holder, boxes = row
    item = holder.layout().takeAt(0)
    assert item.widget() is boxes[0]
    assert holder.layout().count() == 4
    assert holder.layout().takeAt(9) is None
    holder.resize(430, 100)
    qtbot.wait(0)
    assert boxes[1].x() == 0


@pytest.mark.parametrize(("width", "widths"), [(430, [210, 100, 100]), (310, [90, 100, 100]), (230, [120, 100, 100])])
def test_a_filling_widget_has_what_its_line_leaves(qtbot, width, widths):
    """It never makes the others go on in a new line for more than it must have."""
    holder = QWidget()
    qtbot.addWidget(holder)
    layout = FlowLayout(10)
    holder.setLayout(layout)
    label = ElidedLabel()
    label.setText("much to tell " * 20)
    layout.add_filling(label)
    boxes = [QWidget(), QWidget()]
    for box in boxes:
        box.setFixedSize(100, 20)
        layout.addWidget(box)
    holder.show()
    holder.resize(width, 200)
    qtbot.wait(0)
    assert [label.width(), *(box.width() for box in boxes)] == widths
