"""Lines of a tensor's rows: which is which is read beside them."""

import numpy as np
import pytest
from PySide6.QtGui import QColor

from viewer.widgets.plots.lines import LinePlot


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
