"""File menu: open, recent, save, reload, export, close, quit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QApplication

from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext, with_selection
from onnx_workbench.viewer.popups.file_dialogs import ask_folder

if TYPE_CHECKING:
    from onnx_workbench.viewer.pictures.export_picture import Part

_RECENT = 9


def _has_file(context: MenuContext) -> bool:
    return context.tab.path is not None


def _export(part: Part, context: MenuContext) -> None:
    from onnx_workbench.viewer.pictures.export_picture import export_picture

    export_picture(context.tab, part)


def _recent_label(number: int, context: MenuContext) -> str:
    paths = context.recent_files
    if number > len(paths):
        return ""
    path = paths[number - 1]
    is_alone = sum(other.name == path.name for other in paths) == 1
    name = path.name if is_alone else f"{path.parent.name}/{path.name}"
    return f"&{number}  {display(name, 60).replace('&', '&&')}"


def _recent_action(number: int) -> Action:
    return Action(
        id=f"file.recent.{number}",
        title=f"Recent file {number}",
        place=Menu.FILE.section(8),
        run=lambda context: context.files.open([context.recent_files[number - 1]]),
        key=f"Ctrl+{number}",
        when=lambda context: number <= len(context.recent_files),
        on_start_page=True,
        label=partial(_recent_label, number),
        words="recent open",
    )


_open = Action(
    "file.open",
    "&Open…",
    Menu.FILE.section(1),
    lambda context: context.files.choose_and_open(),
    key="Ctrl+O",
    on_start_page=True,
    icon="open",
    toolbar=11,
    words="load read model",
)


@Action(
    "file.open_folder",
    "Open &Folder…",
    Menu.FILE.section(1),
    on_start_page=True,
    tip="Open a model with test_data_set_* folders, run them and show pass or fail for each output.",
    words="test data expected outputs backend directory",
)
def _open_folder(context: MenuContext) -> None:

    folder = ask_folder(context.window, context.settings, "Open folder")
    if folder is not None:
        context.files.open([folder])


_open_sample = Action(
    "file.open_sample",
    "Open the Sample &Model",
    Menu.FILE.section(1),
    lambda context: context.files.open_sample(),
    on_start_page=True,
    words="example demo",
)


@Action(
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
    tab = context.tab
    if tab.modified:
        tab.workspace.messages.show(
            "warning",
            "Reloading loses your changes",
            choices=(("Reload", partial(context.files.reload, tab)), ("Keep them", lambda: None)),
        )
    else:
        context.files.reload(tab)


SAVES = (
    Action(
        "file.save",
        "&Save",
        Menu.FILE.section(2),
        lambda context: context.files.saver.save(context.tab),
        key="Ctrl+S",
        when=lambda context: context.tab.modified or context.tab.path is None,
        icon="save",
        toolbar=12,
        words="write store",
    ),
    Action(
        "file.save_as",
        "Save &As…",
        Menu.FILE.section(2),
        lambda context: context.files.saver.save_as(context.tab),
        key="Ctrl+Shift+S",
        words="write copy format",
    ),
    Action(
        "file.export",
        "&Export Picture…",
        Menu.FILE.section(3),
        lambda context: _export("graph", context),
        key=("Ctrl+Shift+E", "Ctrl+Alt+E"),
        icon="export",
        on=("canvas",),
        tip="Export the whole graph as PNG, SVG or PDF.",
        words="image png svg pdf screenshot",
    ),
    Action(
        "file.export_view",
        "Export Picture of the &View…",
        Menu.FILE.section(3),
        lambda context: _export("view", context),
        tip="Export the visible part of the graph as PNG, SVG or PDF.",
        words="image png svg pdf screenshot visible",
    ),
    Action(
        "file.export_selection",
        "Export P&icture of the Selection…",
        Menu.FILE.section(3),
        lambda context: _export("selection", context),
        when=with_selection,
        on=("node",),
        tip="Export the selected nodes and the edges between them as PNG, SVG or PDF.",
        words="image png svg pdf screenshot",
    ),
)


@Action(
    "file.export_page",
    "Export We&b Page…",
    Menu.FILE.section(3),
    tip="Write the graph, details of its nodes and values of the last run to one HTML file.",
    words="html browser share colleague",
)
def _export_page(context: MenuContext) -> None:
    from onnx_workbench.viewer.pictures.export_picture import export_page

    export_page(context.tab)


_copy_path = Action(
    "file.copy_path",
    "Copy File &Path",
    Menu.FILE.section(3),
    lambda context: QApplication.clipboard().setText(str(context.tab.path)),
    when=_has_file,
    words="clipboard location folder",
)


RECENT_ACTIONS = tuple(_recent_action(number) for number in range(1, _RECENT + 1))


ENDS = (
    Action(
        "file.close",
        "&Close",
        Menu.FILE.section(9),
        lambda context: context.files.close(context.tab),
        key="Ctrl+W",
        words="tab",
    ),
    Action(
        "file.quit",
        "&Quit",
        Menu.FILE.section(9),
        lambda context: context.window.close(),
        key="Ctrl+Q",
        on_start_page=True,
        words="exit end",
    ),
)
