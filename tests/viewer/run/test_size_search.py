"""Sizes that are offered when a run fails with others."""

import re

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from PySide6.QtWidgets import QPushButton

from tests.viewer.run.run_actions import opened, run, value

pytestmark = pytest.mark.long

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
TWO_SIZES = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[batch, length] x, float[rows] z) => (float[n] y) {
        [fc] a = MatMul (x, w)
        s = Constant <value = int64[2] {1, 7}> ()
        [fold] b = Reshape (z, s)
        [join] c = Concat <axis = 1> (a, b)
        shape = Constant <value = int64[1] {12}> ()
        y = Reshape (c, shape)
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


@pytest.mark.parametrize("text", [MATMUL, IN_BRANCH])
def test_a_size_with_which_the_model_runs_is_offered_and_used(offers, window, qtbot, text):
    workspace, found = offers(text)
    assert [m.title for m in found] == ["The model runs with length = 48"]
    button = next(b for b in window.tabs()[-1].findChildren(QPushButton) if b.text() == "Use and Run")
    with qtbot.waitSignal(workspace.results.run_finished):
        button.click()
    assert workspace.runs.inputs.symbols()["length"] == 48
    assert workspace.results.value_of(value(workspace, "y")).shape == (1, 5)


def test_a_failure_behind_the_first_is_searched_on(offers):
    """Each of the two sizes helps one node alone."""
    _, found = offers(TWO_SIZES)
    assert [m.title for m in found] == ["The model runs with length = 48, rows = 7"]


def test_what_was_tried_is_said_where_no_size_helps(offers):
    (found,) = offers(NO_SIZE)[1]
    assert found.title == "No sizes found with which the model runs"
    assert re.match(r"Tried \d+ choices of sizes for batch\.", found.detail)
    assert not found.choices


def test_nothing_is_said_if_outputs_do_not_need_the_failed_node(offers):
    assert not offers(NO_OUTPUT)[1]
