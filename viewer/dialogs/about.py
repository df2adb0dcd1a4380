"""About dialog: version and dependencies, ready to copy into a report."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from onnx_workbench.viewer.core.folders import state_folder
from onnx_workbench.viewer.core.version import versions
from onnx_workbench.viewer.style.app_icon import app_icon
from onnx_workbench.viewer.widgets.dialog_buttons import close_button


class AboutDialog(QDialog):
    """Name, purpose, licence, versions."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("About ONNX Workbench")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._versions = "\n".join(f"{name} {version}" for name, version in versions().items())
        picture = QLabel()
        picture.setPixmap(app_icon().pixmap(64, 64))
        text = QLabel(
            "ONNX Workbench\nSee, edit, run and debug ONNX models.\n\nApache License 2.0\n\n"
            f"{self._versions}\n\nSettings and logs: {state_folder()}"
        )
        text.setTextFormat(Qt.TextFormat.PlainText)
        text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        row = QHBoxLayout()
        row.addWidget(picture, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(text, 1)
        buttons = close_button()
        self.copy = buttons.addButton("Copy versions", QDialogButtonBox.ButtonRole.ActionRole)
        self.copy.clicked.connect(self._copy)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addLayout(row)
        layout.addWidget(buttons)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._versions)
