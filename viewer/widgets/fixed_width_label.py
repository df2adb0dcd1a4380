"""One line of text that changes often: it keeps the room it once needed, so that nothing around it moves."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QMargins, QSize, Qt
from PySide6.QtWidgets import QLabel, QWidget

_SPARE = 4  # a text this many times shorter gives room back
_GAP = 8  # px to what is on its left


class FixedWidthLabel(QLabel):
    """Plain text at the right end of its room, which grows as it must and is given back where hardly any is needed.

    A label of a fixed size has no layout ask anew how much room all the others want, which in a main window is
    2 ms, with every word of a run or every step of a zoom.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.setFixedSize(self._needed())

    def setText(self, text: str) -> None:
        """Another text, in the room of the one before if it fits."""
        super().setText(text)
        if not self.width() / _SPARE <= self._needed().width() <= self.width():
            self.setFixedSize(self._needed())

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self.setFixedSize(self._needed())

    def _needed(self) -> QSize:
        # The size hint is never below the size that was fixed.
        size = self.fontMetrics().size(Qt.TextFlag.TextSingleLine, self.text())
        return size.grownBy(QMargins(_GAP if self.text() else 0, 0, 0, 0))
