"""From afar boxes are blocks of one colour with their names, as large as can be read where there is room."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtCore import QPointF, QRect
from PySide6.QtGui import QColor, QImage

from onnx_workbench.viewer.canvas.paint.overlay import group_names
from onnx_workbench.viewer.canvas.scene.drawing import STACK, STRIPE, Kind
from tests.viewer.canvas.graphs import Graphs, residual, settle
from tests.viewer.canvas.painting import wait


def colors_in(view, box) -> int:
    """How many colours a box is painted in."""
    left, top, width, height = view.scene.rect(box)
    (x0, y0), (x1, y1) = view.viewport.to_widget(left, top), view.viewport.to_widget(left + width, top + height)
    image: QImage = view.grab(QRect(round(x0) + 2, round(y0) + 2, round(x1 - x0) - 4, round(y1 - y0) - 4)).toImage()
    return len({image.pixel(x, y) for x in range(image.width()) for y in range(image.height())})


@pytest.mark.parametrize(("scale", "is_named"), [(0.12, False), (0.28, True), (0.45, True)])
def test_a_block_has_its_name_where_there_is_room(show, small, scale, is_named):
    view = show(small.model())
    view.minimap.hide()
    (conv,) = view.scene.drawing.boxes_of(small.values["c"].producer)
    view.centre_at(scale, *view.scene.corners[conv].reshape(2, 2).mean(0).tolist())
    settle(view)
    assert (colors_in(view, conv) > 1) is is_named


def test_names_keep_a_readable_size_where_headers_are_drawn(show, small, monkeypatch):
    view = show(small.model())
    sizes = []
    monkeypatch.setattr(
        type(view._painter), "_large_text", lambda _self, _p, _x, _y, factor, text, _c: sizes.append((text, factor))
    )
    view.zoom_to(0.6)
    settle(view)
    found = dict(sizes)
    assert found["Relu"] * 0.6 * view.fonts.size == pytest.approx(10.5, abs=1.0)


def test_the_name_of_a_group_can_be_clicked_wherever_it_is_written(show, qtbot):
    view = show(residual(12).model())
    view.expansion.set_grouped(True)
    wait(qtbot, view)
    view.expansion.expand_all()
    wait(qtbot, view)
    view.zoom_to(0.3)
    settle(view)
    names = group_names(view.scene, view.viewport, view.fonts)
    assert names
    for name in names:
        shrunk = name.rect.adjusted(1, 1, -1, -1)
        for point in (name.rect.center(), shrunk.topLeft(), shrunk.bottomRight()):  # beside the text too
            hit = view.hit(point)
            assert hit is not None
            assert (hit.box, hit.part) == (name.box, "header")
        assert view.scene.boxes[name.box].kind is Kind.CONTAINER
    left, top, width, height = view.scene.rect(names[0].box)
    outside = QPointF(*view.viewport.to_widget(left + width + 500.0, top + height / 2))
    assert view.hit(outside) is None


def test_the_name_of_a_closed_group_is_written_on_its_color(show, qtbot):
    g = Graphs()
    g.input("x", 1)
    for index in range(24):
        g.node("Relu", ["x" if not index else f"v{index - 1}"], [f"v{index}"], name=f"/p{index // 6}/relu{index}")
    g.outputs("v23")
    view = show(g.model())
    view.minimap.hide()
    view.expansion.set_grouped(True)
    wait(qtbot, view)
    view.zoom_to(0.298)
    settle(view)
    group = next(box for box in range(len(view.scene.boxes)) if is_closed(view, box))
    x, y, width, height = view.scene.rect(group)
    view.centre_at(0.298, x + width / 2, y + height / 2)
    settle(view)
    names = view._painter.names
    (name,) = names.of(np.array([group]), 0.298, view.viewport.ratio)
    assert name.is_inside
    colors = view._painter.colouring
    number = int(colors.indices[group])
    left, top, wide, high = names.rect(name)
    (x0, y0), (x1, y1) = view.viewport.to_widget(left, top), view.viewport.to_widget(left + wide, top + high)
    image = view.grab(QRect(round(x0) + 1, round(y0) + 1, round(x1 - x0) - 2, round(y1 - y0) - 2)).toImage()
    seen = [image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())]
    assert seen.count(colors.palette[number].name()) > len(seen) / 4, "no plate covers the block"
    lightest = max(QColor(color).lightness() for color in set(seen))
    assert lightest > (colors.palette[number].lightness() + colors.text[number].lightness()) / 2, "white text"


def is_closed(view, box) -> bool:
    return view.scene.boxes[box].kind is Kind.GROUP


def test_a_wide_graph_begins_beside_its_first_input(show):
    g = Graphs()
    for index in range(3):
        g.input(f"x{index}", 1)
        g.node("Relu", [f"x{index}"], [f"r{index}"])
    g.node("Sum", [f"r{index}" for index in range(3)], ["v0"])
    for index in range(30):
        g.node("Relu", [f"v{index}"], [f"v{index + 1}"])
    g.outputs("v30")
    view = show(g.model())
    left, _, right, _ = view.viewport.area
    assert left <= view.scene.bounds[0]
    assert right >= view.scene.bounds[2]


def texts(view, scale):
    names = view._painter.names.of(np.arange(len(view.scene.boxes)), scale, view.viewport.ratio)
    return {name.box: "".join(name.lines).replace(" ", "") for name in names}


@pytest.mark.parametrize("scale", [0.2, 0.3, 0.45])
def test_names_are_whole_and_a_row_has_all_of_them_or_none(show, small, scale):
    view = show(small.model())
    found = texts(view, scale)
    boxes, ranks = view.scene.boxes, view.scene.layout.ranks.tolist()
    assert found == {index: boxes[index].title.replace(" ", "") for index in found}
    for rank in set(ranks):
        row = {index in found for index in range(len(boxes)) if ranks[index] == rank}
        assert len(row) == 1


def test_a_group_name_takes_several_lines_if_needed(show, qtbot):
    g = Graphs()
    g.input("v0", 1)
    for index in range(6):
        g.node("Relu", [f"v{index}"], [f"v{index + 1}"], name=f"/self_attention.layer_norm_{index // 3}/n{index}")
    g.outputs("v6")
    view = show(g.model())
    view.expansion.collapse_all()
    wait(qtbot, view)
    names = view._painter.names
    groups = np.array([box for box in range(len(view.scene.boxes)) if is_closed(view, box)])
    found = names.of(groups, 0.32, view.viewport.ratio)
    assert [name.lines for name in found] == [("self_attention.", "layer_norm_0"), ("self_attention.", "layer_norm_1")]
    for name in found:
        left, top, wide, high = view.scene.rect(name.box)
        for line in range(len(name.lines)):
            x, y, width, height = names.line_rect(name, line)
            assert left + STRIPE < x < x + width < left + wide - STACK, "on its card"
            assert top - height / 4 <= y <= y + height <= top + high + height / 4


def test_a_group_is_named_where_its_nodes_have_no_room(show, qtbot):
    g = Graphs()
    g.input("x", 1)
    for branch in range(3):
        g.node("LeakyRelu", ["x"], [f"a{branch}"])
    g.node("Relu", ["x"], ["b0"], name="/head/n0")
    g.node("Relu", ["b0"], ["b1"], name="/head/n1")
    g.node("Sum", ["a0", "a1", "a2", "b1"], ["y"])
    g.outputs("y")
    view = show(g.model())
    view.expansion.collapse_all()
    wait(qtbot, view)
    found = {view.scene.boxes[box].title for box in texts(view, 0.3)}
    assert "head" in found
    assert "LeakyRelu" not in found


@pytest.mark.parametrize("scale", [0.28, 0.35])
def test_a_name_without_room_in_its_box_stands_beside_or_below_it(show, small, scale):
    view = show(small.model())
    names = view._painter.names.of(np.arange(len(view.scene.boxes)), scale, view.viewport.ratio)
    outside = [name for name in names if not name.is_inside]
    assert outside
    for name in outside:
        left, top, wide, high = view._painter.names.rect(name)
        box = view.scene.corners[name.box]
        assert left > box[2] or top >= box[3]
        middle = top + high / 2
        covered = view.scene.box_grid.in_rect(left, middle, left + wide, middle)
        assert (view.scene.kinds[covered] == Kind.CONTAINER).all()


def test_names_of_neighbours_go_below_without_touching(show):
    g = Graphs()
    g.input("x", 1)
    for branch in range(4):
        g.node("Transpose", ["x"], [f"a{branch}"])
    g.node("Sum", [f"a{branch}" for branch in range(4)], ["y"])
    g.outputs("y")
    view = show(g.model())
    names = view._painter.names
    found = [name for name in names.of(np.arange(len(view.scene.boxes)), 0.46) if name.lines == ("Transpose",)]
    assert len(found) == 4
    rects = sorted(map(names.rect, found))
    assert all(top >= view.scene.corners[name.box, 3] for name, (_, top, _, _) in zip(found, rects, strict=True))
    assert all(a[0] + a[2] <= b[0] for a, b in pairwise(rects))


def test_a_whole_graph_in_view_shows_the_names_beside_its_last_boxes(show):
    g = Graphs()
    g.input("x", 1)
    for index in range(40):
        g.node("LayerNormalization", ["x" if not index else f"v{index - 1}"], [f"v{index}"])
    g.outputs("v39")
    view = show(g.model(), 400, 400)
    view.fit()
    scale = view.viewport.device_scale
    assert texts(view, scale)
    assert view._painter.names.bounds_right(scale) <= view.viewport.area[2]


def parts(count: int) -> Graphs:
    """So many groups that read one value, and one that reads them all."""
    g = Graphs()
    g.input("x", 1)
    for part in range(count):
        name = f"/part_{chr(97 + part // 26)}{chr(97 + part % 26)}"  # of equal ones that are numbered is a stack
        g.node("Relu", ["x"], [f"a{part}"], name=f"{name}/n0")
        g.node("Abs", [f"a{part}"], [f"b{part}"], name=f"{name}/n1")
    g.node("Sum", [f"b{part}" for part in range(count)], ["s"], name="/end/n0")
    g.node("Relu", ["s"], ["y"], name="/end/n1")
    g.outputs("y")
    return g


@pytest.mark.parametrize(("count", "is_whole"), [(13, True), (70, False)])
def test_the_whole_is_shown_first_if_group_names_are_readable(show, qtbot, count, is_whole):
    view = show(parts(count).model(), 500, 400)
    view.expansion.set_grouped(True)
    wait(qtbot, view)
    view.expansion.collapse_all()
    wait(qtbot, view)
    assert view.is_fitted is is_whole
    assert view.is_legible
    assert (view.zoom < 0.3) is is_whole


def test_names_beyond_the_right_end_make_a_wide_graph_hardly_smaller(show, qtbot):
    view = show(parts(13).model(), 500, 400)
    view.expansion.set_grouped(True)
    wait(qtbot, view)
    view.expansion.collapse_all()
    wait(qtbot, view)
    left, _, right, _ = view.scene.bounds
    assert right - left > 2 * view.scene.height
    assert (
        max(view._painter.names.bounds_right(scale) for scale in (0.15, 0.2, 0.3, 0.4)) <= right + (right - left) / 10
    )
