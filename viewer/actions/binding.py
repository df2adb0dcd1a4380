"""Bind actions to a window: QActions, menus, tool bar, context menus, shortcuts, palette entries."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QApplication, QMenu, QMenuBar, QToolBar, QWidget

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.actions import Action, Menu, MenuContext, actions
from onnx_workbench.viewer.actions.action import Place, Submenu
from onnx_workbench.viewer.document.messages import REFUSED
from onnx_workbench.viewer.extensions.custom_actions import CustomAction, custom_actions
from onnx_workbench.viewer.property_tree.editors import commit_editor
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.labels import without_mnemonic
from onnx_workbench.viewer.style.theme import themes
from onnx_workbench.viewer.style.tooltips import wrapped
from onnx_workbench.viewer.tasks.event_loop import ChunkedIteration, Debounce

if TYPE_CHECKING:
    from onnx_workbench.viewer.popups.command_palette import PaletteEntry


class ActionBinding(QObject):
    """The QActions of one window, one for each Action, with their states and titles kept up to date."""

    refreshed = Signal()

    def __init__(self, context: MenuContext) -> None:
        super().__init__(context.window)
        self._window = context.window
        self.context = context
        self._qactions: dict[str, QAction] = {}
        self._actions = {one.id: one for one in actions()}
        for one in self._actions.values():
            self._qactions[one.id] = self._make(one)
        self._custom: tuple[CustomAction, ...] = ()  # listed in their menu
        self._custom_menu: QMenu | None = None
        self._refresh_later = Debounce(self.refresh, self)
        self._coloring: ChunkedIteration[None] = ChunkedIteration(lambda _set, _finished: None, self)
        themes().themeChanged.connect(self._color)

    def _make(self, one: Action) -> QAction:
        qaction = QAction(one.title, self._window)
        qaction.setObjectName(one.id)
        qaction.setShortcuts([QKeySequence(text) for text in one.keys])
        qaction.setCheckable(one.checked is not None)
        qaction.setToolTip(tooltip(one))
        qaction.setStatusTip("")
        if one.icon:
            qaction.setIcon(icon(one.icon))
            qaction.setIconVisibleInMenu(False)
        if one.on_graph:
            qaction.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        else:
            self._window.addAction(qaction)
        if one.everywhere:
            qaction.setShortcutContext(Qt.ShortcutContext.ApplicationShortcut)
        qaction.triggered.connect(partial(self.run, one.id))
        if one.by_key is not None:
            qaction.installEventFilter(self)
        return qaction

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Run the shortcut handler of an action that differs from its menu entry."""
        one = self._actions.get(watched.objectName()) if event.type() == QEvent.Type.Shortcut else None
        if one is None or one.by_key is None:
            return super().eventFilter(watched, event)
        self.run(one.id, by_key=True)
        return True

    def qaction(self, action_id: str) -> QAction:
        """Return the window's QAction of an action."""
        return self._qactions[action_id]

    def run(self, action_id: str, *_: object, by_key: bool = False) -> None:
        """Run an action if it is possible; a user error becomes a message."""
        one = self._actions[action_id]
        run = one.by_key if by_key and one.by_key is not None else one.run
        self.refresh_soon()
        is_document_open = self.context.document_open
        if not one.is_possible(self.context, is_document_open=is_document_open):
            return
        if not one.on_start_page and not is_document_open:
            self.context.do_once_open(one.id)
            return
        commit_editor(QApplication.focusWidget())
        try:
            run(self.context)
        except ModelError as error:
            self.context.area.report(error, REFUSED)
        self.refresh_soon()

    def refresh_soon(self, *_: object) -> None:
        """Update every QAction at the next event-loop iteration (coalesced)."""
        self._refresh_later.request()

    def refresh(self) -> None:
        """Update every QAction now."""
        context, is_document_open = self.context, self.context.document_open
        for one in self._actions.values():
            qaction = self._qactions[one.id]
            is_possible = one.is_possible(context, is_document_open=is_document_open)
            is_ready = one.on_start_page or is_document_open
            qaction.setEnabled(is_possible)
            if one.checked is not None:
                qaction.setChecked(is_possible and is_ready and one.checked(context))
            if one.label is not None and is_ready:
                text = one.label(context)
                qaction.setText(text or one.title)
                qaction.setVisible(bool(text))
        self._list_custom()
        self.refreshed.emit()

    def _list_custom(self) -> None:
        """Fill the menu of extension actions, which is visible only while there are any."""
        menu, found = self._custom_menu, custom_actions()
        if menu is None:
            return
        if found != self._custom:
            self._custom = found
            menu.clear()
            for one in found:
                qaction = menu.addAction(one.title.replace("&", "&&"))
                qaction.setToolTip(wrapped(f"{one.title}\n{one.tip}" if one.tip else one.title))
                qaction.triggered.connect(partial(self.run_custom, one))
            menu.menuAction().setVisible(bool(found))
        for qaction in menu.actions():
            qaction.setEnabled(self.context.document_open)

    def run_custom(self, one: CustomAction, *_: object) -> None:
        """Run an action of an extension on the current document; show its message or its error."""
        if not self.context.document_open:
            return
        workspace = self.context.workspace
        commit_editor(QApplication.focusWidget())
        try:
            message = one.run(workspace.document, workspace.selection.items)
        except ModelError as error:
            self.context.area.report(error, REFUSED)
        else:
            if message:
                workspace.messages.show("info", display(one.title, 80), display(message, 600, keep_lines=True))
        self.refresh_soon()

    def build_menu_bar(self, bar: QMenuBar) -> None:
        """Fill the menu bar; menus without actions are left out."""
        for menu in Menu:
            if menu is Menu.HELP:
                self._custom_menu = bar.addMenu("E&xtensions")
                self._custom_menu.setToolTipsVisible(True)
                self._custom_menu.menuAction().setVisible(False)
            mine = [one for one in self._actions.values() if one.place is not None and one.place.menu is menu]
            if mine:
                qmenu = bar.addMenu(menu.value)
                qmenu.setToolTipsVisible(True)
                qmenu.aboutToShow.connect(self.refresh)
                self._fill(qmenu, mine)

    def build_tool_bar(self, bar: QToolBar) -> None:
        """Fill the tool bar."""
        mine = sorted((one for one in self._actions.values() if one.toolbar), key=lambda one: one.toolbar)
        for number, (_, group) in enumerate(itertools.groupby(mine, key=lambda one: one.toolbar // 10)):
            if number:
                bar.addSeparator()
            for one in group:
                bar.addAction(self._qactions[one.id])

    def context_menu(self, kind: str, parent: QWidget) -> QMenu:
        """Return a menu of the enabled actions for a context menu kind.

        Those of nodes are many: what is in other menus than File and Edit is in a submenu for each of these.
        """
        self.refresh()
        menu = QMenu(parent)
        menu.setToolTipsVisible(True)
        mine = [one for one in self._actions.values() if kind in one.on and self._qactions[one.id].isEnabled()]
        parts = (Menu.VIEW, Menu.GO, Menu.MODEL, Menu.RUN) if kind == "node" else ()
        inner = {part: [one for one in mine if one.place and one.place.menu is part] for part in parts}
        self._fill(menu, [one for one in mine if not any(one in part for part in inner.values())], nested=False)
        menu.addSeparator()
        for part, those in inner.items():
            several = menu.addMenu(_with_mnemonic(part, menu)) if len(those) > 1 else menu
            several.setToolTipsVisible(True)
            self._fill(several, those, nested=False)
        return menu

    def _fill(self, menu: QMenu, mine: list[Action], *, nested: bool = True) -> None:
        nowhere = Place(Menu.FILE, -1)
        placed = sorted(((one.place or nowhere, one) for one in mine), key=lambda pair: _order(pair[0]))
        submenus: dict[str, QMenu] = {}
        for number, (place, one) in enumerate(placed):
            if number and _order(place) != _order(placed[number - 1][0]):
                menu.addSeparator()
            if nested and place.submenu and place.submenu not in submenus:
                submenus[place.submenu] = menu.addMenu(place.submenu)
                submenus[place.submenu].setToolTipsVisible(True)
            submenus.get(place.submenu, menu).addAction(self._qactions[one.id])

    def add_graph_shortcuts(self, view: QWidget) -> None:
        """Add the shortcuts that only work on the graph to a graph view."""
        for one in self._actions.values():
            if one.on_graph:
                view.addAction(self._qactions[one.id])

    def palette_entries(self, run: Callable[[str], object]) -> list[PaletteEntry]:
        """Return every action for the command palette, which calls `run` with the chosen id.

        Panels come last: Run runs before it shows the panel of that name.
        """
        from onnx_workbench.viewer.popups.command_palette import PaletteEntry  # not needed for the first frame

        self.refresh()
        return [
            PaletteEntry(
                title=without_mnemonic(self._qactions[one.id].text()),
                run=partial(run, one.id),
                where=_path(one.place),
                shortcut=shortcut_text(one),
                words=one.words,
                tip=one.tip,
                is_possible=self._qactions[one.id].isEnabled,
            )
            for one in sorted(self._actions.values(), key=lambda one: one.place is Submenu.PANELS)
            if self._qactions[one.id].isVisible()
        ] + [
            PaletteEntry(one.title, partial(self.run_custom, one), "Extensions", tip=one.tip,
                         is_possible=lambda: self.context.document_open)
            for one in self._custom
        ]  # fmt: skip

    def _color(self) -> None:
        """Set the icons in the theme's colours, those of the tool bar first: drawing all takes several frames."""
        with_icon = [one for one in self._actions.values() if one.icon]
        self._coloring.start(map(self._set_icon, sorted(with_icon, key=lambda one: not one.toolbar)))

    def _set_icon(self, one: Action) -> None:
        self._qactions[one.id].setIcon(icon(one.icon))


def _with_mnemonic(part: Menu, menu: QMenu) -> str:
    """Return the title of a menu with the first letter as mnemonic that no entry of another one has."""
    title = without_mnemonic(part.value)
    texts = [entry.text().lower() for entry in menu.actions()]
    free = next((n for n, letter in enumerate(title.lower()) if not any(f"&{letter}" in t for t in texts)), None)
    return title if free is None else f"{title[:free]}&{title[free:]}"


def _order(place: Place) -> tuple[int, int]:
    return list(Menu).index(place.menu), place.section


def _path(place: Place | None) -> str:
    """Return the menu and submenu as texts write them, "Run › Inspect Values"."""
    if place is None:
        return ""
    return " › ".join(without_mnemonic(part) for part in (place.menu.value, place.submenu) if part)


def shortcut_text(one: Action) -> str:
    """Return the shortcut in native form, or nothing."""
    if not one.keys:
        return ""
    return QKeySequence(one.keys[0]).toString(QKeySequence.SequenceFormat.NativeText)


def tooltip(one: Action) -> str:
    """Return title, shortcut and tip."""
    keys = shortcut_text(one)
    title = f"{one.plain_title} ({keys})" if keys else one.plain_title
    return wrapped(f"{title}\n{one.tip}" if one.tip else title)
