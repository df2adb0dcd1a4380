"""Simplification of an open or loaded model as one piece of work: on a copy, checked, then carried over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from onnx_workbench.exec.engine.constant_folding import evaluate
from onnx_workbench.exec.inspect.equivalence import Equivalence
from onnx_workbench.exec.inspect.self_check import check_transformed
from onnx_workbench.model.garbage import no_collection
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import Step
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.recovery.write_ahead import Recording, recording_of
from onnx_workbench.model.simplify.passes import Pass, SimplifyOptions
from onnx_workbench.model.simplify.pipeline import SimplifyReport, Survey, simplify, survey
from onnx_workbench.model.text.formatting import bytes_text, display


@dataclass(slots=True)
class SimplifyOutcome:
    """Result of simplifying: report, and the steps that apply it to the real model, in one entry of this title."""

    report: SimplifyReport
    agreement: Equivalence
    title: str
    steps: list[Step]
    recording: Recording | None  # of these steps

    def apply(self, document: Document) -> None:
        """Carry it over. On the document's thread, the model unchanged since."""
        if self.steps:
            with document.edit(self.title) as edit:
                edit.repeat(self.steps)


class Simplification:
    """A copy of a model about to be simplified. Any thread, one at a time."""

    def __init__(self, copy: WorkingCopy) -> None:
        self.copy = copy

    def survey(
        self,
        passes: Sequence[Pass] | None = None,
        *,
        options: SimplifyOptions | None = None,
        progress: Progress = SILENT,
    ) -> Survey:
        """Return the matches and refusals of each pass, by default of all; the copy stays as it is."""
        return survey(self.copy.document.model, passes, evaluate=evaluate, options=options, progress=progress)

    def run(
        self,
        passes: Sequence[Pass] | None = None,
        *,
        options: SimplifyOptions | None = None,
        checks: int = 3,
        title: str = "",
        progress: Progress = SILENT,
    ) -> SimplifyOutcome:
        """Simplify the copy and compare it with the original on `checks` random inputs. Call once.

        `title` is that of the entry in the history, by default that of the passes.
        """
        document = self.copy.document
        untouched = WorkingCopy(document.model, progress).document.model if checks else document.model
        with no_collection():
            report = simplify(document, passes, evaluate=evaluate, options=options, progress=progress)
        if not report.applied:
            agreement = Equivalence(None, reason="nothing was changed")
        elif not checks:
            agreement = Equivalence(None, reason="not requested")
        else:
            agreement = check_transformed(untouched, document.model, runs=checks, progress=progress)
        with no_collection():
            entries = self.copy.entries()
        titles = list(dict.fromkeys(title for title, _ in entries))
        title = title or (titles[0] if len(titles) == 1 else f"Simplify with {len(titles)} passes")
        steps = [step for _, steps in entries for step in steps]  # one undo takes all passes back
        return SimplifyOutcome(report, agreement, title, steps, recording_of(self.copy))


def size_table(report: SimplifyReport) -> list[tuple[str, ...]]:
    """Return numbers before and after: nodes, parameters, bytes, and each operator whose number changed."""
    before, after = report.before, report.after
    rows: list[tuple[str, ...]] = [
        ("", "before", "after"),
        ("operator nodes", f"{before.nodes:,}", f"{after.nodes:,}"),
        ("parameters", f"{before.parameters:,}", f"{after.parameters:,}"),
        ("constant data", bytes_text(before.nbytes), bytes_text(after.nbytes)),
    ]
    for name in sorted({*before.operators, *after.operators}):
        pair = before.operators.get(name, 0), after.operators.get(name, 0)
        if pair[0] != pair[1]:
            rows.append((display(name, 60), f"{pair[0]:,}", f"{pair[1]:,}"))
    return rows


def refusal_counts(report: SimplifyReport) -> Counter[tuple[str, str]]:
    """Count the refusals by the name of the pass and the reason."""
    return Counter((refusal.pass_id, refusal.reason) for refusal in report.refusals)
