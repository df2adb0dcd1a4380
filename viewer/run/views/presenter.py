"""What a run shows on the graph: marks, notes and colours; and the warning about non-finite values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from onnx_workbench.exec.engine.breakpoints import Breakpoint
from onnx_workbench.exec.inspect.nonfinite import NonFiniteSearch
from onnx_workbench.exec.inspect.overview import changed_values
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.values.finiteness import NonFiniteMode
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.viewer.program.settings import EDGE_NOTES, NAN_ALONE
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.run.views.edge_notes import EdgeNotes
from onnx_workbench.viewer.run.views.nonfinite_warning import non_finite, search_mode, warning_of
from onnx_workbench.viewer.run.views.overlays import Overlays

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace

_NON_FINITE = "non-finite"  # topic of the warning


class RunPresenter(QObject):
    """Follows the results of one document's runs for its graph. GUI thread only.

    After each run, or when undo shows earlier results, one task compares all values with those of the previous run and
    searches for non-finite ones.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self._results = results = workspace.results
        self.overlays = Overlays(workspace)
        self.notes = EdgeNotes(workspace)
        self.differing: frozenset[Value] = frozenset()  # values that differ from the previous run
        self._is_dimmed = False  # nodes that are not computed yet are dimmed
        self._stale: Sequence[Node] = ()  # marked nodes
        self._affected: Sequence[Node] | None = None  # stale nodes at the start of the run; None: possibly all
        self._examined: tuple[object, ...] = ()  # what was compared and searched last
        self._reported: Value | None = None  # warned of: once, even if the user closes the message
        self._shown_breakpoints: tuple[object, ...] | None = None
        results.changed.connect(self._on_results)
        results.summaries.read.connect(self.notes.update)
        workspace.navigation.graph_shown.connect(self._on_graph)
        workspace.settings.changed.connect(self._on_setting)

    def _on_results(self, values: set[Value] | None) -> None:
        if values is None:
            self._mark()
            self._examine()
            self.overlays.refresh_run()
        self.notes.update(values)

    def _on_graph(self, _graph: Graph) -> None:
        self._mark()
        self.notes.start_over()

    def _on_setting(self, key: str) -> None:
        if key == EDGE_NOTES.key:
            self.notes.choose()
        elif key == NAN_ALONE.key:
            self._examine()

    # -- marks -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Prepare for a run that starts."""
        self._is_dimmed = False
        is_known = self._results.current is not None and not self._results.is_searching
        self._affected = (self._results.stale_nodes or None) if is_known else None

    def finished(self, nodes: Iterable[Node]) -> None:
        """Show that nodes have been computed: they are unmarked, the others are dimmed."""
        highlights = self._workspace.highlights
        if not self._is_dimmed:
            self._is_dimmed = True
            highlights.mark("stale", self._workspace.graph.nodes if self._affected is None else self._affected)
        highlights.unmark("stale", nodes)

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

    def _mark(self) -> None:
        results, mark = self._results, self._workspace.highlights.mark
        if self._is_dimmed or self._stale is not results.stale_nodes:
            self._stale = results.stale_nodes
            mark("stale", self._stale)
        self._is_dimmed = False
        mark("failures", results.failed())
        mark("skipped", [node for graph in results.skipped_branches for node in graph.nodes])

    # -- all values ------------------------------------------------------------------------------------------

    def _examine(self) -> None:
        """Determine which values differ from the previous run, and the first that is not finite."""
        results, mode = self._results, search_mode(self._workspace)
        ours, before = results.current, results.previous
        if ours is None or ours.unfinished or results.is_running or self._examined == (ours, before, mode):
            return
        self._examined = ours, before, mode
        other = None if before is None else before.result
        value_of, node_of = results.value_by_number, results.node_by_number

        def work(_progress: object) -> tuple[NonFiniteSearch, frozenset[Value], list[Node]]:
            search = _first_non_finite(ours, mode)
            numbers = [] if other is None else _differing(ours.result, other)
            values = frozenset(v for number in numbers if (v := value_of(number)) is not None)
            nodes = (node_of(number) for number in _makers(ours.result, numbers))
            return search, values, [node for node in nodes if node is not None]

        def show(search: NonFiniteSearch, differing: frozenset[Value], makers: list[Node]) -> None:
            if ours is results.current:
                self.differing = differing
                self._workspace.highlights.mark("changed", [*differing, *makers])
                self._warn(ours, search)

        title = "" if other is None else "Comparing with the previous run"
        self._workspace.tasks.start(title, work, done=lambda found: show(*found), lane="count", supersede=_NON_FINITE)

    def _warn(self, record: RunRecord, search: NonFiniteSearch) -> None:
        """Warn of the first non-finite value once, and withdraw the warning when values are finite again."""
        workspace = self._workspace
        value = self._results.value_by_number(search.found[0].key[1]) if search.found else None
        if value is None or record.was_watched:  # a search shows its finding itself
            workspace.messages.withdraw(_NON_FINITE)
        elif value is not self._reported:
            title, detail = warning_of(workspace, value, search)
            show = ("Show", lambda: workspace.trigger("run.first_non_finite"))
            workspace.messages.show("warning", title, detail, choices=(show,), topic=_NON_FINITE)
        self._reported = value


def _first_non_finite(record: RunRecord, mode: NonFiniteMode) -> NonFiniteSearch:
    """Search for the first non-finite value. Off the GUI thread."""
    try:
        return non_finite(record, 1, mode)
    except LookupError:
        return NonFiniteSearch((), 0, False)  # the worker with the values has ended


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
