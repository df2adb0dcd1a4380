"""Times of nodes over several runs of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from onnx_workbench.exec.engine.request import Request
from onnx_workbench.exec.results.node_table import State
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.tasks.readers import read_model
from onnx_workbench.viewer.tasks.threads import Work

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds over several runs: their mean, the least, and the standard deviation."""

    mean: float
    least: float
    spread: float


@dataclass(frozen=True, eq=False)
class Timings:
    """Times of the nodes of a model over `count` runs, by number, and their total."""

    record: RunRecord
    count: int
    nodes: Mapping[int, Timing]
    total: Timing


def measurement(workspace: Workspace, record: RunRecord, count: int) -> Work[Timings]:
    """Return work for a task that runs the model `count` times with the inputs of a run.

    Every run computes everything; results are not kept.
    """
    session, inputs = workspace.runs.session, workspace.runs.inputs
    memory_limit, time_limit = inputs.max_tensor or None, inputs.time_limit or None

    def prepare(progress: Progress) -> Request:
        if workspace.document.current.id != record.state:
            raise ModelError("The run is out of date", "Run the model again, then measure.")
        session.prepare(progress)
        return session.request(
            record.feeds, seed=record.result.seed, fresh=True, memory_limit=memory_limit, time_limit=time_limit
        )

    def work(progress: Progress) -> Timings:
        request = read_model(prepare, progress)
        seconds: dict[int, list[float]] = {}
        totals = []
        for index in range(count):
            progress.report(index, count)
            result = workspace.runs.perform(request, progress=progress).raise_for_failure()
            totals.append(_add_times(result, seconds, progress))
        return Timings(record, count, {node: _timing(some) for node, some in seconds.items()}, _timing(totals))

    return work


def _add_times(result: RunResult, seconds: dict[int, list[float]], progress: Progress) -> float:
    """Append the times of a run to `seconds` by node; return the sum over nodes that are not in bodies."""
    total = 0.0
    for one in progress.paced(result.by_node):
        if one.state is State.DONE:
            seconds.setdefault(one.node, []).append(one.seconds)
    for row in progress.paced(result.nodes):
        total += row.seconds if row.state is State.DONE else 0.0
    return total


def _timing(seconds: list[float]) -> Timing:
    return Timing(float(np.mean(seconds)), min(seconds), float(np.std(seconds)))
