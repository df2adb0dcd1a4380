"""Labels beside edges: what they say and that they cover nothing."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.model.text.formatting import shape_text
from onnx_workbench.viewer.canvas.layout import layout
from onnx_workbench.viewer.canvas.paint.fonts import canvas_fonts
from onnx_workbench.viewer.canvas.scene.builder import build
from onnx_workbench.viewer.canvas.scene.drawing import DrawingOptions, Kind
from onnx_workbench.viewer.canvas.scene.edge_labels import LABEL_REACH, MARGIN, EdgeLabels
from onnx_workbench.viewer.canvas.scene.scene import Scene, request
from onnx_workbench.viewer.document.edge_notes import EdgeNote
from tests.viewer.canvas.graphs import Graphs, long_chain

pytestmark = pytest.mark.usefixtures("qapp")  # fonts need an application

NOTE = EdgeNote("−1.25 … 3.75")


def scene_of(graph, options=None) -> Scene:
    drawing = build(graph, options or DrawingOptions(), ())
    return Scene(drawing, layout(request(drawing)))


def labels_of(scene: Scene, note: EdgeNote | None = None) -> EdgeLabels:
    return EdgeLabels(scene, canvas_fonts(), lambda value: value.type, lambda _value: note)


def fan(count: int = 30) -> Graphs:
    """Values that leave boxes side by side."""
    g = Graphs()
    g.input("x", 1, 64, 128, 128)
    for index in range(count):
        name = f"v{index}"
        g.node("Relu", ["x"], [name])
        SetField(g.values[name], "type", g.values["x"].type).apply()
    g.node("Sum", [f"v{index}" for index in range(count)], ["y"])
    SetField(g.values["y"], "type", g.values["x"].type).apply()
    g.outputs("y")
    return g


def test_a_shape_is_written_beside_the_edge(small):
    SetField(small.values["c"], "type", small.values["x"].type).apply()
    scene = scene_of(small.model().graph)
    found = labels_of(scene).in_rect(*scene.bounds)
    assert [label.text for label in found] == [shape_text((1, 3, 8, 8))]


@pytest.mark.parametrize("note", [None, NOTE], ids=["types", "notes"])
@pytest.mark.parametrize("direction", ["down", "right"])
def test_a_label_stays_inside_the_area_repainted_for_it(small, direction, note):
    small.values["c"]._type = TensorType(ElementType.FLOAT, Shape(("a_long_name_of_a_dimension",) * 4))
    scene = scene_of(small.model().graph, DrawingOptions(direction=direction))
    labels = labels_of(scene, note)
    for label in labels.in_rect(*scene.bounds):
        x, y = scene.layout.route_points[scene.layout.route_starts[label.edge]].tolist()
        left, top, width, height = label.rect
        reach = LABEL_REACH if note is not None else MARGIN
        assert x - reach <= left < left + width <= x + reach
        assert y - MARGIN <= top < top + height <= y + MARGIN


@pytest.mark.parametrize("note", [None, NOTE], ids=["types", "notes"])
@pytest.mark.parametrize("direction", ["down", "right"])
def test_no_label_covers_a_box_or_another_label(direction, note):
    scene = scene_of(fan().model().graph, DrawingOptions(direction=direction))
    found = labels_of(scene, note).in_rect(*scene.bounds)
    assert found
    assert any(label.note == note for label in found)
    rects = [label.rect for label in found]
    corners = [c for c, kind in zip(scene.corners.tolist(), scene.kinds, strict=True) if kind != Kind.CONTAINER]
    for index, (left, top, width, height) in enumerate(rects):
        for x0, y0, x1, y1 in corners:
            assert not (left < x1 and left + width > x0 and top < y1 and top + height > y0)
        for x, y, w, h in rects[:index]:
            assert not (left < x + w and left + width > x and top < y + h and top + height > y)


def test_where_there_is_no_room_for_both_the_note_stays():
    scene = scene_of(fan().model().graph)
    short = EdgeNote("0 … 1")
    found = [label for label in labels_of(scene, short).in_rect(*scene.bounds) if label.spot == label.edge]
    by_value = {scene.drawing.values[label.edge].name: label for label in found}
    assert by_value["y"].text
    assert by_value["y"].note == short
    assert len(found) == 31, "every one has room for the note"
    assert not all(label.text for label in found)


def test_a_forgotten_note_is_asked_for_again():
    scene = scene_of(long_chain(3).model().graph)
    said = ["0 … 1"]
    labels = EdgeLabels(scene, canvas_fonts(), lambda value: value.type, lambda _value: EdgeNote(said[0]))
    assert {label.note.text for label in labels.in_rect(*scene.bounds)} == {"0 … 1"}
    said[0] = "= 7"
    assert {label.note.text for label in labels.in_rect(*scene.bounds)} == {"0 … 1"}
    edges = range(len(scene.drawing.values))
    labels.forget(edges)
    assert {label.note.text for label in labels.in_rect(*scene.bounds)} == {"= 7"}


def test_labels_do_not_depend_on_the_area_looked_at():
    g = long_chain(300)
    for value in g.values.values():
        SetField(value, "type", g.values["x"].type).apply()
    scene = scene_of(g.model().graph)
    whole = {label.spot: label.rect for label in labels_of(scene).in_rect(*scene.bounds)}
    pieces: dict[int, object] = {}
    labels = labels_of(scene)
    for top in range(0, int(scene.height), 37):
        pieces.update((label.spot, label.rect) for label in labels.in_rect(0, top, scene.width, top + 37))
    assert pieces == whole
    assert len(whole) == 300


@pytest.mark.parametrize("direction", ["down", "right"])
def test_a_long_edge_shows_its_shape_at_both_ends(direction):
    g = skipping()
    scene = scene_of(g.model().graph, DrawingOptions(direction=direction))
    add = scene.drawing.boxes_of(g.values["sum"].producer)[0]
    found = labels_of(scene).in_rect(*scene.bounds)
    (arriving,) = [label for label in found if label.box == add and label.edge != label.spot]
    value = scene.drawing.values[arriving.edge]
    assert value in g.values["sum"].producer.inputs
    start = [label for label in found if label.spot == label.edge and scene.drawing.values[label.edge] is value]
    assert [label.text for label in start] == [arriving.text]
    low, high = scene.corners[add, :2] - 160, scene.corners[add, 2:] + 160
    assert (low <= arriving.rect[:2]).all()
    assert (high >= arriving.rect[:2]).all()


@pytest.mark.parametrize("direction", ["down", "right"])
def test_a_label_leaves_its_own_line_free(small, direction):
    for name in ("c", "r"):
        small.values[name]._type = small.values["x"].type
    scene = scene_of(small.model().graph, DrawingOptions(direction=direction))
    for label in labels_of(scene).in_rect(*scene.bounds):
        x, y = scene.layout.route_points[scene.layout.route_starts[label.edge]].tolist()
        left, top, width, height = label.rect
        assert left > x or left + width < x if direction == "down" else top > y or top + height < y


def skipping() -> Graphs:
    """A chain whose first value arrives at the last node too, beside the chain."""
    g = long_chain(12)
    g.node("Add", ["v1", "v11"], ["sum"])
    for value in g.values.values():
        SetField(value, "type", g.values["x"].type).apply()
    return g


def arriving() -> Graphs:
    """Values of the beginning of a chain, which arrive side by side at its end."""
    g = long_chain(12)
    g.node("Sum", ["v1", "v11", "v3", "x"], ["sum"])
    for value in g.values.values():
        SetField(value, "type", g.values["x"].type).apply()
    return g


@pytest.mark.long
@pytest.mark.parametrize("note", [None, NOTE], ids=["types", "notes"])
@pytest.mark.parametrize("direction", ["down", "right"])
@pytest.mark.parametrize("graphs", [lambda: fan(8), skipping, arriving], ids=["fan", "skipping", "arriving"])
def test_a_label_leaves_its_own_line_free_where_that_is_curved(graphs, direction, note):
    scene = scene_of(graphs().model().graph, DrawingOptions(direction=direction))
    found = labels_of(scene, note).in_rect(*scene.bounds)
    assert len(found) >= 3
    for label in found:
        left, top, width, height = label.rect
        for a, b, c, d in scene.pieces[scene.pieces_of(label.edge)]:
            for t in np.linspace(0, 1, 200):
                x, y = a * (1 - t) ** 3 + 3 * b * t * (1 - t) ** 2 + 3 * c * t * t * (1 - t) + d * t**3
                assert not (left < x < left + width and top < y < top + height)


def is_cut(scene, edge, rect):
    """Whether another edge runs through a box."""
    t = np.linspace(0, 1, 400)[:, None]
    weights = np.hstack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3])
    points = (weights @ scene.pieces[scene.piece_edges != edge]).reshape(-1, 2)
    low = np.array(rect[:2])
    return bool(((points > low) & (points < low + rect[2:])).all(1).any())


def crossing() -> Graphs:
    """Two values that leave one box side by side and cross others on their ways."""
    g = Graphs()
    g.input("x", 1, 64, 128, 128)
    for index in range(4):
        g.node("Split", ["x"], [f"a{index}", f"b{index}"])
    for index in range(4):
        g.node("Add", [f"a{index}", f"b{3 - index}"], [f"y{index}"])
    for value in g.values.values():
        SetField(value, "type", g.values["x"].type).apply()
    g.outputs(*(f"y{index}" for index in range(4)))
    return g


@pytest.mark.long
@pytest.mark.parametrize("note", [None, NOTE], ids=["types", "notes"])
@pytest.mark.parametrize("direction", ["down", "right"])
@pytest.mark.parametrize("graphs", [crossing, skipping, arriving], ids=["crossing", "skipping", "arriving"])
def test_a_label_cuts_no_line_where_there_is_room_along_its_own(graphs, direction, note):
    scene = scene_of(graphs().model().graph, DrawingOptions(direction=direction))
    labels = labels_of(scene, note)
    found = labels.in_rect(*scene.bounds)
    assert any(label.spot < len(scene.drawing.edges) for label in found)
    for label in found:
        if is_cut(scene, label.edge, label.rect):
            assert label.spot < len(scene.drawing.edges), "at its end an edge is only labelled where nothing is cut"
            points = scene.pieces[scene.pieces_of(label.edge)]
            width, lines = label.rect[2] - 6, round(label.rect[3] / 16)
            boxes = scene.corners[scene.kinds != Kind.CONTAINER]
            for rect, is_after in labels._candidates(points, width, lines):
                low, high = np.array(rect[:2]), np.array(rect[:2]) + rect[2:]
                is_taken = ((boxes[:, :2] <= high) & (boxes[:, 2:] >= low)).all(1).any()
                if not is_taken and not is_cut(scene, label.edge, rect):
                    assert not labels._has_room(label.edge, rect, is_after=is_after)


def test_labels_of_edges_from_column_to_column_stand_at_their_ends():
    g = long_chain(60)
    g.node("Add", ["v5", "v59"], ["sum"])
    for value in g.values.values():
        SetField(value, "type", g.values["x"].type).apply()
    scene = scene_of(g.model().graph, DrawingOptions(columns=1000))
    labels = labels_of(scene).in_rect(*scene.bounds)
    assert len(labels) > 55
    points, starts = scene.layout.route_points, scene.layout.route_starts
    for label in labels:
        is_start = label.spot < len(scene.drawing.edges)
        end = points[starts[label.edge] if is_start else starts[label.edge + 1] - 1]
        low = np.array(label.rect[:2])
        assert (np.maximum(low - end, end - low - label.rect[2:]) < 60).all()


@pytest.mark.long
@pytest.mark.parametrize("direction", ["down", "right"])
def test_few_labels_are_tried_where_edges_crowd_together(monkeypatch, direction):
    g, count = Graphs(), 60
    g.input("x", 1, 64)
    for index in range(count):
        g.node("Relu", ["x"], [f"a{index}"])
    for index in range(count):
        g.node("Sum", [f"a{other}" for other in range(count)], [f"b{index}"])
    g.node("Sum", [f"b{index}" for index in range(count)], ["y"])
    for value in g.values.values():
        value._type = TensorType(ElementType.FLOAT, Shape((1, 64)))
    g.outputs("y")
    scene = scene_of(g.model().graph, DrawingOptions(direction=direction))
    tried = []
    others = EdgeLabels._other_lines
    monkeypatch.setattr(EdgeLabels, "_other_lines", lambda *given: tried.append(given) or others(*given))
    found = labels_of(scene).in_rect(*scene.bounds)
    assert found
    assert len(tried) < len(scene.drawing.edges)  # ten places at each end would be 70,000
