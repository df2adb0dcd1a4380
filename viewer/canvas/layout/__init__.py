"""Layered graph layout (Sugiyama): positions for nodes and splines for edges, from 1 to 100,000 nodes.

    request = LayoutRequest(sizes, edges, parents=parents, node_ids=ids)
    result = layout(request, progress)                    # from scratch
    result = relayout(result, changed_request, progress)  # after an edit: the rest stays where it is
    resized = resize(result, nodes, sizes, …)             # other sizes only, where there is room for them

Both are deterministic, may run on any thread, never call into Qt and stop with `Cancelled` through `progress`.
`LayoutRequest` and `Layout` document shapes, units and the spline format.

Without ports, edges arrive in the order in which they come and the main line keeps the middle of its nodes: chains
stand upright and cross least. Given ports are kept exactly, at the price of crossings and bends; give them where
it matters which input an edge enters. Edges of one value (same source and port) share their way as far as they go
together, so drawing all of them draws one line, or two where many side by side are reached from both sides.

The phases, one module each: ranks → layered (dummies, trunks) → ordering (crossings), fan_out → coordinates → lanes,
routes. ranks takes cycles, components and topological order from networkx; what follows is numpy. component_stacking
runs those up to the order and flat all of them for one nesting level (a problem), compound for every level, where
container_entries leads what goes into a container past its title; packing puts unconnected parts on a sheet,
incremental works edits in, resize_in_place gives nodes other sizes, previous_order tells where things were.
"""

from __future__ import annotations

from onnx_workbench.viewer.canvas.layout.api import Resized, layout, relayout, resize
from onnx_workbench.viewer.canvas.layout.request import Direction, Layout, LayoutRequest, Spacing

__all__ = ["Direction", "Layout", "LayoutRequest", "Resized", "Spacing", "layout", "relayout", "resize"]
