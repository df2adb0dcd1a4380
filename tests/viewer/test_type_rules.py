"""Telling in the window how the types of an unknown operator follow."""

import pytest

from model.io.save import save
from tests.model import builders
from tests.model.builders import node, value
from viewer.dialogs.ask_text import AskText

CUSTOM = """
    <ir_version: 10, opset_import: ["" : 18, "my.own" : 1]>
    g (float[N, 4] x) => (float[M] y) { [blur] a = my.own.Blur(x) [last] y = Relu(a) }
"""


@pytest.fixture
def window(make_window, qtbot, tmp_path):
    save(builders.model(CUSTOM), tmp_path / "custom.onnx")
    window = make_window()
    window.files.open([tmp_path / "custom.onnx"])
    qtbot.waitUntil(lambda: bool(window.tabs()) and not window.tabs()[-1].view.is_busy, timeout=20_000)
    return window


def test_a_rule_for_the_selected_operator_makes_what_follows_known(window, qtbot):
    workspace = window.tabs()[-1].workspace
    qtbot.waitUntil(lambda: workspace.types.inferred is not None, timeout=30_000)
    blurred = value(workspace.document, "a")
    assert workspace.types.type_of(blurred) is None
    workspace.selection.set([node(workspace.document, "blur")])
    window.actions_binding.run("model.type_rule")
    dialog = window.findChild(AskText)

    dialog.fields[0].setText("whatever")
    dialog.try_accept()
    assert "is no rule" in dialog.error.text()

    dialog.fields[0].setText("same as input 0")
    dialog.try_accept()
    qtbot.waitUntil(lambda: workspace.types.type_of(blurred) is not None, timeout=30_000)
    assert workspace.types.type_of(blurred).shape.dims == ("N", 4)
