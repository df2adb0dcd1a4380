"""Opening a model as one task: read it, and write its recovery baseline if no file holds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from onnx_workbench.model.progress import SILENT
from onnx_workbench.viewer.core.folders import journal_folder
from onnx_workbench.viewer.files import read_model
from onnx_workbench.viewer.style.formatting import display

if TYPE_CHECKING:
    from onnx_workbench.model.ir.graph import Model
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.model.recovery.baseline import Baseline
    from onnx_workbench.model.recovery.object_ids import BaseIds


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
    """Result of a request. `baseline` is None if a file holds the model; `ids` are for its journal."""

    model: Model
    ids: BaseIds | None = None
    baseline: Baseline | None = None


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
        return with_ids(model, progress)

    from onnx_workbench.model.recovery.baseline import write_baseline

    baseline = write_baseline(model, journal_folder(), progress)
    return replace(with_ids(model, SILENT), baseline=baseline)


def reopen(path: Path, progress: Progress) -> OpenedModel:
    """Read the file of an open document again; ModelError if it cannot be read. Any thread."""
    return with_ids(read_model.read(path, progress), progress)


def with_ids(model: Model, progress: Progress) -> OpenedModel:
    """Return a model with the ids of its objects, which the GUI thread would take seconds to collect."""
    from onnx_workbench.model.recovery.object_ids import BaseIds

    return OpenedModel(model, BaseIds(model, progress))


def without_baseline(model: Model) -> OpenedModel:
    """Return the result for a new model whose baseline was cancelled before it began."""
    from onnx_workbench.model.recovery.baseline import Baseline

    return OpenedModel(model, baseline=Baseline.missing(journal_folder()))
