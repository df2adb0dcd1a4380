"""The top of a pane: what is told of a tensor, and the choices beside or below that."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from onnx_workbench.viewer.widgets.flow_layout import FlowLayout


class PaneHeader(QWidget):
    """Words at the left, choices at the right; where they do not fit beside each other, each in a line of their own."""

    def __init__(self, words: Sequence[QWidget], choices: Sequence[QWidget]) -> None:
        super().__init__()
        self._lines = (QHBoxLayout(), QHBoxLayout())
        for line in self._lines:
            line.setSpacing(8)
        self._words = FlowLayout(10)
        for word in words:
            self._words.addWidget(word)
        self._lines[0].addLayout(self._words, 1)
        self._choices = QWidget()
        row = QHBoxLayout(self._choices)
        row.setContentsMargins(0, 0, 0, 0)
        for choice in choices:
            row.addWidget(choice)
        self._lines[0].addWidget(self._choices)
        self._below: Hashable = None  # of what, and in which width, the choices had to go there
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 3, 6, 3)
        column.setSpacing(2)
        for line in self._lines:
            column.addLayout(line)

    def fit(self, of: Hashable, width: int) -> None:
        """Put the choices where nothing is cut off, in a pane of this width.

        Below they stay `of` the same tensor: what is told of a run that follows held keys comes and goes.
        """
        needed = self._words.sizeHint().width() + self._choices.sizeHint().width() + 24
        place = (of, width)
        self._below = place if needed > width or place == self._below else None
        line = self._lines[self._below is not None]
        if line.indexOf(self._choices) < 0:
            for other in self._lines:
                other.removeWidget(self._choices)
            line.addWidget(self._choices)
