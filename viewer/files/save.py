"""One save of a document with its options, and its work on other threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_workbench.model.io.writer.save import Saved, Saving, prepare
from onnx_workbench.model.io.writer.storage_plan import UNMOVED, Storage
from onnx_workbench.model.recovery.baseline import Baseline, finish_baseline, prepare_baseline
from onnx_workbench.model.recovery.journal_files import new_path
from onnx_workbench.model.recovery.object_ids import BaseIds
from onnx_workbench.viewer.program.folders import journal_folder
from onnx_workbench.viewer.tasks.threads import post_and_wait

if TYPE_CHECKING:
    from onnx_workbench.model.errors import ModelError
    from onnx_workbench.model.io.reader.sniff import FileForm
    from onnx_workbench.model.io.reader.source import Identity
    from onnx_workbench.model.ir.graph import Model
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.viewer.files.document_tab import DocumentTab


@dataclass(frozen=True)
class SaveOptions:
    """Target and format of a save. `copy`: the document keeps its current file."""

    path: Path
    form: FileForm | None = None
    storage: Storage = UNMOVED
    copy: bool = False


@dataclass(frozen=True)
class PendingFile:
    """The file that a save is about to replace the document's file with, and the state that it holds.

    `left_out`: the file does not hold all of the model. `kept`: the baseline written for the journal, if it needs one.
    `ids`: those of the state.
    """

    path: Path
    identity: Identity
    state: int
    left_out: bool
    kept: Baseline | None
    ids: BaseIds | None


@dataclass(eq=False)
class Save:
    """One save of a document, prepared on the thread of the model and written in a task. See `Saver`.

    `then` is called after it was written, `prepared` before it is written, `refused` if the options do not fit the
    model.
    """

    tab: DocumentTab
    options: SaveOptions
    then: Callable[[], object] | None = None
    prepared: Callable[[], object] | None = None
    refused: Callable[[ModelError], object] | None = None
    is_replacing: bool = False  # the user chose to replace a file changed by another program
    is_replacing_truncated: bool = False
    is_announced: bool = False  # the options fit, or a question follows: the dialog may close
    waiting: list[Callable[[], object]] = field(default_factory=list)  # called at its end
    stopped: bool = False
    cancel: Callable[[], object] = lambda: None  # cancels the current stage
    _ids: BaseIds | None = None  # of the prepared state
    _whole: tuple[Path, Saving] | None = None  # baseline for the journal, if the file does not hold all of the model

    @property
    def title(self) -> str:
        """Title of the task."""
        return f"Saving {self.options.path.name}"

    @property
    def is_own(self) -> bool:
        """Whether it writes the document's file."""
        return self.options.path == self.tab.path and self.tab.identity is not None

    @property
    def is_copy(self) -> bool:
        """Whether the document keeps its current file."""
        return self.options.copy and not self.is_own

    def stop(self) -> None:
        """Cancel: the old file is unchanged.

        No effect once the new file is in place: then the save succeeds.
        """
        self.stopped = True
        self.cancel()

    def prepare(self, expected: Identity | None, others: Sequence[Model], progress: Progress) -> Saving:
        """Read the model; ModelError if the options do not fit it. Any thread, while the model is unchanged.

        `expected`: refuse to replace a file of another identity; `others`: models whose files it must not replace.
        """
        self._whole = None
        options, model, journal = self.options, self.tab.workspace.model, self.tab.workspace.journal
        saving = prepare(
            model, options.path, options.storage, form=options.form, expected=expected, others=others,
            progress=progress,
        )  # fmt: skip
        if saving.left_out and journal is not None and journal.is_on(options.path):
            path = new_path(journal_folder())
            self._whole = path, prepare_baseline(model, path, progress)
        self._ids = None if self.is_copy else BaseIds(model, progress)
        return saving

    def write(self, saving: Saving, state: int, progress: Progress) -> Saved:
        """Write the prepared state; the journal records the save before the file is replaced.

        Off the GUI thread. ModelError if it cannot be written.
        """

        def announce(path: Path, identity: Identity) -> None:
            kept = None if self._whole is None else finish_baseline(*self._whole, progress)
            pending = PendingFile(path, identity, state, bool(saving.left_out), kept, self._ids)
            post_and_wait(lambda: self._expect(pending), progress)

        return saving.run(progress, placing=announce)

    def _expect(self, pending: PendingFile) -> None:
        if not self.is_copy:
            self.tab.autosave.expect(pending)
