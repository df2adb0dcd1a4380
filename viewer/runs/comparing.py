"""Where a run's values are compared with others: the run before, a file, another model, another engine or precision."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from math import isfinite, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exec.inputs import read_data_set
from exec.inspection import reference
from exec.inspection.compare import Row, compare_keys, compare_runs, compare_with
from exec.inspection.whatif import Precision, compare_rounded, in_precision
from exec.results import RunResult
from exec.saved import load_run
from exec.values import same_value
from model.errors import ModelError
from model.graph import Node, Value
from model.io.save import prepare
from model.progress import Progress
from model.types import ElementType, TensorType
from viewer.results import Record
from viewer.runs.addresses import addresses_in, inside_nodes
from viewer.text import display

if TYPE_CHECKING:
    from viewer.workspace import Workspace

#: Compares in the background; made on the GUI thread.
Work = Callable[[Progress], list[Row]]


@dataclass(frozen=True)
class Reference:
    """Something to compare with: its title, and what makes the work."""

    title: str
    prepare: Callable[[Record], Work]


def with_record(workspace: Workspace, other: Record) -> Callable[[Record], Work]:
    """Against another run of the same document."""

    def prepared(ours: Record) -> Work:
        inside = inside_nodes(workspace, ours.result)
        return lambda _progress: _compare(lambda: ours.result.apply(compare_runs, other.result, inside))

    return prepared


def with_run_before(workspace: Workspace) -> Callable[[Record], Work]:
    """Against the run before, whichever that is then."""

    def prepared(ours: Record) -> Work:
        before = workspace.results.previous
        if before is None:
            raise ModelError("There is no run before", "edit the model or its inputs, and run again")
        return with_record(workspace, before)(ours)

    return prepared


def with_arrays(arrays: Callable[[], Mapping[str, Any]]) -> Callable[[Record], Work]:
    """Against named arrays that are read in the background."""

    def prepared(ours: Record) -> Work:
        return lambda _progress: _compare(lambda: ours.result.apply(compare_with, dict(arrays())))

    return prepared


def with_npz(workspace: Workspace, path: Path) -> Callable[[Record], Work]:
    """Against a saved run, each value by where it is; or a file of arrays, matched by name, then shape."""

    def prepared(ours: Record) -> Work:
        result, known, inside = ours.result, addresses_in(workspace), inside_nodes(workspace, ours.result)
        keys = [*(key for key in result.layout.slots if key[0]), *chain.from_iterable(inside.values())]
        places = {address: key for key in keys if (address := known.of(key)) is not None}

        def work(_progress: Progress) -> list[Row]:
            saved = load_run(path)
            if not saved.is_run:
                return _compare(lambda: result.apply(compare_with, {name: v for (name,), v in saved.values.items()}))
            found = ((result.key(a[0]) if len(a) == 1 else places.get(a), v) for a, v in saved.values.items())
            values = {key: value for key, value in found if key is not None}
            return _compare(lambda: result.apply(compare_keys, values, inside))

        return work

    return prepared


def with_data_set(workspace: Workspace, folder: Path) -> Callable[[Record], Work]:
    """Against the expected outputs of a folder of test data."""
    graph = workspace.runs.inputs.recipe().graph
    return with_arrays(lambda: read_data_set(folder, graph).outputs)


def with_model(other: Workspace) -> Callable[[Record], Work]:
    """Against another open model as it is now, by the names of values, with our inputs."""

    def prepared(ours: Record) -> Work:
        names = {ours.result.layout.name(key[1]) for key in ours.result.layout.slots if not key[0]}
        return _with_other(ours, other, {v.name: v for v in other.model.graph.values() if v.name in names}, ours.feeds)

    return prepared


def with_partners(workspace: Workspace, other: Workspace, partner: Callable[[Value], object]) -> Reference:
    """Against another open model, each value of ours with what `partner` says it is there, inputs too."""

    def prepared(ours: Record) -> Work:
        pairs = ((v.name, partner(v)) for v in workspace.model.graph.values() if v.initializer is None)
        values = {name: theirs for name, theirs in pairs if isinstance(theirs, Value)}
        feeds = {values[name].name: fed for name, fed in ours.feeds.items() if name in values}
        return _with_other(ours, other, values, feeds)

    return Reference(other.title, prepared)


def _with_other(ours: Record, other: Workspace, values: Mapping[str, Value], fed: Mapping[str, Any]) -> Work:
    """Compare with these values of another open model as it is now, by our names for them, when `fed` what we were.

    If what it shows was computed otherwise, it is run for this, beside what it shows. Inputs that only it has stay.
    """
    session, shown = other.runs.session, other.results.current
    inputs = {v.name for v in other.runs.inputs.inputs()}
    given = {**(shown.feeds if shown is not None else {}), **fed}
    feeds = {name: value for name, value in given.items() if name in inputs}
    request, title = session.request(feeds, seed=ours.result.seed), other.title
    keys = {name: ((), number) for name, v in values.items() if (number := session.number(v))}
    known = shown if shown is not None and shown.whole and other.results.is_current else None

    def perform(progress: Progress) -> RunResult:
        try:
            return session.perform(request, progress=progress).raise_for_failure()
        except ModelError as error:
            detail = f"{error.title}: {error.detail}"
            raise ModelError(f"{display(title, 60)} cannot be run with these inputs", detail) from error

    def work(progress: Progress) -> list[Row]:
        if known is not None and _was_fed(known, feeds, ours.result.seed):
            theirs = known.result
        else:
            theirs = perform(progress)
        arrays = {name: theirs.value(key) for name, key in keys.items() if theirs.info(key) is not None}
        return ours.result.apply(compare_with, arrays)

    return lambda progress: _compare(lambda: work(progress))


def _was_fed(record: Record, feeds: Mapping[str, Any], seed: int) -> bool:
    """Whether a run had these inputs and this seed. Reads every element."""
    return (
        record.result.seed == seed
        and record.feeds.keys() == feeds.keys()
        and all(same_value(value, record.feeds[name]) for name, value in feeds.items())
    )


def with_onnxruntime(workspace: Workspace) -> Callable[[Record], Work]:
    """Against ONNX Runtime, every value that it can give."""

    def prepared(ours: Record) -> Work:
        document = workspace.document
        if ours.state != document.current.id:
            raise ModelError("The run is out of date", "run the model as it is now, then compare")
        folder = tempfile.TemporaryDirectory(prefix="onnx-workbench-")
        path, saving = document.path, None
        if document.modified or path is None:
            path = Path(folder.name) / "model.onnx"
            saving = prepare(workspace.model, path)
        feeds = dict(ours.feeds)

        def work(progress: Progress) -> list[Row]:
            with folder:
                if saving is not None:
                    saving.run(progress)
                assert path is not None
                arrays = reference.run_onnxruntime(path, feeds)
            return ours.result.apply(compare_with, arrays)

        return lambda progress: _compare(lambda: work(progress))

    return prepared


def with_precision(
    workspace: Workspace, precision: Precision, nodes: Iterable[Node] | None
) -> Callable[[Record], Work]:
    """Against the same model with the values of some nodes (None: all) in fewer bits."""
    chosen = None if nodes is None else frozenset(nodes)

    def prepared(ours: Record) -> Work:
        session = workspace.runs.session
        request = session.request(ours.feeds, seed=workspace.runs.inputs.seed)
        values = _float_values(workspace, chosen)
        if not values:
            what = "no node" if chosen is None else "none of the nodes selected"
            raise ModelError("Nothing to keep in fewer bits", f"{what} makes or reads a tensor of floats")
        numbers = {session.number(v) for v in values}
        rounded, inside = in_precision(request, precision, numbers), inside_nodes(workspace, ours.result)

        def work(progress: Progress) -> list[Row]:
            other = session.perform(rounded, progress=progress)
            other.raise_for_failure()
            return other.apply(compare_rounded, ours.result, inside)

        return lambda progress: _compare(lambda: work(progress))

    return prepared


def _float_values(workspace: Workspace, nodes: frozenset[Node] | None) -> set[Value]:
    """The float tensors that some nodes read as constants or make; a node with bodies stands for those inside too."""
    model = workspace.model
    chosen = {graph for node in nodes or () for body in node.bodies for graph in body.walk()}
    found: set[Value] = set()
    for graph in model.graphs():
        for node in graph.nodes:
            if nodes is None or node in nodes or graph in chosen:
                constants = [v for v in node.inputs if v is not None and v.initializer is not None]
                outputs = [v for v in node.outputs if v is not None]
                found.update(v for v in (*constants, *outputs) if _is_float(workspace, v))
    return found


def _is_float(workspace: Workspace, value: Value) -> bool:
    """Whether a value is a tensor of floats: as it was computed, or as far as that is known without."""
    if value.initializer is not None:
        kind: ElementType | int | None = value.initializer.element_type
    else:
        info = workspace.results.info_of(value)
        declared = workspace.types.type_of(value)
        kind = declared.element_type if isinstance(declared, TensorType) else None
        kind = info.element_type if info is not None else kind
    return isinstance(kind, ElementType) and kind.is_float


def _compare(work: Callable[[], list[Row]]) -> list[Row]:
    try:
        return work()
    except LookupError as error:
        raise ModelError("The values are gone", f"{error}. Run the model again.") from error


def error_of(row: Row) -> float:
    """How far a value is off: the tolerance it needs, infinite where it cannot be compared."""
    return float("inf") if row.difference.problem else row.difference.tolerance


def heat_of(row: Row) -> float:
    """The error as a power of ten, fit for colours."""
    error = error_of(row)
    return 2.0 if not isfinite(error) else min(2.0, log10(max(error, 1e-10)))
