"""The profile of a model with a loop: its nodes have rows of their own, and are not counted twice."""

import numpy as np
import pytest

from onnx_workbench.exec.inputs.sources import Constant
from tests.model import builders
from tests.viewer.background_work import wait_for_readers
from tests.viewer.run.run_actions import opened, run

pytestmark = pytest.mark.long

TEXT = """
g (float[2] x, int64 n) => (float[2] y)
{
    t = Constant <value = bool {1}> ()
    [turns] y = Loop (n, t, x) <
        body: graph = b (int64 i, bool c, float[2] a) => (bool k, float[2] r) {
            k = Identity (c)
            [halve] r = Mul (a, half)
        }
    >
    [unused] half = Constant <value_floats = [0.5, 0.5]> ()
}
"""


@pytest.fixture
def loop(tmp_path):
    return builders.model_file(tmp_path / "loop.onnx", TEXT)


def test_nodes_in_a_loop_have_rows_with_their_place_and_turns(window, qtbot, loop):
    workspace = opened(window, qtbot, loop)
    workspace.runs.inputs.set_source("x", Constant([4.0, 8.0]))
    workspace.runs.inputs.set_source("n", Constant(3))
    run(qtbot, workspace)
    np.testing.assert_array_equal(workspace.results.value_of(workspace.model.graph.outputs[0]), [0.5, 1.0])
    profile = window.docks.open("profile")
    wait_for_readers(qtbot)
    rows = {row.cells[0].text: row for row in profile.nodes.source.rows}
    inner = rows["turns › halve"]
    assert inner.target.name == "halve"
    assert inner.cells[-1].text == "ran 3 ×"
    assert 0 < inner.cells[2].number <= rows["turns"].cells[2].number
    assert rows["turns"].cells[5].text == "100.0%"  # all else is constant
    profile.nodes.chosen.emit(inner.target)
    assert workspace.graph is inner.target.graph


CALLS = """
<ir_version: 10, opset_import: ["" : 21, "my" : 1]>
g (float[2] x) => (float[2] y)
{
    a = Relu (x)
    b = Relu (a)
    [call] y = my.Twice (b)
}
<domain: "my", opset_import: ["" : 21]>
Twice (x) => (y)
{
    [inner] y = Add (x, x)
}
"""


def test_unnamed_nodes_and_nodes_of_functions_have_own_rows(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "calls.onnx", CALLS))
    run(qtbot, workspace)
    profile = window.docks.open("profile")
    wait_for_readers(qtbot)
    qtbot.waitUntil(lambda: len(profile.nodes.source.rows) == 4)
    assert {row.cells[0].text for row in profile.nodes.source.rows} == {
        "[Relu] a", "[Relu] b", "call", "my::Twice › inner",
    }  # fmt: skip


def test_nodes_of_a_function_have_what_they_took_in_all_its_calls(window, qtbot, tmp_path):
    twice = CALLS.replace("b = Relu (a)", "b = my.Twice (a)")
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "calls.onnx", twice))
    run(qtbot, workspace)
    assert workspace.run_state.startswith("Ran 3 nodes in")
    profile = window.docks.open("profile")
    wait_for_readers(qtbot)
    qtbot.waitUntil(lambda: len(profile.nodes.source.rows) == 4)
    assert profile.summary.text().startswith("3 nodes")
    (inner,) = [row for row in profile.nodes.source.rows if row.cells[0].text == "my::Twice › inner"]
    took = [row.seconds for row in workspace.results.current.result.nodes if row.title == "inner"]
    assert len(took) == 2
    assert inner.cells[2].number == pytest.approx(sum(took))
    assert inner.cells[-1].text == "ran 2 ×"
    (adds,) = [row for row in profile.operators.source.rows if row.target == "Add"]
    assert adds.cells[2].number == pytest.approx(sum(took))


def test_constants_that_a_run_computes_are_reported_once(window, qtbot, loop):
    workspace = opened(window, qtbot, loop)
    run(qtbot, workspace)
    assert workspace.run_state.startswith("Ran 1 node, folded 2 constants in")
    run(qtbot, workspace, "run.fresh")
    assert workspace.run_state.startswith("Ran 1 node in")
