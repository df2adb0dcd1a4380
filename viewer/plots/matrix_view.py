"""A picture of a matrix: zoom, pan, a legend, and the element under the pointer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor, log10
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QWidget

from onnx_workbench.model.text.formatting import digits_apart, number_text
from onnx_workbench.viewer.plots.colormap import NOT_FINITE, ColorScale, kinds_shown, table
from onnx_workbench.viewer.plots.focus import paint_focus
from onnx_workbench.viewer.style.theme import monospace, theme, themes

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEGEND = 74  # pixels right of the picture, at least
_BAR = 22  # of those, before the numbers of the legend
_MARGIN = 6
_STATUS = 20
_BESIDE_NAME = 12  # px between the name of an axis and the first or last number of the other one
_MOST_ZOOM = 200.0
_DRAG_DISTANCE = 4  # px that the mouse moves without meaning to drag
_REST = 120  # milliseconds without movement after which the visible part is refined


#: Of a picture, in parts of its height and width: left, top, right, bottom.
Part = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class MatrixImage:
    """Picture of a matrix: [H, W, 4] bytes (blue, green, red, alpha), one pixel per cell.

    `about(row, column)` describes a cell, empty for a gap; `text(row, column, most)` is its text of at most so many
    characters. `stretch` lets cells be other than square. Where a cell stands for several elements, up to `step` in a
    line, `detail(part)` makes a finer picture of a part; `part` is the area that a picture covers of the whole. It
    may take long: not for the GUI thread. `axes` are the numbers of its rows and of its columns, which are written
    beside it with their names; `labels` are texts at the upper left of a row and column.
    """

    pixels: NDArray[np.uint8]
    scale: ColorScale | None = None
    about: Callable[[int, int], str] = lambda _row, _column: ""
    text: Callable[[int, int, int], str] | None = None
    stretch: bool = False
    note: str = ""
    step: int = 1
    part: Part = (0.0, 0.0, 1.0, 1.0)
    detail: Callable[[Part], MatrixImage] | None = None
    index: Callable[[int, int], tuple[int, ...] | None] = lambda _row, _column: None  # of the element of a cell
    axes: tuple[range, range] | None = None
    names: tuple[str, str] = ("", "")
    labels: tuple[tuple[int, int, str], ...] = ()


@dataclass(eq=False)
class _Layer:
    """A picture, and as Qt paints it."""

    picture: MatrixImage
    image: QImage
    with_numbers: bool  # that a scale has colours for
    with_gaps: bool  # that are no finite numbers


def _layer(picture: MatrixImage) -> _Layer:
    if not picture.pixels.size:
        return _Layer(picture, QImage(), with_numbers=False, with_gaps=False)
    height, width = picture.pixels.shape[:2]
    pixels = np.ascontiguousarray(picture.pixels)
    image = QImage(pixels.data, width, height, width * 4, QImage.Format.Format_ARGB32)
    with_numbers, with_gaps = (True, False) if picture.scale is None else kinds_shown(pixels)
    return _Layer(picture, image.copy(), with_numbers, with_gaps)


class MatrixView(QWidget):
    """Wheel zooms where the pointer is, dragging pans, double-click enlarges a plane or fits.

    + − 0 and the arrows do it from the keyboard. Shift+arrows select a cell; its description is below the picture.
    """

    viewed = Signal(object)  # (zoom over fit, centre x, centre y in parts of the picture): moved by the user
    pointed = Signal(str)
    element_chosen = Signal(object)  # index: a cell was clicked, or Enter pressed on it
    detail_wanted = Signal(object)  # Part: the visible part can be shown in finer resolution

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Picture of the tensor")
        self.setMinimumSize(160, 100)
        self._layers: list[_Layer] = []  # the whole, then a finer picture of a part
        self._zoom = 1.0
        self._centre = QPointF(0.5, 0.5)
        self._drag: QPointF | None = None
        self._pressed = QPointF()
        self._cell: tuple[int, int, int] | None = None  # layer, row, column
        self._rest = QTimer(self, singleShot=True, interval=_REST)
        self._rest.timeout.connect(self._request_detail)
        themes().themeChanged.connect(self.update)

    @property
    def picture(self) -> MatrixImage | None:
        """Picture shown, as a whole."""
        return self._layers[0].picture if self._layers else None

    @property
    def image(self) -> QImage:
        """Image shown, as a whole, a pixel per cell; null without one."""
        return self._layers[0].image if self._layers else QImage()

    @property
    def detail(self) -> MatrixImage | None:
        """The finer picture of the visible part, if there is one."""
        return self._layers[1].picture if len(self._layers) > 1 else None

    def show_picture(self, picture: MatrixImage | None) -> None:
        """Show another picture; zoom and position are kept if it has the same size."""
        old = self.picture
        self._layers = [] if picture is None else [_layer(picture)]
        if old is None or picture is None or old.pixels.shape != picture.pixels.shape:
            self.fit()
        self._cell = None
        self._rest.start()
        self._announce_cell()
        self.update()

    def show_detail(self, picture: MatrixImage) -> None:
        """Show a finer picture of a part above the whole."""
        if self._layers:
            at = None if self._cell is None else self._rect_of(self._cell).center()
            self._layers[1:] = [_layer(picture)]
            self._cell = None if at is None else self._cell_at(at)
            self._announce_cell()
            self.update()

    def visible_part(self) -> Part:
        """Return the visible part of the picture."""
        place, seen = self.layer_rect(), self.layer_rect().intersected(self._frame())
        if place.isEmpty():
            return 0.0, 0.0, 1.0, 1.0
        left, top = (seen.left() - place.left()) / place.width(), (seen.top() - place.top()) / place.height()
        return left, top, left + seen.width() / place.width(), top + seen.height() / place.height()

    def _request_detail(self) -> None:
        if self.picture is not None and self.picture.detail is not None and self._zoom > 1.0:
            self.detail_wanted.emit(self.visible_part())

    def fit(self) -> None:
        """Show the whole matrix."""
        self._zoom, self._centre = 1.0, QPointF(0.5, 0.5)
        self.update()

    def set_view(self, view: tuple[float, float, float]) -> None:
        """Zoom and place of a linked picture."""
        self._zoom, self._centre = view[0], QPointF(view[1], view[2])
        self._rest.start()
        self.update()

    # -- geometry --------------------------------------------------------------------------------------------

    def _frame(self) -> QRectF:
        """Return the rectangle that the picture may take."""
        left, below = self._axes_room()
        width = self.width() - 2 * _MARGIN - left - self._legend_width()
        return QRectF(_MARGIN + left, _MARGIN, width, self.height() - 2 * _MARGIN - below - _STATUS)

    def _axes_room(self) -> tuple[float, float]:
        """Return the width of the numbers at the left of the picture, and the height of those below."""
        picture = self.picture
        if picture is None or picture.axes is None:
            return 0.0, 0.0
        metrics = QFontMetricsF(self._legend_font())
        last = max((abs(end) for end in (picture.axes[0].start, picture.axes[0].stop)), default=0)
        name = metrics.horizontalAdvance(picture.names[0]) + _BESIDE_NAME
        widest = max(metrics.horizontalAdvance(number_text(last)), name)
        return widest + 6, metrics.height() + 2

    def _legend_width(self) -> float:
        scale = self.picture.scale if self.picture is not None else None
        if scale is None:
            return 0.0
        metrics = QFontMetricsF(self._legend_font())
        return max(_LEGEND, *(_BAR + metrics.horizontalAdvance(text) for text in _numbers_of(scale)))

    def _legend_font(self) -> QFont:
        return monospace(max(self.font().pointSizeF() - 1, 8))

    def layer_rect(self, number: int = 0) -> QRectF:
        """Return the rectangle of a layer on the screen; may reach beyond the frame."""
        frame = self._frame()
        if not self._layers or self._layers[0].image.isNull() or frame.width() < 1 or frame.height() < 1:
            return QRectF()
        image = self._layers[0].image
        across, down = frame.width() / image.width(), frame.height() / image.height()
        if not self._layers[0].picture.stretch:
            across = down = min(across, down)
        width, height = across * self._zoom * image.width(), down * self._zoom * image.height()
        left = frame.center().x() - self._centre.x() * width
        top = frame.center().y() - self._centre.y() * height
        x0, y0, x1, y1 = self._layers[number].picture.part
        return QRectF(left + x0 * width, top + y0 * height, (x1 - x0) * width, (y1 - y0) * height)

    def _cell_size(self, number: int = 0) -> tuple[float, float]:
        """Width and height of a cell of a layer on the screen."""
        place, image = self.layer_rect(number), self._layers[number].image
        return place.width() / image.width(), place.height() / image.height()

    def _rect_of(self, cell: tuple[int, int, int]) -> QRectF:
        """Return the rectangle of a cell on the screen; may reach beyond the frame."""
        number, row, column = cell
        (across, down), place = self._cell_size(number), self.layer_rect(number)
        return QRectF(place.left() + column * across, place.top() + row * down, across, down)

    def _cell_at(self, point: QPointF) -> tuple[int, int, int] | None:
        if not self._frame().contains(point):
            return None
        for number in reversed(range(len(self._layers))):
            place, image = self.layer_rect(number), self._layers[number].image
            if image.isNull() or not place.contains(point):
                continue
            across, down = self._cell_size(number)
            row, column = int((point.y() - place.top()) / down), int((point.x() - place.left()) / across)
            if row < image.height() and column < image.width():
                return number, row, column
        return None

    @property
    def _most_zoom(self) -> float:
        return _MOST_ZOOM * (self.picture.step if self.picture is not None else 1)

    def _keep_inside(self) -> None:
        self._zoom = min(max(self._zoom, 1.0), self._most_zoom)
        half = 0.5 / self._zoom
        self._centre = QPointF(min(max(self._centre.x(), half), 1 - half), min(max(self._centre.y(), half), 1 - half))

    def zoom_by(self, factor: float, around: QPointF | None = None) -> None:
        """Zoom, keeping a point of the widget fixed."""
        point = around or self._frame().center()
        place = self.layer_rect()
        if place.width() <= 0 or place.height() <= 0:
            return
        part = QPointF((point.x() - place.left()) / place.width(), (point.y() - place.top()) / place.height())
        self._zoom = min(max(self._zoom * factor, 1.0), self._most_zoom)
        after = self.layer_rect()
        moved = QPointF(after.left() + part.x() * after.width(), after.top() + part.y() * after.height()) - point
        self._centre += QPointF(moved.x() / after.width(), moved.y() / after.height())
        self._moved()

    def _pan(self, across: float, down: float) -> None:
        place = self.layer_rect()
        self._centre -= QPointF(across / max(place.width(), 1), down / max(place.height(), 1))
        self._moved()

    def _moved(self) -> None:
        self._keep_inside()
        self._rest.start()
        self.update()
        self.viewed.emit((self._zoom, self._centre.x(), self._centre.y()))

    # -- mouse and keys --------------------------------------------------------------------------------------

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom."""
        self.zoom_by(1.0015 ** event.angleDelta().y(), event.position())
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._drag = self._pressed = event.position()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Pan, or describe the cell under the pointer."""
        if self._drag is not None and event.buttons():
            moved = event.position() - self._drag
            self._drag = event.position()
            self._pan(moved.x(), moved.y())
            return
        self._cell = self._cell_at(event.position())
        self._announce_cell()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End the drag; a release without a drag is a click."""
        self._drag = None
        if (event.position() - self._pressed).manhattanLength() < _DRAG_DISTANCE:
            self._cell = self._cell_at(event.position())
            self._choose()

    def _choose(self) -> None:
        if self._cell is not None:
            number, row, column = self._cell
            index = self._layers[number].picture.index(row, column)
            if index is not None:
                self.element_chosen.emit(index)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Enlarge the labelled part at the pointer; show the whole if it is enlarged, or has no such parts."""
        part = self._labelled_at(event.position()) if self._zoom <= 1.0 else None
        if part is None:
            self.fit()
        else:
            frame, place = self._frame(), self.layer_rect()
            wide, high = part.width() * place.width(), part.height() * place.height()
            self._zoom *= min(frame.width() / wide, frame.height() / high)
            self._centre = part.center()
        self._moved()

    def _labelled_at(self, point: QPointF) -> QRectF | None:
        """Return the labelled part at a point, in parts of the picture: it reaches to the next labels."""
        picture, place = self.picture, self.layer_rect()
        if picture is None or not picture.labels or not place.contains(point):
            return None
        height, width = picture.pixels.shape[:2]
        rows, columns = sorted({y for y, _, _ in picture.labels}), sorted({x for _, x, _ in picture.labels})
        row = (point.y() - place.top()) / place.height() * height
        column = (point.x() - place.left()) / place.width() * width
        top, left = max(r for r in rows if r <= row), max(c for c in columns if c <= column)
        bottom = next((r for r in rows if r > top), height)
        right = next((c for c in columns if c > left), width)
        return QRectF(left / width, top / height, (right - left) / width, (bottom - top) / height)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Zoom, pan, or walk from cell to cell."""
        step = _ARROWS.get(Qt.Key(event.key()))
        if step is not None and event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._walk(*step)
        elif step is not None:
            self._pan(-40 * step[0], -40 * step[1])
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._choose()
        elif event.text() in ("+", "="):
            self.zoom_by(1.25)
        elif event.text() == "-":
            self.zoom_by(0.8)
        elif event.text() == "0":
            self.fit()
            self._moved()
        else:
            super().keyPressEvent(event)

    def _walk(self, across: int, down: int) -> None:
        """Select a neighbouring cell, at first the upper left one of those in view."""
        if self._cell is None:
            self._cell = self._cell_at(self.layer_rect().intersected(self._frame()).topLeft())
        else:
            number, row, column = self._cell
            image = self._layers[number].image
            row, column = min(max(row + down, 0), image.height() - 1), min(max(column + across, 0), image.width() - 1)
            self._cell = number, row, column
        if self._cell is not None:
            self._bring_into_view(self._rect_of(self._cell))
        self._announce_cell()

    def show_cell(self, down: int, across: int) -> None:
        """Select the cell at a row and a column, as numbered at the picture."""
        axes = None if self.picture is None else self.picture.axes
        if axes is None or not axes[0] or not axes[1]:
            return
        row, column = (
            (min(at, axis[-1]) - axis.start) // axis.step for at, axis in zip((down, across), axes, strict=True)
        )
        self._cell = 0, row, column
        self._bring_into_view(self._rect_of(self._cell))
        self._announce_cell()

    def _bring_into_view(self, rect: QRectF) -> None:
        frame = self._frame()
        across = max(frame.left() - rect.left(), 0.0) or min(frame.right() - rect.right(), 0.0)
        down = max(frame.top() - rect.top(), 0.0) or min(frame.bottom() - rect.bottom(), 0.0)
        if across or down:
            self._pan(across, down)

    def _announce_cell(self) -> None:
        text = self.cell_text
        self.setAccessibleDescription(text)
        self.pointed.emit(text)
        self.update()

    @property
    def cell_text(self) -> str:
        """Describe the cell under the pointer."""
        if self._cell is None:
            return ""
        number, row, column = self._cell
        return self._layers[number].picture.about(row, column)

    # -- painting --------------------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the picture in its frame."""
        self._keep_inside()
        super().resizeEvent(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the picture, its legend and the description of the cell under the pointer."""
        painter = QPainter(self)
        colors = theme()
        painter.fillRect(self.rect(), colors.panel)
        picture = self.picture
        if picture is None or self._layers[0].image.isNull():
            return
        painter.save()
        painter.setClipRect(self._frame())
        for number, layer in enumerate(self._layers):
            across, down = self._cell_size(number)
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, across < 1 or down < 1)
            painter.drawImage(self.layer_rect(number), layer.image)
        self._paint_numbers(painter, len(self._layers) - 1)
        self._paint_labels(painter, picture)
        if self._cell is not None:
            painter.setPen(colors.accent)
            painter.drawRect(self._rect_of(self._cell))
        painter.restore()
        if picture.axes is not None:
            self._paint_axes(painter, picture.axes, picture.names)
        if picture.scale is not None:
            self._paint_legend(painter, picture.scale)
        painter.setPen(colors.text)
        line = QRectF(_MARGIN, self.height() - _STATUS - 2, self.width() - 2 * _MARGIN, _STATUS)
        text = self.cell_text or self._layers[-1].picture.note
        if not self.cell_text:
            painter.setPen(colors.muted)
        elided = QFontMetricsF(self.font()).elidedText(text, Qt.TextElideMode.ElideRight, line.width())
        painter.drawText(line, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, elided)
        paint_focus(painter, self)

    def _paint_numbers(self, painter: QPainter, number: int) -> None:
        """The numbers themselves where cells of a layer are large enough to hold them."""
        picture, image, place = self._layers[number].picture, self._layers[number].image, self.layer_rect(number)
        across, down = self._cell_size(number)
        if picture.text is None or across < 52 or down < 18:
            return
        font = monospace(max(self.font().pointSizeF() - 1, 7))
        painter.setFont(font)
        most = self._most_characters(QFontMetricsF(font), number)
        frame = self._frame()
        first_row = max(int((frame.top() - place.top()) / down), 0)
        first_column = max(int((frame.left() - place.left()) / across), 0)
        last_row = min(int((frame.bottom() - place.top()) / down) + 1, image.height())
        last_column = min(int((frame.right() - place.left()) / across) + 1, image.width())
        for row in range(first_row, last_row):
            for column in range(first_column, last_column):
                color = image.pixelColor(column, row)
                painter.setPen(Qt.GlobalColor.black if color.lightnessF() > 0.45 else Qt.GlobalColor.white)
                cell = QRectF(place.left() + column * across, place.top() + row * down, across, down)
                painter.drawText(cell, Qt.AlignmentFlag.AlignCenter, picture.text(row, column, most))
        painter.setFont(self.font())

    def _paint_labels(self, painter: QPainter, picture: MatrixImage) -> None:
        """Paint the names of parts of the picture, on a background, if there is room for all of them."""
        if not picture.labels:
            return
        font = monospace(max(self.font().pointSizeF() - 2, 7))
        metrics, (across, down), place = QFontMetricsF(font), self._cell_size(), self.layer_rect()
        columns = sorted({column for _, column, _ in picture.labels})
        rows = sorted({row for row, _, _ in picture.labels})
        room = across * (columns[1] - columns[0] if len(columns) > 1 else self.image.width())
        height = down * (rows[1] - rows[0] if len(rows) > 1 else self.image.height())
        if (
            height < 2 * metrics.height()
            or room < max(metrics.horizontalAdvance(text) for _, _, text in picture.labels) + 6
        ):
            return
        painter.setFont(font)
        ground = QColor(theme().panel)
        ground.setAlpha(200)
        for row, column, text in picture.labels:
            at = QPointF(place.left() + column * across, place.top() + row * down)
            field = QRectF(at.x(), at.y(), metrics.horizontalAdvance(text) + 4, metrics.height())
            painter.fillRect(field, ground)
            painter.setPen(theme().text)
            painter.drawText(field, Qt.AlignmentFlag.AlignCenter, text)
        painter.setFont(self.font())

    def _paint_axes(self, painter: QPainter, axes: tuple[range, range], names: tuple[str, str]) -> None:
        """Round numbers of rows and columns, and the names of the axes."""
        frame, place, (across, down) = self._frame(), self.layer_rect(), self._cell_size()
        painter.setFont(self._legend_font())
        painter.setPen(theme().muted)
        metrics = QFontMetricsF(painter.font())
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        name = QRectF(0, frame.bottom() + 2, frame.left() - 4 - _BESIDE_NAME, metrics.height())
        painter.drawText(name, right, names[0])
        for number, middle in _ticks(axes[0], place.top(), down, frame.top(), frame.bottom(), 2 * metrics.height()):
            field = QRectF(0, middle - metrics.height() / 2, frame.left() - 4, metrics.height())
            painter.drawText(field, right, number_text(number))
        widest = metrics.horizontalAdvance(number_text(axes[1].stop)) + 16
        end = frame.right() - metrics.horizontalAdvance(names[1]) - 8
        last = end - _BESIDE_NAME - widest / 2
        for number, middle in _ticks(axes[1], place.left(), across, frame.left(), last, widest):
            field = QRectF(middle - widest / 2, frame.bottom() + 2, widest, metrics.height())
            painter.drawText(field, Qt.AlignmentFlag.AlignCenter, number_text(number))
        painter.drawText(QRectF(end, frame.bottom() + 2, frame.right() - end, metrics.height()), right, names[1])
        painter.setFont(self.font())

    def _most_characters(self, metrics: QFontMetricsF, number: int = 0) -> int:
        return int((self._cell_size(number)[0] - 2) / metrics.horizontalAdvance("0"))

    def _paint_legend(self, painter: QPainter, scale: ColorScale) -> None:
        colors = theme()
        frame = self._frame()
        painter.setFont(self._legend_font())
        metrics = QFontMetricsF(painter.font())
        bar = QRectF(frame.right() + 8, frame.top(), 10, frame.height())
        marks: list[tuple[float, str]] = []  # y of the middle, and text
        if any(layer.with_gaps for layer in self._layers):
            gaps = QRectF(bar.left(), bar.bottom() - 10, 10, 10)
            painter.fillRect(gaps, QColor(*NOT_FINITE))
            marks.append((gaps.center().y(), "NaN, ∞"))
            bar.setBottom(gaps.top() - metrics.height())
        if any(layer.with_numbers for layer in self._layers):
            steps = np.ascontiguousarray(table(scale.name)[::-1].reshape(256, 1, 4))
            painter.drawImage(bar, QImage(steps.data, 1, 256, 4, QImage.Format.Format_ARGB32).copy())
            ends = bar.top() + metrics.height() / 2, bar.bottom() - metrics.height() / 2
            low, middle, high = _numbers_of(scale)
            if scale.low < scale.high:
                marks += [(ends[0], high), (ends[1], low)]
            marks.append((bar.center().y(), middle))
        painter.setPen(colors.muted)
        for y, text in marks:
            room = QRectF(bar.right() + 4, y - metrics.height() / 2, self._legend_width() - _BAR, metrics.height())
            painter.drawText(room, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)
        painter.setFont(self.font())


def _ticks(axis: range, start: float, size: float, low: float, high: float, apart: float) -> list[tuple[int, float]]:
    """Return round numbers along an axis, as far `apart` as they need, and the middles of their cells within a range.

    The first cell begins at `start`, and each is `size` long.
    """
    if not axis or size <= 0:
        return []
    least = max(apart / size * axis.step, axis.step, 1)
    power = 10 ** max(floor(log10(least)), 0)
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)
    first = max(int((low - start) / size), 0)
    last = min(int((high - start) / size), len(axis) - 1)
    if first > last:
        return []
    numbers = range(-(-axis[first] // step) * step, axis[last] + 1, step)
    marks = ((number, start + ((number - axis.start) // axis.step + 0.5) * size) for number in numbers)
    return [(number, middle) for number, middle in marks if low <= middle <= high]


def _numbers_of(scale: ColorScale) -> tuple[str, str, str]:
    """The numbers of a legend: low, middle, high."""
    digits = digits_apart(scale.low, scale.high, 3)
    low, middle, high = (number_text(n, digits) for n in (scale.low, scale.low / 2 + scale.high / 2, scale.high))
    return low, middle, high


_ARROWS = {
    Qt.Key.Key_Left: (-1, 0), Qt.Key.Key_Right: (1, 0), Qt.Key.Key_Up: (0, -1), Qt.Key.Key_Down: (0, 1),
}  # fmt: skip
