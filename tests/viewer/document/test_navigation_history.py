"""Back and forward through the places visited, in the window."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper
from PySide6.QtCore import QPoint, Qt

from onnx_workbench.model.history.steps import RemoveNode
from onnx_workbench.viewer.document.navigation_history import NavigationEntry, NavigationHistory
from onnx_workbench.viewer.program.settings import COLUMNS
from tests.viewer.pointer import hover

BACK, FORWARD = Qt.MouseButton.BackButton, Qt.MouseButton.ForwardButton
ALT, NONE = Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.NoModifier


@pytest.fixture
def window(make_window, qtbot, tmp_path):
    """A window with a chain of 120 nodes and an If at its end, at its beginning."""
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in ("v0", "y", "b")]
    body = helper.make_graph([helper.make_node("Neg", ["v120"], ["b"], name="inner")], "body", [], [info[2]])
    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"], name=f"relu_{i}") for i in range(120)]
    nodes.append(helper.make_node("Cast", ["v120"], ["flag"], to=TensorProto.BOOL))
    nodes.append(helper.make_node("If", ["flag"], ["y"], name="branch", then_branch=body, else_branch=body))
    model = helper.make_model(helper.make_graph(nodes, "net", info[:1], info[1:2]), ir_version=9)
    onnx.save(model, tmp_path / "net.onnx")
    window = make_window()
    window.files.open([tmp_path / "net.onnx"])
    qtbot.waitUntil(lambda: window.tab is not None and ready(window))
    window.tab.view.setFocus()
    return window


def ready(window):
    return window.tab.view.scene is not None and not window.tab.view.scenes.is_busy


def node(window, name):
    return next(n for n in window.workspace.model.graph.nodes if n.name == name)


def seen(window):
    """What a user sees: the graph, what is selected, and the part in view."""
    view = window.tab.view
    x, y = view.viewport.to_scene(view.width() / 2, view.height() / 2)
    return window.workspace.graph, window.workspace.selection.items, (round(x), round(y)), round(view.zoom, 3)


def go_back(window, qtbot):
    qtbot.waitUntil(lambda: window.actions_binding.qaction("go.back").isEnabled())
    qtbot.keyClick(window.tab.view, Qt.Key.Key_Left, ALT)


def go_forward(window, qtbot):
    qtbot.waitUntil(lambda: window.actions_binding.qaction("go.forward").isEnabled())
    qtbot.keyClick(window.tab.view, Qt.Key.Key_Right, ALT)


def test_back_and_forward_restore_the_view_and_selection(window, qtbot):
    view = window.tab.view
    beginning = seen(window)
    window.workspace.navigation.reveal(node(window, "relu_60"))
    middle = seen(window)
    window.workspace.navigation.reveal(node(window, "relu_110"))
    end = seen(window)
    assert beginning[2] != middle[2] != end[2]
    go_back(window, qtbot)
    assert seen(window) == middle
    qtbot.mouseClick(view, BACK, NONE, QPoint(50, 50))
    assert seen(window) == beginning
    qtbot.mouseClick(view, FORWARD, NONE, QPoint(50, 50))
    go_forward(window, qtbot)
    assert seen(window) == end
    assert not window.workspace.navigation.history.can_go_forward


def test_back_leads_to_where_panning_and_clicking_had_led(window, qtbot):
    view = window.tab.view
    view.pan_by(0, 700)
    view.zoom_at(1.3, 100, 100)
    window.workspace.selection.set([node(window, "relu_5")])
    assert not window.workspace.navigation.history.can_go_back, "panning, zooming and clicking are no jumps"
    left = seen(window)
    qtbot.keyClick(view, Qt.Key.Key_Space)
    assert view.zoom < left[3]
    go_back(window, qtbot)
    assert seen(window) == left


def test_clicking_and_dragging_the_overview_are_jumps(window, qtbot):
    window.settings.set(COLUMNS, False)
    view, minimap = window.tab.view, window.tab.view.minimap
    qtbot.waitUntil(lambda: not view.scenes.is_busy)
    view.zoom_to(1.0)
    qtbot.waitUntil(minimap.isVisible)
    left = seen(window)
    qtbot.mousePress(minimap, Qt.MouseButton.LeftButton, NONE, QPoint(minimap.width() // 2, 150))
    for y in range(140, 60, -10):
        hover(minimap, QPoint(minimap.width() // 2, y), Qt.MouseButton.LeftButton)
    qtbot.mouseRelease(minimap, Qt.MouseButton.LeftButton, NONE, QPoint(minimap.width() // 2, 60))
    assert seen(window) != left
    go_back(window, qtbot)
    assert seen(window) == left
    assert not window.workspace.navigation.history.can_go_back


@pytest.mark.long
def test_the_way_back_leads_out_of_a_body_to_the_same_spot(window, qtbot):
    branch = node(window, "branch")
    window.workspace.navigation.reveal(branch)
    outside = seen(window)
    window.workspace.navigation.show(branch.bodies[0])
    qtbot.waitUntil(lambda: ready(window))
    go_back(window, qtbot)
    qtbot.waitUntil(lambda: ready(window))
    assert seen(window) == outside
    go_forward(window, qtbot)
    qtbot.waitUntil(lambda: ready(window))
    assert window.workspace.graph is branch.bodies[0]


@pytest.mark.long
def test_a_place_is_found_again_after_an_edit_moved_it(window, qtbot):
    view = window.tab.view
    relu = node(window, "relu_60")
    window.workspace.navigation.reveal(relu)

    def height():
        _, top, _, _ = view.scene.rect(view.scene.drawing.boxes_of(relu)[0])
        return view.viewport.to_widget(0, top)[1]

    before = height()
    window.workspace.navigation.reveal(node(window, "relu_118"))
    with window.workspace.document.edit("Remove") as edit:
        for name in ("relu_0", "relu_1", "relu_2"):
            edit.do(RemoveNode(node(window, name)))
    view.scenes.relayout()
    qtbot.waitUntil(lambda: ready(window))
    go_back(window, qtbot)
    assert window.workspace.selection.items == (relu,)
    assert height() == pytest.approx(before, abs=80)
    assert 0 < height() < view.height()


def test_a_jump_to_where_one_is_already_is_none(window):
    window.workspace.navigation.reveal(node(window, "relu_60"))
    window.workspace.navigation.go_back()
    assert not window.workspace.navigation.history.can_go_back
    window.workspace.navigation.go_forward()
    window.workspace.navigation.reveal(node(window, "relu_60"))
    window.workspace.navigation.go_back()
    assert not window.workspace.navigation.history.can_go_back


def test_only_the_latest_places_are_kept(workspace):
    places = iter(range(10_000))
    visits = NavigationHistory(lambda: NavigationEntry(workspace.graph, (), next(places)))
    for _ in range(300):
        with visits.jump():
            pass
    steps = 0
    while visits.back() is not None:
        steps += 1
    assert 50 < steps <= 200


def test_f12_goes_from_an_outer_value_to_its_producer(window, qtbot):
    inner = next(iter(node(window, "branch").bodies[0].nodes))
    window.workspace.navigation.reveal(inner)
    window.workspace.selection.set([inner.inputs[0]])
    qtbot.waitUntil(lambda: ready(window) and window.actions_binding.qaction("go.origin").isEnabled())
    qtbot.keyClick(window.tab.view, Qt.Key.Key_F12)
    assert window.workspace.selection.items == (node(window, "relu_119"),)
    go_back(window, qtbot)
    assert window.workspace.graph is inner.graph
