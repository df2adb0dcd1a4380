"""Comparison of a run's values with the previous run, a file, another model, or another engine or precision."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from onnx_workbench.exec.inputs.recipe import interface_of
from onnx_workbench.exec.inspect import reference
from onnx_workbench.exec.inspect.compare import ComparedValue, ValueDifference
from onnx_workbench.exec.inspect.expected_outputs import outputs_in_folder
from onnx_workbench.exec.inspect.local_loss import FedLayers, feed_layers
from onnx_workbench.exec.inspect.precision_trial import Precision, in_precision
from onnx_workbench.exec.inspect.run_comparison import (
    Pair,
    RunPart,
    compare,
    given_values,
    named_arrays,
    pair_values,
    run_part,
    same_values,
    shared_feeds,
)
from onnx_workbench.exec.inspect.tolerances import INTEGER_VALUES, type_error
from onnx_workbench.exec.results.run_file import load_run
from onnx_workbench.exec.results.run_result import Inside, RunResult, value_keys
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.results.values import same_value
from onnx_workbench.exec.session import Session
from onnx_workbench.model.analysis.quantized_values import Counterpart, is_quantized
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.writer.save import prepare
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.sandbox import make_own_folder
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.run.results.other_values import OtherValues
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.run.results.value_paths import addresses_in, inside_nodes
from onnx_workbench.viewer.tasks.readers import read_model

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace


_MOST_ERROR = 100.0  # limit of errors in colours, also for values that cannot be compared


@dataclass(frozen=True)
class ComparisonOutcome:
    """Result of a comparison: a row for each matched value, with its tolerance by element type and scale.

    `lack` is the reason for missing values if a run ended early; `others` are the reference values. For a quantized and
    a float model `local` has the error of each quantized layer alone, by our keys.
    """

    rows: list[ComparedValue]
    lack: str = ""
    others: OtherValues = field(default_factory=OtherValues)
    local: Mapping[ValueKey, ValueDifference] = field(default_factory=dict)


#: The comparison, for a background task.
Work = Callable[[Progress], ComparisonOutcome]
#: Makes the Work for a run. Reads open models, on the thread of a reader.
Prepare = Callable[[RunRecord, Progress], Work]


@dataclass(frozen=True)
class ComparisonReference:
    """A reference to compare with: its title, and the function that prepares the comparison.

    `reason` says why it cannot be used now.
    """

    title: str
    prepare: Prepare
    detail: str = ""
    reason: str = ""


def references(workspace: Workspace) -> Iterator[ComparisonReference]:
    """Yield references for the values of a run, besides files: runs, expected outputs, models, precisions."""
    results = workspace.results
    before = results.previous
    reason = "" if before is not None else "There is no previous run. Edit the model or its inputs, and run again."
    yield ComparisonReference("Previous run", with_run_before(workspace), reason=reason)
    titles = {entry.id: entry.title for entry in workspace.document.entries()}
    for record in reversed(results.records):
        if record not in (results.current, before):
            detail = f"after “{display(titles.get(record.state, '?'), 50)}”"
            yield ComparisonReference(f"Earlier run, {detail}", with_record(workspace, record))
    for folder in workspace.runs.inputs.data_sets():
        yield ComparisonReference(f"Expected outputs of {folder.name}", with_data_set(workspace, folder))
    for other in workspace.others_open():
        yield ComparisonReference(display(other.label, 60), with_model(workspace, other), "run with the same inputs")
    missing = "" if reference.available() else "ONNX Runtime is not installed (pip install onnxruntime)."
    yield ComparisonReference("ONNX Runtime", with_onnxruntime(workspace), "run with the same inputs", missing)
    selected = [item for item in workspace.selection.items if isinstance(item, Node)]
    nodes = "All nodes"
    if selected:
        nodes = "Selected node" if len(selected) == 1 else f"{len(selected):,} selected nodes"
    for precision in get_args(Precision):
        yield ComparisonReference(
            f"{nodes} in {precision}",
            with_precision(workspace, precision, selected or None),
            "computed again, and rounded",
        )


def with_record(workspace: Workspace, other: RunRecord) -> Prepare:
    """Compare with another run of the same document."""

    def prepared(ours: RunRecord, progress: Progress) -> Work:
        inside = inside_nodes(workspace, ours.result, progress)
        result = ours.result

        def work(progress: Progress) -> ComparisonOutcome:
            pairs = same_values(result, other.result, inside)
            return _outcome(pairs, OtherValues.of(pairs, other.result), result, progress=progress)

        return work

    return prepared


def with_run_before(workspace: Workspace) -> Prepare:
    """Compare with the previous run."""

    def prepared(ours: RunRecord, progress: Progress) -> Work:
        before = workspace.results.previous
        if before is None:
            raise ModelError("There is no previous run", "edit the model or its inputs, and run again")
        return with_record(workspace, before)(ours, progress)

    return prepared


def with_npz(workspace: Workspace, path: Path) -> Prepare:
    """Compare with a saved run, values matched by address; or with arrays, matched by name, then shape."""
    graph = interface_of(workspace.runs.inputs.graph)

    def prepared(ours: RunRecord, progress: Progress) -> Work:
        result, known, inside = ours.result, addresses_in(workspace), inside_nodes(workspace, ours.result, progress)
        places = {address: key for key in _in_calls(result, inside, progress) if (address := known.of(key)) is not None}

        def work(progress: Progress) -> ComparisonOutcome:
            saved = load_run(path, graph.outputs)
            if not saved.is_run:
                return _with_arrays(result, {name: v for (name,), v in saved.values.items()}, progress)
            keyed = ((result.key(a[0]) if len(a) == 1 else places.get(a), v) for a, v in saved.values.items())
            values = {key: (result.layout.name(key[1]), value) for key, value in keyed if key is not None}
            pairs, names = given_values(result, values, inside), [" › ".join(a) for a in saved.values]
            return _outcome(pairs, OtherValues.of(pairs, names=names), result, progress=progress)

        return work

    return prepared


def with_data_set(workspace: Workspace, folder: Path) -> Prepare:
    """Compare with the expected outputs of a folder of test data."""
    graph = interface_of(workspace.runs.inputs.graph)

    def prepared(ours: RunRecord, _progress: Progress) -> Work:
        def work(progress: Progress) -> ComparisonOutcome:
            result = ours.result
            return _with_arrays(result, result.apply(outputs_in_folder, folder, graph, progress=progress), progress)

        return work

    return prepared


def _with_arrays(result: RunResult, arrays: Mapping[str, Any], progress: Progress) -> ComparisonOutcome:
    pairs = named_arrays(result, arrays)
    return _outcome(pairs, OtherValues.of(pairs, names=list(arrays)), result, progress=progress)


def with_model(workspace: Workspace, other: Workspace, partner: Callable[[Value], object] | None = None) -> Prepare:
    """Compare with the current state of another open model, run with our inputs.

    Values are matched by address, inputs and outputs also by position, values of a quantized model with their
    counterparts in the float model. If both models are quantized or both are not, `partner`, which returns the matching
    object of the other model, takes precedence.
    """

    def prepared(ours: RunRecord, progress: Progress) -> Work:
        _read(other, progress)
        result, graph, theirs = ours.result, workspace.runs.inputs.graph, other.runs.inputs.graph
        inside = inside_nodes(workspace, result, progress)
        pairs_by_value = pair_values(graph, theirs)
        shared = shared_feeds(graph, theirs, ours.feeds)
        is_mixed = is_quantized(graph) != is_quantized(theirs)
        for value in progress.paced(graph.values()):
            twin = None if partner is None or is_mixed or value.initializer is not None else partner(value)
            if isinstance(twin, Value):
                pairs_by_value[value.id] = [Pair(run_part(Counterpart(value)), run_part(Counterpart(twin)))]
                if value.name in ours.feeds:
                    shared[twin.name] = ours.feeds[value.name]
        pairs: dict[ValueKey, list[Pair]] = {((), number): some for number, some in pairs_by_value.items()}
        here, there = addresses_in(workspace), addresses_in(other)
        for key in _in_calls(result, inside, progress):
            address = here.of(key)
            at = None if address is None else there.find(address)
            if at is not None and address is not None:
                pairs[key] = [Pair(RunPart(key, address[-1]), RunPart(at, address[-1]))]
        layers = _layers(workspace, other, progress) if is_mixed else None
        ordered = [pair for key in value_keys(result, inside) for pair in pairs.get(key, ())]
        return _with_other(workspace, ours, other, ordered, shared, layers)

    return prepared


def _layers(workspace: Workspace, other: Workspace, progress: Progress) -> FedLayers:
    """Copy the quantized one of two models so that each of its layers gets values of the float one."""
    graphs = {one: one.runs.inputs.graph for one in (workspace, other)}
    quantized, precise = (workspace, other) if is_quantized(graphs[workspace]) else (other, workspace)
    return feed_layers(graphs[precise], quantized.model, progress=progress)


def _read(other: Workspace, progress: Progress) -> None:
    """Take the snapshot of an open model for a run."""
    _check_open(other)
    other.runs.session.prepare(progress)


def _check_open(other: Workspace) -> None:
    if other.tasks.is_closed:
        raise ModelError(f"{display(other.label, 60)} was closed", "open it again, and choose it from the list")


def _in_calls(result: RunResult, inside: Inside, progress: Progress) -> Iterator[ValueKey]:
    """Yield the keys of a run's values that are not in the main graph: in calls of functions, and in bodies."""
    return progress.paced(chain(result.layout.table.inside(), *inside.values()))


def _with_other(
    workspace: Workspace,
    ours: RunRecord,
    other: Workspace,
    pairs: Sequence[Pair],
    fed: Mapping[str, Any],
    layers: FedLayers | None,
) -> Work:
    """Compare pairs of values with the current state of another open model, with the inputs `fed` by name.

    Its shown run is used if its inputs and seed are the same; otherwise the model is run, without showing that run.
    Inputs that only it has keep their values.
    """
    session, shown = other.runs.session, other.results.current
    inputs = {v.name for v in other.runs.inputs.inputs()}
    values = {**(shown.feeds if shown is not None else {}), **fed}
    feeds = {name: value for name, value in values.items() if name in inputs}
    title = other.label
    with _named(title):
        request = session.request(feeds, seed=ours.result.seed)
    finished = shown if shown is not None and shown.is_complete and other.results.is_current else None
    names = [display(value.name, 40) for value in other.runs.inputs.graph.outputs]
    is_ours = is_quantized(workspace.runs.inputs.graph)

    def local(theirs: RunResult, progress: Progress) -> dict[ValueKey, ValueDifference]:
        """Return the error of each quantized layer alone, from another run of the quantized model."""
        if layers is None:
            return {}
        precise, workspace_of, fed_there = (theirs, workspace, ours.feeds) if is_ours else (ours.result, other, feeds)
        try:
            again = Session(layers.document).request(layers.feeds(precise, fed_there), seed=ours.result.seed)
            losses = layers.losses(precise, workspace_of.runs.perform(again, progress=progress))
        except LookupError:  # the float model did not compute all inputs of the layers
            return {}
        return {a.key: losses[name] for a, b in pairs if (name := (b if is_ours else a).name) in losses}

    def work(progress: Progress) -> ComparisonOutcome:
        if finished is not None and _was_fed(finished, feeds, ours.result.seed):
            theirs = finished.result
        else:
            _check_open(other)
            with _named(title):
                theirs = other.runs.perform(request, progress=progress)
        others = OtherValues.of(pairs, theirs, names)
        compared = _outcome(pairs, others, ours.result, is_elsewhere=True, progress=progress)
        return replace(compared, lack=_lack(display(title, 60), theirs), local=local(theirs, progress))

    return work


@contextmanager
def _named(title: str) -> Iterator[None]:
    """Add the name of the model to errors."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{display(title, 60)} cannot be run with these inputs", _describe(error)) from error


def _lack(which: str, result: RunResult) -> str:
    """Return why another run has missing values; empty if it is complete."""
    try:
        result.raise_for_failure()
    except ModelError as error:
        return f"{which} did not finish. {_describe(error)}"
    return ""


def _describe(error: ModelError) -> str:
    return f"{error.title}: {error.detail}"


def _was_fed(record: RunRecord, feeds: Mapping[str, Any], seed: int) -> bool:
    """Return whether a run had these inputs and this seed. Reads every element."""
    return (
        record.result.seed == seed
        and record.feeds.keys() == feeds.keys()
        and all(same_value(value, record.feeds[name]) for name, value in feeds.items())
    )


def with_onnxruntime(workspace: Workspace) -> Prepare:
    """Compare with ONNX Runtime, for all values that it can return."""

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

        def work(progress: Progress) -> ComparisonOutcome:
            with folder:
                if saving is not None:
                    saving.run(progress)
                arrays = reference.run_onnxruntime(path, feeds)
            values = {key: (name, array) for name, array in arrays.items() if (key := result.key(name)) is not None}
            pairs = given_values(result, values)
            return _outcome(pairs, OtherValues.of(pairs, names=list(arrays)), result, progress=progress)

        return work

    return prepared


def with_precision(workspace: Workspace, precision: Precision, nodes: Iterable[Node] | None) -> Prepare:
    """Compare with the same model with the values of some nodes (None: all) in reduced precision."""
    chosen = None if nodes is None else frozenset(nodes)

    def prepared(ours: RunRecord, progress: Progress) -> Work:
        _check_current(workspace, ours)
        session = workspace.runs.session
        session.prepare(progress)
        request = session.request(ours.feeds, seed=ours.result.seed)
        values = _float_values(workspace, ours, chosen, progress)
        if not values:
            what = "no node" if chosen is None else "none of the nodes selected"
            raise ModelError("Nothing to round", f"{what} has float weights or outputs")
        numbers = {v.id for v in progress.paced(values)}
        error = INTEGER_VALUES if precision == "int8" else type_error(ElementType[precision.upper()])
        inside = inside_nodes(workspace, ours.result, progress)

        def work(progress: Progress) -> ComparisonOutcome:
            other = workspace.runs.perform(in_precision(request, precision, numbers), progress=progress)
            names = ours.result.layout.name
            parts = [RunPart(key, names(key[1])) for key in value_keys(ours.result, inside)]
            pairs = [Pair(part, part) for part in parts]  # the rounded run has the keys of the other
            others = OtherValues.of(pairs, other)
            compared = _outcome(pairs, others, other, ours.result, error=error, progress=progress)
            return replace(compared, lack=_lack(f"The run in {precision}", other))

        return work

    return prepared


def _check_current(workspace: Workspace, ours: RunRecord) -> None:
    """Raise ModelError unless a run is of the current model, as effects of an edit would show as errors."""
    results = workspace.results
    is_current = ours is results.current and results.is_current
    names = {v.name for v in workspace.runs.inputs.inputs()}  # checked too, as renames do not make values stale
    if ours.state != workspace.document.current.id and not (is_current and ours.feeds.keys() <= names):
        raise ModelError("The run is out of date", "run the model again, then compare")


def _float_values(
    workspace: Workspace, ours: RunRecord, nodes: frozenset[Node] | None, progress: Progress
) -> set[Value]:
    """Return the float tensors that some nodes, or nodes in their bodies, read as constants or compute."""
    model = workspace.model
    chosen = {graph for node in nodes or () for body in node.bodies for graph in body.walk()}
    floats: set[Value] = set()
    for graph in model.graphs():
        for node in progress.paced(graph.nodes):
            if nodes is None or node in nodes or graph in chosen:
                constants = [v for v in node.inputs if v is not None and v.initializer is not None]
                outputs = [v for v in node.outputs if v is not None]
                floats.update(v for v in (*constants, *outputs) if _is_float(workspace, ours, v))
    return floats


def _is_float(workspace: Workspace, ours: RunRecord, value: Value) -> bool:
    """Return whether a value is a float tensor, by the run or else by its inferred type."""
    if value.initializer is not None:
        kind: ElementType | int | None = value.initializer.element_type
    else:
        key = ours.key(value)
        info = None if key is None else ours.result.info(key)
        declared = workspace.types.type_of(value)
        kind = declared.element_type if isinstance(declared, TensorType) else None
        kind = info.element_type if info is not None else kind
    return isinstance(kind, ElementType) and kind.is_float


def _outcome(
    pairs: Sequence[Pair],
    others: OtherValues,
    result: RunResult,
    reference: RunResult | None = None,
    *,
    error: float = 0.0,
    is_elsewhere: bool = False,
    progress: Progress,
) -> ComparisonOutcome:
    """Compare pairs of values of a run with those of the `reference`, by default that of the `others`."""
    against = others.result if reference is None else reference
    try:
        rows = compare(result, pairs, against, error=error, is_elsewhere=is_elsewhere, progress=progress)
    except LookupError as gone:
        raise ModelError("The values are gone", f"{gone}. Run the model again.") from gone
    return ComparisonOutcome(rows, "", others)


def comparison(workspace: Workspace, record: RunRecord, prepare: Prepare) -> Work:
    """Return work for a task that compares a run. GUI thread only.

    If an open document is edited or closed while it is read, it is read again.
    """
    for one in (workspace, *workspace.others_open()):
        _ = one.runs.session, one.results  # lazy QObjects, which must be created on this thread

    def work(progress: Progress) -> ComparisonOutcome:
        return read_model(partial(prepare, record), progress)(progress)

    return work


def error_of(row: ComparedValue) -> float:
    """Return the error of a value: the least tolerance that accepts it, infinite if it cannot be compared."""
    return float("inf") if row.difference.problem else row.difference.tolerance


def heat_of(row: ComparedValue) -> float:
    """Return the error as a number for colours."""
    error = error_of(row)
    return _MOST_ERROR if not isfinite(error) else min(_MOST_ERROR, error)
