"""Test whether two models are equivalent: run both on the same random inputs and compare outputs."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnx_workbench.exec.engine.engine import Engine
from onnx_workbench.exec.engine.request import Request, RunOptions
from onnx_workbench.exec.engine.snapshot import SnapshotCache
from onnx_workbench.exec.inputs.feeds import Feeds, in_precision_of, normalise
from onnx_workbench.exec.inputs.recipe import interface_of
from onnx_workbench.exec.inputs.sources import InputSource, Random, make_feeds, settle, symbols
from onnx_workbench.exec.inspect.compare import ValueDifference, compare_values
from onnx_workbench.exec.kernels.threads import allowed_cores
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.worker.shared_memory import SharedMemoryExchange
from onnx_workbench.exec.worker.snapshot_protocol import SnapshotReceiver, SnapshotSender
from onnx_workbench.model import extensions
from onnx_workbench.model.analysis.node_constants import constant_tensor
from onnx_workbench.model.budget import COMPARISON_SECONDS, cache_budget, value_limit
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Model
from onnx_workbench.model.ir.types import ElementType, TensorType, Type
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.sandbox import run_isolated
from onnx_workbench.model.schemas import traits

#: Seconds that a child process may need to start on a busy machine, and the factor by which the second model may be
#: slower than the first before a time-out counts as a difference.
_STARTING, _SLOWER = 30, 10

#: Bytes of the largest value in the child process: a constant, and a multiple of the bytes of the weights.
_LARGEST_VALUE, _OF_WEIGHTS = 256 << 20, 4

#: Memory limit of one run, as a multiple of the largest value.
_TOGETHER = 2

_RANDOM = "the model is random"
_RTOL, _ATOL = 1e-3, 1e-5  # tolerance for reordered float arithmetic
#: Sizes of symbolic dimensions after the first run; symbols begin at different ones. Size 1 hides broadcasting.
_SIZES = (2, 3, 1, 7)
#: Number of symbols that are tried with size 0, one run each.
_MOST_EMPTY = 3
#: Relative output tolerance of models in lower precision.
_COARSE = {ElementType.FLOAT16: 0.05, ElementType.BFLOAT16: 0.2}


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Result of an equivalence test. `agrees` is None if it could not be made, with the `reason`.

    `largest_error` is the largest absolute difference of an output element, `magnitude` the largest element of that
    output, and `snr` the least signal-to-noise ratio of an output, in decibels.

    `fails`: the second model does not run or load although the first does, has another interface, or differs without
    bound: by an infinity or NaN, by a type or shape. `remarks`: what
    was not compared, which other programs accept the model, and differences on empty inputs.
    """

    agrees: bool | None
    runs: int = 0
    largest_error: float = 0.0
    reason: str = ""
    magnitude: float = 0.0
    snr: float = math.inf
    fails: bool = False
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join((self.summary, *self.remarks))

    @property
    def summary(self) -> str:
        """The result without the remarks."""
        if self.agrees is None:
            return f"not compared: {self.reason}"
        if not self.agrees:
            return self.reason if self.fails else f"outputs differ: {self.reason}"
        inputs = "one random input" if self.runs == 1 else f"{self.runs} random inputs"
        if not self.largest_error:
            return f"outputs agree on {inputs}, largest error 0"
        error = f"{self.largest_error:.2g} where values reach {self.magnitude:.3g}"
        return f"outputs agree on {inputs}, largest error {error} (SNR {self.snr:.0f} dB)"


def compare_models(
    before: Model,
    after: Model,
    *,
    runs: int = 3,
    seed: int = 0,
    feeding: Model | None = None,
    time_limit: float = COMPARISON_SECONDS,
    progress: Progress = SILENT,
) -> Equivalence:
    """Run both on the same random inputs and compare outputs by name. Reads both models: their thread only.

    Inputs are as `feeding` declares them (default `before`), cast for a model of another precision. Symbolic dimensions
    have their usual sizes in the first run and other, distinct sizes in the next ones if the first model runs on them;
    afterwards the first few symbols are 0, one at a time, and a difference then is a remark. Outputs that both models
    declare with the same element type must have the same type. Non-finite elements must be the same; the tolerance
    follows the coarsest weight precision of either model, relative to the output. The result is "not compared" if the
    first model does not run, or if it takes longer than `time_limit` seconds in total.
    """
    if _is_random(before):
        return Equivalence(None, reason=_RANDOM)
    comparison = _comparison(before, after, runs, seed, feeding, time_limit, value_limit())
    return _compare(comparison, progress)


def compare_isolated(
    before: Model,
    after: Model,
    *,
    runs: int = 3,
    feeding: Model | None = None,
    is_part: bool = False,
    time_limit: float = COMPARISON_SECONDS,
    progress: Progress = SILENT,
) -> Equivalence:
    """`compare_models` in a child process with limits of memory and time, as models may be untrusted.

    If a limit is exceeded, the result is "not compared" with the reason. Cost: starting a process.
    `is_part`: the inputs and outputs of `after` are values of the main graph of `before`, by name.
    """
    if _is_random(before):
        return Equivalence(None, reason=_RANDOM)
    largest = min(_LARGEST_VALUE + _OF_WEIGHTS * max(map(weights, (before, after))), value_limit())
    comparison = _comparison(before, after, runs, 0, feeding, time_limit, largest)
    if is_part:
        taken = [value.name for value in after.graph.required_inputs]
        computed = [value.name for value in after.graph.outputs]
        comparison = replace(comparison, part=(tuple(taken), tuple(computed)))
    exchange = SharedMemoryExchange.create()
    try:
        messages = [SnapshotSender(exchange).model(side.snapshot) for side in comparison.sides]
        sides = tuple(_Side(message, side.inputs) for side, message in zip(comparison.sides, messages, strict=True))
        progress.report(0, 0, "Comparing outputs")
        reply = run_isolated(
            f"{__name__}:compare_in_child",
            pickle.dumps((exchange.folder, extensions.state(), replace(comparison, sides=sides))),
            what="Comparing the outputs",
            memory=value_limit(),
            seconds=int(time_limit) + _STARTING,
            threads=allowed_cores(),
            progress=progress,
        )
    except ModelError as error:
        return Equivalence(None, reason=f"{error.title}: {error.detail}")
    finally:
        exchange.remove()
    outcome: Equivalence = pickle.loads(reply)  # noqa: S301 - written by the child that we started
    return outcome


def compare_in_child(payload: bytes) -> bytes:
    """The child's side of `compare_isolated`."""
    folder, wanted, comparison = pickle.loads(payload)  # noqa: S301 - written by the process that started this one
    extensions.load_exactly(wanted)
    exchange = SharedMemoryExchange(folder)
    for side in comparison.sides:
        side.snapshot = SnapshotReceiver(exchange).model(side.snapshot)
    return pickle.dumps(_compare(comparison, SILENT))


@dataclass(slots=True)
class _Side:
    """One of the models, as a snapshot, or as a message with it while it is sent to the child process."""

    snapshot: Any
    inputs: Mapping[str, tuple[int, Type | None]]  # number and declared type by name


@dataclass(frozen=True, slots=True)
class _Comparison:
    """What a comparison needs of two models; it can be sent to another process."""

    sides: tuple[_Side, ...]
    graph: Graph  # see `interface_of`
    sources: Mapping[str, InputSource]
    tolerance: float
    fixed: frozenset[str]
    runs: int
    seed: int
    time_limit: float
    max_tensor: int  # bytes of a single value
    part: tuple[tuple[str, ...], tuple[str, ...]] | None = None  # inputs and outputs of the second

    def feeds_of_second(self, feeds: Mapping[str, RuntimeValue], first: RunResult) -> Mapping[str, RuntimeValue]:
        """Return the inputs of the second model, from the inputs and the result of the first."""
        return feeds if self.part is None else {n: feeds[n] if n in feeds else first.values[n] for n in self.part[0]}

    def expected(self, first: RunResult) -> Mapping[str, RuntimeValue]:
        """Return the outputs that the second model should have."""
        return first.outputs if self.part is None else {name: first.values[name] for name in self.part[1]}


def _comparison(
    before: Model,
    after: Model,
    runs: int,
    seed: int,
    feeding: Model | None,
    time_limit: float,
    max_tensor: int,
) -> _Comparison:
    sides = []
    for model in (before, after):
        snapshot = SnapshotCache(model).take()
        sides.append(_Side(snapshot, {v.name: (v.id, v.type) for v in model.graph.inputs}))
    graph = (feeding or before).graph
    sources = {v.name: settle(v, Random()) for v in graph.required_inputs}
    tolerance, fixed = max(map(_tolerance, (before, after))), _of_one_type(before, after)
    return _Comparison(tuple(sides), interface_of(graph), sources, tolerance, fixed, runs, seed, time_limit, max_tensor)


def weights(model: Model) -> int:
    """Return the bytes of all initializers."""
    held = (v.initializer for graph in model.graphs() for v in graph.initializers)
    return sum(tensor.nbytes for tensor in held if tensor is not None)


def _is_random(model: Model) -> bool:
    return any(traits.of(n).is_stochastic for g in model.graphs() for n in g.nodes)


class _Deadline:
    """Runs both models within one time limit."""

    def __init__(self, comparison: _Comparison, progress: Progress) -> None:
        self._comparison, self._progress = comparison, progress
        self._engines = [Engine(min(cache_budget(), comparison.max_tensor // 2)) for _ in comparison.sides]
        self._end = time.monotonic() + comparison.time_limit

    def run(self, number: int, feeds: Mapping[str, RuntimeValue]) -> RunResult:
        """Run one of the models. ModelError if a value does not fit its input."""
        left = self._end - time.monotonic()
        asked, side = self._comparison, self._comparison.sides[number]
        by_number: Feeds = {}
        for name, value in feeds.items():
            if name not in side.inputs:
                raise ModelError("No such input", f"the graph has no input {name!r}")
            key, declared = side.inputs[name]
            by_number[key] = normalise(in_precision_of(declared, value), declared, name)
        part = asked.part if number == 0 else None
        options = RunOptions(
            values=() if part is None else tuple(dict.fromkeys((*part[0], *part[1]))),
            outputs=part is None,
            seed=asked.seed,
            max_tensor=asked.max_tensor,
            memory_limit=_TOGETHER * asked.max_tensor,
            time_limit=max(0.0, left),
        )
        run = self._engines[number].start(Request(side.snapshot, by_number, options), progress=self._progress)
        run.resume()
        return run.result()

    def run_second(self, feeds: Mapping[str, RuntimeValue], first: RunResult) -> RunResult:
        """Run the second model on what the first ran on."""
        return self.run(1, self._comparison.feeds_of_second(feeds, first))


def _compare(comparison: _Comparison, progress: Progress) -> Equivalence:
    both, worst = _Deadline(comparison, progress), _Error()
    remarks: list[str] = []
    has_numbers: dict[str, bool] = {}  # by output: whether some element was a number
    sizes_tried: list[bool] = []  # of each run: whether it used other than the usual sizes
    refused: dict[str, int] = {}  # the other sizes on which the first model did not run, last
    for number in range(comparison.runs):
        progress.report(number, comparison.runs, "Comparing outputs")
        try:
            feeds, ours, is_varied = _first_run(both, comparison, number, progress, refused)
            runs_second = ours.ok and not ours.stopped and not _is_late(ours)
            theirs = both.run_second(feeds, ours) if runs_second else ours
        except ModelError as error:
            return Equivalence(None, number, reason=str(error))
        if _is_late(ours) or (_is_late(theirs) and ours.seconds * _SLOWER > comparison.time_limit):
            late = f"take longer than {comparison.time_limit:g} s"
            if not number:
                return Equivalence(None, number, reason=f"running the models {late.replace('take', 'takes')}")
            remarks.append(f"{comparison.runs - number} of {comparison.runs} runs were left out, as they {late}")
            break
        if not ours.ok or ours.stopped:
            return Equivalence(None, number, reason=f"the model does not run on random inputs ({_why(ours)})")
        if not theirs.ok or theirs.stopped:
            reason = f"the model no longer runs ({_why(theirs)})"
            return Equivalence(False, number, reason=reason, fails=not theirs.stopped)
        expected = comparison.expected(ours)
        differs, found = _compared(expected, theirs.outputs, comparison.tolerance, comparison.fixed)
        if differs and not np.isfinite(found.largest):
            return Equivalence(False, number, reason=f"outputs differ: {differs}", fails=True)
        if differs:
            return Equivalence(False, number, reason=differs)
        worst = worst.and_also(found)
        sizes_tried.append(is_varied)
        for name, value in expected.items():
            has_numbers[name] = has_numbers.get(name, False) or _has_numbers(value)
    remarks += [f"output {name} has no element that is a number" for name, has in has_numbers.items() if not has]
    names = ", ".join(symbols(comparison.graph))
    if names and len(sizes_tried) > 1 and not any(sizes_tried):
        sizes = ", ".join(f"{name} = {size}" for name, size in refused.items())
        remarks.append(f"compared at the default sizes of {names} only: the original does not run at {sizes}")
    elif names:
        remarks += _differences_of_empty_inputs(both, comparison, progress)
    return Equivalence(
        True,
        len(sizes_tried),
        worst.largest,
        magnitude=worst.magnitude,
        snr=worst.snr,
        remarks=tuple(remarks),
    )


def _differences_of_empty_inputs(both: _Deadline, comparison: _Comparison, progress: Progress) -> Iterator[str]:
    """Yield how outputs differ where a symbol is 0, for those with which the first model runs."""
    graph = comparison.graph
    for name in [*symbols(graph)][:_MOST_EMPTY]:
        with suppress(ModelError):  # the first model does not run with size 0
            feeds = make_feeds(graph, sources=comparison.sources, sizes={name: 0}, progress=progress)
            ours = both.run(0, feeds)
            if not ours.ok or ours.stopped:
                continue
            theirs = both.run_second(feeds, ours)
            if not theirs.ok:
                yield f"where {name} is 0, the model no longer runs ({_why(theirs)})"
            elif not theirs.stopped:
                expected = comparison.expected(ours)
                differs, _ = _compared(expected, theirs.outputs, comparison.tolerance, comparison.fixed)
                if differs:
                    yield f"where {name} is 0, {differs}"


@dataclass(frozen=True, slots=True)
class _Error:
    """Largest absolute difference of outputs, the largest element of that output, and the least SNR of one (dB)."""

    largest: float = 0.0
    magnitude: float = 0.0
    snr: float = math.inf

    def and_also(self, other: _Error) -> _Error:
        """Return the error of the outputs of both."""
        worse = max(self, other, key=lambda error: error.largest)
        return _Error(worse.largest, worse.magnitude, min(self.snr, other.snr))


def _has_numbers(value: RuntimeValue) -> bool:
    """Return whether a value has anything to compare: an element other than NaN."""
    if isinstance(value, np.ndarray):
        return bool(value.size) and (value.dtype.kind not in "fc" or not bool(np.isnan(value).all()))
    return value is not None


def _is_late(result: RunResult) -> bool:
    return result.stopped == "time limit"


def _first_run(
    both: _Deadline, comparison: _Comparison, number: int, progress: Progress, refused: dict[str, int]
) -> tuple[Mapping[str, RuntimeValue], RunResult, bool]:
    """Return feeds of one run, the first model's result, and whether sizes are other than the usual ones.

    They are the usual ones in the first of several runs, and where the model does not run on others, which are then
    noted in `refused`.
    """
    graph, sources = comparison.graph, comparison.sources
    seed = comparison.seed + number
    names = list(symbols(graph)) if number or comparison.runs == 1 else []
    if names:
        sizes = {name: _SIZES[(number + index - 1) % len(_SIZES)] for index, name in enumerate(names)}
        try:
            feeds = make_feeds(graph, sources=sources, seed=seed, sizes=sizes, progress=progress)
            result = both.run(0, feeds)
        except ModelError:  # such sizes contradict each other
            pass
        else:
            if (result.ok and not result.stopped) or _is_late(result):
                return feeds, result, True
        refused.update(sizes)
    feeds = make_feeds(graph, sources=sources, seed=seed, progress=progress)
    return feeds, both.run(0, feeds), False


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
) -> tuple[str, _Error]:
    """Return a description of the first output that differs, or an empty one, and the largest error found.

    The error of an output that is missing, has another type or shape, or another infinity or NaN, is infinite.
    """
    worst, unbounded = _Error(), _Error(np.inf)
    for name, value in expected.items():
        if name not in found:
            return f"output {name} is missing", unbounded
        types = [v.dtype if isinstance(v, np.ndarray) else None for v in (value, found[name])]
        if name in fixed and types[0] != types[1]:
            return f"output {name} is of type {types[1]}, and was {types[0]}", unbounded
        own = _in_type_of(found[name], value)
        difference = compare_values(own, value)
        if not difference.within(tolerance, _ATOL + tolerance * _scale(value)):
            error = unbounded if difference.problem else _Error(difference.max_abs)
            return f"output {name} ({_described(difference)})", error
        worst = worst.and_also(_Error(_error(difference), 10 * _scale(value), difference.snr))
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


def _in_type_of(found: RuntimeValue, expected: RuntimeValue) -> RuntimeValue:
    """Cast a result to the expected precision, where both are numbers."""
    if not isinstance(found, np.ndarray) or not isinstance(expected, np.ndarray):
        return found
    are_numbers = found.dtype.kind in "fV" and expected.dtype.kind in "fV"
    return found.astype(expected.dtype, copy=False) if are_numbers else found


def _scale(value: object) -> float:
    """Return a tenth of the largest magnitude: errors stem from large numbers that cancel out; 0 if not finite."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fc" or not value.size:
        return 0.0
    size = float(np.abs(value).max())
    return size * 1e-1 if np.isfinite(size) else 0.0


def _error(difference: ValueDifference) -> float:
    return difference.max_abs if np.isfinite(difference.max_abs) else 0.0


def _described(difference: ValueDifference) -> str:
    return difference.problem or f"by up to {difference.max_abs:.3g}"
