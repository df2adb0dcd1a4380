"""Entry points of edges into containers: beside the title, which they would otherwise cross.

Points on a container's border are alone in their rank. So an entry point may be moved as long as the order is kept:
the edge bends in the gap before the first rank of nodes.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from onnx_workbench.viewer.canvas.layout.arrays import Index, Real
from onnx_workbench.viewer.canvas.layout.routes import Polylines

_FEW = 8  # edges beside a title with the usual gap between them
_CLOSE = 4.0  # px for each further edge


def needed_width(titles: Real, counts: Index, gap: float) -> Real:
    """[N] px from the left border for a title [N, 2] and `counts` entering edges beside it; 0 if none enter."""
    beside_it = gap * np.minimum(counts, _FEW) + _CLOSE * np.maximum(counts - _FEW, 0)
    return np.where(counts > 0, titles[:, 0] + gap + beside_it, 0.0)


def entry_positions(x: Real, home: Index, titles: Real, width: Real, gap: float) -> Real:
    """[P] x at which edges enter, as near as possible to `x`, measured from the left of their container `home`.

    `titles` [N, 2]: px to keep clear at the left and right of every container; `width` [N] of the containers.
    """
    result = x.copy()
    low, high = titles[home, 0] + gap, (width - titles[:, 1])[home] - gap
    covered = (titles[home, 0] > 0) & ((x < low) | (x > high))
    for container in np.unique(home[covered]).tolist():
        mine = np.flatnonzero(home == container)
        mine = mine[np.argsort(x[mine], kind="stable")]
        result[mine] = _spread(x[mine].tolist(), float(low[mine[0]]), float(high[mine[0]]), gap)
    return result


def _spread(x: list[float], low: float, high: float, gap: float) -> list[float]:
    """Move ascending numbers between bounds, keeping order and, as far as possible, distances up to a gap."""
    pitch = max(min(gap, (high - low) / max(len(x) - 1, 1)), 0.0)
    apart = [min(pitch, b - a) for a, b in pairwise(x)]
    places = [max(x[0], low)]
    for wish, step in zip(x[1:], apart, strict=True):
        places.append(max(wish, places[-1] + step))
    places[-1] = min(places[-1], max(high, low))
    for i in range(len(places) - 2, -1, -1):
        places[i] = min(places[i], places[i + 1] - apart[i])
    return places


def rerouted(lines: Polylines, which: Index, x: Real, gaps: Real) -> Polylines:
    """Return lines of which some [K] start at `x` [K] and bend to their old course in `gaps` [K, 2] (top, bottom)."""
    if not len(which):
        return lines
    moved = []
    for line, place, (top, bottom) in zip(which.tolist(), x.tolist(), gaps.tolist(), strict=True):
        points = lines.points[lines.starts[line] : lines.starts[line + 1]]
        is_below = np.append(points[:, 1] >= bottom - 0.01, True)
        passed = int(is_below.argmax())  # a line may come back to this height, in another column
        onward = points[passed:]
        start = np.array([[place, points[0, 1]], [place, top]])
        if not len(onward) or onward[0, 1] > bottom + 0.01:
            start = np.concatenate([start, [[points[passed - 1, 0], bottom]]])
        moved.append(np.concatenate([start, onward]))
    return lines.spliced(which, np.ones(len(which), bool), Polylines(np.concatenate(moved), _starts(moved)))


def _starts(lists: list[Real]) -> Index:
    return np.cumsum([0, *map(len, lists)])
