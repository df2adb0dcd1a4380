"""Runs that are stopped before they have computed anything."""

import pytest

from exec.inputs import Constant
from tests.viewer.runs.driving import idle, opened, run
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
