"""Test data next to a model: runs each set and compares its outputs with the expected ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from onnx_workbench.exec.inputs.recipe import Recipe, interface_of
from onnx_workbench.exec.inspect.expected_outputs import OutputCheck, check_folder
from onnx_workbench.model.budget import input_limit
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.tasks.threads import post

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace


class TestDataRun(QObject):
    """Runs the test data of one document. GUI thread only."""

    changed = Signal()

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self.verdicts: list[OutputCheck] = []
        self.state = -1  # state of the document that was tested
        self._folders: dict[str, Path] = {}  # tested folders, by name

    def run(self, folders: Sequence[Path]) -> None:
        """Run the test with some folders; ModelError if there are none."""
        if not folders:
            raise ModelError("There is no test data", "No folder test_data_set_* is beside the model")
        runs = self._workspace.runs
        session, graph, limit = runs.session, interface_of(runs.inputs.graph), input_limit(runs.inputs.max_tensor)
        verdicts: list[OutputCheck] = []
        self.verdicts = verdicts
        self.state = self._workspace.document.current.id
        self._folders = {folder.name: folder for folder in folders}

        def test(progress: Progress) -> None:
            for number, folder in enumerate(folders):
                progress.report(number, len(folders), folder.name)
                recipe = Recipe(graph, {}, {}, 0, folder, {}, str(folder), limit)
                try:
                    result = runs.perform_recipe(recipe, session, progress=progress)
                    checks = result.apply(check_folder, folder, graph, progress=progress)
                except (ModelError, LookupError) as error:
                    text = f"{error.title}: {error.detail}" if isinstance(error, ModelError) else str(error)
                    checks = [OutputCheck(folder.name, "", text)]
                post(partial(self._add, verdicts, checks))

        self._workspace.tasks.start("Running test data", test, done=lambda _: self._report(), supersede="test")

    def _add(self, verdicts: list[OutputCheck], checks: list[OutputCheck]) -> None:
        if verdicts is self.verdicts:  # otherwise another test has started
            verdicts += checks
            self.changed.emit()

    def _report(self) -> None:
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

    def _show(self, data_set: str) -> None:
        """Run with the inputs of a set, to show the values that led to wrong outputs."""
        self._workspace.runs.inputs.set_data_set(self._folders[data_set])
        self._workspace.trigger("run.run")
