"""Choosing by its name what feeds an input, in a graph too large to list every value."""

import pytest
from PySide6.QtCore import Qt

from onnx_workbench.model.history.steps import InsertNode, SetGraphInputs, SetGraphOutputs
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.viewer.popups.choice_popup import Choice
from onnx_workbench.viewer.popups.connect import choose_input, choose_value


def chain(count):
    graph = Graph("large")
    value = Value("x", TensorType(ElementType.FLOAT, Shape((2,))), graph)
    SetGraphInputs(graph, (value,)).apply()
    for number in range(count):
        node = Node("Relu", (value,), (Value(f"v{number}"),), name=f"n{number}")
        InsertNode(graph, node).apply()
        value = node.outputs[0]
    SetGraphOutputs(graph, (value,)).apply()
    return Model(graph, opset=21)


def titles(choices: list[Choice]) -> list[str]:
    return [choice.title for choice in choices]


@pytest.mark.long
def test_near_values_are_listed_and_far_ones_found_by_name(desk):
    desk.open(chain(2500))
    node = desk.node("n2000")
    popup = choose_value(desk.window, desk.workspace, node, 0)
    assert titles(popup.matching())[:3] == ["v1998", "v1997", "v1996"]
    assert "x" in [choice.title for choice in popup._choices]
    later = next(choice for choice in popup._choices if choice.title == "v2001")
    assert "cycle" in later.reason
    assert "v17" not in titles(popup.matching())
    desk.qtbot.keyClicks(popup.field, "v17")
    assert "v17" in titles(popup.matching())
    popup.field.clear()
    desk.qtbot.keyClicks(popup.field, "v1000")
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    assert node.inputs[0].name == "v1000"


@pytest.mark.long
def test_far_ones_that_would_be_a_cycle_say_so(desk):
    desk.open(chain(2500))
    popup = choose_value(desk.window, desk.workspace, desk.node("n10"), 0)
    desk.qtbot.keyClicks(popup.field, "v2400")
    (found,) = [choice for choice in popup.matching() if choice.title == "v2400"]
    assert "cycle" in found.reason
    popup.close()


def test_a_new_constant_is_written_where_a_value_is_chosen(desk):
    desk.open(chain(2))
    node = desk.node("n1")
    popup = choose_value(desk.window, desk.workspace, node, 0)
    desk.qtbot.keyClicks(popup.field, "w: float[2] = 0.5")
    assert popup.matching()[-1].detail == "New constant"
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    assert (node.inputs[0].name, node.inputs[0].initializer.numpy().tolist()) == ("w", [0.5, 0.5])
    desk.run("edit.undo")
    assert node.inputs[0].name == "v0"
    assert not desk.workspace.graph.initializers


def test_inputs_that_are_missing_stand_first(desk):
    desk.open(chain(1))
    node = Node("MatMul", (desk.value("x"), None), (Value("y"),), name="product")
    with desk.document.edit("Add") as edit:
        edit.do(InsertNode(desk.workspace.graph, node))
    popup = choose_input(desk.window, desk.workspace, node)
    assert titles(popup.matching()) == ["B", "A"]
    popup.close()
