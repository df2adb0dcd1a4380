"""Crash journal, a write-ahead log: every edit of a document, appended to a file in the user's state folder.

One journal per open document, begun with the first edit and removed when the document is saved or closed. A journal
left at the next start belongs to a program that died: see `recover`. A model without a file is saved beside it before
any edit, see `baseline`. Steps are encoded as they are applied and written, with the bytes that they bring, before
the edit ends, whatever its size, or before it is made, see `write_ahead`: what the user has seen is on file.
A save begins a new log for the new file before that replaces the old one, and until the document is notified, edits
go into both, see `expect`: whenever the program ends, one of them fits the file that is there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.recovery.baseline import Baseline, write_baseline
from onnx_workbench.model.recovery.journal_files import new_path
from onnx_workbench.model.recovery.log import BaseFile, JournalLog
from onnx_workbench.model.recovery.write_ahead import Recording, WriteAheadLog

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_workbench.model.history.document import Change, ChangeKind, Document, HistoryEntry
    from onnx_workbench.model.history.steps import Step


class Journal:
    """Writes down what is done to one document. On the thread that owns the model; costs the size of each edit.

    The model of a document that is in no file is written down too, as it began. That takes as long as a save, so who
    shows the document gives a `baseline` that is written already; otherwise it is written here and now.
    `failed` is called, on any thread, when something could not be written in the background: then `look`. A disk that
    cannot be written to stops the journal, not the work: `problem` says so.
    """

    def __init__(
        self,
        document: Document,
        folder: Path,
        base: BaseFile | None = None,
        *,
        baseline: Baseline | None = None,
        failed: Callable[[], object] = lambda: None,
    ) -> None:
        self._document = document
        self._folder = folder
        self._failed = failed
        self.ahead: WriteAheadLog | None = None  # whose steps are being made
        self._until_kept: list[Callable[[], object]] = []
        self._recording: list[JournalLog] = []  # which write the steps of the change that is being made
        self._next: JournalLog | None = None  # for a file that is about to be written
        self._log = self._first(BaseFile.of(document.path) if base is None else base, baseline)
        self._note_unsaved()
        self._endings = [
            document.on_step(self),
            document.subscribe(self._on_change),
            document.on_saved(self._on_saved),
        ]

    def _first(self, base: BaseFile, baseline: Baseline | None) -> JournalLog:
        document = self._document
        if not base.path:
            return self._log_on(baseline or write_baseline(document.model, self._folder), document.current)
        source = None if document.model.source is None else document.model.source.data
        path, is_copy = new_path(self._folder), document.path is None
        return JournalLog(document, document.current, base, path, source=source, failed=self._failed, is_copy=is_copy)

    def _log_on(self, baseline: Baseline, state: HistoryEntry, follows: Path | None = None) -> JournalLog:
        log = JournalLog(self._document, state, BaseFile(""), baseline.journal, failed=self._failed, follows=follows)
        if baseline.problem:
            log.stop(baseline.problem)
        return log

    @property
    def path(self) -> Path | None:
        """The journal's file; None before there is anything to replay."""
        return self._log.path if self._log.is_on_file else None

    @property
    def problem(self) -> str:
        """Message why edits are no longer being kept, or empty."""
        return self._log.problem

    @property
    def lacks_base(self) -> bool:
        """Return whether the file that edits are replayed on is missing or changed. Reads the disk.

        So it is if that file was rewritten from here and does not hold everything.
        """
        path = self._document.path
        is_own = self._document.left_out and path is not None and self.is_on(path)
        return is_own or not self._log.base.is_unchanged()

    def is_on(self, path: Path) -> bool:
        """Return whether this is the file that edits would be replayed on."""
        return self._log.base.path == str(path.resolve())

    def when_kept(self, call: Callable[[], object]) -> None:
        """Call back once, on any thread, when all edits so far are written here, saved, or discarded by the user.

        Not if they could not be written.
        """
        self._until_kept.append(call)
        self._pass_on()

    def recording(self) -> Recording:
        """Return a recorder of changes to a copy of the current model, or of changes that will be made to the model."""
        return Recording(self, self._log)

    def write_ahead(self, recording: Recording, progress: Progress = SILENT) -> WriteAheadLog | None:
        """Write edits in the background that were made to a copy of the model as it is now, and will be made here.

        None when they can be written only as they are made. `progress` hears how far it is, and can stop it.
        """
        ahead = None
        if recording.problem is None and recording.log is self._log and recording.steps and not self.problem:
            with errors_to(self._log.run_into):
                ahead = WriteAheadLog(self, self._log.store(), recording, progress)
        return ahead

    def check_background_errors(self) -> None:
        """Take notice of what writing in the background ran into."""
        self._log.check_background_errors()

    def close(self) -> None:
        """The document is closed: saved or given up. Nothing is left to recover."""
        while self._endings:
            self._endings.pop()()
        self.expect_nothing()
        self._log.remove()
        for call in list(self._until_kept):
            self._run_deferred(call)

    def begin(self, kind: ChangeKind, target: HistoryEntry | None) -> bool:
        """A change of the document begins; whether a log is to write its steps."""
        self._recording = [log for log in self._logs() if log.begin(kind, target, self.ahead)]
        return bool(self._recording)

    def before(self, step: Step) -> None:
        """A step is about to be applied to the document."""
        for log in self._recording:
            log.before(step)

    def taken_back(self, left: int) -> None:
        """All but the first steps of the change were taken back."""
        for log in self._recording:
            log.taken_back(left)

    def _logs(self) -> list[JournalLog]:
        return [log for log in (self._log, self._next) if log is not None]

    def _on_change(self, change: Change) -> None:
        for log in self._logs():
            log.add(change)

    # -- saving --------------------------------------------------------------------------------------------------

    def expect(self, base: BaseFile, state: HistoryEntry) -> None:
        """Announce a file that will hold a state of the document, which is then notified of the save.

        If the program ends before, that file decides at the next start which log is replayed.
        """
        self.expect_nothing()
        self._next = JournalLog(
            self._document, state, base, new_path(self._folder), failed=self._failed, follows=self._log.path
        )
        if self._log.is_on_file:
            self._next.open()

    def expect_nothing(self) -> None:
        """Withdraw the announcement: the file was not written, or the document is not saved in it."""
        if self._next is not None:
            self._next.remove()
            self._next = None

    def begin_anew(self, baseline: Baseline, state: HistoryEntry) -> None:
        """A state of the document, whose file is not there as it was, was written like that of one in no file."""
        old, self._log = self._log, self._log_on(baseline, state, follows=self._log.path)
        self._log.open()
        if self._next is not None:  # it follows this one now
            self.expect(self._next.base, self._next.state)
        old.remove()
        self._pass_on()

    def _on_saved(self) -> None:
        """Start over after a save. Later edits belong to the new file, whose objects are renumbered when read."""
        saved = self._document.saved_entry
        if saved is None:
            self._note_unsaved()
            return
        if self._document.left_out and not (self.problem or self.lacks_base):
            self.expect_nothing()  # what this began on, and the edits since, hold what the file does not
            return
        before = self._log, self._next
        self._log, self._next = self._log_on_saved(saved), None
        for log in before:  # only now: what was done while it was saved is on file all the time, and fits the file
            if log is not None and log is not self._log:
                log.remove()
        self._pass_on()

    def _log_on_saved(self, saved: HistoryEntry) -> JournalLog:
        """The one that was begun for this file, if that is as was expected and something was done since."""
        base, problems = BaseFile(str(self._document.path)), list[Exception]()
        with errors_to(problems.append):
            base = BaseFile.of(self._document.path)
        log = self._next
        was_edited = saved is not self._document.current
        if was_edited and log is not None and log.state is saved and log.base == base and not log.problem:
            return log
        log = JournalLog(self._document, saved, base, new_path(self._folder), failed=self._failed)
        for problem in problems:
            log.run_into(problem)
        return log

    def _note_unsaved(self) -> None:
        """Have a model without a file and never saved, edited or not, offered at the next start."""
        if not self._log.base.path and self._document.saved_entry is None:
            self._log.open()

    def _pass_on(self) -> None:
        """Have the pending callbacks called once all is written."""
        for call in list(self._until_kept if not self.problem else ()):
            self._log.after(partial(self._run_deferred, call))

    def _run_deferred(self, call: Callable[[], object]) -> None:
        if call in self._until_kept:
            self._until_kept.remove(call)
            call()
