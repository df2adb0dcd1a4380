"""File menu: open, recent, save, reload, export, close, quit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QApplication

from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext, always, with_document, with_selection
from onnx_workbench.viewer.style.formatting import display

if TYPE_CHECKING:
    from onnx_workbench.viewer.files.export_picture import Part

_RECENT = 9


def _open_folder(context: MenuContext) -> None:
    from onnx_workbench.viewer.popups.file_dialogs import ask_folder

    folder = ask_folder(context.window, context.settings, "Open folder")
    if folder is not None:
        context.files.open([folder])


def _tab_open(context: MenuContext) -> bool:
    return context.area.tab is not None


def _has_file(context: MenuContext) -> bool:
    tab = context.area.tab
    return tab is not None and tab.path is not None


def _can_save(context: MenuContext) -> bool:
    tab = context.area.tab
    return tab is not None and (tab.modified or tab.path is None)


def _save(context: MenuContext) -> None:
    if context.area.tab is not None:
        context.files.saver.save(context.area.tab)


def _save_as(context: MenuContext) -> None:
    if context.area.tab is not None:
        context.files.saver.save_as(context.area.tab)


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


def _close(context: MenuContext) -> None:
    if context.area.tab is not None:
        context.files.close(context.area.tab)


def _copy_path(context: MenuContext) -> None:
    tab = context.area.tab
    if tab is not None and tab.path is not None:
        QApplication.clipboard().setText(str(tab.path))


def _export(part: Part, context: MenuContext) -> None:
    from onnx_workbench.viewer.files.export_picture import export_picture

    if context.area.tab is not None:
        export_picture(context.area.tab, part)


def _export_page(context: MenuContext) -> None:
    from onnx_workbench.viewer.files.export_picture import export_page

    if context.area.tab is not None:
        export_page(context.area.tab)


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
    return Action(
        id=f"file.recent.{number}",
        title=f"Recent file {number}",
        label=partial(_recent_label, number),
        run=partial(_open_recent, number),
        menu=Menu.FILE,
        section=8,
        shortcut=(f"Ctrl+{number}",),
        enabled=lambda context: number <= len(context.recent_files),
        words="recent open",
    )


ACTIONS = (
    Action(
        id="file.open",
        title="&Open…",
        run=lambda context: context.files.choose_and_open(),
        menu=Menu.FILE,
        section=1,
        shortcut=("Ctrl+O",),
        enabled=always,
        icon="open",
        toolbar=11,
        words="load read model",
    ),
    Action(
        id="file.open_folder",
        title="Open &Folder…",
        run=_open_folder,
        menu=Menu.FILE,
        section=1,
        enabled=always,
        tip="Open a model with test_data_set_* folders, run them and show pass or fail for each output.",
        words="test data expected outputs backend directory",
    ),
    Action(
        id="file.open_sample",
        title="Open the Sample &Model",
        run=lambda context: context.files.open_sample(),
        menu=Menu.FILE,
        section=1,
        enabled=always,
        words="example demo",
    ),
    Action(
        id="file.reload",
        title="&Reload",
        run=_reload,
        menu=Menu.FILE,
        section=1,
        shortcut=("F5",),
        enabled=_has_file,
        icon="reload",
        tip="Read the file again, for example after another program changed it.",
        words="refresh revert",
    ),
    Action(
        id="file.save",
        title="&Save",
        run=_save,
        menu=Menu.FILE,
        section=2,
        shortcut=("Ctrl+S",),
        enabled=_can_save,
        icon="save",
        toolbar=12,
        words="write store",
    ),
    Action(
        id="file.save_as",
        title="Save &As…",
        run=_save_as,
        menu=Menu.FILE,
        section=2,
        shortcut=("Ctrl+Shift+S",),
        enabled=_tab_open,
        words="write copy format",
    ),
    Action(
        id="file.export",
        title="&Export Picture…",
        run=partial(_export, "graph"),
        menu=Menu.FILE,
        section=3,
        shortcut=("Ctrl+Shift+E", "Ctrl+Alt+E"),
        icon="export",
        contexts=frozenset({"canvas"}),
        tip="Export the whole graph as PNG, SVG or PDF.",
        words="image png svg pdf screenshot",
    ),
    Action(
        id="file.export_view",
        title="Export Picture of the &View…",
        run=partial(_export, "view"),
        menu=Menu.FILE,
        section=3,
        tip="Export the visible part of the graph as PNG, SVG or PDF.",
        words="image png svg pdf screenshot visible",
    ),
    Action(
        id="file.export_selection",
        title="Export Picture of the Se&lection…",
        run=partial(_export, "selection"),
        menu=Menu.FILE,
        section=3,
        enabled=with_selection,
        contexts=frozenset({"node"}),
        tip="Export the selected nodes and the edges between them as PNG, SVG or PDF.",
        words="image png svg pdf screenshot",
    ),
    Action(
        id="file.export_page",
        title="Export We&b Page…",
        run=_export_page,
        menu=Menu.FILE,
        section=3,
        tip="Write the graph, details of its nodes and values of the last run to one HTML file.",
        words="html browser share colleague",
    ),
    Action(
        id="file.copy_path",
        title="Copy File &Path",
        run=_copy_path,
        menu=Menu.FILE,
        section=3,
        enabled=_has_file,
        words="clipboard location folder",
    ),
    *(_recent_action(number) for number in range(1, _RECENT + 1)),
    Action(
        id="file.close",
        title="&Close",
        run=_close,
        menu=Menu.FILE,
        section=9,
        shortcut=("Ctrl+W",),
        enabled=with_document,
        words="tab",
    ),
    Action(
        id="file.quit",
        title="&Quit",
        run=lambda context: context.window.close(),
        menu=Menu.FILE,
        section=9,
        shortcut=("Ctrl+Q",),
        enabled=always,
        words="exit end",
    ),
)
