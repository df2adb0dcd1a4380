"""Label for frequently changing text: keeps its width, so that the layout around it does not move."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QMargins, QSize, Qt
from PySide6.QtWidgets import QWidget

from onnx_workbench.viewer.widgets.elided_label import ElidedLabel

_SPARE = 4  # a text this many times shorter lets it shrink
_GAP = 8  # px to the widget at its left
_SHARE = 4  # a longer text than this part of the window is elided: the window would become wider


class FixedWidthLabel(ElidedLabel):
    """Right-aligned plain text in a width that grows as needed and shrinks where hardly any is used.

    A label of a fixed size does not invalidate the layout, which in a main window takes 2 ms, for every progress text
    of a run or every zoom step.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.setFixedSize(self._needed())

    def setText(self, text: str) -> None:
        """Set the text, in the same width if it fits."""
        super().setText(text)
        if not self.width() / _SPARE <= self._needed().width() <= self.width():
            self.setFixedSize(self._needed())

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self.setFixedSize(self._needed())

    def _needed(self) -> QSize:
        # The size hint is never below the fixed size.
        size = self.fontMetrics().size(Qt.TextFlag.TextSingleLine, self.text())
        size = size.grownBy(QMargins(_GAP if self.text() else 0, 0, 0, 0))
        return QSize(min(size.width(), self.window().width() // _SHARE), size.height())
