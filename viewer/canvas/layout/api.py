"""The two entry points: from scratch, and after an edit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.viewer.canvas.layout import columns, compound, floating, routes
from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real, extremes, rank_within, spans
from onnx_workbench.viewer.canvas.layout.floating import Floating, Point
from onnx_workbench.viewer.canvas.layout.graph import LayoutGraph, PlacedGraph
from onnx_workbench.viewer.canvas.layout.incremental import IncrementalLayout, LayoutMatching, Unfit
from onnx_workbench.viewer.canvas.layout.previous_order import PreviousOrder
from onnx_workbench.viewer.canvas.layout.request import Floats, Ints, Layout, LayoutRequest
from onnx_workbench.viewer.canvas.layout.resize_in_place import ResizeInPlace

_MUCH = 0.25  # of the nodes
_FEW_CHANGES = 32  # new nodes and edges up to which an incremental layout beats one from scratch
_LOOKS = 1 << 20  # limit for nodes × edges when nodes are resized in place: about 30 ms


@dataclass(frozen=True, slots=True)
class _State:
    """Data that `relayout` continues from."""

    request: LayoutRequest  # without floating nodes, as the others
    graph: LayoutGraph
    placed: PlacedGraph
    shown: PlacedGraph  # the same in columns; itself if nothing is wrapped, or has been already inside containers
    floating: Floating | None = None


def layout(request: LayoutRequest, progress: Progress = SILENT, previous: Layout | None = None) -> Layout:
    """Lay a graph out from scratch.

    About 0.1 ms a node. Any thread; raises `Cancelled` soon after `progress.cancel()`. Nodes that are also in
    `previous`, a layout of a similar graph, by `node_ids`, keep their order and position along the ranks.
    """
    state = previous.state if previous is not None else None
    if not isinstance(state, _State) or not len(request.sizes):
        return _from_scratch(request, progress)
    return _beside_floating(_from_scratch, request, progress, state, None)


def _from_scratch(request: LayoutRequest, progress: Progress, state: _State | None = None) -> Layout:
    """Lay out a graph, in the order of the previous layout with this state, if it has one."""
    if not len(request.sizes):
        return _empty()
    graph = _oriented(request)
    before = None
    if state is not None:
        before = _before(graph, state, _match_nodes(state.request, request))
    placed = compound.Nesting(graph, progress, before).solve()
    progress.report(10, 10)
    return _finished(request, graph, placed, settle=True)


def relayout(
    previous: Layout, request: LayoutRequest, progress: Progress = SILENT, around: Point | None = None
) -> Layout:
    """Lay out the graph after an edit; nodes that the edit did not touch keep their positions in `previous`.

    New nodes without edges are placed near the point `around` of the previous layout and stay there until they are
    connected; without it they come behind everything else.
    """
    state = previous.state
    if not isinstance(state, _State) or not len(request.sizes):
        return layout(request, progress)
    return _beside_floating(_relayout, request, progress, state, around)


def _beside_floating(
    solve: Callable[[LayoutRequest, Progress, _State], Layout],
    request: LayoutRequest,
    progress: Progress,
    state: _State,
    around: Point | None,
) -> Layout:
    """Lay out a graph by a function that gets it without its floating nodes; then place these."""
    nodes = floating.find(request, state.floating, state.request, around)
    if not len(nodes):
        return solve(request, progress, state)
    assert request.node_ids is not None
    others = solve(floating.without(request, nodes), progress, state)
    ids = request.node_ids[nodes]
    wanted = floating.wanted_middles(ids, state.floating, _middles(state), _middles(others.state), around or (0.0, 0.0))
    whole = floating.with_nodes(others, request, nodes, wanted)
    middles = (whole.positions + whole.sizes / 2)[nodes].astype(np.float64)
    return replace(whole, state=replace(others.state, floating=Floating(ids, middles)))


def _middles(state: _State) -> tuple[Index, Real]:
    """Return the ids and middles of all nodes but containers, in the orientation of the request."""
    placed, request = state.shown, state.request
    middles = np.stack([placed.x + placed.width / 2, placed.y + placed.height / 2], 1)
    plain = np.ones(len(middles), bool)
    if request.parents is not None:
        plain[request.parents[request.parents >= 0]] = False
    assert request.node_ids is not None
    return request.node_ids[plain], _turned(middles, request)[plain]


def _relayout(request: LayoutRequest, progress: Progress, state: _State) -> Layout:
    """Lay out a graph without floating nodes after an edit.

    New nodes are placed in free space, or in a new rank, below which everything moves down equally;
    milliseconds for 10,000 nodes. If that is impossible, for many changes at once and with expanded containers,
    the ranks are recomputed and everything stays as near as possible to its old position. A graph from which many
    nodes were removed is laid out from scratch. Nodes are matched by `node_ids`; bounds then need not begin at 0, 0.
    """
    graph = _oriented(request)
    nested = state.placed.nested or bool((graph.parent >= 0).any())
    same = state.request.direction == request.direction and state.request.spacing == request.spacing
    match = LayoutMatching(_match_nodes(state.request, request), np.zeros(0, np.int64))
    match.edge = _match_edges(state.graph, graph, match.node)
    changes = int((match.node < 0).sum()) + int((match.edge < 0).sum())
    if state.request.direction != request.direction or _is_depleted(state.graph, match.node):
        return layout(request, progress)
    if nested or not same or changes > _FEW_CHANGES:
        return _from_scratch(request, progress, state)
    try:
        placed = IncrementalLayout(state.placed, state.graph, graph, match, progress).solve()
    except Unfit:
        return _from_scratch(request, progress, state)
    return _finished(request, graph, placed, settle=False)


def _is_depleted(old: LayoutGraph, node: Index) -> bool:
    """Check whether many of the outermost nodes were removed: the others would be surrounded by gaps."""
    outermost = old.parent < 0
    left = np.zeros(len(outermost), bool)
    left[node[node >= 0]] = True
    return int((outermost & ~left).sum()) > max(_FEW_CHANGES, _MUCH * int(outermost.sum()))


@dataclass(frozen=True, slots=True, eq=False)
class Resized:
    """A layout in which some nodes have another size, and the edges whose routes changed."""

    layout: Layout
    edges: Ints


def resize(
    previous: Layout, nodes: Ints, sizes: Floats, source_ports: Floats | None, target_ports: Floats | None
) -> Resized | None:
    """Resize some nodes to sizes [K, 2] in place; None if others would have to move, or for very many nodes.

    A node grows into the free space beside and below it. Ends of edges keep their positions until the next layout,
    which uses the ports [E]. Routes keep their number of points. Cost: a pass over all edges per node.
    """
    state = previous.state
    if not isinstance(state, _State) or state.floating is not None:
        return None
    if len(nodes) > 1 and len(nodes) * len(state.request.edges) > _LOOKS:
        return None
    every = state.request.sizes.copy()
    every[nodes] = sizes
    request = replace(state.request, sizes=every, source_ports=source_ports, target_ports=target_ports)
    graph = _oriented(request)
    shown = ResizeInPlace(graph, state.shown)
    works = [shown] if state.shown is state.placed else [shown, ResizeInPlace(graph, state.placed)]
    if not all(work.fit(node) for work in works for node in nodes.tolist()):
        return None
    placed, edges = shown.placed, shown.changed()
    if edges.size and not _are_drawable(placed.lines.take(edges)):
        return None
    points = previous.route_points.copy()
    starts = previous.route_starts.astype(np.int64)
    at = spans(starts[edges], starts[edges + 1] - starts[edges])
    points[at] = _turned(routes.splines(placed.lines.take(edges))[0], request)
    positions, extents = previous.positions.copy(), previous.sizes.copy()
    positions[nodes] = _turned(np.stack([placed.x[nodes], placed.y[nodes]], 1), request)
    extents[nodes] = sizes
    left, top, right, bottom = previous.bounds
    low, high = positions[nodes].min(0).tolist(), (positions + extents)[nodes].max(0).tolist()
    bounds = (min(left, low[0]), min(top, low[1]), max(right, high[0]), max(bottom, high[1]))
    layout = replace(
        previous, positions=positions, sizes=extents, route_points=points, bounds=bounds,
        state=_State(request, graph, works[-1].placed, placed),
    )  # fmt: skip
    return Resized(layout, edges.astype(np.int32))


def _are_drawable(lines: routes.Polylines) -> bool:
    """Return whether no two consecutive points of a route coincide."""
    owner = lines.owners()
    step = np.abs(np.diff(lines.points, axis=0)).max(1)
    return bool((step[owner[1:] == owner[:-1]] > 0.5).all())


def _turned(points: Real, request: LayoutRequest) -> Real:
    """Transpose points between the orientation of the algorithm and the requested one."""
    return points[:, ::-1] if request.direction == "right" else points


def _oriented(request: LayoutRequest) -> LayoutGraph:
    n = len(request.sizes)
    sizes = request.sizes.astype(np.float64)
    turned = request.direction == "right"
    width, height = (sizes[:, 1], sizes[:, 0]) if turned else (sizes[:, 0], sizes[:, 1])
    pad, header = request.spacing.padding, request.spacing.header
    edges = request.edges.astype(np.int64)
    source, target = edges[:, 0].copy(), edges[:, 1].copy()
    parent = np.full(n, -1, np.int64) if request.parents is None else request.parents.astype(np.int64)
    return LayoutGraph(
        width=width.copy(),
        height=height.copy(),
        source=source,
        target=target,
        source_ports=_ports(request.source_ports, width, source),
        target_ports=_ports(request.target_ports, width, target),
        first=_mask(request.first, n),
        last=_mask(request.last, n),
        parent=parent,
        spacing=request.spacing,
        columns=request.columns,
        # edges that come from the left meet no header
        titles=np.zeros((n, 2)) if request.titles is None or turned else request.titles.astype(np.float64),
        inset=(pad + header, pad, pad, pad) if turned else (pad, pad + header, pad, pad),
    )


def _ports(ports: Floats | None, width: Real, node: Index) -> Real:
    if ports is None:
        return np.full(len(node), np.nan)
    return np.asarray(np.clip(ports.astype(np.float64), 0.0, width[node]))


def _mask(nodes: Ints | None, n: int) -> Mask:
    result = np.zeros(n, bool)
    if nodes is not None:
        result[nodes] = True
    return result


def _match_nodes(old: LayoutRequest, new: LayoutRequest) -> Index:
    """[N] the old number of every node, -1 for new ones."""
    before = np.arange(len(old.sizes)) if old.node_ids is None else old.node_ids
    ids = np.arange(len(new.sizes)) if new.node_ids is None else new.node_ids
    if not len(before):
        return np.full(len(ids), -1)
    order = np.argsort(before, kind="stable")
    at = order[np.minimum(np.searchsorted(before[order], ids), len(before) - 1)]
    return np.where(before[at] == ids, at, -1)


def _match_edges(old: LayoutGraph, graph: LayoutGraph, node: Index) -> Index:
    """[E] the old number of every edge whose ends and ports are unchanged, else -1."""
    edge = _match_ends(old, node[graph.source], node[graph.target])
    at = np.maximum(edge, 0)
    if not len(old.source):
        return edge
    same = edge >= 0
    for mine, theirs, sizes, wide in (
        (graph.source_ports, old.source_ports, graph.width[graph.source], old.width[old.source]),
        (graph.target_ports, old.target_ports, graph.width[graph.target], old.width[old.target]),
    ):
        grown = np.abs(sizes - wide[at]) > 0.01
        same &= grown | (np.isnan(mine) & np.isnan(theirs[at])) | (np.abs(mine - theirs[at]) < 0.01)
    return np.where(same, edge, -1)


def _match_ends(old: LayoutGraph, a: Index, b: Index) -> Index:
    """Match edges by their ends; parallel edges are matched in order."""
    kept = np.flatnonzero((a >= 0) & (b >= 0))
    result = np.full(len(a), -1)
    n = len(old.width)
    theirs, mine = old.source * n + old.target, a[kept] * n + b[kept]
    by_theirs, by_mine = np.argsort(theirs, kind="stable"), np.argsort(mine, kind="stable")
    theirs, mine = theirs[by_theirs], mine[by_mine]
    at = np.searchsorted(theirs, mine) + rank_within(mine)
    same = np.append(theirs, -1)[np.minimum(at, len(theirs))] == mine
    result[kept[by_mine[same]]] = by_theirs[at[same]]
    return result


def _before(graph: LayoutGraph, state: _State, node: Index) -> PreviousOrder:
    """Return the old layout as constraints of the graph; new nodes are sought next to their neighbours."""
    old = state.placed
    middles = old.x + old.width / 2 - (old.shift if old.shift is not None else 0.0)
    keys = np.where(node >= 0, middles[np.maximum(node, 0)], np.nan)
    for _ in range(3):
        for own, other in ((graph.source, graph.target), (graph.target, graph.source)):
            missing = np.isnan(keys[own]) & ~np.isnan(keys[other])
            keys[own[missing]] = keys[other[missing]]
    edge = _match_ends(state.graph, node[graph.source], node[graph.target])
    return PreviousOrder(old, node, edge, np.nan_to_num(keys, nan=0.0))


def _empty() -> Layout:
    nothing = np.zeros((0, 2), np.float32)
    ranks = np.zeros(0, np.int32)
    return Layout(nothing, nothing, nothing, np.zeros(1, np.int32), (0.0, 0.0, 0.0, 0.0), ranks)


def _finished(request: LayoutRequest, graph: LayoutGraph, placed: PlacedGraph, settle: bool) -> Layout:
    """Wrap the result into columns and transpose it to the requested direction; `settle` moves the content to 0, 0."""
    shown = placed if placed.nested else columns.wrapped(placed, graph)
    points, starts = routes.splines(shown.lines)
    positions = np.stack([shown.x, shown.y], 1)
    sizes = np.stack([shown.width, shown.height], 1)
    low, high = extremes(np.concatenate([positions, positions + sizes, points]))
    if settle or shown is not placed:  # columns begin anew at each layout
        shown.x -= low[0]
        shown.y -= low[1]
        shown.lines.points -= low
        shown.bands = [band - low[1] for band in shown.bands]
        positions, points, low, high = positions - low, points - low, np.zeros(2), high - low
    if request.direction == "right":
        positions, sizes, points, low, high = (a[..., ::-1] for a in (positions, sizes, points, low, high))
    return Layout(
        positions=positions.astype(np.float32),
        sizes=sizes.astype(np.float32),
        route_points=points.astype(np.float32),
        route_starts=starts.astype(np.int32),
        bounds=(float(low[0]), float(low[1]), float(high[0]), float(high[1])),
        ranks=placed.rank.astype(np.int32),
        state=_State(request, graph, placed, shown),
    )
