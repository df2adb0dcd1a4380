"""What a run gives beside plain tensors: sequences, maps, optionals, packed types."""

import pytest
from PySide6.QtCore import Qt

from onnx_workbench.exec.inputs.sources import Constant
from tests.model import builders
from tests.viewer.run.run_actions import idle, opened, run, value

pytestmark = pytest.mark.long

MODEL = """
<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3]>
net (float[1, 3] x) => (seq(float[1, 3]) s, seq(map(string, float)) m, optional(float[3]) o)
{
    d = Add (x, x)
    s = SequenceConstruct (x, d)
    m = ai.onnx.ml.ZipMap <classlabels_strings: strings = ["cat", "<i>dog</i>", "owl"]> (x)
    o = Optional <type = optional(float[3])> ()
}
"""


@pytest.fixture
def workspace(window, qtbot, tmp_path):
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "trees.onnx", MODEL))
    workspace.runs.inputs.set_source("x", Constant([[0.25, 0.5, 0.125]]))
    run(qtbot, workspace)
    return workspace


def tree_of(window, qtbot, workspace, name):
    panel = window.docks.open("tensor")
    workspace.selection.set([value(workspace, name)])
    qtbot.waitUntil(lambda: panel.pane.stack.currentWidget() is panel.pane.tree and not workspace.tasks.running)
    idle(qtbot, workspace)
    return panel.pane.tree


def texts(item):
    return [item.text(column) for column in range(3)]


def test_a_sequence_lists_its_tensors(window, qtbot, workspace):
    tree = tree_of(window, qtbot, workspace, "s")
    assert [texts(tree.topLevelItem(row)) for row in range(tree.topLevelItemCount())] == [
        ["0", "float[1,3]", "0.25, 0.5, 0.125"],
        ["1", "float[1,3]", "0.5, 1, 0.25"],
    ]


def test_a_map_opens_by_key_and_shows_text_as_it_is(window, qtbot, workspace):
    tree = tree_of(window, qtbot, workspace, "m")
    top = tree.topLevelItem(0)
    assert texts(top) == ["0", "map of 3", "cat: 0.25, <i>dog</i>: 0.5, owl: 0.125"]
    tree.setFocus()
    tree.setCurrentItem(top)
    qtbot.keyClick(tree, Qt.Key.Key_Right)
    assert top.isExpanded()
    assert [(top.child(row).text(0), top.child(row).text(2)) for row in range(top.childCount())] == [
        ("<i>dog</i>", "0.5"),
        ("cat", "0.25"),
        ("owl", "0.125"),
    ]


def test_a_tensor_after_a_tree_is_shown_with_its_numbers_again(window, qtbot, workspace):
    tree_of(window, qtbot, workspace, "s")
    pane = window.docks.panel("tensor").pane
    assert not pane.facts.isVisible()
    workspace.selection.set([value(workspace, "d")])
    qtbot.waitUntil(lambda: pane.stack.currentWidget() is pane.table)
    assert pane.facts.isVisible()


def test_an_optional_that_is_empty_was_computed_and_is_nothing(window, qtbot, workspace):
    tree = window.docks.open("run").outcome.tree
    qtbot.waitUntil(lambda: bool(tree.findItems("o", Qt.MatchFlag.MatchRecursive)))
    (row,) = tree.findItems("o", Qt.MatchFlag.MatchRecursive)
    assert row.text(1) == "nothing"


def test_packed_values_have_the_size_of_packed_constants(window, qtbot, tmp_path):
    text = "g (float[3] x) => (int4[3] y) { y = Cast <to = 22> (x) }"
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "packed.onnx", text))
    run(qtbot, workspace)
    panel = window.docks.open("tensor")
    workspace.selection.set([value(workspace, "y")])
    qtbot.waitUntil(lambda: panel.pane.type_line.text() == "int4 [3] · 3 elements · 2 B")
