"""Sizes that are offered when a run fails with others."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from PySide6.QtWidgets import QPushButton

from tests.viewer.run.run_actions import opened, run, value

MATMUL = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[batch, length] x) => (float[batch, 5] y) { [fc] y = MatMul (x, w) }
"""
IN_BRANCH = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[batch, length] x) => (float[batch, k] y) {
        c = Constant <value = bool {1}> ()
        f = Abs (x)
        [gate] y = If (c) <
            then_branch = yes () => (float[batch, k] a) { [fc] a = MatMul (f, w) },
            else_branch = no () => (float[batch, k] b) { b = Neg (f) }>
    }
"""
NO_SIZE = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[batch, 3] x) => (float[batch, 5] y) { [fc] y = MatMul (x, w) }
"""
NO_OUTPUT = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[batch, length] x) => (float[batch, length] y) { y = Neg (x) [alone] z = Sigmoid () }
"""


@pytest.fixture
def offers(window, qtbot, tmp_path):
    """Open a model, run it, and return its workspace and the messages about sizes."""

    def of(text):
        model = onnx.parser.parse_model(text)
        model.graph.initializer.append(numpy_helper.from_array(np.ones((48, 5), np.float32), "w"))
        onnx.save(model, tmp_path / "model.onnx")
        workspace = opened(window, qtbot, tmp_path / "model.onnx")
        messages = []
        workspace.messages.shown.connect(messages.append)
        run(qtbot, workspace)
        return workspace, [m for m in messages if m.topic == "sizes"]

    return of


@pytest.mark.long
@pytest.mark.parametrize("text", [MATMUL, IN_BRANCH])
def test_a_size_with_which_the_model_runs_is_offered_and_used(offers, window, qtbot, text):
    workspace, found = offers(text)
    assert [m.title for m in found] == ["The model runs with length = 48"]
    button = next(b for b in window.tabs()[-1].findChildren(QPushButton) if b.text() == "Use and Run")
    with qtbot.waitSignal(workspace.results.run_finished):
        button.click()
    assert workspace.runs.inputs.symbols()["length"] == 48
    assert workspace.results.value_of(value(workspace, "y")).shape == (1, 5)


@pytest.mark.long
@pytest.mark.parametrize("text", [NO_SIZE, NO_OUTPUT])
def test_nothing_is_offered_where_no_size_helps(offers, text):
    _, found = offers(text)
    assert not found
