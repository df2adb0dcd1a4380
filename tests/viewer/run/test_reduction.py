"""Reducing a model to the failure, from the window."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_workbench.exec.inputs.sources import Constant
from onnx_workbench.viewer.popups.choice_popup import ChoicePopup
from tests.model import builders
from tests.viewer.run.run_actions import opened, run

#: The Log of what Neg gives is NaN.
NAN = """<ir_version: 10, opset_import: ["" : 18]> g (float[2] x) => (float[2] y, float[2] z)
{ a = Exp(x) b = Neg(a) c = Log(b) y = Abs(c) z = Sin(a) }"""


def reduce(window, title):
    window.actions_binding.run("run.reduce")
    popup = window.findChildren(ChoicePopup)[-1]
    assert title in [row.title for row in popup.matching()]
    popup.field.setText(title)
    first = popup.matching()[0]
    popup.close()
    assert first.title == title
    first.run(False)


def opened_with(window, qtbot, tmp_path, text, number):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "net.onnx", text))
    workspace.runs.inputs.set_source("x", Constant(number))
    run(qtbot, workspace)
    return workspace


@pytest.mark.long
def test_the_part_that_makes_nan_opens_with_its_inputs(window, qtbot, tmp_path):
    opened_with(window, qtbot, tmp_path, NAN, 1.0)
    reduce(window, "NaN or infinities of finite inputs")
    qtbot.waitUntil(lambda: len(window.tabs()) == 2)
    part = window.tabs()[-1].workspace
    qtbot.waitUntil(lambda: bool(part.runs.inputs.given))
    assert [node.op_type for node in part.model.graph.nodes] == ["Log"]
    (given,) = part.runs.inputs.given.values()
    np.testing.assert_allclose(given, -np.exp([1.0, 1.0]), rtol=1e-6)
    assert part.messages is not None
    run(qtbot, part)
    assert np.isnan(part.results.current.result.outputs["c"]).all()


@pytest.mark.long
@pytest.mark.parametrize(
    "failure", ["NaN or infinities of finite inputs", "A value that differs from ONNX Runtime", "A node that fails"]
)
def test_a_model_that_does_not_fail_is_not_reduced(window, qtbot, tmp_path, failure):
    if failure.endswith("Runtime"):
        pytest.importorskip("onnxruntime")
    workspace = opened_with(window, qtbot, tmp_path, NAN.replace("Neg(a)", "Abs(a)"), 1.0)
    shown = []
    workspace.messages.shown.connect(lambda message: shown.append(message.title))
    reduce(window, failure)
    qtbot.waitUntil(lambda: "The model does not fail" in shown)
    assert len(window.tabs()) == 1
