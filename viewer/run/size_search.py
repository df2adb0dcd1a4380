"""Search for sizes of symbolic dimensions with which a model runs, after a run failed with others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject

from onnx_workbench.exec.engine.planned_run import Request
from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.inputs.recipe import Recipe
from onnx_workbench.exec.inspect.runnable_sizes import runnable_sizes
from onnx_workbench.exec.results.node_table import Failure
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.worker.client import WorkerSession
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.core.readers import read_model
from onnx_workbench.viewer.run.inputs import make_inputs
from onnx_workbench.viewer.run.run_task import RunTask

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace

_TOPIC = "sizes"
#: Longest search.
_SECONDS = 5.0


class SizeSearch(QObject):
    """Offers sizes with which a model runs when a run has failed. GUI thread only."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._workspace = workspace

    def forget(self) -> None:
        """Withdraw the offer and end a search: another run has started."""
        self._workspace.messages.withdraw(_TOPIC)
        for task in self._workspace.tasks.running:
            if task.supersede == _TOPIC:
                task.cancel()

    def start(self, run: RunTask, failure: Failure) -> None:
        """Search for other sizes of the symbolic dimensions of a failed run."""
        sizes = self._workspace.runs.inputs.symbols()
        if not sizes or failure.kind != KernelError.__name__ or run.recipe.data_set is not None:
            return
        work = partial(self._search, run, failure, sizes)
        self._workspace.tasks.start("Searching for sizes that run", work, done=self._offer, supersede=_TOPIC)

    def _search(self, run: RunTask, failure: Failure, sizes: Mapping[str, int], progress: Progress) -> dict[str, int]:
        def runs_with(tried: dict[str, int]) -> bool:
            progress.check()
            before = run.recipe
            signature = ("sizes", tuple(tried.items()))
            recipe = Recipe(
                before.graph, before.sources, tried, before.seed, None, before.given, signature, before.limit
            )
            try:
                feeds = make_inputs(run.session, recipe, progress)
                request = read_model(partial(_make_request, run.session, feeds), progress)
                result = self._workspace.runs.perform(request, progress=progress)
            except ModelError:
                return False
            return not result.failures and not result.stopped

        return runnable_sizes(sizes, failure, runs_with, _SECONDS)

    def _offer(self, sizes: dict[str, int]) -> None:
        if not sizes:
            return
        text = ", ".join(f"{display(name, 40)} = {size}" for name, size in sizes.items())
        choices = (("Use and Run", partial(self._use, sizes)),)
        detail = "Other sizes of symbolic dimensions can be set in the Run panel."
        self._workspace.messages.show("info", f"The model runs with {text}", detail, choices=choices, topic=_TOPIC)

    def _use(self, sizes: Mapping[str, int]) -> None:
        for name, size in sizes.items():
            self._workspace.runs.inputs.set_size(name, size)
        self._workspace.trigger("run.run")


def _make_request(session: Session | WorkerSession, feeds: Mapping[str, Any], progress: Progress) -> Request:
    session.prepare(progress)
    return session.request(feeds, values="outputs", time_limit=_SECONDS)
