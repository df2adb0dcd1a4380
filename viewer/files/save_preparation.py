"""Prepares what a save will write, on a pool thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from onnx_workbench.viewer.core.deferred_action import DeferredAction
from onnx_workbench.viewer.core.tasks import ModelReader

if TYPE_CHECKING:
    from onnx_workbench.model.io.writer.save import Saving
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.viewer.core.tasks import Task
    from onnx_workbench.viewer.run.workspace import Workspace


class SavePreparation(QObject):
    """Prepares a save of a document. GUI thread only.

    If edits are pending it begins once they are made, refused or stopped (see DeferredAction). Calls `done` with
    the save and the state that it holds, or `failed` with what it raised. An edit meanwhile has it begin again, so that
    the save holds it, too (preparing takes 1.3 s in a model of 100,000 nodes, longer than an edit may wait).
    The work shows under a title and may be stopped there: then it calls `stopped`.
    """

    def __init__(
        self,
        workspace: Workspace,
        title: str,
        prepare: Callable[[Progress], Saving],
        done: Callable[[Saving, int], object],
        failed: Callable[[Exception], object],
        stopped: Callable[[], object],
    ) -> None:
        super().__init__(workspace)
        self._document = workspace.document
        self._prepare = prepare
        self._done = done
        self._failed = failed
        self._stopped = stopped
        self._workspace = workspace
        self._title = title
        self._task: Task[None] | None = None
        self._reader = ModelReader(self)
        self.running = True  # nothing was called yet
        self._waiting = DeferredAction(workspace, title, "Do not save", self._begin, self._stop)

    def _begin(self) -> None:
        self._task = self._workspace.tasks.follow(self._title, self._stop)
        self._document.end_gesture()  # what is typed next is not saved
        self._reader.start(
            lambda progress: (self._prepare(progress), self._document.current.id),
            self._hand_over,
            failed=self._fail,
            report=self._task.progress.report,
        )

    def stop(self) -> None:
        """Prepare no more, unless all is done."""
        if self._task is not None:
            self._task.cancel()
        else:
            self._waiting.stop()

    def _stop(self) -> None:
        if self.running:
            self._reader.stop()
            self._end()
            self._stopped()

    def _hand_over(self, prepared: tuple[Saving, int]) -> None:
        self.running = False
        self._done(*prepared)  # whose task shows before this one ends
        self._end()

    def _fail(self, error: Exception) -> None:
        self._end()
        self._failed(error)

    def _end(self) -> None:
        self.running = False
        if self._task is not None:
            self._workspace.tasks.leave(self._task)
        self.deleteLater()
