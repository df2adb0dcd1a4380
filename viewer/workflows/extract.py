"""Models made of parts of an open one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject

from onnx_workbench.model.edits.extract import Extraction
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.core.context import DocumentContext
from onnx_workbench.viewer.core.tasks import ModelReader
from onnx_workbench.viewer.workflows.cut_parts import check_part, cut_parts, require_agreement

_SECONDS = 5.0  # that the parts are compared with the model for, before they open


class ExtractTask(QObject):
    """Cuts parts out of a document's model and hands them over; GUI thread only.

    The status line shows it, with Stop. That, an edit meanwhile and `stop` end it without a call; what the model
    refuses goes to `failed`.
    """

    def __init__(
        self,
        workspace: DocumentContext,
        cuts: Sequence[Extraction],
        done: Callable[[list[Model]], object],
        failed: Callable[[Exception], object],
        stopped: Callable[[], object],
    ) -> None:
        super().__init__(workspace)
        self._done = done
        self._failed = failed
        self._stopped = stopped
        self._tasks = workspace.tasks
        self._task = self._tasks.follow("Cutting out", self._stop)
        model, rules = workspace.model, dict(workspace.types.rules)

        def cut(progress: Progress) -> list[Model]:
            parts = cut_parts(model, cuts, rules=rules, progress=progress)
            for part, of in zip(parts, cuts, strict=True):
                require_agreement(check_part(model, part, of.graph, time_limit=_SECONDS, progress=progress))
            return parts

        self._reader = ModelReader(self)
        self._reader.start(cut, self._hand_over, failed=self._fail)
        workspace.changes.changed.connect(self.stop)

    @property
    def running(self) -> bool:
        """Return whether no callback was called yet."""
        return self._reader.running

    def stop(self, *_: object) -> None:
        """Cut out nothing more."""
        if self._reader.running:
            self._task.cancel()

    def _stop(self) -> None:
        self._reader.stop()
        self._end()
        self._stopped()

    def _hand_over(self, models: list[Model]) -> None:
        self._end()
        self._done(models)

    def _fail(self, error: Exception) -> None:
        self._end()
        self._failed(error)

    def _end(self) -> None:
        self._tasks.leave(self._task)
        self.deleteLater()
