"""Copies of an open model, for tasks that change it or read it for long."""

from __future__ import annotations

from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.tasks.readers import read_model


def copy_model(workspace: DocumentContext, progress: Progress) -> tuple[WorkingCopy, int]:
    """Return a copy of a document's model, and the revision that it is of. From a task.

    An edit while it is made has it made again. What is done to the copy is recorded for the document's journal.
    """

    def copy(reading: Progress) -> tuple[WorkingCopy, int]:
        copied = WorkingCopy(workspace.model, reading)
        copied.recording = None if workspace.journal is None else workspace.journal.recording()
        return copied, workspace.document.revision

    return read_model(copy, progress)
