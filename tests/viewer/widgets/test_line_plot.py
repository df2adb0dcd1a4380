"""Lines of a tensor's rows: which is which is read beside them."""

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor

from onnx_workbench.viewer.plots.line_plot import LinePlot


def rows(count):
    values = np.arange(4.0)
    return tuple((f"row {1000 * number}", values + number, values + number) for number in range(count))


def colors_above(plot):
    """The colours of the legend: what is painted above the lines."""
    picture = plot.grab().toImage()
    plot_top = int(plot._plot().top()) - 4
    seen = {picture.pixelColor(x, y).name() for y in range(plot_top) for x in range(picture.width())}
    return seen & {QColor(name).name() for name in ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9")}


@pytest.mark.parametrize(("width", "count"), [(900, 2), (900, 6), (200, 6)])
def test_every_row_has_its_colour_beside_its_name(qtbot, width, count):
    plot = LinePlot()
    qtbot.addWidget(plot)
    plot.resize(width, 400)
    plot.show_lines(range(4), rows(count))
    assert len(colors_above(plot)) == count


def test_a_line_alone_needs_no_name(qtbot):
    plot = LinePlot()
    qtbot.addWidget(plot)
    plot.resize(400, 200)
    plot.show_lines(range(4), (("", np.arange(4.0), np.arange(4.0)),))
    assert not colors_above(plot)


@pytest.fixture
def chosen(qtbot):
    """A plot of three lines, 0, 1 and 2 higher, and the elements chosen in it."""
    plot = LinePlot()
    qtbot.addWidget(plot)
    plot.resize(400, 300)
    plot.show_lines(range(0, 8, 2), rows(3), index=lambda line, position: (line, position))
    found = []
    plot.element_chosen.connect(found.append)
    return plot, found


@pytest.mark.parametrize(("across", "down", "index"), [(0.0, 1.0, (0, 0)), (1.0, 0.0, (2, 6)), (0.0, 0.6, (2, 0))])
def test_a_click_chooses_the_element_of_the_nearest_line(chosen, qtbot, across, down, index):
    plot, found = chosen
    room = plot._plot()
    place = QPoint(round(room.left() + across * room.width()), round(room.top() + down * room.height()))
    qtbot.mouseClick(plot, Qt.MouseButton.LeftButton, pos=place)
    assert found == [index]


def test_keys_choose_an_element(chosen, qtbot):
    plot, found = chosen
    qtbot.keyClick(plot, Qt.Key.Key_Return)
    assert found == []  # nothing is pointed at
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Return):
        qtbot.keyClick(plot, key)
    for key in (*[Qt.Key.Key_Down] * 4, Qt.Key.Key_Enter, *[Qt.Key.Key_Up] * 4, Qt.Key.Key_Enter):
        qtbot.keyClick(plot, key)
    assert found == [(1, 2), (2, 2), (0, 2)]


def test_a_click_passes_over_lines_without_numbers(chosen, qtbot):
    plot, found = chosen
    nothing = np.full(4, np.nan)
    plot.show_lines(range(4), (("a", nothing, nothing), *rows(1)), index=lambda line, position: (line, position))
    qtbot.mouseClick(plot, Qt.MouseButton.LeftButton, pos=plot._plot().center().toPoint())
    assert found[0][0] == 1
    assert not plot.grab().isNull()


def test_where_there_is_no_finite_number_the_line_has_a_gap(qtbot):
    plot = LinePlot()
    qtbot.addWidget(plot)
    plot.resize(400, 200)
    values = np.zeros(9)
    values[3:6] = np.nan
    plot.show_lines(range(9), (("", values, values),))
    picture, room = plot.grab().toImage(), plot._plot()
    seen = [is_blue(picture, round(room.left() + part * room.width())) for part in (0.1, 0.5, 0.9)]
    assert seen == [True, False, True]


def is_blue(picture, x):
    """Whether a part of the first line is found at a place."""
    colors = (picture.pixelColor(x, y) for y in range(picture.height()))
    return any(color.blue() - color.red() > 60 for color in colors)


@pytest.mark.parametrize("values", [np.full(9, float(1 << 62)), np.linspace(-1, 1, 9) * 1.7e308, np.arange(9) * 5e-324])
def test_numbers_of_any_size_have_a_line(qtbot, values):
    plot = LinePlot()
    qtbot.addWidget(plot)
    plot.resize(400, 200)
    plot.show_lines(range(9), (("", values, values),))
    picture, room = plot.grab().toImage(), plot._plot()
    assert is_blue(picture, round(room.left() + 0.3 * room.width()))


def test_numbers_that_differ_little_are_told_apart(qtbot):
    plot = LinePlot()
    qtbot.addWidget(plot)
    plot.resize(400, 200)
    values = 1_700_000_000 + np.arange(9.0)
    plot.show_lines(range(9), (("", values, values),))
    plot._point(3)
    assert plot.point_text == "[3]  1700000003"
    plot.show_lines(range(9), (("", values * 1e-9 - 1.7, values * 1e-9 - 1.7),))
    plot._point(3)
    assert plot.point_text == "[3]  3e-09"
