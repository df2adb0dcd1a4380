"""Dialog that edits a long text: checked while typing, applied as one edit."""

from __future__ import annotations

from typing import Protocol

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QColor, QTextCursor, QTextOption
from PySide6.QtWidgets import QDialog, QTextEdit, QVBoxLayout, QWidget

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.io.message_text import MessageTextError
from onnx_workbench.viewer.dialogs.text_prompt import ErrorLabel
from onnx_workbench.viewer.property_tree.editors import TextField
from onnx_workbench.viewer.property_tree.rows import PropertyField
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.widgets.dialog_buttons import ok_and_cancel
from onnx_workbench.viewer.widgets.plain_label import plain_label

_DELAY_MS = 200


class EditedText(Protocol):
    """What the text of the dialog stands for."""

    @property
    def subject(self) -> str:
        """What is edited, shown above the text."""

    @property
    def title(self) -> str:
        """The title of the edit."""

    @property
    def text(self) -> str:
        """The text at the beginning."""

    def check(self, text: str) -> str:
        """Read a text, and return what is to be said about it; ModelError where it is not understood."""

    def apply(self, edit: Transaction, text: str) -> object:
        """Make the change; ModelError where it is refused."""


class EditTextDialog(QDialog):
    """Shows a text; Apply closes the dialog, and a text that is refused keeps it open."""

    def __init__(self, workspace: Workspace, edited: EditedText, window_title: str, parent: QWidget | None) -> None:
        super().__init__(parent)
        self.setWindowTitle(window_title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(640, 560)
        self._workspace = workspace
        self._edited = edited
        self.subject = plain_label(edited.subject)
        self.text = TextField(PropertyField("", str, lambda _edit, _text: None, mono=True), self)
        self.text.setAccessibleName("Text")
        self.text.setTabChangesFocus(False)
        self.text.commit_requested.connect(self.apply)
        self.text.cancel_requested.connect(self.reject)
        self.text.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)  # finding words in a long line takes minutes
        self.text.setTabStopDistance(self.text.fontMetrics().horizontalAdvance("  "))
        self.text.set_text(edited.text)
        self.text.moveCursor(QTextCursor.MoveOperation.Start)
        self.note = plain_label()
        self.error = ErrorLabel()
        self.buttons, self.ok = ok_and_cancel("Apply", self.apply, self.reject)
        layout = QVBoxLayout(self)
        for widget in (self.subject, self.text, self.note, self.error, self.buttons):
            layout.addWidget(widget, int(widget is self.text))
        self._delay = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._delay.timeout.connect(self.check)
        self.text.textChanged.connect(self._delay.start)
        workspace.closed.connect(self.reject)
        self.check()
        self.text.setFocus()

    def check(self) -> bool:
        """Read the text and mark an error; returns whether it can be applied, as far as the text says."""
        self._delay.stop()
        error: ModelError | None = None
        note = ""
        try:
            note = self._edited.check(self.text.text_now())
        except ModelError as found:
            error = found
        self.error.show_error(error)
        self.note.setText(note)
        self.note.setVisible(bool(note))
        self._mark(error.line if isinstance(error, MessageTextError) else 0)
        self.ok.setEnabled(error is None)
        return error is None

    def _mark(self, line: int) -> None:
        """Mark the line of an error; 0 for none."""
        marks = []
        if line:
            mark = QTextEdit.ExtraSelection()
            mark.cursor = QTextCursor(self.text.document().findBlockByNumber(line - 1))
            color = QColor(theme().error)
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
            with self._workspace.document.edit(self._edited.title) as edit:
                self._edited.apply(edit, self.text.text_now())
        except ModelError as error:
            self.error.show_error(error)
            return
        self.accept()
