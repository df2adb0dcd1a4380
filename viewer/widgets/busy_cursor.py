"""Busy cursor while the window is blocked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

_MANY = 20_000  # steps of an edit (a few microseconds each) from which the cursor is shown


@contextmanager
def busy_cursor(steps: int) -> Iterator[None]:
    """Show the busy cursor during a change of many steps."""
    if steps < _MANY:
        yield
        return
    QGuiApplication.setOverrideCursor(Qt.CursorShape.WaitCursor)
    try:
        yield
    finally:
        QGuiApplication.restoreOverrideCursor()
