"""Tools for whole models without a dialog: computed on a copy in the background, then applied as one edit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from onnx_workbench.exec.inspect.self_check import check_transformed, require_agreement
from onnx_workbench.exec.transform.convert import ConvertOptions, attempt, report_lines
from onnx_workbench.model.edits.declare_types import declare_all
from onnx_workbench.model.edits.functions import inline_call
from onnx_workbench.model.edits.interface import remove_unused_inputs
from onnx_workbench.model.edits.properties import remove_documentation
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import Step
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.inference import InferredTypes
from onnx_workbench.model.ir.graph import Graph, Node
from onnx_workbench.model.ir.types import Dimension
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.recovery.write_ahead import recording_of
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.document.selection import Item
from onnx_workbench.viewer.tasks.tasks import Task, call_back
from onnx_workbench.viewer.workflows.apply_edits import apply_edits
from onnx_workbench.viewer.workflows.working_copies import copy_model


@dataclass(frozen=True, slots=True)
class EditOutcome:
    """Steps that apply the changes of the copy to the real model, and a message, if any.

    `places` are the objects of the real model to reveal afterwards, `warning` is for the user's attention: a title, a
    text and a place. `edits` are titles and steps of several edits, one after the other, instead of `steps`.
    """

    steps: Sequence[Step]
    title: str = ""
    detail: str = ""
    places: Sequence[Item] = ()
    warning: tuple[str, str, Any] | None = None
    edits: Sequence[tuple[str, Sequence[Step]]] = ()


def edit_in_background(
    workspace: DocumentContext,
    title: str,
    work: Callable[[WorkingCopy, Progress], EditOutcome],
    *,
    failed: Callable[[BaseException], object] | None = None,
    ended: Callable[[bool], object] | None = None,
) -> Task[bool]:
    """Apply `work` to a copy of a document's model, and what that changed to the document, as one edit.

    The window stays responsive, and the status line shows progress with Stop. If the document is edited meanwhile, it
    starts over. A failure or stop leaves the model as it is; `failed` gets the refusal, else a message shows it.
    `ended` is called last with whether the model was changed.
    """

    def show(outcome: EditOutcome) -> None:
        if outcome.title:
            workspace.messages.show("info", outcome.title, outcome.detail)
        if outcome.warning is not None:
            workspace.messages.show("warning", *outcome.warning)
        workspace.navigation.reveal_all(outcome.places)

    def run(progress: Progress) -> bool:
        is_applied = False
        while not is_applied:
            copy, revision = copy_model(workspace, progress)
            with closing(copy):
                try:
                    outcome = work(copy, progress)
                except ModelError as error:  # its place can be shown
                    raise ModelError(error.title, error.detail, copy.original(error.place)) from error
            edits = outcome.edits or [(title, outcome.steps)]
            recording = recording_of(copy)
            is_applied = apply_edits(workspace, edits, revision, recording, progress, partial(show, outcome))
        return is_applied

    def finished() -> None:
        call_back(ended, task.result is True)

    task = workspace.tasks.start(title, run, failed=failed, finished=finished, lane="mutate", makes="edit")
    return task


def convert_in_background(workspace: DocumentContext, title: str, options: ConvertOptions) -> None:
    """Convert the whole model with `options`, without a dialog."""

    def work(copy: WorkingCopy, progress: Progress) -> EditOutcome:
        trial = attempt(copy, options, progress)
        require_agreement(trial.compare(runs=1, progress=progress))
        text = "; ".join(line for report in trial.reports for line in report_lines(report))
        return EditOutcome(trial.steps, display(text or "There is nothing to change", 300))

    edit_in_background(workspace, title, work)


def write_types(workspace: DocumentContext, *, selected: bool = False) -> None:
    """Declare the inferred types of the values of the model, or of the outputs of the selected nodes."""
    nodes = workspace.selection.nodes
    title = f"Write inferred types of {plural(len(nodes), 'node')}" if selected else "Write inferred types"

    def work(copy: WorkingCopy, progress: Progress) -> EditOutcome:
        known = known_of(workspace, copy)
        with copy.document.edit(title) as edit:
            count = declare_all(edit, known, copy.copies(nodes) if selected else None, progress)
        written = f"{plural(count, 'declaration')} written."
        return EditOutcome(copy.steps(), "Types and shapes are in the model", written)

    edit_in_background(workspace, title, work)


def remove_documentation_in(workspace: DocumentContext) -> None:
    """Remove doc strings, and metadata below the model's own, from the whole model."""
    title = "Remove documentation"

    def work(copy: WorkingCopy, progress: Progress) -> EditOutcome:
        with copy.document.edit(title) as edit:
            count = remove_documentation(edit, copy.document.model, progress)
        text = f"Documentation of {plural(count, 'object')} removed" if count else "There is no documentation to remove"
        return EditOutcome(copy.steps(), text)

    edit_in_background(workspace, title, work)


def inline_calls(workspace: DocumentContext, calls: Sequence[Node]) -> None:
    """Replace calls by the nodes of their functions; the functions stay."""
    title = f"Inline {display(calls[0].title, 60) if len(calls) == 1 else plural(len(calls), 'call')}"

    def work(copy: WorkingCopy, progress: Progress) -> EditOutcome:
        chosen, inlined = set(calls), list[Node]()
        copies = [n for g in copy.document.model.graphs() for n in g.nodes if copy.original(n) in chosen]
        with closing(WorkingCopy(copy.document.model, progress)) as before:
            with copy.document.edit(title) as edit:
                for call in progress.paced(copies, of=len(copies)):
                    inlined += inline_call(edit, call)
            model = copy.document.model
            require_agreement(check_transformed(before.document.model, model, runs=1, progress=progress))
        steps = copy.steps()
        text = f"{plural(len(copies), 'call')} became {plural(len(inlined), 'node')}"
        return EditOutcome(steps, text, places=[*map(copy.original, inlined)])

    edit_in_background(workspace, title, work)


def remove_unused_inputs_in(workspace: DocumentContext, graph: Graph) -> None:
    """Remove the inputs of a graph that nothing takes."""
    title = "Remove unused inputs"

    def work(copy: WorkingCopy, progress: Progress) -> EditOutcome:
        with copy.document.edit(title) as edit:
            removed = remove_unused_inputs(edit, copy.copy_of(graph), progress)
        text = f"{plural(removed, 'input')} removed." if removed else "Every input is used."
        return EditOutcome(copy.steps(), text)

    edit_in_background(workspace, title, work)


def set_batch(workspace: DocumentContext, graph: Graph, batch: Dimension, text: str) -> None:
    """Set the first dimension of a graph's inputs and outputs to the entered `text`."""

    def work(copy: WorkingCopy, progress: Progress) -> EditOutcome:
        from onnx_workbench.model.convert import change_batch

        known = known_of(workspace, copy)
        with copy.document.edit("Set the batch") as edit:
            report = change_batch(edit, copy.copy_of(graph), batch, known.type_of)
        progress.check()
        steps, warnings = copy.steps(), report.warnings
        if not steps:
            return EditOutcome(
                steps, "There is nothing to change", "No input or output here begins with another dimension."
            )
        warning = None
        if warnings:
            detail = "\n".join(dict.fromkeys(remark.text for remark in warnings))
            places = plural(len(warnings), "place")
            warning = (f"{places} may still hold the old batch", detail, copy.original(warnings[0].place))
        return EditOutcome(
            steps, f"The batch dimension is {display(text, 40)}", "\n".join(report_lines(report)), warning=warning
        )

    edit_in_background(workspace, f"Set batch dimension to {display(text, 40)}", work)


def known_of(workspace: DocumentContext, copy: WorkingCopy) -> InferredTypes:
    """Return the types known for the copy by now; call again after a restart. Any thread."""
    inferred = workspace.types.inferred or InferredTypes()
    return InferredTypes(copy.of_copies(inferred.types))
