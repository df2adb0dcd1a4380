"""Numbers that a float of 32 bits cannot hold are seen as they are, and places that are no elements are not seen."""

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetricsF

from onnx_workbench.model.progress import SILENT
from onnx_workbench.model.text.formatting import number_text
from onnx_workbench.viewer.plots.colormap import NOT_FINITE
from onnx_workbench.viewer.style.theme import monospace
from onnx_workbench.viewer.tensor_view.feature_maps import mosaic
from onnx_workbench.viewer.tensor_view.pictures import PictureRequest, heatmap, series
from onnx_workbench.viewer.tensor_view.readers import ArrayReader, DifferenceReader, first_slice
from onnx_workbench.viewer.tensor_view.tensor_model import number_cell, short_cell
from tests.viewer.tensor_view.tensor_actions import look, put, select


@pytest.mark.parametrize("draw", [heatmap, mosaic])
@pytest.mark.parametrize(
    "array",
    [
        np.array([[1e300, 2e300], [3e300, 4e300]]),
        np.array([[1e-60, 2e-60], [3e-60, 4e-60]]),
        np.array([[-1.7e308, 0], [1e308, 1.7e308]]),
        np.array([[-3.4e38, 0], [1e38, 3.4e38]], np.float32),
        1_700_000_000 + np.array([[0, 10], [20, 30]]),
        (1 << 52) + np.array([[0, 1], [2, 3]], np.uint64),
        np.array([[1e300j, 2e300j], [3e300j, 4e300j]]),
    ],
)
def test_every_number_has_its_colour(array, draw):
    array = array[None]
    pixels = draw(ArrayReader(array), first_slice(array.shape), PictureRequest()).pixels.reshape(-1, 4)
    assert len(np.unique(pixels, axis=0)) == 4
    assert [*NOT_FINITE[::-1], 255] not in pixels.tolist()


def test_lines_go_through_the_numbers():
    array = 1_700_000_000 + np.arange(64).reshape(2, 32)
    lines = series(ArrayReader(array), first_slice(array.shape), SILENT).lines
    assert [high.tolist() for _, _, high in lines] == array.tolist()


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64, np.uint64])
def test_differences_of_integers_are_exact(kind):
    ends = np.iinfo(kind)
    now = np.array([ends.max, ends.max - 1, ends.min, ends.max, 7], kind)
    before = np.array([ends.max - 1, ends.max, ends.max, ends.min, 7], kind)
    expected = [float(int(a) - int(b)) for a, b in zip(now, before, strict=True)]
    assert DifferenceReader(ArrayReader(now), ArrayReader(before)).flat(0, 5).tolist() == expected


def test_complex_numbers_are_written_as_they_are_held():
    value = np.complex64(complex(0.1, -0.2))
    assert number_cell(value, "in full") == "0.1-0.2i"
    assert number_cell(value, "hexadecimal") == "0x3dcccccd, 0xbe4ccccd"
    assert number_cell(np.complex128(complex(-0.1, np.nan)), "in full") == "-0.1+nani"


@pytest.fixture
def vector(qtbot, panel, chain):
    """103 elements as a heat map: eleven rows of ten places."""
    select(qtbot, panel, put(chain, np.arange(103, dtype=np.float32)))
    look(qtbot, panel, "Heat map", panel.pane.picture)
    return panel.pane.picture


def test_the_last_row_of_a_vector_ends_where_the_vector_does(qtbot, received, vector):
    picture = vector.picture
    assert [picture.about(10, column) for column in (2, 3, 9)] == ["[102] = 102", "", ""]
    assert [picture.index(10, column) for column in (2, 3)] == [(102,), None]
    assert picture.pixels[10, :, 3].tolist() == [255] * 3 + [0] * 7
    chosen = received(vector.element_chosen)
    for column in (2, 3):
        place = vector._rect_of((0, 10, column)).center().toPoint()
        qtbot.mouseClick(vector, Qt.MouseButton.LeftButton, pos=place)
    assert chosen == [(102,)]


def test_what_is_zoomed_into_ends_there_too():
    array = np.arange(2_000_003, dtype=np.float32)
    whole = heatmap(ArrayReader(array), first_slice(array.shape), PictureRequest())
    fine = whole.detail((0.0, 0.999, 1.0, 1.0))
    last = [fine.about(fine.pixels.shape[0] - 1, column) for column in range(5)]
    assert last == ["[2000000] = 2e+06", "[2000001] = 2e+06", "[2000002] = 2e+06", "", ""]


@pytest.mark.parametrize(
    ("value", "most", "written"),
    [
        (np.float32(-1.65276e-05), 9, "-1.65e-05"),
        (np.float32(-1.65276e-05), 7, "-2e-05"),
        (np.float64(-5.36962e299), 9, "-5.4e+299"),
        (1_700_000_000, 9, "1.7e+09"),
        (np.int64(-(1 << 63)), 7, "-9e+18"),
        (123_456_789, 9, "123456789"),
        (np.float32(0.333333), 9, "0.333333"),
        (np.complex64(complex(0.123456, -0.234567)), 12, "0.123-0.235i"),
        (np.complex64(complex(-1e-12, 1e-12)), 9, "…"),
        (np.float32(-np.inf), 7, "−inf"),
        (np.True_, 7, "true"),
    ],
)
def test_what_has_little_room_has_fewer_digits_and_is_never_cut(value, most, written):
    assert short_cell(value, most) == written


def test_numbers_in_cells_of_a_picture_fit_into_them(qtbot, panel, chain):
    array = np.array([[-1.65276e-05, 5.36962e299], [-1.23456789e-300, 0.25]])
    select(qtbot, panel, put(chain, np.tile(array, (4, 4))))
    picture = panel.pane.picture
    look(qtbot, panel, "Heat map", picture)
    picture.zoom_by(56 / picture._cell_size()[0])
    room = picture._cell_size()[0]
    metrics = QFontMetricsF(monospace(max(picture.font().pointSizeF() - 1, 7)))
    most = picture._most_characters(metrics)
    for row in range(2):
        for column in range(2):
            text = picture.picture.text(row, column, most)
            assert metrics.horizontalAdvance(text) <= room
            assert float(text) == pytest.approx(array[row, column], rel=0.1)


@pytest.mark.parametrize("array", [np.array([[-1.23e-05, -9.87e-05]]), np.array([[1.23e-300, -9.87e-300]])])
def test_a_legend_has_room_for_its_numbers(qtbot, panel, chain, array):
    select(qtbot, panel, put(chain, array))
    picture = panel.pane.picture
    look(qtbot, panel, "Heat map", picture)
    wide = QFontMetricsF(picture._legend_font()).horizontalAdvance(number_text(array.min(), 3))
    assert picture._frame().right() + 8 + 10 + 4 + wide <= picture.width()


def test_columns_of_small_integers_are_narrow_but_hold_each_of_them(qtbot, panel, chain):
    select(qtbot, panel, put(chain, np.array([[-128, 127], [0, 1]], np.int8)))
    look(qtbot, panel, "Table", panel.pane.table)
    table = panel.pane.table
    narrow = table.columnWidth(0)
    assert narrow >= QFontMetricsF(monospace()).horizontalAdvance("-128") + 8
    select(qtbot, panel, put(chain, np.array([[-1.5, 2.5], [0, 1]], np.float32), name="f"))
    assert table.columnWidth(0) > 1.5 * narrow
