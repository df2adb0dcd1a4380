"""Actions requested during a pending edit, deferred until its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, QTimer

from onnx_workbench.model.text.formatting import display

if TYPE_CHECKING:
    from onnx_workbench.viewer.document.context import DocumentContext

_NOTICE_DELAY = 300  # ms after which a message tells the user that an action waits


class DeferredAction(QObject):
    """Calls `act` when no edit is pending: now, or when pending edits are made, refused or cancelled. GUI thread only.

    `title` names the waiting action, `refusal` the button to cancel it; both are shown if the wait is long. Cancelling
    calls `refused`.
    """

    def __init__(
        self,
        workspace: DocumentContext,
        title: str,
        refusal: str,
        act: Callable[[], object],
        refused: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self._title = title
        self._refusal = refusal
        self._act = act
        self._refused = refused
        self._topic = f"{title} waits"
        workspace.tasks.ended.connect(self._poll, Qt.ConnectionType.QueuedConnection)
        self._waits = True
        self._poll()
        if self._waits:
            QTimer.singleShot(_NOTICE_DELAY, self, self._show_notice)

    @property
    def is_waiting(self) -> bool:
        """Whether the action is neither done nor cancelled."""
        return self._waits

    def stop(self) -> None:
        """Cancel the action as the user can, unless it has begun."""
        if self._waits:
            self._end()
            self._refused()

    def _poll(self, _ended: object = None) -> None:
        tasks = self._workspace.tasks
        if self._waits and not tasks.is_closed and not tasks.making("edit"):
            self._end()
            self._act()

    def _show_notice(self) -> None:
        pending = self._workspace.tasks.making("edit")
        if self._waits and pending:
            waits = f"{self._title} waits for “{display(pending[0].title, 80)}”"
            self._workspace.messages.show("info", waits, choices=((self._refusal, self.stop),), topic=self._topic)

    def _end(self) -> None:
        self._waits = False
        self._workspace.messages.withdraw(self._topic)
        self.deleteLater()
