"""A tree that marks the rows of objects selected elsewhere, efficient for any number."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from PySide6.QtCore import QEvent, QItemSelection, QItemSelectionModel, QModelIndex, QPersistentModelIndex, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QTreeView, QWidget

from onnx_workbench.viewer.tasks.event_loop import CHUNK_SECONDS
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

_Flag = QItemSelectionModel.SelectionFlag


class MarkingTree(QTreeView):
    """Tree view whose `is_marked` decides if a row looks selected, by its first column; it must be cheap.

    Called only for rows in view, others when they come into view: Qt's cost for a selection of many ranges grows with
    the square of their number.
    """

    def __init__(self, is_marked: Callable[[QModelIndex], bool], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setItemDelegate(WholeTextDelegate(self))
        self._is_marked = is_marked
        self.is_marking = False  # while it is, selection changes are not by the user
        self.adds = False  # the last choice of the user extends the selection, as with Ctrl
        self._marking = QTimer(self, interval=0)
        self._marking.timeout.connect(self.mark)
        self.verticalScrollBar().valueChanged.connect(self.mark_soon)
        self.expanded.connect(self.mark_soon)
        self.collapsed.connect(self.mark_soon)

    def mark_soon(self, *_: object) -> None:
        """Mark in the next event loop iteration (debounced); cheap to call often."""
        self._marking.start()

    def mark(self) -> None:
        """Mark the rows in view: as many as a few milliseconds allow, others in the next event loop iteration."""
        selection = self.selectionModel()
        more: list[QModelIndex] = []
        less: list[QModelIndex] = []
        end = time.perf_counter() + CHUNK_SECONDS
        self._marking.stop()
        for index in self._rows_in_view():
            if time.perf_counter() > end:
                self.mark_soon()
                break
            wanted = self._is_marked(index)
            if wanted != selection.isSelected(index):
                (more if wanted else less).append(index)
        self.is_marking = True
        if more:
            selection.select(_pieces(more), _Flag.Select | _Flag.Rows)
        if less:
            selection.select(_pieces(less), _Flag.Deselect | _Flag.Rows)
        self.is_marking = False

    def _rows_in_view(self) -> Iterator[QModelIndex]:
        area = self.viewport().rect()
        index = self.indexAt(area.topLeft()).siblingAtColumn(0)
        while index.isValid() and self.visualRect(index).top() <= area.bottom():
            yield index
            index = self.indexBelow(index)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """More may be in view."""
        super().resizeEvent(event)
        self.mark_soon()

    def selectionCommand(
        self, index: QModelIndex | QPersistentModelIndex, event: QEvent | None = None
    ) -> QItemSelectionModel.SelectionFlag:
        command = super().selectionCommand(index, event)
        self.adds = not command & _Flag.Clear
        return command


def _pieces(rows: Iterable[QModelIndex]) -> QItemSelection:
    """Return rows as a selection with as few ranges as possible, each of siblings."""
    pieces: list[tuple[QModelIndex, QModelIndex]] = []
    for row in rows:
        top, bottom = pieces[-1] if pieces else (row, row)
        if row.row() == bottom.row() + 1 and row.parent() == bottom.parent():
            pieces[-1] = top, row
        else:
            pieces.append((row, row))
    selection = QItemSelection()
    for top, bottom in pieces:
        selection.select(top, bottom)
    return selection
