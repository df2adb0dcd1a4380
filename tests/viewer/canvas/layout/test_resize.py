"""Nodes of another size where they stand: all else stays, and the drawing stays sound."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onnx_workbench.viewer.canvas.layout import Layout, LayoutRequest, api, layout, relayout, resize
from tests.benchmarks import layout_graphs as graphs
from tests.benchmarks import layout_metrics as metrics
from tests.examples import examples


def asked_for(sketch: graphs.Sketch, direction: str = "down", parents: np.ndarray | None = None) -> LayoutRequest:
    sizes, edges, source, target = sketch.arrays()
    if direction == "right":
        sizes = sizes[:, ::-1].copy()
    return LayoutRequest(
        sizes, edges, source, target, parents=parents, direction=direction, node_ids=np.arange(len(sizes))
    )  # fmt: skip


def resized(before: Layout, asked: LayoutRequest, node: int, by: tuple[float, float]) -> tuple[Layout, LayoutRequest]:
    """The layout and the request for it; the layout of before where the node has no room."""
    sizes = asked.sizes.copy()
    sizes[node] = np.maximum(sizes[node] + by, 12.0)
    found = resize(before, np.array([node], np.int32), sizes[[node]], asked.source_ports, asked.target_ports)
    if found is None:
        return before, asked
    others = np.setdiff1d(np.arange(len(asked.edges)), found.edges)
    for edge in others.tolist():
        assert np.array_equal(found.layout.route(edge), before.route(edge))
    return found.layout, dataclasses.replace(asked, sizes=sizes)


def assert_sound(result: Layout, asked: LayoutRequest) -> None:
    assert metrics.node_overlaps(result.positions, result.sizes, asked.parents) == 0
    a, b, edge = metrics.segments(result, steps=8)
    over = metrics.edges_over_nodes(a, b, edge, asked.edges, result.positions, result.sizes, asked.parents)
    assert len(over) == 0
    left, top, right, bottom = result.bounds
    assert (result.positions.min(0) >= np.array([left, top]) - 0.5).all()
    assert ((result.positions + result.sizes).max(0) <= np.array([right, bottom]) + 0.5).all()
    for e, ends in enumerate(asked.edges.tolist()):
        for point, node in zip((result.route(e)[0], result.route(e)[-1]), ends, strict=True):
            low, high = result.positions[node], result.positions[node] + result.sizes[node]
            assert (point >= low - 0.5).all()
            assert (point <= high + 0.5).all()


STEPS = st.lists(st.tuples(st.integers(0, 10**6), st.integers(-40, 40), st.integers(-30, 30)), min_size=1, max_size=8)


@pytest.mark.long
@given(st.integers(0, 50), st.sampled_from(["down", "right"]), STEPS)
@example(4, "down", [(1, 0, -1)])  # an edge that starts higher than its band ends, which then grows
@settings(max_examples=examples(60), deadline=None)
def test_any_sequence_of_sizes_keeps_the_drawing_sound(
    seed: int, direction: str, steps: list[tuple[int, int, int]]
) -> None:
    asked = asked_for(graphs.random_dag(30, 1.6, 8, seed), direction)
    result = layout(asked)
    for node, wider, higher in steps:
        before = result
        result, asked = resized(result, asked, node % 30, (wider, higher))
        assert_sound(result, asked)
        others = np.arange(30) != node % 30
        assert np.array_equal(result.positions[others], before.positions[others])
    sizes = asked.sizes.copy()
    sizes[3] += 200.0
    after = dataclasses.replace(asked, sizes=sizes)
    assert_sound(relayout(result, after), after)  # the layout can still be gone on from


@pytest.mark.long
@given(st.integers(0, 50), STEPS)
@settings(max_examples=examples(40), deadline=None)
def test_nodes_in_containers_grow_within_them(seed: int, steps: list[tuple[int, int, int]]) -> None:
    sketch = graphs.random_dag(24, 1.5, 6, seed)
    parents = np.repeat([24, 25, -1, 26], 6)
    sketch.sizes += [(20.0, 20.0)] * 3
    sketch.free += [False] * 3
    asked = asked_for(sketch, parents=np.append(parents, [-1, 24, -1]).astype(np.int32))
    result = layout(asked)
    for node, wider, higher in steps:
        result, asked = resized(result, asked, node % 24, (wider, higher))
        assert_sound(result, asked)
        assert asked.parents is not None
        inner = np.flatnonzero(asked.parents >= 0)
        home = asked.parents[inner]
        assert (result.positions[inner] >= result.positions[home]).all()
        far = result.positions + result.sizes
        assert (far[inner] <= far[home] + 0.1).all()


@pytest.mark.long
@pytest.mark.parametrize("make", [graphs.transformer, graphs.unet, graphs.inception])
def test_most_nodes_have_room_for_a_row(make: Callable[[int], graphs.Sketch]) -> None:
    asked = asked_for(make(400))
    before = layout(asked)
    grown = sum(resized(before, asked, node, (20, 18))[0] is not before for node in range(0, 400, 10))
    assert grown >= 28


def test_a_node_without_room_is_left_to_the_layout() -> None:
    asked = asked_for(graphs.inception(60))
    before = layout(asked)
    beside = np.flatnonzero(before.ranks == np.bincount(before.ranks).argmax())
    inner = int(beside[np.argsort(before.positions[beside, 0])[1]])
    assert resized(before, asked, inner, (3000, 0))[0] is before
    assert resized(before, asked, inner, (0, 3000))[0] is before


@pytest.mark.long
def test_back_in_its_old_size_a_node_is_where_it_was() -> None:
    asked = asked_for(graphs.transformer(200))
    before = layout(asked)
    there, wider = resized(before, asked, 100, (30, 18))
    assert there is not before
    back, _ = resized(there, wider, 100, (-30, -18))
    assert np.allclose(back.positions, before.positions, atol=0.01)


def test_very_many_are_not_tried_in_place(monkeypatch) -> None:
    """Each costs a look at all edges: 20,000 pills that got a type stopped the window for minutes."""
    asked = asked_for(graphs.random_dag(30, 1.6, 8, 1))
    before, nodes = layout(asked), np.arange(8, dtype=np.int32)
    same = asked.sizes[nodes]
    assert resize(before, nodes, same, asked.source_ports, asked.target_ports) is not None
    monkeypatch.setattr(api, "_LOOKS", 100)
    assert resize(before, nodes, same, asked.source_ports, asked.target_ports) is None
    assert resize(before, nodes[:1], same[:1], asked.source_ports, asked.target_ports) is not None
