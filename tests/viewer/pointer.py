"""Moving the pointer in tests."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QApplication, QWidget


def hover(widget: QWidget, position: QPoint | QPointF, buttons: Qt.MouseButton = Qt.MouseButton.NoButton) -> None:
    """Move the pointer there; with `buttons`, as a part of dragging.

    QTest.mouseMove moves the platform's cursor instead, and the platform without a screen sends that to whichever
    window is first at the place: a tip or a window of an earlier test as well.
    """
    at, none = QPointF(position), Qt.MouseButton.NoButton
    event = QMouseEvent(
        QEvent.Type.MouseMove, at, widget.mapToGlobal(at), none, buttons, Qt.KeyboardModifier.NoModifier
    )
    QApplication.sendEvent(widget, event)


def wheel(widget: QWidget, turned: int, keys: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    """Turn the wheel over the middle of a widget."""
    at = QPointF(widget.rect().center())
    none, phase = Qt.MouseButton.NoButton, Qt.ScrollPhase.NoScrollPhase
    turn = QPoint(0, turned)
    event = QWheelEvent(at, QPointF(widget.mapToGlobal(at)), QPoint(), turn, none, keys, phase, False)
    QApplication.sendEvent(widget, event)
