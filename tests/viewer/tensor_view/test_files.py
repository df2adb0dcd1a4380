"""Values from files and into files, through the menu of the tensor panel and the system's file dialog."""

import numpy as np
import pytest
from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QImage
from PySide6.QtWidgets import QFileDialog

from onnx_workbench.model.edits import tensors
from onnx_workbench.model.io.tensors.array_files import read_tensor
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.viewer.program.settings import LAST_FOLDER
from tests.viewer.tensor_view.tensor_actions import put, select

START = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def messages(chain, received):
    return received(chain.messages.shown)


@pytest.fixture
def value(qtbot, panel, chain):
    found = put(chain, START)
    select(qtbot, panel, found)
    return found


def from_menu(qtbot, panel, title):
    """Choose an entry of the menu."""
    menu = panel.pane.menu
    menu.aboutToShow.emit()
    next(a for a in menu.actions() if a.text().replace("&", "") == title).trigger()
    qtbot.waitUntil(lambda: not panel.workspace.tasks.running)


def answer(monkeypatch, method, path, chosen=""):
    """What the user chooses in the file dialog."""
    asked = []

    def dialog(*arguments):
        asked.append(arguments)
        return str(path), chosen

    monkeypatch.setattr(QFileDialog, method, dialog)
    return asked


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["npy", "npz", "pb", "raw", "csv", "png"])
def test_what_was_exported_can_be_imported(qtbot, panel, value, messages, monkeypatch, tmp_path, suffix):
    path = tmp_path / f"values.{suffix}"
    answer(monkeypatch, "getSaveFileName", path)
    from_menu(qtbot, panel, "Export…")
    assert messages[-1].title == f"values.{suffix} was written"
    with panel.workspace.document.edit("Change") as edit:
        tensors.set_tensor_at(edit, tensors.TensorLocation(value), ArrayTensor(np.zeros((2, 3), np.float32)))
    qtbot.waitUntil(lambda: not panel.workspace.tasks.running)
    answer(monkeypatch, "getOpenFileName", path)
    from_menu(qtbot, panel, "Import…")
    if suffix == "png":
        assert "type uint8 instead of float" in panel.pane.ask.label.text()
        panel.pane.ask.commit()
    found = value.initializer.numpy()
    if suffix == "png":
        assert found.shape == (2, 3)
        assert found[0, 0] < found[1, 2]
    else:
        np.testing.assert_array_equal(found, START)
        assert value.initializer.element_type is ElementType.FLOAT
    assert panel.workspace.settings.get(LAST_FOLDER) == str(tmp_path)


def test_an_edit_that_is_made_while_a_file_is_chosen_is_exported(qtbot, panel, value, monkeypatch, tmp_path):
    """Written were the values that showed before, though the panel showed others by then."""
    path = tmp_path / "values.npy"

    def dialog(*_arguments):
        with panel.workspace.document.edit("Change") as edit:
            tensors.set_tensor_at(edit, tensors.TensorLocation(value), ArrayTensor(np.zeros((2, 3), np.float32)))
        return str(path), ""

    monkeypatch.setattr(QFileDialog, "getSaveFileName", dialog)
    from_menu(qtbot, panel, "Export…")
    np.testing.assert_array_equal(read_tensor(path).numpy(), np.zeros((2, 3)))


@pytest.mark.long
@pytest.mark.parametrize("size", [6, 1 << 19])
def test_a_file_with_the_same_values_changes_nothing(qtbot, panel, chain, messages, monkeypatch, tmp_path, size):
    value = put(chain, np.arange(size, dtype=np.float32))
    select(qtbot, panel, value)
    np.save(tmp_path / "same.npy", value.initializer.numpy())
    before = chain.document.revision
    answer(monkeypatch, "getOpenFileName", tmp_path / "same.npy")
    from_menu(qtbot, panel, "Import…")
    assert messages[-1].title == "t has the values of same.npy already"
    assert chain.document.revision == before
    np.save(tmp_path / "same.npy", np.append(value.initializer.numpy()[:-1], np.float32(-1)))
    from_menu(qtbot, panel, "Import…")
    assert value.initializer.numpy()[-1] == -1


@pytest.mark.long
@pytest.mark.parametrize("columns", [0, 2])
@pytest.mark.parametrize("suffix", ["npy", "pb", "raw", "csv"])
def test_sparse_tensors_are_exported_dense_and_come_back_sparse(
    qtbot, panel, chain, monkeypatch, tmp_path, suffix, columns
):
    places = np.array([[0, 1], [1, 2]]) if columns else np.array([1, 5])
    sparse = SparseTensor(ArrayTensor(np.array([2, 4], np.float16), name="few"), ArrayTensor(places), (2, 3))
    value = put(chain, sparse)
    select(qtbot, panel, value)
    path = tmp_path / f"values.{suffix}"
    answer(monkeypatch, "getSaveFileName", path)
    from_menu(qtbot, panel, "Export…")
    if suffix == "npy":
        np.testing.assert_array_equal(np.load(path), [[0, 2, 0], [0, 0, 4]])
    panel.pane.editing.fill([], "1")
    select(qtbot, panel, value)
    answer(monkeypatch, "getOpenFileName", path)
    from_menu(qtbot, panel, "Import…")
    found = value.initializer
    assert isinstance(found, SparseTensor)
    assert (found.element_type, found.shape, found.values.name) == (ElementType.FLOAT16, (2, 3), "few")
    assert found.values.numpy().tolist() == [2, 4]
    np.testing.assert_array_equal(found.indices.numpy(), places)


def test_a_sparse_tensor_may_take_type_and_shape_of_a_file(qtbot, panel, chain, monkeypatch, tmp_path):
    value = put(chain, SparseTensor(ArrayTensor(np.array([2.5], np.float32)), ArrayTensor(np.array([1])), (2, 3)))
    select(qtbot, panel, value)
    np.save(tmp_path / "whole.npy", np.array([0, 7, 0, 9], np.int64))
    answer(monkeypatch, "getOpenFileName", tmp_path / "whole.npy")
    from_menu(qtbot, panel, "Import…")
    assert "shape [4] instead of 2×3 and type int64 instead of float" in panel.pane.ask.label.text()
    panel.pane.ask.commit()
    found = value.initializer
    assert (found.element_type, found.shape) == (ElementType.INT64, (4,))
    assert found.values.numpy().tolist() == [7, 9]


@pytest.mark.long
@pytest.mark.parametrize("size", [6, 1 << 18])
def test_rounding_is_reported_for_tensors_of_any_size(qtbot, panel, chain, messages, size):
    """Large ones are computed by a task, before whose end nothing was known to be rounded."""
    select(qtbot, panel, put(chain, np.ones(size, np.int64)))
    panel.pane.editing.compute([], "x*0.7")
    qtbot.waitUntil(lambda: bool(messages))
    assert messages[-1].detail == f"{size:,} results rounded to whole numbers."


def test_floats_are_converted_to_the_type_of_the_tensor(qtbot, panel, value, messages, monkeypatch, tmp_path):
    """A double beside floats made a Conv invalid."""
    path = tmp_path / "wide.npy"
    np.save(path, np.full((2, 3), 0.1))
    answer(monkeypatch, "getOpenFileName", path)
    from_menu(qtbot, panel, "Import…")
    assert (value.initializer.element_type, value.initializer.numpy()[0, 0]) == (ElementType.FLOAT, np.float32(0.1))
    assert messages[-1].title == "wide.npy was converted from double to float"
    ((title, keep),) = messages[-1].choices
    assert title == "Keep double"
    keep()
    qtbot.waitUntil(lambda: value.initializer.element_type is ElementType.DOUBLE)
    assert value.initializer.numpy()[0, 0] == 0.1


@pytest.mark.long
def test_another_shape_is_taken_only_when_that_is_wanted(qtbot, panel, value, monkeypatch, tmp_path):
    path = tmp_path / "wide.npy"
    np.save(path, np.ones((4, 5), np.float32))
    answer(monkeypatch, "getOpenFileName", path)
    from_menu(qtbot, panel, "Import…")
    ask = panel.pane.ask
    assert ask.isVisible()
    assert ask.label.text() == "wide.npy has shape 4×5 instead of 2×3."
    ask.no.click()
    assert value.initializer.shape == (2, 3)
    from_menu(qtbot, panel, "Import…")
    ask.yes.click()
    assert value.initializer.shape == (4, 5)
    panel.workspace.document.undo()
    assert value.initializer.shape == (2, 3)


def test_the_filter_gives_the_suffix(qtbot, panel, value, monkeypatch, tmp_path):
    asked = answer(monkeypatch, "getSaveFileName", tmp_path / "plain", "Table (*.csv)")
    from_menu(qtbot, panel, "Export…")
    assert "t.npy" in asked[0][2]
    np.testing.assert_array_equal(read_tensor(tmp_path / "plain.csv", value.initializer).numpy(), START)


def test_a_dialog_that_is_cancelled_does_nothing(qtbot, panel, value, messages, monkeypatch):
    answer(monkeypatch, "getOpenFileName", "")
    answer(monkeypatch, "getSaveFileName", "")
    entries = len(list(panel.workspace.document.entries()))
    from_menu(qtbot, panel, "Import…")
    from_menu(qtbot, panel, "Export…")
    assert len(list(panel.workspace.document.entries())) == entries
    assert messages == []


def test_an_array_of_an_archive_is_chosen(qtbot, panel, value, monkeypatch, tmp_path):
    path = tmp_path / "many.npz"
    np.savez(path, first=START + 1, second=START + 2, t=START + 3)
    answer(monkeypatch, "getOpenFileName", path)
    from_menu(qtbot, panel, "Import…")
    ask = panel.pane.ask
    assert ask.isVisible()
    assert [ask.choice.itemText(i) for i in range(ask.choice.count())] == ["first", "second", "t"]
    assert ask.choice.currentText() == "t"
    np.testing.assert_array_equal(value.initializer.numpy(), START)
    qtbot.keyClick(ask.choice, Qt.Key.Key_Up)
    qtbot.keyClick(ask.choice, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not panel.workspace.tasks.running)
    np.testing.assert_array_equal(value.initializer.numpy(), START + 2)
    assert not ask.isVisible()


def test_choosing_an_array_can_be_called_off(qtbot, panel, value, monkeypatch, tmp_path):
    path = tmp_path / "many.npz"
    np.savez(path, first=START + 1, second=START + 2)
    answer(monkeypatch, "getOpenFileName", path)
    from_menu(qtbot, panel, "Import…")
    qtbot.keyClick(panel.pane.ask.choice, Qt.Key.Key_Escape)
    assert not panel.pane.ask.isVisible()
    np.testing.assert_array_equal(value.initializer.numpy(), START)


@pytest.mark.long
@pytest.mark.parametrize(("name", "content"), [("broken.npz", b"no archive"), ("broken.npy", b"x"), ("odd.xyz", b"1")])
def test_what_cannot_be_imported_is_said(qtbot, panel, value, messages, monkeypatch, tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    answer(monkeypatch, "getOpenFileName", path)
    from_menu(qtbot, panel, "Import…")
    assert [message.severity for message in messages] == ["error"]
    assert name in messages[0].title
    np.testing.assert_array_equal(value.initializer.numpy(), START)


def test_a_file_that_cannot_be_written_is_said(qtbot, panel, value, messages, monkeypatch, tmp_path):
    answer(monkeypatch, "getSaveFileName", tmp_path / "no folder" / "a.npy")
    from_menu(qtbot, panel, "Export…")
    assert [message.severity for message in messages] == ["error"]


@pytest.fixture
def maps(qtbot, panel, chain):
    """Feature maps, which are no image by their shape."""
    select(qtbot, panel, put(chain, np.arange(5 * 4 * 4, dtype=np.float32).reshape(1, 5, 4, 4)))
    panel.pane.choose_view("Feature maps")
    qtbot.waitUntil(lambda: not panel.pane.picture.image.isNull())
    return panel.pane.picture.image


def test_a_picture_is_saved_and_copied_as_it_is_shown(qtbot, panel, maps, messages, monkeypatch, tmp_path):
    path = tmp_path / "maps.png"
    answer(monkeypatch, "getSaveFileName", path)
    from_menu(qtbot, panel, "Save Picture…")
    assert messages[-1].title == "maps.png was written"
    assert QImage(str(path)).convertToFormat(maps.format()) == maps
    from_menu(qtbot, panel, "Copy Picture")
    assert QGuiApplication.clipboard().image().convertToFormat(maps.format()) == maps


@pytest.mark.long
@pytest.mark.parametrize("view", ["Heat map", "Lines"])
def test_a_view_is_saved_as_it_is_seen_and_finer(qtbot, panel, maps, messages, monkeypatch, tmp_path, view):
    panel.pane.choose_view(view)
    plot = panel.pane.lines if view == "Lines" else panel.pane.picture
    qtbot.waitUntil(lambda: panel.pane.stack.currentWidget() is plot and not panel.workspace.tasks.running)
    path = tmp_path / "view.png"
    answer(monkeypatch, "getSaveFileName", path)
    from_menu(qtbot, panel, "Save View…")
    image = QImage(str(path))
    assert image.size() == plot.size() * 2
    seen = plot.grab().toImage()
    middle = seen.rect().center()
    assert image.pixelColor(middle * 2) == seen.pixelColor(middle)
    plot.setFocus()
    panel.pane.menu.ask_save_view()
    assert QImage(str(path)) == image, "focus is nothing of the picture"


@pytest.mark.long
def test_a_histogram_is_saved(qtbot, panel, maps, messages, monkeypatch, tmp_path):
    histogram = panel.pane.facts.histogram
    qtbot.waitUntil(histogram.isVisible)
    path = tmp_path / "histogram.png"
    answer(monkeypatch, "getSaveFileName", path)
    from_menu(qtbot, panel, "Save Histogram…")
    image = QImage(str(path))
    assert image.size() == histogram.size() * 2
    assert len({image.pixel(x, image.height() // 3) for x in range(image.width())}) > 1, "bars are on their ground"


def test_a_picture_that_cannot_be_written_is_reported_of(qtbot, panel, maps, messages, monkeypatch, tmp_path):
    answer(monkeypatch, "getSaveFileName", tmp_path / "nowhere" / "maps.png")
    from_menu(qtbot, panel, "Save Picture…")
    assert messages[-1].severity == "error"
    assert messages[-1].title == "maps.png cannot be written"


def test_numbers_have_no_picture_and_a_right_click_opens_the_menu(qtbot, panel, value):
    panel.pane.choose_view("Table")
    viewport = panel.pane.table.viewport()
    place = viewport.rect().center()
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, viewport.mapToGlobal(place))
    QCoreApplication.sendEvent(viewport, event)
    menu = panel.pane.menu
    qtbot.waitUntil(menu.isVisible)
    titles = {action.text().replace("&", "") for action in menu.actions()}
    menu.hide()
    assert "Export…" in titles
    assert "Save Picture…" not in titles


def test_nothing_is_asked_for_where_there_is_nothing_to_export(panel, messages, monkeypatch):
    monkeypatch.setattr("onnx_workbench.viewer.tensor_view.menu.ask_save", lambda *_: pytest.fail("asked for a file"))
    panel.workspace.selection.clear()
    panel.pane.show_targets([])
    panel.pane.menu.ask_export()
    assert [message.title for message in messages] == ["There is nothing to export"]
