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
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.run.session.inputs import make_inputs
from onnx_workbench.viewer.run.session.run_task import RunTask
from onnx_workbench.viewer.tasks.readers import read_model

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
        done = partial(self._offer, list(sizes))
        self._workspace.tasks.start("Searching for sizes that run", work, done=done, supersede=_TOPIC)

    def _search(
        self, run: RunTask, failure: Failure, sizes: Mapping[str, int], progress: Progress
    ) -> tuple[dict[str, int], int]:
        def failure_with(tried: dict[str, int]) -> Failure | None:
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
                return failure
            return result.failures[0] if result.failures else failure if result.stopped else None

        return runnable_sizes(sizes, failure, failure_with, _SECONDS)

    def _offer(self, names: list[str], found: tuple[dict[str, int], int]) -> None:
        sizes, count = found
        show = partial(self._workspace.messages.show, "info", topic=_TOPIC)
        if sizes:
            text = ", ".join(f"{display(name, 40)} = {size}" for name, size in sizes.items())
            detail = "Other sizes of symbolic dimensions can be set in the Run panel."
            show(f"The model runs with {text}", detail, choices=(("Use and Run", partial(self._use, sizes)),))
        elif count:
            tried = f"Tried {plural(count, 'choice')} of sizes for {display(', '.join(names), 200)}."
            show("No sizes found with which the model runs", f"{tried} Set sizes and values in the Run panel.")

    def _use(self, sizes: Mapping[str, int]) -> None:
        for name, size in sizes.items():
            self._workspace.runs.inputs.set_size(name, size)
        self._workspace.trigger("run.run")


def _make_request(session: Session | WorkerSession, feeds: Mapping[str, Any], progress: Progress) -> Request:
    session.prepare(progress)
    return session.request(feeds, values="outputs", time_limit=_SECONDS)
