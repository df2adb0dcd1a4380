"""Tools of the Model menu that ask nothing: in the background, with Stop, as one edit that says what it did."""

from __future__ import annotations

import threading

import pytest
from PySide6.QtCore import Qt

from onnx_workbench.model.edits.interface import remove_input
from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.model.edits.properties import set_text
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.graph import Graph
from onnx_workbench.viewer.workflows import background_edit
from tests.model import builders
from tests.model.snapshots import snapshot
from tests.viewer.background_work import until_stopped

DISORDER = """
<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
disorder (float[4] x) => (float[4] y)
<float[4] w = {1.0, 2.0, 3.0, 4.0}>
{
    [last] y = Mul (b, w)
    a = Abs (x)
    [call] b = local.twice (a)
}
<domain: "local", opset_import: ["" : 21]>
twice (v) => (o) { o = Add (v, v) }
"""

TOOLS = {
    "model.inline_all": ("Inline all functions", "1 call inlined; 1 function removed"),
    "graph.sort": ("Sort nodes", "1 node moved"),
    "model.node_names": ("Regenerate node names", "4 nodes have new names"),
    "model.missing_names": ("Name unnamed nodes", "2 unnamed nodes have new names"),
    "model.value_names": ("Regenerate value names", "2 values have new names"),
    "model.initializer_names": ("Regenerate initializer names", "1 initializer has a new name"),
    "model.write_types": ("Write inferred types", "Types and shapes are in the model"),
}


WITH_BATCH = """
batched (float[2, 4] x, float[3] unused) => (float[2, 4] y)
<int64[2] s = {2, 4}, int64[2] t = {2, -1}>
{
    a = Reshape (x, s)
    b = Identity (a)
    y = Reshape (b, t)
}
"""


@pytest.fixture
def tools(desk):
    desk.open(DISORDER)
    desk.qtbot.waitUntil(lambda: desk.workspace.types.inferred is not None)
    desk.select()
    return desk


def done(desk):
    desk.qtbot.waitUntil(lambda: not [task for task in desk.workspace.tasks.running if task.title])


@pytest.mark.long
@pytest.mark.parametrize("action_id", TOOLS)
def test_a_tool_is_one_edit_and_says_what_it_did(tools, action_id):
    title, said = TOOLS[action_id]
    before = snapshot(tools.document.model)
    tools.run(action_id)
    done(tools)
    assert tools.document.undo_title == title
    assert said in tools.messages()
    assert snapshot(tools.document.model) != before
    tools.run("edit.undo")
    assert snapshot(tools.document.model) == before
    assert tools.document.undo_title is None


@pytest.mark.long
@pytest.mark.parametrize("action_id", TOOLS)
def test_a_tool_that_finds_nothing_leaves_no_edit(tools, action_id):
    tools.run(action_id)
    done(tools)
    tools.qtbot.waitUntil(lambda: not tools.workspace.tasks.running)
    known = tools.document.current
    if action_id == "model.inline_all":
        return  # there are no functions any more, and it cannot be chosen
    tools.run(action_id)
    done(tools)
    assert tools.document.current is known


@pytest.mark.long
def test_documentation_is_removed_in_one_edit(tools):
    call = tools.document.model.graph.nodes[-1]
    builders.one_edit(tools.document, set_text, call, "doc_string", "exported by /home/me/train.py")
    tools.run("model.remove_documentation")
    done(tools)
    assert tools.document.undo_title == "Remove documentation"
    assert "Documentation of 1 object removed" in tools.messages()
    assert call.doc_string == ""
    tools.run("model.remove_documentation")
    done(tools)
    tools.qtbot.waitUntil(lambda: "There is no documentation to remove" in tools.messages())


@pytest.mark.long
def test_an_edit_while_the_batch_is_set_is_kept(desk, monkeypatch):
    began, resume = threading.Event(), threading.Event()
    desk.open(WITH_BATCH)
    known = background_edit.known_of

    def paused(*given):
        began.set()
        resume.wait(60)
        return known(*given)

    monkeypatch.setattr(background_edit, "known_of", paused)
    background_edit.set_batch(desk.workspace, desk.workspace.graph, "n", "n")
    desk.qtbot.waitUntil(began.is_set)
    builders.one_edit(desk.document, remove_input, desk.workspace.graph, desk.value("unused"))
    resume.set()
    desk.qtbot.waitUntil(lambda: desk.document.undo_title == "Set batch dimension to n")
    assert [str(v.type) for v in (*desk.workspace.graph.inputs, *desk.workspace.graph.outputs)] == ["float[n,4]"] * 2


@pytest.mark.long
def test_a_batch_that_nothing_follows_is_not_said_to_be_set(desk):
    desk.open(DISORDER.replace("float[4]", "float"))
    background_edit.set_batch(desk.workspace, desk.workspace.graph, "n", "n")
    desk.qtbot.waitUntil(lambda: "There is nothing to change" in desk.messages())
    assert not any(title.startswith("The batch dimension") for title in desk.messages())
    assert desk.document.undo_title is None


@pytest.mark.long
def test_unused_inputs_of_a_graph_that_is_gone_are_reported_of(desk):
    desk.open(WITH_BATCH)
    background_edit.remove_unused_inputs_in(desk.workspace, Graph("gone"))
    desk.qtbot.waitUntil(lambda: "The graph no longer exists" in desk.messages())
    done(desk)
    assert desk.document.undo_title is None


@pytest.mark.long
def test_escape_on_the_graph_stops_a_tool(tools, monkeypatch):
    began = threading.Event()

    monkeypatch.setattr(background_edit, "attempt", until_stopped(began))
    tools.run("model.inline_all")
    tools.qtbot.waitUntil(began.is_set)
    tools.qtbot.waitUntil(tools.window.status.work.isVisible)
    tools.qtbot.keyClick(tools.view, Qt.Key.Key_Escape)
    done(tools)
    assert tools.document.undo_title is None


@pytest.mark.long
def test_stop_leaves_the_model_as_it_was(tools, monkeypatch):
    began, resume = threading.Event(), threading.Event()
    attempt = background_edit.attempt

    def paused(working_copy, options, progress, **more):
        trial = attempt(working_copy, options, progress, **more)
        began.set()
        resume.wait(60)
        progress.check()
        return trial

    monkeypatch.setattr(background_edit, "attempt", paused)
    before = snapshot(tools.document.model)
    tools.run("model.inline_all")
    tools.qtbot.waitUntil(began.is_set)
    work = tools.window.status.work
    tools.qtbot.waitUntil(work.isVisible)
    assert work.text.text() == "Inline all functions"
    tools.qtbot.mouseClick(work.stop, Qt.MouseButton.LeftButton)
    resume.set()
    done(tools)
    assert tools.document.undo_title is None
    assert snapshot(tools.document.model) == before


def test_stop_while_the_model_is_copied(tools):
    tools.run("model.node_names")
    (task,) = (task for task in tools.workspace.tasks.running if task.title == "Regenerate node names")
    task.cancel()
    done(tools)
    assert tools.document.undo_title is None


@pytest.mark.long
def test_an_edit_meanwhile_is_kept(tools, monkeypatch):
    began, resume = threading.Event(), threading.Event()
    attempt = background_edit.attempt

    def paused(*given, **more):
        trial = attempt(*given, **more)
        began.set()
        resume.wait(60)
        return trial

    monkeypatch.setattr(background_edit, "attempt", paused)
    tools.run("model.value_names")
    tools.qtbot.waitUntil(began.is_set)
    builders.one_edit(tools.document, rename_node, tools.node("last"), "mine")
    resume.set()
    tools.qtbot.waitUntil(lambda: tools.document.undo_title == "Regenerate value names")
    assert tools.node("mine")
    assert {"Abs_output_0", "call_output_0"} <= {v.name for v in tools.workspace.graph.values()}


@pytest.mark.long
def test_what_cannot_be_done_is_reported_and_changes_nothing(tools):
    inner = tools.document.model.functions[0].body.nodes.first
    with tools.document.edit("Let it call itself") as edit:
        for name, text in (("op_type", "twice"), ("domain", "local")):  # as a file may have it: edits refuse this
            edit.do(SetField(inner, name, text))
    before = snapshot(tools.document.model)
    tools.run("model.inline_all")
    tools.qtbot.waitUntil(lambda: "Function twice calls itself" in tools.messages())
    done(tools)
    (report,) = (message for message in tools.window.tab.message_bar.messages if message.severity == "error")
    assert report.place is tools.document.model.functions[0]
    assert snapshot(tools.document.model) == before
