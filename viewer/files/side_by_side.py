"""Two compared documents in one tab: both graphs side by side and synchronized, or merged into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import (
    QApplication,
    QSplitter,
    QStackedWidget,
    QWidget,
)

from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.compare.compare_bar import CompareBar
from onnx_workbench.viewer.compare.merged import MergedComparison
from onnx_workbench.viewer.compare.view_sync import ViewSync
from onnx_workbench.viewer.program.settings import COMPARE_MERGED
from onnx_workbench.viewer.widgets.elided_label import ElidedLabel
from onnx_workbench.viewer.widgets.flow_layout import in_a_column

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.graph_view import GraphView
    from onnx_workbench.viewer.compare.model_comparison import ModelComparison
    from onnx_workbench.viewer.files.document_tab import DocumentTab
    from onnx_workbench.viewer.run.workspace import Workspace


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
        in_a_column(self, self.bar, self._stack, fills=self._stack)
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
        in_a_column(side, label, tab.pane, fills=tab.pane)
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
