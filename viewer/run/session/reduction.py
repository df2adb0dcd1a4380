"""Reduction of a model that fails to the smallest part that still fails, from the window."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from onnx_workbench.exec.transform.reduce import ReduceOptions, Reduction, reduce_isolated
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.workflows.working_copies import copy_model

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace

#: What can be seen to fail: its title, and what it means.
FAILURES = {
    "nonfinite": ("NaN or infinities of finite inputs", "where they begin, not what they spread to"),
    "fails": ("A node that fails", "in the executor of this program"),
    "differs-from-ort": ("A value that differs from ONNX Runtime", "beyond the tolerance of its precision"),
}


def failure_seen(workspace: Workspace) -> str:
    """Return the kind of failure in FAILURES that the last run shows."""
    record = workspace.results.current
    return "fails" if record is not None and record.result.failures else "nonfinite"


def start_reduction(
    workspace: Workspace, until: str, done: Callable[[Reduction], object], *, for_others: bool = False
) -> None:
    """Reduce the model with the inputs of the last run, in a task; `for_others` with small weights and neutral names.

    ModelError if there was no run of this model.
    """
    record = workspace.results.current
    if record is None or not workspace.results.is_current:
        raise ModelError("The model was not run", "Run it first: its inputs are those to fail with.")
    result = record.result
    names = [value.name for value in workspace.model.graph.required_inputs]

    def work(progress: Progress) -> Reduction:
        feeds = {name: result.value(name, progress=progress) for name in names}
        copy, _ = copy_model(workspace, progress)
        try:
            options = ReduceOptions(result.seed, small_weights=for_others, neutral_names=for_others)
            return reduce_isolated(copy.document.model, feeds, until, options, progress)
        finally:
            copy.close()

    workspace.tasks.start("Reducing to the failure", work, done=done, supersede="reduce")
