"""What stands below a histogram: the range, or the bar that is pointed at."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetricsF

from onnx_workbench.viewer.plots.histogram import Histogram


@pytest.fixture
def histogram(qtbot):
    made = Histogram()
    qtbot.addWidget(made)
    made.resize(220, 96)
    return made


def edges(low, high):
    return tuple(low + (high - low) * i / 4 for i in range(5))


def test_numbers_that_differ_little_are_told_apart(qtbot, histogram):
    histogram.show_counts((1, 2, 3, 4), edges(1_700_000_000.0, 1_700_000_400.0))
    assert histogram.range_texts == ("1700000000", "1700000400")
    qtbot.keyClick(histogram, Qt.Key.Key_Right)
    assert histogram.bar_text == "1700000000 to 1700000100: 1"
    histogram.show_counts((1, 2, 3, 4), edges(-1.0, 1.0))
    assert histogram.range_texts == ("-1", "1")


def test_what_has_no_room_is_not_cut_in_a_number(qtbot, histogram):
    histogram.resize(150, 96)
    histogram.show_counts((1_234_567, 2, 3, 4), edges(-1.23456e-05, -1.13456e-05))
    qtbot.keyClick(histogram, Qt.Key.Key_Right)
    metrics = QFontMetricsF(histogram._font())
    assert metrics.horizontalAdvance(histogram.bar_text) > 150
    shown = histogram.shown_bar_text
    assert shown.endswith("…")
    assert metrics.horizontalAdvance(shown) <= 150
    assert histogram.toolTip() == histogram.bar_text
