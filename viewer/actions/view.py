"""View menu: zoom, node contents, direction, panels, theme, full screen."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from onnx_workbench.model.analysis.folded_nodes import QUANTIZE_PAIRS, kind_of
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext, Submenu, with_selection
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
)

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.scene.node_text import FoldTag


def _tags(context: MenuContext) -> tuple[FoldTag, ...]:
    view = context.view
    box = view.picker.current_box()
    return view.scene.boxes[box].tags if view.scene is not None and box >= 0 else ()


_CONTENTS = Menu.VIEW.section(2)


def _theme_action(mode: str, title: str) -> Action:
    return Action(
        id=f"view.theme.{mode}",
        title=title,
        place=Submenu.THEMES,
        on_start_page=True,
        words="appearance colours light dark",
    ).choosing(THEME, mode)


def _panel_action(info: PanelInfo) -> Action:
    return Action(
        id=f"panel.{info.id}",
        title=info.title,
        place=Submenu.PANELS,
        run=lambda context: context.docks.toggle(info.id),
        key=info.shortcut,
        by_key=lambda context: context.docks.visit(info.id),
        checked=lambda context: context.docks.is_open(info.id),
        icon=info.icon,
        tip="Open or close the panel. It can be docked at any side of the window.",
        words=info.words,
    )


ZOOM = (
    Action(
        "view.fit",
        "Zoom to &Fit",
        Menu.VIEW.section(1),
        lambda context: context.view.navigator.to_whole(),
        key="Space",
        on_graph=True,
        icon="fit",
        toolbar=41,
        on=("canvas",),
        words="whole all",
    ),
    Action(
        "view.fit_selection",
        "Zoom to &Selection",
        Menu.VIEW.section(1),
        lambda context: context.view.navigator.to_selection(),
        key="F",
        on_graph=True,
        when=with_selection,
        icon="frame",
        on=("node", "value"),
        words="frame",
    ),
    Action(
        "view.zoom_in",
        "Zoom &In",
        Menu.VIEW.section(1),
        lambda context: context.view.zoom_in(),
        key=("Shift+Up", "Ctrl++", "Ctrl+="),
        on_graph=True,
        icon="zoom-in",
        toolbar=43,
        words="larger",
    ),
    Action(
        "view.zoom_out",
        "Zoom &Out",
        Menu.VIEW.section(1),
        lambda context: context.view.zoom_out(),
        key=("Shift+Down", "Ctrl+-"),
        on_graph=True,
        icon="zoom-out",
        toolbar=42,
        words="smaller",
    ),
    Action(
        "view.actual_size",
        "&Actual Size",
        Menu.VIEW.section(1),
        lambda context: context.view.zoom_to(1.0),
        key=("Shift+Backspace", "Ctrl+0"),
        on_graph=True,
        words="100 % zoom",
    ),
    Action(
        "view.beginning",
        "&Beginning of the Graph",
        Menu.VIEW.section(1),
        lambda context: context.view.navigator.to_beginning(),
        key="Home",
        on_graph=True,
        words="inputs start first top",
    ),
    Action(
        "view.end",
        "End of the Graph",
        Menu.VIEW.section(1),
        lambda context: context.view.navigator.to_end(),
        key="End",
        on_graph=True,
        words="outputs last bottom",
    ),
)


def _is_kind_folded(kind: str, context: MenuContext) -> bool:
    return kind in context.view.scenes.folded_kinds


def _toggle_kind(kind: str, context: MenuContext) -> None:
    scenes = context.view.scenes
    scenes.fold_kinds(scenes.folded_kinds ^ {kind})


def _fold(action_id: str, title: str, *, kind: str, words: str) -> Action:
    return Action(
        action_id,
        title,
        Submenu.FOLDS,
        partial(_toggle_kind, kind),
        checked=partial(_is_kind_folded, kind),
        tip="Show nodes of this kind as tags on the nodes that use their results. Remembered with the file.",
        words=f"hide collapse tag {words}",
    )


FOLDS = (
    _fold("view.fold_pairs", "Quantize and Dequantize Pairs", kind=QUANTIZE_PAIRS, words="qdq int8 quantization"),
    _fold("view.fold_casts", "Casts", kind="Cast", words="convert float16"),
    _fold("view.fold_identity", "Identity", kind="Identity", words="copy"),
)


def _selected_kind(context: MenuContext) -> str:
    return kind_of(context.current) if isinstance(context.current, Node) else ""


def _kind_title(context: MenuContext) -> str:
    kind = _selected_kind(context)
    if not kind:
        return "Fold All of the Selected Kind"
    shown = display(kind, 40)
    return f"Show All {shown}" if _is_kind_folded(kind, context) else f"Fold All {shown}"


FOLDED_KINDS = (
    Action(
        "view.fold_kind",
        "Fold All of the Selected Kind",
        Submenu.FOLDS,
        lambda context: _toggle_kind(_selected_kind(context), context),
        when=lambda context: bool(_selected_kind(context)),
        label=_kind_title,
        on=("node",),
        tip="Fold all nodes with the operator of the selected one, if they have one input beside constants, or show "
        "them.",
        words="hide collapse tag operator reshape transpose",
    ),
    Action(
        "view.unfold_kinds",
        "Show All Kinds",
        Submenu.FOLDS,
        lambda context: context.view.scenes.fold_kinds(()),
        when=lambda context: bool(context.view.scenes.folded_kinds),
        words="unfold hidden tags",
    ),
)


SWITCHES = (
    Action(
        "view.attributes",
        "Show A&ttributes",
        _CONTENTS,
        key="Ctrl+D",
        on_start_page=True,
        icon="attributes",
        words="hide",
    ).switching(SHOW_ATTRIBUTES),
    Action(
        "view.initializers",
        "Show Initiali&zers",
        _CONTENTS,
        key="Ctrl+I",
        on_start_page=True,
        icon="initializers",
        words="hide weights",
    ).switching(SHOW_INITIALIZERS),
    Action(
        "view.names",
        "Show &Names",
        _CONTENTS,
        key="Ctrl+U",
        on_start_page=True,
        icon="names",
        words="hide labels types",
    ).switching(SHOW_NAMES),
    Action(
        "view.fold_nodes",
        "Fold Shape Arithmetic",
        Submenu.FOLDS,
        on_start_page=True,
        tip=FOLD_NODES.help + ".",
        words="sizes weights constants cast dequantize transpose hide simplify tag unfold",
    ).switching(FOLD_NODES),
    Action(
        "view.fold_shared",
        "Shared Constants Inside Nodes",
        Submenu.FOLDS,
        on_start_page=True,
        words="fold constants inline hide",
    ).switching(FOLD_SHARED),
    Action("view.wheel", "&Mouse Wheel Zooms", _CONTENTS, key="Ctrl+M", on_start_page=True, words="scroll").switching(
        WHEEL_ZOOMS
    ),
    Action(
        "view.columns",
        "&Wrap into Columns",
        _CONTENTS,
        on_start_page=True,
        tip=COLUMNS.help + ".",
        words="fold tall deep long layout rows side by side newspaper",
    ).switching(COLUMNS),
)


@Action(
    "view.direction",
    "Left to Right",
    Menu.VIEW.section(3),
    key="Ctrl+K",
    on_start_page=True,
    checked=lambda context: context.settings.get(DIRECTION) == "right",
    icon="direction",
    toolbar=44,
    tip="Lay the graph out from left to right instead of from top to bottom.",
    words="horizontal vertical layout down turn",
)
def _toggle_direction(context: MenuContext) -> None:
    settings = context.settings
    settings.set(DIRECTION, "right" if settings.get(DIRECTION) == "down" else "down")


@Action(
    "view.groups",
    "&Group Nodes",
    Menu.VIEW.section(3),
    key="G",
    on_graph=True,
    checked=lambda context: context.view.expansion.is_grouped,
    on=("canvas",),
    tip="Show nodes that share a name scope, or else blocks that repeat, as one box that opens in place.",
    words="hierarchy blocks modules namespace scopes collapse",
)
def _toggle_groups(context: MenuContext) -> None:
    view = context.view
    view.expansion.set_grouped(not view.expansion.is_grouped)


@Action(
    "view.devices",
    "Colour by Device or Pipeline Stage",
    Menu.VIEW.section(3),
    when=lambda context: bool(context.workspace.model.configurations),
    checked=lambda context: context.view.node_colors.shows_devices,
    on=("canvas",),
    tip="Colour nodes by the device configurations of the model instead of the operator category.",
    words="sharding parallel gpu color",
)
def _toggle_devices(context: MenuContext) -> None:
    view = context.view
    view.node_colors.set_devices(shown=not view.node_colors.shows_devices)


GROUPS = (
    Action(
        "view.expansion.expand_all",
        "&Expand All Groups",
        Menu.VIEW.section(3),
        lambda context: context.view.expansion.expand_all(),
        on=("canvas",),
        words="open scopes blocks hierarchy",
    ),
    Action(
        "view.expansion.collapse_all",
        "&Collapse All Groups",
        Menu.VIEW.section(3),
        lambda context: context.view.expansion.collapse_all(),
        on=("canvas",),
        words="close scopes blocks hierarchy",
    ),
    Action(
        "view.expansion.tags",
        "Show Folded Nodes",
        Menu.VIEW.section(3),
        lambda context: context.view.expansion.toggle_tags(context.view.picker.current_box()),
        when=lambda context: bool(_tags(context)),
        checked=lambda context: any(tag.is_open for tag in _tags(context)),
        on=("node",),
        tip="Draw the nodes that compute the sizes or prepare the weights of the selected node, or fold them again.",
        words="unfold sizes weights shape arithmetic constants tag expand",
    ),
    Action(
        "view.scenes.relayout",
        "Redo &Layout",
        Menu.VIEW.section(3),
        lambda context: context.view.scenes.relayout(),
        key="L",
        on_graph=True,
        on=("canvas",),
        words="arrange layout tidy",
    ),
)


@Action(
    "view.minimap",
    "Overview Map",
    Menu.VIEW.section(4),
    checked=lambda context: context.view.minimap.wanted,
    icon="minimap",
    words="minimap",
)
def _toggle_minimap(context: MenuContext) -> None:
    minimap = context.view.minimap
    minimap.set_wanted(not minimap.wanted)


PANEL_ACTIONS = tuple(_panel_action(info) for info in PANELS)
THEME_ACTIONS = (
    _theme_action("system", "System Theme"),
    _theme_action("light", "Light Theme"),
    _theme_action("dark", "Dark Theme"),
    _theme_action("contrast", "High Contrast Theme"),
)


@Action(
    "view.full_screen",
    "F&ull Screen",
    Menu.VIEW.section(6),
    key="F11",
    on_start_page=True,
    checked=lambda context: context.window.isFullScreen(),
)
def _full_screen(context: MenuContext) -> None:
    window = context.window
    if window.isFullScreen():
        window.showNormal()
    else:
        window.showFullScreen()
