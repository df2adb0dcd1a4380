"""The tabs of open documents, which stay legible however many there are."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QTabBar, QTabWidget, QWidget

_LEAST = "resnet…mo.onnx"  # as much of a title as tells it from others


class _Bar(QTabBar):
    def minimumTabSizeHint(self, index: int) -> QSize:
        """Enough of the title to know it by; when all of them need more than there is, arrows scroll."""
        wanted, least = self.tabSizeHint(index), super().minimumTabSizeHint(index)
        title = self.fontMetrics().horizontalAdvance(self.tabText(index))
        room = wanted.width() - title + self.fontMetrics().horizontalAdvance(_LEAST)
        return QSize(max(least.width(), min(wanted.width(), room)), least.height())


class DocumentTabs(QTabWidget):
    """One tab for each document, to be moved about; a single one needs no bar."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTabBar(_Bar())
        self.setAccessibleName("Models")
        self.setDocumentMode(True)
        self.setMovable(True)
        self.setTabBarAutoHide(True)
        self.setElideMode(Qt.TextElideMode.ElideMiddle)
        self.setUsesScrollButtons(True)
