"""Names of boxes at small scales, where they have no headers: whole, on up to three lines, inside, beside or below it.

The groups of a row have all of their names or none, and so have its other boxes, so that a missing one says nothing
about the box.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf

import numpy as np

from onnx_workbench.model.analysis.name_scopes import Scope
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.canvas.layout.arrays import dense, offsets
from onnx_workbench.viewer.canvas.paint.fonts import Fonts
from onnx_workbench.viewer.canvas.scene.drawing import STACK, STRIPE, WIDEST, Kind, Style
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.canvas.scene.spatial_grid import Ids

#: Below this scale boxes are blocks of one colour, groups too.
BLOCKS_BELOW = 0.30

#: Size of names in px on screen, and the least size, used if the name is too wide.
FAR_NAME = 10.5
LEAST_NAME = 8.5

_LETTER_HEIGHT = 0.75  # height of capitals relative to the font size
_BAND = 20.0  # px above and below a box that a name beside it may take: half of the distance between ranks
_GAP = 4.0  # px on screen between a box and the name beside it
_REACH = 1200.0  # px: the longest name beside a box
_WIDER, _SQUARE = 0.05, 0.85  # shares of the whole's width, and of its height: room for names beyond its right end
_MOST_AT_BORDER = 2000  # boxes
_MOST_LINES = 3
_LONGEST = 200  # characters of the name of a group
_WORD = re.compile(r".+?(?:[\s/._:·-]+|(?<=[a-z])(?=[A-Z])|$)", re.DOTALL)  # with what separates it from the next


@dataclass(frozen=True, slots=True)
class FarName:
    """A name of a box, in scene coordinates; `factor` enlarges the font of 100 %."""

    box: int
    lines: tuple[str, ...]
    left: float
    top: float
    factor: float
    is_inside: bool


class FarNames:
    """Finds the names of a scene at any scale. Free places are searched once for each box."""

    def __init__(self, scene: Scene, fonts: Fonts) -> None:
        self._scene = scene
        self._fonts = fonts
        self._free: dict[tuple[int, int], float] = {}  # px at the left (-1) or right (1) of each box
        self._rooms: dict[int, tuple[float, float]] = {}
        self._row_of: Ids | None = None  # [N] the row of each box
        self._by_row: Ids = np.zeros(0, np.intp)  # [N] boxes by row
        self._starts: Ids = np.zeros(1, np.intp)  # [rows + 1] of each row in it
        self._scale = 0.0
        self._named: dict[int, bool] = {}  # rows, at this scale

    def forget(self) -> None:
        """Search again: boxes have other sizes, places or titles."""
        self._row_of, self._scale = None, 0.0
        self._free.clear()
        self._rooms.clear()

    def reach(self, scale: float) -> float:
        """Return how many px of the scene a name may reach to the left or right of its box."""
        return min(_REACH, (WIDEST + _GAP) * self._factor(scale, 1.0))

    def of(self, boxes: Ids, scale: float, ratio: float = 1.0) -> list[FarName]:
        """Return the names of some boxes, for a scale in device px per scene px and device px per px."""
        if scale != self._scale:
            self._scale, self._named = scale, {}
        rows, found = self._rows(), []
        for index, row in zip(boxes.tolist(), rows[boxes].tolist(), strict=True):
            if self._scene.kinds[index] != Kind.CONTAINER and self._is_named(row, scale, ratio):
                name = self._place(index, scale, ratio)
                assert name is not None
                found.append(name)
        return found

    def bounds_right(self, scale: float, ratio: float = 1.0) -> float:
        """Return the right end of all names and boxes; boxes alone if there are very many."""
        right = float(self._scene.bounds[2])
        at_border = np.flatnonzero(self._scene.corners[:, 2] > right - self.reach(scale))
        if len(at_border) > _MOST_AT_BORDER:
            return right
        names = self.of(at_border, scale, ratio)
        return max([right, *(left + wide for left, _, wide, _ in map(self.rect, names))])

    def rect(self, name: FarName) -> tuple[float, float, float, float]:
        """Return left, top, width and height of a name."""
        return name.left, name.top, self._width(name.lines) * name.factor, self._high * len(name.lines) * name.factor

    def line_rect(self, name: FarName, line: int) -> tuple[float, float, float, float]:
        """Return left, top, width and height of one line, in the middle of the name."""
        left, top, wide, _ = self.rect(name)
        own, high = self._fonts.width(name.lines[line], Style.HEADER) * name.factor, self._high * name.factor
        return left + (wide - own) / 2, top + line * high, own, high

    def _width(self, lines: tuple[str, ...]) -> float:
        return max(*(self._fonts.width(line, Style.HEADER) for line in lines), 1.0)

    @property
    def _high(self) -> float:
        return self._fonts.height(Style.HEADER)

    def _factor(self, scale: float, ratio: float) -> float:
        """Return the factor over 100 % at which a name has its size on the screen."""
        return max(FAR_NAME * ratio / (self._fonts.size * scale), 1.0)

    def _rows(self) -> Ids:
        """[N] the row of each box: the groups, or the others, of one rank of one container at one height."""
        if self._row_of is None:
            scene = self._scene
            along = 1 if scene.drawing.options.direction == "down" else 0
            middles = np.round(scene.rects[:, along] + scene.rects[:, along + 2] / 2)
            is_group = scene.kinds == Kind.GROUP
            self._row_of, count = dense(scene.drawing.parents, scene.layout.ranks, middles, is_group)
            self._by_row, self._starts = np.argsort(self._row_of, kind="stable"), offsets(self._row_of, count)
        return self._row_of

    def _is_named(self, row: int, scale: float, ratio: float) -> bool:
        """Return whether all boxes of a row have room for their names."""
        is_named = self._named.get(row)
        if is_named is None:
            boxes = self._by_row[self._starts[row] : self._starts[row + 1]].tolist()
            plain = (index for index in boxes if self._scene.kinds[index] != Kind.CONTAINER)
            is_named = self._named[row] = all(self._place(index, scale, ratio) is not None for index in plain)
        return is_named

    def _place(self, index: int, scale: float, ratio: float) -> FarName | None:
        """Return the name of a box inside it, else beside or below it; None if there is no room.

        Beside the last boxes at the right it makes the whole wider, so that below is better there.

        The title of a group is cut for its header: from afar it is only written where the whole name has no room.
        """
        whole, title = self._name(index), self._scene.boxes[index].title
        right = float(self._scene.bounds[2]) - self._scene.corners[index, 2]
        left = self._scene.corners[index, 0] - float(self._scene.bounds[0])
        return (
            self._inside(index, whole, scale, ratio)
            or self._beside(index, whole, scale, ratio, 1, right)
            or self._at_left(index, whole, scale, ratio, left)
            or self._below(index, whole, scale, ratio)
            or self._beside(index, whole, scale, ratio, 1, right + self._beyond())
            or self._inside(index, title, scale, ratio)
        )

    def _beyond(self) -> float:
        """Return how many px names may reach beyond the right end: where the height decides how the whole fits a view,
        they make it no smaller.
        """
        left, top, right, bottom = self._scene.bounds
        return max(_WIDER * (right - left), _SQUARE * (bottom - top) - (right - left))

    def _inside(self, index: int, text: str, scale: float, ratio: float) -> FarName | None:
        left, top, width, height = self._face(index, scale)
        factor = self._factor(scale, ratio)
        least = factor * LEAST_NAME / FAR_NAME
        high, room = self._high, width - 3.0 * ratio / scale
        lines = self._wrapped(text, room / least, int(height / (high * least) + 1.0 - _LETTER_HEIGHT))
        if not lines:
            return None
        wide, tall = self._width(lines), high * (len(lines) - 1.0 + _LETTER_HEIGHT)
        factor = min(factor, room / wide, height / tall)
        x, y = left + (width - wide * factor) / 2, top + (height - high * len(lines) * factor) / 2
        return FarName(index, lines, x, y, factor, is_inside=True)

    def _face(self, index: int, scale: float) -> tuple[float, float, float, float]:
        """Return left, top, width and height of what a name inside a box may cover: of a group, its uppermost card."""
        left, top, width, height = self._scene.rect(index)
        if scale < BLOCKS_BELOW or self._scene.kinds[index] != Kind.GROUP:
            return left, top, width, height
        return left + STRIPE, top, width - STACK - STRIPE, height - STACK

    def _beside(self, index: int, text: str, scale: float, ratio: float, side: int, most: float) -> FarName | None:
        """Return the name at a side of a box, left -1 or right 1, within some px."""
        left, top, width, height = self._scene.rect(index)
        factor = self._factor(scale, ratio) * LEAST_NAME / FAR_NAME
        high, gap = self._high * factor, _GAP * ratio / scale
        room = min(self._free_beside(index, side), most) - 2 * gap
        lines = self._lines(text, room / factor, int((height + 2 * _BAND) / high))
        if not lines:
            return None
        x = left + width + gap if side > 0 else left - gap - self._width(lines) * factor
        return FarName(index, lines, x, top + (height - high * len(lines)) / 2, factor, is_inside=False)

    def _below(self, index: int, text: str, scale: float, ratio: float) -> FarName | None:
        left, top, width, height = self._scene.rect(index)
        factor = self._factor(scale, ratio) * LEAST_NAME / FAR_NAME
        wide, deep = self._room_below(index)
        lines = self._lines(text, wide / factor, int(deep / (self._high * factor)))
        if not lines:
            return None
        return FarName(
            index, lines, left + (width - self._width(lines) * factor) / 2, top + height, factor, is_inside=False
        )

    def _at_left(self, index: int, text: str, scale: float, ratio: float, most: float) -> FarName | None:
        """Return the name at the left of a box if no box there has its name at the right, in the same place."""
        name = self._beside(index, text, scale, ratio, -1, most)
        if name is None:
            return None
        left, top, _, high = self.rect(name)
        for other in self._scene.box_grid.in_rect(left - self.reach(scale), top, left, top + high).tolist():
            if self._scene.kinds[other] == Kind.CONTAINER or self._inside(other, self._name(other), scale, ratio):
                continue
            right = float(self._scene.bounds[2]) - self._scene.corners[other, 2]
            theirs = self._beside(other, self._name(other), scale, ratio, 1, right)
            if theirs is not None and theirs.left + self.rect(theirs)[2] > left:
                return None
        return name

    def _name(self, index: int) -> str:
        box = self._scene.boxes[index]
        return display(box.subject.name, _LONGEST) if isinstance(box.subject, Scope) else box.title

    def _lines(self, text: str, room: float, most: int) -> tuple[str, ...]:
        """Return a name on lines of at most some width outside of its box, cut if it is very long."""
        room = min(room, WIDEST)
        cut = self._fonts.elided(text, Style.HEADER, WIDEST, middle=True)
        return self._wrapped(text, room, most) or (self._wrapped(cut, room, most) if cut != text else ())

    def _wrapped(self, text: str, room: float, most: int) -> tuple[str, ...]:
        """Return a name on lines of at most some width, broken between its words; empty if these are too many."""
        if most >= 1 and self._fonts.width(text, Style.HEADER) <= room:
            return (text,)
        if most < 2:
            return ()
        lines = [""]
        for word in _WORD.findall(text):
            if lines[-1] and self._fonts.width((lines[-1] + word).rstrip(), Style.HEADER) > room:
                lines.append("")
            lines[-1] += word
        wrapped = tuple(line.strip() for line in lines)
        return wrapped if len(wrapped) <= min(most, _MOST_LINES) and self._width(wrapped) <= room else ()

    def _free_beside(self, index: int, side: int) -> float:
        """Return the px at a side of a box, up to `_REACH`, that hold no box or border; edges run below the name."""
        free = self._free.get((index, side))
        if free is None:
            free = self._free[index, side] = self._search_beside(index, side)
        return free

    def _search_beside(self, index: int, side: int) -> float:
        scene = self._scene
        left, top, right, bottom = map(float, scene.corners[index])
        around = self._around(index)
        if side > 0:
            end = min(right + _REACH, around[2])
            boxes = scene.box_grid.in_rect(right + 1, top - _BAND + 1, end, bottom + _BAND - 1)
            boxes = boxes[(scene.corners[boxes, 0] > left) & (boxes != index)]
            return float(scene.corners[boxes, 0].min(initial=end)) - right
        end = max(left - _REACH, around[0])
        boxes = scene.box_grid.in_rect(end, top - _BAND + 1, left - 1, bottom + _BAND - 1)
        boxes = boxes[(scene.corners[boxes, 2] < right) & (boxes != index)]
        return left - float(scene.corners[boxes, 2].max(initial=end))

    def _room_below(self, index: int) -> tuple[float, float]:
        """Return the width and height in px below a box that no box, border, or name below a neighbour takes."""
        room = self._rooms.get(index)
        if room is None:
            room = self._rooms[index] = self._search_below(index)
        return room

    def _search_below(self, index: int) -> tuple[float, float]:
        scene, (left, top, width, height) = self._scene, self._scene.rect(index)
        right, bottom = left + width, top + height
        near = scene.box_grid.in_rect(left - 2 * _BAND, top, right + 2 * _BAND, bottom + 2 * _BAND)
        others = scene.corners[near[near != index]]
        beside = others[others[:, 1] < bottom]
        gaps = np.concatenate([beside[:, 0] - right, left - beside[:, 2]])
        side = float(gaps[gaps > 0].min(initial=2 * _BAND)) / 2
        under = others[(others[:, 1] >= bottom) & (others[:, 0] < right + side) & (others[:, 2] > left - side)]
        end = float(under[:, 1].min(initial=bottom + 2 * _BAND))
        return width + 2 * side, min(end, self._around(index)[3]) - bottom

    def _around(self, index: int) -> tuple[float, float, float, float]:
        """Return the sides of the container around a box."""
        parent = self._scene.boxes[index].parent
        left, top, right, bottom = map(float, self._scene.corners[parent]) if parent >= 0 else (-inf, -inf, inf, inf)
        return left, top, right, bottom
