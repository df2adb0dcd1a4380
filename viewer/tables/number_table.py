"""A sortable table of names and numbers, each row about an object of the model: profile, compare, watch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontDatabase,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyleOptionHeader,
    QStyleOptionViewItem,
)

from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.tables.keep_selection import KeptSelection
from onnx_workbench.viewer.tables.row_model import Column, Index, SortedRowModel
from onnx_workbench.viewer.tables.row_table import RowTable, SortHeader
from onnx_workbench.viewer.tables.sorting import Key
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

Thing = TypeVar("Thing")

_MOST_COPIED = 10_000  # rows
_KEPT = 500  # size of the cache of rows, more than a window shows
_LEAST = 22  # characters of a column that takes the rest
_PADDING = 18  # px
_HEADING = 12
_BESIDE_ARROW = 2 * "\N{NO-BREAK SPACE}"
_OFF = 3 * "\N{NO-BREAK SPACE}"  # before words that follow numbers


@dataclass(frozen=True)
class NumberCell:
    """A text, and its sort key if that is not the text; `role` names a colour of the theme."""

    text: str
    number: float | None = None
    role: str = ""
    tip: str = ""


@dataclass(frozen=True)
class NumberColumn(Column):
    """A column whose numbers are right-aligned and in the fixed font.

    The first click on the heading of an `amount` sorts in descending order.
    """

    number: bool = True
    amount: bool = False


@dataclass(frozen=True)
class NumberRow:
    """A row and the object it is about."""

    target: Any
    cells: tuple[NumberCell, ...]


class MadeRows(Sequence[NumberRow], Generic[Thing]):
    """Rows for many objects, made lazily when shown.

    `keys` sorts the rows, for columns where that costs less than making their cells, and `about` gives the object of
    a row.
    """

    def __init__(
        self,
        things: Sequence[Thing],
        make: Callable[[Thing], NumberRow],
        keys: Mapping[int, Callable[[Thing], Key]],
        about: Callable[[Thing], object],
    ) -> None:
        self._things = things
        self._make = make
        self._keys = keys
        self._about = about

    def __len__(self) -> int:
        return len(self._things)

    @overload
    def __getitem__(self, index: int) -> NumberRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[NumberRow]: ...
    def __getitem__(self, index: int | slice) -> NumberRow | list[NumberRow]:
        if isinstance(index, slice):
            return [self._make(thing) for thing in self._things[index]]
        return self._make(self._things[index])

    def reordered(self, order: Sequence[int]) -> MadeRows[Thing]:
        """Return the same rows in another order."""
        return MadeRows([self._things[index] for index in order], self._make, self._keys, self._about)

    def target(self, index: int) -> object:
        """Return the object that a row is about."""
        return self._about(self._things[index])

    def key(self, index: int, column: int) -> Key:
        """Return the sort key of a row."""
        key_of_thing = self._keys.get(column)
        return key_of(self[index].cells[column]) if key_of_thing is None else key_of_thing(self._things[index])


def key_of(cell: NumberCell) -> Key:
    """Return the sort key of a cell."""
    return cell.text if cell.number is None else cell.number


class NumberModel(SortedRowModel[NumberRow, NumberColumn]):
    """The rows of a NumberTable. `ticked(object, bool)`: the user ticks the box of a row, whose owner keeps that."""

    ticked = Signal(object, bool)

    def __init__(self, columns: Sequence[NumberColumn], parent: QObject | None = None) -> None:
        super().__init__(columns, parent)
        self._made: dict[int, NumberRow] = {}  # cache of the rows last shown, by index
        self._fixed = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        self.tick_of: Callable[[Any], bool | None] = lambda _target: None  # of the box of a row; None: it has none

    def sort_key(self, rows: Sequence[NumberRow], _column: NumberColumn, section: int) -> Callable[[int], Key]:
        if isinstance(rows, MadeRows):
            return lambda place: rows.key(place, section)
        return lambda place: key_of(rows[place].cells[section])

    def reordered(self, rows: Sequence[NumberRow], order: Sequence[int], progress: Progress) -> Sequence[NumberRow]:
        return rows.reordered(order) if isinstance(rows, MadeRows) else super().reordered(rows, order, progress)

    def on_order(self) -> None:
        self._made.clear()

    def update_rows(self, first: int = 0, last: int | None = None) -> None:
        self._made.clear()
        super().update_rows(first, last)

    def row(self, number: int) -> NumberRow:
        """Return the row shown at a place."""
        row = self._made.get(number)
        if row is None:
            if len(self._made) > _KEPT:
                self._made.clear()
            row = self._made[number] = self.rows[number]
        return row

    def target(self, number: int) -> object:
        """Return the object of the row shown at an index."""
        rows = self.rows
        return rows.target(number) if isinstance(rows, MadeRows) else rows[number].target

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation is Qt.Orientation.Horizontal:
            column = self.columns[section]
            match role:
                case Qt.ItemDataRole.ToolTipRole:
                    return plain_tip(column.tip or column.title)
                case Qt.ItemDataRole.TextAlignmentRole:
                    return _alignment(column)
                case Qt.ItemDataRole.InitialSortOrderRole if column.amount:
                    return Qt.SortOrder.DescendingOrder
        return super().headerData(section, orientation, role)

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = super().flags(index)
        return flags if self._tick(index) is None else flags | Qt.ItemFlag.ItemIsUserCheckable

    def _tick(self, index: Index) -> bool | None:
        return None if index.column() else self.tick_of(self.target(index.row()))

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.CheckStateRole or self._tick(index) is None:
            return False
        self.ticked.emit(self.target(index.row()), Qt.CheckState(value) == Qt.CheckState.Checked)
        self.dataChanged.emit(index, index)
        return True

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        cell = self.row(index.row()).cells[index.column()]
        column = self.columns[index.column()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return cell.text
            case Qt.ItemDataRole.UserRole:
                return key_of(cell)
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(cell.tip or cell.text)
            case Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(column)
            case Qt.ItemDataRole.CheckStateRole:
                tick = self._tick(index)
                return None if tick is None else Qt.CheckState.Checked if tick else Qt.CheckState.Unchecked
            case Qt.ItemDataRole.FontRole if column.number:
                return QFont(self._fixed)
            case Qt.ItemDataRole.ForegroundRole if cell.role:
                color: QColor = getattr(theme(), cell.role)
                return color
        return None


class _Cells(WholeTextDelegate):
    """Delegate that adds a margin to texts after a column of numbers, which is right-aligned."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> None:
        super().initStyleOption(option, index)
        if _follows_numbers(index.model(), index.column()):
            option.text = _OFF + option.text


class _Header(SortHeader):
    """Headings; those on the right leave room for the arrow of the order, over which Qt would write."""

    def initStyleOptionForIndex(self, option: QStyleOptionHeader, section: int) -> None:
        super().initStyleOptionForIndex(option, section)
        if option.sortIndicator != QStyleOptionHeader.SortIndicator.None_:
            option.text += _BESIDE_ARROW
        if _follows_numbers(self.model(), section):
            option.text = _OFF + option.text


class NumberTable(RowTable):
    """Table of numbers. `chosen(object)` is emitted for the row that the user activates."""

    chosen = Signal(object)

    def __init__(self, name: str, columns: Sequence[NumberColumn]) -> None:
        self.source = NumberModel(columns)
        super().__init__(self.source, name)
        self.source.setParent(self)
        self.setItemDelegate(_Cells(self))
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        header = _Header(self)
        self.setHorizontalHeader(header)
        header.setHighlightSections(False)
        self.setSortingEnabled(True)
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)  # that of the rows, until a heading is clicked
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setResizeContentsPrecision(0)  # only visible rows: there may be a hundred thousand
        header.sectionResized.connect(self._on_resized)
        self._rest = next((index for index, column in enumerate(columns) if not column.width), None)
        self._sizing = False
        self._is_arranged = False  # by the user
        self.source.modelReset.connect(self._fit_columns)
        KeptSelection(self, self.source.target)
        self.activated.connect(self._choose)
        self.clicked.connect(self._choose)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Copy the selected rows as text, with tabs between the cells."""
        if event.matches(QKeySequence.StandardKey.Copy):
            rows = sorted(index.row() for index in self.selectionModel().selectedRows())
            lines = ("\t".join(cell.text for cell in self.source.row(row).cells) for row in rows[:_MOST_COPIED])
            QGuiApplication.clipboard().setText("\n".join(lines))
            return
        super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Adapt the columns to the available width."""
        super().resizeEvent(event)
        self._fit_columns()

    def showEvent(self, event: QShowEvent) -> None:
        """See `_fit_columns`."""
        super().showEvent(event)
        self._fit_columns()

    def _on_resized(self) -> None:
        self._is_arranged = self._is_arranged or not self._sizing

    def _fit_columns(self) -> None:
        """Set the columns to their preferred widths, or to their contents if there is no room for that.

        The one without a width takes the rest, but stays wide enough to distinguish its names. Widths set by the user
        stay. While the table is hidden, Qt would read every row for that.
        """
        if not self.isVisible():
            return
        character, room = self.fontMetrics().averageCharWidth(), self.viewport().width()
        columns = self.source.columns
        shown = [not self.isColumnHidden(index) for index in range(len(columns))]
        widths = [
            ((c.width or _LEAST) * character + _PADDING) * is_shown for c, is_shown in zip(columns, shown, strict=True)
        ]
        if sum(widths) > room:
            needed = [max(self.sizeHintForColumn(i), self._heading_width(i)) for i in range(len(columns))]
            widths = [min(width, need) for width, need in zip(widths, needed, strict=True)]
        if self._rest is not None:
            widths[self._rest] += max(0, room - sum(widths))
        if not self._is_arranged:
            self._sizing = True
            for index, width in enumerate(widths):
                if shown[index]:
                    self.setColumnWidth(index, width)
            self._sizing = False

    def show_column(self, column: int, *, shown: bool) -> None:
        """Show or hide a column."""
        self._sizing = True
        self.setColumnHidden(column, not shown)
        self._sizing = False
        self._fit_columns()

    def _heading_width(self, index: int) -> int:
        """Return the width of a heading with its margins; only the sorted column needs room for the arrow."""
        header = self.horizontalHeader()
        if header.sortIndicatorSection() == index:
            return header.sectionSizeHint(index)
        text = (_OFF if _follows_numbers(self.source, index) else "") + self.source.columns[index].title
        return header.fontMetrics().horizontalAdvance(text) + _HEADING

    def set_rows(self, rows: Sequence[NumberRow]) -> None:
        """Show other rows; the order chosen by the user stays."""
        self.source.set_rows(rows)

    def sort_by(self, column: int, *, descending: bool = True) -> None:
        """Sort as if a heading had been clicked."""
        self.sortByColumn(column, Qt.SortOrder.DescendingOrder if descending else Qt.SortOrder.AscendingOrder)

    def targets(self) -> list[Any]:
        """Return the objects of the rows, in the order shown."""
        return [self.source.row(number).target for number in range(self.source.rowCount())]

    def selected(self) -> list[Any]:
        """Return the objects of the selected rows."""
        return [self._target(index) for index in self.selectionModel().selectedRows()]

    def _target(self, index: QModelIndex) -> Any:
        return self.source.row(index.row()).target

    def _choose(self, index: QModelIndex) -> None:
        self.chosen.emit(self._target(index))


def _follows_numbers(model: object, index: int) -> bool:
    if not isinstance(model, NumberModel) or not index:
        return False
    return model.columns[index - 1].number and not model.columns[index].number


def _alignment(column: NumberColumn) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column.number else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
