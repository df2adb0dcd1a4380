"""Crash journal of an open document, based on its file, or on a saved baseline if no file holds the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from onnx_workbench.model.progress import Cancelled
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.files.file_identity import identity_read
from onnx_workbench.viewer.program.folders import journal_folder
from onnx_workbench.viewer.tasks.readers import read_model

if TYPE_CHECKING:  # imports the model writer, which is not needed before the first paint
    from onnx_workbench.model.io.writer.save import Saving
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.model.recovery.baseline import Baseline
    from onnx_workbench.model.recovery.journal import Journal
    from onnx_workbench.model.recovery.object_ids import BaseIds
    from onnx_workbench.viewer.files.save import PendingFile
    from onnx_workbench.viewer.run.workspace import Workspace

_IDLE_MS = 1500
_LOSES = "A crash would lose edits"  # topic: a message replaces the previous one


@dataclass(frozen=True)
class JournalStart:
    """What the journal of a document starts from.

    For a document without a file the `baseline` written of its model, or another file that holds it, the `holder`.
    `ids` are those of the model, if the task that read it has collected them.
    """

    baseline: Baseline | None = None
    holder: Path | None = None
    ids: BaseIds | None = None


class Autosave(QObject):
    """Writes the journal of one document during the life of its workspace; `close` deletes it."""

    _failed = Signal()  # from the thread that writes

    def __init__(self, workspace: Workspace, start: JournalStart) -> None:
        from onnx_workbench.model.recovery.journal import Journal
        from onnx_workbench.model.recovery.log import BaseFile

        super().__init__(workspace)
        self._workspace = workspace
        self._told = ""
        self._lacks_file = False  # the file was missing or changed at the last check
        self._is_writing = False  # a baseline is being written
        self.journal: Journal | None = None
        self._failed.connect(self._check_journal)
        workspace.tasks.ended.connect(self._on_task_ended)
        self._endings = list[Callable[[], None]]()
        document = workspace.document
        try:
            self.journal = workspace.journal = Journal(
                document,
                journal_folder(),
                BaseFile.of(start.holder or document.path, identity_read(workspace.model)),
                baseline=start.baseline,
                ids=start.ids,
                failed=self._failed.emit,
                title=workspace.title,
            )
        except OSError:
            return  # the file was deleted; saving will report it
        self._lacks_file = self.journal.lacks_base
        # Subscribed after the journal, to report errors of writing the same change.
        self._endings = [document.subscribe(self._on_change), document.on_saved(self._on_saved)]
        self._report_problem()

    def _on_change(self, _change: object) -> None:
        self._report_problem()
        if self._lacks_file:
            self.preserve_if_file_changed()

    def _on_saved(self) -> None:
        self._told = ""
        self._workspace.messages.withdraw(_LOSES)
        self._report_problem()
        self.preserve_if_file_changed()

    def _check_journal(self) -> None:
        if self.journal is not None:
            self.journal.check_background_errors()
        self._report_problem()

    def _report_problem(self) -> None:
        problem = "" if self.journal is None else self.journal.problem
        if problem and problem != self._told:
            self._workspace.messages.show("warning", _LOSES, problem, topic=_LOSES)
        self._told = problem

    def close(self) -> None:
        """Delete the journal: the document was saved or discarded."""
        while self._endings:
            self._endings.pop()()
        if self.journal is not None:
            self.journal.close()

    # -- the file ------------------------------------------------------------------------------------------------

    def expect(self, pending: PendingFile) -> None:
        """Prepare the journal for a save that is about to replace the file: it fits the old and the new file."""
        state = self._workspace.document.entry(pending.state)
        if self.journal is None or state is None:
            return
        if pending.kept is not None and not pending.kept.problem:
            self.journal.restart_from(pending.kept, state, pending.ids)
        elif not pending.left_out:
            from onnx_workbench.model.recovery.log import BaseFile

            self.journal.expect(BaseFile.of(pending.path, pending.identity), state, pending.ids)

    def clear_expected(self) -> None:
        """Clear the expected file when a save has ended, with any outcome."""
        if self.journal is not None:
            self.journal.clear_expected()

    def preserve_if_file_changed(self) -> None:
        """Write a baseline of a modified model whose file was changed or removed."""
        workspace, journal = self._workspace, self.journal
        if journal is None or self._is_writing:
            return
        self._lacks_file = journal.lacks_base
        if not (self._lacks_file and workspace.document.modified) or workspace.tasks.making("edit"):
            return
        from onnx_workbench.model.recovery.baseline import Baseline, finish_baseline, prepare_baseline, reason_of
        from onnx_workbench.model.recovery.journal_files import new_path

        self._is_writing = True
        document, path = workspace.document, new_path(journal_folder())
        document.end_gesture()

        def read(progress: Progress) -> tuple[Saving, int]:
            return prepare_baseline(document.model, path, progress), document.current.id

        def work(progress: Progress) -> tuple[Baseline, int]:
            saving, state = read_model(read, progress)
            return finish_baseline(path, saving, progress), state

        def finished() -> None:
            error = task.error
            reason = reason_of(error if isinstance(error, Exception) else Cancelled())
            self._use_baseline(*(task.result or (Baseline(path, reason), 0)))

        title = f"Keep {display(workspace.title, 60)}"
        task = workspace.tasks.start(title, work, failed=lambda _error: None, finished=finished)

    def _on_task_ended(self, _task: object) -> None:
        if self._lacks_file:
            self.preserve_if_file_changed()

    def _use_baseline(self, baseline: Baseline, state: int) -> None:
        """Use the written baseline for replay, if it is still needed."""
        from onnx_workbench.model.recovery.journal_files import remove_files

        self._is_writing = self._lacks_file = False  # after a failure, do not try again at each edit
        entry = self._workspace.document.entry(state)
        if self.journal is None:
            return
        if not self.journal.lacks_base or entry is None:
            remove_files(baseline.journal)
        elif baseline.problem:
            why = f"The file was changed or removed, and the model is not kept for recovery: {baseline.problem}."
            self._workspace.messages.show("warning", _LOSES, why, topic=_LOSES)
        else:
            self.journal.restart_from(baseline, entry)
