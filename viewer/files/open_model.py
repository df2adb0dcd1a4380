"""Opening a model as one task: read it, and write its recovery baseline if no file holds it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from onnx_workbench import resources
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.files.autosave import JournalStart
from onnx_workbench.viewer.program.folders import journal_folder

if TYPE_CHECKING:
    from onnx_workbench.model.ir.graph import Model

STANDARD_INPUT = "-"


def sample_model() -> Path:
    """Return the path of the sample model."""
    return resources.path("sample/digits.onnx")


class OpenRequest(QObject):
    """Request to show a model in a tab: one that is read, or a new `model`.

    `path` is the file of the document, if any; `foreign` a file of another format, which an extension reads. `number`
    is ascending.
    """

    opened = Signal(object)  # DocumentTab
    ended = Signal()  # with any outcome

    def __init__(
        self,
        title: str,
        number: int,
        model: Model | None,
        path: Path | None,
        foreign: Path | None,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self.title = title
        self.number = number
        self.model = model
        self.path = path
        self.foreign = foreign

    @property
    def task_title(self) -> str:
        """Title of the task."""
        return f"Opening {self.title}" if self.model is None else f"Keep {display(self.title, 60)} for recovery"


@dataclass(frozen=True)
class OpenedModel:
    """Result of a request, with what the journal of its document starts from."""

    model: Model
    start: JournalStart


def open_model(
    source: str | Model, progress: Progress, *, is_in_file: bool = True, holder: Path | None = None
) -> OpenedModel:
    """Read a model, or take a new one, and write the baseline of its journal unless a file holds it. Any thread.

    ModelError if it cannot be read. Cancellation during reading cancels the request; while the baseline is written,
    the model is opened without one.
    """
    from onnx_workbench.model.io.reader.read import load
    from onnx_workbench.model.recovery.baseline import write_baseline
    from onnx_workbench.model.recovery.object_ids import BaseIds

    model = load(source, progress) if isinstance(source, str) else source
    baseline = None
    if not is_in_file and holder is None:
        baseline = write_baseline(model, journal_folder(), progress)
        progress = SILENT  # a cancellation now would leave the baseline behind
    # The ids of the model's objects are collected here: the GUI thread would take seconds for it.
    return OpenedModel(model, JournalStart(baseline, holder, BaseIds(model, progress)))


def without_baseline(model: Model) -> OpenedModel:
    """Return the result for a new model whose baseline was cancelled before it began."""
    from onnx_workbench.model.recovery.baseline import Baseline

    return OpenedModel(model, JournalStart(baseline=Baseline.missing(journal_folder())))
