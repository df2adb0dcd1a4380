"""View: zoom, what nodes show, direction, panels, theme, full screen."""

from __future__ import annotations

from functools import partial

from viewer.actions.action import Action, Context, Menu, always, with_document, with_selection
from viewer.panels import PANELS, PanelInfo
from viewer.settings import (
    DIRECTION,
    SHOW_ATTRIBUTES,
    SHOW_INITIALIZERS,
    SHOW_NAMES,
    THEME,
    WHEEL_ZOOMS,
    Option,
)


def _view(context: Context, method: str) -> None:
    if context.window.tab is not None:
        getattr(context.window.tab.view, method)()


def _view_action(
    action_id: str,
    title: str,
    method: str,
    shortcut: tuple[str, ...],
    icon: str = "",
    toolbar: int = 0,
    words: str = "",
) -> Action:
    return Action(
        id=action_id,
        title=title,
        run=lambda context: _view(context, method),
        menu=Menu.VIEW,
        section=1,
        shortcut=shortcut,
        on_graph=True,
        icon=icon,
        toolbar=toolbar,
        contexts=frozenset({"canvas"}) if method == "fit" else frozenset(),
        words=words,
    )


def _actual_size(context: Context) -> None:
    if context.window.tab is not None:
        context.window.tab.view.zoom_to(1.0)


def _toggle(option: Option[bool], context: Context) -> None:
    context.window.settings.set(option, not context.window.settings.get(option))


def _is_on(option: Option[bool], context: Context) -> bool:
    return context.window.settings.get(option)


def _switch(action_id: str, title: str, option: Option[bool], shortcut: str, icon: str, words: str) -> Action:
    return Action(
        id=action_id,
        title=title,
        run=partial(_toggle, option),
        checked=partial(_is_on, option),
        menu=Menu.VIEW,
        section=2,
        shortcut=(shortcut,),
        enabled=always,
        icon=icon,
        words=words,
    )


def _turn(context: Context) -> None:
    settings = context.window.settings
    settings.set(DIRECTION, "right" if settings.get(DIRECTION) == "down" else "down")


def _theme_action(mode: str, title: str) -> Action:
    return Action(
        id=f"view.theme.{mode}",
        title=title,
        run=lambda context: context.window.settings.set(THEME, mode),
        checked=lambda context: context.window.settings.get(THEME) == mode,
        menu=Menu.VIEW,
        section=5,
        enabled=always,
        words="dark light colours appearance",
    )


def _full_screen(context: Context) -> None:
    window = context.window
    if window.isFullScreen():
        window.showNormal()
    else:
        window.showFullScreen()


def _panel_action(info: PanelInfo) -> Action:
    return Action(
        id=f"panel.{info.id}",
        title=info.title,
        run=lambda context: context.window.docks.toggle(info.id),
        checked=lambda context: context.window.docks.is_open(info.id),
        menu=Menu.VIEW,
        section=4,
        shortcut=(info.shortcut,) if info.shortcut else (),
        enabled=with_document,
        icon=info.icon,
        words="panel dock show hide",
    )


ACTIONS = (
    _view_action("view.fit", "Zoom to &Fit", "fit", ("Space",), "fit", 41, "whole all"),
    _view_action("view.zoom_in", "Zoom &In", "zoom_in", ("Shift+Up", "Ctrl++", "Ctrl+="), "zoom-in", 43, "larger"),
    _view_action("view.zoom_out", "Zoom &Out", "zoom_out", ("Shift+Down", "Ctrl+-"), "zoom-out", 42, "smaller"),
    Action(
        id="view.fit_selection",
        title="Zoom to &Selection",
        run=lambda context: _view(context, "fit_selection"),
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
        id="view.actual_size",
        title="&Actual Size",
        run=_actual_size,
        menu=Menu.VIEW,
        section=1,
        shortcut=("Shift+Backspace", "Ctrl+0"),
        on_graph=True,
        words="100 % zoom",
    ),
    _switch("view.attributes", "Show A&ttributes", SHOW_ATTRIBUTES, "Ctrl+D", "attributes", "hide"),
    _switch("view.initializers", "Show Initiali&zers", SHOW_INITIALIZERS, "Ctrl+I", "initializers", "hide weights"),
    _switch("view.names", "Show &Names", SHOW_NAMES, "Ctrl+U", "names", "hide labels types"),
    _switch("view.wheel", "&Mouse Wheel Zooms", WHEEL_ZOOMS, "Ctrl+M", "", "scroll"),
    Action(
        id="view.direction",
        title="Left to Right",
        run=_turn,
        checked=lambda context: context.window.settings.get(DIRECTION) == "right",
        menu=Menu.VIEW,
        section=3,
        shortcut=("Ctrl+K",),
        enabled=always,
        icon="direction",
        toolbar=44,
        tip="Lay the graph out from left to right instead of from top to bottom.",
        words="horizontal vertical layout down turn",
    ),
    *(_panel_action(info) for info in PANELS),
    _theme_action("system", "Theme of the System"),
    _theme_action("light", "Light Theme"),
    _theme_action("dark", "Dark Theme"),
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
