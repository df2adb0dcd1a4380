"""Side lanes: vertical lines beside all nodes, for back edges and edges too long for dummies."""

from __future__ import annotations

import numpy as np

from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real


def assign(first: Index, last: Index, to_left: Mask, left: Real, right: Real, gap: float) -> Real:
    """[L] x of the lanes over the ranks first…last (inclusive), outside of everything there; short ones innermost.

    The long edges of one value share a lane. `left` and `right` [ranks] are the extents without lanes.
    """
    left, right = left.copy(), right.copy()
    x = np.zeros(len(first))
    order = np.lexsort((first, last - first))
    for lane, begin, end, leftwards in zip(
        order.tolist(), first[order].tolist(), (last[order] + 1).tolist(), to_left[order].tolist(), strict=True
    ):
        if leftwards:
            x0 = float(left[begin:end].min()) - gap
            left[begin:end] = x0
        else:
            x0 = float(right[begin:end].max()) + gap
            right[begin:end] = x0
        x[lane] = x0
    return x
