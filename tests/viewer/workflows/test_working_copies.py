"""Copies for work in the background, made in the background, are never of a model that changed half-way."""

from __future__ import annotations

from threading import Event

import pytest

from onnx_workbench.model.edits import values
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.workflows import working_copies
from onnx_workbench.viewer.workflows.working_copies import WorkingCopyTask
from tests.model import builders
from tests.model.snapshots import snapshot
from tests.viewer.held import until_stopped

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
    began = Event()
    monkeypatch.setattr(working_copies, "WorkingCopy", until_stopped(began))
    found = []
    rehearsing = WorkingCopyTask(workspace, found.append)
    rehearsing.start()
    qtbot.waitUntil(began.is_set)
    assert rehearsing.running
    monkeypatch.undo()
    document = workspace.document
    with document.edit("Rename") as edit:
        values.rename_value(edit, document.model.graph.inputs[0], "image")
    qtbot.waitUntil(lambda: bool(found), timeout=20_000)
    assert not rehearsing.running
    (rehearsal,) = found
    assert snapshot(rehearsal.document.model) == snapshot(document.model)


def test_a_cancelled_copy_is_not_handed_over(workspace, qtbot):
    found, others = [], []
    rehearsing = WorkingCopyTask(workspace, found.append)
    rehearsing.start()
    rehearsing.cancel()
    assert not rehearsing.running
    other = WorkingCopyTask(workspace, others.append)
    other.start()  # would be through no sooner
    qtbot.waitUntil(lambda: bool(others))
    assert found == []
