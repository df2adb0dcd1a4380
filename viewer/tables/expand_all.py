"""Opening all that is below a row of a tree, a few milliseconds at a time."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, Signal
from PySide6.QtWidgets import QTreeView

from onnx_workbench.viewer.tasks.event_loop import ChunkedIteration


class ExpandAll(QObject):
    """Incremental expansion of a tree (key `*`) with very many rows: Qt expands them all in one event.

    Rows may come and go meanwhile; closing any row stops it. GUI thread only.
    """

    ended = Signal()  # all is open, or it was stopped

    def __init__(self, tree: QTreeView) -> None:
        super().__init__(tree)
        self._tree = tree
        self._iteration: ChunkedIteration[None] = ChunkedIteration(self._on_opened, self)
        tree.collapsed.connect(self.stop)

    @property
    def running(self) -> bool:
        """Return whether there may be more to expand."""
        return self._iteration.running

    def start(self, index: QModelIndex) -> None:
        """Expand a row and all its descendants, cancelling an earlier request."""
        self._iteration.start(self._open(QPersistentModelIndex(index.siblingAtColumn(0))))
        self._iteration.next_chunk()

    def stop(self, *_: object) -> None:
        """Leave the rest as it is."""
        if self.running:
            self._iteration.stop()
            self.ended.emit()

    def _on_opened(self, _opened: list[None], finished: bool) -> None:
        if finished:
            self.ended.emit()

    def _open(self, top: QPersistentModelIndex) -> Iterator[None]:
        """Expand from the top down: a view moves all rows below one that it expands."""
        model = self._tree.model()
        pending = [top]
        while pending:
            row = pending.pop()
            if not row.isValid():
                continue  # it went meanwhile
            self._tree.expand(row)
            yield None
            inner = []
            for index in range(model.rowCount(row)):
                child = model.index(index, 0, row)
                if model.hasChildren(child):
                    inner.append(QPersistentModelIndex(child))
            pending += reversed(inner)
