"""Conversion of an open or loaded model as one piece of work: on a copy, listed, and compared with how it was."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING

from onnx_workbench.exec.inspect.equivalence import Equivalence, compare_isolated
from onnx_workbench.exec.inspect.self_check import Change, check_transformed
from onnx_workbench.model.analysis.call_graph import callers_of
from onnx_workbench.model.analysis.value_types import dims_of
from onnx_workbench.model.edits.names import (
    regenerate_initializer_names,
    regenerate_node_names,
    regenerate_value_names,
)
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.ir.graph import Model, Node, Value
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.recovery.write_ahead import Recording, recording_of
from onnx_workbench.model.text.dimension_sizes import sizes
from onnx_workbench.model.text.formatting import display, number_text, plural

if TYPE_CHECKING:
    from onnx_workbench.model.convert import ConversionReport
    from onnx_workbench.model.history.steps import Step
    from onnx_workbench.model.ir.types import Type

#: What can get new names, and the edit that gives them.
RENAMED: dict[str, Callable[..., int]] = {
    "nodes": regenerate_node_names,
    "unnamed": partial(regenerate_node_names, only_missing=True),
    "initializers": regenerate_initializer_names,
    "values": regenerate_value_names,
}

_SAID = {"nodes": "node", "unnamed": "unnamed node", "initializers": "initializer", "values": "value"}

_MOST_DIGITS = 4  # of an axis
_MOST_NAMED = 5
_SMALL = 3  # sizes up to here are counts, such as a batch, of which 1, 2 and 3 are tried; others grow


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """What to convert; all else is left as it is. Texts are those of the options of the command ``convert``."""

    opset: int | None = None
    precision: str | None = None
    keep: Sequence[str] = ()  # operators, patterns of node names, and "inputs-outputs": they keep their precision
    freeze: Sequence[str] = ()  # NAME=SIZE
    free: Sequence[str] = ()  # a name, or INPUT:AXIS=NAME
    functions: str | None = None
    strip: Sequence[str] = ()
    rename: Sequence[str] = ()
    sort: bool = False
    ir_version: int | None = None

    @property
    def converts_anything(self) -> bool:
        """Whether anything is to be converted."""
        return any(getattr(self, one.name) for one in fields(self) if one.name != "keep")


@dataclass(slots=True)
class Trial:
    """A conversion tried on a copy: its changes, the steps that apply it to the real model, and both models.

    `before` is None where nothing of what is computed changes, `nodes` where it was not limited to some; else they are
    the nodes of the real model that it was limited to and those that it makes of them.
    """

    options: ConvertOptions
    after: Model
    before: Model | None = None
    reports: list[ConversionReport] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    recording: Recording | None = None  # of these steps
    nodes: frozenset[Node] | None = None

    def is_refused_by(self, agreement: Equivalence) -> bool:
        """Return whether the comparison found an unintended difference: another precision changes outputs a little."""
        return agreement.agrees is False and (agreement.fails or self.options.precision is None)

    def compare(self, *, runs: int = 3, progress: Progress = SILENT) -> Equivalence:
        """Check whether outputs are unchanged for `runs` random inputs. Any thread, with exclusive use of the trial."""
        if self.before is None:
            return Equivalence(None, reason="the computation is unchanged")
        if not runs:
            return Equivalence(None, reason="not requested")
        agreement = check_transformed(
            self.before,
            self.after,
            runs=runs,
            feeding=self.after if self.options.freeze else None,
            meant=_meant_changes(self.options),
            progress=progress,
        )
        if not self.options.free or agreement.agrees is not True:
            return agreement
        return replace(agreement, remarks=(*agreement.remarks, *_at_other_sizes(self.before, self.after, progress)))


def _at_other_sizes(before: Model, after: Model, progress: Progress) -> list[str]:
    """Run the result with other numbers for the sizes that were freed; return with which it runs, and why not."""
    from onnx_workbench.model.convert import freeze

    former = {
        name: number
        for old, new in zip(before.graph.required_inputs, after.graph.required_inputs, strict=False)
        for number, name in zip(dims_of(old) or (), dims_of(new) or (), strict=False)
        if isinstance(number, int) and isinstance(name, str)
    }
    runs, remarks = [], []
    for more in range(3) if former else ():
        sizes = {name: 1 + more if number <= _SMALL else number + more for name, number in former.items()}
        document = WorkingCopy(after, progress).document
        with document.edit("Freeze dimensions") as edit:
            freeze(edit, sizes)
        agreement = compare_isolated(document.model, document.model, runs=1, progress=progress)
        text = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        if agreement.agrees is True:
            runs.append(text)
        else:
            remarks.append(f"it does not run with {text} ({agreement.reason})")
    return [f"it runs with {'; '.join(runs)}", *remarks] if runs else remarks


def _meant_changes(options: ConvertOptions) -> list[Change]:
    """Return the changes of inputs and outputs that conversions may make."""
    changes: dict[Change, object] = {
        "precision": options.precision,
        "sizes": options.freeze or options.free,
        "unused inputs": "inputs" in options.strip,
    }
    return [change for change, is_meant in changes.items() if is_meant]


def report_lines(report: ConversionReport) -> list[str]:
    """Return its changes as lines, equal ones as one line with their number."""
    return [counted(text, count) for text, count in report.summary()]


def counted(text: str, count: int) -> str:
    """Return a line that was noted so often."""
    return text if count == 1 else f"{number_text(count)} × {text}"


def attempt(
    copy: WorkingCopy,
    options: ConvertOptions,
    progress: Progress = SILENT,
    nodes: Collection[Node] | None = None,
) -> Trial:
    """Convert the copy; with `nodes` those of the real model alone. Any thread, once; ModelError where it cannot be."""
    model = copy.document.model
    computing = (options.opset, options.precision, options.freeze, options.free, options.functions)
    before = WorkingCopy(model, progress).document.model if any(computing) else None
    work = _Conversions(copy.document, options, None if nodes is None else copy.copies(nodes), progress)
    trial = Trial(options, model, before, work.run())
    trial.steps, trial.recording = copy.steps(), recording_of(copy)
    if nodes is not None:
        trial.nodes = frozenset(map(copy.original, work.part or ()))
    for report in trial.reports:
        for remarks in (report.changes, report.warnings):
            remarks[:] = [type(r)(r.text, copy.original(r.place)) for r in remarks]
    return trial


class _Conversions:
    """Requested conversions, one edit each; in a part of the model if it is given."""

    def __init__(
        self, document: Document, options: ConvertOptions, part: Collection[Node] | None, progress: Progress
    ) -> None:
        self._document, self._options, self._progress = document, options, progress
        self._others = None if part is None else {n for g in document.model.graphs() for n in g.nodes}.difference(part)

    @property
    def part(self) -> frozenset[Node] | None:
        """The nodes that were given and what became of them; None for all."""
        if self._others is None:
            return None
        nodes = (node for graph in self._document.model.graphs() for node in graph.nodes)
        return frozenset(node for node in nodes if node not in self._others)

    def run(self) -> list[ConversionReport]:
        """Convert; a report for each conversion."""
        from onnx_workbench.model.convert import extract_blocks, strip

        options = self._options
        reports: list[ConversionReport] = []
        if options.strip:
            with self._document.edit("Strip") as edit:
                reports.append(strip(edit, options.strip, self.part))
        if options.freeze:
            reports.append(self._freeze())
        if options.free:
            reports.append(self._free())
        if options.functions == "inline":
            reports.append(self._inline())
        if options.opset is not None:
            reports.append(self._opset(options.opset))
        if options.precision is not None:
            reports += self._precision(options.precision)
        if options.functions == "extract":
            with self._document.edit("Extract repeated blocks") as edit:
                reports.append(extract_blocks(edit, self._progress, among=self.part))
        reports += [self._rename(what) for what in RENAMED if what in options.rename]
        if options.sort:
            reports.append(self._sort())
        if options.ir_version is not None:
            reports.append(self._claim(options.ir_version))
        return reports

    def _type_of(self) -> Callable[[Value], Type | None]:
        from onnx_workbench.model.inference import infer

        return infer(self._document.model, progress=self._progress).type_of

    def _freeze(self) -> ConversionReport:
        from onnx_workbench.model.convert import freeze

        part, wanted = self.part, sizes(self._options.freeze)
        if part is None:
            with self._document.edit("Freeze dimensions") as edit:
                return freeze(edit, wanted)
        type_of = self._type_of()
        with self._document.edit("Freeze dimensions") as edit:
            return freeze(edit, wanted, part, type_of)

    def _free(self) -> ConversionReport:
        from onnx_workbench.model.convert import batch_places, free_dimensions, inputs_of

        type_of, graph, given = self._type_of(), self._document.model.graph, self._options.free
        inputs = inputs_of(graph, self.part)
        known = {value.name for value in inputs}
        places: dict[tuple[str, int], str] = {}
        for name in (text.strip() for text in given if "=" not in text):
            places |= dict.fromkeys(batch_places(inputs, type_of), name)
        places |= dict(_parse_dimension(text) for text in given if "=" in text)
        foreign = next((name for name, _ in places if name not in known), "")
        if self.part is not None and (foreign or not places):
            there = ", ".join(display(name, 60) for name in list(known)[:10]) or "none"
            raise ModelError(
                f"No selected node depends on {display(foreign, 60)}" if foreign else "No size can be dynamic",
                f"Inputs of the model that the selection is computed from: {there}.",
            )
        with self._document.edit("Free dimensions") as edit:
            return free_dimensions(edit, graph, places, type_of)

    def _inline(self) -> ConversionReport:
        from onnx_workbench.model.convert import ConversionReport
        from onnx_workbench.model.edits.functions import inline_all, inline_calls

        report, model, part = ConversionReport(), self._document.model, self.part
        before = len(model.functions)
        with self._document.edit("Inline functions") as edit:
            if part is None:
                count = inline_all(edit, self._progress)
            else:
                calls = callers_of(model, {function.key for function in model.functions})
                count = inline_calls(edit, [node for node in calls if node in part], self._progress)
        if before and (count or part is None):
            gone = before - len(model.functions)
            without = f"; {plural(gone, 'function')} removed" if gone else ""
            report.changed(f"{plural(count, 'call')} inlined{without}", model)
        return report

    def _opset(self, version: int) -> ConversionReport:
        from onnx_workbench.model.convert import convert_opset

        part = self.part
        with self._document.edit("Convert operator set") as edit:
            report = convert_opset(edit, version, self._progress)
            if part is not None:
                raise _of_the_whole_model(report, part, self.part or frozenset())
        return report

    def _rename(self, what: str) -> ConversionReport:
        from onnx_workbench.model.convert import ConversionReport

        report = ConversionReport()
        with self._document.edit(f"Regenerate names of {what}") as edit:
            count = RENAMED[what](edit, self._document.model, among=self.part, progress=self._progress)
        if count:
            have = "has a new name" if count == 1 else "have new names"
            report.changed(f"{plural(count, _SAID[what])} {have}", self._document.model)
        return report

    def _sort(self) -> ConversionReport:
        from onnx_workbench.model.convert import ConversionReport
        from onnx_workbench.model.edits.nodes import sort_nodes

        if self._others is not None:
            raise ModelError("The order of nodes is that of whole graphs", "A selection has none of its own.")
        report, model = ConversionReport(), self._document.model
        with self._document.edit("Sort nodes") as edit:
            count = sum(sort_nodes(edit, root, self._progress) for root in model.root_graphs())
        if count:
            report.changed(f"{plural(count, 'node')} moved", model)
        return report

    def _precision(self, precision: str) -> list[ConversionReport]:
        """Convert from any other precision of the model."""
        from onnx_workbench.model.convert import (
            PRECISIONS,
            PrecisionOptions,
            convert_precision,
            inline_calls_that_differ,
        )

        options = self._options
        target = PRECISIONS[precision]
        keep = [what for what in options.keep if what != "inputs-outputs"]
        reports = []
        for source in PRECISIONS.values():
            if source != target and (source.text == "float" or precision == "float32"):
                type_of = self._type_of()
                if self._others is None:
                    with self._document.edit("Inline calls") as edit:
                        inlined = inline_calls_that_differ(edit, source, type_of, self._progress)
                    if inlined.changes:
                        reports.append(inlined)
                        type_of = self._type_of()
                wish = PrecisionOptions(
                    source, target, keep, keep_interface="inputs-outputs" in options.keep, among=self.part
                )
                with self._document.edit("Convert precision") as edit:
                    reports.append(convert_precision(edit, wish, type_of, self._progress))
        return reports

    def _claim(self, version: int) -> ConversionReport:
        from onnx_workbench.model.convert import claim_ir_version

        if self._others is not None:
            raise ModelError("The IR version applies to the whole model", "A selection has none of its own.")
        with self._document.edit("Set IR version") as edit:
            return claim_ir_version(edit, version)


def _of_the_whole_model(report: ConversionReport, part: Collection[Node], after: Collection[Node]) -> ModelError:
    """Return the error that nodes are not converted alone, with those that would change."""
    places = (remark.place for remark in (*report.changes, *report.warnings))
    changed = dict.fromkeys(display(p.title, 60) for p in places if isinstance(p, Node) and (p in part or p in after))
    named = ", ".join(list(changed)[:_MOST_NAMED]) + (" and others" if len(changed) > _MOST_NAMED else "")
    text = f"These selected nodes would change: {named}." if changed else "Nothing selected would change."
    return ModelError("The opset applies to the whole model", f"{text} Convert the whole model for that.")


def _parse_dimension(text: str) -> tuple[tuple[str, int], str]:
    """Parse ``x:2=width``: an input, its axis, and the name of its size."""
    place, _, name = text.rpartition("=")
    value, _, axis = place.rpartition(":")
    if not value or not axis.isdecimal() or len(axis) > _MOST_DIGITS or not name.strip():
        raise ModelError(f"{text!r} is not a dimension", "Write it as INPUT:AXIS=NAME, such as x:2=width.")
    return (value, int(axis)), name.strip()
