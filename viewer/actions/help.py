"""Help menu: manual, command palette, shortcuts, report, about."""

from __future__ import annotations

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication

from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext, always
from onnx_workbench.viewer.core.folders import state_folder
from onnx_workbench.viewer.core.manual import manual_folder, page_name


def _about(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.about import AboutDialog

    AboutDialog(context.window).show()


def _report(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.report import ReportDialog

    ReportDialog(context.window).show()


def _open_manual(context: MenuContext) -> None:
    """Open the manual's page about the panel or dialog in focus; the list of shortcuts where it was not built."""
    folder = manual_folder()
    if folder is None:
        _show_shortcuts(context)
        return
    page = folder / f"{page_name(QApplication.focusWidget())}.html"
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(page if page.exists() else folder / "index.html")))


def _open_state_folder(_context: MenuContext) -> None:
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True)
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))


def _show_shortcuts(context: MenuContext) -> None:
    from onnx_workbench.viewer.actions.shortcuts_dialog import ShortcutsDialog

    ShortcutsDialog(context.window).show()


ACTIONS = (
    Action(
        id="help.manual",
        title="&Manual",
        run=_open_manual,
        menu=Menu.HELP,
        section=1,
        shortcut=("F1",),
        everywhere=True,
        enabled=always,
        icon="help",
        tip="Open the page about the panel or dialog in focus in the browser.",
        words="help documentation guide how to user",
    ),
    Action(
        id="help.palette",
        title="&Command Palette…",
        run=lambda context: context.open_palette(),
        menu=Menu.HELP,
        section=1,
        shortcut=("Ctrl+Shift+P",),
        enabled=always,
        icon="command",
        toolbar=91,
        tip="Find and run any action by a few letters.",
        words="search action run",
    ),
    Action(
        id="help.shortcuts",
        title="&Keyboard and Mouse",
        run=_show_shortcuts,
        menu=Menu.HELP,
        section=1,
        shortcut=("Ctrl+/",),
        enabled=always,
        words="shortcuts keys hotkeys",
    ),
    Action(
        id="help.logs",
        title="Open &Log Folder",
        run=_open_state_folder,
        menu=Menu.HELP,
        section=2,
        enabled=always,
        words="settings errors state crash",
    ),
    Action(
        id="help.report",
        title="&Report a Problem…",
        run=_report,
        menu=Menu.HELP,
        section=2,
        enabled=always,
        tip="A text with versions and the last error, to copy. Nothing is sent.",
        words="bug issue error feedback",
    ),
    Action(
        id="help.about",
        title="&About ONNX Workbench",
        run=_about,
        menu=Menu.HELP,
        section=3,
        enabled=always,
        words="version licence help",
    ),
)
