"""Edits that change what boxes say, but not which there are, touch nothing else on the canvas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QCoreApplication
from PySide6.QtGui import QRegion

from onnx_workbench.model.edits.nodes import delete_and_bridge
from onnx_workbench.model.history.steps import SetAttribute, SetField, SetInitializer
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.devices import NodeDeviceConfiguration
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.viewer.canvas.scene.drawing import Kind
from onnx_workbench.viewer.canvas.scene.patch_drawing import DrawingPatch, patched
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.program.settings import COLUMNS
from tests.model import builders
from tests.viewer.canvas.graphs import Graphs, long_chain, settle
from tests.viewer.canvas.painting import is_painted, wait
from tests.viewer.painted import Painted


def box_of(view, subject):
    (index,) = view.scene.drawing.boxes_of(subject)
    return view.scene.boxes[index]


def texts(view, subject):
    return {row.name: row.text for row in box_of(view, subject).rows}


def set_attribute(view, node, name, value):
    with view.workspace.document.edit("Set") as edit:
        edit.do(SetAttribute(node, name, None if value is None else make_attribute(name, value)))


def frames_from_now(view):
    """Once all is painted, what is painted after that."""
    settle(view)
    frames = Painted(view)
    QCoreApplication.processEvents()
    while not frames.region.isEmpty():
        frames.region = QRegion()
        QCoreApplication.processEvents()
    return frames


def differ(a, b):
    """Whether an eye could tell: a line cut elsewhere is rounded otherwise, by a 256th."""
    return max(abs(a.red() - b.red()), abs(a.green() - b.green()), abs(a.blue() - b.blue())) > 2


@pytest.mark.long
def test_an_attribute_of_equal_width_repaints_only_its_box(show, small):
    view = show(small.model())
    conv = next(iter(view.workspace.graph.nodes))
    set_attribute(view, conv, "group", 2)
    settle(view)
    scene = view.scene
    before = view.grab().toImage()
    set_attribute(view, conv, "group", 4)
    assert view.scene is scene
    assert not view.scenes.is_busy
    assert texts(view, conv)["group"] == "4"
    settle(view)
    after = view.grab().toImage()
    changed = [
        (x, y)
        for x in range(0, after.width(), 2)
        for y in range(after.height())
        if differ(after.pixelColor(x, y), before.pixelColor(x, y))
    ]
    left, top, right, bottom = scene.bounds_of(scene.drawing.boxes_of(conv))
    (low_x, low_y), (high_x, high_y) = view.viewport.to_widget(left, top), view.viewport.to_widget(right, bottom)
    assert changed
    assert all(low_x <= x <= high_x and low_y <= y <= high_y for x, y in changed)
    view.workspace.document.undo()
    assert view.scene is scene
    assert texts(view, conv)["group"] == "2"


@pytest.mark.long
def test_a_frame_of_an_edit_paints_it_whole_and_nothing_else(show, small):
    view = show(small.model())
    conv = next(iter(view.workspace.graph.nodes))
    set_attribute(view, conv, "group", 2)
    view.workspace.selection.set([conv])
    frames = frames_from_now(view)
    set_attribute(view, conv, "group", 4)
    while frames.region.isEmpty():
        QCoreApplication.processEvents()
    assert is_painted(view)
    assert frames.region.boundingRect().width() < view.width() / 2
    alone = view.grab().toImage()
    view.repaint_scene()
    settle(view)
    anew = view.grab().toImage()
    places = [(x, y) for x in range(alone.width()) for y in range(alone.height())]
    assert not any(differ(alone.pixelColor(x, y), anew.pixelColor(x, y)) for x, y in places)


def test_an_edit_of_what_is_not_written_on_the_card_paints_nothing(show):
    view = show(long_chain(30).model())
    frames = frames_from_now(view)
    with view.workspace.document.edit("Describe") as edit:
        edit.do(SetField(next(iter(view.workspace.graph.nodes)), "doc_string", "what it is for"))
    QCoreApplication.processEvents()
    assert frames.region.isEmpty()


def test_a_new_row_shows_at_once_where_there_is_room(show, qtbot):
    view = show(long_chain(30).model())
    view.workspace.settings.set(COLUMNS, False)
    wait(qtbot, view)
    nodes = list(view.workspace.graph.nodes)
    scene = view.scene
    for kind in ("box_grid", "piece_grid", "curved", "shapes"):
        getattr(scene, kind)
    before = scene.rects.copy()
    set_attribute(view, nodes[10], "note", "some")
    assert view.scene is scene
    assert not view.scenes.is_busy
    (box,) = scene.drawing.boxes_of(nodes[10])
    assert np.array_equal(np.delete(scene.rects, box, 0), np.delete(before, box, 0))
    assert scene.rects[box, 3] > before[box, 3]
    assert tuple(scene.rects[box, 2:]) == (scene.boxes[box].width, scene.boxes[box].height)
    fresh = Scene(scene.drawing, scene.layout)
    assert np.array_equal(fresh.rects, scene.rects)
    assert np.array_equal(fresh.pieces, scene.pieces)
    assert np.array_equal(fresh.curved, scene.curved)
    pieces = np.arange(len(scene.pieces))
    assert np.array_equal(fresh.distinct(pieces), scene.distinct(pieces))
    area = (before[box, 0] - 50, before[box, 1] - 50, before[box, 0] + 300, before[box, 1] + 120)
    assert np.array_equal(fresh.box_grid.in_rect(*area), scene.box_grid.in_rect(*area))
    assert np.array_equal(fresh.piece_grid.in_rect(*area), scene.piece_grid.in_rect(*area))
    settle(view)
    painted = view.grab().toImage()
    view.repaint_scene()
    settle(view)
    assert view.grab().toImage() == painted
    view.workspace.document.undo()
    assert np.array_equal(scene.rects, before)


def test_rows_without_room_lay_out_around_a_fixed_box(show, qtbot, small):
    view = show(small.model())
    conv = next(iter(view.workspace.graph.nodes))
    view.workspace.selection.set([conv])
    scene = view.scene
    left, top, *_ = scene.rect(scene.drawing.boxes_of(conv)[0])
    before = view.viewport.to_widget(left, top)
    with view.workspace.document.edit("Set") as edit:
        for name in ("pads", "dilations", "strides"):
            edit.do(SetAttribute(conv, name, make_attribute(name, [1, 2, 1, 1])))
    wait(qtbot, view)
    assert view.scene is not scene
    assert texts(view, conv)["pads"] == "[1, 2, 1, 1]"
    left, top, *_ = view.scene.rect(view.scene.drawing.boxes_of(conv)[0])
    assert view.viewport.to_widget(left, top) == pytest.approx(before, abs=1.5)


def test_a_constant_that_is_a_row_of_its_consumers_follows_its_value(show, qtbot):
    g = Graphs()
    g.input("x", 2)
    constant = g.node("Constant", [], ["k"], value_float=1.5)
    first = g.node("Add", ["x", "k"], ["a"])
    second = g.node("Mul", ["a", "k"], ["b"])
    g.outputs("b")
    view = show(g.model())
    set_attribute(view, constant, "value_float", 2.5)
    wait(qtbot, view)
    assert "2.5" in texts(view, first).values()
    assert "2.5" in texts(view, second).values()


def test_the_numbers_of_an_initializer_are_written_where_it_is_used(show, qtbot, small):
    small.constant("s", np.array(3.0, np.float32))
    node = small.node("Mul", ["r", "s"], ["m"])
    view = show(small.model())
    value = small.values["s"]
    with view.workspace.document.edit("Set") as edit:
        edit.do(SetInitializer(small.graph, value, ArrayTensor(np.array(4.0, np.float32), name="s")))
    wait(qtbot, view)
    assert "4" in texts(view, node).values()


def test_types_that_become_known_are_written_without_drawing_anew(show, small):
    view = show(small.model())
    scene = view.scene
    found = {small.values["c"]: TensorType(ElementType.FLOAT, Shape((7, 5)))}
    view.scenes.set_types(lambda value: found.get(value, value.type))
    assert view.scene is scene
    labels = {label.text for label in view.labels.in_rect(*scene.bounds)}
    assert "7×5" in labels


def test_the_pill_of_an_output_is_as_wide_as_its_new_type(show, qtbot, small):
    view = show(small.model())
    (pill,) = (box for box in view.scene.boxes if box.kind is Kind.OUTPUT)
    found = {small.values["y"]: TensorType(ElementType.FLOAT, Shape(("batch", 256, 1024)))}
    view.scenes.set_types(lambda value: found.get(value, value.type))
    wait(qtbot, view)
    (wider,) = (box for box in view.scene.boxes if box.kind is Kind.OUTPUT)
    assert "batch×256×1024" in wider.note
    assert wider.width > pill.width


def test_ports_stay_in_place_on_boxes_of_other_sizes(show):
    drawing = show(long_chain(3).model()).scene.drawing
    change = DrawingPatch({1: replace(drawing.boxes[1], width=2 * drawing.boxes[1].width)})
    after = patched(drawing, change)
    factors = np.where(drawing.edges == 1, 2, 1)
    np.testing.assert_array_equal(after.source_ports, drawing.source_ports * factors[:, 0])
    np.testing.assert_array_equal(after.target_ports, drawing.target_ports * factors[:, 1])


def test_an_operator_that_changes_is_drawn_in_its_new_colour(show, qtbot, small):
    view = show(small.model())
    relu = [*view.workspace.graph.nodes][1]
    builders.do(view.workspace.document, SetField(relu, "op_type", "Conv"))
    wait(qtbot, view)
    assert box_of(view, relu).category == "layer"


def test_a_name_that_moves_a_node_to_another_scope_moves_it(show, qtbot):
    graphs = long_chain(40, scopes=4)
    view = show(graphs.model())
    view.expansion.expand_all()
    wait(qtbot, view)
    node = list(graphs.graph.nodes)[9]
    builders.do(view.workspace.document, SetField(node, "name", "/part1/moved"))
    wait(qtbot, view)
    assert view.scene.boxes[box_of(view, node).parent].title == "part1"


def test_devices_are_drawn_when_they_change(show, qtbot, small):
    view = show(small.model())
    view.node_colors.set_devices(shown=True)
    relu = [*view.workspace.graph.nodes][1]
    with view.workspace.document.edit("Set") as edit:
        edit.do(SetField(relu, "device_configurations", (NodeDeviceConfiguration("two", (), 1),)))
    wait(qtbot, view)
    assert view.colouring.indices[view.scene.drawing.boxes_of(relu)[0]] > 0


def caught_up(qtbot, view, name, text):
    """Every box says this, and nothing is on its way."""
    nodes = list(view.workspace.graph.nodes)
    qtbot.waitUntil(lambda: not view.scenes.is_busy and all(texts(view, node).get(name) == text for node in nodes))


@pytest.mark.long
def test_an_edit_of_very_many_nodes_moves_nothing(show, qtbot):
    view = show(long_chain(2500).model())
    document, nodes = view.workspace.document, list(view.workspace.graph.nodes)
    with document.edit("Note all") as edit:
        for node in nodes:
            edit.do(SetAttribute(node, "note", make_attribute("note", 1)))
    caught_up(qtbot, view, "note", "1")
    before, position = view.scene.rects.copy(), view.viewport.position
    with document.edit("Note all anew") as edit:
        for node in nodes:
            edit.do(SetAttribute(node, "note", make_attribute("note", 2)))
    set_attribute(view, nodes[0], "note", 3)
    qtbot.waitUntil(lambda: not view.scenes.is_busy and texts(view, nodes[0])["note"] == "3")
    document.undo()
    caught_up(qtbot, view, "note", "2")
    document.undo()
    caught_up(qtbot, view, "note", "1")
    assert np.array_equal(view.scene.rects, before)
    assert view.viewport.position == pytest.approx(position, abs=1.0)
    document.undo()
    caught_up(qtbot, view, "note", None)


@pytest.mark.long
def test_very_many_changes_and_then_removals_are_drawn(show, qtbot):
    view = show(long_chain(2500).model())
    document, nodes = view.workspace.document, list(view.workspace.graph.nodes)
    with document.edit("Note all") as edit:
        for node in nodes:
            edit.do(SetAttribute(node, "note", make_attribute("note", 1)))
    builders.one_edit(document, delete_and_bridge, nodes[5:7])
    caught_up(qtbot, view, "note", "1")
    assert len(view.scene.drawing.boxes_of(nodes[4])) == 1
    assert view.scene.drawing.boxes_of(nodes[5]) == []
    builders.one_edit(document, delete_and_bridge, nodes[7:2200])
    caught_up(qtbot, view, "note", "1")
    assert len(view.scene.drawing.graph.nodes) == len(nodes) - 2195
    document.undo()
    caught_up(qtbot, view, "note", "1")
