"""Bar above the graph with selectors of the call, branch and iterations whose values are shown."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QComboBox, QSpinBox, QWidget

from onnx_workbench.model.ir.graph import Function, Graph, Node, Value
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.run.views.run_scopes import (
    LoopScope,
    RunScopes,
    call_name,
    entered_call,
    scopes_of,
    with_iteration,
)
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.labels import name_of, path_to
from onnx_workbench.viewer.tasks.event_loop import Debounce
from onnx_workbench.viewer.widgets.flow_layout import FlowLayout, clear_layout, labelled

_MOST = 28  # characters of a name


class ScopeBar(QWidget):
    """Selectors for the shown graph, or the graph of the selection; hidden if there is nothing to choose."""

    def __init__(self, workspace: Workspace, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._scopes = RunScopes()
        self.iterations: list[QSpinBox] = []  # the selectors of iterations, outermost loop first
        self._layout = FlowLayout(12)
        self._layout.setContentsMargins(8, 1, 8, 1)
        self.setLayout(self._layout)
        self._refreshing = Debounce(self.refresh, self)
        workspace.navigation.graph_shown.connect(self._on_graph)
        workspace.selection.changed.connect(self._refresh_later)
        workspace.results.changed.connect(self._refresh_later)
        workspace.results.run_finished.connect(self._refresh_later)
        self.hide()

    def _refresh_later(self, *_: object) -> None:
        self._refreshing.request()

    def _on_graph(self, graph: Graph) -> None:
        """Show the values of the call through which a function is entered."""
        if isinstance(graph.owner, Function):
            call = entered_call(self._workspace, graph)
            if call is not None:
                self._workspace.results.show_call(call)
        self._refreshing.request()

    @property
    def graph(self) -> Graph:
        """The graph that the selectors are for."""
        workspace = self._workspace
        item = workspace.selection.current
        graph = item.graph if isinstance(item, (Node, Value)) else None
        if isinstance(item, Node) and item.op_type in ("Loop", "Scan", "SequenceMap") and item.bodies:
            graph = item.bodies[0]
        is_seen = graph is not None and workspace.graph in path_to(graph)
        return graph if graph is not None and is_seen else workspace.graph

    def refresh(self) -> None:
        """Update the selectors for the graph in the shown run."""
        scopes = scopes_of(self._workspace, self.graph)
        if scopes == self._scopes:
            return
        if _structure(scopes) == _structure(self._scopes):
            self._scopes = scopes
            self._show_numbers()
            return
        self._scopes = scopes
        self.iterations = []
        clear_layout(self._layout)
        if len(scopes.calls) > 1:
            self._add_calls()
        if scopes.branch is not None:
            self._add_branches(scopes.branch)
        for loop in scopes.loops:
            self._add_loop(loop)
        self.setVisible(self._layout.count() > 0)

    def _add_calls(self) -> None:
        scopes, workspace = self._scopes, self._workspace
        count = len(scopes.calls)
        texts = [
            f"{display(call_name(workspace, path), _MOST)} ({number} of {count})"
            for number, path in enumerate(scopes.calls, 1)
        ]
        shown = scopes.calls.index(scopes.call)
        self._add_box("Call", texts, shown, lambda index: workspace.results.show_call(scopes.calls[index]))

    def _add_branches(self, branch: Graph) -> None:
        branches = self._scopes.branches
        taken = "taken in some iterations" if all(was for _, was in branches) else "taken"
        texts = [f"{name_of(graph)} ({taken if was else 'not taken'})" for graph, was in branches]
        shown = next(index for index, (graph, _) in enumerate(branches) if graph is branch)
        navigation = self._workspace.navigation
        self._add_box("Branch", texts, shown, lambda index: navigation.show(branches[index][0]))

    def _add_box(self, name: str, texts: list[str], shown: int, chosen: Callable[[int], object]) -> None:
        box = QComboBox()
        box.addItems(texts)
        box.setCurrentIndex(shown)
        box.setAccessibleName(name)
        box.activated.connect(chosen)
        self._layout.addWidget(labelled(name, box))

    def _add_loop(self, loop: LoopScope) -> None:
        is_lone = len(self._scopes.loops) == 1
        name = "Iteration" if is_lone else f"Iteration of {display(loop.name, _MOST)}"
        spin = QSpinBox()
        _show_loop(spin, loop)
        spin.setKeyboardTracking(False)
        spin.setAccessibleName(name)
        spin.setToolTip(
            f"Iteration of {display(loop.name, _MOST)} whose values are shown, counted from 0"
            if loop.can_choose
            else "The iteration can be chosen once the run has ended."
        )
        spin.valueChanged.connect(partial(self._choose, spin))
        self.iterations.append(spin)
        self._layout.addWidget(labelled(name, spin))

    def _choose(self, spin: QSpinBox, number: int) -> None:
        loop = self._scopes.loops[self.iterations.index(spin)]
        self._workspace.results.show_iterations(with_iteration(self._scopes, loop.key, number))

    def _show_numbers(self) -> None:
        for spin, loop in zip(self.iterations, self._scopes.loops, strict=True):
            with QSignalBlocker(spin):
                _show_loop(spin, loop)


def _show_loop(spin: QSpinBox, loop: LoopScope) -> None:
    spin.setRange(0, loop.count - 1)
    spin.setValue(loop.shown)
    spin.setSuffix(f" of 0–{loop.count - 1}")
    spin.setEnabled(loop.can_choose and loop.count > 1)


def _structure(scopes: RunScopes) -> tuple[object, ...]:
    """Return the part of the scopes that determines the widgets; the rest only changes their values."""
    return scopes.calls, scopes.call, scopes.branch, scopes.branches, [loop.key for loop in scopes.loops]
