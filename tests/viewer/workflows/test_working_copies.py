"""Copies for tasks, made while the window goes on, are never of a model that changed half-way."""

from __future__ import annotations

from functools import partial
from threading import Event

import pytest

from onnx_workbench.model.edits import values
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.workflows import working_copies
from onnx_workbench.viewer.workflows.working_copies import copy_model
from tests.model import builders
from tests.model.snapshots import snapshot
from tests.viewer.background_work import until_stopped

COUNT = 3000
NODES = " ".join(f"v{i + 1} = Neg(v{i})" for i in range(COUNT))
TEXT = f'<ir_version: 8, opset_import: ["" : 17]> g (float[2] v0) => (float[2] v{COUNT}) {{ {NODES} }}'


@pytest.fixture(scope="module")
def document():
    return builders.document(TEXT)


@pytest.fixture
def workspace(qapp, document):
    workspace = Workspace(document)
    yield workspace
    workspace.close()


def test_an_edit_while_copying_is_in_the_copy(workspace, qtbot, monkeypatch):
    began, found = Event(), []
    monkeypatch.setattr(working_copies, "WorkingCopy", until_stopped(began))
    task = workspace.tasks.start("Copy", partial(copy_model, workspace), done=found.append)
    qtbot.waitUntil(began.is_set)
    assert not task.finished
    monkeypatch.undo()
    document = workspace.document
    builders.one_edit(document, values.rename_value, document.model.graph.inputs[0], "image")
    qtbot.waitUntil(lambda: bool(found))
    ((copy, revision),) = found
    assert snapshot(copy.document.model) == snapshot(document.model)
    assert revision == document.revision


def test_a_cancelled_copy_is_not_handed_over(workspace, qtbot, monkeypatch):
    began, found = Event(), []
    monkeypatch.setattr(working_copies, "WorkingCopy", until_stopped(began))
    task = workspace.tasks.start("Copy", partial(copy_model, workspace), done=found.append)
    qtbot.waitUntil(began.is_set)
    task.cancel()
    qtbot.waitUntil(lambda: task.finished)
    assert found == []
