"""The overview leaves the nodes below it to be seen, in small windows too."""

import pytest

from tests.viewer.canvas.graphs import long_chain


@pytest.fixture
def view(show):
    view = show(long_chain(200).model(), 1200, 900)
    view.minimap.set_wanted(True)
    view.zoom_to(1.0)
    return view


@pytest.mark.parametrize("size", [(390, 290), (600, 260), (260, 700)])
def test_it_covers_little_of_a_small_canvas(view, size):
    view.resize(*size)
    assert view.minimap.isVisible()
    assert 16 * view.minimap.width() * view.minimap.height() <= 1.01 * size[0] * size[1]


def test_it_goes_where_nothing_could_be_told_from_it_and_comes_back(view):
    view.resize(180, 140)
    assert view.minimap.isHidden()
    view.resize(1200, 900)
    assert view.minimap.isVisible()
