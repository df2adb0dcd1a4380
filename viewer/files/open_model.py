"""Opening a model as one task: read it, and write its recovery baseline if no file holds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from onnx_workbench.model.progress import SILENT
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.files import read_model
from onnx_workbench.viewer.files.autosave import JournalStart
from onnx_workbench.viewer.program.folders import journal_folder

if TYPE_CHECKING:
    from onnx_workbench.model.ir.graph import Model
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.model.recovery.baseline import Baseline


class OpenRequest(QObject):
    """Request to show a model in a tab: from a `source` to read (see `read_model.read`), or a new `model`.

    `path` is the file of the document, if any; `holder` another file that holds the model; `foreign` a file of another
    format, which an extension reads. `number` is ascending.
    """

    opened = Signal(object)  # DocumentTab
    ended = Signal()  # with any outcome

    def __init__(
        self,
        title: str,
        number: int,
        source: str,
        model: Model | None,
        path: Path | None,
        holder: Path | None,
        foreign: Path | None,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self.title = title
        self.number = number
        self.source = source
        self.model = model
        self.path = path
        self.holder = holder
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


def open_model(request: OpenRequest, preload: Callable[[], object], progress: Progress) -> OpenedModel:
    """Read the model of a request and write the baseline of its journal; ModelError if it cannot be read. Any thread.

    `preload` imports the modules for its tab. Cancellation during reading cancels the request; while the baseline is
    written, the model is opened without one.
    """
    preload()
    model = request.model
    if model is None:
        model = read_model.read(request.source, progress)
    if request.path is not None or request.holder is not None:
        return _opened(model, progress, holder=request.holder)

    from onnx_workbench.model.recovery.baseline import write_baseline

    baseline = write_baseline(model, journal_folder(), progress)
    return _opened(model, SILENT, baseline=baseline)  # a cancellation now would leave the baseline behind


def reopen(path: Path, progress: Progress) -> OpenedModel:
    """Read the file of an open document again; ModelError if it cannot be read. Any thread."""
    return _opened(read_model.read(path, progress), progress)


def _opened(
    model: Model, progress: Progress, baseline: Baseline | None = None, holder: Path | None = None
) -> OpenedModel:
    """Collect the ids of the model's objects here: the GUI thread would take seconds for it."""
    from onnx_workbench.model.recovery.object_ids import BaseIds

    return OpenedModel(model, JournalStart(baseline, holder, BaseIds(model, progress)))


def without_baseline(model: Model) -> OpenedModel:
    """Return the result for a new model whose baseline was cancelled before it began."""
    from onnx_workbench.model.recovery.baseline import Baseline

    return OpenedModel(model, JournalStart(baseline=Baseline.missing(journal_folder())))
