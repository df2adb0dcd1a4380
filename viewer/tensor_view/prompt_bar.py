"""Prompt below the values: asks for a text, shows the error of an invalid one, or asks for confirmation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QKeyEvent, QShowEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.dialogs.text_prompt import ErrorLabel
from onnx_workbench.viewer.style.theme import monospace
from onnx_workbench.viewer.widgets.plain_label import plain_label
from onnx_workbench.viewer.widgets.scrolling import scroll_to

Answer = Callable[[str, Callable[[ModelError], object]], object]


class PromptBar(QWidget):
    """Bar that asks for a text, a choice, or confirmation. Enter accepts, Esc closes. Hidden while unused."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._answer: Answer | None = None
        self._go_on: Callable[[], object] | None = None
        self.label = plain_label()
        self.field = QLineEdit()
        self.field.setFont(monospace())
        self.field.returnPressed.connect(self.commit)
        self.field.textEdited.connect(self._forget_error)
        self.choice = QComboBox()
        self.yes = QPushButton("Apply")
        self.yes.clicked.connect(self.commit)
        self.no = QPushButton("Cancel")
        self.no.clicked.connect(self.close_line)
        self.error = ErrorLabel()
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.addStretch()  # takes the room where nothing is to be filled in
        row.addWidget(self.field, 1)
        row.addWidget(self.choice, 1)
        row.addWidget(self.yes)
        row.addWidget(self.no)
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 4, 8, 6)
        column.setSpacing(3)
        column.addWidget(self.label)  # above: the panel may be narrow
        column.addLayout(row)
        column.addWidget(self.error)
        self.hide()

    def _forget_error(self) -> None:
        self.error.hide()

    def ask(self, title: str, answer: Answer, *, text: str = "", hint: str = "", verb: str = "Apply") -> None:
        """Ask for a text; `answer(text, refused)` accepts it or calls `refused(error)`."""
        self._answer, self._go_on = answer, None
        self._show(title, verb, self.field)
        self.field.setText(text)
        self.field.setPlaceholderText(hint)
        self.field.setAccessibleName(title)
        self.field.selectAll()
        self.field.setFocus()

    def ask_which(
        self, title: str, names: Sequence[str], answer: Answer, *, text: str = "", verb: str = "Apply"
    ) -> None:
        """Ask for one of some names; `text` is offered first."""
        self._answer, self._go_on = answer, None
        self._show(title, verb, self.choice)
        self.choice.clear()
        for name in names:
            self.choice.addItem(display(name, 80), name)
        self.choice.setCurrentIndex(max(0, self.choice.findData(text)))
        self.choice.setAccessibleName(title)
        self.choice.setFocus()

    def confirm(self, text: str, resume: Callable[[], object], verb: str = "Change") -> None:
        """Ask for confirmation of an announced action."""
        self._answer, self._go_on = None, resume
        self._show(text, verb, None)
        self.yes.setFocus()

    @property
    def is_confirming(self) -> bool:
        """Return whether it asks for confirmation."""
        return self._go_on is not None

    def _show(self, title: str, verb: str, entry: QWidget | None) -> None:
        self.label.setText(title)
        for widget in (self.field, self.choice):
            widget.setVisible(widget is entry)
        self.yes.setText(verb)
        self.error.hide()
        self.show()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.scroll_into_view()

    def scroll_into_view(self) -> None:
        """Scroll what is around it so that all of it is seen, once the layout has made room."""
        if self.isVisible():
            QTimer.singleShot(0, self, lambda: scroll_to(self))

    def commit(self) -> None:
        """Submit the answer; the prompt stays open while it is refused."""
        if self._go_on is not None:
            resume = self._go_on
            self.close_line()
            resume()
        elif self._answer is not None:
            answer = self._answer
            refused: list[ModelError] = []

            def refuse(error: ModelError) -> None:
                refused.append(error)
                self._answer = answer
                self.error.show_error(error)
                self.show()

            try:
                answer(self.field.text() if self.choice.isHidden() else self.choice.currentData(), refuse)
            except ModelError as error:  # invalid numbers and shapes are refused before any work begins
                refuse(error)
            if not refused:
                self.close_line()

    def close_line(self) -> None:
        """Close the prompt."""
        self._answer = self._go_on = None
        self.hide()
        parent = self.parentWidget()
        if parent is not None:
            parent.setFocus()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close_line()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and (self.choice.hasFocus() or self.yes.hasFocus()):
            self.commit()
        else:
            super().keyPressEvent(event)
