"""The curve of memory over a run: what it paints and points at, however many nodes ran."""

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt

from onnx_workbench.exec.results.run_result import Moment, ValueLifetimes
from onnx_workbench.viewer.panels.profile import MemoryCurve
from tests.viewer.pointer import hover, wheel


@pytest.fixture
def curve(qtbot):
    """A curve that rises over four moments."""
    made = MemoryCurve()
    qtbot.addWidget(made)
    made.resize(400, 200)
    made.set_moments(moments(4))
    made.show()
    return made


def moments(count):
    none = ValueLifetimes((), np.zeros(0, np.int64), np.zeros(0, np.int64))
    return [Moment(node, (), 1000 * (node + 1), node, none) for node in range(count)]


def test_the_peak_is_pointed_at_first_and_the_pointer_moves_on(curve, received):
    assert curve.at == 3
    assert curve.accessibleDescription() == "4.00 kB alive at step 4"
    pointed = received(curve.pointed)
    hover(curve.view.viewport(), curve.point_of(1.5, 500))
    assert [moment.node for moment in pointed] == [1]


def test_a_click_and_enter_choose_the_moment(curve, qtbot, received):
    chosen = received(curve.chosen)
    qtbot.mouseClick(curve.view.viewport(), Qt.MouseButton.LeftButton, pos=curve.point_of(0.5, 500).toPoint())
    qtbot.keyClick(curve, Qt.Key.Key_Right)
    qtbot.keyClick(curve, Qt.Key.Key_Return)
    assert [moment.node for moment in chosen] == [0, 1]


def test_of_very_many_moments_zoom_shows_each(qtbot, curve):
    curve.set_moments(moments(20_000))
    for _ in range(10):
        wheel(curve.view.viewport(), 240)
    low, high = curve.area.getViewBox().viewRange()[0]
    assert high - low < 100
    hover(curve.view.viewport(), QPointF(curve.point_of((low + high) / 2, 0).x(), 50))
    assert int(low) <= curve.at < high
    picture = curve.view.grab().toImage()
    x, y = curve.point_of((low + high) / 2, 0).x(), curve.point_of(0, 1e5).y()
    assert picture.pixelColor(round(x) + 4, round(y)).blue() > picture.pixelColor(round(x) + 4, round(y)).red() + 20


def test_a_run_without_moments_paints_nothing(curve):
    curve.set_moments([])
    assert curve.at is None
    assert not curve.grab().isNull()
