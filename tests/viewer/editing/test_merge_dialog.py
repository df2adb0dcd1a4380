"""Merging another model in: wires drawn by mouse and chosen by keyboard, and what comes of them."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialogButtonBox
from shiboken6 import isValid

from onnx_workbench.model.edits import attributes
from onnx_workbench.model.ir.graph import Graph, TrainingInfo
from onnx_workbench.viewer.dialogs.merge import MergeDialog
from onnx_workbench.viewer.popups.choice_popup import ChoicePopup
from tests.model import builders
from tests.viewer.pointer import hover

OTHER = """
    <ir_version: 10, opset_import: ["" : 21]>
    other (float[N, 4] p, int64[2] q) => (float[N, 4] s, float[3] odd)
    <float[3] odd_w = {1.0, 2.0, 3.0}>
    { s0 = Neg (p)  k = Cast <to: int = 1> (q)  s = Abs (s0)  odd = Relu (odd_w) }
"""


@pytest.fixture
def dialog(desk):
    dialog = MergeDialog(desk.window, desk.workspace, desk.workspace.graph, builders.model(OTHER), "other.onnx")
    with desk.qtbot.waitExposed(dialog):
        dialog.show()
    yield dialog
    if isValid(dialog):
        dialog.hide()


def port(dialog, side, name, *, gives):
    return next(p for p in dialog.bay.lists[side].ports if (p.name, p.gives) == (name, gives))


def place(dialog, port):
    ports = dialog.bay.lists[port.side]
    return QPoint(40, ports.level(port)[0])


def move(dialog, start, point, buttons):
    """The mouse over the viewport the drag began in, as Qt sends it while a button is held."""
    viewport = dialog.bay.lists[start.side].viewport()
    hover(viewport, viewport.mapFromGlobal(point), buttons)
    dialog.grab()


def drag(dialog, start, end, *, release=True):
    """Draw a wire from a port to another one, or to a global point."""
    viewport = dialog.bay.lists[start.side].viewport()
    begin = place(dialog, start)
    target = end if isinstance(end, QPoint) else dialog.bay.lists[end.side].viewport().mapToGlobal(place(dialog, end))
    QTest.mousePress(viewport, Qt.MouseButton.LeftButton, pos=begin)
    middle = (viewport.mapToGlobal(begin) + target) / 2
    for point in (middle, target):
        move(dialog, start, point, Qt.MouseButton.LeftButton)
    if release:
        QTest.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=viewport.mapFromGlobal(target))


def test_a_wire_is_drawn_either_way_and_pulled_off(dialog):
    y, p = port(dialog, "left", "y", gives=True), port(dialog, "right", "p", gives=False)
    assert dialog.connections() == {}
    drag(dialog, y, p)
    assert dialog.connections() == {"p": "y"}
    drag(dialog, p, dialog.bay.gap.mapToGlobal(dialog.bay.gap.rect().center()))
    assert dialog.connections() == {}
    drag(dialog, p, y)
    assert dialog.connections() == {"p": "y"}
    drag(dialog, port(dialog, "left", "r", gives=True), p)
    assert dialog.connections() == {"p": "r"}


def test_training_graphs_stay_behind_and_both_say_so(dialog, desk, heard):
    assert "training" not in dialog.preview.text()
    dialog._other.training_info = (TrainingInfo(Graph("start"), Graph("step")),)
    dialog.prefix.setText("b_")
    assert "Not merged: 2 training graphs." in dialog.preview.text()
    told = heard(desk.workspace.messages.shown)
    dialog.try_merge()
    desk.qtbot.waitUntil(lambda: not isValid(dialog))
    assert [message.detail for message in told] == ["Not merged: 2 training graphs."]


def test_a_wire_is_drawn_from_dot_to_dot(dialog):
    y, p = port(dialog, "left", "y", gives=True), port(dialog, "right", "p", gives=False)
    gap = dialog.bay.gap
    ends = {
        one: gap.mapFromGlobal(dialog.bay.lists[one.side].viewport().mapToGlobal(place(dialog, one))).y()
        for one in (y, p)
    }
    start, end = QPoint(4, ends[y]), QPoint(gap.width() - 5, ends[p])
    for begin, target in ((start, end), (end, start)):
        dialog.bay.disconnect_port(p)
        QTest.mousePress(gap, Qt.MouseButton.LeftButton, pos=begin)
        for point in ((begin + target) / 2, target):
            hover(gap, point, Qt.MouseButton.LeftButton)
        assert "y float N×4 feeds p" in dialog.hint.text()
        QTest.mouseRelease(gap, Qt.MouseButton.LeftButton, pos=target)
        assert dialog.connections() == {"p": "y"}


def test_what_does_not_fit_is_said_while_dragging_and_refused(dialog):
    y, q = port(dialog, "left", "y", gives=True), port(dialog, "right", "q", gives=False)
    drag(dialog, y, q, release=False)
    assert "q expects int64 [2]" in dialog.hint.text()
    QTest.mouseRelease(dialog.bay.lists["left"].viewport(), Qt.MouseButton.LeftButton)
    drag(dialog, y, q)
    assert "y cannot feed q" in dialog.hint.text()
    drag(dialog, y, port(dialog, "right", "s", gives=True))
    assert "Both are outputs" in dialog.hint.text()
    drag(dialog, y, port(dialog, "right", "p", gives=False), release=False)
    assert dialog.hint.text() == "y float N×4 feeds p float N×4."
    QTest.keyClick(dialog.bay.lists["left"], Qt.Key.Key_Escape)
    QTest.mouseRelease(dialog.bay.lists["left"].viewport(), Qt.MouseButton.LeftButton)
    assert dialog.isVisible()
    assert dialog.connections() == {}


def test_the_other_end_is_chosen_by_name(dialog, qtbot):
    p = port(dialog, "right", "p", gives=False)
    right = dialog.bay.lists["right"]
    right.select(p)
    QTest.keyClick(right, Qt.Key.Key_Return)
    popup = next(w for w in dialog.findChildren(ChoicePopup) if w.isVisible())
    qtbot.keyClicks(popup.field, "r")
    qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    assert dialog.connections() == {"p": "r"}
    assert dialog.isVisible()
    QTest.keyClick(right, Qt.Key.Key_Delete)
    assert dialog.connections() == {}


def test_it_feeds_an_input_here_as_one_edit(dialog, desk, texts):
    before = texts()
    drag(dialog, port(dialog, "right", "s", gives=True), port(dialog, "left", "x", gives=False))
    assert dialog.feeding() == {"x": "s"}
    assert "Replaces inputs: x." in dialog.preview.text()
    dialog.findChild(QDialogButtonBox).button(QDialogButtonBox.StandardButton.Ok).click()
    assert not dialog.ok.isEnabled()
    desk.qtbot.waitUntil(lambda: not isValid(dialog))
    desk.settle()
    graph = desk.workspace.graph
    assert [v.name for v in graph.inputs] == ["unused", "p", "q"]
    assert [v.name for v in graph.outputs] == ["y", "odd"]
    assert desk.node("first").inputs[0].producer.op_type == "Abs"
    desk.run("edit.undo")
    assert texts() == before


def test_a_ring_is_refused_below_and_the_dialog_stays(dialog, desk, texts):
    before = texts()
    drag(dialog, port(dialog, "left", "y", gives=True), port(dialog, "right", "p", gives=False))
    drag(dialog, port(dialog, "right", "s", gives=True), port(dialog, "left", "x", gives=False))
    dialog.try_merge()
    desk.qtbot.waitUntil(dialog.ok.isEnabled)
    assert "cannot feed x" in dialog.error.text()
    assert dialog.isVisible()
    assert texts() == before


def test_outputs_that_feed_it_stay_only_when_asked(dialog, desk):
    drag(dialog, port(dialog, "left", "y", gives=True), port(dialog, "right", "p", gives=False))
    dialog.keep.click()
    dialog.try_merge()
    desk.qtbot.waitUntil(lambda: not isValid(dialog))
    assert [v.name for v in desk.workspace.graph.outputs] == ["y", "s", "odd"]


def test_other_dimensions_are_named_and_values_are_found(dialog, qtbot):
    qtbot.keyClicks(dialog.search, "unused")
    assert [p.name for p in dialog.bay.lists["left"].ports if p.gives] == ["unused"]
    dialog.search.clear()
    drag(dialog, port(dialog, "right", "odd", gives=True), port(dialog, "left", "x", gives=False))
    assert "Their dimensions differ: odd is float [3], x is float N×4." in dialog.preview.text()


def test_a_click_on_a_wire_leads_to_its_port(dialog):
    p = port(dialog, "right", "p", gives=False)
    drag(dialog, port(dialog, "left", "c", gives=True), p)
    dialog.bay.lists["right"].select(port(dialog, "right", "s", gives=True))
    middle = dialog.bay.gap.path(p).pointAtPercent(0.5).toPoint()
    QTest.mouseClick(dialog.bay.gap, Qt.MouseButton.LeftButton, pos=middle)
    assert dialog.bay.lists["right"].current == p


def test_types_that_are_found_out_later_are_shown_and_wires_stay(dialog, desk, qtbot):
    qtbot.waitUntil(lambda: "?" not in {p.note for p in dialog.bay.lists["left"].ports})
    wire = port(dialog, "left", "c", gives=True), port(dialog, "right", "p", gives=False)
    dialog.bay.connect_ports(*wire)
    with desk.document.edit("Change") as edit:
        attributes.set_attribute(edit, desk.node("fourth"), "axis", 0)
    qtbot.waitUntil(lambda: not desk.workspace.tasks.running)
    desk.workspace.types.changed.emit()
    assert dialog.connections()["p"] == "c"
    assert dialog.bay.lists["left"].level(wire[0]) == dialog.bay.lists["left"].level(
        port(dialog, "left", "c", gives=True)
    )


def test_merging_can_be_stopped(dialog, desk, texts):
    before = texts()
    dialog.try_merge()
    (task,) = (task for task in desk.workspace.tasks.running if task.title == "Merge other.onnx")
    task.cancel()
    desk.qtbot.waitUntil(dialog.ok.isEnabled)
    assert dialog.isVisible()
    assert texts() == before
    dialog.try_merge()
    desk.qtbot.waitUntil(lambda: not isValid(dialog))
    assert texts() != before


def test_closing_the_dialog_ends_merging(dialog, desk, texts):
    before = texts()
    dialog.try_merge()
    dialog.reject()
    desk.qtbot.waitUntil(
        lambda: not [task for task in desk.workspace.tasks.running if task.title == "Merge other.onnx"]
    )
    assert texts() == before


def test_constants_that_may_be_one_are_not_said_to_get_other_names(desk):
    """They come once where they are the same, as in parts of one model."""
    other = builders.model(builders.CHAIN.replace("float[4] b = {0.5, 0.5, 0.5, 0.5}", "float[2] b = {0.5, 0.5}"))
    dialog = MergeDialog(desk.window, desk.workspace, desk.workspace.graph, other, "other.onnx")
    lines = dialog.preview.text().splitlines()
    assert "Shared constants, added once: w" in lines
    (clashing,) = (line for line in lines if line.startswith("Names in use"))
    assert "b" in clashing.rpartition(": ")[2].split(", ")
    assert "w" not in clashing.rpartition(": ")[2].split(", ")
    dialog.deleteLater()
