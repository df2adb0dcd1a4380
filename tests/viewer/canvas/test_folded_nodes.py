"""Nodes that only compute sizes or prepare constants are a tag of the node that uses them, until it is opened."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt

from onnx_workbench.model.edits import nodes
from onnx_workbench.model.history.steps import SetGraphOutputs, SetInput
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.ir.graph import Function
from onnx_workbench.viewer.canvas.rename_field import rename
from onnx_workbench.viewer.canvas.scene.builder import build
from onnx_workbench.viewer.canvas.scene.drawing import DrawingOptions, Kind
from onnx_workbench.viewer.canvas.scene.node_text import FoldTag
from onnx_workbench.viewer.canvas.scene.scene import Hit
from onnx_workbench.viewer.canvas.tooltip_text import tip_of
from onnx_workbench.viewer.pictures.export import render_graph
from onnx_workbench.viewer.program.settings import FOLD_NODES
from onnx_workbench.viewer.style.theme import theme
from tests.model import builders
from tests.real_models import RealModels
from tests.viewer.canvas.graphs import Graphs
from tests.viewer.canvas.painting import wait
from tests.viewer.opening import opened, run

SIZES = ["Shape", "Gather", "Unsqueeze", "Concat"]


@pytest.fixture
def reshaped() -> Graphs:
    """x → Relu → Reshape (sizes of it) → Add of a constant cast before → Relu …; in three scopes."""
    g = Graphs()
    g.input("x", "N", 4)
    g.constant("zero", np.zeros(1, np.int64))
    g.constant("rest", np.array([-1], np.int64))
    g.constant("half", np.ones(4, np.float16))
    g.node("Relu", ["x"], ["r"], name="/a/relu")
    g.node("Shape", ["r"], ["s"], name="/a/shape")
    g.node("Constant", [], ["first"], name="/a/first", value_int=0)
    g.node("Gather", ["s", "first"], ["n"], name="/a/gather")
    g.node("Unsqueeze", ["n", "zero"], ["u"], name="/b/unsqueeze")
    g.node("Concat", ["u", "rest"], ["c"], name="/b/concat", axis=0)
    g.node("Reshape", ["r", "c"], ["y"], name="/b/reshape")
    g.node("Cast", ["half"], ["w"], name="/b/cast", to=1)
    g.node("Add", ["y", "w"], ["z"], name="/b/add")
    previous = "z"
    for index in range(4):
        g.node("Relu", [previous], [f"z{index}"], name=f"/c/relu{index}")
        previous = f"z{index}"
    g.outputs(previous)
    return g


def drawn(drawing):
    return [box.title for box in drawing.boxes if box.kind is Kind.NODE]


def rows(drawing, subject):
    (index,) = drawing.boxes_of(subject)
    return [(row.name, row.text) for row in drawing.boxes[index].rows]


def producer(g, name):
    return g.values[name].producer


def test_tags_stand_for_nodes_that_are_not_drawn(qapp, reshaped):
    drawing = build(reshaped.model().graph)
    assert drawn(drawing) == ["Relu", "Reshape", "Add", *["Relu"] * 4]
    assert rows(drawing, producer(reshaped, "y")) == [("sizes", "▸ 4")]
    assert rows(drawing, producer(reshaped, "z")) == [("weights", "▸ 1")]
    ends = [[drawing.boxes[end].title for end in pair] for pair in drawing.edges.tolist()]
    assert ends.count(["Relu", "Reshape"]) == 1  # its shape is no edge of its own
    (reshape,) = drawing.boxes_of(producer(reshaped, "y"))
    for name in ("s", "first", "n", "u", "c"):
        assert drawing.boxes_of(producer(reshaped, name)) == [reshape]


def test_all_nodes_are_drawn_where_nothing_is_folded(qapp, reshaped):
    drawing = build(reshaped.model().graph, DrawingOptions(fold_nodes=False))
    assert sorted(drawn(drawing)) == sorted([*SIZES, "Relu", "Reshape", "Cast", "Add", *["Relu"] * 4])
    assert rows(drawing, producer(reshaped, "y")) == []


def test_numbers_that_sizes_are_computed_from_arrive_at_the_node(qapp):
    g = Graphs()
    g.input("x", 4)
    g.input("lengths", "B")
    g.node("ReduceMax", ["lengths"], ["most"])
    g.node("Cast", ["most"], ["wide"], to=7)
    g.node("Expand", ["x", "wide"], ["y"])
    g.outputs("y")
    drawing = build(g.model().graph)
    ends = {tuple(drawing.boxes[end].title for end in pair) for pair in drawing.edges.tolist()}
    assert ends == {("x", "Expand"), ("lengths", "Expand"), ("Expand", "y")}


def test_what_has_only_its_shape_used_is_still_joined_to_the_graph(qapp):
    g = Graphs()
    g.input("x", 4)
    g.node("Shape", ["x"], ["s"])
    g.node("ConstantOfShape", ["s"], ["y"])
    g.outputs("y")
    drawing = build(g.model().graph)
    assert [drawing.boxes[end].title for end in drawing.edges[0].tolist()] == ["x", "ConstantOfShape"]


def tag_position(view, subject, row=0):
    (box,) = view.scene.drawing.boxes_of(subject)
    left, top, width, _ = view.scene.rect(box)
    return QPointF(*view.viewport.to_widget(left + width / 2, top + 26 + 4 + 18 * (row + 0.5)))


def test_a_click_on_a_tag_draws_its_nodes_and_folds_them_again(show, qtbot, reshaped):
    view = show(reshaped.model())
    view.zoom_to(1.0)
    reshape = producer(reshaped, "y")
    view.navigator.reveal(reshape)
    before = view.scene.rect(view.scene.drawing.boxes_of(reshape)[0])
    at = view.viewport.to_widget(*before[:2])
    for count, text in ((12, "▾ 4"), (8, "▸ 4")):
        qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=tag_position(view, reshape).toPoint())
        wait(qtbot, view)
        assert len(drawn(view.scene.drawing)) == count - 1
        assert rows(view.scene.drawing, reshape) == [("sizes", text)]
    left, top, *_ = view.scene.rect(view.scene.drawing.boxes_of(reshape)[0])
    assert view.viewport.to_widget(left, top) == pytest.approx(at, abs=2)  # it stayed where it was


def test_the_keyboard_and_the_menu_open_tags(show, qtbot, reshaped):
    view = show(reshaped.model())
    view.workspace.selection.set([producer(reshaped, "y")])
    qtbot.keyClick(view, Qt.Key.Key_Return)
    wait(qtbot, view)
    assert {"Shape", "Concat"} <= set(drawn(view.scene.drawing))
    qtbot.keyClick(view, Qt.Key.Key_Return)
    wait(qtbot, view)
    assert "Shape" not in drawn(view.scene.drawing)


@pytest.mark.long
@pytest.mark.parametrize("name", ["n", "first", "zero"])
@pytest.mark.parametrize("grouped", [False, True])
def test_going_to_a_folded_node_draws_it(show, qtbot, reshaped, name, grouped):
    view = show(reshaped.model())
    if grouped:
        view.expansion.set_grouped(True)
        wait(qtbot, view)
    value = reshaped.values[name]
    view.workspace.navigation.reveal(value.producer or value)
    wait(qtbot, view)
    assert {"Gather", "Unsqueeze"} & set(drawn(view.scene.drawing))
    user = next(value.consumers) if name != "n" else value.producer
    assert user not in view.scene.drawing.hidden


def test_the_setting_draws_them_all_and_is_remembered(show, qtbot, reshaped):
    view = show(reshaped.model())
    settings = view.workspace.settings
    assert settings.get(FOLD_NODES)
    settings.set(FOLD_NODES, False)
    wait(qtbot, view)
    assert set(SIZES) <= set(drawn(view.scene.drawing))
    settings.set(FOLD_NODES, True)
    wait(qtbot, view)
    assert not set(SIZES) & set(drawn(view.scene.drawing))


def test_a_size_that_becomes_an_output_is_drawn_until_that_is_undone(show, qtbot, reshaped):
    view = show(reshaped.model())
    graph, document = view.workspace.graph, view.workspace.document
    builders.do(document, SetGraphOutputs(graph, (*graph.outputs, reshaped.values["n"])))
    wait(qtbot, view)
    assert {"Shape", "Gather"} <= set(drawn(view.scene.drawing))
    assert rows(view.scene.drawing, producer(reshaped, "y")) == [("sizes", "▸ 2")]
    document.undo()
    wait(qtbot, view)
    assert rows(view.scene.drawing, producer(reshaped, "y")) == [("sizes", "▸ 4")]


def test_the_tooltip_names_the_nodes(show, reshaped):
    view = show(reshaped.model())
    (box,) = view.scene.drawing.boxes_of(producer(reshaped, "y"))
    (row,) = view.scene.boxes[box].rows
    text = tip_of(view.scene, Hit(box=box, part="button", row=row, button="▸"), view.type_of)
    assert text.splitlines()[:3] == ["Nodes that only compute sizes:", "Concat  /b/concat", "Unsqueeze  /b/unsqueeze"]


def report(drawing):
    boxes = sorted((str(box.title), tuple(map(str, box.rows)), box.width, box.height) for box in drawing.boxes)
    ends = sorted(
        (drawing.boxes[a].title, drawing.boxes[b].title, value.name)
        for (a, b), value in zip(drawing.edges.tolist(), drawing.values, strict=True)
    )
    return boxes, ends


@pytest.mark.parametrize("seed", range(4))
def test_any_edits_are_drawn_as_if_from_the_beginning(show, qtbot, reshaped, seed):
    chance = random.Random(seed)
    view = show(reshaped.model())
    document, graph = view.workspace.document, view.workspace.graph
    for _ in range(15):
        node = chance.choice([node for node in graph.nodes if node.op_type != "Constant"][:-1])
        match chance.randrange(4):
            case 0:
                builders.one_edit(document, nodes.insert_on_edge, node.outputs[0], chance.choice(["Identity", "Neg"]))
            case 1 if len(graph.nodes) > 6 and node.op_type != "Cast":
                builders.one_edit(document, nodes.delete_and_bridge, [node])
            case 2:
                taken = list(graph.nodes)[: list(graph.nodes).index(node)]
                if taken and node.inputs:
                    builders.do(document, SetInput(node, 0, chance.choice(taken).outputs[0]))
            case _:
                document.undo()
        wait(qtbot, view)
        assert report(view.scene.drawing) == report(build(graph, measure=view.fonts))


def test_pictures_have_tags_too(qapp, reshaped, tmp_path):
    render_graph(reshaped.model().graph, tmp_path / "graph.svg")
    text = (tmp_path / "graph.svg").read_text("utf-8")
    assert "sizes" in text
    assert "Concat" not in text


def test_a_real_network_shows_its_layers(qapp):
    graph = load(RealModels() / "onnx__light_resnet50" / "model.onnx").graph
    titles = drawn(build(graph))
    assert "ConstantOfShape" not in titles
    assert len(titles) < 180


def test_each_call_of_a_function_has_tags_of_its_own(show, qtbot, reshaped):
    g = Graphs()
    g.input("x", 2, 4)
    g.node("Block", ["x"], ["m"], domain="local")
    g.node("Block", ["m"], ["y"], domain="local")
    g.outputs("y")
    view = show(g.model(Function("Block", "local", body=reshaped.graph)))
    for name in ("m", "y"):
        view.expansion.expand(view.scene.drawing.boxes_of(producer(g, name))[0])
        wait(qtbot, view)
    first, _ = view.scene.drawing.boxes_of(producer(reshaped, "y"))
    view.expansion.toggle_tags(first)
    wait(qtbot, view)
    assert drawn(view.scene.drawing).count("Concat") == 1
    view.workspace.navigation.reveal(producer(reshaped, "n"))
    wait(qtbot, view)
    assert drawn(view.scene.drawing).count("Concat") == 1
    assert sorted(box.tags for box in view.scene.boxes if box.title == "Reshape") == [
        (FoldTag("sizes", 4, is_open=False),),
        (FoldTag("sizes", 4, is_open=True),),
    ]


def test_nodes_that_a_tag_shows_stand_in_ranks_of_the_others(show, qtbot):
    """Not in a rank of their own, around which all edges would have to go."""
    g = Graphs()
    g.input("x", 2)
    g.constant("w", np.ones((2, 2), np.float16))
    g.node("Relu", ["x"], ["r"])
    g.node("Exp", ["r"], ["e"])
    g.node("Cast", ["w"], ["c"], to=1)
    g.node("MatMul", ["e", "c"], ["y"])
    g.outputs("y")
    view = show(g.model())
    view.expansion.toggle_tags(view.scene.drawing.boxes_of(producer(g, "y"))[0])
    wait(qtbot, view)
    exp, cast = (view.scene.drawing.boxes_of(producer(g, name))[0] for name in ("e", "c"))
    assert view.scene.layout.ranks[exp] == view.scene.layout.ranks[cast]


def test_the_nearest_node_comes_into_view_when_a_tag_is_unfolded(show, qtbot, reshaped):
    """It is drawn above the node that has the tag, which had been at the upper border."""
    view = show(reshaped.model())
    view.expansion.set_grouped(False)
    wait(qtbot, view)
    (box,) = view.scene.drawing.boxes_of(producer(reshaped, "y"))
    left, top, width, height = view.scene.rect(box)
    view.centre_at(1.0, left + width / 2, top + view.height() / 2 - 20)
    view.expansion.toggle_tags(box)
    wait(qtbot, view)
    seen = view.viewport.area
    for name in ("c", "y"):
        (box,) = view.scene.drawing.boxes_of(producer(reshaped, name))
        left, top, width, height = view.scene.rect(box)
        assert seen[0] < left
        assert left + width < seen[2]
        assert seen[1] < top
        assert top + height < seen[3]
    assert view.zoom == 1.0


@pytest.mark.parametrize("kind", ["breakpoints", "conditions", "errors", "changed", "bookmarks", "~"])
def test_marks_of_a_folded_node_are_at_its_tag(show, reshaped, kind):
    view = show(reshaped.model())
    user = producer(reshaped, "y")
    (box,) = view.scene.drawing.boxes_of(user)
    left, top, width, _ = view.scene.rect(box)
    view.workspace.highlights.mark(kind, [producer(reshaped, "s"), producer(reshaped, "c")])
    assert view.marks.rows[kind] == [(left, top + 30, width, 18)]
    assert not len(view.marks.boxes[kind])
    view.workspace.highlights.mark(kind, [user])
    assert view.marks.rows[kind] == []
    assert view.marks.boxes[kind].tolist() == [box]


def test_a_breakpoint_of_a_folded_node_is_painted_beside_the_tag(show, reshaped):
    view = show(reshaped.model())
    view.zoom_to(1.0)
    user = producer(reshaped, "y")
    view.navigator.reveal(user)
    left, top, _, _ = view.scene.rect(view.scene.drawing.boxes_of(user)[0])

    def colors():
        picture = view.grab().toImage()
        at = [view.viewport.to_widget(left, top + down) for down in (13, 39)]  # header, tag
        return [picture.pixelColor(round(x), round(y)).name() for x, y in at]

    breakpoint_color = theme().accent.name()
    assert breakpoint_color not in colors()
    view.workspace.highlights.mark("breakpoints", [producer(reshaped, "s")])
    assert [color == breakpoint_color for color in colors()] == [False, True]
    view.workspace.highlights.mark("breakpoints", [user])
    assert [color == breakpoint_color for color in colors()] == [True, False]


def test_open_tags_are_restored_and_nonsense_ignored(show, qtbot, reshaped):
    view = show(reshaped.model())
    view.expansion.toggle_tags(view.scene.drawing.boxes_of(producer(reshaped, "y"))[0])
    wait(qtbot, view)
    saved, position = json.loads(json.dumps(view.scenes.open_parts())), view.scenes.view_state()
    before = drawn(view.scene.drawing)
    assert "Shape" in before
    node = [[], [0, "Relu"]]
    for nonsense in ({"parts": 3}, {"parts": [3, [], [[1], 2], node, [[[0, "Relu", 5]], ["a"]], [[], [99, ""]]]}):
        view.scenes.restore_open_parts(nonsense)
        wait(qtbot, view)
        assert "Shape" not in drawn(view.scene.drawing)
    view.scenes.restore_open_parts(saved)
    view.scenes.restore_view_state(position)
    wait(qtbot, view)
    assert drawn(view.scene.drawing) == before
    assert view.scenes.view_state() == pytest.approx(position, abs=1)
    for nonsense in (None, []):
        view.scenes.restore_open_parts(nonsense)
    assert drawn(view.scene.drawing) == before


def test_open_groups_and_bodies_are_restored(show, qtbot, branching_model):
    view = show(branching_model)
    for title in ("If", "Twice"):
        view.expansion.expand([item.title for item in view.scene.boxes].index(title))
        wait(qtbot, view)
    saved = json.loads(json.dumps(view.scenes.open_parts()))
    before = [item.title for item in view.scene.drawing.boxes]
    view.expansion.collapse(before.index("Twice"))
    wait(qtbot, view)
    assert len(view.scene.boxes) < len(before)
    view.scenes.restore_open_parts(saved)
    wait(qtbot, view)
    assert [item.title for item in view.scene.drawing.boxes] == before


def test_a_picture_has_the_folded_nodes_where_that_is_wanted(qapp, reshaped, tmp_path):
    path = tmp_path / "graph.svg"
    for unfold in (False, True):
        render_graph(reshaped.model().graph, path, groups=False, unfold=unfold)
        assert [f">{operator}</text>" in path.read_text("utf-8") for operator in (*SIZES, "Cast")] == [unfold] * 5


@pytest.fixture
def casts() -> Graphs:
    """x → Cast → Identity → Relu → Cast → Neg, and Relu → Exp."""
    g = Graphs()
    g.input("x", "N", 4)
    g.node("Cast", ["x"], ["a"], name="first", to=1)
    g.node("Identity", ["a"], ["b"], name="copy")
    g.node("Relu", ["b"], ["r"], name="relu")
    g.node("Cast", ["r"], ["c"], name="second", to=1)
    g.node("Neg", ["c"], ["y"], name="neg")
    g.node("Exp", ["r"], ["z"], name="exp")
    g.outputs("y", "z")
    return g


def ends(drawing):
    names = [box.title for box in drawing.boxes]
    return sorted((names[source], names[target]) for source, target in drawing.edges.tolist())


def test_edges_lead_through_nodes_of_folded_kinds(show, qtbot, casts):
    view = show(casts.model())
    view.scenes.fold_kinds({"Cast", "Identity"})
    wait(qtbot, view)
    drawing = view.scene.drawing
    assert drawn(drawing) == ["Relu", "Neg", "Exp"]
    assert ends(drawing) == [("Exp", "z"), ("Neg", "y"), ("Relu", "Exp"), ("Relu", "Neg"), ("x", "Relu")]
    (relu,) = drawing.boxes_of(casts.values["r"].producer)
    assert [(tag.purpose, tag.nodes) for tag in drawing.boxes[relu].tags] == [("folded", 2)]
    assert drawing.edges_of(casts.values["x"]) == drawing.edges_of(casts.values["b"])
    view.expansion.toggle_tags(relu)
    wait(qtbot, view)
    assert drawn(view.scene.drawing) == ["Cast", "Identity", "Relu", "Neg", "Exp"]
    view.scenes.fold_kinds(())
    wait(qtbot, view)
    assert drawn(view.scene.drawing) == ["Cast", "Identity", "Relu", "Cast", "Neg", "Exp"]


def test_a_folded_node_is_drawn_when_it_is_to_be_shown(show, qtbot, casts):
    view = show(casts.model())
    view.scenes.fold_kinds({"Cast", "Identity"})
    wait(qtbot, view)
    view.workspace.navigation.reveal(casts.values["c"].producer)
    wait(qtbot, view)
    assert drawn(view.scene.drawing) == ["Relu", "Cast", "Neg", "Exp"]


@pytest.mark.long
def test_folded_kinds_are_chosen_in_view_and_kept_per_file(make_window, qtbot, tmp_path, casts):
    path = tmp_path / "casts.onnx"
    save(casts.model(), path)
    window = make_window()
    tab = opened(window, qtbot, path)
    run(window, "view.fold_casts")
    wait(qtbot, tab.view)
    tab.workspace.selection.set([next(n for n in tab.workspace.graph.nodes if n.op_type == "Identity")])
    run(window, "view.fold_kind")
    wait(qtbot, tab.view)
    assert drawn(tab.view.scene.drawing) == ["Relu", "Neg", "Exp"]
    window.close()
    again = make_window()
    tab = opened(again, qtbot, path)
    wait(qtbot, tab.view)
    assert drawn(tab.view.scene.drawing) == ["Relu", "Neg", "Exp"]
    run(again, "view.unfold_kinds")
    wait(qtbot, tab.view)
    assert len(drawn(tab.view.scene.drawing)) == 6


def test_enter_that_ends_renaming_opens_no_tag(show, qtbot, reshaped):
    view = show(reshaped.model())
    node, workspace = producer(reshaped, "y"), view.workspace
    workspace.selection.set([node])
    field = rename(view, node, workspace.document, node)
    field.setText("named")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    wait(qtbot, view)
    assert node.name == "named"
    assert ("sizes", "▸ 4") in rows(view.scene.drawing, node)
