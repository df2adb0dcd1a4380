"""Backing store of a view: a pixmap that is moved when panning, scaled when zooming, and filled strip by strip."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import cast

from PySide6.QtCore import QPoint, QRect, QRectF
from PySide6.QtGui import QColor, QPainter, QPixmap, QRegion

from onnx_workbench.viewer.canvas.paint.batch_drawing import Area
from onnx_workbench.viewer.canvas.paint.viewport import Viewport

#: Paints an area of the scene: (painter in scene coordinates, area, device px per scene px).
Paint = Callable[[QPainter, Area, float], object]

_STRIP_SECONDS = 0.0035
#: Scene px around a strip whose boxes and labels are painted too, as they may reach into it.
_AROUND = 96.0
_REST = 1.25  # the last strip may cover this much more than planned
_LEAST_ROWS = 32
_FIRST_ROWS = 64  # of strips as wide as the picture; narrow ones are higher, for the same cost
_MOST_ROWS = 160  # limit after empty strips, as the next ones may be dense
_OVERLAP = 1  # device px; an area extends this far beyond its strip


class BackingStore:
    """A pixmap of one viewport. `done` is the painted region, in device px; the rest is painted by `fill`."""

    def __init__(self, viewport: Viewport, background: QColor) -> None:
        width, height = viewport.device_size
        self.scale = viewport.device_scale
        self.ratio = viewport.ratio
        self.x, self.y = viewport.x, viewport.y
        self._background = background
        self._pixmap = QPixmap(width, height)
        self._pixmap.fill(background)
        self._rect = QRect(0, 0, width, height)
        self.done = QRegion()
        self._strip = self._touched(width, _FIRST_ROWS)  # area in device px that the next strip may cover

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to paint."""
        return self.pending.isEmpty()

    @property
    def pending(self) -> QRegion:
        """Region left to paint."""
        return QRegion(self._rect).subtracted(self.done)

    def pending_in(self, seen: QRegion) -> QRegion:
        """Return the visible part of the region left to paint, in px of the widget."""
        missing = QRegion()
        for rect in _rects(self.pending):
            left, top = rect.left() / self.ratio, rect.top() / self.ratio
            missing += QRectF(left, top, rect.width() / self.ratio, rect.height() / self.ratio).toAlignedRect()
        return missing.intersected(seen)

    @property
    def share(self) -> float:
        """Painted share, 0 to 1."""
        painted = sum(rect.width() * rect.height() for rect in _rects(self.done))
        return float(painted) / max(self._rect.width() * self._rect.height(), 1)

    def fits(self, viewport: Viewport) -> bool:
        """Return whether it can show a viewport after moving: same scale and size."""
        return (
            self.scale == viewport.device_scale
            and self.ratio == viewport.ratio
            and (self._rect.width(), self._rect.height()) == viewport.device_size
        )

    def move_to(self, viewport: Viewport) -> None:
        """Scroll to a viewport of the same scale; newly visible parts are pending."""
        dx, dy = self.x - viewport.x, self.y - viewport.y
        if not dx and not dy:
            return
        self.x, self.y = viewport.x, viewport.y
        if abs(dx) >= self._rect.width() or abs(dy) >= self._rect.height():
            self.done = QRegion()
            return
        self._pixmap.scroll(dx, dy, self._rect)
        self.done = self.done.translated(dx, dy).intersected(self._rect)

    def invalidate(self, area: Area | None = None) -> None:
        """Mark an area as outdated."""
        if area is None:
            self.done = QRegion()
            return
        left, top = int(area[0] * self.scale - self.x) - 2, int(area[1] * self.scale - self.y) - 2
        right, bottom = int(area[2] * self.scale - self.x) + 3, int(area[3] * self.scale - self.y) + 3
        self.done = self.done.subtracted(QRegion(QRect(QPoint(left, top), QPoint(right, bottom))))

    def fill(self, paint: Paint, seconds: float) -> None:
        """Paint pending strips for about this many seconds; at least one strip."""
        end = time.perf_counter() + seconds
        while True:
            pending = self.pending
            if pending.isEmpty():
                return
            rect = _rects(pending)[0]
            strip = QRect(rect.left(), rect.top(), rect.width(), self._rows_of(rect))
            began = time.perf_counter()
            self._paint(strip, paint)
            now = time.perf_counter()
            self._adapt(strip, now - began)
            if now + min(now - began, _STRIP_SECONDS) > end:
                return

    def _adapt(self, strip: QRect, spent: float) -> None:
        """Adjust the area of the next strip to the cost of this one."""
        wide, touched = self._rect.width(), self._touched(strip.width(), strip.height())
        wanted = _STRIP_SECONDS / max(spent, 1e-7) * touched
        most = min(2 * self._strip, self._touched(wide, _MOST_ROWS))
        self._strip = max(self._touched(wide, _LEAST_ROWS), min(wanted, most))

    def _touched(self, width: int, rows: int) -> float:
        """Return the area, in device px, that painting a strip covers."""
        around = _AROUND * self.scale
        return (width + around) * (rows + around)

    def _rows_of(self, rect: QRect) -> int:
        """Return the number of rows of the next strip; all pending ones if only a thin rest would remain."""
        around = _AROUND * self.scale
        rows = max(int(self._strip / (rect.width() + around) - around + 1e-6), 1)
        return rect.height() if self._touched(rect.width(), rect.height()) <= _REST * self._strip else rows

    def _paint(self, strip: QRect, paint: Paint) -> None:
        painter = QPainter(self._pixmap)
        painter.setClipRect(strip)
        painter.fillRect(strip, self._background)
        painter.translate(-self.x, -self.y)
        painter.scale(self.scale, self.scale)
        area = (
            (strip.left() - _OVERLAP + self.x) / self.scale,
            (strip.top() - _OVERLAP + self.y) / self.scale,
            (strip.right() + 1 + _OVERLAP + self.x) / self.scale,
            (strip.bottom() + 1 + _OVERLAP + self.y) / self.scale,
        )
        paint(painter, area, self.scale)
        painter.end()
        self.done = self.done.united(strip)

    def draw(self, painter: QPainter, viewport: Viewport) -> None:
        """Draw it in a widget with a viewport: unscaled if it fits, else scaled."""
        ratio = viewport.ratio
        painter.save()
        painter.scale(1 / ratio, 1 / ratio)
        if self.fits(viewport) and (self.x, self.y) == (viewport.x, viewport.y):
            if self.is_complete:
                painter.drawPixmap(0, 0, self._pixmap)
            else:
                for rect in _rects(self.done):
                    painter.drawPixmap(rect.topLeft(), self._pixmap, rect)
        else:
            zoom = viewport.device_scale / self.scale
            for rect in _rects(self.done):
                source = QRectF(rect)
                target = QRectF(
                    (source.left() + self.x) * zoom - viewport.x,
                    (source.top() + self.y) * zoom - viewport.y,
                    source.width() * zoom,
                    source.height() * zoom,
                )
                painter.drawPixmap(target, self._pixmap, source)
        painter.restore()


def _rects(region: QRegion) -> list[QRect]:
    """Return the rectangles of a region."""
    return list(cast("Iterable[QRect]", region))  # iterable, which its stub lacks
