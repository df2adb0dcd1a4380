"""Visible part of a scene: scale and offset, in whole device pixels so that the picture can be scrolled."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QRect, QRectF

from onnx_workbench.viewer.canvas.paint.batch_drawing import Area

LARGEST = 8.0
#: Fitting does not enlarge beyond 100 %.
NATURAL = 1.0

_REST = 48.0  # px of the graph that stay in view


@dataclass(slots=True)
class Viewport:
    """Mapping from scene px to widget px: `widget = scene * scale - origin / ratio`.

    `scale` is logical px per scene px, `ratio` device px per logical px, `x` and `y` the origin in device px.
    """

    width: int = 1
    height: int = 1
    ratio: float = 1.0
    scale: float = 1.0
    x: int = 0
    y: int = 0

    @property
    def device_scale(self) -> float:
        """Device px per scene px."""
        return self.scale * self.ratio

    @property
    def device_size(self) -> tuple[int, int]:
        """Size of the widget in device px, rounded up."""
        return -int(-self.width * self.ratio // 1), -int(-self.height * self.ratio // 1)

    @property
    def position(self) -> tuple[int, int, float]:
        """Origin and scale, to detect that the view was moved."""
        return self.x, self.y, self.scale

    @property
    def area(self) -> Area:
        """Visible area in scene coordinates."""
        left, top = self.to_scene(0, 0)
        right, bottom = self.to_scene(self.width, self.height)
        return left, top, right, bottom

    def to_scene(self, x: float, y: float) -> tuple[float, float]:
        """Return the point of the scene at a point of the widget."""
        return (x * self.ratio + self.x) / self.device_scale, (y * self.ratio + self.y) / self.device_scale

    def to_widget(self, x: float, y: float) -> tuple[float, float]:
        """Return the point of the widget for a point of the scene."""
        return (x * self.device_scale - self.x) / self.ratio, (y * self.device_scale - self.y) / self.ratio

    def rect_of(self, area: Area) -> QRect:
        """Return the rectangle of the widget for an area of the scene, with partially covered pixels."""
        (left, top), (right, bottom) = self.to_widget(*area[:2]), self.to_widget(*area[2:])
        return QRectF(left, top, right - left, bottom - top).toAlignedRect()

    def area_of(self, rect: QRect) -> Area:
        """Return the part of the scene in a rectangle of the widget."""
        return *self.to_scene(rect.left(), rect.top()), *self.to_scene(rect.right(), rect.bottom())

    def scroll_to(self, scene_x: float, scene_y: float, x: float, y: float) -> None:
        """Scroll so that a point of the scene is at a point of the widget."""
        self.x = round(scene_x * self.device_scale - x * self.ratio)
        self.y = round(scene_y * self.device_scale - y * self.ratio)

    def zoom_at(self, scale: float, x: float, y: float) -> None:
        """Set the scale, keeping a point of the widget fixed."""
        scene_x, scene_y = self.to_scene(x, y)
        self.scale = scale
        self.scroll_to(scene_x, scene_y, x, y)

    def fitting(self, area: Area, margin: float, taken: tuple[float, float] = (0.0, 0.0)) -> float:
        """Return the largest scale at which an area fits; `taken`: px to keep free at the left and below."""
        left, top, right, bottom = area
        wide, high = max(right - left, 1.0), max(bottom - top, 1.0)
        room = max(self.width - taken[0] - 2 * margin, 16.0), max(self.height - taken[1] - 2 * margin, 16.0)
        return min(room[0] / wide, room[1] / high)

    def fit(self, area: Area, margin: float = 24.0, taken: tuple[float, float] = (0.0, 0.0)) -> None:
        """Fit an area, centred."""
        left, top, right, bottom = area
        self.scale = min(self.fitting(area, margin, taken), NATURAL)
        middle = (self.width + taken[0]) / 2, (self.height - taken[1]) / 2
        self.scroll_to((left + right) / 2, (top + bottom) / 2, *middle)

    def clamp_to(self, area: Area) -> None:
        """Clamp the origin so that a rest of an area stays in view."""
        left, top = self.to_widget(area[0], area[1])
        right, bottom = self.to_widget(area[2], area[3])
        self.x += round((_excess(left, right, self.width)) * self.ratio)
        self.y += round((_excess(top, bottom, self.height)) * self.ratio)


def _excess(low: float, high: float, size: float) -> float:
    """Return the shift after which low..high overlaps 0..size by `_REST`."""
    if high < _REST:
        return high - _REST
    if low > size - _REST:
        return low - (size - _REST)
    return 0.0
