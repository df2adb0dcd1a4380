"""Tips that say what stands in them: Qt takes a tip that looks like HTML for HTML, and texts from files may."""

from __future__ import annotations

from PySide6.QtCore import Qt as Core
from PySide6.QtGui import Qt


def plain_tip(text: str) -> str:
    """A text as a tip that shows just that. Every tip that may hold something from a file goes through here."""
    return Qt.convertFromPlainText(text) if Qt.mightBeRichText(text) else text


def for_role(text: str, role: int) -> str:
    """What a model returns where tip and accessible text are the same."""
    return plain_tip(text) if role == Core.ItemDataRole.ToolTipRole else text
