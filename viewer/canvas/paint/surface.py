"""Base widget of the canvas: shows a scene through a viewport in frames of bounded duration.

Panning moves the picture, zooming scales it; missing parts are painted strip by strip, a few milliseconds per
frame, and until then the previous picture shows through. Independent of models and the workspace.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QPainter, QPaintEvent, QPen, QRegion, QResizeEvent
from PySide6.QtWidgets import QApplication, QDialog, QWidget

from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.types import Type
from onnx_workbench.viewer.canvas import keyboard_navigation
from onnx_workbench.viewer.canvas.paint.backing_store import BackingStore
from onnx_workbench.viewer.canvas.paint.batch_drawing import Area
from onnx_workbench.viewer.canvas.paint.fonts import canvas_fonts
from onnx_workbench.viewer.canvas.paint.highlights import SceneHighlights
from onnx_workbench.viewer.canvas.paint.legend import LegendCard
from onnx_workbench.viewer.canvas.paint.overlay import LEGEND_MARGIN, group_names, paint_group_names, paint_notice
from onnx_workbench.viewer.canvas.paint.painter import MAP_BELOW, ROWS_FROM, ScenePainter
from onnx_workbench.viewer.canvas.paint.viewport import LARGEST, Viewport
from onnx_workbench.viewer.canvas.scene.coloring import Coloring
from onnx_workbench.viewer.canvas.scene.drawing import HEADER, Kind
from onnx_workbench.viewer.canvas.scene.edge_labels import LABEL_REACH, MARGIN, EdgeLabels
from onnx_workbench.viewer.canvas.scene.scene import REACH, Hit, Moved, Scene
from onnx_workbench.viewer.canvas.scene.spatial_grid import Ids
from onnx_workbench.viewer.document.edge_notes import NoteOf, no_note
from onnx_workbench.viewer.style.theme import theme

#: Time limit for painting in one frame.
FILL_SECONDS = 0.005
#: During zooming the scaled picture is shown; it is repainted when the wheel has rested this long.
SETTLE_SECONDS = 0.06

NO_NODES = "This graph has no nodes."
#: Scale from which everything can be read.
READABLE = 0.6
#: From this scale the ports of a box can be hit.
_PORTS_FROM = 0.40

_ROUNDING = 4  # px
_AROUND = 32.0  # px to repaint around a route that moved, for its arrowhead and old position
_ROOM = 200  # least width in px beside a dialog that is used to show something
_MARKED = 10  # px around a box that its mark may take
_MOST_APART = 50  # for more areas than this, the whole frame is repainted
_BLURRED = 2.5  # scaled further than this, the picture is repainted even during zooming


class Surface(QWidget):
    """Paints a scene. `viewport_changed` is emitted after every pan, zoom and resize."""

    viewport_changed = Signal()
    zoom_changed = Signal(float)
    scene_changed = Signal()
    labels_changed = Signal()  # labels of some edges were added, removed or changed

    def __init__(self) -> None:
        super().__init__()
        self.viewport = Viewport()
        self.scene: Scene | None = None
        self.type_of: TypeOf = _declared_type  # returns the type written beside the edges of a value
        self.note_of: NoteOf = no_note
        self.hint = NO_NODES  # text shown for an empty graph
        self.fonts = canvas_fonts()
        self.legend = LegendCard(self)
        self.marks: SceneHighlights | None = None
        self._painter: ScenePainter | None = None
        self.labels: EdgeLabels | None = None
        self._colouring: Coloring | None = None
        self._picture: BackingStore | None = None
        self._stale: BackingStore | None = None
        self._zoomed_at = 0.0
        self._fitted: tuple[float, float, float] | None = None  # position and scale at which everything was last fitted
        self._focus_by_key = False
        self._corner = QPoint()  # in the window, at the last resize
        self._window_size = QSize()
        self._is_pushed = False  # by the last resize: something beside it took room, or gave it
        self._refresh = QTimer(self)
        self._refresh.setSingleShot(True)
        self._refresh.timeout.connect(self.update)
        self.setAutoFillBackground(False)

    # -- content ---------------------------------------------------------------------------------------------

    def set_scene(self, scene: Scene | None) -> None:
        """Show a scene; the viewport is unchanged."""
        self.scene = scene
        self._colouring = None
        self.marks = SceneHighlights(scene) if scene is not None else None
        self.repaint_scene()
        if scene is None:
            self._stale = None
            self.legend.show_legend(None)
        self.scene_changed.emit()

    def set_colouring(self, colouring: Coloring | None) -> None:
        """Set the colours of headers; None for operator categories."""
        self._colouring = colouring
        self.legend.show_legend(None if colouring is None else colouring.legend)
        self.repaint_scene()

    def repaint_scene(self) -> None:
        """Repaint everything, after colours or labels changed."""
        scene = self.scene
        self._painter = self.labels = None
        if scene is not None:
            self.labels = EdgeLabels(scene, self.fonts, self.type_of, self.note_of)
            self._painter = ScenePainter(scene, self.fonts, theme(), self.labels, self._colouring)
            self._painter.ratio = self.viewport.ratio
        self._repaint_all()

    def repaint_boxes(self, boxes: Iterable[int], edges: Iterable[int]) -> None:
        """Repaint some boxes and the labels of some edges; everything else is unchanged."""
        scene = self.scene
        if scene is None or self.labels is None:
            return
        areas = scene.corners[list(boxes)].tolist()
        if areas and self._painter is not None:
            self._painter.names.forget()
        if edges := list(edges):
            self.labels.forget(edges)
            self.labels_changed.emit()
            starts = scene.layout.route_starts
            ends = scene.layout.route_points[[*starts[edges], *(starts[1:][edges] - 1)]].tolist()
            areas += [(x - LABEL_REACH, y - MARGIN, x + LABEL_REACH, y + MARGIN) for x, y in {(x, y) for x, y in ends}]
        self._repaint_areas(areas)

    def repaint_moved(self, boxes: Iterable[int], moved: Moved, edges: Iterable[int]) -> None:
        """Repaint boxes that changed their sizes in place, and the routes around them."""
        scene = self.scene
        if scene is None or self._painter is None:
            return
        self._painter.forget(moved.pieces)
        around = scene.pieces[moved.pieces].reshape(-1, 4, 2)
        routes = np.concatenate([around.min(1) - _AROUND, around.max(1) + _AROUND], 1)
        self._repaint_areas(np.concatenate([moved.before, routes]).tolist())
        self.repaint_boxes(boxes, {*moved.edges, *edges})

    def _repaint_areas(self, areas: Collection[Area]) -> None:
        """Repaint some areas of the scene; the whole frame if there are many."""
        picture, are_few = self._picture, len(areas) <= _MOST_APART
        for area in areas:
            if picture is not None:
                picture.invalidate(area)
            if are_few:
                self.update(self.viewport.rect_of(area).adjusted(-_MARKED, -_MARKED, _MARKED, _MARKED))
        if not are_few:
            self.update()

    def labelled_at(self, x: float, y: float) -> int:
        """Return the edge whose label is at a point of the scene, or -1."""
        if self.labels is None or self.viewport.device_scale < ROWS_FROM:
            return -1
        return self.labels.edge_at(x, y)

    def has_content_in(self, rect: QRect) -> bool:
        """Return whether a rectangle of the widget intersects a box, an edge, a label, or the header of a container."""
        scene, area = self.scene, self.viewport.area_of(rect)
        if scene is None:
            return False
        boxes = scene.box_grid.in_rect(*area)
        if (scene.kinds[boxes] != Kind.CONTAINER).any() or (scene.rects[boxes, 1] + HEADER > area[1]).any():
            return True
        if len(scene.piece_grid.in_rect(*area)) or self._has_name_in(area):
            return True
        return self.labels is not None and self.viewport.device_scale >= ROWS_FROM and bool(self.labels.in_rect(*area))

    def _has_name_in(self, area: Area) -> bool:
        """Return whether an area intersects a name beside a box."""
        viewport, (left, top, right, bottom) = self.viewport, area
        if self._painter is None or self.scene is None or not MAP_BELOW <= viewport.device_scale < ROWS_FROM:
            return False
        names, reach = self._painter.names, self._painter.names.reach(viewport.device_scale)
        boxes = self.scene.box_grid.in_rect(left - reach, top - reach, right + reach, bottom + reach)
        rects = map(names.rect, names.of(boxes, viewport.device_scale, viewport.ratio))
        return any(x < right and x + wide > left and y < bottom and y + high > top for x, y, wide, high in rects)

    def repaint_labels(self) -> None:
        """Update all labels, after the types or notes of any values changed."""
        if self.labels is not None:
            self.labels.forget()
        self.labels_changed.emit()
        if self._picture is None or self._picture.scale >= ROWS_FROM:  # no labels at smaller scales
            self._repaint_all()

    def _repaint_all(self) -> None:
        if self._picture is not None and self._picture.share > 0.5:
            self._stale = self._picture  # shows through while the new one is painted, to avoid flicker
        self._picture = None
        self.update()

    @property
    def colouring(self) -> Coloring | None:
        """Colouring set by `set_colouring`."""
        return self._colouring

    @property
    def zoom(self) -> float:
        """The zoom; 1.0 is 100 %."""
        return self.viewport.scale

    @property
    def smallest_zoom(self) -> float:
        """The least zoom, a little below that of the whole graph."""
        if self.scene is None:
            return 0.05
        whole = min(self.width() / max(self.scene.width, 1.0), self.height() / max(self.scene.height, 1.0))
        return min(whole * 0.6, 0.1)

    # -- moving ----------------------------------------------------------------------------------------------

    def pan_by(self, dx: float, dy: float) -> None:
        """Move the view over the scene, in widget px."""
        viewport = self.viewport
        viewport.x += round(dx * viewport.ratio)
        viewport.y += round(dy * viewport.ratio)
        self._moved()

    def zoom_at(self, factor: float, x: float, y: float) -> None:
        """Zoom by a factor, keeping a point of the widget fixed."""
        scale = min(max(self.viewport.scale * factor, self.smallest_zoom), LARGEST)
        if scale != self.viewport.scale:
            self._zoomed_at = time.perf_counter()
            self.viewport.zoom_at(scale, x, y)
            self._moved()
            self.zoom_changed.emit(scale)

    def zoom_to(self, scale: float) -> None:
        """Set the zoom, keeping the middle fixed."""
        self.zoom_at(scale / self.viewport.scale, self.width() / 2, self.height() / 2)

    def zoom_in(self) -> None:
        """Zoom in by one step."""
        self.zoom_at(1.25, self.width() / 2, self.height() / 2)

    def zoom_out(self) -> None:
        """Zoom out by one step."""
        self.zoom_at(1 / 1.25, self.width() / 2, self.height() / 2)

    def fit_area(self, area: Area, margin: float = 24.0, taken: tuple[float, float] = (0.0, 0.0)) -> None:
        """Fit an area of the scene, at most at 100 %, leaving out `taken` px at the left and below."""
        self.viewport.fit(area, margin, taken)
        self._moved()
        self.zoom_changed.emit(self.viewport.scale)

    def fit(self) -> None:
        """Fit everything, next to the legend if that would cover a part."""
        if self.scene is not None:
            self.fit_area(self.scene.bounds)
            area = self._with_names(self.scene.bounds)
            if (taken := self._legend_margins(self.scene)) is not None or area != self.scene.bounds:
                self.fit_area(area, taken=taken or (0.0, 0.0))
            self._fitted = self.viewport.position

    def _with_names(self, area: Area) -> Area:
        """Return the area with the names beside boxes at its right, at this scale."""
        viewport = self.viewport
        if self._painter is None or not MAP_BELOW <= viewport.device_scale < ROWS_FROM:
            return area
        return *area[:2], self._painter.names.bounds_right(viewport.device_scale, viewport.ratio), area[3]

    @property
    def is_legible(self) -> bool:
        """Whether half of the groups, or of all boxes where there are no groups, have their names at this scale."""
        scale, scene = self.viewport.device_scale, self.scene
        if scene is None or self._painter is None or not MAP_BELOW <= scale < ROWS_FROM:
            return scale >= ROWS_FROM
        groups = np.flatnonzero(scene.kinds == Kind.GROUP)
        boxes = groups if len(groups) else np.flatnonzero(scene.kinds != Kind.CONTAINER)
        return 2 * len(self._painter.names.of(boxes, scale, self.viewport.ratio)) >= len(boxes)

    @property
    def is_fitted(self) -> bool:
        """Whether the view was fitted and has not been moved by the user since."""
        return self._fitted == self.viewport.position

    def _legend_margins(self, scene: Scene) -> tuple[float, float] | None:
        """Return the px at the left and below to keep clear for the legend; None if it covers no box, or too much."""
        if self.legend.isHidden():
            return None
        viewport, size = self.viewport, self.legend.size()
        wide, high = size.width() + LEGEND_MARGIN, size.height() + LEGEND_MARGIN
        right, top = viewport.to_scene(wide, viewport.height - high)
        if not ((scene.corners[:, 0] < right) & (scene.corners[:, 3] > top)).any():
            return None
        taken = max(((wide, 0.0), (0.0, high)), key=lambda sides: viewport.fitting(scene.bounds, 24.0, sides))
        return taken if viewport.fitting(scene.bounds, 24.0, taken) > viewport.scale / 2 else None

    def centre_on(self, x: float, y: float) -> None:
        """Centre on a point of the scene."""
        self.scroll_to(x, y, self.width() / 2, self.height() / 2)

    def centre_at(self, scale: float, x: float, y: float) -> None:
        """Centre on a point of the scene, at a scale."""
        self.viewport.scale = scale
        self.centre_on(x, y)
        self.zoom_changed.emit(scale)

    def scroll_to(self, scene_x: float, scene_y: float, x: float, y: float) -> None:
        """Scroll so that a point of the scene is at a point of the widget."""
        self.viewport.scroll_to(scene_x, scene_y, x, y)
        self._moved()

    @property
    def middle(self) -> tuple[float, float]:
        """The point of the scene in the middle of the widget."""
        return self.viewport.to_scene(self.width() / 2, self.height() / 2)

    def show_beginning(self, scale: float | None = None) -> None:
        """Show the beginning of the graph and what fits beside it, at a readable size unless a scale is given."""
        scene = self.scene
        first = keyboard_navigation.first_box(scene) if scene is not None else -1
        if scene is None or first < 0:
            return
        left, top, width, height = scene.rect(first)
        viewport = self.viewport
        if scene.drawing.options.direction == "down":
            viewport.scale = scale or min(max((self.width() - 48) / max(scene.width, 1.0), READABLE), 1.0)
            room = self.width() / viewport.scale
            viewport.scroll_to(
                _middle(left + width / 2, scene.bounds[0], scene.bounds[2], room), top, self.width() / 2, 32.0
            )
        else:
            viewport.scale = scale or min(max((self.height() - 48) / max(scene.height, 1.0), READABLE), 1.0)
            room = self.height() / viewport.scale
            middle = _middle(top + height / 2, scene.bounds[1], scene.bounds[3], room)
            viewport.scroll_to(left, middle, 32.0, self.height() / 2)
        self._moved()
        self.zoom_changed.emit(viewport.scale)

    def show_area(self, area: Area, margin: float = 48.0) -> None:
        """Bring an area into view with as little movement as possible; its middle if it does not fit.

        The part of the view below a dialog does not count, if there is room beside the dialog.
        """
        viewport = self.viewport
        left, top = viewport.to_widget(area[0], area[1])
        right, bottom = viewport.to_widget(area[2], area[3])
        first, last = self._clear_span()
        dx = _least_shift(left - first, right - first, last - first, margin)
        dy = _least_shift(top, bottom, self.height(), margin)
        if dx or dy:
            self.pan_by(dx, dy)

    def _clear_span(self) -> tuple[int, int]:
        """Return the horizontal range, in pixels, where no dialog of this window covers the graph."""
        first, last = 0, self.width()
        for dialog in QApplication.topLevelWidgets():
            owner = dialog.parentWidget()
            if not isinstance(dialog, QDialog) or not dialog.isVisible() or owner is None:
                continue
            frame = dialog.frameGeometry()
            over = QRect(self.mapFromGlobal(frame.topLeft()), frame.size())
            if owner.window() is self.window() and over.intersects(self.rect()):
                sides = (first, min(over.left(), last)), (max(over.right() + 1, first), last)
                first, last = max(sides, key=lambda side: side[1] - side[0])
        return (first, last) if last - first >= _ROOM else (0, self.width())

    def hit(self, position: QPointF) -> Hit | None:
        """Return the box, port, row or edge at a point of the widget."""
        if self.scene is None:
            return None
        x, y = self.viewport.to_scene(position.x(), position.y())
        found = self.scene.hit(x, y, min(REACH / self.zoom, 40.0), details=self.zoom >= _PORTS_FROM)
        if found is not None and self.zoom < ROWS_FROM and found.part in ("row", "button"):
            found = Hit(box=found.box, part="header")  # the part is not drawn at this scale
        if (name := self._name_at(position)) >= 0 and (found is None or found.part != "button"):
            return Hit(box=name, part="header")
        if found is None or found.edge >= 0 or found.part == "body":  # labels are above edges, boxes above labels
            edge = self.labelled_at(x, y)
            found = Hit(edge=edge) if edge >= 0 else found
        return found

    def _name_at(self, position: QPointF) -> int:
        """Return the group or container whose overlaid name is at a point of the widget, or -1."""
        if self.scene is None:
            return -1
        names = group_names(self.scene, self.viewport, self.fonts)
        return next((name.box for name in names if name.rect.contains(position)), -1)

    def _moved(self) -> None:
        if self.scene is not None:
            self.viewport.clamp_to(self.scene.bounds)
        self.update()
        self.viewport_changed.emit()

    # -- frames ----------------------------------------------------------------------------------------------

    def _current_picture(self) -> BackingStore | None:
        """Return the picture for this viewport, complete or not; the previous one is kept to show through."""
        if self._painter is None or self.width() < 2 or self.height() < 2:
            return None
        picture = self._picture
        if picture is not None and picture.fits(self.viewport):
            picture.move_to(self.viewport)
            return picture
        if picture is not None and (picture.share > 0.5 or self._stale is None):
            self._stale = picture
        self._picture = BackingStore(self.viewport, theme().canvas)
        return self._picture

    def _may_fill(self) -> bool:
        """Return whether to paint now; False while zooming, when the scaled picture is shown."""
        stale = self._stale
        if stale is None or time.perf_counter() - self._zoomed_at > SETTLE_SECONDS:
            return True
        stretch = self.viewport.device_scale / stale.scale
        return not 1 / _BLURRED < stretch < _BLURRED

    def _fit_to_widget(self) -> None:
        viewport = self.viewport
        viewport.ratio, old = self.devicePixelRatioF(), viewport.ratio
        if viewport.ratio != old:
            viewport.x = round(viewport.x * viewport.ratio / old)
            viewport.y = round(viewport.y * viewport.ratio / old)
            if self._painter is not None:
                self._painter.ratio = viewport.ratio
        viewport.width, viewport.height = self.width(), self.height()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint one frame, or the part uncovered by a widget above."""
        self._fit_to_widget()
        painter = QPainter(self)
        colors = theme()
        picture = self._current_picture()
        if picture is not None and not picture.is_complete:
            self._fill(picture, event)
        if picture is None or not picture.is_complete:
            painter.fillRect(self.rect(), colors.canvas)
            if self._stale is not None:
                self._stale.draw(painter, self.viewport)
        if picture is not None:
            picture.draw(painter, self.viewport)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.paint_over(painter)
        painter.end()

    def _fill(self, picture: BackingStore, event: QPaintEvent) -> None:
        """Paint as much as the frame's time allows; the rest follows in the next frames.

        Skipped if only a part of the frame is painted on request of a widget above the canvas: the new content would
        not be shown in the rest, and two partial frames would take twice as long.
        """
        if not self._may_fill():
            self._refresh.start(int(SETTLE_SECONDS * 1000) + 5)
            return
        missing = picture.pending_in(self.visibleRegion() if self.isVisible() else QRegion(self.rect()))
        if self._painter is not None and missing.subtracted(event.region()).isEmpty():
            picture.fill(self._painter.paint, FILL_SECONDS)
        if picture.is_complete:
            self._refresh.stop()
        else:
            self._refresh.start(0)

    def paint_over(self, painter: QPainter) -> None:
        """Paint marks, overlaid names and the focus frame."""
        colors, viewport = theme(), self.viewport
        if self.scene is None:
            return
        if self.marks is not None:
            painter.save()
            painter.translate(-viewport.x / viewport.ratio, -viewport.y / viewport.ratio)
            painter.scale(viewport.scale, viewport.scale)
            self.marks.paint(painter, colors, viewport.area, viewport.scale, lambda p: self._write_on(painter, p))
            painter.restore()
        if self._painter is not None:
            paint_group_names(painter, self.scene, viewport, self.fonts, colors)
        if not self.scene.boxes:
            self.paint_notice(painter, self.hint)
        if self._focus_by_key and self.hasFocus():
            painter.setPen(QPen(colors.accent, 2.0))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.rect().adjusted(1, 1, -1, -1))

    def _write_on(self, painter: QPainter, pieces: Ids) -> None:
        """Repaint texts beside edges and on opened subgraphs over the highlights."""
        if self._painter is not None:
            self._painter.paint_texts_on(painter, pieces, self.viewport.area, self.viewport.device_scale)

    def paint_notice(self, painter: QPainter, text: str) -> None:
        paint_notice(painter, self.viewport, text, self.fonts, theme())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the middle of the view; if a panel or message takes room, keep the content where it is on the screen."""
        old, corner, size = event.oldSize(), self.mapTo(self.window(), QPoint()), self.window().size()
        moved, self._corner = corner - self._corner, corner
        change = size - self._window_size  # some px at a scale of 150 %, by rounding
        self._is_pushed, self._window_size = max(map(abs, change.toTuple())) <= _ROUNDING, size
        if old.isValid() and old.width() > 1:
            grown = self.size() - old
            dx, dy = moved.toTuple() if self._is_pushed else (-grown.width() / 2, -grown.height() / 2)
            self.viewport.x += round(dx * self.viewport.ratio)
            self.viewport.y += round(dy * self.viewport.ratio)
        self.legend.place()
        self._fit_to_widget()
        self._moved()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show the focus frame after keyboard navigation, not after a click."""
        by_key = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason, Qt.FocusReason.ShortcutFocusReason)
        self._focus_by_key = event.reason() in by_key
        super().focusInEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        """Repaint after changes of fonts and styles."""
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self.repaint_scene()
        super().changeEvent(event)


def _declared_type(value: Value) -> Type | None:
    return value.type


def _middle(wanted: float, low: float, high: float, room: float) -> float:
    """Return the middle of a visible range of length `room` that shows as much as possible of low..high."""
    room -= 48.0
    if high - low <= room:
        return (low + high) / 2
    return min(max(wanted, low + room / 2), high - room / 2)


def _least_shift(low: float, high: float, size: float, margin: float) -> float:
    margin = min(margin, size / 4)
    if high - low > size - 2 * margin:
        return (low + high - size) / 2 if low > margin or high < size - margin else 0.0
    if low < margin:
        return low - margin
    if high > size - margin:
        return high - (size - margin)
    return 0.0
