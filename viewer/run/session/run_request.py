"""Requests of runs to a session: the snapshot of the model, the values of its inputs, and where to stop."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from onnx_workbench.exec.engine.breakpoints import Breakpoint
from onnx_workbench.exec.engine.request import Request
from onnx_workbench.exec.results.slot_map import Path as CallPath
from onnx_workbench.model.analysis.call_graph import callers_of
from onnx_workbench.model.analysis.topology import upstream
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Function, Graph, Node, Value
from onnx_workbench.model.progress import Progress

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.session.run_task import RunTask


def make_request(run: RunTask, document: Document, progress: Progress) -> Request:
    """Make the request for a run: a snapshot of the model with the given inputs. Reads the model.

    ModelError if a value does not fit its input, or if runs do not compute the node to run to.
    """
    session, options, until = run.session, run.options, run.options.until
    session.prepare(progress)
    run.revision = document.revision
    path, last = ((), None) if until is None else position_of(until, session.graph)
    stops = (Breakpoint(condition=options.search_mode),) if options.search_mode else run.breakpoints
    if options.behind is not None:
        stops += tuple(Breakpoint(value=value) for value in options.behind.outputs[:1] if value is not None)
    request = session.request(
        run.feeds,
        values=run.watched if run.outputs_only and run.is_whole else "all",
        seed=run.recipe.seed,
        max_tensor=run.max_tensor,
        time_limit=run.time_limit,
        until=last,
        path=path,
        breakpoints=() if until is not None else stops,
        fresh=options.fresh,
    )
    return request if last is None or path else _with_upstream(request, last, session.graph)


def _with_upstream(request: Request, node: Node, graph: Graph) -> Request:
    """Return the request for a run to a node of the graph that keeps the values of its ancestors."""
    values = [v for v in upstream([node]) if isinstance(v, Value) and v.graph is graph]
    values += [v for v in node.outputs if v is not None]
    keys = tuple(((), v.id) for v in values if v.producer is not None)
    return replace(request, options=replace(request.options, until=None, values=keys, outputs=False))


def position_of(node: Node, graph: Graph) -> tuple[CallPath, Node]:
    """Return the position of a node in runs of a graph: the enclosing calls, and the node or the owner of its body.

    ModelError if runs do not compute it.
    """
    outermost = node
    while outermost.graph is not None and isinstance(outermost.graph.owner, Node):
        outermost = outermost.graph.owner
    ways: list[tuple[Node, CallPath]] = [(outermost, ())]
    functions: set[Function] = set()
    while ways:
        current, path = ways.pop()
        if current.graph is graph:
            return path, outermost
        function = None if current.graph is None else current.graph.owner
        if isinstance(function, Function) and function not in functions and graph.model is not None:
            functions.add(function)
            calls = callers_of(graph.model, {function.key})
            ways += [(call, (call.id, *path)) for call in calls]
    detail = "its function is not called in the main graph, or it belongs to a training graph"
    raise ModelError("This node is not part of a run", detail, node)
