"""Simplification of an open or loaded model as one piece of work: on a copy, checked, then carried over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from exec.agreement import Agreement, compare_models
from exec.fold import evaluate
from model.document import Document
from model.graph import Model
from model.passes.rehearsal import Rehearsal
from model.passes.simplify.driver import Report, simplify
from model.passes.simplify.framework import Options, Pass
from model.progress import SILENT, Progress
from model.steps import Step


@dataclass(slots=True)
class Outcome:
    """What simplifying came to, and the steps that bring it to the real model, entry by entry."""

    report: Report
    agreement: Agreement
    entries: list[tuple[str, list[Step]]] = field(default_factory=list)

    def apply(self, document: Document) -> None:
        """Carry it over: an undo entry for each run of a pass. On the document's thread, the model unchanged since."""
        for title, steps in self.entries:
            with document.edit(title) as edit:
                for step in steps:
                    edit.do(step)


class Simplification:
    """A model about to be simplified. Make it on the thread that owns the model; `run` it on any."""

    def __init__(self, model: Model) -> None:
        self.rehearsal = Rehearsal(model)

    def run(
        self,
        passes: Sequence[Pass] | None = None,
        *,
        options: Options | None = None,
        checks: int = 3,
        progress: Progress = SILENT,
    ) -> Outcome:
        """Simplify the copy and compare it with how it was, on so many random inputs. Once."""
        document = self.rehearsal.document
        untouched = Rehearsal(document.model).document.model if checks else document.model
        report = simplify(document, passes, evaluate=evaluate, options=options, progress=progress)
        if not report.applied:
            agreement = Agreement(None, reason="nothing was changed")
        elif not checks:
            agreement = Agreement(None, reason="not asked for")
        else:
            agreement = compare_models(untouched, document.model, runs=checks, progress=progress)
        return Outcome(report, agreement, self.rehearsal.entries())
