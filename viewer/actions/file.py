"""File menu: open, recent, save, reload, export, close, quit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QApplication

from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.actions.action import (
    Action,
    Menu,
    MenuContext,
    action,
    always,
    with_selection,
)
from onnx_workbench.viewer.popups.file_dialogs import ask_folder

if TYPE_CHECKING:
    from onnx_workbench.viewer.pictures.export_picture import Part

_RECENT = 9


def _tab_open(context: MenuContext) -> bool:
    return context.area.tab is not None


def _has_file(context: MenuContext) -> bool:
    tab = context.area.tab
    return tab is not None and tab.path is not None


def _can_save(context: MenuContext) -> bool:
    tab = context.area.tab
    return tab is not None and (tab.modified or tab.path is None)


def _export(part: Part, context: MenuContext) -> None:
    from onnx_workbench.viewer.pictures.export_picture import export_picture

    if context.area.tab is not None:
        export_picture(context.area.tab, part)


def _recent(number: int, context: MenuContext) -> Path | None:
    files = context.recent_files
    return Path(files[number - 1]) if number <= len(files) else None


def _recent_label(number: int, context: MenuContext) -> str:
    path = _recent(number, context)
    if path is None:
        return ""
    is_alone = sum(Path(file).name == path.name for file in context.recent_files) == 1
    name = path.name if is_alone else f"{path.parent.name}/{path.name}"
    return f"&{number}  {display(name, 60).replace('&', '&&')}"


def _open_recent(number: int, context: MenuContext) -> None:
    path = _recent(number, context)
    if path is not None:
        context.files.open([path])


def _recent_action(number: int) -> Action:
    return action(
        action_id=f"file.recent.{number}",
        title=f"Recent file {number}",
        place=Menu.FILE.section(8),
        key=f"Ctrl+{number}",
        when=lambda context: number <= len(context.recent_files),
        label=partial(_recent_label, number),
        words="recent open",
    )(partial(_open_recent, number))


@action(
    "file.open",
    "&Open…",
    Menu.FILE.section(1),
    key="Ctrl+O",
    when=always,
    icon="open",
    toolbar=11,
    words="load read model",
)
def _open(context: MenuContext) -> None:
    context.files.choose_and_open()


@action(
    "file.open_folder",
    "Open &Folder…",
    Menu.FILE.section(1),
    when=always,
    tip="Open a model with test_data_set_* folders, run them and show pass or fail for each output.",
    words="test data expected outputs backend directory",
)
def _open_folder(context: MenuContext) -> None:

    folder = ask_folder(context.window, context.settings, "Open folder")
    if folder is not None:
        context.files.open([folder])


@action("file.open_sample", "Open the Sample &Model", Menu.FILE.section(1), when=always, words="example demo")
def _open_sample(context: MenuContext) -> None:
    context.files.open_sample()


@action(
    "file.reload",
    "&Reload",
    Menu.FILE.section(1),
    key="F5",
    when=_has_file,
    icon="reload",
    tip="Read the file again, for example after another program changed it.",
    words="refresh revert",
)
def _reload(context: MenuContext) -> None:
    tab = context.area.tab
    if tab is None:
        return
    if tab.modified:
        tab.workspace.messages.show(
            "warning",
            "Reloading loses your changes",
            choices=(("Reload", partial(context.files.reload, tab)), ("Keep them", lambda: None)),
        )
    else:
        context.files.reload(tab)


@action(
    "file.save",
    "&Save",
    Menu.FILE.section(2),
    key="Ctrl+S",
    when=_can_save,
    icon="save",
    toolbar=12,
    words="write store",
)
def _save(context: MenuContext) -> None:
    if context.area.tab is not None:
        context.files.saver.save(context.area.tab)


@action(
    "file.save_as", "Save &As…", Menu.FILE.section(2), key="Ctrl+Shift+S", when=_tab_open, words="write copy format"
)
def _save_as(context: MenuContext) -> None:
    if context.area.tab is not None:
        context.files.saver.save_as(context.area.tab)


@action(
    "file.export",
    "&Export Picture…",
    Menu.FILE.section(3),
    key=("Ctrl+Shift+E", "Ctrl+Alt+E"),
    icon="export",
    on=("canvas",),
    tip="Export the whole graph as PNG, SVG or PDF.",
    words="image png svg pdf screenshot",
)
def _export_graph(context: MenuContext) -> None:
    _export("graph", context)


@action(
    "file.export_view",
    "Export Picture of the &View…",
    Menu.FILE.section(3),
    tip="Export the visible part of the graph as PNG, SVG or PDF.",
    words="image png svg pdf screenshot visible",
)
def _export_view(context: MenuContext) -> None:
    _export("view", context)


@action(
    "file.export_selection",
    "Export P&icture of the Selection…",
    Menu.FILE.section(3),
    when=with_selection,
    on=("node",),
    tip="Export the selected nodes and the edges between them as PNG, SVG or PDF.",
    words="image png svg pdf screenshot",
)
def _export_selection(context: MenuContext) -> None:
    _export("selection", context)


@action(
    "file.export_page",
    "Export We&b Page…",
    Menu.FILE.section(3),
    tip="Write the graph, details of its nodes and values of the last run to one HTML file.",
    words="html browser share colleague",
)
def _export_page(context: MenuContext) -> None:
    from onnx_workbench.viewer.pictures.export_picture import export_page

    if context.area.tab is not None:
        export_page(context.area.tab)


@action("file.copy_path", "Copy File &Path", Menu.FILE.section(3), when=_has_file, words="clipboard location folder")
def _copy_path(context: MenuContext) -> None:
    tab = context.area.tab
    if tab is not None and tab.path is not None:
        QApplication.clipboard().setText(str(tab.path))


RECENT_ACTIONS = tuple(_recent_action(number) for number in range(1, _RECENT + 1))


@action("file.close", "&Close", Menu.FILE.section(9), key="Ctrl+W", words="tab")
def _close(context: MenuContext) -> None:
    if context.area.tab is not None:
        context.files.close(context.area.tab)


@action("file.quit", "&Quit", Menu.FILE.section(9), key="Ctrl+Q", when=always, words="exit end")
def _quit(context: MenuContext) -> None:
    context.window.close()
