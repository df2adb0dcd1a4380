"""The docks of a window: one per panel, showing the panel of the current document, created when first shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QObject, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QPalette
from PySide6.QtWidgets import (
    QApplication,
    QDockWidget,
    QHBoxLayout,
    QLabel,
    QMainWindow,
    QStackedWidget,
    QTabBar,
    QToolButton,
    QWidget,
)

from onnx_workbench.viewer.dock_sizes import DockSizes
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.panel_list import PANELS, PanelInfo
from onnx_workbench.viewer.program.garbage_collection import delete_widget
from onnx_workbench.viewer.program.settings import CLOSED_PANELS, Settings
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.theme import themes

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace

_AREAS = {
    "left": Qt.DockWidgetArea.LeftDockWidgetArea,
    "right": Qt.DockWidgetArea.RightDockWidgetArea,
    "bottom": Qt.DockWidgetArea.BottomDockWidgetArea,
}
_WIDTHS = {"left": 280, "right": 340, "bottom": 600}
_LEAST_HEIGHT = 60  # of a dock below the graph in a low window
_LINES = 20  # lines of text: initial height of a dock, so that a table or an image has room below its controls,
_SHARE = 0.42  # but at most this share of the window: the graph stays visible
_NONE = Qt.KeyboardModifier.NoModifier
_TAB_BAR = "QMainWindowTabBar"  # Qt's name for the tabs of docks
_LEAST_WIDTHS = {"left": 150, "right": 230, "bottom": 0}


class PanelDock(QDockWidget):
    """A dock with one panel per open document, showing that of the current one."""

    closed_by_user = Signal(str)  # the panel's id

    def __init__(self, info: PanelInfo, window: QWidget) -> None:
        super().__init__(info.title, window)
        self.info = info
        self.setObjectName(f"panel.{info.id}")
        self._stack = _Stack(_WIDTHS[info.area])
        self._stack.setMinimumWidth(_LEAST_WIDTHS[info.area])
        if info.area == "bottom":
            self._stack.setMinimumHeight(_LEAST_HEIGHT)
        self._panels: dict[Workspace, Panel] = {}
        self._workspace: Workspace | None = None
        self.setWidget(self._stack)
        self.setTitleBarWidget(_TitleBar(self))
        self.visibilityChanged.connect(self._show_panel)
        self.visibilityChanged.connect(self._tell_panel)
        # In the window's own menu of docks.
        self.toggleViewAction().triggered.connect(lambda shown: None if shown else self.close_for_good())

    def close_for_good(self) -> None:
        """Close the dock by the user's request: it is not reopened automatically."""
        self.hide()
        self.closed_by_user.emit(self.info.id)

    def set_workspace(self, workspace: Workspace | None) -> None:
        """Show the panel of another document, unless the shown one also serves it."""
        shown = self.panel
        if shown is not None and workspace is not None and shown.serves(workspace):
            return
        self._workspace = workspace
        self._show_panel()

    def forget(self, workspace: Workspace) -> None:
        """Drop the panel of a closed document; create no other while the docks are hidden."""
        if self._workspace is workspace:
            self._workspace = None
        panel = self._panels.pop(workspace, None)
        if panel is not None:
            self._stack.removeWidget(panel)
            delete_widget(panel)

    @property
    def panel(self) -> Panel | None:
        """The panel of the current document, if it was created."""
        return None if self._workspace is None else self._panels.get(self._workspace)

    def make(self) -> Panel | None:
        """Return the panel of the current document, created if needed, even while hidden; None without a document."""
        workspace = self._workspace
        if workspace is None:
            return None
        panel = self._panels.get(workspace)
        if panel is None:
            panel = self._panels[workspace] = self.info.load()(workspace)
            self._stack.addWidget(panel)
        return panel

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Return to the graph on Esc, where the panel did not use it."""
        if event.key() == Qt.Key.Key_Escape and event.modifiers() == _NONE and self._workspace is not None:
            self._workspace.trigger("go.graph")
        else:
            super().keyPressEvent(event)

    def _tell_panel(self, in_front: bool) -> None:
        if self.panel is not None:
            self.panel.set_in_front(in_front=in_front)

    def _show_panel(self, *_: object) -> None:
        panel = self.make() if self.isVisible() else None
        if panel is not None:
            self._stack.setCurrentWidget(panel)


class _TitleBar(QWidget):
    """Title and a close button in the theme's colours; drag it to move the dock, double-click to float it."""

    def __init__(self, dock: PanelDock) -> None:
        super().__init__(dock)
        title = QLabel(dock.windowTitle())
        title.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self._close = QToolButton()
        self._close.setAutoRaise(True)
        self._close.setIconSize(QSize(10, 10))
        self._close.setToolTip(f"Close {dock.windowTitle()}")
        self._close.setAccessibleName(f"Close {dock.windowTitle()}")
        self._close.clicked.connect(dock.close_for_good)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 2, 4, 2)
        row.addWidget(title, 1)
        row.addWidget(self._close)
        themes().themeChanged.connect(self._color)
        self._color()

    def _color(self) -> None:
        self._close.setIcon(icon("close"))


class _Stack(QStackedWidget):
    """A stack whose size hint does not depend on its content."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width

    def sizeHint(self) -> QSize:
        high = min(_LINES * self.fontMetrics().height(), int(_SHARE * self.window().height()))
        return QSize(self._width, high)


class Docks(QObject):
    """All docks of a window. Hidden while no document is open; restored afterwards."""

    def __init__(self, window: QMainWindow, settings: Settings) -> None:
        super().__init__(window)
        self._window = window
        self._settings = settings
        self._workspace: Workspace | None = None
        self._state = QByteArray()  # while hidden: the state to restore
        self._are_shown = False
        self._docks = {info.id: PanelDock(info, window) for info in PANELS}
        first_of_area: dict[str, PanelDock] = {}
        for dock in self._docks.values():
            area = dock.info.area
            window.addDockWidget(_AREAS[area], dock)
            if area in first_of_area:
                window.tabifyDockWidget(first_of_area[area], dock)
            else:
                first_of_area[area] = dock
            dock.hide()
            dock.closed_by_user.connect(self._remember_closed)
        self.sizes = DockSizes(
            window, self._docks.values(), {_AREAS[area]: _WIDTHS[area] for area in ("left", "right")}
        )
        self._offered: set[str] = set()
        self._is_first = False  # the next layout is that of the last start
        self._tab_bars = QTimer(self, singleShot=True, interval=0)
        self._tab_bars.timeout.connect(self._reach_tab_bars)
        for dock in self._docks.values():
            dock.visibilityChanged.connect(self._tab_bars.start)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._show_focused)
        self._widen_bottom()

    def _widen_bottom(self) -> None:
        """Let the bottom docks take the full width, as tables of numbers are wide."""
        for corner in (Qt.Corner.BottomLeftCorner, Qt.Corner.BottomRightCorner):
            self._window.setCorner(corner, Qt.DockWidgetArea.BottomDockWidgetArea)

    def _reach_tab_bars(self) -> None:
        """Keep hidden single-tab bars of the window out of the tab order."""
        for bar in QApplication.allWidgets():  # the window would keep what its findChildren returned, deleted ones too
            is_own = bar.metaObject().className() == _TAB_BAR and self._window.isAncestorOf(bar)
            if is_own and isinstance(bar, QTabBar):
                bar.setFocusPolicy(Qt.FocusPolicy.TabFocus if bar.count() > 1 else Qt.FocusPolicy.NoFocus)

    def _show_focused(self, _old: QWidget | None, now: QWidget | None) -> None:
        """Raise a tabbed dock when it gets the focus by Tab."""
        for dock in self._docks.values():
            if now is not None and dock.isAncestorOf(now) and dock.visibleRegion().isEmpty():
                dock.raise_()

    def set_workspace(self, workspace: Workspace | None) -> None:
        """Show the panels of another document."""
        self._workspace = workspace
        for dock in self._docks.values():
            dock.set_workspace(workspace)

    def forget(self, workspace: Workspace) -> None:
        """Drop the panels of a closed document."""
        for dock in self._docks.values():
            dock.forget(workspace)

    def has(self, panel_id: str) -> bool:
        """Whether there is a panel with this id."""
        return panel_id in self._docks

    def is_open(self, panel_id: str) -> bool:
        """Return whether a panel's dock is open, in front of its tabs or behind."""
        return not self._docks[panel_id].isHidden()

    def panels(self) -> list[tuple[PanelInfo, Panel | None]]:
        """Return the created panels of the current document; None for others."""
        return [(dock.info, dock.panel) for dock in self._docks.values()]

    def panel(self, panel_id: str) -> Panel | None:
        """Return the panel of the current document; created, shown and raised if it was not shown yet."""
        dock = self._docks[panel_id]
        if dock.panel is None:
            dock.show()
            dock.raise_()
        return dock.panel

    def toggle(self, panel_id: str) -> None:
        """Close the panel if it is visible, else raise it."""
        dock = self._docks[panel_id]
        if dock.isVisible() and not dock.visibleRegion().isEmpty():
            dock.close_for_good()
        else:
            self.open(panel_id)

    def visit(self, panel_id: str) -> None:
        """Raise a panel and focus it; if it has the focus, close it and focus the graph."""
        dock, focus = self._docks[panel_id], QApplication.focusWidget()
        if focus is None or not dock.isAncestorOf(focus):
            self.open(panel_id)
            return
        dock.close_for_good()
        if self._workspace is not None:
            self._workspace.trigger("go.graph")

    def open(self, panel_id: str) -> Panel | None:
        """Raise a panel and focus it; None without a document."""
        dock = self._docks[panel_id]
        dock.show()
        dock.raise_()
        panel = dock.panel
        if panel is not None:
            panel.activate()
        return panel

    def suggest_panel(self, panel_id: str) -> bool:
        """Open a panel without focus, once per window; never one that the user closed. Returns whether this was it.

        One beside the graph comes to the front also if it is open: a new session begins with the inspector there.
        """
        if panel_id in self._offered or not self._are_shown:
            return False
        self._offered.add(panel_id)
        dock = self._docks[panel_id]
        may_come = dock.isHidden() or dock.info.area != "bottom"
        if may_come and panel_id not in self._settings.get(CLOSED_PANELS):
            dock.show()
            dock.raise_()
            self.sizes.fit(may_hide=True)
        return True

    def _remember_closed(self, panel_id: str) -> None:
        closed = self._settings.get(CLOSED_PANELS)
        self._settings.set(CLOSED_PANELS, tuple(dict.fromkeys((*closed, panel_id))))

    def state(self) -> QByteArray:
        """Return the layout for the next start; empty if it was never shown."""
        self.sizes.give_back()
        return self._window.saveState() if self._are_shown else self._state

    def restore(self, state: QByteArray) -> None:
        """Restore the layout of the last start without docks below the graph and with its first docks in front.

        Nothing was run or found yet, and the inspector says what the model is.
        """
        self._state, self._is_first = state, True
        if self._are_shown and not state.isEmpty():
            self._restore_state()

    def _restore_state(self) -> None:
        self._window.restoreState(self._state)
        self.sizes.adopt()
        self._widen_bottom()
        is_first, self._is_first = self._is_first, False
        if not is_first:
            return
        for dock in self._docks.values():
            if dock.info.area == "bottom" and not dock.isFloating():
                dock.hide()
        self._raise_first()

    def _raise_first(self) -> None:
        """Bring the docks that are open at first to the front of their tabs, if they are open."""
        for dock in reversed(self._docks.values()):
            if dock.info.open_at_first and not dock.isHidden():
                dock.raise_()

    def set_shown(self, *, shown: bool) -> None:
        """Hide all docks, or restore the shown ones: at first the default ones."""
        if shown == self._are_shown:
            return
        if not shown:
            self._state = self.state()
        self._are_shown = shown
        self.sizes.fit_soon()
        if shown and not self._state.isEmpty():
            self._restore_state()
            return
        for dock in self._docks.values():
            dock.setVisible(shown and dock.info.open_at_first)
        if shown:
            self._raise_first()
