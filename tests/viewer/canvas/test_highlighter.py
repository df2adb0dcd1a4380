"""Marks of objects in the scene that is shown, and in those that follow."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtGui import QImage, QPainter

from onnx_workbench.viewer.canvas.paint import highlights
from onnx_workbench.viewer.style.theme import theme
from tests.viewer.background_work import wait_for_background_work
from tests.viewer.canvas.graphs import Graphs, long_chain, settle


@pytest.fixture
def view(show):
    view = show(long_chain(40).model())
    settle(view)
    return view


def nodes_of(view):
    return list(view.workspace.graph.nodes)


def boxes_of(view, nodes):
    return sorted({box for node in nodes for box in view.scene.drawing.boxes_of(node)})


def shown(view, kind):
    return view.marks.boxes[kind].tolist() if kind in view.marks.boxes else []


def test_marks_replace_those_of_before(view):
    nodes = nodes_of(view)
    view.highlighter.mark("matches", nodes[:2])
    assert shown(view, "matches") == boxes_of(view, nodes[:2])
    view.highlighter.mark("matches", nodes)
    assert shown(view, "matches") == boxes_of(view, nodes)


def test_what_is_named_twice_is_marked_once(view):
    nodes = nodes_of(view)
    view.highlighter.mark("stale", [*nodes, *nodes])
    assert shown(view, "stale") == boxes_of(view, nodes)
    view.highlighter.unmark("stale", nodes[1:])
    assert shown(view, "stale") == boxes_of(view, nodes[:1])


def test_all_but_a_long_trace_is_dimmed_at_once(view):
    view.highlighter.mark("traced", nodes_of(view))
    assert view.highlighter.is_traced
    view.highlighter.mark("traced", ())
    assert not view.highlighter.is_traced


def test_values_are_marked_with_their_edges(view):
    values = [node.outputs[0] for node in nodes_of(view)]
    view.highlighter.mark("changed", values)
    edges = {edge for value in values for edge in view.scene.drawing.edges_of(value)}
    assert set(view.marks.edges["changed"]) == edges


def test_a_scene_that_follows_is_marked_at_once(view, qtbot):
    nodes = nodes_of(view)
    view.highlighter.mark("stale", nodes)
    view.set_scene(view.scene)
    assert shown(view, "stale") == boxes_of(view, nodes)
    view.highlighter.mark("stale", [*nodes[1:], *nodes[1:]])
    view.highlighter.unmark("stale", nodes[-3:])
    view.set_scene(view.scene)
    assert shown(view, "stale") == boxes_of(view, nodes[1:-3])
    view.highlighter.mark("stale", nodes[1:])
    view.set_scene(None)
    wait_for_background_work(qtbot)
    assert view.marks is None


def test_a_closed_group_is_marked_until_the_last_of_its_nodes_is_not(show, qtbot):
    view = show(long_chain(40, scopes=2).model())
    view.expansion.set_grouped(True)
    qtbot.waitUntil(lambda: not view.scenes.is_busy)
    view.scenes.state.expanded.clear()
    view.scenes.reload()
    qtbot.waitUntil(lambda: not view.scenes.is_busy)
    nodes = nodes_of(view)
    groups = boxes_of(view, nodes)
    assert len(groups) == 2
    view.highlighter.mark("stale", nodes)
    view.highlighter.unmark("stale", nodes[:20])
    assert shown(view, "stale") == groups[1:]
    view.highlighter.unmark("stale", nodes[:30])
    view.highlighter.unmark("stale", nodes[31:])
    assert shown(view, "stale") == groups[1:]
    view.highlighter.unmark("stale", [nodes[30]])
    assert shown(view, "stale") == []


@pytest.mark.parametrize("zoom", [1.0, 0.2])
def test_very_many_marked_boxes_are_outlined_and_seen(show, monkeypatch, zoom):
    view = show(long_chain(3).model())
    view.resize(600, 600)
    view.zoom_to(zoom)
    settle(view)
    plain = view.grab().toImage()
    monkeypatch.setattr(highlights, "_MOST_FINE", 0)
    view.highlighter.mark("selected", list(view.workspace.graph.nodes))
    image = view.grab().toImage()
    for node in view.workspace.graph.nodes:
        left, top, wide, high = view.scene.rect(view.scene.drawing.boxes_of(node)[0])
        x, y = view.viewport.to_widget(left, top + high / 2)
        right, bottom = view.viewport.to_widget(left + wide, top + high)
        assert image.pixelColor(round(x) - 2, round(y)) == theme().accent
        assert image.pixelColor(round(right) + 1, round(y)) == theme().accent
        assert image.pixelColor(round(x), round(bottom) + 1) == theme().accent
        middle = round((x + right) / 2), round(y)
        assert image.pixelColor(*middle) == plain.pixelColor(*middle)


def test_edges_that_share_their_way_are_drawn_once(show, monkeypatch):
    g = Graphs()
    g.input("x", 4)
    for number in range(300):
        g.node("Neg", ["x"], [f"y{number}"])
    g.outputs("y0")
    view = show(g.model())
    settle(view)
    scene, everything = view.scene, view.scene.bounds
    looked = scene.pieces.reshape(-1, 8).tolist(), scene.is_last.tolist()
    looks = {(tuple(points), last) for points, last in zip(*looked, strict=True)}
    assert len(looks) < len(scene.pieces) / 2
    assert len(np.unique(scene.shapes)) == len(looks)
    everywhere = np.arange(len(scene.pieces))
    chosen = scene.distinct(everywhere)
    assert len(chosen) == len(looks)
    assert {tuple(points) for points in scene.pieces[chosen].reshape(-1, 8).tolist()} == {points for points, _ in looks}
    drawn = []
    monkeypatch.setattr(highlights, "draw_curves", lambda _painter, pieces, *_: drawn.append(len(pieces)))
    view.marks.set("selected", [g.values["x"]])
    assert len(view.marks.edges["selected"]) == 300
    image = QImage(64, 64, QImage.Format.Format_ARGB32_Premultiplied)
    painter = QPainter(image)
    view.marks.paint(painter, theme(), everything, 1.0)
    painter.end()
    assert 300 <= sum(drawn) <= len(looks)


def test_a_node_below_the_pointer_shows_where_connections_begin(show):
    view = show(long_chain(3).model())
    view.zoom_to(1.0)
    node = view.scene.drawing.graph.nodes[1]
    (box,) = view.scene.drawing.boxes_of(node)
    view.highlighter.mark_hovered(node)
    settle(view)
    picture = view.grab().toImage()
    for _, at in (*view.scene.inputs(box), *view.scene.outputs(box)):
        x, y = map(round, view.viewport.to_widget(*at))
        assert picture.pixelColor(x, y) == theme().node
