"""Dialog after an internal error: what happened, and a button that copies the details."""

from __future__ import annotations

from typing import ClassVar

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QDialog, QDialogButtonBox, QLabel, QPlainTextEdit, QVBoxLayout, QWidget

from onnx_workbench.viewer.core.folders import state_folder
from onnx_workbench.viewer.style.theme import monospace
from onnx_workbench.viewer.widgets.dialog_buttons import close_button


class CrashDialog(QDialog):
    """Collects reports: a second error while it is open is appended, so that a loop does not open a hundred dialogs."""

    current: ClassVar[CrashDialog | None] = None  # the dialog that is open

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Something went wrong")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(760, 460)
        text = QLabel(
            "An internal error occurred. Your document is in the state before the last action; save a copy "
            f"to be safe.\nThe details below are also in {state_folder() / 'log.txt'}."
        )
        text.setTextFormat(Qt.TextFormat.PlainText)
        text.setWordWrap(True)
        self.details = QPlainTextEdit()
        self.details.setReadOnly(True)
        self.details.setFont(monospace())
        self.details.setAccessibleName("Details of the error")
        self.details.setMaximumBlockCount(5000)
        buttons = close_button()
        self.copy = buttons.addButton("Copy details", QDialogButtonBox.ButtonRole.ActionRole)
        self.copy.clicked.connect(self._copy)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(text)
        layout.addWidget(self.details)
        layout.addWidget(buttons)
        self.finished.connect(self._closed)

    @classmethod
    def show_report(cls, report: str) -> CrashDialog:
        """Show a report in the dialog that is open, or in a new one."""
        if cls.current is None:
            cls.current = cls(QApplication.activeWindow())
            cls.current.show()
        cls.current.details.appendPlainText(report)
        return cls.current

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.details.toPlainText())

    def _closed(self, *_: object) -> None:
        CrashDialog.current = None
