"""What stands in the panels of numbers is in the command palette too."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMenu, QWidget
from shiboken6 import isValid

from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.viewer.actions.controls import controls_of
from tests.viewer.run.run_actions import idle, make_finite, opened, run, value


@pytest.fixture
def workspace(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    make_finite(workspace)
    run(qtbot, workspace)
    window.activateWindow()
    return workspace


def call(window, qtbot, title, where):
    """Type a title into the palette, go to the entry of a panel, press Enter."""
    window.open_palette()
    popup = window.palette_popup
    qtbot.keyClicks(popup.field, title)
    qtbot.waitUntil(lambda: (title, where) in [(entry.title, entry.where) for entry in popup.matching()])
    names = [(entry.title, entry.where) for entry in popup.matching()]
    for _ in range(names.index((title, where)) - popup.list.currentIndex().row()):
        qtbot.keyClick(popup.field, Qt.Key.Key_Down)
    qtbot.keyClick(popup.field, Qt.Key.Key_Return)


def show(window, qtbot, workspace, name):
    panel = window.docks.open("tensor")
    workspace.selection.set([value(workspace, name)])
    qtbot.waitUntil(lambda: panel.pane.reader is not None and panel.pane.title.text() == name)
    qtbot.waitUntil(lambda: not workspace.tasks.running)
    return panel


def test_a_choice_opens_a_switch_is_turned_and_a_field_has_the_keyboard(window, qtbot, workspace):
    pane = show(window, qtbot, workspace, "c").pane
    call(window, qtbot, "View", "Tensor panel")
    qtbot.waitUntil(pane.view_box.view().isVisible)
    pane.view_box.hidePopup()
    call(window, qtbot, "Logarithmic", "Tensor panel")
    assert pane.facts.histogram.logarithmic
    panel = window.docks.open("run")
    panel.seed.setValue(3)
    call(window, qtbot, "Seed", "Run panel")
    qtbot.waitUntil(lambda: panel.seed.isAncestorOf(QApplication.focusWidget()) or panel.seed.hasFocus())
    assert not panel.seed.visibleRegion().isEmpty()
    qtbot.keyClicks(QApplication.focusWidget(), "12")
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Return)
    assert workspace.runs.inputs.seed == 12


def test_panels_that_were_never_opened_are_called_too(window, qtbot, workspace):
    made = {info.id for info, panel in window.docks.panels() if panel is not None}
    assert not made & {"compare", "profile", "watch"}
    call(window, qtbot, "Relative tolerance", "Compare panel")
    compare = window.docks.panel("compare")
    qtbot.waitUntil(compare.isVisible)
    qtbot.waitUntil(lambda: QApplication.focusWidget().accessibleName() == "Relative tolerance")
    assert not window.docks.is_open("watch")


def test_what_a_panel_out_of_sight_offers_follows_the_selection(window, qtbot, workspace):
    panel = show(window, qtbot, workspace, "y")
    window.docks.toggle("tensor")
    workspace.selection.set([value(workspace, "c")])
    qtbot.waitUntil(lambda: panel.pane.reader is not None and panel.pane.title.text() == "c")
    assert not panel.isVisible()
    call(window, qtbot, "Logarithmic", "Tensor panel")
    qtbot.waitUntil(panel.isVisible)
    assert panel.pane.facts.histogram.logarithmic


def test_a_panel_behind_others_comes_to_the_front(window, qtbot, workspace):
    show(window, qtbot, workspace, "c")
    profile = window.docks.open("profile")
    window.docks.open("watch")
    call(window, qtbot, "View of the profile", "Profile panel")
    qtbot.waitUntil(profile.view.view().isVisible)
    assert not profile.visibleRegion().isEmpty()
    profile.view.hidePopup()


def test_a_menu_opens_at_its_button(window, qtbot, workspace):
    pane = show(window, qtbot, workspace, "c").pane
    call(window, qtbot, "More", "Tensor panel")
    qtbot.waitUntil(lambda: QApplication.activePopupWidget() is pane.menu)
    assert isinstance(pane.menu, QMenu)
    assert any("Export" in action.text().replace("&", "") for action in pane.menu.actions())
    pane.menu.close()


def test_what_stands_in_a_menu_of_a_panel_is_called_by_its_own_name(window, qtbot, workspace):
    pane = show(window, qtbot, workspace, "c").pane
    workspace.selection.set([value(workspace, "k")])
    qtbot.waitUntil(lambda: pane.reader is not None and pane.subject.editable)
    call(window, qtbot, "Change Type: float16", "Tensor panel › More")
    qtbot.waitUntil(lambda: pane.subject.element_type is ElementType.FLOAT16 or pane.ask.is_confirming)


def test_when_a_breakpoint_stops_is_chosen_by_the_name_of_its_value(window, qtbot, workspace):
    panel = window.docks.open("run")
    for name in ("c", "r"):
        workspace.runs.breakpoints.toggle(value(workspace, name))
    qtbot.waitUntil(lambda: "When to stop after r" in dict(controls_of(panel)))
    call(window, qtbot, "When to stop after r", "Run panel")
    qtbot.waitUntil(lambda: isinstance(QApplication.activePopupWidget(), QWidget))
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Return):
        qtbot.keyClick(QApplication.activePopupWidget().focusWidget() or QApplication.activePopupWidget(), key)
    qtbot.waitUntil(lambda: [one.condition for one in workspace.runs.breakpoints.all] == ["", "non-finite"])


def test_what_an_action_does_stands_once_and_what_is_off_is_shown_as_such(window, qtbot, workspace):
    window.docks.open("run")
    window.docks.open("watch")
    window.open_palette()
    entries = window.palette_popup.matching()
    window.palette_popup.close()
    assert sum(entry.title == "Step" for entry in entries) == 1
    assert [entry.enabled for entry in entries if (entry.title, entry.where) == ("Unpin", "Watch panel")] == [False]


def entry_of(window, title):
    """The entry as the palette has it now."""
    window.open_palette()
    popup = window.palette_popup
    entry = next(entry for entry in popup.matching() if entry.title == title)
    popup.close()
    return entry


def test_a_control_that_was_made_anew_is_used_by_its_name(window, qtbot, workspace):
    panel = show(window, qtbot, workspace, "c")
    entry = entry_of(window, "Axis of the rows")
    workspace.selection.set([value(workspace, "y")])
    qtbot.waitUntil(lambda: panel.pane.title.text() == "y")
    qtbot.waitUntil(lambda: not isValid(entry.run.args[-1]))
    entry.run()
    qtbot.waitUntil(dict(controls_of(panel))["Axis of the rows"].view().isVisible)
    dict(controls_of(panel))["Axis of the rows"].hidePopup()


def test_a_control_that_is_gone_when_it_is_chosen_does_nothing(window, qtbot, workspace):
    panel = window.docks.open("run")
    workspace.runs.breakpoints.toggle(value(workspace, "r"))
    qtbot.waitUntil(lambda: "When to stop after r" in dict(controls_of(panel)))
    entry = entry_of(window, "When to stop after r")
    workspace.runs.breakpoints.set(())
    qtbot.waitUntil(lambda: not isValid(entry.run.args[-1]))
    entry.run()
    assert QApplication.activePopupWidget() is None


def test_what_becomes_possible_while_the_palette_is_open_can_be_chosen(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    window.activateWindow()
    window.open_palette()
    popup = window.palette_popup
    qtbot.keyClicks(popup.field, "first non-finite")
    assert not popup.matching()[0].enabled
    qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    assert popup.isVisible(), "there is nothing to look through yet"
    run(qtbot, workspace)
    first = popup.model.index(0)
    qtbot.waitUntil(lambda: bool(first.flags() & Qt.ItemFlag.ItemIsEnabled))
    assert popup.list.selectionModel().isSelected(first)
    qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    assert not popup.isVisible()
    idle(qtbot, workspace)
