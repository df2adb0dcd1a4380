"""Scrolling to a part of a view."""

from __future__ import annotations

from PySide6.QtWidgets import QScrollArea, QWidget


def scroll_to(widget: QWidget) -> None:
    """Scroll all areas around a widget so that they show it."""
    around = widget.parentWidget()
    while around is not None:
        if isinstance(around, QScrollArea):
            around.ensureWidgetVisible(widget)
        around = around.parentWidget()
