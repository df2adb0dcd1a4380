"""Conversion of an open or loaded model as one piece of work: on a copy, listed, and compared with how it was."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exec.inspection.agreement import Agreement, compare_models
from model.document import Document, Transaction
from model.edits.names import regenerate_initializer_names, regenerate_node_names, regenerate_value_names
from model.errors import ModelError
from model.graph import Model, Value
from model.passes.rehearsal import Rehearsal
from model.progress import SILENT, Progress
from viewer.commands.arguments import sizes
from viewer.text import plural

if TYPE_CHECKING:
    from model.passes.convert import Report
    from model.steps import Step
    from model.types import Type

#: What can get new names, and the edit that gives them.
RENAMED: dict[str, Callable[[Transaction, Model], int]] = {
    "nodes": regenerate_node_names,
    "initializers": regenerate_initializer_names,
    "values": regenerate_value_names,
}

_MOST_DIGITS = 4  # of an axis


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
        if not runs:
            return Agreement(None, reason="not asked for")
        return compare_models(
            self.before,
            self.after,
            runs=runs,
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


# -- what is asked for ----------------------------------------------------------------------------------------------


def convert(document: Document, options: argparse.Namespace, converting: Progress) -> list[Report]:
    """Everything asked for, one edit each."""
    from model.passes.convert import claim_ir_version, extract_blocks, freeze, strip

    reports: list[Report] = []
    if options.strip:
        with document.edit("Strip") as edit:
            reports.append(strip(edit, options.strip))
    if options.freeze:
        with document.edit("Freeze dimensions") as edit:
            reports.append(freeze(edit, sizes(options.freeze)))
    if options.free:
        reports.append(_free(document, options.free, converting))
    if options.functions == "inline":
        reports.append(_inline(document))
    if options.opset is not None:
        reports.append(_opset(document, options.opset, converting))
    if options.precision is not None:
        reports += _precision(document, options, converting)
    if options.functions == "extract":
        with document.edit("Extract repeated blocks") as edit:
            reports.append(extract_blocks(edit, converting))
    reports += [_rename(document, what) for what in RENAMED if what in options.rename]
    if options.ir_version is not None:
        with document.edit("Set IR version") as edit:
            reports.append(claim_ir_version(edit, options.ir_version))
    return reports


def _free(document: Document, given: Sequence[str], converting: Progress) -> Report:
    from model.passes.convert import batch_places, free_dimensions
    from model.passes.inference import infer

    types = infer(document.model, progress=converting)
    graph = document.model.graph
    places: dict[tuple[str, int], str] = {}
    for name in (text.strip() for text in given if "=" not in text):
        places |= dict.fromkeys(batch_places(graph, types.type_of), name)
    places |= dict(_place(text) for text in given if "=" in text)
    with document.edit("Free dimensions") as edit:
        return free_dimensions(edit, graph, places, types.type_of)


def _place(text: str) -> tuple[tuple[str, int], str]:
    """What ``x:2=width`` says: an input, its axis, and the name of its size."""
    place, _, name = text.rpartition("=")
    value, _, axis = place.rpartition(":")
    if not value or not axis.isdecimal() or len(axis) > _MOST_DIGITS or not name.strip():
        raise ModelError(f"{text!r} names no dimension", "Write it as INPUT:AXIS=NAME, such as x:2=width.")
    return (value, int(axis)), name.strip()


def _inline(document: Document) -> Report:
    from model.edits.functions import inline_all
    from model.passes.convert import Report

    report = Report()
    functions = len(document.model.functions)
    with document.edit("Inline functions") as edit:
        calls = inline_all(edit)
    if functions:
        report.changed(f"{plural(calls, 'call')} of {plural(functions, 'function')} inlined", document.model)
    return report


def _opset(document: Document, version: int, converting: Progress) -> Report:
    from model.passes.convert import convert_opset
    from model.passes.inference import infer

    def types() -> Callable[[Value], Type | None]:
        return infer(document.model, progress=converting).type_of

    known = types()
    with document.edit("Convert operator set") as edit:
        return convert_opset(edit, version, known, converting, infer=types)


def _rename(document: Document, what: str) -> Report:
    from model.passes.convert import Report

    report = Report()
    with document.edit(f"Regenerate names of {what}") as edit:
        count = RENAMED[what](edit, document.model)
    if count:
        report.changed(f"{count:,} {what} have new names", document.model)
    return report


def _precision(document: Document, options: argparse.Namespace, converting: Progress) -> list[Report]:
    """From whatever other precision the model has."""
    from model.passes.convert import PRECISIONS, Wish, convert_precision
    from model.passes.inference import infer

    target = PRECISIONS[options.precision]
    keep = [what for what in options.keep if what != "inputs-outputs"]
    reports = []
    for source in PRECISIONS.values():
        if source != target and (source.text == "float" or options.precision == "float32"):
            types = infer(document.model, progress=converting)
            wish = Wish(source, target, keep, keep_interface="inputs-outputs" in options.keep)
            with document.edit("Convert precision") as edit:
                reports.append(convert_precision(edit, wish, types.type_of, converting))
    return reports
