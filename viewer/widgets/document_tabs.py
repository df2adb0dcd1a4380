"""Tab bar of open documents, legible for any number of tabs."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QTabBar, QTabWidget, QWidget

_LEAST = "resnet…mo.onnx"  # characters of a title that identify it


class _Bar(QTabBar):
    def minimumTabSizeHint(self, index: int) -> QSize:
        """Return a width that fits the beginning of the title; without enough room, the bar scrolls."""
        wanted, least = self.tabSizeHint(index), super().minimumTabSizeHint(index)
        title = self.fontMetrics().horizontalAdvance(self.tabText(index))
        room = wanted.width() - title + self.fontMetrics().horizontalAdvance(_LEAST)
        return QSize(max(least.width(), min(wanted.width(), room)), least.height())


class DocumentTabs(QTabWidget):
    """Movable tabs, one for each document; a single one has no bar."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTabBar(_Bar())
        self.setAccessibleName("Models")
        self.setDocumentMode(True)
        self.setMovable(True)
        self.setTabBarAutoHide(True)
        self.setElideMode(Qt.TextElideMode.ElideMiddle)
        self.setUsesScrollButtons(True)
