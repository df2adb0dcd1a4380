"""The first value that is not finite, also in earlier turns of bodies, in calls of functions and in what was let go."""

import numpy as np
import pytest

from onnx_workbench.exec.inputs.sources import Constant
from onnx_workbench.model.history.steps import SetInitializer
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.viewer.program.settings import NAN_ALONE, RUN_IN_PROCESS
from tests.model import builders
from tests.viewer.run.run_actions import idle, opened, run, value

pytestmark = pytest.mark.long

#: In the body of the second turn s is below zero and its logarithm NaN, which nothing outside ever sees.
LOOP = """<ir_version: 9, opset_import: ["" : 17]>
g (float[2] x) => (float[n, 2] y, float[2] last, float[2] z)
<int64 n = {4}, float one = {1.0}, float zero = {0.0}, bool go = {1}> {
  last, ys = Loop (n, go, x) <body = b (int64 i, bool c, float[2] s) => (bool c1, float[2] s1, float[2] clean) {
    [less] s1 = Sub (s, one)
    [log] l = Log (s1)
    bad = IsNaN (l)
    clean = Where (bad, zero, l)
    c1 = Identity (c)
  }>
  y = Relu (ys)
  [after] z = Abs (last)
}"""

#: The second call of the function has what its Log cannot take.
CALLS = """<ir_version: 9, opset_import: ["" : 17, "own" : 1]>
g (float[2] x) => (float[2] y) <float[2] two = {2.0, 2.0}>
{ a = own.Safe (x) b = Sub (x, two) y = own.Safe (b) }
<opset_import: ["" : 17], domain: "own">
Safe (s) => (t) { p = Identity (s) l = Log (p) bad = IsNaN (l) t = Where (bad, p, l) }"""

MASKED = """<ir_version: 9, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) { n = Neg (x) l = Log (n) bad = IsNaN (l) y = Where (bad, x, l) }"""

#: An If whose condition, and all that its bodies read, is known before the run.
FOLDED = """<ir_version: 9, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) <bool yes = {1}, float[2] c = {-1.0, 1.0}> {
  f = If (yes) <
    then_branch = t () => (float[2] a) { l = Log (c)  bad = IsNaN (l)  a = Where (bad, c, l) },
    else_branch = e () => (float[2] b) { b = Identity (c) }
  >
  y = Add (x, f)
}"""


@pytest.fixture(params=[True, False], ids=["worker", "thread"])
def open_text(request, window, qtbot, tmp_path):
    window.settings.set(RUN_IN_PROCESS, request.param)

    def open_text(text, constant):
        workspace = opened(window, qtbot, builders.model_file(tmp_path / "masked.onnx", text))
        workspace.runs.inputs.set_source("x", Constant(constant))
        return workspace

    return open_text


def hunt(qtbot, workspace, action="run.first_non_finite"):
    """Name and index of what is found."""
    with qtbot.waitSignal(workspace.results.element_chosen):
        workspace.trigger(action)
    found, index = workspace.results.element
    return found.name, index


def causes(window, qtbot, trace_of):
    """What the panel shows of the inputs that reach the element: the suspects."""
    panel = window.docks.open("element")
    qtbot.waitUntil(
        lambda: panel.traced[0].name == trace_of and panel.trace is not None and bool(panel.trace.origins),
    )
    return [(panel.workspace.results.value_by_number(o.key[1]).name, o.suspect_value) for o in panel.trace.origins]


def test_a_turn_of_a_body_that_nothing_outside_shows(window, qtbot, open_text):
    workspace = open_text(LOOP, 1.5)
    run(qtbot, workspace)
    assert hunt(qtbot, workspace) == ("l", (0,))
    assert workspace.selection.current.name == "log"
    assert causes(window, qtbot, "l") == [("s1", -0.5)]
    assert workspace.runs.is_paused
    idle(qtbot, workspace)
    assert window.tabs()[-1].message_bar.messages == []  # it is in view already
    run(qtbot, workspace)
    assert not workspace.runs.is_paused


def test_the_second_call_of_a_function(window, qtbot, open_text):
    workspace = open_text(CALLS, 1.0)
    run(qtbot, workspace)
    assert hunt(qtbot, workspace) == ("l", (0,))
    assert causes(window, qtbot, "l") == [("p", -1.0)]


def test_a_value_that_was_let_go(window, qtbot, open_text):
    workspace = open_text(MASKED, 1.0)
    workspace.runs.run_session._session = type(workspace.runs.session)(workspace.document, budget=8)
    run(qtbot, workspace)
    assert hunt(qtbot, workspace) == ("l", (0,))
    assert causes(window, qtbot, "l") == [("n", -1.0)]


def test_a_branch_that_constants_alone_decide(window, qtbot, open_text):
    workspace = open_text(FOLDED, 1.0)
    for _ in range(2):  # computed in the first run, known in the second
        run(qtbot, workspace)
        assert hunt(qtbot, workspace) == ("l", (0,))
        assert causes(window, qtbot, "l") == [("c", -1.0)]
    assert workspace.runs.is_paused


def test_no_run_that_waits_is_ended_for_it(window, qtbot, received, open_text):
    workspace = open_text(LOOP, 9.0)
    workspace.runs.breakpoints.toggle(next(n for n in workspace.model.graph.nodes if n.name == "after"))
    run(qtbot, workspace)
    messages = received(workspace.messages.shown)
    workspace.trigger("run.first_non_finite")
    qtbot.waitUntil(lambda: bool(messages))
    idle(qtbot, workspace)
    assert workspace.runs.is_paused
    assert "values inside bodies were not searched" in messages[0].detail


def test_where_all_is_finite_every_turn_was_looked_at(window, qtbot, received, open_text):
    workspace = open_text(LOOP, 9.0)
    run(qtbot, workspace)
    messages = received(workspace.messages.shown)
    workspace.trigger("run.first_non_finite")
    qtbot.waitUntil(lambda: bool(messages))
    assert [message.title for message in messages] == ["Every value is finite"]
    assert workspace.results.current.is_complete


def way(window, qtbot, steps):
    """Names of the values that Enter on the first row of the panel leads to, one after the other."""
    panel, names = window.docks.open("element"), []
    for _ in range(steps):
        qtbot.waitUntil(lambda: panel.trace is not None and bool(panel.trace.origins))
        origin = panel.trace.origins[0]
        panel.table.selectRow(0)
        panel.table.activated.emit(panel.table.currentIndex())
        qtbot.waitUntil(lambda at=origin: panel.traced[0] is panel.workspace.results.value_by_number(at.key[1]))
        qtbot.waitUntil(lambda: not panel.workspace.tasks.running)
        names.append(panel.traced[0].name)
    return names


def test_tracing_an_element_goes_into_and_out_of_a_call(window, qtbot, open_text):
    workspace = open_text(CALLS, 1.0)
    run(qtbot, workspace)
    workspace.results.choose_element(workspace.model.graph.outputs[0], (1,))
    assert way(window, qtbot, 6) == ["t", "bad", "l", "p", "s", "b"]  # b is what the second call was given


def test_the_way_of_an_element_leads_into_bodies_and_out_of_them(window, qtbot, open_text):
    workspace = open_text(LOOP, 9.0)
    run(qtbot, workspace)
    workspace.results.choose_element(workspace.model.graph.outputs[1], (0,))
    assert way(window, qtbot, 2) == ["s1", "s"]
    panel = window.docks.open("element")
    qtbot.waitUntil(lambda: panel.trace is not None and panel.trace.value == 6.0)
    assert not panel.trace.origins
    assert panel.value.text() == "= 6, passed by the outer node in the last iteration"


#: Values far below zero stand for the mask of an attention until `open_masked` makes them -inf. Then a row that is
#: masked whole makes NaN, and a logarithm of zero an infinity.
MASK = """<ir_version: 9, opset_import: ["" : 17]>
g (float[2,2] x) => (float[2,2] y, float[2,2] z) <float[2,2] mask = {0.0, 0.0, 0.0, 0.0}> {
  scores = Add (x, mask)
  weights = Softmax <axis = 1> (scores)
  y = Mul (weights, x)
  zero = Sub (x, x)
  log = Log (zero)
  z = Exp (log)
}"""


@pytest.fixture
def masked(open_text):
    workspace = open_text(MASK, 1.0)
    low = np.array([[0, -np.inf], [-np.inf, -np.inf]], np.float32)
    builders.do(workspace.document, SetInitializer(workspace.model.graph, value(workspace, "mask"), ArrayTensor(low)))
    return workspace


def report(qtbot, workspace, action):
    """Title of the message that comes instead of a place."""
    with qtbot.waitSignal(workspace.messages.shown) as signal:
        workspace.trigger(action)
    idle(qtbot, workspace)
    return signal.args[0].title


def test_a_mask_of_infinities_does_not_end_the_hunt_and_next_goes_on(window, qtbot, masked):
    run(qtbot, masked)
    assert hunt(qtbot, masked) == ("weights", (1, 0))
    assert causes(window, qtbot, "weights") == [("scores", -np.inf)]
    assert hunt(qtbot, masked, "run.next_non_finite") == ("log", (0, 0))
    assert report(qtbot, masked, "run.next_non_finite") == "No further NaN or infinity in the last run"
    assert hunt(qtbot, masked, "run.next_non_finite") == ("weights", (1, 0))  # from the beginning


def test_the_input_that_is_not_finite_is_selected(window, qtbot, open_text):
    workspace = open_text("""<ir_version: 9, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y) <float[2] zero = {0.0, 0.0}>
        { one = Add (x, zero) w = Div (one, zero) y = Mul (x, w) }""", 1.0)  # fmt: skip
    run(qtbot, workspace)
    panel = window.docks.open("element")
    workspace.results.element_chosen.emit(value(workspace, "y"), (0,))
    qtbot.waitUntil(lambda: panel.trace is not None and len(panel.trace.origins) == 2)
    assert panel.trace.origins[panel.table.currentIndex().row()].non_finite == 1


def test_nan_alone_is_a_choice_that_is_remembered(window, qtbot, masked):
    window.docks.open("element").nan_alone.click()
    assert window.settings.get(NAN_ALONE)
    run(qtbot, masked)
    assert hunt(qtbot, masked, "run.next_non_finite") == ("weights", (1, 0))
    assert report(qtbot, masked, "run.next_non_finite") == "No further NaN in the last run"
    masked.trigger("run.nan_alone")
    assert not window.docks.open("element").nan_alone.isChecked()
    assert not window.settings.get(NAN_ALONE)


def test_next_goes_through_the_turns_of_a_body(window, qtbot, open_text):
    workspace = open_text(LOOP, 2.5)
    run(qtbot, workspace)
    assert hunt(qtbot, workspace) == ("l", (0,))
    assert causes(window, qtbot, "l") == [("s1", -0.5)]
    assert hunt(qtbot, workspace, "run.next_non_finite") == ("l", (0,))
    assert causes(window, qtbot, "l") == [("s1", -1.5)]
    assert report(qtbot, workspace, "run.next_non_finite") == "No further NaN or infinity in the last run"
    assert not workspace.runs.is_paused


def test_infinities_that_are_given_are_reported_where_nothing_begins(qtbot, received, open_text):
    workspace = open_text(
        """<ir_version: 9, opset_import: ["" : 17]>
    g (float[2] x) => (float[2] y) { y = Identity (x) }""",
        float("inf"),
    )
    messages = received(workspace.messages.shown)
    run(qtbot, workspace)
    assert not messages
    assert report(qtbot, workspace, "run.first_non_finite") == "No node produces an infinity"
    assert "that has an infinity is x." in messages[0].detail


def test_a_nan_in_a_sequence_that_is_given_is_found(window, qtbot, open_text):
    workspace = open_text(
        """<ir_version: 9, opset_import: ["" : 17]>
    g (seq(float[2]) s, float[2] x) => (seq(float[2]) t, float[2] y) { t = Identity (s) y = Neg (x) }""",
        1.0,
    )
    workspace.runs.inputs.set_given({"s": [np.ones(2, np.float32), np.array([1, np.nan], np.float32)]}, 0)
    run(qtbot, workspace)
    assert [message.title for message in window.tabs()[-1].message_bar.messages] == ["NaN in s"]
    workspace.trigger("run.first_non_finite")
    qtbot.waitUntil(lambda: workspace.selection.current is value(workspace, "s"))
