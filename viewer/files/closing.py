"""Closing of tabs and of the window: asks about changes, and waits for pending saves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QTimer

from onnx_workbench.viewer.document.messages import Message
from onnx_workbench.viewer.popups.questions import ask_to_save
from onnx_workbench.viewer.property_tree.editors import commit_focused_editor
from onnx_workbench.viewer.tasks.tasks import Task

if TYPE_CHECKING:
    from onnx_workbench.viewer.files.document_area import DocumentArea
    from onnx_workbench.viewer.files.document_tab import DocumentTab
    from onnx_workbench.viewer.files.documents import Documents

_NOTICE_DELAY_MS = 300  # ms after which a message tells the user that closing waits for a save
_CLOSING = "closing"  # topic: a message replaces the previous one


@dataclass(frozen=True, eq=False)
class _Request:
    """A request to close a tab, or with None the window."""

    tab: DocumentTab | None


class Closing:
    """Closes documents of a window, after pending saves. GUI thread only.

    After a save, a tab stays open if a warning or an error was shown meanwhile, such as for an edit that has failed.
    """

    def __init__(self, area: DocumentArea, files: Documents) -> None:
        self._area = area
        self._files = files
        #: Requests that wait until a tab is written, or under None until every model kept for recovery is shown.
        self._waiting: dict[DocumentTab | None, _Request] = {}

    def close(self, tab: DocumentTab) -> None:
        """Close a tab, asking first if it has changes."""
        self._advance(_Request(tab))

    def close_all(self) -> None:
        """Close every tab with changes, asking about each; `Documents.all_closed` follows when none is left."""
        self._advance(_Request(None))

    def _advance(self, request: _Request) -> None:
        """Perform the steps of closing; called again from the beginning after each wait, question and save."""
        commit_focused_editor(self._area.window())
        tabs = self._area.tabs() if request.tab is None else [request.tab]
        writing = next(filter(self._files.saver.is_writing, tabs), None)
        modified = next((tab for tab in tabs if tab.modified), None)
        if writing is not None:
            self._wait(writing, request)
        elif request.tab is None and self._files.pending_baselines:
            self._wait(None, request)
        elif modified is not None:
            self._ask_to_save(modified, request)
        elif request.tab is not None:
            self._files.forget(request.tab)
        else:
            self._files.all_closed.emit()

    def _ask_to_save(self, tab: DocumentTab, request: _Request) -> None:
        self._area.activate(tab)
        shown = tab.message_bar.messages

        def saved() -> None:
            if all(message.severity == "info" or message in shown for message in tab.message_bar.messages):
                self._advance(request)

        def discard() -> None:
            self._files.forget(tab)
            if request.tab is None:
                self._advance(request)

        pending = [task.title for task in tab.workspace.tasks.making("edit")]
        holds_less = tab.path.name if tab.path is not None and tab.workspace.document.left_out else ""
        save = partial(self._files.saver.save, tab, saved)
        ask_to_save(self._area, tab.workspace.title, save, discard, pending, holds_less)

    # -- waiting for pending saves ---------------------------------------------------------------------------

    def _wait(self, tab: DocumentTab | None, request: _Request) -> None:
        """Wait until a tab is written, or all models are written for recovery; show a message if it takes a while."""
        self._waiting[tab] = request

        def show() -> None:
            if self._waiting.get(tab) is request:
                self._show_keeping() if tab is None else self._show_writing(tab, request)

        QTimer.singleShot(_NOTICE_DELAY_MS, self._area if tab is None else tab, show)

    def watch(self, tab: DocumentTab) -> None:
        """Continue a waiting request for a tab after each task that writes its document."""
        tab.workspace.tasks.ended.connect(partial(self._on_task_ended, tab))

    def _on_task_ended(self, tab: DocumentTab, task: Task[Any]) -> None:
        if task.makes == "file":
            QTimer.singleShot(0, tab, partial(self.on_written, tab))  # after the notification that it is written

    def on_written(self, tab: DocumentTab) -> None:
        """Continue a request that waited for a tab to be written; also called after a failure."""
        if not self._files.saver.is_writing(tab):
            tab.workspace.messages.withdraw(_CLOSING)
            self._stop_waiting(tab)

    def on_shown(self) -> None:
        """Continue a request that waited for models kept for recovery, when all of them are shown."""
        if not self._files.pending_baselines:
            self._area.message_bar.withdraw(_CLOSING)
            self._stop_waiting(None)

    def _stop_waiting(self, tab: DocumentTab | None) -> None:
        request = self._waiting.pop(tab, None)
        if request is not None:
            self._advance(request)

    def _show_keeping(self) -> None:
        title, detail = f"{self._files.pending_baselines[0]}: still running", "The window closes once that is done."
        choices = (("Keep it open", partial(self._waiting.pop, None, None)),)
        self._area.show_message(Message("info", title, detail, choices=choices, topic=_CLOSING))

    def _show_writing(self, tab: DocumentTab, request: _Request) -> None:
        self._area.activate(tab)
        save, tasks = self._files.saver.save_of(tab), tab.workspace.tasks.making("file")

        def stop() -> None:
            if save is not None:
                save.stop()
            for task in tasks:
                task.cancel()

        titles = [] if save is None else [f"{save.options.path.name} is still being saved"]
        titles += [f"{task.title}: still running" for task in tasks]
        if titles:
            detail = f"The {'window' if request.tab is None else 'tab'} closes once that is done."
            choices = (("Keep it open", partial(self._waiting.pop, tab, None)), ("Stop saving", stop))
            tab.workspace.messages.show("info", "; ".join(titles), detail, choices=choices, topic=_CLOSING)
