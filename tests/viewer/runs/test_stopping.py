"""Runs that are stopped before they have computed anything, and values on their way from a run."""

import numpy as np
import pytest

from exec.inputs import Constant
from exec.plan import MISSING
from tests.viewer.runs.driving import idle, opened, run, value
from viewer.settings import RUN_IN_PROCESS


@pytest.fixture
def workspace(window, qtbot, net):
    window.settings.set(RUN_IN_PROCESS, False)
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    return workspace


def test_a_run_that_is_stopped_before_its_first_node_says_so(qtbot, workspace):
    with workspace.runs._turn:  # as while another run in this process comes to its end
        workspace.trigger("run.run")
        qtbot.waitUntil(lambda: workspace.run_state == "Running…", timeout=20_000)
        workspace.trigger("run.stop")
    idle(qtbot, workspace)
    assert workspace.run_state == "Stopped"
    assert not workspace.results.is_running


def test_what_is_stopped_while_its_inputs_are_made_leaves_nothing_running(qtbot, workspace):
    with workspace.runs._turn:
        workspace.trigger("run.run")
        qtbot.waitUntil(lambda: workspace.run_state == "Running…", timeout=20_000)
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
    next(job for job in workspace.jobs.running if job.title == "Bring a value").cancel()
    qtbot.waitUntil(lambda: "stopped" in results.problem_of(y))
    assert not results.fetch(y)
    result.fetch = bring
    results.forget_stops()
    assert results.fetch(y)
    qtbot.waitUntil(lambda: isinstance(results.value_of(y), np.ndarray))
