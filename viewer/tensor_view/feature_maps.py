"""Mosaics of planes: feature maps of channels, attention heads. Reads values: for tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.text.formatting import number_text
from onnx_workbench.viewer.plots.colormap import ColorScale, scale_of
from onnx_workbench.viewer.plots.matrix_view import MatrixImage, Part
from onnx_workbench.viewer.tensor_view.pictures import (
    PictureRequest,
    heatmap,
    map_of,
    nothing,
    numbers,
    plane_at,
    sampled,
    sampling_note,
)
from onnx_workbench.viewer.tensor_view.readers import Reader, TensorSlice
from onnx_workbench.viewer.tensor_view.tensor_model import number_cell, short_cell

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Planes of a page.
MOST_PLANES = 144
_WHOLE_SIDE = 2400  # pixels, about, of all planes together
_DETAIL_SIDE = 1600

#: From a pixel to an element: plane, row and column; None for a gap.
_Where = Callable[[int, int], tuple[int, int, int] | None]


def mosaic(
    reader: Reader, which: TensorSlice, request: PictureRequest, progress: Progress = SILENT, *, attention: bool = False
) -> MatrixImage:
    """Return the planes along an axis side by side; sampled ones can be refined."""
    rows, _ = which.size(reader.shape)
    axis = plane_axis(reader.shape, which)
    if not rows or axis is None or which.wrap:
        return heatmap(reader, which, request, progress)
    if not reader.shape[axis]:
        return nothing()
    return _Mosaic(reader, which, request, axis, attention=attention).whole(progress)


def plane_axis(shape: tuple[int, ...], which: TensorSlice) -> int | None:
    """Return the axis whose planes to show side by side: the one before rows and columns, else the longest."""
    free = [a for a in range(len(shape)) if a not in (which.rows, which.columns)]
    longer = [a for a in free if shape[a] > 1]
    return longer[-1] if longer else (free[-1] if free else None)


def page_count(shape: tuple[int, ...], axis: int) -> int:
    """Return the number of pages that the planes along an axis take."""
    return max(1, -(-shape[axis] // MOST_PLANES))


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """Rows and columns read of a plane."""

    values: NDArray[Any]
    down: range
    across: range

    def at(self, row: int, column: int) -> Any:
        """Return an element that was read."""
        return self.values[self.down.index(row), self.across.index(column)]


class _Mosaic:
    """The planes along one axis, and their colouring."""

    def __init__(
        self, reader: Reader, which: TensorSlice, request: PictureRequest, axis: int, *, attention: bool
    ) -> None:
        self._reader, self._which, self._request, self._axis = reader, which, request, axis
        self._attention = attention
        self._rows, self._columns = which.size(reader.shape)
        pages = page_count(reader.shape, axis)
        self._first = min(request.page, pages - 1) * MOST_PLANES
        self._count = min(reader.shape[axis] - self._first, MOST_PLANES)
        self._is_lone = request.plane is not None
        if request.plane is not None:
            self._first, self._count = min(request.plane, reader.shape[axis] - 1), 1
        side = max(16, int(_WHOLE_SIDE / sqrt(self._count)))
        self._down, self._across = sampled(self._rows, side), sampled(self._columns, side)
        self._tiles = Tiles(self._count, len(self._down), len(self._across), request.aspect)
        self._scales: list[ColorScale] = []

    def whole(self, progress: Progress) -> MatrixImage:
        """Return all planes, at the resolution there is room for."""
        down, across, tiles = self._down, self._across, self._tiles
        reads = {plane: self._read(plane, down, across) for plane in progress.paced(range(self._count), 1)}
        values = np.stack([numbers(read.values, self._reader.element_type) for read in reads.values()])
        self._scales = self._choose_scales(values)
        pixels = np.zeros((*tiles.size, 4), np.uint8)
        for plane in progress.paced(reads, 1):
            top, left = tiles.place(plane)
            pixels[top : top + tiles.height, left : left + tiles.width] = self._scales[plane].colors(values[plane])

        def where(row: int, column: int) -> tuple[int, int, int] | None:
            cell = tiles.cell(row, column)
            return None if cell is None else (cell[0], down[cell[1]], across[cell[2]])

        step = max(down.step, across.step)
        detail = self._detail if step > 1 else None
        word = "head " if self._attends else ""
        labels = tuple((*tiles.place(plane), f"{word}{self._first + plane}") for plane in range(self._count))
        whole = self._picture(pixels, where, reads)
        whole = replace(whole, note=self._note(), step=step, detail=detail, labels=labels if self._count > 1 else ())
        return replace(whole, axes=(down, across), names=("query", "key"), stretch=True) if self._is_lone else whole

    def _choose_scales(self, values: NDArray[np.float64]) -> list[ColorScale]:
        colours = map_of(self._request)
        if self._attends:
            return [ColorScale(0.0, max(scale_of(values).high, 0.0) or 1.0)] * self._count
        if self._request.same_range or self._attention:
            return [scale_of(values, colours)] * self._count
        return [scale_of(plane, colours) for plane in values]

    @property
    def _attends(self) -> bool:
        """Return whether it is attention itself, which is never negative, not its difference to the previous run."""
        return self._attention and not self._request.differences

    def _note(self) -> str:
        notes = [sampling_note(self._down, self._across)]
        total = self._reader.shape[self._axis]
        if self._is_lone:
            notes.append(f"head {number_text(self._first)} of {number_text(total)}")
        elif total > self._count:
            first, last = number_text(self._first), number_text(self._first + self._count - 1)
            notes.append(f"{first} to {last} of {number_text(total)}")
        if self._attends:
            notes.append("query ↓, key →")
        if not self._request.same_range and not self._attention:
            notes.append("each in its own range")
        return "; ".join(note for note in notes if note)

    def _read(self, plane: int, down: range, across: range) -> _Read:
        return _Read(np.array(self._reader.plane(self._plane(plane), down, across)), down, across)

    def _plane(self, number: int) -> TensorSlice:
        return plane_at(self._which, self._axis, self._first + number)

    def _picture(self, pixels: NDArray[np.uint8], where: _Where, reads: Mapping[int, _Read]) -> MatrixImage:
        def index(row: int, column: int) -> tuple[int, ...] | None:
            cell = where(row, column)
            return None if cell is None else self._plane(cell[0]).index(cell[1], cell[2])

        def text(row: int, column: int, most: int) -> str:
            cell = where(row, column)
            return "" if cell is None else short_cell(reads[cell[0]].at(cell[1], cell[2]), most)

        def about(row: int, column: int) -> str:
            cell = where(row, column)
            if cell is None:
                return ""
            value = number_cell(reads[cell[0]].at(cell[1], cell[2]))
            if self._attends:
                return f"head {self._first + cell[0]}: query {cell[1]}, key {cell[2]} = {value}"
            return f"{list(self._plane(cell[0]).index(cell[1], cell[2]))} = {value}"

        scale = self._scales[0] if self._request.same_range or self._attention else None
        return MatrixImage(pixels, scale, about, text, index=index)

    def _detail(self, part: Part) -> MatrixImage:
        """Return a part with each pixel refined as far as there is room."""
        tiles, (height, width) = self._tiles, self._tiles.size
        top, bottom = max(int(part[1] * height), 0), min(ceil(part[3] * height), height)
        left, right = max(int(part[0] * width), 0), min(ceil(part[2] * width), width)
        tall = _divisor(self._down.step, _DETAIL_SIDE / max(bottom - top, 1))  # refined pixels per pixel of the whole
        wide = _divisor(self._across.step, _DETAIL_SIDE / max(right - left, 1))
        pixels = np.zeros(((bottom - top) * tall, (right - left) * wide, 4), np.uint8)
        reads: dict[int, _Read] = {}
        for plane in range(self._count):
            y, x = tiles.place(plane)
            rows = range(max(top - y, 0), min(bottom - y, tiles.height))
            columns = range(max(left - x, 0), min(right - x, tiles.width))
            if rows and columns:
                down = _finer(self._down.step, rows, tall, self._rows)
                across = _finer(self._across.step, columns, wide, self._columns)
                read = reads[plane] = self._read(plane, down, across)
                colors = self._scales[plane].colors(numbers(read.values, self._reader.element_type))
                at_y, at_x = (y + rows.start - top) * tall, (x + columns.start - left) * wide
                pixels[at_y : at_y + len(down), at_x : at_x + len(across)] = colors

        def where(row: int, column: int) -> tuple[int, int, int] | None:
            cell = tiles.cell(top + row // tall, left + column // wide)
            if cell is None:
                return None
            plane, r, c = cell
            r = self._down[r] + row % tall * (self._down.step // tall)
            c = self._across[c] + column % wide * (self._across.step // wide)
            return (plane, r, c) if r < self._rows and c < self._columns else None

        covered = left / width, top / height, right / width, bottom / height
        return replace(self._picture(pixels, where, reads), part=covered)


def _divisor(number: int, most: float) -> int:
    """Return the largest divisor up to a limit."""
    return next((d for d in range(min(number, int(most)), 1, -1) if number % d == 0), 1)


def _finer(step: int, cells: range, parts: int, size: int) -> range:
    """Return the positions for some cells of `step` positions each, divided into parts."""
    return range(cells.start * step, min(cells.stop * step, size), step // parts)


class Tiles:
    """Planes of equal size in a grid, with gaps, as large as there is room for in a view of an aspect ratio."""

    def __init__(self, count: int, height: int, width: int, aspect: float = 2.2) -> None:
        self.count, self.height, self.width = count, height, width
        self.gap = max(1, min(height, width) // 16)
        high, wide = height + self.gap, (width + self.gap) / aspect
        self.rows = max(range(1, count + 1), key=lambda rows: min(1 / (rows * high), 1 / (-(-count // rows) * wide)))
        self.columns = -(-count // self.rows)  # fill the last row as far as possible

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of all."""
        return self.rows * (self.height + self.gap) - self.gap, self.columns * (self.width + self.gap) - self.gap

    def place(self, number: int) -> tuple[int, int]:
        """Return top and left of a plane."""
        return number // self.columns * (self.height + self.gap), number % self.columns * (self.width + self.gap)

    def cell(self, row: int, column: int) -> tuple[int, int, int] | None:
        """Return plane, row and column of a pixel; None for a gap."""
        down, r = divmod(row, self.height + self.gap)
        across, c = divmod(column, self.width + self.gap)
        number = down * self.columns + across
        if r >= self.height or c >= self.width or across >= self.columns or number >= self.count:
            return None
        return number, r, c
