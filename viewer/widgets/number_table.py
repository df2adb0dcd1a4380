"""A sortable table of names and numbers, each row about an object of the model: profile, compare, watch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QFontDatabase, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from viewer.theme import theme
from viewer.tips import plain_tip

Index = QModelIndex | QPersistentModelIndex

_LEAST = 22  # characters of a column that takes the rest
_PADDING = 18  # px
_HEADING = 12


@dataclass(frozen=True)
class Cell:
    """A text, and what it is sorted by where that is not the text; `role` names a colour of the theme."""

    text: str
    number: float | None = None
    role: str = ""
    tip: str = ""


@dataclass(frozen=True)
class Column:
    """A heading; numbers stand right and in the fixed font. `width` is in characters, 0 takes the rest."""

    title: str
    width: int = 0
    tip: str = ""
    number: bool = True


@dataclass(frozen=True)
class Row:
    """One row and the object it is about."""

    target: Any
    cells: tuple[Cell, ...]


class NumberModel(QAbstractTableModel):
    """The rows of a NumberTable."""

    def __init__(self, columns: Sequence[Column], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.columns = tuple(columns)
        self.rows: list[Row] = []
        self._fixed = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show other rows."""
        self.beginResetModel()
        self.rows = list(rows)
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        """How many rows."""
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:
        """How many columns."""
        return 0 if parent.isValid() else len(self.columns)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Headings, placed as their columns."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        column = self.columns[section]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return column.title
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(column.tip or column.title)
            case Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(column)
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """What a cell shows."""
        cell = self.rows[index.row()].cells[index.column()]
        column = self.columns[index.column()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return cell.text
            case Qt.ItemDataRole.UserRole:
                return cell.text if cell.number is None else cell.number
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(cell.tip or cell.text)
            case Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(column)
            case Qt.ItemDataRole.FontRole if column.number:
                return QFont(self._fixed)
            case Qt.ItemDataRole.ForegroundRole if cell.role:
                color: QColor = getattr(theme(), cell.role)
                return color
        return None


class _Order(QSortFilterProxyModel):
    """Sorts numbers as numbers, cells without one last, whichever way."""

    def lessThan(self, left: Index, right: Index) -> bool:
        """Whether one row comes before another."""
        a, b = left.data(Qt.ItemDataRole.UserRole), right.data(Qt.ItemDataRole.UserRole)
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            return bool(a < b)
        if isinstance(a, str) and isinstance(b, str):
            return a.casefold() < b.casefold()
        return isinstance(a, str) == (self.sortOrder() is Qt.SortOrder.DescendingOrder)


class NumberTable(QTableView):
    """The table. `chosen(object)` comes for the row a person goes to."""

    chosen = Signal(object)

    def __init__(self, name: str, columns: Sequence[Column]) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.source = NumberModel(columns, self)
        self._order = _Order(self)
        self._order.setSourceModel(self.source)
        self._order.setSortRole(Qt.ItemDataRole.UserRole)
        self.setModel(self._order)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + 6)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        self.setSortingEnabled(True)
        self._order.sort(-1)  # the order of the rows, until a heading is clicked
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setResizeContentsPrecision(0)  # what is seen decides: there may be a hundred thousand rows
        header.sectionResized.connect(self._on_resized)
        self._rest = next((index for index, column in enumerate(columns) if not column.width), None)
        self._sizing = False
        self._is_arranged = False  # by the person
        self._fit_columns()
        self.activated.connect(self._choose)
        self.clicked.connect(self._choose)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The columns go by the room there is."""
        super().resizeEvent(event)
        self._fit_columns()

    def _on_resized(self) -> None:
        self._is_arranged = self._is_arranged or not self._sizing

    def _fit_columns(self) -> None:
        """Columns are as wide as they are meant to be, or as what is in them where there is no room for that.

        The one without a width takes the rest, though never so little that its names cannot be told apart. What a
        person has made wider or narrower stays.
        """
        character, room = self.fontMetrics().averageCharWidth(), self.viewport().width()
        columns = self.source.columns
        widths = [(column.width or _LEAST) * character + _PADDING for column in columns]
        if sum(widths) > room:
            needed = [max(self.sizeHintForColumn(i), self._heading_width(i)) for i in range(len(columns))]
            widths = [min(width, need) for width, need in zip(widths, needed, strict=True)]
        if self._rest is not None:
            widths[self._rest] += max(0, room - sum(widths))
        if not self._is_arranged:
            self._sizing = True
            for index, width in enumerate(widths):
                self.setColumnWidth(index, width)
            self._sizing = False

    def _heading_width(self, index: int) -> int:
        """Of a heading with its margins; only the column that rows are sorted by needs room for the arrow."""
        header = self.horizontalHeader()
        if header.sortIndicatorSection() == index:
            return header.sectionSizeHint(index)
        return header.fontMetrics().horizontalAdvance(self.source.columns[index].title) + _HEADING

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show other rows; the order a person chose stays."""
        self.source.set_rows(rows)
        self._fit_columns()

    def sort_by(self, column: int, *, descending: bool = True) -> None:
        """Sort as if a heading had been clicked."""
        self.sortByColumn(column, Qt.SortOrder.DescendingOrder if descending else Qt.SortOrder.AscendingOrder)

    def targets(self) -> list[Any]:
        """The objects of the rows, in the order shown."""
        count = self._order.rowCount()
        return [self._target(self._order.index(row, 0)) for row in range(count)]

    def selected(self) -> list[Any]:
        """The objects of the selected rows."""
        return [self._target(index) for index in self.selectionModel().selectedRows()]

    def _target(self, index: QModelIndex) -> Any:
        return self.source.rows[self._order.mapToSource(index).row()].target

    def _choose(self, index: QModelIndex) -> None:
        self.chosen.emit(self._target(index))


def _alignment(column: Column) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column.number else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
