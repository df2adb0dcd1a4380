"""The tensor panel, through its widgets."""

import threading

import numpy as np
import onnx
import pytest
from PySide6.QtCore import QEvent, QItemSelection, QItemSelectionModel, QMimeData, QPointF, Qt
from PySide6.QtGui import QFocusEvent, QGuiApplication
from PySide6.QtWidgets import QApplication, QLineEdit

from onnx_workbench.exec.session import Session
from onnx_workbench.model.edits import tensors
from onnx_workbench.model.edits.tensors import TensorLocation
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetAttribute, SetInitializer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.tensors.array_files import read_tensor
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.tensor_view.readers import TensorReader
from onnx_workbench.viewer.widgets.message_bar import MessageBar
from tests.model import builders
from tests.viewer.pointer import hover
from tests.viewer.tensor_view.tensor_actions import facts, opened, put, select

E = ElementType


def cells(panel):
    model = panel.pane.table.cells
    return [[model.index(r, c).data() for c in range(model.columnCount())] for r in range(model.rowCount())]


def click_cell(qtbot, panel, row, column):
    table = panel.pane.table
    position = table.visualRect(table.cells.index(row, column)).center()
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=position)


# -- looking ------------------------------------------------------------------------------------------------------


def test_an_initializer_is_shown_with_its_numbers(qtbot, panel, chain):
    select(qtbot, panel, builders.value(chain.document, "w"))
    assert panel.pane.title.text() == "w"
    assert panel.pane.type_line.text() == "float [4] · 4 elements · 16 B"
    assert cells(panel) == [["1", "2", "3", "4"]]
    assert facts(panel)["mean"] == "2.5"
    assert facts(panel)["median"] == "2.5"
    assert panel.pane.facts.rows[1] == ("max", "4", (3,))


def test_nothing_selected_and_nothing_run_is_said(qtbot, panel, chain):
    select(qtbot, panel, builders.value(chain.document, "a"))
    assert "press Run" in panel.pane.notice.text()
    chain.selection.clear()
    qtbot.waitUntil(lambda: panel.pane.notice.text().startswith("Select"))
    assert not panel.pane.menu_button.isVisible()


def test_planes_of_a_tensor_of_many_axes(qtbot, panel, chain):
    array = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    select(qtbot, panel, put(chain, array))
    assert cells(panel)[0] == ["0", "1", "2", "3"]
    spin = panel.pane.slices.spins[0]
    spin.setFocus()
    qtbot.keyClick(spin, Qt.Key.Key_Up)
    assert cells(panel)[2] == ["20", "21", "22", "23"]
    rows = panel.pane.slices.axes[0]
    qtbot.keyClick(rows, Qt.Key.Key_Up)
    assert panel.pane.slices.slice.rows == 0
    assert cells(panel) == [["0", "1", "2", "3"], ["12", "13", "14", "15"]]


def test_a_position_in_the_statistics_leads_to_its_element(qtbot, panel, chain):
    array = np.zeros((3, 4, 5), np.float32)
    array[2, 1, 3] = 9
    select(qtbot, panel, put(chain, array))
    panel.pane.facts.element_wanted.emit((2, 1, 3))
    table = panel.pane.table
    assert table.cells.element(table.currentIndex()) == (2, 1, 3)
    assert table.currentIndex().data() == "9"


def test_number_formats(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.array([1 / 3, np.nan, np.inf, -1000], np.float32)))
    box = panel.pane.options.format_box
    found = {}
    for index in range(box.count()):
        box.setCurrentIndex(index)
        box.activated.emit(index)
        found[box.currentData()] = cells(panel)[0]
    assert found["automatic"] == ["0.333333", "NaN", "inf", "-1000"]
    assert found["4 decimals"][0] == "0.3333"
    assert found["scientific"][3] == "-1.000e+03"
    assert found["in full"][0] == "0.33333334"
    assert found["hexadecimal"][0] == "0x3eaaaaab"


@pytest.mark.long
@pytest.mark.parametrize("kind", [k for k in E if k.bits], ids=lambda k: k.text)
def test_every_element_type_has_cells_and_statistics(qtbot, panel, chain, kind):
    select(qtbot, panel, put(chain, np.array([[1, 1], [1, 1]], kind.numpy_dtype), kind))
    assert len(cells(panel)) == 2
    assert facts(panel)["distinct"] == "1"
    panel.pane.choose_view("Heat map")
    qtbot.waitUntil(lambda: panel.pane.stack.currentWidget() is panel.pane.picture)


@pytest.mark.long
@pytest.mark.parametrize(
    "shape", [(), (0,), (1,), (3, 0), (0, 3), (1,) * 8, (2, 3, 2, 1, 2, 1, 2, 2), (1, 1), (50_000,), (2, 40_000)]
)
def test_every_view_of_odd_shapes(qtbot, panel, chain, shape):
    select(qtbot, panel, put(chain, np.ones(shape, np.float32)))
    box = panel.pane.view_box
    for view in [box.itemText(i) for i in range(box.count())]:
        panel.pane.choose_view(view)
        qtbot.waitUntil(lambda: not chain.tasks.running)
        panel.grab()


def test_strings_and_text(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.array(["a\u202eb", "x" * 3000], object), E.STRING))
    assert cells(panel)[0][0] == "a\\u202eb"
    assert len(cells(panel)[0][1]) < 300
    panel.pane.choose_view("Text")
    qtbot.waitUntil(lambda: panel.pane.stack.currentWidget() is panel.pane.text)
    assert "\u202e" not in panel.pane.text.toPlainText()


def test_a_hostile_tensor_says_why_it_has_no_values(qtbot):
    proto = onnx.TensorProto(name="w", data_type=1, dims=[1 << 40, 1 << 40], raw_data=b"1234")
    graph = onnx.helper.make_graph([], "g", [], [], [proto])
    workspace = Workspace(Document(load(onnx.helper.make_model(graph).SerializeToString())), title="hostile")
    panel = opened(qtbot, workspace)
    select(qtbot, panel, workspace.model.graph.initializers[0])
    assert "4 bytes are stored" in panel.pane.notice.text()
    assert not panel.pane.subject.editable
    workspace.close()


# -- runs ---------------------------------------------------------------------------------------------------------


def run(workspace, session, x):
    result = session.run({"x": np.asarray(x, np.float32)})
    workspace.results.set_result(
        RunRecord(result, workspace.document.current.id, workspace.document.revision, inputs="x")
    )


def test_values_of_a_run_before_and_after(qtbot, panel, chain):
    session = Session(chain.document)
    run(chain, session, [[1, 2, 3, 4]])
    select(qtbot, panel, builders.value(chain.document, "a"))
    assert cells(panel) == [["1", "4", "9", "16"]]
    assert panel.pane.mode_box.isHidden()
    assert panel.pane.table.cells.commit is None
    w = builders.value(chain.document, "w")
    builders.one_edit(chain.document, tensors.set_tensor_at, TensorLocation(w), tensors.fill(w.initializer, (), "1"))
    qtbot.waitUntil(lambda: "out of date" in panel.pane.badge.text())
    run(chain, session, [[1, 2, 3, 4]])
    qtbot.waitUntil(lambda: cells(panel) == [["1", "2", "3", "4"]])
    assert panel.pane.badge.text() == ""
    for index, expected in ((1, ["1", "4", "9", "16"]), (2, ["0", "-2", "-6", "-12"])):
        panel.pane.mode_box.setCurrentIndex(index)
        panel.pane.mode_box.activated.emit(index)
        qtbot.waitUntil(lambda e=expected: cells(panel) == [e])


def test_a_node_offers_its_outputs_and_inputs(qtbot, panel, chain):
    run(chain, Session(chain.document), [[1, 2, 3, 4]])
    select(qtbot, panel, builders.node(chain.document, "first"))
    box = panel.pane.target_box
    assert [box.itemText(i) for i in range(box.count())] == ["output a", "input x", "input w"]
    box.setCurrentIndex(2)
    box.activated.emit(2)
    qtbot.waitUntil(lambda: cells(panel) == [["1", "2", "3", "4"]])
    assert panel.pane.table.cells.commit is not None


# -- editing ------------------------------------------------------------------------------------------------------


def type_into(qtbot, panel, row, column, text, key=Qt.Key.Key_Return):
    click_cell(qtbot, panel, row, column)
    qtbot.keyClick(panel.pane.table, Qt.Key.Key_F2)
    editor = panel.pane.table.findChild(QLineEdit)
    editor.selectAll()
    qtbot.keyClicks(editor, text)
    qtbot.keyClick(editor, key)
    return editor


def test_typing_into_a_cell_is_one_edit(qtbot, panel, chain):
    w = builders.value(chain.document, "w")
    select(qtbot, panel, w)
    type_into(qtbot, panel, 0, 1, "-7.5")
    qtbot.waitUntil(lambda: w.initializer.numpy().tolist() == [1, -7.5, 3, 4])
    assert cells(panel) == [["1", "-7.5", "3", "4"]]
    assert chain.document.undo_title == "Set w[1] to -7.5"
    chain.document.undo()
    assert cells(panel) == [["1", "2", "3", "4"]]


def test_removing_a_row_while_enter_is_pressed_closes_its_field(qtbot, panel, chain):
    """Qt's own delegate commits in a later event, when the field may belong to no row any more, and warns."""
    w = builders.value(chain.document, "w")
    select(qtbot, panel, w)
    type_into(qtbot, panel, 0, 1, "-7.5")
    panel.pane.table.cells.show(None, None)  # as if the results of another edit had been waiting
    qtbot.waitUntil(lambda: w.initializer.numpy().tolist() == [1, -7.5, 3, 4])
    assert not any(editor.isVisible() for editor in panel.pane.table.findChildren(QLineEdit))


def test_typing_goes_on_from_the_element_that_was_changed(qtbot, panel, chain):
    value = put(chain, np.zeros((3, 2), np.float32))
    select(qtbot, panel, value)
    table = panel.pane.table
    type_into(qtbot, panel, 1, 1, "8")
    qtbot.waitUntil(lambda: value.initializer.numpy()[1, 1] == 8)
    assert table.hasFocus()
    qtbot.keyClick(table, Qt.Key.Key_Down)
    assert (table.currentIndex().row(), table.currentIndex().column()) == (2, 1)
    select(qtbot, panel, put(chain, np.zeros((3, 2), np.float32), name="other"))
    assert not table.currentIndex().isValid()


def test_a_wrong_text_is_refused_at_the_cell(qtbot, panel, chain):
    value = put(chain, np.array([1, 2], np.uint8))
    select(qtbot, panel, value)
    before = value.initializer
    editor = type_into(qtbot, panel, 0, 0, "300")
    assert editor.isVisible()
    assert "0 to 255" in panel.pane.table.delegate.refusal
    assert "0 to 255" in editor.accessibleDescription()
    assert value.initializer is before
    qtbot.keyClick(editor, Qt.Key.Key_Escape)
    assert value.initializer is before


def test_a_refused_text_is_reported_of_when_the_user_goes_elsewhere(qtbot, received, panel, chain):
    value = put(chain, np.array([1, 2], np.uint8))
    select(qtbot, panel, value)
    report = received(chain.messages.shown)
    editor = type_into(qtbot, panel, 0, 0, "300")
    QApplication.sendEvent(editor, QFocusEvent(QEvent.Type.FocusOut, Qt.FocusReason.ActiveWindowFocusReason))
    assert editor.isVisible()
    assert editor.text() == "300"
    panel.pane.view_box.setFocus()
    assert "300 was not accepted" in report[0].title
    assert "0 to 255" in report[0].detail
    assert value.initializer.numpy().tolist() == [1, 2]


def test_a_wrong_shape_is_refused_in_the_line_that_asks(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.arange(6, dtype=np.int8)))
    panel.pane.menu.ask_shape()
    ask = panel.pane.ask
    ask.field.clear()
    qtbot.keyClicks(ask.field, "two by three")
    qtbot.keyClick(ask.field, Qt.Key.Key_Return)
    assert ask.isVisible()
    assert "Not a shape" in ask.error.text()
    ask.field.clear()
    qtbot.keyClicks(ask.field, "2x-1")
    qtbot.keyClick(ask.field, Qt.Key.Key_Return)
    assert not ask.isVisible()
    assert chain.document.undo_title == "Change the shape of t to 2×3"


def test_what_changes_nothing_is_no_edit(qtbot, received, panel, chain):
    value = put(chain, np.array([[1, np.nan], [-0.0, 4]], np.float32))
    select(qtbot, panel, value)
    before = chain.document.current
    choose(panel, 0, 0, 1, 1)
    qtbot.keyClick(panel.pane.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(panel.pane.table, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    panel.pane.editing.reshape("2×2")
    panel.pane.editing.compute([], "x*1")
    assert chain.document.current == before
    report = received(chain.messages.shown)
    QGuiApplication.clipboard().setText("\n")
    qtbot.keyClick(panel.pane.table, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    assert [message.title for message in report] == ["The clipboard holds no values"]
    panel.pane.editing.store(external=True)
    assert chain.document.current != before


def test_texts_with_tabs_and_lines_are_copied_and_pasted(qtbot, panel, chain):
    texts = [["two\nlines", "a\tb"], ['say "so"', ""], ["plain", "x"]]
    value = put(chain, np.array(texts, object), ElementType.STRING)
    select(qtbot, panel, value)
    choose(panel, 0, 0, 1, 1)
    qtbot.keyClick(panel.pane.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == '"two\nlines"\t"a\tb"\n"say ""so"""\t'
    choose(panel, 1, 0, 1, 0)
    qtbot.keyClick(panel.pane.table, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    assert value.initializer.numpy().tolist() == [texts[0], texts[0], texts[1]]


@pytest.mark.parametrize("fails", [False, True])
def test_a_tensor_that_comes_late_is_not_shown_for_the_next_one(qtbot, panel, chain, monkeypatch, fails):
    """Reading the first one, whether it ends well or not, outlasts the choice of another, which is there at once."""
    first, second = (put(chain, np.full(size, size, np.int64), name=f"t{size}") for size in (10_000, 3))
    gate = threading.Event()

    def prepare(reader):
        if reader.size > 3 and gate.wait(20) and fails:
            raise ModelError("The values cannot be read", "the file is gone")

    monkeypatch.setattr(TensorReader, "instant", False)
    monkeypatch.setattr(TensorReader, "prepare", prepare)
    panel.workspace.selection.set([first])
    qtbot.waitUntil(lambda: panel.pane.notice.text() == "Reading…")
    panel.workspace.selection.set([second])
    qtbot.waitUntil(lambda: panel.pane.stack.currentWidget() is panel.pane.table)
    gate.set()
    qtbot.waitUntil(lambda: not panel.workspace.tasks.running)
    assert panel.pane.stack.currentWidget() is panel.pane.table
    assert panel.pane.table.cells.index(0, 0).data() == "3"


def choose(panel, top, left, bottom, right):
    model = panel.pane.table.cells
    block = QItemSelection(model.index(top, left), model.index(bottom, right))
    panel.pane.table.selectionModel().select(block, QItemSelectionModel.SelectionFlag.ClearAndSelect)


def test_blocks_are_copied_and_pasted(qtbot, received, panel, chain):
    value = put(chain, np.arange(9, dtype=np.float32).reshape(3, 3))
    select(qtbot, panel, value)
    choose(panel, 0, 0, 1, 1)
    qtbot.keyClick(panel.pane.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "0.0\t1.0\n3.0\t4.0"
    choose(panel, 1, 1, 1, 1)
    qtbot.keyClick(panel.pane.table, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    assert value.initializer.numpy().tolist() == [[0, 1, 2], [3, 0, 1], [6, 3, 4]]
    assert chain.document.undo_title == "Paste 4 values into t"
    received = received(chain.messages.shown)
    choose(panel, 2, 2, 2, 2)
    qtbot.keyClick(panel.pane.table, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    assert "does not fit" in received[0].title


def test_decimal_commas_of_a_spreadsheet_can_be_pasted(qtbot, panel, chain):
    value = put(chain, np.zeros((2, 2), np.float32))
    select(qtbot, panel, value)
    data = QMimeData()
    data.setText("0,5\n1,5\n")
    data.setHtml("<html><body><Table><tr><td>0,5</td></tr><tr><td>1,5</td></tr></Table></body></html>")
    QGuiApplication.clipboard().setMimeData(data)
    choose(panel, 0, 0, 0, 0)
    qtbot.keyClick(panel.pane.table, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    assert value.initializer.numpy().tolist() == [[0.5, 0], [1.5, 0]]


def test_an_expression_on_the_selection(qtbot, panel, chain):
    value = put(chain, np.arange(4, dtype=np.float32).reshape(2, 2))
    select(qtbot, panel, value)
    choose(panel, 0, 0, 1, 0)
    panel.pane.menu.ask_expression()
    ask = panel.pane.ask
    assert "the selection" in ask.label.text()
    qtbot.keyClicks(ask.field, "x*0.5 +")
    qtbot.keyClick(ask.field, Qt.Key.Key_Return)
    assert "not an expression" in ask.error.text()
    assert ask.isVisible()
    qtbot.keyClicks(ask.field, "1")
    qtbot.keyClick(ask.field, Qt.Key.Key_Return)
    assert value.initializer.numpy().tolist() == [[1, 1], [2, 3]]
    assert not ask.isVisible()


def test_losses_of_a_type_change_are_confirmed_with_enter(qtbot, panel, chain):
    value = put(chain, np.array([0.25, 1.5, 300], np.float32))
    select(qtbot, panel, value)
    ask = panel.pane.ask
    panel.pane.menu.change_type(ElementType.INT8)
    qtbot.waitUntil(ask.isVisible)
    assert ask.label.text() == "float to int8: 3 of 3 values change, by at most 256; 1 is out of range."
    assert ask.width() <= panel.width()
    builders.do(chain.document, SetInitializer(chain.model.graph, value, ArrayTensor(np.array([0.5], np.float32))))
    assert not ask.isVisible()
    panel.pane.menu.change_type(ElementType.INT8)
    qtbot.waitUntil(ask.isVisible)
    assert "range" not in ask.label.text()
    qtbot.waitUntil(ask.yes.hasFocus)
    qtbot.keyClick(ask.yes, Qt.Key.Key_Return)
    assert value.initializer.element_type is ElementType.INT8


def test_the_menu_offers_what_fits_and_fills_and_reshapes(qtbot, panel, chain):
    value = put(chain, np.arange(4, dtype=np.float32))
    select(qtbot, panel, value)
    panel.pane.menu.build()
    titles = [a.text().replace("&", "") for a in panel.pane.menu.actions() if a.text()]
    assert titles == [
        "Fill…", "Expression…", "Change Shape…", "Change Type", "Store in a Data File", "Make Sparse", "Import…",
        "Export…", "Copy Cells", "Copy as Text", "Save Histogram…",
    ]  # fmt: skip
    panel.pane.menu.ask_shape()
    panel.pane.ask.field.setText("2×2")
    qtbot.keyClick(panel.pane.ask.field, Qt.Key.Key_Return)
    assert value.initializer.shape == (2, 2)
    assert len(cells(panel)) == 2
    panel.pane.menu.ask_fill("8")
    qtbot.mouseClick(panel.pane.ask.yes, Qt.MouseButton.LeftButton)
    assert value.initializer.numpy().tolist() == [[8, 8], [8, 8]]
    panel.pane.menu.ask_fill("8")
    qtbot.keyClick(panel.pane.ask.field, Qt.Key.Key_Escape)
    assert not panel.pane.ask.isVisible()


def test_a_change_of_type_says_what_it_loses_first(qtbot, panel, chain):
    value = put(chain, np.array([0.1, 1.0], np.float32))
    select(qtbot, panel, value)
    panel.pane.menu.change_type(E.FLOAT16)
    qtbot.waitUntil(panel.pane.ask.isVisible)
    assert "1 of 2 values change" in panel.pane.ask.label.text()
    assert value.initializer.element_type is E.FLOAT
    qtbot.mouseClick(panel.pane.ask.yes, Qt.MouseButton.LeftButton)
    assert value.initializer.element_type is E.FLOAT16
    panel.pane.menu.change_type(E.DOUBLE)
    qtbot.waitUntil(lambda: value.initializer.element_type is E.DOUBLE)


def test_large_tensors_are_changed_off_the_thread(qtbot, received, panel, chain):
    value = put(chain, np.ones((1000, 600), np.float32))
    select(qtbot, panel, value)
    panel.pane.editing.fill([], "2")
    assert value.initializer.numpy()[0, 0] == 1
    qtbot.waitUntil(lambda: value.initializer.numpy()[0, 0] == 2)
    panel.pane.editing.fill([], "3")
    with chain.document.edit("Meanwhile") as edit:
        tensors.set_tensor_at(edit, TensorLocation(value), ArrayTensor(np.zeros(1, np.float32)))
    received = received(chain.messages.shown)
    qtbot.waitUntil(lambda: bool(received))
    assert "meantime" in received[0].title
    assert value.initializer.shape == (1,)


def test_storage_is_a_matter_of_the_next_save(qtbot, panel, chain):
    w = builders.value(chain.document, "w")
    select(qtbot, panel, w)
    panel.pane.editing.store(external=True)
    assert "data file" in panel.pane.storage.text()
    panel.pane.editing.store(external=False)
    assert "data file" not in panel.pane.storage.text()


def test_values_go_to_a_file_and_come_from_one(qtbot, panel, chain, tmp_path):
    w = builders.value(chain.document, "w")
    select(qtbot, panel, w)
    panel.pane.editing.export(panel.pane.subject.tensor(), tmp_path / "w.npy")
    qtbot.waitUntil((tmp_path / "w.npy").exists)
    assert read_tensor(tmp_path / "w.npy").numpy().tolist() == [1, 2, 3, 4]
    np.save(tmp_path / "v.npy", np.zeros((2, 2), np.int8))
    panel.pane.editing.import_file(tmp_path / "v.npy", "", lambda _text, resume: resume())
    qtbot.waitUntil(lambda: w.initializer.shape == (2, 2))
    assert w.initializer.element_type is E.INT8
    assert chain.document.undo_title == "Import v.npy into w"


def test_constants_sparse_tensors_and_lists_of_tensors(qtbot, panel, chain):
    first = builders.node(chain.document, "first")
    sparse = SparseTensor(ArrayTensor(np.array([5], np.float32)), ArrayTensor(np.array([4])), (1 << 20, 1 << 20))
    with chain.document.edit("Add") as edit:
        edit.do(SetAttribute(first, "s", Attribute("s", AttributeKind.SPARSE_TENSOR, sparse)))
        edit.do(SetAttribute(first, "t", make_attribute("t", (ArrayTensor(np.ones(2)), ArrayTensor(np.zeros(2))))))
    select(qtbot, panel, first)
    box = panel.pane.target_box
    assert [box.itemText(i) for i in range(3)] == ["s", "t[0]", "t[1]"]
    qtbot.waitUntil(lambda: panel.pane.table.cells.index(0, 4).data() == "5")
    panel.pane.editing.set_element((0, 2), "6")
    qtbot.waitUntil(lambda: panel.pane.table.cells.index(0, 2).data() == "6")
    box.setCurrentIndex(2)
    box.activated.emit(2)
    qtbot.waitUntil(lambda: cells(panel) == [["0", "0"]])
    panel.pane.editing.set_element((1,), "3")
    assert cells(panel) == [["0", "3"]]


def test_where_a_block_finds_no_room_the_room_there_is_is_reported(qtbot, received, panel, chain):
    report = received(chain.messages.shown)
    select(qtbot, panel, put(chain, np.zeros(4, np.float32)))
    panel.pane.editing.paste("1\t2\n3\t4", panel.pane.slices.slice, 0, 1)
    select(qtbot, panel, put(chain, np.zeros((2, 3), np.float32)))
    panel.pane.editing.paste("1\t2\n3\t4", panel.pane.slices.slice, 1, 0)
    assert [(message.title, message.detail) for message in report] == [
        ("A block of 1×4 does not fit", "From this cell, there is room for 1×3."),
        ("A block of 2×2 does not fit", "From this cell, there is room for 1×3."),
    ]


def test_of_two_blocks_that_are_refused_the_later_one_is_reported(qtbot, panel, chain):
    bar = MessageBar(chain)
    qtbot.addWidget(bar)
    select(qtbot, panel, put(chain, np.zeros((2, 3), np.float32)))
    for text in ("1\t2\n3\t4", "1\t2\n3\t4\n5\t6"):
        panel.pane.editing.paste(text, panel.pane.slices.slice, 1, 0)
    assert [message.title for message in bar.messages] == ["A block of 3×2 does not fit"]


def offered(panel, title):
    """An entry of the pane's menu."""
    panel.pane.menu.build()
    return next(a for a in panel.pane.menu.actions() if a.text().replace("&", "") == title)


def test_a_constant_is_made_sparse_edited_and_made_dense_again(qtbot, panel, chain):
    value = put(chain, np.array([[0, 2], [0, 4]], np.float32))
    select(qtbot, panel, value)
    offered(panel, "Make Sparse").trigger()
    assert isinstance(value.initializer, SparseTensor)
    select(qtbot, panel, value)
    panel.pane.menu.ask_expression()
    panel.pane.ask.field.setText("x*3")
    qtbot.keyClick(panel.pane.ask.field, Qt.Key.Key_Return)
    assert value.initializer.values.numpy().tolist() == [6, 12]
    panel.pane.menu.ask_shape()
    panel.pane.ask.field.setText("4")
    qtbot.keyClick(panel.pane.ask.field, Qt.Key.Key_Return)
    assert value.initializer.shape == (4,)
    panel.pane.menu.change_type(E.FLOAT16)
    qtbot.waitUntil(lambda: value.initializer.element_type is E.FLOAT16)
    click_cell(qtbot, panel, 0, 0)
    qtbot.waitUntil(lambda: cells(panel) == [["0", "6", "0", "12"]])
    panel.pane.editing.paste("9", panel.pane.slices.slice, 0, 2)
    offered(panel, "Make Dense").trigger()
    assert value.initializer.numpy().tolist() == [0, 6, 9, 12]
    for _ in range(6):
        chain.document.undo()
    assert value.initializer.numpy().tolist() == [[0, 2], [0, 4]]


# -- pictures and pins --------------------------------------------------------------------------------------------


def test_the_value_under_the_pointer_and_zooming(qtbot, panel, chain):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    select(qtbot, panel, put(chain, array))
    panel.pane.choose_view("Heat map")
    picture = panel.pane.picture
    qtbot.waitUntil(lambda: picture.picture is not None and panel.pane.stack.currentWidget() is picture)
    place = picture.layer_rect()
    across, down = picture._cell_size()
    point = QPointF(place.left() + 2.5 * across, place.top() + 1.5 * down).toPoint()
    hover(picture, point)
    qtbot.waitUntil(lambda: picture.cell_text == "[1, 2] = 6")
    picture.zoom_by(3, QPointF(point))
    assert picture._cell_at(QPointF(point)) == (0, 1, 2)
    picture.setFocus()
    qtbot.keyClick(picture, Qt.Key.Key_Left, Qt.KeyboardModifier.ShiftModifier)
    assert picture.cell_text == "[1, 1] = 5"
    qtbot.keyClicks(picture, "0")
    assert picture._zoom == 1


def test_feature_maps_know_their_channels(qtbot, panel, chain):
    array = np.arange(5 * 3 * 3, dtype=np.float32).reshape(1, 5, 3, 3)
    select(qtbot, panel, put(chain, array))
    panel.pane.choose_view("Feature maps")
    qtbot.waitUntil(lambda: panel.pane.picture.picture is not None)
    shown = panel.pane.picture.picture
    height, width = shown.pixels.shape[:2]
    texts = {shown.about(r, c) for r in range(height) for c in range(width)} - {""}
    assert len(texts) == array.size
    assert "[0, 3, 1, 2] = 32" in texts


def test_a_pinned_copy_follows_plane_and_zoom_but_not_the_selection(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.arange(24, dtype=np.float32).reshape(2, 3, 4)))
    qtbot.mouseClick(panel.pane.pin_button, Qt.MouseButton.LeftButton)
    copy = panel.panes[1]
    qtbot.waitUntil(lambda: copy.reader is not None)
    panel.pane.slices.spins[0].setValue(1)
    assert copy.slices.slice.fixed == (1, 0, 0)
    panel.pane.picture.viewed.emit((2.0, 0.5, 0.5))
    assert copy.picture._zoom == 2.0
    select(qtbot, panel, builders.value(chain.document, "w"))
    assert copy.title.text() == "t"
    qtbot.mouseClick(copy.pin_button, Qt.MouseButton.LeftButton)
    assert panel.panes == [panel.pane]
