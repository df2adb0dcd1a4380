"""Conversion of an open or loaded model as one piece of work: on a copy, listed, and compared with how it was."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exec.agreement import Agreement, compare_models
from model.graph import Model
from model.passes.rehearsal import Rehearsal
from model.progress import SILENT, Progress
from viewer.commands.convert import convert

if TYPE_CHECKING:
    from model.passes.convert import Report
    from model.steps import Step

#: How much outputs may differ in relation to their size, where precision is what is converted.
_TOLERANCES = {"float16": 0.05, "bfloat16": 0.2}


@dataclass(slots=True)
class Trial:
    """A conversion tried out on a copy: what it changes, the steps that bring it to the real model, and both models.

    `before` is None where nothing of what is computed changes.
    """

    options: argparse.Namespace
    after: Model
    before: Model | None = None
    reports: list[Report] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def may_differ(self) -> bool:
        """Whether outputs are meant to change a little."""
        return self.options.precision is not None

    def compare(self, *, runs: int = 1, progress: Progress = SILENT) -> Agreement:
        """Whether outputs are as before on so many random inputs. Any thread, while nobody else uses the trial."""
        if self.before is None:
            return Agreement(None, reason="nothing that is computed changes")
        return compare_models(
            self.before,
            self.after,
            runs=runs,
            tolerance=_TOLERANCES.get(self.options.precision or "", 1e-3),
            feeding=self.after if self.options.freeze else None,
            progress=progress,
        )


def attempt(rehearsal: Rehearsal, options: argparse.Namespace, progress: Progress = SILENT) -> Trial:
    """Convert the copy. Any thread, once; ModelError where it cannot be done."""
    model = rehearsal.document.model
    computing = (options.opset, options.precision, options.freeze, options.free, options.functions)
    before = Rehearsal(model).document.model if any(computing) else None
    trial = Trial(options, model, before, convert(rehearsal.document, options, progress))
    trial.steps = rehearsal.steps()
    for report in trial.reports:
        for remarks in (report.changes, report.warnings):
            remarks[:] = [type(r)(r.text, rehearsal.original(r.place)) for r in remarks]
    return trial
