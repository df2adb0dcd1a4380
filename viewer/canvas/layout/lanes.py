"""Side lanes: upright lines beside everything they pass, for edges too long for dummies and edges going back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real


@dataclass(slots=True)
class Lanes:
    """L lanes, each shared by the long edges of one value."""

    x: Real  # [L]
    left: Real  # [ranks] how far everything reaches at each rank, lanes included
    right: Real


def assign(first: Index, last: Index, to_left: Mask, left: Real, right: Real, gap: float) -> Lanes:
    """Place a lane over the ranks first…last (inclusive) outside of all that is there; short ones innermost."""
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
    return Lanes(x, left, right)
