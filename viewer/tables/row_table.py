"""A table whose rows are objects and are selected as a whole."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel, QItemSelectionModel, Qt
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

_ROOM = 6  # px of a row around its text


class RowTable(QTableView):
    """Rows of one height without grid; Tab goes on to the next widget. `name` is what screen readers call it."""

    def __init__(self, model: QAbstractItemModel, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
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
