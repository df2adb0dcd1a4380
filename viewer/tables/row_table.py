"""A table whose rows are objects and are selected as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QAbstractItemModel, QItemSelectionModel, Qt
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QStyleOptionHeader, QTableView, QWidget

from onnx_workbench.viewer.tables.row_model import Column
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

_ROOM = 6  # px of a row around its text


class SortHeader(QHeaderView):
    """Headings of columns, with an arrow that points up for ascending order; Qt's Fusion style has it point down."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setSectionsClickable(True)

    def initStyleOptionForIndex(self, option: QStyleOptionHeader, section: int) -> None:
        super().initStyleOptionForIndex(option, section)
        arrow = QStyleOptionHeader.SortIndicator
        turned = {arrow.SortUp: arrow.SortDown, arrow.SortDown: arrow.SortUp}
        option.sortIndicator = turned.get(option.sortIndicator, option.sortIndicator)


class RowTable(QTableView):
    """Rows of one height without grid; Tab goes on to the next widget. `name` is what screen readers call it."""

    def __init__(self, model: QAbstractItemModel, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setItemDelegate(WholeTextDelegate(self))
        self.setHorizontalHeader(SortHeader(self))
        self.setModel(model)
        self.setAccessibleName(name)
        self.setTabKeyNavigation(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setShowGrid(False)
        self.setWordWrap(False)
        rows = self.verticalHeader()
        rows.hide()
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        rows.setDefaultSectionSize(self.fontMetrics().height() + _ROOM)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft)
        header.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        # To mark selected columns, a header asks for the flags of all their cells: seconds for 100,000 selected rows.
        header.setSelectionModel(QItemSelectionModel(model, header))

    def set_widths(self, columns: Sequence[Column]) -> None:
        """Give columns their widths; those without share the rest."""
        for section, column in enumerate(columns):
            if column.width:
                self.setColumnWidth(section, column.width * self.fontMetrics().averageCharWidth())
            else:
                self.horizontalHeader().setSectionResizeMode(section, QHeaderView.ResizeMode.Stretch)
