"""A spatial index of boxes: those in a rectangle, those near a point. numpy only.

Boxes are sorted into levels of equal cells, each into the cell of its centre on the level whose cells are at least as
wide and as high as the box. A query therefore reads half a cell beyond its rectangle on every level, and boxes of any
size take one array entry. Width and height count apart, as long edges are thin: 50,000 edges of one value, which are
all as wide as the graph, would otherwise be near every place.
"""

from __future__ import annotations

from math import floor

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float64]  # [N, 4] left, top, right, bottom
Ids = NDArray[np.intp]

_FINEST = 128.0
_STEP = 4.0
_MOST_MOVED = 1000


class Grid:
    """Spatial index of boxes. Building takes about 0.2 µs a box; a few may move afterwards."""

    def __init__(self, boxes: Boxes) -> None:
        self.boxes = boxes
        self._moved: Ids = np.zeros(0, np.intp)  # checked by every query
        n = len(boxes)
        if not n:
            self._levels: list[_Level] = []
            return
        extents = boxes[:, 2:] - boxes[:, :2]
        steps = np.ceil(np.log(np.maximum(extents, _FINEST) / _FINEST) / np.log(_STEP) - 1e-9)
        sizes = _FINEST * _STEP**steps
        level = steps @ (1.0, 1024.0)  # a number for each pair
        self._levels = [
            _Level(boxes, ids, *sizes[ids[0]].tolist())
            for ids in (np.flatnonzero(level == number) for number in np.unique(level))
        ]

    def in_rect(self, left: float, top: float, right: float, bottom: float) -> Ids:
        """Return the indices, ascending, of the boxes that touch a rectangle."""
        ids = np.concatenate([*(level.candidates(left, top, right, bottom) for level in self._levels), self._moved])
        boxes = self.boxes[ids]
        inside = (boxes[:, 0] <= right) & (boxes[:, 2] >= left) & (boxes[:, 1] <= bottom) & (boxes[:, 3] >= top)
        result: Ids = ids[inside]
        if len(self._moved):
            return np.unique(result)
        result.sort()
        return result

    def at(self, x: float, y: float, margin: float = 0.0) -> list[int]:
        """Return the indices, ascending, of the boxes within `margin` of a point. About 20 µs, for any number."""
        touching: list[int] = []
        for level in self._levels:
            for index, left, top, right, bottom in level.around(x, y, margin):
                if left - margin <= x <= right + margin and top - margin <= y <= bottom + margin:
                    touching.append(index)
        if len(self._moved):
            moved = self._moved[_near(self.boxes[self._moved], x, y, margin)].tolist()
            touching = list({*touching, *moved})
        touching.sort()
        return touching

    def move(self, ids: Ids, boxes: Boxes) -> bool:
        """Move some boxes. Return False, unchanged, if so many have moved that a new grid is quicker."""
        moved = np.union1d(self._moved, ids)
        if len(moved) > _MOST_MOVED:
            return False
        self._moved = moved
        self.boxes[ids] = boxes
        return True


def _near(boxes: Boxes, x: float, y: float, margin: float) -> NDArray[np.bool_]:
    left, top, right, bottom = boxes.T
    return np.asarray((left - margin <= x) & (x <= right + margin) & (top - margin <= y) & (y <= bottom + margin))


class _Level:
    """The boxes of about one width and height, by row of cells, then column."""

    def __init__(self, boxes: Boxes, ids: Ids, width: float, height: float) -> None:
        self._width, self._height = width, height
        centre = (boxes[ids, :2] + boxes[ids, 2:]) * (0.5 / width, 0.5 / height)
        column = np.floor(centre[:, 0]).astype(np.int64)
        row = np.floor(centre[:, 1]).astype(np.int64)
        self._first_column, self._last_column = int(column.min()), int(column.max())
        self._first_row, self._last_row = int(row.min()), int(row.max())
        self._columns = self._last_column - self._first_column + 1
        keys = (row - self._first_row) * self._columns + (column - self._first_column)
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._ids = ids[order]
        self._boxes = boxes

    def candidates(self, left: float, top: float, right: float, bottom: float) -> Ids:
        """Return the boxes with centres in cells that a rectangle may reach."""
        width, height = self._width, self._height
        first_column = max(floor(left / width - 0.5) - self._first_column, 0)
        last_column = min(floor(right / width + 0.5) - self._first_column, self._columns - 1)
        first_row = max(floor(top / height - 0.5), self._first_row) - self._first_row
        last_row = min(floor(bottom / height + 0.5), self._last_row) - self._first_row
        if first_column > last_column or first_row > last_row:
            return self._ids[:0]
        if first_column == 0 and last_column == self._columns - 1:
            start = self._keys.searchsorted(first_row * self._columns)
            stop = self._keys.searchsorted((last_row + 1) * self._columns)
            return self._ids[start:stop]
        rows = np.arange(first_row, last_row + 1, dtype=np.int64) * self._columns
        starts = self._keys.searchsorted(rows + first_column)
        lengths = self._keys.searchsorted(rows + last_column, side="right") - starts
        ends = lengths.cumsum()
        which: NDArray[np.intp] = (starts - ends + lengths).repeat(lengths) + np.arange(ends[-1])
        return self._ids[which]

    def around(self, x: float, y: float, margin: float) -> list[tuple[int, float, float, float, float]]:
        """Return the boxes near a point, with their sides, as Python numbers: quicker than arrays for a few."""
        ids = self.candidates(x - margin, y - margin, x + margin, y + margin)
        if not len(ids):
            return []
        sides = self._boxes[ids].tolist()
        return [(index, *side) for index, side in zip(ids.tolist(), sides, strict=True)]
