"""Single-line label that elides its text and needs no minimum width."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QToolTip, QWidget

from onnx_workbench.viewer.style.tooltips import plain_tip

_LEAST = 40  # px


class ElidedLabel(QLabel):
    """Label that elides its text when painting if it does not fit; `text` is the full text."""

    def __init__(self, parent: QWidget | None = None, *, elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight) -> None:
        super().__init__(parent)
        self._elide = elide
        self.setTextFormat(Qt.TextFormat.PlainText)

    def minimumSizeHint(self) -> QSize:
        return QSize(_LEAST, super().minimumSizeHint().height())

    def event(self, event: QEvent) -> bool:
        """Show the whole text on hover where it is cut."""
        if not isinstance(event, QHelpEvent) or event.type() is not QEvent.Type.ToolTip or self.toolTip():
            return super().event(event)
        is_cut = self.fontMetrics().horizontalAdvance(self.text()) > self.contentsRect().width()
        QToolTip.showText(event.globalPos(), plain_tip(self.text()) if is_cut else "", self)
        return True

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        if self.autoFillBackground():
            painter.fillRect(self.rect(), self.palette().color(self.backgroundRole()))
        area = self.contentsRect()
        shown = painter.fontMetrics().elidedText(self.text(), self._elide, area.width())
        self.style().drawItemText(
            painter, area, int(self.alignment()), self.palette(), self.isEnabled(), shown, self.foregroundRole()
        )
        painter.end()
