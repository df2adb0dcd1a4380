"""One save of a document as it was chosen: prepared where the model lives, then written in a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.writer.save import Saved, Saving, prepare
from onnx_workbench.model.io.writer.storage_plan import UNMOVED, Storage
from onnx_workbench.model.recovery.baseline import Baseline, finish_baseline, prepare_baseline
from onnx_workbench.model.recovery.journal_files import new_path
from onnx_workbench.viewer.core.folders import journal_folder
from onnx_workbench.viewer.core.tasks import post_and_wait
from onnx_workbench.viewer.files.save_preparation import SavePreparation

if TYPE_CHECKING:
    from onnx_workbench.model.io.reader.sniff import FileForm
    from onnx_workbench.model.io.reader.source import Identity
    from onnx_workbench.model.ir.graph import Model
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.viewer.run.workspace import Workspace


@dataclass(frozen=True)
class SaveOptions:
    """Target and format of a save. `copy`: the document keeps its current file."""

    path: Path
    form: FileForm | None = None
    storage: Storage = UNMOVED
    copy: bool = False


@dataclass(frozen=True)
class Coming:
    """The file of a save that is about to take its place, and the state that it holds, but for what is `left_out`.

    Where it takes the place of the file that holds that, `kept` is what was written of the model beside its journal.
    """

    path: Path
    identity: Identity
    state: int
    left_out: bool
    kept: Baseline | None


@dataclass(frozen=True)
class Answers:
    """Callbacks of a save, on the GUI thread. Either `refused`, `failed` or `written`, unless it is stopped.

    `refused` is called before anything is written, if the options do not fit the model; `placing` when all is written
    and the old file still there, with the identity of the new one; `written` with the state of the document that the
    file holds; `ended` after all, whatever the outcome.
    """

    prepared: Callable[[], object]
    refused: Callable[[ModelError], object]
    failed: Callable[[ModelError], object]
    placing: Callable[[Coming], object]
    written: Callable[[Saved, int], object]
    ended: Callable[[], object]


@dataclass(eq=False)
class SaveTask:
    """Saves a document once, or again; edits may go on meanwhile. GUI thread only."""

    workspace: Workspace
    options: SaveOptions
    answers: Answers
    others: Sequence[Model] = ()  # of other documents, whose files it must not replace
    #: What waits until it has ended; of several calls for the same thing the last one counts.
    waiting: dict[object, Callable[[], object]] = field(default_factory=dict)
    stopped: bool = False
    _whole: tuple[Path, Saving] | None = None  # the model for its journal, where the file does not hold all
    _stop: Callable[[], object] = lambda: None

    @property
    def title(self) -> str:
        """Title of the task."""
        return f"Saving {self.options.path.name}"

    def start(self, expected: Identity | None) -> None:
        """Begin, with the edits that are on their way. `expected`: refuse to replace a file of another identity."""
        chosen = self.options

        def work(progress: Progress) -> Saving:
            model, journal = self.workspace.model, self.workspace.journal
            saving = prepare(
                model, chosen.path, chosen.storage, form=chosen.form, expected=expected, others=self.others,
                progress=progress,
            )  # fmt: skip
            if saving.left_out and journal is not None and journal.is_on(chosen.path):
                path = new_path(journal_folder())
                self._whole = path, prepare_baseline(model, path, progress)
            return saving

        preparation = SavePreparation(self.workspace, self.title, work, self._write, self._refuse, self.answers.ended)
        if preparation.running:
            self._stop = preparation.stop

    def stop(self) -> None:
        """Cancel: write nothing, or leave the old file as it was; only `ended` is called, if the save began.

        Too late once the new file is in place: then the save succeeds.
        """
        self.stopped = True
        self._stop()

    def _write(self, saving: Saving, state: int) -> None:
        def work(progress: Progress) -> Saved:
            def place(path: Path, identity: Identity) -> None:
                kept = None if self._whole is None else finish_baseline(*self._whole, progress)
                coming = Coming(path, identity, state, bool(saving.left_out), kept)
                post_and_wait(lambda: self.answers.placing(coming), progress)

            return saving.run(progress, placing=place)

        def finished() -> None:
            try:
                if task.result is not None:  # even when it was stopped: the file is there
                    self.answers.written(task.result, state)
            finally:
                self.answers.ended()

        task = self.workspace.tasks.start(self.title, work, failed=self._fail, finished=finished, lane="mutate")
        self._stop = task.cancel
        self.answers.prepared()

    def _refuse(self, error: Exception) -> None:
        if isinstance(error, ModelError):
            self.answers.refused(error)
        self.answers.ended()
        if not isinstance(error, ModelError):
            raise error

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, ModelError):
            self.answers.failed(error)
