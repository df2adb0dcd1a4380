"""Selectors above the graph for the call, branch and iterations whose values are shown."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox

from onnx_workbench.exec.inputs.sources import Constant
from onnx_workbench.model.ir.graph import Function
from tests.model import builders
from tests.viewer.run.run_actions import idle, opened, run

pytestmark = pytest.mark.long

LOOPS = """
<ir_version: 9, opset_import: ["" : 17]>
loops (float[2] x, int64 n) => (float[2] y)
<bool yes = {1}, int64 one = {1}, float two = {2}>
{
    [outer] y = Loop (n, yes, x) <body: graph = turns (int64 i, bool c, float[2] v) => (bool d, float[2] w) {
        d = Identity (c)
        m = Add (i, one)
        t = Mul (v, two)
        [inner] w = Loop (m, c, t) <body: graph = inside (int64 j, bool e, float[2] p) => (bool f, float[2] q) {
            f = Identity (e)
            [add] q = Add (p, two)
        }>
    }>
}
"""

BRANCHES = """
<ir_version: 9, opset_import: ["" : 17]>
branches (float[2] x, int64 n) => (float[2] y)
<bool yes = {1}, int64 one = {1}>
{
    [loop] y = Loop (n, yes, x) <body: graph = turns (int64 i, bool c, float[2] v) => (bool d, float[2] w) {
        d = Identity (c)
        is = Equal (i, one)
        [if] w = If (is) <
            then_branch: graph = t () => (float[2] a) { a = Neg (v) },
            else_branch: graph = e () => (float[2] b) { b = Add (v, v) }
        >
    }>
}
"""

CALLS = """
<ir_version: 9, opset_import: ["" : 17, "local" : 1]>
calls (float[2] x) => (float[2] z)
{
    [first] y = local.outer (x)
    [second] z = local.outer (y)
}
<domain: "local", opset_import: ["" : 17, "local" : 1]>
outer (a) => (c) { [left] b = local.twice (a)  [right] c = local.twice (b) }
<domain: "local", opset_import: ["" : 17]>
twice (p) => (q) { q = Add (p, p) }
"""


@pytest.fixture
def shown(window, qtbot, tmp_path):
    def show(text, count=3):
        workspace = opened(window, qtbot, builders.model_file(tmp_path / "scopes.onnx", text))
        workspace.runs.inputs.set_source("x", Constant(1.0))
        if count:
            workspace.runs.inputs.set_source("n", Constant(count))
        run(qtbot, workspace)
        return workspace

    return show


def found(workspace, name):
    """A node or value anywhere in the model."""
    things = [thing for graph in workspace.model.graphs() for thing in (*graph.nodes, *graph.values())]
    return next(thing for thing in things if thing.name == name)


def number(workspace, name):
    """The first element of what the run shown gave for a value."""
    return float(workspace.results.value_of(found(workspace, name)).reshape(-1)[0])


def bar(workspace):
    workspace.parent().scope_bar.refresh()
    return workspace.parent().scope_bar


def box_of(qtbot, workspace):
    def visible():
        return [box for box in bar(workspace).findChildren(QComboBox) if box.isVisible()]

    qtbot.waitUntil(lambda: len(visible()) == 1)
    return visible()[0]


def choose(qtbot, workspace, spin, iteration):
    spin.lineEdit().selectAll()
    qtbot.keyClicks(spin, str(iteration))
    qtbot.keyClick(spin, Qt.Key.Key_Return)
    idle(qtbot, workspace)


def test_values_in_a_body_are_of_the_iteration_chosen(qtbot, shown):
    workspace = shown(LOOPS)
    assert not bar(workspace).isVisible(), "the main graph has nothing to choose"
    assert number(workspace, "w") == 30
    workspace.navigation.show(found(workspace, "inner").graph)
    (spin,) = bar(workspace).iterations
    assert bar(workspace).isVisible()
    assert (spin.value(), spin.text()) == (2, "2 of 0–2")
    choose(qtbot, workspace, spin, 0)
    assert (number(workspace, "i"), number(workspace, "t"), number(workspace, "w")) == (0, 2, 4)
    workspace.selection.set([found(workspace, "add")])
    outer, inner = bar(workspace).iterations
    assert [spin.text() for spin in (outer, inner)] == ["0 of 0–2", "0 of 0–0"], "the first has one iteration inside"
    choose(qtbot, workspace, outer, 1)
    assert [spin.text() for spin in bar(workspace).iterations] == ["1 of 0–2", "1 of 0–1"]
    assert (number(workspace, "j"), number(workspace, "q")) == (1, 12)
    choose(qtbot, workspace, bar(workspace).iterations[1], 0)
    assert (number(workspace, "j"), number(workspace, "q"), number(workspace, "t")) == (0, 10, 8)
    choose(qtbot, workspace, bar(workspace).iterations[0], 2)
    assert number(workspace, "w") == 30, "those of the last one are back"
    assert not workspace.results.iterations


def test_edges_show_the_iteration_chosen(qtbot, shown):
    workspace = shown(LOOPS)
    notes, i = workspace.runs.presenter.notes, found(workspace, "i")

    def shows(text):
        qtbot.waitUntil(lambda: (note := notes.note_of(i)) is not None and note.text == text)

    workspace.navigation.show(i.graph)
    shows("= 2")
    choose(qtbot, workspace, bar(workspace).iterations[0], 1)
    shows("= 1")
    choose(qtbot, workspace, bar(workspace).iterations[0], 2)
    shows("= 2")


def test_the_chosen_iteration_stays_when_the_run_is_repeated(qtbot, shown):
    workspace = shown(LOOPS)
    workspace.selection.set([found(workspace, "outer")])
    choose(qtbot, workspace, bar(workspace).iterations[0], 1)
    assert number(workspace, "w") == 12
    assert workspace.results.before(found(workspace, "w")) is None
    workspace.runs.inputs.set_source("x", Constant(2.0))
    run(qtbot, workspace)
    assert (number(workspace, "w"), bar(workspace).iterations[0].value()) == (16, 1)
    assert workspace.results.before(found(workspace, "w")) is None, "which is of the last iteration"


def test_the_bar_says_which_branch_an_iteration_took(qtbot, shown):
    workspace = shown(BRANCHES)
    workspace.navigation.show(found(workspace, "a").graph)
    box = box_of(qtbot, workspace)
    assert [box.itemText(i) for i in range(2)] == [
        "then_branch (taken in some iterations)",
        "else_branch (taken in some iterations)",
    ]
    assert box.currentIndex() == 0
    choose(qtbot, workspace, bar(workspace).iterations[0], 0)
    box = box_of(qtbot, workspace)
    assert [box.itemText(i) for i in range(2)] == ["then_branch (not taken)", "else_branch (taken)"]
    choose(qtbot, workspace, bar(workspace).iterations[0], 1)
    box = box_of(qtbot, workspace)
    assert [box.itemText(i) for i in range(2)] == ["then_branch (taken)", "else_branch (not taken)"]
    assert number(workspace, "a") == -2
    box.activated.emit(1)
    assert workspace.graph is found(workspace, "b").graph


def test_a_function_shows_the_call_entered_or_chosen(qtbot, shown):
    workspace = shown(CALLS, count=0)
    workspace.selection.set([found(workspace, "second")])
    workspace.navigation.show(found(workspace, "right").graph)
    box = box_of(qtbot, workspace)
    assert [box.itemText(i) for i in range(box.count())] == ["first (1 of 2)", "second (2 of 2)"]
    assert (box.currentIndex(), number(workspace, "c")) == (1, 16)
    workspace.selection.set([found(workspace, "left")])
    workspace.navigation.show(next(f.body for f in workspace.model.functions if f.name == "twice"))
    assert isinstance(workspace.graph.owner, Function)
    assert number(workspace, "q") == 8, "the left call inside the second one"
    box = box_of(qtbot, workspace)
    assert box.currentText() == "second › left (3 of 4)"
    box.activated.emit(1)
    assert number(workspace, "q") == 4, "the right call inside the first one"


def test_while_a_run_waits_the_iteration_is_that_it_waits_in(qtbot, shown):
    workspace = shown(LOOPS)
    workspace.selection.set([found(workspace, "add")])
    workspace.trigger("run.breakpoint")
    run(qtbot, workspace)
    assert [spin.text() for spin in bar(workspace).iterations] == ["0 of 0–0", "0 of 0–0"]
    assert not any(spin.isEnabled() for spin in bar(workspace).iterations)
    run(qtbot, workspace, "run.continue")
    assert [spin.text() for spin in bar(workspace).iterations] == ["1 of 0–1", "0 of 0–0"]
    workspace.trigger("run.stop")
