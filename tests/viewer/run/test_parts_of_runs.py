"""What runs gave that did not come to their end comes back with the state of the model it was computed for."""

import pytest

from onnx_workbench.exec.inputs.sources import Constant
from onnx_workbench.viewer.program.settings import RUN_IN_PROCESS
from onnx_workbench.viewer.run.results import results as results_of_runs
from tests.model import builders
from tests.viewer.run.run_actions import edit, idle, make_finite, node, opened, run, value
from tests.viewer.run.test_partial_results import ENDLESS, SLOW, set_turns

pytestmark = pytest.mark.long


@pytest.fixture
def workspace(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    make_finite(workspace)
    return workspace


def run_to(qtbot, workspace, name):
    with qtbot.waitSignal(workspace.results.run_finished):
        workspace.runs.run_to(node(workspace, name))
    idle(qtbot, workspace)


def names_with_values(workspace):
    return {v.name for v in workspace.model.graph.values() if v.initializer is None and workspace.results.has(v)}


def is_reported_missing(window, qtbot, workspace, name):
    """Wait until the Tensor panel says in place of a value that it was not computed."""
    notice = window.docks.open("tensor").pane.notice
    workspace.selection.set([value(workspace, name)])
    qtbot.waitUntil(lambda: notice.text() == "Not computed: the run did not reach it. Press Run (F6).")
    return notice.isVisible()


def test_undo_brings_back_what_a_run_to_a_node_gave(window, qtbot, workspace):
    run_to(qtbot, workspace, "relu")
    part, known = workspace.results.current, names_with_values(workspace)
    edit(workspace, "relu", "alpha", 0.25)
    qtbot.waitUntil(lambda: workspace.results.is_stale(value(workspace, "r")))
    workspace.document.undo()
    assert not workspace.results.stale
    edit(workspace, "relu", "alpha", 0.25)
    run(qtbot, workspace)
    assert workspace.results.has(value(workspace, "y"))
    workspace.document.undo()
    assert workspace.results.current is part
    assert workspace.results.is_current
    assert names_with_values(workspace) == known
    assert workspace.run_state == "Showing values of an earlier run: of some nodes only"
    assert is_reported_missing(window, qtbot, workspace, "y")
    assert not workspace.runs.is_running


def test_a_whole_run_comes_back_rather_than_a_later_part_of_it(qtbot, workspace):
    run(qtbot, workspace)
    whole = workspace.results.current
    run_to(qtbot, workspace, "relu")
    edit(workspace, "relu", "alpha", 0.25)
    workspace.document.undo()
    assert workspace.results.current is whole


def test_live_completes_what_undo_restores_and_compares_it(qtbot, workspace):
    run_to(qtbot, workspace, "relu")
    edit(workspace, "relu", "alpha", 0.25)
    run(qtbot, workspace)
    after = workspace.results.current
    workspace.runs.set_live(True)
    with qtbot.waitSignal(workspace.results.run_finished):
        workspace.document.undo()
    idle(qtbot, workspace)
    assert workspace.results.current.is_complete
    assert workspace.results.has(value(workspace, "y"))
    assert workspace.results.previous is after


def test_parts_do_not_push_out_whole_runs(qtbot, workspace, monkeypatch):
    monkeypatch.setattr(results_of_runs, "_MOST_RECORDS", 2)
    run(qtbot, workspace)
    whole = workspace.results.current
    for alpha in (0.25, 0.125, 0.0625):
        edit(workspace, "relu", "alpha", alpha)
        run_to(qtbot, workspace, "relu")
    assert len(workspace.results.records) == 3
    for _ in range(3):
        workspace.document.undo()
    assert workspace.results.current is whole


@pytest.fixture(params=[True, False], ids=["worker", "thread"])
def slow(request, window, qtbot, tmp_path):
    path = builders.model_file(tmp_path / "slow.onnx", SLOW.replace("TURNS", "10"))
    window.settings.set(RUN_IN_PROCESS, request.param)
    workspace = opened(window, qtbot, path)
    workspace.runs.inputs.set_source("x", Constant([1.0, -2.0, 3.0, -4.0]))
    set_turns(workspace, ENDLESS)
    yield workspace
    workspace.runs.set_live(False)
    workspace.runs.stop()
    idle(qtbot, workspace)


def test_undo_brings_back_what_a_stopped_run_had_computed(window, qtbot, slow):
    slow.trigger("run.run")
    qtbot.waitUntil(lambda: slow.results.has(value(slow, "m")))
    slow.trigger("run.stop")
    idle(qtbot, slow)
    stopped = slow.results.current
    set_turns(slow, 1)
    edit(slow, "leaky", "alpha", 0.25)
    run(qtbot, slow)
    set_turns(slow, ENDLESS)
    slow.document.undo()
    assert slow.results.current is stopped
    qtbot.waitUntil(lambda: shown(slow, "m") == [0.5, -2.0, 1.5, -4.0])
    assert is_reported_missing(window, qtbot, slow, "y")


def test_undo_restores_the_run_that_another_replaced(window, qtbot, slow):
    slow.runs.set_live(True)
    edit(slow, "leaky", "alpha", 0.25)
    slow.trigger("run.run")
    qtbot.waitUntil(lambda: slow.results.has(value(slow, "m")))
    edit(slow, "leaky", "alpha", 0.125)
    qtbot.waitUntil(lambda: len(slow.results.records) == 1)
    qtbot.waitUntil(lambda: shown(slow, "m") == [0.125, -2.0, 0.375, -4.0])
    slow.runs.set_live(False)
    slow.runs.stop()
    idle(qtbot, slow)
    slow.document.undo()
    qtbot.waitUntil(lambda: shown(slow, "m") == [0.25, -2.0, 0.75, -4.0])
    assert not slow.runs.is_running
    assert is_reported_missing(window, qtbot, slow, "y")


def shown(workspace, name):
    """The numbers of a value, once they are here."""
    shown = workspace.results.value_of(value(workspace, name))
    if hasattr(shown, "tolist"):
        return shown.tolist()
    if shown is not None:
        workspace.results.fetch(value(workspace, name))
    return None
