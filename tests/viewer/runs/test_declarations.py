"""Values that are declared otherwise than a run computed them: listed as the model is now, and beside their numbers."""

import pytest
from PySide6.QtCore import Qt

from model.edits.values import set_type
from model.types import ElementType, SequenceType, Shape, TensorType
from tests.viewer.panels.tensor.hands import panel_of
from tests.viewer.runs.driving import opened, run, value


@pytest.mark.parametrize("is_seen", [True, False])
def test_wrong_declarations_are_those_of_the_model_as_it_is(window, qtbot, net, is_seen):
    """Whoever corrected, undid or redid one by hand would else have it set back, or could not have it corrected."""
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    window.docks.open("run")

    def listed():
        panel = window.docks.open("run")
        qtbot.waitUntil(lambda: not workspace.jobs.running)
        items = panel.outcome.tree.findItems("", Qt.MatchFlag.MatchContains | Qt.MatchFlag.MatchRecursive)
        found = [item.text(0) for item in items if "declared" in item.text(1)]
        assert panel.outcome.correct.isVisibleTo(panel) is bool(found)
        if not is_seen:
            window.docks.toggle("run")
        return found

    def declare(name, type_):
        with workspace.document.edit("Declare") as transaction:
            set_type(transaction, value(workspace, name), type_)

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
    ("declared", "told"),
    [
        (TensorType(ElementType.UNDEFINED, Shape((None, 4, 8, 8))), ""),
        (TensorType(ElementType.FLOAT, Shape(("N", 4, 8, 8))), ""),
        (TensorType(ElementType.INT8), "declared int8"),
        (SequenceType(TensorType(ElementType.FLOAT)), "declared seq(float)"),
    ],
)
def test_what_is_said_beside_the_numbers_is_what_is_listed(window, qtbot, net, declared, told):
    workspace = opened(window, qtbot, net)
    with workspace.document.edit("Declare") as transaction:
        set_type(transaction, value(workspace, "l"), declared)
    run(qtbot, workspace)
    assert panel_of(qtbot, window, value(workspace, "l")).pane.badge.text() == told
    tree = window.docks.open("run").outcome.tree
    assert bool(tree.findItems("l", Qt.MatchFlag.MatchExactly | Qt.MatchFlag.MatchRecursive)) is bool(told)
