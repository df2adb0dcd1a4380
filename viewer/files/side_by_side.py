"""Two compared documents in one tab: a bar, and both graphs side by side and synchronized, or merged into one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import (
    QApplication,
    QSplitter,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.model.analysis.name_scopes import Scope
from onnx_workbench.model.ir.graph import Graph
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.compare.difference_text import difference_line
from onnx_workbench.viewer.compare.merged import MergedComparison
from onnx_workbench.viewer.program.settings import COMPARE_MERGED
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.theme import themes
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.elided_label import ElidedLabel
from onnx_workbench.viewer.widgets.flow_layout import FlowLayout

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.graph_view import GraphView
    from onnx_workbench.viewer.compare.model_comparison import ModelComparison
    from onnx_workbench.viewer.files.document_tab import DocumentTab
    from onnx_workbench.viewer.run.workspace import Workspace

_LEAST_TOLD = 20  # least number of characters of the difference in the bar
_MOST_TRIED = 64  # limit for the boxes around the middle in which a match is searched


class SideBySide(QWidget):
    """The old document on the left, the new one on the right. Ends with the comparison.

    Both tabs stay: the front one shows the two. Actions, docks and shortcuts apply to the side clicked last; in the
    merged graph to the document with the last selection, the new one where both have it.
    """

    front_changed = Signal()
    view_made = Signal(object)  # GraphView: the merged graph is shown, or was rebuilt

    def __init__(self, left: DocumentTab, right: DocumentTab, comparing: ModelComparison) -> None:
        super().__init__()
        self.left, self.right = left, right
        self.front = right
        self.comparing = comparing
        self.titles = {tab: ElidedLabel() for tab in (left, right)}
        self.splitter = QSplitter(Qt.Orientation.Horizontal)
        self.splitter.setChildrenCollapsible(False)
        for tab in (left, right):
            view_state = tab.view.scenes.view_state()
            self.splitter.addWidget(self._side(tab))
            tab.view.scenes.restore_view_state(view_state)
        self.merged: MergedComparison | None = None  # while both are shown as one graph
        self._stack = QStackedWidget()
        self._stack.addWidget(self.splitter)
        self.bar = CompareBar(comparing)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.bar)
        layout.addWidget(self._stack, 1)
        self.together = ViewSync(left.view, right.view, comparing)
        self.bar.follow.toggled.connect(self.together.set_on)
        left.beside = right.beside = self
        for tab in (left, right):
            tab.workspace.changes.state_changed.connect(self._show_titles)
            tab.view.installEventFilter(self)
        comparing.closed.connect(self._end)
        _application().focusChanged.connect(self._on_focus)
        comparing.new.settings.changed.connect(self._on_setting)
        self._show_titles()
        self._arrange()

    def _side(self, tab: DocumentTab) -> QWidget:
        side = QWidget()
        label = self.titles[tab]
        label.setContentsMargins(8, 3, 8, 3)
        label.setAutoFillBackground(True)
        layout = QVBoxLayout(side)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(label)
        layout.addWidget(tab.pane, 1)
        return side

    # -- side by side or merged ----------------------------------------------------------------------------------

    def _on_setting(self, key: str) -> None:
        if key == COMPARE_MERGED.key:
            self._arrange()

    def _arrange(self) -> None:
        """Show both graphs, or the merged one, as chosen last."""
        wanted = self.comparing.new.settings.get(COMPARE_MERGED)
        self.bar.show_merged(is_merged=wanted)
        if wanted == (self.merged is not None):
            return
        if wanted:
            self.merged = MergedComparison(self.comparing)
            self.merged.chosen.connect(self._on_chosen)
            self.merged.view_made.connect(self._on_view)
            self._stack.addWidget(self.merged)
            self._stack.setCurrentWidget(self.merged)
        else:
            self._end_merged()
        self.front_changed.emit()

    def _end_merged(self) -> None:
        merged, self.merged = self.merged, None
        if merged is not None:
            merged.close_view()
            self._stack.removeWidget(merged)
            merged.deleteLater()

    def _on_chosen(self, workspace: Workspace) -> None:
        self.set_front(self.left if workspace is self.left.workspace else self.right)

    def _on_view(self, view: GraphView) -> None:
        self.view_made.emit(view)
        self.front_changed.emit()

    # -- the active side -----------------------------------------------------------------------------------------

    def move_to(self, tab: DocumentTab) -> None:
        """Show both in the page of one of the tabs, which becomes the active side."""
        if self.parentWidget() is not tab:
            tab.set_content(self)
        self.set_front(tab)

    def set_front(self, tab: DocumentTab) -> None:
        """Apply actions and docks to this side."""
        if tab is not self.front:
            self.front = tab
            self._show_titles()
            self.front_changed.emit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Activate the clicked side, even while the window is inactive."""
        if event.type() == QEvent.Type.MouseButtonPress:
            for tab in (self.left, self.right):
                if watched is tab.view:
                    self.set_front(tab)
        return False

    def _on_focus(self, _old: QWidget | None, now: QWidget | None) -> None:
        for tab in (self.left, self.right):
            if now is not None and tab.pane.isAncestorOf(now):
                self.set_front(tab)

    def _show_titles(self) -> None:
        for tab, word in ((self.left, "Before"), (self.right, "After")):
            label = self.titles[tab]
            modified = " •" if tab.modified else ""
            label.setText(f"{word}: {display(tab.workspace.label, 80)}{modified}")
            is_front = tab is self.front
            label.setBackgroundRole(QPalette.ColorRole.Base if is_front else QPalette.ColorRole.Window)
            label.setForegroundRole(QPalette.ColorRole.Text if is_front else QPalette.ColorRole.PlaceholderText)

    def _end(self) -> None:
        """Return each tab to its own pane."""
        _application().focusChanged.disconnect(self._on_focus)
        self.comparing.new.settings.changed.disconnect(self._on_setting)
        self._end_merged()
        self.together.set_on(False)
        for tab in (self.left, self.right):
            tab.beside = None
            tab.workspace.changes.state_changed.disconnect(self._show_titles)
            tab.view.removeEventFilter(self)
            view_state = tab.view.scenes.view_state()
            tab.set_content(tab.pane)
            tab.view.scenes.restore_view_state(view_state)
        self.front_changed.emit()
        self.hide()  # else it would be shown as a separate window
        self.setParent(None)
        self.deleteLater()


def _application() -> QApplication:
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    return application


class CompareBar(QWidget):
    """Navigation among the differences, copying, running both."""

    def __init__(self, comparing: ModelComparison) -> None:
        super().__init__()
        self._comparing = comparing
        self._row = FlowLayout(4)
        self.setLayout(self._row)
        self._row.setContentsMargins(6, 3, 6, 3)
        self.beside = self._choice("Side by side", "Show the two graphs side by side", merged=False)
        self.merged = self._choice("Merged", "Show both as one graph, with the nodes of either", merged=True)
        self.previous = self._button("↑", "Previous difference", lambda: comparing.step(-1))
        self.next = self._button("↓", "Next difference", lambda: comparing.step(1))
        self.state = ElidedLabel()
        self.state.setMinimumWidth(_LEAST_TOLD * self.fontMetrics().averageCharWidth())
        self._row.add_filling(self.state)
        self.to_left = self._button("← Copy", "Copy the selected differences to the left document", self._left)
        self.to_right = self._button("Copy →", "Copy the selected differences to the right document", self._right)
        self.run = self._button(
            "Run both", "Run both with the same inputs and list the difference of each value", self._run_both
        )
        self.follow = self._button("Sync Views", "Keep both graphs at the same position and zoom", None)
        self.follow.setCheckable(True)
        self.follow.setChecked(True)
        self.list = self._button("List", "Show the list of differences", lambda: self._trigger("panel.differences"))
        self.stop = self._button("", "Stop comparing", comparing.close)
        themes().themeChanged.connect(self._color)
        self._color()
        comparing.changed.connect(self._show)
        comparing.chosen_changed.connect(self._show)
        self._show()

    def _button(self, text: str, tip: str, run: Callable[[], object] | None) -> QToolButton:
        button = QToolButton()
        button.setText(text)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        button.setAutoRaise(True)
        if run is not None:
            button.clicked.connect(lambda _checked: run())
        self._row.addWidget(button)
        return button

    def _color(self) -> None:
        self.stop.setIcon(icon("close"))

    def _choice(self, text: str, tip: str, *, merged: bool) -> QToolButton:
        settings = self._comparing.new.settings
        button = self._button(text, tip, lambda: settings.set(COMPARE_MERGED, merged))
        button.setCheckable(True)
        return button

    def show_merged(self, *, is_merged: bool) -> None:
        """Show which mode is active."""
        self.beside.setChecked(not is_merged)
        self.merged.setChecked(is_merged)
        self.follow.setVisible(not is_merged)

    def _trigger(self, action: str) -> None:
        self._comparing.new.trigger(action)

    def _run_both(self) -> None:
        self._trigger("model.run_both")

    def _left(self) -> None:
        self._comparing.copy_into(self._comparing.chosen, self._comparing.old)

    def _right(self) -> None:
        self._comparing.copy_into(self._comparing.chosen, self._comparing.new)

    def _show(self) -> None:
        result, chosen = self._comparing.result, self._comparing.chosen
        found = self._comparing.shown
        if result is None:
            text = "Comparing…"
        elif not found:
            text = "No difference" if not result.differences else "No difference of the kinds shown"
        elif not chosen:
            text = plural(len(found), "difference")
        else:
            text = f"{found.index(chosen[-1]) + 1:,} of {len(found):,}: {difference_line(chosen[-1])}"
        self.state.setText(display(text, 200))
        self.state.setToolTip(plain_tip(display(text, 1000)))
        for button in (self.previous, self.next):
            button.setEnabled(bool(found))
        for button in (self.to_left, self.to_right):
            button.setEnabled(bool(chosen))


class ViewSync(QObject):
    """Synchronizes zoom and position of two graphs by matching the boxes in the middle."""

    def __init__(self, left: GraphView, right: GraphView, comparing: ModelComparison) -> None:
        super().__init__(right)
        self._comparing = comparing
        self._views = left, right
        self._is_on = True
        self._leading = False
        left.viewport_changed.connect(self._on_left)
        right.viewport_changed.connect(self._on_right)
        left.workspace.navigation.graph_shown.connect(self._on_left_graph)
        right.workspace.navigation.graph_shown.connect(self._on_right_graph)
        left.scenes.scene_shown.connect(self._on_right)
        comparing.changed.connect(self._on_right)

    def set_on(self, is_on: bool) -> None:
        """Turn synchronization on or off."""
        self._is_on = is_on
        if is_on:
            self._on_right()

    def _on_left(self) -> None:
        self._lead(*self._views)

    def _on_right(self) -> None:
        self._lead(*reversed(self._views))

    def _lead(self, leader: GraphView, follower: GraphView) -> None:
        if self._leading or not self._is_on or leader.scene is None or follower.scene is None:
            return
        if self._comparing.result is None or follower.scenes.is_busy:
            return
        centre = self._partner_place(leader, follower)
        if centre is None:
            return
        self._leading = True
        try:
            if follower.viewport.scale != leader.viewport.scale:
                follower.viewport.scale = leader.viewport.scale
                follower.zoom_changed.emit(follower.viewport.scale)
            follower.centre_on(*centre)
        finally:
            self._leading = False

    def _partner_place(self, leader: GraphView, follower: GraphView) -> tuple[float, float] | None:
        """Return the position in the follower's scene that corresponds to the middle of the leader's view.

        Interpolated between the nearest matched boxes before and after the middle, so that the view does not jump if
        one side has more boxes in between.
        """
        scene = leader.scene
        assert scene is not None
        middle = np.array(leader.viewport.to_scene(leader.width() / 2, leader.height() / 2))
        boxes = scene.boxes_in(*leader.viewport.area)
        along = 1 if scene.drawing.options.direction == "down" else 0
        at = scene.rects[boxes][:, :2] + scene.rects[boxes][:, 2:] / 2
        order = np.argsort(np.abs(at - middle) @ np.array([1.0, 1.0]), kind="stable")[:_MOST_TRIED]
        sides: dict[bool, tuple[float, np.ndarray[tuple[int], np.dtype[np.float64]]]] = {}
        for index in order.tolist():
            is_before = bool(at[index, along] <= middle[along])
            partner = self._partner_centre(leader, follower, int(boxes[index])) if is_before not in sides else None
            if partner is not None:
                sides[is_before] = float(at[index, along]), partner - at[index]
            if len(sides) == 2:
                break
        if not sides:
            return None
        offsets = [offset for _, offset in sides.values()]
        offset = offsets[0]
        if len(sides) > 1:
            start, end = sides[True][0], sides[False][0]
            share = (float(middle[along]) - start) / max(end - start, 1.0)
            offset = sides[True][1] * (1 - share) + sides[False][1] * share
        x, y = (middle + offset).tolist()
        return x, y

    def _partner_centre(
        self, leader: GraphView, follower: GraphView, box: int
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
        assert leader.scene is not None
        assert follower.scene is not None
        assert self._comparing.result is not None
        subject = leader.scene.boxes[box].subject
        inside = subject.all_nodes() if isinstance(subject, Scope) else (subject,)
        partners = (self._comparing.result.partner(item) for item in inside)
        partner = next((p for p in partners if p is not None), None)
        found = follower.scene.drawing.boxes_of(partner) if partner is not None else []
        if not found:
            return None
        left, top, width, height = follower.scene.rect(found[0])
        return np.array([left + width / 2, top + height / 2])

    def _on_left_graph(self, graph: Graph) -> None:
        self._show_partner(graph, self._views[1])

    def _on_right_graph(self, graph: Graph) -> None:
        self._show_partner(graph, self._views[0])

    def _show_partner(self, graph: Graph, follower: GraphView) -> None:
        result = self._comparing.result
        partner = result.partner(graph) if result is not None and self._is_on else None
        if isinstance(partner, Graph):
            follower.workspace.navigation.show(partner)
