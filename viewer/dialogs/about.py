"""About dialog: version, dependencies and what computes products of bytes, ready to copy into a report."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.sandbox import run_isolated
from onnx_workbench.viewer.program.folders import state_folder
from onnx_workbench.viewer.program.version import versions
from onnx_workbench.viewer.style.app_icon import app_icon
from onnx_workbench.viewer.tasks.tasks import TaskRunner
from onnx_workbench.viewer.widgets.dialog_buttons import close_button


class AboutDialog(QDialog):
    """Name, purpose, licence, versions."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("About ONNX Workbench")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        picture = QLabel()
        picture.setPixmap(app_icon().pixmap(64, 64))
        self.text = text = QLabel()
        text.setTextFormat(Qt.TextFormat.PlainText)
        text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._show("…")
        row = QHBoxLayout()
        row.addWidget(picture, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(text, 1)
        buttons = close_button(self)
        self.copy = buttons.addButton("Copy versions", QDialogButtonBox.ButtonRole.ActionRole)
        self.copy.clicked.connect(self._copy)
        layout = QVBoxLayout(self)
        layout.addLayout(row)
        layout.addWidget(buttons)

        self._tasks = TaskRunner(self)
        self.finished.connect(self._tasks.close)
        self._tasks.start("", _multiplier_of_bytes, done=self._show, failed=self._say)

    def _show(self, multiplier: str) -> None:
        self._versions = "\n".join(f"{name} {version}" for name, version in versions().items())
        self._versions += f"\n8-bit products by {multiplier}"
        self.text.setText(
            "ONNX Workbench\nSee, edit, run and debug ONNX models.\n\nApache License 2.0\n\n"
            f"{self._versions}\n\nSettings and logs: {state_folder()}"
        )

    def _say(self, error: BaseException) -> None:
        self._show(error.title if isinstance(error, ModelError) else str(error))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._versions)


def _multiplier_of_bytes(progress: Progress) -> str:
    """Ask a process of its own, since only those that run models import NumKong."""
    function = "onnx_workbench.exec.kernels.shared.byte_products:described"
    return run_isolated(function, b"", what="The library for 8-bit products", progress=progress).decode()
