"""A pinned copy is what was pinned; and the keyboard stays where it is while planes are chosen."""

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from onnx_workbench.exec.session import Session
from onnx_workbench.model.edits import tensors
from onnx_workbench.model.edits.tensors import TensorLocation
from onnx_workbench.viewer.run.results.run_record import RunRecord
from tests.model import builders
from tests.viewer.tensor_view.tensor_actions import look, put, select, settled

pytestmark = pytest.mark.long


def run(workspace, session):
    result = session.run({"x": np.array([[1, 2, 3, 4]], np.float32)})
    workspace.results.set_result(
        RunRecord(result, workspace.document.current.id, workspace.document.revision, inputs="x")
    )


def choose(box, text):
    """Choose an entry of a box as a user does."""
    box.setCurrentText(text)
    box.activated.emit(box.currentIndex())


def test_a_difference_is_pinned_as_one_and_in_the_form_it_has(qtbot, panel, chain):
    session = Session(chain.document)
    run(chain, session)
    w = builders.value(chain.document, "w")
    builders.one_edit(chain.document, tensors.set_tensor_at, TensorLocation(w), tensors.fill(w.initializer, (), "1"))
    run(chain, session)
    select(qtbot, panel, builders.value(chain.document, "a"))
    choose(panel.pane.mode_box, "Difference")
    choose(panel.pane.options.format_box, "4 decimals")
    settled(qtbot, panel)
    panel.pin()
    settled(qtbot, panel)
    copy = panel.panes[1]
    assert (copy.mode_box.currentText(), copy.options.format_box.currentText()) == ("Difference", "4 decimals")
    assert [copy.table.cells.index(0, column).data() for column in range(4)] == [
        "0.0000", "-2.0000", "-6.0000", "-12.0000",
    ]  # fmt: skip


def test_a_picture_is_pinned_in_the_colours_it_has(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.random.default_rng(0).random((1, 3, 8, 8), np.float32)))
    look(qtbot, panel, "Image", panel.pane.picture)
    choose(panel.pane.options.order_box, "BGR")
    choose(panel.pane.options.range_box, "0 to 1")
    settled(qtbot, panel)
    panel.pin()
    settled(qtbot, panel)
    assert np.array_equal(panel.panes[1].picture.picture.pixels, panel.pane.picture.picture.pixels)


@pytest.mark.parametrize("box", [0, 1])
def test_the_keyboard_stays_in_the_choice_of_an_axis(qtbot, panel, chain, box):
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow)
    select(qtbot, panel, put(chain, np.arange(24).reshape(2, 3, 4)))
    name = panel.pane.slices.axes[box].accessibleName()
    panel.pane.slices.axes[box].setFocus()
    for _ in range(2):
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Up)
        settled(qtbot, panel)
        assert QApplication.focusWidget().accessibleName() == name
    assert panel.pane.slices.axes[box].currentData() == 0
