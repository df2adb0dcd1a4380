"""TrainingInfo: initialization and steps with their bindings."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import onnx_workbench as ow
from onnx_workbench.model.history.steps import SetInitializer
from tests.model import builders

TRAINING = "ai.onnx.preview.training"
VALUE = helper.make_tensor_value_info


def linear() -> ow.Model:
    """y = x·w with w drawn at first, then moved against the gradient of the squared error."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "ai.onnx.preview.training" : 1]>
        main (float[n, 2] x) => (float[n, 1] y) <float[2, 1] w = {0, 0}> { y = MatMul (x, w) }
    """)
    info = model.training_info.add()
    info.initialization.CopyFrom(
        onnx.parser.parse_graph("start () => (float[2, 1] w0) { w0 = Constant <value = float[2, 1] {1, 1}> () }")
    )
    info.algorithm.CopyFrom(
        onnx.parser.parse_graph("""
            step (float[n, 1] target) => (float loss, float[2, 1] w_new, int64 count_new)
            <float rate = {0.1}, int64 count = {0}, int64 one = {1}>
            {
                error = Sub (y, target)
                squares = Mul (error, error)
                loss = ReduceMean <keepdims = 0> (squares)
                dw = ai.onnx.preview.training.Gradient <xs = ["w"], y = "loss"> (w)
                move = Mul (rate, dw)
                w_new = Sub (w, move)
                count_new = Add (count, one)
            }
        """)
    )
    info.initialization_binding.add(key="w", value="w0")
    info.update_binding.add(key="w", value="w_new")
    info.update_binding.add(key="count", value="count_new")
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
