"""Table of the elements of one plane of a tensor, which reads only visible elements."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.text.elements import element_text
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.style.theme import monospace, theme
from onnx_workbench.viewer.style.tooltips import for_role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from onnx_workbench.viewer.tasks.tasks import TaskRunner
    from onnx_workbench.viewer.tensor_view.readers import Reader, TensorSlice

Index = QModelIndex | QPersistentModelIndex

#: How numbers can be written, by the name a user chooses.
FORMATS = ("automatic", "4 decimals", "scientific", "in full", "hexadecimal")

_BLOCK = 64  # rows and columns read at once
_MOST_BLOCKS = 512
_MOST_ROWS = 1_000_000  # a header keeps something for every section
_MOST_COLUMNS = 100_000


@dataclass(frozen=True, slots=True)
class TensorPart:
    """A part of the rows or columns of a plane."""

    word: str
    first: int
    count: int
    total: int


class TensorTableModel(QAbstractTableModel):
    """Cells are elements. `commit(index, text)` is called with the element's index when one is typed in."""

    refused = Signal(object)  # ModelError of a typed text, or of copying cells

    def __init__(self, tasks: TaskRunner, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tasks = tasks
        self._reader: Reader | None = None
        self.slice: TensorSlice | None = None
        self.format = FORMATS[0]
        self.row_base = self.column_base = 0  # the row and column of the plane that are the first of the table
        self.commit: Callable[[tuple[int, ...], str], object] | None = None
        self._rows = self._columns = 0
        self._blocks: OrderedDict[tuple[int, int], NDArray[Any] | None] = OrderedDict()
        self._font = monospace()

    def show(self, reader: Reader | None, which: TensorSlice | None) -> None:
        """Show a plane; the same size keeps scroll position and selection."""
        rows, columns = (0, 0) if reader is None or which is None else which.size(reader.shape)
        self._blocks.clear()
        same = (rows, columns) == (self._rows, self._columns) and (self.slice is None) == (which is None)
        if not same:
            self.beginResetModel()
            self.row_base = self.column_base = 0
        self._reader, self.slice, self._rows, self._columns = reader, which, rows, columns
        self._font = monospace()
        if not same:
            self.endResetModel()
        elif rows:
            self._all_changed()
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, self.columnCount() - 1)

    def set_format(self, name: str) -> None:
        """Write numbers another way."""
        self.format = name
        if self._rows:
            self._all_changed()

    def _all_changed(self) -> None:
        self.dataChanged.emit(self.index(0, 0), self.index(self.rowCount() - 1, self.columnCount() - 1))

    def scroll_to(self, row: int, column: int) -> QModelIndex:
        """Load the part with a row and column of the plane; return their position in the table."""
        bases = row - row % _MOST_ROWS, column - column % _MOST_COLUMNS
        if bases != (self.row_base, self.column_base):
            self.beginResetModel()
            self.row_base, self.column_base = bases
            self.endResetModel()
        return self.index(row - self.row_base, column - self.column_base)

    @property
    def parts(self) -> tuple[TensorPart, TensorPart]:
        """Return the rows and columns of the plane that are in the table."""
        return (
            TensorPart("rows", self.row_base, self.rowCount(), self._rows),
            TensorPart("columns", self.column_base, self.columnCount(), self._columns),
        )

    # -- the table -------------------------------------------------------------------------------------------

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        """Return the rows of the plane, limited by the capacity of a header."""
        return 0 if parent.isValid() else min(self._rows - self.row_base, _MOST_ROWS)

    def columnCount(self, parent: Index = QModelIndex()) -> int:
        """Columns of the plane, likewise."""
        return 0 if parent.isValid() else min(self._columns - self.column_base, _MOST_COLUMNS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Positions along the axes."""
        if role == Qt.ItemDataRole.DisplayRole and self.slice is not None:
            if self.slice.wrap:
                if orientation == Qt.Orientation.Horizontal:
                    return f"+{section}"
                return str((section + self.row_base) * self.slice.wrap)
            return str(section + (self.column_base if orientation == Qt.Orientation.Horizontal else self.row_base))
        if role == Qt.ItemDataRole.FontRole:
            return self._font
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.FontRole:
            return self._font
        if role == Qt.ItemDataRole.TextAlignmentRole:
            strings = self._reader is not None and self._reader.element_type is ElementType.STRING
            side = Qt.AlignmentFlag.AlignLeft if strings else Qt.AlignmentFlag.AlignRight
            return int(side | Qt.AlignmentFlag.AlignVCenter)
        if role not in _ASKED or not self._is_element(index):
            return None
        known, value = self._value(index.row() + self.row_base, index.column() + self.column_base)
        if not known:
            return "…" if role == Qt.ItemDataRole.DisplayRole else None
        return self._answer(index, role, value)

    def _answer(self, index: Index, role: int, value: Any) -> Any:
        if role == Qt.ItemDataRole.DisplayRole:
            return number_cell(value, self.format)
        if role == Qt.ItemDataRole.EditRole:
            return element_text(value)
        if role == Qt.ItemDataRole.ForegroundRole:
            colors = theme()
            if _is_number(value):
                if value != value:
                    return colors.error
                with np.errstate(over="ignore"):  # of the least integer of a type
                    if abs(value) == float("inf"):
                        return colors.warning
                return colors.muted if value == 0 else None
            return None
        where = ", ".join(map(str, self.element(index)))
        return for_role(f"[{where}] = {display(element_text(value), 400)}", role)

    def _is_element(self, index: Index) -> bool:
        which = self.slice
        if self._reader is None or which is None or not index.isValid():
            return False
        if not which.wrap:
            return True
        return (index.row() + self.row_base) * which.wrap + index.column() < self._reader.shape[0]

    def element(self, index: Index) -> tuple[int, ...]:
        """Return the element of a cell."""
        assert self.slice is not None
        return self.slice.index(index.row() + self.row_base, index.column() + self.column_base)

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Return the flags; cells are editable if the tensor can be changed."""
        if not self._is_element(index):
            return Qt.ItemFlag.NoItemFlags
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        return flags | Qt.ItemFlag.ItemIsEditable if self.commit is not None else flags

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """Set the typed text, unless it is unchanged."""
        if role != Qt.ItemDataRole.EditRole or self.commit is None or not self._is_element(index):
            return False
        if value == self.data(index, Qt.ItemDataRole.EditRole):
            return True
        try:
            self.commit(self.element(index), str(value))
        except ModelError as error:
            self.refused.emit(error)
            return False
        return True

    # -- reading ---------------------------------------------------------------------------------------------

    def _value(self, row: int, column: int) -> tuple[bool, Any]:
        key = (row // _BLOCK, column // _BLOCK)
        block = self._blocks.get(key)
        if block is None:
            if key in self._blocks:
                return False, None
            block = self._read_block(key)
            if block is None:
                return False, None
        return True, block[row % _BLOCK, column % _BLOCK]

    def texts(self, top: int, left: int, chosen: NDArray[np.bool_]) -> Callable[[], list[list[str]]]:
        """Return a function that reads a block of the table as full texts, unselected cells empty. For any thread."""
        reader, which = self._reader, self.slice
        assert reader is not None
        assert which is not None
        top, left = top + self.row_base, left + self.column_base
        rows, columns = range(top, top + chosen.shape[0]), range(left, left + chosen.shape[1])
        if which.wrap:
            chosen = chosen & (np.add.outer(np.asarray(rows) * which.wrap, np.asarray(columns)) < reader.size)

        def read() -> list[list[str]]:
            block = reader.plane(which, rows, columns)
            pairs = zip(block, chosen, strict=True)
            return [[element_text(v) if c else "" for v, c in zip(*pair, strict=True)] for pair in pairs]

        return read

    @property
    def instant(self) -> bool:
        """Whether reading does not wait for a file."""
        return self._reader is None or self._reader.instant

    def _read_block(self, key: tuple[int, int]) -> NDArray[Any] | None:
        """Read a block now when it is in memory; else have it read."""
        reader, which = self._reader, self.slice
        assert reader is not None
        assert which is not None
        rows = range(key[0] * _BLOCK, min((key[0] + 1) * _BLOCK, self._rows))
        columns = range(key[1] * _BLOCK, min((key[1] + 1) * _BLOCK, self._columns))
        while len(self._blocks) >= _MOST_BLOCKS:
            self._blocks.popitem(last=False)
        if reader.instant:
            block = self._blocks[key] = reader.plane(which, rows, columns)
            return block
        self._blocks[key] = None

        def arrived(block: NDArray[Any]) -> None:
            if self._reader is reader and self.slice is which:
                self._blocks[key] = block
                first = self.index(max(rows.start - self.row_base, 0), max(columns.start - self.column_base, 0))
                self.dataChanged.emit(first, self.index(rows[-1] - self.row_base, columns[-1] - self.column_base))

        self._tasks.start("Reading values", lambda _: np.array(reader.plane(which, rows, columns)), done=arrived)
        return None


_ASKED = frozenset({
    Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole, Qt.ItemDataRole.ForegroundRole,
    Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole,
})  # fmt: skip


def _is_number(value: Any) -> bool:
    return not isinstance(value, (str, bytes, bool, np.bool_)) and value is not None


def number_cell(value: Any, style: str = FORMATS[0]) -> str:
    """Return the text of a cell for an element."""
    if isinstance(value, str):
        return display(value, 200, elide="end")
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if style == "in full":
        return element_text(value)
    if isinstance(value, (complex, np.complexfloating)):
        if style == "hexadecimal":
            return f"{_hexadecimal(value.real)}, {_hexadecimal(value.imag)}"
        sign = "+" if not value.imag < 0 else "-"
        return f"{number_cell(value.real, style)}{sign}{number_cell(abs(value.imag), style)}i"
    if style == "hexadecimal":
        return _hexadecimal(value)
    if _is_whole(value):
        return f"{float(value):.3e}" if style == "scientific" else str(int(value))
    number = float(value)
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "inf" if number > 0 else "−inf"
    match style:
        case "4 decimals":
            return f"{number:.4f}"
        case "scientific":
            return f"{number:.3e}"
        case _:
            return f"{number:.6g}"


def short_cell(value: Any, most: int) -> str:
    """Return an element in at most `most` characters, with as many digits as fit; … if none does."""
    text = number_cell(value)
    if len(text) <= most or isinstance(value, str):
        return text
    for digits in range(5, 0, -1):
        if isinstance(value, (complex, np.complexfloating)):
            text = f"{value.real:.{digits}g}{value.imag:+.{digits}g}i"
        else:
            text = f"{float(value):.{digits}g}"
        if len(text) <= most:
            return text
    return "…"


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) or getattr(value, "dtype", np.dtype("f4")).name.lstrip("u").startswith(
        "int"
    )


def _hexadecimal(value: Any) -> str:
    array = np.atleast_1d(np.asarray(value))
    bits = array.view(f"u{array.dtype.itemsize}")[0]
    return f"0x{int(bits):0{array.dtype.itemsize * 2}x}"
