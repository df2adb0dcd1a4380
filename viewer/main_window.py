"""The window: docks around the graphs of the open documents, one tab each; the start page while there is none."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QCloseEvent,
    QContextMenuEvent,
    QDragEnterEvent,
    QDropEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPaintEvent,
    QResizeEvent,
    QShortcut,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QMainWindow,
    QToolBar,
)

from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer import preload
from onnx_workbench.viewer.actions import MenuContext, action
from onnx_workbench.viewer.actions.binding import ActionBinding
from onnx_workbench.viewer.dialogs.dialog_lifetime import show_aside
from onnx_workbench.viewer.docks import Docks
from onnx_workbench.viewer.files.document_area import DocumentArea
from onnx_workbench.viewer.files.document_tab import DocumentTab
from onnx_workbench.viewer.files.documents import Documents
from onnx_workbench.viewer.program.settings import LAST_FOLDER, THEME, Settings
from onnx_workbench.viewer.property_tree.editors import commit_focused_editor
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.app_icon import app_icon
from onnx_workbench.viewer.style.theme import as_mode, theme, themes
from onnx_workbench.viewer.widgets.start_page import StartPage
from onnx_workbench.viewer.widgets.status_line import StatusLine

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.graph_view import GraphView
    from onnx_workbench.viewer.popups.command_palette import CommandPalette
    from onnx_workbench.viewer.tasks.tasks import Task

_FIRST_SIZE = QSize(1280, 800)
_MOUSE_BUTTONS = {Qt.MouseButton.BackButton: "go.back", Qt.MouseButton.ForwardButton: "go.forward"}
_ARRAYS = (".npy", ".npz")
_SHOWN_SAVED = 5000  # ms
_AFTER_OPENING = 1500  # ms from the first model to the import of what running one needs


class MainWindow(QMainWindow):
    """One window of the program. Painted with Qt alone; numpy and the canvas come with the first document."""

    first_painted = Signal()
    workspace_changed = Signal()  # another document is in front, or none
    closing = Signal()  # nothing keeps it any more; letting go of large documents may take a moment

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self.settings = settings or Settings()
        self._painted = False
        self._closing = False
        self._wanted: list[str] = []  # actions that are done as soon as a document is open
        self.setWindowTitle("ONNX Workbench")
        self.setWindowIcon(app_icon())
        self.setAcceptDrops(True)
        self.setDockNestingEnabled(True)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.start_page = StartPage(self.settings)
        self.area = DocumentArea(self.start_page)
        self.setCentralWidget(self.area)
        self.files = Documents(self.area, self.settings, preload.import_view)
        self.status = StatusLine()
        self.status.work.watch(self.files.tasks)
        self.setStatusBar(self.status)
        self.docks = Docks(self, self.settings)
        context = MenuContext(
            self, self.area, self.files, self.docks, self.settings, self.open_palette, self._do_once_open
        )
        self.actions_binding = ActionBinding(context)
        self.actions_binding.build_menu_bar(self.menuBar())
        self._bar = self._tool_bar()
        self.addToolBar(self._bar)
        themes().themeChanged.connect(self._color)
        self._color()
        self.settings.changed.connect(self._on_setting)
        self.settings.changed.connect(self.actions_binding.refresh_soon)
        self.files.pending_changed.connect(self._show_pending)
        self.files.opened.connect(self._do_wanted)
        self.files.opened.connect(self._preload_runs, Qt.ConnectionType.SingleShotConnection)
        self.files.all_closed.connect(self._close_now)
        self.files.operator_set_opened.connect(partial(self.actions_binding.run, "model.operator_sets"))
        QShortcut(QKeySequence("Shift+F10"), self, self._open_menu_of_focus)
        self.files.saver.saved.connect(lambda text: self.status.showMessage(text, _SHOWN_SAVED))
        self._connect_start_page()
        self._connect_area()
        self._restore()
        self._show_front()

    def _connect_start_page(self) -> None:
        self.start_page.open_requested.connect(self.files.choose_and_open)
        self.start_page.new_requested.connect(lambda: self.actions_binding.run("file.new"))
        self.start_page.sample_requested.connect(self.files.open_sample)
        self.start_page.file_requested.connect(lambda name: self.files.open([Path(name)]))

    def _connect_area(self) -> None:
        self.area.tab_added.connect(self._on_tab_added)
        self.area.tab_removed.connect(self._on_tab_removed)
        self.area.view_added.connect(self._on_view_added)
        self.area.close_requested.connect(self.files.close)
        self.area.front_changed.connect(self._show_front)
        self.area.titles_changed.connect(self._show_title)

    def _tool_bar(self) -> QToolBar:
        bar = QToolBar("Tool bar")
        bar.setObjectName("toolbar")
        bar.setMovable(False)
        bar.setIconSize(QSize(16, 16))
        bar.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self.actions_binding.build_tool_bar(bar)
        return bar

    # -- documents -------------------------------------------------------------------------------------------

    @property
    def tab(self) -> DocumentTab | None:
        """The tab in front, see `DocumentArea.tab`."""
        return self.area.tab

    @property
    def workspace(self) -> Workspace | None:
        """The document in front, or None on the start page."""
        return self.area.workspace

    def tabs(self) -> list[DocumentTab]:
        """The open documents, from left to right."""
        return self.area.tabs()

    def _on_tab_added(self, tab: DocumentTab) -> None:
        workspace = tab.workspace
        refresh = self.actions_binding.refresh_soon
        for signal in (
            workspace.selection.changed, workspace.changes.state_changed, workspace.navigation.graph_shown,
            workspace.navigation.history.changed, workspace.runs_changed,
        ):  # fmt: skip
            signal.connect(refresh)
        for signal in (workspace.tasks.started, workspace.tasks.ended):
            signal.connect(self._on_task)
        workspace.action_requested.connect(self._trigger)
        workspace.panel_offered.connect(partial(self._suggest_panel, workspace))
        workspace.menu_requested.connect(self._open_context_menu)
        workspace.conversion_requested.connect(partial(self._offer_conversion, workspace))
        self.status.work.watch(workspace.tasks)

    def _on_tab_removed(self, tab: DocumentTab) -> None:
        self.status.work.forget(tab.workspace.tasks)
        if self.status.shows(tab.workspace):
            self.status.set_workspace(None)
        self.docks.forget(tab.workspace)

    def _on_view_added(self, view: GraphView) -> None:
        """Add the shortcuts of actions to a new graph view, and show its zoom while it is current."""
        view.zoom_changed.connect(partial(self._show_zoom, view))
        view.navigator.opened.connect(self._open_panel_of)
        self.actions_binding.add_graph_shortcuts(view)

    def _on_task(self, task: Task[Any]) -> None:
        if task.makes == "edit":
            self.actions_binding.refresh_soon()

    def _color(self) -> None:
        line = theme().border.name()
        # The style's own lines are white on dark ground.
        self._bar.setStyleSheet(
            f"QToolBar {{ border: none; border-bottom: 1px solid {line}; padding: 2px 4px; }}"
            f"QToolBar::separator {{ background: {line}; width: 1px; margin: 5px 4px; }}"
        )

    def _show_front(self) -> None:
        """Update everything around the graph for the current document."""
        tab = self.tab
        workspace = None if tab is None else tab.workspace
        if tab is not None and tab.path is not None:  # file dialogs start in the folder of the model
            self.settings.set(LAST_FOLDER, str(tab.path.parent))
        self.docks.set_shown(shown=tab is not None or self.files.is_waiting)
        self.docks.set_workspace(workspace)
        self.docks.sizes.graph = None if tab is None else tab.canvas
        self.status.set_workspace(workspace)
        self.status.show_zoom(None if tab is None else tab.canvas.zoom)
        self._show_title()
        self.actions_binding.refresh_soon()
        self.workspace_changed.emit()

    def _show_title(self) -> None:
        tab = self.tab
        if tab is None:
            self.setWindowTitle("ONNX Workbench")
        else:
            name = display(tab.workspace.label, 80).replace("[*]", "[*][*]")
            read_only = " (read-only)" if tab.is_read_only else ""
            self.setWindowTitle(f"{name}[*]{read_only} – ONNX Workbench")
        self.setWindowModified(tab is not None and tab.modified)  # which a title must have room for

    def expect(self, documents: bool) -> None:
        """Show the frame of a document instead of the start page: one will be opened right after the first paint."""
        self.files.expecting = documents
        self._show_pending()

    def _do_once_open(self, action_id: str) -> None:
        """Run an action as soon as the document being read is open; drop it when that fails."""
        if action_id not in self._wanted:
            self._wanted.append(action_id)
        self._show_pending()

    def _preload_runs(self) -> None:
        tasks = self.files.tasks
        QTimer.singleShot(_AFTER_OPENING, tasks, lambda: tasks.start("", lambda _progress: preload.import_runs()))

    def _do_wanted(self) -> None:
        wanted, self._wanted = self._wanted, []
        for action_id in wanted:
            self.actions_binding.run(action_id)

    def _show_pending(self) -> None:
        names, waiting = self.files.pending, self.files.is_waiting
        if not waiting:
            self._wanted.clear()
        then = "".join(f"\nThen: {action(one).plain_title}" for one in self._wanted)
        opening = f"Opening {display(names[0], 80)}…" if names else "Opening…"
        self.start_page.show_waiting(f"{opening}{then}" if waiting else "")
        if self.tab is None:
            self.docks.set_shown(shown=waiting)
        self.actions_binding.refresh_soon()

    def _trigger(self, action_id: str) -> None:
        """Trigger an action for a panel or the palette. A panel is raised and focused; only its checkable menu entry
        closes it.
        """
        panel = action_id.removeprefix("panel.")
        if panel != action_id and self.docks.has(panel):
            self.docks.open(panel)
        else:
            self.actions_binding.run(action_id)

    def _suggest_panel(self, workspace: Workspace, panel_id: str) -> None:
        """Open a panel with new content; at the first run also its inputs. The graph in view does not move for it."""
        if workspace is not self.workspace:
            return
        if self.tab is not None:
            self.tab.canvas.keep_in_place()
        if not self.docks.suggest_panel(panel_id) or panel_id != "tensor":
            return
        self.docks.suggest_panel("run")
        if not workspace.selection.items:
            workspace.selection.set(workspace.model.graph.outputs[:1])

    def _open_panel_of(self, item: object) -> None:
        """A double-click on something without an inside: its values, its fields, or the one field it is."""
        has_values = isinstance(item, Value) and self.docks.has("tensor")
        panel = "tensor" if has_values else "inspector"
        if self.docks.has(panel):
            shown = self.docks.open(panel)
            if isinstance(item, Attribute):
                from onnx_workbench.viewer.inspector.panel import InspectorPanel

                assert isinstance(shown, InspectorPanel)
                shown.edit_attribute(item)

    def _show_zoom(self, view: GraphView, zoom: float) -> None:
        if self.tab is not None and self.tab.canvas is view:
            self.status.show_zoom(zoom)

    # -- messages, menus, palette ----------------------------------------------------------------------------

    def _open_context_menu(self, position: QPoint, kind: str) -> None:
        menu = self.actions_binding.context_menu(kind, self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if not menu.isEmpty():
            menu.popup(position)

    def _open_menu_of_focus(self) -> None:
        """Open the context menu of the focused widget: of the current row of a list, else of the widget."""
        widget = QApplication.focusWidget()
        if isinstance(widget, QAbstractItemView):
            position = widget.visualRect(widget.currentIndex()).center()
            widget = widget.viewport()
        elif widget is not None:
            position = widget.rect().center()
        if widget is not None:
            reason = QContextMenuEvent.Reason.Keyboard
            QApplication.sendEvent(widget, QContextMenuEvent(reason, position, widget.mapToGlobal(position)))

    def _offer_conversion(
        self, workspace: Workspace, opset: int, purpose: str, then: Callable[[], object] | None
    ) -> None:
        from onnx_workbench.viewer.dialogs.convert import ConvertDialog

        dialog = ConvertDialog(workspace, self, opset=opset, purpose=purpose)
        if then is not None:
            dialog.converted.connect(then)
        show_aside(workspace, dialog)

    @cached_property
    def palette_popup(self) -> CommandPalette:
        """The command palette, made when it is first opened."""
        from onnx_workbench.viewer.popups.command_palette import CommandPalette

        palette = CommandPalette(self)
        self.actions_binding.refreshed.connect(palette.refresh)
        return palette

    def open_palette(self) -> None:
        self.palette_popup.open(self.actions_binding.palette_entries(self._trigger))

    # -- events ----------------------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.docks.sizes.fit(may_hide=True)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._painted:
            self._painted = True
            QTimer.singleShot(0, self, self.first_painted.emit)

    def when_painted(self, call: Callable[[], None]) -> None:
        """Call once the window has been painted, or in the next event loop iteration if it has been."""
        if self._painted:
            QTimer.singleShot(0, self, call)
        else:
            self.first_painted.connect(call, Qt.ConnectionType.SingleShotConnection)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Esc, where nothing inside the window had a use for it, closes the newest message, else stops a tool."""
        if event.key() != Qt.Key.Key_Escape or not (self.area.close_message() or self.status.work.stop_tool()):
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """The mouse's own buttons go back and forward, wherever in the window nothing else wants them."""
        action_id = _MOUSE_BUTTONS.get(event.button())
        if action_id is None:
            super().mousePressEvent(event)
        else:
            self.actions_binding.run(action_id)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        paths = [Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()]
        event.acceptProposedAction()
        arrays = [path for path in paths if path.suffix.lower() in _ARRAYS] if self.workspace is not None else []
        for path in arrays:
            self._load_arrays(path)
        self.files.open(path for path in paths if path not in arrays)

    def _load_arrays(self, path: Path) -> None:
        """Set the inputs of a run from an .npz file, or the selected weight or the only input from an .npy file."""
        workspace = self.workspace
        assert workspace is not None
        current, inputs = workspace.selection.current, workspace.model.graph.required_inputs
        if path.suffix.lower() == ".npy" and isinstance(current, Value) and current.initializer is not None:
            from onnx_workbench.viewer.tensor_view.panel import TensorPanel

            panel = self.docks.open("tensor")
            if isinstance(panel, TensorPanel):
                panel.pane.menu.import_file(path)
        elif path.suffix.lower() == ".npy" and len(inputs) != 1:
            detail = "Select an initializer first, or drop the file on the File field of an input in the Run panel."
            workspace.messages.show("info", f"{display(path.name, 60)} was not used", detail)
        elif path.suffix.lower() == ".npy":
            from onnx_workbench.exec.inputs.sources import File

            self.docks.open("run")
            workspace.runs.inputs.set_source(inputs[0].name, File(path))
        else:
            from onnx_workbench.viewer.run_panel.panel import RunPanel

            panel = self.docks.open("run")
            if isinstance(panel, RunPanel):
                panel.take_file(path)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Close if nothing can be lost; otherwise finish pending saves, and ask first."""
        commit_focused_editor(self)
        if not self._closing and (self.files.saving or any(tab.modified for tab in self.tabs())):
            event.ignore()
            self.files.close_all()
            return
        self.closing.emit()
        self._remember()
        for tab in self.tabs():
            self.area.views.remember(tab)
            tab.close_workspace()
        self.area.views.save()
        self.files.tasks.close()
        event.accept()

    def _close_now(self) -> None:
        self._closing = True
        self.close()

    # -- stored state ----------------------------------------------------------------------------------------

    def _restore(self) -> None:
        geometry = self.settings.state("geometry")
        if geometry.isEmpty() or not self.restoreGeometry(geometry):
            screen = QGuiApplication.primaryScreen()
            self.resize(_FIRST_SIZE.boundedTo(screen.availableSize() * 0.95) if screen else _FIRST_SIZE)
        self.docks.restore(self.settings.state("docks"))

    def _remember(self) -> None:
        self.settings.set_state("geometry", self.saveGeometry())
        self.settings.set_state("docks", self.docks.state())
        self.settings.sync()

    def _on_setting(self, key: str) -> None:
        if key == THEME.key:
            themes().set_mode(as_mode(self.settings.get(THEME)))
