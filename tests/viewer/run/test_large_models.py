"""A run of a model with many nodes: read a little at a time, and lit up as its nodes finish."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import onnx
import pytest

from onnx_workbench.exec.inspect.compare import ComparedValue as ComparedRow
from onnx_workbench.exec.inspect.compare import compare_values
from onnx_workbench.exec.inspect.node_data import NodeData
from onnx_workbench.exec.inspect.node_data_files import read_node_data
from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.model.history.steps import SetInput
from onnx_workbench.viewer.run.results import compare
from onnx_workbench.viewer.run.results.compare import ComparisonOutcome
from onnx_workbench.viewer.run.views.overlays import TITLES
from tests.viewer.background_work import pause_reader, wait_for_readers
from tests.viewer.run.run_actions import (
    compare_with,
    edit,
    idle,
    make_bad,
    needs_onnx_runtime,
    node,
    opened,
    run,
    value,
)

pytestmark = pytest.mark.long

COUNT = 4000


@pytest.fixture
def workspace(window, qtbot, tmp_path):
    names = ["x", *(f"v{number}" for number in range(COUNT))]
    nodes = [onnx.helper.make_node("LeakyRelu", [given], [made], made, alpha=0.5) for given, made in pairwise(names)]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in (names[0], names[-1])]
    graph = onnx.helper.make_graph(nodes, "long", ends[:1], ends[1:])
    path = tmp_path / "long.onnx"
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return opened(window, qtbot, path)


def test_the_model_is_read_while_the_window_goes_on(qtbot, workspace, monkeypatch):
    began, free = pause_reader(monkeypatch, workspace.runs.session, "prepare")
    workspace.runs.run()
    qtbot.waitUntil(began.is_set)
    assert workspace.runs.is_running
    assert not workspace.results.is_running, "much is still to be read"
    free.set()
    idle(qtbot, workspace)
    assert workspace.run_state.startswith(f"Ran {COUNT:,} nodes")


@pytest.fixture
def free(qtbot, workspace, monkeypatch):
    """A run was started and begins to read the model, for which it waits until this event is set."""
    began, free = pause_reader(monkeypatch, workspace.runs.session, "prepare")
    workspace.runs.run()
    qtbot.waitUntil(began.is_set)
    assert not workspace.results.is_running
    return free


def test_an_edit_while_the_model_is_read_is_in_the_run(qtbot, workspace, free):
    edit(workspace, f"v{COUNT - 1}", "alpha", 3.0)
    free.set()
    qtbot.waitUntil(lambda: workspace.results.current is not None)
    idle(qtbot, workspace)
    assert workspace.results.is_current
    assert workspace.results.has(value(workspace, "v5"))


def test_a_run_can_be_stopped_while_the_model_is_read(qtbot, workspace, free):
    workspace.runs.stop()
    free.set()
    wait_for_readers(qtbot)
    idle(qtbot, workspace)
    assert workspace.results.current is None


def numbers_matching(workspace, path):
    """Begin to match a number for each node with the nodes; the file of numbers has been read."""
    path.write_text(json.dumps({f"v{number}": number for number in range(COUNT)} | {"other": 0.5}))
    overlays = workspace.runs.overlays
    overlays.set_data((path, read_node_data(path)))
    assert not overlays.numbers, "the window does not wait for it"
    return overlays


def test_numbers_from_a_file_are_matched_in_the_background(qtbot, workspace, tmp_path):
    overlays = numbers_matching(workspace, tmp_path / "numbers.json")
    with workspace.document.edit("Rename") as transaction:
        rename_node(transaction, node(workspace, "v0"), "other")
    qtbot.waitUntil(lambda: overlays.title == "numbers")
    assert [overlays.numbers[node(workspace, name)] for name in ("other", "v1")] == [0.5, 1]
    assert len(overlays.numbers) == COUNT


def test_another_choice_ends_the_matching_of_numbers(qtbot, workspace, tmp_path):
    overlays = numbers_matching(workspace, tmp_path / "numbers.json")
    overlays.choose("")
    wait_for_readers(qtbot)
    assert not overlays.numbers


def test_nodes_that_finish_light_up_and_the_others_wait(workspace):
    marks = workspace.parent().canvas.marks
    nodes = list(workspace.model.graph.nodes)
    workspace.highlights.mark("stale", nodes)
    workspace.highlights.unmark("stale", nodes[:1500])
    drawing = marks.scene.drawing
    assert set(marks.boxes["stale"].tolist()) == {box for node in nodes[1500:] for box in drawing.boxes_of(node)}
    workspace.highlights.unmark("stale", nodes)
    assert not len(marks.boxes["stale"])


@pytest.mark.parametrize("kind", ["time", "size", "magnitude"])
def test_colours_of_nodes_are_computed_in_the_background(qtbot, ran, kind):
    overlays = ran.runs.overlays
    overlays.choose(kind)
    assert not overlays.numbers, "the window does not wait for it"
    qtbot.waitUntil(lambda: bool(overlays.numbers))
    assert overlays.title == TITLES[kind]
    assert len(overlays.numbers) == COUNT


def test_a_file_without_a_name_of_a_node_leaves_the_colours(qtbot, ran, tmp_path):
    overlays = ran.runs.overlays
    overlays.choose("size")
    qtbot.waitUntil(lambda: bool(overlays.numbers))
    overlays.set_data((tmp_path / "none.json", NodeData({"nobody": 1.0})))
    qtbot.waitUntil(lambda: overlays.kind == "size")
    qtbot.waitUntil(lambda: overlays.title == TITLES["size"])
    assert len(overlays.numbers) == COUNT


@pytest.fixture
def ran(qtbot, workspace):
    """The model after a run."""
    workspace.runs.run()
    qtbot.waitUntil(lambda: workspace.results.is_current)
    idle(qtbot, workspace)
    return workspace


def test_what_an_edit_makes_stale_is_found_while_the_window_goes_on(qtbot, ran):
    edit(ran, "v100", "alpha", 3.0)
    assert not ran.results.is_current
    assert ran.results.is_searching
    assert not ran.results.is_stale(value(ran, f"v{COUNT - 1}"))
    qtbot.waitUntil(lambda: not ran.results.is_searching)
    assert len(ran.results.stale) == 2 * (COUNT - 100)
    assert not ran.results.is_stale(value(ran, "v99"))
    assert len(ran.parent().canvas.marks.boxes["stale"]) == COUNT - 100


def test_edits_during_the_search_for_stale_values_add_to_it(qtbot, ran):
    edit(ran, "v3000", "alpha", 3.0)
    edit(ran, "v2000", "alpha", 3.0)
    with ran.document.edit("Rewire") as change:
        change.do(SetInput(node(ran, "v3000"), 0, value(ran, "x")))
    qtbot.waitUntil(lambda: not ran.results.is_searching)
    assert ran.results.is_stale(value(ran, "v2999"))
    assert ran.results.is_stale(value(ran, "v3999"))
    assert not ran.results.is_stale(value(ran, "v1999"))
    edit(ran, "v5", "alpha", 3.0)
    for _ in range(4):
        ran.document.undo()
    assert ran.results.is_current
    assert not ran.results.is_searching
    wait_for_readers(qtbot)
    assert ran.results.is_current


def test_a_comparison_of_very_many_values_is_shown_in_parts(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    panel = window.docks.open("compare")
    alike, off = (compare_values(np.float32([1.0]), np.float32([other])) for other in (1.0, 1.5))
    rows = [ComparedRow(((), -number), f"v{number}", f"v{number}", alike) for number in range(9_000)]
    rows[7_777] = replace(rows[7_777], difference=off)
    panel.compare("many", lambda _record, _progress: lambda _progress: ComparisonOutcome(rows))
    qtbot.waitUntil(lambda: panel.summary.text() == "many: 1 of 9,000 values differ, first v7777")
    qtbot.waitUntil(lambda: panel.table.source.rowCount() == 9_000)
    qtbot.waitUntil(lambda: panel.table.source.row(0).target is rows[7_777])
    assert [cell.text for cell in panel.table.source.row(0).cells[:2]] == ["7,778", "v7777"]


def test_a_model_is_read_for_a_comparison_while_the_window_goes_on(window, qtbot, tmp_path, workspace, monkeypatch):
    (tmp_path / "long2.onnx").write_bytes((tmp_path / "long.onnx").read_bytes())
    other = opened(window, qtbot, tmp_path / "long2.onnx")
    window.area.activate(window.tabs()[0])
    make_bad(workspace)
    edit(workspace, "v7", "alpha", 0.25)
    run(qtbot, workspace)
    panel = window.docks.open("compare")
    began, free = pause_reader(monkeypatch, other.runs.session, "prepare")
    assert not compare_with(window, "Values: long2.onnx")
    qtbot.waitUntil(began.is_set)
    assert "Comparing" in [task.title for task in workspace.tasks.running]
    edit(other, "v3", "alpha", 0.25)
    free.set()
    idle(qtbot, workspace)
    assert panel.first.name == "v3", "the edit counts"


def test_a_model_is_read_twice_side_by_side(window, qtbot, tmp_path, workspace):
    (tmp_path / "long2.onnx").write_bytes((tmp_path / "long.onnx").read_bytes())
    other = opened(window, qtbot, tmp_path / "long2.onnx")
    window.area.activate(window.tabs()[0])
    run(qtbot, workspace)
    panel = window.docks.open("compare")
    other.runs.run()
    panel.compare("other", compare.with_model(workspace, other))
    assert other.runs.is_running
    idle(qtbot, workspace)
    idle(qtbot, other)
    assert {row.difference.max_abs for row in panel.rows} == {0}
    assert len(panel.rows) == COUNT + 1
    assert other.results.is_current


@pytest.mark.parametrize(
    "choice", ["Values: All nodes in float16", pytest.param("Values: ONNX Runtime", marks=needs_onnx_runtime)]
)
def test_a_comparison_can_be_stopped_while_a_model_is_read(qtbot, window, workspace, choice):
    run(qtbot, workspace)
    edit(workspace, "v7", "alpha", 0.25)
    run(qtbot, workspace)
    panel = window.docks.open("compare")
    invitation = panel.summary.text()
    assert not compare_with(window, choice)
    assert panel.summary.text() != invitation
    workspace.tasks.cancel_all()
    qtbot.waitUntil(lambda: not workspace.tasks.running)
    wait_for_readers(qtbot)
    assert panel.summary.text() == invitation
    assert not panel.rows


@pytest.mark.parametrize("which", ["workspace", "other"])
def test_a_document_may_be_closed_while_it_is_read_for_a_comparison(
    window, qtbot, tmp_path, workspace, monkeypatch, which
):
    (tmp_path / "long2.onnx").write_bytes((tmp_path / "long.onnx").read_bytes())
    other = opened(window, qtbot, tmp_path / "long2.onnx")
    window.area.activate(window.tabs()[0])
    run(qtbot, workspace)
    report = []
    workspace.messages.shown.connect(lambda message: report.append(message.title))
    began, _ = pause_reader(monkeypatch, other.runs.session, "prepare")
    assert not compare_with(window, "Values: long2.onnx")
    qtbot.waitUntil(began.is_set)
    gone = {"workspace": workspace, "other": other}[which]
    window.area.remove_tab(next(tab for tab in window.tabs() if tab.workspace is gone))
    wait_for_readers(qtbot)
    if which == "other":
        qtbot.waitUntil(lambda: report == ["long2.onnx was closed"])
        idle(qtbot, workspace)
