"""Values through the command palette's actions and by pointing: views, compare, conditions, provenance."""

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QFileDialog

from onnx_workbench.exec.engine.breakpoints import Breakpoint
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.viewer.dialogs.text_prompt import TextPrompt
from tests.viewer.pointer import hover
from tests.viewer.run.run_actions import compare_with, edit, idle, node, opened_and_run, run, value

pytestmark = pytest.mark.long


@pytest.fixture
def workspace(window, qtbot, net):
    return opened_and_run(window, qtbot, net)


def do(qtbot, window, workspace, action):
    """Choose an action as the palette does."""
    binding = window.actions_binding
    entries = binding.palette_entries(binding.run)
    entry = next(e for e in entries if e.title.removesuffix("…") == action)
    assert entry.enabled, action
    entry.run()
    idle(qtbot, workspace)
    qtbot.wait(1)


def compare(qtbot, window, workspace, title):
    """Choose a reference in Compare With…"""
    assert not compare_with(window, title)
    idle(qtbot, workspace)
    qtbot.wait(1)


def tensor(window, qtbot, workspace, name):
    panel = window.docks.open("tensor")
    workspace.selection.set([value(workspace, name)])
    qtbot.waitUntil(lambda: panel.pane.title.text() == name and panel.pane.reader is not None)
    idle(qtbot, workspace)
    return panel


@pytest.mark.parametrize("view", ["Table", "Heat map", "Feature maps", "Attention", "Image", "Lines", "Text"])
def test_every_view_is_in_the_palette(window, qtbot, workspace, view):
    panel = tensor(window, qtbot, workspace, "c")
    do(qtbot, window, workspace, f"Values as {view.title()}")
    assert panel.pane.view == view


def test_a_view_of_nothing_says_that_nothing_is_selected(window, qtbot, received, workspace):
    workspace.selection.set([])
    panel = window.docks.open("tensor")
    idle(qtbot, workspace)
    assert panel.pane.subject is None
    report = received(workspace.messages.shown)
    do(qtbot, window, workspace, "Values as Feature Maps")
    assert [message.title for message in report] == ["No tensor is selected"]


def test_a_view_that_does_not_fit_is_not_forced(window, qtbot, received, workspace):
    panel = tensor(window, qtbot, workspace, "y")
    before = panel.pane.view
    report = received(workspace.messages.shown)
    do(qtbot, window, workspace, "Values as Attention")
    assert panel.pane.view == before
    do(qtbot, window, workspace, "Difference From the Previous Run")
    assert [message.title for message in report] == [
        "Attention cannot show this value", "No previous value",
    ]  # fmt: skip


def test_before_and_difference_and_pinning(window, qtbot, workspace):
    edit(workspace, "relu", "alpha", 0.25)
    run(qtbot, workspace)
    panel = tensor(window, qtbot, workspace, "r")
    workspace.results.fetch(value(workspace, "r"), workspace.results.previous)
    idle(qtbot, workspace)
    for title, mode in (
        ("Values of the Previous Run", 1),
        ("Difference From the Previous Run", 2),
        ("Values of This Run", 0),
    ):
        do(qtbot, window, workspace, title)
        assert panel.pane.mode_box.currentIndex() == mode
    do(qtbot, window, workspace, "Pin Tensor")
    assert len(panel.panes) == 2


def test_exporting_what_a_run_gave(window, qtbot, workspace, monkeypatch, tmp_path):
    tensor(window, qtbot, workspace, "c")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "c.npy"), ""))
    do(qtbot, window, workspace, "Export Values")
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), workspace.results.value_of(value(workspace, "c")))


def test_comparing_with_the_run_before_and_fewer_bits(window, qtbot, workspace):
    edit(workspace, "relu", "alpha", 0.25)
    edit(workspace, "conv", "pads", [0, 0, 0, 0])
    run(qtbot, workspace)
    compare(qtbot, window, workspace, "Values: Previous run")
    panel = window.docks.panel("compare")
    assert panel.first.name == "c"
    do(qtbot, window, workspace, "First Divergence")
    assert workspace.selection.current is value(workspace, "c")
    workspace.selection.set([node(workspace, "relu")])
    compare(qtbot, window, workspace, "Values: Selected node in bfloat16")
    assert {row.name for row in panel.rows if row.difference.max_abs} <= {"r", "m", "y"}


def test_nothing_is_coloured_where_nothing_differs(window, qtbot, workspace):
    run(qtbot, workspace, "run.fresh")
    compare(qtbot, window, workspace, "Values: Previous run")
    assert "agree" in window.docks.panel("compare").summary.text()
    assert workspace.runs.overlays.numbers == {}


def test_there_is_no_run_before_the_first(window, qtbot, workspace):
    assert compare_with(window, "Values: Previous run").startswith("There is no previous run.")


def test_conditions_are_switches(window, qtbot, workspace):
    do(qtbot, window, workspace, "Break When a Value Is Not Finite")
    assert workspace.runs.breakpoints.all == (Breakpoint(condition="non-finite"),)
    assert window.docks.open("run").breakpoints.non_finite.isChecked()
    do(qtbot, window, workspace, "Break When |x| Is Above")
    dialog = window.findChild(TextPrompt)
    for refused in ("", "-1", "nan", "many"):
        dialog.fields[0].setText(refused)
        dialog.try_accept()
        assert dialog.error.text().startswith("Invalid limit")
    dialog.fields[0].setText("250")
    dialog.try_accept()
    do(qtbot, window, workspace, "Break When a Value Is Not Finite")
    assert workspace.runs.breakpoints.all == (Breakpoint(condition="above", limit=250.0),)
    assert window.docks.open("run").breakpoints.limit.number() == 250.0
    do(qtbot, window, workspace, "Break When |x| Is Above")
    assert workspace.runs.breakpoints.all == ()


def test_a_watched_value_can_be_let_go(window, qtbot, workspace):
    workspace.selection.set([node(workspace, "relu")])
    workspace.trigger("run.pin")
    assert workspace.results.pinned
    do(qtbot, window, workspace, "Stop Watching Value")
    assert workspace.results.pinned == ()


def test_a_watched_value_that_the_run_did_not_reach_says_so(window, qtbot, workspace):
    workspace.results.pin([value(workspace, "y")])
    watch = window.docks.open("watch")

    def shown():
        return watch.table.model().index(0, 1).data()

    run(qtbot, workspace)
    qtbot.waitUntil(lambda: shown().startswith("float"))
    workspace.runs.run_to(node(workspace, "conv"))
    qtbot.waitUntil(lambda: shown() == "not computed")


# -- where an element comes from -------------------------------------------------------------------------------


def test_clicking_a_number_shows_what_reaches_it(window, qtbot, workspace):
    panel = tensor(window, qtbot, workspace, "c")
    do(qtbot, window, workspace, "Values as Table")
    element = window.docks.open("element")
    window.docks.open("tensor")
    table = panel.pane.table
    spot = table.visualRect(table.cells.index(1, 2)).center()
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    idle(qtbot, workspace)
    assert element.traced == (value(workspace, "c"), (0, 0, 1, 2))
    qtbot.waitUntil(lambda: element.trace is not None)
    rows = {row.cells[0].text: row.cells[2].number for row in element.table.source.rows}
    assert rows["x"] == 3 * 3 * 3, "the window of the convolution"


def test_an_edited_node_cannot_tell_what_reached_an_old_element(window, qtbot, workspace):
    element = window.docks.open("element")

    def shown():
        return [row.cells[1].text for row in element.table.source.rows], element.value.text().partition(", ")[2]

    workspace.results.choose_element(value(workspace, "c"), (0, 0, 1, 2))
    window_of_it = ["[0, 0:3, 0:3, 1:4]", "[0, 0:3, 0:3, 0:3]"]
    qtbot.waitUntil(lambda: shown() == (window_of_it, ""))
    edit(workspace, "relu", "alpha", 0.25)  # behind it
    idle(qtbot, workspace)
    assert shown() == (window_of_it, "")
    edit(workspace, "conv", "pads", [0, 0, 2, 2])
    qtbot.waitUntil(lambda: shown() == ([], "out of date: edited since the run"))
    workspace.results.choose_element(value(workspace, "l"), (0, 0, 1, 2))
    qtbot.waitUntil(lambda: shown() == (["[0, 0, 1, 2]"], "out of date: edited since the run"))
    workspace.document.undo()
    workspace.document.undo()
    workspace.results.choose_element(value(workspace, "c"), (0, 0, 1, 2))
    qtbot.waitUntil(lambda: shown() == (window_of_it, ""))


def test_an_element_follows_renaming_and_reports_no_upstream(window, qtbot, workspace):
    element = window.docks.open("element")
    workspace.selection.set([value(workspace, "x")])
    idle(qtbot, workspace)
    assert element.value.text().endswith("not computed by a node")
    with workspace.document.edit("Rename") as edit:
        edit.do(SetField(value(workspace, "x"), "name", "image"))
    assert element.name.text() == "image"


def test_clicking_a_cell_of_a_picture_shows_what_reaches_it(window, qtbot, workspace):
    panel = tensor(window, qtbot, workspace, "c")
    do(qtbot, window, workspace, "Values as Feature Maps")
    picture = panel.pane.picture
    qtbot.waitUntil(lambda: panel.pane.stack.currentWidget() is picture)
    frame = picture.layer_rect()
    across, down = picture._cell_size()
    spot = QPointF(frame.left() + 2.5 * across, frame.top() + 1.5 * down).toPoint()
    qtbot.mouseClick(picture, Qt.MouseButton.LeftButton, pos=spot)
    assert workspace.results.element == (value(workspace, "c"), (0, 0, 1, 2))
    do(qtbot, window, workspace, "Trace Element")
    assert window.docks.panel("element").traced == (value(workspace, "c"), (0, 0, 1, 2))


def test_dragging_a_picture_chooses_nothing(window, qtbot, workspace):
    panel = tensor(window, qtbot, workspace, "c")
    do(qtbot, window, workspace, "Values as Heat Map")
    picture = panel.pane.picture
    centre = picture._frame().center().toPoint()
    chosen = workspace.results.element
    qtbot.mousePress(picture, Qt.MouseButton.LeftButton, pos=centre)
    hover(picture, centre * 1.3, Qt.MouseButton.LeftButton)
    qtbot.mouseRelease(picture, Qt.MouseButton.LeftButton, pos=centre * 1.3)
    assert workspace.results.element == chosen


def test_a_point_of_a_line_is_traced(window, qtbot, workspace):
    pane = tensor(window, qtbot, workspace, "c").pane
    pane.show_slice(pane.slices.slice.through((0, 2, 0, 0)))
    do(qtbot, window, workspace, "Values as Lines")
    qtbot.waitUntil(lambda: pane.stack.currentWidget() is pane.lines)
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Return):
        qtbot.keyClick(pane.lines, key)
    assert workspace.results.element == (value(workspace, "c"), (0, 2, 1, 1))


@pytest.fixture
def remote(make_window, qtbot, net):
    """A model whose values are in another process until someone looks."""
    window = make_window()
    workspace = opened_and_run(window, qtbot, net)
    return window, workspace


def test_the_difference_is_shown_once_the_values_have_come(remote, qtbot):
    window, workspace = remote
    edit(workspace, "relu", "alpha", 0.25)
    run(qtbot, workspace)
    panel = window.docks.open("tensor")
    workspace.selection.set([value(workspace, "r")])
    qtbot.waitUntil(lambda: panel.pane.target is not None)
    workspace.trigger("values.difference")
    assert workspace.parent().message_bar.messages == []
    qtbot.waitUntil(lambda: panel.pane.mode_box.currentIndex() == 2 and panel.pane.reader is not None)


def test_the_difference_stays_chosen_from_run_to_run(remote, qtbot):
    window, workspace = remote
    panel = window.docks.open("tensor")
    workspace.selection.set([value(workspace, "r")])
    qtbot.waitUntil(lambda: panel.pane.reader is not None)
    edit(workspace, "relu", "alpha", 0.25)
    run(qtbot, workspace)
    qtbot.waitUntil(panel.pane.mode_box.isVisible)
    workspace.trigger("values.difference")
    before = panel.pane.reader
    assert panel.pane.mode_box.currentIndex() == 2
    edit(workspace, "relu", "alpha", 1.0)
    run(qtbot, workspace)
    qtbot.waitUntil(lambda: panel.pane.reader not in (None, before))
    idle(qtbot, workspace)
    assert panel.pane.mode_box.currentIndex() == 2
