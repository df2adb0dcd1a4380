"""A node through the inspector's widgets: what it is, its wires, texts and devices."""

import numpy as np
from PySide6.QtCore import Qt

from onnx_workbench.model.edits import initializers, nodes
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType
from tests.model import builders
from tests.viewer.inspector.inspector_actions import begin, press, relu, row, shown, write


def test_name_domain_and_operator_are_changed(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    write(qtbot, panel, "name", text="first")
    assert node.name == "first"
    write(qtbot, panel, "op_type", text="Elu")
    assert node.op_type == "Elu"
    assert row(panel, "attributes", "alpha").style == "normal"
    write(qtbot, panel, "op_type", text="local::Twice")
    assert (node.domain, node.op_type) == ("local", "Twice")
    assert row(panel, "op_type").note == "function of the model"
    write(qtbot, panel, "op_type", text="Relu")
    assert (node.domain, node.op_type) == ("", "Relu")
    write(qtbot, panel, "op_type", text="my.dom.Foo")
    assert (node.domain, node.op_type) == ("my.dom", "Foo")
    write(qtbot, panel, "op_type", text="two words")
    assert "cannot contain spaces" in panel.tree.fields.error_text


def test_a_taken_name_is_refused(qtbot, panel, workspace):
    workspace.selection.set([relu(workspace)])
    write(qtbot, panel, "name", text="Neg_1")
    assert "already" in panel.tree.fields.error_text
    assert relu(workspace).name == "Relu_0"


def test_operators_are_offered_while_typing(qtbot, panel, workspace):
    workspace.selection.set([relu(workspace)])
    editor = begin(qtbot, panel, "op_type")
    editor.selectAll()
    qtbot.keyClicks(editor, "softm")
    model = editor.completer().model()
    assert [model.index(i, 0).data(Qt.ItemDataRole.EditRole) for i in range(2)] == [
        "Softmax",
        "SoftmaxCrossEntropyLoss",
    ]


def test_inputs_are_connected_and_disconnected(qtbot, net):
    panel, workspace, conv, _, _ = net
    workspace.selection.set([conv])
    assert row(panel, "inputs", "input 2").style == "muted"
    write(qtbot, panel, "inputs", "input 2", text="w")
    assert conv.inputs[2].name == "w"
    press(qtbot, panel, "inputs", "input 2", title="Disconnect")
    assert len(conv.inputs) == 2
    write(qtbot, panel, "inputs", "input 0", text="y")
    assert "cycle" in panel.tree.fields.error_text
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Escape)
    write(qtbot, panel, "inputs", "input 0", text="nothing")
    assert "no value named nothing" in panel.tree.fields.error_text


def test_a_constant_is_written_straight_into_an_input(qtbot, net):
    panel, workspace, conv, _, _ = net
    workspace.selection.set([conv])
    write(qtbot, panel, "inputs", "input 2", text="bias: float[4] = 0.5")
    made = conv.inputs[2]
    assert (made.name, made.initializer.numpy().tolist()) == ("bias", [0.5] * 4)


def test_a_list_of_numbers_becomes_a_constant_of_the_fitting_type(qtbot, net):
    panel, workspace, conv, _, _ = net
    workspace.selection.set([conv])
    write(qtbot, panel, "inputs", "input 2", text="[1, -1]")
    bias = conv.inputs[2]
    assert (bias.name, bias.initializer.element_type) == ("conv_B", ElementType.FLOAT), "as X and W are"
    assert bias.initializer.numpy().tolist() == [1, -1]
    write(qtbot, panel, "inputs", "input 2", text="[[1], [2, 3]]")
    assert "not a list of numbers" in panel.tree.fields.error_text


def test_variadic_inputs_grow_and_shrink(qtbot, net):
    panel, workspace, _, _, concat = net
    workspace.selection.set([concat])
    write(qtbot, panel, "inputs", "+", text="x")
    assert [v.name for v in concat.inputs] == ["x", "c", "x"]
    press(qtbot, panel, "inputs", "input 0", title="Disconnect")
    assert [v.name for v in concat.inputs] == ["c", "x"]


def test_values_are_offered_with_what_fits_first(qtbot, net):
    panel, workspace, conv, _, _ = net
    with workspace.document.edit("Add") as edit:
        initializers.add_initializer(edit, workspace.graph, ArrayTensor(np.zeros(2, np.complex64)), "waves")
    workspace.selection.set([conv])
    editor = begin(qtbot, panel, "inputs", "input 0")
    editor.drop_down()
    model = editor.completer().model()
    offered = [model.index(i, 0) for i in range(model.rowCount())]
    names = [i.data(Qt.ItemDataRole.EditRole) for i in offered]
    assert names[:2] == ["x", "w"]
    assert "cycle" in offered[names.index("y")].data(Qt.ItemDataRole.ToolTipRole)
    for misfit in ("flags", "waves"):
        assert "takes" in offered[names.index(misfit)].data(Qt.ItemDataRole.ToolTipRole)


def test_outputs_are_renamed_added_and_left_out(qtbot, workspace):
    graph = workspace.model.graph
    node = builders.one_edit(workspace.document, nodes.add_node, graph, "TopK")
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])
    write(qtbot, panel, "outputs", "output 0", text="best")
    assert node.outputs[0].name == "best"
    press(qtbot, panel, "outputs", "output 1", title="Omit")
    assert len(node.outputs) == 1
    write(qtbot, panel, "outputs", "output 1", text="where")
    assert [v.name for v in node.outputs] == ["best", "where"]


def test_following_an_input_selects_its_producer(qtbot, panel, workspace):
    neg = workspace.model.graph.nodes[1]
    workspace.selection.set([neg])
    press(qtbot, panel, "inputs", "input 0", title="Go to the producer")
    assert workspace.selection.items == (relu(workspace),)


def test_texts_and_metadata(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    write(qtbot, panel, "doc_string", text="what it is")
    assert node.doc_string == "what it is"
    write(qtbot, panel, "metadata", "+", text="scope = layer 1")
    assert node.metadata == {"scope": "layer 1"}
    write(qtbot, panel, "metadata", "metadata scope", text="place", column=0)
    write(qtbot, panel, "metadata", "metadata place", text="layer 2")
    assert node.metadata == {"place": "layer 2"}
    press(qtbot, panel, "metadata", "metadata place", title="Remove")
    assert not node.metadata
    workspace.document.undo()
    assert node.metadata == {"place": "layer 2"}


def test_bodies_and_training_graphs_are_edited_alike(qtbot, panel, workspace):
    model = workspace.model
    for node in (
        model.graph.nodes[2].bodies[0].nodes.first,
        model.functions[0].body.nodes.first,
        model.training_info[0].algorithm.nodes.first,
    ):
        workspace.selection.set([node])
        write(qtbot, panel, "name", text="renamed")
        assert node.name == "renamed"
        write(qtbot, panel, "attributes", "+", text="free = 1")
        assert node.attributes["free"].value == 1
        workspace.document.undo()
        assert "free" not in node.attributes


def test_bytes_that_are_not_utf8_survive_an_edit(qtbot, panel, workspace):
    node = relu(workspace)
    builders.do(workspace.document, SetField(node, "name", "odd\\\udc80"))
    workspace.selection.set([node])
    editor = begin(qtbot, panel, "name")
    assert editor.text() == "odd\\\\\\x80"
    qtbot.keyClick(editor, Qt.Key.Key_End)
    qtbot.keyClicks(editor, "!")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert node.name == "odd\\\udc80!"
