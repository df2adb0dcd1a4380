"""Closing of tabs and the window's documents: asks about changes, and waits for pending saves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QTimer

from onnx_workbench.viewer.core.messages import Message
from onnx_workbench.viewer.core.tasks import Task
from onnx_workbench.viewer.popups.questions import ask_to_save
from onnx_workbench.viewer.property_tree.editors import take_typed

if TYPE_CHECKING:
    from onnx_workbench.viewer.files.document_area import DocumentArea
    from onnx_workbench.viewer.files.document_tab import DocumentTab
    from onnx_workbench.viewer.files.documents import Documents

_PATIENCE = 300  # ms before the user is shown that a tab waits for its save to close
_CLOSING = "closing"  # topic of messages, of which the last one counts


class Closing:
    """Closer of a window's documents, which may wait for saves. GUI thread only."""

    def __init__(self, area: DocumentArea, files: Documents) -> None:
        self._area = area
        self._files = files
        self._waiting: dict[DocumentTab, Callable[[], object]] = {}  # until all is written
        self._once_shown: Callable[[], object] | None = None  # every model that is being kept for recovery

    def close(self, tab: DocumentTab, then: Callable[[], object] | None = None) -> None:
        """Close a tab, asking first when it holds changes. `then` is called once it is closed.

        What is being written is finished before, so that nothing chosen to be written is missing. After a save it
        stays open where a warning or an error came meanwhile, as of an edit that could not be made.
        """
        take_typed(self._area.window())
        if self._files.saver.is_writing(tab):
            self._close_when_written(tab, partial(self.close, tab, then), "The tab")
            return

        def discard() -> None:
            self._files.forget(tab)
            if then is not None:
                then()

        def again() -> None:  # it may have been edited while it was written
            if all(message.severity == "info" or message in told for message in tab.message_bar.messages):
                self.close(tab, then)

        if not tab.modified:
            discard()
            return
        self._area.activate(tab)
        told = tab.message_bar.messages
        coming = [task.title for task in tab.workspace.tasks.making("edit")]
        holds_less = tab.path.name if tab.path is not None and tab.workspace.document.left_out else ""
        save = partial(self._files.saver.save, tab, again)
        ask_to_save(self._area, tab.workspace.title, save, discard, coming, holds_less)

    def close_all(self, then: Callable[[], object]) -> None:
        """Close every tab that holds changes, asking about each; `then` is called when none is left.

        What is being written is finished before, and models that are being kept for recovery show.
        """
        writing = next(filter(self._files.saver.is_writing, self._area.tabs()), None)
        if writing is not None:
            self._close_when_written(writing, partial(self.close_all, then), "The window")
            return
        if self._files.keeping:
            self._close_when_shown(partial(self.close_all, then))
            return
        modified = [tab for tab in self._area.tabs() if tab.modified]
        if modified:
            self.close(modified[0], partial(self.close_all, then))
        else:
            then()

    def follow(self, tab: DocumentTab) -> None:
        """Go on closing a new tab, where that waits, once a task that writes something of it has ended."""
        tab.workspace.tasks.ended.connect(partial(self._task_ended, tab))

    def _task_ended(self, tab: DocumentTab, task: Task[Any]) -> None:
        if task.makes == "file":
            QTimer.singleShot(0, tab, partial(self.go_on, tab))  # after the notification that it is written

    def go_on(self, tab: DocumentTab) -> None:
        """Something of a tab was written, or will not be: close it now if that is what it waited for."""
        if not self._files.saver.is_writing(tab):
            tab.workspace.messages.withdraw(_CLOSING)
            waiting = self._waiting.pop(tab, None)
            if waiting is not None:
                waiting()

    def go_on_shown(self) -> None:
        """A model shows that was kept for recovery: close the window now if it waited for that, and for no other."""
        if not self._files.keeping:
            self._area.message_bar.withdraw(_CLOSING)
            waiting, self._once_shown = self._once_shown, None
            if waiting is not None:
                waiting()

    def _close_when_shown(self, call: Callable[[], object]) -> None:
        """Call it when all models show that are being kept for recovery, and say so where that takes a while."""
        self._once_shown = call

        def stay_open() -> None:
            self._once_shown = None

        def tell() -> None:
            if self._once_shown is call:
                title, then = f"{self._files.keeping[0]}: still at it", "The window closes once that is done."
                choices = (("Keep it open", stay_open),)
                self._area.show_message(Message("info", title, then, choices=choices, topic=_CLOSING))

        QTimer.singleShot(_PATIENCE, self._area, tell)

    def _close_when_written(self, tab: DocumentTab, call: Callable[[], object], what: str) -> None:
        """Call it when all that is being written has ended, and say so where that takes a while."""
        self._waiting[tab] = call

        def tell() -> None:
            if self._waiting.get(tab) is call:
                self._area.activate(tab)
                self._tell_what_is_written(tab, f"{what} closes once that is done.")

        QTimer.singleShot(_PATIENCE, tab, tell)

    def _tell_what_is_written(self, tab: DocumentTab, detail: str) -> None:
        save, tasks = self._files.saver.save_of(tab), tab.workspace.tasks.making("file")

        def stop() -> None:
            if save is not None:
                save.stop()
            for task in tasks:
                task.cancel()

        titles = [] if save is None else [f"{save.options.path.name} is still being saved"]
        titles += [f"{task.title}: still at it" for task in tasks]
        if titles:
            choices = (("Keep it open", partial(self._waiting.pop, tab, None)), ("Stop saving", stop))
            tab.workspace.messages.show("info", "; ".join(titles), detail, choices=choices, topic=_CLOSING)
