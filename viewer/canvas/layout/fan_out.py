"""Fans: a value with many consumers in one rank is led to them by two lines, one for each half.

One line would have to cross the lines of half of the nodes twice, as in mixtures of experts, whose inputs all experts
share. Two lines come from both sides, and the space between them stays free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real, dense, offsets, rank_within
from onnx_workbench.viewer.canvas.layout.layered import Layered

_FAN = 8  # least number of consumers in one rank, more than a rank away


@dataclass(slots=True)
class Split:
    """The lines of edges: some values have two."""

    line: Index  # [E] the line of each edge; values that are not split keep theirs
    owner: Index  # [lines] the source node


def split(graph: Layered, order: Index, source: Index, target: Index, value: Index) -> Split | None:
    """Split the line of every fan into two, based on an order found with one; None if there is no fan.

    `source`, `target` and `value` [E] are those from which the graph was built.
    """
    rank = graph.rank
    far = np.flatnonzero((rank[target] - rank[source] > 1) & ~graph.lane)
    fan, fans = dense(value[far], rank[target[far]])
    wide = np.bincount(fan, minlength=fans) >= _FAN
    if not wide.any():
        return None
    values = np.unique(value[far[wide[fan]]])
    halved = np.zeros(int(value.max()) + 1, bool)
    halved[values] = True
    second = far[halved[value[far]] & _right_half(fan, places(graph, order)[target[far]])]
    owner = np.zeros(len(halved), np.int64)
    owner[value] = source
    number = np.cumsum(halved) - 1 + len(owner)
    line = value.copy()
    line[second] = number[value[second]]
    return Split(line, np.concatenate([owner, owner[values]]))


def _right_half(fan: Index, place: Real) -> Mask:
    """[F] whether an edge ends in the right half of its fan."""
    by_place = np.lexsort((place, fan))
    sizes = np.bincount(fan)[fan]
    half = np.empty(len(fan), bool)
    half[by_place] = 2 * rank_within(fan[by_place]) >= sizes[by_place]
    return half


def places(graph: Layered, order: Index) -> Real:
    """[V] relative position of each vertex along its rank, between 0 and 1."""
    starts = offsets(graph.rank, graph.ranks)
    rank = graph.rank[order]
    result = np.empty(graph.vertices)
    result[order] = (np.arange(graph.vertices) - starts[rank] + 0.5) / np.diff(starts)[rank]
    return result


def keys(graph: Layered, place: Real, target: Index, line: Index) -> Real:
    """[V] keys of an initial order: nodes at their `place` [N], lines at the mean of their targets."""
    inside = ~graph.lane
    total = np.bincount(line[inside], place[target[inside]], int(line.max()) + 1)
    count = np.bincount(line[inside], minlength=len(total))
    middle = total / np.maximum(count, 1)
    return np.concatenate([place[: graph.nodes], middle[graph.dummy_trunk]])
