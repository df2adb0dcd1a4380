"""Paints an area of a scene at a scale: a map when far, boxes and lines in between, everything near.

Used by the canvas for strips of its picture, by the minimap, and by export to PNG and PDF. Adjoining areas fit
together: the area only decides what is left out.
"""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPen, QPolygonF, QStaticText, QTextOption

from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.viewer.canvas.paint.batch_drawing import (
    Area,
    arrow_at,
    curve_path,
    draw_curves,
    draw_lines,
    draw_rects,
    ending_in,
)
from onnx_workbench.viewer.canvas.paint.far_names import BLOCKS_BELOW, FAR_NAME, FarNames
from onnx_workbench.viewer.canvas.paint.fonts import Fonts
from onnx_workbench.viewer.canvas.scene import edge_notes
from onnx_workbench.viewer.canvas.scene.coloring import Coloring, by_category
from onnx_workbench.viewer.canvas.scene.drawing import (
    BUTTON,
    HEADER,
    ROW,
    ROWS_PADDING,
    SIDE,
    STACK,
    STRIPE,
    Box,
    Kind,
    Style,
)
from onnx_workbench.viewer.canvas.scene.edge_labels import HEIGHT as LABEL_HEIGHT
from onnx_workbench.viewer.canvas.scene.edge_labels import PADDING, EdgeLabel, EdgeLabels
from onnx_workbench.viewer.canvas.scene.node_text import FoldTag
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.canvas.scene.spatial_grid import Ids
from onnx_workbench.viewer.document.edge_notes import EdgeNote
from onnx_workbench.viewer.style.theme import Theme

#: From this scale boxes have headers and rows; below it they are blocks with a name, if any.
ROWS_FROM = 0.50
#: Below this scale edges are straight lines without arrows.
LINES_BELOW = 0.22
#: From this scale edges have arrowheads; smaller ones are specks.
ARROWS_FROM = 0.35
#: Below this scale the picture is a map: nothing smaller than a pixel and a half, edges faint.
MAP_BELOW = 0.10

RADIUS = 4.0
EDGE_WIDTH = 1.2
_PLATE = 200  # opacity of the ground of a name over edges
_STATIC_LIMIT = 30_000
_CHUNK = 1000
_SMOOTH = QPainter.RenderHint.Antialiasing


class ScenePainter:
    """Paints one scene in one theme. The given QPainter must be transformed to scene coordinates."""

    def __init__(
        self,
        scene: Scene,
        fonts: Fonts,
        theme: Theme,
        labels: EdgeLabels | None = None,
        colouring: Coloring | None = None,
    ) -> None:
        self.scene = scene
        self._fonts = fonts
        self._theme = theme
        self._labels = labels
        self.names = FarNames(scene, fonts)
        self.colouring = colouring or by_category(scene, theme)
        # Colour of less important texts on each colour.
        self._muted = [_mixed(t, c, 0.22) for t, c in zip(self.colouring.text, self.colouring.palette, strict=True)]
        self._texts: dict[tuple[str, int], QStaticText] = {}
        self._arrows: dict[int, QPolygonF] = {}
        faint = _mixed(theme.edge, theme.canvas, 0.55)
        self._pens = {"edge": QPen(theme.edge, EDGE_WIDTH), "faint": QPen(faint, 0)}
        for pen in self._pens.values():
            pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        self._dashed = QPen(theme.edge, EDGE_WIDTH, Qt.PenStyle.CustomDashLine, Qt.PenCapStyle.FlatCap)
        self._dashed.setDashPattern([4.0, 3.0])
        self._border = QPen(theme.node_border, 1.0)
        self.ratio = 1.0  # device px per px, by which the least size of names grows

    def forget(self, pieces: Ids) -> None:
        """Invalidate the cache for pieces of edges that have moved, and for all names."""
        self.names.forget()
        for piece in pieces.tolist():
            self._arrows.pop(piece, None)

    def paint(self, painter: QPainter, area: Area, scale: float, progress: Progress = SILENT) -> None:
        """Paint an area (scene coordinates), for a scale in device pixels per scene px.

        With many boxes `progress` is reported and checked for cancellation now and then.
        """
        reach = 4.0 / scale
        left, top, right, bottom = area[0] - reach, area[1] - reach, area[2] + reach, area[3] + reach
        ids = self.scene.box_grid.in_rect(left, top, right, bottom)
        frames = ids[self.scene.kinds[ids] == Kind.CONTAINER]
        boxes = ids[self.scene.kinds[ids] != Kind.CONTAINER]
        pieces = self.scene.piece_grid.in_rect(left, top, right, bottom)
        self._paint_frames(painter, frames, scale)
        if scale < LINES_BELOW:
            self._paint_lines(painter, pieces, scale, (left, top, right, bottom))
        else:
            self._paint_edges(painter, pieces, scale, (left, top, right, bottom))
        if scale < BLOCKS_BELOW:
            self._paint_blocks(painter, boxes, scale)
            if scale >= MAP_BELOW:
                self._paint_names(painter, (left, top, right, bottom), scale)
            return
        painter.setRenderHint(_SMOOTH, True)
        if scale >= ROWS_FROM:
            self._paint_frame_titles(painter, frames.tolist(), scale)
        for count, index in enumerate(boxes.tolist()):
            if count % _CHUNK == _CHUNK - 1:
                progress.report(count, len(boxes), "Drawing")
            self._paint_box(painter, index, scale)
        if scale < ROWS_FROM:
            self._paint_names(painter, (left, top, right, bottom), scale)
        elif self._labels is not None:
            self._paint_labels(painter, (left, top, right, bottom))

    # -- far -------------------------------------------------------------------------------------------------

    def _paint_blocks(self, painter: QPainter, boxes: Ids, scale: float) -> None:
        painter.setRenderHint(_SMOOTH, False)
        painter.setPen(Qt.PenStyle.NoPen)
        rects = self.scene.rects[boxes]
        least = 1.5 / scale
        if scale < MAP_BELOW:
            small = rects[:, 2:] < least
            rects[:, :2] -= np.where(small, (least - rects[:, 2:]) / 2, 0)
            np.maximum(rects[:, 2:], least, out=rects[:, 2:])
        else:
            painter.setBrush(self._theme.node)
            draw_rects(painter, rects)
        colors = self.colouring.indices[boxes]
        for number in np.unique(colors).tolist():
            painter.setBrush(self.colouring.palette[number])
            draw_rects(painter, rects[colors == number])
        if scale >= MAP_BELOW:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(self._theme.node_border, 0))
            draw_rects(painter, self.scene.rects[boxes])

    def _paint_names(self, painter: QPainter, area: Area, scale: float) -> None:
        """Write the names that there is room for; those that reach into the area too."""
        painter.setRenderHint(_SMOOTH, True)
        left, top, right, bottom = area
        high = self._fonts.height(Style.HEADER) * self._magnified(scale)
        reach = self.names.reach(scale)
        boxes = self.scene.box_grid.in_rect(left - reach, top - high, right + reach, bottom + high)
        for name in self.names.of(boxes, scale, self.ratio):
            if name.is_inside:
                color = self._name_color(name.box, scale)
            else:
                color = self._theme.text
                ground = QColor(self._ground(self.scene.boxes[name.box].parent))
                ground.setAlpha(_PLATE)
                painter.fillRect(QRectF(*self.names.rect(name)), ground)
            for line, text in enumerate(name.lines):
                self._large_text(painter, *self.names.line_rect(name, line)[:2], name.factor, text, color)

    def _name_color(self, index: int, scale: float) -> QColor:
        """Return the colour of a name on its box."""
        is_card = scale >= BLOCKS_BELOW and self.scene.boxes[index].kind is not Kind.NODE
        return self._theme.text if is_card else self.colouring.text[int(self.colouring.indices[index])]

    def _magnified(self, scale: float) -> float:
        """Return the factor over 100 % at which a name is readable at a scale."""
        return FAR_NAME * self.ratio / (self._fonts.size * scale)

    def _large_text(self, painter: QPainter, x: float, y: float, factor: float, text: str, color: QColor) -> None:
        painter.save()
        painter.translate(x, y)
        painter.scale(factor, factor)
        self._text(painter, 0.0, 0.0, text, Style.HEADER, color)
        painter.restore()

    def _paint_lines(self, painter: QPainter, pieces: Ids, scale: float, area: Area) -> None:
        painter.setRenderHint(_SMOOTH, scale >= MAP_BELOW)
        painter.setPen(self._pens["faint"])
        pieces = self.scene.distinct(pieces)
        ends = self.scene.pieces[pieces][:, (0, 3)].reshape(-1, 4)
        if scale >= MAP_BELOW:
            curved = self.scene.curved[pieces]
            draw_lines(painter, ends[~curved])
            draw_curves(painter, self.scene.pieces[pieces[curved]], scale, area)
        else:
            draw_lines(painter, ends)

    def _paint_frames(self, painter: QPainter, frames: Ids, scale: float) -> None:
        painter.setRenderHint(_SMOOTH, scale >= BLOCKS_BELOW)
        theme = self._theme
        for index in frames.tolist():
            left, top, width, height = self.scene.rect(index)
            box = self.scene.boxes[index]
            painter.setPen(QPen(theme.group_border, 1.0 if scale >= BLOCKS_BELOW else 0))
            painter.setBrush(self._ground(index))
            frame = QRectF(left + 0.5, top + 0.5, width - 1, height - 1)
            if scale < BLOCKS_BELOW:
                painter.drawRect(frame)
                continue
            painter.drawRoundedRect(frame, RADIUS, RADIUS)
            if box.category:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(theme.header(box.category))
                painter.drawRoundedRect(QRectF(left + 5, top + 6, 4, HEADER - 12), 2, 2)

    def _paint_frame_titles(self, painter: QPainter, frames: list[int], scale: float) -> None:
        """Paint titles of bodies over the edges that enter them."""
        theme = self._theme
        for index in frames:
            left, top, width, _ = self.scene.rect(index)
            box = self.scene.boxes[index]
            offset = STRIPE if box.category else 0.0
            painter.fillRect(QRectF(*self._title_ground(index, scale)), self._ground(index))
            self._paint_title(painter, box, left + offset, top, width - offset, theme.text, theme.muted, scale)

    def _title_ground(self, frame: int, scale: float) -> tuple[float, float, float, float]:
        left, top, width, _ = self.scene.rect(frame)
        box = self.scene.boxes[frame]
        stripe = STRIPE if box.category else 0.0
        x, y, wide, high = title_ground(box, self._fonts, left + stripe, top)
        factor = self._title_factor(box, width - stripe, scale)
        return x, y - high * (factor - 1.0) / 2, wide * factor, high * factor

    def _title_factor(self, box: Box, width: float, scale: float) -> float:
        """Return the factor over 100 % at which a title is written in a header."""
        wide, high = self._fonts.width(box.title, Style.HEADER), self._fonts.height(Style.HEADER)
        room = width - len(box.buttons) * BUTTON - 1.5 * SIDE
        return max(min(self._magnified(scale), room / max(wide, 1.0), HEADER / high), 1.0)

    def _ground(self, frame: int) -> QColor:
        """Return the colour behind the content of a container; of the canvas for -1."""
        theme = self._theme
        if frame < 0:
            return theme.label
        return frame_colors(theme)[self.scene.depths[frame] % 2]

    # -- near ------------------------------------------------------------------------------------------------

    def _paint_edges(self, painter: QPainter, pieces: Ids, scale: float, area: Area) -> None:
        if not len(pieces):
            return
        scene = self.scene
        painter.setRenderHint(_SMOOTH, True)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        edges = scene.piece_edges[pieces]
        dashed = scene.drawing.dashed[edges]
        plain = scene.distinct(pieces[~dashed])
        curved = scene.curved[plain]
        painter.setPen(self._pens["edge"])
        draw_lines(painter, scene.pieces[plain[~curved]][:, (0, 3)].reshape(-1, 4))
        draw_curves(painter, scene.pieces[plain[curved]], scale, area)
        if dashed.any():
            painter.setPen(self._dashed)
            painter.drawPath(curve_path(scene.pieces[pieces[dashed]]))
        if scale < ARROWS_FROM:
            return
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.edge)
        for index in ending_in(area, scene.pieces, scene.distinct(pieces[scene.is_last[pieces]])).tolist():
            arrow = self._arrows.get(index)
            if arrow is None:
                arrow = self._arrows[index] = arrow_at(scene.pieces[index])
            painter.drawConvexPolygon(arrow)

    def _paint_box(self, painter: QPainter, index: int, scale: float) -> None:
        box = self.scene.boxes[index]
        left, top, width, height = self.scene.rect(index)
        match box.kind:
            case Kind.GROUP:
                self._paint_group(painter, index, box, scale)
            case Kind.INPUT | Kind.OUTPUT | Kind.OUTER:
                self._paint_pill(painter, box, QRectF(left + 0.5, top + 0.5, width - 1, height - 1), scale)
            case _:
                number = int(self.colouring.indices[index])
                color, text = self.colouring.palette[number], self.colouring.text[number]
                if scale < ROWS_FROM:
                    painter.setPen(Qt.PenStyle.NoPen)
                    painter.setBrush(color)
                    painter.drawRoundedRect(QRectF(left, top, width, height), RADIUS, RADIUS)
                    return
                self._paint_card(painter, box, (left, top, width, height), color)
                self._paint_title(painter, box, left, top, width, text, self._muted[number], scale)
                self._paint_rows(painter, box, left, top)

    def _paint_card(self, painter: QPainter, box: Box, rect: tuple[float, float, float, float], color: QColor) -> None:
        left, top, width, height = rect
        frame = QRectF(left + 0.5, top + 0.5, width - 1, height - 1)
        if not box.rows:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color)
            painter.drawRoundedRect(QRectF(left, top, width, height), RADIUS, RADIUS)
            return
        painter.setPen(self._border)
        painter.setBrush(self._theme.node)
        painter.drawRoundedRect(frame, RADIUS, RADIUS)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        painter.drawPath(_header_path(left, top, width))

    def _paint_group(self, painter: QPainter, index: int, box: Box, scale: float) -> None:
        theme = self._theme
        left, top, width, height = self.scene.rect(index)
        width, height = width - STACK, height - STACK
        painter.setPen(self._border)
        painter.setBrush(theme.group)
        for shift in (STACK, STACK / 2):
            painter.drawRoundedRect(
                QRectF(left + shift + 0.5, top + shift + 0.5, width - 1, height - 1), RADIUS, RADIUS
            )
        painter.setBrush(theme.node)
        painter.drawRoundedRect(QRectF(left + 0.5, top + 0.5, width - 1, height - 1), RADIUS, RADIUS)
        painter.setPen(Qt.PenStyle.NoPen)
        color = self.colouring.palette[int(self.colouring.indices[index])]
        if scale < ROWS_FROM:
            painter.setBrush(color)
            painter.drawRect(QRectF(left + 1, top + RADIUS, STRIPE, height - 2 * RADIUS))
            return
        painter.setBrush(theme.endpoint)
        painter.drawPath(_header_path(left, top, width))
        painter.setBrush(color)
        painter.drawRect(QRectF(left + 1, top + HEADER, width - 2, 2))
        self._paint_title(painter, box, left, top, width, theme.text, theme.muted, scale)
        self._paint_rows(painter, box, left, top + 1)

    def _paint_pill(self, painter: QPainter, box: Box, rect: QRectF, scale: float) -> None:
        theme = self._theme
        pen = QPen(theme.node_border, 1.0)
        if box.kind is Kind.OUTER:
            pen.setStyle(Qt.PenStyle.DashLine)
        painter.setPen(pen)
        painter.setBrush(theme.endpoint)
        radius = rect.height() / 2
        painter.drawRoundedRect(rect, radius, radius)
        if scale < ROWS_FROM:
            return
        fonts = self._fonts
        name, note = fonts.width(box.title, Style.NAME), fonts.width(box.note, Style.ROW)
        x = rect.left() + (rect.width() - name - (note + 10.0 if note else 0.0)) / 2
        y = rect.center().y() - fonts.height(Style.NAME) / 2
        self._text(painter, x, y, box.title, Style.NAME, theme.text)
        if note:
            self._text(painter, x + name + 10.0, y, box.note, Style.ROW, theme.muted)

    def _paint_title(
        self,
        painter: QPainter,
        box: Box,
        left: float,
        top: float,
        width: float,
        color: QColor,
        muted: QColor,
        scale: float,
    ) -> None:
        fonts = self._fonts
        wide, high = fonts.width(box.title, Style.HEADER), fonts.height(Style.HEADER)
        room = width - len(box.buttons) * BUTTON
        factor = self._title_factor(box, width, scale)
        x = left + (SIDE if title_indent(box, fonts, width) == SIDE else (width - wide * factor) / 2)
        y = top + (HEADER - high * factor) / 2
        if factor > 1.0:
            self._large_text(painter, x, y, factor, box.title, color)
        else:
            self._text(painter, x, y, box.title, Style.HEADER, color)
        right = left + width - 2
        x = left + SIDE + wide * factor + 10.0
        if box.note and (factor == 1.0 or x + fonts.width(box.note, Style.ROW) <= left + room):
            y = top + (HEADER - fonts.height(Style.ROW)) / 2
            self._text(painter, x, y, box.note, Style.ROW, muted)
        for index, button in enumerate(reversed(box.buttons)):
            self._paint_button(painter, right - (index + 0.5) * BUTTON, top + HEADER / 2, button, color)

    def _paint_button(self, painter: QPainter, x: float, y: float, button: str, color: QColor) -> None:
        painter.setPen(QPen(color, 1.4))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        match button:
            case "+" | "−":
                painter.drawRoundedRect(QRectF(x - 6.5, y - 6.5, 13, 13), 2.5, 2.5)
                painter.drawLine(QPointF(x - 3.5, y), QPointF(x + 3.5, y))
                if button == "+":
                    painter.drawLine(QPointF(x, y - 3.5), QPointF(x, y + 3.5))
            case "○":
                painter.drawEllipse(QPointF(x, y), 5.0, 5.0)
            case _:
                width = self._fonts.width(button, Style.HEADER)
                self._text(
                    painter, x - width / 2, y - self._fonts.height(Style.HEADER) / 2, button, Style.HEADER, color
                )

    def _paint_rows(self, painter: QPainter, box: Box, left: float, top: float) -> None:
        theme, fonts = self._theme, self._fonts
        y = top + HEADER + ROWS_PADDING + (ROW - fonts.height(Style.ROW)) / 2
        column = left + SIDE + (box.names_width + 10.0 if box.names_width else 0.0)
        for row in box.rows:
            if row.name:
                style = Style.NAME if row.is_constant else Style.ROW
                self._text(painter, left + SIDE, y, row.name, style, theme.text if row.is_constant else theme.muted)
            if isinstance(row.subject, FoldTag):
                color = theme.accent
            else:
                color = theme.muted if row.subject is None and box.kind is Kind.NODE else theme.text
            self._text(painter, column, y, row.text, Style.ROW, color)
            y += ROW

    def paint_texts_on(self, painter: QPainter, pieces: Ids, area: Area, scale: float) -> None:
        """Write titles of opened bodies and labels in an area again, after a mark was drawn along pieces of edges.

        The mark may be wider than the pieces.
        """
        if scale < ROWS_FROM or not len(pieces):
            return
        points = self.scene.pieces[pieces]
        low, high = points.min(1), points.max(1)
        left, top = np.maximum(low.min(0), area[:2]).tolist()
        right, bottom = np.minimum(high.max(0), area[2:]).tolist()

        def is_struck(rect: tuple[float, float, float, float]) -> bool:
            x, y, width, height = rect
            return bool(((low <= (x + width, y + height)) & (high >= (x, y))).all(1).any())

        ids = self.scene.box_grid.in_rect(left, top, right, bottom)
        frames = ids[self.scene.kinds[ids] == Kind.CONTAINER].tolist()
        struck = [index for index in frames if is_struck(self._title_ground(index, scale))]
        self._paint_frame_titles(painter, struck, scale)
        if self._labels is not None:
            for label in self._labels.in_rect(left, top, right, bottom):
                if is_struck(label.rect):
                    self._paint_label(painter, label)

    def _paint_labels(self, painter: QPainter, area: Area) -> None:
        assert self._labels is not None
        for label in self._labels.in_rect(*area):
            self._paint_label(painter, label)

    def _paint_label(self, painter: QPainter, label: EdgeLabel) -> None:
        theme, fonts = self._theme, self._fonts
        inset = (LABEL_HEIGHT - fonts.height(Style.LABEL)) / 2
        left, top, width, height = label.rect
        painter.fillRect(QRectF(left, top, width, height), self._ground(self.scene.boxes[label.box].parent))
        x = left + PADDING
        if label.text:
            self._text(painter, x, top + inset, label.text, Style.LABEL, theme.muted)
        if label.stacked:
            top += LABEL_HEIGHT
        elif label.text:
            x += fonts.width(label.text, Style.LABEL) + edge_notes.SPACE
        if label.note is not None:
            self._paint_note(painter, label.note, x, top, top + inset)

    def _paint_note(self, painter: QPainter, note: EdgeNote, x: float, top: float, line: float) -> None:
        """Paint the note of a run on a value: a warning, an outline, text; left to right from x."""
        theme, fonts = self._theme, self._fonts
        if note.warning:
            self._text(painter, x, line, note.warning, Style.LABEL, theme.muted if note.stale else theme.error)
            x += fonts.width(note.warning, Style.LABEL) + edge_notes.SPACE
        if note.bars:
            high = np.array(note.bars) * edge_notes.HEIGHT
            bars = np.empty((len(high), 4))
            bars[:, 0] = x + np.arange(len(high)) * edge_notes.BAR
            bars[:, 1] = top + (LABEL_HEIGHT + edge_notes.HEIGHT) / 2 - high
            bars[:, 2], bars[:, 3] = edge_notes.BAR, high
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.stale if note.stale else theme.accent)
            draw_rects(painter, bars)
            x += len(high) * edge_notes.BAR + edge_notes.SPACE
        if note.text:
            self._text(painter, x, line, note.text, Style.LABEL, theme.muted if note.stale else theme.text)

    def _text(self, painter: QPainter, x: float, y: float, text: str, style: Style, color: QColor) -> None:
        """Write one line; its shaped text is cached."""
        key = (text, int(style))
        static = self._texts.get(key)
        if static is None:
            if len(self._texts) > _STATIC_LIMIT:
                self._texts.clear()
            static = QStaticText(text)
            static.setTextFormat(Qt.TextFormat.PlainText)
            option = QTextOption()
            option.setWrapMode(QTextOption.WrapMode.NoWrap)
            option.setTextDirection(Qt.LayoutDirection.LeftToRight)
            static.setTextOption(option)
            static.setPerformanceHint(QStaticText.PerformanceHint.AggressiveCaching)
            self._texts[key] = static
        painter.setFont(self._fonts.font(style))
        painter.setPen(color)
        painter.drawStaticText(QPointF(x, y), static)


def title_indent(box: Box, fonts: Fonts, width: float) -> float:
    """Return the x of a title: left-aligned, or centred in a box without rows."""
    if box.rows or box.note or box.buttons or box.kind is Kind.CONTAINER:
        return SIDE
    return (width - fonts.width(box.title, Style.HEADER)) / 2


def title_ground(box: Box, fonts: Fonts, left: float, top: float) -> tuple[float, float, float, float]:
    """Return left, top, width and height of the area around the title of an opened body that hides edges."""
    wide = fonts.width(box.title, Style.HEADER) + (fonts.width(box.note, Style.ROW) + 10.0 if box.note else 0.0)
    high = fonts.height(Style.HEADER)
    return left + SIDE - 3.0, top + (HEADER - high) / 2, wide + 6.0, high


def _header_path(left: float, top: float, width: float) -> QPainterPath:
    """Return a header's shape: rounded above, straight below."""
    path = QPainterPath()
    right, bottom = left + width, top + HEADER
    path.moveTo(left, bottom)
    path.lineTo(left, top + RADIUS)
    path.quadTo(left, top, left + RADIUS, top)
    path.lineTo(right - RADIUS, top)
    path.quadTo(right, top, right, top + RADIUS)
    path.lineTo(right, bottom)
    path.closeSubpath()
    return path


def frame_colors(theme: Theme) -> tuple[QColor, QColor]:
    """Return the background colours of containers, alternating by depth."""
    return theme.group, _mixed(theme.group, theme.canvas, 0.5)


def _mixed(color: QColor, other: QColor, share: float) -> QColor:
    """Return `color` mixed with a share of another."""
    keep = 1.0 - share
    return QColor(
        round(color.red() * keep + other.red() * share),
        round(color.green() * keep + other.green() * share),
        round(color.blue() * keep + other.blue() * share),
    )
