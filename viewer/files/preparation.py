"""Takes down what a save will write, a few milliseconds at a time where the model is large."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from viewer.slices import Slices

if TYPE_CHECKING:
    from model.io.save import Saving
    from model.progress import Progress
    from viewer.workspace import Workspace

_MANY_STEPS = 2000  # which cost as much as several slices to take back and do again around each


class Preparation(QObject):
    """Prepares a save of a document as it is now, while it may be edited on. GUI thread only.

    Calls `done` with the save or `failed` with what it raised: at once where all takes less than a slice. Where it
    takes longer, the work shows under a title and may be stopped there: then it calls `stopped`.
    """

    def __init__(
        self,
        workspace: Workspace,
        title: str,
        prepare: Callable[[Progress], Saving],
        done: Callable[[Saving], object],
        failed: Callable[[Exception], object],
        stopped: Callable[[], object],
    ) -> None:
        super().__init__(workspace)
        self._document = workspace.document
        self._document.end_gesture()  # what is typed next is not saved
        self._state = self._document.current
        self._done = done
        self._failed = failed
        self._stopped = stopped
        self._jobs = workspace.jobs
        self._job = self._jobs.follow(title, self._stop)
        self._slices = Slices(
            prepare,
            self._hand_over,
            self._fail,
            self,
            lambda: self._document.at(self._state),
            self._job.progress.report,
        )
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self._slices.finish)
        workspace.changes.changed.connect(self._on_change)
        self._slices.go_on()

    @property
    def running(self) -> bool:
        """Whether nothing was called yet."""
        return self._slices.running

    def stop(self) -> None:
        """Prepare no more, unless all is done."""
        self._job.cancel()

    def _stop(self) -> None:
        if self._slices.running:
            self._slices.cancel()
            self._end()
            self._stopped()

    def _on_change(self, _change: object) -> None:
        since = self._document.way(self._state)
        if self._slices.running and sum(len(steps) for _, steps, _ in since) > _MANY_STEPS:
            self._soon.start()

    def _hand_over(self, saving: Saving) -> None:
        self._done(saving)  # whose job shows before this one ends
        self._end()

    def _fail(self, error: Exception) -> None:
        self._end()
        self._failed(error)

    def _end(self) -> None:
        self._soon.stop()
        self._jobs.leave(self._job)
        self.deleteLater()
