"""The functions of the Python API, which are also what the commands of the command line do.

What works on a model takes a Model or a Document; changes to a Document become entries of its history. Models are used
from one thread at a time. Every function that may take long has a `progress`, which also cancels.
"""

from __future__ import annotations

import copyreg
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from onnx_workbench.arguments import as_document, known, nodes_of, texts
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from onnx_workbench.exec.inputs.images import ImageOptions
    from onnx_workbench.exec.inspect.compare import ComparedValue, ValueDifference
    from onnx_workbench.exec.inspect.equivalence import Equivalence
    from onnx_workbench.exec.results.run_result import RunResult
    from onnx_workbench.exec.results.slot_map import ValueKey
    from onnx_workbench.exec.transform.quantization.quantize import QuantizationReport
    from onnx_workbench.exec.transform.reduce import Reduction
    from onnx_workbench.exec.values.arrays import RuntimeValue
    from onnx_workbench.model.analysis.statistics import ModelStatistics
    from onnx_workbench.model.checks.problem import Problem
    from onnx_workbench.model.convert.report import ConversionReport
    from onnx_workbench.model.diff.compare import Comparison
    from onnx_workbench.model.history.document import Document
    from onnx_workbench.model.inference.infer import InferredTypes
    from onnx_workbench.model.io.writer.save import Saved
    from onnx_workbench.model.ir.tensors import Tensor
    from onnx_workbench.model.simplify.passes import Pass, SimplifyOptions
    from onnx_workbench.model.simplify.pattern_rules import Rule
    from onnx_workbench.model.simplify.pipeline import SimplifyReport

StrPath = str | os.PathLike[str]
#: Where a save puts the values of tensors.
External = Literal["keep", "inline", "one-file", "file-per-tensor"]


def load(source: StrPath | bytes | BinaryIO, *, salvage: bool = False, progress: Progress = SILENT) -> Model:
    """Open a model: any form of ONNX, from a path (``-`` is standard input), bytes or a binary stream.

    Weights stay in the file until they are used, so the cost is that of nodes and values: about a second for 100,000.
    Broken rules do not keep a file from opening: they are in `Model.source.problems`, and `check` tells them.

    ModelError: not ONNX, or damaged, with byte and field. A file that ends early is refused unless `salvage` is true;
    then what is left of it is opened, and `Model.source.truncation` says what is missing.

    >>> import onnx_workbench as ow
    >>> model = ow.load(sample)
    >>> model.opset_imports
    {'': 18, 'sample.images': 1}
    """
    from onnx_workbench.model.io.reader.any_source import read_source

    return read_source(source, salvage=salvage, progress=progress)


def save(
    model: Model | Document,
    path: StrPath,
    *,
    external: External = "keep",
    threshold: int = 1024,
    tensors: Collection[Tensor] | None = None,
    progress: Progress = SILENT,
) -> Saved:
    """Write a model to a file, atomically: the old file stays as it was until the new one is whole.

    The extension says in which form: .onnx, .onnxtxt, .textproto, .pbtxt or .json; other names are binary. `external`
    says where the values of tensors go, of at least `threshold` bytes: each where it was ("keep"), all into the model
    ("inline"), or into one or many data files beside it ("one-file", "file-per-tensor"); with `tensors`, those alone.
    A model that was not changed is written byte by byte as it was. Cost: copying the file.

    Returns what was written, with warnings. ModelError: the file cannot be written, the form cannot hold the model, or
    the target is a file that the model reads its values from.

    >>> import onnx_workbench as ow
    >>> saved = ow.save(ow.load(sample), folder / "copy.onnxtxt")
    >>> saved.path.name, saved.warnings
    ('copy.onnxtxt', ())
    """
    from onnx_workbench.model.io.writer.save import save as write
    from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage

    layouts = {
        "keep": DataLayout.KEEP, "inline": DataLayout.INLINE, "one-file": DataLayout.ONE_FILE,
        "file-per-tensor": DataLayout.FILE_PER_TENSOR,
    }  # fmt: skip
    known("external", [external], layouts)
    return write(model_of(model), path, Storage(layouts[external], threshold, tensors), progress=progress)


def check(model: Model | Document, *, infer_types: bool = True, progress: Progress = SILENT) -> list[Problem]:
    """Find every problem of a model: rules of the specification, signatures, types that cannot be. Errors come first.

    A Problem has a `severity` ("error", "warning" or "info"), a `rule`, a `message`, a `detail`, and its `place`: the
    node, value, graph, function or model. `infer_types` false goes by declared types alone, which takes a tenth of
    the time. A model without a problem gives an empty list.

    >>> import onnx_workbench as ow
    >>> model = ow.load(sample)
    >>> softmax = next(node for node in model.graph.nodes if node.op_type == "Softmax")
    >>> with ow.Document(model).edit("Break it") as edit:
    ...     ow.edits.disconnect(edit, softmax, 0)
    >>> problem = ow.check(model)[0]
    >>> problem.severity, problem.place is softmax
    ('error', True)
    """
    from onnx_workbench.model.checks.models import check_model
    from onnx_workbench.model.checks.problem import Problem, errors_first

    model = model_of(model)
    problems: list[Problem] = []
    if model.source is not None:
        for text in model.source.problems:
            is_lost = text == model.source.truncation
            problems.append(Problem("reading", "error" if is_lost else "warning", text, model))
    problems += check_model(model)
    if infer_types:
        problems += _inferred_problems(model, problems, progress)
    return errors_first(problems)


def _inferred_problems(model: Model, known: Sequence[Problem], progress: Progress) -> Iterable[Problem]:
    """Problems that show once types are inferred, beside those known already."""
    from onnx_workbench.model.checks.inferred import beside, check_inferred, is_other_kind
    from onnx_workbench.model.checks.problem import error, warning
    from onnx_workbench.model.inference.infer import disagreements
    from onnx_workbench.model.inference.infer import infer as infer_types
    from onnx_workbench.model.text.formatting import type_text

    inferred = infer_types(model, progress=progress)
    yield from beside(known, check_inferred(inferred))
    for value, declared, found in disagreements(model, inferred):
        make = error if is_other_kind(declared, found) else warning
        message = f"{value.name} is declared {type_text(declared)}"
        yield make("declared-type", message, value, f"Inferred from its inputs: {type_text(found)}.")


def infer(
    model: Model | Document,
    *,
    rules: Mapping[str, str] | None = None,
    nodes: Collection[Node] | None = None,
    write: bool = True,
    progress: Progress = SILENT,
) -> InferredTypes:
    """Infer types and shapes of all values, and declare them in the model unless `write` is false.

    `rules` tells the types of operators that nobody knows: ``{"my.domain::Quant": "same as input 0"}``. With `nodes`,
    only types of what these make are declared. Takes about half a second for 10,000 nodes.

    Returns the types by Value (`types`), what nodes cannot work on (`misfits`), and how many declarations were
    `written`. ModelError: a rule says nothing.

    >>> import onnx_workbench as ow
    >>> model = ow.load(sample)
    >>> inferred = ow.infer(model)
    >>> str(inferred.types[model.graph.outputs[0]])
    'float[batch,10]'
    """
    from onnx_workbench.model.analysis.node_subset import part_of
    from onnx_workbench.model.edits.declare_types import declare_all
    from onnx_workbench.model.inference.custom_rules import rule_of_text
    from onnx_workbench.model.inference.infer import infer as infer_types

    for operator, rule in (rules or {}).items():
        if "::" not in operator or rule_of_text(rule) is None:
            raise ModelError(f"'{operator}={rule}' is not a rule", 'Write it as "my.domain::Operator=same as input 0".')
    document = as_document(model)
    nodes = nodes_of(nodes, document.model)
    inferred = infer_types(document.model, rules, progress)
    if not write:
        return inferred
    with document.edit("Write inferred types") as edit:
        written = declare_all(edit, inferred, None if nodes is None else part_of(nodes), progress)
    return replace(inferred, written=written)


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
    strip: Sequence[Literal["doc", "metadata", "producer", "types", "inputs"]] = (),
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
    - `strip`: take away documentation, metadata, producer, declared types, or unused inputs.
    - `rename`: give these new names; `sort`: bring nodes into topological order; `ir_version`: the one to declare.

    With `nodes`, these alone. Where results may change, outputs are compared with those before on `checks` random
    inputs as in `simplify`; where they differ, other than by the precision asked for, the model stays as it was and
    `is_applied` is false. Returns what changed. ModelError: something cannot be converted, or with `checks`, the model
    uses a value that nothing defines; it stays as it was.

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
        raise ModelError("Inputs are missing", f"{what} from runs on typical inputs.")
    source = Path(os.fspath(inputs)) if isinstance(inputs, (str, os.PathLike)) else inputs
    work = Quantization(
        WorkingCopy(document.model, progress), options, split(samples_of(source, document.model.graph, image))
    )
    report = work.run(reach=reach, alone=alone, progress=progress)
    if not report.refused:
        with document.edit("Quantize") as edit:
            edit.repeat(work.copy.steps())
    return report


def extract(
    model: Model | Document,
    *,
    outputs: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    nodes: Sequence[str] | None = None,
    graph: str = "",
    checks: int = 1,
    progress: Progress = SILENT,
) -> Model:
    """Make a model of a part of another: what computes `outputs` from `inputs`, or some `nodes`, all by name.

    Without `inputs`, those of the graph that are needed stay its inputs. `graph` is a body or function by its name.
    The model that it comes from is not changed. On so many random inputs of it (`checks`) the part is compared with
    it, which takes most of the time; weights are read for that alone.

    ModelError: no such name; something that is needed is not among the inputs; it is not clear what is meant; the type
    or shape of an input or output is not known; or the part does not compute what the model does.

    >>> import onnx_workbench as ow
    >>> model = ow.load(sample)
    >>> part = ow.extract(model, outputs=[model.graph.nodes.first.outputs[0].name])
    >>> len(part.graph.nodes)
    1
    """
    from onnx_workbench.exec.inspect.self_check import require_agreement
    from onnx_workbench.exec.transform.extract import check_part, cut_parts
    from onnx_workbench.model.analysis.by_name import graph_named, named_in, nodes_named, values_named
    from onnx_workbench.model.analysis.scoping import visible_values
    from onnx_workbench.model.edits.extract import cut_between, cut_selection

    if (nodes is None) == (outputs is None):
        raise ModelError("It is not clear what to extract", "Give outputs, with inputs if you like, or nodes.")
    if nodes is not None and inputs is not None:
        raise ModelError("Nodes bring their inputs", "Leave inputs out, or give outputs instead of nodes.")
    for argument, names in (("outputs", outputs), ("inputs", inputs), ("nodes", nodes)):
        texts(argument, names or ())
    model = model_of(model)
    root = graph_named(model, graph)
    if nodes is not None:
        cut = cut_selection(nodes_named(root.nodes, nodes))
    else:
        if inputs is None:
            given = [*root.inputs, *_taken_from_around(root)]
        else:
            given = named_in(visible_values(root), inputs, "value")
        cut = cut_between(root, given, values_named(root, outputs or ()))
    (part,) = cut_parts(model, [cut], progress=progress)
    require_agreement(check_part(model, part, root, runs=checks, progress=progress))
    return part


def reduce(
    model: Model | Document,
    until: str | Callable[[Model, Mapping[str, RuntimeValue]], bool],
    *,
    inputs: Mapping[str, RuntimeValue] | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    small_weights: bool = False,
    neutral_names: bool = False,
    progress: Progress = SILENT,
) -> Reduction:
    """Find the smallest part of a model that still fails, to debug or report it.

    `until` is the failure: "nonfinite", where NaN or infinities begin; "fails", a node fails in the program's executor;
    "differs-from-ort", a value differs from ONNX Runtime's; a command with ``{}`` in place of the model's file, which
    fails with another exit status than 0 (without a shell; the inputs are in inputs.npz beside the file); or a function
    of a model and its inputs. Inputs that `inputs` lacks are random, with `seed`. Each trial ends after `time_limit`
    seconds. `rtol` and `atol` are the tolerance of "differs-from-ort", by default that of the element type. The model
    is not changed.

    With `small_weights`, weights of the part become constants of one number wherever it still fails in the same way,
    and with `neutral_names` nodes, values and sizes are numbered and texts and metadata left out.

    Returns the part, which no node can be removed from, and its inputs: the values of the whole model's run. Nodes of
    subgraphs and functions are cut out of these if they fail by themselves.
    ModelError: the model does not fail, or not each time, or the command cannot be run.

    >>> import onnx_workbench as ow
    >>> import numpy as np
    >>> model = ow.load(sample)
    >>> image = np.zeros((1, 1, 28, 28), np.uint8)
    >>> has_softmax = lambda part, _: any(node.op_type == "Softmax" for node in part.graph.nodes)
    >>> reduced = ow.reduce(model, has_softmax, inputs={"image": image})
    >>> len(reduced.model.graph.nodes)
    1
    """
    from onnx_workbench.exec.inputs.sources import make_feeds
    from onnx_workbench.exec.transform.reduce import ReduceOptions, failing, reduce_model

    whole = model_of(model)
    feeds = make_feeds(whole.graph, given=inputs, seed=seed, progress=progress)
    options = ReduceOptions(seed, time_limit, rtol, atol, small_weights, neutral_names)
    if isinstance(until, str):
        return reduce_model(whole, feeds, failing(until, options), options, progress)
    asked = until
    return reduce_model(
        whole, feeds, lambda part, given, _: "the test is true" if asked(part, given) else "", options, progress
    )


def split(
    model: Model | Document, at: Sequence[str], *, graph: str = "", checks: int = 1, progress: Progress = SILENT
) -> tuple[Model, Model]:
    """Split a model in two at values, by name: the first computes them, the second goes on from there.

    What else is computed before and used behind is passed on too; inputs that nothing uses are in the first. Merged
    again, they compute what the model did. With `checks`, the parts are compared with the model
    on so many random inputs, as `extract` does.

    ModelError: no such value or graph, a cut that leaves nothing on one side, types that are not known, or a part that
    does not compute what the model does.

    >>> import onnx_workbench as ow
    >>> model = ow.load(sample)
    >>> first, second = ow.split(model, at=[model.graph.nodes.first.outputs[0].name])
    >>> [value.name for value in first.graph.outputs] == [value.name for value in second.graph.inputs]
    True
    """
    from onnx_workbench.exec.inspect.self_check import require_agreement
    from onnx_workbench.exec.transform.extract import check_part, cut_parts
    from onnx_workbench.model.analysis.by_name import graph_named, values_named
    from onnx_workbench.model.edits.extract import cut_in_two

    model = model_of(model)
    root = graph_named(model, graph)
    cuts = cut_in_two(root, values_named(root, texts("at", at)))
    first, second = cut_parts(model, cuts, progress=progress)
    for part in (first, second):
        require_agreement(check_part(model, part, root, runs=checks, progress=progress))
    return first, second


@dataclass(frozen=True, slots=True)
class Merged:
    """The nodes that were added, and what had to be changed of the other model for that."""

    nodes: tuple[Node, ...]
    report: ConversionReport


def merge(
    model: Model | Document,
    other: Model | Document,
    *,
    connect: Mapping[str, str] | None = None,
    prefix: str = "",
    keep_outputs: bool = True,
    cast: bool = False,
    progress: Progress = SILENT,
) -> Merged:
    """Add another model to a model: its inputs are fed by values here, its outputs become outputs.

    `connect` maps names of its inputs to names of values here; without it, those of equal names whose types fit are
    connected. Types must fit; with `cast`, a Cast converts elements of another type. Inputs that nothing feeds become
    inputs. Names that clash get `prefix`, or a number. Where the models
    import other operator sets, `other` is converted (that model is changed). Without `keep_outputs`, outputs that feed
    the other model are no outputs any more.

    ModelError: no such name, types that do not fit, or the other model cannot be converted.

    >>> import onnx_workbench as ow
    >>> model = ow.load(sample)
    >>> first, second = ow.split(model, at=[model.graph.nodes.first.outputs[0].name])
    >>> merged = ow.merge(first, second, keep_outputs=False)
    >>> len(first.graph.nodes) == len(model.graph.nodes)
    True
    """
    from onnx_workbench.model.analysis.by_name import values_named
    from onnx_workbench.model.convert.align_for_merge import align, clashing_functions
    from onnx_workbench.model.convert.merge_types import casts_between, insert_casts
    from onnx_workbench.model.edits.copy_paste import merge as merge_into

    document, part = as_document(model), as_document(other)
    graph = document.model.graph
    report = align(part, document.model.opset_imports, clashing_functions(document.model, part.model), progress)
    links = _same_names(graph, part.model.graph) if connect is None else dict(connect)
    values_named(graph, [*links.values()])  # tells names that are like one that is missing
    casts = casts_between(graph, part.model.graph, links, progress)
    if casts and not cast:
        raise ModelError(*casts[0].problem)
    with document.edit("Merge") as edit:
        links |= insert_casts(edit, graph, casts)
        nodes = merge_into(edit, graph, part.model, links, prefix=prefix, keep_outputs=keep_outputs, progress=progress)
    return Merged(tuple(nodes), report)


def diff(
    old: Model | Document, new: Model | Document, *, weights: bool = True, progress: Progress = SILENT
) -> Comparison:
    """Find in what a `new` model differs from an `old` one: nodes, attributes, types, texts, and weights.

    Nodes and values are matched by what they compute, so that renamed and moved ones are told as that. `weights` false
    compares constants by type and shape alone. Cost: nodes and edges, and reading weights that are not known to be
    the same part of the same file.

    Returns the `differences`, each with `kind`, `place`, `aspect`, `before` and `after`; it is false for equal models.

    >>> import onnx_workbench as ow
    >>> model = ow.load(sample)
    >>> bool(ow.diff(model, ow.load(sample)))
    False
    >>> with ow.Document(model).edit("Rename the graph") as edit:
    ...     ow.edits.set_text(edit, model.graph, "name", "other")
    >>> [(d.kind, d.aspect, d.after) for d in ow.diff(ow.load(sample), model).differences]
    [('renamed', 'name', 'other')]
    """
    from onnx_workbench.model.diff.compare import compare as compare_structure

    return compare_structure(model_of(old), model_of(new), progress, weights=weights)


def statistics(
    model: Model | Document, *, sizes: Mapping[str, int] | None = None, progress: Progress = SILENT
) -> ModelStatistics:
    """Count parameters, multiply-adds and sizes of activations: of each node, by operator, by scope, in all.

    `sizes` are numbers for named dimensions; without them amounts are formulas in these names. What is not known is
    counted as unknown instead of as nothing. Types are inferred; no weights are read.

    >>> import onnx_workbench as ow
    >>> total = ow.statistics(ow.load(sample), sizes={"batch": 1}).total()
    >>> total.parameters, total.macs > 100_000
    (5602, True)
    """
    from onnx_workbench.model.analysis.statistics import statistics as count
    from onnx_workbench.model.inference.infer import infer as infer_types

    model = model_of(model)
    return count(model, infer_types(model, progress=progress).type_of, sizes, progress)


@dataclass(frozen=True, slots=True, repr=False)
class NumericComparison:
    """Values of a run beside a reference, in run order, each with the `tolerance` that it was held to.

    `missing` says why values could not be compared: outputs of the reference that the run does not have, failures.
    `operators` are the nodes that computed the values, as operator and name, by the `key` of the value. `local` is what
    each quantized layer loses by itself, by the name of its result in the float model.
    """

    values: tuple[ComparedValue, ...]
    missing: tuple[str, ...] = ()
    operators: Mapping[ValueKey, tuple[str, str]] = field(default_factory=dict)
    local: Mapping[str, ValueDifference] = field(default_factory=dict)

    def __repr__(self) -> str:
        apart = sum(not value.is_close for value in self.values)
        return f"<NumericComparison of {len(self.values)} values, {apart} not close, {len(self.missing)} missing>"

    @property
    def first_divergence(self) -> ComparedValue | None:
        """The first value, in run order, that is not close to the reference."""
        return next((value for value in self.values if not value.is_close), None)

    @property
    def agrees(self) -> bool:
        """Whether there was something to compare, nothing is missing, and all values are close."""
        return bool(self.values) and not self.missing and self.first_divergence is None


def compare(
    model: Model | Document,
    reference: Model | Document | StrPath | Mapping[str, RuntimeValue],
    *,
    inputs: Mapping[str, RuntimeValue] | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    local: bool = False,
    time_limit: float | None = None,
    progress: Progress = SILENT,
) -> NumericComparison:
    """Run a model and compare its values with a reference: another model, an .npz file, arrays by name, or "ort".

    Models get the same inputs, random ones with `seed` where `inputs` has none; where the `reference` is a file or
    arrays, those that are called as inputs of the model feed it. "ort" is ONNX Runtime, where it is installed; it runs
    in a process of its own, so a script that uses it needs ``if __name__ == "__main__":``. Values are matched by name,
    also inside functions and bodies; inputs and outputs of other names by position; values of quantized models with
    those that replace them, as X with DequantizeLinear(X); arrays also by shape where that is unambiguous.

    Elements are close within `atol` + `rtol`·|reference|. Where neither is given, the tolerance of each value follows
    from the precision it was computed in, relative to the scale of its tensor. With `local`, a quantized model is run
    once more, each layer on the values of the float model. Runs end after `time_limit` seconds.
    Cost: a run of each model, all of whose values are kept in memory.

    Returns every compared value in run order with its difference; `first_divergence` is where it begins. ModelError:
    an input does not fit, or the file cannot be read.

    >>> import onnx_workbench as ow
    >>> model, other = ow.load(sample), ow.load(sample)
    >>> ow.compare(model, other).agrees
    True
    """
    from onnx_workbench.exec.inputs.sources import make_feeds
    from onnx_workbench.exec.inspect import run_comparison as comparison
    from onnx_workbench.exec.inspect.local_loss import local_losses
    from onnx_workbench.exec.inspect.reference import run_model
    from onnx_workbench.exec.results.run_file import load_run
    from onnx_workbench.exec.session import Session
    from onnx_workbench.model.analysis.quantized_values import is_quantized
    from onnx_workbench.model.history.document import Document

    first = model_of(model)
    losses: Mapping[str, ValueDifference] = {}
    second = model_of(reference) if isinstance(reference, (Model, Document)) else None
    known: dict[tuple[str, ...], RuntimeValue] = {}
    is_run = False
    if isinstance(reference, Mapping):
        known = {(name,): array for name, array in reference.items()}
    elif not isinstance(reference, (Model, Document)) and reference != "ort":
        saved = load_run(Path(os.fspath(reference)), first.graph.values())
        known, is_run = saved.values, saved.is_run
    names = {value.name for value in first.graph.inputs}
    given = {name: array for (name, *inner), array in known.items() if name in names and not inner} | dict(inputs or {})
    feeds = make_feeds(first.graph, given=given, seed=seed)
    result = Session(model).run(feeds, seed=seed, time_limit=time_limit, progress=progress)
    ours = comparison.ModelRun(first, result)
    missing = _missing_outputs(result)
    if second is not None:
        theirs = Session(second).run(
            comparison.feeds_of(first.graph, second.graph, feeds, seed),
            seed=seed, time_limit=time_limit, progress=progress,
        )  # fmt: skip
        missing += [f"in the reference, {text}" for text in _missing_outputs(theirs)]
        other = comparison.ModelRun(second, theirs)
        rows = comparison.compare(result, comparison.values_of_models(ours, other), theirs, progress=progress)
        if local and is_quantized(first.graph) != is_quantized(second.graph):
            precise, layers = (other, first) if is_quantized(first.graph) else (ours, second)
            fed = comparison.feeds_of(first.graph, layers.graph, feeds, seed)
            losses = local_losses(precise, layers, fed, seed=seed, time_limit=time_limit, progress=progress)
        compared = {row.other for row in rows}
        alone = [
            v.name for v in second.graph.outputs if v.name not in compared and v.name not in theirs.missing_outputs
        ]
        missing += [f"{name} is an output of the reference alone" for name in alone]
    elif reference == "ort":
        arrays = run_model(first, feeds, time_limit, progress)
        rows = comparison.compare(result, comparison.values_at(ours, {(name,): a for name, a in arrays.items()}))
    elif is_run:
        others = {at: value for at, value in known.items() if at[0] not in feeds}
        rows = comparison.compare(result, comparison.values_at(ours, others))
    else:
        named = {at[0]: value for at, value in known.items() if at[0] not in feeds}
        rows = comparison.compare(result, comparison.named_arrays(result, named))
    return NumericComparison(
        tuple(comparison.with_tolerance(rows, rtol, atol)), tuple(missing), comparison.operators_of(result), losses
    )


def _missing_outputs(result: RunResult) -> list[str]:
    return [f"{name} is missing: {reason}" for name, reason in result.missing_outputs.items()]


def model_of(target: Model | Document | StrPath | bytes) -> Model:
    """The model itself, that of a document, or one from a path, bytes or an onnx.ModelProto."""
    if isinstance(target, Model):
        return target
    from onnx_workbench.model.io.reader.any_source import as_model

    return as_model(target)


def _pickled(model: Model) -> tuple[Any, ...]:
    """How to copy or pickle a model: as a file in memory, with the weights in it."""
    from onnx_workbench.model.io.writer.save import to_bytes
    from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage

    return load, (to_bytes(model, Storage(DataLayout.INLINE)),)


def _alone(part: Graph | Node | Value) -> str | tuple[Any, ...]:
    """How to copy or pickle a part that is in no model; TypeError for a part of a model."""
    graph = part if isinstance(part, Graph) else part.graph
    if graph is not None and graph.model is not None:
        raise TypeError(f"{part!r:.200} is part of a model; copy or pickle the model, and find the part by name there")
    return object.__reduce_ex__(part, 4)


copyreg.pickle(Model, _pickled)
copyreg.pickle(Graph, _alone)
copyreg.pickle(Node, _alone)
copyreg.pickle(Value, _alone)


def _taken_from_around(graph: Graph) -> list[Value]:
    """What nodes of a body compute with that the graphs around it have, initializers aside."""
    inside = set(graph.walk())
    used = (value for part in inside for node in part.nodes for value in node.inputs if value is not None)
    return list(dict.fromkeys(v for v in used if v.is_defined and v.graph not in inside and v.initializer is None))


def _same_names(graph: Graph, part: Graph) -> dict[str, str]:
    """Inputs of a part and the values of a graph that may feed them: of the same name, and of types that fit."""
    from onnx_workbench.model.analysis.scoping import visible_values
    from onnx_workbench.model.inference.infer import compatible

    here, found = visible_values(graph), {}
    for value in part.inputs:
        source = here.get(value.name)
        if source is None or value.initializer is not None:
            continue
        if source.type is None or value.type is None or compatible(source.type, value.type):
            found[value.name] = value.name
    return found
