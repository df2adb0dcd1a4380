"""Busy cursor while the window is blocked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

_MANY = 20_000  # steps of an edit, of a few microseconds each


@contextmanager
def busy_cursor(steps: int) -> Iterator[None]:
    """The pointer shows that the program is busy where a change of so many steps, made in one go, takes a while."""
    if steps < _MANY:
        yield
        return
    QGuiApplication.setOverrideCursor(Qt.CursorShape.WaitCursor)
    try:
        yield
    finally:
        QGuiApplication.restoreOverrideCursor()
