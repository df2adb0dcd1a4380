"""A large graph whose names tell nothing opens as the blocks it repeats."""

from __future__ import annotations

import pytest

from onnx_workbench.model.edits import nodes
from onnx_workbench.model.ir.graph import Function
from onnx_workbench.viewer.canvas.scene.drawing import DrawingOptions, Kind
from tests.model import builders
from tests.viewer.canvas.graphs import Graphs, residual
from tests.viewer.canvas.painting import wait


def count(view, kind):
    return sum(box.kind is kind for box in view.scene.boxes)


@pytest.fixture
def large():
    return residual(DrawingOptions().many // 4 + 1)


def test_a_large_graph_opens_as_blocks_and_can_be_shown_flat(show, qtbot, large):
    blocks = DrawingOptions().many // 4 + 1
    view = show(large.model())
    assert view.expansion.is_grouped
    assert (count(view, Kind.GROUP), count(view, Kind.NODE)) == (blocks, 1)
    assert "Exp-Relu-Tanh 2" in [box.title for box in view.scene.boxes]
    view.expansion.set_grouped(False)
    wait(qtbot, view)
    assert not view.expansion.is_grouped
    assert (count(view, Kind.GROUP), count(view, Kind.NODE)) == (0, 4 * blocks + 1)
    view.expansion.set_grouped(None)
    wait(qtbot, view)
    assert count(view, Kind.GROUP) == blocks


def test_a_screen_reader_receives_a_group_as_one(show, large):
    view = show(large.model())
    box = next(i for i, box in enumerate(view.scene.boxes) if box.kind is Kind.GROUP)
    view.picker.select_box(box)
    assert view.accessibleDescription().endswith(f"; selected: group {view.scene.boxes[box].title}, 4 nodes")
    chosen = [large.values[name].producer for name in ("Relu7", "Relu3")]
    view.workspace.selection.set(chosen)
    assert "; selected: 2 objects, the last: node" in view.accessibleDescription()


def test_a_node_inside_a_block_is_shown_by_opening_it(show, qtbot, large):
    view = show(large.model())
    node = large.values["Relu7"].producer
    view.navigator.reveal(node)
    wait(qtbot, view)
    (box,) = view.scene.drawing.boxes_of(node)
    assert view.scene.boxes[view.scene.boxes[box].parent].title == "Exp-Relu-Tanh 8"


@pytest.fixture
def called():
    """A call of a function whose nodes lie in two scopes, one in the other, beside another node."""
    body = Graphs("Block")
    body.input("a")
    wired = [("/start", "a"), ("/part/one", "start"), ("/part/inner/two", "one"), ("/part/inner/three", "two")]
    for name, before in wired:
        body.node("Relu", [before], [name.rsplit("/", 1)[-1]], name=name)
    body.outputs("three")
    g = Graphs()
    g.input("x", 2)
    g.node("Block", ["x"], ["y"], name="call", domain="local")
    g.outputs("y")
    return g.model(Function("Block", "local", body=body.graph))


def test_a_node_in_a_group_of_an_opened_function_is_revealed(show, qtbot, called):
    view = show(called)
    view.expansion.set_grouped(True)
    wait(qtbot, view)
    view.expansion.expand(view.scene.drawing.boxes_of(next(iter(called.graph.nodes)))[0])
    wait(qtbot, view)
    node = next(node for node in called.functions[0].body.nodes if node.name == "/part/inner/two")
    (box,) = view.scene.drawing.boxes_of(node)
    assert view.scene.boxes[box].kind is Kind.GROUP
    view.workspace.navigation.reveal(node)
    wait(qtbot, view)
    (box,) = view.scene.drawing.boxes_of(node)
    assert view.scene.boxes[box].subject is node
    around = [title for title, _ in view.navigator.trail()]
    assert around == ["Block", "part", "inner"]


def test_blocks_stay_while_one_of_them_is_edited(show, qtbot, large):
    view = show(large.model())
    view.navigator.reveal(large.values["Relu7"].producer)
    wait(qtbot, view)
    groups = count(view, Kind.GROUP)
    new = builders.one_edit(view.workspace.document, nodes.insert_on_edge, large.values["Exp7"], "Abs")
    wait(qtbot, view)
    (box,) = view.scene.drawing.boxes_of(new)
    assert view.scene.boxes[view.scene.boxes[box].parent].title == "Exp-Relu-Tanh 8"
    assert count(view, Kind.GROUP) == groups
    view.workspace.document.undo()
    wait(qtbot, view)
    assert count(view, Kind.GROUP) == groups


def test_a_small_graph_is_grouped_when_somebody_asks(show, qtbot):
    view = show(residual(3).model())
    assert not view.expansion.is_grouped
    view.expansion.set_grouped(True)
    wait(qtbot, view)
    assert (count(view, Kind.GROUP), count(view, Kind.NODE)) == (3, 1)
    view.expansion.expand_all()
    wait(qtbot, view)
    assert (count(view, Kind.CONTAINER), count(view, Kind.NODE)) == (3, 13)


def test_an_edit_while_blocks_are_looked_for_starts_over(show, qtbot):
    view = show(residual(3).model())
    view.expansion.set_grouped(True)
    assert view.scenes.is_busy
    builders.one_edit(view.workspace.document, nodes.delete_and_bridge, list(view.workspace.graph.nodes)[-1:])
    wait(qtbot, view)
    assert (count(view, Kind.GROUP), count(view, Kind.NODE)) == (3, 0)


def test_opening_all_groups_of_a_graph_that_has_none_changes_nothing(show, qtbot):
    view = show(residual(1).model())
    scene = view.scene
    view.expansion.expand_all()
    wait(qtbot, view)
    assert view.scene is scene
