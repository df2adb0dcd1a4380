"""What the run before gave, where an edit made another shape or type of it."""

import numpy as np
import pytest
from PySide6.QtWidgets import QFileDialog

from onnx_workbench.exec.inputs.sources import Constant
from onnx_workbench.model.ir.types import ElementType
from tests.model import builders
from tests.viewer.run.run_actions import edit, opened, run, value
from tests.viewer.tensor_view.tensor_actions import settled

pytestmark = pytest.mark.long

NET = """
<ir_version: 9, opset_import: ["" : 17]>
net (float[2,3] x) => (float[N,M] y, int32[2,3] c, seq(float[K,L]) s, string[2,3] t)
{
    [flat] y = Flatten <axis: int = 1> (x)
    [cast] c = Cast <to: int = 6> (x)
    [split] s = SplitToSequence <axis: int = 0> (x)
    [text] t = Cast <to: int = 8> (x)
}
"""


@pytest.fixture
def workspace(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "net.onnx", NET))
    workspace.runs.inputs.set_source("x", Constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    run(qtbot, workspace)
    return workspace


@pytest.fixture
def panel(window, workspace):
    return window.docks.open("tensor")


def look_at(qtbot, panel, name):
    """Select a value, and wait for it and for what it was."""
    panel.workspace.selection.set([value(panel.workspace, name)])
    pane = panel.pane
    qtbot.waitUntil(lambda: pane.subject is not None and not pane.subject.waiting and not pane.subject.awaits_other)
    settled(qtbot, panel)


def modes(pane):
    """What can be chosen."""
    return [] if pane.mode_box.isHidden() else [pane.mode_box.itemText(i) for i in range(pane.mode_box.count())]


def choose(qtbot, panel, mode):
    box = panel.pane.mode_box
    box.setCurrentText(mode)
    assert box.currentText() == mode
    box.activated.emit(box.currentIndex())
    settled(qtbot, panel)


def numbers(pane):
    return pane.reader.flat(0, pane.reader.size).reshape(pane.reader.shape).tolist()


def test_what_had_another_shape_before_is_shown_as_it_was(qtbot, panel, workspace):
    edit(workspace, "flat", "axis", 0)
    run(qtbot, workspace)
    look_at(qtbot, panel, "y")
    pane = panel.pane
    assert modes(pane) == ["Value", "Before"]
    assert "1×6" in pane.type_line.text()
    choose(qtbot, panel, "Before")
    assert numbers(pane) == [[1, 2, 3], [4, 5, 6]]
    assert "2×3" in pane.type_line.text()
    assert pane.storage.text() == "of the previous run"
    choose(qtbot, panel, "Value")
    assert numbers(pane) == [[1, 2, 3, 4, 5, 6]]
    assert "1×6" in pane.type_line.text()


def test_values_of_different_shapes_have_no_difference(qtbot, received, panel, workspace):
    edit(workspace, "flat", "axis", 0)
    run(qtbot, workspace)
    look_at(qtbot, panel, "y")
    report = received(workspace.messages.shown)
    workspace.trigger("values.difference")
    assert [message.title for message in report] == ["There is no difference"]
    assert panel.pane.mode_box.currentText() == "Value"
    run(qtbot, workspace, "run.fresh")
    look_at(qtbot, panel, "y")
    assert modes(panel.pane) == ["Value", "Before", "Difference"]
    choose(qtbot, panel, "Difference")
    assert numbers(panel.pane) == [[0, 0, 0, 0, 0, 0]]


def test_what_had_another_type_before_says_so(qtbot, panel, workspace):
    edit(workspace, "cast", "to", ElementType.FLOAT.value)
    run(qtbot, workspace)
    look_at(qtbot, panel, "c")
    assert modes(panel.pane) == ["Value", "Before", "Difference"]
    assert panel.pane.type_line.text().startswith("float 2×3")
    choose(qtbot, panel, "Before")
    assert panel.pane.type_line.text().startswith("int32 2×3")
    assert panel.pane.table.cells.slice is not None


def test_sequences_are_shown_as_they_were(qtbot, panel, workspace):
    edit(workspace, "split", "axis", 1)
    run(qtbot, workspace)
    look_at(qtbot, panel, "s")
    pane = panel.pane
    assert modes(pane) == ["Value", "Before"]
    assert len(pane.subject.held) == 3
    choose(qtbot, panel, "Before")
    assert len(pane.subject.held) == pane.tree.model().rowCount() == 2


def test_texts_have_no_difference(qtbot, panel, workspace):
    run(qtbot, workspace, "run.fresh")
    look_at(qtbot, panel, "t")
    assert modes(panel.pane) == ["Value", "Before"]


def test_what_is_seen_is_what_is_exported(qtbot, panel, workspace, monkeypatch, tmp_path):
    edit(workspace, "flat", "axis", 0)
    run(qtbot, workspace)
    look_at(qtbot, panel, "y")
    choose(qtbot, panel, "Before")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "y.npy"), ""))
    panel.pane.menu.ask_export()
    settled(qtbot, panel)
    assert np.load(tmp_path / "y.npy").tolist() == [[1, 2, 3], [4, 5, 6]]


def test_elements_of_another_shape_cannot_be_traced_in_the_run(qtbot, panel, workspace):
    edit(workspace, "flat", "axis", 0)
    run(qtbot, workspace)
    look_at(qtbot, panel, "y")
    panel.pane.choose_view("Table")
    choose(qtbot, panel, "Before")
    panel.pane.go_to((1, 2))
    assert workspace.results.element != (value(workspace, "y"), (1, 2))
    choose(qtbot, panel, "Value")
    panel.pane.go_to((0, 5))
    assert workspace.results.element == (value(workspace, "y"), (0, 5))
