"""What stands in the panels as entries of the command palette: every field, choice, switch and list by its name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QComboBox, QPushButton, QScrollArea, QToolButton, QWidget
from shiboken6 import isValid

from viewer.actions import actions
from viewer.widgets.command_palette import Entry

if TYPE_CHECKING:
    from viewer.docks import Docks
    from viewer.panels import Panel


def control_entries(docks: Docks) -> list[Entry]:
    """An entry for each control of the panels that are open; none for a button that is called as an action is."""
    known = {one.plain_title.lower() for one in actions()}
    return [
        Entry(
            title=name,
            run=partial(_use, docks, info.id, control),
            where=f"{info.title} panel",
            words=control.toolTip(),
            enabled=control.isEnabled(),
        )
        for info, panel in docks.open_panels()
        for name, control in controls_of(panel)
        if name.lower() not in known
    ]


def controls_of(panel: Panel) -> Iterator[tuple[str, QWidget]]:
    """Names and widgets of what a panel shows now and the keyboard can reach, in the order they were made."""
    for widget in panel.findChildren(QWidget):
        name = control_name(widget)
        if name and widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.isVisibleTo(panel):
            yield name, widget


def control_name(widget: QWidget) -> str:
    """What screen readers call it: the name it was given, or what stands on the button; empty for other widgets."""
    written = widget.text() if isinstance(widget, QAbstractButton) else ""
    return widget.accessibleName() or written.replace("&", "").removesuffix("…")


def _use(docks: Docks, panel_id: str, control: QWidget) -> None:
    """Press a button; open a choice; go to anything else. Nothing where the panel shows something else by now."""
    docks.open(panel_id)
    if not isValid(control):
        return
    around = control.parentWidget()
    while around is not None:
        if isinstance(around, QScrollArea):
            around.ensureWidgetVisible(control)
        around = around.parentWidget()
    menu = control.menu() if isinstance(control, (QToolButton, QPushButton)) else None
    if menu is not None:
        menu.popup(control.mapToGlobal(control.rect().bottomLeft()))
    elif isinstance(control, QAbstractButton):
        control.click()
    else:
        control.setFocus(Qt.FocusReason.ShortcutFocusReason)
        if isinstance(control, QComboBox):
            control.showPopup()
