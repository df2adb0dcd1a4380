"""Test whether two models are equivalent: run both on the same random inputs and compare outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_workbench.exec.inputs.sources import make_feeds, symbols
from onnx_workbench.exec.inspect.compare import ValueDifference, compare_values, is_close
from onnx_workbench.exec.kernels.context import RuntimeValue
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.session import Session
from onnx_workbench.model.analysis.node_constants import constant_tensor
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Model
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.simplify.context import STOCHASTIC

_RTOL, _ATOL = 1e-3, 1e-5  # tolerance for reordered float arithmetic
#: Sizes of symbolic dimensions after the first run, another one first for each symbol: 1 hides what is broadcast.
_SIZES = (2, 3, 1, 7)
#: Relative output tolerance of models with fewer bits.
_COARSE = {ElementType.FLOAT16: 0.05, ElementType.BFLOAT16: 0.2}


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Result of an equivalence test. `agrees` is None when it could not be made; `reason` then says why.

    `fails`: the second model does not run where the first does.
    """

    agrees: bool | None
    runs: int = 0
    largest_error: float = 0.0
    reason: str = ""
    fails: bool = False

    def __str__(self) -> str:
        if self.agrees is None:
            return f"not compared: {self.reason}"
        if not self.agrees:
            return self.reason if self.fails else f"outputs differ: {self.reason}"
        inputs = "one random input" if self.runs == 1 else f"{self.runs} random inputs"
        return f"outputs agree on {inputs}, largest error {self.largest_error:.2g}"


def compare_models(
    before: Model,
    after: Model,
    *,
    runs: int = 3,
    seed: int = 0,
    feeding: Model | None = None,
    time_limit: float | None = 120.0,
    progress: Progress = SILENT,
) -> Equivalence:
    """Run both on the same random inputs and compare outputs by name. Reads both models: their thread only.

    Inputs are as `feeding` declares them (default `before`), cast for a model of another precision. Symbolic
    dimensions have their usual sizes in the first run and others, different from each other, in the next, where the
    first model runs on them. Outputs declared alike must have the same element type. Non-finite outputs
    are compared elsewhere; the tolerance follows the coarsest weight precision of either model, relative to the output.
    A model that does not run before cannot be compared.
    """
    if any(n.op_type in STOCHASTIC and not n.domain for g in before.graphs() for n in g.nodes):
        return Equivalence(None, reason="the model is random")
    first, second = Session(before), Session(after)
    options: dict[str, Any] = {"values": "outputs", "seed": seed, "time_limit": time_limit, "progress": progress}
    fixed = _of_one_type(before, after)
    worst, tolerance = 0.0, max(map(_tolerance, (before, after)))
    for number in range(runs):
        progress.report(number, runs, "Comparing outputs")
        try:
            feeds, ours = _first_run(first, before, (feeding or before).graph, number, options)
            theirs = second.run(_cast(after, feeds), **options)
        except ModelError as error:
            return Equivalence(None, number, reason=str(error))
        if not ours.ok or ours.stopped:
            return Equivalence(None, number, reason=f"the model does not run on random inputs ({_why(ours)})")
        if not theirs.ok or theirs.stopped:
            reason = f"the model does not run any more ({_why(theirs)})"
            return Equivalence(False, number, reason=reason, fails=not theirs.stopped)
        differs, largest = _compared(ours.outputs, theirs.outputs, tolerance, fixed)
        if differs:
            return Equivalence(False, number, reason=differs)
        worst = max(worst, largest)
    return Equivalence(True, runs, worst)


def _first_run(
    session: Session, model: Model, graph: Graph, number: int, options: Mapping[str, Any]
) -> tuple[Mapping[str, RuntimeValue], RunResult]:
    """Return feeds of one run and the first model's result, of the usual sizes where it does not run on others."""
    seed = options["seed"] + number
    names = list(symbols(graph)) if number else []
    if names:
        sizes = {name: _SIZES[(number + place - 1) % len(_SIZES)] for place, name in enumerate(names)}
        try:
            feeds = make_feeds(graph, seed=seed, sizes=sizes)
            result = session.run(_cast(model, feeds), **options)
        except ModelError:  # such sizes contradict each other
            pass
        else:
            if result.ok and not result.stopped:
                return feeds, result
    feeds = make_feeds(graph, seed=seed)
    return feeds, session.run(_cast(model, feeds), **options)


def _of_one_type(before: Model, after: Model) -> frozenset[str]:
    """Return the outputs that both models declare as tensors of the same element type."""
    declared = [
        {v.name: v.type.element_type for v in model.graph.outputs if isinstance(v.type, TensorType)}
        for model in (before, after)
    ]
    return frozenset(name for name, kind in declared[0].items() if kind and declared[1].get(name) == kind)


def _compared(
    expected: Mapping[str, RuntimeValue],
    found: Mapping[str, RuntimeValue],
    tolerance: float,
    fixed: Collection[str] = (),
) -> tuple[str, float]:
    """Return which output differs, and how, or nothing; and the largest error found."""
    worst = 0.0
    for name, value in expected.items():
        if name not in found:
            return f"output {name} is gone", worst
        types = [v.dtype if isinstance(v, np.ndarray) else None for v in (value, found[name])]
        if name in fixed and types[0] != types[1]:
            return f"output {name} is of type {types[1]}, and was {types[0]}", worst
        own = _in_type_of(found[name], value)
        difference = compare_values(own, value)
        if not is_close(own, value, tolerance, _ATOL + tolerance * _scale(value)):
            return f"output {name} ({_told(difference)})", worst
        worst = max(worst, _error(difference))
    return "", worst


def _why(result: RunResult) -> str:
    """Return why a run did not finish."""
    if result.stopped or result.failures:
        return result.stopped or str(result.failures[0])
    return next((node.because.reason for node in result.nodes if node.because is not None), "a node was not run")


def _tolerance(model: Model) -> float:
    """Return the tolerance for a model's outputs, by the types of its constants, inputs and outputs."""
    held: set[object] = set()
    for graph in model.graphs():
        held.update(v.initializer.element_type for v in graph.initializers if v.initializer is not None)
        tensors = [constant_tensor(node) for node in graph.nodes if node.op_type == "Constant" and not node.domain]
        held.update(tensor.element_type for tensor in tensors if tensor is not None)
        kinds = [value.type for value in (*graph.inputs, *graph.outputs)]
        held.update(kind.element_type for kind in kinds if isinstance(kind, TensorType))
    return max((_COARSE[kind] for kind in held if isinstance(kind, ElementType) and kind in _COARSE), default=_RTOL)


def _cast(model: Model, feeds: Mapping[str, RuntimeValue]) -> dict[str, RuntimeValue]:
    """Cast feeds to the precision of a model's inputs."""
    fitting = dict(feeds)
    for value in model.graph.inputs:
        given, kind = feeds.get(value.name), value.type
        element = kind.element_type if isinstance(kind, TensorType) else None
        if isinstance(given, np.ndarray) and isinstance(element, ElementType) and element.is_float:
            fitting[value.name] = given.astype(element.numpy_dtype, copy=False)
    return fitting


def _in_type_of(found: RuntimeValue, expected: RuntimeValue) -> RuntimeValue:
    """Cast a result to the expected precision, where both are numbers."""
    if not isinstance(found, np.ndarray) or not isinstance(expected, np.ndarray):
        return found
    are_numbers = found.dtype.kind in "fV" and expected.dtype.kind in "fV"
    return found.astype(expected.dtype, copy=False) if are_numbers else found


def _scale(value: object) -> float:
    """Return the magnitude of an output, as errors come from large numbers that cancel."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fc" or not value.size:
        return 0.0
    size = float(np.abs(value).max())
    return size * 1e-1 if np.isfinite(size) else 0.0


def _error(difference: ValueDifference) -> float:
    return difference.max_abs if np.isfinite(difference.max_abs) else 0.0


def _told(difference: ValueDifference) -> str:
    return difference.problem or f"by up to {difference.max_abs:.3g}"
