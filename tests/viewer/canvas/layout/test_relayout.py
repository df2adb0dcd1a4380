from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.viewer.canvas.layout import Layout, LayoutRequest, layout, relayout
from tests.benchmarks import layout_graphs as graphs
from tests.benchmarks import layout_metrics as metrics
from tests.examples import examples


class Edited:
    """A request being edited the way a user edits a graph."""

    def __init__(self, asked: LayoutRequest) -> None:
        self.asked = dataclasses.replace(asked, node_ids=np.arange(len(asked.sizes)))
        self.next = 1_000_000

    def _take(self) -> int:
        self.next += 1
        return self.next

    def insert(self, edge: int, size: tuple[float, float] = (130.0, 50.0)) -> int:
        a = self.asked
        n = len(a.sizes)
        s, t = a.edges[edge].tolist()
        if a.parents is not None:
            self.asked = dataclasses.replace(a, parents=None)
        self._replace(
            np.vstack([a.sizes, [size]]),
            np.vstack([np.delete(a.edges, edge, 0), [[s, n], [n, t]]]),
            np.append(a.node_ids, self._take()),
        )
        return n

    def insert_inside(self, edge: int) -> int:
        """The same with containers: into the one that the edge's source lies in."""
        parents = self.asked.parents
        assert parents is not None
        node = self.insert(edge)
        home = parents[self.asked.edges[-2, 0]]
        self.asked = dataclasses.replace(self.asked, parents=np.append(parents, home).astype(np.int32))
        return node

    def bypass(self, node: int) -> None:
        a = self.asked
        into = np.flatnonzero(a.edges[:, 1] == node)
        out = np.flatnonzero(a.edges[:, 0] == node)
        keep = np.setdiff1d(np.arange(len(a.edges)), np.concatenate([into, out]))
        bridges = [(int(a.edges[into[0], 0]), int(a.edges[e, 1])) for e in out] if len(into) else []
        edges = np.concatenate([a.edges[keep], np.array(bridges, int).reshape(-1, 2)])
        self._replace(np.delete(a.sizes, node, 0), edges - (edges > node), np.delete(a.node_ids, node))

    def connect(self, source: int, target: int) -> None:
        a = self.asked
        edges = np.vstack([a.edges, [[source, target]]])
        self._replace(a.sizes, edges, a.node_ids)

    def resize(self, node: int, size: tuple[float, float]) -> None:
        sizes = self.asked.sizes.copy()
        sizes[node] = size
        self._replace(sizes, self.asked.edges, self.asked.node_ids)

    def _replace(self, sizes: np.ndarray, edges: np.ndarray, nodes: np.ndarray) -> None:
        self.asked = dataclasses.replace(
            self.asked,
            sizes=sizes.astype(np.float32),
            edges=edges.astype(np.int32),
            node_ids=nodes.astype(np.int64),
        )


def edited(sketch: graphs.Sketch, **more: object) -> Edited:
    sizes, edges, _, _ = sketch.arrays()
    return Edited(LayoutRequest(sizes, edges, **more))


def assert_sound(result: Layout, asked: LayoutRequest) -> None:
    assert metrics.node_overlaps(result.positions, result.sizes) == 0
    a, b, edge = metrics.segments(result, steps=8)
    found = metrics.edges_over_nodes(a, b, edge, asked.edges, result.positions, result.sizes)
    assert len(found) == 0
    np.testing.assert_allclose(result.sizes, asked.sizes)
    for e, (s, t) in enumerate(asked.edges.tolist()):
        for point, node in ((result.route(e)[0], s), (result.route(e)[-1], t)):
            low, high = result.positions[node], result.positions[node] + result.sizes[node]
            assert (point >= low - 0.5).all()
            assert (point <= high + 0.5).all()


def moved(before: Layout, old: LayoutRequest, after: Layout, new: LayoutRequest, axis: int = 0) -> float:
    """The share of common nodes that moved sideways."""
    assert old.node_ids is not None
    assert new.node_ids is not None
    _, i, j = np.intersect1d(old.node_ids, new.node_ids, return_indices=True)
    return float((np.abs(before.positions[i, axis] - after.positions[j, axis]) > 0.5).mean())


@pytest.mark.long
@pytest.mark.parametrize("direction", ["down", "right"])
def test_an_inserted_node_leaves_the_rest_in_place(direction: str) -> None:
    edit = edited(graphs.mixed(900), direction=direction)
    old, before = edit.asked, layout(edit.asked)
    axis = 0 if direction == "down" else 1
    rng = np.random.default_rng(3)
    for edge in rng.integers(0, len(old.edges), 15).tolist():
        edit.asked = old
        edit.insert(edge)
        after = relayout(before, edit.asked)
        assert_sound(after, edit.asked)
        assert moved(before, old, after, edit.asked, axis) <= 0.02


def test_the_order_from_top_to_bottom_stays() -> None:
    edit = edited(graphs.transformer(400))
    old, before = edit.asked, layout(edit.asked)
    edit.insert(100)
    after = relayout(before, edit.asked)
    shift = after.positions[: len(old.sizes), 1] - before.positions[:, 1]
    order = np.argsort(before.positions[:, 1], kind="stable")
    assert (np.diff(shift[order]) >= -0.5).mean() > 0.99


def test_a_bypassed_node_leaves_a_gap_and_a_straight_line() -> None:
    edit = edited(graphs.transformer(300))
    old, before = edit.asked, layout(edit.asked)
    edit.bypass(120)
    after = relayout(before, edit.asked)
    assert_sound(after, edit.asked)
    assert moved(before, old, after, edit.asked) == 0


def test_a_grown_node_pushes_only_its_rank() -> None:
    edit = edited(graphs.inception(300))
    old, before = edit.asked, layout(edit.asked)
    edit.resize(60, (400.0, 260.0))
    after = relayout(before, edit.asked)
    assert_sound(after, edit.asked)
    assert moved(before, old, after, edit.asked) < 0.05


def test_a_node_without_edges_is_added_beside_the_rest() -> None:
    edit = edited(graphs.inception(100))
    before = layout(edit.asked)
    a = edit.asked
    asked = dataclasses.replace(
        a, sizes=np.vstack([a.sizes, [[90, 40]]]).astype(np.float32), node_ids=np.append(a.node_ids, 7_000)
    )
    after = relayout(before, asked)
    assert_sound(after, asked)
    np.testing.assert_allclose(after.positions[:-1], before.positions)


def test_an_edge_against_the_ranks_is_laid_out_anew() -> None:
    s = graphs.Sketch()
    x = s.chain(s.add("input"), "Relu", "Relu", "Relu")
    y = s.add("Other", x)
    z = s.chain(0, "Relu")
    edit = edited(s)
    before = layout(edit.asked)
    edit.connect(y, z)
    after = relayout(before, edit.asked)
    assert_sound(after, edit.asked)
    assert after.ranks[y] < after.ranks[z]


@pytest.mark.long
def test_without_ids_an_unchanged_graph_stays() -> None:
    sizes, edges, _, _ = graphs.unet(300).arrays()
    before = layout(LayoutRequest(sizes, edges))
    after = relayout(before, LayoutRequest(sizes, edges))
    np.testing.assert_allclose(after.positions, before.positions)
    np.testing.assert_allclose(after.route_points, before.route_points)


def test_expanded_containers_keep_the_old_order_as_a_hint() -> None:
    sizes, edges, _, _ = graphs.inception(120).arrays()
    parents = np.full(len(sizes), -1, np.int32)
    before = layout(LayoutRequest(sizes, edges))
    box = len(sizes)
    parents = np.append(np.where(np.arange(box) % 40 < 5, box, -1), -1).astype(np.int32)
    sizes = np.vstack([sizes, [[10, 10]]]).astype(np.float32)
    after = relayout(before, LayoutRequest(sizes, edges, parents=parents))
    assert metrics.node_overlaps(after.positions, after.sizes, parents) == 0


def test_what_went_out_of_the_way_of_a_constant_stays_there() -> None:
    """A convolution beside the main line goes a rank down, for its weights to find their way, after edits too."""
    s = graphs.Sketch()
    x = s.add("input")
    for _ in range(4):
        main = x
        for _ in range(3):
            main = s.chain(s.add("Conv", main, s.add("ConstantOfShape")), "Relu")
        x = s.add("Sum", main, s.add("Conv", x, s.add("ConstantOfShape")))
    sizes, edges, source, target = s.arrays()
    parents = np.append(np.full(len(sizes), -1), [-1, len(sizes)]).astype(np.int32)  # a container: laid out anew
    sizes = np.vstack([sizes, [[10, 10], [80, 40]]]).astype(np.float32)
    asked = LayoutRequest(sizes, edges, source, target, parents=parents)
    before = layout(asked)
    assert metrics.crossings(*metrics.segments(before)) == 0
    grown = sizes.copy()
    grown[-1] = 90.0, 50.0
    after = relayout(before, dataclasses.replace(asked, sizes=grown))
    assert metrics.crossings(*metrics.segments(after)) == 0
    np.testing.assert_array_equal(after.ranks, before.ranks)


def test_what_is_left_of_a_graph_closes_ranks() -> None:
    sizes, edges, _, _ = graphs.wide(100).arrays()
    before = layout(LayoutRequest(sizes, edges))
    kept = np.flatnonzero((np.arange(len(sizes)) < 62) | (np.arange(len(sizes)) == len(sizes) - 1))
    number = np.full(len(sizes), -1)
    number[kept] = np.arange(len(kept))
    left = edges[(number[edges] >= 0).all(1)]
    asked = LayoutRequest(sizes[kept], number[left].astype(np.int32), node_ids=kept)
    after = relayout(before, asked)
    assert after.bounds[2] - after.bounds[0] == pytest.approx(layout(asked).bounds[2], rel=0.01)


def in_containers(sketch: graphs.Sketch, size: int, **more: object) -> Edited:
    """So many nodes each in a container, one after the other, every third of them left out."""
    count = len(sketch.sizes)
    parents = np.full(count, -1)
    for number, begin in enumerate(range(0, count, size)):
        if number % 3 < 2:
            parents[begin : begin + size] = len(sketch.sizes)
            sketch.sizes.append((30.0, 30.0))
            sketch.free.append(False)
    parents = np.append(parents, np.full(len(sketch.sizes) - count, -1)).astype(np.int32)
    return edited(sketch, parents=parents, **more)


def assert_sound_inside(result: Layout, asked: LayoutRequest) -> None:
    assert asked.parents is not None
    assert metrics.node_overlaps(result.positions, result.sizes, asked.parents) == 0
    a, b, edge = metrics.segments(result, steps=8)
    over = metrics.edges_over_nodes(a, b, edge, asked.edges, result.positions, result.sizes, asked.parents)
    assert len(over) == 0
    inner = np.flatnonzero(asked.parents >= 0)
    home = asked.parents[inner]
    assert (result.positions[inner] >= result.positions[home] - 0.1).all()
    far = result.positions + result.sizes
    assert (far[inner] <= far[home] + 0.1).all()


@pytest.mark.long
@pytest.mark.parametrize("direction", ["down", "right"])
@pytest.mark.parametrize("make", [graphs.transformer, graphs.unet, graphs.inception])
def test_in_containers_too_an_inserted_node_leaves_the_rest_in_place(
    make: Callable[[int], graphs.Sketch], direction: str
) -> None:
    edit = in_containers(make(300), 40, direction=direction)
    old, before = edit.asked, layout(edit.asked)
    axis = 0 if direction == "down" else 1
    shares = []
    for edge in np.random.default_rng(4).integers(0, len(old.edges), 12).tolist():
        edit.asked = old
        edit.insert_inside(edge)
        after = relayout(before, edit.asked)
        assert_sound_inside(after, edit.asked)
        shift = (after.positions[: len(old.sizes)] - before.positions)[:, axis]
        usual = np.median(shift)  # the content may begin elsewhere
        shares.append(float((np.abs(shift - usual) > 1).mean()))
    assert np.median(shares) <= 0.05
    assert max(shares) <= 0.5


@pytest.mark.long
@given(st.integers(0, 50), st.lists(st.tuples(st.booleans(), st.integers(0, 10**6)), min_size=1, max_size=6))
@settings(max_examples=examples(15), deadline=None)
def test_any_edits_in_containers_keep_the_drawing_sound(seed: int, edits: list[tuple[bool, int]]) -> None:
    edit = in_containers(graphs.random_dag(30, 1.6, 8, seed), 6)
    result = layout(edit.asked)
    for is_insert, number in edits:
        if is_insert:
            edit.insert_inside(number % len(edit.asked.edges))
        else:
            edit.resize(number % 30, (20.0 + number % 300, 20.0 + number % 150))
        result = relayout(result, edit.asked)
        assert_sound_inside(result, edit.asked)


def test_opening_a_container_leaves_all_others_in_order_and_in_place() -> None:
    edit = in_containers(graphs.inception(200), 30)
    asked = edit.asked
    assert asked.parents is not None
    box = int(asked.parents.max())
    inside = asked.parents == box
    closed = dataclasses.replace(
        asked,
        sizes=np.where(np.arange(len(asked.sizes))[:, None] == box, 90.0, asked.sizes)[~inside].astype(np.float32),
        edges=_closed(asked.edges, inside, box),
        parents=_renumbered(asked.parents, inside),
        node_ids=np.flatnonzero(~inside),
    )
    before = layout(closed)
    after = relayout(before, asked)
    assert_sound_inside(after, asked)
    shift = after.positions[~inside, 0] - before.positions[:, 0]
    assert (np.abs(shift - np.median(shift)) > 1).mean() < 0.1


def _closed(edges: np.ndarray, inside: np.ndarray, box: int) -> np.ndarray:
    """Edges with the box in place of what is in it."""
    lifted = np.where(inside[edges], box, edges)
    lifted = np.unique(lifted[lifted[:, 0] != lifted[:, 1]], axis=0)
    return (np.cumsum(~inside) - 1)[lifted].astype(np.int32)


def _renumbered(parents: np.ndarray, inside: np.ndarray) -> np.ndarray:
    kept = parents[~inside]
    return np.where(kept >= 0, (np.cumsum(~inside) - 1)[kept], -1).astype(np.int32)


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["insert", "bypass", "connect", "resize"]), st.integers(0, 10**6), st.integers(0, 10**6)),
    min_size=1,
    max_size=8,
)


@given(st.integers(0, 50), st.booleans(), ACTIONS)
@settings(max_examples=examples(60), deadline=None)
def test_any_sequence_of_edits_keeps_the_drawing_sound(
    seed: int, turned: bool, actions: list[tuple[str, int, int]]
) -> None:
    edit = edited(graphs.random_dag(30, 1.6, 8, seed), direction="right" if turned else "down")
    result = layout(edit.asked)
    for action, i, j in actions:
        nodes, edges = len(edit.asked.sizes), len(edit.asked.edges)
        if action == "insert" and edges:
            edit.insert(i % edges, (20.0 + j % 300, 20.0 + i % 100))
        elif action == "bypass" and nodes > 3:
            edit.bypass(i % nodes)
        elif action == "connect" and result.ranks[i % nodes] < result.ranks[j % nodes]:
            edit.connect(i % nodes, j % nodes)
        elif action == "resize":
            edit.resize(i % nodes, (20.0 + j % 300, 20.0 + i % 200))
        result = relayout(result, edit.asked)
        assert_sound(result, edit.asked)
