"""The legend of the canvas: small where there is little room, and as a user wants it."""

import pytest
from PySide6.QtCore import QPoint, Qt

from onnx_workbench.viewer.canvas.paint.overlay import legend_size

OPERATORS = "Operators of the graph"


@pytest.fixture
def view(show, small):
    view = show(small.model())
    view.node_colors.set_groups({node: node.op_type for node in view.workspace.graph.nodes}, OPERATORS)
    return view


def test_it_is_folded_where_it_would_take_much_room(view):
    view.resize(1200, 800)
    assert not view.legend.is_folded
    whole = legend_size(view.colouring.legend, view.fonts)
    assert view.legend.height() >= whole[1]
    view.resize(260, 220)
    assert view.legend.is_folded
    assert view.legend.height() < whole[1] / 2
    assert view.rect().contains(view.legend.geometry())


def test_a_click_folds_it_and_the_next_opens_it(view, qtbot):
    view.resize(1200, 800)
    for folded in (True, False):
        qtbot.mouseClick(view.legend, Qt.MouseButton.LeftButton)
        assert view.legend.is_folded is folded
    view.resize(260, 220)
    assert not view.legend.is_folded  # as it was put
    view.legend.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.keyClick(view.legend, Qt.Key.Key_Space)
    assert view.legend.is_folded


def test_what_is_under_a_folded_one_is_free(view, qtbot):
    view.resize(1200, 800)
    covered = view.legend.geometry().topLeft() + QPoint(2, 2)
    assert view.childAt(covered) is view.legend
    qtbot.mouseClick(view.legend, Qt.MouseButton.LeftButton)
    assert view.childAt(covered) is None


def test_it_goes_with_the_colours(view):
    assert view.legend.isVisibleTo(view)
    assert OPERATORS in view.legend.accessibleName()
    view.node_colors.set_groups(None)
    assert not view.legend.isVisibleTo(view)
