"""Marks of runs on the graph: computing, failed, stale or different nodes; breakpoints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from onnx_workbench.exec.engine.breakpoints import Breakpoint
from onnx_workbench.exec.inspect.overview import changed_values
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.viewer.run.results.results import RunRecord

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace

#: Ms a run must take before its progress is shown, to avoid flicker.
_DELAY_MS = 300
#: Milliseconds between two updates of a large graph during a run.
_PACE = 150
#: Limit for nodes unmarked at once, which takes much less than a frame.
_AT_ONCE = 2000


class RunMarks(QObject):
    """Keeps the marks of one workspace up to date with its results. GUI thread only."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self._is_dimmed = False  # nodes that are not computed yet are dimmed
        self._stale: Sequence[Node] = ()  # marked nodes
        self._affected: Sequence[Node] | None = None  # stale nodes at the start of the run; None: possibly all
        self._finished: set[Node] = set()  # finished nodes not shown yet
        self._next = QTimer(self, singleShot=True)  # next update
        self._next.timeout.connect(self._light_up)
        self._compared: tuple[RunRecord, RunRecord] | None = None
        self.differing: frozenset[Value] = frozenset()
        self._shown_breakpoints: tuple[object, ...] | None = None
        results = workspace.results
        results.run_started.connect(self._start)
        results.run_finished.connect(self.refresh)
        results.changed.connect(self._on_changed)
        workspace.navigation.graph_shown.connect(lambda _graph: self.refresh())

    def _start(self) -> None:
        self._next.start(_DELAY_MS)
        self._is_dimmed = False
        self._finished.clear()
        results = self._workspace.results
        is_known = results.current is not None and not results.is_searching
        self._affected = (results.stale_nodes or None) if is_known else None

    def finished(self, nodes: list[Node]) -> None:
        """Show that nodes have been computed: they are unmarked, the others stay dimmed."""
        self._finished.update(nodes)
        if not self._next.isActive():
            self._light_up()

    def _light_up(self) -> None:
        if not self._finished:
            return
        if not self._is_dimmed:
            self._is_dimmed = True
            self._workspace.highlights.mark(
                "stale", self._workspace.graph.nodes if self._affected is None else self._affected
            )
        some = set(islice(self._finished, _AT_ONCE))
        self._finished -= some
        self._workspace.highlights.unmark("stale", some)
        self._next.start(_PACE)  # for the rest, even if no other node finishes for a while

    def show_breakpoints(self, breakpoints: Sequence[Breakpoint], next_node: Node | None) -> None:
        """Mark the breakpoints, and the node that a paused run computes next."""
        if (*breakpoints, next_node) == self._shown_breakpoints:
            return
        self._shown_breakpoints = (*breakpoints, next_node)
        places = {b.node or b.value: bool(b.condition) for b in sorted(breakpoints, key=lambda b: not b.condition)}
        mark = self._workspace.highlights.mark
        mark("breakpoints", [thing for thing, has_condition in places.items() if thing and not has_condition])
        mark("conditions", [thing for thing, has_condition in places.items() if thing and has_condition])
        mark("next", [next_node] if next_node is not None else [])

    def _on_changed(self, values: object) -> None:
        if values is None:
            self.refresh()

    def refresh(self) -> None:
        """Update the marks, debounced: the end of a run emits several signals, and there may be many marks."""
        results, mark = self._workspace.results, self._workspace.highlights.mark
        self._next.stop()
        if self._is_dimmed or self._stale is not results.stale_nodes:
            self._stale = results.stale_nodes
            mark("stale", self._stale)
        self._is_dimmed = False
        self._finished.clear()
        mark("failures", results.failed())
        mark("skipped", [node for graph in results.skipped_branches for node in graph.nodes])
        self._compare()

    def _compare(self) -> None:
        """Determine in the background which values differ from the previous run."""
        results = self._workspace.results
        ours, before = results.current, results.previous
        if ours is None or before is None or ours.unfinished:
            return
        if self._compared == (ours, before):
            return
        self._compared = ours, before
        result, other = ours.result, before.result
        value_of, node_of = results.value_by_number, results.node_by_number

        def work(_progress: object) -> tuple[frozenset[Value], list[Node]]:
            numbers = _differing(result, other)
            values = frozenset(v for number in numbers if (v := value_of(number)) is not None)
            return values, [n for number in _makers(result, numbers) if (n := node_of(number)) is not None]

        self._workspace.tasks.start(
            "Comparing with the previous run",
            work,
            done=lambda found: self._show_differing(ours, *found),
            lane="count",
            supersede="differing",
        )

    def _show_differing(self, record: RunRecord, values: frozenset[Value], makers: list[Node]) -> None:
        if record is self._workspace.results.current:
            self.differing = values
            self._workspace.highlights.mark("changed", [*values, *makers])


def _differing(result: RunResult, before: RunResult) -> list[int]:
    """Return the numbers of values that differ. Off the GUI thread."""
    try:
        return result.apply(changed_values, before)
    except LookupError:
        return []  # the worker with the values has ended


def _makers(result: RunResult, numbers: Iterable[int]) -> list[int]:
    """Return the nodes of the main graph, including calls of functions, that computed some of its values."""
    slots = result.layout.slots
    sought = {slots[(), number] for number in numbers}
    steps = result.layout.steps
    return list(dict.fromkeys(steps.keys.outermost()[steps.outs.holders(sought)].tolist()))
