"""Tables that are read as one looks, or that hold a part of a plane alone: what is copied, reached and said of them."""

import sys
import threading

import numpy as np
import onnx
import pytest
from PySide6.QtCore import QItemSelection, QItemSelectionModel, Qt
from PySide6.QtGui import QGuiApplication

from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.tensor_view.readers import TensorReader
from onnx_workbench.viewer.tensor_view.table import PartLabel
from onnx_workbench.viewer.tensor_view.tensor_model import TensorTableModel
from tests.viewer.tensor_view.tensor_actions import opened, put, select, settled


@pytest.fixture
def in_file(qtbot, tmp_path, monkeypatch):
    """A panel on a tensor that is read from its file as one looks, and its numbers."""
    monkeypatch.setattr("onnx_workbench.viewer.tensor_view.readers.KEPT_BYTES", 16)
    array = np.arange(300 * 200, dtype=np.float32).reshape(300, 200)
    (tmp_path / "w.data").write_bytes(array.tobytes())
    proto = onnx.TensorProto(name="w", data_type=1, dims=array.shape, data_location=1)
    proto.external_data.add(key="location", value="w.data")
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], [proto]))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    workspace = Workspace(Document(load(tmp_path / "m.onnx")), title="large")
    panel = opened(qtbot, workspace)
    select(qtbot, panel, workspace.model.graph.initializers[0])
    yield panel, array
    workspace.close()


def copied(qtbot, panel):
    """The clipboard once the selected cells were copied."""
    qtbot.keyClick(panel.pane.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    settled(qtbot, panel)
    return QGuiApplication.clipboard().text()


@pytest.mark.long
def test_cells_that_nobody_looked_at_are_copied_too(qtbot, in_file):
    panel, array = in_file
    panel.pane.table.selectAll()
    rows = [[float(cell) for cell in line.split("\t")] for line in copied(qtbot, panel).split("\n")]
    assert rows == array.tolist()


@pytest.mark.long
def test_selecting_all_cells_and_drawing_them_asks_for_few(qtbot, in_file):
    panel, _ = in_file
    table, asked = panel.pane.table, []

    def count(frame, event, _argument):
        if event == "call" and frame.f_code is TensorTableModel.flags.__code__:
            asked.append(1)

    sys.setprofile(count)
    try:
        table.selectAll()
        table.grab()
    finally:
        sys.setprofile(None)
    assert len(table.selectionModel().selection()) == 1
    # Qt's own headers ask for all 5,000 cells of the columns and rows that are seen.
    assert len(asked) < 1000  # some 400 are seen


@pytest.mark.long
def test_the_last_copy_stays_though_an_earlier_one_ends_later(qtbot, in_file, monkeypatch):
    panel, _ = in_file
    table, resume, plane = panel.pane.table, threading.Event(), TensorReader.plane
    copy = (table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)

    def slow(reader, which, rows, columns):
        assert len(rows) == 1 or resume.wait(30)
        return plane(reader, which, rows, columns)

    monkeypatch.setattr(TensorReader, "plane", slow)
    table.selectAll()
    qtbot.keyClick(*copy)
    cell = table.cells.index(0, 1)
    table.selectionModel().setCurrentIndex(cell, QItemSelectionModel.SelectionFlag.ClearAndSelect)
    qtbot.keyClick(*copy)
    qtbot.waitUntil(lambda: QGuiApplication.clipboard().text() == "1.0")
    resume.set()
    settled(qtbot, panel)
    assert QGuiApplication.clipboard().text() == "1.0"


def test_between_blocks_that_are_copied_there_is_nothing(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.arange(13)))
    cells = panel.pane.table.cells
    for row, column in ((0, 0), (1, 2)):
        block = QItemSelection(cells.index(row, column), cells.index(row, column))
        panel.pane.table.selectionModel().select(block, QItemSelectionModel.SelectionFlag.Select)
    assert copied(qtbot, panel) == "0\t\t\n\t\t12"
    panel.pane.table.selectAll()
    assert copied(qtbot, panel).split("\n")[1] == "10\t11\t12" + "\t" * 7


@pytest.fixture
def small_tables(monkeypatch):
    """No table has more than ten rows and columns."""
    monkeypatch.setattr("onnx_workbench.viewer.tensor_view.tensor_model._MOST_ROWS", 10)
    monkeypatch.setattr("onnx_workbench.viewer.tensor_view.tensor_model._MOST_COLUMNS", 10)


def test_too_many_cells_are_not_copied_and_that_is_reported(qtbot, received, panel, chain, monkeypatch):
    monkeypatch.setattr("onnx_workbench.viewer.tensor_view.table._MOST_COPIED", 5)
    select(qtbot, panel, put(chain, np.arange(6).reshape(2, 3)))
    QGuiApplication.clipboard().setText("before")
    received = received(chain.messages.shown)
    panel.pane.table.selectAll()
    assert copied(qtbot, panel) == "before"
    assert "2 × 3 are selected" in received[0].detail


def test_a_table_that_holds_a_part_says_so_and_goes_to_the_others(qtbot, small_tables, panel, chain):
    array = np.arange(25 * 12).reshape(25, 12)
    value = put(chain, array)
    select(qtbot, panel, value)
    table, part = panel.pane.table, panel.findChild(PartLabel)
    assert part.isVisible()
    assert "rows 0 to 9 of 25" in part.text()
    assert "columns 0 to 9 of 12" in part.text()
    panel.pane.go_to((24, 11))  # as where the statistics say that the largest is
    current = table.currentIndex()
    assert (current.data(), table.cells.element(current)) == ("299", (24, 11))
    assert copied(qtbot, panel) == "299"
    assert "rows 20 to 24 of 25" in part.text()
    assert table.cells.headerData(0, Qt.Orientation.Horizontal) == "10"
    for link, first in (("rows 19", 130), ("columns 9", 120), ("rows 9", 0)):
        assert f'"{link}"' in part.text()
        part.linkActivated.emit(link)
        assert table.cells.index(0, 0).data() == str(first)
    assert '"rows 10"' in part.text()
    part.linkActivated.emit("columns 10")
    table.setCurrentIndex(table.cells.index(0, 1))
    QGuiApplication.clipboard().setText("-7")
    qtbot.keyClick(table, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    settled(qtbot, panel)
    assert value.initializer.numpy()[0, 11] == -7
    panel.pane.choose_view("Heat map")
    assert not part.isVisible()


def test_a_table_that_holds_all_says_nothing(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.zeros((3, 4))))
    assert not panel.findChild(PartLabel).isVisible()
