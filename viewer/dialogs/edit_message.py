"""Dialog that edits one protobuf message as text: checked while typing, applied as one edit."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QPlainTextEdit, QTextEdit, QVBoxLayout, QWidget

from onnx_workbench.model.convert.changed_nodes import nodes_changed_by_opset
from onnx_workbench.model.edits.edit_message import MessageEdit, Target
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.message_text import MessageTextError
from onnx_workbench.model.io.reader.import_graph import read_opsets
from onnx_workbench.model.ir.graph import Function, Model
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.dialogs.text_prompt import ErrorLabel
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.labels import name_of
from onnx_workbench.viewer.style.theme import monospace, theme
from onnx_workbench.viewer.widgets.dialog_buttons import without_icons

_DELAY_MS = 200
_TITLES = {"initializer": "tensor", "sparse_initializer": "sparse tensor", "value_info": "declared value"}


def edit_message(window: QWidget, workspace: Workspace, target: Target, field: str = "") -> None:
    """Open the dialog for the message of an object; `field` as for `MessageEdit`. ModelError if it has none."""
    dialog = EditMessageDialog(workspace, MessageEdit(target, field), window)
    workspace.closed.connect(dialog.reject)
    dialog.open()


class EditMessageDialog(QDialog):
    """Shows the text of a message; Apply closes the dialog, and a text that is refused keeps it open."""

    def __init__(self, workspace: Workspace, message: MessageEdit, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Edit Message")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(640, 560)
        self._workspace = workspace
        self._message = message
        self.subject = QLabel(self._subject())
        self.subject.setTextFormat(Qt.TextFormat.PlainText)
        self.subject.setWordWrap(True)
        self.text = QPlainTextEdit(message.text)
        self.text.setAccessibleName("Protobuf text")
        self.text.setFont(monospace())
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setTabStopDistance(self.text.fontMetrics().horizontalAdvance("  "))
        self.note = QLabel()
        self.note.setTextFormat(Qt.TextFormat.PlainText)
        self.note.setWordWrap(True)
        self.error = ErrorLabel()
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self.ok = self.buttons.button(QDialogButtonBox.StandardButton.Ok)
        self.ok.setText("Apply")
        without_icons(self.buttons.buttons())
        self.buttons.accepted.connect(self.apply)
        self.buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        for widget in (self.subject, self.text, self.note, self.error, self.buttons):
            layout.addWidget(widget, int(widget is self.text))
        self._delay = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._delay.timeout.connect(self.check)
        self.text.textChanged.connect(self._delay.start)
        self.check()
        self.text.setFocus()

    def _subject(self) -> str:
        what = _TITLES.get(self._message.field, self._message.field)
        of = f"{what} {name_of(self._message.target)}".strip()
        parts = ", ".join(self._message.parts)
        rest = f"\nWithout {parts}: each entry has a message of its own." if parts else ""
        kept = "\nA line that begins with unchanged keeps content as it is." * ("unchanged: " in self._message.text)
        return f"{self._message.kind} of {of}{rest}{kept}"

    def check(self) -> bool:
        """Read the text and mark an error; returns whether it can be applied, as far as the text says."""
        self._delay.stop()
        error: ModelError | None = None
        note = ""
        try:
            note = self._note(self._message.read(self.text.toPlainText()))
        except ModelError as found:
            error = found
        self.error.show_error(error)
        self.note.setText(note)
        self.note.setVisible(bool(note))
        self._mark(error.line if isinstance(error, MessageTextError) else 0)
        self.ok.setEnabled(error is None)
        return error is None

    def _note(self, message: Any) -> str:
        """Return what an opset number that defines nodes differently means for the model."""
        target = self._message.target
        if not isinstance(target, (Model, Function)):
            return ""
        found = []
        for domain, version in read_opsets(message.opset_import).items():
            count = len(nodes_changed_by_opset(target, domain, version)) if 0 < version < 1 << 31 else 0
            if count:
                name = display(domain or "ai.onnx", 60)
                found.append(f"Opset {version} of {name} defines {plural(count, 'node')} differently.")
        convert = "Model › Convert… changes the nodes along with the number; this dialog does not."
        return "\n".join([*found, convert]) if found else ""

    def _mark(self, line: int) -> None:
        """Mark the line of an error; 0 for none."""
        marks = []
        if line:
            mark = QTextEdit.ExtraSelection()
            mark.cursor = QTextCursor(self.text.document().findBlockByNumber(line - 1))
            color = theme().error
            color.setAlpha(60)
            mark.format.setBackground(color)
            mark.format.setProperty(mark.format.Property.FullWidthSelection, True)
            marks.append(mark)
        self.text.setExtraSelections(marks)

    def apply(self) -> None:
        """Apply the text as one edit and close, or show why it is refused."""
        if not self.check():
            return
        try:
            with self._workspace.document.edit(f"Edit message of {name_of(self._message.target)}") as edit:
                self._message.apply(edit, self.text.toPlainText())
        except ModelError as error:
            self.error.show_error(error)
            return
        self.accept()
