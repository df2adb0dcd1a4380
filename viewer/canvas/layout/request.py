"""Request and result of a layout: plain arrays, independent of Qt and of models."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Direction = Literal["down", "right"]


@dataclass(frozen=True, slots=True)
class Spacing:
    """Distances in px."""

    node: float = 24.0  # between neighbours in a rank
    rank: float = 40.0  # least distance between ranks; grows with wide bends of edges
    edge: float = 12.0  # between an edge and anything it passes
    padding: float = 16.0  # between an expanded container's border and its content
    header: float = 28.0  # title strip at the top of an expanded container
    component: float = 48.0  # between unconnected parts of the graph


@dataclass(frozen=True, slots=True, eq=False)
class LayoutRequest:
    """One graph to lay out: N nodes, E edges; never changed.

    Edges may hold cycles, self-loops and duplicates. An edge may start or end at an expanded container itself.
    With direction "right" everything is transposed: ports are y offsets from a node's top, edges leave on the
    right side and enter on the left; `sizes` are still width, height. Ports of a container are offsets in its requested
    least width, and are scaled to its final width; at the top, to the width of its title if edges enter beside it.
    """

    sizes: Floats  # [N, 2] width, height; ignored for nodes that contain others, except as a least width
    edges: Ints  # [E, 2] source, target
    source_ports: Floats | None = None  # [E] offset of the start from the source's left; None: spread along its bottom
    target_ports: Floats | None = None  # [E] the same at the target's top
    first: Ints | None = None  # nodes wanted in the first rank of their component (graph inputs)
    last: Ints | None = None  # nodes wanted in the last rank (graph outputs)
    parents: Ints | None = None  # [N] the expanded container of a node, -1 at top level
    titles: Floats | None = None  # [N, 2] px of a container's header, from left and right, to keep free of edges
    direction: Direction = "down"
    columns: float = inf  # px of length from which parts much longer than wide are folded into columns, or rows
    spacing: Spacing = field(default_factory=Spacing)
    node_ids: NDArray[np.int64] | None = None  # [N] unique, stable over edits: `relayout` matches nodes by them


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Positions in px, y down; the content's left top corner is (0, 0).

    Route e is `route_points[route_starts[e]:route_starts[e + 1]]`: a cubic Bézier spline
    anchor, control, control, anchor, control, control, anchor … (3k + 1 points; straight runs are cubics too), from
    the source's border to the target's. Every third point lies on the route, so the polyline of
    anchors alone (`points[::3]`) is a faithful coarse drawing: it crosses other routes exactly where the curve does.
    The last segment arrives along the direction of the layout, so an arrowhead there is always upright.
    """

    positions: Floats  # [N, 2] left, top
    sizes: Floats  # [N, 2] as requested; expanded containers: computed
    route_points: Floats  # [P, 2]
    route_starts: Ints  # [E + 1]
    bounds: tuple[float, float, float, float]  # left, top, right, bottom of nodes and routes
    ranks: Ints  # [N] rank inside the container, from 0
    state: Any = field(default=None, repr=False)  # data for `relayout`; opaque

    def route(self, edge: int) -> Floats:
        """Return the spline of one edge as a view [3k + 1, 2]."""
        return self.route_points[self.route_starts[edge] : self.route_starts[edge + 1]]
