"""The overview covers nothing, in small windows too."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, QObject, QSize

from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.viewer.canvas.scene.drawing import Kind
from onnx_workbench.viewer.program.settings import COLUMNS
from onnx_workbench.viewer.style.theme import theme
from tests.viewer.canvas.graphs import Graphs, long_chain
from tests.viewer.canvas.painting import wait


@pytest.fixture
def view(show, qtbot):
    view = show(long_chain(200).model(), 1200, 900)
    view.workspace.settings.set(COLUMNS, False)
    wait(qtbot, view)
    view.minimap.set_wanted(True)
    view.zoom_to(1.0)
    qtbot.waitUntil(view.minimap.isVisible)
    return view


@pytest.mark.long
@pytest.mark.parametrize("size", [(390, 290), (600, 260), (260, 700)])
def test_it_covers_little_of_a_small_canvas(view, qtbot, size):
    view.resize(*size)
    qtbot.waitUntil(view.minimap.isVisible)
    assert 16 * view.minimap.width() * view.minimap.height() <= 1.01 * size[0] * size[1]


def test_it_hides_in_a_small_view_and_comes_back(view, qtbot):
    view.resize(180, 140)
    assert view.minimap.isHidden()
    view.resize(1200, 900)
    qtbot.waitUntil(view.minimap.isVisible)


def test_its_border_is_within_the_pixels_there_are(view):
    """On a screen of 125 % one 79 wide has 98 of them and three quarters."""
    view.minimap.resize(79, 156)
    shown = view.minimap._draw_map(QSize(99, 195), 1.25).toImage()
    assert shown.pixelColor(97, 100).name() == theme().border.name()
    assert shown.pixelColor(48, 194).name() == theme().border.name()


def covered(view):
    """The boxes below the map."""
    place = view.minimap.geometry()
    corners = view.viewport.to_scene(place.left(), place.top()), view.viewport.to_scene(place.right(), place.bottom())
    return view.scene.box_grid.in_rect(*corners[0], *corners[1]).tolist()


def put_below_map(view, box):
    left, top, width, high = view.scene.rect(box)
    put_at_map(view, left + width / 2, top + high / 2)


def put_at_map(view, x, y):
    """Move the view so that a point of the scene is below the middle of the map."""
    middle = view.minimap.geometry().center()
    at = view.viewport.to_widget(x, y)
    view.pan_by(at[0] - middle.x(), at[1] - middle.y())


@pytest.mark.long
def test_it_goes_to_a_corner_without_nodes_when_the_view_rests(view, qtbot):
    for _ in range(3):
        put_below_map(view, 100)
        assert 100 in covered(view)
        qtbot.waitUntil(lambda: not covered(view))


class Paints(QObject):
    """Counts how often some widgets are painted."""

    def __init__(self, *watched):
        super().__init__()
        self.seen = dict.fromkeys(watched, 0)
        for widget in watched:
            widget.installEventFilter(self)

    def eventFilter(self, watched, event):
        self.seen[watched] += event.type() == QEvent.Type.Paint
        return False


def test_it_follows_the_graph_in_the_same_frame(view, qtbot):
    """Were it painted by itself, all that lies below it would be painted once more for it, by each pan."""
    qtbot.waitExposed(view)
    qtbot.waitUntil(lambda: view.scene is not None and not view.minimap.isHidden())
    put_below_map(view, 100)
    qtbot.waitUntil(lambda: not covered(view))
    view.repaint()
    before = view.minimap.grab().toImage()
    paints = Paints(view, view.minimap)
    view.pan_by(0, 300)
    view.repaint()
    assert paints.seen == {view: 1, view.minimap: 1}
    assert view.minimap.grab().toImage() != before


def test_it_comes_where_there_are_no_nodes(view):
    put_below_map(view, 100)
    view.minimap.set_wanted(False)
    assert view.minimap.isHidden()
    view.minimap.set_wanted(True)
    assert not covered(view)
    assert view.rect().contains(view.minimap.geometry())


def test_it_comes_anew_in_a_canvas_of_another_size(view, qtbot):
    put_below_map(view, 100)
    view.resize(1190, 890)
    qtbot.waitUntil(lambda: not covered(view))
    assert view.rect().contains(view.minimap.geometry())


@pytest.mark.long
@pytest.mark.parametrize("width", [1200, 300])
def test_it_makes_room_for_a_legend_that_comes(view, qtbot, width):
    view.resize(width, 500)
    qtbot.waitUntil(view.minimap.isVisible)
    view.node_colors.set_overlay(
        {box.subject: 1.0 for box in view.scene.boxes[:50] if isinstance(box.subject, Node)}, "Time"
    )
    assert view.legend.isVisible()
    qtbot.waitUntil(lambda: not view.legend.geometry().intersects(view.minimap.geometry()))


def test_it_hides_where_all_corners_have_nodes_and_comes_back(view, qtbot):
    view.resize(300, 170)
    view.zoom_to(8.0)
    left, top, width, high = view.scene.rect(100)
    assert width * 8 > 300
    assert high * 8 > 170
    view.centre_on(left + width / 2, top + high / 2)
    qtbot.waitUntil(view.minimap.isHidden)
    view.zoom_to(1.0)
    view.resize(1200, 900)
    qtbot.waitUntil(lambda: view.minimap.isVisible() and not covered(view))


def is_in_the_way(view):
    return view.has_content_in(view.minimap.geometry())


@pytest.fixture
def wall(show, qtbot):
    """Nine branches of ten nodes, each edge labelled."""
    made = Graphs()
    made.input("x", 4, 4)
    for branch in range(9):
        value = "x"
        for index in range(10):
            made.node("Relu", [value], [f"v{branch}.{index}"])
            value = f"v{branch}.{index}"
    for value in made.values.values():
        SetField(value, "type", made.values["x"].type).apply()
    made.outputs(*(f"v{branch}.9" for branch in range(9)))
    view = show(made.model(), 900, 600)
    view.expansion.set_grouped(False)
    wait(qtbot, view)
    view.minimap.set_wanted(True)
    view.zoom_to(1.0)
    return view


def crowd(view):
    """Show labels in all corners, closer to each other than the map is small."""
    view.resize(550, 370)
    view.zoom_to(0.5)
    left, top, right, bottom = view.scene.bounds
    view.centre_on((left + right) / 2, (top + bottom) / 2)


def test_it_goes_out_of_the_way_of_a_label(wall, qtbot):
    wall.pan_by(0, -1e6)  # the graph begins at the lower edge
    qtbot.waitUntil(lambda: not is_in_the_way(wall) and wall.minimap.isVisible())
    place = wall.minimap.geometry()
    left, top, width, height = min(label.rect for label in wall.labels.in_rect(*wall.scene.bounds))
    put_at_map(wall, left + width / 2, top + height / 2)
    assert is_in_the_way(wall)
    qtbot.waitUntil(lambda: not is_in_the_way(wall) and wall.minimap.isVisible())
    assert wall.minimap.geometry() != place


def test_it_hides_where_labels_are_everywhere_and_comes_back(wall, qtbot):
    crowd(wall)
    qtbot.waitUntil(wall.minimap.isHidden)
    wall.pan_by(0, -1e6)
    qtbot.waitUntil(lambda: wall.minimap.isVisible() and not is_in_the_way(wall))


def test_it_goes_out_of_the_way_of_a_button(show, qtbot):
    view = show(long_chain(200, scopes=20).model(), 500, 400)
    view.minimap.set_wanted(True)
    view.zoom_to(1.0)
    group = next(i for i, box in enumerate(view.scene.boxes) if box.kind is Kind.GROUP)
    left, top, width, _ = view.scene.rect(group)
    put_at_map(view, left + width - 15, top + 10)
    assert is_in_the_way(view)
    qtbot.waitUntil(lambda: view.minimap.isHidden() or not is_in_the_way(view))


def test_it_hides_beside_a_fully_visible_graph_off_the_origin(show):
    """An edit may widen a box to the left of all others."""
    view = show(long_chain(3).model(), 1200, 900)
    view.minimap.set_wanted(True)
    scene = view.scene
    left, top, right, bottom = scene.bounds
    scene.layout = replace(scene.layout, bounds=(left - 1000, top, right - 1000, bottom))
    view.fit()
    assert view.minimap.isHidden()
    view.pan_by(2 * view.width() / 3, 0)
    assert view.minimap.isVisible()
