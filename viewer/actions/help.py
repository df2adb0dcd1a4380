"""Help menu: manual, command palette, shortcuts, report, about."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QWidget

from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext
from onnx_workbench.viewer.program.folders import state_folder
from onnx_workbench.viewer.program.manual import manual_folder, page_name


def start_tour(context: MenuContext) -> None:
    """Show the tour of the window; there must be a document in front."""
    from onnx_workbench.viewer.dialogs.tour import Tour, TourStep

    area, docks = context.area, context.docks

    def panel(panel_id: str) -> Callable[[], QWidget | None]:
        return lambda: docks.open(panel_id)

    def graph() -> QWidget | None:
        return area.tab.view if area.tab is not None else None

    tour = context.window.findChild(Tour)
    if tour is not None:
        tour.close()
    steps = (
        TourStep(
            "The graph",
            "The wheel scrolls, Ctrl and the wheel zooms, dragging moves. Click a node to select it; a group opens "
            "with its + button. Space shows everything.",
            graph,
        ),
        TourStep(
            "Outline",
            "All nodes, groups, subgraphs and functions as a tree. Ctrl+F finds nodes and values by name, operator, "
            "type or attribute.",
            panel("outline"),
        ),
        TourStep(
            "Inspector",
            "Everything about what is selected: attributes, inputs, outputs, types, documentation of the operator. "
            "Click a value to change it.",
            panel("inspector"),
        ),
        TourStep(
            "Editing",
            "Right-click a node or an edge for its actions: delete, bridge, insert, rename, replace. Drag "
            "from a port to connect. Ctrl+Z undoes anything; the History panel lists every step.",
            graph,
        ),
        TourStep(
            "Run",
            "F6 runs the model in this program, with random inputs or with your files. Edges then show their values.",
            panel("run"),
        ),
        TourStep(
            "Values",
            "After a run, click an edge or an output to see its numbers, as a table, heat map, picture or histogram. "
            "Weights can be seen and edited here without a run.",
            panel("tensor"),
        ),
        TourStep(
            "Find any command",
            "Ctrl+Shift+P lists all commands with their keys; type a few letters. F1 opens the manual at the panel in "
            "focus. The model of this tour is never overwritten: try things.",
            lambda: None,
        ),
    )
    Tour(context.window, steps)


@Action(
    "help.manual",
    "&Manual",
    Menu.HELP.section(1),
    key="F1",
    everywhere=True,
    on_start_page=True,
    icon="help",
    tip="Open the page about the panel or dialog in focus in the browser.",
    words="help documentation guide how to user",
)
def _open_manual(context: MenuContext) -> None:
    """Open the manual's page about the panel or dialog in focus; the list of shortcuts where it was not built."""
    folder = manual_folder()
    if folder is None:
        _show_shortcuts.run(context)
        return
    page = folder / f"{page_name(QApplication.focusWidget())}.html"
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(page if page.exists() else folder / "index.html")))


_palette = Action(
    "help.palette",
    "&Command Palette…",
    Menu.HELP.section(1),
    lambda context: context.open_palette(),
    key="Ctrl+Shift+P",
    on_start_page=True,
    icon="command",
    toolbar=92,
    tip="Find and run any action by a few letters.",
    words="search action run",
)


@Action(
    "help.tour",
    "&Tour",
    Menu.HELP.section(1),
    on_start_page=True,
    tip="Seven steps through the window; on the sample model if nothing is open.",
    words="introduction tutorial getting started learn first",
)
def _tour(context: MenuContext) -> None:
    if not context.document_open:
        context.files.open_sample().opened.connect(lambda _tab: start_tour(context))
    else:
        start_tour(context)


@Action(
    "help.shortcuts",
    "&Keyboard and Mouse",
    Menu.HELP.section(1),
    key="Ctrl+/",
    on_start_page=True,
    words="shortcuts keys hotkeys",
)
def _show_shortcuts(context: MenuContext) -> None:
    from onnx_workbench.viewer.actions.shortcuts_dialog import ShortcutsDialog

    ShortcutsDialog(context.window).show()


@Action("help.logs", "Open &Log Folder", Menu.HELP.section(2), on_start_page=True, words="settings errors state crash")
def _open_state_folder(_context: MenuContext) -> None:
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True)
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))


@Action(
    "help.recovered_files",
    "Recovered &Files…",
    Menu.HELP.section(2),
    on_start_page=True,
    tip="Unsaved edits of sessions that crashed, also those that were discarded in the last week.",
    words="crash recovery autosave journal unsaved discarded lost",
)
def _recovered_files(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.recovered_files import RecoveredFilesDialog

    RecoveredFilesDialog(context.files, context.window).show()


@Action(
    "help.report",
    "&Report a Problem…",
    Menu.HELP.section(2),
    on_start_page=True,
    tip="A report with the versions and the last error, to copy. Nothing is sent.",
    words="bug issue error feedback",
)
def _report(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.report import ReportDialog

    ReportDialog(context.window).show()


@Action("help.about", "&About ONNX Workbench", Menu.HELP.section(3), on_start_page=True, words="version licence help")
def _about(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.about import AboutDialog

    AboutDialog(context.window).show()
