"""Runs that are stopped before they have computed anything, and values on their way from a run."""

import time

import numpy as np
import pytest

from onnx_workbench.exec.inputs.feeds import HeldInput
from onnx_workbench.exec.inputs.recipe import MOST_SENT
from onnx_workbench.exec.inputs.sources import Constant
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.statistics import Summary, describe
from onnx_workbench.viewer.program.settings import RUN_IN_PROCESS
from tests.model import builders
from tests.viewer.run.run_actions import idle, opened, run, value

pytestmark = pytest.mark.long

TINY = """<ir_version: 9, opset_import: ["" : 17]>
tiny (float[ROWS, 1024] x) => (float y) { y = ReduceMax <keepdims = 0> (x) }"""


@pytest.fixture
def workspace(window, qtbot, net):
    window.settings.set(RUN_IN_PROCESS, False)
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    return workspace


def test_a_run_that_is_stopped_before_its_first_node_says_so(qtbot, workspace):
    with workspace.runs.run_session.run_lock.acquired():  # as while another run in this process comes to its end
        workspace.trigger("run.run")
        qtbot.waitUntil(lambda: workspace.run_state == "Running…")
        workspace.trigger("run.stop")
        idle(qtbot, workspace)
    assert workspace.run_state == "Stopped"
    assert not workspace.results.is_running


def test_stopping_while_inputs_are_made_leaves_nothing_running(qtbot, workspace):
    with workspace.runs.run_session.run_lock.acquired():
        workspace.trigger("run.run")
        qtbot.waitUntil(lambda: workspace.run_state == "Running…")
        workspace.runs.inputs.set_source("x", Constant(2.0))
        workspace.trigger("run.run")
        workspace.trigger("run.stop")
    idle(qtbot, workspace)
    assert workspace.run_state == "Stopped"
    assert not workspace.results.is_running
    run(qtbot, workspace)
    assert workspace.results.is_current


def test_a_value_on_its_way_can_be_stopped_and_asked_for_again(window, qtbot, net):
    window.settings.set(RUN_IN_PROCESS, True)
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    results, y = workspace.results, value(workspace, "y")
    result = results.current.result
    result.slots[:] = [MISSING] * len(result.slots)
    bring = result.fetch

    def never(_key, progress):
        while True:
            progress.check()

    result.fetch = never
    assert results.fetch(y)
    next(task for task in workspace.tasks.running if task.title == "Loading a value").cancel()
    qtbot.waitUntil(lambda: "Stopped" in results.problem_of(y))
    assert not results.fetch(y)
    result.fetch = bring
    results.allow_refetch()
    assert results.fetch(y)
    qtbot.waitUntil(lambda: isinstance(results.value_of(y), np.ndarray))


@pytest.fixture
def elsewhere(workspace):
    """A workspace whose values were let go, and take forever to be computed again."""
    result = workspace.results.current.result
    result.slots[:] = [MISSING] * len(result.slots)
    result.summaries = {slot: Summary(describe(np.zeros(1)), None) for slot in range(1, len(result.slots))}

    def never(_key, progress):
        while True:
            progress.check()
            time.sleep(0.001)

    result.fetch = never
    return workspace


def bringing(workspace):
    return [task for task in workspace.tasks.running if task.title == "Loading a value"]


def test_values_are_brought_only_while_they_are_looked_at(window, qtbot, elsewhere):
    tensor = window.docks.open("tensor")

    def select(name):
        elsewhere.selection.set([value(elsewhere, name)])
        qtbot.waitUntil(lambda: tensor.pane.target is not None and tensor.pane.target.value is value(elsewhere, name))

    for name in ("c", "l", "r"):
        select(name)
        qtbot.waitUntil(lambda: len(bringing(elsewhere)) == 1)
    tensor.pin()
    select("m")
    qtbot.waitUntil(lambda: len(bringing(elsewhere)) == 2)
    tensor.unpin(tensor.panes[1])
    qtbot.waitUntil(lambda: len(bringing(elsewhere)) == 1)
    select("c")
    assert tensor.pane.subject.waiting, "it was left, not stopped"
    assert not elsewhere.results.problem_of(value(elsewhere, "c"))


def test_no_run_waits_for_values_that_are_brought(qtbot, elsewhere):
    before = elsewhere.results.current
    for name in ("x", "c", "l", "r", "m", "y"):
        assert elsewhere.results.fetch(value(elsewhere, name))
    with qtbot.waitSignal(elsewhere.results.run_finished):
        elsewhere.trigger("run.fresh")
    assert elsewhere.results.current is not before
    assert len(bringing(elsewhere)) == 6, "of the run before: a user may look at the difference"
    with qtbot.waitSignal(elsewhere.results.run_finished):
        elsewhere.trigger("run.fresh")
    idle(qtbot, elsewhere)


def test_progress_and_stop_are_those_of_the_run_ahead_of_a_value(window, qtbot, elsewhere):
    work = window.status.work
    assert elsewhere.results.fetch(value(elsewhere, "y"))
    qtbot.waitUntil(lambda: work.text.text() == "Loading a value")
    with elsewhere.runs.run_session.run_lock.acquired():
        elsewhere.trigger("run.fresh")
        qtbot.waitUntil(lambda: work.text.text() == "Run")
        work.stop.click()
    qtbot.waitUntil(lambda: elsewhere.run_state == "Stopped")
    qtbot.waitUntil(lambda: work.text.text() == "Loading a value")
    assert len(bringing(elsewhere)) == 1


def test_inputs_of_a_tiny_model_are_made_outside_the_window(window, qtbot, tmp_path):
    rows = MOST_SENT // 4096 + 1
    path = builders.model_file(tmp_path / "tiny.onnx", TINY.replace("ROWS", str(rows)))
    window.settings.set(RUN_IN_PROCESS, True)
    workspace = opened(window, qtbot, path)
    run(qtbot, workspace)
    assert isinstance(workspace.results.current.feeds["x"], HeldInput)
    assert workspace.results.has(value(workspace, "y"))
    workspace.results.fetch(value(workspace, "x"))
    idle(qtbot, workspace)
    assert workspace.results.value_of(value(workspace, "x")).shape == (rows, 1024)
