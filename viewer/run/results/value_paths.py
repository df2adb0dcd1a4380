"""Addresses of values of a workspace's runs, and their names with the enclosing calls and nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.results.value_paths import ValuePaths, body_values, scopes_around
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.viewer.style.labels import name_of

if TYPE_CHECKING:
    from onnx_workbench.exec.results.run_result import RunResult
    from onnx_workbench.viewer.run.workspace import Workspace


def addresses_in(workspace: Workspace) -> ValuePaths:
    """Return the addresses of values of a workspace's runs in the current model."""
    results, runs = workspace.results, workspace.runs
    return ValuePaths(runs.inputs.graph, results.node_by_number, results.value_by_number)


def inside_nodes(
    workspace: Workspace, result: RunResult, progress: Progress = SILENT
) -> dict[ValueKey, list[ValueKey]]:
    """Return the computed values in bodies, by call path and number of the outermost node around them."""
    results = workspace.results
    return body_values(result, results.node_by_number, results.value_by_number, progress)


def name_in_run(workspace: Workspace, key: ValueKey, name: str) -> str:
    """Return the name of a value of a run, prefixed by the enclosing calls of functions and nodes with bodies."""
    value, node_by_number = workspace.results.value_by_number(key[1]), workspace.results.node_by_number
    graph = None if value is None else value.graph
    around = [name_of(node) for _, _, node in scopes_around(graph, key[0], node_by_number)]
    return " › ".join([*reversed(around), name])
