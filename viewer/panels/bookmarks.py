"""Bookmarks panel: nodes and values to return to, with notes of the user."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QPushButton, QWidget

from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.document.bookmarks import Bookmarks
from onnx_workbench.viewer.document.model_signals import is_in_model
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.labels import name_of
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.tables.keep_selection import KeptSelection
from onnx_workbench.viewer.tables.row_model import Column, Index, RowModel
from onnx_workbench.viewer.tables.row_table import RowTable
from onnx_workbench.viewer.widgets.elided_label import ElidedLabel

_NOTE = 2
_COLUMNS = (Column("Name", 32), Column("What", 20), Column("Note"))


class BookmarkModel(RowModel[Node | Value, Column]):
    """The bookmarks in the order they were added; notes can be edited."""

    def __init__(self, bookmarks: Bookmarks) -> None:
        super().__init__(_COLUMNS, bookmarks)
        self._bookmarks = bookmarks

    def refresh(self) -> None:
        """Reload the bookmarks."""
        self.set_rows(list(self._bookmarks.notes))

    def texts(self, row: Node | Value) -> tuple[str, str, str]:
        what = row.op_type if isinstance(row, Node) else "value"
        return name_of(row), what if is_in_model(row) else f"{what}, deleted", self._bookmarks.notes.get(row, "")

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.EditRole:
            return self._bookmarks.notes.get(self.rows[index.row()], "")
        if role == Qt.ItemDataRole.ForegroundRole:
            return None if is_in_model(self.rows[index.row()]) else theme().muted
        return super().data(index, role)

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = super().flags(index)
        return flags | Qt.ItemFlag.ItemIsEditable if index.column() == _NOTE else flags

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if index.column() != _NOTE or role != Qt.ItemDataRole.EditRole:
            return False
        self._bookmarks.set_note(self.rows[index.row()], str(value))
        return True


class BookmarkTable(RowTable):
    """Delete removes the selected bookmarks, F2 edits the note of the current one."""

    def __init__(self, model: BookmarkModel, parent: QWidget) -> None:
        super().__init__(model, "Bookmarks", parent)
        self.setEditTriggers(
            QAbstractItemView.EditTrigger.DoubleClicked | QAbstractItemView.EditTrigger.SelectedClicked
        )
        self.set_widths(_COLUMNS)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        index = self.currentIndex()
        if event.key() == Qt.Key.Key_F2 and index.isValid():
            self.edit(index.siblingAtColumn(_NOTE))
            event.accept()
        else:
            super().keyPressEvent(event)


class BookmarksPanel(Panel):
    """The list of bookmarks; Enter or a click shows the node or value."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.bookmarks = workspace.bookmarks
        self.model = BookmarkModel(self.bookmarks)
        self.table = BookmarkTable(self.model, self)
        self._kept = KeptSelection(self.table, lambda row: self.model.rows[row])
        self.summary = ElidedLabel(self)
        self.add_button = QPushButton("Bookmark selected", self)
        self.add_button.setToolTip("Bookmark the selected nodes and values, or remove their bookmarks")
        self.remove_button = QPushButton("Remove", self)
        self.remove_button.setToolTip("Remove the bookmarks of the selected rows")
        self.lay_out(self.table, self.summary, self.add_button, self.remove_button)
        self.table.activated.connect(self._go)
        self.table.clicked.connect(self._go)
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._update_buttons())
        self.add_button.clicked.connect(lambda: workspace.trigger("go.toggle_bookmark"))
        self.remove_button.clicked.connect(self._remove)
        self.bookmarks.changed.connect(self._show)
        workspace.changes.changed.connect(self._show)  # names, and objects restored by undo
        workspace.selection.changed.connect(self._update_buttons)
        self._show()

    def _show(self, _change: object = None) -> None:
        self.model.refresh()
        count = len(self.model.rows)
        self.summary.setText(
            plural(count, "bookmark") if count else "Press Ctrl+B to bookmark the selected nodes and values."
        )
        self._update_buttons()

    def _update_buttons(self) -> None:
        self.add_button.setEnabled(any(isinstance(item, (Node, Value)) for item in self.workspace.selection.items))
        self.remove_button.setEnabled(self.table.selectionModel().hasSelection())

    def _go(self, index: QModelIndex) -> None:
        element = self.model.rows[index.row()]
        if index.column() != _NOTE and is_in_model(element):
            self.workspace.navigation.reveal(element)

    def _remove(self) -> None:
        rows = {index.row() for index in self.table.selectionModel().selectedRows()}
        self.bookmarks.remove([self.model.rows[row] for row in rows])
