"""Running, looking, editing live, searching and comparing with nothing but keys and what the palette lists."""

import numpy as np
import pytest
from onnx import numpy_helper
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog

from onnx_workbench.exec.session import Session
from onnx_workbench.model.io.reader.read import load
from tests.viewer.run.run_actions import idle, make_finite, node, opened


class Keys:
    """A person who has no mouse."""

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

    def wait(self, condition):
        """Until it is so."""
        self.qtbot.waitUntil(condition)


@pytest.fixture
def workspace(window, qtbot, net):
    return opened(window, qtbot, net)


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


@pytest.mark.long
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


@pytest.mark.long
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
