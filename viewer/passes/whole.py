"""Tools for whole models that ask nothing: worked out on a copy in the background, then made one edit."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QObject

from model.passes.inference import Inferred, declare_all
from model.passes.rehearsal import Rehearsal
from model.progress import Progress
from model.steps import Step
from viewer.jobs import Job
from viewer.passes.applying import Applying
from viewer.passes.converting import attempt
from viewer.passes.rehearsing import Rehearsing
from viewer.text import display, number_text, plural
from viewer.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Outcome:
    """The steps that bring to the real model what was done to its copy, and what is told of it."""

    steps: Sequence[Step]
    title: str
    detail: str = ""


class WholeEdit(QObject):
    """Does `work` on a copy of a document's model and makes it one edit of the document; GUI thread only.

    All the while the window goes on, and the status line shows how far it is, with Stop. Where the document is edited
    meanwhile it begins again. What fails or is stopped leaves the model as it is.
    """

    def __init__(self, workspace: Workspace, title: str, work: Callable[[Rehearsal, Progress], Outcome]) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self._title = title
        self._work = work
        self._rehearsing = Rehearsing(workspace, self._rehearsed, self)
        self._copying: Job[None] | None = None
        self._begin()

    def _begin(self) -> None:
        self._copying = self._workspace.jobs.follow(self._title, self._stop)
        self._rehearsing.start()

    def _stop(self) -> None:
        self._rehearsing.cancel()
        self._leave()
        self.deleteLater()

    def _leave(self) -> None:
        job, self._copying = self._copying, None
        if job is not None:
            self._workspace.jobs.leave(job)

    def _rehearsed(self, rehearsal: Rehearsal) -> None:
        revision = self._workspace.document.revision
        self._leave()
        job = self._workspace.jobs.start(
            self._title,
            partial(self._work, rehearsal),
            done=lambda outcome: self._carry_over(outcome, revision),
            finished=lambda: self.deleteLater() if job.cancelled or job.error is not None else None,
            lane="mutate",
        )

    def _carry_over(self, outcome: Outcome, revision: int) -> None:
        def made(all_made: bool) -> None:
            if not all_made:
                self._begin()
                return
            self._workspace.message("info", outcome.title, outcome.detail)
            self.deleteLater()

        document = self._workspace.document
        if document.revision == revision:
            Applying(document, [(self._title, outcome.steps)], made, self)
        else:
            self._begin()


def convert_at_once(workspace: Workspace, title: str, options: argparse.Namespace) -> None:
    """Convert the whole model as `options` say, without a dialog before it."""

    def work(rehearsal: Rehearsal, progress: Progress) -> Outcome:
        trial = attempt(rehearsal, options, progress, comparable=False)
        found = [line for report in trial.reports for line in report.summary()]
        said = "; ".join(text if count == 1 else f"{number_text(count)} × {text}" for text, count in found)
        return Outcome(trial.steps, display(said or "There is nothing to change", 300))

    WholeEdit(workspace, title, work)


def write_types(workspace: Workspace, *, selected: bool = False) -> None:
    """Declare what could be inferred of the values of the model, or of those that the selected nodes make."""
    nodes = workspace.selection.nodes
    title = f"Write inferred types of {plural(len(nodes), 'node')}" if selected else "Write inferred types"

    def work(rehearsal: Rehearsal, progress: Progress) -> Outcome:
        inferred = workspace.types.inferred or Inferred()  # as it is by now, where this begins again
        known = Inferred(rehearsal.of_copies(inferred.types))
        with rehearsal.document.edit(title) as edit:
            count = declare_all(edit, known, rehearsal.copies(nodes) if selected else None, progress)
        told = f"{plural(count, 'declaration')} written."
        return Outcome(rehearsal.steps(), "Types and shapes are in the model", told)

    WholeEdit(workspace, title, work)
