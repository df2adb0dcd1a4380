"""View state of each graph, kept while another is shown; and positions of the view that survive another layout."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from onnx_workbench.viewer.canvas.layout import Layout
from onnx_workbench.viewer.canvas.paint.viewport import LARGEST
from onnx_workbench.viewer.canvas.scene.drawing import DrawingOptions
from onnx_workbench.viewer.canvas.scene.scene import Scene

_SMALLEST = 1e-4
_FARTHEST = 1e9  # px; the comparison also rejects NaN


@dataclass
class GraphViewState:
    """Last position in one graph, its expanded groups, and how it was laid out. `scale` 0: not shown before.

    `is_new`: the initially expanded groups are still to be determined.
    """

    expanded: set[Hashable]
    is_new: bool = True
    groups: bool | None = None
    scale: float = 0.0
    centre: tuple[float, float] = (0.0, 0.0)
    options: DrawingOptions | None = None  # of the layout
    layout: Layout | None = None

    def read(self, state: Any) -> bool:
        """Restore saved state; return False, unchanged, if it is invalid."""
        if not isinstance(state, dict):
            return False
        numbers = [n for n in map(state.get, ("scale", "x", "y")) if isinstance(n, (int, float)) and abs(n) < _FARTHEST]
        if len(numbers) < 3:
            return False
        scale, x, y = map(float, numbers)
        self.scale, self.centre = min(max(scale, _SMALLEST), LARGEST), (x, y)
        return True


@dataclass(frozen=True)
class ViewPosition:
    """The part of a graph in view: the point of the scene in the middle. `offset` is its distance from a box.

    The box identifies the position after another layout.
    """

    scale: float
    centre: tuple[float, float]
    key: Hashable = None
    offset: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def beside(cls, scene: Scene, box: int, scale: float, centre: tuple[float, float]) -> ViewPosition:
        """Return a position that keeps its distance to a box, or to none for -1."""
        if box < 0:
            return cls(scale, centre)
        x, y = _place_of(scene, box)
        return cls(scale, centre, scene.boxes[box].key, (centre[0] - x, centre[1] - y))

    def is_seen(self, scale: float, centre: tuple[float, float]) -> bool:
        """Return whether a view is still at this position."""
        return (self.scale, self.centre) == (scale, centre)

    @property
    def place(self) -> tuple[float, float]:
        """Where the box was."""
        return self.centre[0] - self.offset[0], self.centre[1] - self.offset[1]

    def centre_beside(self, scene: Scene, box: int) -> tuple[float, float]:
        """Return the middle of the view that has the same distance to a box."""
        x, y = _place_of(scene, box)
        return x + self.offset[0], y + self.offset[1]


def _place_of(scene: Scene, box: int) -> tuple[float, float]:
    """Return the middle of a box's upper side."""
    left, top, width, _ = scene.rect(box)
    return left + width / 2, top
