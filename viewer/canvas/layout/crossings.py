"""Exact crossing counts, for all gaps between ranks at once."""

from __future__ import annotations

import numpy as np

from onnx_workbench.viewer.canvas.layout.arrays import Index


def count(gap: Index, upper: Index, lower: Index, weight: Index, gaps: int) -> Index:
    """[gaps] weighted crossings of segments; `upper` and `lower` are places along the two ranks.

    Segments that share a place do not cross there. O(S log W) for S segments and W places a rank.
    """
    result = np.zeros(gaps)
    if len(gap) < 2:
        return result.astype(np.int64)
    width = int(max(upper.max(), lower.max())) + 1
    if gaps * width * width < 1 << 62:
        order = np.argsort((gap * width + upper) * width + lower)
    else:
        order = np.lexsort((lower, upper, gap))
    gap, lower = gap[order], lower[order]
    # Most gaps of a good order have no crossing: their segments arrive in the order in which they left.
    tangled = np.zeros(gaps, bool)
    tangled[gap[1:][(lower[1:] < lower[:-1]) & (gap[1:] == gap[:-1])]] = True
    chosen = tangled[gap]
    if not chosen.any():
        return result.astype(np.int64)
    gap, lower, weight = gap[chosen], lower[chosen], weight[order[chosen]].astype(np.float64)
    group = gap
    for bit in range(int(lower.max()).bit_length() - 1, -1, -1):
        # Pairs that agree in the higher bits are sorted against each other by this one.
        one = (lower >> bit) & 1
        ones = weight * one
        before = np.cumsum(ones) - ones
        new = np.empty(len(group), bool)
        new[0] = True
        np.not_equal(group[1:], group[:-1], out=new[1:])
        base = np.maximum.accumulate(np.where(new, before, 0.0))
        result += np.bincount(gap, (before - base) * weight * (1 - one), gaps)
        if bit:
            half = group * 2 + one
            order = np.argsort(half, kind="stable")
            group, gap, lower, weight = half[order], gap[order], lower[order], weight[order]
            group = np.cumsum(np.concatenate([[0], (group[1:] != group[:-1]).astype(np.int64)]))
    return np.rint(result).astype(np.int64)
