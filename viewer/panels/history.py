"""History panel: every edit by title; selecting one restores the state after it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from time import perf_counter
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QFont, QMouseEvent
from PySide6.QtWidgets import QListView

from onnx_workbench.model.history.document import Document, HistoryEntry
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.style.tooltips import for_role
from onnx_workbench.viewer.tasks.event_loop import CHUNK_SECONDS, ChunkedIteration
from onnx_workbench.viewer.widgets.busy_cursor import busy_cursor
from onnx_workbench.viewer.widgets.flow_layout import in_a_column
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

Index = QModelIndex | QPersistentModelIndex

#: Most steps applied before views are updated; a longer edit by itself.
_MOST_TOGETHER = 100


class HistoryModel(QAbstractListModel):
    """The states of a document, oldest first; abandoned branches are indented below their origin."""

    def __init__(self, document: Document, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._document = document
        self.entries: list[HistoryEntry] = []
        self._depths: list[int] = []
        self._ahead: set[HistoryEntry] = set()
        self.refresh()

    def refresh(self) -> None:
        """Reload the history."""
        self.beginResetModel()
        self.entries, self._depths = [], []
        current = self._document.current
        path = {current}
        while current.parent is not None:
            current = current.parent
            path.add(current)
        last = self._document.current
        self._ahead = set()
        while last.latest is not None:
            last = last.latest
            self._ahead.add(last)
        self._add(self._document.root, path | self._ahead)
        self.endResetModel()

    def _add(self, root: HistoryEntry, main: set[HistoryEntry]) -> None:
        """Add the main line at the left; a branch comes one level deeper, before the line continues."""
        pending = [(root, 0)]
        while pending:
            entry, depth = pending.pop()
            self.entries.append(entry)
            self._depths.append(depth)
            following = sorted(entry.children, key=lambda child: child in main, reverse=False)
            last = following[-1:] if following else []
            pending.extend((child, depth) for child in last)
            pending.extend((child, depth + 1) for child in following[:-1])

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        return 0 if parent.isValid() else len(self.entries)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        entry = self.entries[index.row()]
        now = entry is self._document.current
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return "    " * self._depths[index.row()] + display(entry.title)
            case Qt.ItemDataRole.ToolTipRole | Qt.ItemDataRole.AccessibleTextRole:
                time = datetime.fromtimestamp(entry.time).strftime("%H:%M:%S") if entry.time else ""
                return for_role(f"{display(entry.title)} {time}{', now' if now else ''}".strip(), role)
            case Qt.ItemDataRole.FontRole if now:
                font = QFont()
                font.setBold(True)
                return font
            case Qt.ItemDataRole.ForegroundRole if entry in self._ahead or self._depths[index.row()]:
                return theme().muted
        return None


class _List(QListView):
    """The list, which ignores the second press of a double click: another row may be there by now."""

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Ignore it."""
        event.accept()


class HistoryPanel(Panel):
    """The list; a click restores a state."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.model = HistoryModel(workspace.document, self)
        self.list = _List(self)
        self.list.setItemDelegate(WholeTextDelegate(self.list))
        self.list.setModel(self.model)
        self.list.setUniformItemSizes(True)
        self.list.setAccessibleName("History")
        in_a_column(self, self.list)
        self.entry = self.list
        self._going: ChunkedIteration[None] = ChunkedIteration(
            lambda _steps, finished: self._on_the_way(finished), self
        )
        self.list.clicked.connect(self._go)
        self.list.activated.connect(self._go)
        workspace.changes.changed.connect(self._on_change)
        self.refresh_when_visible()

    def _on_change(self, _change: object) -> None:
        if not self._going.running:  # otherwise only its end changed: the rows stay
            self.refresh_when_visible()

    def _on_the_way(self, finished: bool) -> None:
        if finished:
            self.refresh_when_visible()
        else:
            self.list.viewport().update()  # another row is the current state

    def refresh(self) -> None:
        """List the states again, the current one in view."""
        self.model.refresh()
        row = self.model.entries.index(self.workspace.document.current)
        self.list.setCurrentIndex(self.model.index(row))
        self.list.scrollTo(self.model.index(row))

    def _go(self, index: QModelIndex) -> None:
        entry = self.model.entries[index.row()]
        if entry is not self.workspace.document.current:
            self._going.start(self._steps_to(entry))
            self._going.next_chunk()

    def _steps_to(self, entry: HistoryEntry) -> Iterator[None]:
        """Undo or redo towards an entry in time slices of a few milliseconds, with a busy cursor for long edits."""
        document, changes = self.workspace.document, self.workspace.changes
        steps = document.steps_to(entry)

        def most_ahead() -> int:
            here = document.current
            return max(len(near.steps) for near in (here, *here.children))

        while True:
            end, room = perf_counter() + CHUNK_SECONDS, _MOST_TOGETHER
            with busy_cursor(most_ahead()), changes.together():
                while True:
                    room -= most_ahead()
                    if next(steps, steps) is steps:
                        return
                    if most_ahead() > room or perf_counter() > end:
                        break
            yield
