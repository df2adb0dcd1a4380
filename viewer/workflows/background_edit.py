"""Tools for whole models without a dialog: computed on a copy in the background, then applied as one edit."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from PySide6.QtCore import QObject

from onnx_workbench.model.edits.declare_types import declare_all
from onnx_workbench.model.edits.functions import inline_call
from onnx_workbench.model.edits.interface import remove_unused_inputs
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import Step
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.inference import InferredTypes
from onnx_workbench.model.ir.graph import Graph, Node
from onnx_workbench.model.ir.types import Dimension
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.recovery.write_ahead import Recording, recording_of
from onnx_workbench.viewer.core.context import DocumentContext
from onnx_workbench.viewer.core.selection import Item
from onnx_workbench.viewer.core.tasks import Task
from onnx_workbench.viewer.style.formatting import display, plural
from onnx_workbench.viewer.workflows.convert import attempt, told
from onnx_workbench.viewer.workflows.step_applier import StepApplier
from onnx_workbench.viewer.workflows.working_copies import WorkingCopyTask


@dataclass(frozen=True, slots=True)
class EditOutcome:
    """Steps that apply the changes of the copy to the real model, and a message, if any.

    `places` are the objects of the real model to reveal afterwards, `warning` is for the user's attention: a title, a
    text and a place. `entries` are titles and steps of several edits, one after the other, instead of `steps`.
    """

    steps: Sequence[Step]
    title: str = ""
    detail: str = ""
    places: Sequence[Item] = ()
    warning: tuple[str, str, Any] | None = None
    entries: Sequence[tuple[str, Sequence[Step]]] = ()


class BackgroundEdit(QObject):
    """Applies `work` to a copy of a document's model and makes it one edit of the document; GUI thread only.

    The window stays responsive, and the status line shows progress with Stop. If the document is edited meanwhile, it
    starts over. A failure or stop leaves the model as it is; `failed` gets the refusal, else a message shows it.
    `ended` is called last with whether the model was changed.
    """

    def __init__(
        self,
        workspace: DocumentContext,
        title: str,
        work: Callable[[WorkingCopy, Progress], EditOutcome],
        *,
        failed: Callable[[BaseException], object] | None = None,
        ended: Callable[[bool], object] = lambda _is_made: None,
    ) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self._title = title
        self._work = work
        self._failed = failed
        self._ended = ended
        self._rehearsing = WorkingCopyTask(workspace, self._rehearsed, self)
        self._task: Task[Any] | None = None
        self._applying: StepApplier | None = None
        self._begin()

    def give_up(self) -> None:
        """Stop, without callbacks."""
        self._failed, self._ended = (lambda _error: None), (lambda _is_made: None)
        if self._task is not None:
            self._task.cancel()
        if self._applying is not None:
            self._applying.stop()
            self._end(is_made=False)

    def _begin(self) -> None:
        self._task = self._workspace.tasks.follow(self._title, self._stop_copying, makes="edit")
        self._rehearsing.start()

    def _stop_copying(self) -> None:
        if self._rehearsing.running:
            self._rehearsing.cancel()
            self._leave()
            self._end(is_made=False)

    def _leave(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            self._workspace.tasks.leave(task)

    def _rehearsed(self, rehearsal: WorkingCopy) -> None:
        revision = self._workspace.document.revision
        self._leave()
        task = self._task = self._workspace.tasks.start(
            self._title,
            partial(self._do, rehearsal),
            done=lambda outcome: self._carry_over(outcome, revision, recording_of(rehearsal)),
            failed=self._failed,
            finished=lambda: self._end(is_made=False) if task.cancelled or task.error is not None else None,
            lane="mutate",
            makes="edit",
        )

    def _do(self, rehearsal: WorkingCopy, progress: Progress) -> EditOutcome:
        try:
            return self._work(rehearsal, progress)
        except ModelError as error:  # whose place is to be gone to
            raise ModelError(error.title, error.detail, rehearsal.original(error.place)) from error

    def _carry_over(self, outcome: EditOutcome, revision: int, recording: Recording | None) -> None:
        def made(all_made: bool) -> None:
            if not all_made:
                self._applying = None
                self._begin()
                return
            if outcome.title:
                self._workspace.messages.show("info", outcome.title, outcome.detail)
            if outcome.warning is not None:
                self._workspace.messages.show("warning", *outcome.warning)
            self._workspace.navigation.reveal_all(outcome.places)
            self._end(is_made=True)

        document = self._workspace.document
        if document.revision == revision:
            entries = outcome.entries or [(self._title, outcome.steps)]
            self._applying = StepApplier(
                document,
                entries,
                made,
                self,
                recording=recording,
                tasks=self._workspace.tasks,
                stopped=lambda: self._end(is_made=False),
            )
        else:
            self._begin()

    def _end(self, *, is_made: bool) -> None:
        self._ended(is_made)
        self.deleteLater()


def convert_at_once(workspace: DocumentContext, title: str, options: argparse.Namespace) -> None:
    """Convert the whole model as `options` say, without a dialog before it."""

    def work(rehearsal: WorkingCopy, progress: Progress) -> EditOutcome:
        trial = attempt(rehearsal, options, progress, comparable=False)
        said = "; ".join(line for report in trial.reports for line in told(report))
        return EditOutcome(trial.steps, display(said or "There is nothing to change", 300))

    BackgroundEdit(workspace, title, work)


def write_types(workspace: DocumentContext, *, selected: bool = False) -> None:
    """Declare what could be inferred of the values of the model, or of those that the selected nodes make."""
    nodes = workspace.selection.nodes
    title = f"Write inferred types of {plural(len(nodes), 'node')}" if selected else "Write inferred types"

    def work(rehearsal: WorkingCopy, progress: Progress) -> EditOutcome:
        known = known_of(workspace, rehearsal)
        with rehearsal.document.edit(title) as edit:
            count = declare_all(edit, known, rehearsal.copies(nodes) if selected else None, progress)
        written = f"{plural(count, 'declaration')} written."
        return EditOutcome(rehearsal.steps(), "Types and shapes are in the model", written)

    BackgroundEdit(workspace, title, work)


def inline_these(workspace: DocumentContext, calls: Sequence[Node]) -> None:
    """Put the nodes of their functions in the place of calls; the functions stay."""
    title = f"Inline {display(calls[0].title, 60) if len(calls) == 1 else plural(len(calls), 'call')}"

    def work(rehearsal: WorkingCopy, progress: Progress) -> EditOutcome:
        chosen, inlined = set(calls), list[Node]()
        copies = [n for g in rehearsal.document.model.graphs() for n in g.nodes if rehearsal.original(n) in chosen]
        with rehearsal.document.edit(title) as edit:
            for call in progress.paced(copies, of=len(copies)):
                inlined += inline_call(edit, call)
        steps = rehearsal.steps()
        said = f"{plural(len(copies), 'call')} became {plural(len(inlined), 'node')}"
        return EditOutcome(steps, said, places=[*map(rehearsal.original, inlined)])

    BackgroundEdit(workspace, title, work)


def take_unused_inputs_away(workspace: DocumentContext, graph: Graph) -> None:
    """Remove the inputs of a graph that nothing takes."""
    title = "Remove unused inputs"

    def work(rehearsal: WorkingCopy, progress: Progress) -> EditOutcome:
        with rehearsal.document.edit(title) as edit:
            removed = remove_unused_inputs(edit, rehearsal.copy_of(graph), progress)
        said = f"{plural(removed, 'input')} removed." if removed else "Every input is used."
        return EditOutcome(rehearsal.steps(), said)

    BackgroundEdit(workspace, title, work)


def set_batch(workspace: DocumentContext, graph: Graph, batch: Dimension, text: str) -> None:
    """Set the first dimension of a graph's inputs and outputs to what the user entered as `text`."""

    def work(rehearsal: WorkingCopy, progress: Progress) -> EditOutcome:
        from onnx_workbench.model.convert.dimensions import change_batch

        known = known_of(workspace, rehearsal)
        with rehearsal.document.edit("Set the batch") as edit:
            report = change_batch(edit, rehearsal.copy_of(graph), batch, known.type_of)
        progress.check()
        steps, warnings = rehearsal.steps(), report.warnings
        if not steps:
            return EditOutcome(
                steps, "There is nothing to change", "No input or output here begins with another dimension."
            )
        warning = None
        if warnings:
            said = "\n".join(dict.fromkeys(remark.text for remark in warnings))
            places = plural(len(warnings), "place")
            warning = (f"{places} may still hold the old batch", said, rehearsal.original(warnings[0].place))
        return EditOutcome(
            steps, f"The batch dimension is {display(text, 40)}", "\n".join(told(report)), warning=warning
        )

    BackgroundEdit(workspace, f"Set batch dimension to {display(text, 40)}", work)


def known_of(workspace: DocumentContext, rehearsal: WorkingCopy) -> InferredTypes:
    """Return the types known for the copy by now; call again after a restart. Any thread."""
    inferred = workspace.types.inferred or InferredTypes()
    return InferredTypes(rehearsal.of_copies(inferred.types))
