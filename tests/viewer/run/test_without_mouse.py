"""Running, looking, editing live, searching and comparing with nothing but keys and what the palette lists."""

import numpy as np
import pytest
from onnx import numpy_helper
from PySide6.QtGui import QAccessible, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog

from onnx_workbench.exec.inputs.sources import Constant
from onnx_workbench.exec.session import Session
from onnx_workbench.model.io.reader.read import load
from tests.viewer.background_work import wait_for_readers
from tests.viewer.run.run_actions import idle, make_bad, make_finite, node, value

pytestmark = pytest.mark.long


class Keys:
    """A user who has no mouse."""

    def __init__(self, window, qtbot):
        self.window, self.qtbot = window, qtbot
        window.activateWindow()

    @property
    def focus(self):
        """What gets the keys."""
        popup = QApplication.activePopupWidget()
        return QApplication.focusWidget() if popup is None else popup.focusWidget() or popup

    def press(self, *keys):
        """Keys as menus write them."""
        for text in keys:
            combination = QKeySequence(text)[0]
            QTest.keyClick(self.focus, combination.key(), combination.keyboardModifiers())

    def type(self, text):
        """Letters."""
        QTest.keyClicks(self.focus, text)

    def call(self, title, where=""):
        """Something of the palette."""
        self.press("Ctrl+Shift+P")
        palette = self.window.palette_popup
        self.qtbot.waitUntil(palette.isVisible)
        self.type(title)
        found = [
            entry.title.removesuffix("…") == title and entry.where.startswith(where) for entry in palette.matching()
        ]
        self.press(*["Down"] * found.index(True), "Return")
        self.qtbot.waitUntil(lambda: not palette.isVisible())
        self.window.activateWindow()  # as every window manager does

    def tab_to(self, name):
        """The control that a screen reader calls so, by Tab from wherever the focus is."""
        passed = []
        for _ in range(150):
            control = self.focus  # of a combo box Qt's interface tells the choice
            interface = QAccessible.queryAccessibleInterface(control)
            passed.append(control.accessibleName() or interface.text(QAccessible.Text.Name))
            if passed[-1] == name:
                return
            self.press("Tab")
            QApplication.processEvents()
        pytest.fail(f"Tab does not lead to {name!r}, but to {sorted(set(passed))}")

    def enter(self, name, text):
        """Another text in a field."""
        self.tab_to(name)
        self.press("Ctrl+A")
        self.type(text)
        self.press("Return")

    def wait(self, condition):
        """Until it is so."""
        self.qtbot.waitUntil(condition)


@pytest.fixture
def keys(window, qtbot, workspace):
    return Keys(window, qtbot)


def run(keys, workspace):
    with keys.qtbot.waitSignal(workspace.results.run_finished):
        keys.press("F6")
    idle(keys.qtbot, workspace)


def walk_to(keys, workspace, name):
    """In the graph, from node to node."""
    keys.press("F7", *["Up"] * 8)
    for _ in range(8):
        if workspace.selection.items == (node(workspace, name),):
            return
        keys.press("Down")
    pytest.fail(f"the arrows do not lead to {name}")


def answer(monkeypatch, dialog, path):
    reply = str(path) if dialog == "getExistingDirectory" else (str(path), "")
    monkeypatch.setattr(QFileDialog, dialog, lambda *_: reply)


def test_inputs_breakpoints_steps_and_limits(window, workspace, keys):
    runs = workspace.runs
    keys.press("Ctrl+Shift+R")
    keys.tab_to("Source of x")
    keys.press("Down", "Return")
    keys.wait(lambda: isinstance(runs.inputs.source("x"), Constant))
    keys.enter("Constant for x", "-1")
    assert runs.inputs.source("x") == Constant(-1)
    keys.enter("Size of N", "2")
    assert runs.inputs.symbols() == {"N": 2}
    keys.enter("Time limit", "60")
    assert runs.inputs.time_limit == 60
    keys.call("Break When a Value Is Not Finite")
    keys.press("F6")
    keys.wait(lambda: runs.is_paused and not workspace.tasks.running)
    assert runs.paused_at is node(workspace, "relu")
    keys.press("F10")
    keys.wait(lambda: runs.is_paused and runs.paused_at is node(workspace, "mean") and not workspace.tasks.running)
    keys.call("Remove All Breakpoints")
    with keys.qtbot.waitSignal(workspace.results.run_finished):
        keys.press("F8")
    idle(keys.qtbot, workspace)
    walk_to(keys, workspace, "mean")
    keys.press("F9")
    assert [one.node for one in runs.breakpoints.all] == [node(workspace, "mean")]
    keys.press("F9")
    with keys.qtbot.waitSignal(workspace.results.run_finished):
        keys.press("Ctrl+F6")


def test_a_tensor_is_seen_walked_sliced_pinned_and_written(window, workspace, keys, monkeypatch, tmp_path):
    make_finite(workspace)
    run(keys, workspace)
    walk_to(keys, workspace, "conv")
    keys.press("Ctrl+Shift+T")
    panel = window.docks.panel("tensor")
    pane = panel.pane
    keys.wait(lambda: pane.target is not None and pane.target.value is value(workspace, "c") and pane.view is not None)
    keys.call("Values as Heat Map")
    keys.tab_to("Picture of the tensor")
    keys.wait(lambda: pane.picture.picture is not None and pane.picture.picture.index(0, 0) == (0, 0, 0, 0))
    keys.press("Shift+Right", "Shift+Right", "Shift+Down", "+", "+")
    assert pane.picture.cell_text.startswith("[0, 0, 1, 1] = ")
    assert pane.picture.visible_part() != (0, 0, 1, 1)
    keys.press("Return", "Ctrl+Alt+F")
    element = window.docks.panel("element")
    keys.wait(lambda: element.traced == (value(workspace, "c"), (0, 0, 1, 1)) and element.trace is not None)
    keys.press("Ctrl+Shift+T")
    keys.tab_to("Position along axis 1")
    keys.press("Up", "Up")
    assert pane.slices.slice.fixed[1] == 2
    keys.call("Pin Tensor")
    assert len(panel.panes) == 2
    keys.tab_to("Unpin c")
    keys.press("Space")
    keys.wait(lambda: len(panel.panes) == 1)
    keys.tab_to("Logarithmic")
    keys.press("Space")
    assert pane.facts.histogram.logarithmic
    keys.call("Copy Values as Text")
    keys.wait(lambda: QApplication.clipboard().text().startswith("["))
    keys.call("Copy Picture of Values")
    assert QApplication.clipboard().image().size() == pane.picture.image.size()
    answer(monkeypatch, "getSaveFileName", tmp_path / "c.npy")
    keys.call("Export Values")
    keys.wait((tmp_path / "c.npy").exists)
    idle(keys.qtbot, workspace)
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), workspace.results.value_of(value(workspace, "c")))


def test_an_edit_runs_live_and_before_and_after_are_seen(window, workspace, keys):
    make_finite(workspace)
    run(keys, workspace)
    keys.press("Ctrl+Alt+L")
    idle(keys.qtbot, workspace)
    walk_to(keys, workspace, "relu")
    keys.press("Alt+Return")
    tree = window.docks.panel("inspector").tree
    keys.wait(tree.hasFocus)
    for _ in range(20):
        if tree.rows.row(tree.currentIndex()) is not None and tree.rows.row(tree.currentIndex()).label == "alpha":
            break
        keys.press("Down")
    first = workspace.results.current
    keys.press("Return")
    keys.press("Ctrl+A")
    keys.type("0.25")
    with keys.qtbot.waitSignal(workspace.results.run_finished):
        keys.press("Return")
    idle(keys.qtbot, workspace)
    assert workspace.results.current is not first
    pane = window.docks.open("tensor").pane
    for title, mode in (("Values of the Previous Run", 1), ("Difference From the Previous Run", 2)):
        keys.wait(lambda: pane.mode_box.isVisible() and not workspace.tasks.running)
        keys.call(title)
        assert pane.mode_box.currentIndex() == mode
    keys.press("Ctrl+Z")
    assert workspace.results.current is first


def test_the_origin_of_a_nan_is_found_and_followed(window, workspace, keys):
    make_bad(workspace)
    run(keys, workspace)
    keys.press("Ctrl+Alt+N")
    keys.wait(lambda: window.docks.panel("element") is not None and window.docks.panel("element").trace is not None)
    panel = window.docks.panel("element")
    assert workspace.selection.items == (node(workspace, "log"),)
    keys.wait(lambda: panel.traced[0] is value(workspace, "l") and panel.trace is not None)
    idle(keys.qtbot, workspace)
    keys.tab_to("Inputs that reach the element")
    keys.press("Return")
    keys.wait(lambda: panel.traced[0] is value(workspace, "c"))
    idle(keys.qtbot, workspace)
    keys.tab_to("Back to the previous element")
    keys.press("Space")
    keys.wait(lambda: panel.traced[0] is value(workspace, "l"))


def test_values_are_compared_watched_and_profiled(window, workspace, keys):
    make_finite(workspace)
    run(keys, workspace)
    keys.call("Compare With")
    keys.type("int8")
    keys.press("Return")
    panel = window.docks.panel("compare")
    keys.wait(lambda: bool(panel.rows) and not workspace.tasks.running)
    wait_for_readers(keys.qtbot)
    assert panel.first is None, "within what 8 bits explain"
    keys.enter("Relative tolerance", "0.00001")
    wait_for_readers(keys.qtbot)
    keys.tab_to("First divergence")
    keys.press("Space")
    assert workspace.selection.items == (value(workspace, panel.first.name),)
    keys.enter("Relative tolerance", "100")
    wait_for_readers(keys.qtbot)
    assert panel.first is None
    walk_to(keys, workspace, "fc")
    keys.press("Ctrl+Alt+W")
    assert value(workspace, "y") in workspace.results.pinned
    keys.call("Stop Watching Value")
    assert not workspace.results.pinned
    keys.call("Profile")
    profile = window.docks.panel("profile")
    keys.tab_to("View of the profile")
    keys.press("Down", "Down", "Return")
    wait_for_readers(keys.qtbot)
    keys.tab_to("Memory over the run")
    keys.press(*["Left"] * 9, "Return")
    first = workspace.results.node_by_number(profile.memory.curve.moments[0].node)
    assert workspace.selection.items == (first,)
    keys.call("Colour by Multiply-adds")
    assert workspace.runs.overlays.kind == "macs"


def test_a_folder_is_tested_and_a_run_is_kept_and_taken_up(window, workspace, keys, net, monkeypatch, tmp_path):
    x = np.full((1, 3, 8, 8), 0.5, np.float32)
    folder = net.parent / "test_data_set_0"
    folder.mkdir()
    (folder / "input_0.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    expected = Session(load(net)).run({"x": x}).values["y"]
    (folder / "output_0.pb").write_bytes(numpy_helper.from_array(expected).SerializeToString())
    answer(monkeypatch, "getExistingDirectory", net.parent)
    keys.call("Open Folder")
    keys.wait(lambda: len(window.tabs()) == 2 and window.tab.workspace is not workspace)
    other = window.tab.workspace
    keys.wait(lambda: [one.problem for one in other.runs.test_data.verdicts] == [""])
    idle(keys.qtbot, other)
    run(keys, other)
    answer(monkeypatch, "getSaveFileName", tmp_path / "run.npz")
    keys.call("Save Run")
    keys.wait((tmp_path / "run.npz").exists)
    idle(keys.qtbot, other)
    answer(monkeypatch, "getOpenFileName", tmp_path / "run.npz")
    with keys.qtbot.waitSignal(other.results.run_finished):
        keys.call("Load Run")
    idle(keys.qtbot, other)
    assert set(other.runs.inputs.given) == {"x"}
