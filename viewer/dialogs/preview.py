"""Base of dialogs that try a change on a working copy, and then make it one edit of the document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QWidget
from shiboken6 import isValid

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.dialogs.text_prompt import ErrorLabel
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.widgets.dialog_buttons import without_icons
from onnx_workbench.viewer.workflows.apply_edits import apply_edits

if TYPE_CHECKING:
    from onnx_workbench.model.history.steps import Step
    from onnx_workbench.model.recovery.write_ahead import Recording
    from onnx_workbench.viewer.core.tasks import Task


class PreviewDialog(QDialog):
    """Has a form, a line about the state, an error, and the buttons OK and Cancel. Subclasses arrange them.

    They override `preview`, which starts the trial, `apply`, which ends in `_change`, and `_stopped`.
    """

    def __init__(self, workspace: Workspace, title: str, parent: QWidget | None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.workspace = workspace
        self._task: Task[Any] | None = None  # started last
        self._revision = -1  # of the model that was tried
        self._is_done = False
        self.form = QWidget()
        self.state = QLabel()
        self.state.setTextFormat(Qt.TextFormat.PlainText)
        self.state.setWordWrap(True)
        self.error = ErrorLabel()
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self.ok = self.buttons.button(QDialogButtonBox.StandardButton.Ok)
        self.cancel = self.buttons.button(QDialogButtonBox.StandardButton.Cancel)
        without_icons(self.buttons.buttons())
        self.buttons.accepted.connect(self.apply)

    def preview(self) -> None:
        """Try the change on a copy, in a task."""
        raise NotImplementedError

    def apply(self) -> None:
        """Make the edit, or close the dialog once it is made."""
        raise NotImplementedError

    def _stopped(self) -> None:
        """Called when a task has ended, also where the user stopped it."""

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, ModelError):
            self.error.show_error(error)

    def _change(
        self, title: str, steps: Sequence[Step], recording: Recording | None, then: Callable[[], object]
    ) -> None:
        """Apply steps as one edit, then call `then`; preview again if the model was changed in the meantime."""
        workspace, revision = self.workspace, self._revision

        def applied(is_applied: bool) -> None:
            if not isValid(self):
                return
            if is_applied:
                then()
            else:
                self._is_done = False
                self.preview()

        self._is_done = True
        self._lock(True)
        self.state.setText(f"Changing the model: {plural(len(steps), 'step')}…")
        self._task = workspace.tasks.start(
            title,
            lambda progress: apply_edits(workspace, [(title, steps)], revision, recording, progress),
            done=applied,
            failed=self._failed,
            finished=self._stopped,
            makes="edit",
        )

    def _show_done(self, text: str) -> None:
        """Show that the edit was made; the button closes the dialog."""
        self.state.setText(text)
        self.ok.setText("Close")
        self.ok.setEnabled(True)
        self.cancel.setVisible(False)

    def _lock(self, is_working: bool) -> None:
        self.form.setEnabled(not is_working)
        self.ok.setEnabled(not is_working)

    def done(self, result: int) -> None:
        """Cancel the preview, and an edit that is not applied yet."""
        if self._task is not None:
            self._task.cancel()
        super().done(result)
