"""Reduce a model that fails to the smallest part that still fails.

The part is fed with the values that its inputs have in the run of the whole model. Its end is found by bisection over
the order of the nodes, then its beginning; then nodes are removed by delta debugging until none can be.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from onnx_workbench.exec.inspect import run_comparison
from onnx_workbench.exec.inspect.nonfinite import non_finite_values
from onnx_workbench.exec.inspect.overview import actual_type
from onnx_workbench.exec.inspect.reference import available, run_model
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.transform.anonymize import with_neutral_names, with_small_weights
from onnx_workbench.exec.transform.isolated import isolated
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.npz_files import write_npz
from onnx_workbench.model.edits.declare_types import is_shapeless
from onnx_workbench.model.edits.extract import cut_out, cut_selection
from onnx_workbench.model.edits.functions import inline_all
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import save, to_bytes
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.types import ElementType, TensorType, Type
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.sandbox import make_own_folder
from onnx_workbench.model.text.formatting import display, plural

Feeds = Mapping[str, RuntimeValue]
#: Runs a model with inputs and describes how it fails; empty if it does not.
Failing = Callable[[Model, Feeds, Progress], str]

KINDS = ("nonfinite", "differs-from-ort", "fails")


@dataclass(frozen=True)
class Reduction:
    """The smallest part that fails, its inputs by name, how it fails, its nodes and those before, and the trials.

    `small_weights` of its weights became one number in each element, `large_weights` did not.
    """

    model: Model
    inputs: Feeds
    failure: str
    nodes: int
    before: int
    trials: int
    small_weights: int = 0
    large_weights: int = 0


@dataclass(frozen=True)
class ReduceOptions:
    """How a model is reduced.

    seed            of random operators
    time_limit      seconds of each trial
    rtol, atol      tolerance of a difference from ONNX Runtime; both None: that of the element type
    small_weights   weights become constants of one number where the part still fails in the same way
    neutral_names   nodes, values and sizes are numbered, texts and metadata left out, if the part still fails then
    """

    seed: int = 0
    time_limit: float | None = None
    rtol: float | None = None
    atol: float | None = None
    small_weights: bool = False
    neutral_names: bool = False


def failing(until: str, options: ReduceOptions) -> Failing:
    """Return the test of a kind in KINDS, or of a command with ``{}`` in place of the model's file.

    A command is run without a shell; its inputs are in inputs.npz beside the file. An exit status other than 0 is a
    failure. ModelError names what exists.
    """
    match until:
        case "nonfinite":
            return partial(_begins_non_finite, options)
        case "fails":
            return partial(_fails, options)
        case "differs-from-ort":
            if not available():
                raise ModelError("ONNX Runtime is not installed", "pip install onnxruntime")
            return partial(_differs, options)
    if "{}" not in until:
        detail = f"Expected one of {', '.join(KINDS)}, or a command with {{}} in place of the model's file."
        raise ModelError(f"{until!r} is not a failure", detail)
    try:
        words = shlex.split(until)
    except ValueError as error:
        raise ModelError(f"{until!r} is not a command", str(error)) from None
    return partial(_command_fails, words, options.time_limit)


def reduce_model(
    model: Model,
    feeds: Feeds,
    fails: Failing,
    options: ReduceOptions = ReduceOptions(),
    progress: Progress = SILENT,
) -> Reduction:
    """Return the smallest part that still fails; no node of it can be removed alone.

    ModelError if the model does not fail, fails only sometimes, or if its nodes alone do not fail. Cost: one run whose
    values are all kept, and about 2·log2 N + n² trials of ever smaller parts for n nodes that remain of N.
    """
    seen = fails(model, feeds, progress)
    if not seen:
        raise ModelError("The model does not fail", "It was run with the inputs, and nothing of the kind was seen.")
    if not fails(model, feeds, progress):
        raise ModelError("The failure is not reproducible", f"The first run: {seen}. The second run did not fail.")
    search = _Search(model, feeds, fails, options.seed, progress)
    if not search.narrow(model.graph):
        raise ModelError("The failure cannot be reduced", f"{seen}. The nodes, cut out of the model, do not fail.")
    trials = search.trials
    while search.best[0].functions:  # what calls hide is reduced too, if it fails without them
        part, inputs, _, _ = search.best
        inlined = _Search(_inlined(part), inputs, fails, options.seed, progress)
        if not inlined.narrow(inlined.model.graph):
            break
        search, trials = inlined, trials + inlined.trials
    part, inputs, failure, count = search.best
    small = large = 0
    if options.small_weights:
        part, small, large = with_small_weights(part, _fails_alike(fails, inputs, failure, progress), progress)
    if options.neutral_names:
        renamed, names = with_neutral_names(part)
        renamed_inputs = {names[name]: content for name, content in inputs.items()}
        seen = _failure(fails, renamed, renamed_inputs, progress)
        if seen:
            part, inputs, failure = renamed, renamed_inputs, seen
    return Reduction(part, inputs, failure, count, len(model.graph.nodes), trials, small, large)


def _inlined(model: Model) -> Model:
    document = WorkingCopy(model).document
    with document.edit("Inline") as edit:
        inline_all(edit)
    return document.model


def _fails_alike(fails: Failing, feeds: Feeds, failure: str, progress: Progress) -> Callable[[Model], bool]:
    """Return the test whether a model fails in the same way, whatever the numbers at the end of the description."""
    return lambda model: _failure(fails, model, feeds, progress).partition(":")[0] == failure.partition(":")[0]


def _failure(fails: Failing, model: Model, feeds: Feeds, progress: Progress) -> str:
    """Return how a model fails; empty if it does not, or cannot be run."""
    try:
        return fails(model, feeds, progress)
    except (ModelError, LookupError):
        return ""


def reduce_isolated(
    model: Model,
    feeds: Feeds,
    until: str,
    options: ReduceOptions = ReduceOptions(),
    progress: Progress = SILENT,
) -> Reduction:
    """Do `reduce_model` in a child process, which the window does not wait for."""
    content, rest = isolated(_reduced, model, "Reducing the model", progress)(feeds, until, options)
    return Reduction(load(content), *rest)


def _reduced(
    model: Model, progress: Progress, feeds: Feeds, until: str, options: ReduceOptions
) -> tuple[bytes, list[Any]]:
    """Return the fields of the Reduction, the model as bytes."""
    reduction = reduce_model(model, feeds, failing(until, options), options, progress)
    rest = [getattr(reduction, one.name) for one in fields(reduction)[1:]]
    return to_bytes(reduction.model, Storage(DataLayout.INLINE)), rest


def _bisect(most: int, fails: Callable[[int], bool]) -> int:
    """Return a count from 1 to `most` that fails, whose predecessors looked at did not; `most` is known to fail."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle
    return high


class _Search:
    """Trials of parts of a model; `best` is the last one that failed."""

    def __init__(self, model: Model, feeds: Feeds, fails: Failing, seed: int, progress: Progress) -> None:
        self.model, self._feeds, self._fails, self._progress = model, feeds, fails, progress
        self._values = Session(model).run(feeds, seed=seed, progress=progress.quiet())
        self._known: dict[frozenset[Node], bool] = {}
        self.best: tuple[Model, Feeds, str, int] = (model, feeds, "", len(model.graph.nodes))
        self.trials = 0

    def fails(self, nodes: Sequence[Node]) -> bool:
        """Return whether the part of these nodes fails; parts that cannot be made or fed do not."""
        key = frozenset(nodes)
        if key not in self._known:
            self._known[key] = bool(nodes) and self._try(nodes)
        return self._known[key]

    def narrow(self, graph: Graph) -> bool:
        """Reduce the nodes of a graph, then the subgraphs of those that are left; false if the nodes do not fail."""
        nodes = list(graph.nodes)
        if not self.fails(nodes):
            return False
        end = _bisect(len(nodes), lambda count: self.fails(nodes[:count]))
        nodes = nodes[:end]
        start = end - _bisect(end, lambda count: self.fails(nodes[end - count :]))
        left = self._minimize(nodes[start:])
        any(self.narrow(body) for node in left for body in node.bodies)
        return True

    def _minimize(self, nodes: Sequence[Node]) -> list[Node]:
        """Remove nodes in halves, quarters, … and at last one by one, until none can be removed."""
        rest, pieces = list(nodes), 2
        while len(rest) > 1:
            size = -(-len(rest) // pieces)
            without = (rest[:at] + rest[at + size :] for at in reversed(range(0, len(rest), size)))
            smaller = next((part for part in without if self.fails(part)), None)
            if smaller is not None:
                rest, pieces = smaller, max(pieces - 1, 2)
            elif size == 1:
                break
            else:
                pieces = min(2 * pieces, len(rest))
        return rest

    def _try(self, nodes: Sequence[Node]) -> bool:
        self.trials += 1
        self._progress.report(self.trials, 0, f"Trying {plural(len(nodes), 'node')}")
        try:
            cut = cut_selection(nodes)
            feeds = {value.name: self._value(value) for value in cut.inputs}
            part = cut_out(self.model, cut, self._type_of, self._progress)
            seen = self._fails(part, feeds, self._progress)
        except (ModelError, LookupError):
            return False
        if seen:
            self.best = part, feeds, seen, len(part.graph.nodes)
        return bool(seen)

    def _value(self, value: Value) -> RuntimeValue:
        if value.name in self._feeds and value.is_input:
            return self._feeds[value.name]
        found = self._values.value(value, progress=self._progress)
        if found is MISSING:
            raise LookupError(value.name)
        return found

    def _type_of(self, value: Value) -> Type | None:
        """Return the declared type, or that of the value in the run."""
        if value.type is not None and not is_shapeless(value.type):
            return value.type
        found = self._values.find(value)
        actual = None if found is MISSING else actual_type(found, value.type or TensorType(ElementType.UNDEFINED))
        return actual or value.type


def _run(options: ReduceOptions, model: Model, feeds: Feeds, progress: Progress) -> RunResult:
    quiet = progress.quiet()
    result = Session(model).run(feeds, seed=options.seed, time_limit=options.time_limit, progress=quiet)
    progress.check()
    return result


def _begins_non_finite(options: ReduceOptions, model: Model, feeds: Feeds, progress: Progress) -> str:
    """Say where NaN or infinities begin, in a node whose inputs are finite."""
    result = _run(options, model, feeds, progress)
    found = non_finite_values(result, 1, "origins").found
    if not found:
        return ""
    name = display(str(result.layout.name(found[0].key[1])), 60)
    return f"{'NaN' if np.isnan(found[0].value) else 'an infinity'} begins in {name}"


def _fails(options: ReduceOptions, model: Model, feeds: Feeds, progress: Progress) -> str:
    """Say which node fails in the program's own executor."""
    failures = _run(options, model, feeds, progress).failures
    return str(failures[0]) if failures else ""


def _differs(options: ReduceOptions, model: Model, feeds: Feeds, progress: Progress) -> str:
    """Say which value differs from ONNX Runtime's beyond the tolerance."""
    result = _run(options, model, feeds, progress)
    values = run_model(model, feeds, options.time_limit, progress)
    pairs = run_comparison.values_at(
        run_comparison.ModelRun(model, result), {(name,): array for name, array in values.items()}
    )
    rows = run_comparison.with_tolerance(run_comparison.compare(result, pairs), options.rtol, options.atol)
    different = next((row for row in rows if not row.is_close), None)
    if different is None:
        return ""
    what = different.difference.problem or f"by up to {different.difference.max_abs:.3g}"
    return f"{display(different.name, 60)} differs from ONNX Runtime: {what}"


def _command_fails(
    words: Sequence[str], time_limit: float | None, model: Model, feeds: Feeds, progress: Progress
) -> str:
    """Write the model and its inputs, run a command and return its exit status if it is not 0."""
    folder = make_own_folder()
    try:
        path = folder / "model.onnx"
        save(model, path, progress=progress)
        write_npz(folder / "inputs.npz", feeds.items(), progress)
        command = [word.replace("{}", str(path)) for word in words]
        try:
            done = subprocess.run(command, capture_output=True, timeout=time_limit, check=False)
        except subprocess.TimeoutExpired:
            raise ModelError("The command took too long", f"{words[0]}: more than {time_limit:g} seconds") from None
        except (OSError, ValueError) as error:
            raise ModelError("The command cannot be run", f"{words[0]}: {error}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return f"{Path(words[0]).name} ended with {done.returncode}" if done.returncode else ""
