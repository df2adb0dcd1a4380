"""Values, graphs, functions and the model through the inspector's widgets."""

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from onnx_workbench.model.history.steps import SetField, SetInitializer
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.graph import QuantizationAnnotation
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.model.text.formatting import type_text
from tests.model import builders
from tests.viewer.inspector.inspector_actions import choose, drag, index, press, relu, row, write


def test_a_value_is_renamed_typed_and_made_an_output(qtbot, panel, workspace):
    value = relu(workspace).outputs[0]
    workspace.selection.set([value])
    write(qtbot, panel, "name", text="hidden")
    write(qtbot, panel, "type", text="float[batch,3]")
    assert (value.name, type_text(value.type)) == ("hidden", "float batch×3")
    write(qtbot, panel, "type", text="float[batch,-3]")
    assert "cannot be a dimension" in panel.tree.fields.error_text
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Escape)
    press(qtbot, panel, "role", title="Make it an output")
    assert value in workspace.model.graph.outputs
    press(qtbot, panel, "role", title="Remove from outputs")
    assert value not in workspace.model.graph.outputs
    press(qtbot, panel, "uses", "use 0", title="Go there")
    assert workspace.selection.items == (workspace.model.graph.nodes[1],)


def test_a_user_without_a_name_is_reported_by_what_it_gives(qtbot, panel, workspace):
    user = workspace.model.graph.nodes[1]
    workspace.selection.set([next(v for v in user.inputs if v is not None)])
    assert (row(panel, "uses", "use 0").text, row(panel, "uses", "use 0").style) == (user.name, "normal")
    builders.do(workspace.document, SetField(user, "name", ""))
    named = row(panel, "uses", "use 0")
    assert (named.text, named.style) == (user.outputs[0].name, "muted")


def test_denotations_are_shown_and_outlive_a_new_type(qtbot, panel, workspace):
    value = workspace.model.graph.inputs[0]
    with workspace.document.edit("Denote") as edit:
        shape = Shape((8, 4), ("DATA_BATCH", "DATA_CHANNEL"))
        edit.do(SetField(value, "type", TensorType(ElementType.FLOAT, shape, denotation="IMAGE")))
    workspace.selection.set([value])
    assert row(panel, "denotation").text == "IMAGE · DATA_BATCH, DATA_CHANNEL"
    write(qtbot, panel, "type", text="float16[8, 4]")
    assert value.type == TensorType(ElementType.FLOAT16, shape, denotation="IMAGE")


def test_an_input_of_a_function_is_reported_as_one(qtbot, panel, workspace):
    function = workspace.model.functions[0]
    workspace.selection.set([function])
    write(qtbot, panel, "inputs", "+", text="more")
    assert workspace.document.undo_title == f"Add input to function {function.name}"


def test_a_name_that_is_taken_is_refused(qtbot, panel, workspace):
    value = relu(workspace).outputs[0]
    workspace.selection.set([value])
    write(qtbot, panel, "name", text="x")
    assert "value named x already" in panel.tree.fields.error_text


def test_an_initializer_reports_statistics_and_histogram(qtbot, net):
    panel, workspace, conv, _, _ = net
    workspace.selection.set([conv.inputs[1]])
    assert row(panel, "initializer").text == "float 2×3×2×2 · 96 B"
    qtbot.waitUntil(lambda: panel.tree.rows.find("initializer", "histogram 0").isValid())
    assert row(panel, "initializer", "range").text == "-4 … 19"
    assert row(panel, "initializer", "zeros").text == "1"
    assert sum(row(panel, "initializer", "histogram 0").bars) == 24
    qtbot.waitUntil(lambda: row(panel, "initializer", "values").text.startswith("-4, -3, -2"))  # read apart from those
    panel.grab()


# -- graph, function, model -----------------------------------------------------------------------------------


def test_graph_inputs_are_added_typed_moved_renamed_and_removed(qtbot, panel, workspace):
    graph = workspace.model.graph
    workspace.selection.set([graph])
    write(qtbot, panel, "inputs", "+", text="z: int64[N]")
    assert [v.name for v in graph.inputs] == ["x", "flag", "z"]
    assert type_text(graph.inputs[2].type) == "int64 [N]"
    panel.activate()
    panel.tree.set_current(index(panel, "inputs", "input 2 z"))
    qtbot.keyClick(panel.tree, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert [v.name for v in graph.inputs] == ["x", "z", "flag"]
    write(qtbot, panel, "inputs", "input 1 z", text="zed", column=0)
    write(qtbot, panel, "inputs", "input 1 zed", text="float")
    press(qtbot, panel, "inputs", "input 1 zed", title="Remove input")
    assert [v.name for v in graph.inputs] == ["x", "flag"]


def test_inputs_with_defaults_are_listed_after_the_others(qtbot, panel, workspace):
    graph = workspace.model.graph
    builders.do(workspace.document, SetInitializer(graph, graph.inputs[0], ArrayTensor(np.zeros((1, 3), np.float32))))
    workspace.selection.set([graph])
    section = row(panel, "inputs")
    assert section.text == "1"
    assert [child.key for child in section.rows()] == ["input 1 flag", "default inputs", "+"]
    assert not row(panel, "inputs", "default inputs").expanded
    assert row(panel, "inputs", "default inputs", "input 0 x").note == "has a default"


def test_a_used_input_stays_and_says_why(qtbot, panel, workspace, received):
    messages = received(workspace.messages.shown)
    workspace.selection.set([workspace.model.graph])
    press(qtbot, panel, "inputs", "input 0 x", title="Remove input")
    assert "is used" in messages[0].title
    assert len(workspace.model.graph.inputs) == 2


def test_graph_outputs_are_chosen_among_the_values(qtbot, panel, workspace):
    graph = workspace.model.graph
    workspace.selection.set([graph])
    write(qtbot, panel, "outputs", "+", text="chosen")
    assert [v.name for v in graph.outputs] == ["y", "chosen"]
    write(qtbot, panel, "outputs", "+", text="chosen")
    assert "output already" in panel.tree.fields.error_text


def test_a_functions_signature_and_its_calls(qtbot, panel, workspace):
    function = workspace.model.functions[0]
    call = workspace.model.graph.nodes.last
    workspace.selection.set([function])
    write(qtbot, panel, "inputs", "+", text="bias")
    assert [v.name for v in function.body.inputs] == ["x", "bias"]
    assert len(call.inputs) == 2
    write(qtbot, panel, "name", text="Double")
    assert (function.name, call.op_type) == ("Double", "Double")
    write(qtbot, panel, "attributes", "+", text="alpha = 0.5")
    write(qtbot, panel, "attributes", "+", text="beta")
    assert function.attributes == ("beta",)
    assert function.attribute_defaults == (make_attribute("alpha", 0.5),)
    write(qtbot, panel, "attributes", "attribute alpha", text="2.0")
    assert function.attribute_defaults[0].value == 2.0
    press(qtbot, panel, "attributes", "attribute beta", title="Remove")
    assert function.attributes == ()
    write(qtbot, panel, "opsets", "+", text="ai.onnx = 18")
    assert function.opset_imports[""] == 18


def test_for_the_body_of_a_function_the_function_is_shown(qtbot, panel, workspace):
    function = workspace.model.functions[0]
    workspace.navigation.show(function.body)
    workspace.selection.set([])
    write(qtbot, panel, "doc_string", text="what it does")
    assert function.doc_string == "what it does"


def test_an_input_is_given_a_default(qtbot, panel, workspace):
    value = workspace.model.graph.inputs[0]
    workspace.selection.set([value])
    write(qtbot, panel, "default", text="1, 2")
    assert "leaves dimensions open" in panel.tree.fields.error_text
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Escape)
    write(qtbot, panel, "default", text="float[1,3] = 0.5")
    assert value.initializer.numpy().tolist() == [[0.5, 0.5, 0.5]]
    assert str(value.type) == "float[batch,3]"
    assert workspace.document.undo_title == "Give x a default"


def test_an_entry_of_metadata_is_written_in_two_cells_or_in_one(qtbot, panel, workspace):
    model = workspace.model
    workspace.selection.set([model])
    write(qtbot, panel, "metadata", "+", text="author", column=0)
    write(qtbot, panel, "metadata", "metadata author", text="me")
    write(qtbot, panel, "metadata", "+", text="license = MIT")
    assert {key: model.metadata[key] for key in ("author", "license")} == {"author": "me", "license": "MIT"}


def test_a_models_fields(qtbot, panel, workspace):
    model = workspace.model
    workspace.selection.set([model])
    write(qtbot, panel, "ir_version", text="11")
    write(qtbot, panel, "producer_name", text="me")
    write(qtbot, panel, "model_version", text="-3")
    assert (model.ir_version, model.producer_name, model.model_version) == (11, "me", -3)
    write(qtbot, panel, "ir_version", text="0")
    assert "not an IR version" in panel.tree.fields.error_text
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Escape)
    write(qtbot, panel, "opsets", "opset ", text="17")
    write(qtbot, panel, "opsets", "+", text="com.microsoft")
    assert model.opset_imports == {"": 17, "com.microsoft": 1}
    press(qtbot, panel, "opsets", "opset com.microsoft", title="Remove")
    write(qtbot, panel, "functions", "+", text="mine::New")
    assert model.functions[1].key == ("mine", "New", "")
    press(qtbot, panel, "functions", "function 1", title="Remove")
    assert len(model.functions) == 1
    write(qtbot, panel, "training", "training 0", "update", text="w = y")
    assert "No initializer" in panel.tree.fields.error_text


def test_a_functions_attribute_goes_between_required_and_default(qtbot, panel, workspace):
    function = workspace.model.functions[0]
    call = workspace.model.graph.nodes.last
    workspace.selection.set([function])
    write(qtbot, panel, "attributes", "+", text="beta")
    write(qtbot, panel, "attributes", "attribute beta", text="0.5")
    assert (function.attributes, function.attribute_defaults) == ((), (make_attribute("beta", 0.5),))
    write(qtbot, panel, "attributes", "attribute beta", text="2")
    assert function.attribute_defaults == (make_attribute("beta", 2.0),)
    workspace.selection.set([call])
    write(qtbot, panel, "attributes", "beta", text="3.0")
    workspace.selection.set([function])
    write(qtbot, panel, "attributes", "attribute beta", text="gain", column=0)
    assert call.attributes["gain"].value == 3
    choose(panel, "attributes", "attribute gain", titles=["Make it required"])
    assert (function.attributes, function.attribute_defaults) == (("gain",), ())
    write(qtbot, panel, "attributes", "+", text="gain")
    assert "attribute gain already" in panel.tree.fields.error_text


@pytest.mark.long
def test_inputs_and_outputs_are_dragged_to_another_place(qtbot, panel, workspace):
    graph = workspace.model.graph
    workspace.selection.set([graph])
    for text in ("a", "b"):
        write(qtbot, panel, "inputs", "+", text=text)

    def names():
        return [v.name for v in graph.inputs]

    drag(qtbot, panel, ("inputs", "input 3 b"), ("inputs", "input 0 x"))
    assert names() == ["b", "x", "flag", "a"]
    drag(qtbot, panel, ("inputs", "input 0 b"), ("inputs", "input 2 flag"), below=True)
    assert names() == ["x", "flag", "b", "a"]
    drag(qtbot, panel, ("inputs", "input 0 x"), ("inputs", "+"), below=True)
    assert names() == ["flag", "b", "a", "x"]
    before = workspace.document.current
    drag(qtbot, panel, ("inputs", "input 0 flag"), ("inputs", "input 0 flag"), below=True)
    drag(qtbot, panel, ("inputs", "input 0 flag"), ("inputs", "input 3 x"), below=True, escape=True)
    assert workspace.document.current is before
    workspace.document.undo()
    assert names() == ["x", "flag", "b", "a"]
    write(qtbot, panel, "outputs", "+", text="chosen")
    drag(qtbot, panel, ("outputs", "output 1 chosen"), ("outputs", "output 0 y"))
    assert [v.name for v in graph.outputs] == ["chosen", "y"]


def test_a_functions_inputs_are_dragged_and_its_calls_follow(qtbot, panel, workspace):
    function, call = workspace.model.functions[0], workspace.model.graph.nodes.last
    passed = call.inputs[0]
    workspace.selection.set([function])
    write(qtbot, panel, "inputs", "+", text="bias")
    drag(qtbot, panel, ("inputs", "input 1 bias"), ("inputs", "input 0 x"))
    assert [v.name for v in function.body.inputs] == ["bias", "x"]
    assert call.inputs == (None, passed)


def test_initializers_are_added_renamed_and_removed(qtbot, panel, workspace):
    graph = workspace.model.graph
    workspace.selection.set([graph])
    panel.tree.expand(panel.tree.rows.find("initializers").siblingAtColumn(0))
    write(qtbot, panel, "initializers", "+", text="bias: float16[2,2] = 0.5")
    assert type_text(workspace.types.type_of(graph.initializers[0])) == "float16 2×2"
    write(qtbot, panel, "initializers", "+", text="x = 1")
    assert "A value named x already exists" in panel.tree.fields.error_text
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Escape)
    write(qtbot, panel, "initializers", "+", text="y2: float[N]")
    assert "leaves dimensions open" in panel.tree.fields.error_text
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Escape)
    write(qtbot, panel, "initializers", "initializer 0", text="offset", column=0)
    assert graph.initializers[0].name == "offset"
    press(qtbot, panel, "initializers", "initializer 0", title="Remove initializer")
    assert graph.initializers == []


def test_the_graphs_of_a_training_step_come_and_go(qtbot, panel, workspace):
    training = workspace.model.training_info[0]
    workspace.selection.set([workspace.model])
    of = ("training", "training 0")
    press(qtbot, panel, *of, "graph Initialization", title="Add initialization graph")
    assert training.initialization.model is workspace.model
    workspace.navigation.show(training.algorithm)
    workspace.selection.set([workspace.model])
    press(qtbot, panel, *of, "graph Algorithm", title="Remove")
    assert training.algorithm is None
    assert workspace.graph is workspace.model.graph
    workspace.document.undo()
    assert training.algorithm is not None


def test_the_keyboard_stays_with_a_row_that_is_moved_or_renamed(qtbot, panel, workspace):
    graph = workspace.model.graph
    workspace.selection.set([graph])
    for text in ("a", "b"):
        write(qtbot, panel, "inputs", "+", text=text)
    panel.activate()
    panel.tree.set_current(index(panel, "inputs", "input 3 b"))
    for _ in range(3):
        qtbot.keyClick(panel.tree, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert [v.name for v in graph.inputs] == ["b", "x", "flag", "a"]
    press(qtbot, panel, "inputs", "input 0 b", title="Move down")
    assert panel.tree.rows.path(panel.tree.currentIndex()) == ("inputs", "input 1 b")
    write(qtbot, panel, "inputs", "input 1 b", text="bee", column=0)
    assert panel.tree.rows.path(panel.tree.currentIndex()) == ("inputs", "input 1 bee")
    drag(qtbot, panel, ("inputs", "input 1 bee"), ("inputs", "input 3 a"), below=True)
    assert panel.tree.rows.path(panel.tree.currentIndex()) == ("inputs", "input 3 bee")
    press(qtbot, panel, "inputs", "input 3 bee", title="Remove input")
    assert panel.tree.rows.path(panel.tree.currentIndex()) == ("inputs", "+")


def test_the_inputs_lead_to_the_batch_dimension(panel, workspace, received):
    asked = received(workspace.action_requested)
    workspace.selection.set([workspace.model.graph])
    choose(panel, "inputs", titles=["Set batch dimension…"])
    assert asked == ["graph.batch"]


def test_quantization_annotations_are_shown_and_lead_to_the_message(qtbot, panel, workspace, received):
    graph, value = workspace.model.graph, relu(workspace).outputs[0]
    scale = graph.inputs[0]
    with workspace.document.edit("Annotate") as edit:
        annotation = QuantizationAnnotation(value, (("SCALE_TENSOR", scale),))
        edit.do(SetField(graph, "quantization_annotations", (annotation,)))
    asked = received(workspace.action_requested)
    workspace.selection.set([graph])
    assert row(panel, "quantization", "annotation 0").text == "SCALE_TENSOR = x"
    choose(panel, "quantization", titles=["Edit Message…"])
    assert asked == ["edit.message"]
    workspace.selection.set([value])
    assert row(panel, "quantization", "parameter SCALE_TENSOR").text == "x"
    press(qtbot, panel, "quantization", "parameter SCALE_TENSOR", title="Go there")
    assert workspace.selection.items == (scale,)


def test_types_are_short_and_copied_as_they_are(qtbot, panel, workspace):
    value = workspace.model.graph.inputs[0]
    dims = "p2o.DynamicDimension.0", "p2o.DynamicDimension.1"
    builders.do(workspace.document, SetField(value, "type", TensorType(ElementType.FLOAT, Shape(dims))))
    workspace.selection.set([value])
    assert row(panel, "type").text == "float Dimension.0×Dimension.1"
    panel.tree.setCurrentIndex(index(panel, "type"))
    qtbot.keyClick(panel.tree, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QApplication.clipboard().text() == "float[p2o.DynamicDimension.0,p2o.DynamicDimension.1]"
    workspace.selection.set([workspace.model.graph])
    shown = row(panel, "inputs", f"input 0 {value.name}")
    assert shown.text == "float Dimension.0×Dimension.1"
    assert shown.whole == "float p2o.DynamicDimension.0×p2o.DynamicDimension.1"
