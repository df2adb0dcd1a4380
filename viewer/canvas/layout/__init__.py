"""Layered graph layout: positions for nodes and splines for edges, from 1 to 100,000 nodes.

    request = LayoutRequest(sizes, edges, source_ports, target_ports, parents=parents)
    result = layout(request, progress)                  # from scratch; any thread, holds no global state
    result = relayout(result, changed_request, progress)  # after an edit: the rest stays where it is

Both are deterministic, never call into Qt and may be cancelled through `progress`.
`LayoutRequest` and `Layout` document shapes, units and the spline format.
"""

from __future__ import annotations

from viewer.canvas.layout.api import layout, relayout
from viewer.canvas.layout.request import Direction, Layout, LayoutRequest, Spacing

__all__ = ["Direction", "Layout", "LayoutRequest", "Spacing", "layout", "relayout"]
