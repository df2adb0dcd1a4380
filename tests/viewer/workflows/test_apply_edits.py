"""Computed edits that a task applies: all in one event, an undo step each, and none after an edit in between."""

from __future__ import annotations

from threading import Event
from unittest import mock

import numpy as np
import pytest

from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.model.history.steps import InsertNode, SetField
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Graph, Node
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.workflows import apply_edits as apply_edits_module
from onnx_workbench.viewer.workflows.apply_edits import apply_edits
from tests.model import builders
from tests.model.snapshots import snapshot
from tests.viewer.background_work import pause_reader


@pytest.fixture
def workspace(qapp):
    workspace = Workspace(builders.document())
    yield workspace
    workspace.close()


def begin(workspace, recording=None):
    """Have a task rename all nodes and describe them; gives the task."""
    document = workspace.document
    revision, nodes = document.revision, list(document.model.graph.nodes)
    edits = [
        ("Names", [SetField(node, "name", f"new {number}") for number, node in enumerate(nodes)]),
        ("Texts", [SetField(node, "doc_string", "text") for node in nodes]),
    ]
    return workspace.tasks.start("Edit", lambda progress: apply_edits(workspace, edits, revision, recording, progress))


def test_edits_become_one_undo_step_each_and_views_are_notified_once(workspace, qtbot):
    document, changes = workspace.document, []
    before = snapshot(document.model)
    workspace.changes.changed.connect(changes.append)
    task = begin(workspace)
    qtbot.waitUntil(lambda: task.finished)
    assert task.result is True
    assert [node.name for node in document.model.graph.nodes] == ["new 0", "new 1", "new 2", "new 3"]
    assert all(node.doc_string == "text" for node in document.model.graph.nodes)
    assert len(changes) == 1
    titles = []
    while document.undo_title:
        titles.append(document.undo_title)
        document.undo()
    assert titles == ["Texts", "Names"]
    assert snapshot(document.model) == before


def rename(workspace):
    with workspace.document.edit("Rename") as edit:
        rename_node(edit, builders.node(workspace.document, "fourth"), "mine")


def test_nothing_is_applied_after_an_edit_in_between(workspace, qtbot):
    task = begin(workspace)
    rename(workspace)
    qtbot.waitUntil(lambda: task.finished)
    assert task.result is False
    assert [node.name for node in workspace.graph.nodes] == ["first", "second", "third", "mine"]
    assert workspace.document.undo_title == "Rename"


def test_nothing_is_applied_once_it_is_stopped(workspace, qtbot, monkeypatch):
    began, free = pause_reader(monkeypatch, apply_edits_module, "post_and_wait")
    before = snapshot(workspace.model)
    task = begin(workspace)
    qtbot.waitUntil(began.is_set)
    task.cancel()
    free.set()
    qtbot.waitUntil(lambda: task.finished)
    assert snapshot(workspace.model) == before
    assert workspace.document.undo_title is None


@pytest.mark.parametrize("how", ["stopped", "edited"])
def test_what_is_not_applied_is_not_written_down_any_longer(workspace, qtbot, how):
    on_file, recording = Event(), mock.Mock()
    recording.write_ahead.return_value.wait = lambda seconds: on_file.wait(min(seconds, 0.001))
    task = begin(workspace, recording)
    qtbot.waitUntil(lambda: recording.write_ahead.called)
    (progress,) = recording.write_ahead.call_args.args
    assert not progress.cancelled
    if how == "stopped":
        task.cancel()
    else:
        rename(workspace)
    qtbot.waitUntil(lambda: task.finished)
    assert progress.cancelled
    assert workspace.document.undo_title == (None if how == "stopped" else "Rename")


class Numbers(tuple):
    """Numbers of an attribute, and how many of them were looked at."""

    __slots__ = ()
    seen = 0

    def __iter__(self):
        for number in super().__iter__():
            Numbers.seen += 1
            yield number


def test_tensors_are_not_searched_for_in_number_lists():
    """A million of them blocked the window for half a second at each edit that added its node."""
    numbers, tensor = Numbers(range(1000)), ArrayTensor(np.zeros(2, np.float32))
    node = Node("A", attributes={
        "numbers": Attribute("numbers", AttributeKind.INTS, numbers),
        "tensors": Attribute("tensors", AttributeKind.TENSORS, (tensor, tensor)),
    })  # fmt: skip
    Numbers.seen = 0
    assert list(apply_edits_module._tensors_in([InsertNode(Graph("g"), node)])) == [tensor, tensor]
    assert Numbers.seen <= 1
