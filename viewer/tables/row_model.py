"""Models of tables: one object of any kind a row, columns as data, sorted in a task."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.style.tooltips import for_role, plain_tip
from onnx_workbench.viewer.tables.sorting import Key, order_of
from onnx_workbench.viewer.tasks.readers import ModelReader

Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True)
class Column:
    """Heading of a column. `width` is in characters, 0 takes the rest."""

    title: str
    width: int = 0
    tip: str = ""


Row = TypeVar("Row")
AnyColumn = TypeVar("AnyColumn", bound=Column)


class RowModel(QAbstractTableModel, Generic[Row, AnyColumn]):
    """Rows under titled columns, in the order given; subclasses return the texts of a row, or all data of a cell."""

    def __init__(self, columns: Sequence[AnyColumn], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.columns: Sequence[AnyColumn] = columns
        self.rows: Sequence[Row] = []  # in the order shown

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show other rows."""
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()

    def texts(self, _row: Row) -> Sequence[str]:
        """Return the texts of a row, which may be from a file and long."""
        return ()

    def tip(self, row: Row, column: int) -> str:
        """Return what the tooltip of a cell says: the whole text."""
        return self.texts(row)[column]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self.rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return display(self.texts(row)[index.column()], 300)
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
            return for_role(display(self.tip(row, index.column()), 1000, keep_lines=True), role)
        return None

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation != Qt.Orientation.Horizontal or section >= len(self.columns):
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self.columns[section].title
        return plain_tip(self.columns[section].tip) or None if role == Qt.ItemDataRole.ToolTipRole else None


class SortedRowModel(RowModel[Row, AnyColumn]):
    """Rows in the order of a column; as given before a column was chosen.

    They are sorted in a task, which an edit of the model restarts; until its end the previous rows are shown.
    Persistent indexes, and with them the selection, stay with their rows. A QSortFilterProxyModel takes 21 s for
    100,000 rows, as it asks Python for both keys in each comparison.
    """

    finds_columns = False  # `find_columns` depends on the rows, so it is called for others

    def __init__(self, columns: Sequence[AnyColumn], parent: QObject | None = None) -> None:
        super().__init__(columns, parent)
        self.sorted_by: tuple[int, bool] | None = None  # the column, and whether the largest come first
        self._given: Sequence[Row] = []
        self._order: Sequence[int] = ()  # indices in `_given` of the rows shown
        self._coming: Sequence[Row] | None = None  # shown instead as soon as they are sorted
        self._sorting = ModelReader(self)

    @abstractmethod
    def sort_key(self, rows: Sequence[Row], column: AnyColumn, section: int) -> Callable[[int], Key]:
        """Return the function from an index of `rows` to its key in a column. Both run on a pool thread."""

    def find_columns(self, _rows: Sequence[Row], _progress: Progress) -> Sequence[AnyColumn]:
        """Return the columns for other rows. Runs on a pool thread."""
        return self.columns

    def reordered(self, rows: Sequence[Row], order: Sequence[int], progress: Progress) -> Sequence[Row]:
        """Return rows in an order. Runs on a pool thread."""
        return [rows[index] for index in progress.paced(order)]

    def on_order(self) -> None:
        """Invalidate caches by row; called when `rows` change or are sorted, before the views are notified."""

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show other rows, sorted as those of before."""
        self._coming = rows
        self._arrange()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Show the rows sorted by a column; -1: in the given order."""
        self.sorted_by = None if column < 0 else (column, order == Qt.SortOrder.DescendingOrder)
        self._arrange()

    def stop(self) -> None:
        """Cancel sorting: other rows will be set."""
        self._sorting.stop()
        self._coming = None

    def update_rows(self, first: int = 0, last: int | None = None) -> None:
        """Update the rows from `first` to `last` in place."""
        self._sorting.restart()
        if self.rows:
            end = len(self.rows) - 1 if last is None else last
            self.dataChanged.emit(self.index(first, 0), self.index(end, len(self.columns) - 1))

    def _arrange(self) -> None:
        is_new = self._coming is not None
        rows = self._given if self._coming is None else self._coming
        shown, sorted_by = self.columns, self.sorted_by

        if sorted_by is None and not self.finds_columns:
            self._sorting.stop()
            self._show((shown, range(len(rows)), rows))  # nothing to compute: no stale row can be chosen
            return

        def arrange(progress: Progress) -> tuple[Sequence[AnyColumn], Sequence[int], Sequence[Row]]:
            columns = self.find_columns(rows, progress) if is_new else shown
            if sorted_by is None or sorted_by[0] >= len(columns):
                return columns, range(len(rows)), rows
            section, is_descending = sorted_by
            key = self.sort_key(rows, columns[section], section)
            order = order_of(len(rows), key, is_descending=is_descending, progress=progress)
            return columns, order, self.reordered(rows, order, progress)

        self._sorting.start(arrange, self._show)

    def _show(self, arranged: tuple[Sequence[AnyColumn], Sequence[int], Sequence[Row]]) -> None:
        columns, order, rows = arranged
        if self._coming is not None:
            self.beginResetModel()
            self._given, self._coming = self._coming, None
            self.columns, self._order, self.rows = columns, order, rows
            self.on_order()
            self.endResetModel()
            return
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        held = [self._order[index.row()] for index in before]
        self._order, self.rows = order, rows
        self.on_order()
        row_of = {given: row for row, given in enumerate(order)} if held else {}
        after = [self.index(row_of[given], index.column()) for given, index in zip(held, before, strict=True)]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()
