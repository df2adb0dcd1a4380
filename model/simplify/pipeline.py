"""Run passes to a fixed point, and report what each did.

report = simplify(document, evaluate=fold.evaluate)        # each run that did something is an entry in the history
found = survey(document.model, evaluate=fold.evaluate)     # what passes would do first, changing nothing
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from onnx_workbench.model.edits.fresh_names import FreshNames
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.errors import ModelError, errors_to
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.progress import SILENT, Cancelled, Progress
from onnx_workbench.model.simplify.context import MatchContext
from onnx_workbench.model.simplify.passes import Evaluate, Match, Pass, PassRefusal, SimplifyOptions, is_there

TITLE = "Simplify: "  # prefix of a history entry's title; the pass's title follows
_ROUNDS = 40  # each round applies matches that the previous one made possible; real models need three or four


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """Size of a model: op nodes by operator, parameters and their bytes.

    Counts the graphs that are simplified: subgraphs and functions, each function once; of Constant nodes only the data.
    """

    operators: Mapping[str, int]
    parameters: int
    nbytes: int

    @property
    def nodes(self) -> int:
        """Number of op nodes."""
        return sum(self.operators.values())


@dataclass(frozen=True, slots=True)
class Survey:
    """Matches of each pass on the unchanged model, by pass id, with rejections, and the errors of passes."""

    found: dict[str, list[Match]]
    refusals: list[PassRefusal]
    failed: dict[str, str]


@dataclass(slots=True)
class SimplifyReport:
    """Result of a simplification. `applied` counts matches by pass id, in the order passes first applied.

    `failed` holds the error of each pass that raised: its changes in that run were rolled back and it was skipped.
    """

    before: ModelFigures
    after: ModelFigures
    applied: dict[str, int] = field(default_factory=dict)
    refusals: list[PassRefusal] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    rounds: int = 0


def simplify(
    document: Document,
    passes: Sequence[Pass] | None = None,
    *,
    evaluate: Evaluate | None = None,
    options: SimplifyOptions | None = None,
    progress: Progress = SILENT,
) -> SimplifyReport:
    """Apply passes (by default the default ones) round after round, one history entry per run of a pass.

    Runs where the document is used: off the GUI thread on a working copy. Without `evaluate` nothing is folded.
    Cancelling leaves complete entries behind.
    """
    from onnx_workbench.model.simplify.pass_list import default_passes

    model = document.model
    chosen = default_passes() if passes is None else passes
    before = figures(model)
    context = MatchContext(model, evaluate=evaluate, options=options, progress=progress)
    report = SimplifyReport(before, before)
    names = FreshNames()
    for round_ in range(_ROUNDS):
        changed = False
        for number, one in enumerate(chosen):
            if one.id in report.failed:
                continue
            progress.report(number, len(chosen), f"Round {round_ + 1}: {one.title}")
            count = 0
            with _skipping(one, report.failed):
                count = _run(document, context, names, one)
            if one.id in report.failed:
                context.index_graphs()  # the pass was rolled back
            if count:
                report.applied[one.id] = report.applied.get(one.id, 0) + count
                changed = True
        report.rounds = round_ + 1
        if not changed:
            break
        context.learn()
    report.refusals = [r for r in context.refusals.values() if is_there(r.place)]
    report.after = figures(model)
    return report


@contextmanager
def _skipping(one: Pass, failed: dict[str, str]) -> Iterator[None]:
    """Record an exception of a pass in the block and continue: a failing pass is skipped, the command goes on."""

    def note(error: BaseException) -> None:
        if isinstance(error, (Cancelled, MemoryError)):
            raise error
        failed[one.id] = str(error) if isinstance(error, ModelError) else f"{type(error).__name__}: {error}"

    with errors_to(note):
        yield


def _run(document: Document, context: MatchContext, names: FreshNames, one: Pass) -> int:
    count = 0
    with document.edit(TITLE + one.title) as edit:
        rewriter = GraphRewriter(edit, names=names, protected=context.protected, observer=context)
        for match in one.find(context):
            context.progress.check()
            if context.takes(one.id, match):
                match.apply(rewriter)
                count += 1
        rewriter.finish()
    return count


def survey(
    model: Model,
    passes: Sequence[Pass] | None = None,
    *,
    evaluate: Evaluate | None = None,
    options: SimplifyOptions | None = None,
    progress: Progress = SILENT,
) -> Survey:
    """Return what each pass would find now. Changes nothing.

    Passes enable each other, so applying them does more than this.
    """
    from onnx_workbench.model.simplify.pass_list import all_passes

    context = MatchContext(model, evaluate=evaluate, options=options, progress=progress)
    matches: dict[str, list[Match]] = {}
    failed: dict[str, str] = {}
    chosen = all_passes() if passes is None else passes
    for number, one in enumerate(chosen):
        progress.report(number, len(chosen), one.title)
        matches[one.id] = []
        with _skipping(one, failed):
            matches[one.id] = list(progress.paced(one.find(context), 1))
    return Survey(matches, list(context.refusals.values()), failed)


def figures(model: Model) -> ModelFigures:
    """Measure a model. Reads no tensor data."""
    operators: Counter[str] = Counter()
    parameters = nbytes = 0
    roots = (model.graph, *(function.body for function in model.functions))
    for graph in (graph for root in roots for graph in root.walk()):
        for node in graph.nodes:
            if node.op_type == "Constant" and not node.domain:
                tensor = node.attributes.get("value")
                content = None if tensor is None else tensor.value
                parameters += int(getattr(content, "size", 0))
                nbytes += int(getattr(content, "nbytes", 0))
            else:
                operators[node.qualified_op_type] += 1
        for value in graph.initializers:
            if value.initializer is not None:
                parameters += int(getattr(value.initializer, "size", 0))
                nbytes += value.initializer.nbytes
    return ModelFigures(dict(operators.most_common()), parameters, nbytes)


def chosen_passes(ids: Collection[str]) -> tuple[Pass, ...]:
    """Return the passes of these ids in the order they run; KeyError for an unknown one."""
    from onnx_workbench.model.simplify.pass_list import all_passes

    known = {one.id for one in all_passes()}
    for identifier in ids:
        if identifier not in known:
            raise KeyError(identifier)
    return tuple(one for one in all_passes() if one.id in ids)
