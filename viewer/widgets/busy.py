"""Saying what takes the window's time before it does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel

from viewer.text import plural

_SAID_FROM = 2_000  # steps of an edit: some 20 ms


@contextmanager
def changing(label: QLabel, steps: int) -> Iterator[None]:
    """While the block makes an edit of so many steps, which is done in one go: the label and the pointer tell."""
    if steps < _SAID_FROM:
        yield
        return
    label.setText(f"Changing the model: {plural(steps, 'step')}…")
    label.repaint()  # now, as the window does nothing else before the end of the edit
    QApplication.setOverrideCursor(Qt.CursorShape.WaitCursor)
    try:
        yield
    finally:
        QApplication.restoreOverrideCursor()
