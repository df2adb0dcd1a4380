"""Number table: cell editing, and block copy and paste as in spreadsheets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRect,
    Qt,
    Signal,
)
from PySide6.QtGui import QFocusEvent, QGuiApplication, QKeyEvent, QKeySequence, QPainter, QPalette
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QLabel,
    QLineEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionHeaderV2,
    QStyleOptionViewItem,
    QTableView,
    QToolTip,
    QWidget,
)

from onnx_workbench.model.edits.tensors import block_source
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.elements import parse_element
from onnx_workbench.model.text.formatting import display, number_text
from onnx_workbench.viewer.property_tree.editors import saves_or_closes
from onnx_workbench.viewer.style.choices import choice_title
from onnx_workbench.viewer.style.theme import monospace, theme, themes
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.tensor_view.tensor_model import TensorTableModel
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

if TYPE_CHECKING:
    from onnx_workbench.model.edits.tensors import Region
    from onnx_workbench.model.ir.types import ElementType
    from onnx_workbench.viewer.tasks.tasks import Task, TaskRunner

_ENTERS = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
_COMMITS = (*_ENTERS, Qt.Key.Key_Tab, Qt.Key.Key_Backtab)
_STAYS_HERE = (Qt.FocusReason.ActiveWindowFocusReason, Qt.FocusReason.PopupFocusReason)
_MOST_COPIED = 1_000_000


class CellDelegate(WholeTextDelegate):
    """Validates a cell before it is left; shows the error.

    Switching to another window keeps the editor open. When the focus moves elsewhere in this window, the element keeps
    its value, and `lost` reports the typed text and the error.
    """

    lost = Signal(object)  # ModelError

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.element_type: ElementType | None = None
        self.refusal = ""

    def createEditor(
        self, parent: QWidget, _option: QStyleOptionViewItem, _index: QModelIndex | QPersistentModelIndex
    ) -> QWidget:
        editor = QLineEdit(parent)
        editor.setFont(monospace())
        editor.setFrame(False)
        editor.setAccessibleName("Element")
        editor.textEdited.connect(lambda: self._show_refusal(editor, ""))
        self.refusal = ""
        return editor

    def eventFilter(self, editor: QObject, event: QEvent) -> bool:
        """Block Enter, Tab and the keys for saving and closing while the text is invalid."""
        if isinstance(editor, QLineEdit):
            if saves_or_closes(event):
                if not self._accepts(editor):
                    event.accept()
                    return True
                self.commitData.emit(editor)
            elif isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress and event.key() in _COMMITS:
                if not self._accepts(editor):
                    return True
                if event.key() in _ENTERS:  # Qt commits in a later event, when the row may be gone
                    self.commitData.emit(editor)
                    self.closeEditor.emit(editor, QStyledItemDelegate.EndEditHint.SubmitModelCache)
                    return True
            elif isinstance(event, QFocusEvent) and event.lostFocus() and not self._accepts(editor):
                if event.reason() in _STAYS_HERE:
                    return False
                self.lost.emit(ModelError(f"{display(editor.text(), 60)} was not accepted", self.refusal))
                self.closeEditor.emit(editor, QStyledItemDelegate.EndEditHint.RevertModelCache)
                return True
        return super().eventFilter(editor, event)

    def _accepts(self, editor: QLineEdit) -> bool:
        try:
            if self.element_type is not None:
                parse_element(editor.text(), self.element_type)
        except ModelError as error:
            self._show_refusal(editor, f"{error.title}. {error.detail}")
            return False
        self._show_refusal(editor, "")
        return True

    def _show_refusal(self, editor: QLineEdit, refusal: str) -> None:
        self.refusal = refusal
        palette = editor.palette()
        palette.setColor(QPalette.ColorRole.Text, theme().error if refusal else theme().text)
        editor.setPalette(palette)
        editor.setAccessibleDescription(refusal)
        if refusal:
            QToolTip.showText(editor.mapToGlobal(editor.rect().bottomLeft()), plain_tip(refusal), editor)
        else:
            QToolTip.hideText()


#: Characters of a column of integers by their bits, and of its heading.
_INTEGER_WIDTHS = {2: 5, 4: 5, 8: 5, 16: 7}


class _Header(QHeaderView):
    """Numbers of rows or columns; those with selected cells are highlighted.

    Qt's own asks for the flags of every cell of a selected row or column to draw it: minutes for millions of cells.
    """

    def paintSection(self, painter: QPainter, rect: QRect, logical: int) -> None:
        option = QStyleOptionHeaderV2()
        self.initStyleOption(option)
        option.rect = rect
        option.section = logical
        option.text = str(self.model().headerData(logical, self.orientation()))
        option.textAlignment = self.defaultAlignment()
        is_across = self.orientation() is Qt.Orientation.Horizontal
        for block in self.selectionModel().selection().toList():
            first, last = (block.left(), block.right()) if is_across else (block.top(), block.bottom())
            if first <= logical <= last:
                option.state |= QStyle.StateFlag.State_On
        self.style().drawControl(QStyle.ControlElement.CE_Header, option, painter, self)


class TensorTable(QTableView):
    """Table of one plane. Ctrl+C copies, Ctrl+V pastes, F2 or typing edits, Delete asks for a fill value."""

    pasted = Signal(str, int, int, bool)  # text, row and column of the plane, whether it is from a spreadsheet
    fill_wanted = Signal()

    def __init__(self, tasks: TaskRunner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tasks = tasks
        self._copying: Task[str] | None = None
        self.cells = TensorTableModel(tasks, self)
        self.setHorizontalHeader(_Header(Qt.Orientation.Horizontal, self))
        self.setVerticalHeader(_Header(Qt.Orientation.Vertical, self))
        self.setModel(self.cells)
        self.delegate = CellDelegate(self)
        self.setItemDelegate(self.delegate)
        self.delegate.lost.connect(self.cells.refused)
        self.setAccessibleName("Values")
        self.setTabKeyNavigation(False)
        self.setAlternatingRowColors(False)
        self.setWordWrap(False)
        self.setCornerButtonEnabled(True)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setEditTriggers(
            QAbstractItemView.EditTrigger.DoubleClicked
            | QAbstractItemView.EditTrigger.EditKeyPressed
            | QAbstractItemView.EditTrigger.AnyKeyPressed
        )
        for header in (self.horizontalHeader(), self.verticalHeader()):
            header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
            header.setSectionsClickable(True)
        self.set_metrics()

    def set_metrics(self) -> None:
        """Set cells as high as the font needs and wide enough for most numbers of their type."""
        metrics = self.fontMetrics()
        kind = self.delegate.element_type
        self.verticalHeader().setDefaultSectionSize(metrics.height() + 5)
        if kind is not None and kind.is_int and kind.bits in _INTEGER_WIDTHS:
            wide = _INTEGER_WIDTHS[kind.bits]
        else:
            wide = 24 if kind is not None and kind.bits in (0, 64, 128) else 12
        if self.cells.format in ("in full", "hexadecimal"):
            wide = max(wide, 20)
        self.horizontalHeader().setDefaultSectionSize(metrics.horizontalAdvance("0") * wide + 14)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.matches(QKeySequence.StandardKey.Paste):
            self.paste()
        elif event.key() == Qt.Key.Key_Delete and self.cells.commit is not None:
            self.fill_wanted.emit()
        else:
            super().keyPressEvent(event)

    def copy(self) -> None:
        """Copy the selected cells in full, tab-separated, later if they are in a file; a message if they are too many.

        The bounding block of several ones; cells between them are empty.
        """
        blocks = self.selectionModel().selection().toList()
        if not blocks:
            return
        top, bottom = min(b.top() for b in blocks), max(b.bottom() for b in blocks)
        left, right = min(b.left() for b in blocks), max(b.right() for b in blocks)
        rows, columns = bottom - top + 1, right - left + 1
        if rows * columns > _MOST_COPIED:
            detail = f"{rows:,} × {columns:,} are selected; at most {_MOST_COPIED:,} can be copied. Export writes all."
            self.cells.refused.emit(ModelError("Too many cells to copy", detail))
            return
        chosen = np.zeros((rows, columns), bool)
        for b in blocks:
            chosen[b.top() - top : b.bottom() - top + 1, b.left() - left : b.right() - left + 1] = True
        if self._copying is not None:
            self._copying.cancel()  # it would replace the newer copy
        read = self.cells.texts(top, left, chosen)
        if self.cells.instant:
            _copy(block_source(read()))
        else:
            self._copying = self._tasks.start("Copying", lambda _: block_source(read()), done=_copy)

    def paste(self) -> None:
        """Paste the clipboard at the beginning of the selection."""
        from onnx_workbench.viewer.document.clipboard import is_of_cells

        text = QGuiApplication.clipboard().text()
        if not text or self.cells.commit is None:
            return
        blocks = self.selectionModel().selection().toList()
        current = self.currentIndex()
        row = min((b.top() for b in blocks), default=max(current.row(), 0))
        column = min((b.left() for b in blocks), default=max(current.column(), 0))
        self.pasted.emit(text, row + self.cells.row_base, column + self.cells.column_base, is_of_cells())

    def selected_regions(self) -> list[Region]:
        """Return the selected regions of the tensor; none for nothing, one cell or the whole plane."""
        which = self.cells.slice
        blocks = self.selectionModel().selection().toList()
        if which is None or not blocks:
            return []
        down, across = self.cells.row_base, self.cells.column_base
        if len(blocks) == 1 and blocks[0].height() == blocks[0].width() == 1:
            return []
        regions: list[Region] = []
        for block in blocks:
            rows = slice(block.top() + down, block.bottom() + down + 1)
            columns = slice(block.left() + across, block.right() + across + 1)
            if which.wrap:
                regions.extend(
                    (slice(row * which.wrap + columns.start, row * which.wrap + columns.stop),)
                    for row in range(rows.start, rows.stop)
                )
                continue
            region: list[int | slice] = list(which.fixed)
            if which.rows is not None:
                region[which.rows] = rows
            if which.columns is not None:
                region[which.columns] = columns
            regions.append(tuple(region))
        return regions

    def show_element(self, index: tuple[int, ...]) -> None:
        """Select the cell of an element of the shown plane and bring it into view."""
        if self.cells.slice is None:
            return
        cell = self.cells.scroll_to(*self.cells.slice.position(index))
        model: QAbstractItemModel = self.cells
        if model.hasIndex(cell.row(), cell.column()):
            self.setCurrentIndex(cell)
            self.selectionModel().select(cell, QItemSelectionModel.SelectionFlag.ClearAndSelect)
            self.scrollTo(cell, QAbstractItemView.ScrollHint.PositionAtCenter)


def _copy(text: str) -> None:
    QGuiApplication.clipboard().setText(text.encode("utf-8", "replace").decode("utf-8"))


class PartLabel(QLabel):
    """Label for the part of a large plane that is in the table, with links to the other parts."""

    def __init__(self, table: TensorTable) -> None:
        super().__init__()
        self._cells = table.cells
        self.setAccessibleName("Part of the plane")
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.LinksAccessibleByMouse | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
        )
        self.linkActivated.connect(self._go)
        self._cells.modelReset.connect(self._show)
        themes().themeChanged.connect(self._show)  # links have the colour they were made with
        self._show()

    def _show(self) -> None:
        parts = []
        for part in self._cells.parts:
            if part.count < part.total:
                last = part.first + part.count - 1
                shown = f"{number_text(part.first)} to {number_text(last)} of {number_text(part.total)}"
                text = f"{choice_title(part.word)} {shown}"
                before = [f'<a href="{part.word} {part.first - 1}">before</a>'] if part.first else []
                after = [f'<a href="{part.word} {last + 1}">after</a>'] if last + 1 < part.total else []
                parts.append(" ".join((text, *before, *after)))
        self.setText(", ".join(parts))
        self.setVisible(bool(parts))

    def _go(self, link: str) -> None:
        word, _, place = link.partition(" ")
        rows, columns = self._cells.parts
        at = (int(place), columns.first) if word == "rows" else (rows.first, int(place))
        self._cells.scroll_to(*at)
