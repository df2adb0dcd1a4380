"""Comparison of a run's values with the run before, a file, another model, or another engine or precision."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import isfinite, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_workbench.exec.inputs.recipe import interface_of
from onnx_workbench.exec.inspect import reference
from onnx_workbench.exec.inspect.compare import ComparedValue, Inside, compare_keys, compare_runs, compare_with
from onnx_workbench.exec.inspect.expected_outputs import compare_with_folder
from onnx_workbench.exec.inspect.precision_trial import Precision, compare_rounded, in_precision
from onnx_workbench.exec.results.run_file import load_run
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.results.values import same_value
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.writer.save import prepare
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.sandbox import make_own_folder
from onnx_workbench.viewer.core.readers import read_model
from onnx_workbench.viewer.run.results import RunRecord
from onnx_workbench.viewer.run.value_paths import addresses_in, inside_nodes
from onnx_workbench.viewer.style.formatting import display

if TYPE_CHECKING:
    from onnx_workbench.viewer.core.tasks import Task
    from onnx_workbench.viewer.run.workspace import Workspace


@dataclass(frozen=True)
class ComparisonOutcome:
    """Result of a comparison: a row for each matched value, and why there are no more if a run ended early."""

    rows: list[ComparedValue]
    lack: str = ""


#: Compares in the background.
Work = Callable[[Progress], ComparisonOutcome]
#: Makes that work of a run. It reads open models, on the thread of a Reader.
Prepare = Callable[[RunRecord, Progress], Work]


@dataclass(frozen=True)
class ComparisonReference:
    """Something to compare with: its title, and what makes the work."""

    title: str
    prepare: Prepare


def with_record(workspace: Workspace, other: RunRecord) -> Prepare:
    """Against another run of the same document."""

    def prepared(ours: RunRecord, progress: Progress) -> Work:
        inside = inside_nodes(workspace, ours.result, progress)
        result = ours.result
        return lambda progress: _compare(lambda: result.apply(compare_runs, other.result, inside, progress=progress))

    return prepared


def with_run_before(workspace: Workspace) -> Prepare:
    """Against the run before, whichever that is then."""

    def prepared(ours: RunRecord, progress: Progress) -> Work:
        before = workspace.results.previous
        if before is None:
            raise ModelError("There is no previous run", "edit the model or its inputs, and run again")
        return with_record(workspace, before)(ours, progress)

    return prepared


def with_npz(workspace: Workspace, path: Path) -> Prepare:
    """Against a saved run, each value by where it is; or a file of arrays, matched by name, then shape."""

    def prepared(ours: RunRecord, progress: Progress) -> Work:
        result, known, inside = ours.result, addresses_in(workspace), inside_nodes(workspace, ours.result, progress)
        places = {address: key for key in _in_calls(result, inside, progress) if (address := known.of(key)) is not None}

        def work(progress: Progress) -> ComparisonOutcome:
            saved = load_run(path)
            if not saved.is_run:
                arrays = {name: v for (name,), v in saved.values.items()}
                return _compare(lambda: result.apply(compare_with, arrays, progress=progress))
            found = ((result.key(a[0]) if len(a) == 1 else places.get(a), v) for a, v in saved.values.items())
            values = {key: value for key, value in found if key is not None}
            return _compare(lambda: result.apply(compare_keys, values, inside, progress=progress))

        return work

    return prepared


def with_data_set(workspace: Workspace, folder: Path) -> Prepare:
    """Against the expected outputs of a folder of test data."""
    graph = interface_of(workspace.runs.inputs.graph)

    def prepared(ours: RunRecord, _progress: Progress) -> Work:
        return lambda progress: _compare(
            lambda: ours.result.apply(compare_with_folder, folder, graph, progress=progress)
        )

    return prepared


def with_model(workspace: Workspace, other: Workspace) -> Prepare:
    """Against another open model as it is now, by the names of values and of what is around them, with our inputs."""

    def prepared(ours: RunRecord, progress: Progress) -> Work:
        _read(other, progress)
        result = ours.result
        named = {v.name: v for v in progress.paced(other.runs.inputs.graph.values())}
        keys: dict[ValueKey, ValueKey | None] = {}
        for key in progress.paced(result.layout.slots):
            if not key[0] and (value := named.get(result.layout.name(key[1]))) is not None:
                keys[key] = (), value.id
        here, there = addresses_in(workspace), addresses_in(other)
        for key in _in_calls(result, inside_nodes(workspace, result, progress), progress):
            address = here.of(key)
            keys[key] = None if address is None else there.find(address)
        return _with_other(workspace, ours, other, keys, ours.feeds, progress)

    return prepared


def with_partners(workspace: Workspace, other: Workspace, partner: Callable[[Value], object]) -> ComparisonReference:
    """Against another open model, each value of ours with what `partner` says it is there, inputs too."""

    def prepared(ours: RunRecord, progress: Progress) -> Work:
        _read(other, progress)
        feeds = {}
        keys: dict[ValueKey, ValueKey | None] = {}
        for value in progress.paced(workspace.model.graph.values()):
            theirs = partner(value) if value.initializer is None else None
            key = ours.result.key(value)
            if isinstance(theirs, Value) and key is not None:
                keys[key] = (), theirs.id
                if value.name in ours.feeds:
                    feeds[theirs.name] = ours.feeds[value.name]
        return _with_other(workspace, ours, other, keys, feeds, progress)

    return ComparisonReference(other.label, prepared)


def _read(other: Workspace, progress: Progress) -> None:
    """Read an open model for a run."""
    _check_open(other)
    other.runs.session.prepare(progress)


def _check_open(other: Workspace) -> None:
    if other.tasks.is_closed:
        raise ModelError(f"{display(other.label, 60)} was closed", "open it again, and choose it from the list")


def _in_calls(result: RunResult, inside: Inside, progress: Progress) -> Iterator[ValueKey]:
    """The values of a run that are not of the graph itself: in calls of functions, and inside nodes."""
    return progress.paced(chain(result.layout.table.inside(), *inside.values()))


def _with_other(
    workspace: Workspace,
    ours: RunRecord,
    other: Workspace,
    pairs: Mapping[ValueKey, ValueKey | None],
    fed: Mapping[str, Any],
    progress: Progress,
) -> Work:
    """Compare with values of another open model as it is now, by our keys for them, when `fed` what we were.

    If what it shows was computed otherwise, it is run for this, beside what it shows. Inputs that only it has stay.
    """
    session, shown = other.runs.session, other.results.current
    inputs = {v.name for v in other.runs.inputs.inputs()}
    given = {**(shown.feeds if shown is not None else {}), **fed}
    feeds = {name: value for name, value in given.items() if name in inputs}
    request, title = session.request(feeds, seed=ours.result.seed), other.label
    known = shown if shown is not None and shown.whole and other.results.is_current else None
    inside = inside_nodes(workspace, ours.result, progress)

    def perform(progress: Progress) -> RunResult:
        try:
            return other.runs.perform(request, progress=progress)
        except ModelError as error:
            raise ModelError(f"{display(title, 60)} cannot be run with these inputs", _told(error)) from error

    def rows(theirs: RunResult, progress: Progress) -> list[ComparedValue]:
        there = ((key, at) for key, at in pairs.items() if at is not None and theirs.info(at) is not None)
        values = {key: theirs.value(at, progress=progress) for key, at in there}
        return ours.result.apply(compare_keys, values, inside, progress=progress)

    def work(progress: Progress) -> ComparisonOutcome:
        if known is not None and _was_fed(known, feeds, ours.result.seed):
            theirs = known.result
        else:
            _check_open(other)
            theirs = perform(progress)
        return replace(_compare(lambda: rows(theirs, progress)), lack=_lack(display(title, 60), theirs))

    return work


def _lack(which: str, result: RunResult) -> str:
    """Return why another run gave fewer values; empty if it gave all."""
    try:
        result.raise_for_failure()
    except ModelError as error:
        return f"{which} did not finish. {_told(error)}"
    return ""


def _told(error: ModelError) -> str:
    return f"{error.title}: {error.detail}"


def _was_fed(record: RunRecord, feeds: Mapping[str, Any], seed: int) -> bool:
    """Return whether a run had these inputs and this seed. Reads every element."""
    return (
        record.result.seed == seed
        and record.feeds.keys() == feeds.keys()
        and all(same_value(value, record.feeds[name]) for name, value in feeds.items())
    )


def with_onnxruntime(workspace: Workspace) -> Prepare:
    """Against ONNX Runtime, every value that it can give."""

    def prepared(ours: RunRecord, progress: Progress) -> Work:
        _check_current(workspace, ours)
        document, result, feeds = workspace.document, ours.result, dict(ours.feeds)
        with ExitStack() as stack:
            path, saving = document.path, None
            if document.modified or path is None:
                path = make_own_folder() / "model.onnx"
                stack.callback(shutil.rmtree, path.parent, ignore_errors=True)
                saving = prepare(workspace.model, path, progress=progress)
            folder = stack.pop_all()

        def work(progress: Progress) -> list[ComparedValue]:
            with folder:
                if saving is not None:
                    saving.run(progress)
                arrays = reference.run_onnxruntime(path, feeds)
            values = {key: array for name, array in arrays.items() if (key := result.key(name)) is not None}
            return result.apply(compare_keys, values, progress=progress)

        return lambda progress: _compare(lambda: work(progress))

    return prepared


def with_precision(workspace: Workspace, precision: Precision, nodes: Iterable[Node] | None) -> Prepare:
    """Against the same model with the values of some nodes (None: all) in fewer bits."""
    chosen = None if nodes is None else frozenset(nodes)

    def prepared(ours: RunRecord, progress: Progress) -> Work:
        _check_current(workspace, ours)
        session = workspace.runs.session
        session.prepare(progress)
        request = session.request(ours.feeds, seed=ours.result.seed)
        values = _float_values(workspace, ours, chosen, progress)
        if not values:
            what = "no node" if chosen is None else "none of the nodes selected"
            raise ModelError("Nothing to round", f"{what} has float inputs or outputs")
        numbers = {v.id for v in progress.paced(values)}
        inside = inside_nodes(workspace, ours.result, progress)

        def work(progress: Progress) -> ComparisonOutcome:
            other = workspace.runs.perform(in_precision(request, precision, numbers), progress=progress)
            compared = _compare(lambda: other.apply(compare_rounded, ours.result, inside, progress=progress))
            return replace(compared, lack=_lack(f"The run in {precision}", other))

        return work

    return prepared


def _check_current(workspace: Workspace, ours: RunRecord) -> None:
    """ModelError unless a run is of the model as it is now: what an edit did is no error of another engine or type."""
    results = workspace.results
    is_current = ours is results.current and results.is_current
    names = {v.name for v in workspace.runs.inputs.inputs()}  # a new name makes no value stale
    if ours.state != workspace.document.current.id and not (is_current and ours.feeds.keys() <= names):
        raise ModelError("The run is out of date", "run the model again, then compare")


def _float_values(
    workspace: Workspace, ours: RunRecord, nodes: frozenset[Node] | None, progress: Progress
) -> set[Value]:
    """The float tensors that some nodes read as constants or make; a node with bodies stands for those inside too."""
    model = workspace.model
    chosen = {graph for node in nodes or () for body in node.bodies for graph in body.walk()}
    found: set[Value] = set()
    for graph in model.graphs():
        for node in progress.paced(graph.nodes):
            if nodes is None or node in nodes or graph in chosen:
                constants = [v for v in node.inputs if v is not None and v.initializer is not None]
                outputs = [v for v in node.outputs if v is not None]
                found.update(v for v in (*constants, *outputs) if _is_float(workspace, ours, v))
    return found


def _is_float(workspace: Workspace, ours: RunRecord, value: Value) -> bool:
    """Return whether a value is a tensor of floats, as computed or as far as its type is known."""
    if value.initializer is not None:
        kind: ElementType | int | None = value.initializer.element_type
    else:
        key = ours.key(value)
        info = None if key is None else ours.result.info(key)
        declared = workspace.types.type_of(value)
        kind = declared.element_type if isinstance(declared, TensorType) else None
        kind = info.element_type if info is not None else kind
    return isinstance(kind, ElementType) and kind.is_float


def _compare(work: Callable[[], list[ComparedValue]]) -> ComparisonOutcome:
    try:
        return ComparisonOutcome(work())
    except LookupError as error:
        raise ModelError("The values are gone", f"{error}. Run the model again.") from error


def start_comparison(
    workspace: Workspace,
    record: RunRecord,
    prepare: Prepare,
    done: Callable[[ComparisonOutcome], object],
    finished: Callable[[], object],
) -> Task[ComparisonOutcome]:
    """Compare a run in a task. GUI thread only.

    If an open document is edited or closed while it is read, it is read again. A refusal becomes a message.
    """
    for one in (workspace, *workspace.others_open()):
        _ = one.runs.session, one.results  # made on first use: QObjects, which have to be made on this thread

    def work(progress: Progress) -> ComparisonOutcome:
        return read_model(partial(prepare, record), progress)(progress)

    return workspace.tasks.start("Compare", work, done=done, finished=finished, supersede="compare runs")


def error_of(row: ComparedValue) -> float:
    """Return the error of a value: the tolerance it needs, infinite if it cannot be compared."""
    return float("inf") if row.difference.problem else row.difference.tolerance


def heat_of(row: ComparedValue) -> float:
    """The error as a power of ten, fit for colours."""
    error = error_of(row)
    return 2.0 if not isfinite(error) else min(2.0, log10(max(error, 1e-10)))
