"""What if nodes were in fewer bits, chosen in Compare With…: in functions and bodies too."""

import pytest

from tests.model import builders
from tests.viewer.run.run_actions import compare_with, opened, run

MODEL = """
<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
net (float[3] x, int64[3] k) => (float[3] y, int64[3] z)
{
    [call] a = own.square (x)
    [sum] i = ReduceSum <keepdims = 0> (a)
    [zero] o = Constant <value = float {0}> ()
    [test] c = Greater (i, o)
    [if] y = If (c) <
        then_branch = t () => (float[3] p) { [exp] e = Exp (a)
          [mul] p = Mul (e, a) },
        else_branch = f () => (float[3] q) { q = Identity (a) }
    >
    [whole] z = Identity (k)
}
<domain: "own", opset_import: ["" : 21]>
square (v) => (w) { [cube] h = Mul (v, v)
  [last] w = Add (h, v) }
"""


@pytest.fixture
def workspace(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "bits.onnx", MODEL))
    run(qtbot, workspace)
    return workspace


def choose(qtbot, window, workspace, name, precision="float16"):
    """Select a node, and compare with it in fewer bits; the panel when it is done."""
    found = next(n for graph in workspace.model.graphs() for n in graph.nodes if n.name == name)
    workspace.selection.set([found])
    panel = window.docks.open("compare")
    panel.rows = []
    assert not compare_with(window, f"Values: Selected node in {precision}")
    qtbot.waitUntil(lambda: not workspace.tasks.running)
    return panel


def off(panel):
    return {row.name for row in panel.rows if row.difference.max_abs}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "differ"),
    [("cube", {*"haiepy"}), ("exp", {*"epy"}), ("if", {*"epy"}), ("call", {*"aiepy"})],
)
def test_nodes_in_functions_and_bodies_are_rounded(window, qtbot, workspace, name, differ):
    assert off(choose(qtbot, window, workspace, name)) == differ


@pytest.mark.long
def test_what_has_no_floats_is_refused_with_the_reason(window, qtbot, received, workspace):
    messages = received(workspace.messages.shown)
    assert choose(qtbot, window, workspace, "whole").rows == []
    assert [(m.title, m.detail) for m in messages] == [
        ("Nothing to round", "none of the nodes selected has float weights or outputs")
    ]
