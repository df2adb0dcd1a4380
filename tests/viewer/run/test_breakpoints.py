"""Breakpoints on the graph and in the Run panel, by keys, menus and widgets of the real window."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QComboBox, QLineEdit, QScrollArea, QToolButton

from onnx_workbench.exec.engine.breakpoints import Breakpoint
from onnx_workbench.exec.inputs.sources import Constant
from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.viewer.canvas.scene.drawing import HEADER
from onnx_workbench.viewer.style.theme import theme
from tests.model import builders
from tests.viewer.canvas.painting import finish_painting
from tests.viewer.run.run_actions import edit, idle, make_bad, make_finite, node, opened, run, value


@pytest.fixture
def workspace(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    workspace.parent().view.zoom_to(1.0)
    make_finite(workspace)
    return workspace


LOOP = """
<ir_version: 9, opset_import: ["" : 17]>
loops (float[2] x) => (float[2] y)
{
    yes = Constant <value = bool {1}> ()
    three = Constant <value = int64 {3}> ()
    [loop] y = Loop (three, yes, x) <body: graph = turns (int64 i, bool c, float[2] v) => (bool d, float[2] w)
        { d = Identity (c)  [inner] w = Neg (v) }>
}
"""


def marked(workspace, kind):
    """The objects with a mark on the canvas."""
    marks = workspace.parent().view.marks
    boxes = {marks.scene.boxes[box].subject for box in marks.boxes.get(kind, ())}
    return boxes | {marks.scene.drawing.values[edge] for edge in marks.edges.get(kind, ())}


def color_left_of_header(workspace, of):
    """What is painted at the left end of a node's header."""
    view = workspace.parent().view
    view.navigator.reveal(of)
    finish_painting(view)
    left, top, _, _ = view.scene.rect(view.scene.drawing.boxes_of(of)[0])
    x, y = view.viewport.to_widget(left, top + HEADER / 2)
    return view.grab().toImage().pixelColor(round(x), round(y))


def test_f9_puts_a_dot_on_the_node_and_takes_it_away(window, qtbot, workspace):
    relu = node(workspace, "relu")
    workspace.selection.set([relu])
    before = color_left_of_header(workspace, relu)
    window.activateWindow()
    view = workspace.parent().view
    view.setFocus()
    qtbot.waitUntil(lambda: window.actions_binding.qaction("run.breakpoint").isEnabled())
    qtbot.keyClick(view, Qt.Key.Key_F9)
    assert marked(workspace, "breakpoints") == {relu}
    assert color_left_of_header(workspace, relu) == theme().accent
    qtbot.keyClick(view, Qt.Key.Key_F9)
    assert marked(workspace, "breakpoints") == set()
    assert color_left_of_header(workspace, relu) == before


@pytest.mark.long
def test_a_run_cannot_stop_at_a_constant(window, qtbot, real_models):
    workspace = opened(window, qtbot, real_models / "onnx__light_squeezenet" / "model.onnx")
    workspace.selection.set([next(v for v in workspace.model.graph.values() if v.initializer is not None)])
    window.actions_binding.refresh()
    assert not window.actions_binding.qaction("run.breakpoint").isEnabled()
    workspace.selection.set(workspace.runs.inputs.inputs()[:1])
    window.actions_binding.refresh()
    assert window.actions_binding.qaction("run.breakpoint").isEnabled()


@pytest.mark.long
def test_the_context_menu_of_an_edge_sets_a_breakpoint_on_its_value(window, workspace):
    workspace.selection.set([value(workspace, "l")])
    menu = window.actions_binding.context_menu("value", window)
    next(action for action in menu.actions() if action.objectName() == "run.breakpoint").trigger()
    assert workspace.runs.breakpoints.all == (Breakpoint(value=value(workspace, "l")),)
    assert value(workspace, "l") in marked(workspace, "breakpoints")


@pytest.mark.long
def test_the_node_that_comes_next_is_pointed_at_while_a_run_waits(qtbot, workspace):
    workspace.runs.breakpoints.set([Breakpoint(node=node(workspace, "relu"))])
    run(qtbot, workspace)
    assert marked(workspace, "next") == {node(workspace, "relu")}
    run(qtbot, workspace, "run.continue")
    assert marked(workspace, "next") == set()


@pytest.mark.long
def test_a_value_can_stop_a_run_on_a_condition_only(window, qtbot, workspace):
    log = value(workspace, "l")
    workspace.runs.breakpoints.toggle(log)
    panel = window.docks.open("run")
    when = panel.breakpoints.findChild(QComboBox)
    when.setCurrentIndex(when.findData("non-finite"))
    when.activated.emit(when.currentIndex())
    assert workspace.runs.breakpoints.all == (Breakpoint(value=log, condition="non-finite"),)
    assert log in marked(workspace, "conditions")
    run(qtbot, workspace)
    assert not workspace.runs.is_paused
    make_bad(workspace)
    run(qtbot, workspace)
    assert workspace.runs.is_paused
    remove = next(b for b in panel.breakpoints.findChildren(QToolButton) if b.toolTip().startswith("Remove"))
    remove.click()
    assert workspace.runs.breakpoints.all == ()
    assert marked(workspace, "conditions") == set()
    workspace.runs.stop()
    idle(qtbot, workspace)


@pytest.mark.long
def test_a_breakpoint_that_is_not_ticked_is_kept_but_stops_nothing(window, qtbot, workspace):
    relu = node(workspace, "relu")
    workspace.runs.breakpoints.toggle(relu)
    panel = window.docks.open("run").breakpoints

    def tick():
        return next(box for box in panel.findChildren(QCheckBox) if box.accessibleName() == "Stop before relu")

    qtbot.waitUntil(lambda: tick().isVisible())
    box = tick()
    box.click()
    assert tick() is box, "the focus stays in it"
    assert marked(workspace, "breakpoints") == set()
    run(qtbot, workspace)
    assert not workspace.runs.is_paused
    assert workspace.runs.breakpoints.all == (Breakpoint(node=relu),)
    box.click()
    assert marked(workspace, "breakpoints") == {relu}
    run(qtbot, workspace)
    assert workspace.runs.paused_at is relu
    workspace.runs.stop()
    idle(qtbot, workspace)


def test_a_breakpoint_set_anew_stops_whatever_the_one_before_did(qtbot, workspace):
    breakpoints, log = workspace.runs.breakpoints, value(workspace, "l")
    breakpoints.toggle(log)
    breakpoints.set_disabled(breakpoints.all[0], on=True)
    breakpoints.toggle(log)
    breakpoints.toggle(log)
    assert breakpoints.enabled == breakpoints.all == (Breakpoint(value=log),)


@pytest.mark.long
def test_a_failure_stays_marked_while_problems_are_looked_for(qtbot, workspace):
    edit(workspace, "mean", "axes", [7])
    run(qtbot, workspace)
    assert node(workspace, "mean") in marked(workspace, "failures")
    workspace.problems.changed.emit()
    assert node(workspace, "mean") in marked(workspace, "failures")


@pytest.mark.long
def test_a_breakpoint_inside_a_body_is_set_and_shown(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "loop.onnx", LOOP))
    loop = node(workspace, "loop")
    (body,) = loop.bodies
    workspace.navigation.show(body)
    qtbot.waitUntil(lambda: workspace.graph is body and not workspace.parent().view.scenes.is_busy)
    inner = next(n for n in body.nodes if n.op_type == "Neg")
    workspace.selection.set([inner])
    workspace.trigger("run.breakpoint")
    assert workspace.runs.breakpoints.all == (Breakpoint(node=inner),)
    assert marked(workspace, "breakpoints") == {inner}
    rows = [button.text() for button in window.docks.open("run").breakpoints.findChildren(QToolButton)]
    assert "before inner" in rows
    workspace.runs.inputs.set_source("x", Constant(1.0))
    workspace.navigation.show(workspace.model.graph)
    run(qtbot, workspace)
    seen = []
    while workspace.runs.is_paused:
        assert workspace.run_state == f"Paused in 'loop', iteration {len(seen)}, before 'inner'"
        assert workspace.selection.current is inner
        seen.append(inner)
        run(qtbot, workspace, "run.continue")
    assert len(seen) == 3
    assert workspace.results.is_current


@pytest.mark.long
def test_a_step_out_leaves_the_loop(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "loop.onnx", LOOP))
    (body,) = node(workspace, "loop").bodies
    workspace.runs.breakpoints.toggle(next(n for n in body.nodes if n.op_type == "Neg"))
    workspace.runs.inputs.set_source("x", Constant(1.0))
    run(qtbot, workspace)
    assert workspace.runs.is_paused
    run(qtbot, workspace, "run.step_out")
    assert "in 'loop'" not in workspace.run_state
    assert workspace.results.value_of(node(workspace, "loop").outputs[0]) is not None


@pytest.mark.long
def test_a_breakpoint_inside_a_loop_stops_in_the_chosen_iteration(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "loop.onnx", LOOP))
    (body,) = node(workspace, "loop").bodies
    inner = next(n for n in body.nodes if n.op_type == "Neg")
    workspace.runs.breakpoints.toggle(inner)
    section = window.docks.open("run").breakpoints
    when = next(box for box in section.findChildren(QComboBox) if box.accessibleName() == "When to stop before inner")
    assert [when.itemText(i) for i in range(when.count())] == ["always", "in iteration"]
    when.setCurrentIndex(1)
    when.activated.emit(1)
    edits = section.findChildren(QLineEdit)
    number = next(edit for edit in edits if edit.accessibleName() == "Iteration in which to stop at inner")
    number.setText("1")
    number.editingFinished.emit()
    assert workspace.runs.breakpoints.all == (Breakpoint(node=inner, condition="iteration", limit=1.0),)
    workspace.runs.inputs.set_source("x", Constant(1.0))
    run(qtbot, workspace)
    assert workspace.run_state == "Paused in 'loop', iteration 1, before 'inner'"
    run(qtbot, workspace, "run.continue")
    assert not workspace.runs.is_paused


@pytest.mark.long
def test_steps_inside_a_body_point_at_each_node(qtbot, window, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "loop.onnx", LOOP))
    loop = node(workspace, "loop")
    (body,) = loop.bodies
    identity, negate = body.nodes
    workspace.runs.breakpoints.set([Breakpoint(node=negate), Breakpoint(node=identity)])
    workspace.runs.inputs.set_source("x", Constant(1.0))
    run(qtbot, workspace)
    workspace.runs.breakpoints.set([])
    for waits_at in (identity, negate, identity, negate, identity, negate):
        assert workspace.runs.paused_at is waits_at
        assert workspace.selection.current is waits_at
        qtbot.waitUntil(lambda: workspace.graph is body and not workspace.parent().view.scenes.is_busy)
        assert marked(workspace, "next") == {waits_at}
        run(qtbot, workspace, "run.step")
    assert not workspace.runs.is_paused
    assert workspace.results.is_current


@pytest.mark.long
def test_steps_show_the_next_nodes_inputs_then_its_outputs(qtbot, window, net):
    workspace = opened(window, qtbot, net)
    tensor = window.docks.open("tensor")
    workspace.selection.set([node(workspace, "log")])
    workspace.trigger("run.breakpoint")
    run(qtbot, workspace)  # it is selected already
    for name in ("c", "l", "r"):
        qtbot.waitUntil(lambda name=name: shown(tensor) == f"input {name}")
        assert tensor.pane.subject.held is not None
        run(qtbot, workspace, "run.step")
    workspace.runs.stop()
    run(qtbot, workspace)
    qtbot.waitUntil(lambda: shown(tensor) == "input c")
    run(qtbot, workspace, "run.continue")
    assert workspace.selection.current is node(workspace, "log")
    qtbot.waitUntil(lambda: shown(tensor) == "output l")


def shown(tensor):
    return tensor.pane.subject.target.title


CONSTANTS = """
<ir_version: 9, opset_import: ["" : 17]>
constants (float[2] x) => (float[2] y)
{
    c = Constant <value_floats: floats = [-1.0, 1.0]> ()
    [log] bad = Log (c)
    [add] y = Add (x, bad)
}
"""


@pytest.mark.long
def test_a_condition_stops_for_what_constants_alone_make(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "constants.onnx", CONSTANTS))
    workspace.runs.breakpoints.set_condition("non-finite", on=True)
    for _ in range(2):  # computed in the first run, known in the second
        run(qtbot, workspace)
        assert workspace.runs.is_paused
        assert workspace.run_state.startswith("Paused after 'log'")
        assert workspace.runs.paused_at.name == "add"
        workspace.runs.stop()
    workspace.runs.breakpoints.set(())
    workspace.runs.breakpoints.toggle(value(workspace, "bad"))
    run(qtbot, workspace)
    assert workspace.runs.is_paused


HIDDEN = """
<ir_version: 9, opset_import: ["" : 17]>
loops (float[2] x) => (float[2] y) <int64 three = {3}, bool yes = {1}>
{
    [loop] y = Loop (three, yes, x) <body: graph = turns (int64 i, bool c, float[2] v) => (bool d, float[2] w)
        { [log] l = Log (v)  bad = IsNaN (l)  w = Where (bad, v, l)  d = Identity (c) }>
}
"""


@pytest.mark.long
def test_steps_from_where_a_hunt_stands_point_at_each_node(qtbot, window, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "hidden.onnx", HIDDEN))
    log, is_nan, where, identity = node(workspace, "loop").bodies[0].nodes
    workspace.runs.inputs.set_source("x", Constant(-1.0))
    run(qtbot, workspace)
    with qtbot.waitSignal(workspace.results.element_chosen):
        workspace.trigger("run.first_non_finite")
    assert workspace.selection.current is log
    assert workspace.runs.paused_at is is_nan
    for waits_at in (where, identity):
        run(qtbot, workspace, "run.step")
        assert workspace.runs.paused_at is waits_at
        assert workspace.selection.current is waits_at


@pytest.mark.long
def test_the_element_panel_hides_what_a_paused_run_lacks(window, qtbot, workspace):
    run(qtbot, workspace)
    panel = window.docks.open("element")
    panel.show_element(value(workspace, "y"), (0, 0))
    qtbot.waitUntil(lambda: panel.value.text().startswith("= "))
    report = panel.value.text()
    workspace.runs.breakpoints.set([Breakpoint(node=node(workspace, "relu"))])
    run(qtbot, workspace)
    assert panel.value.text() == "the run has not reached it yet"
    assert not panel.table.model().rowCount()
    run(qtbot, workspace, "run.continue")
    qtbot.waitUntil(lambda: panel.value.text() == report)


CALLS = """
<ir_version: 10, opset_import: ["" : 21, "my" : 1]>
g (float[2] x) => (float[2] y)
{
    [first] a = my.Twice (x)
    [second] b = my.Twice (a)
    y = Abs (b)
}
<domain: "my", opset_import: ["" : 21]>
Twice (x) => (y)
{
    d = Add (x, x)
    [inner] y = Neg (d)
}
"""


@pytest.mark.long
def test_a_stop_in_a_function_names_the_call_and_its_values(qtbot, window, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "calls.onnx", CALLS))
    workspace.runs.inputs.set_source("x", Constant([1.0, 3.0]))
    (function,) = workspace.model.functions
    add, inner = function.body.nodes
    workspace.runs.breakpoints.toggle(inner)
    for action, call, expected in (("run.run", "first", [2, 6]), ("run.continue", "second", [-4, -12])):
        run(qtbot, workspace, action)
        assert workspace.run_state == f"Paused in '{call}', before 'inner'"
        assert workspace.results.value_of(add.outputs[0]).tolist() == expected
    workspace.runs.breakpoints.set([Breakpoint(value=inner.outputs[0])])
    for action, call in (("run.run", "first"), ("run.continue", "second")):
        run(qtbot, workspace, action)
        assert workspace.run_state.startswith(f"Paused in '{call}', after 'inner'")
    assert workspace.results.value_of(inner.outputs[0]).tolist() == [4, 12]
    workspace.runs.stop()
    idle(qtbot, workspace)


BRANCHES = """
<ir_version: 9, opset_import: ["" : 17]>
net (float[2] x, bool c) => (float[2] y)
{
    [choose] y = If (c) <
        then_branch = a () => (float[2] t) { [up] s = Exp (x) [more] t = Exp (s) },
        else_branch = b () => (float[2] e) { [down] e = Neg (x) }>
}
"""


@pytest.mark.long
def test_the_branch_that_was_not_taken_is_dim(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "if.onnx", BRANCHES))
    taken, other = node(workspace, "choose").bodies
    for condition, skipped in ((True, other), (False, taken)):
        workspace.runs.inputs.set_source("c", Constant(condition))
        run(qtbot, workspace)
        assert workspace.results.skipped_branches == {skipped}
        workspace.navigation.show(skipped)
        qtbot.waitUntil(lambda body=skipped: workspace.graph is body and not workspace.parent().view.scenes.is_busy)
        assert marked(workspace, "skipped") >= set(skipped.nodes)
        pane = window.docks.open("tensor").pane
        workspace.selection.set([next(iter(skipped.nodes)).outputs[0]])
        qtbot.waitUntil(lambda pane=pane: pane.notice.text() == "Not computed: the other branch was taken.")


@pytest.mark.long
def test_a_step_after_a_run_to_a_node_goes_on_from_there(qtbot, workspace):
    workspace.selection.set([node(workspace, "log")])
    run(qtbot, workspace, "run.to")
    assert not workspace.runs.is_paused
    run(qtbot, workspace, "run.step")
    assert workspace.runs.last_node == ((), node(workspace, "relu"))
    assert workspace.runs.paused_at is node(workspace, "mean")
    run(qtbot, workspace, "run.continue")
    workspace.selection.set([node(workspace, "log")])
    run(qtbot, workspace, "run.to")
    edit(workspace, "relu", "alpha", 0.25)
    run(qtbot, workspace, "run.step")
    assert workspace.runs.last_node is None, "the model is another one: it begins anew"


@pytest.mark.long
def test_a_step_into_a_loop_waits_in_its_body(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "loop.onnx", LOOP))
    workspace.selection.set([node(workspace, "loop")])
    run(qtbot, workspace, "run.step")
    while workspace.runs.paused_at is not node(workspace, "loop"):
        run(qtbot, workspace, "run.step")
    run(qtbot, workspace, "run.step_into")
    assert workspace.runs.paused_at.op_type == "Identity"
    assert "iteration 0" in workspace.run_state
    run(qtbot, workspace, "run.step_out")
    assert not workspace.runs.is_paused


def test_a_breakpoint_with_a_long_name_makes_the_panel_no_wider(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "loop.onnx", LOOP))
    (body,) = node(workspace, "loop").bodies
    inner = next(n for n in body.nodes if n.op_type == "Neg")
    with workspace.document.edit("Rename") as transaction:
        rename_node(transaction, inner, "/encoder/layer/attention/self/output/dense/of/a/long/name/Neg")
    panel = window.docks.open("run")
    area = panel.findChild(QScrollArea)
    before = area.widget().minimumSizeHint().width()
    workspace.runs.breakpoints.set([Breakpoint(node=inner, condition="iteration", limit=1.0)])
    place = next(b for b in panel.findChildren(QToolButton) if b.accessibleName().startswith("before /encoder"))
    qtbot.waitUntil(place.isVisible)
    assert area.widget().minimumSizeHint().width() <= before
    assert place.accessibleName().endswith("/Neg")
