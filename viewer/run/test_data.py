"""Test data beside a model: run each set and hold its outputs against the expected ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from onnx_workbench.exec.engine.stepper import Request
from onnx_workbench.exec.inputs.recipe import Recipe, interface_of
from onnx_workbench.exec.inputs.sources import input_limit
from onnx_workbench.exec.inspect.expected_outputs import OutputCheck, check_folder
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.run.inputs import make_inputs
from onnx_workbench.viewer.style.formatting import display

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace


class TestDataRun(QObject):
    """Runs the test data of one document. GUI thread only."""

    changed = Signal()

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self.verdicts: list[OutputCheck] = []
        self.state = -1  # of the document that was tested
        self._pending: list[Path] = []
        self._folders: dict[str, Path] = {}  # that were tested with, by name

    def run(self, folders: Sequence[Path]) -> None:
        """Test with some folders; ModelError when there is none."""
        if not folders:
            raise ModelError("There is no test data", "No folder test_data_set_* is beside the model")
        self.verdicts = []
        self.state = self._workspace.document.current.id
        self._pending = list(folders)
        self._folders = {folder.name: folder for folder in folders}
        self._next()

    def _next(self) -> None:
        if not self._pending:
            self._tell()
            return
        folder = self._pending.pop(0)
        runs = self._workspace.runs
        session, graph = runs.session, interface_of(runs.inputs.graph)
        recipe = Recipe(graph, {}, {}, 0, folder, {}, str(folder), input_limit(runs.inputs.memory_limit))
        self._workspace.tasks.start(
            f"Read {folder.name}",
            lambda progress: make_inputs(session, recipe, progress),
            done=lambda feeds: self._perform(folder, feeds),
            failed=lambda error: self._failed(folder.name, error),
            supersede="test",
        )

    def _perform(self, folder: Path, feeds: Mapping[str, Any]) -> None:
        runs = self._workspace.runs
        session, perform, graph = runs.session, runs.perform, interface_of(runs.inputs.graph)
        try:
            request = session.request(feeds, values="outputs")
        except ModelError as error:
            self._failed(folder.name, error)
            return
        self._workspace.tasks.start(
            f"Test {folder.name}",
            lambda progress: check(perform, request, folder, graph, progress),
            done=self._take,
            failed=lambda error: self._failed(folder.name, error),
            supersede="test",
        )

    def _take(self, verdicts: list[OutputCheck]) -> None:
        self.verdicts += verdicts
        self.changed.emit()
        self._next()

    def _failed(self, name: str, error: BaseException) -> None:
        text = f"{error.title}: {error.detail}" if isinstance(error, ModelError) else str(error)
        self._take([OutputCheck(name, "", text)])

    def _tell(self) -> None:
        failed = [v for v in self.verdicts if v.problem]
        passed = len(self.verdicts) - len(failed)
        self._workspace.set_run_state(f"{passed} of {len(self.verdicts)} outputs as expected")
        if failed:
            first = failed[0]
            where = f"{first.data_set} {first.output}".strip()
            title, detail = f"{len(failed)} of {len(self.verdicts)} outputs differ", f"{where}: {first.problem}"
            choices = ((f"Run {display(first.data_set, 40)}", lambda: self._show(first.data_set)),)
            self._workspace.messages.show("error", title, detail, choices=choices)
        else:
            self._workspace.messages.show("info", "All outputs are as expected", f"{passed} of {passed}")
        self.changed.emit()

    def _show(self, data_set: str) -> None:
        """Run with the inputs of a set, to see the values that led to what it is not."""
        self._workspace.runs.inputs.set_data_set(self._folders[data_set])
        self._workspace.trigger("run.run")


def check(
    perform: Callable[..., RunResult], request: Request, folder: Path, graph: Graph, progress: Progress
) -> list[OutputCheck]:
    """Run one set, and hold its outputs against the expected ones where they are. Any thread."""
    return perform(request, progress=progress).apply(check_folder, folder, graph, progress=progress)
