"""Types are inferred in the background, always those of the model as it is."""

import importlib
import threading

from onnx_workbench.model.edits.attributes import set_attribute
from onnx_workbench.model.progress import Cancelled
from tests.viewer.inspector.inspector_actions import relu


def test_an_edit_ends_what_is_asked_about_the_model_as_it_was(qtbot, workspace, monkeypatch):
    begun, ended = threading.Event(), []

    def infer(_model, _rules, progress):
        begun.set()
        try:
            while True:
                progress.check()
        except Cancelled:
            ended.append(progress)
            raise

    monkeypatch.setattr(importlib.import_module("onnx_workbench.model.inference"), "infer", infer)
    workspace.types.start()
    qtbot.waitUntil(begun.is_set)
    assert not ended
    begun.clear()
    with workspace.document.edit("Set alpha") as edit:
        set_attribute(edit, relu(workspace), "alpha", 0.25)
    assert len(ended) == 1
    qtbot.waitUntil(begun.is_set)
