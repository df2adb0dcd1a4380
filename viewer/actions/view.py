"""View menu: zoom, node contents, direction, panels, theme, full screen."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from onnx_workbench.viewer.actions.action import (
    Action,
    Menu,
    MenuContext,
    Submenu,
    always,
    with_document,
    with_selection,
)
from onnx_workbench.viewer.core.settings import (
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
from onnx_workbench.viewer.panel_list import PANELS, PanelInfo

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.graph_view import GraphView
    from onnx_workbench.viewer.canvas.scene.node_text import FoldTag


def _view(context: MenuContext) -> GraphView:
    """Return the current graph view; only for actions whose `enabled` requires one."""
    tab = context.area.tab
    assert tab is not None
    return tab.canvas


def _toggle_minimap(context: MenuContext) -> None:
    minimap = _view(context).minimap
    minimap.set_wanted(not minimap.wanted)


def _toggle_groups(context: MenuContext) -> None:
    view = _view(context)
    view.expansion.set_grouped(not view.expansion.is_grouped)


def _toggle_devices(context: MenuContext) -> None:
    view = _view(context)
    view.node_colors.set_devices(shown=not view.node_colors.shows_devices)


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


def _toggle(option: Option[bool], context: MenuContext) -> None:
    context.settings.set(option, not context.settings.get(option))


def _is_on(option: Option[bool], context: MenuContext) -> bool:
    return context.settings.get(option)


def _switch(
    action_id: str, title: str, option: Option[bool], shortcut: str, icon: str, words: str, tip: str = ""
) -> Action:
    return Action(
        id=action_id,
        title=title,
        run=partial(_toggle, option),
        checked=partial(_is_on, option),
        menu=Menu.VIEW,
        section=2,
        shortcut=(shortcut,) if shortcut else (),
        enabled=always,
        icon=icon,
        words=words,
        tip=tip,
    )


def _toggle_direction(context: MenuContext) -> None:
    settings = context.settings
    settings.set(DIRECTION, "right" if settings.get(DIRECTION) == "down" else "down")


def _theme_action(mode: str, title: str) -> Action:
    return Action(
        id=f"view.theme.{mode}",
        title=title,
        run=lambda context: context.settings.set(THEME, mode),
        checked=lambda context: context.settings.get(THEME) == mode,
        menu=Menu.VIEW,
        section=5,
        submenu=Submenu.THEMES,
        enabled=always,
        words="appearance colours light dark",
    )


def _full_screen(context: MenuContext) -> None:
    window = context.window
    if window.isFullScreen():
        window.showNormal()
    else:
        window.showFullScreen()


def _panel_action(info: PanelInfo) -> Action:
    return Action(
        id=f"panel.{info.id}",
        title=info.title,
        run=lambda context: context.docks.toggle(info.id),
        by_key=lambda context: context.docks.visit(info.id),
        checked=lambda context: context.docks.is_open(info.id),
        menu=Menu.VIEW,
        section=4,
        submenu=Submenu.PANELS,
        shortcut=(info.shortcut,) if info.shortcut else (),
        enabled=with_document,
        icon=info.icon,
        tip="Open or close the panel. It can be docked at any side of the window.",
        words=info.words,
    )


ACTIONS = (
    Action(
        id="view.fit",
        title="Zoom to &Fit",
        run=lambda context: _view(context).navigator.to_whole(),
        menu=Menu.VIEW,
        section=1,
        shortcut=("Space",),
        on_graph=True,
        icon="fit",
        toolbar=41,
        contexts=frozenset({"canvas"}),
        words="whole all",
    ),
    Action(
        id="view.fit_selection",
        title="Zoom to &Selection",
        run=lambda context: _view(context).navigator.to_selection(),
        menu=Menu.VIEW,
        section=1,
        shortcut=("F",),
        on_graph=True,
        enabled=with_selection,
        icon="frame",
        contexts=frozenset({"node", "value"}),
        words="frame",
    ),
    Action(
        id="view.zoom_in",
        title="Zoom &In",
        run=lambda context: _view(context).zoom_in(),
        menu=Menu.VIEW,
        section=1,
        shortcut=("Shift+Up", "Ctrl++", "Ctrl+="),
        on_graph=True,
        icon="zoom-in",
        toolbar=43,
        words="larger",
    ),
    Action(
        id="view.zoom_out",
        title="Zoom &Out",
        run=lambda context: _view(context).zoom_out(),
        menu=Menu.VIEW,
        section=1,
        shortcut=("Shift+Down", "Ctrl+-"),
        on_graph=True,
        icon="zoom-out",
        toolbar=42,
        words="smaller",
    ),
    Action(
        id="view.actual_size",
        title="&Actual Size",
        run=lambda context: _view(context).zoom_to(1.0),
        menu=Menu.VIEW,
        section=1,
        shortcut=("Shift+Backspace", "Ctrl+0"),
        on_graph=True,
        words="100 % zoom",
    ),
    Action(
        id="view.beginning",
        title="&Beginning of the Graph",
        run=lambda context: _view(context).navigator.to_beginning(),
        menu=Menu.VIEW,
        section=1,
        shortcut=("Home",),
        on_graph=True,
        words="inputs start first top",
    ),
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
    ),
    _switch("view.fold_shared", "Shared Constants Inside Nodes", FOLD_SHARED, "", "", "fold constants inline hide"),
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
    Action(
        id="view.direction",
        title="Left to Right",
        run=_toggle_direction,
        checked=lambda context: context.settings.get(DIRECTION) == "right",
        menu=Menu.VIEW,
        section=3,
        shortcut=("Ctrl+K",),
        enabled=always,
        icon="direction",
        toolbar=44,
        tip="Lay the graph out from left to right instead of from top to bottom.",
        words="horizontal vertical layout down turn",
    ),
    Action(
        id="view.groups",
        title="&Group Nodes",
        run=_toggle_groups,
        checked=lambda context: context.document_open and _view(context).expansion.is_grouped,
        menu=Menu.VIEW,
        section=3,
        shortcut=("G",),
        on_graph=True,
        contexts=frozenset({"canvas"}),
        tip="Show nodes that share a name scope, or else blocks that repeat, as one box that opens in place.",
        words="hierarchy blocks modules namespace scopes collapse",
    ),
    Action(
        id="view.devices",
        title="Colour by Device or Pipeline Stage",
        run=_toggle_devices,
        checked=lambda context: context.document_open and _view(context).node_colors.shows_devices,
        menu=Menu.VIEW,
        section=3,
        enabled=_has_devices,
        contexts=frozenset({"canvas"}),
        tip="Colour nodes by the device configurations of the model instead of the operator category.",
        words="sharding parallel gpu color",
    ),
    Action(
        id="view.expansion.expand_all",
        title="&Expand All Groups",
        run=lambda context: _view(context).expansion.expand_all(),
        menu=Menu.VIEW,
        section=3,
        contexts=frozenset({"canvas"}),
        words="open scopes blocks hierarchy",
    ),
    Action(
        id="view.expansion.collapse_all",
        title="&Collapse All Groups",
        run=lambda context: _view(context).expansion.collapse_all(),
        menu=Menu.VIEW,
        section=3,
        contexts=frozenset({"canvas"}),
        words="close scopes blocks hierarchy",
    ),
    Action(
        id="view.expansion.tags",
        title="Show Folded Nodes",
        run=lambda context: _view(context).expansion.toggle_tags(_view(context).picker.current_box()),
        checked=lambda context: context.document_open and _has_open_tags(context),
        menu=Menu.VIEW,
        section=3,
        enabled=_has_tags,
        contexts=frozenset({"node"}),
        tip="Draw the nodes that compute the sizes or prepare the weights of the selected node, or fold them again.",
        words="unfold sizes weights shape arithmetic constants tag expand",
    ),
    Action(
        id="view.scenes.relayout",
        title="Redo &Layout",
        run=lambda context: _view(context).scenes.relayout(),
        menu=Menu.VIEW,
        section=3,
        shortcut=("L",),
        on_graph=True,
        contexts=frozenset({"canvas"}),
        words="arrange layout tidy",
    ),
    Action(
        id="view.minimap",
        title="Overview Map",
        run=_toggle_minimap,
        checked=lambda context: context.document_open and _view(context).minimap.wanted,
        menu=Menu.VIEW,
        section=4,
        icon="minimap",
        words="minimap",
    ),
    *(_panel_action(info) for info in PANELS),
    _theme_action("system", "System Theme"),
    _theme_action("light", "Light Theme"),
    _theme_action("dark", "Dark Theme"),
    _theme_action("contrast", "High Contrast Theme"),
    Action(
        id="view.full_screen",
        title="F&ull Screen",
        run=_full_screen,
        checked=lambda context: context.window.isFullScreen(),
        menu=Menu.VIEW,
        section=6,
        shortcut=("F11",),
        enabled=always,
    ),
)
