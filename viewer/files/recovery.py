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
from viewer.slices import Slices
from viewer.text import display, plural
from viewer.workspace import Message, Workspace

if TYPE_CHECKING:  # recording knows how models are written, which the first paint does not wait for
    from model.passes.rehearsal import Rehearsal
    from model.progress import Progress
    from model.recording.journal import Journal
    from model.recording.leftovers import Leftover
    from viewer.document_tab import DocumentTab
    from viewer.jobs import Job
    from viewer.main_window import MainWindow

_IDLE_MS = 1500
_FEW_NODES = 1000  # which are looked at in about a slice
_MOST_LOOKED_AT = 64 << 20  # bytes of weights that are written of a model which was neither made nor edited
_SHOWN_TITLES = 12
_MUCH = 1 << 18  # bytes of a journal: more steps than are done again in a few frames


def journal_folder() -> Path:
    """Where journals are: beside the user's other state, never beside the model."""
    return state_folder() / "journals"


class Keeper(QObject):
    """Writes the journal of one document for as long as its workspace lives; `close` forgets it.

    Of a document that is in no file its beginning is written too: at once when it is of the person's making, else when
    nobody does anything, or if it is large with the first edit, which waits a little for what is left of it.
    """

    _failed = Signal()  # from the thread that writes
    _has_begun = Signal()  # the same

    def __init__(self, workspace: Workspace) -> None:
        from model.recording.journal import Journal

        super().__init__(workspace)
        self._workspace = workspace
        self._told = ""
        self.journal: Journal | None = None
        self._preparing: Slices[None] | None = None
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self._look_at_beginning)
        self._idle = QTimer(self, singleShot=True, interval=_IDLE_MS)
        self._idle.timeout.connect(self._on_idle)
        self._failed.connect(self._look)
        self._job: Job[None] | None = None  # while a large beginning is written
        self._has_begun.connect(self._leave)
        document = workspace.document
        self._endings = [document.on_saved(self._stop)]  # before the journal begins with another state of the model
        try:
            self.journal = workspace.journal = Journal(
                document, journal_folder(), begin=self._finish_beginning, failed=self._failed.emit, report=self._report
            )
        except OSError:
            return  # the file is gone already; saving will say so
        self._idle.start()
        # of a change the journal hears first: it may be that very change that it cannot write
        self._endings += [document.subscribe(self._tell), document.on_saved(self._on_saved)]

    def _look_at_beginning(self) -> None:
        """Look at the model as it began, bit by bit."""
        journal = self.journal
        if journal is not None and journal.needs_beginning and self._preparing is None:
            self._preparing = Slices(journal.prepare, self._on_prepared, self._on_failed, self, journal.as_it_began)

    def _finish_beginning(self) -> None:
        """The same, all that is left at once: an edit is not on file without it."""
        self._look_at_beginning()
        if self._preparing is not None:
            self._preparing.finish()

    def _on_prepared(self, _outcome: object) -> None:
        self._stop()
        journal = self.journal
        if journal is not None and journal.is_beginning:
            title = f"Keep {display(self._workspace.title, 60)} for recovery"
            self._job = self._workspace.jobs.follow(title, self._give_up, "read")  # which Esc leaves alone
            journal.when_kept(self._has_begun.emit)
        self._tell()

    def _report(self, done: float, total: float, text: str) -> None:
        job = self._job
        if job is not None:
            job.progress.report(done, total, text)

    def _give_up(self) -> None:
        self._leave()
        if self.journal is not None:
            self.journal.give_up("that was stopped")
        self._tell()

    def _leave(self) -> None:
        job, self._job = self._job, None
        if job is not None:
            self._workspace.jobs.leave(job)

    def _on_failed(self, error: Exception) -> None:
        self._stop()
        if self.journal is not None:
            self.journal.give_up(str(error))
        self._tell()

    def _on_saved(self) -> None:
        """The document is in a file now, or it is one that closing would lose."""
        self._idle.start()
        if self._workspace.document.modified:
            is_small = len(self._workspace.model.graph.nodes) <= _FEW_NODES
            (self._finish_beginning if is_small else self._soon.start)()

    def _on_idle(self) -> None:
        if self.journal is not None:
            self.journal.meet_nodes()
        weights = [v.initializer for v in self._workspace.model.graph.initializers]
        if sum(tensor.nbytes for tensor in weights if tensor is not None) <= _MOST_LOOKED_AT:
            self._look_at_beginning()

    def _look(self) -> None:
        self._leave()
        if self.journal is not None:
            self.journal.look()
        self._tell()

    def _tell(self, _change: object = None) -> None:
        problem = "" if self.journal is None else self.journal.problem
        if problem and problem != self._told:
            self._workspace.message("warning", "A crash would lose edits", problem)
        self._told = problem

    def _stop(self) -> None:
        self._leave()
        if self._preparing is not None:
            self._preparing.cancel()
            self._preparing = None

    def close(self) -> None:
        """The document was saved or given up."""
        self._soon.stop()
        self._idle.stop()
        self._stop()
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

    found = list(leftovers(folder, partial(_tell_unreadable, window)))
    for leftover in found:
        if any(_began_to_recover(leftover, other) for other in found):
            discard(leftover)  # what it would say is lost is offered with the other
        elif leftover.titles or leftover.is_unsaved:
            window.show_message(_question(window, leftover))
        else:  # all was undone: closing would not have asked either
            discard(leftover)


def _began_to_recover(leftover: Leftover, other: Leftover) -> bool:
    """Whether a journal is of a program that died while it did again what another one still holds."""
    same = leftover.titles == other.titles[: len(leftover.titles)]
    return leftover.is_lost and same and not (other.base.path or other.is_lost) and other.time < leftover.time


def _tell_unreadable(window: MainWindow, path: Path, reason: str) -> None:
    from model.recording.leftovers import DAYS_KEPT

    detail = f"{display(reason, 200)} It is kept for {DAYS_KEPT} days as {display(str(path), 300)}."
    window.show_message(Message("warning", "Edits of an earlier session cannot be read", detail))


def _question(window: MainWindow, leftover: Leftover) -> Message:
    from model.recording.leftovers import discard

    name = display(Path(leftover.base.path).name, 80) if leftover.base.path else "a new model"
    when = datetime.fromtimestamp(leftover.time).strftime("%x %X")
    throw_away = ("Discard", partial(discard, leftover))
    if leftover.is_lost:
        done = _last(leftover.titles) or "its content"
        detail = f"The program ended before these of {when} could be kept: {done}."
        return Message("warning", f"Edits of {name} are lost", detail, None, (throw_away,))
    recover = ("Recover", partial(_recover, window, leftover))
    show = ("Show changes", partial(_show, window, leftover))
    choices = (recover, show, throw_away) if leftover.titles else (recover, throw_away)
    were = "was" if len(leftover.titles) == 1 else "were"
    detail = f"{plural(len(leftover.titles), 'edit')} of {when} {were} not saved."
    if leftover.is_unsaved:
        detail = f"A model of {when} with {plural(len(leftover.titles), 'edit')} was not saved."
    if not leftover.fits:
        detail += " The file has changed since, so they may not fit."
    title = f"Unsaved edits of {name}" if leftover.titles else f"Unsaved: {name}"
    return Message("warning", title, detail, None, choices)


def _last(titles: Sequence[str]) -> str:
    shown = " · ".join(display(title, 100) for title in titles[-_SHOWN_TITLES:])
    return f"… {shown}" if len(titles) > _SHOWN_TITLES else shown


def _show(window: MainWindow, leftover: Leftover) -> None:
    question = _question(window, leftover)
    choices = (question.choices[0], question.choices[-1])
    window.show_message(Message("info", question.title, _last(leftover.titles), None, choices))


def _recover(window: MainWindow, leftover: Leftover) -> None:
    """Do the edits again on the file as it is opened, or on a copy where it is open with edits already."""
    files, path = window.files, Path(leftover.base.path)
    if leftover.base.path:
        tabs = files.tabs_of(path)
        untouched = next((tab for tab in tabs if tab.workspace.document.is_as_opened), None)
        if untouched is not None:
            window.activate(untouched)
            _replay(window, untouched, leftover)
        elif tabs:
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

    workspace, journal = tab.workspace, tab.keeper.journal
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
