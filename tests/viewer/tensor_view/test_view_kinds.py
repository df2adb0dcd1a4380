"""Views of a tensor and the options of each: images, text, heat maps of huge planes, narrow panes."""

import threading

import numpy as np
import onnx
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QFontMetricsF, QGuiApplication
from PySide6.QtWidgets import QComboBox, QScrollArea, QSpinBox, QWidget

import onnx_workbench as ow
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.values.statistics import Summary, describe
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.graph import Graph, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.viewer.plots.colormap import NOT_FINITE, table
from onnx_workbench.viewer.plots.matrix_view import _ticks
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.tensor_view import pictures
from onnx_workbench.viewer.tensor_view.pane import _PICTURE_WORK
from onnx_workbench.viewer.tensor_view.readers import TensorReader
from onnx_workbench.viewer.tensor_view.tensor_source import TensorCandidate, TensorSource
from onnx_workbench.viewer.tensor_view.view_kinds import first_view
from tests.viewer.pointer import hover
from tests.viewer.tensor_view.tensor_actions import look, opened, put, select, settled


def choose(qtbot, panel, box, text):
    """Choose an entry of a box as a user does."""
    box.setCurrentText(text)
    assert box.currentText() == text
    box.activated.emit(box.currentIndex())
    settled(qtbot, panel)


# -- images ----------------------------------------------------------------------------------------------------


@pytest.fixture
def image(qtbot, panel, chain):
    """[1, 3, 2, 2]: red 0 to 1, green 0.5, blue 0."""
    array = np.zeros((1, 3, 2, 2), np.float32)
    array[0, 0] = [[0, 1], [0.25, 0.75]]
    array[0, 1] = 0.5
    select(qtbot, panel, put(chain, array))
    look(qtbot, panel, "Image", panel.pane.picture)
    return array


def rgb(panel, row, column):
    """Red, green and blue of a cell."""
    blue, green, red, _ = panel.pane.picture.picture.pixels[row, column].tolist()
    return red, green, blue


def test_an_image_says_which_range_its_values_have(qtbot, panel, image):
    assert panel.pane.options.range_box.isVisible()
    choose(qtbot, panel, panel.pane.options.range_box, "0 to 1")
    assert rgb(panel, 0, 1) == (255, 128, 0)
    choose(qtbot, panel, panel.pane.options.range_box, "-1 to 1")
    assert rgb(panel, 0, 0) == (128, 191, 128)
    choose(qtbot, panel, panel.pane.options.range_box, "0 to 255")
    assert rgb(panel, 0, 1) == (1, 0, 0)
    choose(qtbot, panel, panel.pane.options.range_box, "ImageNet")
    assert rgb(panel, 0, 0) == tuple(round(255 * x) for x in (0.485, 0.456 + 0.5 * 0.224, 0.406))


def test_channels_of_an_image_can_be_turned_and_seen_alone(qtbot, panel, image):
    choose(qtbot, panel, panel.pane.options.range_box, "0 to 1")
    choose(qtbot, panel, panel.pane.options.order_box, "BGR")
    assert rgb(panel, 0, 1) == (0, 128, 255)
    choose(qtbot, panel, panel.pane.options.order_box, "Second")
    assert rgb(panel, 0, 1) == (128, 128, 128)


def test_channels_may_come_last(qtbot, panel, chain):
    array = np.zeros((2, 2, 3), np.uint8)
    array[0, 1] = 10, 20, 30
    select(qtbot, panel, put(chain, array))
    look(qtbot, panel, "Image", panel.pane.picture)
    choose(qtbot, panel, panel.pane.options.range_box, "0 to 255")
    assert rgb(panel, 0, 1) == (10, 20, 30)


def test_options_are_those_of_the_view(qtbot, panel, image):
    assert not panel.pane.options.format_box.isVisible()
    look(qtbot, panel, "Feature maps", panel.pane.picture)
    assert panel.pane.options.same_range.isVisible()
    assert not panel.pane.options.range_box.isVisible()


# -- text ------------------------------------------------------------------------------------------------------


def test_strings_are_text_and_nothing_in_them_is_acted_on(qtbot, panel, chain):
    texts = np.array(["plain", "<b>bold</b>", "line\nbreak", "\u202eturned"], object)
    select(qtbot, panel, put(chain, ArrayTensor(texts, ElementType.STRING)))
    look(qtbot, panel, "Text", panel.pane.text)
    shown = panel.pane.text.toPlainText()
    assert shown.splitlines() == ["plain", "<b>bold</b>", "line", "break", "\\u202eturned"]


def test_no_tip_over_a_text_is_html(qtbot, panel, chain):
    texts = np.array(['<img src="//host/picture.png">', "<b>bold</b>"], object)
    select(qtbot, panel, put(chain, ArrayTensor(texts, ElementType.STRING)))
    cells = panel.pane.table.cells
    for row in range(cells.rowCount()):
        for column in range(cells.columnCount()):
            index = cells.index(row, column)
            text = index.data(Qt.ItemDataRole.EditRole)
            assert "<" in text
            assert text not in index.data(Qt.ItemDataRole.ToolTipRole)  # it is escaped
            assert text in index.data(Qt.ItemDataRole.AccessibleTextRole)


def test_numbers_as_text_stand_in_columns_and_can_be_copied(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.array([[1, -20], [300, 4]])))
    look(qtbot, panel, "Text", panel.pane.text)
    expected = "[   1  -20 ]\n[ 300    4 ]"
    assert panel.pane.text.toPlainText() == expected
    panel.pane.menu.aboutToShow.emit()
    next(a for a in panel.pane.menu.actions() if a.text().replace("&", "") == "Copy as Text").trigger()
    qtbot.waitUntil(lambda: not panel.workspace.tasks.running)
    assert QGuiApplication.clipboard().text() == expected


def test_long_text_says_what_it_leaves_out(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.zeros((300, 2))))
    look(qtbot, panel, "Text", panel.pane.text)
    assert panel.pane.text.toPlainText().splitlines()[-1] == "… the first 200 rows and 2 columns"


@pytest.mark.parametrize(
    ("shape", "kind", "first"),
    [
        ((1, 3, 24, 24), ElementType.FLOAT, "Image"), ((1, 4, 24, 24), ElementType.FLOAT, "Feature maps"),
        ((24, 24, 4), ElementType.UINT8, "Image"), ((1, 16, 24, 24), ElementType.FLOAT, "Feature maps"),
        ((24, 24), ElementType.FLOAT, "Heat map"), ((4, 3), ElementType.FLOAT, "Table"),
        ((130800,), ElementType.FLOAT, "Lines"), ((1, 1, 130800), ElementType.FLOAT, "Lines"),
        ((130800,), ElementType.INT64, "Table"), ((10,), ElementType.FLOAT, "Table"),
    ],
)  # fmt: skip
def test_the_first_view_goes_by_the_shape(shape, kind, first):
    subject = TensorSource(
        TensorCandidate("y", value=Value("y", None, Graph("g"))), "tensor", element_type=kind, shape=shape
    )
    assert first_view(subject) == first


SOFTMAX = """<ir_version: 9, opset_import: ["" : 17]> g (float[1,4,N,N] x, float[1,4,N,8] v) => (float[1,4,N,8] y) {
  a = Softmax <axis = -1> (x)  d = Dropout (a)  y = MatMul (d, v) }"""


@pytest.mark.parametrize(
    ("text", "shape", "is_attention"),
    [
        (SOFTMAX, (1, 4, 28, 28), True), (SOFTMAX.replace("axis = -1", "axis = 1"), (1, 4, 28, 28), False),
        (SOFTMAX.replace("MatMul (d, v)", "Add (d, v)"), (1, 28, 6906), False), (SOFTMAX, (1, 4, 1, 28), False),
    ],
    ids=["attention", "channels", "scores of words", "one query"],
)  # fmt: skip
def test_weights_of_an_attention_are_shown_as_such(text, shape, is_attention):
    model = ow.load(onnx.parser.parse_model(text).SerializeToString())
    value = next(iter(model.graph.nodes)).outputs[0]
    subject = TensorSource(TensorCandidate("a", value=value), "tensor", element_type=ElementType.FLOAT, shape=shape)
    assert (first_view(subject) == "Attention") is is_attention


# -- huge planes -----------------------------------------------------------------------------------------------


@pytest.fixture
def huge(qtbot, panel, chain):
    """2500 × 1500, each element its own position."""
    array = np.arange(2500 * 1500, dtype=np.float32).reshape(2500, 1500)
    select(qtbot, panel, put(chain, array))
    look(qtbot, panel, "Heat map", panel.pane.picture)
    return array


def test_a_huge_heat_map_is_sampled_and_refined_by_zooming(qtbot, panel, huge):
    picture = panel.pane.picture
    assert "sampled: 1 of 3 rows, 1 of 2 columns" in picture.picture.note
    centre = picture._frame().center()
    picture.zoom_by(30, centre)
    qtbot.waitUntil(lambda: picture.detail is not None)
    assert picture.detail.note == ""
    hover(picture, centre.toPoint())
    qtbot.waitUntil(lambda: bool(picture.cell_text))
    place = picture.layer_rect()
    row = int((centre.y() - place.top()) / place.height() * 2502)
    index, _, number = picture.cell_text.partition(" = ")
    found = [int(part) for part in index.strip("[]").split(",")]
    assert abs(found[0] - row) <= 1
    assert float(number) == pytest.approx(huge[tuple(found)])


def test_detail_lies_where_the_whole_has_it(qtbot, panel, huge):
    picture = panel.pane.picture
    picture.zoom_by(40, QPointF(picture._frame().center()))
    qtbot.waitUntil(lambda: picture.detail is not None)
    base, fine = picture.picture, picture.detail
    left, top, right, bottom = fine.part
    height, width = fine.pixels.shape[:2]
    for row, column in ((0, 0), (height - 1, width - 1), (height // 2, width // 3)):
        y, x = top + (row + 0.5) / height * (bottom - top), left + (column + 0.5) / width * (right - left)
        coarse = base.about(int(y * base.pixels.shape[0]), int(x * base.pixels.shape[1]))
        a, b = (
            [int(p) for p in text.partition(" = ")[0].strip("[]").split(",")]
            for text in (coarse, fine.about(row, column))
        )
        assert 0 <= b[0] - a[0] < 3
        assert 0 <= b[1] - a[1] < 2


def test_single_elements_of_a_huge_heat_map_can_be_read(qtbot, panel, huge):
    picture = panel.pane.picture
    picture.zoom_by(1e9)
    qtbot.waitUntil(lambda: picture.detail is not None and picture._cell_size(1)[0] > 52)


@pytest.mark.long
def test_another_tensor_takes_the_detail_away(qtbot, panel, chain, huge):
    picture = panel.pane.picture
    picture.zoom_by(30)
    qtbot.waitUntil(lambda: picture.detail is not None)
    select(qtbot, panel, put(chain, np.zeros((40, 40), np.float32), name="other"))
    look(qtbot, panel, "Heat map", picture)
    assert picture.detail is None


# -- narrow panes ----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("width", [1100, 500, 330])
def test_nothing_of_a_pane_is_cut_off(qtbot, panel, chain, width):
    select(qtbot, panel, put(chain, np.zeros((2, 3, 8, 9, 4), np.float32)))
    look(qtbot, panel, "Feature maps", panel.pane.picture)
    for _ in range(3):
        panel.pane.pin_button.click()
    panel.resize(width, 500)
    qtbot.wait(0)
    for pane in panel.panes:
        for widget in pane.findChildren(QWidget):
            if widget.isVisible() and isinstance(widget, QComboBox):
                assert widget.width() >= widget.minimumSizeHint().width()
                right = widget.mapTo(pane, QPoint(widget.width(), 0)).x()
                assert right <= pane.width(), widget.accessibleName()
        assert pane.pin_button.mapTo(pane, QPoint(pane.pin_button.width(), 0)).x() <= pane.width()


def visible_spins(panel):
    return [s.accessibleName() for s in panel.pane.slices.findChildren(QSpinBox) if s.isVisible()]


def test_a_position_is_asked_for_only_where_it_chooses_something(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.zeros((2, 3, 8, 9), np.float32)))
    look(qtbot, panel, "Table", panel.pane.table)
    assert visible_spins(panel) == ["Position along axis 0", "Position along axis 1"]
    look(qtbot, panel, "Feature maps", panel.pane.picture)
    assert visible_spins(panel) == ["Position along axis 0"]
    look(qtbot, panel, "Image", panel.pane.picture)
    assert visible_spins(panel) == ["Position along axis 0"]
    look(qtbot, panel, "Heat map", panel.pane.picture)
    assert visible_spins(panel) == ["Position along axis 0", "Position along axis 1"]


def test_what_shows_of_a_tensor_takes_one_line_where_there_is_room(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.zeros((2, 3), np.float32), name="a_name_that_leaves_no_room_for_more"))
    pane = panel.pane

    def is_beside():
        return pane.menu_button.mapTo(pane, QPoint()).y() < pane.type_line.mapTo(pane, QPoint()).y() + 20

    panel.resize(1100, 400)
    qtbot.waitUntil(lambda: pane.width() > 1000 and is_beside())
    high = pane.splitter.y()
    panel.resize(400, 400)
    qtbot.waitUntil(lambda: pane.width() <= 400 and not is_beside())
    qtbot.waitUntil(lambda: pane.splitter.y() > high)


def test_a_narrow_pane_gives_most_of_its_room_to_the_values(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.zeros((20, 30), np.float32)))
    panel.resize(420, 400)
    qtbot.waitUntil(lambda: panel.pane.width() <= 420)
    qtbot.waitUntil(lambda: panel.pane.stack.width() > 0.55 * panel.pane.width())
    panel.resize(1100, 400)
    qtbot.waitUntil(lambda: panel.pane.facts.width() >= 245)


def test_an_empty_picture_says_why_in_its_middle(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.zeros((20, 30), np.float32)))
    assert panel.pane.facts.isVisible()
    panel.workspace.selection.clear()
    qtbot.waitUntil(lambda: not panel.pane.facts.isVisible())
    select(qtbot, panel, chain.model.graph.initializers[-1])
    assert panel.pane.facts.isVisible()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 3, 4)])
def test_a_tensor_without_elements_says_so(qtbot, panel, chain, shape):
    select(qtbot, panel, put(chain, np.zeros(shape, np.float32)))
    pane = panel.pane
    for view in [pane.view_box.itemText(index) for index in range(pane.view_box.count())]:
        pane.choose_view(view)
        assert pane.stack.currentWidget() is pane.notice
        assert pane.notice.text() == "It has no elements."
    assert "0 elements" in pane.type_line.text()
    select(qtbot, panel, put(chain, np.ones((2, 2), np.float32), name="full"))
    assert pane.stack.currentWidget() is not pane.notice


def test_statistics_wider_than_their_column_can_be_scrolled_to(qtbot, panel, chain):
    array = np.zeros((2, 3, 28, 28), np.float32)
    array[1, 2, 27, 27] = -1.18026
    select(qtbot, panel, put(chain, array))
    panel.resize(320, 400)
    facts = panel.pane.facts
    assert any(index == (1, 2, 27, 27) for _, _, index in facts.rows)
    bar, inner = facts.horizontalScrollBar(), facts.widget()
    qtbot.waitUntil(lambda: bar.maximum() + facts.viewport().width() >= inner.minimumSizeHint().width())


def test_the_name_of_a_tensor_gives_way_to_the_choice_of_its_view(qtbot, panel, chain):
    node = next(iter(chain.model.graph.nodes))
    with chain.document.edit("Rename") as edit:
        edit.do(SetField(node.outputs[0], "name", "a_very_long_name_" * 5))
    select(qtbot, panel, node)
    panel.resize(400, 400)
    pane = panel.pane
    qtbot.waitUntil(lambda: pane.width() <= 400)
    pane.view_box.addItems(["Feature maps"])
    pane.view_box.show()
    qtbot.waitUntil(lambda: pane.view_box.width() >= pane.view_box.sizeHint().width())
    assert pane.target_box.width() < pane.target_box.sizeHint().width()


# -- without the mouse -----------------------------------------------------------------------------------------


def test_the_keyboard_moves_from_the_table_to_the_picture(qtbot, panel, chain):
    panel.window().activateWindow()
    select(qtbot, panel, put(chain, np.arange(12.0).reshape(3, 4)))
    panel.activate()
    qtbot.waitUntil(panel.pane.table.hasFocus)
    panel.pane.choose_view("Heat map")
    qtbot.waitUntil(panel.pane.picture.hasFocus)
    panel.pane.choose_view("Lines")
    qtbot.waitUntil(panel.pane.lines.hasFocus)


@pytest.mark.long
def test_a_cell_reached_by_keys_stays_current_when_refined(qtbot, panel, huge):
    picture = panel.pane.picture
    qtbot.keyClicks(picture, "+" * 20)
    qtbot.waitUntil(lambda: picture.detail is not None)
    for _ in range(3):
        qtbot.keyClick(picture, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    first = picture.cell_text
    assert first
    left = picture.visible_part()[0]
    for _ in range(400):
        qtbot.keyClick(picture, Qt.Key.Key_Left, Qt.KeyboardModifier.ShiftModifier)
    assert picture.visible_part()[0] <= left
    at = picture._rect_of(picture._cell)
    assert picture._frame().adjusted(-1, -1, 1, 1).contains(at)
    qtbot.waitUntil(lambda: not panel.workspace.tasks.running and not picture._rest.isActive())
    assert picture.cell_text
    assert picture._rect_of(picture._cell).intersects(at)


@pytest.mark.long
@pytest.mark.parametrize(("width", "height"), [(640, 160), (420, 180), (1100, 120)])
def test_nothing_is_cut_off_in_a_low_panel_but_scrolled(qtbot, panel, chain, width, height):
    select(qtbot, panel, put(chain, np.zeros((1, 3, 8, 9, 10), np.float32)))
    look(qtbot, panel, "Feature maps", panel.pane.picture)
    panel.resize(width, height)
    picture = panel.pane.picture

    def fits():
        end = picture.mapTo(panel.pane, QPoint(0, picture.height())).y()
        return end <= panel.pane.height() and picture.height() >= picture.minimumHeight()

    qtbot.waitUntil(fits)
    area = panel.findChild(QScrollArea)
    assert panel.splitter.height() == panel.pane.height()
    hidden = panel.pane.height() - area.viewport().height()
    assert area.verticalScrollBar().maximum() == max(0, hidden)


def test_what_is_asked_comes_into_view_in_a_low_panel(qtbot, panel, workspace):
    def in_view(widget):
        return widget.visibleRegion().boundingRect() == widget.rect()

    panel.resize(500, 150)
    select(qtbot, panel, put(workspace, np.ones((3, 4), np.float32)))
    settled(qtbot, panel)
    ask = panel.pane.ask
    area = panel.findChild(QScrollArea)
    ask.confirm("other.npy has shape 4×3 instead of 3×4.", lambda: None, "Import")
    qtbot.waitUntil(lambda: in_view(ask.label) and in_view(ask.yes))
    ask.close_line()
    area.verticalScrollBar().setValue(0)  # as who reads the values
    panel.pane.menu.ask_shape()
    qtbot.waitUntil(lambda: in_view(ask.field))
    ask.field.setText("7×9")
    qtbot.keyClick(ask.field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: ask.error.isVisible() and in_view(ask.error))


def test_what_is_asked_has_room_in_a_narrow_panel(qtbot, panel, workspace):
    select(qtbot, panel, put(workspace, np.ones((3, 4), np.float32)))
    panel.pane.menu.ask_expression()
    ask = panel.pane.ask
    panel.resize(360, 400)
    settled(qtbot, panel)
    assert ask.width() <= 360
    assert ask.field.width() >= 120
    assert ask.rect().contains(ask.no.geometry())
    ask.confirm("float to int4: 10 of 12 values change, by at most 4.5; 8 are out of range.", lambda: None)
    settled(qtbot, panel)
    assert ask.rect().contains(ask.no.geometry())
    assert ask.label.width() <= ask.width()


# -- lines -----------------------------------------------------------------------------------------------------


def test_a_long_vector_nobody_looks_at_is_not_read_to_its_end(qtbot, panel, chain, monkeypatch):
    select(qtbot, panel, put(chain, np.arange(100_000, dtype=np.float32)))
    look(qtbot, panel, "Text", panel.pane.text)
    monkeypatch.setattr(pictures, "_READ", 1000)
    read, left, plain = [], threading.Event(), TensorReader.flat

    def flat(self, start, stop):
        read.append(start)
        assert left.wait(60)
        return plain(self, start, stop)

    monkeypatch.setattr(TensorReader, "flat", flat)
    panel.pane.choose_view("Lines")
    qtbot.waitUntil(lambda: bool(read))
    panel.pane.choose_view("Text")
    left.set()
    settled(qtbot, panel)
    assert panel.pane.view == "Text"
    assert len(read) == 1


# -- legends ---------------------------------------------------------------------------------------------------


def colors_right_of(picture):
    """The colours that are painted beside a picture, where its legend is."""
    seen = picture.grab().toImage()
    ratio = seen.devicePixelRatio()
    columns = range(int(picture._frame().right() * ratio) + 1, seen.width())
    return {seen.pixelColor(x, y).getRgb()[:3] for x in columns for y in range(seen.height())}


@pytest.mark.long
@pytest.mark.parametrize("bad", [np.nan, np.inf, 3.0])
def test_a_legend_shows_the_colour_of_what_is_not_finite(qtbot, panel, chain, bad):
    array = np.arange(400, dtype=np.float32).reshape(20, 20)
    array[5, 5] = bad
    select(qtbot, panel, put(chain, array))
    look(qtbot, panel, "Heat map", panel.pane.picture)
    assert (NOT_FINITE in colors_right_of(panel.pane.picture)) is not bool(np.isfinite(bad))


def test_a_legend_of_nothing_finite_has_no_other_colours(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.full((20, 20), np.nan, np.float32)))
    look(qtbot, panel, "Heat map", panel.pane.picture)
    seen = colors_right_of(panel.pane.picture)
    assert NOT_FINITE in seen
    assert not seen & {tuple(color[2::-1]) for color in table("viridis").tolist()}


# -- views that take long --------------------------------------------------------------------------------------


def test_a_picture_of_old_values_goes_while_the_next_is_drawn(qtbot, panel, chain, monkeypatch):
    first, second = put(chain, np.zeros((20, 20), np.float32)), put(chain, np.ones((20, 20), np.float32), name="s")
    select(qtbot, panel, first)
    look(qtbot, panel, "Heat map", panel.pane.picture)
    free, work = threading.Event(), _PICTURE_WORK["Heat map"]
    monkeypatch.setitem(_PICTURE_WORK, "Heat map", lambda *given: free.wait(30) and work(*given))
    chain.selection.set([second])
    try:
        qtbot.waitUntil(lambda: panel.pane.notice.isVisible() and panel.pane.notice.text() == "Drawing…")
    finally:
        free.set()
    qtbot.waitUntil(panel.pane.picture.isVisible)
    settled(qtbot, panel)
    assert panel.pane.picture.isVisible()
    assert panel.pane.picture.picture.about(0, 0).endswith("1")


def test_the_next_plane_is_drawn_over_the_one_before(qtbot, panel, chain, monkeypatch):
    select(qtbot, panel, put(chain, np.arange(1200, dtype=np.float32).reshape(3, 20, 20)))
    look(qtbot, panel, "Heat map", panel.pane.picture)
    free, work = threading.Event(), _PICTURE_WORK["Heat map"]
    began = threading.Event()
    monkeypatch.setitem(_PICTURE_WORK, "Heat map", lambda *given: began.set() or (free.wait(30) and work(*given)))
    spin = panel.pane.slices.findChild(QSpinBox)
    spin.setValue(1)
    try:
        qtbot.waitUntil(began.is_set)
        assert not panel.pane._slow.isActive()
        assert panel.pane.picture.isVisible()
    finally:
        free.set()
    settled(qtbot, panel)


# -- runs --------------------------------------------------------------------------------------------------------


@pytest.fixture
def far(qtbot):
    """A panel on the output of a run whose values come only when they are let, as from a process of its own."""
    text = (
        """<ir_version: 10, opset_import: ["" : 21]> g (float[1, 3, 2, 2] x) => (float[1, 3, 2, 2] y) { y = Neg (x) }"""
    )
    document = Document(load(onnx.parser.parse_model(text).SerializeToString()))
    workspace, session, gate = Workspace(document, title="far"), Session(document), threading.Event()
    y = document.model.graph.outputs[0]

    def run(number):
        result = session.run({"x": np.full((1, 3, 2, 2), number, np.float32)})
        slot = result.layout.slots[result.key(y)]
        array, result.slots[slot] = result.slots[slot], MISSING
        result.summaries[slot] = Summary(describe(array), None)

        def fetch(_key, _progress):
            gate.wait(20)
            result.slots[slot] = array
            return array

        result.fetch = fetch
        workspace.results.set_result(RunRecord(result, document.current.id, document.revision, inputs=number))

    panel = opened(qtbot, workspace)
    workspace.selection.set([y])
    gate.set()
    run(1.0)
    settled(qtbot, panel)
    look(qtbot, panel, "Table", panel.pane.table)
    yield panel, run, gate
    gate.set()
    workspace.close()


def channel(panel):
    (spin,) = (one for one in panel.pane.slices.findChildren(QSpinBox) if one.isVisible())
    return spin


def test_the_plane_in_view_stays_while_a_value_is_computed(qtbot, far):
    panel, run, gate = far
    channel(panel).setValue(2)
    gate.clear()
    run(2.0)
    assert panel.pane.stack.currentWidget() is panel.pane.table
    assert panel.pane.table.cells.index(0, 0).data() == "-1"
    gate.set()
    qtbot.waitUntil(lambda: panel.pane.table.cells.index(0, 0).data() == "-2")
    assert channel(panel).value() == 2


def test_a_slow_value_is_announced_and_shown_in_the_same_plane(qtbot, far):
    panel, run, gate = far
    channel(panel).setValue(2)
    gate.clear()
    run(2.0)
    qtbot.waitUntil(lambda: panel.pane.stack.currentWidget() is panel.pane.notice)
    assert panel.pane.notice.text() == "Loading the value…"
    assert visible_spins(panel) == []
    gate.set()
    qtbot.waitUntil(lambda: panel.pane.stack.currentWidget() is panel.pane.table)
    assert panel.pane.table.cells.index(0, 0).data() == "-2"
    assert channel(panel).value() == 2


def test_changing_planes_does_not_show_old_values_as_new(qtbot, far):
    panel, run, gate = far
    gate.clear()
    run(2.0)
    channel(panel).setValue(1)
    assert panel.pane.table.cells.index(0, 0).data() == "-1"
    qtbot.waitUntil(panel.pane.notice.isVisible)
    assert panel.pane.notice.text() == "Loading the value…"


def test_neither_does_a_picture_of_them_that_is_ready_meanwhile(qtbot, far, monkeypatch):
    panel, run, gate = far
    draw, free = _PICTURE_WORK["Heat map"], threading.Event()
    monkeypatch.setitem(_PICTURE_WORK, "Heat map", lambda *what: free.wait(20) and draw(*what))
    panel.pane.choose_view("Heat map")
    gate.clear()
    run(2.0)
    free.set()
    qtbot.waitUntil(lambda: not any(task.title == "Drawing a tensor" for task in panel.workspace.tasks.running))
    qtbot.waitUntil(panel.pane.notice.isVisible)
    assert panel.pane.notice.text() == "Loading the value…"
    gate.set()
    qtbot.waitUntil(panel.pane.picture.isVisible)


# -- axes and pages --------------------------------------------------------------------------------------------


def test_a_heat_map_fills_its_room_and_numbers_rows_and_columns(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.arange(3000, dtype=np.float32).reshape(30, 100)))
    look(qtbot, panel, "Heat map", panel.pane.picture)
    view = panel.pane.picture
    assert view.layer_rect() == view._frame()
    assert (view.picture.axes, view.picture.names) == ((range(30), range(100)), ("axis 0", "axis 1"))
    assert view._frame().left() > QFontMetricsF(view.font()).horizontalAdvance("30")


def test_ticks_are_round_numbers_at_the_middle_of_their_cells():
    assert _ticks(range(100), 0.0, 8.0, 0.0, 800.0, 90.0) == [
        (0, 4.0),
        (20, 164.0),
        (40, 324.0),
        (60, 484.0),
        (80, 644.0),
    ]
    assert _ticks(range(0, 3000, 3), -500.0, 2.0, 0.0, 300.0, 100.0) == [(800, 33.0), (1000, 167.0)]
    assert _ticks(range(3), 0.0, 100.0, 0.0, 300.0, 20.0) == [(0, 50.0), (1, 150.0), (2, 250.0)]
    assert _ticks(range(0), 0.0, 1.0, 0.0, 1.0, 20.0) == []


def test_pages_of_feature_maps_are_turned(qtbot, panel, chain):
    assert not panel.pane.options.page.isVisible()
    array = np.arange(300, dtype=np.float32).reshape(1, 300, 1, 1) * np.ones((1, 1, 4, 4), np.float32)
    select(qtbot, panel, put(chain, array))
    look(qtbot, panel, "Feature maps", panel.pane.picture)
    page = panel.pane.options.page
    assert (page.isVisible(), page.text()) == (True, "page 1 of 3")
    page.setValue(3)
    qtbot.waitUntil(lambda: panel.pane.picture.picture.labels[0][2] == "288")
    look(qtbot, panel, "Heat map", panel.pane.picture)
    assert not page.isVisible()


def test_one_head_shows_the_weight_of_a_query_and_a_key(qtbot, panel, chain):
    weights = np.random.default_rng(0).random((1, 4, 6, 5), np.float32)
    select(qtbot, panel, put(chain, weights))
    look(qtbot, panel, "Attention", panel.pane.picture)
    options, picture = panel.pane.options, panel.pane.picture
    assert options.head.text() == "all heads"
    assert (options.query.isVisible(), options.key.isVisible()) == (False, False)
    options.head.setValue(2)
    settled(qtbot, panel)
    qtbot.waitUntil(lambda: picture.picture.axes is not None)
    assert picture.picture.names == ("query", "key")
    assert picture.picture.note.endswith("head 2 of 4; query ↓, key →")
    assert picture.image.height() == 6
    options.query.setValue(5)
    options.key.setValue(3)
    assert picture.cell_text == f"head 2: query 5, key 3 = {weights[0, 2, 5, 3]:.6g}"
    options.head.setValue(1)
    settled(qtbot, panel)
    qtbot.waitUntil(lambda: picture.cell_text.startswith("head 1: query 5, key 3"))
    options.head.setValue(-1)
    settled(qtbot, panel)
    qtbot.waitUntil(lambda: picture.picture.axes is None)
    look(qtbot, panel, "Heat map", panel.pane.picture)
    assert not options.head.isVisible()
