"""Two models or runs side by side, and what a model amounts to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_workbench.api.files import StrPath, model_of
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from onnx_workbench.exec.inspect.compare import ComparedValue, ValueDifference
    from onnx_workbench.exec.results.run_result import RunResult
    from onnx_workbench.exec.results.slot_map import ValueKey
    from onnx_workbench.exec.values.arrays import RuntimeValue
    from onnx_workbench.model.analysis.statistics import ModelStatistics
    from onnx_workbench.model.diff.compare import Comparison
    from onnx_workbench.model.history.document import Document


def diff(
    old: Model | Document, new: Model | Document, *, weights: bool = True, progress: Progress = SILENT
) -> Comparison:
    """Find in what a `new` model differs from an `old` one: nodes, attributes, types, descriptions, and weights.

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
