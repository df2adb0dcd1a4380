"""What was stopped in the status line is said to be, where its result would be."""

import threading

import numpy as np
import pytest
from PySide6.QtWidgets import QLabel

from onnx_workbench.viewer.tensor_view import pictures
from onnx_workbench.viewer.tensor_view.readers import TensorReader
from tests.viewer.tensor_view.tensor_actions import facts, put, select, settled


@pytest.fixture
def pausing(monkeypatch):
    """Holds what a task does until it is let go."""
    resume = threading.Event()

    def pause(owner, name):
        real = getattr(owner, name)

        def waiting(*arguments):
            assert resume.wait(30)
            return real(*arguments)

        monkeypatch.setattr(owner, name, waiting)

    yield pause, resume
    resume.set()


def stop(qtbot, panel, title, resume):
    """Stop a task as the status line does."""
    qtbot.waitUntil(lambda: any(task.title == title for task in panel.workspace.tasks.running))
    for task in panel.workspace.tasks.running:
        if task.title == title:
            task.cancel()
    resume.set()
    settled(qtbot, panel)


@pytest.mark.long
def test_counting(qtbot, panel, chain, pausing):
    pause, resume = pausing
    first, second = put(chain, np.ones(300_000, np.float32)), put(chain, np.zeros(3, np.float32), name="s")
    pause(TensorReader, "flat")
    chain.selection.set([first])
    stop(qtbot, panel, "Computing statistics", resume)
    assert "Stopped." in panel.pane.facts.note
    assert facts(panel) == {}
    select(qtbot, panel, second)
    select(qtbot, panel, first)
    assert facts(panel)["max"] == "1"


@pytest.mark.long
def test_reports_of_counting_show_after_numbers_without_any(qtbot, panel, chain, pausing):
    pause, resume = pausing
    first, second = put(chain, np.ones(300_000, np.float32)), put(chain, np.zeros(3, np.float32), name="s")
    select(qtbot, panel, second)
    note = panel.pane.facts.findChild(QLabel, "note")
    assert not note.isVisible()
    pause(TensorReader, "flat")
    chain.selection.set([first])
    qtbot.waitUntil(note.isVisible)
    assert note.text() == "Counting…"
    stop(qtbot, panel, "Computing statistics", resume)
    assert note.isVisible()
    assert "Stopped." in note.text()


@pytest.mark.long
def test_drawing(qtbot, panel, chain, pausing):
    pause, resume = pausing
    select(qtbot, panel, put(chain, np.arange(900, dtype=np.float32).reshape(30, 30)))
    pause(pictures, "sampled")
    panel.pane.choose_view("Heat map")
    qtbot.waitUntil(lambda: panel.pane.notice.text() == "Drawing…")
    stop(qtbot, panel, "Drawing a tensor", resume)
    assert panel.pane.stack.currentWidget() is panel.pane.notice
    assert "Stopped." in panel.pane.notice.text()
    panel.pane.choose_view("Lines")
    settled(qtbot, panel)
    assert panel.pane.stack.currentWidget() is panel.pane.lines


def test_a_drawing_replaced_by_a_newer_one_was_not_stopped(qtbot, panel, chain, pausing):
    pause, resume = pausing
    select(qtbot, panel, put(chain, np.arange(900, dtype=np.float32).reshape(30, 30)))
    pause(pictures, "sampled")
    panel.pane.choose_view("Heat map")
    panel.pane.choose_view("Text")
    resume.set()
    settled(qtbot, panel)
    assert panel.pane.stack.currentWidget() is panel.pane.text


def test_reading(qtbot, panel, chain, pausing, monkeypatch):
    pause, resume = pausing
    monkeypatch.setattr(TensorReader, "instant", property(lambda _: False))
    first, second = put(chain, np.ones(300_000, np.float32)), put(chain, np.zeros(3, np.float32), name="s")
    pause(TensorReader, "prepare")
    chain.selection.set([first])
    stop(qtbot, panel, "Reading a tensor", resume)
    assert "Stopped." in panel.pane.notice.text()
    select(qtbot, panel, second)
    select(qtbot, panel, first)
    assert panel.pane.stack.currentWidget() is panel.pane.table
