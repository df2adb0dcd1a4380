"""The numbers beside a tensor, when its values become others."""

import threading

import numpy as np
import pytest
from PySide6.QtWidgets import QLabel

from onnx_workbench.model.history.steps import SetInitializer
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.viewer.tensor_view.readers import TensorReader
from tests.viewer.tensor_view.tensor_actions import facts, put, select, settled


@pytest.fixture
def resume(monkeypatch):
    """Until this is set nothing is counted."""
    event, real = threading.Event(), TensorReader.flat

    def flat(*arguments):
        assert event.wait(30)
        return real(*arguments)

    event.set()
    monkeypatch.setattr(TensorReader, "flat", flat)
    yield event
    event.set()


def is_counting(panel):
    return any(task.title == "Computing statistics" for task in panel.workspace.tasks.running)


def replace(workspace, value, array):
    with workspace.document.edit("Replace") as edit:
        edit.do(SetInitializer(workspace.model.graph, value, ArrayTensor(array)))


@pytest.mark.long
def test_old_numbers_stay_until_new_ones_come_or_take_long(qtbot, panel, chain, resume):
    value = put(chain, np.ones(3000, np.float32))
    select(qtbot, panel, value)
    labels = panel.pane.facts.findChildren(QLabel)
    resume.clear()
    replace(chain, value, np.full(3000, 2, np.float32))
    qtbot.waitUntil(lambda: is_counting(panel))
    assert facts(panel)["max"] == "1"
    qtbot.waitUntil(lambda: facts(panel) == {})
    assert panel.pane.facts.note == "Counting…"
    resume.set()
    settled(qtbot, panel)
    assert facts(panel)["max"] == "2"
    assert panel.pane.facts.note == ""
    assert panel.pane.facts.findChildren(QLabel) == labels  # to lay out new ones takes longer than a frame lasts


@pytest.mark.long
def test_numbers_of_another_tensor_and_of_another_shape_go_at_once(qtbot, panel, chain, resume):
    first, second = put(chain, np.ones(3000, np.float32)), put(chain, np.zeros(3000, np.float32), name="s")
    select(qtbot, panel, first)
    resume.clear()
    chain.selection.set([second])
    qtbot.waitUntil(lambda: is_counting(panel))
    assert facts(panel) == {}
    resume.set()
    settled(qtbot, panel)
    resume.clear()
    replace(chain, second, np.zeros((30, 100), np.float32))
    qtbot.waitUntil(lambda: is_counting(panel))
    assert facts(panel) == {}


def test_each_number_is_called_what_it_is_when_others_come_before_it(qtbot, panel, chain):
    value = put(chain, np.array([1, 0, 0, 0], np.float32))
    select(qtbot, panel, value)
    replace(chain, value, np.array([0, np.nan, np.nan, np.inf], np.float32))
    settled(qtbot, panel)
    said = {label.accessibleName() for label in panel.pane.facts.findChildren(QLabel) if label.isVisible()}
    assert {"zeros: 1 (25.0%)", "NaN: 2", "inf: 1", "distinct: 3", "min is at [0]"} <= said
    assert not any("−inf" in name for name in said)
