"""View menu: zoom, node contents, direction, panels, theme, full screen."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from onnx_workbench.model.analysis.folded_nodes import QUANTIZE_PAIRS, kind_of
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.actions.action import (
    Action,
    Menu,
    MenuContext,
    Place,
    Submenu,
    action,
    always,
    is_on,
    toggle,
    with_selection,
)
from onnx_workbench.viewer.panel_list import PANELS, PanelInfo
from onnx_workbench.viewer.program.settings import (
    COLUMNS,
    DIRECTION,
    FOLD_NODES,
    FOLD_SHARED,
    SHOW_ATTRIBUTES,
    SHOW_INITIALIZERS,
    SHOW_NAMES,
    THEME,
    WHEEL_ZOOMS,
    Option,
)

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.graph_view import GraphView
    from onnx_workbench.viewer.canvas.scene.node_text import FoldTag


def _view(context: MenuContext) -> GraphView:
    """Return the current graph view; only for actions whose `enabled` requires one."""
    tab = context.area.tab
    assert tab is not None
    return tab.canvas


def _tags(context: MenuContext) -> tuple[FoldTag, ...]:
    view = _view(context)
    box = view.picker.current_box()
    return view.scene.boxes[box].tags if view.scene is not None and box >= 0 else ()


def _has_tags(context: MenuContext) -> bool:
    return context.document_open and bool(_tags(context))


def _has_open_tags(context: MenuContext) -> bool:
    return any(tag.is_open for tag in _tags(context))


def _has_devices(context: MenuContext) -> bool:
    return context.document_open and bool(context.opened.model.configurations)


_CONTENTS = Menu.VIEW.section(2)


def _switch(
    action_id: str,
    title: str,
    option: Option[bool],
    shortcut: str,
    icon: str,
    words: str,
    tip: str = "",
    place: Place = _CONTENTS,
) -> Action:
    return action(
        action_id,
        title,
        place,
        key=(shortcut,) if shortcut else (),
        when=always,
        checked=partial(is_on, option),
        icon=icon,
        words=words,
        tip=tip,
    )(partial(toggle, option))


def _theme_action(mode: str, title: str) -> Action:
    return action(
        action_id=f"view.theme.{mode}",
        title=title,
        place=Submenu.THEMES,
        when=always,
        checked=lambda context: context.settings.get(THEME) == mode,
        words="appearance colours light dark",
    )(lambda context: context.settings.set(THEME, mode))


def _panel_action(info: PanelInfo) -> Action:
    return action(
        action_id=f"panel.{info.id}",
        title=info.title,
        place=Submenu.PANELS,
        key=(info.shortcut,) if info.shortcut else (),
        by_key=lambda context: context.docks.visit(info.id),
        checked=lambda context: context.docks.is_open(info.id),
        icon=info.icon,
        tip="Open or close the panel. It can be docked at any side of the window.",
        words=info.words,
    )(lambda context: context.docks.toggle(info.id))


@action(
    "view.fit",
    "Zoom to &Fit",
    Menu.VIEW.section(1),
    key="Space",
    on_graph=True,
    icon="fit",
    toolbar=41,
    on=("canvas",),
    words="whole all",
)
def _fit(context: MenuContext) -> None:
    _view(context).navigator.to_whole()


@action(
    "view.fit_selection",
    "Zoom to &Selection",
    Menu.VIEW.section(1),
    key="F",
    on_graph=True,
    when=with_selection,
    icon="frame",
    on=("node", "value"),
    words="frame",
)
def _fit_selection(context: MenuContext) -> None:
    _view(context).navigator.to_selection()


@action(
    "view.zoom_in",
    "Zoom &In",
    Menu.VIEW.section(1),
    key=("Shift+Up", "Ctrl++", "Ctrl+="),
    on_graph=True,
    icon="zoom-in",
    toolbar=43,
    words="larger",
)
def _zoom_in(context: MenuContext) -> None:
    _view(context).zoom_in()


@action(
    "view.zoom_out",
    "Zoom &Out",
    Menu.VIEW.section(1),
    key=("Shift+Down", "Ctrl+-"),
    on_graph=True,
    icon="zoom-out",
    toolbar=42,
    words="smaller",
)
def _zoom_out(context: MenuContext) -> None:
    _view(context).zoom_out()


@action(
    "view.actual_size",
    "&Actual Size",
    Menu.VIEW.section(1),
    key=("Shift+Backspace", "Ctrl+0"),
    on_graph=True,
    words="100 % zoom",
)
def _actual_size(context: MenuContext) -> None:
    _view(context).zoom_to(1.0)


@action(
    "view.beginning",
    "&Beginning of the Graph",
    Menu.VIEW.section(1),
    key="Home",
    on_graph=True,
    words="inputs start first top",
)
def _beginning(context: MenuContext) -> None:
    _view(context).navigator.to_beginning()


@action(
    "view.end",
    "End of the Graph",
    Menu.VIEW.section(1),
    key="End",
    on_graph=True,
    words="outputs last bottom",
)
def _end(context: MenuContext) -> None:
    _view(context).navigator.to_end()


def _is_kind_folded(kind: str, context: MenuContext) -> bool:
    return context.document_open and kind in _view(context).scenes.folded_kinds


def _toggle_kind(kind: str, context: MenuContext) -> None:
    scenes = _view(context).scenes
    scenes.fold_kinds(scenes.folded_kinds ^ {kind})


def _fold(action_id: str, title: str, *, kind: str, words: str) -> Action:
    return action(
        action_id,
        title,
        Submenu.FOLDS,
        checked=partial(_is_kind_folded, kind),
        tip="Show nodes of this kind as tags on the nodes that use their results. Remembered with the file.",
        words=f"hide collapse tag {words}",
    )(partial(_toggle_kind, kind))


FOLDS = (
    _fold("view.fold_pairs", "Quantize and Dequantize Pairs", kind=QUANTIZE_PAIRS, words="qdq int8 quantization"),
    _fold("view.fold_casts", "Casts", kind="Cast", words="convert float16"),
    _fold("view.fold_identity", "Identity", kind="Identity", words="copy"),
)


def _selected_kind(context: MenuContext) -> str:
    item = context.workspace.selection.current if context.workspace is not None else None
    return kind_of(item) if isinstance(item, Node) else ""


def _kind_title(context: MenuContext) -> str:
    kind = _selected_kind(context)
    if not kind:
        return "Fold All of the Selected Kind"
    shown = display(kind, 40)
    return f"Show All {shown}" if _is_kind_folded(kind, context) else f"Fold All {shown}"


@action(
    "view.fold_kind",
    "Fold All of the Selected Kind",
    Submenu.FOLDS,
    when=lambda context: bool(_selected_kind(context)),
    label=_kind_title,
    on=("node",),
    tip="Fold all nodes with the operator of the selected one, if they have one input beside constants, or show them.",
    words="hide collapse tag operator reshape transpose",
)
def _fold_kind(context: MenuContext) -> None:
    _toggle_kind(_selected_kind(context), context)


@action(
    "view.unfold_kinds",
    "Show All Kinds",
    Submenu.FOLDS,
    when=lambda context: context.document_open and bool(_view(context).scenes.folded_kinds),
    words="unfold hidden tags",
)
def _unfold_kinds(context: MenuContext) -> None:
    _view(context).scenes.fold_kinds(())


SWITCHES = (
    _switch("view.attributes", "Show A&ttributes", SHOW_ATTRIBUTES, "Ctrl+D", "attributes", "hide"),
    _switch("view.initializers", "Show Initiali&zers", SHOW_INITIALIZERS, "Ctrl+I", "initializers", "hide weights"),
    _switch("view.names", "Show &Names", SHOW_NAMES, "Ctrl+U", "names", "hide labels types"),
    _switch(
        "view.fold_nodes",
        "Fold Shape Arithmetic",
        FOLD_NODES,
        "",
        "",
        "sizes weights constants cast dequantize transpose hide simplify tag unfold",
        tip=FOLD_NODES.help + ".",
        place=Submenu.FOLDS,
    ),
    _switch(
        "view.fold_shared",
        "Shared Constants Inside Nodes",
        FOLD_SHARED,
        "",
        "",
        "fold constants inline hide",
        place=Submenu.FOLDS,
    ),
    _switch("view.wheel", "&Mouse Wheel Zooms", WHEEL_ZOOMS, "Ctrl+M", "", "scroll"),
    _switch(
        "view.columns",
        "&Wrap into Columns",
        COLUMNS,
        "",
        "",
        "fold tall deep long layout rows side by side newspaper",
        tip=COLUMNS.help + ".",
    ),
)


@action(
    "view.direction",
    "Left to Right",
    Menu.VIEW.section(3),
    key="Ctrl+K",
    when=always,
    checked=lambda context: context.settings.get(DIRECTION) == "right",
    icon="direction",
    toolbar=44,
    tip="Lay the graph out from left to right instead of from top to bottom.",
    words="horizontal vertical layout down turn",
)
def _toggle_direction(context: MenuContext) -> None:
    settings = context.settings
    settings.set(DIRECTION, "right" if settings.get(DIRECTION) == "down" else "down")


@action(
    "view.groups",
    "&Group Nodes",
    Menu.VIEW.section(3),
    key="G",
    on_graph=True,
    checked=lambda context: context.document_open and _view(context).expansion.is_grouped,
    on=("canvas",),
    tip="Show nodes that share a name scope, or else blocks that repeat, as one box that opens in place.",
    words="hierarchy blocks modules namespace scopes collapse",
)
def _toggle_groups(context: MenuContext) -> None:
    view = _view(context)
    view.expansion.set_grouped(not view.expansion.is_grouped)


@action(
    "view.devices",
    "Colour by Device or Pipeline Stage",
    Menu.VIEW.section(3),
    when=_has_devices,
    checked=lambda context: context.document_open and _view(context).node_colors.shows_devices,
    on=("canvas",),
    tip="Colour nodes by the device configurations of the model instead of the operator category.",
    words="sharding parallel gpu color",
)
def _toggle_devices(context: MenuContext) -> None:
    view = _view(context)
    view.node_colors.set_devices(shown=not view.node_colors.shows_devices)


@action(
    "view.expansion.expand_all",
    "&Expand All Groups",
    Menu.VIEW.section(3),
    on=("canvas",),
    words="open scopes blocks hierarchy",
)
def _expand_all(context: MenuContext) -> None:
    _view(context).expansion.expand_all()


@action(
    "view.expansion.collapse_all",
    "&Collapse All Groups",
    Menu.VIEW.section(3),
    on=("canvas",),
    words="close scopes blocks hierarchy",
)
def _collapse_all(context: MenuContext) -> None:
    _view(context).expansion.collapse_all()


@action(
    "view.expansion.tags",
    "Show Folded Nodes",
    Menu.VIEW.section(3),
    when=_has_tags,
    checked=lambda context: context.document_open and _has_open_tags(context),
    on=("node",),
    tip="Draw the nodes that compute the sizes or prepare the weights of the selected node, or fold them again.",
    words="unfold sizes weights shape arithmetic constants tag expand",
)
def _toggle_tags(context: MenuContext) -> None:
    _view(context).expansion.toggle_tags(_view(context).picker.current_box())


@action(
    "view.scenes.relayout",
    "Redo &Layout",
    Menu.VIEW.section(3),
    key="L",
    on_graph=True,
    on=("canvas",),
    words="arrange layout tidy",
)
def _relayout(context: MenuContext) -> None:
    _view(context).scenes.relayout()


@action(
    "view.minimap",
    "Overview Map",
    Menu.VIEW.section(4),
    checked=lambda context: context.document_open and _view(context).minimap.wanted,
    icon="minimap",
    words="minimap",
)
def _toggle_minimap(context: MenuContext) -> None:
    minimap = _view(context).minimap
    minimap.set_wanted(not minimap.wanted)


PANEL_ACTIONS = tuple(_panel_action(info) for info in PANELS)
THEME_ACTIONS = (
    _theme_action("system", "System Theme"),
    _theme_action("light", "Light Theme"),
    _theme_action("dark", "Dark Theme"),
    _theme_action("contrast", "High Contrast Theme"),
)


@action(
    "view.full_screen",
    "F&ull Screen",
    Menu.VIEW.section(6),
    key="F11",
    when=always,
    checked=lambda context: context.window.isFullScreen(),
)
def _full_screen(context: MenuContext) -> None:
    window = context.window
    if window.isFullScreen():
        window.showNormal()
    else:
        window.showFullScreen()
