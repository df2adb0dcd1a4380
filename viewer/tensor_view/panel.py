"""Tensor panel: shows and edits the elements of the selected value, with pinned copies next to it."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QSplitter

from onnx_workbench.model.ir.graph import Value
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.tasks.event_loop import Debounce
from onnx_workbench.viewer.tensor_view.pane import TensorPane
from onnx_workbench.viewer.tensor_view.readers import TensorSlice
from onnx_workbench.viewer.widgets.flow_layout import in_a_column
from onnx_workbench.viewer.widgets.scrolling import scroll_area

_MOST_PINNED = 3
_IDLE_MS = 30


class TensorPanel(Panel):
    """The first pane follows the selection; pinned ones keep their tensor. All share plane and zoom."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._shown: set[Value] = set()  # of runs, in any pane
        self.splitter = QSplitter(Qt.Orientation.Horizontal)
        self.pane = self._add_pane(pinned=False)
        self.pane.pin_wanted.connect(self.pin)
        self.splitter.setChildrenCollapsible(False)
        area = scroll_area(self.splitter)
        area.verticalScrollBar().rangeChanged.connect(self._keep_prompts_in_view)
        in_a_column(self, area)
        self._timer = QTimer(self, singleShot=True, interval=_IDLE_MS)
        self._timer.timeout.connect(self._show_selection)
        workspace.selection.changed.connect(self._timer.start)
        workspace.changes.changed.connect(self._refresh)
        self._soon = Debounce(self._catch_up, self)  # a run emits several signals at once
        workspace.results.changed.connect(self._soon.request)
        workspace.runs_changed.connect(self._soon.request)
        self._show_selection()

    def activate(self) -> None:
        """Focus the numbers in the current view; an image in preparation takes the focus later."""
        (self.pane.stack.currentWidget() or self.pane).setFocus(Qt.FocusReason.ShortcutFocusReason)

    @property
    def panes(self) -> list[TensorPane]:
        """Return the live pane, then the pinned ones."""
        widgets = (self.splitter.widget(i) for i in range(self.splitter.count()))
        return [w for w in widgets if isinstance(w, TensorPane)]

    def _keep_prompts_in_view(self) -> None:
        """Scroll to what asks again: a prompt that is shown or grows is moved down in several steps."""
        for pane in self.panes:
            pane.ask.scroll_into_view()

    def _add_pane(self, *, pinned: bool) -> TensorPane:
        pane = TensorPane(self.workspace, pinned=pinned)
        pane.sliced.connect(lambda which: self._link_slice(pane, which))
        pane.moved.connect(lambda view: self._link_view(pane, view))
        self.splitter.addWidget(pane)
        return pane

    def _show_selection(self) -> None:
        """Show the selected value; without one, keep the last tensor."""
        self.workspace.results.allow_refetch()
        self._catch_up()

    def _refresh(self) -> None:
        for pane in self.panes:
            pane.refresh()
        self._release_values()

    def _release_values(self) -> None:
        """Release values that no pane shows any more."""
        before, targets = self._shown, [pane.target for pane in self.panes]
        self._shown = {target.value for target in targets if target is not None and target.value is not None}
        self.workspace.results.cancel_fetch(before - self._shown)

    def _catch_up(self) -> None:
        """Show the selection as a run has it by now: which of a node's values is shown depends on where it waits."""
        self.pane.show_item(self.workspace.selection.current)
        for pane in self.panes[1:]:
            pane.refresh()
        self._release_values()

    def pin(self) -> None:
        """Pin a copy next to it."""
        target = self.pane.target
        pinned = self.panes[1:]
        if target is None:
            return
        if len(pinned) >= _MOST_PINNED:
            self.unpin(pinned[0])
        pane = self._add_pane(pinned=True)
        pane.pin_wanted.connect(lambda: self.unpin(pane))
        pane.options.copy_from(self.pane.options)
        pane.show_targets([target])
        pane.show_slice(self.pane.slices.slice)
        if self.pane.view is not None:
            pane.choose_view(self.pane.view)
        if self.pane.mode_box.currentIndex():
            pane.choose_mode(self.pane.mode_box.currentIndex())
        self.splitter.setSizes([1] * self.splitter.count())
        self._release_values()

    def unpin(self, pane: TensorPane) -> None:
        """Close a pinned copy."""
        pane.setParent(None)
        pane.deleteLater()
        self._release_values()

    def _link_slice(self, source: TensorPane, which: TensorSlice) -> None:
        for pane in self.panes:
            if pane is not source:
                pane.show_slice(which)

    def _link_view(self, source: TensorPane, view: tuple[float, float, float]) -> None:
        for pane in self.panes:
            if pane is not source:
                pane.picture.set_view(view)
