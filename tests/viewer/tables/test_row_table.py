"""Tables of rows, as they are drawn."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QStyleOptionHeader

from onnx_workbench.viewer.tables.row_table import RowTable

ARROW = QStyleOptionHeader.SortIndicator


@pytest.mark.parametrize(
    ("order", "arrow"),
    [(Qt.SortOrder.AscendingOrder, ARROW.SortUp), (Qt.SortOrder.DescendingOrder, ARROW.SortDown)],
    ids=["ascending", "descending"],
)
def test_the_arrow_points_up_for_ascending_order(qtbot, order, arrow):
    table = RowTable(QStandardItemModel(2, 2), "Numbers")
    qtbot.addWidget(table)
    header = table.horizontalHeader()
    header.setSortIndicatorShown(True)
    header.setSortIndicator(1, order)
    drawn = []
    for section in range(2):
        option = QStyleOptionHeader()
        header.initStyleOptionForIndex(option, section)
        drawn.append(option.sortIndicator)
    assert drawn == [ARROW.None_, arrow]
