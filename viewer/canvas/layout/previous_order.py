"""Order along the ranks in the previous layout, which a new layout keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_workbench.viewer.canvas.layout.arrays import Index, Real
from onnx_workbench.viewer.canvas.layout.graph import PlacedGraph


@dataclass(slots=True)
class PreviousOrder:
    """An old layout, and the mapping from the nodes and edges of a new graph to those in it."""

    placed: PlacedGraph
    node: Index  # [N] old numbers, -1 for new ones
    edge: Index  # [E] the same
    keys: Real  # [N] old positions of nodes; new ones at the positions of their neighbours

    def along(self, edge: Index, y: Real) -> Real:
        """Return the x of old routes at given heights; NaN if the edge is new, ends before or led through columns."""
        lines = self.placed.lines
        result = np.full(len(edge), np.nan)
        old = np.flatnonzero((edge >= 0) & ~np.isnan(y))
        if not len(old) or len(lines.points) < 2 or self.placed.shift is not None:
            return result
        x_of, y_of = lines.points[:, 0], lines.points[:, 1]
        low = float(y_of.min()) - 1.0
        height = float(y_of.max()) - low + 1.0
        # Routes lead down, so their points are sorted by route and height; for routes of cycles the x is arbitrary.
        places = np.maximum.accumulate(lines.owners() * height + (y_of - low))
        wanted = edge[old] * height + np.clip(y[old] - low, 0.0, height)
        last = lines.starts[edge[old] + 1] - 1
        after = np.clip(np.searchsorted(places, wanted), lines.starts[edge[old]] + 1, last)
        a, b = after - 1, after
        step = y_of[b] - y_of[a]
        share = np.clip((y[old] - y_of[a]) / np.where(np.abs(step) < 1e-6, 1.0, step), 0.0, 1.0)
        result[old] = x_of[a] + (x_of[b] - x_of[a]) * share
        return result

    def heights(self, node: Index, ranks: Index) -> Real:
        """Return the middles of old bands `ranks` below (or above) old nodes; NaN if there are none."""
        placed = self.placed
        counts = np.array([len(band) for band in placed.bands], np.int64)
        starts = np.cumsum(counts) - counts
        middles = np.concatenate([band.mean(1) for band in placed.bands])
        at = np.maximum(node, 0)
        part = placed.part[at]
        rank = placed.rank[at] + ranks
        there = (node >= 0) & (rank >= 0) & (rank < counts[part])
        return np.where(there, middles[np.where(there, starts[part] + rank, 0)], np.nan)
