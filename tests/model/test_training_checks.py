"""What the checks say of training steps and the variables they update."""

import pytest

from onnx_workbench.model.checks import check_model
from onnx_workbench.model.edits import properties, values
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import InsertNode, SetField, SetGraphInputs
from onnx_workbench.model.ir.graph import Graph, Node, TrainingInfo, Value
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from tests.model import builders


def errors(model):
    return [p for p in check_model(model) if p.severity == "error"]


TRAINED = """
g (float[2] x) => (float[2] y, float[2] kept) <float[2] w = {1, 2}> { y = Add (x, w) kept = Neg (y) }
"""


def test_an_update_may_take_an_output_of_the_main_graph():
    """As the specification says; it was an error, and renaming the output did not follow."""
    document = builders.document(TRAINED)
    model = document.model
    with document.edit("Train") as edit:
        properties.add_training(edit, TrainingInfo(Graph("initialization"), Graph("algorithm")))
        properties.set_bindings(edit, model.training_info[0], update={"w": "kept"})
    assert errors(model) == []
    builders.one_edit(document, values.rename_value, builders.value(document, "kept"), "again")
    assert model.training_info[0].update_binding == (("w", "again"),)
    assert errors(model) == []
    with document.edit("Initialize") as edit, pytest.raises(ModelError, match="No output 'again'"):
        properties.set_bindings(edit, model.training_info[0], initialization={"w": "again"})


def test_two_training_steps_that_update_one_variable_are_found():
    document = builders.document(TRAINED)
    with document.edit("Train twice") as edit:
        for output in ("kept", "y"):
            training = TrainingInfo(Graph("initialization"), Graph("algorithm"))
            properties.add_training(edit, training)
            properties.set_bindings(edit, training, update={"w": output})
    assert [p.message for p in errors(document.model)] == ["Several training steps update w"]


def test_the_initialization_of_training_takes_nothing():
    graph = Graph("start")
    SetGraphInputs(graph, (Value("given", TensorType(ElementType.FLOAT, Shape(()))),)).apply()
    model = builders.model()
    SetField(model, "training_info", (TrainingInfo(initialization=graph),)).apply()
    assert "training-input" in [p.rule for p in errors(model)]


def test_an_import_that_only_a_training_graph_needs_is_used():
    step = Graph("step")
    InsertNode(step, Node("Adam", (), (Value("v"),), domain="ai.onnx.preview.training")).apply()
    model = builders.model()
    training = TrainingInfo(algorithm=step)
    SetField(model, "training_info", (training,)).apply()
    SetField(model, "opset_imports", {"": 21, "ai.onnx.preview.training": 1}).apply()
    assert "unused-import" not in [p.rule for p in check_model(model)]
    SetField(model, "opset_imports", {"": 21, "ai.onnx.preview.training": 1, "ai.onnx.ml": 3}).apply()
    assert "unused-import" in [p.rule for p in check_model(model)]
