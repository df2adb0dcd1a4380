"""A graph to lay out and the result, in the orientation of the algorithm: ranks from top to bottom."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real
from onnx_workbench.viewer.canvas.layout.request import Spacing
from onnx_workbench.viewer.canvas.layout.routes import Polylines


@dataclass(slots=True)
class LayoutGraph:
    """A request; transposed for direction "right"."""

    width: Real
    height: Real
    source: Index
    target: Index
    source_ports: Real  # [E] NaN where free
    target_ports: Real
    first: Mask
    last: Mask
    parent: Index
    spacing: Spacing
    columns: float  # px of height from which slender parts are folded
    titles: Real  # [N, 2] px of a container's upper border, from the left and right, to keep free of entering edges
    inset: tuple[float, float, float, float]  # left, top, right, bottom, inside containers


@dataclass(slots=True)
class PlacedGraph:
    """Absolute coordinates of nodes and routes, precise enough for incremental layouts."""

    x: Real  # [N] left
    y: Real  # [N] top
    width: Real
    height: Real
    rank: Index  # [N]
    lines: Polylines  # [E]
    part: Index  # [N] the connected component of each node within its container; numbers are unique over containers
    bands: list[Real]  # per part [ranks, 2]: top and bottom of every rank
    nested: bool  # whether there are containers
    shift: Real | None = None  # [N] px by which columns moved nodes along their ranks; None: there are no columns
