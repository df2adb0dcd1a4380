"""Crash recovery: at the start, offers the journals of crashed programs and replays them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QDateTime, QLocale

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.document.messages import Message
from onnx_workbench.viewer.program.folders import journal_folder
from onnx_workbench.viewer.program.language import ENGLISH, current

if TYPE_CHECKING:  # imports the model writer, which is not needed before the first paint
    from onnx_workbench.model.history.working_copy import WorkingCopy
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.model.recovery.recover import RecoverableJournal
    from onnx_workbench.viewer.files.document_tab import DocumentTab
    from onnx_workbench.viewer.files.documents import Documents
    from onnx_workbench.viewer.run.workspace import Workspace

_SHOWN_TITLES = 12
_MOST_ASKED = 5  # models with a question of their own, so that the bar has room for that about all
_ALL = "recovery"  # topic: a message replaces the previous one
_MUCH = 1 << 18  # bytes of a journal from which replay takes more than a few frames


def offer_recovery(files: Documents) -> None:
    """Offer to recover, show or discard the changes of every journal left by a crash, once they are read."""
    folder = journal_folder()
    if not folder.is_dir() or not any(folder.iterdir()):
        return  # the usual case, which imports nothing
    from onnx_workbench.model.recovery.recover import discard, find_journals

    def work(progress: Progress) -> tuple[list[RecoverableJournal], list[tuple[Path, str]]]:
        unreadable: list[tuple[Path, str]] = []
        found = list(find_journals(folder, lambda path, reason: unreadable.append((path, reason)), progress))
        return found, unreadable

    def done(read: tuple[list[RecoverableJournal], list[tuple[Path, str]]]) -> None:
        found, unreadable = read
        for path, reason in unreadable:
            _report_unreadable(files, path, reason)
        offered = []
        for recoverable in found:
            if recoverable.titles or recoverable.is_unsaved or recoverable.damage is not None:
                offered.append(recoverable)
            else:  # all edits were undone: nothing to recover
                discard(recoverable)
        files.unanswered = {recoverable.path: recoverable for recoverable in offered}
        _ask_about_all(files)
        for recoverable in offered[:_MOST_ASKED]:
            files.area.show_message(_question(files, recoverable))

    files.tasks.start("Looking for unsaved edits", work, done=done)


def _ask_about_all(files: Documents) -> None:
    """Ask once about all journals that wait for an answer, in place of the question about more or fewer."""
    offered = list(files.unanswered.values())
    if len(offered) < 2:
        files.area.message_bar.withdraw(_ALL)
        return

    def recover_all() -> None:
        files.unanswered.clear()
        for recoverable in offered:
            files.area.message_bar.withdraw(str(recoverable.path))
            recover_journal(files, recoverable)

    title = f"{len(offered)} models have unsaved edits"
    detail = "Help › Recovered Files lists them, and what was discarded in the last week."
    files.area.show_message(Message("warning", title, detail, None, (("Recover All", recover_all),), _ALL))


def _ask_again(files: Documents, recoverable: RecoverableJournal) -> None:
    files.unanswered[recoverable.path] = recoverable
    _ask_about_all(files)
    files.area.show_message(_question(files, recoverable))


def _answered(files: Documents, recoverable: RecoverableJournal) -> None:
    """Count a journal no more in the question about all, if that was not closed."""
    files.unanswered.pop(recoverable.path, None)
    if any(message.topic == _ALL for message in files.area.message_bar.messages):
        _ask_about_all(files)


def _report_unreadable(files: Documents, path: Path, reason: str) -> None:
    from onnx_workbench.model.recovery.recover import DAYS_KEPT

    detail = f"{display(reason, 200)} It is kept for {DAYS_KEPT} days as {display(str(path), 300)}."
    files.area.show_message(Message("warning", "Edits of an earlier session cannot be read", detail))


def _question(files: Documents, recoverable: RecoverableJournal) -> Message:
    throw_away = ("Discard", partial(_discard, files, recoverable))
    recover = ("Recover", partial(recover_journal, files, recoverable))
    show = ("Show changes", partial(_show, files, recoverable))
    choices = (recover, show, throw_away) if recoverable.titles else (recover, throw_away)
    name = document_name(recoverable)
    title = f"Unsaved edits of {name}" if recoverable.titles else f"Unsaved: {name}"
    return Message("warning", title, _description(recoverable), None, choices, str(recoverable.path))


def document_name(recoverable: RecoverableJournal) -> str:
    """Return what the user knows the document by: its file, or the title of a new model."""
    return display(Path(recoverable.base.path).name or recoverable.name or recoverable.title, 80) or "a new model"


def time_text(seconds: float) -> str:
    """Return a time without seconds: as the language of the window writes it, in English by ISO 8601."""
    when, language = QDateTime.fromSecsSinceEpoch(int(seconds)), current()
    if language == ENGLISH:
        return when.toString("yyyy-MM-dd HH:mm")
    return QLocale(language).toString(when, QLocale.FormatType.ShortFormat)


def _description(recoverable: RecoverableJournal) -> str:
    count, when = plural(len(recoverable.titles), "edit"), time_text(recoverable.time)
    were = "was" if len(recoverable.titles) == 1 else "were"
    detail = f"{count} {were} not saved, the last at {when}."
    if recoverable.is_unsaved:
        edits = f" with {count}" if recoverable.titles else ""
        detail = f"A model{edits}, last changed {when}, was not saved."
        if recoverable.name:
            detail += " Its file was changed or removed."
    if not recoverable.fits:
        detail += " The file has changed since, so they may not apply."
    if recoverable.damage is not None:
        detail += f" {recoverable.damage}"
    if recoverable.was_cut_short:
        detail += " The program ended during the last recovery."
    return detail


def _discard(files: Documents, recoverable: RecoverableJournal) -> None:
    """Offer a journal no more, and say how to get it back."""
    from onnx_workbench.model.recovery.recover import DAYS_DISCARDED, discard_for_now, restore

    try:
        discarded = discard_for_now(recoverable)
    except ModelError as error:
        files.area.report(error)
        return
    _answered(files, recoverable)

    def undo() -> None:
        try:
            _ask_again(files, restore(discarded))
        except ModelError as error:
            files.area.report(error)

    title = f"Discarded the unsaved edits of {document_name(recoverable)}"
    detail = f"They are kept for {DAYS_DISCARDED} days: Help › Recovered Files."
    files.area.show_message(Message("info", title, detail, None, (("Undo", undo),), str(recoverable.path)))


def _last(titles: Sequence[str]) -> str:
    shown = " · ".join(display(title, 100) for title in titles[-_SHOWN_TITLES:])
    return f"… {shown}" if len(titles) > _SHOWN_TITLES else shown


def _show(files: Documents, recoverable: RecoverableJournal) -> None:
    question = _question(files, recoverable)
    choices = (question.choices[0], question.choices[-1])
    files.area.show_message(Message("info", question.title, _last(recoverable.titles), None, choices, question.topic))


def recover_journal(files: Documents, recoverable: RecoverableJournal) -> None:
    """Replay the edits on the opened file, or on a copy if it is already open with edits."""
    _answered(files, recoverable)
    files.when_read(Path(recoverable.base.path), partial(_recover, files, recoverable))


def _recover(files: Documents, recoverable: RecoverableJournal) -> None:
    """Replay the edits on the opened file, or on a copy if it is already open with edits."""
    replay = partial(_replay, files, recoverable)
    path = Path(recoverable.base.path)
    if recoverable.base.path:
        tabs = files.tabs_of(path)
        untouched = next((tab for tab in tabs if tab.workspace.document.is_as_opened), None)
        if untouched is not None and not recoverable.is_copy:
            files.area.activate(untouched)
            replay(untouched)
        elif tabs or recoverable.is_copy:
            files.open_copy(path, f"{path.stem} recovered").opened.connect(replay)
        else:
            files.open_tab(path).opened.connect(replay)
    elif recoverable.baseline is not None:
        title = f"{Path(recoverable.name).stem} recovered".strip()
        files.open_copy(recoverable.baseline, title).opened.connect(replay)
    else:
        files.area.report(ModelError("The model cannot be recovered", "Its initial state is missing."))


def _replay(files: Documents, recoverable: RecoverableJournal, tab: DocumentTab) -> None:
    size = 0
    with suppress(OSError):  # the replay will report it
        size = recoverable.path.stat().st_size
    if size > _MUCH:
        _replay_in_copy(files, tab, recoverable)
    else:
        _replay_at_once(tab, recoverable)


def _replay_at_once(tab: DocumentTab, recoverable: RecoverableJournal) -> None:
    from onnx_workbench.model.recovery.recover import recover

    workspace, journal = tab.workspace, tab.workspace.journal
    try:
        if journal is None:
            recover(workspace.document, recoverable)
        else:
            recover(workspace.document, recoverable, journal.when_kept)
    except ModelError as error:
        workspace.messages.report(error)
        return
    _report_recovered(workspace, recoverable)


def _report_recovered(workspace: Workspace, recoverable: RecoverableJournal) -> None:
    text = f"{plural(len(recoverable.titles), 'edit')} restored; save to keep the result."
    if recoverable.damage is None:
        workspace.messages.show("info", "Recovered", text)
    else:
        workspace.messages.show("warning", "Recovered in part", f"{text} {recoverable.damage}")


def _replay_in_copy(files: Documents, tab: DocumentTab, recoverable: RecoverableJournal) -> None:
    """Replay very many steps on a copy in the background; offer them again if cancelled or if the document is edited.

    A copy has no history, so journals with undone edits, which can be redone, are replayed by `_replay_at_once`.
    """
    from onnx_workbench.model.recovery.recover import recover
    from onnx_workbench.viewer.workflows.background_edit import EditOutcome, edit_in_background

    workspace, document = tab.workspace, tab.workspace.document
    revision, lets_go = document.revision, list[Callable[[], object]]()
    has_undone = False
    if recoverable.is_unsaved:
        document.mark_unsaved()

    def work(copy: WorkingCopy, progress: Progress) -> EditOutcome:
        nonlocal has_undone
        if document.revision != revision:
            raise ModelError(
                "The model has changed in the meantime", "The edits apply to the model as it is in the file."
            )
        warning = None
        try:
            recover(copy.document, recoverable, lets_go.append, progress)
        except ModelError as error:
            warning = (error.title, error.detail, None)
        states = sum(1 for _ in copy.document.entries())
        edits = copy.entries()
        has_undone = states > len(edits) + 1
        if has_undone and warning is None:
            raise ModelError("Some edits were undone", "They are restored with the history.")
        return EditOutcome((), warning=warning, edits=edits)

    def ended(is_made: bool) -> None:
        if is_made:
            if lets_go:
                _settle(tab, recoverable, lets_go[-1])
        elif has_undone and document.revision == revision:
            _replay_at_once(tab, recoverable)
        else:
            _ask_again(files, recoverable)

    edit_in_background(workspace, "Recover edits", work, failed=lambda _error: None, ended=ended)


def _settle(tab: DocumentTab, recoverable: RecoverableJournal, let_go: Callable[[], object]) -> None:
    """Discard the old journal after the replay, once the new one holds the edits."""
    tab.workspace.document.mark_unsaved()
    if tab.autosave.journal is None:
        let_go()
    else:
        tab.autosave.journal.when_kept(let_go)
    _report_recovered(tab.workspace, recoverable)
