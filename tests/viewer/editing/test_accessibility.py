"""What screen readers and people without a mouse get: every control has a name and can be reached."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QMenuBar,
    QPlainTextEdit,
    QScrollBar,
    QTabBar,
    QTabWidget,
    QTextBrowser,
    QToolBar,
    QWidget,
)

from onnx_workbench.viewer.actions import actions
from onnx_workbench.viewer.panel_list import PANELS
from onnx_workbench.viewer.popups.choice_popup import ChoicePopup
from onnx_workbench.viewer.popups.command_palette import CommandPalette
from onnx_workbench.viewer.popups.operator_palette import OperatorPalette
from tests.model import builders

_CONTROLS = (
    QAbstractButton, QLineEdit, QComboBox, QAbstractSpinBox, QAbstractItemView, QAbstractSlider, QPlainTextEdit,
)  # fmt: skip
pytestmark = pytest.mark.usefixtures("no_system_dialogs")

_ELSEWHERE = {"file.quit", "view.full_screen", "file.close", "file.close_all"}


def controls(root: QWidget) -> list[QWidget]:
    """The controls that can be seen in a widget; parts of one control, such as a spin box's field, belong to it."""
    return [
        child
        for child in root.findChildren(QWidget)
        if isinstance(child, _CONTROLS)
        and child.isVisibleTo(root)
        and not isinstance(child, (QScrollBar, QHeaderView))
        and not isinstance(child.parent(), (QAbstractSpinBox, QComboBox, QTabBar, QMenuBar, QLineEdit))
        and not (isinstance(child.parent(), QAbstractItemView) and isinstance(child, QAbstractButton))  # table corner
        and not child.objectName().startswith("qt_")
        and type(child).__name__ not in ("QComboBoxListView", "QDockWidgetTitleButton")
    ]


def name_of(widget: QWidget) -> str:
    """What a screen reader says; of a combo box, whose interface tells its choice, what it was given as its name."""
    if isinstance(widget, QComboBox):
        return widget.accessibleName()
    interface = QAccessible.queryAccessibleInterface(widget)
    return interface.text(QAccessible.Text.Name).strip() if interface is not None else ""


def described(widget: QWidget) -> str:
    """Enough to find the control in the source."""
    chain = []
    while widget is not None and len(chain) < 4:
        chain.append(type(widget).__name__)
        widget = widget.parentWidget()
    return " in ".join(chain)


def unreachable(widget: QWidget) -> bool:
    """Whether the keyboard cannot get there.

    Buttons of tool bars and tabs are actions with shortcuts too; the list of a popup is walked from its field.
    """
    parent = widget.parentWidget()
    if isinstance(parent, (QToolBar, QTabBar, QTabWidget, ChoicePopup, CommandPalette, OperatorPalette)):
        return False
    return not widget.focusPolicy() & Qt.FocusPolicy.TabFocus


def can_be_seen(widget: QWidget) -> bool:
    """Whether it is on the screen, not behind another dock."""
    found = widget.window().childAt(widget.mapTo(widget.window(), widget.rect().center()))
    return found is widget or (found is not None and widget.isAncestorOf(found))


def waits(panel: QWidget) -> bool:
    """Whether a panel is yet to take up what was selected: many do so a moment later, some from a task."""
    return any(timer.isActive() and timer.isSingleShot() for timer in panel.findChildren(QTimer))


def show_all(desk):
    """A model with bodies and functions, and everything there is to see of it."""
    first = desk.window.tabs()[0]
    desk.open(builders.BRANCHES)
    desk.window.area.remove_tab(first)


@pytest.mark.long
@pytest.mark.parametrize("info", PANELS, ids=lambda info: info.id)
def test_every_control_of_a_panel_has_a_name_and_can_be_reached(desk, info):
    show_all(desk)
    panel = desk.window.docks.open(info.id) or desk.window.docks.panel(info.id)
    nameless, stranded, seen = set(), set(), set()
    model = desk.document.model
    for item in (desk.node("double"), desk.node("choose"), desk.value("w"), desk.value("x"), model, model.graph):
        desk.select(item)
        desk.qtbot.waitUntil(lambda: not waits(panel) and not desk.workspace.tasks.running)
        QApplication.processEvents()
        for control in controls(panel):
            seen.add(type(control))
            if not name_of(control):
                nameless.add(described(control))
            if unreachable(control):
                stranded.add(f"{name_of(control)}: {described(control)}")
    assert seen, "nothing was looked at"
    labels = [label for label in panel.findChildren(QLabel) if label.text() and label.isVisibleTo(panel)]
    faint = [label.text() for label in labels if not label.isEnabled() and label.parentWidget().isEnabled()]
    assert faint == [], "what is to be read is not greyed out"
    assert nameless == set()
    assert stranded == set()


@pytest.mark.long
def test_every_control_of_the_window_has_a_name(desk):
    show_all(desk)
    desk.workspace.messages.show(
        "warning", "Something", "to read", desk.node("double"), choices=(("Do it", lambda: None),)
    )
    QApplication.processEvents()
    assert {described(control) for control in controls(desk.window) if not name_of(control)} == set()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["node", "value", "graph"])
def test_every_control_of_a_dialog_has_a_name_and_can_be_reached(desk, kind):
    show_all(desk)
    tab = desk.window.tab
    nameless, stranded, seen = set(), set(), 0
    for one in actions():
        if one.id in _ELSEWHERE or one.id.startswith(("run.", "panel.", "file.recent", "file.open")):
            continue
        for other in desk.window.tabs():
            if other is not tab:
                desk.window.area.remove_tab(other)
        desk.document.go_to(desk.document.root)
        desk.workspace.navigation.show(desk.document.model.graph)
        subject = {"node": desk.node("double"), "value": desk.value("d"), "graph": desk.document.model.graph}[kind]
        desk.select(subject)
        before = set(QApplication.topLevelWidgets())
        desk.run(one.id)
        for dialog in set(QApplication.topLevelWidgets()) - before:
            if not dialog.isVisible():
                continue
            seen += 1
            for control in controls(dialog):
                if not name_of(control):
                    nameless.add(f"{one.id}: {described(control)}")
                if unreachable(control):
                    stranded.add(f"{one.id}: {name_of(control)}: {described(control)}")
            dialog.close()
    assert seen > 3
    assert nameless == set()
    assert stranded == set()


@pytest.mark.parametrize("panel", ["problems", "run", "tensor", "history", "node_table", "statistics", "raw"])
def test_tab_goes_round_through_all_that_can_take_the_focus(desk, qtbot, panel):
    show_all(desk)
    desk.select(desk.node("double"))
    desk.window.docks.open(panel)
    desk.window.activateWindow()
    desk.view.setFocus(Qt.FocusReason.TabFocusReason)
    QApplication.processEvents()
    visited = [desk.view]
    for _ in range(150):
        before = QApplication.focusWidget()
        qtbot.keyClick(before, Qt.Key.Key_Tab)
        now = QApplication.focusWidget()
        if now is before and isinstance(now, QTextBrowser):
            continue  # from link to link
        assert now is not before, f"stuck in {described(before)}"
        QApplication.processEvents()
        assert can_be_seen(now), f"{described(now)} cannot be seen"
        if now is desk.view:
            break
        visited.append(now)
    else:
        pytest.fail("Tab does not come back to the graph")
    missed = [
        f"{name_of(control)}: {described(control)}"
        for control in controls(desk.window)
        if control.focusPolicy() & Qt.FocusPolicy.TabFocus
        and control.isEnabled()
        and can_be_seen(control)
        and control not in visited
    ]
    assert missed == []
