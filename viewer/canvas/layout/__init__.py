"""Layered graph layout (Sugiyama): positions for nodes and splines for edges, from 1 to 100,000 nodes.

    request = LayoutRequest(sizes, edges, parents=parents, node_ids=ids)
    result = layout(request, progress)                    # from scratch
    result = relayout(result, changed_request, progress)  # after an edit: the rest keeps its position
    resized = resize(result, nodes, sizes, …)             # changed sizes only, if there is room for them

All are deterministic, may run on any thread, never call Qt and raise `Cancelled` through `progress`.
`LayoutRequest` and `Layout` document shapes, units and the spline format.

Without given ports, edges end at their nodes in the order that crosses least, and the main line ends in the middle of
its nodes: chains are vertical. Given ports are kept exactly, which may cost crossings and bends; give them if
it matters which input an edge enters. Edges of one value (same source and port) share their route as far as possible,
so that they are drawn as one line, or as two if many consumers in a rank are reached from both sides.

The phases, one module each: ranks → layered (dummies, trunks) → ordering (crossings), fan_out → coordinates → lanes,
routes. ranks uses networkx for cycles, parts and longest paths; later phases use numpy. component_stacking runs the
phases up to the order, flat all of them for one nesting level (a problem), and compound does so for every level, where
container_entries leads edges into a container past its title; columns folds long parts if that is wanted, packing
places unconnected parts, incremental applies edits, floating keeps unconnected nodes beside the others, resize_in_place
changes sizes of nodes, previous_order provides previous positions.
"""

from __future__ import annotations

from onnx_workbench.viewer.canvas.layout.api import Resized, layout, relayout, resize
from onnx_workbench.viewer.canvas.layout.columns import is_slender
from onnx_workbench.viewer.canvas.layout.request import Direction, Layout, LayoutRequest, Spacing

__all__ = ["Direction", "Layout", "LayoutRequest", "Resized", "Spacing", "is_slender", "layout", "relayout", "resize"]
