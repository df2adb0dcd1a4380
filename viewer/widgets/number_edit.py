"""A field for one number, which may be empty."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QRegularExpression
from PySide6.QtGui import QRegularExpressionValidator
from PySide6.QtWidgets import QLineEdit

_NUMBER = QRegularExpression(r"\s*[-+]?(\d+\.?\d*|\.\d+)?([eE][-+]?\d+)?\s*")


class NumberEdit(QLineEdit):
    """A number, or nothing, which means what the hint says; `changed(number)` once it is entered."""

    def __init__(self, name: str, hint: str, changed: Callable[[float | None], None]) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setPlaceholderText(hint)
        self.setValidator(QRegularExpressionValidator(_NUMBER, self))
        self.setMinimumWidth(48)
        self.editingFinished.connect(lambda: changed(self.number()))

    def number(self) -> float | None:
        """What stands there; None for nothing or half a number."""
        try:
            return float(self.text())
        except ValueError:
            return None

    def show_number(self, number: float | None) -> None:
        """Show a number, or nothing."""
        text = "" if number is None else f"{number:.9g}"
        if text != self.text() and not self.hasFocus():
            self.setText(text)
