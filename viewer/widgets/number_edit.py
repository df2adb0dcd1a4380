"""Line edit for one number, which may be empty."""

from __future__ import annotations

from math import isfinite

from PySide6.QtCore import QRegularExpression, Signal
from PySide6.QtGui import QRegularExpressionValidator
from PySide6.QtWidgets import QLineEdit

#: Numbers and their prefixes: on commit, a mere prefix is replaced by the previous number.
_NUMBER = QRegularExpression(r"\s*[-+]?\d*\.?\d*([eE][-+]?\d*)?\s*")
_COUNT = QRegularExpression(r"\s*\d{0,9}\s*")


class NumberEdit(QLineEdit):
    """A field for a number, or empty with the meaning of its hint. `count`: only integers from 0 on."""

    number_entered = Signal(object)  # float | None, on commit

    def __init__(self, name: str, hint: str, *, count: bool = False) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setPlaceholderText(hint)
        self.setValidator(QRegularExpressionValidator(_COUNT if count else _NUMBER, self))
        self.setMinimumWidth(48)
        self._entered = ""
        self.editingFinished.connect(self._enter)

    def number(self) -> float | None:
        """Return the number; None if empty, incomplete or out of range."""
        try:
            number = float(self.text())
        except ValueError:
            return None
        return number if isfinite(number) else None

    def show_number(self, number: float | None) -> None:
        """Show a number, or nothing."""
        text = "" if number is None else f"{number:.9g}"
        if text != self.text() and not self.hasFocus():
            self.setText(text)
        self._entered = text

    def _enter(self) -> None:
        number = self.number()
        if number is None and self.text().strip():
            self.setText(self._entered)
            return
        self._entered = self.text()
        self.number_entered.emit(number)
