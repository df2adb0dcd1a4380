"""Takes the copy of a model that a run needs, a few milliseconds at a time where the model is large."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from onnx_workbench.exec.session import Runs
from onnx_workbench.viewer.core.tasks import ModelReader

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace

#: A graph with fewer nodes is copied in less than a frame.
_FEW = 1000
#: Milliseconds after an edit in which another one may come, as in typing.
_REST = 120


class SnapshotPreparation(QObject):
    """Calls back when a session can make a request at once; starts over when an edit comes between. GUI thread."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._copying = ModelReader(self)
        self._again: Callable[[], None] = lambda: None
        self._rest = QTimer(self, singleShot=True, interval=_REST)
        self._rest.timeout.connect(self._start_again)
        workspace.changes.changed.connect(self._on_change)

    @property
    def running(self) -> bool:
        """Return whether a call is pending."""
        return self._copying.running or self._rest.isActive()

    def start(self, session: Runs, then: Callable[[], object]) -> None:
        """Call `then` as soon as the session knows the model as it is: now, if that takes no time."""
        self.stop()
        if session.is_prepared or len(session.graph.nodes) < _FEW:
            then()
            return
        self._again = lambda: self.start(session, then)
        self._copying.start(session.prepare, lambda _snapshot: then())

    def stop(self) -> None:
        """Stop without calling back."""
        self._rest.stop()
        self._copying.stop()

    def _start_again(self) -> None:
        self._again()

    def _on_change(self, _change: object) -> None:
        if self.running:
            self.stop()  # it has read half of the model as it was
            self._rest.start()
