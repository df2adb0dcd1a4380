"""Saving a run to a file, and loading it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.exec.results.node_table import RAN, NodeResult, NodeTable, State
from onnx_workbench.exec.results.run_file import Address, SavedRun, load_run, save_run
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import Path as CallPath
from onnx_workbench.exec.results.slot_map import SlotMap, StepLayout, Steps, ValueKey
from onnx_workbench.exec.results.value_paths import ValuePaths
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.statistics import nbytes
from onnx_workbench.model.analysis.call_graph import called_by
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.run.results.value_paths import addresses_in
from onnx_workbench.viewer.tasks.readers import read_model

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace


def write_run(workspace: Workspace, path: Path) -> None:
    """Write inputs, seed and values of the last run, also inside functions and bodies, to an .npz file."""
    record = workspace.results.current
    if record is None:
        raise ModelError("There is no run to save", "run the model first")
    result, inputs = record.result, list(record.feeds)

    def write(progress: Progress) -> int:
        addresses = read_model(partial(_addresses_of, workspace, result), progress)
        try:
            return result.apply(save_run, str(path), inputs, *addresses, progress=progress)
        except (LookupError, OSError) as error:
            raise ModelError(f"{path.name} cannot be written", str(error), str(path)) from error

    def show(count: int) -> None:
        workspace.messages.show("info", "The run is saved", f"{plural(count, 'value')} in {path.name}")

    workspace.tasks.start("Saving the run", write, done=show, makes="file")


def _addresses_of(
    workspace: Workspace, result: RunResult, progress: Progress
) -> tuple[dict[ValueKey, Address], NodeTable, list[Address]]:
    """Return the addresses of all values of a run, the table of its nodes, and their addresses. Reads the model."""
    addresses = addresses_in(workspace)
    bodies = [(call, number) for call, values in result.bodies.items() for number in values]
    keys = progress.paced([*result.layout.slots, *bodies])
    values = {key: address for key in keys if (address := addresses.of(key)) is not None}
    nodes = NodeTable.joined([result.nodes, result.inner])
    rows = {
        address: row
        for row in progress.paced(nodes.rows(*RAN).tolist())
        if (address := _address_of(workspace, *nodes.keys.at(row), addresses)) is not None
    }
    return values, nodes.take(np.array(list(rows.values()), np.int64)), list(rows)


def _address_of(workspace: Workspace, number: int, path: CallPath, known: ValuePaths) -> Address | None:
    """Return the address of the first output of a node, which identifies the node."""
    node = workspace.results.node_by_number(number)
    output = None if node is None else next((value for value in node.outputs if value is not None), None)
    return None if output is None else known.of((path, output.id))


@dataclass(frozen=True)
class _LoadedRun:
    """A saved run whose values were matched with the model. `lost` is the number of unmatched values."""

    saved: SavedRun
    result: RunResult
    revision: int
    lost: int


def restore_run(workspace: Workspace, path: Path) -> None:
    """Show the values of a saved run, and use its inputs and seed for the next run."""
    runs = workspace.runs
    _ = runs.session, workspace.results  # lazy QObjects, which must be created on this thread

    def load(progress: Progress) -> _LoadedRun:
        saved = load_run(path)
        if not saved.is_run:
            detail = f"{path.name} does not say which of its arrays are inputs. Use Compare to show them beside a run."
            raise ModelError("The file was not saved as a run", detail)
        loaded = read_model(partial(_match, workspace, saved), progress)
        if loaded is None:
            detail = f"{path.name} names {', '.join(' > '.join(a) for a in list(saved.values)[:5]) or 'no values'}"
            raise ModelError("The file has no values of this model", detail)
        return loaded

    def show(loaded: _LoadedRun) -> None:
        saved, result = loaded.saved, loaded.result
        names = {v.name for v in runs.inputs.inputs()}
        feeds = {name: value for name, value in saved.inputs.items() if name in names}
        runs.inputs.set_given(feeds, saved.seed)
        inputs = runs.inputs.recipe().signature
        record = RunRecord(
            result, result.state, loaded.revision, inputs, feeds, is_complete=False, loaded=True, run=object()
        )
        runs.show(record, f"Values of {path.name}")
        if loaded.lost:
            detail = f"Not in this model: {plural(loaded.lost, 'value')} of {path.name}. The others are shown."
            workspace.messages.show("warning", "The run belongs to another version of the model", detail)

    workspace.tasks.start("Reading a run", load, done=show, supersede="load")


def _match(workspace: Workspace, saved: SavedRun, progress: Progress) -> _LoadedRun | None:
    """Match the values of a saved run with the current model; None if none matches. Reads the model."""
    workspace.runs.session.prepare(progress)
    addresses = addresses_in(workspace)
    pairs = progress.paced(saved.values.items())
    values = {key: value for address, value in pairs if (key := addresses.find(address)) is not None}
    if not values:
        return None
    took = progress.paced(zip(saved.places, saved.nodes, strict=True))
    costs = {key: cost for address, cost in took if (key := addresses.find(address)) is not None}
    result = _result(workspace, values, costs, progress)
    result.seed, result.peak_bytes = saved.seed, saved.peak_bytes
    return _LoadedRun(saved, result, workspace.document.revision, len(saved.values) - len(values))


#: Outcome of a node whose values are in a file without its costs.
_UNTIMED = NodeResult(0, (), "", "", State.KEPT)


def _result(
    workspace: Workspace, values: Mapping[ValueKey, Any], costs: Mapping[ValueKey, NodeResult], progress: Progress
) -> RunResult:
    """Return a RunResult from saved values and the costs of their nodes."""
    value_of = workspace.results.value_by_number
    slots: dict[ValueKey, int] = {}
    held: dict[int, int] = {}  # slots by id of the object: several addresses may share a value
    contents: list[Any] = [MISSING]
    bodies: dict[CallPath, dict[int, Any]] = {}
    makers: dict[tuple[CallPath, Node], None] = {}
    for key, content in progress.paced(values.items()):
        value = value_of(key[1])
        graph = None if value is None else value.graph
        if value is None or graph is None:
            continue
        if isinstance(graph.owner, Node):
            bodies.setdefault(key[0], {})[key[1]] = content
            continue
        slots[key] = held.setdefault(id(content), len(contents))
        if slots[key] == len(contents):
            contents.append(content)
        if value.producer is not None and called_by(value.producer) is None:
            makers[key[0], value.producer] = None
    took = {(path, node): cost for (path, value), cost in costs.items() if (node := _producer(value_of(value)))}
    inner = [_ran(path, node, cost) for (path, node), cost in progress.paced(took.items()) if cost.runs]
    steps, nodes = [], []
    for index, (path, node) in enumerate(progress.paced(makers)):
        reads, outs = (
            tuple([slots.get((path, v.id), 0) for v in ends if v is not None]) for ends in (node.inputs, node.outputs)
        )
        size = sum(nbytes(contents[slot]) for slot in outs if slot)
        steps.append(StepLayout(index, node.id, path, reads, outs, bool(node.bodies)))
        nodes.append(_ran(path, node, took.get((path, node), replace(_UNTIMED, nbytes=size))))
    outputs = tuple([slots.get(((), v.id), 0) for v in workspace.runs.inputs.graph.outputs])
    layout = SlotMap(slots, outputs, workspace.runs.session.snapshots.names, Steps.of(steps))
    state, table = workspace.document.current.id, NodeTable.of(nodes)
    return RunResult(
        layout, contents, lambda: table, state=state, bodies=bodies, build_inner=lambda: NodeTable.of(inner)
    )


def _producer(value: Value | None) -> Node | None:
    return None if value is None else value.producer


def _ran(path: CallPath, node: Node, cost: NodeResult) -> NodeResult:
    graph = node.graph
    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    around: list[int] = []
    while graph is not None and isinstance(graph.owner, Node):
        around.insert(0, graph.owner.id)
        graph = graph.owner.graph
    title, inside = node.name or node.op_type, tuple(around)
    return replace(cost, node=node.id, path=path, operator=operator, title=title, inside=inside)
