"""Types are inferred in the background, always those of the model as it is."""

import importlib
import threading

from onnx_workbench.model.edits.attributes import set_attribute
from tests.viewer.inspector.inspector_actions import relu


def test_an_edit_ends_what_is_asked_about_the_model_as_it_was(qtbot, workspace, monkeypatch):
    begun, manners = threading.Event(), []

    def answer(_asked, progress, _before, *, in_background):
        manners.append(in_background)
        begun.set()
        while True:
            progress.check()

    monkeypatch.setattr(importlib.import_module("onnx_workbench.model.inference.infer"), "answer", answer)
    workspace.types.start()
    qtbot.waitUntil(begun.is_set)
    (asked,) = workspace.tasks.running
    begun.clear()
    with workspace.document.edit("Set alpha") as edit:
        set_attribute(edit, relu(workspace), "alpha", 0.25)
    assert asked.cancelled
    qtbot.waitUntil(begun.is_set)
    (asked_again,) = (task for task in workspace.tasks.running if not task.cancelled)
    assert asked_again is not asked
    assert manners == [True, True]
