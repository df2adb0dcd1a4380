"""Search for sizes of symbolic dimensions with which a model runs, after a run failed with others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.inputs.recipe import Recipe
from onnx_workbench.exec.inspect.runnable_sizes import runnable_sizes
from onnx_workbench.exec.results.node_table import Failure
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.run.session.run_task import RunTask

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace

_TOPIC = "sizes"
#: Longest search.
_SECONDS = 5.0


def forget_sizes(workspace: Workspace) -> None:
    """Withdraw the offer of sizes and end a search: another run has started. GUI thread."""
    workspace.messages.withdraw(_TOPIC)
    for task in workspace.tasks.running:
        if task.supersede == _TOPIC:
            task.cancel()


def search_sizes(workspace: Workspace, run: RunTask, failure: Failure) -> None:
    """Search for other sizes of the symbolic dimensions of a failed run, and offer them. GUI thread."""
    runs, before = workspace.runs, run.recipe
    sizes = runs.inputs.symbols()
    if not sizes or failure.kind != KernelError.__name__ or before.data_set is not None:
        return

    def work(progress: Progress) -> tuple[dict[str, int], int]:
        def failure_with(tried: dict[str, int]) -> Failure | None:
            progress.check()
            signature = ("sizes", tuple(tried.items()))
            recipe = Recipe(
                before.graph, before.sources, tried, before.seed, None, before.given, signature, before.limit
            )
            try:
                result = runs.perform_recipe(recipe, run.session, time_limit=_SECONDS, progress=progress)
            except ModelError:
                return failure
            return result.failures[0] if result.failures else failure if result.stopped else None

        return runnable_sizes(sizes, failure, failure_with, _SECONDS)

    workspace.tasks.start(
        "Searching for sizes that run", work, done=partial(_offer, workspace, list(sizes)), supersede=_TOPIC
    )


def _offer(workspace: Workspace, names: list[str], found: tuple[dict[str, int], int]) -> None:
    sizes, count = found
    show = partial(workspace.messages.show, "info", topic=_TOPIC)
    if sizes:
        text = ", ".join(f"{display(name, 40)} = {size}" for name, size in sizes.items())
        detail = "Other sizes of symbolic dimensions can be set in the Run panel."
        show(f"The model runs with {text}", detail, choices=(("Use and Run", partial(_use, workspace, sizes)),))
    elif count:
        tried = f"Tried {plural(count, 'choice')} of sizes for {display(', '.join(names), 200)}."
        show("No sizes found with which the model runs", f"{tried} Set sizes and values in the Run panel.")


def _use(workspace: Workspace, sizes: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        workspace.runs.inputs.set_size(name, size)
    workspace.trigger("run.run")
