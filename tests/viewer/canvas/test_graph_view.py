"""What the canvas shows and how it follows the workspace."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor

from onnx_workbench.model.analysis import topology
from onnx_workbench.model.edits import nodes as node_edits
from onnx_workbench.model.history.steps import InsertNode, RemoveNode, SetAttribute, SetField, SetInput
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.viewer.canvas.paint import backing_store
from onnx_workbench.viewer.canvas.scene.drawing import Kind
from onnx_workbench.viewer.popups.operator_palette import OperatorEntry
from onnx_workbench.viewer.program.settings import DIRECTION, SHOW_INITIALIZERS, SHOW_NAMES
from onnx_workbench.viewer.style.theme import theme, themes
from onnx_workbench.viewer.workflows.insert_operator import insert
from tests.model import builders
from tests.viewer.canvas.graphs import HOSTILE_NAMES, Graphs, long_chain, residual, settle
from tests.viewer.canvas.painting import is_painted, wait


def titles(view):
    return [box.title for box in view.scene.boxes]


def box(view, title):
    return titles(view).index(title)


def on_screen(view, index):
    left, top, width, _ = view.scene.rect(index)
    return view.viewport.to_widget(left + width / 2, top)


def test_a_small_graph_is_shown_whole(show, small):
    view = show(small.model())
    left, top, right, bottom = view.viewport.area
    assert left <= 0
    assert top <= 0
    assert right >= view.scene.width
    assert bottom >= view.scene.height
    assert view.zoom <= 1.0
    assert is_painted(view)


def test_a_tall_graph_is_shown_from_its_beginning_in_a_readable_size(show):
    view = show(long_chain(900).model())
    assert view.zoom >= 0.6
    x, y = on_screen(view, 0)
    assert 0 <= y < 100
    assert 0 <= x < view.width()


@pytest.mark.long
@pytest.mark.parametrize(("crossed", "at_once"), [(5, True), (40, False)])
def test_few_nodes_with_very_many_edges_are_laid_out_in_a_task(show, qtbot, crossed, at_once):
    g = Graphs()
    g.input("x", 4)
    for row in range(crossed):
        g.node("Relu", ["x"], [f"a{row}"])
    for row in range(crossed):
        g.node("Sum", [f"a{other}" for other in range(crossed)], [f"b{row}"])
    g.node("Sum", [f"b{row}" for row in range(crossed)], ["y"])
    g.outputs("y")
    view = show(g.model())
    view.scenes.reload()
    assert view.scenes.is_busy is not at_once
    wait(qtbot, view)
    assert len(view.scene.boxes) == 2 * crossed + 3


def test_headers_have_the_colour_of_their_category(show, small):
    view = show(small.model())
    view.zoom_to(1.0)
    settle(view)
    image = view.grab().toImage()
    left, top, _, _ = view.scene.rect(box(view, "Conv"))
    x, y = view.viewport.to_widget(left + 3, top + 5)
    ratio = image.devicePixelRatio()
    assert QColor(image.pixel(round(x * ratio), round(y * ratio))) == theme().header("layer")


def test_an_inserted_node_appears_and_the_rest_stays(show, qtbot, small):
    view = show(small.model())
    workspace = view.workspace
    relu = next(node for node in workspace.graph.nodes if node.op_type == "Relu")
    workspace.selection.set([relu])
    before = on_screen(view, box(view, "Relu"))
    with workspace.document.edit("Insert") as edit:
        value = Value("n", None, workspace.graph)
        edit.do(InsertNode(workspace.graph, Node("Neg", (relu.outputs[0],), (value,))))
        add = next(node for node in workspace.graph.nodes if node.op_type == "Add")
        edit.do(SetInput(add, 0, value))
    wait(qtbot, view)
    assert "Neg" in titles(view)
    assert on_screen(view, box(view, "Relu")) == pytest.approx(before, abs=1)
    workspace.document.undo()
    wait(qtbot, view)
    assert "Neg" not in titles(view)


@pytest.mark.parametrize("zoom", [1.0, 0.4])
def test_an_operator_added_without_selection_comes_into_view(show, qtbot, zoom):
    view = show(long_chain(60).model())
    view.zoom_to(zoom)
    zoom, workspace = view.zoom, view.workspace
    node = insert(workspace, OperatorEntry("Relu"), workspace.graph)
    wait(qtbot, view)
    assert view.zoom == zoom
    (index,) = view.scene.drawing.boxes_of(node)
    left, top, right, bottom = view.viewport.area
    x, y, width, height = view.scene.rect(index)
    assert left < x
    assert x + width < right
    assert top < y
    assert y + height < bottom
    workspace.document.undo()
    wait(qtbot, view)
    assert view.zoom == zoom
    workspace.navigation.go_back()
    assert view.zoom == zoom


def test_what_an_undo_removes_or_brings_back_moves_nothing_else(show, qtbot):
    view = show(residual(30).model())
    view.expansion.set_grouped(False)
    wait(qtbot, view)
    document, nodes = view.workspace.document, list(view.workspace.graph.nodes)
    view.centre_at(0.8, *view.scene.rect(view.scene.drawing.boxes_of(nodes[60])[0])[:2])
    settle(view)
    (kept,) = view.scene.drawing.boxes_of(nodes[59])
    before = on_screen(view, kept)
    view.workspace.selection.set([nodes[61]])
    builders.one_edit(document, node_edits.delete_and_bridge, nodes[61:63])
    for step in (document.undo, document.redo, document.undo):
        step()
        wait(qtbot, view)
        (kept,) = view.scene.drawing.boxes_of(nodes[59])
        assert view.zoom == 0.8
        assert on_screen(view, kept) == pytest.approx(before, abs=1)


def test_a_changed_attribute_changes_the_row(show, qtbot, small):
    view = show(small.model())
    conv = next(iter(view.workspace.graph.nodes))
    builders.do(view.workspace.document, SetAttribute(conv, "strides", make_attribute("strides", [2, 2])))
    wait(qtbot, view)
    assert ("strides", "[2, 2]") in [(row.name, row.text) for row in view.scene.boxes[box(view, "Conv")].rows]


def test_a_renamed_value_changes_its_pill(show, qtbot, small):
    view = show(small.model())
    builders.do(view.workspace.document, SetField(small.values["x"], "name", "image"))
    wait(qtbot, view)
    assert "image" in titles(view)


def test_when_the_view_empties_what_is_left_comes_into_view(show, qtbot):
    graphs = Graphs()
    graphs.input("x", 1)
    for index in range(30):
        graphs.node("Relu", ["x"], [f"top{index}"], name=f"top{index}")
    for name, start in (("kept", "top0"), ("doomed", "top29")):
        for index in range(60):
            source = f"{name}{index - 1}" if index else start
            graphs.node("Neg", [source], [f"{name}{index}"], name=f"{name}{index}")
    graphs.outputs(*(f"top{i}" for i in range(1, 29)), "kept59")
    view = show(graphs.model())
    view.expansion.set_grouped(False)
    wait(qtbot, view)
    view.zoom_to(1.0)
    nodes = {node.name: node for node in view.workspace.graph.nodes}
    seen = next(i for i, box in enumerate(view.scene.boxes) if box.subject is nodes["doomed30"])
    view.centre_on(*view.scene.rects[seen, :2])
    settle(view)
    with view.workspace.document.edit("Remove a branch") as edit:
        for index in reversed(range(60)):
            edit.do(RemoveNode(nodes[f"doomed{index}"]))
    qtbot.waitUntil(lambda: not view.scenes.is_busy and len(view.scene.boxes) < 125)
    left, top, right, bottom = view.viewport.area
    found = [view.scene.rect(index) for index in range(len(view.scene.boxes))]
    assert any(x < right and x + w > left and y < bottom and y + h > top for x, y, w, h in found)


def test_settings_change_what_is_drawn(show, qtbot, small):
    view = show(small.model())
    view.workspace.settings.set(SHOW_INITIALIZERS, False)
    wait(qtbot, view)
    assert len(view.scene.boxes[box(view, "Conv")].rows) == 1
    view.workspace.settings.set(SHOW_NAMES, True)
    wait(qtbot, view)
    assert "/block/conv" in titles(view)
    height = view.scene.height
    view.workspace.settings.set(DIRECTION, "right")
    wait(qtbot, view)
    assert view.scene.width > view.scene.height
    assert view.scene.height < height


def test_the_theme_is_followed(show, small):
    view = show(small.model())
    try:
        themes().set_mode("dark")
        settle(view)
        assert QColor(view.grab().toImage().pixel(8, 8)) == theme().canvas
        assert theme().is_dark
    finally:
        themes().set_mode("light")
    settle(view)
    assert QColor(view.grab().toImage().pixel(8, 8)) == theme().canvas


def test_another_graph_is_shown_and_left_as_it_was(show, qtbot, branching_model):
    view = show(branching_model)
    workspace = view.workspace
    main = workspace.graph
    view.zoom_to(0.8)
    view.pan_by(-40, 25)
    place = view.scenes.view_state()
    workspace.navigation.show(branching_model.functions[0].body)
    wait(qtbot, view)
    assert titles(view) == ["a", "Add", "b"]
    workspace.navigation.go_back()
    wait(qtbot, view)
    assert workspace.graph is main
    assert view.scenes.view_state() == pytest.approx(place, abs=1)


def test_groups_open_and_close_in_place(show, qtbot):
    view = show(long_chain(60, scopes=3).model())
    view.expansion.collapse_all()
    wait(qtbot, view)
    group = box(view, "part1")
    before = on_screen(view, group)
    view.expansion.expand(group)
    wait(qtbot, view)
    frame = box(view, "part1")
    assert view.scene.kinds[frame] == Kind.CONTAINER
    assert on_screen(view, frame)[0] == pytest.approx(before[0], abs=1)
    area, shown = view.viewport.area, view.scene.corners[frame]
    assert area[1] <= shown[1] < shown[3] <= area[3], "all of it is in view, as it fits"
    view.expansion.collapse(frame)
    wait(qtbot, view)
    assert view.scene.kinds[box(view, "part1")] == Kind.GROUP
    view.expansion.expand_all()
    wait(qtbot, view)
    assert Kind.GROUP not in view.scene.kinds


@pytest.mark.long
def test_opening_a_large_group_keeps_its_first_row_in_view(show, qtbot):
    view = show(long_chain(900, scopes=3).model())
    view.expansion.collapse_all()
    wait(qtbot, view)
    view.zoom_to(2.0)
    group = box(view, "part1")
    left, top, _, _ = view.scene.rect(group)
    view.scroll_to(left, top, 600, 560)  # at the lower right
    view.expansion.expand(group)
    wait(qtbot, view)
    frame = box(view, "part1")
    first = int(np.flatnonzero(view.scene.drawing.parents == frame)[0])
    shown, area = view.scene.corners[first], view.viewport.area
    assert view.zoom == 2.0
    assert (shown[:2] >= area[:2]).all()
    assert (shown[2:] <= area[2:]).all()


def test_revealing_an_output_shows_its_pill_and_opens_no_group(show, qtbot):
    view = show(long_chain(60, scopes=3).model())
    view.expansion.collapse_all()
    wait(qtbot, view)
    view.show_beginning(4.0)
    output = view.workspace.graph.outputs[0]
    view.workspace.navigation.reveal(output)
    wait(qtbot, view)
    assert Kind.CONTAINER not in view.scene.kinds
    _, top, _, bottom = view.scene.bounds_of(view.scene.drawing.boxes_of(output))
    assert view.viewport.area[1] <= top < bottom <= view.viewport.area[3]


def test_revealing_a_node_opens_its_group(show, qtbot):
    view = show(long_chain(60, scopes=3).model())
    view.expansion.collapse_all()
    wait(qtbot, view)
    node = list(view.workspace.graph.nodes)[35]
    view.workspace.navigation.reveal(node)
    wait(qtbot, view)
    index = view.scene.drawing.boxes_of(node)[0]
    assert view.scene.boxes[index].subject is node
    x, y = on_screen(view, index)
    assert 0 < x < view.width()
    assert 0 < y < view.height()


def test_revealing_a_folded_constant_opens_its_nodes_group(show, qtbot):
    g = Graphs()
    g.input("x", 2)
    g.node("Constant", [], ["k"], name="/block/constant", value_float=1.5)
    g.node("Add", ["x", "k"], ["a"], name="/block/add")
    g.node("Relu", ["a"], ["b"], name="/block/relu")
    g.node("Neg", ["b"], ["c"], name="/head/neg")
    g.node("Abs", ["c"], ["d"], name="/head/abs")
    g.outputs("d")
    view = show(g.model())
    view.expansion.set_grouped(True)
    wait(qtbot, view)
    view.scenes.state.expanded.clear()
    view.scenes.reload()
    wait(qtbot, view)
    assert "Add" not in titles(view)
    view.workspace.navigation.reveal(next(node for node in g.graph.nodes if node.op_type == "Constant"))
    wait(qtbot, view)
    x, y = on_screen(view, box(view, "Add"))
    assert 0 < x < view.width()
    assert 0 < y < view.height()


def test_revealing_in_another_graph_waits_for_it(show, qtbot, branching_model):
    view = show(branching_model)
    inner = next(iter(branching_model.functions[0].body.nodes))
    view.workspace.navigation.reveal(inner)
    wait(qtbot, view)
    assert view.workspace.selection.current is inner
    assert view.scene.drawing.boxes_of(inner)


@pytest.mark.parametrize("what", ["c", "w", "x", "y"])
def test_revealing_a_value_brings_its_place_into_view(show, qtbot, small, what):
    view = show(small.model())
    view.pan_by(5000, 5000)
    view.workspace.navigation.reveal(small.values[what])
    wait(qtbot, view)
    area = view.viewport.area
    index = view.scene.drawing.boxes_for(small.values[what])[0]
    left, top, _, _ = view.scene.rect(index)
    assert area[0] <= left <= area[2]
    assert area[1] <= top <= area[3]


def test_marks_of_every_kind_paint(show, small):
    view = show(small.model())
    nodes = list(view.workspace.graph.nodes)
    plain = view.grab().toImage()
    for kind in ("matches", "errors", "stale", "changed", "traced"):
        view.highlighter.mark(kind, nodes[:1])
        assert view.grab().toImage() != plain
        view.highlighter.mark(kind, ())
        assert view.grab().toImage() == plain


def test_selected_and_hovered_values_paint_their_path(show, small):
    view = show(small.model())
    plain = view.grab().toImage()
    view.workspace.selection.set([small.values["c"]])
    selected = view.grab().toImage()
    assert selected != plain
    view.workspace.selection.clear()
    view.workspace.selection.set_hover(small.values["c"])
    assert view.grab().toImage() != plain


def test_tracing_marks_what_a_node_depends_on(show, small):
    view = show(small.model())
    relu = next(node for node in view.workspace.graph.nodes if node.op_type == "Relu")
    view.workspace.selection.set([relu])
    view.workspace.highlights.mark("traced", topology.upstream(view.workspace.selection.items))
    marked = {view.scene.boxes[index].title for index in view.marks.boxes["traced"].tolist()}
    assert marked == {"x", "Conv", "Relu"}
    view.workspace.highlights.mark("traced", topology.downstream(view.workspace.selection.items))
    marked = {view.scene.boxes[index].title for index in view.marks.boxes["traced"].tolist()}
    assert marked == {"Relu", "Add", "y"}


def test_a_trace_ends_with_the_last_of_its_nodes(show, qtbot, small):
    view = show(small.model())
    document = view.workspace.document
    relu = next(node for node in view.workspace.graph.nodes if node.op_type == "Relu")
    found = topology.downstream([relu])
    view.workspace.highlights.mark("traced", found)
    nodes = [item for item in found if isinstance(item, Node)]
    builders.one_edit(document, node_edits.delete, nodes[-1:])
    wait(qtbot, view)
    assert view.highlighter.is_traced
    builders.one_edit(document, node_edits.delete, nodes[:-1])
    wait(qtbot, view)
    assert not view.highlighter.is_traced, "it would dim all that is left"


def test_heat_colours_and_legend(show, small, monkeypatch):
    for rows in ("_FIRST_ROWS", "_LEAST_ROWS", "_MOST_ROWS"):  # else by the time; borders round differently
        monkeypatch.setattr(backing_store, rows, 64)
    view = show(small.model())
    plain = view.grab().toImage()
    nodes = list(view.workspace.graph.nodes)
    view.node_colors.set_overlay({node: float(index) for index, node in enumerate(nodes)}, "Time")
    settle(view)
    assert view.grab().toImage() != plain
    view.node_colors.set_overlay(dict.fromkeys(nodes, 1.0), "Time")
    view.node_colors.set_overlay({}, "Time")
    settle(view)
    view.node_colors.set_overlay(None)
    settle(view)
    assert view.grab().toImage() == plain


def test_types_from_elsewhere_are_shown(show, qtbot, small):
    view = show(small.model())
    view.scenes.set_types(lambda value: small.values["x"].type)
    wait(qtbot, view)
    assert view.scene.boxes[box(view, "y")].note == "float 1×3×8×8"


def test_a_graph_in_view_stays_in_view_as_types_become_known(show, qtbot, small):
    view = show(small.model())
    view.fit()
    wide = TensorType(ElementType.FLOAT, Shape(("batch", "sequence", 1024, 1024)))
    view.scenes.set_types(lambda _: wide)
    wait(qtbot, view)
    assert view.is_fitted
    view.pan_by(40, 0)
    place = view.viewport.position
    view.scenes.set_types(lambda value: small.values["x"].type)
    wait(qtbot, view)
    assert not view.is_fitted
    assert view.viewport.position[2] == place[2]


def test_a_kept_view_is_restored_and_nonsense_ignored(show, small):
    view = show(small.model())
    view.zoom_to(0.7)
    view.pan_by(30, 40)
    state = view.scenes.view_state()
    view.fit()
    view.scenes.restore_view_state(state)
    assert view.scenes.view_state() == pytest.approx(state, abs=1)
    for nonsense in (None, [], {}, {"scale": "x"}, {"scale": float("nan"), "x": 0, "y": 0}, {"scale": 1e300, "x": 1}):
        view.scenes.restore_view_state(nonsense)
    assert view.scenes.view_state() == pytest.approx(state, abs=1)


def test_the_graph_cannot_be_lost(show, small):
    view = show(small.model())
    view.pan_by(1e7, -1e7)
    left, _, _, bottom = view.viewport.area
    assert left < view.scene.width
    assert bottom > 0
    for _ in range(100):
        view.zoom_out()
    assert view.zoom > 0.001
    for _ in range(100):
        view.zoom_in()
    assert view.zoom == 8.0


def test_an_empty_graph_is_shown(show):
    view = show(Graphs().model())
    view.fit()
    view.navigator.walk("down")
    view.navigator.to_selection()
    settle(view)
    assert view.scene.boxes == []


@pytest.mark.parametrize("scale", [0.01, 0.07, 0.15, 0.27, 0.4, 0.55, 1.0, 4.0])
def test_frames_never_fail_on_hostile_names(show, scale):
    g = Graphs()
    previous = "start"
    g.input(previous, "n" * 500, -1, 0)
    for number, name in enumerate(HOSTILE_NAMES):
        output = f"{name}{number}"
        g.node(name or "Relu", [previous], [output], name=f"{name}/{number}", domain=name, a=name or "x")
        previous = output
    g.outputs(previous)
    view = show(g.model())
    view.zoom_to(scale)
    view.highlighter.mark("errors", list(view.workspace.graph.nodes))
    settle(view)
    view.expansion.collapse_all()
    settle(view)
    assert is_painted(view)


def test_none_is_not_lost_over_thousands_of_frames(show, small):
    import sys

    view = show(small.model())
    view.repaint()
    before = sys.getrefcount(None)
    for index in range(300):
        view.pan_by(3 if index % 2 else -3, 0)
        view.repaint()
    assert abs(sys.getrefcount(None) - before) < 200


def test_colours_by_number_outlive_an_edit_and_a_change_of_theme(show, qtbot, small):
    view = show(small.model())
    nodes = list(view.workspace.graph.nodes)
    view.node_colors.set_overlay({node: 1.0 + index for index, node in enumerate(nodes)}, "Time")
    builders.do(view.workspace.document, SetField(small.values["x"], "name", "image"))
    wait(qtbot, view)
    assert view.colouring.legend.title == "Time"
    try:
        themes().set_mode("dark")
        assert view.colouring.legend.title == "Time"
    finally:
        themes().set_mode("light")
    view.node_colors.set_overlay(None)
    assert view.colouring is None


def test_edits_elsewhere_leave_the_scene_alone(show, qtbot, branching_model):
    view = show(branching_model)
    inner = branching_model.functions[0].body
    scene = view.scene
    builders.do(view.workspace.document, SetField(next(iter(inner.nodes)), "name", "new"))
    assert not view.scenes.is_busy
    view.expansion.expand(box(view, "Twice"))
    wait(qtbot, view)
    assert view.scene is not scene
    height = view.scene.rect(box(view, "Add"))[3]
    builders.do(view.workspace.document, SetAttribute(next(iter(inner.nodes)), "axis", make_attribute("axis", 1)))
    wait(qtbot, view)
    assert view.scene.rect(box(view, "Add"))[3] > height


def test_escape_ends_a_trace_before_the_selection(show, qtbot, small):
    view = show(small.model())
    node = next(iter(view.workspace.graph.nodes))
    view.workspace.selection.set([node])
    view.workspace.highlights.mark("traced", topology.downstream(view.workspace.selection.items))
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert not view.highlighter.is_traced
    assert view.workspace.selection.items == (node,)
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert view.workspace.selection.items == ()


def test_a_stopped_layout_says_how_to_start_it_again(show, qtbot):
    view = show(long_chain(2500).model())
    scene = view.scene
    started = view.workspace.tasks.started
    connection = started.connect(lambda task: task.cancel())
    with qtbot.waitSignal(view.workspace.tasks.ended):
        view.scenes.relayout()
    qtbot.waitUntil(lambda: not view.scenes.is_busy)
    started.disconnect(connection)
    assert view.scene is scene
    assert "stopped" in view.scenes.notice
    qtbot.keyClick(view, Qt.Key.Key_L)
    wait(qtbot, view)
    assert view.scene is not scene
    assert view.scenes.notice == ""


def test_a_fitted_view_stays_fitted_while_redrawn(show, qtbot):
    view = show(long_chain(400).model())
    seen = []
    connection = view.workspace.tasks.started.connect(lambda _task: (seen.append(view.scenes.notice), view.fit()))
    view.workspace.settings.set(SHOW_NAMES, True)
    qtbot.waitUntil(lambda: any("Drawing" in notice for notice in seen))
    view.workspace.tasks.started.disconnect(connection)
    wait(qtbot, view)
    _, top, _, bottom = view.viewport.area
    assert top < 0.1 * view.scene.height
    assert bottom > 0.9 * view.scene.height


def test_screen_readers_receive_what_is_selected(show, small):
    view = show(small.model())
    view.workspace.selection.set([small.values["x"]])
    assert view.accessibleDescription() == "5 boxes drawn; selected: value x in main"


@pytest.mark.parametrize(("length", "all_are_seen"), [(4, True), (40, False)])
def test_nodes_revealed_together_are_all_in_view_if_readable(show, qtbot, length, all_are_seen):
    g = Graphs()
    g.input("x", 2)
    last = "x"
    for number in range(length):
        g.node("Relu", [last], [f"r{number}"])
        last = f"r{number}"
    g.outputs(last)
    view = show(g.model())
    nodes = list(view.workspace.graph.nodes)
    view.zoom_to(1.0)
    view.workspace.navigation.reveal_all(nodes)
    boxes = [view.scene.rect(view.scene.drawing.boxes_for(node)[0]) for node in nodes]
    places = [view.viewport.to_widget(left + width / 2, top + height / 2) for left, top, width, height in boxes]
    seen = [0 < x < view.width() and 0 < y < view.height() for x, y in places]
    assert all(seen) is all_are_seen
    assert seen[-1]
    assert view.viewport.scale >= 0.6


@pytest.mark.parametrize(("key", "value"), [(SHOW_NAMES, True), (DIRECTION, "right")])
def test_what_was_seen_whole_is_seen_whole_with_other_settings(show, qtbot, small, key, value):
    view = show(small.model())
    view.resize(400, 300)
    view.fit()
    view.workspace.settings.set(key, value)
    wait(qtbot, view)
    left, top, right, bottom = view.viewport.area
    assert left <= 0
    assert top <= 0
    assert right >= view.scene.width
    assert bottom >= view.scene.height


def test_who_moved_the_view_keeps_it_with_other_settings(show, qtbot, small):
    view = show(small.model())
    view.fit()
    view.zoom_in()
    zoom = view.zoom
    view.workspace.settings.set(SHOW_NAMES, True)
    wait(qtbot, view)
    assert view.zoom == zoom


@pytest.mark.parametrize("number", [0, 8])
def test_what_is_selected_stays_in_view_when_a_panel_takes_room(show, number):
    view = show(long_chain(9).model())
    view.resize(500, 900)
    view.zoom_to(0.9)
    node = view.workspace.graph.nodes[number]
    view.workspace.selection.set([node])
    view.navigator.reveal(node)
    view.resize(500, 300)
    left, top, width, height = view.scene.rect(view.scene.drawing.boxes_for(node)[0])
    seen = view.viewport.area
    assert seen[0] <= left
    assert left + width <= seen[2]
    assert seen[1] <= top
    assert top + height <= seen[3]


def test_the_legend_hides_no_node_of_a_graph_that_is_seen_whole(show, qtbot, small):
    view = show(small.model())
    view.resize(420, 300)
    view.fit()
    view.node_colors.set_groups({node: node.op_type for node in view.workspace.graph.nodes}, "Operator")
    view.legend.click()
    view.fit()
    settle(view)
    card = view.legend.geometry()
    right, top = view.viewport.to_scene(card.right(), card.top())
    assert not ((view.scene.corners[:, 0] < right) & (view.scene.corners[:, 3] > top)).any()
    assert view.viewport.area[2] >= view.scene.width
    assert view.viewport.area[1] <= 0
    view.node_colors.set_groups(None)
    middle = (view.viewport.area[0] + view.viewport.area[2]) / 2
    assert middle == pytest.approx(view.scene.width / 2, abs=2)  # the room is given back


def test_an_empty_graph_says_how_to_begin(show):
    view = show(Graphs().model())
    assert "add one" in view.hint
    with_hint = view.grab().toImage()
    view.set_read_only(read_only=True)
    assert "add" not in view.hint
    assert view.grab().toImage() != with_hint


@pytest.mark.parametrize("zoom", [0.3, 1.0])
def test_going_up_from_a_body_shows_the_graph_where_and_as_it_was(show, qtbot, branching_model, zoom):
    """An edit has left nodes where a layout from scratch would not put them."""
    view = show(branching_model)
    with view.workspace.document.edit("Insert") as edit:
        node_edits.insert_on_edge(edit, next(iter(view.workspace.graph.nodes)).outputs[0], "Abs")
    wait(qtbot, view)
    branch = next(node for node in view.workspace.graph.nodes if node.op_type == "If")
    view.zoom_to(zoom)
    view.pan_by(13, 17)
    before = view.viewport.position, {box.key: view.scene.rect(i) for i, box in enumerate(view.scene.boxes)}
    view.workspace.navigation.show(branch.bodies[0])
    wait(qtbot, view)
    view.workspace.navigation.go_up()
    wait(qtbot, view)
    assert (view.viewport.position, {box.key: view.scene.rect(i) for i, box in enumerate(view.scene.boxes)}) == before
    assert view.workspace.selection.items == (branch,)


@pytest.mark.parametrize("scopes", [0, 3])
def test_an_operator_added_to_nothing_comes_into_view_and_stays(show, qtbot, scopes):
    def corner(node):
        (box,) = view.scene.drawing.boxes_of(node)
        return view.scene.rects[box, :2]

    g = long_chain(60, scopes=scopes)
    view = show(g.model())
    if scopes:
        view.expansion.set_grouped(True)
        wait(qtbot, view)
        view.expansion.expand_all()
        wait(qtbot, view)
    document, near = view.workspace.document, g.values["v30"].producer
    view.centre_at(1.0, *corner(near).tolist())
    seen = view.viewport.area
    added = builders.one_edit(document, node_edits.add_node, view.workspace.graph, "Tanh", [])
    wait(qtbot, view)
    x, y = corner(added).tolist()
    assert seen[0] < x < seen[2]
    assert seen[1] < y < seen[3]
    assert view.scene.boxes[view.scene.hit(x + 3, y + 3).box].subject is added
    beside = corner(added) - corner(near)
    builders.one_edit(document, node_edits.delete_and_bridge, [g.values["v50"].producer])
    wait(qtbot, view)
    assert abs(corner(added) - corner(near) - beside).max() < 100


def test_the_end_key_shows_the_outputs_and_home_the_inputs(show, qtbot):
    view = show(long_chain(900).model())
    view.zoom_to(1.0)
    for key, kind in ((Qt.Key.Key_End, Kind.OUTPUT), (Qt.Key.Key_Home, Kind.INPUT), (Qt.Key.Key_End, Kind.OUTPUT)):
        qtbot.keyClick(view, key)
        shown = view.scene.corners[view.scene.kinds.tolist().index(kind)]
        area = view.viewport.area
        assert (shown[:2] >= area[:2]).all()
        assert (shown[2:] <= area[2:]).all()
        assert view.zoom == 1.0


def test_keys_select_the_edges_of_a_node_and_lead_on_from_there(show, qtbot):
    g = Graphs()
    g.input("a", 1)
    g.input("b", 1)
    g.node("Add", ["a", "b"], ["c"])
    g.node("Relu", ["c"], ["d"])
    g.outputs("d")
    view = show(g.model())
    selection = view.workspace.selection
    selection.set([g.values["c"].producer])
    chosen = []
    for _ in range(4):
        qtbot.keyClick(view, Qt.Key.Key_E)
        chosen.append(selection.current.name)
    assert chosen == ["a", "b", "c", "a"]
    qtbot.keyClick(view, Qt.Key.Key_E, Qt.KeyboardModifier.ShiftModifier)
    assert selection.current is g.values["c"]
    qtbot.keyClick(view, Qt.Key.Key_Down)
    assert selection.current is g.values["d"].producer


def test_names_of_dimensions_are_written_without_their_common_prefix(show):
    g = Graphs()
    g.input("x", "p2o.DynamicDimension.0", "p2o.DynamicDimension.1")
    g.node("Relu", ["x"], ["y"])
    g.outputs("y")
    view = show(g.model())
    (pill,) = view.scene.drawing.boxes_of(g.values["x"])
    assert view.scene.boxes[pill].note == "float Dimension.0×Dimension.1"
