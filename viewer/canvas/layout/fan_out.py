"""Fans: a value that many nodes of one rank take is led to them by two lines, one for either half of them.

One line would have to cross the lines of half the nodes twice over: the norm that every expert takes, the scores that
every expert is weighed by. Two lines come from both sides, and what lies between them stays free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real, dense, offsets, rank_within
from onnx_workbench.viewer.canvas.layout.layered import Layered

_FAN = 8  # nodes of one rank that take the same value from afar


@dataclass(slots=True)
class Split:
    """Lines to lead edges by: some values have two."""

    line: Index  # [E] the number of each edge's line; values that are not split keep theirs
    owner: Index  # [lines] the node each line comes from


def split(graph: Layered, order: Index, source: Index, target: Index, value: Index) -> Split | None:
    """Lead every fan by two lines, in an order that was found for one; None where there is no fan.

    `source`, `target` and `value` [E] as the graph was built from.
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
    """[F] which edges go to the right half of their fan."""
    by_place = np.lexsort((place, fan))
    sizes = np.bincount(fan)[fan]
    half = np.empty(len(fan), bool)
    half[by_place] = 2 * rank_within(fan[by_place]) >= sizes[by_place]
    return half


def places(graph: Layered, order: Index) -> Real:
    """[V] where each vertex stands along its rank, above 0 and below 1."""
    starts = offsets(graph.rank, graph.ranks)
    rank = graph.rank[order]
    result = np.empty(graph.vertices)
    result[order] = (np.arange(graph.vertices) - starts[rank] + 0.5) / np.diff(starts)[rank]
    return result


def keys(graph: Layered, place: Real, target: Index, line: Index) -> Real:
    """[V] an order to start from: nodes at their `place` [N], lines in the middle of where they lead."""
    inside = ~graph.lane
    total = np.bincount(line[inside], place[target[inside]], int(line.max()) + 1)
    count = np.bincount(line[inside], minlength=len(total))
    middle = total / np.maximum(count, 1)
    return np.concatenate([place[: graph.nodes], middle[graph.dummy_trunk]])
