"""Unconnected nodes at places of their own: where the user added them, or where they lost their last edge.

They take no part in the layout of the others and follow the node beside which they stand. A layout from scratch knows
none: it packs them with the other parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onnx_workbench.viewer.canvas.layout.arrays import Index, Real, rank_within
from onnx_workbench.viewer.canvas.layout.request import Ints, Layout, LayoutRequest

_MOST = 32  # nodes
#: Distances in px up to which a free place is sought, and between the places tried.
_SEARCHES = ((1000.0, 20.0), (8000.0, 160.0))

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Floating:
    """Floating nodes of a layout."""

    ids: Index  # [K]
    middles: Real  # [K, 2]


def find(request: LayoutRequest, floating: Floating | None, old: LayoutRequest, around: Point | None) -> Ints:
    """Return the nodes to float: unconnected ones at the top level that floated before, lost their edges, or are new.

    `old` is the previous request without its floating nodes. New ones float only if `around` says where. None if
    there are many, or nothing else.
    """
    n, none = len(request.sizes), np.zeros(0, np.int32)
    if request.node_ids is None or old.node_ids is None:
        return none
    lone = np.ones(n, bool)
    lone[request.edges.ravel()] = False
    if request.parents is not None:
        lone[request.parents >= 0] = False
        lone[request.parents[request.parents >= 0]] = False
    for pinned in (request.first, request.last):
        if pinned is not None:
            lone[pinned] = False
    if not lone.any():
        return none
    was_joined = np.zeros(len(old.sizes), bool)
    was_joined[old.edges.ravel()] = True
    settled = old.node_ids[~was_joined]
    if around is None:
        may_float = old.node_ids[was_joined] if floating is None else np.append(old.node_ids[was_joined], floating.ids)
        lone &= np.isin(request.node_ids, may_float)
    nodes = np.flatnonzero(lone & ~np.isin(request.node_ids, settled)).astype(np.int32)
    return nodes if len(nodes) <= min(_MOST, n - 1) else none


def without(request: LayoutRequest, nodes: Ints) -> LayoutRequest:
    """Return a request without some nodes, which have no edges and are in no container."""
    kept = np.ones(len(request.sizes), bool)
    kept[nodes] = False
    number = np.cumsum(kept, dtype=np.int32) - np.int32(1)
    parents = request.parents
    return replace(
        request,
        sizes=request.sizes[kept],
        edges=number[request.edges],
        first=None if request.first is None else number[request.first],
        last=None if request.last is None else number[request.last],
        parents=None if parents is None else np.where(parents >= 0, number[parents], parents)[kept],
        titles=None if request.titles is None else request.titles[kept],
        node_ids=None if request.node_ids is None else request.node_ids[kept],
    )


def wanted_middles(
    ids: Index, floating: Floating | None, old: tuple[Index, Real], new: tuple[Index, Real], at: Point
) -> Real:
    """[K, 2] wanted middles of floating nodes: as before, moved as the nearest other node; for new ones, `at`.

    `old` and `new` are ids and middles of the other nodes in the previous and in this layout.
    """
    points = np.tile(np.array(at, np.float64), (len(ids), 1))
    for ids_before, middles in (old, *(((floating.ids, floating.middles),) if floating is not None else ())):
        order = np.argsort(ids_before, kind="stable")
        slot = np.searchsorted(ids_before[order], ids)
        slot = order[np.minimum(slot, len(order) - 1)]
        is_there = ids_before[slot] == ids
        points[is_there] = middles[slot[is_there]]
    _, before, after = np.intersect1d(old[0], new[0], assume_unique=True, return_indices=True)
    if len(before):
        distance = ((points[:, None] - old[1][before]) ** 2).sum(2)
        nearest = distance.argmin(1)
        points += new[1][after[nearest]] - old[1][before[nearest]]
    return points


def with_nodes(layout: Layout, request: LayoutRequest, nodes: Ints, wanted: Real) -> Layout:
    """Return a layout of all nodes from that of the others: each floating one as near as possible to its middle."""
    n = len(request.sizes)
    others = np.ones(n, bool)
    others[nodes] = False
    positions = np.zeros((n, 2), np.float32)
    sizes = request.sizes.copy()
    ranks = np.zeros(n, np.int32)
    positions[others], sizes[others], ranks[others] = layout.positions, layout.sizes, layout.ranks
    taken = _taken(layout, request, np.flatnonzero(others))
    for node, middle in zip(nodes.tolist(), wanted, strict=True):
        low = _free_place(taken, middle - sizes[node] / 2, sizes[node].astype(np.float64), request.spacing.node)
        positions[node] = np.round(low)
        box = np.concatenate([positions[node], positions[node] + sizes[node]])
        taken = np.concatenate([taken, [box]])
    low, high = positions[nodes].min(0), (positions + sizes)[nodes].max(0)
    left, top, right, bottom = layout.bounds
    bounds = min(left, float(low[0])), min(top, float(low[1])), max(right, float(high[0])), max(bottom, float(high[1]))
    return replace(layout, positions=positions, sizes=sizes, ranks=ranks, bounds=bounds)


def _taken(layout: Layout, request: LayoutRequest, others: Index) -> Real:
    """[M, 4] left, top, right, bottom of the nodes at the top level and of the pieces of routes."""
    top = np.ones(len(others), bool) if request.parents is None else request.parents[others] < 0
    boxes = np.concatenate([layout.positions, layout.positions + layout.sizes], 1)[top].astype(np.float64)
    starts = layout.route_starts.astype(np.int64)
    counts = np.maximum((np.diff(starts) - 1) // 3, 0)
    first = np.repeat(starts[:-1], counts) + 3 * rank_within(np.repeat(np.arange(len(counts)), counts))
    pieces = layout.route_points[first[:, None] + np.arange(4)].astype(np.float64)
    lines = np.concatenate([pieces.min(1), pieces.max(1)], 1)
    return np.concatenate([boxes, lines])


def _free_place(taken: Real, low: Real, size: Real, gap: float) -> Real:
    """Return the left top corner nearest to `low` at which a box is clear of everything; else below everything."""
    for reach, step in _SEARCHES:
        near = taken[(taken[:, 2:] > low - reach - gap).all(1) & (taken[:, :2] < low + size + reach + gap).all(1)]
        steps = np.arange(-reach, reach + 1, step)
        x, y = np.meshgrid(steps, steps)
        away = np.stack([x.ravel(), y.ravel()], 1)
        for offset in away[np.argsort((away**2).sum(1), kind="stable")]:
            corner: Real = low + offset
            if not ((near[:, 2:] > corner - gap) & (near[:, :2] < corner + size + gap)).all(1).any():
                return corner
    return np.array([taken[:, 0].min(), taken[:, 3].max() + gap])
