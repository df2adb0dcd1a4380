"""Dialog with a text that can be copied: a list, a report."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPlainTextEdit, QVBoxLayout, QWidget

from onnx_workbench.viewer.widgets.dialog_buttons import close_button
from onnx_workbench.viewer.widgets.plain_label import plain_label


class TextDialog(QDialog):
    """A message, a text named `name` for screen readers, and a button that copies it. Deleted when it closes."""

    def __init__(self, parent: QWidget | None, title: str, message: str, name: str, copy: str = "Copy") -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(640, 480)
        label = plain_label(message)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.text = QPlainTextEdit()
        self.text.setAccessibleName(name)
        buttons = close_button(self)
        self.copy = buttons.addButton(copy, QDialogButtonBox.ButtonRole.ActionRole)
        self.copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text.toPlainText()))
        layout = QVBoxLayout(self)
        layout.addWidget(label)
        layout.addWidget(self.text)
        layout.addWidget(buttons)
        self.text.setFocus()


def show_list(parent: QWidget, title: str, message: str, text: str) -> TextDialog:
    """Show a list as text, beside the window, which stays usable."""
    dialog = TextDialog(parent, title, message, title)
    dialog.text.setReadOnly(True)
    dialog.text.setPlainText(text)
    dialog.show()
    return dialog
