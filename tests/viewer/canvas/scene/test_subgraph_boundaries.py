"""Values that cross the frame of a body or function: their path goes on, and the way leads to where they are made."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QApplication

from onnx_workbench.model.analysis.subgraph_ports import argument, origin, result
from onnx_workbench.model.ir.graph import Function
from onnx_workbench.viewer.canvas.scene.drawing import Kind
from tests.viewer.canvas.graphs import Graphs
from tests.viewer.canvas.painting import wait
from tests.viewer.pointer import hover

LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier


@pytest.fixture
def looping():
    """x → Relu → r → Loop(body: state_in → Mul(·, r) → state_out) → z → Twice → y."""
    g = Graphs()
    g.input("x", 2)
    g.input("turns")
    g.node("Relu", ["x"], ["r"], name="relu")
    body = Graphs("body", outer=g)
    for name in ("turn", "resume", "state_in"):
        body.input(name)
    body.node("Identity", ["resume"], ["still"])
    body.node("Mul", ["state_in", "r"], ["state_out"], name="mul")
    body.outputs("still", "state_out")
    g.node("Loop", ["turns", "", "r"], ["z"], name="loop", body=body.graph)
    g.node("Twice", ["z"], ["y"], name="call", domain="local")
    g.outputs("y")
    inner = Graphs("Twice")
    inner.input("a")
    inner.node("Add", ["a", "a"], ["b"], name="add")
    inner.outputs("b")
    return g, body, inner, g.model(Function("Twice", "local", body=inner.graph))


def index_of(view, value, kind):
    return next(i for i, box in enumerate(view.scene.boxes) if box.subject is value and box.kind is kind)


def point(view, index):
    left, top, width, height = view.scene.rect(index)
    return QPointF(*view.viewport.to_widget(left + width / 2, top + height / 2)).toPoint()


def open_all(view, qtbot):
    for title in ("Loop", "Twice"):
        view.expansion.expand(next(i for i, box in enumerate(view.scene.boxes) if box.title == title))
        wait(qtbot, view)
    view.fit()


def hovered(view):
    return {view.scene.drawing.values[edge].name for edge in view.marks.edges["hovered"]}


def test_formal_inputs_and_outputs_stand_for_arguments_and_results(looping):
    g, body, inner, _ = looping
    loop, call = (next(n for n in g.graph.nodes if n.name == name) for name in ("loop", "call"))
    assert argument(loop, body.graph, 0) is None, "no one gives the turn"
    assert argument(loop, body.graph, 1) is None, "it was left out"
    assert argument(loop, body.graph, 2) is g.values["r"]
    assert result(loop, body.graph, 0) is None
    assert result(loop, body.graph, 1) is g.values["z"]
    assert result(loop, body.graph, 2) is None, "there is no such output"
    assert argument(call, inner.graph, 0) is g.values["z"]
    assert result(call, inner.graph, 0) is g.values["y"]
    assert origin(body.values["state_in"]) is g.values["r"]
    assert origin(g.values["r"]).name == "relu"
    assert origin(g.values["x"]) is None


def test_hovering_follows_a_value_through_the_frames(show, qtbot, looping):
    _, body, _, model = looping
    view = show(model)
    open_all(view, qtbot)
    pill = index_of(view, body.values["state_in"], Kind.INPUT)
    hover(view, point(view, pill))
    assert hovered(view) == {"state_in", "r"}
    assert pill in view.marks.boxes["hovered"]
    hover(view, point(view, index_of(view, body.values["state_out"], Kind.OUTPUT)))
    assert hovered(view) == {"state_out", "z", "a"}, "out of the loop and into the function"
    view.workspace.selection.set_hover(None)
    assert hovered(view) == set()


def test_a_double_click_on_an_outer_value_goes_to_where_it_is_made(show, qtbot, looping):
    g, body, _, model = looping
    view = show(model)
    view.workspace.navigation.show(body.graph)
    wait(qtbot, view)
    pill = index_of(view, g.values["r"], Kind.OUTER)
    qtbot.mouseClick(view, LEFT, NONE, point(view, pill))
    assert view.workspace.graph is body.graph
    qtbot.mouseDClick(view, LEFT, NONE, point(view, pill))
    QApplication.processEvents()
    wait(qtbot, view)
    assert view.workspace.graph is g.graph
    assert [item.name for item in view.workspace.selection.items] == ["relu"]
    view.workspace.navigation.go_back()
    assert view.workspace.graph is body.graph
