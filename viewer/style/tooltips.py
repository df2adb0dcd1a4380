"""Plain-text tooltips: Qt renders a tooltip that looks like HTML, and texts from files may."""

from __future__ import annotations

from PySide6.QtCore import Qt as Core
from PySide6.QtGui import Qt


def plain_tip(text: str) -> str:
    """Escape a text for a tooltip. Every tooltip that may hold text from a file uses this."""
    return Qt.convertFromPlainText(text) if Qt.mightBeRichText(text) else text


def for_role(text: str, role: int) -> str:
    """Return the model data for the tooltip and accessible text roles, where both are the same."""
    return plain_tip(text) if role == Core.ItemDataRole.ToolTipRole else text
