"""Report dialog: a text about a problem, filled in as far as the program can, for the user to copy."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from onnx_workbench.viewer.dialogs.text_dialog import TextDialog
from onnx_workbench.viewer.program import crash_report
from onnx_workbench.viewer.program.folders import state_folder
from onnx_workbench.viewer.program.version import home_page, versions

_TEMPLATE = """What I did:

What happened:

What I expected:

Versions:
{versions}

Last error:
{error}
"""


class ReportDialog(TextDialog):
    """An editable report: questions, versions, platform and the last internal error. Sends nothing."""

    def __init__(self, parent: QWidget | None = None) -> None:
        page = home_page()
        where = f"into a new issue at {page}/issues" if page else "into a message to the developers"
        message = (
            f"Complete the text, copy it and paste it {where}. ONNX Workbench sends nothing by itself. An error may "
            f"name files and folders: read it first. Older errors are in {state_folder() / 'log.txt'}."
        )
        super().__init__(parent, "Report a problem", message, "Report", "Copy report")
        self.text.setPlainText(report_text())


def report_text() -> str:
    """Return the report as far as the program knows it."""
    listed = "\n".join(f"{name} {version}" for name, version in versions().items())
    return _TEMPLATE.format(versions=listed, error=crash_report.last_error() or "none since the program was started")
