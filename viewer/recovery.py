"""Keeps a journal of every open document, and offers at the start what a program that died left behind."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from model.errors import ModelError
from viewer.folders import state_folder
from viewer.slices import Slices
from viewer.text import display, plural
from viewer.workspace import Message, Workspace

if TYPE_CHECKING:  # recording knows how models are written, which the first paint does not wait for
    from model.recording.journal import Journal
    from model.recording.leftovers import Leftover
    from viewer.document_tab import DocumentTab
    from viewer.main_window import MainWindow

_IDLE_MS = 1500
_SHOWN_TITLES = 12


def journal_folder() -> Path:
    """Where journals are: beside the user's other state, never beside the model."""
    return state_folder() / "journals"


class Keeper(QObject):
    """Writes the journal of one document for as long as its workspace lives; `close` forgets it."""

    def __init__(self, workspace: Workspace) -> None:
        from model.recording.journal import Journal

        super().__init__(workspace)
        self._workspace = workspace
        self._told = False
        self.journal: Journal | None = None
        self._preparing: Slices[None] | None = None
        self._idle = QTimer(self, singleShot=True, interval=_IDLE_MS)
        self._idle.timeout.connect(self._prepare)
        try:
            self.journal = Journal(workspace.document, journal_folder())
        except OSError:
            return  # the file is gone already; saving will say so
        self._idle.start()
        workspace.changes.changed.connect(self._on_change)
        workspace.changes.state_changed.connect(self._idle.start)

    def _prepare(self) -> None:
        """Let the journal look at the model now, bit by bit, so that the next edit does not have to wait for it."""
        journal = self.journal
        if journal is not None and self._preparing is None and not journal.is_prepared:
            self._preparing = Slices(journal.prepare, self._on_prepared, self._on_prepared, self)

    def _on_prepared(self, _outcome: object) -> None:
        if self._preparing is not None:
            self._preparing.deleteLater()
            self._preparing = None
        self._tell()

    def _on_change(self, _change: object) -> None:
        if self._preparing is not None:  # it looked at a model that is no longer the same
            self._preparing.cancel()
            self._preparing = None
        self._tell()

    def _tell(self) -> None:
        journal = self.journal
        if journal is not None and journal.problem and not self._told:
            self._told = True
            self._workspace.message("warning", "A crash would lose edits", journal.problem)

    def close(self) -> None:
        """The document was saved or given up."""
        self._idle.stop()
        if self._preparing is not None:
            self._preparing.cancel()
            self._preparing = None
        if self.journal is not None:
            self.journal.close()


def offer(window: MainWindow) -> None:
    """Ask about every journal that is left: recover, show the changes, discard. Nothing happens by itself."""
    folder = journal_folder()
    if not folder.is_dir() or not any(folder.iterdir()):
        return  # as at nearly every start, which then loads nothing for it
    from model.recording.leftovers import leftovers

    for leftover in leftovers(folder):
        window.show_message(_question(window, leftover))


def _question(window: MainWindow, leftover: Leftover) -> Message:
    from model.recording.leftovers import discard

    name = display(Path(leftover.base.path).name, 80) if leftover.base.path else "a new model"
    when = datetime.fromtimestamp(leftover.time).strftime("%x %X")
    choices = (
        ("Recover", partial(_recover, window, leftover)),
        ("Show changes", partial(_show, window, leftover)),
        ("Discard", partial(discard, leftover)),
    )
    were = "was" if len(leftover.titles) == 1 else "were"
    detail = f"{plural(len(leftover.titles), 'edit')} of {when} {were} not saved."
    if not leftover.fits:
        detail += " The file has changed since, so they may not fit."
    return Message("warning", f"Unsaved edits of {name}", detail, None, choices)


def _show(window: MainWindow, leftover: Leftover) -> None:
    titles = [display(title, 100) for title in leftover.titles[-_SHOWN_TITLES:]]
    more = len(leftover.titles) - len(titles)
    text = ("… " if more else "") + " · ".join(titles)
    question = _question(window, leftover)
    window.show_message(Message("info", question.title, text, None, (question.choices[0], question.choices[2])))


def _recover(window: MainWindow, leftover: Leftover) -> None:
    """Open the file anew and do the edits again."""
    if leftover.base.path:
        window.files.open_then(Path(leftover.base.path), lambda tab: _replay(tab, leftover))
    elif leftover.beginning is not None:
        window.files.open_copy_then(leftover.beginning, "recovered", lambda tab: _replay(tab, leftover))
    else:
        window.report(ModelError("The model cannot be recovered", "What it began with was not kept."))


def _replay(tab: DocumentTab, leftover: Leftover) -> None:
    from model.recording.leftovers import recover

    workspace = tab.workspace
    try:
        recover(workspace.document, leftover)
    except ModelError as error:
        workspace.report(error)
        return
    edits = plural(len(leftover.titles), "edit")
    workspace.message("info", "Recovered", f"{edits} done again; save to keep the result.")
