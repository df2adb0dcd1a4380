"""View state of each graph, kept while another is shown; and anchors that keep their position in a new scene."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from onnx_workbench.viewer.canvas.layout import Layout
from onnx_workbench.viewer.canvas.paint.viewport import LARGEST
from onnx_workbench.viewer.canvas.scene.drawing import DrawingOptions

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


@dataclass(frozen=True)
class Anchor:
    """A box whose upper side's middle stays at a point of the widget, unless the user moves the view meanwhile."""

    key: Hashable
    x: float
    y: float
    seen_from: tuple[float, float, float]  # position and scale of the view
