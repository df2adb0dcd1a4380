"""Dialog buttons as this program has them: words, no pictures."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QAbstractButton, QDialogButtonBox


def close_button() -> QDialogButtonBox:
    """A row with Close, to which a dialog adds its own."""
    box = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
    without_icons(box.buttons())
    return box


def without_icons(buttons: Iterable[QAbstractButton]) -> None:
    """Take away the icons some styles put on standard buttons."""
    for button in buttons:
        button.setIcon(QIcon())
