"""Cutting through the window: the boundary is seen before, follows the selection, and goes away."""

from __future__ import annotations

import pytest

from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.viewer.dialogs.extract import ExtractDialog
from tests.model import builders

pytestmark = pytest.mark.long


def marked(desk, kind):
    """The names of the values whose edges or boxes are marked."""
    marks = desk.view.marks
    edges = {desk.view.scene.drawing.values[i].name for i in marks.edges.get(kind, ())}
    return edges | {desk.view.scene.boxes[i].subject.name for i in marks.boxes.get(kind, ())}


def lines(dialog):
    return [dialog.list.item(row).text().split()[:2] for row in range(dialog.list.count())]


def test_the_boundary_is_marked_and_follows_the_selection(desk):
    desk.select(desk.node("second"), desk.node("third"))
    desk.run("model.extract")
    dialog = desk.child(ExtractDialog)
    assert lines(dialog) == [["in", "a"], ["out", "c"]]
    assert (marked(desk, "taken"), marked(desk, "given")) == ({"a"}, {"c"})
    desk.select(desk.node("first"), desk.node("second"))
    desk.qtbot.waitUntil(lambda: lines(dialog) == [["in", "x"], ["out", "r"]])
    assert (marked(desk, "taken"), marked(desk, "given")) == ({"x"}, {"r"})
    assert dialog.state.text() == "2 nodes, 1 constant"
    dialog.reject()
    assert (marked(desk, "taken"), marked(desk, "given")) == (set(), set())
    assert len(desk.window.tabs()) == 1


def test_a_split_shows_both_parts_and_the_cut(desk):
    desk.qtbot.waitUntil(lambda: desk.workspace.types.inferred is not None)
    desk.select(desk.value("r"))
    desk.run("model.split")
    dialog = desk.child(ExtractDialog)
    assert dialog.state.text() == "Part 1: 2 nodes, 1 constant\nPart 2: 2 nodes, 1 constant"
    assert (marked(desk, "taken"), marked(desk, "given")) == ({"x", "unused"}, {"r", "y"})
    dialog.ok.click()
    desk.settle()
    assert [tab.workspace.title for tab in desk.window.tabs()[1:]] == ["test-1", "test-2"]
    assert desk.window.tabs()[2].workspace.graph.inputs[0].type is not None


def test_what_is_in_no_part_is_reported_beside_the_last(desk):
    desk.open("""<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
        g (float[2] x) => (float[2] y) { a = Exp (x) y = Neg (a) }
        <domain: "f", opset_import: ["" : 21]> Idle (p) => (q) { q = Relu (p) }""")
    desk.select(desk.value("a"))
    desk.run("model.split")
    desk.child(ExtractDialog).ok.click()
    desk.settle()
    *_, first, second = desk.window.tabs()
    assert first.message_bar.messages == []
    (message,) = second.message_bar.messages
    assert message.severity == "warning"
    assert message.detail.endswith("function Idle")


def test_what_cannot_be_cut_is_said_until_it_can(desk):
    desk.select(desk.value("a"), desk.value("x"))
    desk.run("model.extract_between")
    dialog = desk.child(ExtractDialog)
    assert dialog.ok.isEnabled()
    desk.select(desk.value("a"))
    desk.qtbot.waitUntil(lambda: not dialog.ok.isEnabled())
    assert "No nodes in between" in dialog.error.text()
    dialog.way.setCurrentIndex(dialog.way.findData("split"))
    assert dialog.ok.isEnabled()
    dialog.close()
    assert marked(desk, "given") == set()


def test_the_boundary_in_a_body_is_seen_whatever_was_shown(desk):
    """Nodes of a body can be chosen in the outline while the graph around it is shown."""
    desk.open(builders.BRANCHES)
    inner = desk.node("inner")
    desk.select(inner)
    assert desk.workspace.graph is not inner.graph
    desk.run("model.extract")
    dialog = desk.child(ExtractDialog)
    assert desk.workspace.graph is inner.graph
    assert desk.workspace.selection.items == (inner,)
    desk.qtbot.waitUntil(lambda: not desk.view.scenes.is_busy)
    desk.qtbot.waitUntil(lambda: marked(desk, "given") == {"yes_out"})
    assert lines(dialog) == [["in", "d"], ["out", "yes_out"]]
    dialog.reject()


def test_an_edit_behind_the_dialog_is_followed(desk):
    desk.select(desk.node("second"), desk.node("third"))
    desk.run("model.extract")
    dialog = desk.child(ExtractDialog)
    desk.run("edit.delete")
    desk.qtbot.waitUntil(lambda: not dialog.ok.isEnabled())
    assert "No node is selected" in dialog.error.text()
    dialog.reject()


def test_edits_go_on_when_the_dialog_is_gone(desk):
    desk.select(desk.node("second"))
    desk.run("model.extract")
    dialog = desk.child(ExtractDialog)
    first = desk.window.tab
    with desk.qtbot.waitSignal(desk.window.files.opened), desk.qtbot.waitSignal(dialog.destroyed):
        dialog.ok.click()
    desk.window.area.activate(first)
    desk.select(desk.node("second"))
    desk.run("edit.delete")  # an exception in a slot fails the test
    assert "second" not in [node.name for node in desk.workspace.graph.nodes]


def begun(desk):
    desk.select(desk.value("r"))
    desk.run("model.split")
    dialog = desk.child(ExtractDialog)
    dialog.ok.click()
    assert dialog.state.text() == "Extracting…"
    assert not dialog.ok.isEnabled()
    (task,) = (task for task in desk.workspace.tasks.running if task.title == "Extracting")
    return dialog, task


def test_nodes_are_cut_out_in_the_background(desk):
    begun(desk)
    desk.qtbot.waitUntil(lambda: len(desk.window.tabs()) == 3)
    assert [tab.workspace.title for tab in desk.window.tabs()[1:]] == ["test-1", "test-2"]


def test_cutting_can_be_stopped_and_begun_again(desk):
    dialog, task = begun(desk)
    task.cancel()
    desk.qtbot.waitUntil(dialog.ok.isEnabled)
    assert dialog.state.text().startswith("Part 1: 2 nodes")
    assert task not in desk.workspace.tasks.running
    dialog.ok.click()
    desk.qtbot.waitUntil(lambda: len(desk.window.tabs()) == 3)


@pytest.mark.parametrize("how", ["reject", "close"])
def test_closing_the_dialog_ends_cutting(desk, how):
    dialog, task = begun(desk)
    getattr(dialog, how)()
    assert task.cancelled
    desk.qtbot.waitUntil(lambda: task not in desk.workspace.tasks.running)
    assert (marked(desk, "taken"), marked(desk, "given")) == (set(), set())
    assert len(desk.window.tabs()) == 1


def test_an_edit_ends_cutting(desk):
    dialog, task = begun(desk)
    builders.one_edit(desk.document, rename_node, desk.node("fourth"), "mine")
    assert task.cancelled
    desk.qtbot.waitUntil(dialog.ok.isEnabled)
    assert len(desk.window.tabs()) == 1
    dialog.reject()


UNKNOWN = """<ir_version: 8, opset_import: ["" : 17, "custom" : 1]>
    g (float[2] x) => (float[2] y) { a = custom.Strange (x) b = Relu (a) y = Identity (b) }"""


@pytest.mark.parametrize("action", ["model.extract", "model.split"])
def test_parts_whose_types_nobody_knows_are_refused(desk, action):
    desk.open(UNKNOWN)
    count = len(desk.window.tabs())
    desk.select(desk.value("a") if action == "model.split" else desk.workspace.graph.nodes[1])
    desk.run(action)
    dialog = desk.child(ExtractDialog)
    dialog.ok.click()
    desk.qtbot.waitUntil(lambda: bool(dialog.error.text()))
    assert "The type or shape of a" in dialog.error.text()
    assert len(desk.window.tabs()) == count
    assert dialog.ok.isEnabled()
    desk.workspace.types.set_rule("custom::Strange", "same as input 0")
    with desk.qtbot.waitSignal(desk.window.files.opened):
        dialog.ok.click()
    assert str(desk.window.tab.workspace.graph.inputs[0].type) == "float[2]"


def test_types_are_inferred_where_they_are_not_known_yet(desk):
    """Without waiting for the inference in the background."""
    desk.select(desk.node("second"))
    desk.run("model.extract")
    with desk.qtbot.waitSignal(desk.window.files.opened):
        desk.child(ExtractDialog).ok.click()
    assert str(desk.window.tab.workspace.graph.inputs[0].type) == "float[N,4]"
