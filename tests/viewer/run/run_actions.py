"""What tests of runs do with a window."""

import importlib.util
import shutil

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from onnx_workbench.exec.inputs.sources import Constant
from onnx_workbench.model.edits.attributes import set_attribute
from onnx_workbench.viewer.popups.choice_popup import ChoicePopup
from tests.viewer.background_work import wait_for_background_work

needs_onnx_runtime = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime") is None, reason="ONNX Runtime is not installed"
)
#: To run with, for tests of one choice or another.
ONNX_RUNTIME = pytest.param("ONNX Runtime", marks=needs_onnx_runtime)


def opened(window, qtbot, path):
    """Open a file; its workspace."""
    count = len(window.tabs())
    window.files.open([path])
    qtbot.waitUntil(lambda: len(window.tabs()) > count and not window.tabs()[-1].view.scenes.is_busy)
    return window.tabs()[-1].workspace


def opened_and_run(window, qtbot, path):
    """Open a file and run it with inputs for which its values are finite; its workspace."""
    workspace = opened(window, qtbot, path)
    make_finite(workspace)
    run(qtbot, workspace)
    return workspace


def copy_of(path, name="other.onnx"):
    """A copy of a file beside it."""
    return shutil.copy(path, path.with_name(name))


def run(qtbot, workspace, action="run.run"):
    """Start an action that runs, and wait for its end."""
    with qtbot.waitSignal(workspace.results.run_finished):
        workspace.trigger(action)
    idle(qtbot, workspace)


def idle(qtbot, workspace):
    """Wait until nothing runs any more, and those who follow have had their turns."""

    def is_idle():
        return not workspace.tasks.running and not workspace.runs.is_running

    qtbot.waitUntil(is_idle)
    wait_for_background_work(qtbot)
    qtbot.waitUntil(is_idle)


def value(workspace, name):
    return next(v for v in workspace.model.graph.values() if v.name == name)


def node(workspace, name):
    return next(n for n in workspace.model.graph.nodes if n.name == name)


def edit(workspace, name, attribute, to):
    with workspace.document.edit(f"Set {attribute}") as transaction:
        set_attribute(transaction, node(workspace, name), attribute, to)


def make_finite(workspace):
    """Inputs for which nothing overflows."""
    workspace.runs.inputs.set_source("x", Constant(1.0))


def make_bad(workspace):
    """Inputs for which the logarithm is NaN."""
    workspace.runs.inputs.set_source("x", Constant(-1.0))


def references(window):
    """What Compare With… offers: reasons why not, by title."""
    window.actions_binding.run("model.compare")
    popup = window.findChildren(ChoicePopup)[-1]
    offered = {row.title: row.reason for row in popup.matching()}
    popup.close()
    return offered


def compare_with(window, title):
    """Choose a reference by its title in the popup of Compare With…; the reason why it cannot be chosen, or nothing."""
    window.actions_binding.run("model.compare")
    popup = window.findChildren(ChoicePopup)[-1]
    row = next(one for one in popup.matching() if one.title == title)
    if row.reason:
        popup.close()
        return row.reason
    popup.list.setCurrentIndex(popup.list.model().index(popup.matching().index(row), 0))
    QTest.keyClick(popup.field, Qt.Key.Key_Return)
    return ""
