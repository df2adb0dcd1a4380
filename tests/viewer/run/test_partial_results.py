"""What a run has computed is seen in the window while it goes on, and where there is no process to run in."""

import numpy as np
import pytest

from onnx_workbench.exec.inputs.sources import Constant
from onnx_workbench.exec.worker.process import Process
from onnx_workbench.viewer.program.settings import CLOSED_PANELS, RUN_IN_PROCESS
from onnx_workbench.viewer.run.session import run_progress
from tests.model import builders
from tests.viewer.run.run_actions import edit, idle, node, opened, run, value

pytestmark = pytest.mark.long

#: Two quick nodes, a loop of a fraction of a second, a node after it, and a loop whose turns the input `n` counts.
SLOW = """
<ir_version: 9, opset_import: ["" : 17]>
slow (float[4] x, int64 n) => (float[4] y)
{
    [neg] a = Neg (x)
    [leaky] q = LeakyRelu <alpha: float = 0.5> (a)
    yes = Constant <value = bool {1}> ()
    some = Constant <value = int64 {TURNS}> ()
    [first] b = Loop (some, yes, q) <body: graph = first (int64 i, bool c, float[4] v) => (bool d, float[4] w)
        { d = Identity (c)  w = Identity (v) }>
    [between] m = Neg (b)
    [second] y = Loop (n, yes, m) <body: graph = second (int64 i2, bool c2, float[4] v2) => (bool d2, float[4] w2)
        { d2 = Identity (c2)  w2 = Identity (v2) }>
}
"""
ENDLESS = 1 << 50
#: Turns of the second loop, for a run that is to end by itself but not before a part of it was seen.
MORE_AND_MORE = [1] + [20_000 << n for n in range(0, 40, 2)]


@pytest.fixture
def slow(tmp_path):
    return builders.model_file(tmp_path / "slow.onnx", SLOW.replace("TURNS", "50000"))


@pytest.fixture(params=[True, False], ids=["worker", "thread"])
def workspace(request, window, qtbot, slow):
    window.settings.set(RUN_IN_PROCESS, request.param)
    workspace = opened(window, qtbot, slow)
    workspace.runs.inputs.set_source("x", Constant([1.0, -2.0, 3.0, -4.0]))
    set_turns(workspace, ENDLESS)
    yield workspace
    workspace.runs.stop()
    idle(qtbot, workspace)


def set_turns(workspace, count):
    workspace.runs.inputs.set_source("n", Constant(count))


def pane(window):
    return window.docks.open("tensor").pane


def shown(window):
    """What the Tensor panel says: its notice, or the numbers of the table."""
    one = pane(window)
    if one.stack.currentWidget() is one.notice:
        return one.notice.text()
    reader = one.reader
    if reader is None or one.subject.waiting:  # what was shown before stays for a moment
        return None
    return list(np.asarray(one.subject.held))


def select(workspace, name):
    workspace.selection.set([value(workspace, name)])


def test_what_was_quickly_computed_is_lit_while_a_long_node_goes_on(window, qtbot, workspace, monkeypatch):
    """Nothing else finishes that could bring it to light."""
    monkeypatch.setattr(run_progress, "_MOST", 1)
    view = window.tabs()[-1].view
    quick, slow = (
        {box for name in names for box in view.scene.drawing.boxes_of(node(workspace, name))}
        for names in (("neg", "leaky"), ("second",))
    )
    workspace.trigger("run.run")

    def dim():
        return set(view.marks.boxes.get("stale", np.zeros(0)).tolist())

    qtbot.waitUntil(lambda: slow <= dim() and not quick & dim())
    assert workspace.runs.is_running


def test_values_show_during_a_run_as_they_are_computed(window, qtbot, workspace):
    select(workspace, "y")
    workspace.trigger("run.run")
    qtbot.waitUntil(lambda: "Not computed yet" in str(shown(window)))
    select(workspace, "q")
    qtbot.waitUntil(lambda: shown(window) == [-0.5, 2.0, -1.5, 4.0])
    assert "so far" in pane(window).badge.text()
    assert workspace.runs.is_running
    select(workspace, "m")
    qtbot.waitUntil(lambda: shown(window) == [0.5, -2.0, 1.5, -4.0])
    assert workspace.runs.is_running
    select(workspace, "y")
    qtbot.waitUntil(lambda: "Not computed yet" in str(shown(window)))
    assert workspace.results.node_of(node(workspace, "between")).state.name == "DONE"
    workspace.trigger("run.stop")
    idle(qtbot, workspace)
    select(workspace, "m")
    qtbot.waitUntil(lambda: shown(window) == [0.5, -2.0, 1.5, -4.0])
    assert pane(window).badge.text() == ""
    assert not workspace.results.current.unfinished


def see_part(qtbot, workspace):
    """Wait until a part of the run is shown; False when it came to its end before, as on a busy machine it may."""

    def part():
        return workspace.results.current is not None and workspace.results.current.unfinished

    qtbot.waitUntil(lambda: part() or not workspace.runs.is_running)
    return part()


def test_the_end_of_a_run_takes_the_place_of_what_was_seen_before(window, qtbot, workspace):
    select(workspace, "q")
    for turns in MORE_AND_MORE:
        workspace.results.clear()
        set_turns(workspace, turns)
        workspace.trigger("run.run")
        if see_part(qtbot, workspace):
            break
    with qtbot.waitSignal(workspace.results.run_finished):
        pass
    idle(qtbot, workspace)
    assert not workspace.results.current.unfinished
    assert workspace.results.records == (workspace.results.current,)
    assert workspace.results.previous is None
    select(workspace, "y")
    qtbot.waitUntil(lambda: shown(window) == [0.5, -2.0, 1.5, -4.0])


def test_a_run_that_a_newer_one_replaces_is_no_run_to_compare_with(window, qtbot, workspace):
    set_turns(workspace, 1)
    run(qtbot, workspace)
    before = workspace.results.current
    edit(workspace, "leaky", "alpha", 0.25)
    set_turns(workspace, ENDLESS)
    workspace.runs.set_live(True)
    qtbot.waitUntil(lambda: workspace.runs.is_running)
    assert see_part(qtbot, workspace)
    assert workspace.results.previous is before
    set_turns(workspace, 1)
    with qtbot.waitSignal(workspace.results.run_finished):
        edit(workspace, "leaky", "alpha", 0.125)
    idle(qtbot, workspace)
    assert workspace.results.previous is before
    assert len([record for record in workspace.results.records if not record.is_part]) == 2
    select(workspace, "y")
    qtbot.waitUntil(lambda: shown(window) == [0.125, -2.0, 0.375, -4.0])


def test_undoing_during_a_run_keeps_the_values_from_before(window, qtbot, workspace):
    for turns in MORE_AND_MORE:
        set_turns(workspace, turns)
        run(qtbot, workspace)
        before = workspace.results.current
        edit(workspace, "leaky", "alpha", 0.25)
        workspace.trigger("run.run")
        if see_part(qtbot, workspace):
            break
        idle(qtbot, workspace)
        workspace.document.undo()
    with qtbot.waitSignal(workspace.results.run_finished):
        workspace.document.undo()
        assert workspace.results.current is before
    idle(qtbot, workspace)
    assert workspace.results.current is before
    select(workspace, "y")
    qtbot.waitUntil(lambda: shown(window) == [0.5, -2.0, 1.5, -4.0])
    workspace.document.redo()
    qtbot.waitUntil(lambda: shown(window) == [0.25, -2.0, 0.75, -4.0])


def test_values_of_the_last_run_are_not_shown_as_the_current(window, qtbot, workspace):
    set_turns(workspace, 1)
    run(qtbot, workspace)
    select(workspace, "y")
    qtbot.waitUntil(lambda: shown(window) == [0.5, -2.0, 1.5, -4.0])
    set_turns(workspace, ENDLESS)
    workspace.trigger("run.run")
    assert see_part(qtbot, workspace)
    qtbot.waitUntil(lambda: "Not computed yet" in str(shown(window)))


def test_a_run_that_waits_shows_the_rest_while_it_goes_on(window, qtbot, workspace):
    workspace.runs.breakpoints.toggle(node(workspace, "first"))
    run(qtbot, workspace)
    assert workspace.runs.is_paused
    select(workspace, "m")
    finished = []
    workspace.runs.progress.finished.connect(finished.extend)
    workspace.trigger("run.continue")
    qtbot.waitUntil(lambda: shown(window) == [0.5, -2.0, 1.5, -4.0])
    assert workspace.runs.is_running
    qtbot.waitUntil(lambda: [one.name for one in finished] == ["first", "between"])


def test_an_edit_during_the_first_run_makes_what_it_gave_stale(qtbot, workspace):
    workspace.trigger("run.run")
    assert see_part(qtbot, workspace)
    edit(workspace, "leaky", "alpha", 0.25)
    with qtbot.waitSignal(workspace.results.run_finished):
        workspace.trigger("run.stop")
    qtbot.waitUntil(lambda: workspace.results.is_stale(value(workspace, "q")))
    assert not workspace.results.is_stale(value(workspace, "a"))


# -- no process ------------------------------------------------------------------------------------------------


@pytest.fixture
def bars():
    return lambda workspace: [message.title for message in workspace.parent().message_bar.messages]


def test_where_no_process_can_be_started_models_run_in_the_program(window, qtbot, net, monkeypatch, bars):
    def refuse(*_):
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(Process, "__init__", refuse)
    window.settings.set(RUN_IN_PROCESS, True)
    workspace = opened(window, qtbot, net)
    workspace.runs.warm_up()
    run(qtbot, workspace)
    idle(qtbot, workspace)
    assert bars(workspace) == ["This model is run inside the program"]
    detail = workspace.parent().message_bar.messages[0].detail
    assert "Resource temporarily unavailable" in detail
    assert "cannot be stopped" in detail
    assert workspace.results.value_of(value(workspace, "y")).shape == (1, 2)
    assert window.settings.get(RUN_IN_PROCESS)
    workspace.parent().message_bar.close_newest()
    workspace.runs.run_to(node(workspace, "log"))
    idle(qtbot, workspace)
    assert bars(workspace) == []


# -- the panel -------------------------------------------------------------------------------------------------


def test_the_first_run_opens_the_tensor_panel_without_focus(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    window.tab.view.setFocus()
    assert not window.docks.is_open("tensor")
    run(qtbot, workspace)
    assert window.docks.is_open("tensor")
    assert window.tab.view.hasFocus()


def test_a_closed_tensor_panel_stays_closed_in_the_next_window(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    window.actions_binding.run("panel.tensor")
    assert not window.docks.is_open("tensor")
    assert window.settings.get(CLOSED_PANELS) == ("tensor",)
    run(qtbot, workspace, "run.fresh")
    assert not window.docks.is_open("tensor")
    other = type(window)(window.settings)
    qtbot.addWidget(other)
    other.show()
    run(qtbot, opened(other, qtbot, net))
    assert not other.docks.is_open("tensor")
    for tab in other.tabs():
        other.area.remove_tab(tab)


def test_values_of_a_loop_follow_its_turns(qtbot, workspace):
    counter = next(v for g in workspace.model.graphs() for v in g.inputs if v.name == "i2")
    turns = []

    def look():
        found = workspace.results.value_of(counter)
        if isinstance(found, np.ndarray):
            turns.append(int(found))
        elif found is not None:
            workspace.results.fetch(counter)
        return len(set(turns)) > 2

    workspace.runs.run()
    qtbot.waitUntil(look)
    assert turns == sorted(turns)
