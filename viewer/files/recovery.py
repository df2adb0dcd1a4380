"""Keeps a journal of every open document, and offers at the start what a program that died left behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from model.errors import ModelError
from viewer.files.folders import state_folder
from viewer.text import display, plural
from viewer.workspace import Message, Workspace

if TYPE_CHECKING:  # recording knows how models are written, which the first paint does not wait for
    from model.passes.rehearsal import Rehearsal
    from model.progress import Progress
    from model.recording.beginning import Beginning
    from model.recording.journal import Journal
    from model.recording.leftovers import Leftover
    from viewer.document_tab import DocumentTab
    from viewer.main_window import MainWindow

_IDLE_MS = 1500
_SHOWN_TITLES = 12
_MUCH = 1 << 18  # bytes of a journal: more steps than are done again in a few frames


def journal_folder() -> Path:
    """Where journals are: beside the user's other state, never beside the model."""
    return state_folder() / "journals"


class Keeper(QObject):
    """Writes the journal of one document for as long as its workspace lives; `close` forgets it.

    A document that belongs to no file comes with the `beginning` that was written of its model before, or with the file
    that `holds` it.
    """

    _failed = Signal()  # from the thread that writes

    def __init__(self, workspace: Workspace, beginning: Beginning | None = None, holds: Path | None = None) -> None:
        from model.recording.journal import BaseFile, Journal

        super().__init__(workspace)
        self._workspace = workspace
        self._told = ""
        self.journal: Journal | None = None
        self._idle = QTimer(self, singleShot=True, interval=_IDLE_MS)
        self._idle.timeout.connect(self._on_idle)
        self._failed.connect(self._look)
        self._endings = list[Callable[[], None]]()
        document = workspace.document
        try:
            self.journal = workspace.journal = Journal(
                document,
                journal_folder(),
                BaseFile.of(holds or document.path),
                beginning=beginning,
                failed=self._failed.emit,
            )
        except OSError:
            return  # the file is gone already; saving will say so
        self._idle.start()
        # of a change the journal hears first: it may be that very change that it cannot write
        self._endings = [document.subscribe(self._tell), document.on_saved(self._on_saved)]
        self._tell()

    def _on_saved(self) -> None:
        self._idle.start()
        self._tell()

    def _on_idle(self) -> None:
        if self.journal is not None:
            self.journal.meet_nodes()

    def _look(self) -> None:
        if self.journal is not None:
            self.journal.look()
        self._tell()

    def _tell(self, _change: object = None) -> None:
        problem = "" if self.journal is None else self.journal.problem
        if problem and problem != self._told:
            self._workspace.message("warning", "A crash would lose edits", problem)
        self._told = problem

    def close(self) -> None:
        """The document was saved or given up."""
        self._idle.stop()
        while self._endings:
            self._endings.pop()()
        if self.journal is not None:
            self.journal.close()


def offer(window: MainWindow) -> None:
    """Ask about every journal that is left: recover, show the changes, discard. Nothing happens by itself."""
    folder = journal_folder()
    if not folder.is_dir() or not any(folder.iterdir()):
        return  # as at nearly every start, which then loads nothing for it
    from model.recording.leftovers import discard, leftovers

    for leftover in list(leftovers(folder, partial(_tell_unreadable, window))):
        if leftover.titles or leftover.is_unsaved:
            window.show_message(_question(window, leftover))
        else:  # all was undone: closing would not have asked either
            discard(leftover)


def _tell_unreadable(window: MainWindow, path: Path, reason: str) -> None:
    from model.recording.leftovers import DAYS_KEPT

    detail = f"{display(reason, 200)} It is kept for {DAYS_KEPT} days as {display(str(path), 300)}."
    window.show_message(Message("warning", "Edits of an earlier session cannot be read", detail))


def _question(window: MainWindow, leftover: Leftover) -> Message:
    from model.recording.leftovers import discard

    name = display(Path(leftover.base.path).name, 80) if leftover.base.path else "a new model"
    when = datetime.fromtimestamp(leftover.time).strftime("%x %X")
    throw_away = ("Discard", partial(discard, leftover))
    recover = ("Recover", partial(_recover, window, leftover))
    show = ("Show changes", partial(_show, window, leftover))
    choices = (recover, show, throw_away) if leftover.titles else (recover, throw_away)
    were = "was" if len(leftover.titles) == 1 else "were"
    detail = f"{plural(len(leftover.titles), 'edit')} of {when} {were} not saved."
    if leftover.is_unsaved:
        detail = f"A model of {when} with {plural(len(leftover.titles), 'edit')} was not saved."
    if not leftover.fits:
        detail += " The file has changed since, so they may not fit."
    if leftover.was_cut_short:
        detail += " The program ended while it did them again."
    title = f"Unsaved edits of {name}" if leftover.titles else f"Unsaved: {name}"
    return Message("warning", title, detail, None, choices, str(leftover.path))  # others may read alike


def _last(titles: Sequence[str]) -> str:
    shown = " · ".join(display(title, 100) for title in titles[-_SHOWN_TITLES:])
    return f"… {shown}" if len(titles) > _SHOWN_TITLES else shown


def _show(window: MainWindow, leftover: Leftover) -> None:
    question = _question(window, leftover)
    choices = (question.choices[0], question.choices[-1])
    window.show_message(Message("info", question.title, _last(leftover.titles), None, choices, question.topic))


def _recover(window: MainWindow, leftover: Leftover) -> None:
    """Do the edits again on the file as it is opened, or on a copy where it is open with edits already."""
    files, path = window.files, Path(leftover.base.path)
    if leftover.base.path:
        tabs = files.tabs_of(path)
        untouched = next((tab for tab in tabs if tab.workspace.document.is_as_opened), None)
        if untouched is not None and not leftover.is_copy:
            window.activate(untouched)
            _replay(window, untouched, leftover)
        elif tabs or leftover.is_copy:
            files.open_copy_then(path, f"{path.stem} recovered", lambda tab: _replay(window, tab, leftover))
        else:
            files.open_then(path, lambda tab: _replay(window, tab, leftover))
    elif leftover.beginning is not None:
        files.open_copy_then(leftover.beginning, "recovered", lambda tab: _replay(window, tab, leftover))
    else:
        window.report(ModelError("The model cannot be recovered", "What it began with is not there any more."))


def _replay(window: MainWindow, tab: DocumentTab, leftover: Leftover) -> None:
    size = 0
    with suppress(OSError):  # doing it again will say so
        size = leftover.path.stat().st_size
    if size > _MUCH:
        _replay_in_copy(window, tab, leftover)
    else:
        _replay_at_once(tab, leftover)


def _replay_at_once(tab: DocumentTab, leftover: Leftover) -> None:
    from model.recording.leftovers import recover

    workspace, journal = tab.workspace, tab.workspace.journal
    try:
        if journal is None:
            recover(workspace.document, leftover)
        else:
            recover(workspace.document, leftover, journal.when_kept)
    except ModelError as error:
        workspace.report(error)
        return
    _tell_recovered(workspace, leftover)


def _tell_recovered(workspace: Workspace, leftover: Leftover) -> None:
    edits = plural(len(leftover.titles), "edit")
    workspace.message("info", "Recovered", f"{edits} done again; save to keep the result.")


def _replay_in_copy(window: MainWindow, tab: DocumentTab, leftover: Leftover) -> None:
    """Do very many steps again on a copy, while the window goes on; asks anew when stopped, or edited meanwhile.

    A copy brings what is in force alone, so that edits that were undone, and can be done again, are left to
    `_replay_at_once`.
    """
    from model.recording.leftovers import recover
    from viewer.passes.whole import Outcome, WholeEdit

    workspace, document = tab.workspace, tab.workspace.document
    revision, lets_go = document.revision, list[Callable[[], object]]()
    has_undone = False
    if leftover.is_unsaved:
        document.mark_unsaved()

    def work(rehearsal: Rehearsal, _progress: Progress) -> Outcome:
        nonlocal has_undone
        if document.revision != revision:
            raise ModelError("The model was changed meanwhile", "The edits were made on what its file holds.")
        warning = None
        try:
            recover(rehearsal.document, leftover, lets_go.append)
        except ModelError as error:
            warning = (error.title, error.detail, None)
        states = sum(1 for _ in rehearsal.document.entries())
        entries = rehearsal.entries()
        has_undone = states > len(entries) + 1
        if has_undone and warning is None:
            raise ModelError("Some edits were undone", "They come back with the history.")
        return Outcome((), warning=warning, entries=entries)

    def ended(is_made: bool) -> None:
        if is_made:
            if lets_go:
                _settle(tab, leftover, lets_go[-1])
        elif has_undone and document.revision == revision:
            _replay_at_once(tab, leftover)
        else:
            window.show_message(_question(window, leftover))

    WholeEdit(workspace, "Recover edits", work, failed=lambda _error: None, ended=ended)


def _settle(tab: DocumentTab, leftover: Leftover, let_go: Callable[[], object]) -> None:
    """All is done again: the journal goes when another one holds it."""
    tab.workspace.document.mark_unsaved()
    if tab.keeper.journal is None:
        let_go()
    else:
        tab.keeper.journal.when_kept(let_go)
    _tell_recovered(tab.workspace, leftover)
