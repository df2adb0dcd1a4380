"""Report dialog: a text about a problem, filled in as far as the program can, for the user to copy."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QPlainTextEdit, QVBoxLayout, QWidget

from onnx_workbench.viewer.core import crash_report
from onnx_workbench.viewer.core.folders import state_folder
from onnx_workbench.viewer.core.version import home_page, versions
from onnx_workbench.viewer.widgets.dialog_buttons import close_button

_TEMPLATE = """What I did:

What happened:

What I expected:

Versions:
{versions}

Last error:
{error}
"""


class ReportDialog(QDialog):
    """An editable report: questions, versions, platform and the last internal error. Sends nothing."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Report a problem")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(640, 520)
        page = home_page()
        where = f"into a new issue at {page}/issues" if page else "into a message to the developers"
        text = QLabel(
            f"Complete the text, copy it and paste it {where}. ONNX Workbench sends nothing by itself. An error may "
            f"name files and folders: read it first. Older errors are in {state_folder() / 'log.txt'}."
        )
        text.setTextFormat(Qt.TextFormat.PlainText)
        text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        text.setWordWrap(True)
        self.text = QPlainTextEdit()
        self.text.setAccessibleName("Report")
        self.text.setPlainText(report_text())
        buttons = close_button()
        self.copy = buttons.addButton("Copy report", QDialogButtonBox.ButtonRole.ActionRole)
        self.copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text.toPlainText()))
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(text)
        layout.addWidget(self.text)
        layout.addWidget(buttons)
        self.text.setFocus()


def report_text() -> str:
    """Return the report as far as the program knows it."""
    listed = "\n".join(f"{name} {version}" for name, version in versions().items())
    return _TEMPLATE.format(versions=listed, error=crash_report.last_error() or "none since the program was started")
