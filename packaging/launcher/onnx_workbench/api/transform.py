"""Changes of whole models, whose results are compared with those before."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from onnx_workbench.api.files import StrPath, model_of
from onnx_workbench.arguments import as_document, known, nodes_of, texts
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Model, Node
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from onnx_workbench.exec.inputs.images import ImageOptions
    from onnx_workbench.exec.inspect.equivalence import Equivalence
    from onnx_workbench.exec.transform.quantization.quantize import QuantizationReport
    from onnx_workbench.exec.values.arrays import RuntimeValue
    from onnx_workbench.model.convert.report import ConversionReport
    from onnx_workbench.model.history.document import Document
    from onnx_workbench.model.simplify.passes import Pass, SimplifyOptions
    from onnx_workbench.model.simplify.pattern_rules import Rule
    from onnx_workbench.model.simplify.pipeline import SimplifyReport


@dataclass(frozen=True, slots=True)
class Simplified:
    """What simplifying came to: what each pass did, and whether outputs agree with those before.

    `is_applied` is false where outputs differ: the model is as it was then.
    """

    report: SimplifyReport
    agreement: Equivalence
    is_applied: bool


def simplify(
    model: Model | Document,
    *,
    only: Iterable[str] | None = None,
    skip: Iterable[str] = (),
    also: Iterable[str] = (),
    nodes: Collection[Node] | None = None,
    rules: StrPath | bytes | None = None,
    tensor_limit: int = 1 << 20,
    growth_limit: int = 1 << 20,
    checks: int = 3,
    progress: Progress = SILENT,
) -> Simplified:
    """Fold constants, remove what does nothing, fuse what operators can do in one. Inputs and outputs stay.

    Passes are named as in ``onnx-workbench simplify --help``: those that are on by default, or `only` some, without
    `skip`, and with `also`. The `rules` of a file, as for `rewrite`, run after them. With `nodes` they change nothing
    else. No folded tensor may be larger by more than
    `tensor_limit` bytes, nor all of them by `growth_limit`. Outputs are compared with those before on so many random
    inputs (`checks`); where they differ, the interface does, or ONNX Runtime, where it is installed, or onnx.checker do
    not accept the result any more, the model stays as it was and `is_applied` is false. `agreement` says what could not
    be compared. Most of the time goes into these runs.

    ModelError: there is no such pass, or with `checks`, the model uses a value that nothing defines.

    >>> import onnx_workbench as ow
    >>> model = ow.load(sample)
    >>> with ow.Document(model).edit("Make a node that does nothing") as edit:
    ...     ow.edits.change_operator(edit, model.graph.nodes.first, "Identity")
    >>> simplified = ow.simplify(model)
    >>> simplified.is_applied, simplified.report.after.nodes < simplified.report.before.nodes
    (True, True)
    """
    from onnx_workbench.model.simplify.pass_list import default_passes
    from onnx_workbench.model.simplify.passes import SimplifyOptions
    from onnx_workbench.model.simplify.pipeline import chosen_passes

    wanted = {p.id for p in default_passes()} if only is None else set(texts("only", only))
    skipped, also = set(texts("skip", skip)), texts("also", also)
    try:
        chosen_passes(skipped)
        passes = chosen_passes((wanted | set(also)) - skipped)
    except KeyError as error:
        raise ModelError(f"There is no pass {error.args[0]!r}", "See onnx-workbench simplify --help.") from None
    if rules is not None:
        passes = (*passes, *(rule.as_pass() for rule in _rules(rules, progress)))
    options = SimplifyOptions(tensor_limit=tensor_limit, growth_limit=growth_limit)
    document = as_document(model)
    return _run_passes(document, passes, options, nodes_of(nodes, document.model), checks, progress)


def _run_passes(
    document: Document,
    passes: Sequence[Pass],
    options: SimplifyOptions,
    nodes: Collection[Node] | None,
    checks: int,
    progress: Progress,
    title: str = "",
) -> Simplified:
    """Run passes on a copy, compare it, and apply what they did unless outputs differ."""
    from onnx_workbench.exec.inspect.self_check import require_defined
    from onnx_workbench.exec.transform.simplify import Simplification
    from onnx_workbench.model.history.working_copy import WorkingCopy

    if checks:
        require_defined(document.model)
    work = Simplification(WorkingCopy(document.model, progress))
    options = replace(options, nodes=None if nodes is None else work.copy.copies(nodes))
    outcome = work.run(passes, options=options, checks=checks, title=title, progress=progress)
    is_applied = outcome.agreement.agrees is not False
    if is_applied:
        outcome.apply(document)
    return Simplified(outcome.report, outcome.agreement, is_applied)


@dataclass(frozen=True, slots=True)
class FoundPattern:
    """The places of a pattern: the nodes of each, in the order of the pattern's nodes.

    No two share a node; `overlapping` counts the places that were left out because they do.
    """

    places: list[tuple[Node, ...]]
    overlapping: int


def find(
    model: Model | Document | StrPath | bytes, pattern: StrPath | bytes, *, progress: Progress = SILENT
) -> dict[str, FoundPattern]:
    """Find the places where a model computes what a pattern does, for each pattern of a file, by its name.

    `pattern` is a path or the text itself as bytes: functions in ONNX text named ``pattern``, each in a domain of its
    own, which names it. Inputs stand for any values, constants must be equal, and so must attributes, where one that is
    left out is the default; ``alpha: float = @alpha`` is any. Subgraphs and functions of the model are searched too.

    ModelError: the text is not valid, or a pattern cannot be searched for.

    >>> import onnx_workbench as ow
    >>> text = '''<domain: "active", opset_import: ["" : 18]> pattern (x, w) => (y) { a = Conv (x, w) y = Relu (a) }'''
    >>> len(ow.find(ow.load(sample), text.encode())["active"].places)
    0
    """
    from onnx_workbench.model.analysis.value_types import declared_type
    from onnx_workbench.model.inference.infer import infer as infer_types
    from onnx_workbench.model.simplify.pattern_matching import find as search
    from onnx_workbench.model.simplify.pattern_rules import patterns_in

    patterns = patterns_in(_text_of(pattern), progress)
    read = model_of(model)
    is_typed = any(one.is_typed for one in patterns.values())
    type_of = infer_types(read, progress=progress).type_of if is_typed else declared_type
    found = {name: search(one, read, type_of, progress=progress) for name, one in patterns.items()}
    return {
        name: FoundPattern([place.of(patterns[name]) for place in places], overlapping)
        for name, (places, overlapping) in found.items()
    }


def rewrite(
    model: Model | Document,
    rules: StrPath | bytes,
    *,
    nodes: Collection[Node] | None = None,
    checks: int = 3,
    progress: Progress = SILENT,
) -> Simplified:
    """Replace every place where a model computes what the pattern of a rule does by its replacement.

    `rules` is a path or the text itself as bytes: for each rule two functions in ONNX text of one domain, which names
    it, ``pattern`` and ``replacement``, with the same inputs, outputs and attributes. See `find` for what a pattern
    means. Rules are applied in their order, and again while they find something; none to what it made itself, unless it
    makes the model smaller. Everything else is as for `simplify`: `checks`, `nodes` and the result.

    ModelError: the text is not valid, or a rule cannot be applied; with `checks`, a value is defined by nothing.

    >>> import onnx_workbench as ow
    >>> text = '''
    ... <domain: "twice", opset_import: ["" : 18]> pattern (x) => (y) { a = Relu (x) y = Relu (a) }
    ... <domain: "twice", opset_import: ["" : 18]> replacement (x) => (y) { y = Relu (x) }'''
    >>> ow.rewrite(ow.load(sample), text.encode()).report.applied
    {}
    """
    from onnx_workbench.model.simplify.passes import SimplifyOptions

    passes = [rule.as_pass() for rule in _rules(rules, progress)]
    return _run_passes(as_document(model), passes, SimplifyOptions(), nodes, checks, progress, "Rewrite by rules")


def _rules(source: StrPath | bytes, progress: Progress) -> list[Rule]:
    from onnx_workbench.model.simplify.pass_list import all_passes
    from onnx_workbench.model.simplify.pattern_rules import rules_in

    rules = rules_in(_text_of(source), progress)
    taken = {one.id for one in all_passes()}
    for rule in rules:
        if rule.name in taken:
            raise ModelError(f"The rule {rule.name} is not valid", "There is a pass of this name; choose another.")
    return rules


def _text_of(source: StrPath | bytes) -> bytes:
    """The bytes of a file of rules, or these bytes themselves; no more than rules may have."""
    from onnx_workbench.model.simplify.pattern_rules import LONGEST

    if isinstance(source, (bytes, bytearray)):
        return bytes(source)
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"{source!r:.200} is no file of rules; expected a path, or the text as bytes")
    try:
        with Path(source).open("rb") as file:
            return file.read(LONGEST + 1)
    except OSError as error:
        raise ModelError(f"{Path(source).name} cannot be read", error.strerror or str(error)) from error


@dataclass(frozen=True, slots=True)
class Converted:
    """What a conversion changed, one report for each, and whether outputs agree with those before.

    `is_applied` is false where outputs differ though they should not: the model is as it was then. `is_changed`:
    anything is other than it was; `is_comparable`: something that is computed is. `nodes` are those that it was limited
    to with what became of them; None for whole models. `kept`: what stays in float32 to reach a ratio.
    """

    reports: tuple[ConversionReport, ...]
    agreement: Equivalence
    is_applied: bool
    is_changed: bool
    is_comparable: bool
    nodes: frozenset[Node] | None = None
    kept: tuple[str, ...] = ()


def convert(
    model: Model | Document,
    *,
    opset: int | None = None,
    precision: Literal["float32", "float16", "bfloat16"] | None = None,
    keep: Sequence[str] = (),
    freeze: Mapping[str, int] | None = None,
    free: Sequence[str] = (),
    functions: Literal["inline", "extract"] | None = None,
    strip: Sequence[Literal["doc", "metadata", "traces", "producer", "types", "inputs"]] = (),
    rename: Sequence[Literal["nodes", "unnamed", "initializers", "values"]] = (),
    sort: bool = False,
    ir_version: int | None = None,
    nodes: Collection[Node] | None = None,
    reach: float | None = None,
    checks: int = 3,
    progress: Progress = SILENT,
) -> Converted:
    """Convert the operator set, the precision, dimensions, functions or names of a model; all that is asked for.

    - `opset`: the version of ai.onnx to convert to.
    - `precision` of weights and computing; `keep`: operators, or patterns of node names, that stay as they are, and
      "inputs-outputs" for those; `reach`: keep as few more nodes in float32 as it takes for all outputs to have this
      ratio of signal to noise in decibels on random inputs, those that cost most alone.
    - `freeze`: numbers for named dimensions; `free`: names for dimensions of inputs, as "batch" for the first one of
      all, or "x:2=width" for one.
    - `functions`: "inline" all calls, or "extract" blocks that repeat.
    - `strip`: take away documentation, metadata, traces of Python code, producer, declared types, or unused inputs.
    - `rename`: give these new names; `sort`: bring nodes into topological order; `ir_version`: the one to declare.

    With `nodes`, these alone, and casts beside them that have no effect in the new precision go. Where results may
    change, outputs are compared with those before on `checks` random inputs as in `simplify`; where they differ, other
    than by the precision asked for, the model stays as it was and `is_applied` is false. Returns what
    changed. ModelError: something cannot be converted, or with `checks`, the model uses a value that nothing defines;
    it stays as it was.

    >>> import onnx_workbench as ow
    >>> model = ow.load(sample)
    >>> ow.convert(model, opset=21, freeze={"batch": 1}).is_applied
    True
    >>> model.opset_imports[""], str(model.graph.inputs[0].type)
    (21, 'uint8[1,1,28,28]')
    """
    from onnx_workbench.exec.inspect.self_check import require_defined
    from onnx_workbench.exec.transform.convert import RENAMED, ConvertOptions, attempt
    from onnx_workbench.exec.transform.mixed_precision import kept_to_reach
    from onnx_workbench.model.convert import PRECISIONS
    from onnx_workbench.model.history.working_copy import WorkingCopy

    document = as_document(model)
    nodes = nodes_of(nodes, document.model)
    known("precision", [] if precision is None else [precision], PRECISIONS)
    known("functions", [] if functions is None else [functions], ("inline", "extract"))
    options = ConvertOptions(
        opset=opset, precision=precision, keep=texts("keep", keep),
        freeze=[f"{name}={size}" for name, size in (freeze or {}).items()], free=texts("free", free),
        functions=functions, strip=texts("strip", strip), rename=known("rename", rename, RENAMED), sort=sort,
        ir_version=ir_version,
    )  # fmt: skip
    kept = [] if reach is None else kept_to_reach(document.model, options, reach, progress)
    options = replace(options, keep=[*options.keep, *kept])
    trial = attempt(WorkingCopy(document.model, progress), options, progress, nodes)
    if checks and trial.before is not None:
        require_defined(document.model)
    agreement = trial.compare(runs=checks, progress=progress)
    is_applied = not trial.is_refused_by(agreement)
    if is_applied:
        with document.edit("Convert") as edit:
            edit.repeat(trial.steps)
    is_comparable = trial.before is not None
    return Converted(
        tuple(trial.reports), agreement, is_applied, bool(trial.steps), is_comparable, trial.nodes, tuple(kept)
    )


def quantize(
    model: Model | Document,
    *,
    method: Literal["static", "dynamic", "weights"] = "static",
    type: str | None = None,
    inputs: StrPath | Sequence[Mapping[str, RuntimeValue]] | None = None,
    calibration: Literal["minmax", "percentile", "entropy", "mse"] = "minmax",
    percentile: float = 99.999,
    per_channel: bool = True,
    symmetric: bool | None = None,
    block_size: int = 32,
    keep: Sequence[str] = (),
    preset: Literal["any", "onnxruntime", "tensorrt", "qnn"] = "any",
    reach: float | None = None,
    alone: bool = False,
    compensate: bool = False,
    image: ImageOptions | None = None,
    progress: Progress = SILENT,
) -> QuantizationReport:
    """Quantize a model to integers or float8, and measure the loss of its outputs and of every layer.

    - `method`: "static" inserts QuantizeLinear and DequantizeLinear with ranges that calibration finds; "dynamic" finds
      ranges when the model runs; "weights" quantizes weights alone.
    - `type`: of activations for static (int8, uint8, int16, uint16, float8e4m3), else of weights (int8, int4, int2, the
      latter two in blocks of `block_size`, for matrices). None is what the `preset`, a target, prefers.
    - `inputs`: a file or folder of inputs (.npz, .json, pictures with the options `image`, test_data_set folders), or
      arrays by name for each run. Static needs them; for others the loss is measured on random inputs without them.
      One of four is kept aside to measure the loss.
    - `calibration`: how a range is chosen from the values that occur; `percentile` of them for that. `per_channel`: a
      scale for each output channel of weights; `symmetric`: zero points are 0, of weights for the method "weights",
      else of activations; None is what the preset prefers.
    - `keep`: operators or patterns of node names that stay in float; `reach`: keep as few more as it takes for all
      outputs to have this signal-to-noise ratio in decibels; `alone`: measure what each layer costs alone.
    - `compensate`: choose the numbers of weights of matrices so that their errors make up for each other on the inputs
      (GPTQ), for the method "weights".

    The model stays as it was where `refused` of the result says why it cannot be used. Layers of the result that are
    `kept` say why. Uses ONNX Runtime where it is installed, in a process of its own. Cost: several runs of the model,
    and with `reach` or `alone` some for each layer. ModelError: inputs are missing, empty, constant, not finite
    or do not fit; an option does not exist; nothing can be quantized.

    >>> import onnx_workbench as ow
    >>> report = ow.quantize(ow.load(sample), method="weights")
    >>> report.after < report.before / 2, report.snr > 30
    (True, True)
    """
    from onnx_workbench.exec.transform.quantization.calibration import samples_of, split
    from onnx_workbench.exec.transform.quantization.plan import QuantizeOptions
    from onnx_workbench.exec.transform.quantization.quantize import Quantization
    from onnx_workbench.model.history.working_copy import WorkingCopy

    document = as_document(model)
    options = QuantizeOptions(
        method=method, type=type, calibration=calibration, percentile=percentile, per_channel=per_channel,
        symmetric=symmetric, block_size=block_size, keep=texts("keep", keep), preset=preset,
        compensate=compensate,
    )  # fmt: skip
    if inputs is None and (method == "static" or compensate):
        what = "Compensation of errors comes" if compensate else "Ranges of static quantization come"
        raise ModelError(
            "Inputs are missing", f"{what} from runs on typical inputs: pass some as inputs, or with --inputs."
        )
    source = Path(os.fspath(inputs)) if isinstance(inputs, (str, os.PathLike)) else inputs
    work = Quantization(
        WorkingCopy(document.model, progress), options, split(samples_of(source, document.model.graph, image))
    )
    report = work.run(reach=reach, alone=alone, progress=progress)
    if not report.refused:
        with document.edit("Quantize") as edit:
            edit.repeat(work.copy.steps())
    return report
