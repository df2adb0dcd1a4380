from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onnx_workbench.viewer.canvas.scene.spatial_grid import Grid

coordinates = st.floats(-1e6, 1e6, allow_nan=False, width=32)
sizes = st.one_of(st.floats(0, 300), st.floats(0, 1e6))


@st.composite
def boxes(draw):
    n = draw(st.integers(0, 40))
    corner = draw(hnp.arrays(np.float64, (n, 2), elements=coordinates))
    extent = draw(hnp.arrays(np.float64, (n, 2), elements=sizes))
    return np.concatenate([corner, corner + extent], 1)


@given(boxes(), coordinates, coordinates, sizes, sizes)
def test_a_rectangle_finds_exactly_what_touches_it(found, left, top, width, height):
    right, bottom = left + width, top + height
    expected = [
        index
        for index, (x0, y0, x1, y1) in enumerate(found.tolist())
        if x0 <= right and x1 >= left and y0 <= bottom and y1 >= top
    ]
    assert Grid(found).in_rect(left, top, right, bottom).tolist() == expected


@given(boxes(), st.data())
def test_a_point_finds_exactly_what_is_within_the_margin(found, data):
    x, y, margin = data.draw(coordinates), data.draw(coordinates), data.draw(st.floats(0, 500))
    if len(found) and data.draw(st.booleans()):
        x, y = found[0, :2].tolist()
    expected = [
        index
        for index, (x0, y0, x1, y1) in enumerate(found.tolist())
        if x0 - margin <= x <= x1 + margin and y0 - margin <= y <= y1 + margin
    ]
    assert Grid(found).at(x, y, margin) == expected


def test_nothing_is_found_in_nothing():
    grid = Grid(np.zeros((0, 4)))
    assert grid.at(0, 0, 10) == []
    assert len(grid.in_rect(-1, -1, 1, 1)) == 0


def test_boxes_that_moved_are_found_where_they_are():
    chance = np.random.default_rng(5)
    corner = chance.uniform(0, 5000, (3000, 2))
    boxes = np.concatenate([corner, corner + chance.uniform(5, 400, (3000, 2))], 1)
    grid = Grid(boxes.copy())
    ids = chance.choice(3000, 40, replace=False)
    for part in (ids[:25], ids[20:]):
        boxes[part] = boxes[part] + chance.uniform(-3000, 3000, (len(part), 1))
        assert grid.move(part, boxes[part])
    fresh = Grid(boxes)
    for x, y in chance.uniform(0, 5000, (200, 2)).tolist():
        assert grid.at(x, y, 3.0) == fresh.at(x, y, 3.0)
        assert np.array_equal(grid.in_rect(x, y, x + 300, y + 300), fresh.in_rect(x, y, x + 300, y + 300))


def test_a_grid_in_which_nearly_everything_moved_is_to_be_made_anew():
    boxes = np.tile([0.0, 0.0, 10.0, 10.0], (5000, 1))
    assert not Grid(boxes).move(np.arange(4000), boxes[:4000] + 50.0)


def test_long_thin_boxes_are_near_few_places():
    """As the edges from one value to very many nodes: each query would otherwise read all of them."""
    count = 5000
    at = np.arange(count) * 10.0
    wide = np.stack([np.zeros(count), at, 10 * at, at], 1)
    tall = np.stack([10 * at, np.zeros(count), 10 * at, at], 1)
    grid = Grid(np.concatenate([wide, tall]))
    read = [len(level.candidates(25_000, 30_000, 25_020, 30_020)) for level in grid._levels]
    assert sum(read) < count / 10
