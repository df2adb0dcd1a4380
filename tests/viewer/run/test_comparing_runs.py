"""Runs compared with others through the real window: before an edit, fewer bits, other models, ONNX Runtime."""

import threading
import time

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDockWidget

from onnx_workbench.exec.inputs.sources import Constant, Random
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.values.statistics import Summary, describe
from onnx_workbench.model.edits.values import rename_value
from onnx_workbench.viewer.dialogs.convert import ConvertDialog
from onnx_workbench.viewer.run.results import compare
from tests.model import builders
from tests.viewer.background_work import wait_for_readers
from tests.viewer.run.run_actions import (
    ONNX_RUNTIME,
    compare_with,
    copy_of,
    edit,
    make_finite,
    needs_onnx_runtime,
    node,
    opened,
    opened_and_run,
    references,
    run,
    value,
)

pytestmark = pytest.mark.long


def compared(qtbot, panel, prepare):
    panel.rows = []
    panel.compare("other", prepare)
    qtbot.waitUntil(lambda: bool(panel.rows) and not panel.workspace.tasks.running)
    wait_for_readers(qtbot)
    return {row.name: row.difference for row in panel.rows}


def test_a_comparison_that_fails_is_over(window, qtbot, received, net, tmp_path):
    workspace = opened_and_run(window, qtbot, net)
    panel = window.docks.open("compare")
    invitation = panel.summary.text()
    messages = received(workspace.messages.shown)
    panel.compare("gone", compare.with_npz(workspace, tmp_path / "gone.npz"))
    qtbot.waitUntil(lambda: bool(messages) and not workspace.tasks.running)
    assert panel.summary.text() == invitation


def test_the_run_before_an_edit_differs_from_where_the_edit_was(window, qtbot, net):
    workspace = opened_and_run(window, qtbot, net)
    edit(workspace, "relu", "alpha", 0.1)
    run(qtbot, workspace)
    panel = window.docks.open("compare")
    found = compared(qtbot, panel, compare.with_run_before(workspace))
    assert {name for name, d in found.items() if d.max_abs} == {"r", "m", "y"}
    assert panel.first.name == "r"
    panel.go_to_divergence()
    assert workspace.selection.current is value(workspace, "r")
    qtbot.waitUntil(lambda: bool(workspace.runs.overlays.numbers))
    assert node(workspace, "relu") in workspace.runs.overlays.numbers
    assert node(workspace, "conv") not in workspace.runs.overlays.numbers, "what agrees has no colour"


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "int8"])
def test_fewer_bits_show_in_what_is_rounded_and_after_it(window, qtbot, net, precision):
    workspace = opened(window, qtbot, net)
    workspace.runs.inputs.set_source("x", Random(low=0.1, high=1.0))
    run(qtbot, workspace)
    panel = window.docks.open("compare")
    chosen = [node(workspace, "relu")]
    found = compared(qtbot, panel, compare.with_precision(workspace, precision, chosen))
    assert {name for name, d in found.items() if d.max_abs} == {"r", "m", "y"}
    exact = workspace.results.value_of(value(workspace, "r"))
    step = {"float16": 2**-10, "bfloat16": 2**-7, "int8": 1 / 255}[precision]
    span = np.abs(exact).max() if precision != "int8" else max(exact.max(), 0) - min(exact.min(), 0)
    assert 0 < found["r"].max_abs <= step * span


def test_another_open_model_and_a_file_are_matched_by_name(window, qtbot, net, tmp_path):
    first = opened_and_run(window, qtbot, net)
    second = opened(window, qtbot, copy_of(net))
    second.runs.inputs.set_source("x", Constant(1.0))
    edit(second, "relu", "alpha", 0.0)
    run(qtbot, second)
    panel = window.docks.open("compare")
    assert compared(qtbot, panel, compare.with_model(second, first))["c"].max_abs == 0
    assert panel.first.name == "r"
    archive = tmp_path / "c.npz"
    np.savez(archive, c=second.results.value_of(value(second, "c")) + 1)
    assert compared(qtbot, panel, compare.with_npz(second, archive))["c"].max_abs == pytest.approx(1)


def test_another_open_model_that_was_not_run_gets_the_same_inputs(window, qtbot, net, tmp_path):
    first = opened(window, qtbot, net)
    first.runs.inputs.set_source("x", Constant(3.0))
    second = opened(window, qtbot, copy_of(net))
    make_finite(second)
    edit(second, "relu", "alpha", 0.0)
    run(qtbot, second)
    panel = window.docks.open("compare")
    found = compared(qtbot, panel, compare.with_model(second, first))
    assert found["c"].max_abs == 0, "its own inputs are others"
    assert panel.first.name == "r"
    assert first.results.current is None, "what it shows itself stays"


def test_a_model_failing_midway_is_compared_as_far_as_it_ran(window, qtbot, net, tmp_path):
    other, workspace, report = opened(window, qtbot, copy_of(net)), opened_and_run(window, qtbot, net), []
    edit(other, "relu", "alpha", 0.0)
    edit(other, "mean", "axes", [2, 9])
    workspace.messages.shown.connect(report.append)
    panel = window.docks.open("compare")
    found = compared(qtbot, panel, compare.with_model(workspace, other))
    assert {"c", "l", "r"} <= found.keys()
    assert not {"m", "y"} & found.keys()
    assert (found["c"].max_abs, panel.first.name) == (0, "r")
    assert [message.title for message in report] == ["Not every value could be compared"]
    assert "other.onnx did not finish" in report[0].detail
    assert "ReduceMean" in report[0].detail
    bar = workspace.parent().message_bar
    assert [message.title for message in bar.messages] == ["Not every value could be compared"]
    edit(other, "mean", "axes", [2, 3])
    found = compared(qtbot, panel, compare.with_model(workspace, other))
    assert "y" in found
    assert bar.messages == []


def test_fewer_bits_show_as_far_as_a_model_runs_that_fails(window, qtbot, net):
    workspace, report = opened(window, qtbot, net), []
    make_finite(workspace)
    edit(workspace, "mean", "axes", [2, 9])
    run(qtbot, workspace)
    workspace.messages.shown.connect(report.append)
    panel = window.docks.open("compare")
    found = compared(qtbot, panel, compare.with_precision(workspace, "float16", None))
    assert found["r"].max_abs > 0
    assert not {"m", "y"} & found.keys()
    assert report[0].detail.startswith("The run in float16 did not finish. ReduceMean failed")


def test_other_colours_stay_when_nothing_differs(window, qtbot, net):
    workspace = opened_and_run(window, qtbot, net)
    edit(workspace, "relu", "alpha", 0.1)
    run(qtbot, workspace)
    panel, overlays = window.docks.open("compare"), workspace.runs.overlays
    workspace.trigger("run.colour_memory")
    same = compare.with_record(workspace, workspace.results.current)
    compared(qtbot, panel, same)
    assert overlays.kind == "memory"
    compared(qtbot, panel, compare.with_run_before(workspace))
    assert overlays.title.startswith("Max error")
    compared(qtbot, panel, same)
    assert overlays.kind == ""


def test_another_open_model_that_lacks_inputs_is_named(window, qtbot, net, tmp_path):
    text = '<ir_version: 9, opset_import: ["": 17]> g (float[2] image) => (float[2] y) { y = Neg (image) }'
    other = opened(window, qtbot, builders.model_file(tmp_path / "other.onnx", text))
    workspace, report = opened(window, qtbot, net), []
    make_finite(workspace)
    run(qtbot, workspace)
    workspace.messages.shown.connect(report.append)
    window.docks.open("compare").compare("other", compare.with_model(workspace, other))
    qtbot.waitUntil(lambda: bool(report) and not workspace.tasks.running)
    assert report[0].title == "other.onnx cannot be run with these inputs"
    assert "image" in report[0].detail


def test_every_other_open_model_is_offered_until_it_is_closed(window, qtbot, net, tmp_path):
    opened(window, qtbot, copy_of(net))
    other = window.tabs()[-1]
    opened_and_run(window, qtbot, net)
    panel = window.docks.open("compare")

    assert "Values: net.onnx" not in references(window)
    assert not other.workspace.has_runs
    assert not compare_with(window, "Values: other.onnx")
    qtbot.waitUntil(lambda: panel.summary.text().startswith("other.onnx: "))
    window.area.remove_tab(other)
    assert "Values: other.onnx" not in references(window)


def test_another_open_model_that_had_other_inputs_gets_the_same(window, qtbot, net, tmp_path):
    first = opened(window, qtbot, net)
    make_finite(first)
    first.runs.inputs.set_source("x", Constant(3.0))
    run(qtbot, first)
    theirs = first.results.current
    second = opened(window, qtbot, copy_of(net))
    make_finite(second)
    second.runs.inputs.set_source("x", Constant(1.0))
    run(qtbot, second)
    panel = window.docks.open("compare")
    assert not any(d.max_abs for d in compared(qtbot, panel, compare.with_model(second, first)).values())
    assert first.results.current is theirs, "what it shows itself stays"
    edit(first, "relu", "alpha", 0.0)
    assert compared(qtbot, panel, compare.with_model(second, first))["c"].max_abs == 0
    assert panel.first.name == "r", "compared with the model as it is"


def test_a_partner_model_gets_the_same_inputs(window, qtbot, net, tmp_path):
    first = opened_and_run(window, qtbot, net)
    theirs = first.results.current
    second = opened(window, qtbot, copy_of(net))
    with second.document.edit("Rename") as transaction:
        rename_value(transaction, value(second, "x"), "picture")
    second.runs.inputs.set_source("picture", Constant(3.0))
    run(qtbot, second)
    panel = window.docks.open("compare")
    partners = {v: value(first, "x" if v.name == "picture" else v.name) for v in second.model.graph.values()}
    found = compared(qtbot, panel, compare.with_model(second, first, partners.get))
    assert {"picture", "c", "y"} <= found.keys()
    assert not any(d.max_abs for d in found.values())
    assert first.results.current is theirs, "what it shows itself stays"


def test_onnx_runtime_agrees(window, qtbot, net):
    pytest.importorskip("onnxruntime")
    workspace = opened_and_run(window, qtbot, net)
    panel = window.docks.open("compare")
    found = compared(qtbot, panel, compare.with_onnxruntime(workspace))
    assert set(found) >= {"c", "l", "r", "m", "y"}
    assert all(d.within(1e-4, 1e-5) for d in found.values())


FUNCTION = """
<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
net (float[3] x) => (float[3] y)
{
    [call] a = own.twice (x)
    [neg] h = Neg (a)
    [end] y = Identity (h)
}
<domain: "own", opset_import: ["" : 21]>
twice (v) => (w) { [one] h = Add (v, v)
  [two] w = SCALE (h) }
"""


def of_function(path, operator="Abs"):
    builders.model_file(path, FUNCTION.replace("SCALE", operator))
    return path


def run_beside_another(window, qtbot, net, tmp_path):
    """A model that was run, in front of an open copy of it that was not."""
    other = opened(window, qtbot, copy_of(net))
    workspace = opened_and_run(window, qtbot, net)
    return workspace, other


def pick(qtbot, panel, text):
    """Choose a reference by its title; whether values differ, by places and names."""
    panel.rows = []
    assert not compare_with(panel.window(), f"Values: {text}")
    qtbot.waitUntil(lambda: not panel.workspace.tasks.running)
    wait_for_readers(qtbot)
    return {(bool(row.key[0]), row.name): row.difference.max_abs for row in panel.rows}


def test_a_comparison_before_the_first_run_runs_the_model(window, qtbot, net, tmp_path):
    workspace = opened(window, qtbot, net)
    panel = window.docks.open("compare")
    assert not compare_with(window, "Values: All nodes in float16")
    qtbot.waitUntil(lambda: bool(panel.rows))
    wait_for_readers(qtbot)
    assert workspace.results.current is not None
    assert panel.isVisible()
    panel.save(tmp_path / "rows.csv")
    header, *lines = (tmp_path / "rows.csv").read_text(encoding="utf-8").splitlines()
    assert header.startswith("value,operator,matched with,error,")
    assert len(lines) == len(panel.rows)
    panel.absolute.setText("10")
    panel.absolute.editingFinished.emit()
    panel.only.setChecked(True)
    qtbot.waitUntil(lambda: panel.table.targets() == [])
    panel.only.setChecked(False)
    qtbot.waitUntil(lambda: len(panel.table.targets()) == len(panel.rows))
    panel.table.selectRow(0)
    qtbot.keyClick(panel.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text().split("\t")[1] == panel.table.targets()[0].name


@needs_onnx_runtime
def test_names_of_the_graph_are_not_looked_for_in_functions(window, qtbot, tmp_path):
    workspace = opened_and_run(window, qtbot, of_function(tmp_path / "f.onnx"))
    panel = window.docks.open("compare")
    assert pick(qtbot, panel, "ONNX Runtime") == {(False, "a"): 0, (False, "h"): 0, (False, "y"): 0}
    archive = tmp_path / "h.npz"
    np.savez(archive, h=workspace.results.value_of(value(workspace, "h")))
    assert compared(qtbot, panel, compare.with_npz(workspace, archive))["h"].max_abs == 0


def test_another_open_model_is_compared_in_its_functions_too(window, qtbot, tmp_path):
    opened(window, qtbot, of_function(tmp_path / "other.onnx", "Neg"))
    opened_and_run(window, qtbot, of_function(tmp_path / "f.onnx"))
    found = pick(qtbot, window.docks.open("compare"), "other.onnx")
    assert found == {(False, "x"): 0, (True, "h"): 0, (False, "a"): 4, (False, "h"): 4, (False, "y"): 4}


def test_what_an_edit_did_is_no_error_of_fewer_bits(window, qtbot, received, net):
    workspace = opened_and_run(window, qtbot, net)
    edit(workspace, "relu", "alpha", 0.1)
    report = received(workspace.messages.shown)
    panel = window.docks.open("compare")
    assert pick(qtbot, panel, "All nodes in float16") == {}
    assert [message.title for message in report] == ["The run is out of date"]
    workspace.document.undo()
    with workspace.document.edit("Rename") as transaction:
        rename_value(transaction, value(workspace, "r"), "renamed")
    assert 0 < pick(qtbot, panel, "All nodes in float16")[False, "renamed"] < 0.01


@pytest.mark.parametrize("choice", ["All nodes in float16", ONNX_RUNTIME])
def test_a_run_does_not_know_an_input_by_a_name_it_got_since(window, qtbot, received, net, choice):
    workspace = opened_and_run(window, qtbot, net)
    with workspace.document.edit("Rename") as transaction:
        rename_value(transaction, value(workspace, "x"), "renamed")
    report = received(workspace.messages.shown)
    panel = window.docks.open("compare")
    assert pick(qtbot, panel, choice) == {}
    assert [message.title for message in report] == ["The run is out of date"]
    run(qtbot, workspace)
    assert pick(qtbot, panel, choice)[False, "y"] < 0.01


def test_a_document_that_was_closed_is_not_run_again(window, qtbot, net, tmp_path):
    workspace, other = run_beside_another(window, qtbot, net, tmp_path)
    panel, report = window.docks.open("compare"), []
    pick(qtbot, panel, "other.onnx")
    wait_for_readers(qtbot)
    window.area.remove_tab(next(tab for tab in window.tabs() if tab.workspace is other))
    workspace.messages.shown.connect(report.append)
    panel.compare_again()
    qtbot.waitUntil(lambda: not workspace.tasks.running)
    assert [message.title for message in report] == ["other.onnx was closed"]
    wait_for_readers(qtbot)
    assert "agree" in panel.summary.text(), "what was found before stays"


TWICE = """
<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
net (float[3] x) => (float[3] y)
{
    [one] a = own.square (x)
    [two] y = own.square (a)
}
<domain: "own", opset_import: ["" : 21]>
square (v) => (w) { [mul] h = Mul (v, v)
  [neg] w = Neg (h) }
"""


def test_values_of_several_calls_are_reported_apart(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "twice.onnx", TWICE))
    workspace.runs.inputs.set_source("x", Constant(3.0))
    run(qtbot, workspace)
    workspace.runs.inputs.set_source("x", Constant(4.0))
    run(qtbot, workspace)
    panel = window.docks.open("compare")
    pick(qtbot, panel, "Previous run")
    wait_for_readers(qtbot)
    rows = panel.table.model()
    names = [rows.index(row, 1).data() for row in range(rows.rowCount())]
    assert {name for name in names if "h" in name} == {"one › h", "two › h"}
    shown = []
    for row in panel.rows:
        if row.name == "h":
            panel.table.chosen.emit(row)
            shown.append(workspace.results.value_of(workspace.selection.current)[0])
    assert shown == [16, 256], "those of each call"
    profile = window.docks.open("profile")
    wait_for_readers(qtbot)
    profile.view.setCurrentIndex(2)
    wait_for_readers(qtbot)
    alive = set()
    for moment in profile.memory.curve.moments:
        profile.memory.curve.pointed.emit(moment)
        wait_for_readers(qtbot)
        table = profile.memory.table.model()
        alive |= {table.index(row, 0).data() for row in range(table.rowCount())}
    assert {name for name in alive if "h" in name} == {"one › h", "two › h"}


def test_controls_and_results_share_a_small_window(window, qtbot, net):
    opened_and_run(window, qtbot, net)
    window.resize(800, 512)
    panel = window.docks.open("compare")
    docks = [window.findChild(QDockWidget, f"panel.{name}") for name in ("inspector", "compare")]
    window.resizeDocks(docks[:1], [600], Qt.Orientation.Horizontal)
    window.resizeDocks(docks[1:], [10], Qt.Orientation.Vertical)
    assert pick(qtbot, panel, "All nodes in bfloat16")
    controls = [panel.choose, panel.divergence, panel.relative.parentWidget(), panel.colour, panel.clear_button]

    def is_legible():
        report = panel.summary.geometry()
        bottom = max(control.geometry().bottom() for control in controls)
        below = report.top() > bottom and panel.table.y() > report.bottom()
        return below and report.height() >= panel.summary.heightForWidth(report.width())

    qtbot.waitUntil(is_legible)
    panel.summary.setText("one of many lines\n" * 20)
    qtbot.waitUntil(lambda: panel.summary.height() > 20 * panel.fontMetrics().height() and is_legible())


@pytest.mark.parametrize("choice", ["All nodes in float16", "other.onnx"])
def test_what_is_computed_for_a_comparison_comes_between_runs(window, qtbot, net, tmp_path, monkeypatch, choice):
    """In this process a session is used by one thread at a time."""
    workspace, other = run_beside_another(window, qtbot, net, tmp_path)
    turn, has_turn = (other if "other" in choice else workspace).runs.run_session.run_lock, []
    perform = Session.perform

    def watched(session, request, **more):
        has_turn.append(turn._lock.locked())
        result = perform(session, request, **more)
        y = result.key("y")
        slot, fetch = result.layout.slots[y], result.fetch
        result.summaries = {**result.summaries, slot: Summary(describe(result.slots[slot]), None)}
        result.slots[slot] = MISSING

        def bring(key, progress):
            has_turn.append(turn._lock.locked())
            return fetch(key, progress)

        result.fetch = bring
        return result

    monkeypatch.setattr(Session, "perform", watched)
    found = pick(qtbot, window.docks.open("compare"), choice)
    assert found[False, "y"] < 1
    assert len(has_turn) >= 2  # the tensor panel reads one, too
    assert all(has_turn)


def test_a_stopped_comparison_fetches_no_more_values(window, qtbot, net, tmp_path):
    other_file = tmp_path / "other.onnx"
    other_file.write_bytes(net.read_bytes())
    other, workspace = (opened_and_run(window, qtbot, path) for path in (other_file, net))
    theirs, begun = other.results.current.result, threading.Event()
    theirs.summaries = {slot: Summary(describe(np.zeros(1)), None) for slot in range(1, len(theirs.slots))}
    theirs.slots[:] = [MISSING] * len(theirs.slots)

    def until_stopped(_key, progress):
        begun.set()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            progress.check()
            time.sleep(0.001)
        pytest.fail("nobody wants it any more")

    theirs.fetch = until_stopped
    panel = window.docks.open("compare")
    panel.compare("other", compare.with_model(workspace, other))
    qtbot.waitUntil(begun.is_set)
    (task,) = workspace.tasks.running
    workspace.tasks.cancel_all()
    qtbot.waitUntil(lambda: not workspace.tasks.running)
    assert task.error is None
    assert not panel.rows


FLOAT = """g (float[4,3] x) => (float[4,2] y)
  <float[3,2] w = {1, -1, 0.5, 0.25, -0.5, 1}> { [mul] a = MatMul (x, w)  [relu] b = Relu (a)  [neg] y = Neg (b) }"""

#: As static quantization writes it: the Relu is folded, and MatMul writes its result.
QUANTIZED = """g (float[4,3] x) => (float[4,2] y)
  <float[3,2] w = {1, -1, 0.5, 0.25, -0.5, 1}, float s = {0.01}, uint8 z = {0}, float sx = {0.008}, uint8 zx = {128}> {
  xq = QuantizeLinear (x, sx, zx)  xd = DequantizeLinear (xq, sx, zx)  b = MatMul (xd, w)
  bq = QuantizeLinear (b, s, z)  bd = DequantizeLinear (bq, s, z)  y = Neg (bd) }"""


@pytest.fixture
def pair(window, qtbot, tmp_path):
    """The documents of a float model and of its quantized form, the float one run and in front."""
    for name, text in (("quantized.onnx", QUANTIZED), ("float.onnx", FLOAT)):
        builders.model_file(tmp_path / name, text)
    quantized = opened(window, qtbot, tmp_path / "quantized.onnx")
    precise = opened(window, qtbot, tmp_path / "float.onnx")
    precise.runs.inputs.set_source("x", Constant(np.linspace(-1, 1, 12).reshape(4, 3).tolist()))
    run(qtbot, precise)
    return precise, quantized


def test_quantized_values_are_matched_with_what_replaces_them(window, qtbot, pair):
    precise, quantized = pair
    panel = window.docks.open("compare")
    compared(qtbot, panel, compare.with_model(precise, quantized))
    assert [(row.name, row.other) for row in panel.rows] == [("x", "xd"), ("a", "b"), ("b", "bd"), ("y", "y")]
    assert "4 values agree" in panel.summary.text(), "within what 8 bits explain"
    lost = {precise.results.value_by_number(key[1]).name: loss.snr for key, loss in panel._outcome.local.items()}
    assert set(lost) == {"b"}
    assert lost["b"] > 30
    assert not panel.table.isColumnHidden(5)
    panel.clear_button.click()
    assert panel.table.isColumnHidden(5)


def modes(pane):
    return [] if pane.mode_box.isHidden() else [pane.mode_box.itemText(i) for i in range(pane.mode_box.count())]


def select(qtbot, pane, one):
    pane.workspace.selection.set([one])
    qtbot.waitUntil(lambda: pane.target is not None and pane.target.value is one and not pane.workspace.tasks.running)


def shown(qtbot, pane, mode):
    """Choose one of this, other and difference; the numbers shown."""
    qtbot.waitUntil(lambda: mode in modes(pane))
    pane.mode_box.setCurrentText(mode)
    pane.mode_box.activated.emit(pane.mode_box.currentIndex())
    qtbot.waitUntil(lambda: pane.reader is not None and not pane.workspace.tasks.running)
    return pane.reader.flat(0, pane.reader.size)


def test_the_tensor_panel_shows_what_a_value_was_compared_with(window, qtbot, pair):
    precise, quantized = pair
    panel, pane = window.docks.open("compare"), window.docks.open("tensor").pane
    compared(qtbot, panel, compare.with_model(precise, quantized))
    select(qtbot, pane, value(precise, "b"))
    exact = shown(qtbot, pane, "This")
    other = shown(qtbot, pane, "Other")
    assert pane.storage.text() == "other"
    steps = other / np.float32(0.01)
    assert np.abs(steps - steps.round()).max() < 1e-4, "what is read instead of it"
    assert shown(qtbot, pane, "Difference") == pytest.approx(exact - other)
    panel.clear_button.click()
    qtbot.waitUntil(lambda: modes(pane) == [])
    assert panel.rows == []


@pytest.mark.parametrize("what", ["file", "float16", pytest.param("onnxruntime", marks=needs_onnx_runtime)])
def test_this_other_and_difference_are_offered_for_any_comparison(window, qtbot, pair, tmp_path, what):
    precise, _ = pair
    panel, pane = window.docks.open("compare"), window.docks.open("tensor").pane
    exact = precise.results.value_of(value(precise, "b"))
    np.savez(tmp_path / "b.npz", b=exact + 1)
    prepare = {
        "file": lambda: compare.with_npz(precise, tmp_path / "b.npz"),
        "float16": lambda: compare.with_precision(precise, "float16", None),
        "onnxruntime": lambda: compare.with_onnxruntime(precise),
    }[what]()
    compared(qtbot, panel, prepare)
    select(qtbot, pane, value(precise, "b"))
    expected = {"file": exact + 1, "float16": exact.astype(np.float16), "onnxruntime": exact}[what]
    close = pytest.approx(expected.ravel(), abs=2e-3 if what == "float16" else 1e-6)
    assert shown(qtbot, pane, "Other") == close
    select(qtbot, pane, value(precise, "a"))
    if what == "file":
        qtbot.waitUntil(lambda: modes(pane) == [])
    run(qtbot, precise, "run.fresh")
    select(qtbot, pane, value(precise, "b"))
    qtbot.waitUntil(lambda: modes(pane) == ["Value", "Before", "Difference"])


def test_where_nothing_matches_both_sides_are_named(window, qtbot, pair, tmp_path):
    precise, _ = pair
    np.savez(tmp_path / "other.npz", scores=np.zeros(5), boxes=np.zeros((7, 4)))
    panel = window.docks.open("compare")
    panel.compare("other.npz", compare.with_npz(precise, tmp_path / "other.npz"))
    qtbot.waitUntil(lambda: "This model has y; the other has scores, boxes" in panel.summary.text())


def test_nodes_of_selected_rows_are_kept_in_float(window, qtbot, pair):
    precise, _ = pair
    panel = window.docks.open("compare")
    compared(qtbot, panel, compare.with_precision(precise, "float16", None))
    assert not panel.keep_button.isEnabled()
    row = next(i for i, one in enumerate(panel.table.targets()) if one.name == "b")
    panel.table.selectRow(row)
    panel.keep_button.click()
    dialog = next(d for d in window.findChildren(ConvertDialog) if d.isVisible())
    assert (dialog.keep.text(), dialog.precision.currentData()) == ("relu", "float16")
    qtbot.waitUntil(lambda: dialog.list.count() > 0)
    dialog.reject()


def test_a_typed_tolerance_takes_the_place_of_those_by_type(window, qtbot, pair, tmp_path):
    precise, _ = pair
    exact = precise.results.value_of(value(precise, "b"))
    np.savez(tmp_path / "b.npz", b=exact + 1e-3)
    panel = window.docks.open("compare")
    compared(qtbot, panel, compare.with_npz(precise, tmp_path / "b.npz"))
    assert "1 of 1 value differ" in panel.summary.text()
    panel.absolute.setText("0.01")
    panel.absolute.editingFinished.emit()
    qtbot.waitUntil(lambda: "1 value agree" in panel.summary.text())
