"""An open document with its runs and results: the context of panels, dialogs and actions."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakSet

from PySide6.QtCore import QObject

from onnx_workbench.model.history.document import Document
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.program.settings import Settings

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.results.results import Results
    from onnx_workbench.viewer.run.session.controller import RunController


class Workspace(DocumentContext):
    """The context of an open document with its runs and results, both created on first use. GUI thread only."""

    _open: ClassVar[WeakSet[Workspace]] = WeakSet()  # without the internal ones of merged views

    def __init__(
        self,
        document: Document,
        settings: Settings | None = None,
        parent: QObject | None = None,
        *,
        title: str = "Untitled",
    ) -> None:
        super().__init__(document, settings, parent, title=title)
        if parent is None:
            self._open.add(self)
        self.closed.connect(self._close_runs)

    def others_open(self) -> list[Workspace]:
        """Return the other open documents, sorted by title."""
        return sorted((one for one in self._open if one is not self), key=lambda one: one.title)

    @property
    def label(self) -> str:
        """The title, with as many folders as needed to distinguish the file from open ones of the same name."""
        others = [one.document.path for one in self._open if one is not self and one.title == self.title]
        path = self.document.path
        if path is None or not others:
            return self.title
        parts = path.parts
        for count in range(2, len(parts)):
            tail = parts[-count:]
            if all(other is None or other == path or other.parts[-count:] != tail for other in others):
                return "/".join(tail)
        return str(path)

    @cached_property
    def results(self) -> Results:
        """Results of the last runs. Created on first use, as the module imports numpy."""
        from onnx_workbench.viewer.run.results.results import Results

        return Results(self)

    @cached_property
    def runs(self) -> RunController:
        """Controller of runs. Created on first use, as the module imports the executor."""
        from onnx_workbench.viewer.run.session.controller import RunController

        return RunController(self)

    @property
    def has_runs(self) -> bool:
        """Whether `runs` was created; does not create it."""
        return "runs" in self.__dict__

    def _close_runs(self) -> None:
        self._open.discard(self)
        if self.has_runs:
            self.runs.close()
