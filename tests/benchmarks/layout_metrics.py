"""What is wrong with a drawing, counted exactly from its geometry alone, whoever drew it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.viewer.canvas.layout import Layout

Array = NDArray[Any]


def node_overlaps(positions: Array, sizes: Array, parents: Array | None = None) -> int:
    """Pairs of nodes that overlap; nodes in different containers are not compared."""
    home = np.full(len(positions), -1) if parents is None else parents
    pairs = 0
    low, high = positions.astype(float), (positions + sizes).astype(float)
    for group in np.unique(home):
        members = np.flatnonzero(home == group)
        order = members[np.argsort(low[members, 1], kind="stable")]
        a, b = _sweep(low[order, 1], high[order, 1])
        i, j = order[a], order[b]
        hit = (low[i, 0] < high[j, 0] - 0.01) & (low[j, 0] < high[i, 0] - 0.01) & (low[j, 1] < high[i, 1] - 0.01)
        pairs += int(hit.sum())
    return pairs


def _sweep(low: Array, high: Array) -> tuple[Array, Array]:
    """Pairs i < j with low[j] < high[i], `low` sorted."""
    ends = np.searchsorted(low, high, side="left")
    counts = np.maximum(ends - np.arange(len(low)) - 1, 0)
    first = np.repeat(np.arange(len(low)), counts)
    second = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts) + first + 1
    return first, second


def segments(layout: Layout, steps: int = 1) -> tuple[Array, Array, Array]:
    """Start points, end points and edges of the straight pieces of all routes; `steps` pieces per cubic."""
    points = layout.route_points.astype(float)
    starts = layout.route_starts.astype(int)
    counts = (np.diff(starts) - 1) // 3
    edge = np.repeat(np.arange(len(counts)), counts)
    at = np.repeat(starts[:-1], counts) + 3 * (np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts))
    p = [points[at + k] for k in range(4)]
    marks = []
    for i in range(steps + 1):
        t = i / steps
        u = 1 - t
        marks.append(u**3 * p[0] + 3 * u * u * t * p[1] + 3 * u * t * t * p[2] + t**3 * p[3])
    a = np.stack(marks[:-1], 1).reshape(-1, 2)
    b = np.stack(marks[1:], 1).reshape(-1, 2)
    return a, b, np.repeat(edge, steps)


def crossings(a: Array, b: Array, edge: Array, value: Array | None = None) -> int:
    """Proper crossings of pieces of different edges; touching and common runs do not count.

    Exact: every pair whose bounding boxes meet is tested. With `value` [E], edges of one value count as one
    line: what a reader sees.
    """
    line = edge if value is None else value[edge]
    turn = a[:, 1] > b[:, 1]
    a, b = np.where(turn[:, None], b, a), np.where(turn[:, None], a, b)
    if value is not None:
        rows = np.unique(np.column_stack([line, np.round(a, 1), np.round(b, 1)]), axis=0)
        line, a, b = rows[:, 0].astype(int), rows[:, 1:3], rows[:, 3:5]
    order = np.argsort(a[:, 1], kind="stable")
    a, b, line = a[order], b[order], line[order]
    left, right = np.minimum(a[:, 0], b[:, 0]), np.maximum(a[:, 0], b[:, 0])
    ends = np.searchsorted(a[:, 1], b[:, 1], side="left")
    counts = np.maximum(ends - np.arange(len(a)) - 1, 0)
    total = 0
    begin = 0
    while begin < len(a):
        stop = int(np.searchsorted(np.cumsum(counts[begin:]), 4_000_000)) + begin + 1
        c = counts[begin:stop]
        i = np.repeat(np.arange(begin, min(stop, len(a))), c)
        j = np.arange(int(c.sum())) - np.repeat(np.cumsum(c) - c, c) + i + 1
        near = (left[i] < right[j]) & (left[j] < right[i]) & (line[i] != line[j])
        i, j = i[near], j[near]
        total += int(_cross(a[i], b[i], a[j], b[j]).sum())
        begin = stop
    return total


def _cross(a: Array, b: Array, c: Array, d: Array) -> Array:
    def side(p: Array, q: Array, r: Array) -> Array:
        value = (q[:, 0] - p[:, 0]) * (r[:, 1] - p[:, 1]) - (q[:, 1] - p[:, 1]) * (r[:, 0] - p[:, 0])
        return np.where(np.abs(value) < 1e-2, 0, np.sign(value))

    return (side(a, b, c) * side(a, b, d) < 0) & (side(c, d, a) * side(c, d, b) < 0)


def edges_over_nodes(
    a: Array, b: Array, edge: Array, ends: Array, positions: Array, sizes: Array, parents: Array | None = None
) -> Array:
    """Edges that run over a node that is none of their ends and contains none of them."""
    low, high = positions.astype(float) + 0.5, (positions + sizes).astype(float) - 0.5
    order = np.argsort(low[:, 1], kind="stable")
    tallest = float(sizes[:, 1].max()) if len(sizes) else 0.0
    top, bottom = np.minimum(a[:, 1], b[:, 1]), np.maximum(a[:, 1], b[:, 1])
    first = np.searchsorted(low[order, 1], top - tallest)
    last = np.searchsorted(low[order, 1], bottom)
    counts = np.maximum(last - first, 0)
    over: list[Array] = []
    containers = _ancestors(parents) if parents is not None else None
    for begin in range(0, len(a), 20_000):
        c = counts[begin : begin + 20_000]
        i = np.repeat(np.arange(begin, begin + len(c)), c)
        j = order[
            np.repeat(first[begin : begin + len(c)], c) + np.arange(int(c.sum())) - np.repeat(np.cumsum(c) - c, c)
        ]
        near = (
            (np.minimum(a[i, 0], b[i, 0]) < high[j, 0])
            & (np.maximum(a[i, 0], b[i, 0]) > low[j, 0])
            & (bottom[i] > low[j, 1])
            & (top[i] < high[j, 1])
        )
        i, j = i[near], j[near]
        foreign = (ends[edge[i], 0] != j) & (ends[edge[i], 1] != j)
        i, j = i[foreign], j[foreign]
        hit = _clips(a[i], b[i], low[j], high[j])
        i, j = i[hit], j[hit]
        if containers is not None:
            own = [
                n in containers[ends[edge[e], 0]] or n in containers[ends[edge[e], 1]]
                for e, n in zip(i, j, strict=True)
            ]
            i = i[~np.array(own, bool)]
        over.append(edge[i])
    return np.unique(np.concatenate(over)) if over else np.zeros(0, int)


def _ancestors(parents: Array) -> list[set[int]]:
    result: list[set[int]] = []
    for node in range(len(parents)):
        above: set[int] = set()
        at = int(parents[node])
        while at >= 0:
            above.add(at)
            at = int(parents[at])
        result.append(above)
    return result


def _clips(a: Array, b: Array, low: Array, high: Array) -> Array:
    """Whether segments pass through boxes (Liang–Barsky)."""
    enter, leave = np.zeros(len(a)), np.ones(len(a))
    d = b - a
    inside = np.ones(len(a), bool)
    for axis in (0, 1):
        flat = np.abs(d[:, axis]) < 1e-9
        inside &= ~flat | ((a[:, axis] > low[:, axis]) & (a[:, axis] < high[:, axis]))
        step = np.where(flat, 1.0, d[:, axis])
        t0, t1 = (low[:, axis] - a[:, axis]) / step, (high[:, axis] - a[:, axis]) / step
        enter = np.where(flat, enter, np.maximum(enter, np.minimum(t0, t1)))
        leave = np.where(flat, leave, np.minimum(leave, np.maximum(t0, t1)))
    return np.asarray(inside & (enter < leave))
