"""Help menu: command palette, shortcuts, about."""

from __future__ import annotations

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext, always
from onnx_workbench.viewer.core.folders import state_folder


def _about(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.about import AboutDialog

    AboutDialog(context.window).show()


def _open_state_folder(_context: MenuContext) -> None:
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True)
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))


def _show_shortcuts(context: MenuContext) -> None:
    from onnx_workbench.viewer.actions.shortcuts_dialog import ShortcutsDialog

    ShortcutsDialog(context.window).show()


ACTIONS = (
    Action(
        id="help.palette",
        title="&Command Palette…",
        run=lambda context: context.open_palette(),
        menu=Menu.HELP,
        section=1,
        shortcut=("Ctrl+Shift+P", "F1"),
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
        id="help.about",
        title="&About ONNX Workbench",
        run=_about,
        menu=Menu.HELP,
        section=3,
        enabled=always,
        words="version licence help",
    ),
)
