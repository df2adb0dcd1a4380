"""Edges as splines: vertical through ranks, with bends only in the gaps between them, where there are no nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real, offsets, spans

STRAIGHT = 0.01  # px, tolerance for vertical runs
_BOW = 24.0  # px between the ends of a U-turn and its control points; it extends by three quarters of that


@dataclass(slots=True)
class Polylines:
    """R lists of anchors in one array. Each is vertical within the band of a rank."""

    points: Real  # [P, 2]
    starts: Index  # [R + 1]

    def owners(self) -> Index:
        """[P] the list of each point."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def take(self, which: Index) -> Polylines:
        """Return the lists at these indices, in this order; repeats are allowed."""
        counts = np.diff(self.starts)[which]
        starts = np.zeros(len(which) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        return Polylines(self.points[spans(self.starts[which], counts)], starts)

    def spliced(self, at: Index, known: Mask, others: Polylines) -> Polylines:
        """Return these lists with others inserted: in place of list `at[i]` where `known`, else before it."""
        pieces, begin = [], 0
        bounds = others.starts.tolist()
        for place, replaces, first, end in zip(at.tolist(), known.tolist(), bounds, bounds[1:], strict=False):
            pieces += [self.points[self.starts[begin] : self.starts[place]], others.points[first:end]]
            begin = place + replaces
        pieces.append(self.points[self.starts[begin] :])
        counts, own = np.diff(self.starts), np.diff(others.starts)
        counts[at[known]] = own[known]
        counts = np.insert(counts, at[~known], own[~known])
        return Polylines(np.concatenate(pieces), np.concatenate([[0], np.cumsum(counts)]))


def from_parts(parts: list[tuple[Index, Index, Real]], lists: int) -> Polylines:
    """Gather points given as (list, key, xy) and sort each list by key."""
    owner = np.concatenate([p[0] for p in parts])
    key = np.concatenate([p[1] for p in parts])
    points = np.concatenate([p[2] for p in parts])
    order = np.lexsort((key, owner))
    return Polylines(points[order], offsets(owner, lists))


def straighten(lines: Polylines) -> Polylines:
    """Drop points in the middle of vertical runs and repeated points."""
    points = lines.points
    n = len(points)
    if n < 3:
        return lines
    owner = lines.owners()
    inner = np.zeros(n, bool)
    inner[1:-1] = (owner[1:-1] == owner[:-2]) & (owner[1:-1] == owner[2:])
    x, y = points[:, 0], points[:, 1]
    straight = np.zeros(n, bool)
    still = np.abs(np.diff(x)) < STRAIGHT
    straight[1:-1] = still[:-1] & still[1:]
    step = np.diff(y)
    straight[1:-1] &= step[:-1] * step[1:] >= 0
    keep = ~(inner & straight)
    return Polylines(points[keep], offsets(owner[keep], len(lines.starts) - 1))


def join(owner: Index, key: Index, pieces: Polylines, lists: int) -> Polylines:
    """Concatenate pieces: piece i belongs to list `owner[i]`, in the order of `key`; equal joints are merged."""
    order = np.lexsort((key, owner))
    pieces = pieces.take(order)
    of_point = np.repeat(owner[order], np.diff(pieces.starts))
    points = pieces.points
    keep = np.ones(len(points), bool)
    if len(points):
        keep[1:] = (of_point[1:] != of_point[:-1]) | (np.abs(points[1:] - points[:-1]).max(1) > 0.01)
    # A list that is one point twice keeps both: a spline needs two anchors.
    kept = np.bincount(of_point[keep], minlength=lists)
    last = np.zeros(lists, np.int64)
    last[of_point] = np.arange(len(points))
    keep[last[(kept == 1)]] = True
    return Polylines(points[keep], offsets(of_point[keep], lists))


def splines(lines: Polylines) -> tuple[Real, Index]:
    """Return cubic control points [P', 2] through the anchors, vertical at each, and where each route starts."""
    counts = np.diff(lines.starts)
    sizes = np.where(counts > 0, 3 * counts - 2, 0)
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    owner = lines.owners()
    at = starts[owner] + 3 * (np.arange(len(owner)) - lines.starts[owner])
    x, y = np.empty(int(starts[-1])), np.empty(int(starts[-1]))
    x[at], y[at] = lines.points[:, 0], lines.points[:, 1]
    going = np.flatnonzero(owner[:-1] == owner[1:]) if len(owner) else np.zeros(0, np.int64)
    at = at[going]
    begin_x, begin_y, end_x, end_y = x[at], y[at], x[at + 3], y[at + 3]
    middle = (begin_y + end_y) / 2
    # A route that reverses its direction makes a U-turn, on the side it was going to.
    turn = np.flatnonzero((begin_y == end_y) & (begin_x != end_x))
    behind = going[turn] > lines.starts[owner[going[turn]]]
    upward = behind & (lines.points[going[turn] - 1, 1] > begin_y[turn])
    middle[turn] += np.where(upward, -_BOW, _BOW)
    x[at + 1], x[at + 2] = begin_x, end_x
    y[at + 1] = y[at + 2] = middle
    return np.stack([x, y], 1), starts
