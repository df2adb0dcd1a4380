"""TrainingInfo: initialization and steps with their bindings."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_workbench as ow
from onnx_workbench.model.history.steps import SetInitializer
from tests.model import builders

TRAINING = "ai.onnx.preview.training"
VALUE = helper.make_tensor_value_info


def linear() -> ow.Model:
    """y = x·w with w drawn at first, then moved against the gradient of the squared error."""
    w = numpy_helper.from_array(np.zeros((2, 1), np.float32), "w")
    main = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "main",
        [VALUE("x", TensorProto.FLOAT, ["n", 2])],
        [VALUE("y", TensorProto.FLOAT, ["n", 1])],
        [w],
    )
    start = helper.make_graph(
        [helper.make_node("Constant", [], ["w0"], value=numpy_helper.from_array(np.ones((2, 1), np.float32)))],
        "start",
        [],
        [VALUE("w0", TensorProto.FLOAT, [2, 1])],
    )
    algorithm = helper.make_graph(
        [
            helper.make_node("Sub", ["y", "target"], ["error"]),
            helper.make_node("Mul", ["error", "error"], ["squares"]),
            helper.make_node("ReduceMean", ["squares"], ["loss"], keepdims=0),
            helper.make_node("Gradient", ["w"], ["dw"], domain=TRAINING, xs=["w"], y="loss"),
            helper.make_node("Mul", ["rate", "dw"], ["move"]),
            helper.make_node("Sub", ["w", "move"], ["w_new"]),
            helper.make_node("Add", ["count", "one"], ["count_new"]),
        ],
        "step",
        [VALUE("target", TensorProto.FLOAT, ["n", 1])],
        [VALUE("loss", TensorProto.FLOAT, []), VALUE("w_new", TensorProto.FLOAT, [2, 1]), VALUE("count_new", 7, [])],
        [
            numpy_helper.from_array(np.float32(0.1), "rate"),
            numpy_helper.from_array(np.int64(0), "count"),
            numpy_helper.from_array(np.int64(1), "one"),
        ],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(TRAINING, 1)]
    model = helper.make_model(main, opset_imports=imports, ir_version=8)
    info = model.training_info.add()
    info.initialization.CopyFrom(start)
    info.algorithm.CopyFrom(algorithm)
    for field, pairs in (
        (info.initialization_binding, [("w", "w0")]),
        (info.update_binding, [("w", "w_new"), ("count", "count_new")]),
    ):
        for key, value in pairs:
            field.append(onnx.StringStringEntryProto(key=key, value=value))
    return ow.load(model.SerializeToString())


def test_training_finds_the_weights() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((64, 2)).astype(np.float32)
    target = x @ np.array([[2.0], [-3.0]], np.float32)
    trainer = ow.Trainer(linear())
    trainer.initialize()
    np.testing.assert_array_equal(trainer.parameters["w"], np.ones((2, 1)))
    losses = [float(trainer.step({"x": x, "target": target}).values["loss"]) for _ in range(60)]
    assert losses[0] > 1
    assert losses[-1] < 1e-3
    np.testing.assert_allclose(trainer.parameters["w"], [[2.0], [-3.0]], atol=0.05)
    assert trainer.parameters["count"] == 60


def test_one_step_is_the_gradient() -> None:
    x, target = np.array([[1.0, 2.0]], np.float32), np.array([[3.0]], np.float32)
    trainer = ow.Trainer(linear())
    trainer.step({"x": x, "target": target})
    np.testing.assert_allclose(trainer.parameters["w"], 0.1 * 2 * 3 * x.T, rtol=1e-6)


def test_parameters_stay_when_a_step_fails() -> None:
    trainer = ow.Trainer(linear())
    trainer.initialize()
    result = trainer.step({"x": np.ones((3, 2), np.float32), "target": np.ones((4, 1), np.float32)})
    assert not result.ok
    np.testing.assert_array_equal(trainer.parameters["w"], np.ones((2, 1)))
    assert "count" not in trainer.parameters


def test_a_model_without_training_info_is_refused() -> None:
    with pytest.raises(ow.ModelError, match="0 training infos"):
        ow.Trainer(ow.Model(opset=17))


@pytest.mark.parametrize("index", [-1, 1])
def test_a_training_info_that_does_not_exist_is_refused(index: int) -> None:
    with pytest.raises(ow.ModelError, match="1 training infos"):
        ow.Trainer(linear(), index)


def test_parameters_are_written_as_one_edit_that_can_be_undone() -> None:
    model = linear()
    document = ow.Document(model)
    trainer = ow.Trainer(document)
    data = {"x": np.array([[1.0, 2.0]], np.float32), "target": np.array([[3.0]], np.float32)}
    trainer.step(data)
    before = ow.Session(model).run({"x": data["x"]}).outputs["y"]
    builders.one_edit(document, trainer.write)
    after = ow.Session(model).run({"x": data["x"]}).outputs["y"]
    np.testing.assert_allclose(after, data["x"] @ trainer.parameters["w"])
    np.testing.assert_array_equal(ow.Trainer(model).step(data).values["y"], after)
    document.undo()
    np.testing.assert_array_equal(ow.Session(model).run({"x": data["x"]}).outputs["y"], before)


def test_parameters_of_a_deleted_initializer_are_not_written() -> None:
    model = linear()
    document, trainer = ow.Document(model), ow.Trainer(model)
    trainer.initialize()
    builders.do(document, SetInitializer(model.graph, model.graph.initializers[0], None))
    with pytest.raises(ow.ModelError, match="w was deleted"), document.edit("Train") as edit:
        trainer.write(edit)


def test_an_input_that_does_not_exist_is_named() -> None:
    with pytest.raises(ow.ModelError, match="No such input") as error:
        ow.Trainer(linear()).step({"label": np.zeros(1)})
    assert "target" in error.value.detail
