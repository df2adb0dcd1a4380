"""Scopes of the values shown in a body or function: its call, iterations and branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx_workbench.exec.results.slot_map import LoopKey
from onnx_workbench.exec.results.slot_map import Path as CallPath
from onnx_workbench.exec.results.value_paths import scopes_around
from onnx_workbench.model.analysis.call_graph import called_by
from onnx_workbench.model.ir.graph import Function, Graph, Node
from onnx_workbench.viewer.run.results.run_record import nearest_call
from onnx_workbench.viewer.style.labels import name_of

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.results.results import Results
    from onnx_workbench.viewer.run.workspace import Workspace


@dataclass(frozen=True, slots=True)
class LoopScope:
    """A loop around a graph: its number of iterations, and the shown one, counted from 0.

    `can_choose`: values of other iterations can be computed.
    """

    key: LoopKey
    name: str
    shown: int
    count: int
    can_choose: bool


@dataclass(frozen=True, slots=True)
class RunScopes:
    """The loops, calls and branches around a graph in the shown run, outermost first.

    `calls` are those of the function around it, `call` the shown one; `branches` are those of the innermost enclosing
    If, and whether each was taken.
    """

    calls: tuple[CallPath, ...] = ()
    call: CallPath = ()
    loops: tuple[LoopScope, ...] = ()
    branches: tuple[tuple[Graph, bool], ...] = ()
    branch: Graph | None = None


def scopes_of(workspace: Workspace, graph: Graph) -> RunScopes:
    """Return the loops, calls and branches around a graph in the shown run; empty if it was not run."""
    results = workspace.results
    record = results.current
    if record is None:
        return RunScopes()
    calls = _calls(results, graph.root) if isinstance(graph.root.owner, Function) else ()
    call = nearest_call(calls, record.call) if calls else ()
    loops, branch = [], None
    for inner, path, node in scopes_around(graph, call, results.node_by_number):
        key = path, node.id
        count = record.result.iterations.get(key)
        if inner.owner is not node:
            continue
        if count:
            shown = min(results.iterations.get(key, count - 1), count - 1)
            loops.append(LoopScope(key, name_of(node), shown, count, record.result.iterate is not None))
        elif branch is None and node.op_type == "If":
            branch = inner
    owner = None if branch is None else branch.owner
    branches = tuple((body, _was_taken(results, body)) for body in owner.bodies) if isinstance(owner, Node) else ()
    return RunScopes(calls, call, tuple(reversed(loops)), branches, branch)


def _calls(results: Results, graph: Graph) -> tuple[CallPath, ...]:
    """Return the calls of a function in which the shown run has computed values."""
    assert results.current is not None
    calls_of = results.current.result.calls_of
    calls: list[CallPath] = []
    for value in graph.values():
        calls = max(calls, calls_of.get(value.id, []), key=len)
    return tuple(calls)


def _was_taken(results: Results, branch: Graph) -> bool:
    """Return whether a branch of If was taken in the shown call and iterations."""
    if branch in results.skipped_branches:
        return False
    outputs = [value for node in branch.nodes for value in node.outputs if value is not None]
    return not outputs or any(map(results.has, outputs))


def call_name(workspace: Workspace, path: CallPath) -> str:
    """Return the names of the calling nodes of a function, outermost first."""
    nodes = map(workspace.results.node_by_number, path)
    return " › ".join("?" if node is None else name_of(node) for node in nodes)


def with_iteration(scopes: RunScopes, key: LoopKey, number: int) -> Mapping[LoopKey, int]:
    """Return the iterations to show when one is chosen for a loop: loops inside it show their last."""
    return dict(_chosen(scopes, key, number))


def _chosen(scopes: RunScopes, key: LoopKey, number: int) -> Iterator[tuple[LoopKey, int]]:
    for loop in scopes.loops:
        if loop.key == key:
            yield key, number
            return
        yield loop.key, loop.shown


def entered_call(workspace: Workspace, graph: Graph) -> CallPath | None:
    """Return the call through which the body of a function is entered, if its node is selected."""
    node = workspace.selection.current
    if not isinstance(node, Node) or called_by(node) is not graph.owner or workspace.results.current is None:
        return None
    calls = [path for path in _calls(workspace.results, graph) if path and path[-1] == node.id]
    return nearest_call(calls, (*workspace.results.current.call, node.id)) if calls else None
