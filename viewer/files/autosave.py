"""Keeps a crash journal of an open document, based on its file, or on a saved baseline if no file holds the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from onnx_workbench.viewer.core.folders import journal_folder
from onnx_workbench.viewer.core.readers import read_model
from onnx_workbench.viewer.files.read_model import identity_read
from onnx_workbench.viewer.style.formatting import display

if TYPE_CHECKING:  # recording knows how models are written, which the first paint does not wait for
    from onnx_workbench.model.io.writer.save import Saving
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.model.recovery.baseline import Baseline
    from onnx_workbench.model.recovery.journal import Journal
    from onnx_workbench.viewer.files.save import Coming
    from onnx_workbench.viewer.run.workspace import Workspace

_IDLE_MS = 1500
_LOSES = "A crash would lose edits"  # topic of messages, of which the last one counts


class Autosave(QObject):
    """Writes the journal of one document for as long as its workspace lives; `close` forgets it.

    A document that belongs to no file comes with the `baseline` that was written of its model before, or with the file
    that `holds` it.
    """

    _failed = Signal()  # from the thread that writes

    def __init__(self, workspace: Workspace, baseline: Baseline | None = None, holds: Path | None = None) -> None:
        from onnx_workbench.model.recovery.journal import Journal
        from onnx_workbench.model.recovery.log import BaseFile

        super().__init__(workspace)
        self._workspace = workspace
        self._told = ""
        self._lacks_file = False  # the file was missing or changed when it was last read
        self._is_writing = False  # the model, for that
        self.journal: Journal | None = None
        self._failed.connect(self._check_journal)
        workspace.tasks.ended.connect(self._on_task_ended)
        self._endings = list[Callable[[], None]]()
        document = workspace.document
        try:
            self.journal = workspace.journal = Journal(
                document,
                journal_folder(),
                BaseFile.of(holds or document.path, identity_read(workspace.model)),
                baseline=baseline,
                failed=self._failed.emit,
            )
        except OSError:
            return  # the file is gone already; saving will say so
        self._lacks_file = self.journal.lacks_base
        # of a change the journal hears first: it may be that very change that it cannot write
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
        """The document was saved or given up."""
        while self._endings:
            self._endings.pop()()
        if self.journal is not None:
            self.journal.close()

    # -- the file ------------------------------------------------------------------------------------------------

    def expect(self, coming: Coming) -> None:
        """A save is about to put its file in its place: whenever the program ends, edits fit the file that is there."""
        state = self._workspace.document.entry(coming.state)
        if self.journal is None or state is None:
            return
        if coming.kept is not None and not coming.kept.problem:
            self.journal.begin_anew(coming.kept, state)
        elif not coming.left_out:
            from onnx_workbench.model.recovery.log import BaseFile

            self.journal.expect(BaseFile.of(coming.path, coming.identity), state)

    def expect_nothing(self) -> None:
        """Clear the expected file when a save has ended, with any outcome."""
        if self.journal is not None:
            self.journal.expect_nothing()

    def preserve_if_file_changed(self) -> None:
        """Write a model down that was edited, or is to stay, and whose file is not there any more as it was."""
        workspace, journal = self._workspace, self.journal
        if journal is None or self._is_writing:
            return
        self._lacks_file = journal.lacks_base
        if not (self._lacks_file and workspace.document.modified) or workspace.tasks.making("edit"):
            return
        from onnx_workbench.model.progress import Cancelled
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
            self._begun(*(task.result or (Baseline(path, reason), 0)))

        title = f"Keep {display(workspace.title, 60)}"
        task = workspace.tasks.start(title, work, failed=lambda _error: None, finished=finished)

    def _on_task_ended(self, _task: object) -> None:
        if self._lacks_file:
            self.preserve_if_file_changed()

    def _begun(self, baseline: Baseline, state: int) -> None:
        """Accept the written file as the base of replay, if it is still needed."""
        from onnx_workbench.model.recovery.journal_files import remove_files

        self._is_writing = self._lacks_file = False  # not again for each edit, where it did not succeed
        entry = self._workspace.document.entry(state)
        if self.journal is None:
            return
        if not self.journal.lacks_base or entry is None:
            remove_files(baseline.journal)
        elif baseline.problem:
            why = f"The file was changed or removed, and the model is not kept for recovery: {baseline.problem}."
            self._workspace.messages.show("warning", _LOSES, why, topic=_LOSES)
        else:
            self.journal.begin_anew(baseline, entry)
