"""Dialog buttons without icons."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QAbstractButton, QDialogButtonBox


def close_button() -> QDialogButtonBox:
    """Return a button box with Close, to which a dialog adds its own."""
    box = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
    without_icons(box.buttons())
    return box


def without_icons(buttons: Iterable[QAbstractButton]) -> None:
    """Remove the icons that some styles put on standard buttons."""
    for button in buttons:
        button.setIcon(QIcon())
