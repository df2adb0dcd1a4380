"""Crash journal: every edit of a document, appended to a file in the user's state folder.

Each open document has one journal, created at the first edit and deleted when the document is saved or closed. A
journal found at the next start belongs to a program that died: see `recover`. A model without a file is first saved
next to its journal, see `baseline`. Steps are encoded as they are applied and are written, with their data, before the
edit ends, or even before it is applied, see `write_ahead`: every edit that the user has seen is in the journal.
A save creates a second log for the new file before the file is replaced; until the document is marked saved, edits
go to both logs, see `expect`. So at any moment one of the logs fits the file on disk.
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
    from onnx_workbench.model.recovery.object_ids import BaseIds


class Journal:
    """Crash journal of one document. On the thread that owns the model; an edit costs time in proportion to its size.

    A model without a file needs a `baseline`, a saved copy of its first state. Without one given, the constructor
    writes it, which takes as long as a save. `ids` are those of the document's state, if a task has collected them.
    `failed` is called, on any thread, when a background write fails: then call `check_background_errors`. A disk error
    stops the journal, not the user's work; `problem` then holds the message. `title` is what the user knows a document
    without a file by.
    """

    def __init__(
        self,
        document: Document,
        folder: Path,
        base: BaseFile | None = None,
        *,
        baseline: Baseline | None = None,
        ids: BaseIds | None = None,
        failed: Callable[[], object] = lambda: None,
        title: str = "",
    ) -> None:
        self._document = document
        self._title = title
        self._folder = folder
        self._failed = failed
        self.ahead: WriteAheadLog | None = None  # whose steps are being applied
        self._until_kept: list[Callable[[], object]] = []
        self._recording: list[JournalLog] = []  # logs that record the current change
        self._next: JournalLog | None = None  # for a file that is about to be written
        self._log = self._first(BaseFile.of(document.path) if base is None else base, baseline, ids)
        self._note_unsaved()
        self._endings = [
            document.on_step(self),
            document.subscribe(self._on_change),
            document.on_saved(self._on_saved),
        ]

    def _first(self, base: BaseFile, baseline: Baseline | None, ids: BaseIds | None) -> JournalLog:
        document = self._document
        if not base.path:
            return self._log_on(baseline or write_baseline(document.model, self._folder), document.current, ids)
        source = None if document.model.source is None else document.model.source.data
        path, is_copy = new_path(self._folder), document.path is None
        return JournalLog(
            document, document.current, base, path, ids=ids, source=source, failed=self._failed, is_copy=is_copy
        )

    def _log_on(
        self, baseline: Baseline, state: HistoryEntry, ids: BaseIds | None, follows: Path | None = None
    ) -> JournalLog:
        log = JournalLog(
            self._document,
            state,
            BaseFile(""),
            baseline.journal,
            ids=ids,
            failed=self._failed,
            follows=follows,
            title=self._title,
        )
        if baseline.problem:
            log.stop(baseline.problem)
        return log

    @property
    def path(self) -> Path | None:
        """Path of the journal; None before it is created."""
        return self._log.path if self._log.is_on_file else None

    @property
    def problem(self) -> str:
        """Message why edits are no longer being kept, or empty."""
        return self._log.problem

    @property
    def lacks_base(self) -> bool:
        """Return whether the file that edits are replayed on is missing or changed. Reads the disk.

        True too when the last save to that file left parts of the model out.
        """
        path = self._document.path
        is_own = self._document.left_out and path is not None and self.is_on(path)
        return is_own or not self._log.base.is_unchanged()

    def is_on(self, path: Path) -> bool:
        """Return whether this is the file that edits would be replayed on."""
        return self._log.base.path == str(path.resolve())

    def when_kept(self, call: Callable[[], object]) -> None:
        """Call `call` once, on any thread, when all edits so far are journaled, saved, or discarded by the user.

        Never, if they cannot be written.
        """
        self._until_kept.append(call)
        self._schedule_callbacks()

    def recording(self) -> Recording:
        """Return a recorder of steps that are first applied to a copy of the current model."""
        return Recording(self, self._log)

    def write_ahead(self, recording: Recording, progress: Progress = SILENT) -> WriteAheadLog | None:
        """Write steps recorded on a copy of the current model in the background, before they are applied here.

        None when they can only be written as they are applied. `progress` gets reports and can cancel.
        """
        ahead = None
        if recording.problem is None and recording.log is self._log and recording.steps and not self.problem:
            with errors_to(self._log.stop_on_error):
                ahead = WriteAheadLog(self, self._log.store(), recording, progress)
        return ahead

    def check_background_errors(self) -> None:
        """Stop the journal if a background write has failed."""
        self._log.check_background_errors()

    def close(self) -> None:
        """Delete the journal, because the document was saved or discarded."""
        while self._endings:
            self._endings.pop()()
        self.clear_expected()
        self._log.remove()
        for call in list(self._until_kept):
            self._run_deferred(call)

    def begin(self, kind: ChangeKind, target: HistoryEntry | None) -> bool:
        """Start a change of the document; return whether a log must record its steps."""
        self._recording = [log for log in self._logs() if log.begin(kind, target, self.ahead)]
        return bool(self._recording)

    def before(self, step: Step) -> None:
        """Record a step that is about to be applied to the document."""
        for log in self._recording:
            log.before(step)

    def on_rollback(self, left: int) -> None:
        """Discard the steps of the change that were rolled back, all but the first `left`."""
        for log in self._recording:
            log.on_rollback(left)

    def _logs(self) -> list[JournalLog]:
        return [log for log in (self._log, self._next) if log is not None]

    def _on_change(self, change: Change) -> None:
        for log in self._logs():
            log.add(change)

    # -- saving --------------------------------------------------------------------------------------------------

    def expect(self, base: BaseFile, state: HistoryEntry, ids: BaseIds | None = None) -> None:
        """Start a second log for a file that a save is about to write with a state of the document.

        `ids` are those of the state, if the save has collected them. If the program
        dies meanwhile, recovery replays the log that fits the file then on disk.
        """
        self.clear_expected()
        self._next = JournalLog(
            self._document, state, base, new_path(self._folder), ids=ids, failed=self._failed, follows=self._log.path
        )
        if self._log.is_on_file:
            self._next.open()

    def clear_expected(self) -> None:
        """Delete the second log: the save failed, or was one of a copy."""
        if self._next is not None:
            self._next.remove()
            self._next = None

    def restart_from(self, baseline: Baseline, state: HistoryEntry, ids: BaseIds | None = None) -> None:
        """Continue on a baseline that was written because the document's file was deleted or changed."""
        old, self._log = self._log, self._log_on(baseline, state, ids, follows=self._log.path)
        self._log.open()
        if self._next is not None:  # which must name the new log as its predecessor
            self.expect(self._next.base, self._next.state, self._next.ids)
        old.remove()
        self._schedule_callbacks()

    def _on_saved(self) -> None:
        """Switch to a log for the saved file after a save."""
        saved = self._document.saved_entry
        if saved is None:
            self._note_unsaved()
            return
        if self._document.left_out and not (self.problem or self.lacks_base):
            self.clear_expected()  # the old base and its log hold what the saved file lacks
            return
        before = self._log, self._next
        self._log, self._next = self._log_on_saved(saved), None
        for log in before:  # only now, so that edits made during the save are in a log at any moment
            if log is not None and log is not self._log:
                log.remove()
        self._schedule_callbacks()

    def _log_on_saved(self, saved: HistoryEntry) -> JournalLog:
        """Return the log started for the saved file if it fits and has edits; else a new one."""
        base, problems = BaseFile(str(self._document.path)), list[Exception]()
        with errors_to(problems.append):
            base = BaseFile.of(self._document.path)
        log = self._next
        was_edited = saved is not self._document.current
        if was_edited and log is not None and log.state is saved and log.base == base and not log.problem:
            return log
        ids = log.ids if log is not None and log.state is saved else None
        log = JournalLog(self._document, saved, base, new_path(self._folder), ids=ids, failed=self._failed)
        for problem in problems:
            log.stop_on_error(problem)
        return log

    def _note_unsaved(self) -> None:
        """Create the journal of a model without a file at once, so that it can be recovered though unedited."""
        if not self._log.base.path and self._document.saved_entry is None:
            self._log.open()

    def _schedule_callbacks(self) -> None:
        for call in list(self._until_kept if not self.problem else ()):
            self._log.after(partial(self._run_deferred, call))

    def _run_deferred(self, call: Callable[[], object]) -> None:
        if call in self._until_kept:
            self._until_kept.remove(call)
            call()
