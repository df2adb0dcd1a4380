"""What runs tell above the graph: one bar that is up to date, none when nothing is wrong any more."""

import pytest
from PySide6.QtWidgets import QLabel

from onnx_workbench.exec.inputs.sources import Constant
from onnx_workbench.model.edits.nodes import change_operator, delete, rename_node
from tests.model import builders
from tests.viewer.run.run_actions import edit, idle, make_bad, make_finite, node, opened, opened_and_run, run, value

pytestmark = pytest.mark.long


@pytest.fixture
def workspace(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    make_finite(workspace)
    return workspace


def bars(workspace):
    return [message.title for message in workspace.parent().message_bar.messages]


def live_run(qtbot, workspace, name, attribute, to):
    with qtbot.waitSignal(workspace.results.run_finished):
        edit(workspace, name, attribute, to)
    idle(qtbot, workspace)


def test_failures_of_live_runs_replace_each_other(qtbot, workspace):
    run(qtbot, workspace)
    workspace.runs.set_live(True)
    live_run(qtbot, workspace, "mean", "axes", [7])
    live_run(qtbot, workspace, "mean", "axes", [8])
    assert bars(workspace) == ["Failed: mean"]
    assert "8" in workspace.parent().message_bar.messages[0].detail
    live_run(qtbot, workspace, "conv", "group", 2)
    assert bars(workspace) == ["Failed: conv"]
    live_run(qtbot, workspace, "conv", "group", 1)
    live_run(qtbot, workspace, "mean", "axes", [2, 3])
    assert bars(workspace) == []


def test_a_closed_failure_is_reported_again_on_request(qtbot, workspace):
    edit(workspace, "mean", "axes", [7])
    run(qtbot, workspace)
    assert "Failed: mean" in bars(workspace)  # beside it stands what a search for sizes came to
    while bars(workspace):
        workspace.parent().message_bar.close_newest()
    run(qtbot, workspace)
    assert "Failed: mean" in bars(workspace)


def test_what_lacks_a_value_that_nothing_defines_is_reported(window, qtbot, workspace):
    run(qtbot, workspace)
    pane = window.docks.open("tensor").pane
    builders.one_edit(workspace.document, delete, [node(workspace, "log")])
    run(qtbot, workspace)
    assert workspace.run_state == "3 nodes not computed: nothing defines 'l'"
    workspace.selection.set([value(workspace, "y")])
    qtbot.waitUntil(lambda: pane.notice.text() == "Not computed, because nothing defines 'l'.")
    workspace.selection.set([value(workspace, "l")])
    qtbot.waitUntil(lambda: pane.notice.text() == "Nothing defines this value.")
    builders.one_edit(workspace.document, rename_node, node(workspace, "fc"), "last")
    workspace.document.undo()
    assert workspace.run_state == "3 nodes not computed: nothing defines 'l'"
    edit(workspace, "relu", "alpha", 0.25)
    run(qtbot, workspace)
    workspace.document.undo()
    back = "Showing values of an earlier run: 3 nodes not computed: nothing defines 'l'"
    qtbot.waitUntil(lambda: workspace.run_state == back)


def test_other_messages_stay(qtbot, workspace):
    workspace.messages.show("warning", "Something else")
    edit(workspace, "mean", "axes", [7])
    run(qtbot, workspace)
    edit(workspace, "mean", "axes", [2, 3])
    run(qtbot, workspace)
    assert bars(workspace) == ["Something else"]


def test_the_first_nonfinite_value_is_reported_once(window, qtbot, workspace):
    make_bad(workspace)
    run(qtbot, workspace)
    assert bars(workspace) == ["NaN in l"]
    message = workspace.parent().message_bar.messages[0]
    assert "[0, 0, 0, 0]" in message.detail
    ((title, show),) = message.choices
    assert title == "Show"
    with qtbot.waitSignal(workspace.results.element_chosen):
        show()
    assert workspace.selection.current.name == "log"
    workspace.parent().message_bar.close_newest()
    workspace.runs.run(fresh=True)
    idle(qtbot, workspace)
    assert bars(workspace) == []


def test_what_was_not_looked_at_is_reported_until_a_search_looks(window, qtbot, tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 17]>
    g (bool c, float[1, 3] x) => (float[1, 3] y, float[1, 3] z) {
      y = If (c) <then_branch = t () => (float[1, 3] e) { e = Neg (x) },
                  else_branch = f () => (float[1, 3] h) { h = Abs (x) }>
      z = Log (x)
    }"""
    workspace = opened_and_run(window, qtbot, builders.model_file(tmp_path / "branches.onnx", text))
    workspace.trigger("run.first_non_finite")
    qtbot.waitUntil(lambda: bars(workspace) == ["Every value is finite"])
    make_bad(workspace)
    run(qtbot, workspace)
    alarm = next(m for m in workspace.parent().message_bar.messages if m.title == "NaN in z")
    assert alarm.detail.startswith("Log: logarithm of -")
    assert alarm.detail.endswith("Every value before it is finite, but values inside bodies were not searched.")


def test_a_value_of_a_node_that_failed_in_a_body_says_why(window, qtbot, tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 17]>
    g (float[1, 3] x) => (float y) {
      c = Constant <value = bool {1}> ()
      y = If (c) <then_branch = t () => (float a) { a = ReduceMax <axes = [7], keepdims = 0> (x) },
                  else_branch = f () => (float b) { b = ReduceMax <keepdims = 0> (x) }>
    }"""
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "branch.onnx", text))
    window.docks.open("tensor")
    run(qtbot, workspace)
    body = next(one for node in workspace.model.graph.nodes for one in node.bodies if one.name == "t")
    workspace.navigation.show(body)
    panel = window.docks.panel("tensor")
    workspace.selection.set([body.outputs[0]])
    qtbot.waitUntil(lambda: "its node failed" in panel.pane.notice.text())


def test_values_that_are_finite_again_take_the_warning_back(qtbot, workspace):
    make_bad(workspace)
    run(qtbot, workspace)
    assert bars(workspace) == ["NaN in l"]
    make_finite(workspace)
    run(qtbot, workspace)
    assert bars(workspace) == []


def test_a_failed_node_is_named_once(qtbot, workspace):
    edit(workspace, "mean", "axes", [7])
    run(qtbot, workspace)
    messages = workspace.parent().message_bar
    label = next(label for label in messages.findChildren(QLabel) if "Failed" in label.text())
    assert label.text().count("mean") == 1
    assert "ReduceMean (opset 17) with r: float[" in label.text()


def test_the_status_says_whether_the_last_run_stands_for_the_model(qtbot, workspace):
    run(qtbot, workspace)
    ran = workspace.run_state
    assert ran.startswith("Ran 5 nodes")
    run(qtbot, workspace)
    assert workspace.run_state == "Nothing changed: 5 nodes kept"
    edit(workspace, "relu", "alpha", 0.25)
    assert workspace.run_state == "Edited since the last run"
    workspace.document.undo()
    assert workspace.run_state == "Nothing changed: 5 nodes kept"
    workspace.runs.inputs.set_source("x", Constant(2.0))
    assert workspace.run_state == "Inputs changed since the last run"


def test_an_undo_in_live_says_that_the_values_of_before_are_back(qtbot, workspace):
    run(qtbot, workspace)
    workspace.runs.set_live(True)
    live_run(qtbot, workspace, "relu", "alpha", 0.25)
    ran = workspace.run_state
    assert ran.startswith("Ran ")
    workspace.document.undo()
    assert workspace.run_state == "Showing values of an earlier run"
    workspace.document.redo()
    assert workspace.run_state == ran


def test_an_undo_in_live_takes_back_the_failure_that_the_edit_made(qtbot, workspace):
    run(qtbot, workspace)
    workspace.runs.set_live(True)
    live_run(qtbot, workspace, "mean", "axes", [7])
    failed = workspace.run_state
    assert "failed" in failed
    workspace.document.undo()
    assert workspace.run_state == "Showing values of an earlier run"
    assert bars(workspace) == []
    workspace.document.redo()
    assert workspace.run_state == failed
    assert bars(workspace) == ["Failed: mean"]


def test_restoring_inputs_in_live_restores_values_without_a_run(qtbot, workspace):
    run(qtbot, workspace)
    workspace.runs.set_live(True)
    with qtbot.waitSignal(workspace.results.run_finished):
        workspace.runs.inputs.set_source("x", Constant(2.0))
    idle(qtbot, workspace)
    make_finite(workspace)
    assert workspace.run_state == "Showing values of an earlier run"
    assert not workspace.runs.is_running


def test_a_graph_without_inputs_is_not_said_to_have_kept_nothing(window, qtbot, tmp_path):
    model = """<ir_version: 9, opset_import: ["" : 17]> g () => (float[2] y) {
      c = Constant <value_floats: floats = [1.0, 2.0]> ()
      y = Neg (c)
    }"""
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "constant.onnx", model))
    run(qtbot, workspace)
    assert workspace.run_state.startswith("2 nodes computed in ")
    assert workspace.run_state.endswith("constant from now on")


def shown_instead(window, qtbot, workspace, name):
    panel = window.docks.panel("tensor")
    thing = value(workspace, name)
    workspace.selection.set([thing])
    qtbot.waitUntil(lambda: panel.pane.target is not None and panel.pane.target.value is thing)
    idle(qtbot, workspace)
    return panel.pane.notice.text()


def test_a_value_that_a_run_could_not_compute_says_why(window, qtbot, workspace):
    window.docks.open("tensor")
    assert "press Run" in shown_instead(window, qtbot, workspace, "m")
    edit(workspace, "mean", "axes", [7])
    run(qtbot, workspace)
    report = shown_instead(window, qtbot, workspace, "m")
    assert "its node failed" in report
    assert "7" in report
    assert "because mean failed" in shown_instead(window, qtbot, workspace, "y")
    assert "press Run" not in report
    edit(workspace, "mean", "axes", [2, 3])
    workspace.runs.run_to(node(workspace, "relu"))
    idle(qtbot, workspace)
    assert shown_instead(window, qtbot, workspace, "y") == "Not computed: the run did not reach it. Press Run (F6)."
    run(qtbot, workspace, "run.step")
    assert "the run waits" in shown_instead(window, qtbot, workspace, "y")


def test_a_value_that_a_run_did_not_keep_says_so(window, qtbot, tmp_path):
    text = """
    <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
    g (float[2] x) => (float[2] y) { z = Neg (x)  y = local.twice (z) }
    <domain: "local", opset_import: ["" : 21]>
    twice (v) => (o) { h = Add (v, v)  o = Relu (h) }
    """
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "f.onnx", text))
    window.docks.open("tensor")
    workspace.runs.run_to(next(iter(workspace.model.functions[0].body.nodes)))
    idle(qtbot, workspace)
    report = shown_instead(window, qtbot, workspace, "z")
    assert report == "Computed, but not kept: the run kept only what it ran to. Press Run (F6) to keep all values."
    run(qtbot, workspace)
    assert workspace.results.value_of(value(workspace, "z")) is not None


SLOW = """
<ir_version: 9, opset_import: ["" : 17]>
slow (float x) => (float y)
<int64 turns = {1099511627776}>
{
    [first] n = Neg (x)
    [loop] y = Loop (turns, , n) <body = turn (int64 i, bool go, float a) => (bool on, float b) {
        on = Identity (go)
        b = Neg (a)
    }>
}
"""


@pytest.fixture
def slow(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "slow.onnx", SLOW))
    workspace.runs.inputs.set_source("x", Constant(1.0))
    return workspace


def test_a_time_limit_is_reported_while_it_ended_the_last_run(qtbot, slow):
    places = []
    slow.messages.shown.connect(lambda message: places.append(message.place))
    slow.runs.inputs.set_limits(time=0.2)
    run(qtbot, slow)
    assert places == [node(slow, "loop")], "it was at"
    assert slow.run_state == "Ended early: time limit"
    assert not slow.runs.is_paused
    assert bars(slow) == ["The run took longer than its time limit"]
    slow.runs.inputs.set_limits(time=0.0)
    with qtbot.waitSignal(slow.results.run_finished):
        slow.trigger("run.run")
        qtbot.waitUntil(lambda: slow.results.current is not None and slow.results.current.unfinished)
        slow.trigger("run.stop")
    idle(qtbot, slow)
    assert slow.run_state == "Stopped"
    assert bars(slow) == []


def test_a_run_that_waits_names_the_node_it_waits_for(qtbot, workspace):
    run(qtbot, workspace, "run.step")
    assert workspace.run_state == "Paused before 'conv'"
    run(qtbot, workspace, "run.step")
    assert workspace.run_state == "Paused before 'log'"


def test_the_first_nonfinite_node_is_that_of_the_values_shown(qtbot, workspace):
    """Undo and redo bring back what was computed before without a run."""
    run(qtbot, workspace)
    workspace.runs.set_live(True)
    live_run(qtbot, workspace, "conv", "group", 1)
    with qtbot.waitSignal(workspace.results.run_finished), workspace.document.edit("Spoil") as edits:
        change_operator(edits, node(workspace, "relu"), "Log")
    qtbot.waitUntil(lambda: bars(workspace) == ["NaN in r"])
    workspace.document.undo()
    qtbot.waitUntil(lambda: bars(workspace) == [])
    workspace.document.redo()
    qtbot.waitUntil(lambda: bars(workspace) == ["NaN in r"])
