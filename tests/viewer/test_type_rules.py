"""When types are inferred, and telling in the window how those of an unknown operator follow."""

from importlib import import_module

import pytest

from onnx_workbench.model.edits.attributes import set_attribute
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.viewer.canvas.scene.drawing import Kind
from onnx_workbench.viewer.dialogs.text_prompt import TextPrompt
from onnx_workbench.viewer.document import type_inference
from tests.model import builders
from tests.model.builders import node, value
from tests.viewer.background_work import wait_for_background_work

CUSTOM = """
    <ir_version: 10, opset_import: ["" : 18, "my.own" : 1]>
    g (float[N, 4] x) => (float[M] y) { [blur] a = my.own.Blur(x) [last] y = Relu(a) }
"""


@pytest.fixture
def window(make_window, qtbot, tmp_path):
    save(builders.model(CUSTOM), tmp_path / "custom.onnx")
    window = make_window()
    window.files.open([tmp_path / "custom.onnx"])
    qtbot.waitUntil(lambda: bool(window.tabs()) and not window.tabs()[-1].view.scenes.is_busy)
    return window


@pytest.mark.long
def test_a_rule_for_the_selected_operator_makes_what_follows_known(window, qtbot):
    workspace = window.tabs()[-1].workspace
    qtbot.waitUntil(lambda: workspace.types.inferred is not None)
    blurred = value(workspace.document, "a")
    assert workspace.types.type_of(blurred) is None
    workspace.selection.set([node(workspace.document, "blur")])
    window.actions_binding.run("model.type_rule")
    dialog = window.findChild(TextPrompt)

    dialog.fields[0].setText("whatever")
    dialog.try_accept()
    assert "is not a rule" in dialog.error.text()

    dialog.fields[0].setText("same as input 0")
    dialog.try_accept()
    qtbot.waitUntil(lambda: workspace.types.type_of(blurred) is not None)
    assert workspace.types.type_of(blurred).shape.dims == ("N", 4)


def test_the_graph_shows_sizes_that_only_an_output_declares(make_window, qtbot, tmp_path):
    text = """
        <ir_version: 10, opset_import: ["" : 18]>
        g (string[a] x, float[a,3] p, bool[q] b) => (string[K2] y, float[n,3] z)
        { y = Unique(x) z = Compress<axis = 0>(p, b) }
    """
    save(builders.model(text), tmp_path / "declared.onnx")
    window = make_window()
    window.files.open([tmp_path / "declared.onnx"])
    qtbot.waitUntil(lambda: bool(window.tabs()) and not window.tabs()[-1].view.scenes.is_busy)
    tab = window.tabs()[-1]
    qtbot.waitUntil(lambda: tab.workspace.types.inferred is not None)
    qtbot.waitUntil(lambda: not tab.view.scenes.is_busy)
    outputs = [box for box in tab.view.scene.boxes if box.kind is Kind.OUTPUT]
    assert {box.title: box.note for box in outputs} == {"y": "string [K2]", "z": "float n×3"}


def test_types_are_inferred_once_typing_rests(window, qtbot, monkeypatch):
    workspace = window.tabs()[-1].workspace
    qtbot.waitUntil(lambda: workspace.types.inferred is not None)
    inference = import_module("onnx_workbench.model.inference")
    asked, infer = [], inference.infer
    monkeypatch.setattr(inference, "infer", lambda *given: asked.append(given) or infer(*given))

    def edit(alpha):
        builders.one_edit(workspace.document, set_attribute, node(workspace.document, "last"), "alpha", alpha)

    monkeypatch.setattr(type_inference, "AFTER_EDIT_MS", 3_600_000)
    edit(0.25)
    wait_for_background_work(qtbot)
    assert not asked
    monkeypatch.setattr(type_inference, "AFTER_EDIT_MS", 0)
    edit(0.5)
    qtbot.waitUntil(lambda: bool(asked))
