"""Mouse, wheel and keys, as a user uses them."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QHelpEvent, QKeyEvent, QNativeGestureEvent, QPointingDevice, QWheelEvent
from PySide6.QtWidgets import QApplication, QGestureEvent, QPinchGesture, QToolTip

from onnx_workbench.model.history.steps import SetField
from onnx_workbench.viewer.canvas.scene.drawing import BUTTON, HEADER, ROW, ROWS_PADDING, Kind
from onnx_workbench.viewer.canvas.scene.edge_labels import EdgeLabels
from onnx_workbench.viewer.program.settings import COLUMNS, WHEEL_ZOOMS
from tests.viewer.canvas.graphs import Graphs, long_chain
from tests.viewer.canvas.painting import wait
from tests.viewer.pointer import hover

LEFT = Qt.MouseButton.LeftButton
SHIFT = Qt.KeyboardModifier.ShiftModifier
CTRL = Qt.KeyboardModifier.ControlModifier
NONE = Qt.KeyboardModifier.NoModifier
NO_PIXELS = QPoint()


def box(view, title):
    return [box.title for box in view.scene.boxes].index(title)


def point(view, index, x=20.0, y=HEADER / 2):
    left, top, _, _ = view.scene.rect(index)
    return QPointF(*view.viewport.to_widget(left + x, top + y)).toPoint()


def button(view, index, place=0):
    """The middle of a header's button, counted from the right."""
    _, _, width, _ = view.scene.rect(index)
    stack = 8 if view.scene.kinds[index] == Kind.GROUP else 0
    return point(view, index, width - stack - 2 - (place + 0.5) * BUTTON)


def wheel(view, position, turned, modifiers=NONE, pixels=NO_PIXELS):
    event = QWheelEvent(
        QPointF(position), QPointF(view.mapToGlobal(position)), pixels, turned, Qt.MouseButton.NoButton, modifiers,
        Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(view, event)


@pytest.fixture
def view(show, small):
    return show(small.model())


def node(view, op_type):
    return next(node for node in view.workspace.graph.nodes if node.op_type == op_type)


def test_a_click_selects_and_one_on_the_canvas_deselects(view, qtbot):
    qtbot.mouseClick(view, LEFT, NONE, point(view, box(view, "Relu")))
    assert view.workspace.selection.items == (node(view, "Relu"),)
    qtbot.mouseClick(view, LEFT, NONE, QPoint(3, 3))
    assert view.workspace.selection.items == ()


@pytest.mark.parametrize("zoom", [0.05, 0.1, 0.25, 0.42, 1.0, 3.0])
def test_a_click_in_the_middle_of_a_box_selects_it_at_any_zoom(view, qtbot, zoom):
    view.zoom_to(zoom)
    index = box(view, "Relu")
    left, top, width, height = view.scene.rect(index)
    view.centre_on(left + width / 2, top + height / 2)
    qtbot.mouseClick(view, LEFT, NONE, point(view, index, width / 2, height / 2))
    assert view.workspace.selection.items == (node(view, "Relu"),)


def test_ctrl_click_adds_and_takes_away(view, qtbot):
    qtbot.mouseClick(view, LEFT, NONE, point(view, box(view, "Relu")))
    qtbot.mouseClick(view, LEFT, CTRL, point(view, box(view, "Add")))
    assert view.workspace.selection.items == (node(view, "Relu"), node(view, "Add"))
    qtbot.mouseClick(view, LEFT, CTRL, point(view, box(view, "Relu")))
    assert view.workspace.selection.items == (node(view, "Add"),)


def test_a_click_on_a_row_selects_the_constant(view, qtbot, small):
    qtbot.mouseClick(view, LEFT, NONE, point(view, box(view, "Conv"), 30, HEADER + ROWS_PADDING + ROW / 2))
    assert view.workspace.selection.items == (small.values["w"],)


def test_a_click_on_an_edge_selects_the_value(view, qtbot, small):
    edge = view.scene.drawing.edges_of(small.values["x"])[0]
    piece = view.scene.pieces[view.scene.pieces_of(edge)][0]
    middle = piece.mean(0)
    qtbot.mouseClick(view, LEFT, NONE, QPointF(*view.viewport.to_widget(*middle.tolist())).toPoint())
    assert view.workspace.selection.items == (small.values["x"],)


def test_a_click_on_the_label_of_an_edge_selects_the_value(view, qtbot, small):
    SetField(small.values["c"], "type", small.values["x"].type).apply()
    view.repaint_scene()
    edges = view.scene.drawing.edges_of(small.values["c"])
    labels = EdgeLabels(view.scene, view.fonts, view.type_of).in_rect(*view.scene.bounds)
    left, top, _, height = next(label.rect for label in labels if label.edge in edges)
    view.zoom_to(1.0)
    view.centre_on(left, top)
    at_its_side = QPointF(*view.viewport.to_widget(left + 2, top + height / 2)).toPoint()
    qtbot.mouseClick(view, LEFT, NONE, at_its_side)
    assert view.workspace.selection.items == (small.values["c"],)


@pytest.mark.parametrize("start", ["canvas", "node", "middle button"])
def test_dragging_pans_and_selects_nothing(view, qtbot, start):
    begin = QPoint(5, 5) if start == "canvas" else point(view, box(view, "Relu"))
    pressed = Qt.MouseButton.MiddleButton if start == "middle button" else LEFT
    before = point(view, box(view, "Relu"))
    qtbot.mousePress(view, pressed, NONE, begin)
    hover(view, begin + QPoint(20, 10), pressed)
    hover(view, begin + QPoint(60, 25), pressed)
    qtbot.mouseRelease(view, pressed, NONE, begin + QPoint(60, 25))
    assert point(view, box(view, "Relu")) == before + QPoint(60, 25)
    assert view.workspace.selection.items == ()


def test_escape_takes_a_drag_back(view, qtbot):
    before = point(view, 0)
    qtbot.mousePress(view, LEFT, NONE, QPoint(5, 5))
    hover(view, QPoint(60, 60), LEFT)
    assert point(view, 0) != before
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert point(view, 0) == before
    qtbot.mouseRelease(view, LEFT, NONE, QPoint(60, 60))
    assert view.workspace.selection.items == ()


def drag_band(qtbot, view, modifiers, first, last):
    qtbot.mousePress(view, LEFT, modifiers, first)
    hover(view, (first + last) / 2, LEFT)
    hover(view, last, LEFT)
    view.grab()
    qtbot.mouseRelease(view, LEFT, modifiers, last)


def around(view, index):
    left, top, right, bottom = view.scene.corners[index].tolist()
    first = QPointF(*view.viewport.to_widget(left - 3, top - 3)).toPoint()
    last = QPointF(*view.viewport.to_widget(right + 3, bottom + 3)).toPoint()
    return first, last


def test_shift_drag_selects_a_rectangle_and_ctrl_adds(view, qtbot):
    drag_band(qtbot, view, SHIFT, *around(view, box(view, "Relu")))
    assert view.workspace.selection.items == (node(view, "Relu"),)
    drag_band(qtbot, view, SHIFT | CTRL, *reversed(around(view, box(view, "Add"))))
    assert view.workspace.selection.items == (node(view, "Relu"), node(view, "Add"))


def test_escape_leaves_the_selection_of_a_rectangle_alone(view, qtbot):
    view.workspace.selection.set([node(view, "Conv")])
    first, last = around(view, box(view, "Relu"))
    qtbot.mousePress(view, LEFT, SHIFT, first)
    hover(view, last, LEFT)
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    qtbot.mouseRelease(view, LEFT, SHIFT, last)
    assert view.workspace.selection.items == (node(view, "Conv"),)
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert view.workspace.selection.items == ()


def test_the_wheel_scrolls(view):
    x, y = view.viewport.x, view.viewport.y
    wheel(view, QPoint(100, 100), QPoint(0, -120))
    assert (view.viewport.x, view.viewport.y > y) == (x, True)
    wheel(view, QPoint(100, 100), QPoint(0, -120), pixels=QPoint(7, 0))
    assert view.viewport.x == x - round(7 * view.devicePixelRatioF())


@pytest.mark.parametrize("keys", [CTRL, SHIFT, None])
def test_the_wheel_zooms_at_the_pointer(view, keys):
    if keys is None:
        view.workspace.settings.set(WHEEL_ZOOMS, True)
    position = point(view, box(view, "Add"))
    under = view.viewport.to_scene(position.x(), position.y())
    zoom = view.zoom
    wheel(view, position, QPoint(0, 120), keys or NONE)
    assert view.zoom == pytest.approx(zoom * 1.2)
    assert view.viewport.to_scene(position.x(), position.y()) == pytest.approx(under, abs=1 / view.zoom)


def test_hover_is_reported_and_forgotten(view, qtbot, small):
    hover(view, point(view, box(view, "x")))
    assert view.workspace.selection.hover is small.values["x"]
    hover(view, point(view, box(view, "Relu")))
    assert view.workspace.selection.hover is node(view, "Relu")
    QApplication.sendEvent(view, QEvent(QEvent.Type.Leave))
    assert view.workspace.selection.hover is None


@pytest.mark.parametrize(
    ("key", "modifiers", "check"),
    [
        (Qt.Key.Key_Backspace, SHIFT, lambda before, now: now == 1.0),
        (Qt.Key.Key_Up, SHIFT, lambda before, now: now > before),
        (Qt.Key.Key_Down, SHIFT, lambda before, now: now < before),
    ],
)
def test_keys_zoom(view, qtbot, key, modifiers, check):
    view.zoom_to(0.5)
    with qtbot.waitSignal(view.zoom_changed):
        qtbot.keyClick(view, key, modifiers)
    assert check(0.5, view.zoom)


def test_space_fits_and_f_frames_the_selection(view, qtbot):
    view.zoom_to(3.0)
    qtbot.keyClick(view, Qt.Key.Key_Space)
    area = view.viewport.area
    assert area[1] <= 0
    assert area[3] >= view.scene.height
    view.pan_by(200, 100)
    view.workspace.selection.set([node(view, "Relu")])
    qtbot.keyClick(view, Qt.Key.Key_F)
    left, top, right, bottom = view.viewport.area
    x0, y0, x1, y1 = view.scene.corners[box(view, "Relu")].tolist()
    assert (left + right) / 2 == pytest.approx((x0 + x1) / 2, abs=2)
    assert (top + bottom) / 2 == pytest.approx((y0 + y1) / 2, abs=2)


def test_a_drag_while_space_is_held_pans_and_fits_nothing(view, qtbot):
    view.zoom_to(3.0)
    before = point(view, 0)
    qtbot.keyPress(view, Qt.Key.Key_Space)
    qtbot.mousePress(view, LEFT, NONE, QPoint(5, 5))
    hover(view, QPoint(60, 60), LEFT)
    QApplication.sendEvent(view, QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_Space, NONE, " ", autorep=True))
    qtbot.mouseRelease(view, LEFT, NONE, QPoint(60, 60))
    qtbot.keyRelease(view, Qt.Key.Key_Space)
    assert (view.zoom, point(view, 0)) == (3.0, before + QPoint(55, 55))


def test_arrows_walk_and_keep_the_box_in_view(show, qtbot):
    view = show(long_chain(60).model())
    nodes = list(view.workspace.graph.nodes)
    qtbot.keyClick(view, Qt.Key.Key_Down)
    for expected in nodes:
        qtbot.keyClick(view, Qt.Key.Key_Down)
        assert view.workspace.selection.items == (expected,)
    x0, y0, x1, y1 = view.scene.corners[view.scene.drawing.boxes_of(nodes[-1])[0]].tolist()
    left, top, right, bottom = view.viewport.area
    assert left < x0 < x1 < right
    assert top < y0 < y1 < bottom
    qtbot.keyClick(view, Qt.Key.Key_Up)
    assert view.workspace.selection.items == (nodes[-2],)


def test_backspace_leaves_a_body(show, qtbot, branching_model):
    view = show(branching_model)
    qtbot.mouseClick(view, LEFT, NONE, button(view, box(view, "Twice"), 1))
    assert view.workspace.graph is branching_model.functions[0].body
    wait(qtbot, view)
    qtbot.keyClick(view, Qt.Key.Key_Backspace)
    assert view.workspace.graph is branching_model.graph


def test_the_header_buttons_open_and_close_in_place(show, qtbot, branching_model):
    view = show(branching_model)
    qtbot.mouseClick(view, LEFT, NONE, button(view, box(view, "If")))
    wait(qtbot, view)
    frame = box(view, "If")
    assert view.scene.kinds[frame] == Kind.CONTAINER
    view.fit()
    qtbot.mouseClick(view, LEFT, NONE, button(view, frame))
    wait(qtbot, view)
    assert view.scene.kinds[box(view, "If")] == Kind.NODE


def test_a_button_too_small_to_see_is_not_pushed(show, qtbot, branching_model):
    view = show(branching_model)
    view.zoom_to(0.2)
    qtbot.mouseClick(view, LEFT, NONE, button(view, box(view, "If")))
    assert not view.scenes.is_busy
    assert view.workspace.selection.items == (node(view, "If"),)


def test_a_button_pressed_but_dragged_away_does_nothing(show, qtbot, branching_model):
    view = show(branching_model)
    place = button(view, box(view, "If"))
    qtbot.mousePress(view, LEFT, NONE, place)
    hover(view, place + QPoint(50, 50), LEFT)
    qtbot.mouseRelease(view, LEFT, NONE, place + QPoint(50, 50))
    wait(qtbot, view)
    assert view.scene.kinds[box(view, "If")] == Kind.NODE


def test_double_click_opens_what_is_inside(show, qtbot, branching_model):
    view = show(branching_model)
    qtbot.mouseDClick(view, LEFT, NONE, point(view, box(view, "If")))
    assert view.workspace.graph.name == "then_branch"


def test_double_click_on_plain_things_reports_what_they_are(view, qtbot, small):
    with qtbot.waitSignal(view.navigator.opened) as report:
        qtbot.mouseDClick(view, LEFT, NONE, point(view, box(view, "Relu")))
    assert report.args == [node(view, "Relu")]
    with qtbot.waitSignal(view.navigator.opened) as report:
        qtbot.mouseDClick(view, LEFT, NONE, point(view, box(view, "Conv"), 30, HEADER + ROWS_PADDING + ROW / 2))
    assert report.args == [small.values["w"]]
    with qtbot.waitSignal(view.navigator.opened) as report:
        qtbot.mouseDClick(view, LEFT, NONE, point(view, box(view, "Conv"), 30, HEADER + ROWS_PADDING + 2.5 * ROW))
    assert report.args == [node(view, "Conv").attributes["kernel_shape"]]


def test_double_click_opens_a_group(show, qtbot):
    view = show(long_chain(60, scopes=3).model())
    view.expansion.collapse_all()
    wait(qtbot, view)
    qtbot.mouseDClick(view, LEFT, NONE, point(view, box(view, "part1")))
    wait(qtbot, view)
    assert view.scene.kinds[box(view, "part1")] == Kind.CONTAINER


def test_closing_all_groups_closes_those_too_that_are_open_at_first(show, qtbot):
    view = show(long_chain(60, scopes=2).model())
    wait(qtbot, view)
    view.expansion.expand_all()
    wait(qtbot, view)
    assert Kind.CONTAINER in view.scene.kinds
    view.expansion.collapse_all()
    wait(qtbot, view)
    assert Kind.CONTAINER not in view.scene.kinds
    assert list(view.scene.kinds).count(Kind.GROUP) == 2


def test_a_click_on_a_group_selects_its_nodes(show, qtbot):
    view = show(long_chain(60, scopes=3).model())
    view.expansion.collapse_all()
    wait(qtbot, view)
    qtbot.mouseClick(view, LEFT, NONE, point(view, box(view, "part1")))
    assert view.workspace.selection.items == tuple(view.workspace.graph.nodes)[20:40]
    qtbot.keyClick(view, Qt.Key.Key_Return)
    wait(qtbot, view)
    assert view.scene.kinds[box(view, "part1")] == Kind.CONTAINER


def right_click(view, position):
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, position, view.mapToGlobal(position))
    QApplication.sendEvent(view, event)


def test_right_click_selects_and_asks_for_the_menu_that_fits(view, qtbot, small):
    with qtbot.waitSignal(view.workspace.menu_requested) as asked:
        right_click(view, point(view, box(view, "Relu")))
    assert asked.args[1] == "node"
    assert view.workspace.selection.items == (node(view, "Relu"),)
    with qtbot.waitSignal(view.workspace.menu_requested) as asked:
        right_click(view, point(view, box(view, "x")))
    assert asked.args[1] == "value"
    with qtbot.waitSignal(view.workspace.menu_requested) as asked:
        right_click(view, QPoint(3, 3))
    assert asked.args[1] == "canvas"
    assert view.workspace.selection.items == ()


def test_right_click_on_one_of_several_selected_keeps_them(view, qtbot):
    chosen = (node(view, "Relu"), node(view, "Add"))
    view.workspace.selection.set(chosen)
    right_click(view, point(view, box(view, "Add")))
    assert view.workspace.selection.items == chosen


def test_the_menu_key_opens_the_menu_at_the_selection(view, qtbot):
    view.workspace.selection.set([node(view, "Relu")])
    event = QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, QPoint(0, 0), QPoint(0, 0))
    with qtbot.waitSignal(view.workspace.menu_requested) as asked:
        QApplication.sendEvent(view, event)
    left, top, _, height = view.scene.rect(box(view, "Relu"))
    expected = view.mapToGlobal(QPointF(*view.viewport.to_widget(left, top + height)).toPoint())
    assert asked.args == [expected, "node"]


def tip_at(view, position):
    QApplication.sendEvent(view, QHelpEvent(QEvent.Type.ToolTip, position, view.mapToGlobal(position)))
    return QToolTip.text()


def test_tooltips_say_more_and_render_nothing(show, qtbot):
    g = Graphs()
    g.input("<b>x</b>", 2)
    g.node("Relu", ["<b>x</b>"], ["y"], name="<img src='http://example.com/x.png'>")
    g.outputs("y")
    view = show(g.model())
    text = tip_at(view, point(view, box(view, "Relu")))
    assert "&lt;img" in text
    assert "<img" not in text
    assert "&lt;b&gt;x" in tip_at(view, point(view, 0))
    tip_at(view, QPoint(2, 2))


def test_the_view_says_what_it_is_and_shows_focus(view, qtbot):
    assert view.accessibleName() == "Graph"
    assert view.focusPolicy() == Qt.FocusPolicy.StrongFocus


def test_losing_the_focus_ends_an_interaction(view, qtbot):
    before = point(view, 0)
    qtbot.mousePress(view, LEFT, NONE, QPoint(5, 5))
    hover(view, QPoint(60, 60), LEFT)
    view.input_handler.cancel()
    assert point(view, 0) == before
    assert view.input_handler.tool is None


def test_pressing_on_the_overview_goes_there(show, qtbot):
    view = show(long_chain(120).model())
    view.workspace.settings.set(COLUMNS, False)
    wait(qtbot, view)
    view.zoom_to(1.0)
    overview = view.minimap
    qtbot.waitUntil(overview.isVisible)
    qtbot.mouseClick(overview, LEFT, NONE, QPoint(overview.width() // 2, overview.height() - 12))
    assert view.viewport.area[3] > view.scene.height * 0.85
    qtbot.mousePress(overview, LEFT, NONE, QPoint(overview.width() // 2, 12))
    assert view.viewport.area[1] < view.scene.height * 0.15
    overview.grab()
    view.fit()
    assert not overview.isVisible()
    view.zoom_to(1.0)
    qtbot.waitUntil(overview.isVisible)
    overview.set_wanted(False)
    assert not overview.isVisible()


def test_pinching_zooms_at_the_fingers(view):
    zoom = view.zoom
    place = QPointF(300, 200)
    under = view.viewport.to_scene(300, 200)
    gesture = QPinchGesture()
    gesture.setChangeFlags(QPinchGesture.ChangeFlag.ScaleFactorChanged)
    gesture.setScaleFactor(1.5)
    gesture.setCenterPoint(view.mapToGlobal(place))
    QApplication.sendEvent(view, QGestureEvent([gesture]))
    assert view.zoom == pytest.approx(1.5 * zoom)
    assert view.viewport.to_scene(300, 200) == pytest.approx(under, abs=2)
    device = QPointingDevice.primaryPointingDevice()
    event = QNativeGestureEvent(
        Qt.NativeGestureType.ZoomNativeGesture, device, 2, place, place, view.mapToGlobal(place), -0.2, QPointF()
    )
    QApplication.sendEvent(view, event)
    assert view.zoom == pytest.approx(1.5 * zoom * 0.8)


@pytest.mark.long
def test_a_double_click_on_an_attribute_opens_its_field(window, qtbot):
    window.files.open_sample()
    qtbot.waitUntil(lambda: bool(window.tabs()))
    view = window.tab.view
    qtbot.waitUntil(lambda: not view.scenes.is_busy)
    window.activateWindow()
    conv = next(node for node in window.workspace.graph.nodes if node.op_type == "Conv")
    left, top, _, _ = view.scene.rect(view.scene.drawing.boxes_for(conv)[0])
    rows = [row.subject for row in view.scene.boxes[view.scene.drawing.boxes_for(conv)[0]].rows]
    down = HEADER + ROWS_PADDING + (rows.index(conv.attributes["pads"]) + 0.5) * ROW
    place = QPointF(*view.viewport.to_widget(left + 30, top + down)).toPoint()
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=place)
    qtbot.mouseDClick(view, Qt.MouseButton.LeftButton, pos=place)
    editor = window.docks.panel("inspector").tree.editor
    assert editor.field.title == "Set pads of /stem/Conv"
    assert editor.text_now() == "1, 1, 1, 1"


@pytest.mark.parametrize("columns", [True, False])
def test_space_shows_the_whole_of_a_long_graph_each_time(show, qtbot, columns):
    view = show(long_chain(120).model())
    view.workspace.settings.set(COLUMNS, columns)
    wait(qtbot, view)
    qtbot.keyClick(view, Qt.Key.Key_Space)
    whole = view.zoom
    for move in (lambda: None, lambda: view.pan_by(0, 500), lambda: view.zoom_to(0.3), lambda: view.zoom_to(1.0)):
        move()
        qtbot.keyClick(view, Qt.Key.Key_Space)
        assert view.zoom == whole
        area, bounds = view.viewport.area, view.scene.bounds
        assert max(area[0] - bounds[0], area[1] - bounds[1], bounds[2] - area[2], bounds[3] - area[3]) <= 0
    assert whole > 0.2 if columns else whole < 0.1


def test_space_shows_a_graph_that_is_readable_whole_at_once(view, qtbot):
    view.zoom_to(3.0)
    qtbot.keyClick(view, Qt.Key.Key_Space)
    assert view.is_fitted
