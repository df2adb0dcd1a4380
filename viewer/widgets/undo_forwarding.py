"""Undo and redo in fields that are not part of the document."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QLineEdit


class _UndoForwarder(QObject):
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() != QEvent.Type.ShortcutOverride or not isinstance(event, QKeyEvent):
            return False
        if not isinstance(watched, QLineEdit):
            return False
        keys = QKeySequence.StandardKey
        undo = event.matches(keys.Undo) and not watched.isUndoAvailable()
        redo = event.matches(keys.Redo) and not watched.isRedoAvailable()
        if undo or redo:
            event.ignore()
        return undo or redo


def forward_undo(box: QLineEdit) -> None:
    """Forward Undo and Redo to the document if the focused field has nothing to undo."""
    box.installEventFilter(_UndoForwarder(box))
