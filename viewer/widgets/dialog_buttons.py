"""Buttons of dialogs, without the icons that some styles put on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QAbstractButton, QDialog, QDialogButtonBox, QPushButton


def close_button(dialog: QDialog) -> QDialogButtonBox:
    """Return a button box with Close, which closes the dialog, to which that adds its own."""
    box = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
    without_icons(box.buttons())
    box.rejected.connect(dialog.reject)
    return box


def ok_and_cancel(
    title: str, accepted: Callable[[], object], rejected: Callable[[], object]
) -> tuple[QDialogButtonBox, QPushButton]:
    """Return a button box with OK, under another title, and Cancel; and its OK."""
    box = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
    ok = box.button(QDialogButtonBox.StandardButton.Ok)
    ok.setText(title)
    without_icons(box.buttons())
    box.accepted.connect(accepted)
    box.rejected.connect(rejected)
    return box, ok


def without_icons(buttons: Iterable[QAbstractButton]) -> None:
    """Remove the icons that some styles put on standard buttons."""
    for button in buttons:
        button.setIcon(QIcon())
