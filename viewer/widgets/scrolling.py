"""Areas that scroll, and scrolling to a part of one."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget


def scroll_area(content: QWidget) -> QScrollArea:
    """An area without a frame that shows a widget at least at its minimum size; the keyboard passes it by."""
    area = QScrollArea()
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setWidgetResizable(True)
    area.setWidget(content)
    return area


def scroll_to(widget: QWidget) -> None:
    """Scroll all areas around a widget so that they show it."""
    around = widget.parentWidget()
    while around is not None:
        if isinstance(around, QScrollArea):
            around.ensureWidgetVisible(widget)
        around = around.parentWidget()
