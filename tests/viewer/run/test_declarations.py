"""Values that are declared otherwise than a run computed them: listed as the model is now, and beside their numbers."""

import pytest
from PySide6.QtCore import Qt

from onnx_workbench.model.edits.values import set_type
from onnx_workbench.model.ir.types import ElementType, SequenceType, Shape, TensorType
from tests.model import builders
from tests.viewer.background_work import wait_for_readers
from tests.viewer.run.run_actions import opened, run, value
from tests.viewer.tensor_view.tensor_actions import panel_of

pytestmark = pytest.mark.long


@pytest.mark.parametrize("is_seen", [True, False])
def test_wrong_declarations_are_those_of_the_model_as_it_is(window, qtbot, net, is_seen):
    """Whoever corrected, undid or redid one by hand would else have it set back, or could not have it corrected."""
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    window.docks.open("run")

    def listed():
        panel = window.docks.open("run")
        wait_for_readers(qtbot)
        qtbot.waitUntil(lambda: not workspace.tasks.running)
        items = panel.outcome.tree.findItems("", Qt.MatchFlag.MatchContains | Qt.MatchFlag.MatchRecursive)
        found = [item.text(0) for item in items if "declared" in item.text(1)]
        assert panel.outcome.correct.isVisibleTo(panel) is bool(found)
        if not is_seen:
            window.docks.toggle("run")
        return found

    def declare(name, type_):
        builders.one_edit(workspace.document, set_type, value(workspace, name), type_)

    assert listed() == ["c"]
    window.docks.open("run").outcome.correct.click()
    assert listed() == []
    workspace.document.undo()
    assert listed() == ["c"]
    workspace.document.redo()
    assert listed() == []
    declare("l", TensorType(ElementType.INT8))
    assert listed() == ["l"]
    declare("l", None)
    assert listed() == []
    declare("l", TensorType(ElementType.UNDEFINED, Shape((None, 4, 8, 8))))
    assert listed() == []


@pytest.mark.parametrize(
    ("declared", "report"),
    [
        (TensorType(ElementType.UNDEFINED, Shape((None, 4, 8, 8))), ""),
        (TensorType(ElementType.FLOAT, Shape(("N", 4, 8, 8))), ""),
        (TensorType(ElementType.INT8), "declared int8"),
        (SequenceType(TensorType(ElementType.FLOAT)), "declared seq(float)"),
    ],
)
def test_what_is_said_beside_the_numbers_is_what_is_listed(window, qtbot, net, declared, report):
    workspace = opened(window, qtbot, net)
    builders.one_edit(workspace.document, set_type, value(workspace, "l"), declared)
    run(qtbot, workspace)
    assert panel_of(qtbot, window, value(workspace, "l")).pane.badge.text() == report
    tree = window.docks.open("run").outcome.tree
    wait_for_readers(qtbot)
    assert bool(tree.findItems("l", Qt.MatchFlag.MatchExactly | Qt.MatchFlag.MatchRecursive)) is bool(report)


CALLS = """<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
g (float[2] x, float[3] z, float[1,3] m) => (float[2] y, float[3] w, float[1,3] n) {
  y = own.F (x)
  w = own.F (z)
  n = own.G (m)
}
<opset_import: ["" : 21], domain: "own">
F (s) => (t) <float[7] p> { p = Neg (s) t = Abs (p) }
<opset_import: ["" : 21], domain: "own">
G (s) => (t) <float[2,7] q, float[8] r> { q = Neg (s) r = Neg (q) t = Abs (r) }"""


def test_sizes_that_differ_between_calls_are_left_open(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "calls.onnx", CALLS))
    run(qtbot, workspace)
    panel = window.docks.open("run")
    wait_for_readers(qtbot)
    panel.outcome.correct.click()
    declared = {v.name: str(v.type) for graph in workspace.model.graphs() for v in graph.values()}
    assert (declared["p"], declared["q"], declared["r"]) == ("float[?]", "float[1,3]", "float[1,3]")
    assert not panel.outcome.correct.isVisibleTo(panel)
