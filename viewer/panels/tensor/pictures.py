"""From planes of a tensor to pictures: heat maps, feature maps side by side, attention matrices, images.

All of it reads values, so it runs in jobs. What is too large for a picture is sampled evenly, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from model.types import ElementType
from viewer.panels.tensor.readers import Reader, Slice
from viewer.qt_models.tensor import number_cell
from viewer.text import number_text
from viewer.widgets.plots.colormap import Name, Scale, scale_of
from viewer.widgets.plots.picture import Part, Picture

if TYPE_CHECKING:
    from numpy.typing import NDArray

Normalisation = Literal["fit range", "0 to 1", "-1 to 1", "0 to 255", "ImageNet"]
NORMALISATIONS: tuple[Normalisation, ...] = ("fit range", "0 to 1", "-1 to 1", "0 to 255", "ImageNet")
CHANNEL_ORDERS = ("RGB", "BGR", "first", "second", "third")

_MOST_PIXELS = 1024  # of one side of a picture
_MOST_PLANES = 144
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


@dataclass(frozen=True, slots=True)
class Wish:
    """How a person wants to see pictures."""

    planes: int | None = None  # the axis whose planes stand side by side, or of the channels of an image
    same_range: bool = True
    order: str = "RGB"
    normalisation: Normalisation = "fit range"
    differences: bool = False


def sampled(positions: int | range, most: int) -> range:
    """At most `most` evenly spread positions that represent so many, or those of a range."""
    found = range(positions) if isinstance(positions, int) else positions
    return found[:: max(1, ceil(len(found) / most))]


def numbers(values: NDArray[Any], kind: ElementType) -> NDArray[np.float32]:
    """Values as they are coloured: complex ones by their size."""
    if kind.is_complex:
        values = np.abs(values)
    with np.errstate(all="ignore"):
        return values.astype(np.float32)


def _map(wish: Wish) -> Name:
    return "difference" if wish.differences else "viridis"


def heatmap(reader: Reader, which: Slice, wish: Wish) -> Picture:
    """One plane, a cell per element or, of a large plane, per some; its parts can be had finer."""
    rows, columns = which.size(reader.shape)
    if not rows:
        return _nothing()
    whole = _heat(reader, which, wish, range(rows), range(columns), None)
    down, across = sampled(range(rows), _MOST_PIXELS).step, sampled(range(columns), _MOST_PIXELS).step
    if down == across == 1:
        return whole
    height, width = whole.pixels.shape[0] * down, whole.pixels.shape[1] * across  # the last cell may stand for fewer

    def detail(part: Part) -> Picture:
        left, top, right, bottom = part
        seen_rows = range(max(int(top * height), 0), min(ceil(bottom * height), rows))
        seen_columns = range(max(int(left * width), 0), min(ceil(right * width), columns))
        found = _heat(reader, which, wish, seen_rows, seen_columns, whole.scale)
        fine = sampled(seen_rows, _MOST_PIXELS).step, sampled(seen_columns, _MOST_PIXELS).step
        y, x = seen_rows.start, seen_columns.start
        covered = (
            x / width, y / height,
            (x + found.pixels.shape[1] * fine[1]) / width, (y + found.pixels.shape[0] * fine[0]) / height,
        )  # fmt: skip
        return replace(found, part=covered)

    return replace(whole, step=max(down, across), detail=detail)


def _heat(reader: Reader, which: Slice, wish: Wish, rows: range, columns: range, scale: Scale | None) -> Picture:
    """Some rows and columns of a plane, sampled where they are many; by a colour scale, or their own."""
    down, across = sampled(rows, _MOST_PIXELS), sampled(columns, _MOST_PIXELS)
    raw = np.array(reader.plane(which, down, across))
    values = numbers(raw, reader.element_type)
    scale = scale or scale_of(values, _map(wish))

    def index(row: int, column: int) -> tuple[int, ...]:
        return which.index(down[row], across[column])

    return Picture(
        scale.colors(values),
        scale,
        lambda r, c: f"{list(index(r, c))} = {number_cell(raw[r, c])}",
        lambda r, c: number_cell(raw[r, c], "automatic")[:9],
        stretch=min(len(rows), len(columns)) * 12 < max(len(rows), len(columns)),
        note=_sampling_note(down, across),
        index=index,
    )


def _nothing() -> Picture:
    return Picture(np.zeros((0, 0, 4), np.uint8), note="No elements")


def _sampling_note(down: range, across: range) -> str:
    if down.step == 1 and across.step == 1:
        return ""
    return f"sampled: 1 of {down.step} rows, 1 of {across.step} columns"


def mosaic(reader: Reader, which: Slice, wish: Wish, *, attention: bool = False) -> Picture:
    """The planes along an axis side by side: feature maps of channels, or the heads of an attention."""
    rows, columns = which.size(reader.shape)
    axis = plane_axis(reader.shape, which) if wish.planes is None else wish.planes
    if not rows or axis is None or which.wrap:
        return heatmap(reader, which, wish)
    count = reader.shape[axis]
    chosen = range(min(count, _MOST_PLANES))
    side = max(16, int(2400 / sqrt(len(chosen))))
    down, across = sampled(rows, side), sampled(columns, side)
    raw = [np.array(reader.plane(_at(which, axis, p), down, across)) for p in chosen]
    values = np.stack([numbers(r, reader.element_type) for r in raw])
    scale = Scale(0.0, float(np.nanmax(values, initial=0.0)) or 1.0) if attention else scale_of(values, _map(wish))
    if wish.same_range or attention:
        colored = scale.colors(values)
    else:
        colored = np.stack([scale_of(v, _map(wish)).colors(v) for v in values])
    tiles = Tiles(len(chosen), len(down), len(across))

    def cell(row: int, column: int) -> tuple[int, int, int] | None:
        return tiles.cell(row, column)

    def about(row: int, column: int) -> str:
        found = cell(row, column)
        if found is None:
            return ""
        plane, r, c = found
        text = number_cell(raw[plane][r, c])
        if attention:
            return f"head {plane}: {down[r]} attends to {across[c]} with {text}"
        return f"{list(_at(which, axis, plane).index(down[r], across[c]))} = {text}"

    def index(row: int, column: int) -> tuple[int, ...] | None:
        found = cell(row, column)
        return None if found is None else _at(which, axis, found[0]).index(down[found[1]], across[found[2]])

    def text(row: int, column: int) -> str:
        found = cell(row, column)
        return "" if found is None else number_cell(raw[found[0]][found[1], found[2]])[:9]

    notes = [_sampling_note(down, across)]
    if count > len(chosen):
        notes.append(f"the first {len(chosen)} of {number_text(count)}")
    if not wish.same_range and not attention:
        notes.append("each in its own range")
    note = "; ".join(n for n in notes if n)
    shown = scale if wish.same_range or attention else None
    return Picture(tiles.put(colored), shown, about, text, note=note, index=index)


def plane_axis(shape: tuple[int, ...], which: Slice) -> int | None:
    """The axis whose planes are worth seeing side by side: the one before rows and columns, else the longest."""
    free = [a for a in range(len(shape)) if a not in (which.rows, which.columns)]
    longer = [a for a in free if shape[a] > 1]
    return longer[-1] if longer else (free[-1] if free else None)


def _at(which: Slice, axis: int, position: int) -> Slice:
    return replace(which, fixed=(*which.fixed[:axis], position, *which.fixed[axis + 1 :]))


class Tiles:
    """Planes of equal size in a grid that is about as wide as a screen, with a gap between them."""

    def __init__(self, count: int, height: int, width: int) -> None:
        self.count, self.height, self.width = count, height, width
        self.gap = max(1, min(height, width) // 16)
        best = sqrt(count * (height + self.gap) / (width + self.gap) * 2.2)
        self.columns = min(max(1, round(best)), count)
        self.rows = -(-count // self.columns)

    def put(self, colored: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """[count, H, W, 4] as one picture; gaps are transparent."""
        down, across = self.height + self.gap, self.width + self.gap
        result = np.zeros((self.rows * down - self.gap, self.columns * across - self.gap, 4), np.uint8)
        for number in range(self.count):
            top, left = number // self.columns * down, number % self.columns * across
            result[top : top + self.height, left : left + self.width] = colored[number]
        return result

    def cell(self, row: int, column: int) -> tuple[int, int, int] | None:
        """Plane, row and column of a pixel; None for a gap."""
        down, r = divmod(row, self.height + self.gap)
        across, c = divmod(column, self.width + self.gap)
        number = down * self.columns + across
        if r >= self.height or c >= self.width or across >= self.columns or number >= self.count:
            return None
        return number, r, c


# -- images --------------------------------------------------------------------------------------------------------


def channel_axis(shape: tuple[int, ...]) -> int | None:
    """The axis of the colour channels: three or four of them, before or after height and width; None: grey."""
    if len(shape) >= 3:
        for axis in (len(shape) - 1, len(shape) - 3):
            if shape[axis] in (3, 4):
                return axis
        for axis in (len(shape) - 1, len(shape) - 3):
            if shape[axis] == 1:
                return axis
    return None


def image_slice(shape: tuple[int, ...], which: Slice, channels: int | None) -> Slice:
    """The plane of an image: height and width are the last two axes that are not the channels'."""
    free = [a for a in range(len(shape)) if a != channels]
    return Slice(which.fixed, free[-2], free[-1]) if len(free) >= 2 else which


def image(reader: Reader, which: Slice, wish: Wish) -> Picture:
    """Colours as the tensor holds them, by the channel order and the normalisation that were undone."""
    channels = channel_axis(reader.shape) if wish.planes is None else wish.planes
    if reader.shape and channels is not None and channels >= len(reader.shape):
        channels = None
    plane = image_slice(reader.shape, which, channels)
    rows, columns = plane.size(reader.shape)
    if not rows:
        return _nothing()
    down, across = sampled(rows, _MOST_PIXELS), sampled(columns, _MOST_PIXELS)
    count = reader.shape[channels] if channels is not None else 1
    picked = _picked(wish.order, count) if channels is not None else (0,)
    raw = [np.array(reader.plane(plane if channels is None else _at(plane, channels, p), down, across)) for p in picked]
    values = np.stack([numbers(r, reader.element_type) for r in raw], axis=-1)
    shown = _denormalised(values, wish.normalisation, reader.element_type)
    pixels = np.full((*shown.shape[:2], 4), 255, np.uint8)
    red, green, blue = (shown[..., i if shown.shape[-1] == 3 else 0] for i in range(3))
    for place, channel in enumerate((blue, green, red)):
        pixels[..., place] = channel

    def about(row: int, column: int) -> str:
        return f"row {down[row]}, column {across[column]}: " + ", ".join(number_cell(r[row, column]) for r in raw)

    return Picture(pixels, None, about, note=_sampling_note(down, across))


def _picked(order: str, count: int) -> tuple[int, ...]:
    if order in ("first", "second", "third"):
        return (min(CHANNEL_ORDERS.index(order) - 2, count - 1),)
    if count < 3:
        return (0,)
    return (2, 1, 0) if order == "BGR" else (0, 1, 2)


def _denormalised(values: NDArray[np.float32], how: Normalisation, kind: ElementType) -> NDArray[np.uint8]:
    with np.errstate(all="ignore"):
        match how:
            case "0 to 1":
                scaled = values * 255
            case "-1 to 1":
                scaled = (values + 1) * 127.5
            case "0 to 255":
                scaled = values
            case "ImageNet":
                picked = values.shape[-1] == 3
                scaled = (values * (_DEVIATION if picked else _DEVIATION[:1]) + (_MEAN if picked else _MEAN[:1])) * 255
            case _:
                if kind is ElementType.UINT8:
                    scaled = values
                else:
                    scale = scale_of(values)
                    scaled = (values - scale.low) * (255 / ((scale.high - scale.low) or 1))
        return np.nan_to_num(np.clip(scaled, 0, 255), nan=0.0).round().astype(np.uint8)


# -- lines ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Series:
    """Lines to draw: for each, its name and the least and greatest value at each of the positions."""

    positions: range
    lines: tuple[tuple[str, NDArray[np.float64], NDArray[np.float64]], ...]
    note: str = ""


_MOST_LINES = 8
_MOST_POINTS = 2048
_READ = 1 << 20


def series(reader: Reader, which: Slice, check: Callable[[], None] = lambda: None) -> Series:
    """The rows of a plane as lines; a vector as one. Long ones as the range of each stretch."""
    if which.wrap or len(reader.shape) <= 1:
        if not reader.size:
            return Series(range(0), ())
        return _vector_series(reader, check)
    rows, columns = which.size(reader.shape)
    if not rows:
        return Series(range(0), ())
    shown = sampled(rows, _MOST_LINES)
    lines = []
    step = max(1, ceil(columns / _MOST_POINTS))
    for row in shown:
        check()
        values = numbers(reader.plane(which, range(row, row + 1), range(columns))[0], reader.element_type)
        lines.append((f"row {row}", *_envelope(values, step)))
    note = f"{len(shown)} of {number_text(rows)} rows" if len(shown) < rows else ""
    return Series(range(0, columns, step), tuple(lines), note)


def _vector_series(reader: Reader, check: Callable[[], None]) -> Series:
    step = max(1, ceil(reader.size / _MOST_POINTS))
    low, high = [], []
    stride = max(step, _READ // step * step)
    for start in range(0, reader.size, stride):
        check()
        values = numbers(reader.flat(start, min(start + stride, reader.size)), reader.element_type)
        least, most = _envelope(values, step)
        low.append(least)
        high.append(most)
    note = f"least and greatest of {number_text(step)} elements each" if step > 1 else ""
    return Series(range(0, reader.size, step), (("", np.concatenate(low), np.concatenate(high)),), note)


def _envelope(values: NDArray[np.float32], step: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    wide = values.astype(np.float64)
    if step == 1:
        return wide, wide
    starts = np.arange(0, len(wide), step)
    return np.fmin.reduceat(wide, starts), np.fmax.reduceat(wide, starts)
