"""Folders of test data that lack something, or give what need not be given."""

import numpy as np
import pytest
from onnx import numpy_helper

from tests.model import builders
from tests.viewer.run.run_actions import idle, opened, run, value

pytestmark = pytest.mark.long

MODEL = """
<ir_version: 9, opset_import: ["" : 17]>
own (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1.0, 2.0}>
{
    y = Add (x, w)
}
"""
X, W = np.array([1, 2], np.float32), np.array([5, 7], np.float32)
DEFAULT = np.array([1, 2], np.float32)


@pytest.fixture
def folder(tmp_path):
    builders.model_file(tmp_path / "model.onnx", MODEL)
    found = tmp_path / "test_data_set_0"
    found.mkdir()
    return found


def put(folder, **arrays):
    for name, array in arrays.items():
        (folder / f"{name}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())


def problems_of(qtbot, workspace):
    """What is wrong with each output."""
    workspace.trigger("run.test")
    idle(qtbot, workspace)
    return [verdict.problem for verdict in workspace.runs.test_data.verdicts]


def test_a_set_may_give_inputs_that_have_a_default(window, qtbot, folder):
    put(folder, input_0=X, input_1=W, output_0=X + W)
    workspace = opened(window, qtbot, folder.parent / "model.onnx")
    assert problems_of(qtbot, workspace) == [""]
    workspace.runs.inputs.set_data_set(folder)
    run(qtbot, workspace)
    np.testing.assert_array_equal(workspace.results.value_of(value(workspace, "y")), X + W)
    assert problems_of(qtbot, workspace) == [""], "the source of the inputs of runs is another matter"


def test_a_set_that_expects_nothing_does_not_pass(window, qtbot, folder):
    put(folder, input_0=X)
    workspace = opened(window, qtbot, folder.parent / "model.onnx")
    assert problems_of(qtbot, workspace) == ["it has no expected outputs"]
    assert workspace.run_state == "0 of 1 outputs as expected"


def test_no_random_numbers_take_the_place_of_what_a_set_lacks(window, qtbot, folder):
    workspace = opened(window, qtbot, folder.parent / "model.onnx")
    workspace.runs.inputs.set_data_set(folder)
    workspace.trigger("run.run")
    qtbot.waitUntil(lambda: workspace.run_state == "Not run")
    assert workspace.results.current is None
    put(folder, input_0=X)
    run(qtbot, workspace)
    np.testing.assert_array_equal(workspace.results.value_of(value(workspace, "y")), X + DEFAULT)


def test_test_data_waits_for_the_run_that_goes_on(window, qtbot, folder):
    put(folder, input_0=X, output_0=X + DEFAULT)
    workspace = opened(window, qtbot, folder.parent / "model.onnx")
    with workspace.runs.run_session.run_lock.acquired():  # as while a run in this process goes on
        workspace.trigger("run.test")
        qtbot.waitUntil(lambda: any(task.title == "Running test data" for task in workspace.tasks.running))
        assert not workspace.runs.test_data.verdicts
    idle(qtbot, workspace)
    assert workspace.run_state == "1 of 1 outputs as expected"
