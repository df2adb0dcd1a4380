"""Controls of the panels as entries of the command palette: fields, choices, switches, lists, menu entries."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QComboBox, QMenu, QPushButton, QToolButton, QWidget
from shiboken6 import isValid

from onnx_workbench.viewer.actions import actions
from onnx_workbench.viewer.popups.command_palette import PaletteEntry
from onnx_workbench.viewer.style.labels import without_mnemonic
from onnx_workbench.viewer.tables.scrolling import scroll_to

if TYPE_CHECKING:
    from onnx_workbench.viewer.docks import Docks
    from onnx_workbench.viewer.panel import Panel
    from onnx_workbench.viewer.panel_list import PanelInfo


def control_entries(docks: Docks) -> list[PaletteEntry]:
    """Return an entry for each control of the panels created so far."""
    return [entry for info, panel in docks.panels() if panel is not None for entry in _entries_of(docks, info, panel)]


def more_entries(docks: Docks) -> Iterator[list[PaletteEntry]]:
    """Yield entries of panels that were not shown yet, each of which is created for it, one per iteration.

    Panels that load data have more controls afterwards; those come last.
    """
    made = []
    for info in [info for info, panel in docks.panels() if panel is None]:
        panel = docks.make(info.id)
        if panel is not None:
            made.append((info, panel))
            yield _entries_of(docks, info, panel)
    while any(panel.workspace.tasks.running for _, panel in made):
        yield []
    yield control_entries(docks)


def _entries_of(docks: Docks, info: PanelInfo, panel: Panel) -> list[PaletteEntry]:
    """Return an entry for each control of a panel; none for a button named like an action."""
    known = {one.plain_title.lower() for one in actions()}
    where = f"{info.title} panel"
    found: list[PaletteEntry] = []
    for name, control in controls_of(panel):
        if name.lower() not in known:
            use = partial(_use, docks, info.id, name, control)
            found.append(
                PaletteEntry(name, use, where, tip=control.toolTip(), is_possible=partial(_is_enabled, control))
            )
        menu = _menu_of(control) if control.isEnabled() else None
        if menu is not None:
            menu.aboutToShow.emit()  # fill menus that are filled on opening only
            found += _menu_entries(docks, info, menu, f"{where} › {name}")
    return found


def _is_enabled(control: QWidget | QAction) -> bool:
    """Return whether it is enabled, also where the panel recreated its controls since."""
    return not isValid(control) or control.isEnabled()


def _menu_of(control: QWidget) -> QMenu | None:
    return control.menu() if isinstance(control, (QToolButton, QPushButton)) else None


def _menu_entries(docks: Docks, info: PanelInfo, menu: QMenu, where: str, before: str = "") -> Iterator[PaletteEntry]:
    """Return the entries of a menu; those of a submenu with its title in front."""
    for action in menu.actions():
        title = before + without_mnemonic(action.text()).removesuffix("…")
        inner = action.menu()
        if isinstance(inner, QMenu):
            yield from _menu_entries(docks, info, inner, where, f"{title}: ")
        elif not action.isSeparator():
            run = partial(_trigger, docks, info, where, title, action)
            yield PaletteEntry(title, run, where, tip=action.toolTip(), is_possible=partial(_is_enabled, action))


def _trigger(docks: Docks, info: PanelInfo, where: str, title: str, action: QAction) -> None:
    """Trigger a menu entry, or the one of that name if the menu was refilled since; no effect if there is none."""
    panel = docks.open(info.id)
    if isValid(action):
        action.trigger()
    elif panel is not None:
        again = next((one for one in _entries_of(docks, info, panel) if (one.where, one.title) == (where, title)), None)
        if again is not None and again.enabled:
            again.run()


def controls_of(panel: Panel) -> Iterator[tuple[str, QWidget]]:
    """Return names and widgets of the visible, focusable controls of a panel, in creation order."""
    for widget in panel.findChildren(QWidget):
        name = control_name(widget)
        if name and widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.isVisibleTo(panel):
            yield name, widget


def control_name(widget: QWidget) -> str:
    """Return the accessible name, or a button's text; empty for other widgets."""
    written = widget.text() if isinstance(widget, QAbstractButton) else ""
    return widget.accessibleName() or without_mnemonic(written).removesuffix("…")


def _use(docks: Docks, panel_id: str, name: str, control: QWidget) -> None:
    """Click a button, open a combo box, focus anything else. Nothing where the panel has no such control any more."""
    panel = docks.open(panel_id)
    if not isValid(control):  # the panel recreated its controls since
        others = {} if panel is None else dict(controls_of(panel))
        if name not in others:
            return
        control = others[name]
    scroll_to(control)
    menu = _menu_of(control)
    if menu is not None:
        menu.popup(control.mapToGlobal(control.rect().bottomLeft()))
    elif isinstance(control, QAbstractButton):
        control.click()
    else:
        control.setFocus(Qt.FocusReason.ShortcutFocusReason)
        if isinstance(control, QComboBox):
            control.showPopup()
