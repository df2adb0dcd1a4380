"""What stands below a histogram: the range, or the bar that is pointed at."""

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtGui import QContextMenuEvent, QFontMetricsF, QGuiApplication
from PySide6.QtWidgets import QMenu

from onnx_workbench.viewer.plots.histogram import Histogram
from onnx_workbench.viewer.style.theme import theme
from tests.viewer.pointer import hover, wheel


@pytest.fixture
def histogram(qtbot):
    made = Histogram()
    qtbot.addWidget(made)
    made.resize(220, 160)
    return made


def edges(low, high):
    return tuple(low + (high - low) * i / 4 for i in range(5))


def test_numbers_that_differ_little_are_reported_apart(qtbot, histogram):
    histogram.show_counts((1, 2, 3, 4), edges(1_700_000_000.0, 1_700_000_400.0))
    assert histogram.range_texts == ("1700000000", "1700000400")
    qtbot.keyClick(histogram, Qt.Key.Key_Right)
    assert histogram.bar_text == "1700000000 to 1700000100: 1"
    histogram.show_counts((1, 2, 3, 4), edges(-1.0, 1.0))
    assert histogram.range_texts == ("-1", "1")


def test_what_has_no_room_is_not_cut_in_a_number(qtbot, histogram):
    histogram.resize(150, 160)
    histogram.show_counts((1_234_567, 2, 3, 4), edges(-1.23456e-05, -1.13456e-05))
    qtbot.keyClick(histogram, Qt.Key.Key_Right)
    metrics = QFontMetricsF(histogram.small_font())
    assert metrics.horizontalAdvance(histogram.bar_text) > 150
    shown = histogram.shown_text()
    assert shown.endswith("…")
    assert metrics.horizontalAdvance(shown) <= 150
    assert histogram.toolTip() == histogram.bar_text


def shown_x(histogram):
    """The range of values that is seen."""
    return histogram.area.getViewBox().viewRange()[0]


def test_keys_zoom_and_show_all_again(qtbot, histogram):
    histogram.show_counts((1, 2, 3, 4), edges(-2.0, 2.0))
    everything = shown_x(histogram)
    qtbot.keyClick(histogram, Qt.Key.Key_Plus)
    low, high = shown_x(histogram)
    assert -2 < low < high < 2
    qtbot.keyClick(histogram, Qt.Key.Key_0)
    assert shown_x(histogram) == pytest.approx(everything)


@pytest.mark.parametrize(("modifiers", "zooms"), [("NoModifier", False), ("ControlModifier", True)])
def test_the_wheel_zooms_with_ctrl_only_as_it_scrolls_the_column(qtbot, histogram, modifiers, zooms):
    histogram.show_counts((1, 2, 3, 4), edges(-2.0, 2.0))
    histogram.show()
    wheel(histogram.view.viewport(), 120, keys=Qt.KeyboardModifier[modifiers])
    low, high = shown_x(histogram)
    assert (high - low < 4) == zooms


@pytest.mark.parametrize(
    ("low", "high"), [(-1.7e308, 1.7e308), (0.0, 4e-323), (2.0**62, 2.0**62 + 4096), (-3e-5, 2e-5)]
)
@pytest.mark.parametrize("logarithmic", [False, True])
def test_a_range_of_any_size_is_painted(qtbot, histogram, low, high, logarithmic):
    histogram.set_logarithmic(logarithmic)
    part = [low * (1 - i / 4) + high * (i / 4) for i in range(5)]
    histogram.show_counts((1, 0, 3, 10**12), tuple(part))
    histogram.show()
    picture = histogram.grab().toImage()
    colors = {picture.pixelColor(x, 2 * picture.height() // 3).name() for x in range(picture.width())}
    assert theme().edge.name() in colors


def test_the_axis_of_counts_says_that_it_is_logarithmic(qtbot, histogram):
    histogram.show_counts((1, 2, 3, 4), edges(-2.0, 2.0))
    axis = histogram.area.getAxis("left")
    assert axis.labelText == "count"
    assert axis.tickStrings([0.0, 0.5, 2.0], 1.0, 0.5) == ["0", "", "2"]
    histogram.set_logarithmic(True)
    assert axis.labelText == "count (log)"
    assert axis.tickStrings([0.0, 3.0], 1.0, 1.0) == ["1", "1,000"]


def test_the_pointer_finds_the_bar_and_leaves_it(qtbot, histogram):
    histogram.show_counts((1, 2, 3, 4), edges(0.0, 4.0))
    histogram.show()
    hover(histogram.view.viewport(), histogram.point_of(2.5, 1.0))
    assert histogram.bar_text == "2 to 3: 3"
    assert histogram.accessibleDescription() == histogram.bar_text
    QCoreApplication.sendEvent(histogram.view.viewport(), QEvent(QEvent.Type.Leave))
    assert not histogram.bar_text


def test_other_counts_mark_no_bar(histogram):
    histogram.show_counts((1, 2, 3, 4), edges(0.0, 4.0))
    histogram.mark(3)
    histogram.show_counts((5, 6), (0.0, 1.0, 2.0))
    assert histogram.bar_text == ""


def test_it_is_copied_as_numbers_and_as_a_picture(qtbot, histogram):
    histogram.show_counts((1, 2), (0.0, 0.5, 1.0))
    histogram.show()
    qtbot.keyClick(histogram, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "from\tto\tcount\n0.0\t0.5\t1\n0.5\t1.0\t2"
    at = histogram.view.viewport().rect().center()
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, histogram.view.viewport().mapToGlobal(at))
    QCoreApplication.sendEvent(histogram.view.viewport(), event)
    menu = histogram.findChild(QMenu)
    assert menu.isVisible()
    titles = {action.text().replace("&", ""): action for action in menu.actions()}
    titles["Copy Picture"].trigger()
    assert QGuiApplication.clipboard().image().width() == 2 * histogram.width()
    menu.close()
    histogram.hide()
