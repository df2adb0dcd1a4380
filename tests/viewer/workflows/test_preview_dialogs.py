"""What Convert, Simplify, Find All Such Places and Quantize have in common: a change that fails or is stopped."""

from __future__ import annotations

import numpy as np
import pytest
from shiboken6 import isValid

from onnx_workbench.model.errors import ModelError
from onnx_workbench.viewer.dialogs import preview
from onnx_workbench.viewer.dialogs.convert import ConvertDialog
from onnx_workbench.viewer.dialogs.find_places import FindPlacesDialog
from onnx_workbench.viewer.dialogs.quantize import QuantizeDialog
from onnx_workbench.viewer.dialogs.simplify import SimplifyDialog
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.workflows import apply_edits
from tests.model import builders
from tests.model.snapshots import snapshot
from tests.viewer.background_work import pause_reader

MODEL = f"""
<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 16] x) => (float[2, 16] y) <float[16, 16] w = {{{", ".join(str(n % 7 - 3.0) for n in range(256))}}}>
{{ [same] a = Identity(x) [product] b = MatMul(a, w) [end] y = Abs(b) }}
"""


def convert(workspace, folder):
    dialog = ConvertDialog(workspace)
    dialog.precision.setCurrentText("float16")
    return dialog


def quantize(workspace, folder):
    for number in range(3):
        np.savez(folder / f"{number}.npz", x=np.random.default_rng(number).standard_normal((2, 16), np.float32))
    dialog = QuantizeDialog(workspace)
    dialog.set_data(folder)
    dialog.preview()
    return dialog


DIALOGS = {
    "convert": convert,
    "simplify": lambda workspace, folder: SimplifyDialog(workspace),
    "find places": lambda workspace, folder: FindPlacesDialog(workspace, [next(iter(workspace.graph.nodes)).next]),
    "quantize": quantize,
}


@pytest.fixture(params=DIALOGS)
def dialog(request, qapp, qtbot, tmp_path):
    """Each dialog when what it was asked for was tried."""
    workspace = Workspace(builders.document(MODEL))
    dialog = DIALOGS[request.param](workspace, tmp_path)
    dialog.show()
    qtbot.waitUntil(dialog.ok.isEnabled)
    yield dialog
    if isValid(dialog):
        dialog.close()
    workspace.close()


def finish(dialog, qtbot):
    """Begin again, as often as it takes to try it again, until there is an edit."""
    document = dialog.workspace.document

    def is_made():
        if document.undo_title is None and isValid(dialog) and dialog.ok.isEnabled():
            dialog.ok.click()
        return document.undo_title is not None

    qtbot.waitUntil(is_made)


@pytest.mark.long
def test_a_change_that_fails_leaves_the_model_and_can_be_begun_again(dialog, qtbot, monkeypatch):
    document = dialog.workspace.document
    before = snapshot(document.model)

    def fail(*_):
        raise ModelError("The journal cannot be written", "The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(preview, "apply_edits", fail)
        dialog.ok.click()
        qtbot.waitUntil(dialog.error.isVisible)
        qtbot.waitUntil(dialog.ok.isEnabled)
    assert "The disk is full" in dialog.error.text()
    assert dialog.state.text() == "Nothing was changed."
    assert dialog.form.isEnabled()
    assert document.undo_title is None
    assert snapshot(document.model) == before
    finish(dialog, qtbot)
    document.undo()
    assert document.undo_title is None
    assert snapshot(document.model) == before


@pytest.mark.long
def test_a_stopped_change_leaves_the_model_and_can_be_retried(dialog, qtbot, monkeypatch):
    document = dialog.workspace.document
    before = snapshot(document.model)
    with monkeypatch.context() as patch:
        pause_reader(patch, apply_edits, "post_and_wait")
        dialog.ok.click()
        qtbot.waitUntil(lambda: dialog.state.text().startswith("Changing the model"))
        dialog.workspace.tasks.cancel_all()
        qtbot.waitUntil(dialog.ok.isEnabled)
    assert dialog.state.text() == "Stopped. Nothing was changed."
    assert dialog.form.isEnabled()
    assert document.undo_title is None
    assert snapshot(document.model) == before
    finish(dialog, qtbot)
    document.undo()
    assert snapshot(document.model) == before
