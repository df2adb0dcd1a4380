"""Base of dialogs that try a change on a working copy, and then make it one edit of the document."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QProgressBar, QWidget
from shiboken6 import isValid

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.dialogs.text_prompt import ErrorLabel
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.widgets.dialog_buttons import without_icons
from onnx_workbench.viewer.widgets.plain_label import plain_label
from onnx_workbench.viewer.workflows.apply_edits import apply_edits
from onnx_workbench.viewer.workflows.background_edit import EditOutcome, edit_in_background

if TYPE_CHECKING:
    from onnx_workbench.model.history.steps import Step
    from onnx_workbench.model.history.working_copy import WorkingCopy
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.model.recovery.write_ahead import Recording
    from onnx_workbench.viewer.tasks.tasks import Task

T = TypeVar("T")


class PreviewDialog(QDialog):
    """Has a form, a line about the state, an error, a bar of progress, and the buttons OK and Cancel.

    Subclasses arrange them. They override `preview`, which starts the trial, and `apply`, which ends in `_change`; both
    by `_start`. Where nothing is to be tried, `apply` is one `_edit`. Once a task was stopped or has failed, OK starts
    again.
    """

    def __init__(self, workspace: Workspace, title: str, parent: QWidget | None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.workspace = workspace
        self._task: Task[Any] | None = None  # started last
        self._revision = -1  # of the model that was tried
        self._is_done = False  # from the change on, unless that fails
        self._is_closed = False
        self.form = QWidget()
        self.state = plain_label()
        self.error = ErrorLabel()
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(6)
        self.bar.hide()
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self.ok = self.buttons.button(QDialogButtonBox.StandardButton.Ok)
        self.cancel = self.buttons.button(QDialogButtonBox.StandardButton.Cancel)
        without_icons(self.buttons.buttons())
        self.buttons.accepted.connect(self.apply)
        self.buttons.rejected.connect(self._cancel)
        workspace.tasks.progressed.connect(self._show_progress)

    @abstractmethod
    def preview(self) -> None:
        """Try the change on a copy, in a task."""

    @abstractmethod
    def apply(self) -> None:
        """Make the edit, or close the dialog once it is made."""

    @property
    def _is_busy(self) -> bool:
        return self._task is not None and not self._task.finished

    def _start(
        self, text: str, title: str, work: Callable[[Progress], T], done: Callable[[T], object], **options: Any
    ) -> None:
        """Start a task in place of the one before, whose result is not awaited any more; OK waits for its end.

        `text` says what is done, until progress does. `options` are those of TaskRunner.start.
        """
        if self._task is not None:
            self._task.cancel()
        self._show_start(text)
        self._task = self.workspace.tasks.start(
            title,
            work,
            done=lambda result: done(result) if isValid(self) else None,
            failed=self._failed,
            finished=self._ended,
            **options,
        )

    def _show_start(self, text: str) -> None:
        self.error.show_error(None)
        self.state.setText(text)
        self.ok.setEnabled(False)
        self.bar.setRange(0, 0)
        self.bar.show()

    def _edit(self, title: str, work: Callable[[WorkingCopy, Progress], EditOutcome]) -> None:
        """Make what `work` does to a copy one edit of the document, and close the dialog."""

        def ended(is_made: bool) -> None:
            if is_made and isValid(self):
                self.accept()
            else:
                self._ended()

        self._lock(True)
        self._show_start("Changing the model…")
        self._task = edit_in_background(self.workspace, title, work, failed=self._failed, ended=ended)

    def _show_progress(self, task: Task[object]) -> None:
        if task is self._task and task.text:
            self.bar.setRange(0, int(task.total))
            self.bar.setValue(int(task.done))
            self.state.setText(f"{task.text}…")

    def _ended(self) -> None:
        """Called when a task has ended, also where the user stopped it."""
        if self._task is None or not self._task.finished:
            return
        self.bar.hide()
        if self._task.cancelled:
            self._start_over("Stopped. Nothing was changed.")

    def _failed(self, error: BaseException) -> None:
        self._start_over("Nothing was changed.")
        if isinstance(error, ModelError):
            self.error.show_error(error)

    def _start_over(self, text: str) -> None:
        self._is_done = False
        self._lock(False)
        self.state.setText(text)

    def _change(
        self, title: str, steps: Sequence[Step], recording: Recording | None, then: Callable[[], object]
    ) -> None:
        """Apply steps as one edit, then call `then`; preview again if the model was changed in the meantime."""
        workspace, revision = self.workspace, self._revision

        def applied(is_applied: bool) -> None:
            if is_applied:
                then()
            else:
                self._is_done = False
                self.preview()

        self._is_done = True
        self._lock(True)
        self._start(
            f"Changing the model: {plural(len(steps), 'step')}…",
            title,
            lambda progress: apply_edits(workspace, [(title, steps)], revision, recording, progress),
            applied,
            makes="edit",
        )

    def _show_done(self, text: str) -> None:
        """Show that the edit was made, or why not; the button closes the dialog."""
        self._is_done = True
        self.state.setText(text)
        self.ok.setText("Close")
        self.ok.setEnabled(True)
        self.cancel.setVisible(False)

    def _cancel(self) -> None:
        self.reject()

    def _lock(self, is_working: bool) -> None:
        self.form.setEnabled(not is_working)
        self.ok.setEnabled(not is_working)

    def done(self, result: int) -> None:
        """Cancel the preview, and an edit that is not applied yet."""
        if self._is_closed:  # as when it is closed while a question about it is open
            return
        self._is_done = self._is_closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        super().done(result)
