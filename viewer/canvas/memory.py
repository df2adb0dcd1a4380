"""How a graph is shown, kept while another is; and what holds still while its scene is made anew."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from viewer.canvas.viewport import LARGEST
from viewer.selection import Item

_SMALLEST = 1e-4


@dataclass
class Place:
    """Where one graph was left, and what is open in it. `scale` 0: not shown before."""

    expanded: set[Hashable]
    groups: bool | None = None
    scale: float = 0.0
    centre: tuple[float, float] = (0.0, 0.0)

    def read(self, state: Any) -> bool:
        """Take over what was kept in a file; False, and nothing taken over, when it is nonsense."""
        if not isinstance(state, dict):
            return False
        numbers = [state.get(name) for name in ("scale", "x", "y")]
        if not all(isinstance(n, (int, float)) and isfinite(n) and abs(n) < 1e9 for n in numbers):
            return False
        scale, x, y = (float(n) for n in numbers)  # type: ignore[arg-type]  # all are numbers, as just checked
        self.scale, self.centre = min(max(scale, _SMALLEST), LARGEST), (x, y)
        return True


@dataclass(frozen=True)
class Anchor:
    """A box the middle of whose upper side stays at a point of the widget."""

    key: Hashable
    x: float
    y: float


@dataclass
class Pending:
    """What to do when the scene on its way is there."""

    anchor: Anchor | None = None
    reveal: list[Item] = field(default_factory=list)
    fit: bool = False
