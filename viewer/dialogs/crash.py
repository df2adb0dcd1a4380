"""Dialog after an internal error: what happened, and a button that copies the details."""

from __future__ import annotations

from typing import ClassVar

from PySide6.QtWidgets import QApplication, QWidget

from onnx_workbench.viewer.dialogs.text_dialog import TextDialog
from onnx_workbench.viewer.program.folders import state_folder
from onnx_workbench.viewer.style.theme import monospace


class CrashDialog(TextDialog):
    """Collects reports: a second error while it is open is appended, so that a loop does not open a hundred dialogs."""

    current: ClassVar[CrashDialog | None] = None  # the dialog that is open

    def __init__(self, parent: QWidget | None = None) -> None:
        message = (
            "An internal error occurred. Your document is in the state before the last action; save a copy "
            f"to be safe.\nThe details below are also in {state_folder() / 'log.txt'}."
        )
        super().__init__(parent, "Something went wrong", message, "Details of the error", "Copy details")
        self.resize(760, 460)
        self.text.setReadOnly(True)
        self.text.setFont(monospace())
        self.text.setMaximumBlockCount(5000)
        self.finished.connect(self._closed)

    @classmethod
    def show_report(cls, report: str) -> CrashDialog:
        """Show a report in the dialog that is open, or in a new one."""
        if cls.current is None:
            cls.current = cls(QApplication.activeWindow())
            cls.current.show()
        cls.current.text.appendPlainText(report)
        return cls.current

    def _closed(self, *_: object) -> None:
        CrashDialog.current = None
