"""Drag-and-drop reordering of a row among its siblings, with an insertion line."""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPoint, QRect, Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QApplication

from onnx_workbench.viewer.property_tree.rows import RowAction
from onnx_workbench.viewer.style.theme import theme

if TYPE_CHECKING:
    from onnx_workbench.viewer.property_tree.tree import PropertyTree

_EDGE = 14  # pixels from the border at which the list scrolls


class RowReordering:
    """Drag of a row: `press`, `drag` with the button held, `release`. Esc is `cancel`."""

    def __init__(self, tree: PropertyTree) -> None:
        self._tree = tree
        self._from = QPersistentModelIndex()
        self._start = QPoint()
        self._gap: int | None = None  # insertion index among the movable rows

    @property
    def is_dragging(self) -> bool:
        """Whether a drag is in progress."""
        return self._gap is not None and self._from.isValid()

    def press(self, index: QModelIndex, point: QPoint) -> None:
        """Start on a row; ignored for rows without `move`."""
        row = self._tree.rows.row(index)
        movable = row is not None and row.move is not None
        self._from = QPersistentModelIndex(index.siblingAtColumn(0)) if movable else QPersistentModelIndex()
        self._start, self._gap = point, None

    def drag(self, point: QPoint) -> bool:
        """Handle mouse movement with the button held; returns whether a row is being dragged."""
        if not self._from.isValid():
            return False
        if self._gap is None and (point - self._start).manhattanLength() < QApplication.startDragDistance():
            return False
        bar, height = self._tree.verticalScrollBar(), self._tree.viewport().height()
        if not _EDGE < point.y() < height - _EDGE:
            bar.setValue(bar.value() + (1 if point.y() > _EDGE else -1))
        self._gap = self._gap_at(point)
        self._tree.viewport().setCursor(Qt.CursorShape.ClosedHandCursor)
        self._tree.viewport().update()
        return True

    def release(self) -> bool:
        """Move the row to the line; returns whether there was a drag."""
        index, gap, was = self._from, self._gap, self.is_dragging
        self.cancel()
        row = self._tree.rows.row(index)
        if was and gap is not None and row is not None and row.move is not None:
            position = index.row() - self._range().start
            to = gap if gap <= position else gap - 1
            if to != position:
                outer, first = self._tree.rows.path(index.parent()), self._range().start
                self._tree.run(RowAction("Move", partial(row.move, to)))
                self._tree.go_to(outer, first + to)
        return was

    def cancel(self) -> None:
        """Cancel the drag."""
        if self.is_dragging:
            self._tree.viewport().unsetCursor()
            self._tree.viewport().update()
        self._gap = None

    def paint(self, painter: QPainter) -> None:
        if self._gap is None or not self._from.isValid():
            return
        places = self._range()
        last = self._gap >= len(places)
        index = self._from.sibling(places[-1] if last else places[self._gap], 0)
        rect = self._tree.visualRect(QModelIndex(index))
        y = self._bottom(QModelIndex(index)) if last else rect.top()
        painter.fillRect(QRect(rect.left(), y - 1, self._tree.viewport().width() - rect.left(), 2), theme().accent)

    def _range(self) -> range:
        """Return the range of movable siblings; they are adjacent, and may be very many."""
        here, count = self._from.row(), self._tree.rows.rowCount(self._from.parent())
        before = bisect_left(range(here), 1, key=lambda position: int(self._can_move(position)))
        behind = bisect_left(range(here + 1, count), 1, key=lambda position: int(not self._can_move(position)))
        return range(before, here + 1 + behind)

    def _can_move(self, position: int) -> bool:
        row = self._tree.rows.row(self._from.sibling(position, 0))
        return row is not None and row.move is not None

    def _bottom(self, index: QModelIndex) -> int:
        """Return the bottom of a row with its expanded children."""
        while self._tree.isExpanded(index) and (count := self._tree.rows.rowCount(index)):
            index = self._tree.rows.index(count - 1, 0, index)
        return self._tree.visualRect(index).bottom() + 1

    def _gap_at(self, point: QPoint) -> int:
        """Return the insertion index at a point; the number of movable rows means the end."""
        places, outer = self._range(), self._from.parent()
        index = self._tree.indexAt(point)
        below = not index.isValid() or self._tree.visualRect(index).top() > self._tree.visualRect(self._index()).top()
        while index.isValid() and index.parent() != outer:
            index = index.parent()
        if not index.isValid():
            return len(places) if below else 0
        first = index.siblingAtColumn(0)
        middle = (self._tree.visualRect(first).top() + self._bottom(first)) // 2
        gap = index.row() - places.start + (point.y() >= middle)
        return min(max(gap, 0), len(places))

    def _index(self) -> QModelIndex:
        return self._from.sibling(self._from.row(), 0)
