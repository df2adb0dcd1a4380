"""Outputs compared with what was expected, and the model that a folder of test data is for."""

import numpy as np
import pytest

from onnx_workbench.exec.inputs.sources import DataSet
from onnx_workbench.exec.inspect.expected_outputs import check_output, check_run, model_in
from onnx_workbench.exec.session import Session
from onnx_workbench.model.errors import ModelError
from tests.model import builders


def test_tolerances_types_and_shapes_decide():
    expected = np.array([1.0, 2.0], np.float32)
    assert check_output("set", "y", expected * np.float32(1.0005), expected).problem == ""
    assert "elements differ" in check_output("set", "y", expected + 1, expected).problem
    assert check_output("set", "y", expected + 1, expected).error == 1.0
    wide = expected * np.float32(0.1)  # 0.2 in float32 is no round number in float64
    assert check_output("set", "y", wide + 1, wide).problem == "2 of 2 elements differ, at [0] got 1.1, expected 0.1"
    near = expected + np.array([1e-6, 1], np.float32)  # the first is close enough
    assert check_output("set", "y", near, expected).problem == "1 of 2 elements differ, at [1] got 3, expected 2"
    wide = check_output("set", "y", np.array([2**60 + 1]), np.array([3]))
    assert wide.problem.endswith(f"got {2**60 + 1}, expected 3")
    assert check_output("set", "y", expected + 1, expected, atol=1.5).problem == ""
    assert check_output("set", "y", expected.astype(np.float64), expected).problem == "float64; expected float32"
    assert check_output("set", "y", expected[:1], expected).problem


def test_every_expected_output_is_judged(tmp_path):
    x = np.ones((2, 4), np.float32)
    session = Session(builders.model())
    result = session.run({"x": x, "unused": np.zeros(4, np.float32)})
    data_set = DataSet("test_data_set_0", {}, {"y": result.value("y"), "other": x})
    verdicts = check_run(result, data_set)
    assert [(v.output, bool(v.problem)) for v in verdicts] == [("y", False), ("other", True)]
    assert verdicts[1].problem == "the model has no such value"


def test_the_model_of_a_folder(tmp_path):
    with pytest.raises(ModelError, match="models in this folder"):
        model_in(tmp_path)
    (tmp_path / "other.onnx").touch()
    assert model_in(tmp_path).name == "other.onnx"
    (tmp_path / "third.onnx").touch()
    with pytest.raises(ModelError, match="models in this folder"):
        model_in(tmp_path)
    (tmp_path / "model.onnx").touch()
    assert model_in(tmp_path).name == "model.onnx"
