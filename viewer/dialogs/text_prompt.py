"""Small dialog with text fields; an error is shown below them, and the dialog stays open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QFormLayout, QLabel, QLineEdit, QVBoxLayout, QWidget

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.dialogs.dialog_lifetime import show_for
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.widgets.dialog_buttons import ok_and_cancel
from onnx_workbench.viewer.widgets.plain_label import plain_label

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace


@dataclass(frozen=True)
class PromptField:
    """A field to fill in."""

    label: str
    text: str = ""
    placeholder: str = ""


class ErrorLabel(QLabel):
    """Error message; takes no space while empty."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.setAccessibleName("Error")
        self.hide()

    def show_error(self, error: ModelError | None) -> None:
        """Show an error, or nothing."""
        self.setVisible(error is not None)
        if error is not None:
            self.setStyleSheet(f"color: {theme().error.name()};")
            self.setText(display(f"{error.title}. {error.detail}".strip(), 600, keep_lines=True))


def _line(field: PromptField) -> QLineEdit:
    line = QLineEdit(field.text)
    line.setPlaceholderText(field.placeholder)
    line.setAccessibleName(field.label)
    line.setMinimumWidth(320)
    return line


class TextPrompt(QDialog):
    """Asks for texts and calls `accept_texts` with them; a ModelError from it is shown and the dialog stays open.

    It opens at once, and closes with the document.
    """

    def __init__(
        self,
        window: QWidget,
        workspace: Workspace,
        title: str,
        fields: Sequence[PromptField],
        accept_texts: Callable[[list[str]], object],
        *,
        explanation: str = "",
        button: str = "OK",
    ) -> None:
        super().__init__(window)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._accept_texts = accept_texts
        layout = QVBoxLayout(self)
        if explanation:
            label = plain_label(explanation)
            layout.addWidget(label)
        form = QFormLayout()
        self.fields = [_line(field) for field in fields]
        for field, line in zip(fields, self.fields, strict=True):
            form.addRow(f"{field.label}:", line)
        layout.addLayout(form)
        self.error = ErrorLabel()
        layout.addWidget(self.error)
        self.buttons, _ = ok_and_cancel(button, self.try_accept, self.reject)
        layout.addWidget(self.buttons)
        if self.fields:
            self.fields[0].selectAll()
            self.fields[0].setFocus()
        show_for(workspace, self)

    def try_accept(self) -> None:
        """Pass the texts on; close when they are accepted."""
        try:
            self._accept_texts([line.text().strip() for line in self.fields])
        except ModelError as error:
            self.error.show_error(error)
            self.adjustSize()
            return
        self.accept()
