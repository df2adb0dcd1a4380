"""Runs in files: values of functions and bodies too, under keys that numpy reads; and back where they belong."""

import json

import ml_dtypes
import numpy as np
import onnx
import pytest

from onnx_workbench.exec.inputs.sources import Constant
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.model.history.steps import SetField, SetInput
from onnx_workbench.viewer.program.settings import RUN_IN_PROCESS
from onnx_workbench.viewer.run.results import compare
from onnx_workbench.viewer.run.results.saved_runs import restore_run, write_run
from onnx_workbench.viewer.run.results.value_paths import addresses_in
from tests.model import builders
from tests.viewer.background_work import wait_for_readers
from tests.viewer.run.run_actions import compare_with, edit, idle, node, opened, run, value

pytestmark = pytest.mark.long

NESTED = """
<ir_version: 9, opset_import: ["" : 17, "own" : 1]>
nested (float[N, 2] x, bool b) => (float[N, 2] y, float[N, 2] z)
<float[2] w = {1.0, 3.0}>
{
    [one] a = own.block (x, w)
    [two] v = own.block (a, w)
    ["one > t"] odd = Neg (v)
    n = Constant <value = int64 {3}> ()
    [loop] y = Loop (n, b, odd) <body = turns (int64 i, bool c, float[N, 2] s) => (bool d, float[N, 2] t) {
        d = Identity (c)
        [scale] t = Mul (s, w)
    }>
    z = If (b) <
        then_branch = yes () => (float[N, 2] r) { r = Neg (y) },
        else_branch = no () => (float[N, 2] r) { r = Abs (y) }
    >
    p = SequenceConstruct (x, y)
    h = Cast <to = 16> (x)
}
<domain: "own", opset_import: ["" : 17]>
block (f, g) => (u)
{
    t = Add (f, g)
    u = Relu (t)
}
"""


@pytest.fixture
def nested(tmp_path):
    return builders.model_file(tmp_path / "nested.onnx", NESTED)


@pytest.fixture
def saved(window, qtbot, nested, tmp_path):
    """A saved run, and every value of it by its address."""
    workspace = opened(window, qtbot, nested)
    workspace.runs.inputs.set_source("x", Constant([[1.0, 2.0], [3.0, -9.0]]))
    workspace.runs.inputs.set_source("b", Constant(True))
    workspace.runs.inputs.set_seed(7)
    run(qtbot, workspace)
    result = workspace.results.current.result
    keys = [*result.layout.slots, *((p, n) for p, found in result.bodies.items() for n in found)]
    addresses = {key: addresses_in(workspace).of(key) for key in keys if result.info(key) is not None}
    values = {address: result.value(key) for key, address in addresses.items() if address is not None}
    write_run(workspace, tmp_path / "run.npz")
    idle(qtbot, workspace)
    window.area.remove_tab(window.tab)
    return tmp_path / "run.npz", values


def test_numpy_alone_reads_values_inside_functions_and_bodies(saved):
    with np.load(saved[0]) as arrays:
        assert {"x", "y", "z", "odd", "one > t", "two > t", "loop.body > t", "z.then_branch > r"} <= set(arrays.files)
        assert "w" not in arrays.files, "the model has it"
        assert not any(key.startswith("z.else_branch") for key in arrays.files), "it was not run"
        assert arrays["one > t"].tolist() == [[2, 5], [4, -6]]
        np.testing.assert_array_equal(arrays["loop.body > t"], arrays["y"])
        np.testing.assert_array_equal(arrays["z.then_branch > r"], -arrays["y"])
        assert arrays["p[1]"].shape == (2, 2)
        assert arrays["h"].dtype == np.float32


def test_a_saved_run_shows_its_values_without_running(window, qtbot, nested, saved):
    path, values = saved
    workspace = opened(window, qtbot, nested)
    with qtbot.waitSignal(workspace.results.run_finished):
        restore_run(workspace, path)
    idle(qtbot, workspace)
    results, inputs = workspace.results, workspace.runs.inputs
    assert workspace.run_state == "Values of run.npz"
    assert (inputs.seed, set(inputs.given)) == (7, {"x", "b"})
    result, constants = results.current.result, {"w", "g"}
    for address, expected in values.items():
        if address[-1] not in constants:
            found = result.find(addresses_in(workspace).find(address))
            assert found is not MISSING, address
            assert str(found) == str(expected)
    assert results.value_of(value(workspace, "h")).dtype == ml_dtypes.bfloat16
    before = results.current
    run(qtbot, workspace)
    assert results.previous is before
    panel = window.docks.open("compare")
    for reference in (compare.with_record(workspace, before), compare.with_npz(workspace, path)):
        panel.compare("saved", reference)
        idle(qtbot, workspace)
        assert panel.rows
        assert {row.difference.unequal for row in panel.rows} == {0}, "nothing differs from what was saved"
        order = [row.name for row in panel.rows]
        order = order[order.index("v") :]  # a function has a t too
        assert order.index("t") < order.index("y") < order.index("r") < order.index("z")


def profile_rows(qtbot, window):
    """What the profile shows by node: name, operator, time, share, output, memory, multiply-adds and state."""
    profile = window.docks.open("profile")
    wait_for_readers(qtbot)
    return {tuple(cell.text for cell in row.cells) for row in profile.nodes.source.rows}, profile.summary.text()


@pytest.mark.parametrize("own", [True, False], ids=["worker", "thread"])
def test_a_saved_run_has_the_profile_of_the_run(window, qtbot, nested, tmp_path, own):
    window.settings.set(RUN_IN_PROCESS, own)
    workspace = opened(window, qtbot, nested)
    workspace.runs.inputs.set_source("b", Constant(True))
    run(qtbot, workspace)
    shown = profile_rows(qtbot, window)
    assert {row[0] for row in shown[0]} >= {"one", "two", "one > t", "loop", "loop › scale"}
    write_run(workspace, tmp_path / "run.npz")
    idle(qtbot, workspace)
    took = {one.node: one.seconds for one in workspace.results.current.result.nodes}
    seconds = took[node(workspace, "loop").id]
    window.area.remove_tab(window.tab)
    with np.load(tmp_path / "run.npz") as arrays:
        times = dict(zip(arrays["__nodes__"].tolist(), arrays["__seconds__"].tolist(), strict=True))
        turns = dict(zip(arrays["__nodes__"].tolist(), arrays["__turns__"].tolist(), strict=True))
    assert times["y"] == seconds
    assert turns["loop.body > t"] == 3
    workspace = opened(window, qtbot, nested)
    with qtbot.waitSignal(workspace.results.run_finished):
        restore_run(workspace, tmp_path / "run.npz")
    idle(qtbot, workspace)
    assert profile_rows(qtbot, window) == shown


def test_a_file_of_before_has_values_and_no_times(window, qtbot, nested, saved, tmp_path):
    with np.load(saved[0]) as arrays:
        kept = {key: arrays[key] for key in arrays.files}
    report = json.loads(kept["__run__"].item())
    del report["profile"]
    kept["__run__"] = np.array(json.dumps(report))
    np.savez(tmp_path / "before.npz", **kept)
    workspace = opened(window, qtbot, nested)
    with qtbot.waitSignal(workspace.results.run_finished):
        restore_run(workspace, tmp_path / "before.npz")
    assert workspace.results.value_of(value(workspace, "y")) is not None
    _, summary = profile_rows(qtbot, window)
    assert summary.endswith("no times: the file has none")


def test_a_value_may_have_the_name_of_what_nodes_took(window, qtbot, tmp_path):
    path = tmp_path / "times.onnx"
    head = '<ir_version: 9, opset_import: ["" : 17]>'
    model = builders.proto(head + "a (float[2] x) => (float[2] y) { [relu] y = Relu (x) }")
    model.graph.node[0].output[0] = model.graph.output[0].name = "__seconds__"
    onnx.save(model, path)
    workspace = opened(window, qtbot, path)
    run(qtbot, workspace)
    seconds = workspace.results.node_of(node(workspace, "relu")).seconds
    write_run(workspace, tmp_path / "run.npz")
    idle(qtbot, workspace)
    with qtbot.waitSignal(workspace.results.run_finished):
        restore_run(workspace, tmp_path / "run.npz")
    assert workspace.results.value_of(value(workspace, "__seconds__")).shape == (2,)
    assert workspace.results.node_of(node(workspace, "relu")).seconds == seconds


def test_changes_since_a_loaded_run_are_marked(make_window, qtbot, nested, saved):
    window = make_window()
    workspace = opened(window, qtbot, nested)
    with qtbot.waitSignal(workspace.results.run_finished):
        restore_run(workspace, saved[0])
    with workspace.document.edit("Scale") as transaction:
        transaction.do(SetInput(node(workspace, "loop"), 2, value(workspace, "a")))
    run(qtbot, workspace)
    assert {v.name for v in workspace.runs.presenter.differing} == {"y", "z", "p"}


def test_an_undo_brings_the_values_of_a_loaded_run_back(window, qtbot, nested, saved):
    workspace = opened(window, qtbot, nested)
    with qtbot.waitSignal(workspace.results.run_finished):
        restore_run(workspace, saved[0])
    loaded = workspace.results.current
    with workspace.document.edit("Scale") as transaction:
        transaction.do(SetInput(node(workspace, "loop"), 2, value(workspace, "a")))
    assert not workspace.results.is_current
    run(qtbot, workspace)
    assert workspace.results.current is not loaded
    workspace.document.undo()
    idle(qtbot, workspace)
    assert workspace.results.current is loaded
    assert workspace.results.is_current


def test_a_run_that_is_loaded_in_live_stays_until_the_next_edit(window, qtbot, nested, saved):
    workspace = opened(window, qtbot, nested)
    workspace.runs.set_live(True)
    qtbot.waitUntil(lambda: workspace.results.current is not None)
    idle(qtbot, workspace)
    restore_run(workspace, saved[0])
    qtbot.waitUntil(lambda: workspace.results.current.loaded)
    loaded = workspace.results.current
    assert not workspace.runs.is_waiting_to_run
    with workspace.document.edit("Rename") as transaction:
        transaction.do(SetField(value(workspace, "odd"), "name", "even"))
    assert not workspace.runs.is_waiting_to_run, "a name alters no value"
    assert workspace.run_state == "Values of run.npz"
    with qtbot.waitSignal(workspace.results.run_finished), workspace.document.edit("Scale") as edit:
        edit.do(SetInput(node(workspace, "loop"), 2, value(workspace, "a")))
    assert workspace.results.current is not loaded


def test_inputs_of_another_kind_are_shown_but_refused_to_run(window, qtbot, tmp_path):
    texts, floats = tmp_path / "texts.onnx", tmp_path / "floats.onnx"
    head = '<ir_version: 9, opset_import: ["" : 17]>'
    builders.model_file(texts, head + "a (string[2] x) => (string[2] y) { y = Identity (x) }")
    builders.model_file(floats, head + "b (float[2] x) => (float[2] y) { y = Relu (x) }")
    workspace = opened(window, qtbot, texts)
    run(qtbot, workspace)
    write_run(workspace, tmp_path / "run.npz")
    idle(qtbot, workspace)
    workspace = opened(window, qtbot, floats)
    with qtbot.waitSignal(workspace.results.run_finished):
        restore_run(workspace, tmp_path / "run.npz")
    assert workspace.results.value_of(value(workspace, "x")).dtype == object
    workspace.trigger("run.run")
    qtbot.waitUntil(lambda: workspace.run_state == "Not run")


def test_the_first_divergence_may_be_in_a_body(window, qtbot, nested, tmp_path):
    workspace = opened(window, qtbot, nested)
    workspace.runs.inputs.set_source("x", Constant([[1.0, 2.0], [3.0, -9.0]]))
    workspace.runs.inputs.set_source("b", Constant(True))
    run(qtbot, workspace)
    write_run(workspace, tmp_path / "run.npz")
    idle(qtbot, workspace)
    body = node(workspace, "loop").attributes["body"].value
    scale = next(one for one in body.nodes if one.name == "scale")
    with workspace.document.edit("Add") as transaction:
        transaction.do(SetField(scale, "op_type", "Add"))
    run(qtbot, workspace)
    panel = window.docks.open("compare")
    for reference in (compare.with_run_before(workspace), compare.with_npz(workspace, tmp_path / "run.npz")):
        panel.compare("before", reference)
        idle(qtbot, workspace)
        assert panel.first.name == "s", "what the last turn was given"
        panel.go_to_divergence()
        assert workspace.selection.current in body.inputs


def test_what_was_compared_says_so_when_another_run_is_shown(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    workspace.runs.inputs.set_source("x", Constant(1.0))
    run(qtbot, workspace)
    edit(workspace, "relu", "alpha", 0.25)
    run(qtbot, workspace)
    panel = window.docks.open("compare")
    compare_with(window, "Values: Previous run")
    idle(qtbot, workspace)
    report, overlays = panel.summary.text(), workspace.runs.overlays
    assert report.startswith("Previous run: ")
    assert panel.again.isHidden()
    run(qtbot, workspace)
    assert panel.summary.text() == f"Earlier run: {report}"
    assert "earlier run" in overlays.title
    panel.again.click()
    idle(qtbot, workspace)
    assert panel.again.isHidden()
    assert "agree" in panel.summary.text()


def test_a_key_that_two_values_would_have_reports_them_apart(window, qtbot, tmp_path):
    path = tmp_path / "alike.onnx"
    model = builders.proto(NESTED)
    model.graph.node[2].output[0] = model.graph.node[4].input[2] = "one > t"
    onnx.save(model, path)
    workspace = opened(window, qtbot, path)
    run(qtbot, workspace)
    result = workspace.results.current.result
    expected = {key: str(result.value(key)) for key in result.layout.slots if result.info(key) is not None}
    write_run(workspace, tmp_path / "run.npz")
    idle(qtbot, workspace)
    with np.load(tmp_path / "run.npz") as arrays:
        assert {"one > t", "one > t~2"} <= set(arrays.files)
    with qtbot.waitSignal(workspace.results.run_finished):
        restore_run(workspace, tmp_path / "run.npz")
    idle(qtbot, workspace)
    shown = workspace.results.current.result
    assert all(str(shown.find(key)) == expected[key] for key in shown.layout.slots)


def test_a_run_of_an_older_model_shows_what_still_exists(window, qtbot, nested, saved):
    workspace, report = opened(window, qtbot, nested), []
    workspace.messages.shown.connect(lambda message: report.append((message.severity, message.detail)))
    with workspace.document.edit("Rename") as transaction:
        transaction.do(SetField(value(workspace, "odd"), "name", "even"))
    with qtbot.waitSignal(workspace.results.run_finished):
        restore_run(workspace, saved[0])
    idle(qtbot, workspace)
    assert workspace.results.value_of(value(workspace, "even")) is None
    assert workspace.results.value_of(value(workspace, "y")) is not None
    assert report == [("warning", "Not in this model: 1 value of run.npz. The others are shown.")]


@pytest.mark.parametrize(
    "report",
    [
        "{",
        "[" * 100_000,
        json.dumps({"seed": 0, "inputs": ["x"], "values": [[["x"], {"key": "gone"}]]}),
        json.dumps({"seed": 0, "inputs": ["x"], "values": [[["x"], {"key": "x", "type": "no type"}]]}),
        json.dumps({"seed": 0, "inputs": ["x"], "values": [[["x"], [[[[[[[[[[[]]]]]]]]]]]]]}),
        json.dumps({"seed": "much", "inputs": 5, "values": 7}),
        json.dumps({"seed": 0, "inputs": ["x"], "values": [], "profile": {"addresses": [], "arrays": {}}}),
        json.dumps({"seed": 0, "inputs": ["x"], "values": [], "profile": 5}),
        json.dumps({"seed": float("inf"), "inputs": ["x"], "values": []}),
    ],
)
def test_a_file_that_claims_to_be_a_run_is_refused(window, qtbot, nested, tmp_path, report):
    np.savez(tmp_path / "bad.npz", x=np.ones((1, 2), np.float32), __run__=np.array(report))
    workspace, messages = opened(window, qtbot, nested), []
    workspace.messages.shown.connect(messages.append)
    restore_run(workspace, tmp_path / "bad.npz")
    qtbot.waitUntil(lambda: bool(messages))
    assert messages[0].severity == "error"
    assert "bad.npz" in messages[0].title


def test_a_loaded_run_is_the_source_of_inputs_until_changed(window, qtbot, nested, saved):
    workspace = opened(window, qtbot, nested)
    rows = {row._name: row for row in window.docks.open("run").rows}
    restore_run(workspace, saved[0])
    idle(qtbot, workspace)
    for row in rows.values():
        assert row.source.currentText() == "Saved run"
        assert not any(editor.isVisible() for editor in row.editors.values())
    box = rows["x"].source
    box.setCurrentIndex(box.findText("Random"))
    box.activated.emit(box.currentIndex())
    assert box.currentText() == "Random"
    assert box.findText("Saved run") < 0
    assert rows["x"].editors["random"].isVisible()
    assert rows["b"].source.currentText() == "Saved run"


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"seed": 1 << 99}, "seed"),
        ({"seed": -1}, "the seed is -1"),
        ({"values": [[["x"], {"key": "gone"}]]}, "'gone' is missing"),
        ({"values": [[["x"], {"key": "when"}]]}, "datetime64"),
    ],
)
def test_a_file_that_reports_of_no_run_changes_nothing(window, qtbot, net, tmp_path, changed, problem):
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    shown, given, report = workspace.results.current, dict(workspace.runs.inputs.given), []
    workspace.tasks.failed.connect(lambda task: report.append(task.error.detail))
    text = json.dumps({"seed": 0, "inputs": ["x"], "values": [[["x"], {"key": "x"}]]} | changed)
    arrays = {"when": np.array(["2020-02-02"], "datetime64[D]")} if "when" in text else {}
    np.savez(tmp_path / "run.npz", x=np.ones((1, 3, 8, 8), np.float32), __run__=np.array(text), **arrays)
    restore_run(workspace, tmp_path / "run.npz")
    idle(qtbot, workspace)
    assert problem in report.pop()
    assert (workspace.results.current, workspace.runs.inputs.given) == (shown, given)


@pytest.mark.parametrize(("saved", "state"), [([1, 2], "Ran 1 node"), ([1, 300], "Not run")])
def test_integers_of_a_run_are_narrowed_where_they_fit(window, qtbot, tmp_path, saved, state):
    head = '<ir_version: 9, opset_import: ["" : 17]>'
    for kind in ("int64", "int8"):
        model = builders.proto(f"{head} a ({kind}[2] x) => ({kind}[2] y) {{ y = Identity (x) }}")
        onnx.save(model, tmp_path / f"{kind}.onnx")
    workspace = opened(window, qtbot, tmp_path / "int64.onnx")
    workspace.runs.inputs.set_source("x", Constant(saved))
    run(qtbot, workspace)
    write_run(workspace, tmp_path / "run.npz")
    idle(qtbot, workspace)
    workspace = opened(window, qtbot, tmp_path / "int8.onnx")
    restore_run(workspace, tmp_path / "run.npz")
    idle(qtbot, workspace)
    workspace.trigger("run.run")
    idle(qtbot, workspace)
    assert workspace.run_state.startswith(state)
    assert workspace.runs.inputs.given["x"].tolist() == saved
