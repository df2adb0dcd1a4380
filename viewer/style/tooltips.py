"""Tooltips: short lines of plain text, as Qt renders a tooltip that looks like HTML, and texts from files may."""

from __future__ import annotations

import textwrap

from PySide6.QtCore import Qt as Core
from PySide6.QtGui import Qt

_WIDTH = 60  # characters of a line


def wrapped(text: str) -> str:
    """Break lines that are longer than a tooltip should be wide."""
    if len(text) <= _WIDTH:
        return text
    return "\n".join(part for line in text.split("\n") for part in textwrap.wrap(line, _WIDTH) or [""])


def plain_tip(text: str) -> str:
    """Wrap and escape a text for a tooltip. Every tooltip that is long or may hold text from a file uses this."""
    text = wrapped(text)
    return Qt.convertFromPlainText(text) if Qt.mightBeRichText(text) else text


def for_role(text: str, role: int) -> str:
    """Return the model data for the tooltip and accessible text roles, where both are the same."""
    return plain_tip(text) if role == Core.ItemDataRole.ToolTipRole else text
