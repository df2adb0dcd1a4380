"""Runs held against others through the real window: before an edit, fewer bits, other models, ONNX Runtime."""

import numpy as np
import onnx
import pytest

from exec.inputs import Constant, Random
from model.edits.values import rename_value
from tests.viewer.runs.driving import edit, make_finite, node, opened, run, value
from viewer.runs import comparing


def compared(qtbot, panel, prepare):
    panel.rows = []
    panel.compare("other", prepare)
    qtbot.waitUntil(lambda: bool(panel.rows) and not panel.workspace.jobs.running, timeout=60_000)
    return {row.name: row.difference for row in panel.rows}


def test_a_comparison_that_fails_is_over(window, qtbot, net, tmp_path):
    workspace = opened(window, qtbot, net)
    make_finite(workspace)
    run(qtbot, workspace)
    panel = window.docks.open("compare")
    invitation = panel.summary.text()
    messages = []
    workspace.messaged.connect(messages.append)
    panel.compare("gone", comparing.with_npz(workspace, tmp_path / "gone.npz"))
    qtbot.waitUntil(lambda: bool(messages) and not workspace.jobs.running)
    assert panel.summary.text() == invitation


def test_the_run_before_an_edit_differs_from_where_the_edit_was(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    make_finite(workspace)
    run(qtbot, workspace)
    edit(workspace, "relu", "alpha", 0.1)
    run(qtbot, workspace)
    panel = window.docks.open("compare")
    found = compared(qtbot, panel, comparing.with_run_before(workspace))
    assert {name for name, d in found.items() if d.max_abs} == {"r", "m", "y"}
    assert panel.first.name == "r"
    panel.go_to_divergence()
    assert workspace.selection.current is value(workspace, "r")
    assert (
        workspace.runs.overlays.numbers[node(workspace, "relu")]
        > workspace.runs.overlays.numbers[node(workspace, "conv")]
    )


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "int8"])
def test_fewer_bits_show_in_what_is_rounded_and_after_it(window, qtbot, net, precision):
    workspace = opened(window, qtbot, net)
    workspace.runs.inputs.set_source("x", Random(low=0.1, high=1.0))
    run(qtbot, workspace)
    panel = window.docks.open("compare")
    chosen = [node(workspace, "relu")]
    found = compared(qtbot, panel, comparing.with_precision(workspace, precision, chosen))
    assert {name for name, d in found.items() if d.max_abs} == {"r", "m", "y"}
    exact = workspace.results.value_of(value(workspace, "r"))
    step = {"float16": 2**-10, "bfloat16": 2**-7, "int8": 1 / 255}[precision]
    span = np.abs(exact).max() if precision != "int8" else max(exact.max(), 0) - min(exact.min(), 0)
    assert 0 < found["r"].max_abs <= step * span


def test_another_open_model_and_a_file_are_matched_by_name(window, qtbot, net, tmp_path):
    first = opened(window, qtbot, net)
    make_finite(first)
    run(qtbot, first)
    other_file = tmp_path / "other.onnx"
    other_file.write_bytes(net.read_bytes())
    second = opened(window, qtbot, other_file)
    second.runs.inputs.set_source("x", Constant(1.0))
    edit(second, "relu", "alpha", 0.0)
    run(qtbot, second)
    panel = window.docks.open("compare")
    assert compared(qtbot, panel, comparing.with_model(first))["c"].max_abs == 0
    assert panel.first.name == "r"
    archive = tmp_path / "c.npz"
    np.savez(archive, c=second.results.value_of(value(second, "c")) + 1)
    assert compared(qtbot, panel, comparing.with_npz(second, archive))["c"].max_abs == pytest.approx(1)


def test_another_open_model_that_was_not_run_gets_the_same_inputs(window, qtbot, net, tmp_path):
    first = opened(window, qtbot, net)
    first.runs.inputs.set_source("x", Constant(3.0))
    other_file = tmp_path / "other.onnx"
    other_file.write_bytes(net.read_bytes())
    second = opened(window, qtbot, other_file)
    make_finite(second)
    edit(second, "relu", "alpha", 0.0)
    run(qtbot, second)
    panel = window.docks.open("compare")
    found = compared(qtbot, panel, comparing.with_model(first))
    assert found["c"].max_abs == 0, "its own inputs are others"
    assert panel.first.name == "r"
    assert first.results.current is None, "what it shows itself stays"


def test_colours_that_are_not_of_a_comparison_stay_when_nothing_differs(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    make_finite(workspace)
    run(qtbot, workspace)
    edit(workspace, "relu", "alpha", 0.1)
    run(qtbot, workspace)
    panel, overlays = window.docks.open("compare"), workspace.runs.overlays
    workspace.trigger("run.colour_memory")
    same = comparing.with_record(workspace, workspace.results.current)
    compared(qtbot, panel, same)
    assert overlays.kind == "memory"
    compared(qtbot, panel, comparing.with_run_before(workspace))
    assert overlays.title.startswith("Error")
    compared(qtbot, panel, same)
    assert overlays.kind == ""


def test_another_open_model_that_lacks_inputs_is_named(window, qtbot, net, tmp_path):
    path = tmp_path / "other.onnx"
    text = '<ir_version: 9, opset_import: ["": 17]> g (float[2] image) => (float[2] y) { y = Neg (image) }'
    onnx.save(onnx.parser.parse_model(text), path)
    other = opened(window, qtbot, path)
    workspace, told = opened(window, qtbot, net), []
    make_finite(workspace)
    run(qtbot, workspace)
    workspace.messaged.connect(told.append)
    window.docks.open("compare").compare("other", comparing.with_model(other))
    qtbot.waitUntil(lambda: bool(told) and not workspace.jobs.running, timeout=30_000)
    assert told[0].title == "other.onnx cannot be run with these inputs"
    assert "image" in told[0].detail


def test_every_other_open_model_is_offered_until_it_is_closed(window, qtbot, net, tmp_path):
    other_file = tmp_path / "other.onnx"
    other_file.write_bytes(net.read_bytes())
    opened(window, qtbot, other_file)
    other = window.tabs()[-1]
    workspace = opened(window, qtbot, net)
    make_finite(workspace)
    run(qtbot, workspace)
    panel = window.docks.open("compare")

    def offered():
        panel.menu.aboutToShow.emit()
        return {action.text(): action for action in panel.menu.actions() if "open model" in action.text()}

    assert "The open model net.onnx" not in offered()
    assert not other.workspace.has_runs
    offered()["The open model other.onnx"].trigger()
    qtbot.waitUntil(lambda: bool(panel.rows), timeout=60_000)
    assert panel.summary.text().startswith("The open model other.onnx: ")
    window.remove_tab(other)
    assert "The open model other.onnx" not in offered()


def test_another_open_model_that_had_other_inputs_gets_the_same(window, qtbot, net, tmp_path):
    first = opened(window, qtbot, net)
    make_finite(first)
    first.runs.inputs.set_source("x", Constant(3.0))
    run(qtbot, first)
    theirs = first.results.current
    other_file = tmp_path / "other.onnx"
    other_file.write_bytes(net.read_bytes())
    second = opened(window, qtbot, other_file)
    make_finite(second)
    second.runs.inputs.set_source("x", Constant(1.0))
    run(qtbot, second)
    panel = window.docks.open("compare")
    assert not any(d.max_abs for d in compared(qtbot, panel, comparing.with_model(first)).values())
    assert first.results.current is theirs, "what it shows itself stays"
    edit(first, "relu", "alpha", 0.0)
    assert compared(qtbot, panel, comparing.with_model(first))["c"].max_abs == 0
    assert panel.first.name == "r", "compared with the model as it is"


def test_partners_in_another_open_model_get_the_same_inputs_whatever_it_ran_with(window, qtbot, net, tmp_path):
    first = opened(window, qtbot, net)
    make_finite(first)
    run(qtbot, first)
    theirs = first.results.current
    other_file = tmp_path / "other.onnx"
    other_file.write_bytes(net.read_bytes())
    second = opened(window, qtbot, other_file)
    with second.document.edit("Rename") as transaction:
        rename_value(transaction, value(second, "x"), "picture")
    second.runs.inputs.set_source("picture", Constant(3.0))
    run(qtbot, second)
    panel = window.docks.open("compare")
    partners = {v: value(first, "x" if v.name == "picture" else v.name) for v in second.model.graph.values()}
    found = compared(qtbot, panel, comparing.with_partners(second, first, partners.get).prepare)
    assert {"picture", "c", "y"} <= found.keys()
    assert not any(d.max_abs for d in found.values())
    assert first.results.current is theirs, "what it shows itself stays"


def test_onnx_runtime_agrees(window, qtbot, net):
    pytest.importorskip("onnxruntime")
    workspace = opened(window, qtbot, net)
    make_finite(workspace)
    run(qtbot, workspace)
    panel = window.docks.open("compare")
    found = compared(qtbot, panel, comparing.with_onnxruntime(workspace))
    assert set(found) >= {"c", "l", "r", "m", "y"}
    assert all(d.within(1e-4, 1e-5) for d in found.values())
