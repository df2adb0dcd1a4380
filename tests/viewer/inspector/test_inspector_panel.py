"""The inspector shows what is selected, says what is wrong with it, and keeps its place while things change."""

from collections import Counter

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractItemView

from onnx_workbench.model.edits import attributes
from onnx_workbench.model.edits.constants import add_constant
from onnx_workbench.model.edits.properties import set_text
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import InsertNode, SetAttribute, SetField, SetGraphInputs
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.model.text.formatting import type_text
from onnx_workbench.viewer.inspector import nodes as inspector_nodes
from onnx_workbench.viewer.run.workspace import Workspace
from tests.model import builders
from tests.viewer.inspector.inspector_actions import begin, drag, index, press, relu, row, shown, write


def test_it_shows_the_selection_and_the_graph_without_one(panel, workspace):
    assert row(panel, "owner").text == "main graph"
    workspace.selection.set([relu(workspace)])
    assert row(panel, "op_type").text == "Relu"
    assert row(panel, "inputs", "input 0").text == "x"
    assert row(panel, "inputs", "input 0").label == "X"
    assert row(panel, "inputs", "input 0").note == "float batch×3"
    workspace.selection.set([workspace.model])
    assert row(panel, "ir_version").text == "10"
    workspace.selection.clear()
    assert row(panel, "owner").text == "main graph"


def test_the_first_view_reports_what_kind_of_model_it_is(panel, workspace):
    model = workspace.model
    assert row(panel, "model").text.startswith(f"IR {model.ir_version} · opset ")
    builders.one_edit(workspace.document, set_text, model, "producer_name", "pytorch")
    assert row(panel, "producer").text.startswith("pytorch")
    counts = Counter(node.op_type for node in model.graph.nodes)
    assert all(f"{operator} {count}" in row(panel, "operators").text for operator, count in counts.most_common(4))
    builders.one_edit(workspace.document, add_constant, model.graph, "weights: float[30,50]")
    assert row(panel, "initializers").text == "1 · 1,500 elements · 6.00 kB"
    row(panel, "model").actions[0].run()
    assert workspace.selection.items == (model,)


def test_the_way_back_leads_to_what_was_shown(qtbot, panel, workspace):
    workspace.selection.set([relu(workspace)])
    workspace.selection.set([workspace.model])
    qtbot.mouseClick(panel.head.back, Qt.MouseButton.LeftButton)
    assert workspace.selection.items == (relu(workspace),)
    qtbot.mouseClick(panel.head.model, Qt.MouseButton.LeftButton)
    assert workspace.selection.items == (workspace.model,)


def test_defaults_are_greyed_and_missing_ones_named(net):
    panel, workspace, conv, cast, _ = net
    workspace.selection.set([conv])
    group = row(panel, "attributes", "group")
    assert (group.text, group.style, group.note) == ("1", "muted", "default")
    builders.one_edit(workspace.document, attributes.remove_attribute, cast, "to")
    workspace.selection.set([cast])
    assert (row(panel, "attributes", "to").text, row(panel, "attributes", "to").style) == ("required", "error")


def test_element_types_are_shown_and_set_by_name(qtbot, net):
    panel, workspace, _, cast, _ = net
    workspace.selection.set([cast])
    assert row(panel, "attributes", "to").text == "float16"
    write(qtbot, panel, "attributes", "to", text="int8")
    assert cast.attributes["to"].value == ElementType.INT8
    write(qtbot, panel, "attributes", "to", text="7")
    assert row(panel, "attributes", "to").text == "int64"


def test_documentation_is_that_of_the_opset_and_holds_no_html(net):
    panel, workspace, conv, _, _ = net
    workspace.selection.set([conv])
    assert "Conv" in panel.help.title.text()
    assert "convolution" in panel.help.text.toPlainText().lower()
    panel.tree.set_current(index(panel, "attributes", "auto_pad"))
    assert panel.help.title.text().startswith("Conv.auto_pad")


def test_texts_of_files_stay_plain_text(qtbot):
    graph = Graph("<b>g</b>")
    node = Node("<i>Op</i>", name="<img src=x>\u202e", domain="odd")
    InsertNode(graph, node).apply()
    workspace = Workspace(Document(Model(graph, opset=18)), title="hostile")
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])
    assert row(panel, "name").text == "<img src=x>\\u202e"
    assert not panel.tree.rows.find("op_type").data(Qt.ItemDataRole.ToolTipRole)
    workspace.close()


def test_what_is_wrong_is_said_and_fixed(qtbot, panel, workspace):
    workspace.problems.start()
    node = relu(workspace)
    workspace.selection.set([node])
    qtbot.waitUntil(lambda: panel.tree.rows.find("problems").isValid())
    first = panel.tree.rows.row(panel.tree.rows.index(0, 1, panel.tree.rows.find("problems").siblingAtColumn(0)))
    assert first.text == "Relu_0 has an unknown attribute alpha"
    press(qtbot, panel, "problems", first.key, title=first.actions[0].title)
    assert not node.attributes
    qtbot.waitUntil(lambda: not panel.tree.rows.find("problems").isValid())


def test_a_node_reports_what_is_wrong_with_its_weights(qtbot, tmp_path):
    weights = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    weights.raw_data = weights.raw_data[:-4]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [weights],
    )
    path = tmp_path / "short.onnx"
    path.write_bytes(helper.make_model(graph, ir_version=8).SerializeToString())
    workspace = Workspace(Document(load(path), path), title="short")
    panel = shown(qtbot, workspace)
    workspace.problems.start()
    workspace.selection.set([workspace.model.graph.nodes[0]])
    qtbot.waitUntil(lambda: panel.tree.rows.find("problems").isValid())
    first = panel.tree.rows.row(panel.tree.rows.index(0, 1, panel.tree.rows.find("problems").siblingAtColumn(0)))
    assert first.text == "The values of w are not available"
    workspace.close()


def test_remarks_on_a_whole_model_are_left_to_the_problems_panel(qtbot, panel, workspace):
    """That names are not C identifiers holds for nearly every export: each model seemed to have a problem."""
    workspace.problems.start()
    qtbot.waitUntil(lambda: workspace.problems.finished)
    remarked = {problem.place for problem in workspace.problems.all if problem.severity == "info"}
    assert workspace.model in remarked
    for item in (workspace.model, workspace.model.graph):
        workspace.selection.set([item])
        assert not panel.tree.rows.find("problems").isValid()


@pytest.mark.long
def test_ten_thousand_inputs_are_rows_made_when_looked_at(qtbot):
    graph = Graph("wide")
    SetGraphInputs(graph, tuple(Value(f"i{n}") for n in range(10_000))).apply()
    workspace = Workspace(Document(Model(graph, opset=18)), title="wide")
    panel = shown(qtbot, workspace)
    workspace.selection.set([graph])
    assert row(panel, "inputs").text == "10000"
    inputs = panel.tree.rows.find("inputs").siblingAtColumn(0)
    panel.tree.expand(inputs)
    assert panel.tree.rows.rowCount(inputs) == 10_001
    write(qtbot, panel, "inputs", "input 9999 i9999", text="float")
    assert type_text(graph.inputs[-1].type) == "float"
    middle = panel.tree.rows.find("inputs", "input 51 i51")
    panel.tree.scrollTo(middle, QAbstractItemView.ScrollHint.PositionAtCenter)
    drag(qtbot, panel, ("inputs", "input 52 i52"), ("inputs", "input 50 i50"))
    assert [v.name for v in graph.inputs[49:53]] == ["i49", "i52", "i50", "i51"]
    workspace.close()


@pytest.mark.long
def test_only_visible_inputs_of_ten_thousand_are_rebuilt(qtbot, monkeypatch):
    graph = Graph("wide")
    values = tuple(Value(f"i{n}", TensorType(ElementType.FLOAT)) for n in range(10_000))
    SetGraphInputs(graph, values).apply()
    node = Node("Sum", values, (Value("s"),), name="sum")
    InsertNode(graph, node).apply()
    workspace = Workspace(Document(Model(graph, opset=18)), title="wide")
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])
    panel.tree.expand(panel.tree.rows.find("inputs").siblingAtColumn(0))
    panel.grab()
    made = []
    counted = inspector_nodes._input_row
    monkeypatch.setattr(inspector_nodes, "_input_row", lambda *a: made.append(a[2]) or counted(*a))
    write(qtbot, panel, "name", text="total")
    panel.grab()
    assert node.name == "total"
    assert 0 < len(made) < 200
    third = index(panel, "inputs", "input 2").siblingAtColumn(0)
    panel.tree.expand(third)
    write(qtbot, panel, "inputs", "input 2", "type", text="int8")
    assert type_text(values[2].type) == "int8"
    press(qtbot, panel, "inputs", "input 9999", title="Disconnect")
    assert len(node.inputs) == 9999
    assert panel.tree.isExpanded(panel.tree.rows.find("inputs", "input 2").siblingAtColumn(0))
    workspace.close()


@pytest.mark.long
def test_a_megabyte_of_text_is_elided(qtbot, panel, workspace):
    node = relu(workspace)
    with workspace.document.edit("Long") as edit:
        edit.do(SetAttribute(node, "text", make_attribute("text", "x" * 1_000_000)))
        edit.do(SetField(node, "doc_string", "y" * 1_000_000))
    workspace.selection.set([node])
    assert len(row(panel, "attributes", "text").text) <= 300
    assert len(row(panel, "doc_string").text) <= 300
    panel.grab()
    editor = begin(qtbot, panel, "doc_string")
    qtbot.keyClick(editor, Qt.Key.Key_End, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClicks(editor, "z")
    qtbot.keyClick(editor, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert node.doc_string == "y" * 1_000_000 + "z"
