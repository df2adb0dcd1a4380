"""Dragging wires: what connects, what is refused and shown, what a drop elsewhere means."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QMenu

from onnx_workbench.viewer.canvas.tools import WireTool
from onnx_workbench.viewer.dialogs.convert import ConvertDialog
from onnx_workbench.viewer.popups.operator_palette import OperatorPalette
from onnx_workbench.viewer.program.settings import DIRECTION
from tests.model import builders
from tests.viewer.pointer import hover

pytestmark = pytest.mark.long

LEFT = Qt.MouseButton.LeftButton
NONE = Qt.KeyboardModifier.NoModifier


def output(desk, node, index=0):
    return desk.point(*dict(desk.view.scene.outputs(desk.box(node)))[index])


def input_(desk, node, index=0):
    return desk.point(*dict(desk.view.scene.inputs(desk.box(node)))[index])


def body(desk, node):
    left, top, width, height = desk.view.scene.rect(desk.box(node))
    return desk.point(left + width / 2, top + height / 2)


def drag(desk, start, end, *, drop=True):
    """Drag; returns what was shown at the end."""
    view = desk.view
    desk.qtbot.mousePress(view, LEFT, NONE, start)
    hover(view, start + QPoint(8, 8), LEFT)
    hover(view, end, LEFT)
    tool = view.input_handler.tool
    assert isinstance(tool, WireTool)
    view.grab()
    shown = tool.target
    if drop:
        desk.qtbot.mouseRelease(view, LEFT, NONE, end)
        desk.settle()
    return shown


@pytest.fixture(params=["down", "right"])
def desk(desk, request):
    desk.window.settings.set(DIRECTION, request.param)
    desk.qtbot.wait(1)
    desk.settle()
    desk.view.zoom_to(0.9)  # all of it fits, and ports can be gripped
    desk.settle()
    return desk


def test_what_is_reported_is_not_below_the_overview(desk):
    overview = desk.view.minimap
    overview.show()
    for corner in ((0, 0), (1, 1)):
        room = desk.view.size() - overview.size()
        overview.move(corner[0] * room.width(), corner[1] * room.height())
        drag(desk, output(desk, desk.node("first")), overview.geometry().center(), drop=False)
        assert not desk.view.input_handler.tool.text_box.intersects(overview.geometry().toRectF())
        desk.view.input_handler.cancel()


def test_what_is_refused_moves_nothing_under_the_pointer(desk):
    desk.view.pan_by(10, 10)
    desk.settle()
    first = desk.view.mapTo(desk.window, body(desk, desk.node("first")))
    drag(desk, output(desk, desk.node("third")), input_(desk, desk.node("first")))
    desk.qtbot.waitUntil(lambda: desk.window.tab.message_bar.height() > 10 and desk.window.tab.message_bar.isVisible())
    desk.settle()
    assert desk.view.mapTo(desk.window, body(desk, desk.node("first"))) == first
    assert desk.window.area.close_message()
    desk.qtbot.waitUntil(lambda: desk.view.mapTo(desk.window, body(desk, desk.node("first"))) == first)


def test_from_an_output_to_an_input(desk):
    shown = drag(desk, output(desk, desk.node("first")), input_(desk, desk.node("fourth")))
    assert shown.text == "Connect to fourth · input"
    assert desk.node("fourth").inputs[0] is desk.value("a")
    assert desk.document.undo_title == "Connect a to fourth"


def test_a_cycle_is_shown_and_refused(desk, texts):
    before = texts()
    shown = drag(desk, output(desk, desk.node("third")), input_(desk, desk.node("second")))
    assert shown.refused
    assert "cycle" in shown.text
    assert desk.messages() == ["That cannot be connected"]
    assert texts() == before


def test_escape_cancels(desk, texts):
    before = texts()
    end = input_(desk, desk.node("fourth"))
    drag(desk, output(desk, desk.node("first")), end, drop=False)
    desk.qtbot.keyClick(desk.view, Qt.Key.Key_Escape)
    desk.qtbot.mouseRelease(desk.view, LEFT, NONE, end)
    assert texts() == before


def test_a_click_on_a_port_selects_the_value(desk):
    desk.qtbot.mouseClick(desk.view, LEFT, NONE, output(desk, desk.node("first")))
    assert desk.workspace.selection.items == (desk.value("a"),)


def test_an_end_moved_to_another_input(desk):
    shown = drag(desk, input_(desk, desk.node("fourth")), input_(desk, desk.node("third")))
    assert shown.refused, "c is what the third node makes"
    drag(desk, input_(desk, desk.node("third")), input_(desk, desk.node("fourth")))
    assert desk.node("fourth").inputs == (desk.value("r"),)
    assert desk.node("third").inputs == (None, desk.value("b"))


def test_an_end_given_another_source(desk):
    shown = drag(desk, input_(desk, desk.node("third")), output(desk, desk.node("first")))
    assert shown.text == "Use a instead"
    assert desk.node("third").inputs == (desk.value("a"), desk.value("b"))


def test_an_end_dropped_in_the_open_is_disconnected(desk):
    shown = drag(desk, input_(desk, desk.node("third")), QPoint(4, desk.view.height() // 2))
    assert shown.text == "Disconnect"
    assert desk.node("third").inputs == (None, desk.value("b"))


def test_from_the_pill_of_an_input(desk):
    box = desk.box(desk.value("x"))
    left, top, width, height = desk.view.scene.rect(box)
    down = desk.view.scenes.options.direction == "down"
    start = desk.point(left + width / 2, top + height - 1) if down else desk.point(left + width - 1, top + height / 2)
    drag(desk, start, input_(desk, desk.node("second")))
    assert desk.node("second").inputs == (desk.value("x"),)


def test_dropped_in_the_open_the_palette_offers_what_fits(desk):
    desk.qtbot.waitUntil(lambda: desk.workspace.types.inferred is not None)
    desk.settle()
    drag(desk, output(desk, desk.node("second")), QPoint(4, desk.view.height() // 2))
    palette = desk.child(OperatorPalette)
    desk.qtbot.keyClicks(palette.field, "Softplus")
    assert palette.matching()[0].title == "Softplus"
    palette.field.setText("BitwiseNot")
    assert [choice.reason for choice in palette.matching()] == ["No input accepts float N×4."]
    palette.field.setText("Tanh")
    desk.qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    node = desk.workspace.selection.nodes[0]
    assert (node.op_type, node.inputs) == ("Tanh", (desk.value("r"),))


def test_dropping_a_newer_operator_adds_it_after_converting(desk):
    desk.open("""<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) {
        [first] a = Relu (x)
        [second] y = Neg (a)
    }""")
    drag(desk, output(desk, desk.node("first")), QPoint(4, desk.view.height() // 2))
    palette = desk.child(OperatorPalette)
    desk.qtbot.keyClicks(palette.field, "Gelu")
    desk.qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    dialog = desk.child(ConvertDialog)
    desk.qtbot.waitUntil(dialog.ok.isEnabled)
    desk.qtbot.mouseClick(dialog.ok, LEFT)
    desk.qtbot.waitUntil(lambda: len(desk.workspace.graph.nodes) == 3)
    node = desk.workspace.selection.nodes[0]
    assert (node.op_type, node.inputs) == ("Gelu", (desk.value("a"),))


VARIADIC = """
g (float[2] x, int64[2] i) => (float[4] y, float[2] z)
{
    [relu] r = Relu (x)
    [join] y = Concat <axis: int = 0> (x, r)
    [clip] z = Clip (x)
}
"""


def test_a_list_grows(desk):
    desk.open(VARIADIC)
    shown = drag(desk, output(desk, desk.node("relu")), body(desk, desk.node("join")))
    assert shown.text == "Connect to join · inputs[2]"
    assert [v.name for v in desk.node("join").inputs] == ["x", "r", "r"]


def test_of_several_free_inputs_one_is_chosen(desk):
    desk.open(VARIADIC)
    drag(desk, output(desk, desk.node("relu")), body(desk, desk.node("clip")))
    menu = desk.child(QMenu)
    assert [action.text() for action in menu.actions()] == ["min", "max"]
    menu.actions()[1].trigger()
    menu.close()
    assert [v and v.name for v in desk.node("clip").inputs] == ["x", None, "r"]


def test_a_wrong_type_is_doubted_but_done(desk):
    desk.open(VARIADIC)
    box = desk.box(desk.value("i"))
    left, top, width, height = desk.view.scene.rect(box)
    down = desk.view.scenes.options.direction == "down"
    start = desk.point(left + width / 2, top + height - 1) if down else desk.point(left + width - 1, top + height / 2)
    desk.qtbot.waitUntil(lambda: desk.workspace.types.inferred is not None)
    desk.settle()
    shown = drag(desk, start, input_(desk, desk.node("clip")), drop=False)
    assert not shown.refused
    desk.qtbot.keyClick(desk.view, Qt.Key.Key_Escape)


def test_onto_an_output(desk):
    desk.open(VARIADIC)
    pill = next(
        n for n, b in enumerate(desk.view.scene.boxes) if b.subject is desk.value("z") and b.kind.name == "OUTPUT"
    )
    left, top, width, height = desk.view.scene.rect(pill)
    drag(desk, output(desk, desk.node("relu")), desk.point(left + width / 2, top + height / 2))
    outputs = desk.workspace.graph.outputs
    assert [v.name for v in outputs] == ["y", "z"]
    assert outputs[1].producer is desk.node("relu")
    desk.run("edit.undo")
    assert desk.workspace.graph.outputs[1].producer is desk.node("clip")


def added(desk):
    """The node that the palette at the end of a wire makes."""
    popup = desk.child(OperatorPalette)
    desk.qtbot.keyClicks(popup.field, "Relu")
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    return desk.workspace.selection.nodes[0]


TURNS = """
turns (int64 n, bool go, float x) => (float y)
{
    y = Loop (n, go, x) <body: graph = body (int64 i, bool on, float a) => (bool more, float b) {
        more = Identity (on)
        [step] b = Neg (a)
        [other] s = Abs (a)
    }>
}
"""


def test_onto_an_output_of_a_body_and_its_ground(desk):
    desk.open(TURNS)
    loop = desk.workspace.graph.nodes.first
    desk.view.expansion.expand(desk.box(loop))
    desk.settle()
    desk.view.fit()
    other = desk.node("other")
    scene, body_graph = desk.view.scene, loop.bodies[0]
    pill = next(n for n, b in enumerate(scene.boxes) if b.subject is desk.value("b") and b.kind.name == "OUTPUT")
    left, top, width, height = scene.rect(pill)
    shown = drag(desk, output(desk, other), desk.point(left + width / 2, top + height / 2))
    assert shown.text == "Return it as b"
    assert body_graph.outputs[1].producer is other
    desk.run("edit.undo")
    desk.settle()
    left, top, _, height = desk.view.scene.rect(desk.box(loop))
    drag(desk, output(desk, other), desk.point(left + 6, top + height - 6))
    assert added(desk).graph is body_graph
    assert desk.workspace.graph is desk.workspace.model.graph


def test_an_outer_value_dropped_in_a_body_feeds_a_node_there(desk):
    desk.open(TURNS.replace("y = Loop (n, go, x)", "[before] c = Neg (x) y = Loop (n, go, c)"))
    loop = desk.workspace.graph.nodes.last
    desk.view.expansion.expand(desk.box(loop))
    desk.settle()
    left, top, _, height = desk.view.scene.rect(desk.box(loop))
    desk.view.centre_on(left, top + height / 3)
    drag(desk, output(desk, desk.node("before")), desk.point(left + 6, top + height - 6))
    assert added(desk).graph is loop.bodies[0]


NESTED = """
turns (int64 n, bool go, float x) => (float y)
{
    y = Loop (n, go, x) <body: graph = body (int64 i, bool on, float a) => (bool more, float b) {
        more = Identity (on)
        [near] c = Exp (a)
        b = If (on) <
            then_branch: graph = yes () => (float t) { [inner] s = Abs (a) [after] t = Neg (s) },
            else_branch: graph = no () => (float e) { e = Neg (a) }
        >
    }>
}
"""


@pytest.mark.parametrize("on_wire", [False, True])
def test_onto_the_ground_of_a_body_in_a_body_also_where_a_wire_runs(desk, on_wire):
    desk.open(NESTED)
    inner = desk.node("inner")
    for owner in (desk.workspace.graph.nodes.last, inner.graph.owner):
        desk.view.expansion.expand(desk.box(owner))
        desk.settle()
    left, top, width, height = desk.view.scene.rect(desk.box(inner))
    desk.view.centre_on(left, top)
    ground = left + width + 4, top + height + 4
    if on_wire:
        (_, start), *_ = desk.view.scene.outputs(desk.box(inner))
        (_, end), *_ = desk.view.scene.inputs(desk.box(desk.node("after")))
        ground = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    assert (desk.view.scene.edge_at(*ground, 2) >= 0) == on_wire
    drag(desk, output(desk, desk.node("near")), desk.point(*ground))
    assert added(desk).graph is inner.graph


def test_into_a_body_but_not_out_of_it(desk):
    desk.open(builders.BRANCHES)
    box = desk.box(desk.node("choose"))
    desk.view.expansion.expand(box)
    desk.settle()
    if not desk.view.scene.drawing.boxes_of(desk.node("inner")):
        pytest.skip("the bodies are not drawn inside")
    shown = drag(desk, output(desk, desk.node("inner")), body(desk, desk.node("double")))
    assert shown.refused
    assert "not visible" in shown.text
