"""Lines of a tensor's rows: which is which is read beside them."""

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor

from onnx_workbench.viewer.plots.line_plot import LinePlot
from tests.viewer.pointer import hover, wheel


def rows(count):
    values = np.arange(4.0)
    return tuple((f"row {1000 * number}", values + number, values + number) for number in range(count))


def colors_above(plot):
    """The colours of the legend: what is painted above the lines."""
    picture = plot.grab().toImage()
    seen = {picture.pixelColor(x, y).name() for y in range(plot.view.y()) for x in range(picture.width())}
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
def chosen(qtbot, received):
    """A plot of three lines, 0, 1 and 2 higher, and the elements chosen in it."""
    plot = LinePlot()
    qtbot.addWidget(plot)
    plot.resize(400, 300)
    plot.show_lines(range(0, 8, 2), rows(3), index=lambda line, position: (line, position))
    found = received(plot.element_chosen)
    return plot, found


@pytest.mark.parametrize(("x", "y", "index"), [(0.1, 0.0, (0, 0)), (5.9, 5.0, (2, 6)), (0.1, 1.6, (2, 0))])
def test_a_click_chooses_the_element_of_the_nearest_line(chosen, qtbot, x, y, index):
    plot, found = chosen
    plot.show()
    qtbot.mouseClick(plot.view.viewport(), Qt.MouseButton.LeftButton, pos=plot.point_of(x, y).toPoint())
    assert found == [index]


def test_dragging_pans_and_chooses_nothing(chosen, qtbot):
    plot, found = chosen
    plot.show()
    plot.area.getViewBox().scaleBy((0.5, 0.5))
    before = plot.area.getViewBox().viewRange()[0]
    start, end = plot.point_of(3.5, 2.5).toPoint(), plot.point_of(2.5, 2.5).toPoint()
    viewport = plot.view.viewport()
    qtbot.mousePress(viewport, Qt.MouseButton.LeftButton, pos=start)
    for share in (0.4, 0.7, 1.0):
        hover(viewport, start * (1 - share) + end * share, Qt.MouseButton.LeftButton)
    qtbot.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=end)
    after = plot.area.getViewBox().viewRange()[0]
    assert after[0] > before[0]
    assert not found


def test_the_wheel_zooms_and_a_double_click_shows_all(chosen, qtbot):
    plot, _ = chosen
    plot.show()
    everything = plot.area.getViewBox().viewRange()
    wheel(plot.view.viewport(), 240)
    low, high = plot.area.getViewBox().viewRange()[0]
    assert high - low < 5
    wheel(plot.view.viewport(), -4800)
    assert plot.area.getViewBox().viewRange()[0] == pytest.approx(everything[0]), "no farther than all"
    wheel(plot.view.viewport(), 240)
    qtbot.mouseDClick(plot.view.viewport(), Qt.MouseButton.LeftButton, pos=plot.view.viewport().rect().center())
    assert plot.area.getViewBox().viewRange() == [pytest.approx(ends) for ends in everything]


def test_the_pointer_reads_the_values(chosen, qtbot):
    plot, _ = chosen
    plot.show()
    hover(plot.view.viewport(), plot.point_of(2.2, 1.0))
    assert plot.point_text == "[2]  row 0: 1   row 1000: 2   row 2000: 3"
    assert plot.accessibleDescription() == plot.point_text


def test_between_least_and_greatest_values_it_is_filled(qtbot):
    plot = LinePlot()
    qtbot.addWidget(plot)
    plot.resize(400, 300)
    low = np.zeros(9)
    plot.show_lines(range(9), (("", low, low + 10),))
    plot.show()
    picture, at = plot.view.grab().toImage(), plot.point_of(4.5, 5.0).toPoint()
    color = picture.pixelColor(at)
    assert color.blue() - color.red() > 60
    assert plot.area.getAxis("left").labelText == "value"
    assert plot.area.getAxis("bottom").labelText == "index"


@pytest.mark.parametrize("positions", [range(0), range(5, 6), range(0, 1 << 40, 1 << 38)])
def test_any_positions_are_painted(qtbot, positions):
    plot = LinePlot()
    qtbot.addWidget(plot)
    values = np.arange(float(len(positions)))
    plot.show_lines(positions, (("", values, values),))
    plot.show()
    assert not plot.grab().isNull()
    qtbot.keyClick(plot, Qt.Key.Key_Right)
    assert plot.point_text.startswith(f"[{positions[0]}]" if positions else "")


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
    plot.show()
    qtbot.mouseClick(plot.view.viewport(), Qt.MouseButton.LeftButton, pos=plot.point_of(2.9, 2.0).toPoint())
    assert found[0][0] == 1
    assert not plot.grab().isNull()


def test_where_there_is_no_finite_number_the_line_has_a_gap(qtbot):
    plot = LinePlot()
    qtbot.addWidget(plot)
    plot.resize(400, 200)
    values = np.zeros(9)
    values[3:6] = np.nan
    plot.show_lines(range(9), (("", values, values),))
    plot.show()
    picture = plot.view.grab().toImage()
    seen = [is_blue(picture, plot.point_of(x, 0.0).toPoint().x()) for x in (0.8, 4.0, 7.2)]
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
    plot.show()
    assert is_blue(plot.view.grab().toImage(), plot.point_of(2.4, 0.0).toPoint().x())


def test_numbers_that_differ_little_are_reported_apart(qtbot):
    plot = LinePlot()
    qtbot.addWidget(plot)
    plot.resize(400, 200)
    values = 1_700_000_000 + np.arange(9.0)
    plot.show_lines(range(9), (("", values, values),))
    plot.mark(3)
    assert plot.point_text == "[3]  1700000003"
    plot.show_lines(range(9), (("", values * 1e-9 - 1.7, values * 1e-9 - 1.7),))
    plot.mark(3)
    assert plot.point_text == "[3]  3e-09"


def test_lines_are_copied_as_numbers(chosen):
    plot, _ = chosen
    single, low = np.array([1.5, 2.0]), np.array([0.0, -1.0])
    plot.show_lines(range(0, 4, 2), (("a", single, single), ("b", low, single)))
    assert plot.numbers() == "index\ta\tb min\tb max\n0\t1.5\t0.0\t1.5\n2\t2.0\t-1.0\t2.0"


def test_positive_values_are_drawn_by_their_logarithms(chosen):
    plot, found = chosen
    values = np.array([0.01, 1.0, -5.0, 100.0])
    plot.show_lines(range(4), (("", values, values),), index=lambda line, position: (line, position))
    plot.set_logarithmic(True)
    low, high = plot.area.getViewBox().viewRange()[1]
    assert (low, high) == pytest.approx((-2.2, 2.2))
    assert plot.left_texts([-2.0, 0.0, 2.0], 2.0) == ["0.01", "1", "100"]
    plot.choose_at(3.0, 2.0)
    assert found == [(0, 3)]
    assert "100" in plot.point_text
    plot.set_logarithmic(False)
    assert plot.area.getViewBox().viewRange()[1][0] < -5
    plot.show_lines(range(4), (("", -abs(values), -abs(values)),))
    plot.set_logarithmic(True)
    assert plot.area.getViewBox().viewRange()[1][1] < 10, "as there is nothing positive"
