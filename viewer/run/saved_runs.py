"""Saving a run to a file, and loading it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.exec.inspect.statistics import nbytes
from onnx_workbench.exec.results.node_table import NodeResult, NodeTable, State
from onnx_workbench.exec.results.run_file import RAN, Address, SavedRun, load_run, save_run
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import Path as CallPath
from onnx_workbench.exec.results.slot_map import SlotMap, StepLayout, Steps, ValueKey
from onnx_workbench.exec.results.value_paths import ValuePaths
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.model.analysis.call_graph import called_by
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.core.tasks import ModelReader
from onnx_workbench.viewer.run.value_paths import addresses_in
from onnx_workbench.viewer.style.formatting import plural

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace


def write_run(workspace: Workspace, path: Path) -> None:
    """Write inputs, seed and values of the last run to an .npz file, those inside functions and bodies too."""
    record = workspace.results.current
    if record is None:
        raise ModelError("There is no run to save", "run the model first")
    result, inputs, known = record.result, list(record.feeds), addresses_in(workspace)
    bodies = [(call, number) for call, values in result.bodies.items() for number in values]

    def named(progress: Progress) -> tuple[dict[ValueKey, Address], NodeTable, list[Address]]:
        keys = progress.paced([*result.layout.slots, *bodies])
        values = {key: address for key in keys if (address := known.of(key)) is not None}
        nodes = NodeTable.joined([result.nodes, result.inner])
        rows = {
            address: row
            for row in progress.paced(nodes.rows(*RAN).tolist())
            if (address := _address_of(workspace, *nodes.keys.at(row), known)) is not None
        }
        return values, nodes.take(np.array(list(rows.values()), np.int64)), list(rows)

    def write(named: tuple[dict[ValueKey, Address], NodeTable, list[Address]]) -> None:
        def work(progress: Progress) -> int:
            try:
                return result.apply(save_run, str(path), inputs, *named, progress=progress)
            except (LookupError, OSError) as error:
                raise ModelError(f"{path.name} cannot be written", str(error), str(path)) from error

        def done(count: int) -> None:
            workspace.messages.show("info", "The run is saved", f"{plural(count, 'value')} in {path.name}")

        workspace.tasks.start("Save the run", work, done=done, makes="file")

    ModelReader(workspace).start(named, write)


def _address_of(workspace: Workspace, number: int, path: CallPath, known: ValuePaths) -> Address | None:
    """Return the address of the first output of a node, which identifies the node too."""
    node = workspace.results.node_by_number(number)
    output = None if node is None else next((value for value in node.outputs if value is not None), None)
    return None if output is None else known.of((path, output.id))


def take_up_run(workspace: Workspace, path: Path) -> None:
    """Show the values of a saved run where they belong, and take its inputs and seed for the next."""
    runs = workspace.runs

    def found(result: RunResult | None, lost: int, saved: SavedRun) -> None:
        if result is None:
            detail = f"{path.name} names {', '.join(' > '.join(a) for a in list(saved.values)[:5]) or 'no values'}"
            workspace.messages.show("error", "The file has no values of this model", detail)
            return
        names = {v.name for v in runs.inputs.inputs()}
        feeds = {name: value for name, value in saved.inputs.items() if name in names}
        runs.inputs.set_given(feeds, saved.seed)
        runs.show(result, feeds, f"Values of {path.name}")
        if lost:
            detail = f"Without a place in it: {plural(lost, 'value')} of {path.name}. The others are shown."
            workspace.messages.show("warning", "The run is not of this model as it is", detail)

    def place(saved: SavedRun) -> None:
        if not saved.is_run:
            detail = f"{path.name} has arrays, but not which of them are inputs. Compare shows them beside a run."
            workspace.messages.show("error", "The file was not saved as a run", detail)
            return
        known = addresses_in(workspace)

        def work(progress: Progress) -> tuple[RunResult | None, int, SavedRun]:
            pairs = progress.paced(saved.values.items())
            values = {key: value for address, value in pairs if (key := known.find(address)) is not None}
            took = progress.paced(zip(saved.places, saved.nodes, strict=True))
            costs = {key: cost for address, cost in took if (key := known.find(address)) is not None}
            result = _result(workspace, values, costs, progress) if values else None
            if result is not None:
                result.seed, result.peak_bytes = saved.seed, saved.peak_bytes
            return result, len(saved.values) - len(values), saved

        ModelReader(workspace).start(work, lambda told: found(*told))

    def done(saved: SavedRun) -> None:
        runs.prepare(lambda: place(saved))

    workspace.tasks.start("Read a run", lambda _progress: load_run(path), done=done, supersede="load")


#: What is known of a node whose values a file has, but not what they took.
_UNTIMED = NodeResult(0, (), "", "", State.KEPT)


def _result(
    workspace: Workspace, values: Mapping[ValueKey, Any], costs: Mapping[ValueKey, NodeResult], progress: Progress
) -> RunResult:
    """Values as what a run gave, and what their nodes took; only what was saved is known of it."""
    value_of = workspace.results.value_by_number
    slots: dict[ValueKey, int] = {}
    held: dict[int, int] = {}  # slots by object: one value may be in several places
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
    return RunResult(layout, contents, lambda: table, state=state, bodies=bodies, inner=NodeTable.of(inner))


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
