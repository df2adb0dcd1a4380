"""Edits that take a while, in any order with saving, undo and closing: none is lost, and files hold what shows."""

import random

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox

from onnx_workbench.model.edits.initializers import add_initializer
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.viewer.workflows import apply_edits
from tests.model.snapshots import snapshot
from tests.viewer.opening import opened, rename, run

ACTS = 40


class User:
    """Does one thing after the other with a document."""

    def __init__(self, window, tab, disk, seed):
        self.window, self.workspace, self.disk = window, tab.workspace, disk
        self.tab = tab
        self.random = random.Random(seed)
        self.begun, self.stopped, self.became = [], set(), {}

    def act(self):
        self.random.choice([self.add, self.add, self.edit, self.undo, self.redo, self.save, self.stop, self.pause])()

    def add(self):
        name = f"Add {len(self.begun)}"
        self.begun.append(name)

        def change(edit):
            tensor = ArrayTensor(np.full(1 << 17, len(self.begun), np.float32))
            add_initializer(edit, self.workspace.graph, tensor, name.replace(" ", ""))

        def ended(is_made):
            assert name not in self.became
            self.became[name] = is_made

        apply_edits.edit_ahead(self.workspace, name, change, ended=ended)

    def edit(self):
        rename(self.tab, f"node {self.random.random()}")

    def undo(self):
        self.workspace.document.undo()

    def redo(self):
        self.workspace.document.redo()

    def save(self):
        run(self.window, "file.save")

    def stop(self):
        for task in self.workspace.tasks.making("edit")[:1]:
            self.stopped.add(task.title)
            task.cancel()

    def pause(self):
        (self.disk.clear if self.disk.is_set() else self.disk.set)()


def is_closed(qtbot, window):
    """Whether the tab is closed; answers that it is to be saved where that is asked."""
    for box in window.findChildren(QMessageBox):
        if box.isVisible():
            qtbot.mouseClick(box.button(QMessageBox.StandardButton.Save), Qt.MouseButton.LeftButton)
    return not window.tabs()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_no_edit_is_lost_and_files_hold_what_shows(qtbot, window, write_model, delayed, monkeypatch, seed):
    monkeypatch.setattr(apply_edits, "_LARGE", 1 << 10)
    tab = opened(window, qtbot, write_model())
    user, path = User(window, tab, delayed, seed), tab.path
    for _ in range(ACTS):
        user.act()
        qtbot.wait(user.random.choice([0, 0, 5]))
    delayed.clear()
    user.add()
    shown, document = [], tab.workspace.document
    tab.workspace.closed.connect(lambda: shown.append(snapshot(document.model)))  # the model is freed afterwards
    run(window, "file.close")
    qtbot.waitUntil(lambda: is_closed(qtbot, window) or bool(tab.workspace.tasks.making("edit")))
    delayed.set()
    qtbot.waitUntil(lambda: is_closed(qtbot, window))
    assert sorted(user.became) == sorted(user.begun)
    assert {name for name, is_made in user.became.items() if not is_made} <= user.stopped  # some too late
    assert [snapshot(Document(load(path)).model)] == shown
