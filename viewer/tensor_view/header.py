"""Header of a pane: description of the tensor, with its controls next to or below it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from onnx_workbench.viewer.widgets.flow_layout import FlowLayout


class PaneHeader(QWidget):
    """Text at the left, controls at the right; on separate lines if they do not fit."""

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
        self._below: Hashable = None  # for which subject and width the controls wrapped
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 3, 6, 3)
        column.setSpacing(2)
        for line in self._lines:
            column.addLayout(line)

    def fit(self, of: Hashable, width: int) -> None:
        """Wrap the controls if something would be cut off at this width.

        They stay wrapped for the same tensor: the text of a run that follows key repeats varies.
        """
        needed = self._words.sizeHint().width() + self._choices.sizeHint().width() + 24
        room = (of, width)
        self._below = room if needed > width or room == self._below else None
        line = self._lines[self._below is not None]
        if line.indexOf(self._choices) < 0:
            for other in self._lines:
                other.removeWidget(self._choices)
            line.addWidget(self._choices)
