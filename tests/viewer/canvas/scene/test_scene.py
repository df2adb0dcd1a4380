from __future__ import annotations

import numpy as np
import pytest

from onnx_workbench.viewer.canvas import keyboard_navigation
from onnx_workbench.viewer.canvas.layout import layout
from onnx_workbench.viewer.canvas.scene.builder import build
from onnx_workbench.viewer.canvas.scene.drawing import HEADER, ROW, ROWS_PADDING, DrawingOptions
from onnx_workbench.viewer.canvas.scene.scene import Scene, request
from tests.viewer.canvas.graphs import Graphs

pytestmark = pytest.mark.usefixtures("qapp")  # fonts need an application


def scene_of(graph, options=None, expanded=()) -> Scene:
    drawing = build(graph, options or DrawingOptions(), expanded)
    return Scene(drawing, layout(request(drawing)))


def box(scene: Scene, title: str) -> int:
    return next(index for index, box in enumerate(scene.boxes) if box.title == title)


def middle(scene: Scene, index: int) -> tuple[float, float]:
    left, top, width, height = scene.rect(index)
    return left + width / 2, top + height / 2


def test_every_box_is_hit_where_it_is(small):
    scene = scene_of(small.model().graph)
    for index in range(len(scene.boxes)):
        hit = scene.hit(*middle(scene, index))
        assert hit is not None
        assert hit.box == index


def test_header_rows_and_ports_are_reported_apart(small):
    scene = scene_of(small.model().graph)
    conv = box(scene, "Conv")
    left, top, width, height = scene.rect(conv)
    assert scene.hit(left + 20, top + HEADER / 2).part == "header"
    for number, row in enumerate(scene.boxes[conv].rows):
        hit = scene.hit(left + 20, top + HEADER + ROWS_PADDING + (number + 0.5) * ROW)
        assert (hit.part, hit.row) == ("row", row)
    assert scene.value_at(scene.hit(left + 20, top + HEADER + ROWS_PADDING + ROW / 2)) is small.values["w"]
    outgoing = scene.hit(left + width / 2, top + height)
    assert (outgoing.part, outgoing.port) == ("output", 0)
    assert scene.value_at(outgoing) is small.values["c"]
    incoming = scene.hit(left + width / 2, top)
    assert (incoming.part, incoming.port) == ("input", 0)
    assert scene.value_at(incoming) is small.values["x"]


def test_ports_are_where_edges_end(small):
    for direction in ("down", "right"):
        scene = scene_of(small.model().graph, DrawingOptions(direction=direction))
        add = box(scene, "Add")
        ends = {
            scene.drawing.values[edge]: scene.layout.route(edge)[-1].tolist()
            for edge, (_, target) in enumerate(scene.drawing.edges.tolist())
            if target == add
        }
        ports = scene.inputs(add)
        assert [index for index, _ in ports] == [0, 1]
        for index, point in ports:
            value = scene.boxes[add].subject.inputs[index]
            assert np.allclose(ends[value], point, atol=1.0)
            assert scene.value_at(scene.hit(*point)) is value


@pytest.mark.parametrize("direction", ["down", "right"])
def test_ports_of_an_opened_loop_are_where_edges_end_and_begin(direction):
    g = Graphs()
    for name in ("turns", "on", "x"):
        g.input(name, 2)
    g.node("Relu", ["x"], ["r"])
    body = Graphs("body", outer=g)
    for name in ("turn", "resume", "state_in"):
        body.input(name)
    body.node("Identity", ["resume"], ["still"])
    body.node("Mul", ["state_in", "r"], ["state_out"])
    body.node("Neg", ["state_out"], ["seen"])
    body.outputs("still", "state_out", "seen")
    g.node("Loop", ["turns", "on", "x"], ["y", "all"], body=body.graph)
    g.outputs("y", "all")
    graph = g.model().graph
    options = DrawingOptions(direction=direction)
    closed = scene_of(graph, options)
    scene = scene_of(graph, options, {closed.boxes[box(closed, "Loop")].key})
    frame = box(scene, "Loop")
    loop, ends, starts = scene.boxes[frame].subject, {}, {}
    for edge, (source, target) in enumerate(scene.drawing.edges.tolist()):
        if target == frame:
            ends[scene.drawing.values[edge]] = scene.layout.route(edge)[-1]
        if source == frame:
            starts[scene.drawing.values[edge]] = scene.layout.route(edge)[0]
    for ports, values, found in (
        (scene.inputs(frame), loop.inputs, ends),
        (scene.outputs(frame), loop.outputs, starts),
    ):
        assert [index for index, _ in ports] == list(range(len(values)))
        assert len({tuple(np.round(place)) for _, place in ports}) == len(values)
        for index, place in ports:
            assert np.allclose(found[values[index]], place, atol=1.0)


def test_edges_are_hit_on_their_way_and_boxes_come_first(small):
    scene = scene_of(small.model().graph)
    for edge in range(len(scene.drawing.edges)):
        pieces = scene.pieces[scene.pieces_of(edge)]
        t = 0.5
        p = pieces[len(pieces) // 2]
        x, y = p[0] * (1 - t) ** 3 + 3 * p[1] * t * (1 - t) ** 2 + 3 * p[2] * t * t * (1 - t) + p[3] * t**3
        assert scene.edge_at(x, y, 3.0) == edge
    assert scene.hit(-500, -500) is None
    assert scene.edge_at(-500, -500) == -1


def test_an_expanded_container_is_hit_by_its_frame_only(branching_model):
    closed = scene_of(branching_model.graph)
    key = closed.boxes[box(closed, "If")].key
    scene = scene_of(branching_model.graph, expanded={key})
    frame = box(scene, "If")
    left, top, width, height = scene.rect(frame)
    assert scene.hit(left + 15, top + HEADER / 2).part == "header"
    close = scene.hit(left + width - 10, top + HEADER / 2)
    assert (close.box, close.button) == (frame, "−")
    assert scene.hit(left + 2, top + height - 2).part == "body"
    inner = box(scene, "Neg")
    assert scene.hit(*middle(scene, inner)).box == inner


def test_boxes_lie_inside_their_containers(branching_model):
    keys = {b.key for b in build(branching_model.graph).boxes if b.buttons}
    scene = scene_of(branching_model.graph, expanded=keys)
    for index, one in enumerate(scene.boxes):
        if one.parent >= 0:
            inner, outer = scene.corners[index], scene.corners[one.parent]
            assert (inner[:2] > outer[:2]).all()
            assert (inner[2:] < outer[2:]).all()
            assert inner[1] >= outer[1] + HEADER


def test_a_rectangle_selects_what_is_wholly_inside(small):
    scene = scene_of(small.model().graph)
    everything = (-10, -10, scene.width + 10, scene.height + 10)
    assert scene.boxes_in(*everything).tolist() == list(range(len(scene.boxes)))
    conv = box(scene, "Conv")
    left, top, right, bottom = scene.corners[conv].tolist()
    assert scene.boxes_in(left - 1, top - 1, right + 1, bottom + 1).tolist() == [conv]
    assert scene.boxes_in(left + 1, top - 1, right + 1, bottom + 1).tolist() == []


def test_arrow_keys_follow_edges_and_ranks():
    g = Graphs()
    g.input("x")
    g.node("Relu", ["x"], ["a"])
    for name in ("l", "m", "r"):
        g.node("Neg", ["a"], [name], name=name)
    g.node("Sum", ["l", "m", "r"], ["y"])
    g.outputs("y")
    scene = scene_of(g.model().graph)
    relu, total = box(scene, "Relu"), box(scene, "Sum")
    negs = sorted(scene.drawing.edges[scene.drawing.edges[:, 0] == relu, 1].tolist(), key=lambda i: scene.rects[i, 0])
    assert keyboard_navigation.step(scene, relu, "up") == box(scene, "x") == keyboard_navigation.first_box(scene)
    assert keyboard_navigation.step(scene, relu, "down") in negs
    assert keyboard_navigation.step(scene, negs[0], "right") == negs[1]
    assert keyboard_navigation.step(scene, negs[1], "right") == negs[2]
    assert keyboard_navigation.step(scene, negs[2], "right") == negs[2]
    assert keyboard_navigation.step(scene, negs[2], "left") == negs[1]
    assert keyboard_navigation.step(scene, negs[1], "down") == total
    turned = scene_of(g.model().graph, DrawingOptions(direction="right"))
    assert keyboard_navigation.step(turned, relu, "right") in negs
    assert keyboard_navigation.step(turned, relu, "left") == 0


def test_a_part_of_a_scene_keeps_places_and_inner_edges(small):
    scene = scene_of(small.model().graph)
    chosen = [box(scene, "Conv"), box(scene, "Relu")]
    part = scene.only(np.array(chosen))
    assert [one.title for one in part.boxes] == ["Conv", "Relu"]
    assert part.rects.tolist() == scene.rects[chosen].tolist()
    assert [value.name for value in part.drawing.values] == ["c"]
    edge = scene.drawing.edges_of(small.values["c"])[0]
    assert part.pieces.tolist() == scene.pieces[scene.pieces_of(edge)].tolist()
    assert part.bounds[0] >= 0
