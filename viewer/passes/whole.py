"""Tools for whole models that ask nothing: worked out on a copy in the background, then made one edit."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from PySide6.QtCore import QObject

from model.errors import ModelError
from model.graph import Node
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
    """The steps that bring to the real model what was done to its copy, and what is told of it.

    `places` are what is to be seen of the real model afterwards.
    """

    steps: Sequence[Step]
    title: str
    detail: str = ""
    places: Sequence[Node] = ()


class WholeEdit(QObject):
    """Does `work` on a copy of a document's model and makes it one edit of the document; GUI thread only.

    All the while the window goes on, and the status line shows how far it is, with Stop. Where the document is edited
    meanwhile it begins again. What fails or is stopped leaves the model as it is; `failed` gets what refused, else a
    message tells it. `ended` is called last, and told whether the model was changed.
    """

    def __init__(
        self,
        workspace: Workspace,
        title: str,
        work: Callable[[Rehearsal, Progress], Outcome],
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
        self._rehearsing = Rehearsing(workspace, self._rehearsed, self)
        self._job: Job[Any] | None = None
        self._begin()

    def give_up(self) -> None:
        """Stop, and call nobody."""
        self._failed, self._ended = (lambda _error: None), (lambda _is_made: None)
        if self._job is not None:
            self._job.cancel()

    def _begin(self) -> None:
        self._job = self._workspace.jobs.follow(self._title, self._stop_copying)
        self._rehearsing.start()

    def _stop_copying(self) -> None:
        if self._rehearsing.running:
            self._rehearsing.cancel()
            self._leave()
            self._end(is_made=False)

    def _leave(self) -> None:
        job, self._job = self._job, None
        if job is not None:
            self._workspace.jobs.leave(job)

    def _rehearsed(self, rehearsal: Rehearsal) -> None:
        revision = self._workspace.document.revision
        self._leave()
        job = self._job = self._workspace.jobs.start(
            self._title,
            partial(self._do, rehearsal),
            done=lambda outcome: self._carry_over(outcome, revision),
            failed=self._failed,
            finished=lambda: self._end(is_made=False) if job.cancelled or job.error is not None else None,
            lane="mutate",
        )

    def _do(self, rehearsal: Rehearsal, progress: Progress) -> Outcome:
        try:
            return self._work(rehearsal, progress)
        except ModelError as error:  # whose place is to be gone to
            raise ModelError(error.title, error.detail, rehearsal.original(error.place)) from error

    def _carry_over(self, outcome: Outcome, revision: int) -> None:
        def made(all_made: bool) -> None:
            if not all_made:
                self._begin()
                return
            self._workspace.message("info", outcome.title, outcome.detail)
            self._workspace.reveal_all(outcome.places)
            self._end(is_made=True)

        document = self._workspace.document
        if document.revision == revision:
            Applying(document, [(self._title, outcome.steps)], made, self)
        else:
            self._begin()

    def _end(self, *, is_made: bool) -> None:
        self._ended(is_made)
        self.deleteLater()


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
