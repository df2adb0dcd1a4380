"""Takes down what a save will write, a few milliseconds at a time where the model is large."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from onnx_workbench.viewer.core.after_edits import AfterEdits
from onnx_workbench.viewer.core.slices import Slices

if TYPE_CHECKING:
    from onnx_workbench.model.io.writer.save import Saving
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.viewer.core.jobs import Job
    from onnx_workbench.viewer.run.workspace import Workspace

_MANY_STEPS = 2000  # which cost as much as several slices to take back and do again around each


class SavePreparation(QObject):
    """Prepares a save of a document as it is now, while it may be edited on. GUI thread only.

    Where edits are on their way it begins once they are made, refused or stopped (see AfterEdits). Calls `done` with
    the save and the state that it holds, or `failed` with what it raised: at once where all takes less than a slice.
    Where it takes longer, the work shows under a title and may be stopped there: then it calls `stopped`.
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
        self._state = self._document.current
        self._prepare = prepare
        self._done = done
        self._failed = failed
        self._stopped = stopped
        self._workspace = workspace
        self._title = title
        self._job: Job[None] | None = None
        self._slices: Slices[Saving] | None = None
        self._soon = QTimer(self, singleShot=True, interval=0)
        workspace.changes.changed.connect(self._on_change)
        self.running = True  # nothing was called yet
        self._waiting = AfterEdits(workspace, title, "Do not save", self._begin, self._stop)

    def _begin(self) -> None:
        self._job = self._workspace.jobs.follow(self._title, self._stop)
        self._document.end_gesture()  # what is typed next is not saved
        self._state = self._document.current
        self._slices = Slices(
            self._prepare,
            self._hand_over,
            self._fail,
            self,
            lambda: self._document.at(self._state),
            self._job.progress.report,
        )
        self._soon.timeout.connect(self._slices.finish)
        self._slices.go_on()

    def stop(self) -> None:
        """Prepare no more, unless all is done."""
        if self._job is not None:
            self._job.cancel()
        else:
            self._waiting.stop()

    def _stop(self) -> None:
        if self.running:
            if self._slices is not None:
                self._slices.cancel()
            self._end()
            self._stopped()

    def _on_change(self, _change: object) -> None:
        if self._slices is not None and self.running:
            since = self._document.way(self._state)
            if sum(len(steps) for _, steps, _ in since) > _MANY_STEPS:
                self._soon.start()

    def _hand_over(self, saving: Saving) -> None:
        self.running = False
        self._done(saving, self._state.id)  # whose job shows before this one ends
        self._end()

    def _fail(self, error: Exception) -> None:
        self._end()
        self._failed(error)

    def _end(self) -> None:
        self.running = False
        self._soon.stop()
        if self._job is not None:
            self._workspace.jobs.leave(self._job)
        self.deleteLater()
