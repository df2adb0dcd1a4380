"""After a run, without the mouse: walk along the graph and see the numbers of each node."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from onnx_workbench.model.ir.types import Shape
from onnx_workbench.viewer.popups.choice_popup import ChoicePopup
from tests.viewer.background_work import wait_for_readers
from tests.viewer.run.run_actions import idle, make_finite, node, opened, opened_and_run, run, value

pytestmark = pytest.mark.long


def shown(panel):
    return None if panel.pane.target is None else panel.pane.target.value


def test_arrow_keys_walk_the_nodes_and_the_tensor_panel_follows(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    make_finite(workspace)
    view = window.tab.view
    view.setFocus()
    with qtbot.waitSignal(workspace.results.run_finished):
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_F6)
    idle(qtbot, workspace)
    workspace.navigation.reveal(node(workspace, "conv"))
    panel = window.docks.panel("tensor")
    for name, output in (("log", "l"), ("relu", "r"), ("mean", "m"), ("fc", "y")):
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Down)
        assert workspace.selection.items == (node(workspace, name),)
        expected = value(workspace, output)
        qtbot.waitUntil(lambda expected=expected: shown(panel) is expected)
        idle(qtbot, workspace)
        assert panel.pane.subject.held is workspace.results.value_of(expected)
        assert view.hasFocus()
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Up)
    assert workspace.selection.items == (node(workspace, "mean"),)


def test_declarations_are_corrected_without_the_mouse(window, qtbot, received, net):
    workspace = opened_and_run(window, qtbot, net)
    workspace.trigger("values.correct_types")
    wait_for_readers(qtbot)
    assert value(workspace, "c").type.shape == Shape(("N", 4, 8, 8))
    run(qtbot, workspace)
    report = received(workspace.messages.shown)
    workspace.trigger("values.correct_types")
    wait_for_readers(qtbot)
    assert [message.title for message in report] == ["There is nothing to correct"]


def test_what_a_run_is_compared_with_is_chosen_without_the_mouse(window, qtbot, net):
    workspace = opened_and_run(window, qtbot, net)
    workspace.trigger("model.compare")
    popup = window.findChild(ChoicePopup)
    qtbot.keyClicks(popup.field, "float16")
    qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    panel = window.docks.panel("compare")
    qtbot.waitUntil(lambda: bool(panel.rows))
    qtbot.waitUntil(lambda: "float16" in panel.summary.text())
