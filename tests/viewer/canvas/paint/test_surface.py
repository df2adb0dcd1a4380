"""Frames: what is moved, stretched and painted anew must come out as if painted at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt
from PySide6.QtGui import QColor, QImage, QPainter

from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.viewer.canvas.layout import layout
from onnx_workbench.viewer.canvas.paint import surface
from onnx_workbench.viewer.canvas.paint.backing_store import BackingStore
from onnx_workbench.viewer.canvas.paint.batch_drawing import flattened
from onnx_workbench.viewer.canvas.paint.fonts import canvas_fonts
from onnx_workbench.viewer.canvas.paint.painter import ScenePainter, title_ground
from onnx_workbench.viewer.canvas.paint.viewport import Viewport
from onnx_workbench.viewer.canvas.scene.builder import build
from onnx_workbench.viewer.canvas.scene.coloring import by_heat, by_key, device_keys, heat_colors
from onnx_workbench.viewer.canvas.scene.drawing import HEADER
from onnx_workbench.viewer.canvas.scene.edge_labels import EdgeLabels
from onnx_workbench.viewer.canvas.scene.scene import Scene, request
from onnx_workbench.viewer.document.edge_notes import EdgeNote
from onnx_workbench.viewer.program.settings import COLUMNS
from onnx_workbench.viewer.style.theme import theme
from tests.viewer.canvas.graphs import Graphs, long_chain, settle
from tests.viewer.canvas.painting import finish_painting, is_painted, wait


@pytest.mark.long
def test_only_visible_lines_are_drawn_and_on_their_curves():
    short = np.array([[0.0, 0.0], [0.0, 50.0], [80.0, 50.0], [80.0, 100.0]])
    long = np.array([[0.0, 0.0], [0.0, 150.0], [9000.0, 150.0], [9000.0, 300.0]])
    pieces, everywhere = np.stack([short, long]), (-1.0, -1.0, 9001.0, 301.0)
    t = np.linspace(0, 1, 200_001)[:, None]
    for scale in (0.1, 1.0, 4.0):
        for piece in pieces:
            curve = piece[0] * (1 - t) ** 3 + 3 * piece[1] * t * (1 - t) ** 2 + 3 * piece[2] * t**2 * (1 - t)
            curve += piece[3] * t**3
            lines = flattened(piece[None], scale, everywhere)
            middles = (lines[:, :2] + lines[:, 2:]) / 2
            off = [np.hypot(*(curve - middle).T).min() for middle in middles]
            assert max(off) * scale < 0.5
    whole = flattened(pieces, 1.0, everywhere)
    part = flattened(pieces, 1.0, (4000.0, 0.0, 5000.0, 300.0))
    assert 0 < len(part) < len(whole) / 4
    assert {tuple(line) for line in part} < {tuple(line) for line in whole}  # the same lines, or strips would not fit
    assert len(flattened(pieces, 1.0, (0.0, 5000.0, 100.0, 6000.0))) == 0


def image(view) -> QImage:
    return view.grab().toImage()


def difference(a: QImage, b: QImage, least: int = 1) -> int:
    """How many pixels differ, in a channel by at least so much."""

    def array(i: QImage):
        i = i.convertToFormat(QImage.Format.Format_RGB32)
        return np.frombuffer(i.constBits(), np.uint8).reshape(i.height(), i.width(), 4).astype(np.int16)

    return int((np.abs(array(a) - array(b)).max(2) >= least).sum())


@pytest.mark.long
def test_frames_end_with_a_complete_picture(show, qtbot):
    view = show(long_chain(2500).model(), 900, 700)
    view.fit()
    qtbot.waitUntil(lambda: is_painted(view))
    view.zoom_to(0.5)
    qtbot.waitUntil(lambda: is_painted(view))
    sharp = image(view)
    view.repaint_scene()
    settle(view)
    assert difference(sharp, image(view)) <= 20


class Frames(QObject):
    """The areas of a widget's paint events."""

    def __init__(self, widget):
        super().__init__(widget)
        self.areas = []
        widget.installEventFilter(self)

    def eventFilter(self, _watched, event):
        if event.type() == QEvent.Type.Paint:
            self.areas.append(event.rect())
        return False


def test_a_partial_frame_asks_for_a_whole_one(show, qtbot, monkeypatch):
    """What it painted, the rest of the widget would not show; nor may a frame shown in two parts take twice as long."""
    view = show(long_chain(40).model())
    settle(view)
    qtbot.waitUntil(lambda: is_painted(view))
    with monkeypatch.context() as patch:
        patch.setattr(view, "update", lambda: None)  # the frame that comes first is one of a part
        view.repaint_scene()
    frames = Frames(view)
    for _ in range(20):
        view.grab(QRect(0, 0, 20, 20))  # as when something small above it is painted
    assert not is_painted(view)
    assert view.rect() not in frames.areas
    qtbot.waitUntil(lambda: is_painted(view))
    assert view.rect() in frames.areas


@pytest.mark.long
def test_a_panned_frame_is_painted_once_despite_the_map(show, qtbot, monkeypatch):
    view = show(long_chain(2500).model(), 900, 700)
    view.workspace.settings.set(COLUMNS, False)
    wait(qtbot, view)
    view.minimap.set_wanted(True)
    view.zoom_to(1.0)
    view.centre_on(view.scene.width / 2, view.scene.height / 2)
    qtbot.waitUntil(view.minimap.isVisible)
    finish_painting(view)
    view.repaint()
    fills = []
    monkeypatch.setattr(BackingStore, "fill", lambda *_: fills.append(1))
    view.pan_by(10, 20)
    view.repaint()
    assert view.minimap.isVisible()
    assert len(fills) == 1


class Counting:
    """Paints nothing; keeps the areas it was asked for, in device px."""

    def __init__(self):
        self.sizes = []

    def __call__(self, _painter, area, scale):
        self.sizes.append((round((area[2] - area[0]) * scale) - 2, round((area[3] - area[1]) * scale) - 2))


def test_what_comes_into_view_beside_is_painted_in_one_strip():
    """Each strip paints all boxes that it cuts through, so a narrow one may be long."""
    viewport = Viewport(width=1600, height=1000)
    paint = Counting()
    picture = BackingStore(viewport, theme().canvas)
    while not picture.is_complete:
        picture.fill(paint, 1.0)
    assert len(paint.sizes) > 4
    assert max(height for _, height in paint.sizes) <= 200  # nobody knows how dense it is below
    paint.sizes.clear()
    viewport.x += 23
    viewport.y += 37
    picture.move_to(viewport)
    while not picture.is_complete:
        picture.fill(paint, 1.0)
    assert sorted(paint.sizes) == [(23, 963), (1600, 37)]


def test_strips_are_thinner_where_they_take_long(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("onnx_workbench.viewer.canvas.paint.backing_store.time.perf_counter", lambda: now[0])
    heights = []

    def paint(_painter, area, scale):
        heights.append(round((area[3] - area[1]) * scale) - 2)
        now[0] += heights[-1] * 0.0005  # 64 rows: 32 ms

    picture = BackingStore(Viewport(width=800, height=1000), theme().canvas)
    picture.fill(paint, 0.005)
    assert len(heights) == 1  # more would make the frame even longer
    while not picture.is_complete:
        picture.fill(paint, 0.005)
    assert heights[0] == 64
    assert set(heights[1:-1]) == {32}
    assert 32 < heights[-1] < 64  # a thin rest is not worth a strip of its own
    assert sum(heights) == 1000


@pytest.mark.long
@pytest.mark.parametrize("step", [(23, 37), (-23, -37), (400, 3), (-3, 300)])
@pytest.mark.parametrize("scale", [0.15, 0.35, 0.6, 1.0])
def test_panning_along_a_fan_shows_what_jumping_there_does(show, scale, step):
    """Many edges end in one box: their arrowheads and labels are painted from whichever strip they reach into."""
    g = Graphs()
    g.input("x", 4)
    for index in range(60):
        g.node("Relu", ["x"], [f"a{index}"])
        g.node("Neg", [f"a{index}"], [f"b{index}"])
    g.node("Sum", [f"b{index}" for index in range(60)], ["y"])
    g.outputs("y")
    view = show(g.model(), 700, 500)
    view.minimap.set_wanted(False)
    total = next(index for index, box in enumerate(view.scene.boxes) if box.title == "Sum")
    left, top, width, _ = view.scene.rect(total)
    view.zoom_to(scale)
    view.centre_on(left + width / 2, top)
    settle(view)
    for _ in range(6):
        view.pan_by(*step)
        view.repaint()
    settle(view)
    moved = image(view)
    view.repaint_scene()
    settle(view)
    # Antialiasing rounds at the borders of strips, and letters to parts of a pixel: which, depends on what each frame
    # of a busy machine painted.
    assert difference(moved, image(view), 16) <= 80
    assert difference(moved, QImage(moved).copy(0, 0, 1, 1).scaled(moved.size()), 16) > 500


def test_a_resize_keeps_the_middle(show, qtbot):
    view = show(long_chain(160).model())
    view.workspace.settings.set(COLUMNS, False)
    wait(qtbot, view)
    view.zoom_to(1.0)
    view.pan_by(0, 500)
    before = view.viewport.to_scene(view.width() / 2, view.height() / 2)
    view.resize(500, 420)
    settle(view)
    assert view.viewport.to_scene(250, 210) == pytest.approx(before, abs=2 / view.zoom)


@pytest.mark.parametrize("ratio", [1.0, 1.25, 1.5, 2.0])
def test_a_moved_picture_is_the_same_at_any_ratio(qapp, small, ratio):
    drawing = build(small.model().graph)
    scene = Scene(drawing, layout(request(drawing)))
    fonts = canvas_fonts()
    paint = ScenePainter(scene, fonts, theme(), EdgeLabels(scene, fonts, lambda value: value.type)).paint

    def shown(picture: BackingStore, viewport: Viewport) -> QImage:
        while not picture.is_complete:
            picture.fill(paint, 0.001)
        result = QImage(*viewport.device_size, QImage.Format.Format_RGB32)
        result.setDevicePixelRatio(ratio)
        painter = QPainter(result)
        picture.draw(painter, viewport)
        painter.end()
        return result

    viewport = Viewport(width=301, height=203, ratio=ratio, scale=0.9)
    picture = BackingStore(viewport, theme().canvas)
    shown(picture, viewport)
    for dx, dy in ((17, 5), (-3, 60), (11, -20)):
        viewport.x += dx
        viewport.y += dy
        picture.move_to(viewport)
        moved = shown(picture, viewport)
    whole = shown(BackingStore(viewport, theme().canvas), viewport)
    assert difference(moved, whole) <= moved.width() * moved.height() / 1000  # glyphs at half a pixel may round
    assert difference(moved, QImage(moved).copy(0, 0, 1, 1).scaled(moved.size())) > 1000


@pytest.mark.parametrize(("ratio", "is_written"), [(1.0, False), (2.0, True)])
def test_a_label_is_found_wherever_it_is_written(show, small, ratio, is_written):
    """On a screen of 200 % labels are written from half the zoom on."""
    SetField(small.values["c"], "type", small.values["x"].type).apply()
    view = show(small.model())
    label = EdgeLabels(view.scene, view.fonts, view.type_of).in_rect(*view.scene.bounds)[0]
    left, top, width, height = label.rect
    view.zoom_to(0.3)
    view.viewport.ratio = ratio
    assert view.labelled_at(left + width / 2, top + height / 2) == (label.edge if is_written else -1)


@pytest.mark.parametrize("ratio", [1.0, 1.25, 1.5, 2.0])
def test_a_viewport_maps_there_and_back_at_any_ratio(ratio):
    viewport = Viewport(width=801, height=603, ratio=ratio, scale=0.73)
    viewport.scroll_to(1000, 2000, 400, 300)
    assert viewport.to_scene(*viewport.to_widget(123.0, 456.0)) == pytest.approx((123, 456))
    assert viewport.to_widget(1000, 2000) == pytest.approx((400, 300), abs=1)
    under = viewport.to_scene(77, 88)
    viewport.zoom_at(1.9, 77, 88)
    assert viewport.to_scene(77, 88) == pytest.approx(under, abs=1)
    width, height = viewport.device_size
    assert width >= 801 * ratio > width - 1
    assert height >= 603 * ratio > height - 1
    viewport.fit((0, 0, 10_000, 100))
    left, _, right, _ = viewport.area
    assert left < 0
    assert right > 10_000


@pytest.mark.parametrize(
    ("low", "high", "texts"), [(1.0, 3.0, ("1", "3")), (-1.7e308, 1.7e308, ("-1.7e+308", "1.7e+308"))]
)
def test_heat_runs_from_dark_to_light_and_reports_its_range(show, small, low, high, texts):
    view = show(small.model())
    nodes = list(view.workspace.graph.nodes)
    shades = by_heat(view.scene, theme(), {nodes[0]: low, nodes[1]: high}, "ms")
    assert (shades.legend.low, shades.legend.high) == texts
    boxes = [view.scene.drawing.boxes_of(node)[0] for node in nodes]
    assert shades.indices[boxes].tolist() == [1, 64, 0]
    lightness = [color.lightnessF() for color in heat_colors()]
    assert lightness[0] < lightness[32] < lightness[-1]


def test_one_amount_far_above_the_others_makes_the_heat_logarithmic(show, small):
    view = show(small.model())
    nodes = list(view.workspace.graph.nodes)[:3]
    shades = by_heat(view.scene, theme(), dict(zip(nodes, (0.001, 0.01, 10.0), strict=True)), "ms")
    assert (shades.legend.title, shades.legend.low, shades.legend.high) == ("ms, log", "0.001", "10")
    boxes = [view.scene.drawing.boxes_of(node)[0] for node in nodes]
    assert shades.indices[boxes].tolist() == [1, 17, 64]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_heat_of_nothing_finite_reports_no_range(show, small, number):
    view = show(small.model())
    legend = by_heat(view.scene, theme(), dict.fromkeys(view.workspace.graph.nodes, number), "ms").legend
    assert (legend.low, legend.high) == ("", "")
    assert legend.entries == (("no finite number", theme().endpoint),)


def test_devices_have_an_entry_each(show, small):
    view = show(small.model())
    nodes = list(view.workspace.graph.nodes)
    shades = by_key(view.scene, theme(), {nodes[0]: "stage 0", nodes[1]: "stage 1"}, "Device")
    assert [text for text, _ in shades.legend.entries] == ["stage 0", "stage 1"]
    assert by_key(view.scene, theme(), {}, "Device").legend is None
    view.set_colouring(shades)
    settle(view)
    assert device_keys(nodes) == {}
    view.node_colors.set_devices(shown=True)
    view.node_colors.set_devices(shown=False)


def test_names_from_afar_and_focus_leave_the_rest_as_it_is(show, qtbot):
    view = show(long_chain(60, scopes=2).model(), 600, 900)
    view.expansion.expand_all()
    qtbot.waitUntil(lambda: not view.scenes.is_busy)
    view.fit()
    settle(view)
    with qtbot.waitActive(view):
        view.activateWindow()
    view.clearFocus()
    plain = image(view)
    view.setFocus(Qt.FocusReason.TabFocusReason)
    focused = image(view)
    ratio = view.devicePixelRatioF()
    ring = 2 * 2 * (600 + 900) * ratio * (ratio + 1)
    assert 0 < difference(plain, focused) <= ring
    relu = next(index for index, box in enumerate(view.scene.boxes) if box.title == "Relu")
    left, top, width, height = view.scene.rect(relu)
    x, y = view.viewport.to_widget(left + width / 20, top + height / 2)
    assert QColor(plain.pixel(round(x * ratio), round(y * ratio))) == theme().header("activation")


def test_nothing_blinks_while_a_new_scene_is_painted(show, monkeypatch):
    view = show(long_chain(40).model())
    settle(view)
    before = image(view)
    monkeypatch.setattr(surface, "FILL_SECONDS", 0.0)
    view.set_scene(view.scene)
    assert not is_painted(view)
    assert difference(before, image(view)) <= 20
    view.set_scene(None)
    assert difference(before, image(view)) > 1000


def test_text_can_be_read_on_every_colour_of_the_heat_map(show, small):
    view = show(small.model())
    shades = by_heat(view.scene, theme(), {}, "ms")

    def luminance(color: QColor) -> float:
        channels = (color.redF(), color.greenF(), color.blueF())
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for color, text in zip(shades.palette, shades.text, strict=True):
        low, high = sorted((luminance(color), luminance(text)))
        assert (high + 0.05) / (low + 0.05) >= 4.3


@pytest.mark.parametrize("mark", ["selected", "hovered"])
def test_highlighted_edges_strike_through_no_label(show, mark):
    """Of a value with many uses: its label stands where its edges part."""
    g = Graphs()
    g.input("x", 1, 12, 28, 28)
    g.node("Relu", ["x"], ["r"])
    for index in range(7):
        g.node("Neg", ["r"], [f"c{index}"])
    g.outputs(*(f"c{index}" for index in range(7)))
    value = g.value("r")
    SetField(value, "type", TensorType(ElementType.FLOAT, Shape((1, 12, 28, 28)))).apply()
    view = show(g.model())
    view.zoom_to(1.0)
    view.centre_on(view.scene.width / 2, view.scene.height / 2)
    finish_painting(view)
    plain = image(view)
    if mark == "selected":
        view.workspace.selection.set([value])
    else:
        view.highlighter.mark_hovered(value)
    finish_painting(view)
    marked = image(view)
    assert difference(plain, marked) > 100
    labels = EdgeLabels(view.scene, view.fonts, view.type_of).in_rect(*view.viewport.area)
    (label,) = [one for one in labels if view.scene.drawing.values[one.edge] is value]
    left, top, width, height = label.rect
    (x0, y0), (x1, y1) = view.viewport.to_widget(left, top), view.viewport.to_widget(left + width, top + height)
    place = QRect(QPoint(int(x0) + 1, int(y0) + 1), QPoint(int(x1) - 2, int(y1) - 2))
    assert place.width() > 40
    assert difference(plain.copy(place), marked.copy(place)) == 0


def test_no_edge_strikes_through_the_title_of_an_opened_body(qapp, branching_model):
    """Wherever edges from outside run; here one is led across a title on its way to a node in the body."""
    closed = build(branching_model.graph)
    drawing = build(branching_model.graph, expanded={box.key for box in closed.boxes if box.title == "If"})
    found = layout(request(drawing))
    frame = next(index for index, box in enumerate(drawing.boxes) if box.title == "then_branch")
    left, top, width, _ = Scene(drawing, found).rect(frame)
    fonts, ratio = canvas_fonts(), 1.5

    def painted(y: float) -> QImage:
        """The head of the body, with the edge straight across at a height."""
        points = found.route_points.copy()
        first, last = found.route_starts[int(np.flatnonzero(drawing.dashed)[0]) :][:2]
        points[first:last, 0] = np.linspace(left, left + width, last - first)
        points[first:last, 1] = y
        scene = Scene(drawing, replace(found, route_points=points))
        picture = QImage(round(width * ratio), round(HEADER * ratio), QImage.Format.Format_RGB32)
        painter = QPainter(picture)
        painter.scale(ratio, ratio)
        painter.translate(-left, -top)
        ScenePainter(scene, fonts, theme()).paint(painter, (left, top, left + width, top + HEADER), ratio)
        painter.end()
        return picture

    through, elsewhere = painted(top + HEADER / 2), painted(top - 500)
    x, _, wide, _ = title_ground(drawing.boxes[frame], fonts, left, top)
    end = round((x + wide - left) * ratio)
    assert end < 0.8 * through.width()
    title = QRect(round((x - left) * ratio), 0, end - round((x - left) * ratio), through.height())
    assert difference(through.copy(title), elsewhere.copy(title), 16) == 0
    assert difference(through, elsewhere, 16) > 20  # it is seen beside


@pytest.mark.parametrize("mark", ["selected", "hovered"])
def test_highlighted_edges_strike_through_no_title_of_an_opened_body(qtbot, show, branching_model, mark):
    """An edge from outside that runs across a title, though layouts avoid it."""
    view = show(branching_model)
    view.expansion.expand(next(index for index, box in enumerate(view.scene.boxes) if box.title == "If"))
    qtbot.waitUntil(lambda: not view.scenes.is_busy)
    settle(view)
    drawing, found = view.scene.drawing, view.scene.layout
    frame = next(index for index, box in enumerate(drawing.boxes) if box.title == "then_branch")
    left, top, width, height = view.scene.rect(frame)
    edge = int(np.flatnonzero(drawing.dashed)[0])
    points = found.route_points.copy()
    first, last = found.route_starts[edge : edge + 2]
    points[first:last, 0] = np.linspace(left, left + width, last - first)
    points[first:last, 1] = top + HEADER / 2
    view.set_scene(Scene(drawing, replace(found, route_points=points)))
    view.minimap.set_wanted(False)
    view.zoom_to(1.0)
    view.centre_on(left + width / 2, top + height / 2)
    finish_painting(view)
    plain = image(view)
    if mark == "selected":
        view.workspace.selection.set([drawing.values[edge]])
    else:
        view.highlighter.mark_hovered(drawing.values[edge])
    finish_painting(view)
    marked = image(view)
    x, y, wide, high = title_ground(drawing.boxes[frame], view.fonts, left, top)
    (x0, y0), (x1, y1) = view.viewport.to_widget(x, y), view.viewport.to_widget(x + wide, y + high)
    title = QRect(QPoint(int(x0) + 1, int(y0) + 1), QPoint(int(x1) - 2, int(y1) - 2))
    assert title.width() > 40
    assert difference(plain.copy(title), marked.copy(title)) == 0
    assert difference(plain, marked) > 20


def test_the_first_note_of_a_run_is_painted_whole(show, small):
    SetField(small.values["c"], "type", TensorType(ElementType.FLOAT, Shape(("a_long_name",) * 4))).apply()
    view = show(small.model())
    view.minimap.set_wanted(False)
    view.zoom_to(1.0)
    finish_painting(view)
    view.grab()
    note = EdgeNote("−12345.67 … 98765.43")
    view.workspace.highlights.note_of = lambda value: note if value is small.values["c"] else None
    view.workspace.highlights.notes_changed.emit({small.values["c"]})
    finish_painting(view)
    part = image(view)
    view.workspace.highlights.notes_changed.emit(None)
    finish_painting(view)
    assert difference(part, image(view), 64) == 0  # the height of strips shows in a pixel or two of a curve
