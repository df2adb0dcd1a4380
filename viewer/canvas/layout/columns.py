"""Columns: a part much longer than wide is cut between ranks, and its pieces stand side by side, as in a newspaper.

An edge across a cut leaves its column at the bottom, goes up in a lane beside it and enters the next one at the top: it
stays one route, which can be followed, and selected as any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onnx_workbench.viewer.canvas.layout import packing, routes
from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real, dense, offsets, rank_within
from onnx_workbench.viewer.canvas.layout.flat import Solution
from onnx_workbench.viewer.canvas.layout.graph import LayoutGraph, PlacedGraph
from onnx_workbench.viewer.canvas.layout.problem import LayoutProblem

_SLENDER = 3.0  # least ratio of height to width of a part that is cut
_ASPECT = 1.0  # wanted height to width of all columns
_REACH = 0.4  # of the height of a column: how far a cut may be from where columns have the same height
_CROSSED = 120.0  # px that a cut may be further away to cross one value less
_TRACK = 20.0  # px between edges below and above a column; more than a U-turn extends


def is_slender(width: float, height: float) -> bool:
    """Return whether something is so much higher than wide that columns are easier to read."""
    return height > _SLENDER * width


def wrapped(placed: PlacedGraph, graph: LayoutGraph) -> PlacedGraph:
    """Return a layout without containers with its slender parts in columns; itself if it has none."""
    if not np.isfinite(graph.columns):
        return placed
    solution, parts = _as_solution(placed, graph)
    if not fold(solution, _as_problem(graph, placed), graph.columns):
        return placed
    corner = np.zeros((len(placed.bands), 2))
    corner[parts] = packing.pack(solution.extent[parts], graph.spacing.component)[0]
    lines = solution.lines
    lines.points += corner[placed.part[graph.source]][lines.owners()]
    x, y = (np.stack([solution.x, solution.y], 1) + corner[placed.part]).T
    bands = [band + top for band, top in zip(solution.bands, corner[:, 1].tolist(), strict=True)]
    return replace(placed, x=x, y=y, lines=lines, bands=bands)


def _as_solution(placed: PlacedGraph, graph: LayoutGraph) -> tuple[Solution, Index]:
    """Return a copy of a layout with each part at 0, 0, and the parts that have nodes."""
    part, count = placed.part, len(placed.bands)
    low, high = np.full((count, 2), np.inf), np.full((count, 2), -np.inf)
    corners = np.stack([placed.x, placed.y], 1)
    of_point = part[graph.source][placed.lines.owners()]
    for where, points in (
        (part, corners), (part, corners + np.stack([placed.width, placed.height], 1)), (of_point, placed.lines.points),
    ):  # fmt: skip
        np.minimum.at(low, where, points)
        np.maximum.at(high, where, points)
    used = np.flatnonzero(np.isfinite(low[:, 0]))
    extent = np.zeros((count, 2))
    extent[used] = (high - low)[used]
    x, y = (corners - low[part]).T.copy()
    lines = routes.Polylines(placed.lines.points - low[of_point], placed.lines.starts)
    bands = [band - top for band, top in zip(placed.bands, np.nan_to_num(low[:, 1], posinf=0.0).tolist(), strict=True)]
    return Solution(x, y, placed.rank, part, extent, lines, bands), used


def _as_problem(graph: LayoutGraph, placed: PlacedGraph) -> LayoutProblem:
    none = np.zeros(0, np.int64)
    return LayoutProblem(
        placed.width, placed.height, graph.source, graph.target, graph.source_ports, graph.target_ports,
        graph.first, graph.last, np.zeros(len(placed.x), bool), (none, none), None, graph.spacing,
    )  # fmt: skip


def fold(solution: Solution, problem: LayoutProblem, least: float) -> bool:
    """Fold the slender parts of a level that are at least so high; return whether there was one."""
    folded = False
    for part, (width, height) in enumerate(solution.extent.tolist()):
        if height <= least or not is_slender(width, height):
            continue
        cuts = _cuts(part, solution, problem)
        if len(cuts):
            _Fold(part, cuts, solution, problem).apply()
            folded = True
    return folded


def _cuts(part: int, solution: Solution, problem: LayoutProblem) -> Index:
    """Return the ranks after which a part is cut: near columns of equal height, where few values cross."""
    width, height = solution.extent[part].tolist()
    bands = solution.bands[part]
    count = max(round((height / (_ASPECT * (width + problem.spacing.component))) ** 0.5), 1)
    middles = (bands[:-1, 1] + bands[1:, 0]) / 2
    middles[0] = -np.inf  # edges into a container are led past its title there
    low, high = _value_spans(part, solution, problem)
    crossing = np.searchsorted(np.sort(low), middles) - np.searchsorted(np.sort(high), middles)
    cuts = []
    for wanted in (height * np.arange(1, count) / count).tolist():
        away = np.abs(middles - wanted)
        near = np.flatnonzero(away < _REACH * height / count)
        if len(near):
            cuts.append(int(near[(away + _CROSSED * crossing)[near].argmin()]))
    return np.array(cuts, np.int64)


def _value_spans(part: int, solution: Solution, problem: LayoutProblem) -> tuple[Real, Real]:
    """Return the least and greatest y of the lines of each value of a part."""
    value, count = dense(problem.source, np.nan_to_num(problem.source_ports, nan=-1.0))
    owner = solution.lines.owners()
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, value[owner], solution.lines.points[:, 1])
    np.maximum.at(high, value[owner], solution.lines.points[:, 1])
    mine = np.zeros(count, bool)
    mine[value[solution.part[problem.source] == part]] = True
    return low[mine], high[mine]


@dataclass(slots=True)
class _Links:
    """L crossings of cuts by segments of routes.

    Those of one value share a lane, which begins below the column; those to one point share a track above the next.
    Both are numbered from 0 at each cut: lanes from the column outwards, tracks from the top down.
    """

    segment: Index  # [L] the index of the segment's first point
    step: Index  # [L] 0, 1, … along the segment
    upwards: Mask  # [L] whether the route goes from a column to the previous one
    cut: Index
    below: Real  # [L] x at the bottom of the column above the cut
    above: Real  # [L] x at the top of the column below it
    lane: Index
    lanes: Index  # [cuts] number of lanes
    track: Index
    tracks: Index  # [cuts]


class _Fold:
    """Folds one part of a solution; used once."""

    def __init__(self, part: int, cuts: Index, solution: Solution, problem: LayoutProblem) -> None:
        self.part, self.solution = part, solution
        self.nodes = np.flatnonzero(solution.part == part)
        self.height = problem.height
        self.width = problem.width
        self.edge, self.gap = problem.spacing.edge, problem.spacing.component
        bands = solution.bands[part]
        self.tops = np.concatenate([[bands[0, 0]], bands[cuts + 1, 0]])  # [columns]
        self.bottoms = np.concatenate([bands[cuts, 1], [bands[-1, 1]]])
        self.cuts = (self.bottoms[:-1] + self.tops[1:]) / 2
        self.has_border = bool(problem.border[self.nodes].any())
        owner = solution.lines.owners()
        self.points = np.flatnonzero((solution.part[problem.source] == part)[owner])
        self.column_of_point = self._column(solution.lines.points[:, 1])
        self.links = self._find_links(owner)

    def _column(self, y: Real) -> Index:
        return np.searchsorted(self.cuts, y)

    def _find_links(self, owner: Index) -> _Links:
        points, column = self.solution.lines.points, self.column_of_point
        first = self.points[:-1]
        first = first[(np.diff(self.points) == 1) & (owner[first] == owner[np.minimum(first + 1, len(owner) - 1)])]
        way = column[first + 1] - column[first]
        first, way = first[way != 0], way[way != 0]
        segment = np.repeat(first, np.abs(way))
        up = np.repeat(way < 0, np.abs(way))
        step = rank_within(segment)
        cut = column[segment] + np.where(up, -1 - step, step)
        begin, end = points[segment, 0], points[segment + 1, 0]
        below, above = np.where(up, end, begin), np.where(up, begin, end)
        # The rightmost line turns into the nearest lane, from which the track to the farthest point is the highest.
        lane, lanes = _numbered(cut, len(self.cuts), -np.round(below, 2))
        track, tracks = _numbered(cut, len(self.cuts), lane, -np.round(above, 2))
        return _Links(segment, step, up, cut, below, above, lane, lanes, track, tracks)

    def apply(self) -> None:
        """Move the nodes, bands and lines of the part, lengthen the lines by their links, and set the extent."""
        solution, nodes, links = self.solution, self.nodes, self.links
        column = self._column(solution.y[nodes] + self.height[nodes] / 2)
        left, right = self._sides(column)
        top = np.full(len(left), (float(links.tracks.max()) + 1) * _TRACK)
        if self.has_border:
            top[0] = self.tops[0]  # edges enter there
        beside = np.append(self.gap + links.lanes * self.edge, 0.0)  # [columns] to the right of each
        begins = np.cumsum(right - left + beside) - (right - left + beside)
        dx, dy = begins - left, top - self.tops
        solution.x[nodes] += dx[column]
        solution.y[nodes] += dy[column]
        bands = solution.bands[self.part]
        solution.bands[self.part] = bands + dy[self._column(bands.mean(1))][:, None]
        lane_x = (begins + right - left)[links.cut] + self.gap / 2 + links.lane * self.edge
        y_below = (self.bottoms + dy)[links.cut] + (links.lane + 1) * _TRACK
        y_above = top[links.cut + 1] - (links.tracks[links.cut] - links.track) * _TRACK
        x_below, x_above = links.below + dx[links.cut], links.above + dx[links.cut + 1]
        shifts = np.stack([dx, dy], 1)
        solution.lines.points[self.points] += shifts[self.column_of_point[self.points]]
        corners = np.stack([x_below, y_below, lane_x, y_below, lane_x, y_above, x_above, y_above], 1).reshape(-1, 4, 2)
        corners = np.where(links.upwards[:, None, None], corners[:, ::-1], corners)
        self._insert(corners)
        bottoms = self.bottoms + dy + np.append((links.lanes + 1) * _TRACK, 0.0)
        solution.extent[self.part] = begins[-1] + right[-1] - left[-1], bottoms.max()

    def _sides(self, column: Index) -> tuple[Real, Real]:
        """[columns] the least and greatest x of nodes and lines in each."""
        nodes, links, lines = self.nodes, self.links, self.solution.lines
        count = len(self.cuts) + 1
        left, right = np.full(count, np.inf), np.full(count, -np.inf)
        x = self.solution.x[nodes]
        xs = lines.points[self.points, 0]
        at = self.column_of_point[self.points]
        for where, low, high in (
            (column, x, x + self.width[nodes]),
            (at, xs, xs),
            (links.cut, links.below, links.below),
            (links.cut + 1, links.above, links.above),
        ):
            np.minimum.at(left, where, low)
            np.maximum.at(right, where, high)
        return left, right

    def _insert(self, corners: Real) -> None:
        """Insert four corners of each link after the first point of its segment."""
        solution, links = self.solution, self.links
        lines = solution.lines
        order = np.lexsort((links.step, links.segment))
        at = np.repeat(links.segment[order] + 1, 4)
        points = np.insert(lines.points, at, corners[order].reshape(-1, 2), axis=0)
        added = np.bincount(lines.owners()[links.segment], minlength=len(lines.starts) - 1) * 4
        starts = lines.starts + np.concatenate([[0], np.cumsum(added)])
        solution.lines = routes.Polylines(points, starts)


def _numbered(cut: Index, cuts: int, *keys: Index | Real) -> tuple[Index, Index]:
    """Number the distinct keys at each cut from 0, in their order; return the numbers, and how many each cut has."""
    number, count = dense(cut, *keys)
    cut_of = np.zeros(count, np.int64)
    cut_of[number] = cut
    starts = offsets(cut_of, cuts)
    return number - starts[cut], np.diff(starts)
