"""Images of tensor planes: heat maps, images, lines.

Reads values, so it runs in tasks. Large planes are sampled evenly, which is indicated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.text.formatting import number_text
from onnx_workbench.viewer.plots.colormap import ColorScale, Name, scale_of
from onnx_workbench.viewer.plots.matrix_view import MatrixImage, Part
from onnx_workbench.viewer.tensor_view.readers import Reader, TensorSlice
from onnx_workbench.viewer.tensor_view.tensor_model import number_cell, short_cell

if TYPE_CHECKING:
    from numpy.typing import NDArray

Normalisation = Literal["fit range", "0 to 1", "-1 to 1", "0 to 255", "ImageNet"]
NORMALISATIONS: tuple[Normalisation, ...] = ("fit range", "0 to 1", "-1 to 1", "0 to 255", "ImageNet")
CHANNEL_ORDERS = ("RGB", "BGR", "first", "second", "third")

_MOST_PIXELS = 1024  # of one side of an image
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


@dataclass(frozen=True, slots=True)
class PictureRequest:
    """The user's options for images."""

    page: int = 0  # of a mosaic that has too many planes for one
    plane: int | None = None  # the one of a mosaic that is shown alone
    same_range: bool = True
    order: str = "RGB"
    normalisation: Normalisation = "fit range"
    differences: bool = False
    aspect: float = 2.2  # width to height of the view


def sampled(positions: int | range, most: int) -> range:
    """Return at most `most` evenly spaced positions out of a number of positions, or of a range."""
    all_positions = range(positions) if isinstance(positions, int) else positions
    return all_positions[:: max(1, ceil(len(all_positions) / most))]


def numbers(values: NDArray[Any], kind: ElementType) -> NDArray[np.float64]:
    """Return the values to colour; complex ones by magnitude."""
    if kind.is_complex:
        values = np.abs(values)
    with np.errstate(all="ignore"):
        return values.astype(np.float64)


def map_of(request: PictureRequest) -> Name:
    """Return the colour map of values, or of differences."""
    return "difference" if request.differences else "viridis"


def heatmap(reader: Reader, which: TensorSlice, request: PictureRequest, _progress: Progress = SILENT) -> MatrixImage:
    """Draw a plane with a cell per element, sampled if large; parts can be refined."""
    rows, columns = which.size(reader.shape)
    if not rows:
        return nothing()
    whole = _heat(reader, which, request, range(rows), range(columns), None)
    return _refining(whole, rows, columns, lambda y, x: _heat(reader, which, request, y, x, whole.scale))


def _refining(whole: MatrixImage, rows: int, columns: int, paint: Callable[[range, range], MatrixImage]) -> MatrixImage:
    """Return an image of a plane that can be refined where it is sampled. `paint` draws some rows and columns."""
    down, across = sampled(rows, _MOST_PIXELS).step, sampled(columns, _MOST_PIXELS).step
    if down == across == 1:
        return whole
    height, width = whole.pixels.shape[0] * down, whole.pixels.shape[1] * across  # the last cell may represent fewer

    def detail(part: Part) -> MatrixImage:
        left, top, right, bottom = part
        seen_rows = range(max(int(top * height), 0), min(ceil(bottom * height), rows))
        seen_columns = range(max(int(left * width), 0), min(ceil(right * width), columns))
        finer = paint(seen_rows, seen_columns)
        fine = sampled(seen_rows, _MOST_PIXELS).step, sampled(seen_columns, _MOST_PIXELS).step
        y, x = seen_rows.start, seen_columns.start
        covered = (
            x / width, y / height,
            (x + finer.pixels.shape[1] * fine[1]) / width, (y + finer.pixels.shape[0] * fine[0]) / height,
        )  # fmt: skip
        return replace(finer, part=covered)

    return replace(whole, step=max(down, across), detail=detail)


def _heat(
    reader: Reader, which: TensorSlice, request: PictureRequest, rows: range, columns: range, scale: ColorScale | None
) -> MatrixImage:
    """Draw some rows and columns of a plane, sampled if many; by a given colour scale, or their own."""
    down, across = sampled(rows, _MOST_PIXELS), sampled(columns, _MOST_PIXELS)
    raw = np.array(reader.plane(which, down, across))
    values = numbers(raw, reader.element_type)
    scale = scale or scale_of(values, map_of(request))
    pixels = scale.colors(values)
    if which.wrap:  # the last row of a vector may be partial
        pixels[np.add.outer(np.asarray(down) * which.wrap, np.asarray(across)) >= reader.size] = 0

    def index(row: int, column: int) -> tuple[int, ...] | None:
        return which.index(down[row], across[column]) if pixels[row, column, 3] else None

    def about(row: int, column: int) -> str:
        element = index(row, column)
        return "" if element is None else f"{list(element)} = {number_cell(raw[row, column])}"

    return MatrixImage(
        pixels,
        scale,
        about,
        lambda r, c, most: short_cell(raw[r, c], most) if pixels[r, c, 3] else "",
        stretch=True,
        note=sampling_note(down, across),
        index=index,
        axes=(range(down.start * which.wrap, down.stop * which.wrap, down.step * which.wrap), across)
        if which.wrap
        else (down, across),
        names=("index", "+") if which.wrap else (_axis_name(which.rows), _axis_name(which.columns)),
    )


def _axis_name(axis: int | None) -> str:
    return "" if axis is None else f"axis {axis}"


def nothing() -> MatrixImage:
    """Return the image of a tensor without elements."""
    return MatrixImage(np.zeros((0, 0, 4), np.uint8), note="No elements")


def sampling_note(down: range, across: range) -> str:
    """Return the note that values are sampled."""
    if down.step == 1 and across.step == 1:
        return ""
    return f"sampled: 1 of {down.step} rows, 1 of {across.step} columns"


def plane_at(which: TensorSlice, axis: int, position: int) -> TensorSlice:
    """Return the same plane at another position of an axis."""
    return replace(which, fixed=(*which.fixed[:axis], position, *which.fixed[axis + 1 :]))


# -- images --------------------------------------------------------------------------------------------------------


def channel_axis(shape: tuple[int, ...]) -> int | None:
    """Return the axis of the colour channels: three or four, before or after height and width; None: grey."""
    if len(shape) >= 3:
        for axis in (len(shape) - 1, len(shape) - 3):
            if shape[axis] in (3, 4):
                return axis
        for axis in (len(shape) - 1, len(shape) - 3):
            if shape[axis] == 1:
                return axis
    return None


def image_slice(shape: tuple[int, ...], which: TensorSlice, channels: int | None) -> TensorSlice:
    """Return the plane of an image: height and width are the last two axes except the channels'."""
    free = [a for a in range(len(shape)) if a != channels]
    return TensorSlice(which.fixed, free[-2], free[-1]) if len(free) >= 2 else which


def image(reader: Reader, which: TensorSlice, request: PictureRequest, _progress: Progress = SILENT) -> MatrixImage:
    """Draw an image by channel order, with normalisation undone."""
    channels = channel_axis(reader.shape)
    plane = image_slice(reader.shape, which, channels)
    rows, columns = plane.size(reader.shape)
    if not rows:
        return nothing()
    count = reader.shape[channels] if channels is not None else 1
    picked = _picked(request.order, count) if channels is not None else (0,)
    planes = [plane if channels is None else plane_at(plane, channels, p) for p in picked]
    whole, scale = _colours(reader, planes, request, range(rows), range(columns), None)
    return _refining(whole, rows, columns, lambda y, x: _colours(reader, planes, request, y, x, scale)[0])


def _colours(
    reader: Reader,
    planes: Sequence[TensorSlice],
    request: PictureRequest,
    rows: range,
    columns: range,
    scale: ColorScale | None,
) -> tuple[MatrixImage, ColorScale]:
    """Draw some rows and columns of the planes of one or three channels, sampled if many; also returns their range."""
    down, across = sampled(rows, _MOST_PIXELS), sampled(columns, _MOST_PIXELS)
    raw = [np.array(reader.plane(plane, down, across)) for plane in planes]
    values = np.stack([numbers(r, reader.element_type) for r in raw], axis=-1)
    scale = scale or scale_of(values)
    shown = _denormalised(values, request.normalisation, reader.element_type, scale)
    pixels = np.full((*shown.shape[:2], 4), 255, np.uint8)
    red, green, blue = (shown[..., i if shown.shape[-1] == 3 else 0] for i in range(3))
    for index, channel in enumerate((blue, green, red)):
        pixels[..., index] = channel

    def about(row: int, column: int) -> str:
        return f"row {down[row]}, column {across[column]}: " + ", ".join(number_cell(r[row, column]) for r in raw)

    return MatrixImage(pixels, None, about, note=sampling_note(down, across)), scale


def _picked(order: str, count: int) -> tuple[int, ...]:
    if order in ("first", "second", "third"):
        return (min(CHANNEL_ORDERS.index(order) - 2, count - 1),)
    if count < 3:
        return (0,)
    return (2, 1, 0) if order == "BGR" else (0, 1, 2)


def _denormalised(
    values: NDArray[np.float64], how: Normalisation, kind: ElementType, scale: ColorScale
) -> NDArray[np.uint8]:
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
                    scaled = (values - scale.low) * (255 / ((scale.high - scale.low) or 1))
        return np.nan_to_num(np.clip(scaled, 0, 255), nan=0.0).round().astype(np.uint8)


# -- lines ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Series:
    """Lines to draw: for each, its name and the least and greatest value at each of the positions.

    `index` maps the number of a line and a position to the first element there.
    """

    positions: range
    lines: tuple[tuple[str, NDArray[np.float64], NDArray[np.float64]], ...]
    note: str = ""
    index: Callable[[int, int], tuple[int, ...]] = lambda _line, position: (position,)


_MOST_LINES = 8
_MOST_POINTS = 2048
_READ = 1 << 20


def series(reader: Reader, which: TensorSlice, progress: Progress) -> Series:
    """Return the rows of a plane as lines; a vector as one. Long ones as the range of each interval."""
    if which.wrap or len(reader.shape) <= 1:
        if not reader.size:
            return Series(range(0), ())
        return _vector_series(reader, progress)
    rows, columns = which.size(reader.shape)
    if not rows:
        return Series(range(0), ())
    shown = sampled(rows, _MOST_LINES)
    lines = []
    step = max(1, ceil(columns / _MOST_POINTS))
    for row in shown:

        def read(start: int, stop: int, row: int = row) -> NDArray[Any]:
            return np.asarray(reader.plane(which, range(row, row + 1), range(start, stop))[0])

        lines.append((f"row {row}", *_line(read, columns, step, reader.element_type, progress)))
    note = f"{len(shown)} of {number_text(rows)} rows" if len(shown) < rows else ""
    return Series(range(0, columns, step), tuple(lines), note, lambda line, at: which.index(shown[line], at))


def _vector_series(reader: Reader, progress: Progress) -> Series:
    step = max(1, ceil(reader.size / _MOST_POINTS))
    least, most = _line(reader.flat, reader.size, step, reader.element_type, progress)
    note = f"minimum and maximum of {number_text(step)} elements each" if step > 1 else ""
    return Series(
        range(0, reader.size, step), (("", least, most),), note, lambda _line, at: (at,) if reader.shape else ()
    )


def _line(
    read: Callable[[int, int], NDArray[Any]], count: int, step: int, kind: ElementType, progress: Progress
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the minimum and maximum of each interval of a line, read part by part."""
    stride = max(step, _READ // step * step)
    parts = []
    for start in range(0, count, stride):
        progress.check()
        parts.append(_envelope(numbers(read(start, min(start + stride, count)), kind), step))
    least, most = (np.concatenate(side) for side in zip(*parts, strict=True))
    return least, most


def _envelope(values: NDArray[np.float64], step: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if step == 1:
        return values, values
    starts = np.arange(0, len(values), step)
    return np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
