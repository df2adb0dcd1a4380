"""Copies of an open model for work off the GUI thread, made a few milliseconds at a time."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject

from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.viewer.core.context import DocumentContext
from onnx_workbench.viewer.core.tasks import ModelReader


class WorkingCopyTask(QObject):
    """Makes a copy of a document's model and hands it over while the model is still as it was. GUI thread only.

    An edit while a copy is being made starts it again. What is done to the copy is recorded for the document's journal.
    """

    def __init__(
        self, workspace: DocumentContext, done: Callable[[WorkingCopy], object], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._done = done
        self._copying = ModelReader(self)

    @property
    def running(self) -> bool:
        """Return whether a copy is being made."""
        return self._copying.running

    def start(self) -> None:
        """Begin, or begin again."""
        model = self._workspace.model
        self._copying.start(lambda progress: WorkingCopy(model, progress), self._copied)

    def cancel(self) -> None:
        """Stop; `done` is not called."""
        self._copying.stop()

    def _copied(self, rehearsal: WorkingCopy) -> None:
        journal = self._workspace.journal
        rehearsal.recording = None if journal is None else journal.recording()
        self._done(rehearsal)
